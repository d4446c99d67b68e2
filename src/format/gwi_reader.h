/* The reader's view of a run folder: run.meta, and the rest of the buffers as a recording in memory. */
#ifndef GWI_READER_H
#define GWI_READER_H

#include "gwi_source.h"

typedef struct gwi_folder {
    gw_drain *drain;   /* owned: a copy of the buffers at the time of open */
    char *record_path; /* owned; NULL: unknown */
    gwi_dict dict;     /* dictionary of run.meta */
    bool supervisor_alive;
} gwi_folder;

/* Read run.meta and copy the buffers. Nothing in the folder is changed. GW_OK; GW_IO, GW_CORRUPT, GW_NOMEM: no
 * resource is held. */
gw_status gwi_folder_open(const char *path, gwi_folder *ret_folder, gw_error *err);
void gwi_folder_close(gwi_folder *folder);
/* A gwi_mark_sink; `user` is the folder. */
void gwi_folder_mark(void *user, const gwi_mark *mark);
/* Drain the copies into an unnamed recording. `dict` has the names of the functions. */
gw_status gwi_folder_drain(gwi_folder *folder, const gwi_dict *dict, int *ret_fd, gw_error *err);

#endif
