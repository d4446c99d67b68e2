/* Draws a snapshot: a title, the cards, the runs, and the processes. All parts are appended to a text, with marks
 * (gw_watch.h) and without control characters.
 *
 * All lines below the title are drawn first; then those that fit are copied, so that scrolling needs no second layout.
 */
#include "gw_watch.h"

#include "gw_data.h"
#include "gw_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WIDTH_MIN = 40, CARDS_IN_FULL = 4 };

/* ---- pieces of a line: columns, times, sizes ---- */

static void mark(gw_text *text, gw_watch_mark which)
{
    const char byte = (char)which;
    gw_text_add(text, &byte, 1);
}

static bool is_mark(char byte)
{
    return byte > 0 && byte < GW_MARK_END;
}

void gw_watch_plain(gw_text *out, const char *text)
{
    for (const char *at = text; *at != '\0'; at++)
        if (!is_mark(*at))
            gw_text_add(out, at, 1);
}

/* Return where a part of a line that fits into `columns` ends: between two columns of text, after a word, or anywhere.
 */
static size_t part_of(const char *line, size_t bytes, unsigned columns)
{
    size_t fit = gw_head_bytes(line, bytes, columns), word = 0, gap = 0;
    if (fit == bytes)
        return fit;
    for (size_t i = 1; i <= fit; i++) {
        word = line[i] == ' ' ? i : word;
        gap = line[i] == ' ' && i + 1 < bytes && line[i + 1] == ' ' ? i : gap;
        while (gap == i && i < fit && line[i + 1] == ' ')
            i++;
    }
    if (gw_columns(line, gap) >= columns / 2)
        return gap;
    return word > 0 ? word : fit;
}

/* Append a line as several lines of `width` columns. Its blanks to fill columns are left out. */
static void add_parts(gw_text *text, const char *line, size_t bytes, unsigned width)
{
    enum { INDENT = 4 };
    gw_text rest = {0};
    char last = 0; /* the mark that holds at the end of a part */
    for (size_t i = 0, blanks = 0; i < bytes; i++) {
        blanks = line[i] == ' ' ? blanks + 1 : 0;
        if (blanks <= 2 || rest.bytes < INDENT + 4)
            gw_text_add(&rest, line + i, 1);
    }
    const char *at = gw_text_str(&rest), *end = at + rest.bytes;
    for (unsigned indent = 0; at < end; indent = INDENT) {
        size_t part = part_of(at, (size_t)(end - at), width - indent);
        gw_text_addf(text, "%*s", (int)indent, "");
        if (last != 0)
            gw_text_add(text, &last, 1);
        gw_text_addf(text, "%.*s\n", (int)part, at);
        for (size_t i = 0; i < part; i++)
            last = is_mark(at[i]) ? at[i] : last;
        at += part;
        while (at < end && *at == ' ')
            at++;
    }
    gw_text_free(&rest);
}

/* Append a line of other lines' text, which fits into `width` columns. The marks have no width. A longer line becomes
 * several lines on a narrow screen, and is cut otherwise, with "~" at its end. */
static void add_line(gw_text *text, const char *line, size_t bytes, unsigned width)
{
    enum { NARROW = 80 };
    bool fits = gw_columns(line, bytes) <= width;
    if (!fits && width < NARROW) {
        add_parts(text, line, bytes, width);
        return;
    }
    gw_text_add(text, line, fits ? bytes : gw_head_bytes(line, bytes, width - 1));
    gw_text_add_str(text, fits ? "\n" : "~\n");
}

/* Append a word from elsewhere in a column of `width`: cut if it is longer, filled with blanks if it is shorter. */
static void add_column(gw_text *text, const char *word, unsigned width)
{
    gw_text clean = {0};
    gw_add_printable(&clean, word);
    const char *from = gw_text_str(&clean);
    size_t bytes = gw_head_bytes(from, clean.bytes, width);
    gw_text_add(text, from, bytes);
    gw_text_addf(text, "%*s", (int)(width - gw_columns(from, bytes)), "");
    gw_text_free(&clean);
}

/* Return the bytes as text in `out`, or `otherwise` if they are unknown. As in nvidia-smi, in whole MiB. */
static const char *bytes_or(char out[GW_BYTES_TEXT_MAX], uint64_t bytes, const char *otherwise)
{
    snprintf(out, GW_BYTES_TEXT_MAX, "%" PRIu64 " MiB", bytes >> 20);
    return bytes == GW_WATCH_UNKNOWN ? otherwise : out;
}

/* Append a command line without the folder of the program: it is long and tells little. */
static void add_command(gw_text *text, const char *command)
{
    size_t bytes = strcspn(command, " ");
    const char *from = command;
    for (size_t i = 0; i + 1 < bytes; i++)
        from = command[i] == '/' ? command + i + 1 : from;
    gw_add_printable(text, from);
}

/* Append a time: "12 s", "3 min", "2 h 05 min", "3 d 04 h". */
static void add_time(gw_text *text, uint64_t seconds)
{
    uint64_t minutes = seconds / 60, hours = minutes / 60, days = hours / 24;
    if (seconds < 120)
        gw_text_addf(text, "%" PRIu64 " s", seconds);
    else if (minutes < 120)
        gw_text_addf(text, "%" PRIu64 " min", minutes);
    else if (hours < 48)
        gw_text_addf(text, "%" PRIu64 " h %02" PRIu64 " min", hours, minutes % 60);
    else
        gw_text_addf(text, "%" PRIu64 " d %02" PRIu64 " h", days, hours % 24);
}

static void add_idle(gw_text *text, const gw_watch_process *process)
{
    enum { BUSY_S = 5 }; /* samples are a few seconds apart */
    if (process->idle == GW_WATCH_IDLE_UNKNOWN) {
        gw_text_add_str(text, "unknown");
    } else if (process->idle_s < BUSY_S) {
        gw_text_add_str(text, process->idle == GW_WATCH_IDLE_SINCE ? "in use" : "not in use");
    } else {
        gw_text_add_str(text, process->idle == GW_WATCH_IDLE_AT_LEAST ? "> " : "");
        add_time(text, process->idle_s);
    }
}

/* ---- cards: two lines each, or one if there are many, and what is wrong with them ---- */

static const struct {
    uint64_t bits;
    const char *text;
    bool is_bad;
} reasons[] = {
    {GW_CLOCK_REASON_HW_SLOWDOWN | GW_CLOCK_REASON_HW_THERMAL | GW_CLOCK_REASON_SW_THERMAL, "heat", true},
    {GW_CLOCK_REASON_POWER_BRAKE, "power brake", true},
    {GW_CLOCK_REASON_POWER_CAP, "power limit", false},
    {GW_CLOCK_REASON_SYNC_BOOST, "sync boost", false},
    {GW_CLOCK_REASON_SETTING, "clock setting", false},
};

static void add_value(gw_text *text, const gw_watch_card *card, gw_metric metric, uint64_t divisor, const char *format)
{
    uint64_t value;
    char number[24] = "?";
    if (gw_watch_metric(card, metric, &value))
        snprintf(number, sizeof number, "%" PRIu64, value / divisor);
    gw_text_addf(text, "  ");
    const char *at = strchr(format, '#');
    gw_text_addf(text, "%.*s%s%s", (int)(at - format), format, number, at + 1);
}

static void add_power(gw_text *text, const gw_watch_card *card)
{
    uint64_t power, limit;
    if (!gw_watch_metric(card, GW_METRIC_CARD_POWER, &power))
        gw_text_add_str(text, "  ? W");
    else if (gw_watch_metric(card, GW_METRIC_CARD_POWER_LIMIT, &limit))
        gw_text_addf(text, "  %" PRIu64 "/%" PRIu64 " W", power / 1000, limit / 1000);
    else
        gw_text_addf(text, "  %" PRIu64 " W", power / 1000);
}

/* Append what is wrong with a card, as lines. Nothing is added for a healthy one. */
static void add_troubles(gw_text *text, const gw_watch_card *card)
{
    uint64_t bits = 0, value;
    gw_text slow = {0}, bad = {0};
    (void)gw_watch_metric(card, GW_METRIC_CARD_CLOCK_REASONS, &bits);
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
        gw_text *to = reasons[i].is_bad ? &bad : &slow;
        if ((bits & reasons[i].bits) != 0)
            gw_text_addf(to, "%s%s", to->bytes > 0 ? ", " : "clock lowered by ", reasons[i].text);
    }
    if (gw_watch_metric(card, GW_METRIC_CARD_ECC_UNCORRECTED, &value) && value > 0)
        gw_text_addf(&bad, "%suncorrected memory errors: %" PRIu64, bad.bytes ? ", " : "", value);
    if (gw_watch_metric(card, GW_METRIC_CARD_REMAP_FAILED, &value) && value > 0)
        gw_text_addf(&bad, "%sa row could not be remapped", bad.bytes ? ", " : "");
    if (gw_watch_metric(card, GW_METRIC_CARD_REMAP_PENDING, &value) && value > 0)
        gw_text_addf(&bad, "%sa remapped row needs a reset", bad.bytes ? ", " : "");
    if (card->is.xid_count > 0) {
        const gw_xid *xid = card->is.xid_last <= UINT32_MAX ? gw_data_xid_of((unsigned)card->is.xid_last) : NULL;
        gw_text_addf(&bad, "%sXid events: %" PRIu64 ", the last one %" PRIu64 "%s%s%s", bad.bytes ? ", " : "",
                     card->is.xid_count, card->is.xid_last, xid == NULL ? "" : " (", xid == NULL ? "" : xid->mnemonic,
                     xid == NULL ? "" : ")");
    }
    if (card->is.is_lost)
        gw_text_addf(&bad, "%sthe card is lost", bad.bytes ? ", " : "");
    if (bad.bytes > 0) {
        mark(text, GW_MARK_ALARM);
        gw_text_addf(text, "       %s\n", gw_text_str(&bad));
    }
    if (slow.bytes > 0) {
        mark(text, GW_MARK_DIM);
        gw_text_addf(text, "       %s\n", gw_text_str(&slow));
    }
    gw_text_free(&bad);
    gw_text_free(&slow);
}

/* Append a bar: needed by runs '#', in use otherwise '=', free '.'. */
static void add_bar(gw_text *text, const gw_watch_card *card, unsigned width)
{
    uint64_t total = card->total_bytes, used = card->used_bytes, need = card->need_bytes;
    if (total == GW_WATCH_UNKNOWN || used == GW_WATCH_UNKNOWN) {
        gw_text_addf(text, "[%*s]", (int)width, "");
        return;
    }
    used = used > total ? total : used;
    need = need > used ? used : need;
    unsigned used_columns = (unsigned)((double)used / (double)total * width + 0.5);
    unsigned need_columns = (unsigned)((double)need / (double)total * width + 0.5);
    gw_text_add_str(text, "[");
    mark(text, card->is_alarm ? GW_MARK_ALARM : GW_MARK_GOOD);
    for (unsigned i = 0; i < width; i++) {
        if (i == need_columns)
            mark(text, GW_MARK_PLAIN);
        gw_text_add_str(text, i < need_columns ? "#" : i < used_columns ? "=" : ".");
    }
    mark(text, GW_MARK_PLAIN);
    gw_text_add_str(text, "]");
}

/* Append the memory of a card: "62668 MiB of 143771 MiB, 59392 MiB needed". */
static void add_memory(gw_text *text, const gw_watch_card *card)
{
    char used[GW_BYTES_TEXT_MAX], total[GW_BYTES_TEXT_MAX], need[GW_BYTES_TEXT_MAX];
    gw_text_addf(text, " %s of %s", bytes_or(used, card->used_bytes, "?"), bytes_or(total, card->total_bytes, "?"));
    if (card->need_bytes > 0) {
        mark(text, card->is_alarm ? GW_MARK_ALARM : GW_MARK_PLAIN);
        gw_text_addf(text, ", %s%s needed", card->is_alarm ? "ALARM: " : "", bytes_or(need, card->need_bytes, "?"));
        mark(text, GW_MARK_PLAIN);
    }
}

static void add_card(gw_text *text, const gw_watch_card *card, bool in_full, unsigned width)
{
    enum { BAR_NARROW = 16, BAR_WIDE = 40, BAR_SMALL = 10, WIDE = 110 };
    uint64_t errors;
    char used[GW_BYTES_TEXT_MAX], total[GW_BYTES_TEXT_MAX];
    mark(text, GW_MARK_HEAD);
    gw_text_addf(text, "GPU %-2" PRIu32 " ", card->index);
    mark(text, GW_MARK_PLAIN);
    if (!in_full) {
        add_bar(text, card, BAR_SMALL);
        gw_text_addf(text, " %10s of %s", bytes_or(used, card->used_bytes, "?"),
                     bytes_or(total, card->total_bytes, "?"));
    } else {
        const char *name = card->is.name[0] == '\0' ? "unknown card" : card->is.name;
        add_column(text,
                   card->is_virtual             ? "virtual"
                   : gw_begins(name, "NVIDIA ") ? name + 7
                                                : name,
                   width < WIDE ? 12 : 24);
    }
    add_value(text, card, GW_METRIC_CARD_TEMPERATURE, 1, "# C");
    add_power(text, card);
    add_value(text, card, GW_METRIC_CARD_UTILISATION, 1, "use # %");
    if (in_full) {
        add_value(text, card, GW_METRIC_CARD_CLOCK_SM, 1, "# MHz");
        if (gw_watch_metric(card, GW_METRIC_CARD_ECC_CORRECTED, &errors))
            gw_text_addf(text, "  ECC %" PRIu64, errors);
        else
            gw_text_add_str(text, "  ECC ?");
        gw_text_addf(text, "  Xid %" PRIu64 "\n       ", card->is.xid_count);
        add_bar(text, card, width < WIDE ? BAR_NARROW : BAR_WIDE);
        add_memory(text, card);
    }
    gw_text_add_str(text, "\n");
    add_troubles(text, card);
}

static void draw_cards(gw_text *text, const gw_watch_snapshot *s, unsigned width)
{
    for (size_t i = 0; i < s->card_count; i++)
        add_card(text, &s->card[i], s->card_count <= CARDS_IN_FULL, width);
    if (s->no_cards_why[0] != '\0') {
        mark(text, GW_MARK_WARN);
        gw_text_add_str(text, "The cards of this machine cannot be read: ");
        gw_add_printable(text, s->no_cards_why);
        gw_text_add_str(text, "\n");
    }
}

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
            return run->is.pid_count > 1 ? "see run" : bytes_or(out, run->use[i].need_bytes, "unknown");
    return "unknown";
}

/* `need` and `started_by` are columns that only some lists have; NULL: this one does not. */
static void add_process(gw_text *text, const gw_watch_snapshot *s, const gw_watch_process *process, const char *need,
                        const char *started_by)
{
    char used[GW_BYTES_TEXT_MAX];
    gw_text idle = {0};
    add_idle(&idle, process);
    gw_text_addf(text, "%-3" PRIu32 " %7" PRIu32 " ", s->card[process->card].index, process->pid);
    add_column(text, process->pid_is_ours ? process->user : "?", 8);
    gw_text_addf(text, " %10s", bytes_or(used, process->bytes, "unknown"));
    if (need != NULL)
        gw_text_addf(text, " %10s", need);
    gw_text_add_str(text, "  ");
    add_column(text, gw_text_str(&idle), 12);
    gw_text_add_str(text, " ");
    if (started_by != NULL) {
        add_column(text, started_by[0] == '\0' ? "unknown" : started_by, 16);
        gw_text_add_str(text, " ");
    }
    if (process->pid_is_ours)
        add_command(text, process->command);
    else
        gw_text_add_str(text, "(in another pid namespace)");
    gw_text_free(&idle);
}

static void draw_processes(gw_text *text, const gw_watch_snapshot *s, const gw_watch_view *view)
{
    size_t count;
    const gw_watch_process **list = sorted(s, view, &count);
    mark(text, GW_MARK_HEAD);
    gw_text_addf(text, "\nGPU     PID USER         IN USE      NEEDS  IDLE         COMMAND\n");
    for (size_t i = 0; i < count; i++) {
        char need[GW_BYTES_TEXT_MAX];
        add_process(text, s, list[i], need_of(s, list[i], need), NULL);
        gw_text_add_str(text, "\n");
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
        mark(text, GW_MARK_ALARM);
    gw_text_add_str(text, use->is_alarm ? "  ALARM " : "  ");
    if (use->card == GW_WATCH_NONE)
        gw_text_addf(text, "device %u: ", use->device);
    else
        gw_text_addf(text, "GPU %" PRIu32 ": ", s->card[use->card].index);
    if (use->need_why != NULL)
        gw_text_addf(text, "need unknown: %s", use->need_why);
    else
        gw_text_addf(text, "needs %s", bytes_or(need, use->need_bytes, "unknown"));
    if (use->need_why == NULL && use->is.grows) {
        gw_text_addf(text, ", +%s/min", gw_bytes_text(growth, use->is.bytes_per_minute));
        if (use->full_s != GW_WATCH_UNKNOWN) {
            gw_text_add_str(text, ", full in ");
            add_time(text, use->full_s);
        }
    }
    gw_text_addf(text, "; %s live\n", bytes_or(live, use->is.live_bytes, "?"));
}

static void add_failure(gw_text *text, const gw_watch_run *run)
{
    char number[24];
    if (run->is.failure_count == 0)
        return;
    snprintf(number, sizeof number, "error %" PRIu32, run->is.failed_result);
    mark(text, GW_MARK_WARN);
    gw_text_add_str(text, "  last failed call: ");
    gw_add_printable(text, run->is.failed_call[0] == '\0' ? "?" : run->is.failed_call);
    gw_text_addf(text, " %s, ", run->failed_as == NULL ? number : run->failed_as);
    add_time(text, run->failed_s);
    gw_text_addf(text, " ago (%" PRIu64 " so far)\n", run->is.failure_count);
}

static void add_run(gw_text *text, const gw_watch_snapshot *s, const gw_watch_run *run)
{
    enum { STALE_S = 10 };
    gw_text time = {0};
    add_time(&time, run->seconds);
    add_column(text, run->id, 23);
    gw_text_add_str(text, " ");
    add_column(text, run->user, 8);
    gw_text_add_str(text, " ");
    add_column(text, gw_text_str(&time), 11);
    gw_text_add_str(text, " ");
    add_command(text, run->is.command);
    gw_text_add_str(text, "\n");
    gw_text_free(&time);
    for (size_t i = 0; i < run->use_count; i++)
        add_use(text, s, &run->use[i]);
    if (run->use_count == 0)
        gw_text_add_str(text, run->is.process_count == 0 ? "  no driver call yet\n" : "  no memory in use\n");
    add_failure(text, run);
    if (run->stale_s >= STALE_S) {
        mark(text, GW_MARK_WARN);
        gw_text_add_str(text, "  not updated for ");
        add_time(text, run->stale_s);
        gw_text_add_str(text, ": its supervisor is stopped or very busy\n");
    }
}

static void draw_runs(gw_text *text, const gw_watch_snapshot *s, const gw_watch_view *view)
{
    mark(text, GW_MARK_HEAD);
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
    mark(text, GW_MARK_DIM);
    if (s->hidden_runs > 0)
        gw_text_addf(text, "%zu more of other users (%s), which only they and root can see\n", s->hidden_runs,
                     s->hidden_users);
    else if (!s->sees_all)
        gw_text_add_str(text, "Only your own runs: those of other users are visible to root.\n");
    else
        mark(text, GW_MARK_PLAIN);
    if (s->broken_runs > 0) {
        mark(text, GW_MARK_WARN);
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
        gw_text_clear(&line);
        add_process(&line, s, list[i], NULL, list[i]->started_by);
        if (view->width == 0)
            gw_text_addf(text, "%s\n", gw_text_str(&line));
        else
            add_line(text, gw_text_str(&line), line.bytes, view->width);
    }
    gw_text_free(&line);
    free(list);
    return count;
}

/* ---- the title ---- */

/* True if the card, or a run on it, has an alarm. */
static bool has_alarm(const gw_watch_snapshot *s, size_t card)
{
    bool found = s->card[card].is_alarm;
    for (size_t i = 0; i < s->run_count && !found; i++)
        for (size_t k = 0; k < s->run[i].use_count; k++)
            found = found || (s->run[i].use[k].is_alarm && s->run[i].use[k].card == (int)card);
    return found;
}

/* The lines with the details may be scrolled away, so the title names the cards. */
static void add_alarms(gw_text *text, const gw_watch_snapshot *s)
{
    bool any = false;
    for (size_t i = 0; i < s->card_count; i++) {
        if (!has_alarm(s, i))
            continue;
        if (!any)
            mark(text, GW_MARK_ALARM);
        gw_text_addf(text, "%s%" PRIu32, any ? ", " : "  ALARM: GPU ", s->card[i].index);
        any = true;
    }
    mark(text, GW_MARK_PLAIN);
}

static void add_title(gw_text *text, const gw_watch_snapshot *s, const gw_watch_view *view)
{
    time_t now = (time_t)(s->t_realtime_ns / 1000000000u);
    struct tm parts;
    char clock[32] = "", alarm[GW_BYTES_TEXT_MAX];
    if (localtime_r(&now, &parts) != NULL)
        strftime(clock, sizeof clock, "%H:%M:%S", &parts);
    mark(text, GW_MARK_TITLE);
    gw_text_add_str(text, "gpuwhy watch");
    mark(text, GW_MARK_PLAIN);
    gw_text_add_str(text, "  ");
    gw_add_printable(text, s->host);
    gw_text_addf(text, "  %s", clock);
    add_alarms(text, s);
    if (s->alarm_ratio > 0)
        gw_text_addf(text, "  alarm at %.0f %%", s->alarm_ratio * 100);
    else if (s->alarm_bytes > 0)
        gw_text_addf(text, "  alarm at %s", gw_bytes_text(alarm, s->alarm_bytes));
    if (view->height > 0)
        gw_text_addf(text, "  every %u s   ? help  q quit", view->interval_s);
    gw_text_add_str(text, "\n");
    if (view->is_typing || view->filter[0] != '\0') {
        mark(text, GW_MARK_WARN);
        gw_text_add_str(text, "filter: ");
        gw_add_printable(text, view->filter);
        gw_text_add_str(text, view->is_typing ? "_   (Enter: keep, Esc: remove)\n" : "   (Esc: remove)\n");
    }
}

/* ---- help ---- */

static void add_help(gw_text *text)
{
    mark(text, GW_MARK_HEAD);
    gw_text_add_str(text, "Keys\n  order of the processes:");
    mark(text, GW_MARK_PLAIN);
#define GW_X(name, key, words) gw_text_addf(text, "  %c %s", key, words);
    GW_WATCH_ORDERS(GW_X)
#undef GW_X
    gw_text_add_str(text, "\n"
                          "  /  show only what contains a text (user, command, pid, run)   Esc  all\n"
                          "  Up Down PgUp PgDn Home   scroll     Space  refresh now\n"
                          "  ?  this help                        q  quit\n\n");
    mark(text, GW_MARK_HEAD);
    gw_text_add_str(text, "Words\n");
    mark(text, GW_MARK_PLAIN);
    gw_text_add_str(text, "  in use   what NVML reports for the card or the process\n"
                          "  needs    what a recorded run cannot give back: live memory without PyTorch's\n"
                          "           cache, and the driver's share (context, loaded code). Alarms look at\n"
                          "           this. Unknown for programs that gpuwhy does not record\n"
                          "  bar      # needed by recorded runs, = other memory in use, . free\n"
                          "  /min     growth of what is needed, if it is steady; \"full in\" continues it\n"
                          "  idle     since when a process has not used the card; \"> 5 min\": at least\n"
                          "  ECC      corrected memory errors since the driver was loaded\n"
                          "  Xid      fault events of the card since watch was started\n"
                          "  ?        the card does not report this value\n");
}

/* ---- the screen ---- */

/* Make the lines fit. */
static void fit_lines(gw_text *lines, unsigned width)
{
    gw_text fitting = {0};
    for (const char *at = gw_text_str(lines); *at != '\0';) {
        size_t bytes = strcspn(at, "\n");
        add_line(&fitting, at, bytes, width);
        at += bytes + (at[bytes] == '\n');
    }
    gw_text_free(lines);
    *lines = fitting;
}

/* Copy the lines [from, from + count) of `lines` to the screen. Returns the number of all lines. */
static unsigned copy_lines(gw_text *text, const gw_text *lines, unsigned from, unsigned count)
{
    unsigned number = 0;
    for (const char *at = gw_text_str(lines); *at != '\0'; number++) {
        size_t bytes = strcspn(at, "\n") + 1;
        if (number >= from && number - from < count)
            gw_text_add(text, at, bytes);
        at += bytes;
    }
    return number;
}

void gw_watch_draw(const gw_watch_snapshot *s, const gw_watch_view *view, gw_text *text, unsigned *ret_top_max)
{
    gw_text title = {0}, body = {0}, rest = {0};
    unsigned width = view->width < WIDTH_MIN ? WIDTH_MIN : view->width;
    add_title(&title, s, view);
    if (view->help) {
        add_help(&body);
    } else {
        draw_cards(&body, s, width);
        draw_runs(&body, s, view);
        draw_processes(&body, s, view);
    }
    fit_lines(&title, width);
    fit_lines(&body, width);
    unsigned head = copy_lines(&rest, &title, 0, view->height == 0 ? UINT32_MAX : view->height);
    unsigned all = copy_lines(&rest, &body, 0, 0);
    unsigned room = view->height == 0 ? all : view->height > head ? view->height - head : 0;
    unsigned top_max = all > room ? all - room : 0, top = view->top < top_max ? view->top : top_max;
    gw_text_add(text, gw_text_str(&rest), rest.bytes);
    bool has_more = top < top_max && room > 1;
    copy_lines(text, &body, top, has_more ? room - 1 : room);
    if (has_more) {
        mark(text, GW_MARK_DIM);
        gw_text_addf(text, "-- %u more lines: Down, PgDn --\n", all - top - (room - 1));
    }
    *ret_top_max = top_max;
    gw_text_free(&title);
    gw_text_free(&body);
    gw_text_free(&rest);
}
