/* Builds the case: chooses the process to judge, and determines how it ended and the state of memory at the time of its
 * root failure (root.c). */
#include "gw_logs.h"
#include "gw_model_replay.h"
#include "gw_text.h"
#include "gwi_cause.h"
#include "gwi_coverage.h"
#include "gwi_family.h"
#include "gwi_hang.h"
#include "gwi_ranks.h"
#include "gwi_roots.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory at the failure ---- */

/* True if the holder's memory is, or may be, on the CUDA device `wanted`. */
static bool is_held(const gw_model *model, const gw_fact_holder *holder, int wanted)
{
    if (holder->has_device)
        return (int64_t)holder->device == wanted;
    return !holder->has_card || gw_machine_device_of(model, holder->card) == wanted;
}

/* Find the list of holders recorded nearest to `t_ns`, and return its time. Returns false if none is within ten
 * seconds: it would belong to another failure. */
static bool find_telling(const gw_model *model, uint64_t t_ns, uint64_t *ret_t_ns)
{
    const uint64_t near_ns = 10000000000u;
    uint64_t least_ns = near_ns + 1;
    for (size_t i = 0; i < model->machine.holder_count; i++) {
        const gw_holder *holder = &model->machine.holder[i];
        if (holder->what != GW_FACT_CARD_HOLDER)
            continue;
        uint64_t apart_ns = holder->t_ns > t_ns ? holder->t_ns - t_ns : t_ns - holder->t_ns;
        if (apart_ns < least_ns) {
            least_ns = apart_ns;
            *ret_t_ns = holder->t_ns;
        }
    }
    return least_ns <= near_ns;
}

/* Set the memory of other processes from the list of holders recorded at the failure. The guard's limit includes only
 * this run, so ignore other processes if the guard refused the request. */
static void find_holders(const gw_model *model, const gw_failure *failure, gwi_memory *memory)
{
    /* Entries recorded within this time belong to one list. Two lists are at least a second apart. */
    const uint64_t together_ns = 400000000u;
    uint64_t largest = 0, sum = 0, told_ns = 0;
    bool any = false, told = find_telling(model, memory->t_ns, &told_ns);
    for (size_t i = 0; i < model->machine.holder_count && told; i++) {
        const gw_holder *said = &model->machine.holder[i];
        const gw_fact_holder *holder = &said->fact;
        if (said->what != GW_FACT_CARD_HOLDER || said->t_ns + together_ns < told_ns ||
            told_ns + together_ns < said->t_ns)
            continue;
        any = true;
        bool stranger = gw_model_process(model, holder->pid) == NULL;
        if (holder->pid == memory->pid || (failure->guard && stranger) || !is_held(model, holder, memory->device))
            continue;
        sum += holder->bytes;
        if (holder->bytes <= largest)
            continue;
        largest = holder->bytes;
        memory->foreign_pid = holder->pid;
        gw_fact_text_copy(memory->foreign_command, sizeof memory->foreign_command, holder->command);
    }
    memory->foreign_known = any;
    memory->foreign_bytes = sum;
    memory->foreign_recorded = memory->foreign_pid != 0 && gw_model_process(model, memory->foreign_pid) != NULL;
}

/* Set the memory of other processes from the ledger, if this run's processes on the same card allocated more than the
 * list of holders shows. */
static void find_siblings(const gw_model *model, const gw_failure *failure, gwi_memory *memory)
{
    /* The supervisor read the holders a little after the failure, so a process that was killed in between is only in
     * the ledger. */
    if (failure->around.other_bytes_total == 0 ||
        (memory->foreign_known && memory->foreign_bytes >= failure->around.other_bytes_total))
        return;
    if (failure->guard && failure->has_limit &&
        failure->bytes_used < memory->own_bytes + failure->around.other_bytes_total / 2)
        return; /* the guard counted only this process, so the others did not matter */
    memory->foreign_known = true;
    memory->foreign_recorded = memory->foreign_by_ledger = true;
    memory->foreign_bytes = failure->around.other_bytes_total;
    memory->foreign_pid = failure->around.other_pid;
    const gw_process *other = gw_model_process(model, failure->around.other_pid);
    if (other != NULL && other->exe != NULL)
        snprintf(memory->foreign_command, sizeof memory->foreign_command, "%.250s", other->exe);
}

static void from_failure(const gwi_case *c, const gw_failure *failure, gwi_memory *memory)
{
    memory->known = true;
    memory->t_ns = failure->t_last_ns;
    memory->pid = failure->pid;
    memory->device = failure->device < 0 ? 0 : failure->device;
    memory->call = failure->fn_name;
    memory->wanted_bytes = failure->bytes_wanted;
    memory->has_free = failure->has_info;
    memory->pools = failure->pools.count > 0 ? &failure->pools : NULL;
    if (failure->has_info) {
        memory->free_bytes = failure->info.bytes_free;
        memory->total_bytes = failure->info.bytes_total;
        memory->has_total = failure->info.bytes_total != 0;
    }
    if (failure->has_limit) {
        memory->has_limit = memory->limit_is_guard = true;
        memory->limit_bytes = failure->bytes_limit;
        if (!memory->has_free && failure->bytes_limit >= failure->bytes_used) {
            memory->has_free = true;
            memory->free_bytes = failure->bytes_limit - failure->bytes_used;
        }
    }
    const gw_snapshot *snapshot = gw_model_snapshot(c->model, failure->snapshot);
    if (snapshot != NULL) {
        memory->snapshot = snapshot;
        memory->own_bytes = snapshot->usage.live_bytes;
        memory->idle_page_bytes = snapshot->small_idle_bytes;
        memory->live = snapshot->live;
        memory->live_count = snapshot->live_count;
        memory->stream_count = snapshot->usage.class_count[GW_CLASS_STREAM];
        memory->context_count = snapshot->usage.class_count[GW_CLASS_CONTEXT];
        memory->made_context_count = memory->context_count - (snapshot->has_primary && memory->context_count > 0);
    }
    find_holders(c->model, failure, memory);
    find_siblings(c->model, failure, memory);
}

/* True if PyTorch's own limit, not the driver, refused the request. *ret_limit is then this limit. PyTorch reports it
 * to the observer as the total. A request that reached the driver was within this limit. */
static bool find_framework_limit(const gwi_case *c, const gw_allocator_report *report, uint64_t *ret_limit)
{
    const gw_device *device = &c->model->device[report->device];
    uint64_t limit = report->has_field[GW_ALLOCATOR_LIMIT] ? report->field[GW_ALLOCATOR_LIMIT] : 0;
    /* In a saved snapshot, GW_ALLOCATOR_LIMIT is only the memory that PyTorch had reserved, and bytes_total is
     * unknown. */
    bool is_saved = gw_model_meta(c->model, GW_META_SNAPSHOT) != NULL;
    if (limit == 0 && !is_saved && device->has_total && report->bytes_total < device->bytes_total / 100 * 99)
        limit = report->bytes_total; /* some versions of PyTorch report the limit only as the total */
    bool by_driver = c->oom_last != NULL && !(report->has_free && report->bytes_free >= report->bytes_wanted);
    *ret_limit = limit;
    return limit != 0 && !by_driver;
}

/* Use PyTorch's limit in place of the card's size. Free memory of the card beyond this limit cannot be used. */
static void take_framework_limit(const gwi_case *c, const gw_allocator_report *report, uint64_t limit,
                                 gwi_memory *memory)
{
    const gw_device *device = &c->model->device[memory->device];
    memory->has_limit = memory->limit_is_framework = true;
    memory->limit_bytes = limit;
    memory->card_free_known = report->has_free;
    memory->card_free_bytes = report->bytes_free;
    memory->card_bytes = device->has_total ? device->bytes_total : 0;
    if (report->bytes_total == 0) { /* a saved snapshot: `limit` is only a lower bound of the real limit */
        memory->has_free = memory->limit_is_about = true;
        memory->free_bytes = 0;
        return;
    }
    memory->has_free = memory->has_total = true;
    memory->total_bytes = limit;
    memory->free_bytes = limit > memory->reserved_bytes ? limit - memory->reserved_bytes : 0;
}

static void from_report(const gwi_case *c, const gw_allocator_report *report, gwi_memory *memory)
{
    if (!memory->known) {
        memory->known = true;
        memory->t_ns = report->t_ns;
        memory->pid = report->pid;
        memory->device = report->device;
        memory->call = "PyTorch's allocator";
    }
    memory->report = report;
    memory->wanted_bytes = report->bytes_wanted != 0 ? report->bytes_wanted : memory->wanted_bytes;
    if (!memory->has_free && report->has_free) {
        memory->has_free = true;
        memory->has_total = report->bytes_total != 0;
        memory->free_bytes = report->bytes_free;
        memory->total_bytes = report->bytes_total;
    }
    if (report->has_field[GW_ALLOCATOR_ALLOCATED])
        memory->own_bytes = report->field[GW_ALLOCATOR_ALLOCATED];
    if (report->has_field[GW_ALLOCATOR_RESERVED]) {
        memory->reserved_bytes = report->field[GW_ALLOCATOR_RESERVED];
        memory->cached_bytes =
            memory->reserved_bytes > memory->own_bytes ? memory->reserved_bytes - memory->own_bytes : 0;
    }
    uint64_t limit;
    if (!memory->has_limit && find_framework_limit(c, report, &limit))
        take_framework_limit(c, report, limit, memory);
    /* The driver's snapshot lists only the allocator's segments, but the report lists the live blocks in them. */
    memory->live = report->live;
    memory->live_count = report->live_count;
}

/* Return the size in the last message about a refused request. Returns 0 if no message has one. */
static uint64_t told_bytes(const gw_stderr_facts *facts)
{
    static const gw_sign signs[] = {GW_SAYS_TORCH_OOM, GW_SAYS_XLA_OOM, GW_SAYS_BFC_OOM};
    const gw_log_find *last = NULL;
    uint64_t bytes = 0;
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++) {
        const gw_log_find *find = gw_stderr_said(facts, signs[i], "wanted");
        if (find != NULL && (last == NULL || find->order > last->order) && gw_log_bytes(find, "wanted", &bytes))
            last = find;
    }
    return last != NULL && gw_log_bytes(last, "wanted", &bytes) ? bytes : 0;
}

/* TensorFlow's allocator prints its sums below the message. */
static bool told_pool(const gw_stderr_facts *facts, uint64_t *ret_limit, uint64_t *ret_used)
{
    const gw_log_find *limit = gw_stderr_said(facts, GW_SAYS_BFC_LIMIT, "bytes"),
                      *used = gw_stderr_said(facts, GW_SAYS_BFC_INUSE_FIELD, "bytes");
    return limit != NULL && used != NULL && gw_log_bytes(limit, "bytes", ret_limit) &&
           gw_log_bytes(used, "bytes", ret_used) && *ret_used <= *ret_limit && *ret_limit > 0;
}

/* Describe a refusal by a framework's own allocator, if only the message on stderr was recorded. */
static void from_stderr(const gwi_case *c, gwi_memory *memory)
{
    const gw_stderr_facts *facts = &c->model->stderr_facts;
    memory->known = true;
    memory->from_stderr = true;
    memory->t_ns = facts->oom.seen ? facts->oom.t_ns : facts->exception.t_ns;
    memory->pid = c->process == NULL ? 0 : c->process->pid;
    memory->call = "the framework's allocator";
    memory->wanted_bytes = told_bytes(facts);
    memory->has_pool = told_pool(facts, &memory->pool_limit_bytes, &memory->pool_used_bytes);
    if (c->process != NULL)
        memory->own_bytes = c->process->usage[0].peak_bytes;
}

/* Compute the memory in use that no known holder accounts for. */
static void find_rest(gwi_memory *memory)
{
    uint64_t total = memory->limit_is_guard ? memory->limit_bytes : memory->total_bytes;
    if (!memory->has_free || total == 0)
        return;
    uint64_t own = memory->own_bytes > memory->reserved_bytes ? memory->own_bytes : memory->reserved_bytes;
    if (memory->snapshot != NULL)
        own = memory->snapshot->held_bytes > memory->snapshot->usage.live_bytes ? memory->snapshot->held_bytes
                                                                                : memory->snapshot->usage.live_bytes;
    uint64_t accounted = memory->free_bytes + own + (memory->limit_is_guard ? 0 : memory->foreign_bytes);
    if (total < accounted)
        return;
    /* Unused memory of the process's own pools belongs to the process. The pools round up, so the sum may be slightly
     * too large. */
    uint64_t idle = gwi_pool_idle_bytes(memory);
    accounted = total - accounted < idle ? total : accounted + idle;
    memory->rest_known = true;
    memory->rest_bytes = total - accounted;
}

/* True if the count of the process's own memory may be wrong: it is the sum of several processes with the same pid, or
 * events were lost, or blocks of the recording are damaged. A framework's report shows the process's own memory, but
 * its events may be lost, too. After losses, the driver's events are trusted if they explain nearly all memory that the
 * driver had in use.
 *
 * A lost free makes the count too high. It makes the rest (memory in use that nothing accounts for) too low by as many
 * bytes. Without errors, the rest is at most `contexts_bytes`. So the error is at most `contexts_bytes` minus the rest.
 * An error of up to a quarter of the count is accepted. */
static bool has_gaps(const gwi_case *c)
{
    const gwi_memory *memory = &c->memory;
    /* A context with its libraries uses at most 1 GiB. */
    const uint64_t contexts_bytes = ((uint64_t)1 << 30) * (1 + memory->context_count);
    uint64_t pages = memory->snapshot == NULL ? 0 : memory->snapshot->held_bytes;
    uint64_t own_bytes = pages > memory->own_bytes ? pages : memory->own_bytes;
    bool is_several = c->process != NULL && c->process->is_several;
    bool confirmed = memory->report == NULL && c->model->damaged_count == 0 && memory->rest_known &&
                     memory->rest_bytes <= contexts_bytes && (contexts_bytes - memory->rest_bytes) * 4 <= own_bytes;
    return (is_several && memory->report == NULL) || (gwi_lost_after(c, 0) && !confirmed);
}

static bool has_losses(const gw_model *model)
{
    bool lost = model->damaged_count > 0;
    for (size_t i = 0; i < model->process_count; i++)
        lost = lost || model->process[i].lost_events > 0;
    return lost;
}

static const gw_allocator_report *report_of(const gwi_case *c)
{
    const gw_model *model = c->model;
    if (c->oom_last != NULL && c->oom_last->allocator >= 0)
        return &model->allocator[c->oom_last->allocator];
    for (size_t i = model->allocator_count; i-- > 0;) {
        const gw_allocator_report *report = &model->allocator[i];
        bool ours = c->process == NULL || report->pid == c->process->pid;
        if (model->asked_phase != NULL && report->t_ns < model->asked_phase->t_ns)
            continue;
        /* If the framework refused the request because of its own limit, no driver call failed, so use the framework's
         * report. */
        if (report->is_oom && ours && report->recovery == GW_RECOVERED_NOT &&
            (c->exception == GW_EXCEPTION_OOM || (c->exception == GW_EXCEPTION_NONE && !gwi_is_crash(c))) &&
            c->oom == NULL && c->sticky == NULL)
            return report;
    }
    return NULL;
}

/* True if the program continued after the refusal at `begin_ns`: a thread waited for the device before `end_ns`. Many
 * calls prove this, too: a thread's ring then no longer reaches back to `begin_ns`. */
static bool went_on(const gw_model *model, uint32_t pid, uint64_t begin_ns, uint64_t end_ns)
{
    for (size_t i = 0; i < model->thread_count; i++) {
        const gw_thread *thread = &model->thread[i];
        if (thread->pid != pid || thread->ring_count == 0)
            continue;
        if (thread->ring_total > thread->ring_count && thread->ring[0].t_ns > begin_ns && thread->ring[0].t_ns < end_ns)
            return true;
        for (size_t k = thread->ring_count; k-- > 0 && thread->ring[k].t_ns > begin_ns;) {
            if (thread->ring[k].is_sync && thread->ring[k].t_ns < end_ns)
                return true;
        }
    }
    return false;
}

/* True if a later request of the same size succeeded, because a library retried in another way. The program then saw no
 * exception. */
static bool was_granted(const gw_model *model, const gw_allocator_report *report)
{
    for (size_t i = 0; i < model->failure_count; i++) {
        const gw_failure *failure = &model->failure[i];
        if (failure->pid == report->pid && failure->is_allocation && failure->bytes_wanted == report->bytes_wanted &&
            failure->t_ns <= report->t_ns && failure->recovery == GW_RECOVERED_BY_SIZE &&
            failure->t_recovered_ns > report->t_ns)
            return true;
    }
    return false;
}

/* True if the block certainly existed at `t_ns`. A block without a time is older than the allocator's history. */
static bool was_alive(const gw_allocator_report *report, const gw_live *live, uint64_t t_ns)
{
    uint64_t before_ns;
    if (live->has_time)
        return live->t_ns < t_ns;
    return gw_report_undated_before(report, &before_ns) && before_ns <= t_ns;
}

/* Find the first out-of-memory error that the program caught and survived. memory->caught is set only if most of the
 * memory live then was still live at the last out-of-memory error. */
static void find_caught(const gw_model *model, gwi_memory *memory)
{
    const gw_allocator_report *last = memory->report;
    for (size_t i = 0; last != NULL && i < model->allocator_count && &model->allocator[i] != last; i++) {
        const gw_allocator_report *report = &model->allocator[i];
        if (!report->is_oom || report->pid != last->pid || !report->has_field[GW_ALLOCATOR_ALLOCATED] ||
            was_granted(model, report) || !went_on(model, last->pid, report->t_ns, last->t_ns))
            continue;
        uint64_t held = 0, then = report->field[GW_ALLOCATOR_ALLOCATED];
        for (size_t k = 0; k < memory->live_count; k++)
            held += was_alive(last, &memory->live[k], report->t_ns) ? memory->live[k].bytes : 0;
        if (held * 2 >= then && held * 2 >= memory->own_bytes) {
            memory->caught = report;
            memory->caught_bytes = held;
        }
        return;
    }
}

/* True if the report about another library's refused request shows what most of the process's memory is used for.
 * Otherwise the driver's ledger shows more. */
static bool shows_most(const gw_allocator_report *report, const gwi_memory *memory)
{
    return report->field[GW_ALLOCATOR_RESERVED] * 2 >= memory->own_bytes;
}

/* Use the report about PyTorch's memory at the refusal of another library's request. */
static void take_other_refused(const gwi_case *c, gwi_memory *memory)
{
    const gw_allocator_report *report = memory->report;
    memory->is_other_request = report->is_other_refused;
    if (memory->is_other_request && memory->snapshot != NULL)
        memory->empty_known = gw_model_empty_segments(c->model, report, memory->snapshot, &memory->empty_bytes);
}

/* True if some driver call was recorded. Otherwise only the output shows a refusal, and it is judged like a log. */
static bool is_observed(const gwi_case *c)
{
    return gwi_observed_count(c->model) > 0;
}

static void find_memory(gwi_case *c)
{
    gwi_memory *memory = &c->memory;
    bool is_told = is_observed(c) && c->bad_end && c->sticky == NULL;
    uint64_t pool[2];
    /* The driver refuses a region of the pool, and the message says what the program wanted. */
    if (is_told && c->exception == GW_EXCEPTION_OOM && told_pool(&c->model->stderr_facts, &pool[0], &pool[1]))
        from_stderr(c, memory);
    /* Devices beyond the model's table share one entry, so the memory of a single one is not known. */
    else if (c->oom_last != NULL && c->oom_last->device != GW_MODEL_DEVICE_BEYOND)
        from_failure(c, c->oom_last, memory);
    const gw_allocator_report *report = c->bad_end || !c->ended || c->oom != NULL ? report_of(c) : NULL;
    if (report != NULL && report->is_other_refused && !shows_most(report, memory))
        report = NULL;
    if (report != NULL) {
        from_report(c, report, memory);
        take_other_refused(c, memory);
    }
    if (!memory->known && is_told && (c->exception == GW_EXCEPTION_OOM || c->told != NULL))
        from_stderr(c, memory);
    if (!memory->known)
        return;
    uint64_t limit;
    if (!memory->has_limit && gw_model_device_limit(c->model, memory->device, &limit)) {
        memory->has_limit = true;
        memory->limit_bytes = limit;
        memory->limit_is_guard = c->model->device[memory->device].has_limit;
    }
    find_rest(memory);
    memory->has_losses = has_losses(c->model);
    memory->has_gaps = has_gaps(c);
    find_caught(c->model, memory);
    bool by_report = report != NULL && memory->live == report->live;
    gw_growth_question question = {.pid = memory->pid,
                                   .live = memory->live,
                                   .live_count = memory->live_count,
                                   .wanted_bytes = memory->is_other_request ? 0 : memory->wanted_bytes,
                                   .wanted_site = c->oom_last == NULL ? 0 : c->oom_last->site,
                                   .wanted_t_ns = memory->t_ns,
                                   .snapshot = by_report ? NULL : memory->snapshot,
                                   .report = report};
    if (by_report)
        question.order_now = report->order;
    else if (memory->snapshot != NULL)
        question.order_now = memory->snapshot->order;
    gw_growth_find(c->model, &question, &memory->growth);
}

/* Determine whether CUDA could not start, or had no memory even for the first context. CUDA reserves much address space
 * at its start, so a limit on address space shows as out of memory. */
static void find_start_failure(gwi_case *c)
{
    const char *limit = gw_model_meta(c->model, "rlimit.as");
    char *end = NULL;
    uint64_t bytes = limit == NULL ? 0 : strtoull(limit, &end, 10);
    c->has_address_limit = limit != NULL && end != limit && *end == '\0' && bytes != 0;
    c->address_limit_bytes = c->has_address_limit ? bytes : 0;
    if (c->root == NULL || c->process == NULL)
        return;
    if (c->process->address_limit_bytes != 0) { /* a limit set by the program or its launcher */
        c->has_address_limit = true;
        c->address_limit_bytes = c->process->address_limit_bytes;
    }
    bool made_nothing = true;
    for (int device = 0; device < GW_MODEL_DEVICE_PLACES; device++)
        made_nothing = made_nothing && c->process->usage[device].class_made[GW_CLASS_CONTEXT] == 0;
    if (c->root->kind == GW_EV_CTX_CREATE && c->root->is_allocation && !c->root->guard && made_nothing &&
        !c->has_address_limit)
        c->no_context = c->root;
    bool init = c->root->kind == GW_EV_INIT && !c->process->init_ok;
    if (!init && !(c->root->kind == GW_EV_CTX_CREATE && made_nothing && c->has_address_limit))
        return;
    c->start = c->root;
    c->oom = c->oom_last = NULL;
}

/* Find a failure that no driver call shows: a framework refused memory and printed a message. The program continued,
 * and then failed because the refused step had left a value missing. */
static void find_told(gwi_case *c)
{
    enum { LAUNCHES_FEW = 8 };
    const gw_model *model = c->model;
    const gw_stderr_facts *facts = &model->stderr_facts;
    if (!is_observed(c) || c->root != NULL || c->handled != NULL || c->exception != GW_EXCEPTION_SCRIPT || !c->ended ||
        !c->bad_end || c->signal != 0 || !facts->oom.seen || !facts->exception_lacks_value ||
        !facts->exception_after_oom)
        return;
    /* If stderr is a file, it is read only at the end of the run. Its lines then have later times than all launches, so
     * no launch is counted. */
    size_t launches = 0;
    for (size_t i = 0; i < model->thread_count; i++) {
        for (size_t k = model->thread[i].ring_count; k-- > 0 && model->thread[i].ring[k].t_ns > facts->oom_last.t_ns;)
            launches += gw_is_any_launch(&model->thread[i].ring[k]);
    }
    c->told = launches < LAUNCHES_FEW ? &facts->oom : NULL;
}

/* True if an exception ended a thread and the program still exited with status 0. */
static bool is_thread_death(const gwi_case *c, const gw_process *end)
{
    const gw_stderr_facts *facts = &c->model->stderr_facts;
    return !c->bad_end && end == c->model->command && facts->exception_ended_thread && !facts->exception_goes_on;
}

void gwi_case_close(gwi_case *c)
{
    gw_ranks_free(&c->ranks);
}

/* If the judged process does not certainly hang by itself, find out whether the whole job does. Its ranks need not have
 * made a driver call. */
static void find_job_hang(gwi_case *c)
{
    gwi_job_rank rank[GWI_JOB_RANKS_MAX];
    bool may_be_job = c->hang.kind == GWI_HANG_NONE || (c->hang.kind == GWI_HANG_DEADLOCK && !c->hang.in_circle);
    if (may_be_job && c->stall.kind == GWI_STALL_NONE && gwi_job_ranks(c, rank) > 0)
        c->hang = (gwi_hang){.kind = GWI_HANG_JOB, .hang = rank[0].hang};
}

/* Find the process that an exception ended, but which has not gone. The others may wait for it. */
static void find_left_over(gwi_case *c)
{
    const gw_process *first = NULL;
    for (size_t i = 0; i < c->model->process_count; i++) {
        const gw_process *process = &c->model->process[i];
        if (gw_is_left_over(process) && (first == NULL || process->t_raised_ns < first->t_raised_ns))
            first = process;
    }
    if (first == NULL || c->ended || c->model->truncated)
        return;
    c->process = first;
    c->ended = c->bad_end = c->is_left_over = true;
    c->exit_code = 1;
}

gw_status gwi_case_open(const gw_model *model, gwi_case *ret_case, gw_error *err)
{
    gwi_case c = {.model = model};
    c.process = model->asked_phase != NULL ? gw_model_process(model, model->asked_phase->pid) : gwi_family_judge(model);
    if (model->asked_phase == NULL && !gwi_ranks_find_stall(&c)) {
        gwi_case_close(&c);
        return gw_fail(err, GW_NOMEM, "compare the ranks");
    }
    /* If the recording is truncated, it does not show how the command ended. Do not use the end of a child instead. */
    const gw_process *end = c.process;
    if (model->command != NULL)
        end = model->command;
    else if (model->truncated || c.stall.kind != GWI_STALL_NONE)
        end = NULL; /* while others wait for a rank, its end is not that of the run */
    if (c.process != NULL && c.process != model->command && gw_died_badly(c.process))
        end = c.process; /* a child's death is the fault, even if the parent handled it */
    if (end != NULL && end->exit_known && end->exit.status_known && !end->is_own_stop) {
        c.ended = true;
        c.exit_code = end->exit.exit_code;
        c.signal = end->exit.signal;
        c.bad_end = c.exit_code != 0 || c.signal != 0;
        c.is_thread_death = c.is_root_unsure = is_thread_death(&c, end);
        c.bad_end = c.bad_end || c.is_thread_death;
    }
    find_left_over(&c);
    c.framework = gw_model_framework(model);
    c.exception = gw_exception_kind_of(&model->stderr_facts);
    if (end != NULL && end != model->command && model->stderr_facts.exception_about_child)
        c.exception = GW_EXCEPTION_NONE; /* the parent's exception only reports that the child died, not why */
    if (c.process != NULL) {
        if (!c.is_left_over)
            c.hang = gwi_hang_of(model, c.process->pid);
        gwi_root_find(&c);
    }
    find_job_hang(&c);
    find_start_failure(&c);
    find_told(&c);
    if (c.start == NULL)
        find_memory(&c);
    /* If one process uses several frameworks, choose the one whose request was refused. Only PyTorch's allocator has an
     * observer. */
    if (c.memory.report != NULL || gw_begins(model->stderr_facts.exception_type, "torch."))
        c.framework = GW_FRAMEWORK_TORCH;
    else if (c.framework == GW_FRAMEWORK_RAW && gw_begins(model->stderr_facts.exception_type, "tensorflow."))
        c.framework = GW_FRAMEWORK_TENSORFLOW;
    *ret_case = c;
    return GW_OK;
}
