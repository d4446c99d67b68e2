/* Opens a run folder: reads run.meta, and drains the remaining content of the buffers into a recording in memory. */
#ifndef GWI_READER_H
#define GWI_READER_H

#include "gwi_source.h"

typedef struct gwi_folder {
    gw_drain *drain;   /* owned: reads copies of the buffers, made by gwi_folder_open() */
    char *record_path; /* owned: path of the recording; NULL: unknown */
    gwi_dict dict;     /* the dictionary in run.meta */
    bool supervisor_alive;
} gwi_folder;

/* Read run.meta and copy the buffers. Nothing in the folder is changed. After GW_IO, GW_CORRUPT or GW_NOMEM,
 * *ret_folder needs no cleanup. */
gw_status gwi_folder_open(const char *path, gwi_folder *ret_folder, gw_error *err);
void gwi_folder_close(gwi_folder *folder);
/* Skip the records of a chunk up to `mark`, because the recording has them. Pass this to gwi_source_scan_marks() as the
 * sink, with a gwi_folder as `user`. */
void gwi_folder_mark(void *user, const gwi_mark *mark);
/* Drain the copies of the buffers into a recording in memory, and return its file descriptor. `dict` has the names of
 * the functions. */
gw_status gwi_folder_drain(gwi_folder *folder, const gwi_dict *dict, int *ret_fd, gw_error *err);

#endif
