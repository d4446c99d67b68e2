/* The list of files of a folder of images, for folder.c. */
#ifndef TRAINER_FOLDER_LIST_H
#define TRAINER_FOLDER_LIST_H

#include "file.h"

struct file_list {
    char *names; /* owned; the file names, one after the other, each ended by a 0 */
    size_t name_bytes, name_room;
    struct listed {
        size_t name_at; /* offset in `names` */
        int32_t label;  /* index of the class */
    } * files;          /* owned */
    size_t count, room;
    char **classes; /* owned, like the names in it: names of the sub-folders, in the order of their bytes */
    size_t class_count;
    size_t other_count; /* files and folders that are not images, by their names */
};
void file_list_clear(struct file_list *list); /* accepts a zeroed struct */

/* List the files of all sub-folders of `path`: those whose names end with .jpg, .jpeg or .png. Names that begin with a
 * dot are ignored. */
bool file_list_read(const char *path, struct file_list *ret, struct reason *reason);

#endif
