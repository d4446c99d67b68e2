/* The files of a folder that `gpuwhy explain` and `gpuwhy report` can read. */
#ifndef GWI_FOLDER_H
#define GWI_FOLDER_H

#include "gw_status.h"

#include <stdbool.h>
#include <stddef.h>

/* The file for a verdict in a folder of recordings. It is not listed as a log. */
#define GWI_FOLDER_VERDICT "gpuwhy.txt"

typedef struct gwi_folder_files {
    char **path; /* owned; sorted by name */
    int count;
    bool are_recordings; /* false: text logs, and files that other programs saved about ranks (gw_torch.h) */
} gwi_folder_files;

/* List the recordings in a folder, without subfolders; if there are none, its logs and saved files. If the folder
 * belongs to another user than root, a line on stderr says so, and links in it are skipped. `only_ours`: skip links,
 * and fail if another user may have written one of the files. Call gwi_folder_free() after any result:
 * - GW_IO: the folder cannot be read
 * - GW_UNSUPPORTED: another user may have written a file, and `only_ours`
 * - GW_MISSING: neither recordings nor logs
 * - GW_NOMEM: out of memory */
GW_MUST_CHECK gw_status gwi_folder_list(const char *folder, bool only_ours, gwi_folder_files *ret, gw_error *err);
void gwi_folder_free(gwi_folder_files *files);

/* True if the name ends like that of a recording. */
bool gwi_folder_is_recording(const char *name);
/* True if the name looks like the name of a log: the extension is usual for logs, or there is none ("stdout",
 * "output"). */
bool gwi_folder_has_name_of_log(const char *name);

/* True if the path is a folder, and not the run folder of a program. */
bool gwi_folder_is_one(const char *path);

/* Find the file beside `path` with the most similar name; ret_name receives its path. False if all names differ by more
 * than two characters, or if the wanted one is shorter than four. */
bool gwi_folder_similar(const char *path, char *ret_name, size_t room);

#endif
