/* Sentences about a rank that keeps others waiting in NCCL. */
#include "gwi_stall.h"

#include "gw_sites.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- calls and ranks as text ---- */

enum { WHO_TEXT_MAX = 64 };

static bool is_p2p(const gw_rank_call *call)
{
    return gw_nccl_has_peer(call->call);
}

static const char *call_text(char out[GW_NCCL_CALL_TEXT_MAX], const gw_rank_call *call, bool exact)
{
    const gw_collective like = {.call = (gw_nccl_call)call->call,
                                .number = call->number,
                                .elements = call->elements,
                                .type = call->type,
                                .root_or_peer = call->root_or_peer};
    return gw_nccl_call_text(out, &like, exact);
}

static const char *place_at(char out[GWI_PLACE_TEXT_MAX], const gw_rank *rank, uint16_t place)
{
    out[0] = '\0';
    if (place > 0 && place <= rank->place_count)
        snprintf(out, GWI_PLACE_TEXT_MAX, " at %.500s", rank->place[place - 1]);
    return out;
}

static const char *who_text(char out[WHO_TEXT_MAX], const gw_rank *rank)
{
    if (rank->no_pid)
        snprintf(out, WHO_TEXT_MAX, "rank %" PRIu32, rank->has_rank ? rank->rank : rank->pid - 1);
    else if (rank->has_rank)
        snprintf(out, WHO_TEXT_MAX, "rank %" PRIu32 " (pid %" PRIu32 ")", rank->rank, rank->pid);
    else
        snprintf(out, WHO_TEXT_MAX, "pid %" PRIu32, rank->pid);
    return out;
}

static const char *culprit_text(char out[WHO_TEXT_MAX], const gw_ranks *ranks, const gwi_stall *stall)
{
    const gw_rank *rank = stall->culprit == SIZE_MAX ? NULL : &ranks->item[stall->culprit];
    if (rank != NULL && rank->has_rank)
        return who_text(out, rank);
    if (rank != NULL) /* no launcher gave it a rank */
        snprintf(out, WHO_TEXT_MAX, "rank %" PRIu32 " of the communicator (pid %" PRIu32 ")", stall->culprit_rank,
                 rank->pid);
    else
        snprintf(out, WHO_TEXT_MAX, "rank %" PRIu32, stall->culprit_rank);
    return out;
}

static const gw_rank_communicator *communicator_of(const gw_rank *rank, uint64_t id)
{
    for (size_t i = 0; i < rank->communicator_count; i++)
        if (rank->communicator[i].id == id)
            return &rank->communicator[i];
    return NULL;
}

static const gw_rank_call *last_of(const gw_rank_communicator *communicator, bool p2p)
{
    for (size_t i = communicator == NULL ? 0 : communicator->call_count; i-- > 0;)
        if (is_p2p(&communicator->call[i]) == p2p)
            return &communicator->call[i];
    return NULL;
}

static const gw_rank_call *call_at(const gw_rank_communicator *communicator, uint64_t number)
{
    for (size_t i = communicator == NULL ? 0 : communicator->call_count; i-- > 0;)
        if (!is_p2p(&communicator->call[i]) && communicator->call[i].number == number)
            return &communicator->call[i];
    return NULL;
}

/* ---- those that wait ---- */

/* The call in which a rank waits, as it is reported. The one with the number of the stall if it is on record. */
static const gw_rank_call *waiting_call(const gw_rank *rank, const gwi_stall *stall)
{
    const gw_rank_communicator *communicator = communicator_of(rank, stall->id);
    if (stall->is_p2p)
        return rank->is_stuck ? last_of(communicator, true) : NULL;
    const gw_rank_call *call = call_at(communicator, stall->number);
    if (call == NULL && communicator != NULL && communicator->collectives > stall->number && rank->is_stuck)
        call = last_of(communicator, false);
    return call;
}

typedef struct waiter {
    const gw_rank *rank;
    const gw_rank_call *call; /* NULL: in the creation of the communicator */
    const char *place;        /* "": unknown */
    uint32_t number;          /* of the rank, for lists */
    size_t like;              /* number of waiters with the same call and place */
} waiter;

static int compare_places(const waiter *a, const waiter *b)
{
    int order = strcmp(a->place, b->place);
    if (order != 0 || a->call == NULL || b->call == NULL)
        return order != 0 ? order : (a->call == NULL) - (b->call == NULL);
    order = (a->call->call > b->call->call) - (a->call->call < b->call->call);
    return order != 0 ? order : (a->call->elements > b->call->elements) - (a->call->elements < b->call->elements);
}

static int by_place(const void *left, const void *right)
{
    const waiter *a = left, *b = right;
    int order = compare_places(a, b);
    return order != 0 ? order : (a->number > b->number) - (a->number < b->number);
}

/* The rarest first, and within a group by rank. */
static int by_rarity(const void *left, const void *right)
{
    const waiter *a = left, *b = right;
    if (a->like != b->like)
        return a->like < b->like ? -1 : 1;
    return by_place(left, right);
}

static bool take_waiter(const gw_rank *rank, const gwi_stall *stall, waiter *ret_waiter)
{
    const gw_rank_communicator *communicator = communicator_of(rank, stall->id);
    bool is_init = stall->number == 0 && !stall->is_p2p;
    const gw_rank_call *call = is_init ? NULL : waiting_call(rank, stall);
    if (communicator == NULL || (is_init ? communicator->is_ready : call == NULL))
        return false;
    uint16_t place = is_init ? communicator->init_place : call->place;
    *ret_waiter = (waiter){.rank = rank,
                           .call = call,
                           .place = place > 0 && place <= rank->place_count ? rank->place[place - 1] : "",
                           .number = rank->has_rank ? rank->rank : communicator->rank};
    return true;
}

/* List the ranks that wait for the one at fault, grouped. Returns NULL if there is none, or no memory. */
static waiter *list_waiters(const gw_ranks *ranks, const gwi_stall *stall, size_t *ret_count)
{
    waiter *list = malloc(ranks->count * sizeof *list);
    *ret_count = 0;
    for (size_t i = 0; i < ranks->count && list != NULL; i++)
        if (i != stall->culprit)
            *ret_count += take_waiter(&ranks->item[i], stall, &list[*ret_count]);
    if (*ret_count > 1)
        qsort(list, *ret_count, sizeof *list, by_place);
    for (size_t begin = 0, end; begin < *ret_count; begin = end) {
        for (end = begin; end < *ret_count && compare_places(&list[begin], &list[end]) == 0;)
            end++;
        for (size_t i = begin; i < end; i++)
            list[i].like = end - begin;
    }
    if (*ret_count > 1)
        qsort(list, *ret_count, sizeof *list, by_rarity);
    return list;
}

/* Write "ranks 0, 2-7 wait in all_reduce #41 (4 MiB, float32) at train.py:57". */
static void add_waiters(gw_text *text, const waiter *first, bool exact, bool past)
{
    char numbers[GWI_NUMBERS_TEXT_MAX], call[GW_NCCL_CALL_TEXT_MAX];
    uint32_t *number = malloc(first->like * sizeof *number);
    if (number == NULL) {
        text->failed = true;
        return;
    }
    for (size_t i = 0; i < first->like; i++)
        number[i] = first[i].number;
    const char *verb = first->like == 1 ? "waits" : "wait";
    gw_text_addf(text, "rank%s %s %s in %s%s%s", GWI_PLURAL(first->like),
                 gwi_numbers_text(numbers, number, first->like), past ? "waited" : verb,
                 first->call == NULL ? "the creation of the communicator" : call_text(call, first->call, exact),
                 first->place[0] == '\0' ? "" : " at ", first->place);
    free(number);
}

/* Count the ranks that wait in NCCL for something else, such as a rank that is not in the list. */
static void say_others(const gw_ranks *ranks, const gwi_stall *stall, size_t count, gwi_finding *finding)
{
    size_t stuck = 0, listed = 0;
    for (size_t i = 0; i < ranks->count; i++) {
        waiter one;
        stuck += ranks->item[i].is_stuck && i != stall->culprit;
        listed += ranks->item[i].is_stuck && i != stall->culprit && take_waiter(&ranks->item[i], stall, &one);
    }
    if (stuck > listed && count > 0)
        gwi_evidence(finding, GWI_NO_TIME, "driver", "%zu more rank%s in NCCL on other communicators", stuck - listed,
                     stuck - listed == 1 ? " waits" : "s wait");
}

static void say_waiters(const waiter *list, size_t count, const gwi_stall *stall, bool exact, gwi_finding *finding)
{
    enum { GROUPS_MAX = 4 };
    size_t groups = 0;
    for (size_t i = 0; i < count; i += list[i].like) {
        if (groups++ == GROUPS_MAX) {
            gwi_evidence(finding, GWI_NO_TIME, "driver", "and %zu more ranks elsewhere", count - i);
            break;
        }
        gw_text line = {0};
        add_waiters(&line, &list[i], exact, false);
        gwi_evidence(finding, stall->t_ns, "driver", "%s", gw_text_str(&line));
        gwi_weigh(finding, groups <= 2 ? GW_WEIGHT_DECIDES : GW_WEIGHT_PLAIN);
        finding->failed = finding->failed || line.failed;
        gw_text_free(&line);
    }
}

/* ---- the rank at fault ---- */

/* True if the two calls differ in nothing but their sizes. */
static bool is_about_size(const gw_ranks *ranks, const gwi_stall *stall)
{
    if (stall->kind != GWI_STALL_DIFFERS || stall->is_p2p)
        return false;
    const gw_rank_call *odd = call_at(communicator_of(&ranks->item[stall->culprit], stall->id), stall->number);
    const gw_rank_call *most = call_at(communicator_of(&ranks->item[stall->waiting], stall->id), stall->number);
    return odd != NULL && most != NULL && odd->call == most->call && odd->root_or_peer == most->root_or_peer;
}

/* What the rank at fault did, after its name: ": it is sleeping at load.py:9". */
static void add_stand(gw_text *text, const gw_rank *rank)
{
    if (rank->end == GW_RANK_ENDED_WELL)
        gw_text_add_str(text, ": it exited with status 0");
    else if (rank->end == GW_RANK_ENDED)
        gw_text_add_str(text, ": it has ended, and its exit status is unknown");
    else if (rank->stand_text != NULL)
        gw_text_addf(text, ": it is %s", rank->stand_text);
    else
        gw_text_add_str(text, "; where it was is not recorded");
}

static void add_missed(gw_text *text, const gw_ranks *ranks, const gwi_stall *stall, const waiter *first)
{
    char call[GW_NCCL_CALL_TEXT_MAX];
    const gw_rank *rank = stall->culprit == SIZE_MAX ? NULL : &ranks->item[stall->culprit];
    if (stall->number == 0 && !stall->is_p2p)
        gw_text_add_str(text, " has not joined the communicator");
    else if (stall->is_p2p)
        gw_text_addf(text, " has not made the matching %s",
                     first != NULL && first->call != NULL && first->call->call == GW_NCCL_SEND ? "recv" : "send");
    else if (first != NULL && first->call != NULL)
        gw_text_addf(text, " has not called %s #%" PRIu64, gw_nccl_short_name(call, (gw_nccl_call)first->call->call),
                     stall->number);
    else
        gw_text_addf(text, " has not called collective #%" PRIu64, stall->number);
    if (rank == NULL)
        gw_text_add_str(text, ", and is in no recording");
    else if (stall->kind == GWI_STALL_LEFT && rank->end != GW_RANK_ENDED_WELL && rank->end != GW_RANK_ENDED)
        gw_text_add_str(text, ": it has destroyed the communicator");
    else
        add_stand(text, rank);
}

/* Add what the rank at fault called at the number at which the others wait, or where it waits itself. */
static void add_called(gw_text *text, const gw_ranks *ranks, const gwi_stall *stall, bool exact)
{
    char called[GW_NCCL_CALL_TEXT_MAX], at[GWI_PLACE_TEXT_MAX];
    const gw_rank *rank = &ranks->item[stall->culprit];
    bool is_circle = stall->kind == GWI_STALL_CIRCLE;
    const gw_rank_communicator *communicator = communicator_of(rank, is_circle ? stall->other_id : stall->id);
    const gw_rank_call *call = is_circle       ? last_of(communicator, false)
                               : stall->is_p2p ? last_of(communicator, true)
                                               : call_at(communicator, stall->number);
    if (call == NULL)
        return;
    gw_text_addf(text, " %s %s%s%s",
                 is_circle       ? "waits in"
                 : stall->is_p2p ? "waits, too, in"
                                 : "called",
                 call_text(called, call, exact), is_circle ? " of another communicator" : "",
                 place_at(at, rank, call->place));
}

static void add_culprit(gw_text *text, const gw_ranks *ranks, const gwi_stall *stall, const waiter *first, bool exact)
{
    char who[WHO_TEXT_MAX];
    gw_text_add_str(text, culprit_text(who, ranks, stall));
    if (stall->kind == GWI_STALL_DIFFERS || stall->kind == GWI_STALL_CIRCLE)
        add_called(text, ranks, stall, exact);
    else
        add_missed(text, ranks, stall, first);
}

/* Report the last call that the rank at fault made, and the other ranks that are equally far behind. */
static void say_before(const gw_ranks *ranks, const gwi_stall *stall, gwi_finding *finding)
{
    char who[WHO_TEXT_MAX], call[GW_NCCL_CALL_TEXT_MAX], at[GWI_PLACE_TEXT_MAX];
    const gw_rank *rank = &ranks->item[stall->culprit];
    const gw_rank_call *last = last_of(communicator_of(rank, stall->id), stall->is_p2p);
    if (stall->kind == GWI_STALL_DIFFERS || stall->kind == GWI_STALL_CIRCLE)
        return;
    if (last != NULL)
        gwi_evidence(finding, last->t_ns, "driver", "the last call of %s on this communicator is %s%s",
                     who_text(who, rank), call_text(call, last, false), place_at(at, rank, last->place));
    else if (stall->number > 0)
        gwi_evidence(finding, GWI_NO_TIME, "driver", "%s has made no call on this communicator", who_text(who, rank));
    if (stall->behind_count > 1)
        gwi_evidence(finding, GWI_NO_TIME, "driver", "%zu other rank%s equally far behind", stall->behind_count - 1,
                     stall->behind_count == 2 ? " is" : "s are");
}

/* ---- what limits the certainty ---- */

static void say_limits(const gw_ranks *ranks, const gwi_stall *stall, gwi_finding *finding)
{
    size_t present = 0, replays = 0, partly = 0;
    uint32_t size = 0;
    for (size_t i = 0; i < ranks->count; i++) {
        const gw_rank_communicator *it = communicator_of(&ranks->item[i], stall->id);
        present += it != NULL;
        size = it != NULL ? it->size : size;
        replays += it != NULL && ranks->item[i].has_replays;
        partly += it != NULL && !ranks->item[i].is_whole;
    }
    if (present < size && stall->number > 0)
        gwi_evidence(finding, GWI_NO_TIME, "host", "%zu of the communicator's %" PRIu32 " ranks are recorded", present,
                     size);
    if (replays > 0)
        gwi_evidence(finding, GWI_NO_TIME, "driver",
                     "%zu rank%s launched graphs: collectives in a graph have no number", replays, GWI_PLURAL(replays));
    if (partly > 0)
        gwi_evidence(finding, GWI_NO_TIME, "driver", "the recording of %zu rank%s may lack calls of NCCL", partly,
                     GWI_PLURAL(partly));
    if (stall->t_gave_up_ns != UINT64_MAX)
        gwi_consequence(finding, "%.3f s: the first rank that waited gave up and died",
                        (double)stall->t_gave_up_ns / 1e9);
}

/* Report versions, settings and code that differ between the rank at fault and one that waits. */
static void say_traits(const gw_ranks *ranks, const gwi_stall *stall, gwi_finding *finding)
{
    const gw_rank *late = stall->culprit == SIZE_MAX ? NULL : &ranks->item[stall->culprit];
    const gw_rank *other = &ranks->item[stall->waiting];
    char who[WHO_TEXT_MAX], other_who[WHO_TEXT_MAX];
    if (late == NULL || late->traits == NULL || other->traits == NULL)
        return;
    for (const char *line = late->traits; *line != '\0'; line += strcspn(line, "\n") + 1) {
        size_t name = strcspn(line, "=\n") + 1, bytes = strcspn(line, "\n");
        const char *same = other->traits;
        while (*same != '\0' && strncmp(same, line, name) != 0)
            same += strcspn(same, "\n") + 1;
        if (*same == '\0' || (strcspn(same, "\n") == bytes && strncmp(same, line, bytes) == 0))
            continue;
        gwi_evidence(finding, GWI_NO_TIME, "host", "%.*s is %.*s in %s, and %.*s in %s", (int)name - 1, line,
                     (int)(bytes - name), line + name, who_text(who, late), (int)(strcspn(same, "\n") - name),
                     same + name, who_text(other_who, other));
        gwi_next(finding, "Start all ranks with the same %.*s", (int)name - 1, line);
    }
}

/* ---- next steps ---- */

static void advise_behind(const gw_rank *rank, const char *who, gwi_finding *finding)
{
    static const char *const advice[] = {
        [GW_RANK_STANDS_UNKNOWN] = "Look at %s first: record its threads with gpuwhy run --hang-after SECONDS",
        [GW_RANK_STANDS_RUNNING] =
            "Look at what %s computes there; if the others have to wait for that long, raise the "
            "timeout of the process group",
        [GW_RANK_STANDS_INPUT] =
            "Look at what %s waits for there: a server, a pipe, or a rank by another way than NCCL",
        [GW_RANK_STANDS_NCCL] = "Look at the collective in which %s waits itself",
        [GW_RANK_STANDS_KERNEL] = "Look at the kernel for which %s waits: gpuwhy explain names it",
        [GW_RANK_STANDS_SLEEP] = "Remove the sleep of %s, or let all ranks sleep at the same step",
        [GW_RANK_STANDS_LOCK] = "Find the thread that holds the lock for which %s waits",
        [GW_RANK_STANDS_LOADER] = "Look at the data loader of %s: its workers, their files, and the number of its "
                                  "batches",
        [GW_RANK_STANDS_CHILD] = "Look at the child process for whose end %s waits",
        [GW_RANK_STANDS_DEVICE] = "Look at the file system or the driver of the device for which %s waits (dmesg, "
                                  "/proc/PID/stack)",
        [GW_RANK_STANDS_STOPPED] =
            "Continue %s (kill -CONT PID), and find out what stopped it: a debugger, a terminal, "
            "or a scheduler that suspends jobs"};
    char line[256];
    const char *pattern = advice[(size_t)rank->stand < sizeof advice / sizeof advice[0] ? rank->stand : 0];
    size_t before = (size_t)(strstr(pattern, "%s") - pattern);
    snprintf(line, sizeof line, "%.*s%s%s", (int)before, pattern, who, pattern + before + 2);
    gwi_next(finding, "%s", line);
}

static void advise(const gw_ranks *ranks, const gwi_stall *stall, gwi_finding *finding)
{
    char who[WHO_TEXT_MAX];
    culprit_text(who, ranks, stall);
    if (stall->culprit == SIZE_MAX)
        gwi_next(finding, "Check that %s was started, and look at its own output", who);
    else if (is_about_size(ranks, stall))
        gwi_next(finding,
                 "Give the tensor the same shape and type on all ranks: pad the last batch, or gather with the "
                 "largest size");
    else if (stall->kind == GWI_STALL_DIFFERS)
        gwi_next(finding,
                 "Compare the two lines: a condition that depends on the rank or on its data lets %s make "
                 "another call",
                 who);
    else if (stall->kind == GWI_STALL_CIRCLE)
        gwi_next(finding, "Use the two communicators in the same order on all ranks");
    else if (stall->kind == GWI_STALL_LEFT)
        gwi_next(finding, "Give all ranks the same number of steps: %s ended while others had one more collective",
                 who);
    else
        advise_behind(&ranks->item[stall->culprit], who, finding);
}

/* ---- all of it ---- */

void gwi_say_stall(const gw_ranks *ranks, const gwi_stall *stall, gwi_finding *finding)
{
    size_t count;
    gw_text fault = {0}, others = {0};
    waiter *list = list_waiters(ranks, stall, &count);
    const waiter *most = count == 0 ? NULL : &list[count - list[count - 1].like];
    bool exact = is_about_size(ranks, stall);
    add_culprit(&fault, ranks, stall, most, exact);
    if (most != NULL)
        add_waiters(&others, most, exact, false);
    gwi_headline(finding, "%s%s%s", gw_text_str(&fault), most == NULL ? "" : "; ", gw_text_str(&others));
    gwi_evidence(finding, GWI_NO_TIME, stall->kind == GWI_STALL_BEHIND ? "host" : "driver", "%s", gw_text_str(&fault));
    gwi_weigh(finding, GW_WEIGHT_DECIDES);
    say_waiters(list, count, stall, exact, finding);
    say_others(ranks, stall, count, finding);
    if (stall->culprit != SIZE_MAX)
        say_before(ranks, stall, finding);
    say_limits(ranks, stall, finding);
    say_traits(ranks, stall, finding);
    advise(ranks, stall, finding);
    finding->failed = finding->failed || list == NULL || fault.failed || others.failed;
    gw_text_free(&fault);
    gw_text_free(&others);
    free(list);
}

bool gwi_may_have_raised(const gwi_case *c)
{
    const gw_stderr_facts *facts = &c->model->stderr_facts;
    const gw_rank *rank =
        c->stall.kind != GWI_STALL_BEHIND || c->stall.culprit == SIZE_MAX ? NULL : &c->ranks.item[c->stall.culprit];
    if (rank == NULL || c->exception != GW_EXCEPTION_SCRIPT || facts->exception_about_child)
        return false;
    const gw_stack *stack = gw_sites_stack(c->model->sites, rank->stand_site);
    uint64_t last_ns = 0;
    for (size_t i = 0; i < rank->communicator_count; i++)
        for (size_t k = 0; k < rank->communicator[i].call_count; k++)
            last_ns = rank->communicator[i].call[k].t_ns > last_ns ? rank->communicator[i].call[k].t_ns : last_ns;
    bool is_outside = stack == NULL || stack->user >= stack->count || !stack->frame[stack->user].python;
    return is_outside && facts->exception.t_ns >= last_ns;
}

void gwi_waiting_follows(const gw_ranks *ranks, uint32_t except_pid, gwi_finding *finding)
{
    enum { SHOWN_MAX = 4 };
    size_t shown = 0, more = 0;
    for (size_t i = 0; i < ranks->count; i++) {
        const gw_rank *rank = &ranks->item[i];
        char who[WHO_TEXT_MAX], call[GW_NCCL_CALL_TEXT_MAX], at[GWI_PLACE_TEXT_MAX];
        const gw_rank_call *waits = NULL;
        for (size_t k = 0; k < rank->communicator_count && rank->is_stuck && rank->pid != except_pid; k++) {
            const gw_rank_communicator *it = &rank->communicator[k];
            const gw_rank_call *last = it->call_count == 0 ? NULL : &it->call[it->call_count - 1];
            bool is_open =
                last != NULL && (last->state == GW_COLLECTIVE_ENTERED || last->state == GW_COLLECTIVE_ENQUEUED);
            waits = is_open && (waits == NULL || last->t_ns < waits->t_ns) ? last : waits;
        }
        if (waits == NULL)
            continue;
        if (shown++ < SHOWN_MAX)
            gwi_consequence(finding, "%.3f s: %s waited in %s%s", (double)waits->t_ns / 1e9, who_text(who, rank),
                            call_text(call, waits, false), place_at(at, rank, waits->place));
        else
            more++;
    }
    if (more > 0)
        gwi_consequence(finding, "and %zu more rank%s waited in NCCL", more, GWI_PLURAL(more));
}
