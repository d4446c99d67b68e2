/* Relates runs, processes and cards, and decides what runs need (gwi_watch.h).
 *
 * A run needs what it could not give back: its live memory without what PyTorch only caches, and what the driver holds
 * for it outside of its allocations (contexts, loaded code). The second part is the difference between what NVML
 * reports for its processes and its live memory. Both are read at slightly different times, so the median of the last
 * few differences counts. */
#include "gwi_watch.h"

#include "gw_array.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t second_ns = 1000000000u;

/* Add without wrapping. An unknown summand makes the sum unknown. */
static uint64_t sum(uint64_t a, uint64_t b)
{
    if (a == GW_WATCH_UNKNOWN || b == GW_WATCH_UNKNOWN)
        return GW_WATCH_UNKNOWN;
    return a > UINT64_MAX - 1 - b ? UINT64_MAX - 1 : a + b;
}

/* ---- which card, which run ---- */

static bool is_card_of(const gw_watch_card *card, const gw_live_device *device)
{
    unsigned domain, bus, slot;
    return device->has_pci && sscanf(card->is.pci, "%x:%x:%x", &domain, &bus, &slot) == 3 &&
           domain == device->pci_domain && bus == device->pci_bus && slot == device->pci_device;
}

static bool has_pid(const gw_watch_run *run, uint32_t pid)
{
    for (uint32_t i = 0; i < run->is.pid_count; i++)
        if (run->is.pid[i] == pid)
            return true;
    return false;
}

/* True if the run's processes hold memory on this card, which only one virtual card of several can tell apart. */
static bool is_held_by(const gw_watch_snapshot *s, int card, const gw_watch_run *run)
{
    for (size_t i = 0; i < s->process_count; i++)
        if (s->process[i].card == card && s->process[i].pid_is_ours && has_pid(run, s->process[i].pid))
            return true;
    return false;
}

/* The virtual cards of several runs may have equal places on the bus, so look for those that the run uses first. */
static int card_of(const gw_watch_snapshot *s, const gw_watch_run *run, const gw_live_device *device)
{
    bool is_virtual = run->is.virtual_cards[0] != '\0';
    int found = GW_WATCH_NONE;
    for (size_t i = 0; i < s->card_count; i++) {
        if (s->card[i].is_virtual != is_virtual || !is_card_of(&s->card[i], device))
            continue;
        if (is_held_by(s, (int)i, run))
            return (int)i;
        if (found == GW_WATCH_NONE && !is_virtual)
            found = (int)i;
    }
    return found;
}

static void relate(gw_watch_snapshot *s)
{
    for (size_t i = 0; i < s->run_count; i++) {
        gw_watch_run *run = &s->run[i];
        for (size_t k = 0; k < run->use_count; k++)
            run->use[k].card = run->is.is_rehearsal ? GW_WATCH_NONE : card_of(s, run, &run->use[k].is);
        for (size_t k = 0; k < s->process_count; k++)
            if (s->process[k].pid_is_ours && has_pid(run, s->process[k].pid))
                s->process[k].run = (int)i;
    }
}

/* ---- what a run needs ---- */

/* Return what the processes of a run hold on a card, by NVML. */
static uint64_t held_by(const gw_watch_snapshot *s, int run, int card)
{
    uint64_t bytes = 0;
    bool any = false;
    for (size_t i = 0; i < s->process_count; i++) {
        if (s->process[i].run != run || s->process[i].card != card)
            continue;
        bytes = sum(bytes, s->process[i].bytes);
        any = true;
    }
    return any ? bytes : GW_WATCH_UNKNOWN;
}

static gwi_outside *outside_of(gwi_history *history, uint32_t supervisor_pid, unsigned device)
{
    gwi_outside *hole = NULL;
    for (size_t i = 0; i < GWI_OUTSIDES_MAX; i++) {
        gwi_outside *one = &history->outside[i];
        if (one->supervisor_pid == supervisor_pid && one->device == device)
            return one;
        if (one->supervisor_pid == 0 && hole == NULL)
            hole = one;
    }
    if (hole != NULL)
        *hole = (gwi_outside){.supervisor_pid = supervisor_pid, .device = device};
    return hole;
}

/* Add the newest value if it is known, and return the median of the last ones. */
static uint64_t median_outside(gwi_history *history, const gw_watch_run *run, unsigned device, uint64_t bytes)
{
    uint64_t sorted[GWI_OUTSIDE_MAX];
    gwi_outside *one = outside_of(history, run->is.supervisor_pid, device);
    if (one == NULL)
        return bytes;
    one->is_used = true;
    if (bytes != GW_WATCH_UNKNOWN)
        one->bytes[one->count++ % GWI_OUTSIDE_MAX] = bytes;
    if (one->count == 0)
        return GW_WATCH_UNKNOWN;
    size_t count = one->count < GWI_OUTSIDE_MAX ? one->count : GWI_OUTSIDE_MAX;
    memcpy(sorted, one->bytes, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, gw_by_number);
    return sorted[(count - 1) / 2];
}

static const char *why_unknown(const gw_watch_run *run, const gw_watch_use *use)
{
    if (use->is.is_mixed)
        return "its processes number the cards differently";
    if (run->is.is_rehearsal)
        return "a rehearsal takes no memory";
    if (run->is.is_incomplete)
        return "it has too many blocks of memory to follow";
    if (run->blind_pid != 0)
        return "its framework caches memory that gpuwhy cannot see";
    if (run->is_unseen)
        return "the libraries of its processes cannot be read";
    return use->outside_bytes == GW_WATCH_UNKNOWN ? "what the driver holds for it is not known" : NULL;
}

/* Seconds until the run's limit or the card's free memory is used up, whichever comes first, if the growth goes on. */
static uint64_t seconds_to_full(const gw_watch_snapshot *s, const gw_watch_use *use)
{
    const gw_live_device *is = &use->is;
    if (!is->grows || is->bytes_per_minute == 0)
        return GW_WATCH_UNKNOWN;
    uint64_t cached = is->reserved_bytes > is->allocated_bytes ? is->reserved_bytes - is->allocated_bytes : 0;
    uint64_t free_bytes = use->card == GW_WATCH_NONE ? GW_WATCH_UNKNOWN : s->card[use->card].free_bytes;
    uint64_t room = sum(free_bytes, cached);
    double seconds = room == GW_WATCH_UNKNOWN ? 1e18 : (double)room / (double)is->bytes_per_minute * 60;
    if ((double)is->full_s < seconds)
        return is->full_s;
    return (uint64_t)seconds;
}

static bool reaches(const gw_watch_snapshot *s, uint64_t bytes, uint64_t limit_bytes)
{
    if (bytes == GW_WATCH_UNKNOWN)
        return false;
    if (s->alarm_ratio > 0)
        return limit_bytes != 0 && limit_bytes != GW_WATCH_UNKNOWN &&
               (double)bytes >= s->alarm_ratio * (double)limit_bytes;
    return s->alarm_bytes > 0 && bytes >= s->alarm_bytes;
}

/* What NVML reports is less than the live memory if it does not report all processes of the run, or just before the
 * run's numbers catch up. Then the difference says nothing. */
static uint64_t difference(uint64_t held_bytes, uint64_t live_bytes)
{
    return held_bytes == GW_WATCH_UNKNOWN || held_bytes < live_bytes ? GW_WATCH_UNKNOWN : held_bytes - live_bytes;
}

static void judge_use(gw_watch_snapshot *s, gwi_history *history, int run, gw_watch_use *use)
{
    use->outside_bytes = GW_WATCH_UNKNOWN;
    if (use->card != GW_WATCH_NONE)
        use->outside_bytes = median_outside(history, &s->run[run], use->device,
                                            difference(held_by(s, run, use->card), use->is.live_bytes));
    use->need_why = why_unknown(&s->run[run], use);
    use->need_bytes = use->need_why != NULL ? GW_WATCH_UNKNOWN : sum(use->is.kept_bytes, use->outside_bytes);
    use->full_s = use->need_why != NULL ? GW_WATCH_UNKNOWN : seconds_to_full(s, use);
    uint64_t limit = use->is.limit_bytes;
    if (limit == 0 && use->card != GW_WATCH_NONE)
        limit = s->card[use->card].total_bytes;
    use->is_alarm = reaches(s, use->need_bytes, limit);
}

/* True if it is known what the process needs on its card, as a part of its run. */
static bool is_judged(const gw_watch_snapshot *s, const gw_watch_process *process)
{
    const gw_watch_run *run = process->run == GW_WATCH_NONE ? NULL : &s->run[process->run];
    for (size_t i = 0; run != NULL && i < run->use_count; i++)
        if (run->use[i].card == process->card && run->use[i].need_bytes != GW_WATCH_UNKNOWN)
            return true;
    return false;
}

static void judge_card(gw_watch_snapshot *s, int index)
{
    gw_watch_card *card = &s->card[index];
    card->need_bytes = 0;
    card->unjudged_bytes = card->is.holders_known ? 0 : GW_WATCH_UNKNOWN;
    for (size_t i = 0; i < s->run_count; i++)
        for (size_t k = 0; k < s->run[i].use_count; k++)
            if (s->run[i].use[k].card == index && s->run[i].use[k].need_bytes != GW_WATCH_UNKNOWN)
                card->need_bytes = sum(card->need_bytes, s->run[i].use[k].need_bytes);
    for (size_t i = 0; i < s->process_count; i++) {
        const gw_watch_process *process = &s->process[i];
        if (process->card == index && !is_judged(s, process))
            card->unjudged_bytes = sum(card->unjudged_bytes, process->bytes);
    }
    card->is_alarm = reaches(s, card->need_bytes, card->total_bytes);
}

/* ---- since when a process is idle ---- */

static gwi_seen *seen_of(gwi_history *history, const gw_watch_process *process, const gw_watch_card *card,
                         uint64_t now_ns)
{
    gwi_seen *hole = NULL;
    for (size_t i = 0; i < GWI_SEEN_MAX; i++) {
        gwi_seen *one = &history->seen[i];
        if (one->pid == process->pid && one->source == (int)card->source && one->card == card->index)
            return one;
        if (one->pid == 0 && hole == NULL)
            hole = one;
    }
    if (hole != NULL)
        *hole = (gwi_seen){.pid = process->pid, .source = (int)card->source, .card = card->index, .since_ns = now_ns};
    return hole;
}

static uint64_t since(uint64_t now_ns, uint64_t then_ns)
{
    return then_ns < now_ns ? (now_ns - then_ns) / second_ns : 0;
}

static uint64_t ns_of_us(uint64_t us)
{
    return us > UINT64_MAX / 1000 ? UINT64_MAX : us * 1000;
}

static void judge_idle(const gw_watch_snapshot *s, gwi_history *history, gw_watch_process *process)
{
    const gw_watch_card *card = &s->card[process->card];
    uint64_t now_ns = s->t_realtime_ns, busy_us = 0;
    gwi_seen *seen = seen_of(history, process, card, now_ns);
    for (size_t i = 0; i < card->is.holder_count; i++)
        if (card->is.holder[i].pid == process->pid)
            busy_us = card->is.holder[i].busy_at_us;
    uint64_t busy_ns = ns_of_us(busy_us), known_from_ns = ns_of_us(card->is.busy_since_us);
    if (seen != NULL) {
        seen->is_used = true;
        seen->busy_ns = busy_ns > seen->busy_ns ? busy_ns : seen->busy_ns;
        busy_ns = seen->busy_ns;
        known_from_ns = card->is.busy_since_us != 0 && seen->since_ns < known_from_ns ? seen->since_ns : known_from_ns;
    }
    if (busy_ns != 0) {
        process->idle = GW_WATCH_IDLE_SINCE;
        process->idle_s = since(now_ns, busy_ns);
    } else if (card->is.busy_since_us != 0) {
        process->idle = GW_WATCH_IDLE_AT_LEAST;
        process->idle_s = since(now_ns, known_from_ns);
    }
    /* A recorded run knows when it last gave work to a card; NVML may have seen a long kernel after that. */
    const gw_watch_run *run = process->run == GW_WATCH_NONE ? NULL : &s->run[process->run];
    if (run != NULL && run->idle_s != GW_WATCH_UNKNOWN &&
        (process->idle != GW_WATCH_IDLE_SINCE || run->idle_s < process->idle_s)) {
        process->idle = GW_WATCH_IDLE_SINCE;
        process->idle_s = run->idle_s;
    }
}

/* ---- all together ---- */

static void forget_unused(gwi_history *history)
{
    for (size_t i = 0; i < GWI_OUTSIDES_MAX; i++) {
        if (!history->outside[i].is_used)
            history->outside[i].supervisor_pid = 0;
        history->outside[i].is_used = false;
    }
    for (size_t i = 0; i < GWI_SEEN_MAX; i++) {
        if (!history->seen[i].is_used)
            history->seen[i].pid = 0;
        history->seen[i].is_used = false;
    }
    for (size_t i = 0; i < GWI_SEEN_MAX; i++) {
        if (!history->mapped[i].is_used)
            history->mapped[i].pid = 0;
        history->mapped[i].is_used = false;
    }
}

void gwi_snapshot_judge(gw_watch_snapshot *s, gwi_history *history)
{
    relate(s);
    for (size_t i = 0; i < s->run_count; i++)
        for (size_t k = 0; k < s->run[i].use_count; k++)
            judge_use(s, history, (int)i, &s->run[i].use[k]);
    for (size_t i = 0; i < s->card_count; i++)
        judge_card(s, (int)i);
    for (size_t i = 0; i < s->process_count; i++)
        judge_idle(s, history, &s->process[i]);
    forget_unused(history);
}
