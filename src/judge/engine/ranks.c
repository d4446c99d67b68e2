/* Reads from a model what its ranks did last with NCCL, and where they stand. */
#include "gw_logs.h"
#include "gw_text.h"
#include "gwi_hang.h"
#include "gwi_kin.h"
#include "gwi_ranks.h"
#include "gwi_roots.h"
#include "gwi_saved_ranks.h"
#include "gwi_stall.h"

#include "gw_array.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- how a rank stands ---- */

/* Return the newest hang that is not over. All ranks were looked at within this time of it. In a saved file, no hang
 * has a duration. */
static const gw_hang *newest_hang(const gw_model *model)
{
    bool is_saved = gw_model_meta(model, GW_META_RANKS) != NULL;
    for (size_t i = model->hang_count; i-- > 0;)
        if (!model->hang[i].over && (model->hang[i].for_ns > 0 || is_saved))
            return &model->hang[i];
    return NULL;
}

/* Return how the process's threads were seen when another process, or this one, hung; NULL: not seen then. */
static const gw_hang *look_of(const gw_model *model, const gw_hang *newest, uint32_t pid)
{
    const uint64_t together_ns = 2000000000u;
    for (size_t i = model->hang_count; newest != NULL && i-- > 0;) {
        const gw_hang *hang = &model->hang[i];
        uint64_t apart_ns = hang->t_ns > newest->t_ns ? hang->t_ns - newest->t_ns : newest->t_ns - hang->t_ns;
        if (hang->pid == pid)
            return hang->over || (apart_ns > together_ns && hang->for_ns == 0) ? NULL : hang;
    }
    return NULL;
}

static bool is_in_file(const gwi_case *c, uint32_t site, const char *part)
{
    const gw_stack *stack = gw_sites_stack(c->model->sites, site);
    for (size_t i = 0; stack != NULL && i < stack->count; i++)
        if (stack->frame[i].file != NULL && strstr(stack->frame[i].file, part) != NULL)
            return true;
    return false;
}

static gw_rank_stand stand_of_thread(const gwi_case *c, const gw_hang_thread *thread)
{
    static const struct {
        const char *wait;
        gw_rank_stand stand;
    } rows[] = {{"running", GW_RANK_STANDS_RUNNING}, {"sleep", GW_RANK_STANDS_SLEEP}, {"lock", GW_RANK_STANDS_LOCK},
                {"timed-lock", GW_RANK_STANDS_LOCK}, {"join", GW_RANK_STANDS_LOCK},   {"child", GW_RANK_STANDS_CHILD},
                {"device", GW_RANK_STANDS_DEVICE},   {"input", GW_RANK_STANDS_INPUT}};
    if (strstr(thread->where, "sys_pause") != NULL)
        return GW_RANK_STANDS_SLEEP; /* counts as input, because only a signal ends it */
    if (strstr(thread->where, "signal_stop") != NULL || strstr(thread->where, "ptrace_stop") != NULL)
        return GW_RANK_STANDS_STOPPED;
    if (is_in_file(c, thread->site, "torch/distributed/"))
        return GW_RANK_STANDS_INPUT; /* a barrier or a store, which waits for other ranks without NCCL */
    if (is_in_file(c, thread->site, "torch/utils/data/"))
        return GW_RANK_STANDS_LOADER;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(thread->wait, rows[i].wait) == 0)
            return rows[i].stand;
    return GW_RANK_STANDS_UNKNOWN;
}

static void find_stand(const gwi_case *c, const gw_hang *look, const gwi_hang *hang, gw_rank *rank)
{
    char doing[GW_DOING_TEXT_MAX], call[GWI_CALL_TEXT_MAX], at[GWI_PLACE_TEXT_MAX];
    const gw_hang_thread *thread = gwi_hang_thread(look, rank->pid), *waiting = hang->waiting;
    /* A thread of PyTorch asks the GPU again and again, whatever the main thread does. */
    bool only_asks = waiting != NULL && thread != NULL && waiting->inside_fn[0] == '\0';
    gw_text text = {0};
    thread = waiting != NULL && !only_asks ? waiting : thread;
    if (thread == NULL)
        return;
    bool is_inside = thread->inside_fn[0] != '\0';
    if (hang->kind == GWI_HANG_KERNEL && !hang->is_off_record)
        rank->stand = GW_RANK_STANDS_KERNEL;
    else if (rank->is_stuck)
        rank->stand = GW_RANK_STANDS_NCCL;
    else if ((waiting == NULL || only_asks) && !is_inside)
        rank->stand = stand_of_thread(c, thread);
    if (is_inside)
        gw_text_addf(&text, "inside %s%s", gwi_call_text(call, thread->inside_fn), gwi_at(c, thread->site, at));
    else
        gw_text_addf(&text, "%s%s", gw_doing_text(doing, thread), gwi_at(c, thread->site, at));
    rank->stand_site = thread->site;
    rank->stand_text = text.failed ? NULL : strdup(gw_text_str(&text));
    gw_text_free(&text);
}

/* ---- places ---- */

/* Return the index + 1 of a place in rank->place, which is added if it is new; 0: unknown. */
static uint16_t place_of(const gwi_case *c, uint32_t site, gw_rank *rank, bool *failed)
{
    enum { PLACES_MAX = 256 };
    char at[GWI_PLACE_TEXT_MAX];
    const char *text = gwi_at(c, site, at);
    text += gw_begins(text, " at ") ? strlen(" at ") : 0;
    if (text[0] == '\0')
        return 0;
    for (size_t i = 0; i < rank->place_count; i++)
        if (strcmp(rank->place[i], text) == 0)
            return (uint16_t)(i + 1);
    if (rank->place_count == PLACES_MAX)
        return 0;
    char *copy = strdup(text);
    if (copy == NULL || !gw_array_more(&rank->place, rank->place_count, sizeof *rank->place)) {
        free(copy);
        *failed = true;
        return 0;
    }
    rank->place[rank->place_count++] = copy;
    return (uint16_t)rank->place_count;
}

/* ---- communicators ---- */

static bool copy_calls(const gwi_case *c, bool with_places, const gw_communicator *from, gw_rank *rank,
                       gw_rank_communicator *to)
{
    bool failed = false;
    size_t most = gwi_are_saved_ranks(c) ? SIZE_MAX : GW_RANK_CALLS_MAX; /* of these, there is no digest */
    size_t count = from->last_count < most ? from->last_count : most;
    const gw_collective *first = count == 0 ? NULL : &from->last[from->last_count - count];
    uint32_t site = 0;
    uint16_t place = 0;
    to->call = count == 0 ? NULL : calloc(count, sizeof *to->call);
    for (size_t i = 0; to->call != NULL && i < count && !failed; i++) {
        const gw_collective *call = &first[i];
        if (with_places && (i == 0 || call->site != site))
            place = place_of(c, call->site, rank, &failed);
        site = call->site;
        to->call[to->call_count++] = (gw_rank_call){.number = call->number,
                                                    .elements = call->elements,
                                                    .stream = call->stream,
                                                    .t_ns = call->t_ns,
                                                    .type = call->type,
                                                    .root_or_peer = call->root_or_peer,
                                                    .group = call->group,
                                                    .site = site,
                                                    .place = place,
                                                    .call = (uint8_t)call->call,
                                                    .state = (uint8_t)call->state};
    }
    return !failed && (count == 0 || to->call != NULL);
}

static bool copy_communicators(const gwi_case *c, bool with_places, const gw_process *process, gw_rank *rank)
{
    bool failed = false;
    size_t skip = process->communicator_count > GW_RANK_COMMUNICATORS_MAX
                      ? process->communicator_count - GW_RANK_COMMUNICATORS_MAX
                      : 0;
    size_t count = process->communicator_count - skip;
    rank->communicator = count == 0 ? NULL : calloc(count, sizeof *rank->communicator);
    for (size_t i = 0; rank->communicator != NULL && i < count && !failed; i++) {
        const gw_communicator *from = &process->communicator[skip + i];
        if (from->id == 0 || from->size < 2)
            continue;
        gw_rank_communicator *to = &rank->communicator[rank->communicator_count++];
        *to = (gw_rank_communicator){.id = from->id,
                                     .collectives = from->collectives,
                                     .p2p = from->p2p,
                                     .t_init_ns = from->t_init_ns,
                                     .t_end_ns = from->t_end_ns,
                                     .size = from->size,
                                     .rank = from->rank,
                                     .init_site = from->init_site,
                                     .is_ready = from->is_ready,
                                     .is_aborted = from->is_aborted};
        memcpy(to->calls, from->calls, sizeof to->calls);
        to->init_place = with_places ? place_of(c, from->init_site, rank, &failed) : 0;
        failed = failed || !copy_calls(c, with_places, from, rank, to);
    }
    return !failed && (count == 0 || rank->communicator != NULL);
}

/* Return since when the process is inside NCCL: in a call, or in the creation of a communicator. UINT64_MAX: it is not.
 */
static uint64_t inside_nccl_since(const gw_process *process, bool *ret_captured)
{
    uint64_t since_ns = UINT64_MAX;
    for (size_t i = 0; i < process->communicator_count; i++) {
        const gw_communicator *it = &process->communicator[i];
        if (!it->is_ready && it->t_end_ns == 0 && it->t_init_ns < since_ns)
            since_ns = it->t_init_ns;
        for (size_t k = 0; k < it->last_count; k++) {
            const gw_collective *call = &it->last[k];
            if (call->state == GW_COLLECTIVE_ENTERED && call->t_ns < since_ns)
                since_ns = call->t_ns;
            *ret_captured = *ret_captured || call->state == GW_COLLECTIVE_CAPTURED;
        }
    }
    return since_ns;
}

/* ---- what should be equal in all ranks ---- */

/* True for settings that may change what NCCL does, and have no reason to differ between ranks. */
static bool is_setting(const char *key)
{
    static const char *const differ[] = {"NCCL_DEBUG", "RANK",     "SOCKET_IFNAME", "IB_HCA",
                                         "TOPO_",      "RAS_ADDR", "_FILE",         "HOSTID"};
    const char *name = gw_begins(key, "env.") ? key + strlen("env.") : "";
    return (gw_begins(name, "NCCL_") || gw_begins(name, "TORCH_NCCL_")) && !GW_HAS_ONE_OF(name, differ);
}

static bool find_traits(const gwi_case *c, const gw_process *process, gw_rank *rank)
{
    gw_text text = {0};
    char version[GW_VERSION_TEXT_MAX];
    const gw_model *model = c->model;
    for (size_t i = 0; i < process->libraries.count; i++) {
        const gw_library *library = &process->libraries.item[i];
        if (library->kind == GW_LIBRARY_NCCL && library->version != 0)
            gw_text_addf(&text, "NCCL=%s\n", gw_library_version_text(version, library));
    }
    if (process->driver_api != 0)
        gw_text_addf(&text, "CUDA version of the driver=%" PRIu32 "\n", process->driver_api);
    for (size_t i = 0; i < model->meta_count; i++)
        if (model->meta[i].key != NULL && model->meta[i].value != NULL && is_setting(model->meta[i].key) &&
            strchr(model->meta[i].value, '\n') == NULL)
            gw_text_addf(&text, "%s=%.80s\n", model->meta[i].key + strlen("env."), model->meta[i].value);
    for (size_t i = 0; i < model->fact_count; i++) {
        gw_fact_source source;
        char path[GW_PLACE_TEXT_MAX], sha256[GW_SHA256_TEXT_MAX];
        if (model->fact[i].what != GW_FACT_SOURCE || model->fact[i].value == NULL)
            continue;
        gw_fact_source_read(gw_fact_text_of(model->fact[i].value), &source);
        gw_fact_text_copy(path, sizeof path, source.path);
        gw_fact_text_copy(sha256, sizeof sha256, source.sha256);
        gw_text_addf(&text, "content of %s=SHA-256 %.12s\n", path, sha256); /* several files may have one name */
    }
    bool good = !text.failed && (text.bytes == 0 || gw_str_copy(gw_text_str(&text), &rank->traits));
    gw_text_free(&text);
    return good;
}

/* ---- the end of a rank ---- */

static bool is_fault_signal(int signal)
{
    return signal == SIGSEGV || signal == SIGBUS || signal == SIGFPE || signal == SIGILL;
}

static void find_end(const gwi_case *c, const gw_process *process, gw_rank *rank)
{
    gwi_roots roots = gwi_roots_of(c->model, process->pid);
    const gw_failure *root = gwi_root_of(&roots);
    bool died = gw_died_badly(process), was_ended = died && gwi_was_told_to_end(process);
    rank->t_end_ns = process->exit_known ? process->t_exit_ns : 0;
    if (gw_ended_well(process))
        rank->end = GW_RANK_ENDED_WELL;
    else if (died)
        rank->end = was_ended ? GW_RANK_WAS_ENDED : GW_RANK_DIED;
    else if (process->exit_known)
        rank->end = process->is_own_stop ? GW_RANK_WAS_ENDED : GW_RANK_ENDED;
    /* A rank that waited for others may abort, raise an exception about it, or be killed. */
    bool own_death = rank->end == GW_RANK_DIED && (!rank->is_stuck || is_fault_signal(process->exit.signal));
    bool has_root = root != NULL && root != roots.other && rank->end != GW_RANK_ENDED_WELL;
    bool is_left_over = gw_is_left_over(process);
    rank->has_error = has_root || own_death || is_left_over;
    if (rank->has_error)
        rank->t_error_ns = has_root ? root->t_ns : is_left_over ? process->t_raised_ns : process->t_exit_ns;
}

/* True if NCCL's watchdog in PyTorch ended the process, because a collective had taken too long. */
static bool was_watchdog(const gwi_case *c, const gw_process *process)
{
    return gw_died_badly(process) && process->exit.signal == SIGABRT && process->communicator_count > 0 &&
           gw_stderr_said(&c->model->stderr_facts, GW_SAYS_WATCHDOG, NULL) != NULL;
}

/* True if a saved file lists a call that had not completed. PyTorch writes such files after a time limit. */
static bool has_open_call(const gw_process *process)
{
    for (size_t i = 0; i < process->communicator_count; i++)
        for (size_t k = 0; k < process->communicator[i].last_count; k++)
            if (process->communicator[i].last[k].state == GW_COLLECTIVE_ENQUEUED)
                return true;
    return false;
}

/* With the default of --hang-after, a wait of five minutes is a hang. On a terminal the supervisor does not report
 * hangs, so such a wait until the end of the run counts as one. */
static bool is_long_ago(const gw_model *model, uint64_t since_ns)
{
    const uint64_t long_ns = 300000000000u;
    return model->t_end_ns > since_ns && model->t_end_ns - since_ns >= long_ns;
}

static bool has_waited_long(const gw_model *model, uint32_t pid)
{
    const gw_thread *thread = gw_model_first_thread(model, pid);
    for (; thread != NULL; thread = gw_model_next_thread(model, thread))
        if (thread->inside_fn != NULL && is_long_ago(model, thread->inside_since_ns))
            return true;
    return false;
}

static bool fill_rank(const gwi_case *c, bool with_places, const gw_hang *newest, const gw_process *process,
                      gw_rank *rank)
{
    bool captured = false;
    uint64_t inside_ns = inside_nccl_since(process, &captured);
    const gw_hang *look = look_of(c->model, newest, process->pid);
    gwi_hang hang = gwi_hang_of(c->model, process->pid);
    *rank = (gw_rank){.pid = process->pid,
                      .rank = process->rank,
                      .world = process->has_world ? process->world : 0,
                      .has_rank = process->has_rank,
                      .has_replays = captured || process->counter[GW_COUNT_GRAPH_LAUNCH] > 0};
    rank->is_whole = gwi_is_whole(c->model) && process->lost_events == 0 && !process->is_several &&
                     !process->nccl_unseen && process->communicator_count <= GW_RANK_COMMUNICATORS_MAX;
    for (size_t i = 0; i < process->communicator_count; i++)
        rank->has_replays = rank->has_replays || process->communicator[i].has_captured;
    bool waits = hang.waiting != NULL || has_waited_long(c->model, process->pid);
    bool is_inside = inside_ns != UINT64_MAX && (newest != NULL || is_long_ago(c->model, inside_ns));
    rank->is_stuck = (waits && gwi_has_nccl_work(c->model, process->pid)) || is_inside || was_watchdog(c, process);
    rank->no_pid = gwi_are_saved_ranks(c);
    rank->is_stuck = rank->is_stuck || (rank->no_pid && has_open_call(process));
    find_end(c, process, rank);
    if (look != NULL && with_places)
        find_stand(c, look, &hang, rank);
    return find_traits(c, process, rank) && copy_communicators(c, with_places, process, rank);
}

bool gwi_ranks_of(const gwi_case *c, bool with_places, gw_ranks *ret_ranks)
{
    const gw_model *model = c->model;
    bool good = true, any = false;
    *ret_ranks = (gw_ranks){0};
    for (size_t i = 0; i < model->process_count; i++)
        any = any || model->process[i].communicator_count > 0;
    if (!any)
        return true; /* ranks without NCCL cannot be compared */
    gwi_kin kin;
    gwi_kin_open(&kin, model);
    const gw_hang *newest = newest_hang(model);
    for (size_t i = 0; i < model->process_count && good; i++) {
        const gw_process *process = &model->process[i];
        if ((!process->has_rank && process->communicator_count == 0) || gwi_kin_is_restarted(&kin, model, process))
            continue;
        good = gw_array_more(&ret_ranks->item, ret_ranks->count, sizeof *ret_ranks->item);
        good = good && fill_rank(c, with_places, newest, process, &ret_ranks->item[ret_ranks->count++]);
    }
    gwi_kin_close(&kin);
    if (!good)
        gw_ranks_free(ret_ranks);
    return good;
}

/* ---- the rank at fault ---- */

/* True if a signal ended a process that a rank had started, such as a data loader's worker, before a rank gave up. */
static bool has_lost_child(const gwi_case *c)
{
    for (size_t i = 0; i < c->model->process_count; i++) {
        const gw_process *process = &c->model->process[i];
        if (!gw_died_badly(process) || gwi_was_told_to_end(process) || process->exit.signal == 0 ||
            process->t_exit_ns >= c->stall.t_gave_up_ns || process->has_rank || process->communicator_count > 0)
            continue;
        for (size_t k = 0; k < c->ranks.count; k++)
            if (process->parent_pid == c->ranks.item[k].pid)
                return true;
    }
    return false;
}

bool gwi_ranks_find_stall(gwi_case *c)
{
    if (!gwi_ranks_of(c, !gw_run_ended_well(c->model), &c->ranks))
        return false;
    if (gw_run_ended_well(c->model) || c->ranks.count == 0)
        return true;
    if (!gwi_stall_find(&c->ranks, true, &c->stall))
        return false;
    if (c->stall.kind == GWI_STALL_NONE || has_lost_child(c)) {
        c->stall.kind = GWI_STALL_NONE;
        return true;
    }
    size_t judged = c->stall.culprit == SIZE_MAX ? c->stall.waiting : c->stall.culprit;
    c->process = gw_model_process(c->model, c->ranks.item[judged].pid);
    return true;
}
