/* Evaluates the numbers in out-of-memory messages. The messages always advise to avoid fragmentation, but their numbers
 * show the real cause:
 *
 *   PyTorch  total = free + reserved by this process + other use; reserved = allocated + idle
 *   TF, XLA  limit of the pool, bytes in use in the pool, request; free and total memory of the card at the start
 *
 * Established only by the size of one request: it is larger than all memory that the program could get, or than any
 * card. No other state of the memory would have let it succeed. */
#include "gwi_log.h"
#include "gwi_request.h"

#include "gw_text.h"

#include <stdio.h>
#include <string.h>

#define GIB ((uint64_t)1 << 30)

enum {
    CONTEXT_SHARE = 20, /* percent of a card that a process's context and libraries may take, beyond its pool */
    OWN_SHARE = 5,   /* used instead if the message has the memory of the whole process, without the driver's share */
    IDLE_SHARE = 8,  /* percent of the card: fewer idle bytes in the pool are not fragmentation */
    FULL_SHARE = 70, /* percent of the limit: a program that uses at least this much filled the card itself */
    NEARBY_LINES = 3,
    ASYNC_LINES = 4 /* lines below a message that may have its numbers (cudaMallocAsync) */
};

typedef struct sums {
    bool has_wanted, has_total, has_free, has_allocated, has_reserved, has_limit, has_own;
    uint64_t wanted, total, free, allocated, reserved, limit;
    uint64_t own;       /* memory of the whole process: pool, context, libraries */
    char other_pid[16]; /* pid of the largest other process; "": none is known */
} sums;

static void take(const gw_log_find *find, const char *field, bool *has, uint64_t *bytes)
{
    uint64_t value;
    if (!*has && gw_log_bytes(find, field, &value)) {
        *has = true;
        *bytes = value;
    }
}

typedef struct listed {
    char pid[16];
    uint64_t bytes;
} listed;

/* Read the next process in PyTorch's message: "Process 12 has 5.00 GiB memory in use." Moves *text past the start
 * of that entry. Returns false at the end. */
static bool next_listed(const char **text, listed *ret)
{
    char number[24], unit[8], both[40];
    while ((*text = strstr(*text, "Process ")) != NULL) {
        bool matches =
            sscanf(*text, "Process %15[0-9] has %23[0-9.] %7[A-Za-z] memory in use", ret->pid, number, unit) == 3;
        (*text)++;
        snprintf(both, sizeof both, "%s%s", matches ? number : "", matches ? unit : "");
        if (matches && gw_bytes_parse(both, &ret->bytes))
            return true;
    }
    return false;
}

/* Find the program itself, and the largest other process, in the message's list of processes.
 *
 * In a container, the message lacks "this process has", and the pids are those of the host. Then the program is the
 * process with the least memory that still holds its pool. */
static void take_listed(sums *s, const char *line)
{
    listed it, own = {.bytes = UINT64_MAX}, most = {0};
    uint64_t sum = 0, used = s->has_total && s->has_free && s->free <= s->total ? s->total - s->free : 0;
    for (const char *text = line; next_listed(&text, &it);) {
        sum += it.bytes;
        if (it.bytes >= s->reserved && it.bytes < own.bytes)
            own = it;
    }
    bool is_listed = !s->has_own && own.bytes != UINT64_MAX && used < sum + s->reserved;
    for (const char *text = line; next_listed(&text, &it);) {
        if (it.bytes > most.bytes && !(is_listed && strcmp(it.pid, own.pid) == 0))
            most = it;
    }
    snprintf(s->other_pid, sizeof s->other_pid, "%s", most.pid);
    if (is_listed) {
        s->has_own = true;
        s->own = own.bytes;
    }
}

static bool is_async_sum(gw_sign sign)
{
    return sign == GW_SAYS_ASYNC_ALLOCATED || sign == GW_SAYS_ASYNC_REQUESTED || sign == GW_SAYS_ASYNC_LIMIT;
}

/* Collect all numbers from the log line `line`, and those that PyTorch's cudaMallocAsync allocator prints in the
 * lines below. */
static sums sums_of_line(const gw_log *log, const gw_log_find *line)
{
    sums s = {0};
    bool has_idle = false;
    uint64_t idle = 0;
    for (size_t i = 0; i < log->find_count; i++) {
        const gw_log_find *find = &log->find[i];
        bool is_below = find->order > line->order && find->order <= line->order + ASYNC_LINES;
        if (find->order != line->order && !(is_below && is_async_sum(find->sign)))
            continue;
        take(find, "wanted", &s.has_wanted, &s.wanted);
        take(find, "total", &s.has_total, &s.total);
        take(find, "free", &s.has_free, &s.free);
        take(find, "allocated", &s.has_allocated, &s.allocated);
        take(find, "reserved", &s.has_reserved, &s.reserved);
        take(find, "idle", &has_idle, &idle);
        take(find, "allowed", &s.has_limit, &s.limit);
        take(find, "own", &s.has_own, &s.own);
    }
    if (!s.has_reserved && has_idle && s.has_allocated) {
        s.has_reserved = true;
        s.reserved = s.allocated + idle;
    }
    if (strstr(line->text, "Tried to allocate more than 1EB") != NULL) { /* PyTorch's text for 2^60 bytes and more */
        s.has_wanted = true;
        s.wanted = (uint64_t)1 << 60;
    }
    take_listed(&s, line->text);
    return s;
}

static const gw_log_find *find_before(const gw_log *log, gw_sign sign, const gw_log_find *before)
{
    const gw_log_find *found = NULL;
    for (size_t i = 0; i < log->find_count; i++) {
        if (log->find[i].sign == sign && (before == NULL || log->find[i].order <= before->order))
            found = &log->find[i];
    }
    return found;
}

static bool is_memory(const gwi_statement *statement)
{
    switch (statement->find->sign) {
    case GW_SAYS_TORCH_OOM:
    case GW_SAYS_SUMMARY_OOMS:
    case GW_SAYS_OOM_WORDS:
    case GW_SAYS_XLA_OOM:
    case GW_SAYS_ORT_OOM:
    case GW_SAYS_TF_OOM_TENSOR:
    case GW_SAYS_TF_DEVICE_REFUSED:
    case GW_SAYS_BFC_OOM:
    case GW_SAYS_CUPY_OOM:
    case GW_SAYS_PADDLE_OOM:
    case GW_SAYS_JULIA_OOM:
        return true;
    default:
        return statement->code == 2;
    }
}

/* ---- PyTorch ---- */

/* Return the memory that the program could get at most. 0: unknown. */
static uint64_t limit_of(const sums *s)
{
    return s->has_limit ? s->limit : s->total;
}

/* True if PyTorch refused the request because of its own limit, although the card had enough free memory. */
static bool is_at_own_limit(const sums *s)
{
    return s->has_limit && s->has_total && s->has_free && s->has_wanted && s->limit < s->total && s->free >= s->wanted;
}

static bool weigh_other(gwi_statement *it, const sums *s)
{
    char rest[GW_BYTES_TEXT_MAX], total[GW_BYTES_TEXT_MAX], own[GW_BYTES_TEXT_MAX];
    uint64_t held = s->has_own ? s->own : s->reserved;
    if (!s->has_total || !s->has_free || !(s->has_reserved || s->has_own) || s->free + held > s->total ||
        is_at_own_limit(s))
        return false;
    uint64_t others = s->total - s->free - held;
    uint64_t context = s->total * (s->has_own ? OWN_SHARE : CONTEXT_SHARE) / 100;
    context = context < 2 * GIB ? context : 2 * GIB;
    if (others <= context || (s->has_wanted && s->wanted > s->free + others - context))
        return false;
    gwi_log_decide(it, "gpu-oom-other-process", GW_SUPPORTED,
                   "%s of the card's %s is neither free nor held by this process (which has %s)%s%s",
                   gw_bytes_text(rest, others), gw_bytes_text(total, s->total), gw_bytes_text(own, held),
                   s->other_pid[0] != '\0' ? "; the message names process " : "", s->other_pid);
    return true;
}

/* If far more was free on the card than was requested, neither the program nor other processes filled it. */
static bool weigh_free(gwi_statement *it, const sums *s)
{
    enum { TIMES = 4 };
    char wanted[GW_BYTES_TEXT_MAX], free_text[GW_BYTES_TEXT_MAX];
    if (!s->has_free || !s->has_wanted || is_at_own_limit(s) || s->free < GIB || s->free / TIMES < s->wanted)
        return false;
    gwi_log_decide(it, "gpu-oom-fragmentation", GW_HYPOTHESIS,
                   "%s were free on the card when %s was refused: the memory that is in use does not explain it",
                   gw_bytes_text(free_text, s->free), gw_bytes_text(wanted, s->wanted));
    return true;
}

static bool weigh_fragments(gwi_statement *it, const sums *s)
{
    char idle[GW_BYTES_TEXT_MAX], wanted[GW_BYTES_TEXT_MAX];
    if (!s->has_reserved || !s->has_allocated || !s->has_wanted || !s->has_total || s->reserved < s->allocated)
        return false;
    uint64_t bytes = s->reserved - s->allocated;
    if (bytes < s->wanted || bytes < s->total * IDLE_SHARE / 100)
        return false;
    gwi_log_decide(it, "gpu-oom-fragmentation", GW_SUPPORTED,
                   "%s were unused in the framework's pool, at least as much as the requested %s: no single piece was "
                   "large enough",
                   gw_bytes_text(idle, bytes), gw_bytes_text(wanted, s->wanted));
    return true;
}

/* Lower the certainty to a hypothesis if the message reports more memory in use than the card has. It may include
 * managed memory on the host, add up cards, or be damaged. */
static bool weigh_contradiction(gwi_statement *it, const sums *s)
{
    enum { ROUNDING = 50 }; /* the message rounds its numbers: allow 1/50 of the card as the error */
    char held[GW_BYTES_TEXT_MAX], total[GW_BYTES_TEXT_MAX];
    uint64_t most = s->reserved > s->allocated ? s->reserved : s->allocated;
    most = most > s->own ? most : s->own;
    if (!s->has_total || most <= s->total + s->total / ROUNDING || (s->has_wanted && s->wanted > s->total))
        return false;
    it->certainty = GW_HYPOTHESIS;
    snprintf(it->why, sizeof it->why,
             "the numbers of the message contradict each other: %s in use on a card of %s, so they decide nothing",
             gw_bytes_text(held, most), gw_bytes_text(total, s->total));
    return true;
}

/* Decide by the size of the request alone. ONNX Runtime's message does not name the memory, which may be the host's. */
static bool weigh_size(gwi_statement *it, const sums *s)
{
    char wanted[GW_BYTES_TEXT_MAX], total[GW_BYTES_TEXT_MAX];
    uint64_t limit = limit_of(s);
    if (s->has_wanted && gwi_is_impossible_size(s->wanted, s->total)) {
        it->is_impossible = true;
        gwi_log_decide(it, "gpu-oom-capacity", it->find->sign == GW_SAYS_ORT_OOM ? GW_SUPPORTED : GW_ESTABLISHED,
                       "one request of %s is larger than any card: the size was negative or overflowed",
                       gw_bytes_text(wanted, s->wanted));
        return true;
    }
    if (!s->has_wanted || limit == 0 || s->wanted <= limit)
        return false;
    gwi_log_decide(it, "gpu-oom-capacity", GW_ESTABLISHED, "one request of %s is larger than the available %s",
                   gw_bytes_text(wanted, s->wanted), gw_bytes_text(total, limit));
    return true;
}

static void drop_cause(gwi_statement *it, const char *cause)
{
    size_t kept = 0;
    for (size_t i = 0; i < it->cause_count; i++) {
        if (strcmp(it->cause[i], cause) != 0)
            it->cause[kept++] = it->cause[i];
    }
    it->cause_count = kept;
}

/* Exclude what the numbers of PyTorch's message exclude: all that others hold, and all that is idle in the pool, would
 * not have been enough for the request. */
static void exclude(gwi_statement *it, const sums *s)
{
    uint64_t held = s->has_own ? s->own : s->reserved, taken = s->free + held;
    if (!s->has_total || !s->has_free || !s->has_wanted || !(s->has_own || s->has_reserved) || taken > s->total)
        return;
    if (s->total - taken + s->free < s->wanted)
        drop_cause(it, "gpu-oom-other-process");
    if (s->has_reserved && s->has_allocated && s->reserved >= s->allocated &&
        s->reserved - s->allocated + s->free < s->wanted)
        drop_cause(it, "gpu-oom-fragmentation");
}

static bool weigh_capacity(gwi_statement *it, const sums *s)
{
    char wanted[GW_BYTES_TEXT_MAX], total[GW_BYTES_TEXT_MAX], held[GW_BYTES_TEXT_MAX];
    uint64_t limit = limit_of(s);
    if (!s->has_wanted || limit == 0)
        return false;
    char free_text[GW_BYTES_TEXT_MAX], card[GW_BYTES_TEXT_MAX];
    if (is_at_own_limit(s)) {
        gwi_log_decide(it, "gpu-oom-capacity", GW_SUPPORTED,
                       "PyTorch's own limit of %s (set_per_process_memory_fraction) was reached; %s of the card's %s "
                       "was free: raise that limit",
                       gw_bytes_text(total, limit), gw_bytes_text(free_text, s->free), gw_bytes_text(card, s->total));
        return true;
    }
    bool exceeds = s->has_allocated && s->allocated + s->wanted > limit;
    if (!s->has_allocated || (!exceeds && s->allocated < limit / 100 * FULL_SHARE))
        return false;
    gwi_log_decide(it, "gpu-oom-capacity", GW_SUPPORTED, "the program itself held %s of %s when it requested %s more%s",
                   gw_bytes_text(held, s->allocated), gw_bytes_text(total, limit), gw_bytes_text(wanted, s->wanted),
                   exceeds ? ": together more than that" : "");
    return true;
}

/* Evaluate torch.cuda.memory_summary(), if the log has it. The pool is fragmented if a request was refused while
 * over half of it was unused. */
static bool weigh_summary(const gwi_log_case *c, gwi_statement *it)
{
    uint64_t allocated, reserved;
    int64_t refused;
    char idle[GW_BYTES_TEXT_MAX], all[GW_BYTES_TEXT_MAX];
    const gw_log_find *ooms = find_before(c->log, GW_SAYS_SUMMARY_OOMS, NULL);
    const gw_log_find *allocated_line = find_before(c->log, GW_SAYS_SUMMARY_ALLOCATED, NULL);
    const gw_log_find *reserved_line = find_before(c->log, GW_SAYS_SUMMARY_RESERVED, NULL);
    enum { HALF = 2 };
    if (ooms == NULL || !gw_log_number(ooms, "count", &refused) || refused == 0 || allocated_line == NULL ||
        reserved_line == NULL || !gw_log_bytes(allocated_line, "bytes", &allocated) ||
        !gw_log_bytes(reserved_line, "bytes", &reserved) || allocated >= reserved / HALF)
        return false;
    gwi_log_decide(it, "gpu-oom-fragmentation", GW_SUPPORTED,
                   "%s of the pool's %s were unused when a request was refused, but no single piece was large enough",
                   gw_bytes_text(idle, reserved - allocated), gw_bytes_text(all, reserved));
    return true;
}

/* ---- again, and sooner ---- */

/* Find the first line with progress shortly after the line `at`, and store its step number in *ret_number. Returns
 * false if there is none. */
static bool step_after(const gw_log *log, const gw_log_find *at, int64_t *ret_number)
{
    for (size_t i = 0; i < log->find_count; i++) {
        const gw_log_find *find = &log->find[i];
        if (find->sign == GW_SAYS_PROGRESS && find->order >= at->order && find->order - at->order <= NEARBY_LINES &&
            gw_log_number(find, "number", ret_number))
            return true;
    }
    return false;
}

/* Report a leak if a request of this size was refused earlier in the log, at a higher step number. A second run has
 * begun, with the memory of the first still held. */
static bool weigh_again(const gwi_log_case *c, gwi_statement *it)
{
    int64_t now, before;
    const char *wanted = gw_log_text(it->find, "wanted");
    if (wanted == NULL || !step_after(c->log, it->find, &now))
        return false;
    for (const gwi_statement *earlier = c->statement; earlier < it; earlier++) {
        const char *same = gw_log_text(earlier->find, "wanted");
        if (earlier->find->order == it->find->order || same == NULL || strcmp(same, wanted) != 0 ||
            !step_after(c->log, earlier->find, &before) || before <= now)
            continue;
        gwi_log_decide(it, "gpu-oom-leak", GW_SUPPORTED,
                       "the same request failed before, at step %lld; this time at step %lld: the memory of the "
                       "previous run was not freed",
                       (long long)before, (long long)now);
        return true;
    }
    return false;
}

/* Report a leak as the first hypothesis if trials of a search ended before in the same process. */
static bool weigh_trials(const gwi_log_case *c, gwi_statement *it)
{
    const gw_log_find *ended = find_before(c->log, GW_SAYS_TRIAL_ENDED, it->find);
    if (ended == NULL || ended->rank != it->find->rank)
        return false;
    gwi_log_decide(it, "gpu-oom-leak", GW_HYPOTHESIS,
                   "trial %s ended before in the same process (line %llu): what it kept may still fill the card",
                   gw_log_text(ended, "number"), (unsigned long long)ended->line);
    return true;
}

/* ---- TensorFlow and XLA ---- */

static bool weigh_start(const gwi_log_case *c, gwi_statement *it)
{
    uint64_t free_bytes, total_bytes;
    char free_text[GW_BYTES_TEXT_MAX], total_text[GW_BYTES_TEXT_MAX];
    enum { HALF = 2 };
    const gw_log_find *free_line = find_before(c->log, GW_SAYS_TF_FREE_MEMORY, it->find);
    const gw_log_find *total_line = find_before(c->log, GW_SAYS_TF_TOTAL_MEMORY, it->find);
    if (free_line == NULL || total_line == NULL || !gw_log_bytes(free_line, "bytes", &free_bytes) ||
        !gw_log_bytes(total_line, "bytes", &total_bytes) || free_bytes > total_bytes / HALF)
        return false;
    gwi_log_decide(it, "gpu-oom-other-process", GW_SUPPORTED,
                   "when the program started using the card, only %s of its %s was free (line %llu)",
                   gw_bytes_text(free_text, free_bytes), gw_bytes_text(total_text, total_bytes),
                   (unsigned long long)free_line->line);
    return true;
}

static bool weigh_pool(const gwi_log_case *c, gwi_statement *it, const sums *s)
{
    uint64_t limit, used;
    char used_text[GW_BYTES_TEXT_MAX], limit_text[GW_BYTES_TEXT_MAX], wanted[GW_BYTES_TEXT_MAX];
    const gw_log_find *limit_line = find_before(c->log, GW_SAYS_BFC_LIMIT, NULL);
    const gw_log_find *used_line = find_before(c->log, GW_SAYS_BFC_INUSE_FIELD, NULL);
    if (limit_line == NULL || used_line == NULL || !s->has_wanted || !gw_log_bytes(limit_line, "bytes", &limit) ||
        !gw_log_bytes(used_line, "bytes", &used) || used > limit)
        return false;
    bool fits = limit - used >= s->wanted;
    gwi_log_decide(it, fits ? "gpu-oom-fragmentation" : "gpu-oom-capacity", GW_SUPPORTED,
                   "the pool had %s of %s in use when %s was requested%s", gw_bytes_text(used_text, used),
                   gw_bytes_text(limit_text, limit), gw_bytes_text(wanted, s->wanted),
                   fits ? ": enough memory was free in total, but no single piece was large enough" : "");
    return true;
}

/* If TensorFlow was refused memory for its pool, it asks for less. If a library then cannot create its handle, that is
 * the failure: the pool took the memory. */
static bool weigh_pool_and_handle(const gwi_log_case *c, gwi_statement *it)
{
    if (strstr(it->find->text, "bytes) from device") == NULL)
        return false;
    for (const gwi_statement *later = it + 1; later < c->statement + c->count; later++) {
        if (later->find->sign != GW_SAYS_CUDNN_HANDLE || later->survived)
            continue;
        gwi_log_decide(it, "gpu-oom-library-handle", GW_HYPOTHESIS,
                       "TensorFlow asks for less after such a refusal; then a library could not create its handle "
                       "(line %llu), because the pool had taken the memory",
                       (unsigned long long)later->find->line);
        return true;
    }
    return false;
}

/* If the driver had no memory for the program's context, other processes hold it: a process creates its context
 * before it allocates anything. */
static bool weigh_context(gwi_statement *it)
{
    if (strstr(it->find->text, "CtxRetain") == NULL && strstr(it->find->text, "CtxCreate") == NULL)
        return false;
    gwi_log_decide(it, "gpu-oom-other-process", GW_HYPOTHESIS,
                   "the card had no memory for the program's context, which a process needs before anything else");
    return true;
}

/* ---- handles of libraries ---- */

/* If a library could not create its handle or be initialised, and the framework then printed that enough memory was
 * free, memory is not the reason. */
static void weigh_handle(const gwi_log_case *c, gwi_statement *it)
{
    uint64_t free_bytes, total_bytes;
    char free_text[GW_BYTES_TEXT_MAX], total_text[GW_BYTES_TEXT_MAX];
    const gw_log_find *memory = find_before(c->log, GW_SAYS_HANDLE_MEMORY, NULL);
    if (strcmp(it->cause[0], "gpu-oom-library-handle") != 0 || memory == NULL ||
        !gw_log_bytes(memory, "free", &free_bytes) || !gw_log_bytes(memory, "total", &total_bytes) || free_bytes < GIB)
        return;
    gwi_log_decide(it, "library-version-mismatch", GW_HYPOTHESIS,
                   "%s of the card's %s was free when the handle could not be created (line %llu): memory was not the "
                   "reason",
                   gw_bytes_text(free_text, free_bytes), gw_bytes_text(total_text, total_bytes),
                   (unsigned long long)memory->line);
    drop_cause(it, "gpu-oom-library-handle");
    drop_cause(it, "gpu-oom-other-process");
    drop_cause(it, "gpu-oom-preallocation");
}

void gwi_log_weigh_memory(gwi_log_case *c)
{
    for (gwi_statement *it = c->statement; it < c->statement + c->count; it++) {
        weigh_handle(c, it);
        if (!is_memory(it))
            continue;
        sums s = sums_of_line(c->log, it->find);
        if (weigh_contradiction(it, &s) || weigh_again(c, it) || weigh_free(it, &s) || weigh_other(it, &s) ||
            weigh_start(c, it) || weigh_pool_and_handle(c, it) || weigh_context(it) || weigh_fragments(it, &s) ||
            weigh_pool(c, it, &s) || weigh_summary(c, it) || weigh_size(it, &s) || weigh_trials(c, it))
            continue;
        weigh_capacity(it, &s);
        exclude(it, &s);
    }
}
