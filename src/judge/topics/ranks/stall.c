/* Finds the rank that keeps others waiting in NCCL.
 *
 * NCCL matches the collectives of a communicator by their order, so ranks agree on their numbers. This gives four
 * rules:
 * - Two ranks that made different calls at one number cannot both go on.
 * - A rank with fewer calls than a waiting one is behind. Ranks may be some calls apart at any time, so this is a
 *   fault only if a rank is stuck. The rank that is behind may itself wait on another communicator. Then the rank
 *   for which it waits is at fault, or the two wait for each other.
 * - A stream runs its work in order, so two ranks that enqueued the calls of two communicators in different orders on
 *   one stream wait for each other.
 * - If a rank has ended, or has destroyed the communicator, it will never make the call.
 *
 * Sends and receives are matched per peer. Their counts are known only if no such call has left the record, or if the
 * communicator has two ranks. */
#include "gwi_stall.h"

#include <stdlib.h>
#include <string.h>

/* A rank's place in a communicator. */
typedef struct seat {
    const gw_rank_communicator *communicator;
    size_t rank; /* index in gw_ranks */
} seat;

typedef struct group {
    const gw_ranks *ranks;
    const seat *seat; /* of one communicator, sorted by rank */
    size_t count;
} group;

typedef struct table {
    const gw_ranks *ranks;
    seat *seat; /* owned; sorted by communicator, then by rank */
    size_t count;
} table;

static int by_communicator(const void *left, const void *right)
{
    const seat *a = left, *b = right;
    if (a->communicator->id != b->communicator->id)
        return a->communicator->id < b->communicator->id ? -1 : 1;
    if (a->communicator->rank != b->communicator->rank)
        return a->communicator->rank < b->communicator->rank ? -1 : 1;
    return a->rank < b->rank ? -1 : a->rank > b->rank;
}

/* True if the call that should have made it failed. The rank may have tried again, with the same id. */
static bool was_never_made(const gw_rank_communicator *communicator)
{
    return !communicator->is_ready && communicator->t_end_ns != 0 && !communicator->is_aborted;
}

/* True if the rank aborted or revoked the communicator and then went on with another one: nothing of it waits there. */
static bool has_gone_on(const gw_rank *rank, const gw_rank_communicator *communicator)
{
    for (size_t i = 0; i < rank->communicator_count && communicator->is_aborted; i++) {
        const gw_rank_communicator *other = &rank->communicator[i];
        if (other != communicator &&
            (other->t_init_ns > communicator->t_end_ns ||
             (other->call_count > 0 && other->call[other->call_count - 1].t_ns > communicator->t_end_ns)))
            return true;
    }
    return false;
}

static bool table_open(table *all, const gw_ranks *ranks)
{
    size_t count = 0;
    for (size_t i = 0; i < ranks->count; i++)
        count += ranks->item[i].communicator_count;
    *all = (table){.ranks = ranks, .seat = count == 0 ? NULL : malloc(count * sizeof *all->seat)};
    for (size_t i = 0; i < ranks->count && all->seat != NULL; i++)
        for (size_t k = 0; k < ranks->item[i].communicator_count; k++)
            if (!was_never_made(&ranks->item[i].communicator[k]) &&
                !has_gone_on(&ranks->item[i], &ranks->item[i].communicator[k]))
                all->seat[all->count++] = (seat){&ranks->item[i].communicator[k], i};
    if (all->count > 1)
        qsort(all->seat, all->count, sizeof *all->seat, by_communicator);
    return count == 0 || all->seat != NULL;
}

static bool next_group(const table *all, group *at)
{
    size_t begin = at->seat == NULL ? 0 : (size_t)(at->seat - all->seat) + at->count, end = begin;
    if (begin == all->count)
        return false;
    while (end < all->count && all->seat[end].communicator->id == all->seat[begin].communicator->id)
        end++;
    *at = (group){all->ranks, &all->seat[begin], end - begin};
    return true;
}

static const gw_rank *rank_of(const group *it, size_t i)
{
    return &it->ranks->item[it->seat[i].rank];
}

/* ---- calls ---- */

static bool is_p2p(const gw_rank_call *call)
{
    return gw_nccl_has_peer(call->call);
}

static bool is_pending(const gw_rank_call *call)
{
    return call->state == GW_COLLECTIVE_ENTERED || call->state == GW_COLLECTIVE_ENQUEUED;
}

static const gw_rank_call *call_at(const gw_rank_communicator *communicator, uint64_t number)
{
    for (size_t i = communicator->call_count; i-- > 0;) {
        const gw_rank_call *call = &communicator->call[i];
        if (!is_p2p(call) && call->number == number)
            return call;
    }
    return NULL;
}

/* Return the rank's last collective if it may be stuck there. */
static const gw_rank_call *waits_at(const group *it, size_t i)
{
    const gw_rank_call *last = call_at(it->seat[i].communicator, it->seat[i].communicator->collectives);
    return rank_of(it, i)->is_stuck && last != NULL && is_pending(last) ? last : NULL;
}

static bool has_root(uint8_t call)
{
    static const bool rows[] = {
#define GW_X(name, function, agree, root, peer) root,
        GW_NCCL_CALLS(GW_X)
#undef GW_X
    };
    return call < GW_NCCL_CALL_COUNT && rows[call];
}

static uint64_t bytes_of(const gw_rank_call *call)
{
    uint32_t bytes = 0;
    gw_nccl_type_name(call->type, &bytes);
    return bytes * call->elements;
}

/* True if NCCL can match the two calls. A call that computes nothing only moves bytes, whatever their type. */
static bool can_match(const gw_rank_call *a, const gw_rank_call *b)
{
    bool same_elements = a->type == b->type && a->elements == b->elements;
    bool computes = a->call == GW_NCCL_ALL_REDUCE || a->call == GW_NCCL_REDUCE_SCATTER || a->call == GW_NCCL_REDUCE;
    if (a->call != b->call || (has_root(a->call) && a->root_or_peer != b->root_or_peer))
        return false;
    return same_elements || (!computes && bytes_of(a) != 0 && bytes_of(a) == bytes_of(b));
}

/* ---- different calls at one number ---- */

typedef struct entry {
    const gw_rank_call *call;
    size_t seat; /* index in the group */
} entry;

static int by_number(const void *left, const void *right)
{
    const entry *a = left, *b = right;
    if (a->call->number != b->call->number)
        return a->call->number < b->call->number ? -1 : 1;
    return a->seat < b->seat ? -1 : a->seat > b->seat;
}

/* List the collectives of a group that ran or may run. Returns NULL if there is none, or no memory (*ret_failed). */
static entry *list_calls(const group *it, size_t *ret_count, bool *ret_failed)
{
    size_t count = 0;
    for (size_t i = 0; i < it->count; i++)
        count += it->seat[i].communicator->call_count;
    entry *list = count == 0 ? NULL : malloc(count * sizeof *list);
    *ret_failed = *ret_failed || (count > 0 && list == NULL);
    *ret_count = 0;
    for (size_t i = 0; i < it->count && list != NULL; i++) {
        const gw_rank_communicator *communicator = it->seat[i].communicator;
        for (size_t k = 0; k < communicator->call_count; k++) {
            const gw_rank_call *call = &communicator->call[k];
            if (!is_p2p(call) && call->state != GW_COLLECTIVE_REFUSED && call->state != GW_COLLECTIVE_CAPTURED)
                list[(*ret_count)++] = (entry){call, i};
        }
    }
    if (*ret_count > 1)
        qsort(list, *ret_count, sizeof *list, by_number);
    return list;
}

/* Find the call that the fewest ranks made: the odd one. If two calls are equally rare, it is the one of the higher
 * ranks. `ret_most` is the call that most made. */
static void find_odd(const entry *list, size_t count, entry *ret_odd, entry *ret_most)
{
    enum { KINDS_MAX = 8 };
    entry kind[KINDS_MAX];
    size_t kinds = 0, many[KINDS_MAX] = {0}, odd = 0, most = 0;
    for (size_t i = 0; i < count; i++) {
        size_t k = 0;
        while (k < kinds && !can_match(kind[k].call, list[i].call))
            k++;
        if (k == KINDS_MAX)
            continue;
        if (k == kinds)
            kind[kinds++] = list[i];
        many[k]++;
    }
    for (size_t k = 1; k < kinds; k++) {
        odd = many[k] <= many[odd] ? k : odd;
        most = many[k] > many[most] ? k : most;
    }
    if (odd == most)
        most = odd == 0 && kinds > 1 ? 1 : 0;
    *ret_odd = kind[odd];
    *ret_most = kind[most];
}

/* Count the calls of a group that can match `like`. Without `like`, count all of them. */
static size_t count_grouped(const gw_rank_communicator *it, uint32_t number, const gw_rank_call *like)
{
    size_t count = 0;
    for (size_t i = 0; i < it->call_count; i++)
        count += it->call[i].group == number && (like == NULL || can_match(like, &it->call[i]));
    return count;
}

/* True if both calls belong to groups, and the two groups have, or may have, the same calls in different orders. NCCL
 * may reorder the calls of a group. */
static bool are_alike_groups(const group *it, const entry *a, const entry *b)
{
    const gw_rank_communicator *own = it->seat[a->seat].communicator, *other = it->seat[b->seat].communicator;
    uint32_t group_a = a->call->group, group_b = b->call->group;
    if (group_a == 0 || group_b == 0)
        return false;
    if (own->call[0].group == group_a || other->call[0].group == group_b)
        return true; /* the first calls of the group may have left the record */
    for (size_t i = 0; i < own->call_count; i++)
        if (own->call[i].group == group_a &&
            count_grouped(own, group_a, &own->call[i]) != count_grouped(other, group_b, &own->call[i]))
            return false;
    return count_grouped(own, group_a, NULL) == count_grouped(other, group_b, NULL);
}

/* True if a rank is behind and does not wait in NCCL, so it may keep the others waiting. */
static bool is_any_behind(const group *it)
{
    uint64_t most = 0;
    for (size_t i = 0; i < it->count; i++)
        most = it->seat[i].communicator->collectives > most ? it->seat[i].communicator->collectives : most;
    for (size_t i = 0; i < it->count; i++)
        if (it->seat[i].communicator->collectives < most && !rank_of(it, i)->is_stuck)
            return true;
    return false;
}

/* How sure it is that ranks are stuck because of these two calls. Whether the calls themselves have ended does not
 * matter: NCCL's buffers are then out of step, and a later call hangs. */
static gw_certainty judge_differs(const group *it, const entry *odd, const entry *most)
{
    const entry *both[] = {odd, most};
    bool is_whole = true, is_stuck = false, is_inside = false;
    for (size_t i = 0; i < 2; i++) {
        const gw_rank *rank = rank_of(it, both[i]->seat);
        is_whole = is_whole && rank->is_whole && !rank->has_replays;
        is_inside = is_inside || both[i]->call->state == GW_COLLECTIVE_ENTERED;
        is_stuck = is_stuck || waits_at(it, both[i]->seat) != NULL;
    }
    return is_whole && (is_inside || (is_stuck && !is_any_behind(it))) ? GW_ESTABLISHED : GW_SUPPORTED;
}

static gwi_stall stall_of(const group *it, gwi_stall_kind kind, size_t culprit, size_t waiting, uint64_t number)
{
    return (gwi_stall){.kind = kind,
                       .id = it->seat[culprit].communicator->id,
                       .number = number,
                       .culprit = it->seat[culprit].rank,
                       .waiting = it->seat[waiting].rank,
                       .culprit_rank = it->seat[culprit].communicator->rank};
}

/* Find the first number at which two ranks made different calls. Returns false if there is no memory. */
static bool find_differs(const group *it, gwi_stall *ret_stall)
{
    size_t count;
    bool failed = false;
    entry *list = list_calls(it, &count, &failed);
    for (size_t begin = 0, end; begin < count && ret_stall->kind == GWI_STALL_NONE; begin = end) {
        bool differs = false;
        for (end = begin; end < count && list[end].call->number == list[begin].call->number; end++)
            differs = differs || !can_match(list[begin].call, list[end].call);
        if (!differs)
            continue;
        entry odd, most;
        find_odd(&list[begin], end - begin, &odd, &most);
        if (rank_of(it, odd.seat)->no_pid && !is_pending(odd.call) && !is_pending(most.call))
            continue; /* a saved file may name one call in two ways; nothing waits for them */
        if (are_alike_groups(it, &odd, &most))
            continue;
        *ret_stall = stall_of(it, GWI_STALL_DIFFERS, odd.seat, most.seat, odd.call->number);
        ret_stall->certainty = judge_differs(it, &odd, &most);
        ret_stall->t_ns = most.call->t_ns;
    }
    free(list);
    return !failed;
}

/* Return the number of the rank's last collective of a function. 0: it made none; UINT64_MAX: unknown, or it did not
 * run.
 */
static uint64_t last_of_kind(const gw_rank_communicator *it, uint8_t kind)
{
    for (size_t i = it->call_count; i-- > 0;) {
        uint8_t state = it->call[i].state;
        bool has_run = state != GW_COLLECTIVE_REFUSED && state != GW_COLLECTIVE_CAPTURED;
        if (it->call[i].call == kind)
            return has_run ? it->call[i].number : UINT64_MAX;
    }
    return it->calls[kind] == 0 ? 0 : UINT64_MAX;
}

/* Find a number at which two ranks made different calls although these have left the record of one of them: the record
 * keeps the last collective of each function, so the other one did not make it at that number. */
static gwi_stall find_lost_difference(const group *it)
{
    for (uint8_t kind = 0; kind < GW_NCCL_CALL_COUNT; kind++) {
        for (size_t i = 1; i < it->count && !gw_nccl_has_peer(kind); i++) {
            const gw_rank_communicator *a = it->seat[0].communicator, *b = it->seat[i].communicator;
            uint64_t last_a = last_of_kind(a, kind), last_b = last_of_kind(b, kind);
            bool is_known = last_a != UINT64_MAX && last_b != UINT64_MAX && !rank_of(it, 0)->no_pid &&
                            rank_of(it, 0)->is_whole && rank_of(it, i)->is_whole;
            uint64_t number = last_a > last_b ? last_a : last_b;
            size_t odd = last_a > last_b ? 0 : i;
            if (!is_known || last_a == last_b || number > a->collectives || number > b->collectives ||
                (waits_at(it, 0) == NULL && waits_at(it, i) == NULL))
                continue;
            gwi_stall stall = stall_of(it, GWI_STALL_DIFFERS, odd, i - odd, number);
            bool has_replays = rank_of(it, 0)->has_replays || rank_of(it, i)->has_replays;
            stall.certainty = has_replays || is_any_behind(it) ? GW_SUPPORTED : GW_ESTABLISHED;
            stall.t_ns = waits_at(it, i - odd) != NULL ? waits_at(it, i - odd)->t_ns : 0;
            return stall;
        }
    }
    return (gwi_stall){0};
}

/* ---- a rank that is behind ---- */

/* Return a place in the group of another process than `waiting`, with this number of collectives; SIZE_MAX: none. */
static size_t find_other(const group *it, size_t waiting, uint64_t collectives)
{
    for (size_t i = 0; i < it->count; i++)
        if (it->seat[i].communicator->collectives == collectives && it->seat[i].rank != it->seat[waiting].rank)
            return i;
    return SIZE_MAX;
}

/* Find a rank that waits in a collective (*ret_waiting), and one that has made the fewest of them (*ret_behind). */
static bool find_gap(const group *it, size_t *ret_behind, size_t *ret_waiting)
{
    uint64_t fewest = UINT64_MAX;
    for (size_t i = 0; i < it->count; i++)
        fewest = it->seat[i].communicator->collectives < fewest ? it->seat[i].communicator->collectives : fewest;
    for (size_t i = 0; i < it->count; i++) {
        const gw_rank_call *call = call_at(it->seat[i].communicator, fewest + 1);
        if (it->seat[i].communicator->collectives <= fewest || waits_at(it, i) == NULL ||
            (call != NULL && !is_pending(call)))
            continue;
        *ret_waiting = i;
        *ret_behind = find_other(it, i, fewest);
        if (*ret_behind != SIZE_MAX)
            return true;
    }
    return false;
}

/* How sure it is that nothing but this rank keeps the others waiting. */
static gw_certainty judge_behind(const group *it, size_t behind, size_t waiting, bool is_sure)
{
    const gw_rank *late = rank_of(it, behind), *other = rank_of(it, waiting);
    is_sure = is_sure && late->is_whole && other->is_whole && !late->has_replays && !other->has_replays;
    is_sure = is_sure && late->end != GW_RANK_ENDED; /* an error may have ended it */
    return is_sure && it->count == it->seat[behind].communicator->size ? GW_ESTABLISHED : GW_SUPPORTED;
}

/* True if nothing of other ranks can keep the rank where it stands. A kernel behind one of NCCL's may wait for it. */
static bool is_own_stand(const gw_rank *rank)
{
    return rank->stand >= GW_RANK_STANDS_KERNEL && !rank->is_stuck;
}

static bool has_left(const gw_rank *rank, const gw_rank_communicator *communicator)
{
    return rank->end == GW_RANK_ENDED_WELL || rank->end == GW_RANK_ENDED ||
           (communicator->t_end_ns != 0 && !communicator->is_aborted);
}

/* Prefer a rank that has left or whose place is known, among all that are equally far behind. */
static size_t choose_behind(const group *it, size_t behind, size_t *ret_count)
{
    uint64_t number = it->seat[behind].communicator->collectives;
    size_t best = behind;
    unsigned most = 0;
    *ret_count = 0;
    for (size_t i = 0; i < it->count; i++) {
        const gw_rank *rank = rank_of(it, i);
        if (it->seat[i].communicator->collectives != number)
            continue;
        unsigned weight = has_left(rank, it->seat[i].communicator) ? 4 : 1;
        if (weight == 1 && rank->is_stuck && rank->stand != GW_RANK_STANDS_KERNEL)
            weight = 0; /* it waits itself, on another communicator */
        else if (weight == 1 && rank->stand != GW_RANK_STANDS_UNKNOWN)
            weight = is_own_stand(rank) ? 3 : 2;
        (*ret_count)++;
        if (weight > most) {
            most = weight;
            best = i;
        }
    }
    return best;
}

static gwi_stall behind_of(const group *it, size_t behind, size_t waiting)
{
    size_t count, late = choose_behind(it, behind, &count);
    const gw_rank *rank = rank_of(it, late);
    bool left = has_left(rank, it->seat[late].communicator);
    gwi_stall stall = stall_of(it, left ? GWI_STALL_LEFT : GWI_STALL_BEHIND, late, waiting,
                               it->seat[late].communicator->collectives + 1);
    const gw_rank_call *call = call_at(it->seat[waiting].communicator, stall.number);
    call = call != NULL ? call : waits_at(it, waiting);
    stall.behind_count = count;
    stall.t_ns = call == NULL ? 0 : call->t_ns; /* a process may have several seats, of which one waits */
    stall.certainty = judge_behind(it, late, waiting,
                                   left || (is_own_stand(rank) && rank->end == GW_RANK_RUNS) ||
                                       (is_own_stand(rank) && rank->end == GW_RANK_WAS_ENDED));
    return stall;
}

/* Find the group in which this rank waits for one that is behind. */
static bool find_wait_of(const table *all, size_t rank, group *ret_group, size_t *ret_behind)
{
    size_t waiting;
    *ret_group = (group){0};
    while (next_group(all, ret_group)) {
        if (!find_gap(ret_group, ret_behind, &waiting))
            continue;
        for (size_t i = 0; i < ret_group->count; i++)
            if (ret_group->seat[i].rank == rank && ret_group->seat[*ret_behind].rank != rank &&
                waits_at(ret_group, i) != NULL &&
                ret_group->seat[i].communicator->collectives > ret_group->seat[*ret_behind].communicator->collectives)
                return true;
    }
    return false;
}

/* Follow the waits from a rank that is behind to the one at fault: it waits for no other, or the waits form a circle.
 */
static gwi_stall follow(const table *all, const group *it, size_t behind, size_t waiting)
{
    enum { STEPS_MAX = 64 };
    const gwi_stall first = behind_of(it, behind, waiting);
    gwi_stall stall = first;
    uint64_t other_id = 0;
    for (int i = 0; i < STEPS_MAX && stall.kind == GWI_STALL_BEHIND && all->ranks->item[stall.culprit].is_stuck; i++) {
        group next;
        size_t next_behind, next_waiting = 0;
        if (!find_wait_of(all, stall.culprit, &next, &next_behind)) {
            /* it waits for a kernel of its own, for the same collective, or for something unknown */
            bool is_kernel = all->ranks->item[stall.culprit].stand == GW_RANK_STANDS_KERNEL;
            return is_kernel ? stall : (gwi_stall){0};
        }
        while (next.seat[next_waiting].rank != stall.culprit)
            next_waiting++;
        other_id = other_id == 0 ? next.seat[0].communicator->id : other_id;
        stall = behind_of(&next, next_behind, next_waiting);
        if (stall.culprit != first.culprit || stall.kind != GWI_STALL_BEHIND)
            continue;
        stall = first;
        stall.kind = GWI_STALL_CIRCLE;
        stall.other_id = other_id;
        stall.certainty = judge_behind(it, behind, waiting, true);
    }
    return stall.kind == GWI_STALL_BEHIND && all->ranks->item[stall.culprit].is_stuck ? (gwi_stall){0} : stall;
}

/* ---- two orders on one stream ---- */

static const gw_rank_communicator *communicator_at(const table *all, size_t rank, uint64_t id)
{
    const gw_rank *it = &all->ranks->item[rank];
    for (size_t i = 0; i < it->communicator_count; i++)
        if (it->communicator[i].id == id)
            return &it->communicator[i];
    return NULL;
}

/* True if the rank enqueued its last collective of `a` before that of `b` on one stream, and neither is known to have
 * ended. A stream runs them in that order. */
static bool is_before(const gw_rank_communicator *a, const gw_rank_communicator *b)
{
    const gw_rank_call *first = a == NULL ? NULL : call_at(a, a->collectives);
    const gw_rank_call *second = b == NULL ? NULL : call_at(b, b->collectives);
    return first != NULL && second != NULL && is_pending(first) && is_pending(second) && first->t_ns < second->t_ns &&
           first->stream == second->stream && (first->group == 0 || first->group != second->group);
}

/* Return the first later rank of the group that enqueued the last collectives of two communicators in the other order.
 * SIZE_MAX: none. */
static size_t find_reversed(const table *all, const group *it, size_t i, const gw_rank_communicator *other)
{
    const gw_rank_communicator *own = it->seat[i].communicator;
    for (size_t k = i + 1; k < it->count; k++) {
        const gw_rank_communicator *its = communicator_at(all, it->seat[k].rank, other->id);
        if (rank_of(it, k)->is_stuck && is_before(its, it->seat[k].communicator) &&
            its->collectives == other->collectives && it->seat[k].communicator->collectives == own->collectives)
            return k;
    }
    return SIZE_MAX;
}

/* Find two stuck ranks that wait for each other because of two orders. Only the first stuck rank is compared with the
 * others: two others with different orders differ from it, too. */
static gwi_stall find_order(const table *all, const group *it)
{
    size_t first = 0;
    while (first < it->count && !rank_of(it, first)->is_stuck)
        first++;
    for (size_t k = 0; first < it->count && k < rank_of(it, first)->communicator_count; k++) {
        const gw_rank_communicator *other = &rank_of(it, first)->communicator[k];
        size_t late = is_before(it->seat[first].communicator, other) ? find_reversed(all, it, first, other) : SIZE_MAX;
        if (late == SIZE_MAX)
            continue;
        gwi_stall stall = stall_of(it, GWI_STALL_CIRCLE, late, first, it->seat[first].communicator->collectives);
        stall.other_id = other->id;
        stall.t_ns = call_at(it->seat[first].communicator, stall.number)->t_ns;
        stall.certainty = judge_behind(it, late, first, true);
        return stall;
    }
    return (gwi_stall){0};
}

/* ---- a communicator that is never complete ---- */

static size_t find_job_rank(const gw_ranks *ranks, uint32_t rank)
{
    for (size_t i = 0; i < ranks->count; i++)
        if (ranks->item[i].has_rank && ranks->item[i].rank == rank)
            return i;
    return SIZE_MAX;
}

/* Find the first rank that did not join. It can be named only if the communicator has all ranks of the job. */
static gwi_stall find_absent(const group *it)
{
    uint32_t absent = 0;
    size_t waiting = SIZE_MAX;
    const gw_rank_communicator *first = it->seat[0].communicator;
    for (size_t i = 0; i < it->count; i++) {
        const gw_rank_communicator *communicator = it->seat[i].communicator;
        absent += communicator->rank == absent;
        if (!communicator->is_ready && communicator->t_end_ns == 0 && rank_of(it, i)->is_stuck)
            waiting = waiting == SIZE_MAX ? i : waiting;
    }
    if (waiting == SIZE_MAX || absent >= first->size)
        return (gwi_stall){0};
    const gw_rank *other = rank_of(it, waiting);
    bool is_whole_job =
        other->has_rank && other->world == first->size && other->rank == it->seat[waiting].communicator->rank;
    gwi_stall stall = stall_of(it, GWI_STALL_BEHIND, waiting, waiting, 0);
    stall.t_ns = it->seat[waiting].communicator->t_init_ns;
    stall.culprit_rank = absent;
    stall.behind_count = first->size > it->count ? first->size - it->count : 1;
    stall.culprit = is_whole_job ? find_job_rank(it->ranks, absent) : SIZE_MAX;
    stall.certainty = GW_SUPPORTED;
    if (stall.culprit == SIZE_MAX)
        return stall;
    const gw_rank *late = &it->ranks->item[stall.culprit];
    bool has_ended = late->end == GW_RANK_ENDED_WELL || late->end == GW_RANK_ENDED;
    stall.kind = has_ended ? GWI_STALL_LEFT : GWI_STALL_BEHIND;
    bool is_known = late->end == GW_RANK_ENDED_WELL || (is_own_stand(late) && late->end != GW_RANK_DIED);
    if (is_known && late->is_whole && other->is_whole)
        stall.certainty = GW_ESTABLISHED;
    return stall;
}

/* ---- send and receive ---- */

/* Count the calls of one kind with a peer. Returns false if earlier calls have left the record, unless there is only
 * one peer. */
static bool count_p2p(const gw_rank_communicator *communicator, uint8_t call, uint32_t peer, uint64_t *ret_count)
{
    uint64_t all = 0;
    if (communicator->size == 2) {
        *ret_count = communicator->calls[call];
        return true;
    }
    *ret_count = 0;
    for (size_t i = 0; i < communicator->call_count; i++) {
        all += is_p2p(&communicator->call[i]);
        *ret_count += communicator->call[i].call == call && communicator->call[i].root_or_peer == (int32_t)peer;
    }
    return all == communicator->p2p;
}

/* Return the rank's last call if it may be stuck there, and if it is a send or a receive. */
static const gw_rank_call *waits_for_peer(const group *it, size_t i)
{
    const gw_rank_communicator *own = it->seat[i].communicator;
    const gw_rank_call *last = own->call_count == 0 ? NULL : &own->call[own->call_count - 1];
    bool is_matched = last != NULL && (last->call == GW_NCCL_SEND || last->call == GW_NCCL_RECV);
    return is_matched && is_pending(last) && rank_of(it, i)->is_stuck ? last : NULL;
}

/* True if both ranks wait for data of each other. */
static bool is_mutual(const group *it, const gw_rank_call *own, size_t rank, size_t peer)
{
    const gw_rank_call *other = waits_for_peer(it, peer);
    return own->call == GW_NCCL_RECV && other != NULL && other->call == GW_NCCL_RECV &&
           other->root_or_peer == (int32_t)it->seat[rank].communicator->rank;
}

/* Find a rank that waits in a send or a receive whose peer has not made the matching call. */
static gwi_stall find_peer(const group *it)
{
    for (size_t i = 0; i < it->count; i++) {
        const gw_rank_communicator *own = it->seat[i].communicator;
        const gw_rank_call *last = waits_for_peer(it, i);
        if (last == NULL)
            continue;
        for (size_t k = 0; k < it->count; k++) {
            uint64_t made, matched;
            const gw_rank_communicator *peer = it->seat[k].communicator;
            bool is_stuck = rank_of(it, k)->is_stuck;
            if ((int32_t)peer->rank != last->root_or_peer || k == i || (is_stuck && !is_mutual(it, last, i, k)))
                continue;
            if (!count_p2p(own, last->call, peer->rank, &made) ||
                !count_p2p(peer, last->call == GW_NCCL_SEND ? GW_NCCL_RECV : GW_NCCL_SEND, own->rank, &matched) ||
                matched >= made)
                continue;
            bool left = has_left(rank_of(it, k), peer);
            gwi_stall_kind kind = is_stuck ? GWI_STALL_DIFFERS : left ? GWI_STALL_LEFT : GWI_STALL_BEHIND;
            gwi_stall stall = stall_of(it, kind, k, i, is_stuck ? waits_for_peer(it, k)->number : 0);
            stall.is_p2p = true;
            stall.behind_count = 1;
            stall.t_ns = last->t_ns;
            /* One of the two may not even take part in the other calls of the communicator. */
            group two = *it;
            two.count = peer->size;
            stall.certainty = judge_behind(&two, k, i, is_stuck || left || is_own_stand(rank_of(it, k)));
            return stall;
        }
    }
    return (gwi_stall){0};
}

/* ---- the stall ---- */

/* True if an error of a rank was not caused by waiting for others. */
static bool is_error_first(const gw_ranks *ranks, bool has_clock, uint64_t t_gave_up_ns)
{
    for (size_t i = 0; i < ranks->count; i++) {
        const gw_rank *rank = &ranks->item[i];
        if (rank->has_error && (!has_clock || rank->t_error_ns < t_gave_up_ns))
            return true;
    }
    return false;
}

static uint64_t when_given_up(const gw_ranks *ranks)
{
    uint64_t t_ns = UINT64_MAX;
    for (size_t i = 0; i < ranks->count; i++) {
        const gw_rank *rank = &ranks->item[i];
        if (rank->is_stuck && rank->end == GW_RANK_DIED && !rank->has_error && rank->t_end_ns < t_ns)
            t_ns = rank->t_end_ns;
    }
    return t_ns;
}

static void take_better(gwi_stall *best, gwi_stall found)
{
    if (found.kind != GWI_STALL_NONE && (best->kind == GWI_STALL_NONE || found.certainty > best->certainty))
        *best = found;
}

bool gwi_stall_find(const gw_ranks *ranks, bool has_clock, gwi_stall *ret_stall)
{
    table all;
    gwi_stall differs = {0}, behind = {0};
    bool good = table_open(&all, ranks);
    uint64_t t_gave_up_ns = when_given_up(ranks);
    *ret_stall = (gwi_stall){0};
    for (group it = {0}; good && next_group(&all, &it);) {
        gwi_stall found = {0};
        size_t late, waiting;
        good = find_differs(&it, &found);
        if (found.kind == GWI_STALL_NONE)
            found = find_lost_difference(&it);
        take_better(&differs, found);
        if (find_gap(&it, &late, &waiting))
            take_better(&behind, follow(&all, &it, late, waiting));
        take_better(&behind, find_order(&all, &it));
        take_better(&behind, find_absent(&it));
        take_better(&behind, find_peer(&it));
    }
    free(all.seat);
    take_better(&differs, behind); /* a difference explains why a rank is behind, unless it is less certain */
    if (good && differs.kind != GWI_STALL_NONE && !is_error_first(ranks, has_clock, t_gave_up_ns)) {
        *ret_stall = differs;
        ret_stall->t_gave_up_ns = t_gave_up_ns;
    }
    return good;
}
