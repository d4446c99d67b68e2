/* Reads stderr line by line with bounded memory. Only the beginning of a long line is stored.
 *
 * A Python traceback is "Traceback (most recent call last):", then indented frames, then a line with the dotted name of
 * the exception. The last of several tracebacks ended the program. */
#include "gw_cuda_results.h"
#include "gwi_inner.h"

#include "gw_array.h"
#include "gw_text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { LINE_BYTES_MAX = 2048, TEXT_BYTES_MAX = 1 << 20, TEXT_BEGIN_BYTES = 256 << 10, TEXT_END_BYTES = 256 << 10 };

static void keep(gw_stderr_line *line, uint64_t t_ns, const char *text, bool newest)
{
    line->count++;
    if (line->seen && !newest)
        return;
    line->seen = true;
    line->t_ns = t_ns;
    snprintf(line->text, sizeof line->text, "%.*s", (int)sizeof line->text - 1, text);
}

static bool has(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}

/* Search `text` for each of `parts` in turn. Return a pointer to the first one that is found, or NULL if there is
 * none. */
static const char *find_any(const char *text, const char *const *parts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *at = strstr(text, parts[i]);
        if (at != NULL)
            return at;
    }
    return NULL;
}

#define FIND_ANY(text, list) find_any(text, list, sizeof list / sizeof list[0])
#define HAS_ANY(text, list)  (FIND_ANY(text, list) != NULL)

static const char *const oom_words[] = {"OutOfMemoryError",
                                        "CUDA out of memory",
                                        "RESOURCE_EXHAUSTED",
                                        "ResourceExhaustedError",
                                        "CUDA_ERROR_OUT_OF_MEMORY",
                                        "ran out of memory",
                                        "Out of memory while trying to allocate",
                                        "CUDA error: out of memory"};
static const char *const cuda_words[] = {"CUDA error",         "CUDA_ERROR_",      "cudaError",
                                         "CUDA runtime error", "AcceleratorError", "CUDA driver error"};
/* Messages that frameworks print if CUDA does not start or finds no card. */
static const char *const start_words[] = {"No CUDA GPUs are available",
                                          "Found no NVIDIA driver",
                                          "NVIDIA driver on your system is too old",
                                          "driver version is insufficient",
                                          "CUDA driver initialization failed",
                                          "CUDA unknown error",
                                          "Unexpected error from cudaGetDeviceCount",
                                          "Torch not compiled with CUDA enabled",
                                          "Unable to initialize backend 'cuda'",
                                          "no CUDA-capable device",
                                          GW_TEXT_CUDA_ERROR_SYSTEM_NOT_READY,
                                          GW_TEXT_CUDA_ERROR_INVALID_DEVICE};
static const char *const library_words[] = {"CUDNN_STATUS_", "CUBLAS_STATUS_",   "cuDNN error", "CUSOLVER_STATUS_",
                                            "CUFFT_",        "CUSPARSE_STATUS_", "NCCL error"};
static const char *const host_words[] = {"MemoryError", "std::bad_alloc", "Cannot allocate memory",
                                         "DefaultCPUAllocator"};
static const char *const fatal_words[] = {"Fatal Python error", "Segmentation fault", "Bus error",
                                          "*** stack smashing detected", "double free or corruption"};

#define GW_X(name) , GW_TEXT_##name
static const char *const result_words[] = {"CUDA_ERROR_", "cudaError" GW_RESULTS_KNOWN_BY_TEXT(GW_X)};
#undef GW_X
static const char *const disk_words[] = {"No space left on device", "Disk quota exceeded",
                                         "PytorchStreamWriter failed writing"};
static const char *const limit_words[] = {"Too many open files",    "items of ancdata",
                                          "can't start new thread", "pthread_create failed",
                                          "hread creation failed",  "fork: Resource temporarily",
                                          "fork: retry:",           "what():  Resource temporarily unavailable"};

static const char *const device_words[] = {"cannot be accessed from Triton", "Duplicate GPU detected"};

static const char *const fork_words[] = {"Cannot re-initialize CUDA in forked subprocess"};

/* Messages that a parent process prints after a child failed. */
static const char *const child_words[] = {"ChildFailedError",       "ProcessRaisedException", "ProcessExitedException",
                                          "CalledProcessError",     "BrokenProcessPool",      "SignalException",
                                          "DataLoader worker (pid", "WorkerCrashedError"};

/* True if the text mentions memory. Programs write "out of memory", "OutOfMemory", "bad_alloc", "allocation failed" or
 * "OOM". */
static bool speaks_of_memory(const char *text)
{
    for (; *text != '\0'; text++) {
        if (strncasecmp(text, "memory", 6) == 0 || strncasecmp(text, "alloc", 5) == 0 || gw_begins(text, "OOM"))
            return true;
    }
    return false;
}

bool gwi_stderr_is_about_child(const char *text)
{
    size_t bytes = strcspn(text, "\n");
    char line[LINE_BYTES_MAX];
    snprintf(line, sizeof line, "%.*s", (int)(bytes < sizeof line ? bytes : sizeof line - 1), text);
    return HAS_ANY(line, child_words);
}

/* Return the length of the exception's name at the start of the line, or 0 if there is none. The name is dotted and
 * followed by ":" or the end of the line. */
static size_t exception_name_bytes(const char *line)
{
    size_t count = 0;
    if (!isalpha((unsigned char)line[0]) && line[0] != '_')
        return 0;
    while (isalnum((unsigned char)line[count]) || line[count] == '_' || line[count] == '.')
        count++;
    return line[count] == '\0' || line[count] == ':' ? count : 0;
}

static void keep_frame(struct gwi_stderr_state *state, const char *frame)
{
    snprintf(state->frame, sizeof state->frame, "%.*s", (int)sizeof state->frame - 1, frame);
    if (!has(frame, "-packages/") && !has(frame, "/lib/python") && !has(frame, "File \"<"))
        snprintf(state->own_frame, sizeof state->own_frame, "%.*s", (int)sizeof state->own_frame - 1, frame);
}

static void python_line(gw_model *model, uint64_t t_ns, const char *line)
{
    gw_stderr_facts *facts = &model->stderr_facts;
    struct gwi_stderr_state *state = &model->inner->stderr_state;
    if (has(line, "Traceback (most recent call last)")) {
        if (!state->chain)
            state->chain_oom = state->chained = false;
        enum { LINES_BETWEEN_MAX = 2 };
        state->after_oom = facts->oom.seen && state->lines_since_oom <= LINES_BETWEEN_MAX;
        state->in_traceback = true;
        state->chain = false;
        state->frame[0] = state->own_frame[0] = '\0';
        facts->traceback = true;
        return;
    }
    if (has(line, "During handling of the above exception") || has(line, "was the direct cause of the following")) {
        state->chain = true;
        state->chain_oom = state->chain_oom || HAS_ANY(facts->exception.text, oom_words);
        state->chained = true;
        return;
    }
    if (!state->in_traceback)
        return;
    if (line[0] == ' ' || line[0] == '\t') {
        const char *frame = line + strspn(line, " \t");
        if (gw_begins(frame, "File \""))
            keep_frame(state, frame);
        return;
    }
    size_t name = exception_name_bytes(line);
    if (name == 0)
        return;
    bool about_child = HAS_ANY(line, child_words);
    if (about_child)
        keep(&facts->child_exception, t_ns, line, true);
    enum { LINES_SINCE_MAX = 120 };
    if (about_child && facts->exception.seen && state->lines_since_exception < LINES_SINCE_MAX) {
        /* keep the exception of the child's own traceback, which came just before and has more details */
        state->in_traceback = false;
        return;
    }
    facts->exception_about_child = about_child;
    state->lines_since_exception = 0;
    keep(&facts->exception, t_ns, line, true);
    memcpy(facts->frame, state->frame, sizeof facts->frame);
    memcpy(facts->own_frame, state->own_frame, sizeof facts->own_frame);
    facts->exception_after_oom = state->after_oom;
    snprintf(facts->exception_type, sizeof facts->exception_type, "%.*s", (int)(name < 95 ? name : 95), line);
    facts->exception_chain_oom = state->chain_oom;
    facts->exception_is_chained = state->chained;
    facts->exception_is_fork_refused = HAS_ANY(line, fork_words);
    facts->exception_lacks_value = has(line, "NoneType") || strcmp(facts->exception_type, "NameError") == 0 ||
                                   strcmp(facts->exception_type, "UnboundLocalError") == 0;
    state->in_traceback = false;
}

static bool is_device_assert(const char *line)
{
    /* for example "file:line: function: block: [0,0,0], thread: [0,0,0] Assertion `x` failed." */
    return has(line, "Assertion") && has(line, "failed") && (has(line, "thread: [") || has(line, "block: ["));
}

static void scan_line(gw_model *model, uint64_t t_ns, const char *line)
{
    gw_stderr_facts *facts = &model->stderr_facts;
    python_line(model, t_ns, line);
    model->inner->stderr_state.lines_since_oom++;
    model->inner->stderr_state.lines_since_exception++;
    const char *oom = FIND_ANY(line, oom_words);
    if (oom != NULL) {
        /* XLA prints a whole instruction before its message. If the line is too long to be stored, store only the part
         * that begins with the message. */
        const char *kept = strlen(line) < GW_STDERR_LINE_MAX ? line : oom;
        keep(&facts->oom, t_ns, kept, false);
        keep(&facts->oom_last, t_ns, kept, true);
        model->inner->stderr_state.lines_since_oom = 0;
    }
    if (HAS_ANY(line, cuda_words))
        keep(&facts->cuda_error, t_ns, line, false);
    if (HAS_ANY(line, library_words))
        keep(&facts->library_status, t_ns, line, false);
    if (HAS_ANY(line, device_words))
        keep(&facts->wrong_device, t_ns, line, false);
    if (HAS_ANY(line, host_words))
        keep(&facts->host_memory, t_ns, line, false);
    if (HAS_ANY(line, result_words))
        keep(&facts->result, t_ns, line, true);
    if (HAS_ANY(line, disk_words))
        keep(&facts->disk_full, t_ns, line, true);
    if (HAS_ANY(line, limit_words))
        keep(&facts->limit, t_ns, line, true);
    if (HAS_ANY(line, fatal_words))
        keep(&facts->fatal, t_ns, line, false);
    if (HAS_ANY(line, fork_words)) {
        if (!facts->fork_refused.seen)
            memcpy(facts->fork_frame, model->inner->stderr_state.own_frame, sizeof facts->fork_frame);
        keep(&facts->fork_refused, t_ns, line, false);
    }
    if (is_device_assert(line))
        keep(&facts->device_assert, t_ns, line, false);
    if (has(line, "terminate called") || gw_begins(line, "  what():"))
        keep(&facts->terminate, t_ns, line, true);
    if (has(line, "Stats:") || has(line, "Sum Total of in-use chunks") || has(line, "Allocator (GPU_"))
        keep(&facts->xla_dump, t_ns, line, false);
}

/* Make room for `more` bytes at the end of the stored stderr text. A text longer than TEXT_BYTES_MAX loses its middle
 * part. Returns false if out of memory. */
static bool make_text_room(gw_model *model, size_t more)
{
    gw_stderr_facts *facts = &model->stderr_facts;
    if (facts->text_bytes + more > TEXT_BYTES_MAX) {
        const char *end = facts->text + facts->text_bytes - TEXT_END_BYTES;
        const char *line = memchr(end, '\n', TEXT_END_BYTES);
        size_t kept = line == NULL ? TEXT_END_BYTES : (size_t)(facts->text + facts->text_bytes - line) - 1;
        if (facts->text_gap == 0) {
            facts->text_gap = TEXT_BEGIN_BYTES;
            while (facts->text_gap > 1 && facts->text[facts->text_gap - 1] != '\n')
                facts->text_gap--;
        }
        memmove(facts->text + facts->text_gap, facts->text + facts->text_bytes - kept, kept);
        facts->text_bytes = facts->text_gap + kept;
    }
    return gw_array_reach(&facts->text, facts->text_bytes + more, &model->inner->stderr_state.text_capacity, 1);
}

static void keep_text(gw_model *model, const char *bytes, size_t count)
{
    gw_stderr_facts *facts = &model->stderr_facts;
    while (count > 0) {
        size_t part = count < TEXT_END_BYTES ? count : TEXT_END_BYTES;
        if (!make_text_room(model, part)) {
            model->inner->nomem = true;
            return;
        }
        memcpy(facts->text + facts->text_bytes, bytes, part);
        facts->text_bytes += part;
        bytes += part;
        count -= part;
    }
}

static void keep_time(gw_model *model, uint64_t t_ns)
{
    enum { TIMES_MAX = 1 << 16 };
    const uint64_t apart_ns = 100000000u;
    gw_stderr_facts *facts = &model->stderr_facts;
    if (facts->time_count == TIMES_MAX) { /* drop every second time */
        for (facts->time_count = 0; facts->time_count < TIMES_MAX / 2; facts->time_count++)
            facts->time[facts->time_count] = facts->time[2 * facts->time_count];
    }
    if (facts->time_count > 0 && t_ns < facts->time[facts->time_count - 1].t_ns + apart_ns)
        return;
    if (gw_array_room(&facts->time, facts->time_count, &model->inner->stderr_state.time_room, sizeof *facts->time))
        facts->time[facts->time_count++] = (gw_stderr_time){facts->bytes, t_ns};
    else
        model->inner->nomem = true;
}

uint64_t gw_stderr_t_ns(const gw_stderr_facts *facts, size_t at)
{
    uint64_t byte = at < facts->text_gap || facts->text_gap == 0 ? at : facts->bytes - (facts->text_bytes - at);
    size_t first = 0;
    for (size_t end = facts->time_count; end - first > 1;) {
        size_t middle = first + (end - first) / 2;
        if (facts->time[middle].byte <= byte)
            first = middle;
        else
            end = middle;
    }
    return facts->time_count == 0 ? 0 : facts->time[first].t_ns;
}

void gwi_stderr_part(gw_model *model, uint64_t t_ns, const char *bytes, size_t count)
{
    gwi_model *inner = model->inner;
    keep_time(model, t_ns);
    model->stderr_facts.bytes += count;
    keep_text(model, bytes, count);
    if (inner->line == NULL && (inner->line = malloc(LINE_BYTES_MAX + 1)) == NULL) {
        inner->nomem = true;
        return;
    }
    for (size_t i = 0; i < count; i++) {
        char byte = bytes[i];
        if (byte != '\n' && byte != '\r') {
            if (inner->line_bytes < LINE_BYTES_MAX)
                inner->line[inner->line_bytes++] = byte == '\0' ? ' ' : byte;
            continue;
        }
        inner->line[inner->line_bytes] = '\0';
        if (inner->line_bytes > 0)
            scan_line(model, t_ns, inner->line);
        inner->line_bytes = 0;
    }
}

void gwi_stderr_finish(gw_model *model)
{
    if (model->inner->line == NULL || model->inner->line_bytes == 0)
        return;
    model->inner->line[model->inner->line_bytes] = '\0';
    scan_line(model, model->inner->t_last_ns, model->inner->line);
    model->inner->line_bytes = 0;
}

gw_exception_kind gw_exception_kind_of(const gw_stderr_facts *facts)
{
    const char *text = facts->exception.text;
    if (!facts->exception.seen)
        return GW_EXCEPTION_NONE;
    if (HAS_ANY(text, oom_words) || facts->exception_chain_oom)
        return GW_EXCEPTION_OOM;
    if (HAS_ANY(text, cuda_words) || HAS_ANY(text, library_words) || HAS_ANY(text, start_words))
        return GW_EXCEPTION_GPU;
    return GW_EXCEPTION_SCRIPT;
}

bool gw_exception_may_follow_refusal(const gw_stderr_facts *facts)
{
    return facts->exception.seen &&
           (facts->exception_is_chained || facts->exception_lacks_value || speaks_of_memory(facts->exception.text));
}
