/* The ranks are sorted by communicator, then by rank. Two ranks agree on the number of a collective, because each
 * counts its calls on the communicator; so no clock is needed. */
#include "gwi_saved_ranks.h"

#include "gw_ras.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct member {
    const gw_process *process;
    const gw_communicator *comm;
} member;

typedef struct members {
    member *item; /* owned */
    size_t count;
} members;

/* The members of one communicator: item[begin] to item[end - 1]. */
typedef struct group {
    const member *item;
    size_t count;
} group;

bool gwi_are_saved_ranks(const gwi_case *c)
{
    return gw_model_meta(c->model, GW_META_RANKS) != NULL;
}

/* ---- members of a communicator ---- */

static uint32_t rank_of(const member *it)
{
    return it->process->has_rank ? it->process->rank : it->comm->rank;
}

static int by_id_and_rank(const void *left, const void *right)
{
    const member *a = left, *b = right;
    if (a->comm->id != b->comm->id)
        return a->comm->id < b->comm->id ? -1 : 1;
    return (rank_of(a) > rank_of(b)) - (rank_of(a) < rank_of(b));
}

/* List the members of all communicators. Without memory, the list is empty. */
static members list_members(const gw_model *model)
{
    members all = {0};
    size_t count = 0;
    for (size_t i = 0; i < model->process_count; i++)
        count += model->process[i].communicator_count;
    all.item = count == 0 ? NULL : calloc(count, sizeof *all.item);
    for (size_t i = 0; i < model->process_count && all.item != NULL; i++) {
        for (size_t k = 0; k < model->process[i].communicator_count; k++)
            all.item[all.count++] = (member){&model->process[i], &model->process[i].communicator[k]};
    }
    if (all.count > 1)
        qsort(all.item, all.count, sizeof *all.item, by_id_and_rank);
    return all;
}

/* Return the communicator after `at`. Begin with {0}. Returns false at the end. */
static bool next_group(const members *all, group *at)
{
    size_t begin = at->item == NULL ? 0 : (size_t)(at->item - all->item) + at->count, end = begin;
    while (end < all->count && all->item[end].comm->id == all->item[begin].comm->id)
        end++;
    *at = (group){all->item + begin, end - begin};
    return end > begin;
}

static bool has_open(const member *it)
{
    for (size_t i = it->comm->last_count; i-- > 0;)
        if (it->comm->last[i].state == GW_COLLECTIVE_ENQUEUED)
            return true;
    return false;
}

/* ---- texts ---- */

enum { WHO_TEXT_MAX = GWI_NUMBERS_TEXT_MAX + 16, GROUP_TEXT_MAX = 256 };

/* Write "process group 0 (default_pg)" or "communicator 0x12ab". */
static const char *group_text(const gwi_case *c, const group *it, char out[GROUP_TEXT_MAX])
{
    char key[64];
    snprintf(key, sizeof key, GW_META_GROUP "%016" PRIx64, it->item->comm->id);
    const char *name = gw_model_meta(c->model, key);
    if (name != NULL)
        snprintf(out, GROUP_TEXT_MAX, "process group %.200s", name);
    else
        snprintf(out, GROUP_TEXT_MAX, "communicator 0x%" PRIx64, it->item->comm->id);
    return out;
}

/* Return how many calls of a kind a rank made. GW_NCCL_CALL_COUNT: of all kinds. */
static uint64_t made_by(const member *it, int kind)
{
    return kind == GW_NCCL_CALL_COUNT ? it->comm->collectives : it->comm->calls[kind];
}

/* Write "rank 3" or "ranks 0-2, 4": the members that made `count` calls of a kind. Returns their number. */
static size_t who_text(const group *all, int kind, uint64_t count, char out[WHO_TEXT_MAX])
{
    char numbers[GWI_NUMBERS_TEXT_MAX];
    size_t found = 0;
    uint32_t *rank = calloc(all->count + 1, sizeof *rank);
    for (size_t i = 0; i < all->count && rank != NULL; i++)
        if (kind < 0 || made_by(&all->item[i], kind) == count)
            rank[found++] = rank_of(&all->item[i]);
    snprintf(out, WHO_TEXT_MAX, "rank%s %s", GWI_PLURAL(found),
             rank == NULL ? "?" : gwi_numbers_text(numbers, rank, found));
    free(rank);
    return found;
}

/* ---- ranks that made fewer calls, by counts alone ---- */

typedef struct fewer {
    int kind; /* as in made_by() */
    uint64_t least, most;
    const member *first; /* that made `least` calls */
} fewer;

static bool find_fewer(const group *all, fewer *ret)
{
    for (int kind = 0; kind <= GW_NCCL_CALL_COUNT; kind++) {
        *ret = (fewer){.kind = kind, .least = UINT64_MAX};
        for (size_t i = 0; i < all->count; i++) {
            uint64_t made = made_by(&all->item[i], kind);
            if (all->item[i].comm->last_count > 0)
                return false; /* the calls themselves are listed, and compared elsewhere */
            ret->first = made < ret->least ? &all->item[i] : ret->first;
            ret->least = made < ret->least ? made : ret->least;
            ret->most = made > ret->most ? made : ret->most;
        }
        if (all->count > 1 && ret->least < ret->most)
            return true;
    }
    return false;
}

/* Report which processes the ranks are, for the first ones that are behind. */
static void say_processes(const gwi_case *c, gwi_finding *finding, const group *all, const fewer *found)
{
    enum { SHOWN_MAX = 4 };
    size_t shown = 0;
    for (size_t i = 0; i < all->count && shown < SHOWN_MAX; i++) {
        const member *it = &all->item[i];
        char key[64];
        snprintf(key, sizeof key, GW_META_PROCESS "%" PRIu32, it->process->pid);
        const char *text = gw_model_meta(c->model, key);
        if (made_by(it, found->kind) != found->least || text == NULL)
            continue;
        gwi_evidence(finding, GWI_NO_TIME, "dump", "rank %" PRIu32 " is %s", rank_of(it), text);
        gwi_weigh(finding, GW_WEIGHT_DECIDES);
        shown++;
    }
}

static void say_fewer(const gwi_case *c, gwi_finding *finding, const group *all, const fewer *found)
{
    char late[WHO_TEXT_MAX], others[WHO_TEXT_MAX], name[GROUP_TEXT_MAX];
    const char *call = found->kind == GW_NCCL_CALL_COUNT ? "collectives" : gw_nccl_call_name((gw_nccl_call)found->kind);
    size_t count = who_text(all, found->kind, found->least, late);
    who_text(all, found->kind, found->most, others);
    gwi_headline(finding, "%s %s launched %" PRIu64 " %s, and %s %" PRIu64, late, count == 1 ? "has" : "have",
                 found->least, call, others, found->most);
    say_processes(c, finding, all, found);
    gwi_evidence(finding, GWI_NO_TIME, "dump", "the counts are of %s with %" PRIu32 " ranks", group_text(c, all, name),
                 all->item->comm->size);
    if (gw_model_meta(c->model, GW_META_SAME) != NULL) {
        gwi_evidence(finding, GWI_NO_TIME, "dump",
                     "the answers have equal counts, so the ranks made no call in between");
        gwi_weigh(finding, GW_WEIGHT_DECIDES);
        return;
    }
    gwi_evidence(finding, GWI_NO_TIME, "dump",
                 "counts may differ for a moment in a program that works: only equal answers, some seconds apart, show "
                 "that ranks are stuck");
}

/* Report the ranks that RAS could not reach. Returns their number. */
static size_t say_silent(const gwi_case *c, gwi_finding *finding, const char *which)
{
    enum { SHOWN_MAX = 8 };
    size_t count = 0;
    for (size_t i = 0; i < c->model->meta_count; i++) {
        const gw_pair *pair = &c->model->meta[i];
        if (pair->key == NULL || strcmp(pair->key, which) != 0)
            continue;
        if (count++ == 0)
            gwi_headline(finding, "%s, as NCCL's RAS reports", pair->value);
        if (count <= SHOWN_MAX)
            gwi_evidence(finding, GWI_NO_TIME, "dump", "%s", pair->value);
    }
    if (count > SHOWN_MAX)
        gwi_evidence(finding, GWI_NO_TIME, "dump", "and %zu more ranks", count - SHOWN_MAX);
    return count;
}

gw_certainty gwi_judge_fewer_calls(const gwi_case *c, gwi_finding *finding)
{
    fewer found;
    gw_certainty certainty = GW_CERTAINTY_NONE;
    members all = gwi_are_saved_ranks(c) ? list_members(c->model) : (members){0};
    for (group it = {0}; certainty == GW_CERTAINTY_NONE && next_group(&all, &it);) {
        if (it.item->comm->id == 0 || !find_fewer(&it, &found))
            continue;
        say_fewer(c, finding, &it, &found);
        certainty = gw_model_meta(c->model, GW_META_SAME) != NULL ? GW_SUPPORTED : GW_HYPOTHESIS;
    }
    free(all.item);
    if (certainty == GW_CERTAINTY_NONE && gwi_are_saved_ranks(c) && say_silent(c, finding, GW_META_DEAD) > 0)
        certainty = GW_SUPPORTED;
    return certainty;
}

/* ---- RAS's answers in a recording ---- */

/* Append "rank 1 (pid 4712) 50" for the ranks of a communicator whose count of a kind differs from the most. Returns
 * true if there are any. */
static bool add_fewer(const gw_ras_comm *comm, int kind, gw_text *text)
{
    enum { SHOWN_MAX = 6 };
    uint64_t most = 0;
    size_t count = 0;
    for (size_t i = 0; i < comm->rank_count; i++)
        if (comm->rank[i].has[kind] && comm->rank[i].count[kind] > most)
            most = comm->rank[i].count[kind];
    for (size_t i = 0; i < comm->rank_count; i++) {
        const gw_ras_rank *rank = &comm->rank[i];
        if (!rank->has[kind] || rank->count[kind] == most || count++ >= SHOWN_MAX)
            continue;
        gw_text_addf(text, "%srank %" PRIu32, count > 1 ? ", " : "", rank->rank);
        if (rank->pid != 0)
            gw_text_addf(text, " (pid %" PRIu32 ")", rank->pid);
        gw_text_addf(text, " has launched %" PRIu64, rank->count[kind]);
    }
    if (count > SHOWN_MAX)
        gw_text_addf(text, " and %zu more ranks fewer", count - SHOWN_MAX);
    if (count > 0)
        gw_text_addf(text, " %s, others %" PRIu64,
                     kind == GW_RAS_ALL ? "collectives" : gw_nccl_call_name((gw_nccl_call)kind), most);
    return count > 0;
}

static bool say_answer(gwi_finding *finding, const gw_pair *fact, const gw_ras *ras)
{
    bool any = false;
    for (size_t i = 0; i < ras->comm_count && !any; i++) {
        for (int kind = 0; kind < GW_RAS_KINDS && !any; kind++) {
            gw_text text = {0};
            any = add_fewer(&ras->comm[i], kind, &text);
            if (any)
                gwi_evidence(finding, fact->t_ns, "dump", "NCCL's RAS: %s", gw_text_str(&text));
            finding->failed = finding->failed || text.failed;
            gw_text_free(&text);
        }
    }
    return any;
}

gw_certainty gwi_say_ras(const gwi_case *c, gwi_finding *finding)
{
    const gw_pair *last = NULL;
    gw_ras answer = {0}, older = {0};
    bool is_same = false;
    for (size_t i = 0; i < c->model->fact_count; i++) {
        const gw_pair *fact = &c->model->fact[i];
        gw_ras read;
        if (fact->what != GW_FACT_NCCL_RAS ||
            gw_ras_read("RAS", fact->value, strlen(fact->value), &read, NULL) != GW_OK)
            continue;
        gw_ras_free(&older);
        older = answer;
        answer = read;
        is_same = last != NULL && gw_ras_same(&older, &answer);
        last = fact;
    }
    bool any = last != NULL && say_answer(finding, last, &answer);
    if (any && is_same)
        gwi_evidence(finding, last->t_ns, "dump", "RAS gave the same counts twice: no rank went on in between");
    gw_ras_free(&older);
    gw_ras_free(&answer);
    if (!any)
        return GW_CERTAINTY_NONE;
    return is_same ? GW_SUPPORTED : GW_HYPOTHESIS;
}

/* ---- what the files show ---- */

static void say_state(const gwi_case *c, gwi_finding *finding, const group *all)
{
    char who[WHO_TEXT_MAX], name[GROUP_TEXT_MAX], place[GWI_PLACE_TEXT_MAX];
    const gw_communicator *comm = all->item->comm;
    const gw_collective *last = comm->last_count == 0 ? NULL : &comm->last[comm->last_count - 1];
    gw_text text = {0};
    size_t count = who_text(all, -1, 0, who);
    gw_text_addf(&text, "%s: %s made %" PRIu64 " collective calls%s", group_text(c, all, name), who, comm->collectives,
                 count > 1 ? " each" : "");
    if (last != NULL)
        gw_text_addf(&text, "; the last one is %s #%" PRIu64 "%s, %s", gw_nccl_call_name(last->call), last->number,
                     gwi_at(c, last->site, place), has_open(all->item) ? "not completed" : "completed");
    gwi_evidence(finding, GWI_NO_TIME, "dump", "%s", gw_text_str(&text));
    finding->failed = finding->failed || text.failed;
    gw_text_free(&text);
}

void gwi_say_saved_ranks(const gwi_case *c, gwi_finding *finding)
{
    enum { SHOWN_MAX = 6 };
    members all = list_members(c->model);
    size_t shown = 0, open = 0, missing = 0;
    fewer found, here;
    group fewer_at = {0};
    for (size_t i = 0; i < all.count; i++)
        open += has_open(&all.item[i]);
    for (group it = {0}; next_group(&all, &it);) {
        missing += it.item->comm->size > it.count;
        if (fewer_at.count == 0 && find_fewer(&it, &here)) {
            fewer_at = it;
            found = here;
        }
        if (!find_fewer(&it, &here) && shown++ < SHOWN_MAX)
            say_state(c, finding, &it);
    }
    if (fewer_at.count > 0)
        say_fewer(c, finding, &fewer_at, &found);
    else if (say_silent(c, finding, GW_META_SILENT) > 0)
        missing++;
    else if (c->model->hang_count > 0)
        (void)gwi_say_stacks(c, finding);
    else if (all.count == 0)
        gwi_headline(finding, "NCCL's RAS reports no difference between the ranks");
    else if (missing > 0)
        gwi_headline(finding, "the ranks in these files agree; other ranks of their groups are in no file");
    else if (open > 0)
        gwi_headline(finding, "all ranks made the same calls, and some of the calls have not completed");
    else
        gwi_headline(finding, "all ranks made the same calls, and no call is known to wait");
    if (fewer_at.count > 0)
        gwi_next(finding, "Ask again some seconds later (ncclras -v): equal answers show that the ranks are stuck");
    else if (c->model->hang_count > 0)
        gwi_next(finding,
                 "Take two dumps of each rank, some seconds apart (py-spy dump --locals --pid PID >> rankN.txt): "
                 "equal ones show that the ranks are stuck");
    else if (missing > 0)
        gwi_next(finding, "Look at the ranks that are not in these files: one of them may be the one that is missing");
    else if (open > 0)
        gwi_next(finding, "Look at the network and the cards: NCCL_DEBUG=INFO, and dmesg -T on each host");
    else
        gwi_next(finding, "Look at what each rank did after its last call: gpuwhy poke, or py-spy dump");
    free(all.item);
}
