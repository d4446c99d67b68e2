/* NCCL's communicators and their last calls: reads the facts nccl.comm and nccl.call, and finds out which calls have
 * completed.
 *
 * The facts of a process are written several times: at each hang and at its end. Later ones replace earlier ones of the
 * same communicator, which is known by its place in the process's table and the place's generation.
 *
 * A call has completed if its work on the GPU has certainly ended (waits.c):
 * - a later call on the same stream proves it: a wait for the stream, or work that has ended; or
 * - it launched kernels of NCCL on its stream before it returned, and all of them have ended.
 * Otherwise it stays enqueued, which also means "not known". */
#include "gwi_find.h"

#include "gw_text.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COMMUNICATORS_MAX = 4096, LAST_MAX = 64, NCCL_IN_PROGRESS = 7 };

const char *gw_nccl_type_name(int32_t type, uint32_t *ret_bytes)
{
    static const struct {
        const char *name;
        uint32_t bytes;
    } rows[] = {{"int8", 1},    {"uint8", 1},   {"int32", 4},   {"uint32", 4},   {"int64", 8},      {"uint64", 8},
                {"float16", 2}, {"float32", 4}, {"float64", 8}, {"bfloat16", 2}, {"float8e4m3", 1}, {"float8e5m2", 1}};
    bool known = type >= 0 && (size_t)type < sizeof rows / sizeof rows[0];
    if (ret_bytes != NULL)
        *ret_bytes = known ? rows[type].bytes : 0;
    return known ? rows[type].name : "unknown type";
}

static GW_WORDS_BY(GW_WORD_NAME, call_word, unsigned, GW_NCCL_CALLS, "a call")

    const char *gw_nccl_short_name(char out[GW_NCCL_CALL_TEXT_MAX], gw_nccl_call call)
{
    snprintf(out, GW_NCCL_CALL_TEXT_MAX, "%s", call_word(call));
    for (char *at = out; *at != '\0'; at++)
        *at = (char)tolower((unsigned char)*at);
    return out;
}

const char *gw_nccl_call_text(char out[GW_NCCL_CALL_TEXT_MAX], const gw_collective *call, bool exact)
{
    char name[GW_NCCL_CALL_TEXT_MAX], size[GW_BYTES_TEXT_MAX], which[32] = "", root[24] = "";
    uint32_t bytes = 0;
    bool is_p2p = gw_nccl_has_peer(call->call);
    bool is_received = call->call == GW_NCCL_RECV || call->call == GW_NCCL_WAIT_SIGNAL;
    const char *type = gw_nccl_type_name(call->type, &bytes);
    gw_nccl_short_name(name, call->call);
    if (is_p2p && call->root_or_peer < 0)
        snprintf(which, sizeof which, "of several ranks");
    else if (is_p2p)
        snprintf(which, sizeof which, "%s rank %" PRId32, is_received ? "from" : "to", call->root_or_peer);
    else
        snprintf(which, sizeof which, "#%" PRIu64, call->number);
    if (!is_p2p && call->root_or_peer >= 0)
        snprintf(root, sizeof root, ", root %" PRId32, call->root_or_peer);
    if (call->type < 0) /* it sends nothing */
        snprintf(out, GW_NCCL_CALL_TEXT_MAX, "%.24s %s", name, which);
    else if (exact || bytes == 0)
        snprintf(out, GW_NCCL_CALL_TEXT_MAX, "%.24s %s (%" PRIu64 " element%s, %.24s%s)", name, which, call->elements,
                 call->elements == 1 ? "" : "s", type, root);
    else
        snprintf(out, GW_NCCL_CALL_TEXT_MAX, "%.24s %s (%s, %.24s%s)", name, which,
                 gw_bytes_text(size, call->elements * bytes), type, root);
    return out;
}

/* ---- reading the facts ---- */

static gw_communicator *communicator_of(gw_model *model, gwi_process *process, uint32_t place, uint32_t generation)
{
    gw_process *facts = &model->process[process->index];
    uint64_t key = (uint64_t)generation << 32 | place;
    for (size_t i = 0; i < facts->communicator_count; i++)
        if (facts->communicator[i].key == key)
            return &facts->communicator[i];
    if (facts->communicator_count >= COMMUNICATORS_MAX ||
        !gwi_room(model, &facts->communicator, facts->communicator_count, &process->communicator_capacity,
                  sizeof(gw_communicator)))
        return NULL;
    gw_communicator *c = &facts->communicator[facts->communicator_count++];
    *c = (gw_communicator){.key = key, .device = -1};
    return c;
}

static void read_counts(gw_communicator *c, gw_fact_text text)
{
    const char *at = text.data, *end = text.data + text.bytes;
    for (int i = 0; i < GW_NCCL_CALL_COUNT && at != NULL && at < end; i++) {
        c->calls[i] = 0;
        for (; at < end && *at >= '0' && *at <= '9'; at++)
            c->calls[i] = c->calls[i] * 10 + (uint64_t)(*at - '0');
        if (at < end && *at++ != ',')
            return;
    }
}

static void read_communicator(gw_model *model, gwi_process *process, const gw_item *item)
{
    gw_fact_nccl_comm said;
    gw_fact_nccl_comm_read(gw_fact_text_of(item->pair.value), &said);
    gw_communicator *c =
        said.has_place && said.has_generation ? communicator_of(model, process, said.place, said.generation) : NULL;
    process->communicator_now = c == NULL ? -1 : c - model->process[process->index].communicator;
    if (c == NULL)
        return;
    c->handle = said.handle;
    c->id = said.id;
    c->size = said.size;
    c->rank = said.rank;
    c->device = said.has_device && said.device <= INT32_MAX ? (int32_t)said.device : -1;
    c->t_init_ns = said.init_ns;
    c->t_end_ns = said.end_ns;
    c->is_ready = said.ready;
    c->is_aborted = said.aborted;
    c->has_captured = said.captured;
    c->init_site = said.site == 0 ? 0 : gw_sites_number(model->sites, item->pid, said.site);
    c->collectives = said.collectives;
    c->p2p = said.p2p;
    read_counts(c, said.calls);
    c->last_count = 0;
}

static bool is_word(gw_fact_text text, const char *word)
{
    return text.data != NULL && text.bytes == strlen(word) && memcmp(text.data, word, text.bytes) == 0;
}

/* Find the call and the state by their words. Returns false if one is unknown. */
static bool find_words(const gw_fact_nccl_call *said, gw_nccl_call *ret_call, gw_collective_state *ret_state)
{
    unsigned call = 0, state = 0;
    while (call < GW_NCCL_CALL_COUNT && !is_word(said->call, gw_nccl_call_name((gw_nccl_call)call)))
        call++;
    while (state < GW_COLLECTIVE_STATE_COUNT &&
           !is_word(said->state, gw_collective_state_word((gw_collective_state)state)))
        state++;
    *ret_call = (gw_nccl_call)call;
    *ret_state = (gw_collective_state)state;
    return call < GW_NCCL_CALL_COUNT && state < GW_COLLECTIVE_STATE_COUNT;
}

static void read_call(gw_model *model, gwi_process *process, const gw_item *item)
{
    gw_nccl_call call;
    gw_collective_state state;
    gw_fact_nccl_call said;
    gw_process *facts = &model->process[process->index];
    gw_fact_nccl_call_read(gw_fact_text_of(item->pair.value), &said);
    if (process->communicator_now < 0 || (size_t)process->communicator_now >= facts->communicator_count ||
        !find_words(&said, &call, &state))
        return;
    gw_communicator *c = &facts->communicator[process->communicator_now];
    if (c->last == NULL && (c->last = calloc(LAST_MAX, sizeof *c->last)) == NULL)
        model->inner->nomem = true;
    if (c->last == NULL || c->last_count == LAST_MAX)
        return;
    c->last[c->last_count++] = (gw_collective){
        .call = call,
        .number = said.number,
        .t_ns = said.t_ns,
        .t_end_ns = said.end_ns,
        .elements = said.elements,
        .stream = said.stream,
        .type = said.type,
        .op = said.op,
        .root_or_peer = said.root_or_peer,
        .result = said.result,
        .tid = item->tid,
        .site = said.site == 0 ? 0 : gw_sites_number(model->sites, item->pid, said.site),
        .group = said.group,
        .state = state,
    };
}

void gwi_collective_fact(gw_model *model, gw_fact_key what, const gw_item *item)
{
    gwi_process *process = item->pid == 0 ? NULL : gwi_process_of(model, item->pid, item->t_ns);
    if (process == NULL)
        return;
    /* The end of the program that gpuwhy itself caused may have let ranks go on. */
    uint64_t stop_ns = model->inner->own_stop_ns;
    if (stop_ns != 0 && item->t_ns >= stop_ns && process->t_nccl_ns != 0 && process->t_nccl_ns < stop_ns)
        return;
    process->t_nccl_ns = item->t_ns;
    if (what == GW_FACT_NCCL_LOST)
        model->process[process->index].nccl_unseen = true;
    else if (what == GW_FACT_NCCL_COMM)
        read_communicator(model, process, item);
    else
        read_call(model, process, item);
}

/* ---- completion ---- */

static bool is_nccl_kernel(const gw_ring_call *call)
{
    static const char *const names[] = {"ncclDevKernel", "ncclKernel_", "ncclSymDevKernel", "ncclSymkDevKernel"};
    const char *any = call->is_launch && call->kernel != NULL ? strstr(call->kernel, "nccl") : NULL;
    return any != NULL && GW_HAS_ONE_OF(any, names); /* most names are asked only once */
}

static uint64_t stream_key(const gw_collective *call)
{
    const gw_ring_call like = {.stream = call->stream, .fn_name = ""};
    return gwi_ring_stream(&like, call->tid);
}

/* What the calls of the process show about an NCCL call. */
typedef struct proof {
    bool later;                   /* a later call on the stream proves that it has completed */
    bool any_kernel, all_kernels; /* it launched kernels; all of them have ended */
} proof;

/* Each context has its own default streams (keys below 8, and those of threads), so a wait for one proves nothing. */
static bool is_wait_for(const gw_ring_call *ring, uint64_t ring_key, uint64_t key)
{
    return ring_key == key && (key & 7) == 0 &&
           (gw_begins(ring->fn_name, "cuStreamSynchronize") || gw_begins(ring->fn_name, "cuStreamQuery"));
}

static void look_at_thread(const gw_thread *thread, const gw_collective *call, proof *found)
{
    uint64_t key = stream_key(call);
    for (size_t i = 0; i < thread->ring_count; i++) {
        const gw_ring_call *ring = &thread->ring[i];
        uint64_t ring_key = gwi_ring_stream(ring, thread->tid);
        if (ring->captured || ring->t_ns < call->t_ns)
            continue;
        if (ring->t_ns >= call->t_end_ns && (is_wait_for(ring, ring_key, key) || (ring_key == key && ring->waited)))
            found->later = true;
        if (ring->t_ns <= call->t_end_ns && thread->tid == call->tid && ring_key == key && is_nccl_kernel(ring)) {
            found->any_kernel = true;
            found->all_kernels = found->all_kernels && ring->waited;
        }
    }
}

static void complete(gw_model *model, uint32_t pid, gw_collective *call)
{
    proof found = {.all_kernels = true};
    if (call->state != GW_COLLECTIVE_ENQUEUED || call->t_end_ns == 0)
        return;
    const gw_thread *thread = gw_model_first_thread(model, pid);
    for (; thread != NULL; thread = gw_model_next_thread(model, thread))
        look_at_thread(thread, call, &found);
    if (found.later || (found.any_kernel && found.all_kernels))
        call->state = GW_COLLECTIVE_COMPLETED;
}

/* ---- calls that were not recorded ---- */

/* Return the time from which on the process's table has every call that was recorded. */
static uint64_t all_calls_since(const gw_process *process)
{
    uint64_t since_ns = 0;
    for (size_t i = 0; i < process->communicator_count; i++) {
        const gw_communicator *c = &process->communicator[i];
        uint64_t t_ns = 0;
        if (c->key >> 32 > 1) /* an earlier communicator was at its place */
            t_ns = c->t_init_ns == 0 ? UINT64_MAX : c->t_init_ns;
        if (c->last_count < c->collectives + c->p2p) /* one of the last calls may be missing, too */
            t_ns = c->last_count == 0             ? UINT64_MAX
                   : c->last_count < GW_NCCL_LAST ? c->last[c->last_count - 1].t_ns
                                                  : c->last[c->last_count - GW_NCCL_LAST + 1].t_ns;
        since_ns = t_ns > since_ns ? t_ns : since_ns;
    }
    return since_ns;
}

/* True if the program was inside a recorded call at this time, or if a call works on after its return. The times of
 * calls and launches come from one clock, but were converted to ns at different times, which is not exact. */
static bool was_inside_nccl(const gw_process *process, uint64_t t_ns)
{
    const uint64_t slack_ns = 50000;
    for (size_t i = 0; i < process->communicator_count; i++)
        for (size_t k = 0; k < process->communicator[i].last_count; k++) {
            const gw_collective *call = &process->communicator[i].last[k];
            if (call->result == NCCL_IN_PROGRESS ||
                (call->t_ns <= t_ns + slack_ns && (call->t_end_ns == 0 || t_ns <= call->t_end_ns + slack_ns)))
                return true;
        }
    return false;
}

/* True if NCCL launched a kernel for a call that was not recorded. The kernel's launch must be older than the table. */
static bool has_unseen_calls(const gw_model *model, const gwi_process *process, const gw_process *facts)
{
    uint64_t since_ns = all_calls_since(facts),
             until_ns = facts->communicator_count == 0 ? UINT64_MAX : process->t_nccl_ns;
    const gw_thread *thread = gw_model_first_thread(model, facts->pid);
    for (; thread != NULL; thread = gw_model_next_thread(model, thread))
        for (size_t i = 0; i < thread->ring_count; i++) {
            const gw_ring_call *ring = &thread->ring[i];
            if (!ring->is_graph_launch && ring->t_ns >= since_ns && ring->t_ns < until_ns && is_nccl_kernel(ring) &&
                !was_inside_nccl(facts, ring->t_ns))
                return true;
        }
    return false;
}

void gwi_collectives_finish(gw_model *model)
{
    for (size_t i = 0; i < model->process_count; i++) {
        gw_process *process = &model->process[i];
        if (gwi_process_known(model, process->pid) != model->inner->process[i])
            continue; /* the pid was reused: the rings are those of the newer process */
        process->nccl_unseen = process->nccl_unseen || has_unseen_calls(model, model->inner->process[i], process);
        for (size_t k = 0; k < process->communicator_count; k++)
            for (size_t n = 0; n < process->communicator[k].last_count; n++)
                complete(model, process->pid, &process->communicator[k].last[n]);
    }
}

void gwi_collectives_free(gw_process *process)
{
    for (size_t i = 0; i < process->communicator_count; i++)
        free(process->communicator[i].last);
    free(process->communicator);
}
