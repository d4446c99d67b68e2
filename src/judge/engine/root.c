/* Determines which failure ended the process (the root).
 *
 * The first failed call is not always the root. Refused queries and consequences of a lost context are no failures
 * here. A lost context is the root unless a refused request explains it (roots.c). For refused requests for memory,
 * this rule decides:
 *
 *     The root is the first refusal after which the program did not go on.
 *
 * The refusals are checked from the newest to the oldest. For each, the evidence is the work until the next refusal
 * that meets the rule, or until the end. What proves that the program went on depends on what ended this work:
 * - Another refusal: a few granted requests in between, a separate exception of the framework for each, or a later
 *   request of the same thread in another library.
 * - An exception about the GPU's memory: a recovery that failures.c accepts. For the last refusal, other work is not
 *   enough.
 * - An exception about something else: a recovery, new work that was waited for, a little work of the refused thread,
 *   a thousand kernels, a smaller request from the same call site, or a traceback that does not pass the line of the
 *   request (see is_raised_elsewhere()).
 * - A signal or status alone, or an exception that a refusal may cause: a recovery, repeated requests and work of the
 *   refused thread, or a crash after a refusal that a framework had reported by an exception.
 *
 * If only other threads went on, the refused thread may have ended the process. Then no cause is established, and only
 * very much work shows that the program handled the refusal. The same certainty holds if the program may have handled
 * the refusal on the host (is_unsure_root()). */
#include "gw_logs.h"
#include "gwi_crash.h"
#include "gwi_roots.h"

#include <signal.h>
#include <string.h>

typedef enum went_on {
    WENT_ON_NOT,
    WENT_ON_PERHAPS, /* only other threads went on */
    WENT_ON
} went_on;

typedef enum raised_at {
    RAISED_UNKNOWN,   /* or at the line of the refused request */
    RAISED_BY_CALLER, /* by the function that had called the driver, or in a call of it, at another line */
    RAISED_ELSEWHERE  /* after this function had returned */
} raised_at;

typedef enum ended_by { ENDED_BY_MEMORY, ENDED_BY_OTHER_EXCEPTION, ENDED_SILENTLY } ended_by;

/* Classify the end of the process by the exception that ended it. */
static ended_by end_of(const gwi_case *c)
{
    const gw_stderr_facts *facts = &c->model->stderr_facts;
    if (c->exception == GW_EXCEPTION_OOM)
        return ENDED_BY_MEMORY;
    bool raised = c->exception == GW_EXCEPTION_SCRIPT && c->signal == 0;
    return c->ended && raised && !gw_exception_may_follow_refusal(facts) ? ENDED_BY_OTHER_EXCEPTION : ENDED_SILENTLY;
}

static bool is_refusal(const gwi_case *c, const gw_failure *failure)
{
    return failure->pid == c->process->pid && failure->is_allocation && !failure->is_echo && !failure->is_earlier &&
           !failure->is_probe;
}

/* ---- where the exception was raised ---- */

/* True for exceptions of Python itself that say nothing about a refused request, such as a missing key or file. */
static bool is_of_host(const char *type)
{
    static const char *const types[] = {"KeyError",           "IndexError",         "ValueError",
                                        "TypeError",          "AttributeError",     "NameError",
                                        "UnboundLocalError",  "ZeroDivisionError",  "OverflowError",
                                        "FileNotFoundError",  "FileExistsError",    "IsADirectoryError",
                                        "PermissionError",    "NotADirectoryError", "ImportError",
                                        "StopIteration",      "EOFError",           "ModuleNotFoundError",
                                        "UnicodeDecodeError", "UnicodeEncodeError", "json.decoder.JSONDecodeError"};
    return GW_IS_ONE_OF(type, types);
}

/* True if the frame runs the function in which this frame of a traceback is. */
static bool is_of_function(const gw_frame *frame, const gw_log_find *find)
{
    const char *file = gw_log_text(find, "file"), *function = gw_log_text(find, "function");
    if (file == NULL || function == NULL || !frame->python || frame->file == NULL || frame->function == NULL)
        return false;
    const char *dot = strrchr(frame->function, '.');
    return strcmp(gw_path_last(frame->file), gw_path_last(file)) == 0 &&
           strcmp(dot == NULL ? frame->function : dot + 1, function) == 0;
}

/* True if the stack has a frame of the function in which this frame of a traceback is, but none at its line. */
static bool has_left_line(const gw_stack *stack, const gw_log_find *find)
{
    bool any = false;
    int64_t line;
    if (!gw_log_number(find, "number", &line))
        return false;
    for (size_t i = 0; i < stack->count; i++) {
        const gw_frame *frame = &stack->frame[i];
        if (!is_of_function(frame, find))
            continue;
        if (frame->line == 0 || (int64_t)frame->line == line)
            return false;
        any = true;
    }
    return any;
}

/* Find where an exception of the host was raised, if its traceback shares a function with the stack of the refused
 * request, but at another line: that function had already left the line of the request. */
static raised_at raised_where(const gwi_case *c, const gw_failure *failure)
{
    const gw_stderr_facts *facts = &c->model->stderr_facts;
    const gw_stack *stack = failure->site == 0 ? NULL : gw_sites_stack(c->model->sites, failure->site);
    const gw_log_find *trace = facts->exception.find;
    bool has_left = false, is_in_caller = false;
    size_t caller = 0;
    if (stack == NULL || trace == NULL || !is_of_host(facts->exception_type))
        return RAISED_UNKNOWN;
    while (caller < stack->count && !stack->frame[caller].python)
        caller++;
    while (trace > facts->log->find && trace->sign != GW_SAYS_TRACEBACK)
        trace--;
    for (; trace < facts->exception.find; trace++) {
        bool is_frame = trace->sign == GW_SAYS_FRAME;
        has_left = has_left || (is_frame && has_left_line(stack, trace));
        is_in_caller =
            is_in_caller || (is_frame && caller < stack->count && is_of_function(&stack->frame[caller], trace));
    }
    if (!has_left)
        return RAISED_UNKNOWN;
    return is_in_caller ? RAISED_BY_CALLER : RAISED_ELSEWHERE;
}

/* True if the exception was raised elsewhere, after the program had handled the refusal. The function that had called
 * the driver may have checked the result at a later line, unless a framework had raised an exception for the request,
 * or the refused thread went on. */
static bool is_raised_elsewhere(const gwi_case *c, const gw_failure *failure)
{
    bool is_handled = failure->allocator >= 0 || c->framework != GW_FRAMEWORK_RAW || failure->after.own_work > 0;
    raised_at where = raised_where(c, failure);
    return where == RAISED_ELSEWHERE || (where == RAISED_BY_CALLER && is_handled);
}

/* ---- until the next refusal ---- */

/* Count the requests that were granted before the failure. Returns false if the number is not known. */
static bool granted_before(const gw_model *model, const gw_failure *failure, uint64_t *ret_count)
{
    if (failure->snapshot < 0)
        return false;
    *ret_count = model->snapshot[failure->snapshot].order;
    return true;
}

/* True if the framework's own allocator reported this refusal, so that it may have gone on without a driver call. */
static bool is_of_framework(const gw_model *model, const gw_failure *failure)
{
    return failure->allocator >= 0 && !model->allocator[failure->allocator].is_other_refused;
}

static bool was_granted_between(const gw_model *model, const gw_failure *failure, const gw_failure *next)
{
    enum { GRANTED_MIN = 4 };
    uint64_t then, now;
    return !is_of_framework(model, failure) && !is_of_framework(model, next) && granted_before(model, failure, &then) &&
           granted_before(model, next, &now) && now >= then + GRANTED_MIN;
}

/* True if the framework raised a separate exception for each of the two failures. Its last report of an out-of-memory
 * error is about `next` only. The exception that ended the program is not chained to an earlier one. */
static bool was_raised_apart(const gwi_case *c, const gw_failure *failure, const gw_failure *next)
{
    const gw_model *model = c->model;
    size_t last = model->allocator_count;
    while (last > 0 && !(model->allocator[last - 1].is_oom && model->allocator[last - 1].pid == failure->pid))
        last--;
    return end_of(c) == ENDED_BY_MEMORY && !model->stderr_facts.exception_chain_oom && last > 0 &&
           next->allocator == (int)(last - 1) && failure->allocator != next->allocator;
}

/* True if the framework raised an exception about `failure`, and the same thread later made the request `next` in
 * another library. So the program, or the framework itself, has caught that exception. */
static bool was_caught(const gwi_case *c, const gw_failure *failure, const gw_failure *next)
{
    const gw_model *model = c->model;
    if (failure->allocator < 0 || next->allocator < 0 || failure->tid != next->tid)
        return false;
    return model->allocator[failure->allocator].is_oom && model->allocator[next->allocator].is_other_refused &&
           c->exception != GW_EXCEPTION_OOM && !model->stderr_facts.exception_chain_oom;
}

/* ---- until the end ---- */

/* True if the framework's own allocator refused a request after this failure. No driver call shows such a refusal. */
static bool is_told_later(const gw_model *model, const gw_failure *failure)
{
    for (size_t i = 0; i < model->allocator_count; i++) {
        const gw_allocator_report *report = &model->allocator[i];
        if (report->is_oom && report->pid == failure->pid && report->t_ns > failure->t_last_ns &&
            failure->allocator != (int)i)
            return true;
    }
    return false;
}

/* True if the refused thread later got memory and worked with it. */
static bool thread_worked(const gw_failure *failure)
{
    enum { REQUESTS_MIN = 1, ALL_MIN = 16 };
    return failure->after.own_allocs >= REQUESTS_MIN && failure->after.own_allocs + failure->after.own_work >= ALL_MIN;
}

/* True if the refused thread repeatedly got memory and worked with it. Successive requests alone may all come before
 * the program's first check for a refusal. */
static bool thread_worked_on(const gw_failure *failure)
{
    enum { REQUESTS_MIN = 8, WORK_MIN = 4 };
    uint64_t work = failure->after.own_work + failure->after.own_waits + failure->after.turns;
    return failure->after.own_allocs >= REQUESTS_MIN && work >= WORK_MIN;
}

/* True if the process launched at least 1,000 kernels after the failure, from any thread, whether or not the program
 * waited for them. */
static bool was_launched_much(const gw_failure *failure)
{
    enum { MUCH = 1000 };
    return failure->after.launches != UINT64_MAX && failure->after.launches >= MUCH;
}

static went_on went_on_to_end(const gwi_case *c, const gw_failure *failure, bool is_last)
{
    enum { VERY_MUCH_WORK = 1000 };
    bool recovered = failure->recovery != GW_RECOVERED_NOT;
    bool by_work = failure->recovery == GW_RECOVERED_BY_WORK || failure->recovery == GW_RECOVERED_BY_REQUESTS;
    bool own = failure->after.own_allocs + failure->after.own_work > 0;
    if (c->is_thread_death && !own && end_of(c) == ENDED_BY_MEMORY)
        return WENT_ON_NOT; /* only the other threads went on */
    if (failure->after.null_used_at != 0 && !failure->next.is_retry)
        return WENT_ON_NOT;
    switch (end_of(c)) {
    case ENDED_BY_MEMORY:
        return recovered && !(is_last && by_work && !is_told_later(c->model, failure)) ? WENT_ON : WENT_ON_NOT;
    case ENDED_BY_OTHER_EXCEPTION:
        if (own && (recovered || failure->after.worked || thread_worked(failure)))
            return WENT_ON;
        if ((recovered && !own) || was_launched_much(failure) || gw_model_asked_for_less(failure) ||
            is_raised_elsewhere(c, failure))
            return WENT_ON_PERHAPS;
        return WENT_ON_NOT;
    case ENDED_SILENTLY:
        break;
    }
    if (gwi_is_crash(c) && is_of_framework(c->model, failure))
        return WENT_ON_PERHAPS; /* the framework raised an exception, which the program caught */
    if (own)
        return recovered || thread_worked_on(failure) ? WENT_ON : WENT_ON_NOT;
    return recovered && failure->after.work + failure->after.allocs >= VERY_MUCH_WORK ? WENT_ON_PERHAPS : WENT_ON_NOT;
}

/* ---- the rule ---- */

/* True if one of the last lines of the output is this line. */
static bool is_near_end(const gw_stderr_facts *facts, const gw_log_find *find)
{
    enum { LINES_MAX = 12 };
    size_t at = SIZE_MAX, bytes;
    for (int i = 0; i < LINES_MAX; i++) {
        const char *text = gw_stderr_line_before(facts, &at, &bytes);
        if (bytes == 0)
            return false;
        if (strncmp(find->text, text, bytes) == 0)
            return true;
    }
    return false;
}

/* True if the program printed at its end that it lacked memory, and did not announce that it goes on without. */
static bool says_memory(const gw_stderr_facts *facts)
{
    enum { NO_MEMORY = 2 };
    unsigned code;
    if (facts->exception_mentions_memory)
        return true;
    for (size_t i = facts->log == NULL ? 0 : facts->log->find_count; i-- > 0;) {
        const gw_log_find *find = &facts->log->find[i];
        bool is_memory = find->sign == GW_SAYS_MEMORY_WORD || find == facts->oom_last.find ||
                         (gw_log_cuda_code(find, &code) && code == NO_MEMORY);
        if (find->sign == GW_SAYS_GOES_ON)
            return false;
        if (is_memory && gw_log_in_line(facts->log, GW_SAYS_GOES_ON, find->order) == NULL)
            return is_near_end(facts, find);
    }
    return false;
}

bool gwi_is_crash(const gwi_case *c)
{
    return c->signal == SIGSEGV || c->signal == SIGBUS || c->signal == SIGFPE || c->signal == SIGILL;
}

/* True if the program may have handled the refusal on the host, without the GPU, and something else ended it:
 * - the exception that ended it is about something else
 * - it crashed, and did not use the NULL address of the refused request
 * - it did not print at its end that it lacked memory. Soon after the refusal, a silent abort needs no words, nor does
 *   a crash at a NULL address, nor a refusal that gpuwhy injected. */
static bool is_unsure_root(const gwi_case *c, const gw_failure *failure)
{
    static const uint64_t soon_ns = 1000000000u; /* enough to print a message, unwind and exit */
    if (end_of(c) == ENDED_BY_MEMORY)
        return false;
    if (failure->recovery != GW_RECOVERED_NOT)
        return true;
    if (failure->after.null_used_at != 0)
        return false;
    if (end_of(c) == ENDED_BY_OTHER_EXCEPTION)
        return true;
    const gw_crash *crash = gwi_crash_of(c);
    bool crashed = gwi_is_crash(c);
    if (crashed && (crash == NULL || !gwi_is_at_null(crash)))
        return true;
    bool is_silent_abort = c->signal == SIGABRT && c->model->stderr_facts.bytes == 0 &&
                           gw_model_fact(c->model, GW_FACT_STDERR_NOT_RECORDED) == NULL;
    bool is_soon = c->model->t_end_ns <= failure->t_last_ns + soon_ns;
    bool is_of_gpu = c->exception == GW_EXCEPTION_GPU; /* a library of the GPU failed right after the refusal */
    bool needs_words = !is_soon || !(crashed || is_silent_abort || is_of_gpu || failure->injected);
    return needs_words && !says_memory(&c->model->stderr_facts);
}

static went_on went_on_after(const gwi_case *c, const gw_failure *failure, const gw_failure *next, bool is_last)
{
    if (next != NULL && failure->after.null_used_at == 0 &&
        (was_granted_between(c->model, failure, next) || was_raised_apart(c, failure, next) ||
         was_caught(c, failure, next)))
        return WENT_ON;
    return went_on_to_end(c, failure, is_last);
}

/* Find the last refusal of the series that begins with c->oom. A series repeats the same request within a short
 * time. */
static void find_series(gwi_case *c)
{
    const gw_failure *end = c->model->failure + c->model->failure_count;
    c->oom_last = c->oom;
    for (const gw_failure *later = c->oom + 1; later < end; later++) {
        if (is_refusal(c, later) && later->recovery == GW_RECOVERED_NOT &&
            gwi_is_asked_again(c->oom, c->oom_last, later))
            c->oom_last = later;
    }
}

/* True if the program's output was not recorded completely, the recorded part does not say what ended the program, and
 * other requests were refused after those of c->oom. */
static bool is_unknown_which(const gwi_case *c)
{
    const gw_failure *end = c->model->failure + c->model->failure_count;
    const gw_stderr_facts *facts = &c->model->stderr_facts;
    if (gw_model_fact(c->model, GW_FACT_STDERR_NOT_RECORDED) == NULL || facts->exception.seen || says_memory(facts))
        return false;
    for (const gw_failure *later = c->oom_last + 1; later < end; later++)
        if (is_refusal(c, later) && later->recovery == GW_RECOVERED_NOT)
            return true;
    return false;
}

/* True if the events that show that the program went on after c->oom may be missing, and its end does not show that it
 * did not. */
static bool may_have_gone_on(const gwi_case *c)
{
    return end_of(c) != ENDED_BY_MEMORY && gwi_lost_after(c, c->oom_last->t_last_ns);
}

bool gwi_is_outlived(const gwi_case *c, const gw_failure *failure)
{
    if (c->process == NULL || failure->pid != c->process->pid || c->sticky != NULL)
        return failure->recovery != GW_RECOVERED_NOT || failure == c->handled || failure->after.worked;
    return c->oom == NULL || failure < c->oom || failure->recovery != GW_RECOVERED_NOT;
}

/* True if the refused thread itself certainly went on. */
static bool is_surely_handled(const gwi_case *c, const gw_failure *failure)
{
    enum { OWN_WORK_MIN = 4, OWN_REQUESTS_MANY = 1000 };
    bool settled = failure->recovery == GW_RECOVERED_BY_SIZE || failure->recovery == GW_RECOVERED_BY_SMALLER;
    bool own_work = failure->after.own_work + failure->after.own_waits >= OWN_WORK_MIN ||
                    failure->after.own_allocs >= OWN_REQUESTS_MANY;
    if (failure->after.own_allocs + failure->after.own_work == 0)
        return false;
    if (end_of(c) == ENDED_BY_OTHER_EXCEPTION)
        return settled || (own_work && (failure->recovery != GW_RECOVERED_NOT || thread_worked_on(failure)));
    return settled;
}

const gw_failure *gwi_doubtful_refusal(const gwi_case *c)
{
    if (c->process == NULL || !c->ended || !c->bad_end || c->root != NULL)
        return NULL;
    for (size_t i = c->model->failure_count; i-- > 0;) {
        if (is_refusal(c, &c->model->failure[i]) && !is_surely_handled(c, &c->model->failure[i]))
            return &c->model->failure[i];
    }
    return NULL;
}

void gwi_root_find(gwi_case *c)
{
    gwi_roots found = gwi_roots_of(c->model, c->process->pid);
    c->oom = found.oom;
    c->oom_last = found.oom_last;
    c->sticky = found.sticky;
    c->other = found.other;
    c->handled = found.handled;
    c->handled_count = found.handled_count;
    if (c->sticky == NULL && c->bad_end) {
        bool is_last = true;
        c->oom = c->oom_last = c->handled = NULL;
        c->handled_count = 0;
        for (size_t i = c->model->failure_count; i-- > 0;) {
            const gw_failure *failure = &c->model->failure[i];
            if (!is_refusal(c, failure))
                continue;
            went_on how = went_on_after(c, failure, c->oom, is_last);
            is_last = false;
            bool unsure = how == WENT_ON_PERHAPS || (how == WENT_ON_NOT && is_unsure_root(c, failure));
            c->is_root_unsure = c->is_root_unsure || unsure;
            if (how == WENT_ON_NOT) {
                c->oom = failure;
                continue;
            }
            c->handled = failure;
            c->handled_count += (size_t)failure->repeat_count;
        }
        if (c->oom != NULL) {
            find_series(c);
            c->is_root_unknown = is_unknown_which(c);
        }
    }
    found.oom = c->oom;
    c->root = gwi_root_of(&found);
    if (c->oom == NULL || c->root != c->oom)
        return;
    /* Without call sites, or if events of them may be lost, nothing shows whether the exception was raised elsewhere.
     */
    bool is_unplaced = end_of(c) == ENDED_BY_OTHER_EXCEPTION && is_of_host(c->model->stderr_facts.exception_type) &&
                       (gw_model_meta(c->model, "option.no_sites") != NULL ||
                        (c->process->lost_events > 0 && raised_where(c, c->oom) == RAISED_UNKNOWN));
    c->may_be_reported = end_of(c) == ENDED_BY_OTHER_EXCEPTION && c->oom->after.null_used_at == 0 &&
                         raised_where(c, c->oom) == RAISED_BY_CALLER;
    c->is_root_unknown = c->is_root_unknown || is_unplaced || c->may_be_reported || may_have_gone_on(c);
}
