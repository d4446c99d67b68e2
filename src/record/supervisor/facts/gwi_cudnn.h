/* `gpuwhy run --deep`: reads cuDNN's own log of errors and warnings while cuDNN writes it.
 *
 * The log is a file. With a pipe, cuDNN's next write would end the program if gpuwhy were killed. gpuwhy punches a hole
 * into the part that it has read. So the file never occupies more than a few MiB while gpuwhy runs. */
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
        uint64_t hash;  /* identifies the kind */
        uint64_t count; /* number of entries of this kind read so far */
        uint64_t told;  /* value of `count` when this kind was last recorded */
        uint64_t t_ns;  /* run time at which the last entry of this kind was read */
        gw_cudnn_message message;
    } kind[GWI_CUDNN_KINDS_MAX]; /* entries of one kind have the same pid, severity, function, status and reason */
    uint32_t kind_count;
    struct gwi_record *record; /* borrowed; the entries are recorded here */
} gwi_cudnn;

void gwi_cudnn_init(gwi_cudnn *log);
/* Create the log file beside the recording, or record why not. For example, the user has configured cuDNN's log, or the
 * file system cannot punch holes. */
void gwi_cudnn_ask(gwi_cudnn *log, struct gwi_record *record);
void gwi_cudnn_enter(const gwi_cudnn *log); /* in the child: set cuDNN's environment variables */
/* Read new entries and record them as facts "cudnn.log" (docs/recording-format.md). */
void gwi_cudnn_look(gwi_cudnn *log);
/* Read the rest of the log and remove its file. Does nothing if no log was requested. */
void gwi_cudnn_end(gwi_cudnn *log);

#endif
