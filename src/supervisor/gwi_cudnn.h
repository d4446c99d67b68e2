/* `gpuwhy run --deep`: reads cuDNN's own log of errors and warnings while it grows.
 *
 * cuDNN writes this log to a file. A pipe would be dangerous: if gpuwhy were killed, the pipe would have no reader, and
 * the next write would end the program. gpuwhy punches a hole into the part of the file that it has already read, so
 * that the file occupies at most a few MiB while gpuwhy runs. */
#ifndef GWI_CUDNN_H
#define GWI_CUDNN_H

#include "gw_cudnn_log.h"
#include "gwi_place.h"

#include <stdbool.h>
#include <stdint.h>

struct gwi_record;

enum { GWI_CUDNN_KINDS_MAX = 64 };

typedef struct gwi_cudnn {
    int fd; /* -1: no log was requested */
    gw_path path;
    uint64_t taken, given_back; /* file offsets: end of the part that was read, end of the punched hole */
    uint64_t errors, warnings;  /* number of entries read */
    /* bytes skipped because the log grew too fast; entries not recorded because there were too many kinds */
    uint64_t skipped_bytes, untold;
    gw_cudnn_log reader;
    struct {
        /* hash; entries read; value of `count` when the kind was last recorded; run time at which the last entry was
         * read */
        uint64_t hash, count, told, t_ns;
        gw_cudnn_message message;
    } kind[GWI_CUDNN_KINDS_MAX]; /* entries of one kind have the same pid, severity, function, status and reason */
    uint32_t kind_count;
    struct gwi_record *record; /* borrowed; the entries are recorded here */
} gwi_cudnn;

void gwi_cudnn_init(gwi_cudnn *log);
/* Create the log file beside the recording. Record the reason instead if the file cannot be used: for example, the user
 * has configured cuDNN's log, or the file system cannot punch holes. */
void gwi_cudnn_ask(gwi_cudnn *log, struct gwi_record *record);
void gwi_cudnn_enter(const gwi_cudnn *log); /* in the child: set cuDNN's environment variables */
/* Read new entries and record them as facts "cudnn.log" (docs/recording-format.md). */
void gwi_cudnn_look(gwi_cudnn *log);
/* Read the rest of the log and remove its file. Does nothing if no log was requested. */
void gwi_cudnn_end(gwi_cudnn *log);

#endif
