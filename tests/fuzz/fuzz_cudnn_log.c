/* Fuzz the reader of cuDNN's log with any bytes. The log is fed in pieces. The first byte selects their size. */
#include "gw_cudnn_log.h"
#include "seeds.h"

static void write_seeds(const char *folder)
{
    static const char *const text[] = {"9E! CuDNN (v90300 75) function cudnnCreate() called:\n"
                                       "w!     Info: Traceback contains 2 message(s)\n"
                                       "w!         Warning: CUDNN_STATUS_NOT_SUPPORTED; Reason: status\n"
                                       "e!         Error: CUDNN_STATUS_NOT_INITIALIZED; Reason: cudaMalloc\n"
                                       "e! Process=391; Thread=391; GPU=NULL; Handle=NULL; StreamId=NULL.\n"};
    write_texts(folder, text, 1);
}

static void check(void *user, const gw_cudnn_message *message)
{
    (void)user;
    if (strnlen(message->function, sizeof message->function) == sizeof message->function ||
        strnlen(message->status, sizeof message->status) == sizeof message->status ||
        strnlen(message->reason, sizeof message->reason) == sizeof message->reason)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static gw_cudnn_log log;
    size_t piece = bytes == 0 ? 1 : 1 + data[0];
    memset(&log, 0, sizeof log);
    for (size_t at = 1; at < bytes; at += piece)
        gw_cudnn_log_feed(&log, (const char *)data + at, piece < bytes - at ? piece : bytes - at, check, NULL);
    gw_cudnn_log_end(&log, check, NULL);
    return 0;
}
