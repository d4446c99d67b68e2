/* `gpuwhy run --deep`: cuDNN's own log of errors and warnings, read while it grows.
 *
 * The program gets a file as destination and nothing else: a pipe would end it when we are gone, a file does not. What
 * was read is given back to the file system (a hole), so that the file takes a few MiB at most while we live. */
#ifndef GWI_CUDNN_H
#define GWI_CUDNN_H

#include "gw_cudnn_log.h"
#include "gwi_place.h"

#include <stdbool.h>
#include <stdint.h>

struct gwi_record;

enum { GWI_CUDNN_KINDS_MAX = 64 };

typedef struct gwi_cudnn {
    int fd; /* -1: none was asked for */
    gw_path path;
    uint64_t taken, given_back;     /* offsets in the file */
    uint64_t errors, warnings;      /* entries read */
    uint64_t skipped_bytes, untold; /* not read, because too much came; entries of further kinds */
    gw_cudnn_log reader;
    struct {
        uint64_t hash, count, told, t_ns; /* run time when it was last read */
        gw_cudnn_message message;
    } kind[GWI_CUDNN_KINDS_MAX]; /* entries that differ in nothing but their time */
    uint32_t kind_count;
    struct gwi_record *record; /* borrowed; where they go */
} gwi_cudnn;

void gwi_cudnn_init(gwi_cudnn *log);
/* Make the file, beside the recording. Where it must not be asked for, or cannot be held down, it is recorded why. */
void gwi_cudnn_ask(gwi_cudnn *log, struct gwi_record *record);
void gwi_cudnn_enter(const gwi_cudnn *log); /* in the child */
/* Read what is new: facts "cudnn.log" (docs/recording-format.md). */
void gwi_cudnn_look(gwi_cudnn *log);
/* The last look; then the file is removed. Takes one that was not asked for. */
void gwi_cudnn_end(gwi_cudnn *log);

#endif
