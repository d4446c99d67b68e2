/* Compare the paths of all results: see outputs.h. */
#include "outputs.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH_BYTES = 4096 };

/* Split a path into its folder and its last name. Returns false if it is too long. */
static bool split(const char *path, char folder[PATH_BYTES], const char **ret_name, size_t *ret_bytes)
{
    size_t end = strlen(path), begin;
    while (end > 1 && path[end - 1] == '/')
        end--;
    for (begin = end; begin > 0 && path[begin - 1] != '/'; begin--)
        ;
    *ret_name = path + begin;
    *ret_bytes = end - begin;
    int length =
        begin == 0 ? snprintf(folder, PATH_BYTES, ".") : snprintf(folder, PATH_BYTES, "%.*s", (int)begin, path);
    return length < PATH_BYTES;
}

static bool same_inode(const struct stat *one, const struct stat *other)
{
    return one->st_dev == other->st_dev && one->st_ino == other->st_ino;
}

/* True if two paths whose files do not exist would create the same one. */
static bool same_name(const char *one, const char *other)
{
    char folders[2][PATH_BYTES];
    const char *names[2];
    size_t bytes[2];
    struct stat abouts[2];
    if (!split(one, folders[0], &names[0], &bytes[0]) || !split(other, folders[1], &names[1], &bytes[1]) ||
        bytes[0] != bytes[1] || memcmp(names[0], names[1], bytes[0]) != 0)
        return false;
    if (stat(folders[0], &abouts[0]) != 0 || stat(folders[1], &abouts[1]) != 0)
        return strcmp(folders[0], folders[1]) == 0;
    return same_inode(&abouts[0], &abouts[1]);
}

static bool same_file(const char *one, const char *other)
{
    struct stat abouts[2];
    bool has_one = stat(one, &abouts[0]) == 0, has_other = stat(other, &abouts[1]) == 0;
    if (has_one && has_other)
        return same_inode(&abouts[0], &abouts[1]);
    return !has_one && !has_other && same_name(one, other);
}

/* Compare an output with the temporary file of another one. */
static bool is_beside(const struct output *output, const struct output *replaced, struct reason *reason)
{
    char beside[PATH_BYTES];
    if (!replaced->is_replaced || snprintf(beside, sizeof beside, "%s.new", replaced->path) >= PATH_BYTES ||
        !same_file(output->path, beside))
        return false;
    because(reason, "%s (%s) is the temporary file of %s (%s): use another name", output->what, output->path,
            replaced->what, replaced->path);
    return true;
}

static bool collide(const struct output *one, const struct output *other, struct reason *reason)
{
    if (one->path == NULL || other->path == NULL || (one->is_input && other->is_input))
        return false;
    bool may_replace = (one->instead != NULL && strcmp(one->instead, other->what) == 0) ||
                       (other->instead != NULL && strcmp(other->instead, one->what) == 0);
    if (!may_replace && same_file(one->path, other->path)) {
        because(reason, "%s (%s) and %s (%s) are the same file: use another name", one->what, one->path, other->what,
                other->path);
        return true;
    }
    return is_beside(one, other, reason) || is_beside(other, one, reason);
}

bool outputs_differ(const struct output *outputs, size_t count, struct reason *reason)
{
    for (size_t i = 0; i < count; i++)
        for (size_t other = i + 1; other < count; other++)
            if (collide(&outputs[i], &outputs[other], reason))
                return false;
    return true;
}
