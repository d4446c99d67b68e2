/* Splits a text that holds several runs: a terminal's scrollback, a file written with `tee -a`, a supervisor's log. A
 * new run begins
 * - at a command at a prompt that starts a program, or at a mark of a launcher or a script
 * - after a failure, where the first lines of the text occur again
 * - after a failure, where the program's counter begins again, or another process writes much later
 * The signs of a failure are needed for all but the first: ranks print the same lines, and folds count again. */
#include "gwi_logs.h"

#include "gw_text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the finds of a file show so far. */
typedef struct walk {
    const gw_log_find *failure; /* the last line of a failure that may have ended a run */
    const gw_log_find *counted; /* the last line with counters */
    const gw_log_find *stamped; /* the last line with a time */
    uint64_t begin;             /* the first line of the last run; 0: of the first run */
    uint64_t begins_after;      /* the find with this order, and later ones, are of the last run */
    uint64_t lines_min;         /* fewer lines with finds are no run */
} walk;

static bool is_failure(const gw_log_find *find)
{
    int64_t exit;
    bool is_good = gw_log_number(find, "exit", &exit) && exit == 0;
    return find->sign == GW_SAYS_EXCEPTION || (gw_sign_kind_of(find->sign) == GW_SIGN_END && !is_good);
}

static bool reads_on(const gw_log_find *find)
{
    return find->sign == GW_SAYS_PROGRESS || find->sign == GW_SAYS_SERVER_READY;
}

/* Read the time of day in seconds: "12:34:56". Returns false if the first 40 characters have none. */
static bool time_of(const char *text, uint64_t *ret_s)
{
    enum { HEAD_BYTES = 40, BASE = 60 };
    for (size_t i = 0; text[i] != '\0' && i < HEAD_BYTES; i++) {
        unsigned part[3];
        bool starts = isdigit((unsigned char)text[i]) && (i == 0 || !isdigit((unsigned char)text[i - 1]));
        if (!starts || sscanf(text + i, "%2u:%2u:%2u", &part[0], &part[1], &part[2]) != 3)
            continue;
        *ret_s = ((uint64_t)part[0] * BASE + part[1]) * BASE + part[2];
        return true;
    }
    return false;
}

/* True if the second line was written 2 minutes to 12 hours after the first. */
static bool is_much_later(const gw_log_find *first, const gw_log_find *second)
{
    enum { GAP_S = 120, DAY_S = 86400 };
    uint64_t a, b;
    if (first == NULL || !time_of(first->text, &a) || !time_of(second->text, &b))
        return false;
    uint64_t gap_s = (b + DAY_S - a) % DAY_S; /* lines of several ranks may go back by some seconds */
    return gap_s >= GAP_S && gap_s < DAY_S / 2;
}

/* True if a later line of the file has the same counters with a larger value. */
static bool goes_on(const gw_log *log, size_t from)
{
    gwi_counters now = gwi_counters_read(log->find[from].text);
    for (size_t i = from + 1; i < log->find_count; i++) {
        if (log->find[i].file != log->find[from].file || log->find[i].sign != GW_SAYS_PROGRESS)
            continue;
        gwi_counters later = gwi_counters_read(log->find[i].text);
        for (size_t k = 0; later.shape == now.shape && k < now.count; k++) {
            if (later.value[k] > now.value[k])
                return true;
        }
    }
    return false;
}

/* True if a counter of this line begins again at 0 or 1. A bar must also go on: tqdm draws the bars of all loops once
 * more after an exception. */
static bool counts_again(const gw_log *log, const gw_log_find *before, size_t index)
{
    static const char *const bars[] = {"%|", "it/s", "s/it"};
    const gw_log_find *find = &log->find[index];
    gwi_counters old = {0}, now = gwi_counters_read(find->text);
    if (before != NULL)
        old = gwi_counters_read(before->text);
    return before != NULL && now.count > 0 && old.count > 0 && now.value[0] <= 1 && now.value[0] < old.value[0] &&
           (!GW_HAS_ONE_OF(find->text, bars) || goes_on(log, index));
}

static uint64_t line_again(const gw_log_file *file, uint64_t from, uint64_t to)
{
    for (size_t i = 0; i < GW_LOG_AGAIN_MAX; i++) {
        if (file->again[i] > from && file->again[i] <= to)
            return file->again[i];
    }
    return 0;
}

static void begin_at(walk *w, uint64_t line, uint64_t order, uint64_t lines_min)
{
    *w = (walk){.begin = line, .begins_after = order, .lines_min = lines_min};
}

static void step(walk *w, const gw_log *log, size_t index)
{
    const gw_log_find *find = &log->find[index];
    const gw_log_file *file = &log->file[find->file];
    uint64_t again = w->failure != NULL ? line_again(file, w->failure->line, find->line) : 0;
    if (find->sign == GW_SAYS_RUN_BEGINS) {
        begin_at(w, find->line, find->order, 1);
    } else if (again != 0) {
        begin_at(w, again, find->order - (find->line - again), 1);
    } else if (w->failure != NULL && reads_on(find) && find->order > w->failure->order &&
               (counts_again(log, w->counted, index) || is_much_later(w->stamped, find))) {
        begin_at(w, w->failure->line + 1, w->failure->order + 1,
                 2); /* a single one may be a bar that is drawn once more */
    }
    if (is_failure(find))
        w->failure = find;
    uint64_t seconds;
    if (time_of(find->text, &seconds))
        w->stamped = find;
    if (find->sign == GW_SAYS_PROGRESS && gwi_counters_read(find->text).count > 0)
        w->counted = find;
}

/* Return what is known of the last run of a file. If a later line only shows that the text's first lines are repeated,
 * no find follows it. */
static walk walk_file(const gw_log *log, uint32_t file)
{
    walk w = {0};
    for (size_t i = 0; i < log->find_count; i++) {
        if (log->find[i].file == file)
            step(&w, log, i);
    }
    return w;
}

/* True if the last run has more lines than its command: after another failed command, the first run is the question. */
static bool has_output(const gw_log *log, uint32_t file, const walk *w)
{
    uint64_t lines = 0, line = 0;
    for (size_t i = 0; i < log->find_count; i++) {
        const gw_log_find *find = &log->find[i];
        if (find->file != file || find->order < w->begins_after || find->line == line || find->sign == GW_SAYS_PROMPT ||
            find->sign == GW_SAYS_RUN_BEGINS)
            continue;
        line = find->line;
        lines++;
    }
    return lines >= w->lines_min;
}

static bool room_for(const gw_log *log, gw_log *part)
{
    *part = (gw_log){.file_count = log->file_count};
    part->file = calloc(log->file_count + 1, sizeof *part->file);
    part->find = calloc(log->find_count + 1, sizeof *part->find);
    if (part->file != NULL)
        memcpy(part->file, log->file, log->file_count * sizeof *log->file);
    return part->file != NULL && part->find != NULL;
}

bool gw_log_split(const gw_log *log, gw_log *ret_before, gw_log *ret_last)
{
    uint64_t *after = calloc(log->file_count + 1, sizeof *after);
    bool is_split = false;
    bool good = room_for(log, ret_before) && room_for(log, ret_last) && after != NULL;
    for (size_t i = 0; good && i < log->file_count; i++) {
        walk w = walk_file(log, (uint32_t)i);
        if (w.begin <= 1 || w.begin <= log->file[i].line_first || !has_output(log, (uint32_t)i, &w))
            continue;
        after[i] = w.begins_after;
        ret_last->file[i].line_first = w.begin;
        ret_before->file[i].line_count = w.begin - 1;
        is_split = true;
    }
    for (size_t i = 0; good && i < log->find_count; i++) {
        const gw_log_find *find = &log->find[i];
        gw_log *part = find->order < after[find->file] ? ret_before : ret_last;
        part->find[part->find_count++] = *find;
        part->count[find->sign]++;
    }
    free(after);
    if (good && is_split && ret_before->find_count > 0)
        return true;
    gw_log_split_free(ret_before);
    gw_log_split_free(ret_last);
    return false;
}

void gw_log_split_free(gw_log *part)
{
    free(part->file);
    free(part->find);
    *part = (gw_log){0};
}
