/* The files of a folder that `gpuwhy explain` can read. */
#ifndef GWI_FOLDER_H
#define GWI_FOLDER_H

#include "gw_status.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct gwi_folder_files {
    char **path; /* owned; sorted by name */
    int count;
    bool are_recordings; /* false: text logs */
} gwi_folder_files;

/* List the recordings in a folder or, if it has none, the text logs. Subfolders are not searched. GW_IO: the folder
 * cannot be read. GW_MISSING: the folder has neither recordings nor logs. GW_NOMEM: out of memory. Call
 * gwi_folder_free() after any result. */
GW_MUST_CHECK gw_status gwi_folder_list(const char *folder, gwi_folder_files *ret, gw_error *err);
void gwi_folder_free(gwi_folder_files *files);

/* Find a file in the same folder as `path` whose name differs by at most two characters, and store its path in
 * `ret_name`. Returns false if there is none. */
bool gwi_folder_similar(const char *path, char *ret_name, size_t room);

#endif
