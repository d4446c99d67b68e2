/* Opens a run folder: reads run.meta, and drains the remaining content of the buffers into a recording in memory. */
#ifndef GWI_FOLDER_H
#define GWI_FOLDER_H

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

/* ---- what it needs of the drain and the writer ---- */

/* Copy the current contents of the buffers, and open a drain on the copies. The folder stays unchanged. Statuses:
 * gw_drain_open(). */
gw_status gwi_drain_open_copy(const char *run_folder, uint64_t t0_monotonic_ns, gw_drain **ret_drain, gw_error *err);
/* Skip the records of a chunk up to `mark`, because the recording already contains them. */
void gwi_drain_pass_over(gw_drain *drain, const gwi_mark *mark);
/* Create a writer for the open and empty file `fd`, and take ownership of it. All else is as for
 * gw_writer_create(). */
gw_status gwi_writer_on_fd(int fd, const char *path, uint64_t bytes_max, const char *const *fn_names, uint32_t fn_count,
                           gw_writer **ret_writer, gw_error *err);

#endif
