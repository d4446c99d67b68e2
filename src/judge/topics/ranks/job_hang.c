/* A job whose ranks all stand still (facts "hang.rank", each with a "hang" of the same process). The supervisor records
 * it only if nobody outside of the job can be the one that they wait for. Which rank did not follow the others is seen
 * from the stacks alone: the calls of gloo and MPI are not recorded, but a stack has the name of the call that waits.
 *
 * Ranks that may wait until all of them have come are recorded with "meets=1", and not all ranks need to be there. It
 * is such a wait only if the stack of a rank is inside a function in which ranks meet. */
#include "gwi_hang.h"

#include "gw_fact.h"
#include "gw_sites.h"
#include "gw_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- what the ranks call ---- */

/* A communication call, as the program wrote it. */
static const char *call_of_frame(const gw_frame *frame)
{
    const char *name = frame->function, *file = frame->file;
    if (name == NULL)
        return NULL;
    if (gw_begins(name, "PMPI_"))
        name++;
    if (gw_begins(name, "MPI_"))
        return name;
    if (file != NULL && strstr(file, "torch/distributed/distributed_c10d.py") != NULL)
        return name;
    return gw_begins(name, "c10d::Reducer") ? "the gradients' all_reduce of DDP" : NULL;
}

/* Return the call of the main thread: the outermost one, because a call may be made of others. NULL: none is known. */
static const char *call_of(const gwi_case *c, const gwi_job_rank *rank)
{
    const gw_stack *stack = gw_sites_stack(c->model->sites, rank->main_thread->site);
    const char *found = NULL;
    for (size_t i = 0; stack != NULL && i < stack->count; i++) {
        const char *call = call_of_frame(&stack->frame[i]);
        found = call == NULL ? found : call;
    }
    return found;
}

/* True if the rank waits for a program that need not be part of the job. */
static bool is_for_others(const gwi_case *c, const gwi_job_rank *rank)
{
    static const char *const calls[] = {"MPI_Comm_accept", "MPI_Comm_connect", "MPI_Comm_join"};
    const char *call = call_of(c, rank);
    return call != NULL && GW_IS_ONE_OF(call, calls);
}

/* ---- the ranks ---- */

/* Return the hang of the process that was recorded with the fact "hang.rank". Later ones may be of this process alone.
 */
static const gw_hang *hang_of_fact(const gw_model *model, const gw_pair *fact)
{
    for (size_t i = model->hang_count; i-- > 0;)
        if (model->hang[i].pid == fact->pid && model->hang[i].t_ns <= fact->t_ns)
            return &model->hang[i];
    return NULL;
}

/* True for a function that returns when all ranks of the job have called it. */
static bool is_meeting_frame(const gw_frame *frame)
{
    static const char *const functions[] = {
        "init_process_group",      "_store_based_barrier",   "rendezvous", "new_group", "_create_c10d_store",
        "_env_rendezvous_handler", "_tcp_rendezvous_handler"};
    if (frame->function == NULL)
        return false;
    /* A program may make the store itself; NCCL's communicator may be made at its first call. */
    static const char *const natives[] = {"TCPStore::TCPStore", "waitForWorkers", "UniqueNCCLID"};
    if (!frame->python)
        return GW_HAS_ONE_OF(frame->function, natives);
    return frame->file != NULL && strstr(frame->file, "torch/distributed/") != NULL &&
           GW_IS_ONE_OF(frame->function, functions);
}

static bool is_meeting(const gw_model *model, const gwi_job_rank *rank)
{
    const gw_stack *stack = gw_sites_stack(model->sites, rank->main_thread->site);
    for (size_t i = 0; stack != NULL && i < stack->count; i++)
        if (is_meeting_frame(&stack->frame[i]))
            return true;
    return false;
}

static bool has_stack(const gw_model *model, const gwi_job_rank *rank)
{
    const gw_stack *stack = gw_sites_stack(model->sites, rank->main_thread->site);
    return stack != NULL && stack->count > 0;
}

/* True if nothing but another rank or thread can be what this rank waits for: it does not read, run or start anything.
 */
static bool is_idle_elsewhere(const gw_model *model, const gwi_job_rank *rank)
{
    static const char *const waits[] = {"sleep", "lock", "join"};
    return has_stack(model, rank) && GW_IS_ONE_OF(rank->main_thread->wait, waits);
}

/* True if these ranks are a hang: all ranks of a job, or some that wait for the others to come. */
static bool is_job(const gw_model *model, const gwi_job_rank *rank, size_t count)
{
    size_t meeting = 0, idle = 0;
    for (size_t i = 0; i < count && rank[0].hang->meets; i++) {
        bool is_one = is_meeting(model, &rank[i]);
        meeting += is_one;
        idle += !is_one && is_idle_elsewhere(model, &rank[i]);
    }
    return count > 0 && rank[0].hang->meets ? meeting > 0 && meeting + idle == count : count > 1;
}

/* Facts of one hang are recorded together; a later hang replaces them. */
size_t gwi_job_ranks(const gwi_case *c, gwi_job_rank ret_rank[GWI_JOB_RANKS_MAX])
{
    const gw_model *model = c->model;
    const uint64_t together_ns = 5000000000u;
    size_t count = 0;
    uint64_t t_ns = 0;
    for (size_t i = model->fact_count; i-- > 0;) {
        const gw_pair *fact = &model->fact[i];
        gw_fact_rank said;
        if (fact->what != GW_FACT_HANG_RANK || fact->value == NULL)
            continue;
        gw_fact_rank_read(gw_fact_text_of(fact->value), &said);
        t_ns = t_ns == 0 ? fact->t_ns : t_ns;
        const gw_hang *hang = hang_of_fact(model, fact);
        if (count == GWI_JOB_RANKS_MAX || fact->t_ns + together_ns < t_ns)
            break;
        bool is_there = false;
        for (size_t k = 0; k < count; k++)
            is_there = is_there || ret_rank[k].rank == said.rank;
        if (is_there)
            break; /* the facts of an earlier hang */
        if (hang == NULL || hang->over || hang->for_ns == 0)
            return 0;
        const gwi_job_rank found = {said.rank, said.of, hang, gwi_hang_thread(hang, fact->pid), 1};
        if (found.main_thread == NULL || is_for_others(c, &found))
            return 0;
        ret_rank[count++] = found;
    }
    return is_job(model, ret_rank, count) ? count : 0;
}

/* ---- calls that cannot meet ---- */

static bool only_receives(const char *call)
{
    static const char *const calls[] = {"recv", "recv_object_list", "MPI_Recv", "MPI_Mrecv", "MPI_Probe", "MPI_Mprobe"};
    return GW_IS_ONE_OF(call, calls);
}

/* True for a call that sends or receives one message, or waits for one. */
static bool is_for_one(const char *call)
{
    static const char *const words[] = {"send", "Send", "recv", "Recv",  "Probe", "probe",
                                        "wait", "Wait", "Test", "irecv", "isend"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strstr(call, words[i]) != NULL)
            return true;
    return false;
}

/* How the calls of all ranks fit together. */
typedef enum fit { MAY_MEET, DIFFER, ALL_RECEIVE } fit;

static fit fit_of(const gwi_case *c, const gwi_job_rank *rank, size_t count)
{
    bool differ = false, is_p2p = true, receive = count > 0;
    const char *first = count == 0 ? NULL : call_of(c, &rank[0]);
    for (size_t i = 0; i < count; i++) {
        const char *call = call_of(c, &rank[i]);
        if (call == NULL)
            return MAY_MEET;
        differ = differ || strcmp(call, first) != 0;
        receive = receive && only_receives(call);
        is_p2p = is_p2p && is_for_one(call);
    }
    if (is_p2p && !receive)
        return MAY_MEET; /* a message and its receiver have different calls */
    return receive ? ALL_RECEIVE : differ ? DIFFER : MAY_MEET;
}

bool gwi_are_job_calls_apart(const gwi_case *c)
{
    static gwi_job_rank rank[GWI_JOB_RANKS_MAX];
    size_t count = c->hang.kind == GWI_HANG_JOB ? gwi_job_ranks(c, rank) : 0;
    return count > 0 && !rank[0].hang->meets && fit_of(c, rank, count) != MAY_MEET;
}

/* ---- which rank is elsewhere ---- */

static bool is_collective_frame(const gw_frame *frame)
{
    static const char *const files[] = {"torch/distributed/", "mpi4py", "horovod"};
    static const char *const modules[] = {"libmpi", "libgloo", "libpmpi", "mpi4py"};
    for (size_t i = 0; frame->file != NULL && i < sizeof files / sizeof files[0]; i++)
        if (strstr(frame->file, files[i]) != NULL)
            return true;
    for (size_t i = 0; frame->module != NULL && i < sizeof modules / sizeof modules[0]; i++)
        if (strstr(frame->module, modules[i]) != NULL)
            return true;
    return call_of_frame(frame) != NULL || (frame->function != NULL && strstr(frame->function, "gloo") != NULL);
}

static bool is_in_collective(const gwi_case *c, const gwi_job_rank *rank)
{
    const gw_stack *stack = gw_sites_stack(c->model->sites, rank->main_thread->site);
    for (size_t i = 0; stack != NULL && i < stack->count; i++)
        if (is_collective_frame(&stack->frame[i]))
            return true;
    return false;
}

/* True if the main thread has left the program. The interpreter then waits for threads that are not daemons. */
static bool has_left(const gwi_case *c, const gwi_job_rank *rank)
{
    const gw_stack *stack = gw_sites_stack(c->model->sites, rank->main_thread->site);
    const gw_frame *outermost = NULL;
    for (size_t i = 0; stack != NULL && i < stack->count; i++)
        if (stack->frame[i].python)
            outermost = &stack->frame[i];
    return outermost != NULL && outermost->function != NULL && strcmp(outermost->function, "_shutdown") == 0;
}

/* Return the first other thread of the rank that stands in the user's code. NULL: none. */
static const gw_hang_thread *other_thread(const gwi_case *c, const gwi_job_rank *rank)
{
    for (size_t i = 0; i < rank->hang->thread_count; i++) {
        const gw_hang_thread *thread = &rank->hang->thread[i];
        const gw_stack *stack = gw_sites_stack(c->model->sites, thread->site);
        if (thread != rank->main_thread && stack != NULL && stack->user < stack->count &&
            stack->frame[stack->user].whose <= GW_WHOSE_USER)
            return thread;
    }
    return NULL;
}

/* Return the call site that shows where the rank stands. */
static uint32_t site_of(const gwi_case *c, const gwi_job_rank *rank)
{
    const gw_hang_thread *other = has_left(c, rank) ? other_thread(c, rank) : NULL;
    return other != NULL ? other->site : rank->main_thread->site;
}

/* True if the thread does not wait for another process: it sleeps, or waits for a thread to end. */
static bool is_idle(const gwi_job_rank *rank)
{
    return strcmp(rank->main_thread->wait, "sleep") == 0 || strcmp(rank->main_thread->wait, "join") == 0;
}

static bool is_same_place(const gwi_case *c, const gwi_job_rank *one, const gwi_job_rank *other)
{
    char left[GWI_PLACE_TEXT_MAX], right[GWI_PLACE_TEXT_MAX];
    return strcmp(gwi_place(c, one->main_thread->site, left), gwi_place(c, other->main_thread->site, right)) == 0;
}

bool gwi_find_elsewhere(const gwi_case *c, const gwi_job_rank *rank, size_t count, bool is_elsewhere[])
{
    for (int by = 0; by < 3; by++) {
        size_t away = 0;
        for (size_t i = 0; i < count; i++) {
            size_t same = 0, all = 0;
            for (size_t k = 0; by == 2 && k < count; k++) {
                all += rank[k].like;
                same += is_same_place(c, &rank[i], &rank[k]) ? rank[k].like : 0;
            }
            is_elsewhere[i] = by == 0 ? !is_in_collective(c, &rank[i]) : by == 1 ? is_idle(&rank[i]) : same * 2 < all;
            away += is_elsewhere[i];
        }
        if (away > 0 && away < count)
            return true;
    }
    return false;
}

static bool are_at_one_place(const gwi_case *c, const gwi_job_rank *rank, size_t count)
{
    bool same = true;
    for (size_t i = 1; i < count; i++)
        same = same && is_same_place(c, &rank[0], &rank[i]);
    return same;
}

/* ---- what is said ---- */

/* Add "rank 3", "ranks 0, 1" or "12 ranks": those that are marked. */
static void add_ranks(gw_text *text, const gwi_job_rank *rank, size_t count, const bool *is_marked)
{
    enum { NAMED_MAX = 8 };
    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        found += is_marked[i];
    if (found > NAMED_MAX) {
        gw_text_addf(text, "%zu ranks", found);
        return;
    }
    gw_text_add_str(text, found == 1 ? "rank" : "ranks");
    size_t said = 0;
    for (size_t i = count; i-- > 0;) /* the list has the newest fact, of the highest rank, first */
        if (is_marked[i])
            gw_text_addf(text, "%s%" PRIu32, said++ == 0 ? " " : ", ", rank[i].rank);
}

/* Add what the main thread of a rank does, and where. `s`: "s" if only one rank does it. */
static void add_doing(const gwi_case *c, gw_text *text, const gwi_job_rank *rank, const char *s)
{
    char doing[GW_DOING_TEXT_MAX], at[GWI_PLACE_TEXT_MAX];
    const char *call = call_of(c, rank);
    const gw_hang_thread *other = has_left(c, rank) ? other_thread(c, rank) : NULL;
    if (other != NULL)
        gw_text_addf(text, "%s left the program, and wait%s for a thread that is no daemon: tid %" PRIu32 " is %s",
                     *s == 's' ? "has" : "have", s, other->tid, gw_doing_text(doing, other));
    else if (call != NULL && strcmp(rank->main_thread->wait, "running") == 0)
        gw_text_addf(text, "poll%s in %s", s, call);
    else if (call != NULL)
        gw_text_addf(text, "wait%s in %s", s, call);
    else
        gw_text_addf(text, "%s %s", *s == 's' ? "is" : "are", gw_doing_text(doing, rank->main_thread));
    gw_text_add_str(text, gwi_at(c, site_of(c, rank), at));
}

/* One line for all ranks that do the same as rank[first], which are then marked as said. */
static void say_group(const gwi_case *c, gwi_finding *finding, const gwi_job_rank *rank, size_t count, size_t first,
                      bool is_said[])
{
    bool is_member[GWI_JOB_RANKS_MAX] = {false};
    gw_text text = {0}, wanted = {0};
    size_t members = 0;
    add_doing(c, &wanted, &rank[first], "s");
    for (size_t i = 0; i < count; i++) {
        gw_text own = {0};
        add_doing(c, &own, &rank[i], "s");
        is_member[i] = !is_said[i] && strcmp(gw_text_str(&own), gw_text_str(&wanted)) == 0;
        is_said[i] = is_said[i] || is_member[i];
        members += is_member[i];
        gw_text_free(&own);
    }
    add_ranks(&text, rank, count, is_member);
    if (members == 1)
        gw_text_addf(&text, " (pid %" PRIu32 "): its main thread ", rank[first].hang->pid);
    else
        gw_text_add_str(&text, ": their main threads ");
    add_doing(c, &text, &rank[first], members == 1 ? "s" : "");
    gwi_evidence(finding, rank[first].hang->t_ns, "host", "%s", gw_text_str(&text));
    gw_text_free(&text);
    gw_text_free(&wanted);
}

static void say_ranks(const gwi_case *c, gwi_finding *finding, const gwi_job_rank *rank, size_t count,
                      const bool *is_elsewhere)
{
    bool is_said[GWI_JOB_RANKS_MAX] = {false};
    size_t others = 0, polling = 0;
    uint64_t cpu_ms = 0;
    const gw_stderr_facts *facts = &c->model->stderr_facts;
    for (int elsewhere = 1; elsewhere >= 0; elsewhere--)
        for (size_t i = count; i-- > 0;)
            if (is_elsewhere[i] == (elsewhere == 1) && !is_said[i])
                say_group(c, finding, rank, count, i, is_said);
    for (size_t i = 0; i < count; i++) {
        others += rank[i].hang->thread_count - 1;
        cpu_ms += rank[i].hang->cpu_ms;
        polling += strcmp(rank[i].main_thread->wait, "running") == 0;
        if (has_left(c, &rank[i]) && facts->exception.t_ns < rank[i].hang->t_ns)
            gwi_say_line(c, finding, &facts->exception, "printed before: ");
    }
    if (others > 0)
        gwi_evidence(finding, GWI_NO_TIME, "host", "%zu other thread%s of the ranks also wait%s", others,
                     GWI_PLURAL(others), others == 1 ? "s" : "");
    bool meets = rank[0].hang->meets; /* the store may be served by read() and write(), which count like files */
    gwi_measure(finding, rank[0].hang->t_ns, "host", (double)cpu_ms, "ms",
                "in that time, no rank read or wrote %s%s, and together they used %" PRIu64 " ms of CPU%s",
                meets ? "more than the store's answers" : "a byte", polling > 0 && !meets ? " or sent a message" : "",
                cpu_ms, polling > 0 ? " to poll" : "");
    gwi_evidence(finding, GWI_NO_TIME, "host",
                 meets ? "the ranks are connected with a store of this run, and nothing came from outside"
                       : "the ranks are connected with each other and with nobody else, so no one outside can wake "
                         "them");
}

/* Add "rank 2 is in broadcast, ranks 0, 1 are in all_reduce". */
static void add_calls(const gwi_case *c, gw_text *text, const gwi_job_rank *rank, size_t count)
{
    bool is_said[GWI_JOB_RANKS_MAX] = {false};
    const char *comma = "";
    for (size_t i = count; i-- > 0;) {
        bool is_member[GWI_JOB_RANKS_MAX] = {false};
        size_t members = 0;
        for (size_t k = 0; k < count; k++) {
            is_member[k] = !is_said[k] && strcmp(call_of(c, &rank[k]), call_of(c, &rank[i])) == 0;
            is_said[k] = is_said[k] || is_member[k];
            members += is_member[k];
        }
        if (members == 0)
            continue;
        gw_text_add_str(text, comma);
        add_ranks(text, rank, count, is_member);
        gw_text_addf(text, " %s in %s", members == 1 ? "is" : "are", call_of(c, &rank[i]));
        comma = ", ";
    }
}

static void head(const gwi_case *c, gwi_finding *finding, const gwi_job_rank *rank, size_t count,
                 const bool *is_elsewhere, bool is_found)
{
    const double for_s = (double)c->hang.hang->for_ns / 1e9;
    bool is_waiting[GWI_JOB_RANKS_MAX];
    gw_text text = {0};
    for (size_t i = 0; i < count; i++)
        is_waiting[i] = !is_elsewhere[i];
    fit calls = fit_of(c, rank, count);
    if (calls == ALL_RECEIVE) {
        gwi_headline(finding, "no progress for %.1f s: all ranks wait in %s, and none of them sends", for_s,
                     call_of(c, &rank[0]));
    } else if (calls == DIFFER) {
        add_calls(c, &text, rank, count);
        gwi_headline(finding, "no progress for %.1f s: %s", for_s, gw_text_str(&text));
    } else if (is_found) {
        add_ranks(&text, rank, count, is_waiting);
        gw_text_add_str(&text, strchr(gw_text_str(&text), 's') != NULL ? " wait for " : " waits for ");
        add_ranks(&text, rank, count, is_elsewhere);
        gwi_headline(finding, "no progress for %.1f s: %s, which did not follow", for_s, gw_text_str(&text));
    } else {
        gwi_headline(finding, "no progress for %.1f s: all ranks of the job wait%s", for_s,
                     are_at_one_place(c, rank, count) ? " at the same place" : ", at different places");
    }
    gw_text_free(&text);
}

/* ---- ranks that have not come ---- */

/* Append what is known about a rank that has no process: how it ended. */
static void add_missing(const gwi_case *c, uint32_t rank, gw_text *text)
{
    const gw_process *found = NULL;
    for (size_t i = 0; i < c->model->process_count; i++) {
        const gw_process *process = &c->model->process[i];
        if (process->has_rank && process->rank == rank && process->exit_known)
            found = process;
    }
    if (found == NULL)
        gw_text_addf(text, "; rank %" PRIu32 " has no process: it was not started, or has ended", rank);
    else if (!found->exit.status_known)
        gw_text_addf(text, "; rank %" PRIu32 " (pid %" PRIu32 ") has ended", rank, found->pid);
    else
        gw_text_addf(text, "; rank %" PRIu32 " (pid %" PRIu32 ") %s %d at %.2f s", rank, found->pid,
                     found->exit.signal != 0 ? "was ended by signal" : "exited with status",
                     found->exit.signal != 0 ? found->exit.signal : found->exit.exit_code,
                     (double)found->t_exit_ns / 1e9);
}

/* Append the ranks of the job that are not in the list. Returns their number. */
static size_t add_all_missing(const gwi_case *c, const gwi_job_rank *rank, size_t count, gw_text *text)
{
    enum { NAMED_MAX = 4 };
    size_t missing = 0;
    for (uint32_t number = 0; number < rank[0].of; number++) {
        bool is_there = false;
        for (size_t i = 0; i < count; i++)
            is_there = is_there || rank[i].rank == number;
        if (!is_there && missing++ < NAMED_MAX)
            add_missing(c, number, text);
    }
    if (missing > NAMED_MAX)
        gw_text_addf(text, "; and %zu more ranks", missing - NAMED_MAX);
    return missing;
}

static bool say_meeting(const gwi_case *c, gwi_finding *finding, const gwi_job_rank *rank, size_t count)
{
    bool is_elsewhere[GWI_JOB_RANKS_MAX] = {false}, is_waiting[GWI_JOB_RANKS_MAX];
    size_t away = 0;
    const gwi_job_rank *shown = &rank[count - 1];
    gw_text text = {0};
    for (size_t i = count; i-- > 0;) {
        is_waiting[i] = is_meeting(c->model, &rank[i]);
        is_elsewhere[i] = !is_waiting[i];
        shown = is_elsewhere[i] && away++ == 0 ? &rank[i] : shown;
    }
    add_ranks(&text, rank, count, is_waiting);
    gw_text_addf(&text, " wait%s until all ranks of the job have come", count - away == 1 ? "s" : "");
    if (away > 0) {
        gw_text_add_str(&text, "; ");
        add_ranks(&text, rank, count, is_elsewhere);
        gw_text_addf(&text, " %s elsewhere", away == 1 ? "is" : "are");
    }
    size_t missing = add_all_missing(c, rank, count, &text);
    if (away + missing == 0)
        gw_text_addf(&text, ", and all %zu that were started have: the program expects more ranks than that", count);
    gwi_headline(finding, "no progress for %.1f s: %s", (double)rank[0].hang->for_ns / 1e9, gw_text_str(&text));
    finding->failed = finding->failed || text.failed;
    gw_text_free(&text);
    say_ranks(c, finding, rank, count, is_elsewhere);
    gwi_where(finding, site_of(c, shown),
              away > 0 ? "a rank stands here and has not come" : "a rank waits here for the others");
    return true;
}

/* ---- all of it ---- */

bool gwi_say_still_job(const gwi_case *c, gwi_finding *finding)
{
    static gwi_job_rank rank[GWI_JOB_RANKS_MAX];
    bool is_elsewhere[GWI_JOB_RANKS_MAX] = {false};
    size_t count = gwi_job_ranks(c, rank);
    if (count > 0 && rank[0].hang->meets)
        return say_meeting(c, finding, rank, count);
    bool is_apart = fit_of(c, rank, count) != MAY_MEET, is_found = gwi_find_elsewhere(c, rank, count, is_elsewhere);
    bool differ = !are_at_one_place(c, rank, count);
    if (!is_found)
        memset(is_elsewhere, 0, sizeof is_elsewhere);
    uint32_t site = count > 0 ? site_of(c, &rank[count - 1]) : 0;
    for (size_t i = count; i-- > 0 && is_found;)
        if (is_elsewhere[i]) {
            site = site_of(c, &rank[i]);
            break;
        }
    head(c, finding, rank, count, is_elsewhere, is_found);
    say_ranks(c, finding, rank, count, is_elsewhere);
    gwi_where(finding, site,
              is_found && !is_apart ? "a rank stands here and did not follow the others" : "a rank waits here");
    return is_found || differ || is_apart;
}
