/* Worker processes that judge the recordings of a job (workers.c). */
#ifndef GWI_WORKERS_H
#define GWI_WORKERS_H

#include "gwi_judged.h"

#include "gw_together.h"

typedef struct gwi_worker_result {
    gw_brief brief; /* owned by the receiver; only if `unread` is NULL */
    char *unread;   /* owned by the receiver: why the file cannot be read, with its path; NULL: it was read */
    bool running;   /* the program is still running */
} gwi_worker_result;

/* Read one file in this process. Sets ret->unread for an unreadable file. GW_NOMEM: out of memory. */
GW_MUST_CHECK gw_status gwi_worker_read(const char *file, const gwi_judge_how *how, gwi_worker_result *ret,
                                        gw_error *err);

/* Receives the result for the file `index`. In any order, each index once. */
typedef gw_status gwi_worker_sink(void *user, int index, gwi_worker_result *result, gw_error *err);

/* Read all files with worker processes. If a worker dies, its file counts as unreadable, and another worker goes on.
 * Errors: GW_IO if no worker can be started; GW_NOMEM; those of `sink`. */
GW_MUST_CHECK gw_status gwi_workers_read(char *const *files, int count, const gwi_judge_how *how, gwi_worker_sink *sink,
                                         void *user, gw_error *err);

#endif
