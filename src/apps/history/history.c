/* `gpuwhy history`: lists the last runs, and shows what the failed runs of one command have in common. */
#include "gw_compare.h"
#include "gw_json.h"
#include "gw_say.h"
#include "gw_text.h"
#include "gwi_cmd.h"
#include "gwi_manual.h"
#include "gwi_options.h"
#include "gwi_past_runs.h"
#include "gwi_runs.h"
#include "gwi_terminal.h"

#include "gw_clock.h"
#include "gw_config.h"
#include "gw_keep.h"
#include "gw_place.h"
#include "gw_render.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The attempts of one command: all its runs in the list of past runs. */
typedef struct gwi_attempts_view {
    bool is_there;          /* false: the user named no command, or the command has only one attempt */
    const gwi_past *newest; /* borrowed from the list */
    size_t good, failed;    /* number of good and of failed attempts */
    size_t unknown;         /* number of the others: it is not known whether they failed */
    size_t gone, slow;  /* gone: attempts whose recording is missing or unreadable; slow: attempts whose recording could
                           not be read in time */
    gw_splits splits;   /* owned */
    gwi_peaks peaks;    /* of the newest run and those before it */
    bool may_be_chance; /* the differences in `splits` may be chance: too few attempts, or splits.chance is high */
} gwi_attempts_view;

typedef struct gwi_history_view {
    const gwi_past **run; /* owned array, oldest first; the runs are borrowed from the list */
    size_t run_count;
    gwi_attempts_view attempts;
} gwi_history_view;

/* Write the list of past runs as JSON, with json-c. */

static void add_count(json_object *object, const char *name, size_t count)
{
    json_object_object_add(object, name, json_object_new_int64((int64_t)count));
}

static json_object *of_peaks(const gwi_peaks *peaks)
{
    if (peaks->count == 0)
        return NULL;
    json_object *object = json_object_new_object();
    add_count(object, "earlier", peaks->count);
    json_object_object_add(object, "earlier_good", json_object_new_boolean(peaks->all_good));
    json_object_object_add(object, "least_bytes", json_object_new_uint64(peaks->least_bytes));
    json_object_object_add(object, "most_bytes", json_object_new_uint64(peaks->most_bytes));
    json_object_object_add(object, "newest_bytes", gw_json_number(peaks->is_known, peaks->bytes));
    json_object_object_add(object, "newest_failed",
                           peaks->is_end_known ? json_object_new_boolean(peaks->failed) : NULL);
    return object;
}

/* json_<type>() returns the value of a column. NULL is null. */

static json_object *json_time(uint64_t ns)
{
    return json_object_new_double((double)ns / 1e9);
}

static json_object *json_key(uint64_t key)
{
    char text[GWI_KEY_TEXT_MAX];
    return json_object_new_string(gwi_past_key_text(text, key));
}

static json_object *json_kind(gwi_column_kind kind)
{
    return json_object_new_string(gwi_past_kind_text(kind));
}

static json_object *json_status(gw_verdict_status status)
{
    return json_object_new_string(gw_verdict_status_text(status));
}

static json_object *json_certainty(gw_certainty certainty)
{
    return certainty == GW_CERTAINTY_NONE ? NULL : json_object_new_string(gw_certainty_text(certainty));
}

static json_object *json_flag(bool value)
{
    return json_object_new_boolean(value);
}

static json_object *json_number(gwi_column_number number)
{
    return gw_json_number(number.is_known, number.value);
}

static json_object *json_seconds(double seconds)
{
    return seconds < 0 ? NULL : json_object_new_double(seconds);
}

static json_object *json_words(const char *text)
{
    return gw_json_text(text);
}

static json_object *json_text(const char *text)
{
    return gw_json_text(text);
}

static json_object *json_attempts(gwi_column_attempts attempts)
{
    json_object *array = json_object_new_array();
    for (size_t i = 0; i < attempts.count; i++) {
        json_object *one = json_object_new_object();
        json_object_object_add(one, "cause", gw_json_text(attempts.item[i].cause));
        json_object_object_add(one, "end", gw_json_text(attempts.item[i].end));
        json_object_object_add(one, "recording", gw_json_text(attempts.item[i].recording));
        json_object_array_add(array, one);
    }
    return array;
}

static json_object *of_run(const gwi_past *past)
{
    json_object *object = json_object_new_object();
#define GWI_COLUMN(type, field, column, json, meaning) json_object_object_add(object, json, json_##type(past->field));
#include "past_columns.def"
    char handle[24];
    snprintf(handle, sizeof handle, "@%zu", past->number);
    json_object_object_add(object, "handle", json_object_new_string(handle));
    json_object_object_add(object, "fit", past->kind == GWI_PAST_FIT ? gw_json_text(past->end) : NULL);
    return object;
}

static json_object *of_split(const gw_split *split)
{
    json_object *object = json_object_new_object();
    json_object_object_add(object, "area", json_object_new_string(gw_area_text(split->area)));
    json_object_object_add(object, "name", gw_json_text(split->name));
    json_object_object_add(object, "failed", gw_json_text(split->bad));
    json_object_object_add(object, "good", gw_json_text(split->good));
    return object;
}

static json_object *of_attempts(const gwi_attempts_view *attempts)
{
    if (!attempts->is_there)
        return NULL;
    json_object *object = json_object_new_object(), *compared = json_object_new_object(),
                *splits = json_object_new_array();
    for (size_t i = 0; i < attempts->splits.count; i++)
        json_object_array_add(splits, of_split(&attempts->splits.item[i]));
    add_count(compared, "good", attempts->splits.good_count);
    add_count(compared, "failed", attempts->splits.bad_count);
    json_object_object_add(object, "command", gw_json_text(attempts->newest->command));
    json_object_object_add(object, "folder", gw_json_text(attempts->newest->folder));
    add_count(object, "good", attempts->good);
    add_count(object, "failed", attempts->failed);
    add_count(object, "unknown", attempts->unknown);
    json_object_object_add(object, "compared", compared);
    add_count(object, "gone", attempts->gone);
    add_count(object, "too_slow", attempts->slow);
    json_object_object_add(object, "in_common", splits);
    json_object_object_add(object, "peaks", of_peaks(&attempts->peaks));
    json_object_object_add(object, "may_be_chance", json_object_new_boolean(attempts->may_be_chance));
    return object;
}

static gw_status history_write_json(const gwi_history_view *view, gw_error *err)
{
    json_object *whole = json_object_new_object(), *runs = json_object_new_array();
    for (size_t i = 0; i < view->run_count; i++)
        json_object_array_add(runs, of_run(view->run[i]));
    json_object_object_add(whole, "schema", json_object_new_int(1));
    json_object_object_add(whole, "kind", json_object_new_string("history"));
    json_object_object_add(whole, "runs", runs);
    json_object_object_add(whole, "attempts", of_attempts(&view->attempts));
    return gw_json_print(whole, err);
}

#define GWI_HISTORY_OPTIONS(X)                                                                                         \
    X(FLAG, bool, all, "--all", NULL, NULL, "list all known runs, not only the last 20")                               \
    X(STRING, const char *, where, "--where", "SQL", NULL,                                                             \
      "list the runs for which this is true, such as \"peak > 8e9 and cause like 'gpu-oom%'\"")                        \
    X(FLAG, bool, json, "--json", NULL, NULL, "print JSON (docs/json-schema.md)")                                      \
    X(FLAG, bool, prune, "--prune", NULL, NULL, "remove old recordings now, by the limits in docs/config.md")          \
    X(NUMBER, uint64_t, keep_recordings, "--keep-recordings", "N", NULL, "with --prune: how many recordings to keep")  \
    X(BYTES, uint64_t, keep_bytes, "--keep-bytes", "SIZE", NULL, "with --prune: how much disk space they may take")    \
    X(NUMBER, uint64_t, keep_days, "--keep-days", "N", NULL, "with --prune: how many days to keep them")

GWI_OPTIONS(history_options, GWI_HISTORY_OPTIONS);

enum { SHOWN = 20, COMPARED_MAX = 20, FEW = 2, WAIT_MS = 5000 };
static const uint64_t compare_time_ns = 5000000000u, one_time_ns = 2000000000u;
/* If `chance` (see gw_splits) is higher than this, the output says that the differences may be chance. */
static const double chance_max = 0.1;

/* The limits are in the configuration, which the options --keep-... set. */
static gw_status prune(gw_error *err)
{
    gw_keep_limits limits;
    gw_keep_result result = {0};
    char removed[GW_BYTES_TEXT_MAX], kept[GW_BYTES_TEXT_MAX];
    gw_status st = gw_keep_limits_read(&limits, err);
    if (st == GW_OK)
        st = gw_keep_apply(&limits, &result, err);
    if (st == GW_OK)
        printf("removed %" PRIu64 " recording%s (%s), kept %" PRIu64 " (%s)\n", result.removed,
               result.removed == 1 ? "" : "s", gw_bytes_text(removed, result.removed_bytes), result.kept,
               gw_bytes_text(kept, result.kept_bytes));
    return st;
}

static void add_columns(gw_text *text)
{
    enum { INDENT = 14, COLUMNS = 80 };
    for (size_t i = 0; i < GWI_COLUMN_COUNT; i++) {
        gw_text_addf(text, "  %-10s  ", gwi_past_columns[i].name);
        gw_add_wrapped(text, gwi_past_columns[i].meaning, INDENT, INDENT, COLUMNS);
    }
}

const gwi_manual gwi_manual_history = {
    .usage = "gpuwhy history [--all] [--where SQL] [--json] [words of the command]\n"
             "gpuwhy history --prune [--keep-recordings N] [--keep-bytes SIZE] ..\n",
    .about = "Lists the last runs with their verdicts. `gpuwhy explain @3` explains the third newest one, and so do "
             "report, diff, export and whatif. With words, lists the runs whose command line contains "
             "them, and prints what the failed runs of the newest of these commands have in common and the good "
             "ones do not.",
    .group = {{.options = options_table, .count = OPTION_COUNT}},
    .add_more = add_columns,
    .more_title = "columns that SQL can use",
    .exits = {{GW_EXIT_OK, "also if there are no runs"},
              {GW_EXIT_USAGE, "usage error, the runs cannot be read, or the expression is not valid"}},
    .environment = {{GWI_MANUAL_STATE_HOME}},
    .files = {{GWI_MANUAL_RUNS},
              {"$XDG_CONFIG_HOME/gpuwhy/config",
               "how long recordings are kept, in JSON; by default ~/.config/gpuwhy/config"}},
    .examples = {{"gpuwhy diff @3 @1", "what is different between the third newest run and the newest one?"},
                 {"gpuwhy history train.py", "the runs of a command, and what its failed runs have in common"},
                 {"gpuwhy history --where \"peak > 8e9 and cause like 'gpu-oom%'\"",
                  "the runs that needed more than 8 GB and ran out of memory"}},
    .see_also = "run explain diff"};

/* Print a line and clear it, with `what`, which begins after `from` bytes, in the colour of `role`. Control characters
 * are replaced, because a recorded command or path may contain them. */
static void print_painted(gw_text *line, size_t from, const char *what, gw_role role)
{
    gw_text clean = {0};
    gw_add_printable(&clean, gw_text_str(line));
    if (gwi_has_colour(STDOUT_FILENO))
        gw_paint_begin(&clean, from, what, strlen(what), role);
    puts(gw_text_str(&clean));
    gw_text_free(&clean);
    gw_text_clear(line);
}

static void print(gw_text *line)
{
    print_painted(line, 0, "", GW_ROLE_PLAIN);
}

/* ---- the table ---- */

enum { HANDLE, AGE, KIND, VERDICT, TOOK, PEAK, COMMAND, CELLS };

/* A row of the table: the text of each column. */
typedef struct row {
    gw_text cell[CELLS]; /* owned */
} row;

static const char *kind_of(const gwi_past *past)
{
    if (past->kind != GWI_PAST_RUN)
        return gwi_past_kind_text(past->kind);
    return strstr(past->card, "(virtual)") != NULL ? "virtual" : "";
}

/* Return the cause or, without one, how the run ended. */
static const char *verdict_of(const gwi_past *past)
{
    bool is_end_known = past->exit.is_known || past->signal.is_known;
    if (past->status == GW_VERDICT_FAULT)
        return past->cause;
    if (past->kind == GWI_PAST_FIT || !is_end_known)
        return past->end;
    if (!past->observed && past->exit.is_known && past->exit.value == 0)
        return "no driver call observed";
    return past->status == GW_VERDICT_CLEAN ? "clean" : past->end;
}

static gw_role role_of(const gwi_past *past)
{
    if (past->is_going)
        return GW_ROLE_STRONG;
    if (past->status == GW_VERDICT_CLEAN)
        return past->observed ? GW_ROLE_GOOD : GW_ROLE_WARNING;
    return past->status == GW_VERDICT_FAULT ? GW_ROLE_FAILED : GW_ROLE_WARNING;
}

static void fill_row(const gwi_past *past, row *cells)
{
    char age[GWI_AGE_TEXT_MAX], peak[GW_BYTES_TEXT_MAX];
    uint64_t now_ns = gw_realtime_ns(), start_ns = past->start_realtime_ns;
    size_t folder = strcspn(past->command, " "); /* the folder of the program tells little */
    while (folder > 0 && past->command[folder - 1] != '/')
        folder--;
    const char *texts[] = {[KIND] = kind_of(past), [VERDICT] = verdict_of(past), [COMMAND] = past->command + folder};
    texts[AGE] = gwi_age_text(age, now_ns > start_ns ? now_ns - start_ns : 0);
    texts[PEAK] = past->peak.is_known && past->peak.value > 0 ? gw_bytes_text(peak, past->peak.value) : "";
    for (int i = 0; i < CELLS; i++)
        gw_text_clear(&cells->cell[i]);
    for (int i = AGE; i < CELLS; i++)
        if (i != TOOK)
            gw_add_printable(&cells->cell[i], texts[i]);
    gw_text_addf(&cells->cell[HANDLE], "@%zu", past->number);
    if (past->seconds >= 1000)
        gw_text_addf(&cells->cell[TOOK], "%.0f min", past->seconds / 60);
    else if (past->seconds >= 0)
        gw_text_addf(&cells->cell[TOOK], "%.1f s", past->seconds);
}

static const char *const titles[CELLS] = {"run", "age", "", "verdict", "took", "peak", "command"};

/* The widths of the columns; 0: not shown. */
typedef struct widths {
    unsigned of[CELLS];
    unsigned columns; /* of a line */
} widths;

/* Measure the columns. If they leave little room for the command, it is shown without duration and peak. */
static void measure(const gwi_history_view *view, row *cells, widths *ret_widths)
{
    enum { STANDARD = 80, COMMAND_MIN = 24, NARROWEST = 40 };
    unsigned used = 0, width = gwi_terminal_width(STDOUT_FILENO);
    *ret_widths = (widths){.columns = width < NARROWEST ? STANDARD : width};
    for (size_t i = 0; i < view->run_count; i++) {
        fill_row(view->run[i], cells);
        for (int k = 0; k < COMMAND; k++) {
            unsigned columns = gw_columns(gw_text_str(&cells->cell[k]), cells->cell[k].bytes);
            ret_widths->of[k] = columns > ret_widths->of[k] ? columns : ret_widths->of[k];
        }
    }
    for (int k = 0; k < COMMAND; k++) {
        unsigned title = ret_widths->of[k] == 0 ? 0 : (unsigned)strlen(titles[k]);
        ret_widths->of[k] = title > ret_widths->of[k] ? title : ret_widths->of[k];
        used += ret_widths->of[k] > 0 ? ret_widths->of[k] + 2 : 0;
    }
    for (int k = TOOK; k <= PEAK && used + COMMAND_MIN > ret_widths->columns; k++) {
        used -= ret_widths->of[k] > 0 ? ret_widths->of[k] + 2 : 0;
        ret_widths->of[k] = 0;
    }
    ret_widths->of[COMMAND] = used + COMMAND_MIN > ret_widths->columns ? COMMAND_MIN : ret_widths->columns - used;
}

static void print_row(const widths *all, const char *const text[CELLS], gw_role role)
{
    gw_text line = {0};
    size_t from = 0;
    for (int k = 0; k < CELLS; k++) {
        unsigned columns = gw_columns(text[k], strlen(text[k]));
        if (k == VERDICT)
            from = line.bytes;
        if (k == COMMAND)
            gw_add_short(&line, text[k], all->of[k]);
        else if (all->of[k] > 0)
            gw_text_addf(&line, "%s%*s", text[k], (int)(all->of[k] - (columns < all->of[k] ? columns : all->of[k])) + 2,
                         "");
    }
    print_painted(&line, from, text[VERDICT], role);
    gw_text_free(&line);
}

static void print_attempts(const gwi_past *past)
{
    gw_text line = {0};
    for (size_t i = 0; i < past->attempts.count; i++) {
        const gwi_past_attempt *attempt = &past->attempts.item[i];
        gw_text_addf(&line, "    attempt %zu of %zu: %s, %s", i + 1, past->attempts.count + 1,
                     attempt->cause[0] == '\0' ? "not determined" : attempt->cause, attempt->end);
        print_painted(&line, 0, gw_text_str(&line), GW_ROLE_DIM);
    }
    gw_text_free(&line);
}

static void show_runs(const gwi_history_view *view)
{
    row cells = {0};
    widths all;
    measure(view, &cells, &all);
    if (view->run_count > 0)
        print_row(&all, titles, GW_ROLE_PLAIN);
    for (size_t i = 0; i < view->run_count; i++) {
        const char *text[CELLS];
        fill_row(view->run[i], &cells);
        for (int k = 0; k < CELLS; k++)
            text[k] = gw_text_str(&cells.cell[k]);
        print_row(&all, text, role_of(view->run[i]));
        print_attempts(view->run[i]);
    }
    for (int k = 0; k < CELLS; k++)
        gw_text_free(&cells.cell[k]);
}

/* ---- several attempts ---- */

/* Read the portrait of a run. Returns GW_MISSING if its recording was not kept, GW_END at the time limit, or a
 * status of gw_portrait_read(). */
static gw_status read_portrait(const gwi_past *past, uint64_t until_ns, gw_portrait **ret_portrait)
{
    uint64_t now_ns = gw_processor_ns(), one_ns = now_ns + one_time_ns;
    if (past->recording[0] == '\0')
        return GW_MISSING;
    if (now_ns >= until_ns)
        return GW_END;
    return gw_portrait_read(past->recording, one_ns < until_ns ? one_ns : until_ns, ret_portrait, NULL);
}

/* Count the attempts in `list`, which are of one command, in `seen`. Add the newest COMPARED_MAX of the good and failed
 * ones to `attempts`, except those that cannot be read in time. */
static gw_status read_attempts(const gwi_past_list *list, gw_attempts *attempts, gwi_attempts_view *seen, gw_error *err)
{
    uint64_t until_ns = gw_processor_ns() + compare_time_ns;
    size_t read_count = 0;
    for (size_t i = list->count; i-- > 0;) {
        const gwi_past *past = &list->item[i];
        gw_portrait *portrait = NULL;
        bool failed = gwi_past_failed(past);
        seen->good += past->good;
        seen->failed += failed;
        seen->unknown += !past->good && !failed;
        if (read_count == COMPARED_MAX || (!past->good && !failed))
            continue;
        gw_status st = read_portrait(past, until_ns, &portrait);
        seen->slow += st == GW_END;
        seen->gone += st != GW_OK && st != GW_END;
        read_count += st == GW_OK;
        bool added = st != GW_OK || gw_attempts_add(attempts, portrait, past->good);
        gw_portrait_free(portrait);
        if (!added)
            return gw_fail(err, GW_NOMEM, "compare attempts");
    }
    return GW_OK;
}

static void show_splits(const gw_splits *splits)
{
    gw_text line = {0};
    for (size_t i = 0; i < splits->count; i++) {
        const gw_split *split = &splits->item[i];
        gw_text_addf(&line, "  %-13s%s: %s", gw_area_text(split->area), split->name, split->bad);
        if (split->good != NULL)
            gw_text_addf(&line, "; good runs: %s", split->good);
        else
            gw_text_add_str(&line, "; unknown for the good runs");
        print(&line);
    }
    gw_text_free(&line);
}

static const char *why_left_out(const gwi_attempts_view *seen)
{
    if (seen->slow > 0)
        return "gone, or too large to read in time";
    return seen->gone > 0 ? "gone or older" : "older";
}

static const char *why_not_compared(const gwi_attempts_view *seen)
{
    if (seen->failed > 0)
        return "no run is known to have ended well, so the failed runs cannot be compared with a good one";
    return seen->unknown > 0 ? "no run is known to have failed, so there is nothing to explain"
                             : "no run failed, so there is nothing to explain";
}

static void show_attempts(const gwi_attempts_view *seen)
{
    gw_text line = {0};
    const gw_splits *splits = &seen->splits;
    putchar('\n');
    gw_text_addf(&line, "%.100s in %s: %zu of %zu runs failed", seen->newest->command, seen->newest->folder,
                 seen->failed, seen->good + seen->failed + seen->unknown);
    if (seen->unknown > 0)
        gw_text_addf(&line, "; whether %zu other%s failed is unknown", seen->unknown, seen->unknown == 1 ? "" : "s");
    print(&line);
    if (splits->good_count + splits->bad_count < seen->good + seen->failed)
        printf("compared: %zu good and %zu failed runs; the recordings of the others are %s\n", splits->good_count,
               splits->bad_count, why_left_out(seen));
    if (seen->good == 0 || seen->failed == 0) {
        puts(why_not_compared(seen));
    } else if (splits->good_count == 0 || splits->bad_count == 0) {
        puts("the recordings of the good or the failed runs have been removed, so they cannot be compared");
    } else if (splits->count == 0) {
        puts("the recordings show nothing that all failed runs share and no good run has");
    } else {
        puts("in every failed run and in no good one:");
        show_splits(splits);
    }
    if (seen->may_be_chance)
        printf("with so few runs (%zu good, %zu failed) this may be chance\n", splits->good_count, splits->bad_count);
    if (gwi_peaks_text(&seen->peaks, "the newest", &line))
        print(&line);
    gw_text_free(&line);
}

/* Compare all runs of the newest command, even those that --where and the words leave out. */
static gw_status compare_attempts(const gwi_past *newest, gwi_attempts_view *ret_view, gw_error *err)
{
    gwi_past_query query = {.has_key = true, .key = newest->key, .wait_ms = WAIT_MS};
    gwi_past_list list;
    gwi_attempts_view view = {.newest = newest};
    gw_status st = gwi_past_read(&query, &list, err);
    if (st != GW_OK)
        return st;
    gw_attempts *attempts = gw_attempts_new();
    if (attempts == NULL)
        st = gw_fail(err, GW_NOMEM, "compare attempts");
    if (st == GW_OK)
        st = read_attempts(&list, attempts, &view, err);
    if (st == GW_OK)
        st = gw_attempts_split(attempts, &view.splits, err);
    const gw_splits *splits = &view.splits;
    view.is_there = view.good + view.failed + view.unknown > 1;
    view.may_be_chance =
        splits->count > 0 && (splits->good_count < FEW || splits->bad_count < FEW || splits->chance > chance_max);
    gwi_peaks_find(&list, newest, &view.peaks);
    gw_attempts_free(attempts);
    gwi_past_free(&list);
    if (st == GW_OK)
        *ret_view = view;
    else
        gw_splits_free(&view.splits);
    return st;
}

/* ---- the list ---- */

/* Show all runs of the list. If the user chose some of them, compare the runs of the newest one's command. */
static gw_status look(const gwi_past_list *list, bool is_chosen, gwi_history_view *ret_view, gw_error *err)
{
    ret_view->run = calloc(list->count + 1, sizeof(const gwi_past *));
    if (ret_view->run == NULL)
        return gw_fail(err, GW_NOMEM, "list runs");
    for (size_t i = 0; i < list->count; i++)
        ret_view->run[ret_view->run_count++] = &list->item[i];
    if (list->count == 0 || !is_chosen)
        return GW_OK;
    return compare_attempts(&list->item[list->count - 1], &ret_view->attempts, err);
}

static const char *none_text(const gwi_past_query *query)
{
    if (query->where != NULL)
        return "--where is true for no run";
    return query->words != NULL ? "no runs of this command" : "no runs recorded yet; `gpuwhy run` adds them here";
}

static void show(const gwi_history_view *view, const gwi_past_query *query)
{
    show_runs(view);
    if (view->run_count == 0)
        puts(none_text(query));
    if (view->attempts.is_there)
        show_attempts(&view->attempts);
}

static gw_status check(const history_options *options, bool has_words, gw_error *err)
{
    if (options->prune && (options->json || options->all || options->where != NULL || has_words))
        return gw_fail(err, GW_USAGE, "--prune takes only --keep-recordings, --keep-bytes and --keep-days");
    for (gw_config_id id = GW_CONFIG_KEEP_RECORDINGS; id <= GW_CONFIG_KEEP_DAYS; id++)
        if (!options->prune && gw_config_process()->value[id].source == GW_CONFIG_OPTION)
            return gw_fail(err, GW_USAGE, "%s only goes with --prune", gw_config_keys[id].option);
    return GW_OK;
}

/* Read the runs that the user chose, and print them. */
static gw_status list_runs(const history_options *options, const char *words, gw_error *err)
{
    gwi_past_list list = {0};
    gwi_history_view view = {0};
    gwi_past_query query = {.where = options->where,
                            .words = words[0] == '\0' ? NULL : words,
                            .newest_max = options->all ? 0 : SHOWN,
                            .is_numbered = true,
                            .wait_ms = WAIT_MS};
    gw_status st = gwi_runs_read(&query, &list, err);
    if (st == GW_OK)
        st = look(&list, query.words != NULL || query.where != NULL, &view, err);
    if (st == GW_OK && options->json)
        st = history_write_json(&view, err);
    else if (st == GW_OK)
        show(&view, &query);
    gw_splits_free(&view.attempts.splits);
    free(view.run);
    gwi_past_free(&list);
    return st;
}

int gwi_cmd_history(int argc, char **argv)
{
    history_options options = {0};
    gw_error err = {0};
    gw_text words = {0};
    int first = 0;
    gw_status st = gwi_options_parse(options_table, OPTION_COUNT, &options, argc, argv, &first, &err);
    gwi_pager_begin();
    if (st == GW_OK && options.help)
        return gwi_manual_print(&gwi_manual_history);
    if (st == GW_OK)
        st = check(&options, first < argc, &err);
    for (int i = first; st == GW_OK && i < argc; i++)
        gw_text_addf(&words, "%s%s", i == first ? "" : " ", argv[i]);
    if (st == GW_OK)
        st = options.prune ? prune(&err) : list_runs(&options, gw_text_str(&words), &err);
    gw_text_free(&words);
    return st == GW_OK ? GW_EXIT_OK : gwi_refuse("history", &err);
}
