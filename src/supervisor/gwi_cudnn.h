/* `gpuwhy run --deep`: reads cuDNN's own log of errors and warnings while it grows.
 *
 * cuDNN writes this log to a file and not to a pipe. If gpuwhy were killed, writing to a pipe without a reader would
 * end the program. The parts that were read are removed from the file by punching holes, so that it occupies at most a
 * few MiB while gpuwhy runs. */
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
    uint64_t taken, given_back;     /* file offsets: end of the part that was read, end of the punched hole */
    uint64_t errors, warnings;      /* number of entries read */
    uint64_t skipped_bytes, untold; /* bytes skipped if the log grew too fast; entries beyond the limit of kinds */
    gw_cudnn_log reader;
    struct {
        uint64_t hash, count, told, t_ns; /* t_ns: run time when such an entry was last read */
        gw_cudnn_message message;
    } kind[GWI_CUDNN_KINDS_MAX]; /* entries that differ only in their time are of the same kind */
    uint32_t kind_count;
    struct gwi_record *record; /* borrowed; the entries are recorded here */
} gwi_cudnn;

void gwi_cudnn_init(gwi_cudnn *log);
/* Create the log file beside the recording. If no log may be requested, or if its size cannot be limited, record the
 * reason instead. */
void gwi_cudnn_ask(gwi_cudnn *log, struct gwi_record *record);
void gwi_cudnn_enter(const gwi_cudnn *log); /* in the child: set cuDNN's environment variables */
/* Read new entries and record them as facts "cudnn.log" (docs/recording-format.md). */
void gwi_cudnn_look(gwi_cudnn *log);
/* Read the rest and remove the file. Does nothing if no log was requested. */
void gwi_cudnn_end(gwi_cudnn *log);

#endif
