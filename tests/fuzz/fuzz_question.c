/* Fuzz the judgement of messages: judge the input as a question, which may contain error codes, and as a log. */
#include "gw_logs.h"
#include "gw_verdict.h"
#include "seeds.h"

#include <string.h>

static void write_seeds(const char *folder)
{
    static const char *const seeds[] = {
        "700",
        "exit code -9",
        "Xid 79",
        "CUDNN_STATUS_NOT_INITIALIZED",
        ("torch==2.4.0\n| 0  Tesla T4   On  |\nTraceback (most recent call last):\n  File \"train.py\", line 41, in "
         "step\n"
         "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of "
         "14.56 "
         "GiB of which 120.00 MiB is free. Of the allocated memory 13.90 GiB is allocated by PyTorch, and 100.00 MiB "
         "is "
         "reserved by PyTorch but unallocated.\n"),
        ("RuntimeError    Traceback (most recent call last)\n<ipython-input-5-0a1b> in <module>\n----> 2 train()\n"
         "~/model.py in forward(self)\n---> 41 y\nRuntimeError: CUDA error: device-side assert triggered\n"),
        "[rank1]: frame #1: my::launch(at::Tensor) + 0x1b (0x7f01 in /x/_C.so)\n[rank1]: ncclUnhandledCudaError\n"};
    write_texts(folder, seeds, sizeof seeds / sizeof seeds[0]);
}

static void judge_as_log(const char *text, size_t bytes)
{
    gw_log_reader *reader = NULL;
    gw_log *log = NULL;
    gw_verdict *verdict = NULL;
    if (gw_log_open(&reader, NULL) != GW_OK)
        return;
    if (gw_log_begin(reader, "x", NULL) != GW_OK || gw_log_feed(reader, text, bytes, NULL) != GW_OK) {
        gw_log_cancel(reader);
        return;
    }
    if (gw_log_finish(reader, &log, NULL) != GW_OK)
        return;
    if (gw_judge_log(log, &verdict, NULL) == GW_OK && verdict->headline == NULL)
        abort();
    gw_verdict_free(verdict);
    verdict = NULL;
    if (gw_judge_message(log, text, &verdict, NULL) == GW_OK && verdict->question == NULL)
        abort();
    gw_verdict_free(verdict);
    gw_log_free(log);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    gw_verdict *verdict = NULL;
    char *text = fuzz_text(data, bytes);
    if (gw_judge_question(text, &verdict, NULL) == GW_OK && verdict->status != GW_VERDICT_UNDETERMINED)
        abort(); /* a question without a log must give an undetermined verdict */
    gw_verdict_free(verdict);
    judge_as_log(text, bytes);
    free(text);
    return 0;
}
