/* Lists the files of a folder of images: see folder_list.h. */
#include "folder_list.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { PATH_BYTES = 4096, FILES_MAX = 1 << 30 };

void file_list_clear(struct file_list *list)
{
    for (size_t i = 0; i < list->class_count; i++)
        free(list->classes[i]);
    free(list->classes);
    free(list->names);
    free(list->files);
    *list = (struct file_list){0};
}

/* Make room for one more element. Returns false without memory. */
static bool make_room(void *array, size_t *room, size_t wanted, size_t element_bytes)
{
    size_t more = *room == 0 ? 64 : *room;
    void **at = array, *grown;
    if (wanted <= *room)
        return true;
    while (more < wanted)
        more *= 2;
    grown = realloc(*at, more * element_bytes);
    if (grown == NULL)
        return false;
    *at = grown;
    *room = more;
    return true;
}

static bool add_file(struct file_list *list, const char *name, int32_t label)
{
    size_t bytes = strlen(name) + 1;
    if (list->count == FILES_MAX || !make_room(&list->names, &list->name_room, list->name_bytes + bytes, 1) ||
        !make_room(&list->files, &list->room, list->count + 1, sizeof *list->files))
        return false;
    memcpy(list->names + list->name_bytes, name, bytes);
    list->files[list->count++] = (struct listed){.name_at = list->name_bytes, .label = label};
    list->name_bytes += bytes;
    return true;
}

static bool is_image_name(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot != NULL &&
           (strcasecmp(dot, ".jpg") == 0 || strcasecmp(dot, ".jpeg") == 0 || strcasecmp(dot, ".png") == 0);
}

static int is_shown(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static int by_bytes(const struct dirent **one, const struct dirent **other)
{
    return strcmp((*one)->d_name, (*other)->d_name);
}

static void free_entries(struct dirent **entries, int count)
{
    for (int i = 0; i < count; i++)
        free(entries[i]);
    free(entries);
}

/* Add the files of one class. */
static bool read_class(const char *path, struct file_list *list, int32_t label, struct reason *reason)
{
    char folder[PATH_BYTES];
    struct dirent **entries;
    bool is_added = true;
    if (snprintf(folder, sizeof folder, "%s/%s", path, list->classes[label]) >= (int)sizeof folder)
        return because(reason, "%.100s...: the path is too long", path);
    int count = scandir(folder, &entries, is_shown, by_bytes);
    if (count < 0)
        return because(reason, "%s: %s", folder, strerror(errno));
    for (int i = 0; i < count && is_added; i++) {
        if (is_image_name(entries[i]->d_name))
            is_added = add_file(list, entries[i]->d_name, label);
        else
            list->other_count++;
    }
    free_entries(entries, count);
    return is_added || because(reason, "%s: no host memory for the list of files", folder);
}

static bool is_folder(const char *path, const char *name)
{
    char whole[PATH_BYTES];
    struct stat about;
    return snprintf(whole, sizeof whole, "%s/%s", path, name) < (int)sizeof whole && stat(whole, &about) == 0 &&
           S_ISDIR(about.st_mode);
}

static bool read_classes(const char *path, struct file_list *list, struct reason *reason)
{
    struct dirent **entries;
    int count = scandir(path, &entries, is_shown, by_bytes);
    if (count < 0)
        return because(reason, "%s: %s", path, strerror(errno));
    bool is_added = true;
    list->classes = calloc((size_t)count + 1, sizeof *list->classes);
    for (int i = 0; i < count && is_added && list->classes != NULL; i++) {
        if (!is_folder(path, entries[i]->d_name)) {
            list->other_count++;
            continue;
        }
        list->classes[list->class_count] = strdup(entries[i]->d_name);
        is_added = list->classes[list->class_count] != NULL;
        list->class_count += is_added;
    }
    free_entries(entries, count);
    return (is_added && list->classes != NULL) || because(reason, "%s: no host memory for its classes", path);
}

bool file_list_read(const char *path, struct file_list *ret, struct reason *reason)
{
    struct file_list list = {0};
    bool is_read = read_classes(path, &list, reason);
    for (size_t i = 0; is_read && i < list.class_count; i++)
        is_read = read_class(path, &list, (int32_t)i, reason);
    if (is_read && list.count == 0)
        is_read =
            because(reason, "%s: no .jpg, .jpeg or .png file in any sub-folder (each class is a sub-folder)", path);
    if (!is_read) {
        file_list_clear(&list);
        return false;
    }
    *ret = list;
    return true;
}
