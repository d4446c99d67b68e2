/* `gpuwhy run --deep`: cuDNN's own log of errors and warnings, read while it grows.
 *
 * cuDNN writes to a file and never to a pipe, because a pipe without a reader would end the program if gpuwhy is
 * killed. Parts that were read are punched out of the file, so it occupies a few MiB at most while gpuwhy runs. */
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
    uint64_t taken, given_back;     /* offsets in the file: read up to, punched out up to */
    uint64_t errors, warnings;      /* entries read */
    uint64_t skipped_bytes, untold; /* bytes not read because there were too many; entries beyond the kinds kept */
    gw_cudnn_log reader;
    struct {
        uint64_t hash, count, told, t_ns; /* run time when it was last read */
        gw_cudnn_message message;
    } kind[GWI_CUDNN_KINDS_MAX]; /* entries that differ only in their time are one kind */
    uint32_t kind_count;
    struct gwi_record *record; /* borrowed; takes the entries */
} gwi_cudnn;

void gwi_cudnn_init(gwi_cudnn *log);
/* Create the file beside the recording. If cuDNN must not be asked for a log, or its size could not be limited, record
 * the reason instead. */
void gwi_cudnn_ask(gwi_cudnn *log, struct gwi_record *record);
void gwi_cudnn_enter(const gwi_cudnn *log); /* in the child */
/* Read new entries and record them as facts "cudnn.log" (docs/recording-format.md). */
void gwi_cudnn_look(gwi_cudnn *log);
/* Read the rest and remove the file. Does nothing if no log was requested. */
void gwi_cudnn_end(gwi_cudnn *log);

#endif
