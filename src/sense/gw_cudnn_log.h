/* The log that cuDNN writes when it is asked to (CUDNN_LOGDEST_DBG), read as it grows.
 *
 * An entry is a head line, lines with the entry's letter before them, and who wrote it when. As versions 8 and 9 write:
 *
 *     E! CuDNN (v90300 75) function cudnnBackendFinalize() called:
 *     e!         Error: CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED; Reason: ptrDesc->finalize()
 *     e! Time: 2025-01-21T05:14:40.853014 (0d+0h+0m+10s since start)
 *     e! Process=1856706; Thread=1856706; GPU=NULL; Handle=NULL; StreamId=NULL.
 *
 * Several messages in one entry are a traceback, the innermost first: that one is told, the others are counted.
 * Sources: NVIDIA/cosmos issue 75 and NVIDIA/cudnn-frontend issue 39 (the form), NVIDIA's cuDNN documentation,
 * "Error Reporting And API Logging" (levels, the form without letters). Nothing is allocated; one log, one thread. */
#ifndef GW_CUDNN_LOG_H
#define GW_CUDNN_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GW_CUDNN_NAME_MAX = 80, GW_CUDNN_REASON_MAX = 400, GW_CUDNN_LINE_MAX = 2048 };

typedef struct gw_cudnn_message {
    bool is_error;    /* else a warning: normal traffic while cuDNN looks for an algorithm */
    uint32_t version; /* as the log has it: 90300, 8204; 0: not told */
    uint32_t pid;     /* 0: not told */
    uint32_t more;    /* further messages of the same entry */
    char function[GW_CUDNN_NAME_MAX], status[GW_CUDNN_NAME_MAX], reason[GW_CUDNN_REASON_MAX]; /* "": not told */
} gw_cudnn_message;

/* Where a reader stands; all zero at the start of a log. */
typedef struct gw_cudnn_log {
    gw_cudnn_message message;
    bool has_message;
    char line[GW_CUDNN_LINE_MAX];
    size_t line_bytes; /* of the line, also where more than fits was dropped */
} gw_cudnn_log;

/* `message` is valid until the function returns. */
typedef void gw_cudnn_sink(void *user, const gw_cudnn_message *message);

void gw_cudnn_log_feed(gw_cudnn_log *log, const char *text, size_t bytes, gw_cudnn_sink *sink, void *user);
/* Nothing comes any more, or something is missing here: what was begun is told as it is. */
void gw_cudnn_log_end(gw_cudnn_log *log, gw_cudnn_sink *sink, void *user);

#endif
