/* Draws the processes in the order of the view, and the recorded runs (gwi_screen.h). */
#include "gwi_screen.h"

#include "gw_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- order and filter ---- */

static bool passes(const char *filter, const char *word)
{
    return filter[0] == '\0' || strstr(word, filter) != NULL;
}

static bool is_wanted(const gw_watch_view *view, uint32_t pid, const char *user, const char *command, const char *more)
{
    char number[16];
    snprintf(number, sizeof number, "%" PRIu32, pid);
    return passes(view->filter, number) || passes(view->filter, user) || passes(view->filter, command) ||
           passes(view->filter, more);
}

bool gw_watch_passes(const char *filter, const gw_watch_process *process)
{
    const gw_watch_view view = {.filter = filter};
    return is_wanted(&view, process->pid, process->user, process->command, process->started_by);
}

static int compare(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

/* Unknown memory and idle times are last. */
static int more_first(uint64_t a, uint64_t b)
{
    return compare(b == GW_WATCH_UNKNOWN ? 0 : b, a == GW_WATCH_UNKNOWN ? 0 : a);
}

static int by_order(const gw_watch_process *a, const gw_watch_process *b, gw_watch_order order)
{
    int result = 0;
    if (order == GW_WATCH_BY_IDLE)
        result = more_first(a->idle == GW_WATCH_IDLE_UNKNOWN ? 0 : a->idle_s + 1,
                            b->idle == GW_WATCH_IDLE_UNKNOWN ? 0 : b->idle_s + 1);
    else if (order == GW_WATCH_BY_USER)
        result = strcmp(a->user, b->user);
    else if (order == GW_WATCH_BY_PID)
        result = compare(a->pid, b->pid);
    else if (order == GW_WATCH_BY_CARD)
        result = compare((uint64_t)a->card, (uint64_t)b->card);
    if (result == 0)
        result = more_first(a->bytes, b->bytes);
    return result != 0 ? result : compare(a->pid, b->pid);
}

/* Return the processes that the view shows, in its order: an array that the caller frees; NULL: no memory, or none. */
static const gw_watch_process **sorted(const gw_watch_snapshot *s, const gw_watch_view *view, size_t *ret_count)
{
    const gw_watch_process **list = calloc(s->process_count + 1, sizeof *list);
    *ret_count = 0;
    for (size_t i = 0; list != NULL && i < s->process_count; i++) {
        const gw_watch_process *process = &s->process[i];
        if (!is_wanted(view, process->pid, process->user, process->command, process->started_by))
            continue;
        size_t k = (*ret_count)++;
        for (; k > 0 && by_order(process, list[k - 1], view->order) < 0; k--)
            list[k] = list[k - 1];
        list[k] = process;
    }
    return list;
}

/* ---- processes ---- */

/* Return what a process needs, if it is the only one of its run on the card. */
static const char *need_of(const gw_watch_snapshot *s, const gw_watch_process *process, char out[GW_BYTES_TEXT_MAX])
{
    if (process->run == GW_WATCH_NONE)
        return "unknown";
    const gw_watch_run *run = &s->run[process->run];
    for (size_t i = 0; i < run->use_count; i++)
        if (run->use[i].card == process->card)
            return run->is.pid_count > 1 ? "see run" : gwi_bytes_or(out, run->use[i].need_bytes, "unknown");
    return "unknown";
}

void gwi_draw_processes(gw_text *text, const gw_watch_snapshot *s, const gw_watch_view *view)
{
    size_t count;
    const gw_watch_process **list = sorted(s, view, &count);
    gwi_mark(text, GW_MARK_HEAD);
    gw_text_addf(text, "\nGPU     PID USER         IN USE      NEEDS  IDLE         COMMAND\n");
    for (size_t i = 0; i < count; i++) {
        const gw_watch_process *process = list[i];
        char used[GW_BYTES_TEXT_MAX], need[GW_BYTES_TEXT_MAX];
        gw_text idle = {0};
        gwi_add_idle(&idle, process);
        gw_text_addf(text, "%-3" PRIu32 " %7" PRIu32 " ", s->card[process->card].index, process->pid);
        gwi_add_column(text, process->pid_is_ours ? process->user : "?", 8);
        gw_text_addf(text, " %10s %10s  ", gwi_bytes_or(used, process->bytes, "unknown"), need_of(s, process, need));
        gwi_add_column(text, gw_text_str(&idle), 12);
        gw_text_add_str(text, " ");
        if (process->pid_is_ours)
            gwi_add_command(text, process->command);
        else
            gw_text_add_str(text, "(in another pid namespace)");
        gw_text_add_str(text, "\n");
        gw_text_free(&idle);
    }
    if (count == 0)
        gw_text_add_str(text, view->filter[0] == '\0' ? "no process holds memory on a card\n" : "no process matches\n");
    free(list);
}

/* ---- runs ---- */

/* The most important comes first, because narrow screens cut the end. */
static void add_use(gw_text *text, const gw_watch_snapshot *s, const gw_watch_use *use)
{
    char live[GW_BYTES_TEXT_MAX], need[GW_BYTES_TEXT_MAX], growth[GW_BYTES_TEXT_MAX];
    if (use->is_alarm)
        gwi_mark(text, GW_MARK_ALARM);
    gw_text_add_str(text, use->is_alarm ? "  ALARM " : "  ");
    if (use->card == GW_WATCH_NONE)
        gw_text_addf(text, "device %u: ", use->device);
    else
        gw_text_addf(text, "GPU %" PRIu32 ": ", s->card[use->card].index);
    if (use->need_why != NULL)
        gw_text_addf(text, "need unknown: %s", use->need_why);
    else
        gw_text_addf(text, "needs %s", gwi_bytes_or(need, use->need_bytes, "unknown"));
    if (use->need_why == NULL && use->is.grows) {
        gw_text_addf(text, ", +%s/min", gw_bytes_text(growth, use->is.bytes_per_minute));
        if (use->full_s != GW_WATCH_UNKNOWN) {
            gw_text_add_str(text, ", full in ");
            gwi_add_time(text, use->full_s);
        }
    }
    gw_text_addf(text, "; %s live\n", gw_bytes_text(live, use->is.live_bytes));
}

static void add_failure(gw_text *text, const gw_watch_run *run)
{
    char number[24];
    if (run->is.failure_count == 0)
        return;
    snprintf(number, sizeof number, "error %" PRIu32, run->is.failed_result);
    gwi_mark(text, GW_MARK_WARN);
    gw_text_add_str(text, "  last failed call: ");
    gw_add_printable(text, run->is.failed_call[0] == '\0' ? "?" : run->is.failed_call);
    gw_text_addf(text, " %s, ", run->failed_as == NULL ? number : run->failed_as);
    gwi_add_time(text, run->failed_s);
    gw_text_addf(text, " ago (%" PRIu64 " so far)\n", run->is.failure_count);
}

static void add_run(gw_text *text, const gw_watch_snapshot *s, const gw_watch_run *run)
{
    enum { STALE_S = 10 };
    gw_text time = {0};
    gwi_add_time(&time, run->seconds);
    gwi_add_column(text, run->id, 23);
    gw_text_add_str(text, " ");
    gwi_add_column(text, run->user, 8);
    gw_text_add_str(text, " ");
    gwi_add_column(text, gw_text_str(&time), 11);
    gw_text_add_str(text, " ");
    gwi_add_command(text, run->is.command);
    gw_text_add_str(text, "\n");
    gw_text_free(&time);
    for (size_t i = 0; i < run->use_count; i++)
        add_use(text, s, &run->use[i]);
    if (run->use_count == 0)
        gw_text_add_str(text, run->is.process_count == 0 ? "  no driver call yet\n" : "  no memory in use\n");
    add_failure(text, run);
    if (run->stale_s >= STALE_S) {
        gwi_mark(text, GW_MARK_WARN);
        gw_text_add_str(text, "  not updated for ");
        gwi_add_time(text, run->stale_s);
        gw_text_add_str(text, ": its supervisor is stopped or very busy\n");
    }
}

void gwi_draw_runs(gw_text *text, const gw_watch_snapshot *s, const gw_watch_view *view)
{
    gwi_mark(text, GW_MARK_HEAD);
    gw_text_add_str(text, "\nRECORDED RUN            USER     FOR         COMMAND\n");
    size_t shown = 0;
    for (size_t i = 0; i < s->run_count; i++) {
        const gw_watch_run *run = &s->run[i];
        if (!is_wanted(view, run->is.command_pid, run->user, run->is.command, run->id))
            continue;
        add_run(text, s, run);
        shown++;
    }
    if (shown == 0)
        gw_text_add_str(text, s->run_count > 0 ? "no run matches\n" : "none; to record one: gpuwhy run -- program\n");
    gwi_mark(text, GW_MARK_DIM);
    if (s->hidden_runs > 0)
        gw_text_addf(text, "%zu more of other users (%s), which only they and root can see\n", s->hidden_runs,
                     s->hidden_users);
    else if (!s->sees_all)
        gw_text_add_str(text, "Only your own runs: those of other users are visible to root.\n");
    else
        gwi_mark(text, GW_MARK_PLAIN);
    if (s->broken_runs > 0) {
        gwi_mark(text, GW_MARK_WARN);
        gw_text_addf(text, "%zu cannot be read: ", s->broken_runs);
        gw_add_printable(text, s->broken_why);
        gw_text_add_str(text, "\n");
    }
}

/* ---- gpuwhy who ---- */

size_t gw_watch_draw_who(const gw_watch_snapshot *s, const gw_watch_view *view, gw_text *text)
{
    size_t count;
    gw_text line = {0};
    const gw_watch_process **list = sorted(s, view, &count);
    if (count > 0)
        gw_text_add_str(text, "GPU     PID USER         IN USE  IDLE         STARTED BY       COMMAND\n");
    for (size_t i = 0; i < count; i++) {
        const gw_watch_process *process = list[i];
        char used[GW_BYTES_TEXT_MAX];
        gw_text idle = {0};
        gw_text_clear(&line);
        gwi_add_idle(&idle, process);
        gw_text_addf(&line, "%-3" PRIu32 " %7" PRIu32 " ", s->card[process->card].index, process->pid);
        gwi_add_column(&line, process->pid_is_ours ? process->user : "?", 8);
        gw_text_addf(&line, " %10s  ", gwi_bytes_or(used, process->bytes, "unknown"));
        gwi_add_column(&line, gw_text_str(&idle), 12);
        gw_text_add_str(&line, " ");
        gwi_add_column(&line, process->started_by[0] == '\0' ? "unknown" : process->started_by, 16);
        gw_text_add_str(&line, " ");
        if (process->pid_is_ours)
            gwi_add_command(&line, process->command);
        else
            gw_text_add_str(&line, "(in another pid namespace)");
        if (view->width == 0)
            gw_text_addf(text, "%s\n", gw_text_str(&line));
        else
            gwi_add_cut(text, gw_text_str(&line), line.bytes, view->width);
        gw_text_free(&idle);
    }
    gw_text_free(&line);
    free(list);
    return count;
}
