/* Finds the frames of the user's own code in a traceback or in a native stack. */
#include "gwi_log.h"

#include "gw_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINES_MAX = 400 }; /* maximum length of a traceback, in lines */

static bool has_one_of(const char *text, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strstr(text, words[i]) != NULL)
            return true;
    }
    return false;
}
#define HAS_ONE_OF(text, words) has_one_of(text, words, sizeof(words) / sizeof(words)[0])

/* False for files in the folders of installed packages. For PyTorch, only known subfolders are listed. A user's own
 * folder may also be called torch. */
static bool is_users_file(const char *file)
{
    static const char *const others[] = {"site-packages",
                                         "dist-packages",
                                         "/lib/python",
                                         "\\lib\\",
                                         "<frozen",
                                         "<__array",
                                         "<decorator",
                                         "<eval_with_key>",
                                         "torchinductor_", /* code that torch.compile generated */
                                         "torch_extensions/",
                                         "__autograph_generated_file",
                                         "/triton/",
                                         "<string>",
                                         "/torch/nn/",
                                         "/torch/utils/",
                                         "/torch/autograd/",
                                         "/torch/cuda/",
                                         "/torch/optim/",
                                         "/torch/distributed/",
                                         "/torch/multiprocessing/",
                                         "/torch/_",
                                         "/torch/functional.py",
                                         "/tensorflow/python/",
                                         "/keras/src/",
                                         "/jax/_src/",
                                         "/bin/torchrun",
                                         "/bin/accelerate",
                                         "/bin/deepspeed",
                                         "/ipykernel_launcher.py"};
    return !HAS_ONE_OF(file, others);
}

static bool is_users_module(const char *file)
{
    static const char *const others[] = {"libtorch",      "libc10",    "libcuda",       "libcud",
                                         "libcublas",     "libnccl",   "libc.so",       "libc-",
                                         "libpthread",    "libstdc++", "libgcc_s",      "libpython",
                                         "/python",       "libjax",    "xla_extension", "pywrap_tensorflow",
                                         "libtensorflow", "ld-linux",  "libdl",         "libtriton",
                                         "linux-vdso"};
    static const char *const extensions[] = {"cpython-", ".abi3.so"};
    const char *name = gw_path_last(file);
    if (HAS_ONE_OF(name, extensions) && strstr(file, "/torch/") == NULL && strstr(file, "/tensorflow/") == NULL &&
        strstr(file, "/jaxlib/") == NULL)
        return true;
    return !HAS_ONE_OF(file, others);
}

static bool is_trace(const gw_log_find *find)
{
    return find->sign == GW_SAYS_TRACEBACK || find->sign == GW_SAYS_FRAME || find->sign == GW_SAYS_NOTEBOOK_FRAME ||
           find->sign == GW_SAYS_NOTEBOOK_FILE;
}

bool gwi_log_has_traceback(const gw_log *log, const gw_log_find *exception)
{
    if (gw_begins(exception->text, "E   ")) /* pytest prints the exception of a failed test this way */
        return true;
    for (size_t i = 0; i < log->find_count && log->find[i].order <= exception->order; i++) {
        if (is_trace(&log->find[i]) && exception->order - log->find[i].order <= LINES_MAX)
            return true;
    }
    return false;
}

const gw_log_find *gwi_log_exception_of(const gwi_log_case *c, const gw_log_find *find)
{
    enum { NEAR_LINES = 300 };
    for (size_t i = 0; i < c->log->find_count; i++) {
        const gw_log_find *at = &c->log->find[i];
        bool same = at->rank < 0 || find->rank < 0 || at->rank == find->rank;
        if (at->sign == GW_SAYS_EXCEPTION && at->order >= find->order && at->order - find->order <= NEAR_LINES &&
            same && gwi_log_has_traceback(c->log, at))
            return at;
    }
    return c->exception;
}

/* ---- frames ---- */

static bool read_frame(const gw_log_find *find, gwi_log_frame *ret_frame)
{
    int64_t line = 0;
    const char *file = gw_log_text(find, "file"), *cell = gw_log_text(find, "cell");
    *ret_frame = (gwi_log_frame){.find = find, .function = gw_log_text(find, "function"), .python = true};
    if (gw_log_number(find, "number", &line) && line > 0 && line < INT32_MAX)
        ret_frame->line = (uint32_t)line;
    if (find->sign == GW_SAYS_NOTEBOOK_FRAME && cell != NULL) {
        snprintf(ret_frame->file, sizeof ret_frame->file, "In [%.20s]", cell);
        return true;
    }
    if ((find->sign != GW_SAYS_FRAME && find->sign != GW_SAYS_NOTEBOOK_FILE) || file == NULL || !is_users_file(file))
        return false;
    snprintf(ret_frame->file, sizeof ret_frame->file, "%.250s", file);
    return true;
}

/* True if the frame may belong to the traceback of this exception: it is near enough above, and has the same rank or no
 * rank. */
static bool may_belong(const gw_log_find *find, const gw_log_find *exception)
{
    return exception->order - find->order <= LINES_MAX && (find->rank < 0 || find->rank == exception->rank);
}

static void push(gwi_log_frame *frames, size_t *count, const gwi_log_frame *frame)
{
    if (*count == GWI_LOG_FRAMES_MAX) { /* drop the outermost frame */
        memmove(frames, frames + 1, (GWI_LOG_FRAMES_MAX - 1) * sizeof *frames);
        (*count)--;
    }
    frames[(*count)++] = *frame;
}

static void turn_round(gwi_log_frame *frames, size_t count)
{
    for (size_t i = 0; i < count / 2; i++) {
        gwi_log_frame kept = frames[i];
        frames[i] = frames[count - 1 - i];
        frames[count - 1 - i] = kept;
    }
}

/* Read the frame's line number from the arrow ("----> 3"). In old notebooks, the frame's header has no line number. */
static void take_arrow(gwi_log_frame *frames, size_t count, const gw_log_find *arrow, const gw_log_find *header)
{
    int64_t line;
    if (count > 0 && header != NULL && frames[count - 1].find == header && frames[count - 1].line == 0 &&
        gw_log_number(arrow, "number", &line) && line > 0 && line < INT32_MAX)
        frames[count - 1].line = (uint32_t)line;
}

static size_t python_frames(const gw_log *log, const gw_log_find *exception, gwi_log_frame *frames)
{
    size_t count = 0;
    const gw_log_find *header = NULL;
    for (size_t i = 0; i < log->find_count && log->find[i].order < exception->order; i++) {
        const gw_log_find *find = &log->find[i];
        gwi_log_frame frame;
        if (!may_belong(find, exception))
            continue;
        if (find->sign == GW_SAYS_TRACEBACK)
            count = 0;
        if (find->sign == GW_SAYS_NOTEBOOK_ARROW) {
            take_arrow(frames, count, find, header);
            header = NULL;
        } else if (is_trace(find)) {
            header = find;
            if (read_frame(find, &frame))
                push(frames, &count, &frame);
        }
    }
    turn_round(frames, count);
    return count;
}

/* Read the native stack near the message of a C++ exception, innermost frame (#0) first. */
static size_t native_frames(const gw_log *log, const gw_log_find *exception, gwi_log_frame *frames)
{
    size_t count = 0;
    for (size_t i = 0; i < log->find_count && count < GWI_LOG_FRAMES_MAX; i++) {
        const gw_log_find *find = &log->find[i];
        uint64_t apart =
            find->order > exception->order ? find->order - exception->order : exception->order - find->order;
        const char *file = gw_log_text(find, "file");
        if (find->sign != GW_SAYS_NATIVE_FRAME || apart > LINES_MAX || file == NULL || !is_users_module(file) ||
            (find->rank >= 0 && find->rank != exception->rank))
            continue;
        gwi_log_frame *frame = &frames[count++];
        *frame = (gwi_log_frame){.find = find, .function = gw_log_text(find, "function")};
        snprintf(frame->file, sizeof frame->file, "%.250s", file);
    }
    return count;
}

size_t gwi_log_frames(const gw_log *log, const gw_log_find *exception, gwi_log_frame *ret_frames)
{
    size_t count = python_frames(log, exception, ret_frames);
    return count > 0 ? count : native_frames(log, exception, ret_frames);
}
