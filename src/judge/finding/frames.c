/* Finds the frames of the user's own code in a traceback or in a native stack of a text. */
#include "gw_logs.h"
#include "gwi_output.h"

#include <inttypes.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FRAMES_MAX = 8 };

/* A frame of the user's code in a traceback or in a native stack. */
typedef struct text_frame {
    const gw_log_find *find;
    const char *function; /* NULL: not known; borrowed from the log */
    char file[256];       /* "train.py", "In [3]"; the module of a native frame */
    uint32_t line;        /* 0: not known */
    bool python;
} text_frame;

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
    return !GW_HAS_ONE_OF(file, others);
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
    if (GW_HAS_ONE_OF(name, extensions) && strstr(file, "/torch/") == NULL && strstr(file, "/tensorflow/") == NULL &&
        strstr(file, "/jaxlib/") == NULL)
        return true;
    return !GW_HAS_ONE_OF(file, others);
}

/* ---- frames ---- */

static bool read_frame(const gw_log_find *find, text_frame *ret_frame)
{
    int64_t line = 0;
    const char *file = gw_log_text(find, "file"), *cell = gw_log_text(find, "cell");
    *ret_frame = (text_frame){.find = find, .function = gw_log_text(find, "function"), .python = true};
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
    return exception->order - find->order <= GW_LOG_TRACEBACK_LINES_MAX &&
           (find->rank < 0 || find->rank == exception->rank);
}

static void push(text_frame *frames, size_t *count, const text_frame *frame)
{
    if (*count == FRAMES_MAX) { /* drop the outermost frame */
        memmove(frames, frames + 1, (FRAMES_MAX - 1) * sizeof *frames);
        (*count)--;
    }
    frames[(*count)++] = *frame;
}

static void turn_round(text_frame *frames, size_t count)
{
    for (size_t i = 0; i < count / 2; i++) {
        text_frame kept = frames[i];
        frames[i] = frames[count - 1 - i];
        frames[count - 1 - i] = kept;
    }
}

/* Read the frame's line number from the arrow ("----> 3"). In old notebooks, the frame's header has no line number. */
static void take_arrow(text_frame *frames, size_t count, const gw_log_find *arrow, const gw_log_find *header)
{
    int64_t line;
    if (count > 0 && header != NULL && frames[count - 1].find == header && frames[count - 1].line == 0 &&
        gw_log_number(arrow, "number", &line) && line > 0 && line < INT32_MAX)
        frames[count - 1].line = (uint32_t)line;
}

static size_t python_frames(const gw_log *log, const gw_log_find *exception, text_frame *frames)
{
    size_t count = 0;
    const gw_log_find *header = NULL;
    for (size_t i = 0; i < log->find_count && log->find[i].order < exception->order; i++) {
        const gw_log_find *find = &log->find[i];
        text_frame frame;
        if (!may_belong(find, exception))
            continue;
        if (find->sign == GW_SAYS_TRACEBACK)
            count = 0;
        if (find->sign == GW_SAYS_NOTEBOOK_ARROW) {
            take_arrow(frames, count, find, header);
            header = NULL;
        } else if (gw_log_is_trace(find)) {
            header = find;
            if (read_frame(find, &frame))
                push(frames, &count, &frame);
        }
    }
    turn_round(frames, count);
    return count;
}

/* Read the native stack near the message of a C++ exception, innermost frame (#0) first. */
static size_t native_frames(const gw_log *log, const gw_log_find *exception, text_frame *frames)
{
    size_t count = 0;
    for (size_t i = 0; i < log->find_count && count < FRAMES_MAX; i++) {
        const gw_log_find *find = &log->find[i];
        uint64_t apart =
            find->order > exception->order ? find->order - exception->order : exception->order - find->order;
        const char *file = gw_log_text(find, "file");
        if (find->sign != GW_SAYS_NATIVE_FRAME || apart > GW_LOG_TRACEBACK_LINES_MAX || file == NULL ||
            !is_users_module(file) || (find->rank >= 0 && find->rank != exception->rank))
            continue;
        text_frame *frame = &frames[count++];
        *frame = (text_frame){.find = find, .function = gw_log_text(find, "function")};
        snprintf(frame->file, sizeof frame->file, "%.250s", file);
    }
    return count;
}

/* ---- the place ---- */

/* True for faults on the device. Only a later call returns their error, so the traceback does not show their cause. */
static bool is_late(const char *cause)
{
    static const char *const late[] = {"illegal-address",    "device-assert-index", "misaligned-access",
                                       "kernel-fault-other", "ecc-uncorrectable",   "cross-stream-use-after-free"};
    for (size_t i = 0; cause != NULL && i < sizeof late / sizeof late[0]; i++) {
        if (strcmp(late[i], cause) == 0)
            return true;
    }
    return false;
}

static const char *what_happened(const text_frame *innermost, const char *cause)
{
    if (!innermost->python)
        return "the innermost frame of a native stack in the text that does not belong to a framework";
    return is_late(cause)
               ? "the exception was raised here; an earlier call may be at fault, because such faults are reported late"
               : "the exception was raised here";
}

static bool fill_frame(const text_frame *from, bool is_short, gw_where_frame *frame)
{
    char text[480], line[16] = "";
    if (from->line != 0)
        snprintf(line, sizeof line, ":%" PRIu32, from->line);
    snprintf(text, sizeof text, "%.250s%s%s%.200s", is_short ? gw_path_last(from->file) : from->file, line,
             from->function != NULL ? " in " : "", from->function != NULL ? from->function : "");
    frame->python = from->python;
    frame->whose = "user";
    frame->line = from->line;
    return gw_str_copy(from->python ? from->file : NULL, &frame->file) &&
           gw_str_copy(from->python ? NULL : from->file, &frame->module) &&
           gw_str_copy(from->function, &frame->function) && gw_str_copy(text, &frame->text);
}

bool gwi_where_in_text(const gw_log *log, const gw_log_find *exception, const char *cause, bool is_short,
                       gw_where **ret_where)
{
    text_frame frame[FRAMES_MAX];
    size_t count = exception == NULL ? 0 : python_frames(log, exception, frame);
    if (exception != NULL && count == 0)
        count = native_frames(log, exception, frame);
    *ret_where = NULL;
    if (count == 0)
        return true;
    gw_where *where = calloc(1, sizeof *where);
    bool good = where != NULL && (where->frame = calloc(count, sizeof *where->frame)) != NULL;
    for (size_t i = 0; i < count && good; i++)
        good = fill_frame(&frame[i], is_short, &where->frame[where->frame_count++]);
    if (!good) {
        gwi_where_free(where);
        return false;
    }
    where->what = what_happened(&frame[0], cause);
    *ret_where = where;
    return true;
}
