/* Parses cuDNN's log while cuDNN writes it. The environment variable CUDNN_LOGDEST_DBG names the log's file.
 *
 * Versions 8 and 9 begin each line of an entry with a letter for the level:
 *
 *    E! CuDNN (v90300 75) function cudnnBackendFinalize() called:
 *    e!         Error: CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED; Reason: ptrDesc->finalize()
 *    e! Time: 2025-01-21T05:14:40.853014 (0d+0h+0m+10s since start)
 *    e! Process=1856706; Thread=1856706; GPU=NULL; Handle=NULL; StreamId=NULL.
 *
 * Several messages in an entry are a traceback, innermost first. The parser reports only the innermost error, or else
 * the innermost warning, and counts the others. It allocates nothing. Use one gw_cudnn_log per log, from one thread.
 *
 * Sources: NVIDIA/cosmos issue 75 and NVIDIA/cudnn-frontend issue 39 (the form above); NVIDIA's cuDNN documentation,
 * "Error Reporting And API Logging" (the levels, and the form without letters). */
#ifndef GW_CUDNN_LOG_H
#define GW_CUDNN_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GW_CUDNN_NAME_MAX = 80, GW_CUDNN_REASON_MAX = 400, GW_CUDNN_LINE_MAX = 2048 };

typedef struct gw_cudnn_message {
    bool is_error;    /* false: a warning, which is normal while cuDNN looks for an algorithm */
    uint32_t version; /* as printed in the log, e.g. 90300 or 8204; 0: unknown */
    uint32_t pid;     /* 0: unknown */
    uint32_t more;    /* number of other messages in the same entry */
    char function[GW_CUDNN_NAME_MAX], status[GW_CUDNN_NAME_MAX], reason[GW_CUDNN_REASON_MAX]; /* "": unknown */
} gw_cudnn_message;

/* State of the parser. Set it to all zeros at the start of a log. */
typedef struct gw_cudnn_log {
    gw_cudnn_message message;
    bool has_message;
    char line[GW_CUDNN_LINE_MAX];
    size_t line_bytes; /* bytes of the current line so far, including those that did not fit into `line` */
} gw_cudnn_log;

/* Receives the message of one entry. `message` is valid only until the function returns. */
typedef void gw_cudnn_sink(void *user, const gw_cudnn_message *message);

/* Parse the next bytes of the log, and call `sink` for every entry that is now complete. */
void gw_cudnn_log_feed(gw_cudnn_log *log, const char *text, size_t bytes, gw_cudnn_sink *sink, void *user);
/* Report the unfinished entry, if any. Call this at the end of the log, or before a part of the log is skipped. */
void gw_cudnn_log_end(gw_cudnn_log *log, gw_cudnn_sink *sink, void *user);

#endif
