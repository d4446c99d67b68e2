/* Stores what the program wrote to stderr, reads it as a log (src/logs) at the end of the run, and sorts the lines with
 * a known meaning into facts.
 *
 * A Python traceback is "Traceback (most recent call last):", then frames, then a line with the name of the exception.
 * gw_log_exception() finds the exception that ended the program. */
#define _GNU_SOURCE
#include "gwi_inner.h"

#include "gw_array.h"
#include "gw_logs.h"
#include "gw_text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_BYTES_MAX = 1 << 20, TEXT_BEGIN_BYTES = 256 << 10, TEXT_END_BYTES = 256 << 10 };

/* ---- the text ---- */

/* Make room for `more` bytes at the end of the stored stderr text. A text longer than TEXT_BYTES_MAX loses its middle
 * part. Returns false if out of memory. */
static bool make_text_room(gw_model *model, size_t more)
{
    gw_stderr_facts *facts = &model->stderr_facts;
    if (facts->output->bytes + more > TEXT_BYTES_MAX) {
        const char *end = facts->output->text + facts->output->bytes - TEXT_END_BYTES;
        const char *line = memchr(end, '\n', TEXT_END_BYTES);
        size_t kept = line == NULL ? TEXT_END_BYTES : (size_t)(facts->output->text + facts->output->bytes - line) - 1;
        if (facts->output->gap == 0) {
            facts->output->gap = TEXT_BEGIN_BYTES;
            while (facts->output->gap > 1 && facts->output->text[facts->output->gap - 1] != '\n')
                facts->output->gap--;
        }
        memmove(facts->output->text + facts->output->gap, facts->output->text + facts->output->bytes - kept, kept);
        facts->output->bytes = facts->output->gap + kept;
    }
    return gw_array_reach(&facts->output->text, facts->output->bytes + more, &facts->output->capacity, 1);
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
        memcpy(facts->output->text + facts->output->bytes, bytes, part);
        facts->output->bytes += part;
        bytes += part;
        count -= part;
    }
}

static void keep_time(gw_model *model, uint64_t t_ns)
{
    enum { TIMES_MAX = 1 << 16 };
    const uint64_t apart_ns = 100000000u;
    gw_stderr_facts *facts = &model->stderr_facts;
    if (facts->output->time_count == TIMES_MAX) { /* drop every second time */
        for (facts->output->time_count = 0; facts->output->time_count < TIMES_MAX / 2; facts->output->time_count++)
            facts->output->time[facts->output->time_count] = facts->output->time[2 * facts->output->time_count];
    }
    if (facts->output->time_count > 0 && t_ns < facts->output->time[facts->output->time_count - 1].t_ns + apart_ns)
        return;
    if (gw_array_room(&facts->output->time, facts->output->time_count, &facts->output->time_room,
                      sizeof *facts->output->time))
        facts->output->time[facts->output->time_count++] = (gwi_stderr_time){facts->bytes, t_ns};
    else
        model->inner->nomem = true;
}

static uint64_t t_ns_of(const gw_stderr_facts *facts, size_t at)
{
    uint64_t byte =
        at < facts->output->gap || facts->output->gap == 0 ? at : facts->bytes - (facts->output->bytes - at);
    size_t first = 0;
    for (size_t end = facts->output->time_count; end - first > 1;) {
        size_t middle = first + (end - first) / 2;
        if (facts->output->time[middle].byte <= byte)
            first = middle;
        else
            end = middle;
    }
    return facts->output->time_count == 0 ? 0 : facts->output->time[first].t_ns;
}

/* Return the index in `text` at which this line of the log begins. */
static size_t begin_of(const gw_stderr_facts *facts, uint32_t file, uint64_t line)
{
    const char *end = facts->output->text + facts->output->bytes,
               *at = facts->output->text + (file == 0 ? 0 : facts->output->gap);
    for (uint64_t i = 1; i < line && at < end; i++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        at = stop == NULL ? end : stop + 1;
    }
    return (size_t)(at - facts->output->text);
}

uint64_t gw_stderr_line_t_ns(const gw_stderr_facts *facts, uint32_t file, uint64_t line)
{
    return t_ns_of(facts, begin_of(facts, file, line));
}

bool gw_stderr_is_inside(const gw_stderr_facts *facts, const gw_log_find *find)
{
    return facts->inside_pid != 0 && begin_of(facts, find->file, find->line) >= facts->output->inside_at;
}

/* True for a line of gpuwhy, or of the loader about a library of gpuwhy that a process does not see. */
static bool is_of_gpuwhy(const char *line, size_t bytes)
{
    static const char ours[] = "gpuwhy: ", loader[] = "ERROR: ld.so: object '", facade[] = "/gpuwhy/facade-";
    return (bytes >= sizeof ours - 1 && memcmp(line, ours, sizeof ours - 1) == 0) ||
           (bytes >= sizeof loader - 1 && memcmp(line, loader, sizeof loader - 1) == 0 &&
            memmem(line, bytes, facade, sizeof facade - 1) != NULL);
}

const char *gw_stderr_line_before(const gw_stderr_facts *facts, size_t *at, size_t *ret_bytes)
{
    const struct gwi_stderr_output none = {0}, *output = facts->output == NULL ? &none : facts->output;
    const char *text = output->text;
    *ret_bytes = 0;
    if (*at == SIZE_MAX)
        *at = facts->inside_pid != 0 ? output->inside_at : output->bytes;
    while (*at > 0 && *ret_bytes == 0) {
        size_t begin = *at, end = *at;
        while (begin > 0 && text[begin - 1] != '\n' && text[begin - 1] != '\r')
            begin--;
        *at = begin > 0 ? begin - 1 : 0;
        while (begin < end && isspace((unsigned char)text[begin]))
            begin++;
        while (begin < end && isspace((unsigned char)text[end - 1]))
            end--;
        *ret_bytes = is_of_gpuwhy(text + begin, end - begin) ? 0 : end - begin;
        if (*ret_bytes > 0)
            return text + begin;
    }
    return "";
}

void gwi_stderr_part(gw_model *model, uint64_t t_ns, const char *bytes, size_t count)
{
    gw_stderr_facts *facts = &model->stderr_facts;
    if (facts->output == NULL && (facts->output = calloc(1, sizeof *facts->output)) == NULL) {
        model->inner->nomem = true;
        return;
    }
    keep_time(model, t_ns);
    facts->bytes += count;
    keep_text(model, bytes, count);
}

void gwi_stderr_free(gw_stderr_facts *facts)
{
    if (facts->output != NULL) {
        free(facts->output->text);
        free(facts->output->time);
    }
    free(facts->output);
    gw_log_free(facts->log);
}

/* ---- the lines ---- */

/* What a line of the output is about. One line can be about several of these. */
enum {
    OOM = 1,          /* a framework or the driver refused memory of the GPU */
    CUDA = 1 << 1,    /* an error of CUDA */
    LIBRARY = 1 << 2, /* an error of a CUDA library */
    GPU = 1 << 3,     /* another problem of the GPU or its driver */
    ASSERT = 1 << 4,
    HOST = 1 << 5, /* memory of the host */
    CRASH = 1 << 6,
    UNCAUGHT = 1 << 7, /* an uncaught C++ exception */
    CHILD = 1 << 8,    /* only reports that another process failed */
    NO_VALUE = 1 << 9,
    MEMORY = 1 << 10 /* mentions memory */
};

static const struct {
    gw_sign sign;
    unsigned about;
} meanings[] = {{GW_SAYS_TORCH_OOM, OOM},         {GW_SAYS_OOM_WORDS, OOM},        {GW_SAYS_XLA_OOM, OOM},
                {GW_SAYS_BFC_OOM, OOM},           {GW_SAYS_CUDA_NAME, CUDA},       {GW_SAYS_CUDA_RUNTIME_NAME, CUDA},
                {GW_SAYS_CUDA_NUMBER, CUDA},      {GW_SAYS_CUDA_TEXT, CUDA},       {GW_SAYS_CUDA_SHORT_TEXT, CUDA},
                {GW_SAYS_CUDA_ERROR, CUDA},       {GW_SAYS_CUDNN_STATUS, LIBRARY}, {GW_SAYS_CUBLAS_STATUS, LIBRARY},
                {GW_SAYS_LIBRARY_ERROR, LIBRARY}, {GW_SAYS_NO_DRIVER, GPU},        {GW_SAYS_NO_DEVICE, GPU},
                {GW_SAYS_DRIVER_OLD, GPU},        {GW_SAYS_CPU_BUILD, GPU},        {GW_SAYS_DEVICE_ASSERT, ASSERT},
                {GW_SAYS_HOST_MEMORY, HOST},      {GW_SAYS_SEGFAULT, CRASH},       {GW_SAYS_BUS_ERROR, CRASH},
                {GW_SAYS_HEAP_DAMAGE, CRASH},     {GW_SAYS_PYTHON_CRASH, CRASH},   {GW_SAYS_UNCAUGHT, UNCAUGHT},
                {GW_SAYS_CHILD_EXCEPTION, CHILD}, {GW_SAYS_NO_VALUE, NO_VALUE},    {GW_SAYS_MEMORY_WORD, MEMORY}};

static bool is_out_of_memory(const gw_log_find *find)
{
    const char *name = gw_log_text(find, "name");
    return name != NULL && (strcmp(name, "OUT_OF_MEMORY") == 0 || strcmp(name, "MemoryAllocation") == 0);
}

static unsigned meaning_of(const gw_log_find *find)
{
    unsigned about = 0;
    for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++) {
        if (meanings[i].sign == find->sign)
            about |= meanings[i].about;
    }
    return (about & CUDA) != 0 && is_out_of_memory(find) ? about | OOM : about;
}

/* Return what the line of `find` is about. `find` is the first find of its line. */
static unsigned line_meaning(const gw_log *log, const gw_log_find *find)
{
    const gw_log_find *end = log->find + log->find_count;
    unsigned about = 0;
    for (const gw_log_find *at = find; at < end && at->order == find->order; at++)
        about |= meaning_of(at);
    return about;
}

static void keep(const gw_stderr_facts *facts, gw_stderr_line *line, const gw_log_find *find, bool newest)
{
    line->count++;
    if (line->seen && !newest)
        return;
    line->seen = true;
    line->t_ns = gw_stderr_line_t_ns(facts, find->file, find->line);
    line->find = find;
}

/* ---- tracebacks ---- */

/* The traceback that is being read, or the last one. */
typedef struct trace {
    bool is_open, chain, chain_oom, is_chained, after_oom, of_thread;
    bool is_kept;             /* an exception of this traceback's chain is the one in the facts */
    bool ended_well;          /* the program exited with status 0 */
    const gw_log_find *ended; /* the exception that ended the program; NULL: none */
    const gw_log_find *frame; /* innermost one */
    uint64_t oom_order, thread_order;
    gw_exception_kind kind; /* of the last exception */
} trace;

static void begin_trace(gw_stderr_facts *facts, trace *it, const gw_log_find *find)
{
    enum { LINES_BETWEEN_MAX = 2 };
    if (!it->chain)
        it->chain_oom = it->is_chained = it->of_thread = it->is_kept = false;
    it->after_oom = facts->oom.seen && find->order <= it->oom_order + LINES_BETWEEN_MAX + 1;
    it->of_thread = it->of_thread || (it->thread_order > 0 && find->order == it->thread_order + 1);
    it->is_open = true;
    it->chain = false;
    it->frame = NULL;
    facts->traceback = true;
}

/* Forget the last traceback. An exception outside a traceback belongs to none. */
static void forget_trace(trace *it)
{
    it->frame = NULL;
    it->chain_oom = it->is_chained = it->after_oom = it->of_thread = it->is_kept = false;
}

/* True if the line begins with the exception's name. A line of source code in a traceback may contain such a name. */
static bool begins_with_type(const gw_log_find *find)
{
    const char *type = gw_log_text(find, "type");
    return type != NULL && gw_begins(find->text, type);
}

/* Return the exception that ended the program. The output of a run is no excerpt, so it has a traceback. NULL: none. */
static const gw_log_find *exception_of(const gw_log *log, bool *ret_about_child)
{
    const gw_log_find *find = gw_log_exception(log, ret_about_child);
    bool is_told = find != NULL && begins_with_type(find) && gw_log_has_traceback(log, find);
    *ret_about_child = *ret_about_child && is_told;
    return is_told ? find : NULL;
}

/* True if the exception ended a thread. Some exceptions are usual in threads whose peer ends first. */
static bool ends_thread(const trace *it, const gw_log_find *find)
{
    static const char *const usual[] = {"EOFError", "BrokenPipeError", "ConnectionResetError", "ConnectionRefusedError",
                                        "KeyboardInterrupt"};
    return it->of_thread && !GW_IS_ONE_OF(gw_log_text(find, "type"), usual);
}

/* True if the exception replaces the one in the facts as the end of the program or of a thread. A thread does not come
 * back, even if the program goes on, so a usual end of another thread does not hide its exception. */
static bool is_end(const gw_stderr_facts *facts, const trace *it, const gw_log_find *find)
{
    bool ends = ends_thread(it, find), has_end = it->ended != NULL && facts->exception.find == it->ended;
    if (facts->exception_ended_thread && !ends && !it->is_kept && (it->of_thread || it->ended_well))
        return false;
    if (find == it->ended)
        return true;
    return it->of_thread && (it->ended == NULL || it->is_kept || (ends && (!has_end || it->ended_well)));
}

static void end_trace(gw_stderr_facts *facts, trace *it, const gw_log_find *find, unsigned about)
{
    it->is_open = false;
    if ((about & OOM) != 0 || it->chain_oom)
        it->kind = GW_EXCEPTION_OOM;
    else
        it->kind = (about & (CUDA | LIBRARY | GPU)) != 0 ? GW_EXCEPTION_GPU : GW_EXCEPTION_SCRIPT;
    if ((about & CHILD) != 0)
        keep(facts, &facts->child_exception, find, true);
    if (!is_end(facts, it, find))
        return;
    const char *type = gw_log_text(find, "type");
    it->is_kept = true;
    keep(facts, &facts->exception, find, true);
    facts->frame = (gw_stderr_line){0};
    if (it->frame != NULL)
        keep(facts, &facts->frame, it->frame, true);
    snprintf(facts->exception_type, sizeof facts->exception_type, "%.95s", type);
    facts->exception_kind = it->kind;
    facts->exception_after_oom = it->after_oom;
    facts->exception_ended_thread = ends_thread(it, find);
    facts->exception_goes_on = false;
    facts->exception_chain_oom = it->chain_oom;
    facts->exception_is_chained = it->is_chained;
    facts->exception_lacks_value = (about & NO_VALUE) != 0;
    facts->exception_mentions_memory = (about & MEMORY) != 0;
}

static void trace_line(gw_stderr_facts *facts, trace *it, const gw_log_find *find, unsigned about)
{
    if (find->sign == GW_SAYS_TRACEBACK) {
        begin_trace(facts, it, find);
    } else if (find->sign == GW_SAYS_THREAD_ENDED) {
        it->thread_order = find->order;
    } else if (find->sign == GW_SAYS_CHAINED) {
        it->chain_oom = it->chain_oom || it->kind == GW_EXCEPTION_OOM;
        it->chain = it->is_chained = true;
    } else if (it->is_open && find->sign == GW_SAYS_FRAME) {
        it->frame = find;
    } else if (find == it->ended || (it->is_open && find->sign == GW_SAYS_EXCEPTION && begins_with_type(find))) {
        if (!it->is_open)
            forget_trace(it);
        end_trace(facts, it, find, about);
    } else if (find->sign == GW_SAYS_GOES_ON) {
        facts->exception_goes_on = facts->exception.seen;
    } else if (find->sign == GW_SAYS_EXCEPTION && strcmp(gw_log_text(find, "type"), facts->exception_type) == 0) {
        facts->exception_goes_on = false; /* the program prints the exception again */
    }
}

/* ---- the facts ---- */

static void plain_line(gw_stderr_facts *facts, trace *it, const gw_log_find *find, unsigned about)
{
    if ((about & OOM) != 0) {
        keep(facts, &facts->oom, find, false);
        keep(facts, &facts->oom_last, find, true);
        it->oom_order = find->order;
    }
    if ((about & CUDA) != 0)
        keep(facts, &facts->result, find, true);
    if ((about & LIBRARY) != 0)
        keep(facts, &facts->library_status, find, false);
    if ((about & HOST) != 0)
        keep(facts, &facts->host_memory, find, false);
    if ((about & CRASH) != 0)
        keep(facts, &facts->fatal, find, false);
    if ((about & ASSERT) != 0)
        keep(facts, &facts->device_assert, find, false);
    if ((about & UNCAUGHT) != 0)
        keep(facts, &facts->terminate, find, true);
}

/* Find the last line, and return the index in `text` at which it begins. */
static size_t find_last(gw_stderr_facts *facts)
{
    size_t end = facts->output->bytes, bytes;
    const char *line = gw_stderr_line_before(facts, &end, &bytes);
    if (bytes == 0)
        return 0;
    size_t at = (size_t)(line - facts->output->text);
    facts->last = (gw_stderr_line){.seen = true, .count = 1, .t_ns = t_ns_of(facts, at)};
    return at;
}

/* Return a find of the line that contains the index `at` of `text`. Returns NULL if there is none. */
static const gw_log_find *find_at(const gw_stderr_facts *facts, size_t at)
{
    for (size_t i = facts->log->find_count; i-- > 0;) {
        size_t begin = begin_of(facts, facts->log->find[i].file, facts->log->find[i].line);
        if (begin <= at)
            return memchr(facts->output->text + begin, '\n', at - begin) == NULL ? &facts->log->find[i] : NULL;
    }
    return NULL;
}

static gw_status read_text(const gw_stderr_facts *facts, gw_log **ret_log, gw_error *err)
{
    gw_log_reader *reader = NULL;
    size_t first = facts->output->gap > 0 ? facts->output->gap : facts->output->bytes;
    gw_status st = gw_log_open(&reader, err);
    if (st == GW_OK)
        st = gw_log_begin(reader, "stderr", err);
    if (st == GW_OK)
        st = gw_log_feed(reader, facts->output->text, first, err);
    if (st == GW_OK && facts->output->gap > 0)
        st = gw_log_begin(reader, "end of stderr", err); /* a separate file: text before it is missing */
    if (st == GW_OK && facts->output->gap > 0)
        st = gw_log_feed(reader, facts->output->text + facts->output->gap, facts->output->bytes - facts->output->gap,
                         err);
    if (st == GW_OK)
        return gw_log_finish(reader, ret_log, err);
    gw_log_cancel(reader);
    return st;
}

void gwi_stderr_finish(gw_model *model)
{
    gw_stderr_facts *facts = &model->stderr_facts;
    gw_error err = {0};
    trace it = {.ended_well = gw_run_ended_well(model)};
    unsigned about = 0;
    if (facts->output == NULL || facts->output->bytes == 0)
        return;
    size_t last = find_last(facts);
    if (!gw_logs_are_supported())
        return;
    gw_status st = read_text(facts, &facts->log, &err);
    if (st != GW_OK) {
        model->inner->nomem = model->inner->nomem || st == GW_NOMEM;
        return;
    }
    it.ended = exception_of(facts->log, &facts->exception_about_child);
    for (size_t i = 0; i < facts->log->find_count; i++) {
        const gw_log_find *find = &facts->log->find[i];
        bool is_new = i == 0 || find[-1].order != find->order;
        about = is_new ? line_meaning(facts->log, find) : about;
        trace_line(facts, &it, find, about);
        if (is_new)
            plain_line(facts, &it, find, about);
    }
    facts->last.find = find_at(facts, last);
}

const char *gw_stderr_field(const gw_stderr_facts *facts, const gw_stderr_line *line, gw_sign sign, const char *field)
{
    const gw_log_find *find = line->find == NULL ? NULL : gw_log_in_line(facts->log, sign, line->find->order);
    if (find == NULL)
        return NULL;
    return field == NULL ? "" : gw_log_text(find, field);
}

unsigned gw_stderr_code(const gw_stderr_facts *facts, const gw_stderr_line *line)
{
    unsigned code = 0;
    for (size_t i = 0; line->find != NULL && i < facts->log->find_count; i++) {
        if (facts->log->find[i].order == line->find->order && gw_log_cuda_code(&facts->log->find[i], &code))
            return code;
    }
    return 0;
}

const gw_log_find *gw_stderr_said(const gw_stderr_facts *facts, gw_sign sign, const char *field)
{
    for (size_t i = facts->log == NULL ? 0 : facts->log->find_count; i-- > 0;) {
        const gw_log_find *find = &facts->log->find[i];
        if (find->sign == sign && (field == NULL || gw_log_text(find, field) != NULL))
            return find;
    }
    return NULL;
}

bool gwi_stderr_is_about_child(const char *text)
{
    gw_log_reader *reader = NULL;
    gw_log *log = NULL;
    gw_error err;
    bool found = false;
    gw_status st = gw_log_open(&reader, &err);
    if (st == GW_OK)
        st = gw_log_begin(reader, "exception", &err);
    if (st == GW_OK)
        st = gw_log_feed(reader, text, strcspn(text, "\n"), &err);
    if (st == GW_OK && gw_log_finish(reader, &log, &err) == GW_OK)
        found = log->count[GW_SAYS_CHILD_EXCEPTION] > 0;
    else if (st != GW_OK)
        gw_log_cancel(reader);
    gw_log_free(log);
    return found;
}

gw_exception_kind gw_exception_kind_of(const gw_stderr_facts *facts)
{
    return facts->exception.seen ? facts->exception_kind : GW_EXCEPTION_NONE;
}

bool gw_exception_may_follow_refusal(const gw_stderr_facts *facts)
{
    return facts->exception.seen &&
           (facts->exception_is_chained || facts->exception_lacks_value || facts->exception_mentions_memory);
}
