/* A job whose ranks all stand still (facts "hang.rank", each with a "hang" of the same process). The supervisor records
 * it only if nobody outside of the job can be the one that they wait for. Which rank did not follow the others is seen
 * from the stacks alone: the calls of gloo and MPI are not recorded. */
#include "gwi_hang.h"

#include "gw_fact.h"
#include "gw_sites.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const gw_hang *last_hang(const gw_model *model, uint32_t pid)
{
    for (size_t i = model->hang_count; i-- > 0;)
        if (model->hang[i].pid == pid)
            return &model->hang[i];
    return NULL;
}

/* Facts of one hang are recorded together; a later hang replaces them. */
size_t gwi_job_ranks(const gw_model *model, gwi_job_rank ret_rank[GWI_JOB_RANKS_MAX])
{
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
        const gw_hang *hang = last_hang(model, fact->pid);
        if (count == GWI_JOB_RANKS_MAX || fact->t_ns + together_ns < t_ns)
            break;
        bool is_there = false;
        for (size_t k = 0; k < count; k++)
            is_there = is_there || ret_rank[k].rank == said.rank;
        if (is_there)
            break; /* the facts of an earlier hang */
        if (hang == NULL || hang->over || hang->for_ns == 0)
            return 0;
        const gwi_job_rank found = {said.rank, hang, gwi_hang_thread(hang, fact->pid), 1};
        if (found.main_thread == NULL)
            return 0;
        ret_rank[count++] = found;
    }
    return count > 1 ? count : 0;
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
    return frame->function != NULL &&
           (strstr(frame->function, "gloo") != NULL || strncmp(frame->function, "MPI_", 4) == 0);
}

static bool is_in_collective(const gwi_case *c, const gwi_job_rank *rank)
{
    const gw_stack *stack = gw_sites_stack(c->model->sites, rank->main_thread->site);
    for (size_t i = 0; stack != NULL && i < stack->count; i++)
        if (is_collective_frame(&stack->frame[i]))
            return true;
    return false;
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

static void add_ranks(gw_text *text, const gwi_job_rank *rank, size_t count, const bool *is_elsewhere, bool wanted)
{
    enum { NAMED_MAX = 8 };
    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        found += is_elsewhere[i] == wanted;
    if (found > NAMED_MAX) {
        gw_text_addf(text, "%zu ranks", found);
        return;
    }
    gw_text_add_str(text, found == 1 ? "rank" : "ranks");
    size_t said = 0;
    for (size_t i = count; i-- > 0;) /* the list has the newest fact, of the highest rank, first */
        if (is_elsewhere[i] == wanted)
            gw_text_addf(text, "%s%" PRIu32, said++ == 0 ? " " : ", ", rank[i].rank);
}

static void say_rank(const gwi_case *c, gwi_finding *finding, const gwi_job_rank *rank)
{
    char doing[GW_DOING_TEXT_MAX], at[GWI_PLACE_TEXT_MAX];
    gwi_evidence(finding, rank->hang->t_ns, "host", "rank %" PRIu32 " (pid %" PRIu32 "): its main thread is %s%s",
                 rank->rank, rank->hang->pid, gw_doing_text(doing, rank->main_thread),
                 gwi_at(c, rank->main_thread->site, at));
}

static void say_ranks(const gwi_case *c, gwi_finding *finding, const gwi_job_rank *rank, size_t count,
                      const bool *is_elsewhere)
{
    enum { SHOWN_MAX = 8 };
    size_t shown = 0, others = 0;
    uint64_t cpu_ms = 0;
    for (int elsewhere = 1; elsewhere >= 0; elsewhere--)
        for (size_t i = count; i-- > 0;)
            if (is_elsewhere[i] == (elsewhere == 1) && shown < SHOWN_MAX) {
                say_rank(c, finding, &rank[i]);
                shown++;
            }
    for (size_t i = 0; i < count; i++) {
        others += rank[i].hang->thread_count - 1;
        cpu_ms += rank[i].hang->cpu_ms;
    }
    if (shown < count)
        gwi_evidence(finding, GWI_NO_TIME, "host", "and %zu more ranks", count - shown);
    if (others > 0)
        gwi_evidence(finding, GWI_NO_TIME, "host", "%zu other thread%s of the ranks also wait%s", others,
                     GWI_PLURAL(others), others == 1 ? "s" : "");
    gwi_measure(finding, rank[0].hang->t_ns, "host", (double)cpu_ms, "ms",
                "in that time, no rank read or wrote a byte, and together they used %" PRIu64 " ms of CPU", cpu_ms);
    gwi_evidence(finding, GWI_NO_TIME, "host",
                 "the ranks are connected with each other and with nobody else, so no one outside can wake them");
}

bool gwi_say_still_job(const gwi_case *c, gwi_finding *finding)
{
    static gwi_job_rank rank[GWI_JOB_RANKS_MAX];
    bool is_elsewhere[GWI_JOB_RANKS_MAX] = {false};
    size_t count = gwi_job_ranks(c->model, rank);
    gw_text text = {0};
    const double for_s = (double)c->hang.hang->for_ns / 1e9;
    bool is_found = gwi_find_elsewhere(c, rank, count, is_elsewhere), differ = !are_at_one_place(c, rank, count);
    if (!is_found)
        memset(is_elsewhere, 0, sizeof is_elsewhere);
    uint32_t site = count > 0 ? rank[count - 1].main_thread->site : 0;
    for (size_t i = count; i-- > 0 && is_found;)
        if (is_elsewhere[i]) {
            site = rank[i].main_thread->site;
            break;
        }
    add_ranks(&text, rank, count, is_elsewhere, false);
    if (is_found) {
        gw_text_addf(&text, " wait%s for ", strchr(gw_text_str(&text), 's') != NULL ? "" : "s");
        add_ranks(&text, rank, count, is_elsewhere, true);
        gwi_headline(finding, "no progress for %.1f s: %s, which did not follow", for_s, gw_text_str(&text));
    } else {
        gwi_headline(finding, "no progress for %.1f s: all ranks of the job wait%s", for_s,
                     differ ? ", at different places" : " at the same place");
    }
    gw_text_free(&text);
    say_ranks(c, finding, rank, count, is_elsewhere);
    gwi_where(finding, site, is_found ? "a rank stands here and did not follow the others" : "a rank waits here");
    return is_found || differ;
}
