/* What `gpuwhy poke` prints about NCCL: the communicators of a recorded process, and what NCCL's RAS says about the
 * ranks of a job. */
#include "gwi_cmd.h"
#include "gwi_poke.h"

#include "gw_model_facts.h"
#include "gw_ras.h"
#include "gw_ras_ask.h"
#include "gw_say.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- a recorded process ---- */

/* Print a rank that has made fewer collectives of this communicator. */
static void print_behind(const gw_process *process, const gw_communicator *mine)
{
    for (size_t i = 0; i < process->communicator_count; i++) {
        const gw_communicator *its = &process->communicator[i];
        if (its->id == mine->id && its->rank != mine->rank && its->t_end_ns == 0 &&
            its->collectives < mine->collectives)
            gw_print("      rank %" PRIu32 " (pid %" PRIu32 ") has called %" PRIu64 " of %" PRIu64 "\n", its->rank,
                     process->pid, its->collectives, mine->collectives);
    }
}

static void print_last(const gw_model *model, const gw_collective *call, uint64_t now_ns)
{
    static const char *const state[] = {[GW_COLLECTIVE_ENTERED] = "has not returned",
                                        [GW_COLLECTIVE_ENQUEUED] =
                                            "is enqueued; whether its work has ended is not known",
                                        [GW_COLLECTIVE_COMPLETED] = "has completed",
                                        [GW_COLLECTIVE_REFUSED] = "returned an error",
                                        [GW_COLLECTIVE_CAPTURED] = "was captured into a graph"};
    _Static_assert(sizeof state / sizeof state[0] == GW_COLLECTIVE_STATE_COUNT, "a text for each state");
    char text[GW_NCCL_CALL_TEXT_MAX], place[GW_PLACE_TEXT_MAX];
    const gw_stack *stack = gw_sites_stack(model->sites, call->site);
    const gw_frame *frame = stack == NULL || stack->user >= stack->count ? NULL : &stack->frame[stack->user];
    gw_print("      last call: %s", gw_nccl_call_text(text, call, false));
    if (frame != NULL)
        gw_print(" at %s", gw_frame_text(model->sites, frame, place));
    if (now_ns > call->t_ns)
        gw_print(", %.1f s ago", (double)(now_ns - call->t_ns) / 1e9);
    gw_print(": %s\n", state[call->state]);
}

void gwi_poke_print_nccl(const gw_model *model, uint32_t pid, uint64_t now_ns)
{
    const gw_process *process = gw_model_process(model, pid);
    for (size_t i = 0; process != NULL && i < process->communicator_count; i++) {
        const gw_communicator *its = &process->communicator[i];
        const gw_collective *last = its->last_count == 0 ? NULL : &its->last[its->last_count - 1];
        if (its->t_end_ns != 0)
            continue;
        gw_print("    NCCL communicator, rank %" PRIu32 " of %" PRIu32 ": %" PRIu64 " collectives, %" PRIu64
                 " sends and receives%s\n",
                 its->rank, its->size, its->collectives, its->p2p, its->is_ready ? "" : "; it is not initialised yet");
        if (last == NULL)
            continue;
        print_last(model, last, now_ns);
        bool may_wait = last->state == GW_COLLECTIVE_ENTERED || last->state == GW_COLLECTIVE_ENQUEUED;
        for (size_t k = 0; may_wait && its->id != 0 && k < model->process_count; k++)
            print_behind(&model->process[k], its);
    }
}

/* ---- RAS ---- */

static bool does_same(const gw_ras_rank *a, const gw_ras_rank *b)
{
    return a->is_missing == b->is_missing && a->is_dead == b->is_dead && memcmp(a->has, b->has, sizeof a->has) == 0 &&
           memcmp(a->count, b->count, sizeof a->count) == 0;
}

static void add_counts(gw_text *text, const gw_ras_rank *rank)
{
    size_t before = text->bytes;
    if (rank->is_missing || rank->is_dead) {
        gw_text_add_str(text, rank->is_dead ? "RAS has not reached it for a minute" : "it did not answer RAS");
        return;
    }
    for (unsigned i = 0; i < GW_NCCL_CALL_COUNT; i++)
        if (rank->has[i] && rank->count[i] > 0)
            gw_text_addf(text, "%s%" PRIu64 " %s", text->bytes == before ? "launched " : ", ", rank->count[i],
                         gw_nccl_call_name((gw_nccl_call)i) + strlen("nccl"));
    if (rank->has[GW_RAS_ALL])
        gw_text_addf(text, "launched %" PRIu64 " collectives", rank->count[GW_RAS_ALL]);
    if (text->bytes == before)
        gw_text_add_str(text, "launched no collective");
}

/* Append a line for the ranks that have the same counts as this one, if it is the first of `count`. */
static void add_group(gw_text *text, const gw_ras_comm *comm, size_t index, size_t wanted)
{
    enum { SHOWN_MAX = 8 };
    const gw_ras_rank *rank = &comm->rank[index];
    size_t count = 0, shown = 0;
    for (size_t i = 0; i < comm->rank_count; i++) {
        bool is_same = does_same(rank, &comm->rank[i]);
        if (is_same && i < index)
            return;
        count += is_same;
    }
    if (count != wanted)
        return;
    gw_text_add_str(text, count == 1 ? "  rank" : "  ranks");
    for (size_t i = index; i < comm->rank_count && shown <= SHOWN_MAX; i++) {
        if (!does_same(rank, &comm->rank[i]))
            continue;
        gw_text_add_str(text, shown == 0 ? " " : ", ");
        if (shown++ == SHOWN_MAX)
            gw_text_add_str(text, "..");
        else
            gw_text_addf(text, "%" PRIu32, comm->rank[i].rank);
    }
    if (count == 1 && rank->pid != 0)
        gw_text_addf(text, " (pid %" PRIu32 "%s%s)", rank->pid, rank->node[0] == '\0' ? "" : " on ", rank->node);
    gw_text_add_str(text, ": ");
    add_counts(text, rank);
    gw_text_add_str(text, "\n");
}

static void add_answer(gw_text *text, const gw_ras *ras, const gw_ras *older)
{
    for (size_t i = 0; i < ras->comm_count; i++) {
        const gw_ras_comm *comm = &ras->comm[i];
        gw_text_addf(text, "NCCL's RAS, communicator %" PRIx64 " of %" PRIu32 " ranks%s:\n", comm->hash, comm->size,
                     older == NULL             ? ""
                     : gw_ras_same(older, ras) ? ", at two looks with the same counts"
                                               : ", whose counts change");
        /* the smallest groups first: the odd one out explains the most */
        for (size_t wanted = 1; wanted <= comm->rank_count; wanted++)
            for (size_t k = 0; k < comm->rank_count; k++)
                add_group(text, comm, k, wanted);
    }
}

void gwi_poke_ask_ras(gw_text *text, const uint32_t *pid, size_t count)
{
    gw_error err;
    gw_text answer[GW_RAS_ANSWERS] = {0};
    gw_ras ras[GW_RAS_ANSWERS] = {0};
    int answers = gw_ras_ask(pid, count, NULL, NULL, answer);
    bool is_read = answers > 0;
    for (int i = 0; i < answers && is_read; i++)
        is_read = gw_ras_read("RAS", gw_text_str(&answer[i]), answer[i].bytes, &ras[i], &err) == GW_OK;
    if (is_read)
        add_answer(text, &ras[answers - 1], answers == GW_RAS_ANSWERS ? &ras[0] : NULL);
    else if (answers > 0)
        gw_text_addf(text, "NCCL's RAS: %s\n", err.text);
    else if (answers == 0)
        gw_text_add_str(text, "NCCL's RAS listens, but did not answer for this job within two seconds\n");
    for (int i = 0; i < GW_RAS_ANSWERS; i++) {
        gw_ras_free(&ras[i]);
        gw_text_free(&answer[i]);
    }
}
