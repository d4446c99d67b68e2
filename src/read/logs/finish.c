/* Decides whether a text shows that its program reached its end. Work that went well until the text stops proves
 * nothing: the program may have been killed, or the terminal closed. These lines show an end:
 * - the work is complete: n of n, in the epochs and in the last epoch
 * - words such as "training done", or exit status 0
 * - a result or a saved file after the work, in words that the program did not use before. Programs that print them
 *   after each epoch print them without having ended.
 * - a shell's prompt, unless it is the first line or somebody pressed ^C */
#include "gwi_logs.h"

#include "gw_text.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { LINES_LEFT = 40 }; /* programs may print a summary after the last step */

typedef enum state { STATE_UNKNOWN, STATE_LEFT, STATE_COMPLETE } state;

/* Return the time left that a line names: "eta: 9:40:52", or "<03:19" in a bar of tqdm. 1: some; 0: none; -1: the line
 * names no time. */
static int time_left(const char *text)
{
    const char *at = strcasestr(text, "eta");
    bool is_word = at != NULL && (at == text || !isalpha((unsigned char)at[-1])) && !isalpha((unsigned char)at[3]);
    if (is_word) {
        at += 3;
        at += strspn(at, " :=");
    } else {
        at = strchr(text, '<');
        at = at != NULL && at > text && isdigit((unsigned char)at[-1]) ? at + 1 : NULL;
    }
    if (at == NULL || !(isdigit((unsigned char)*at) || *at == '?'))
        return -1;
    return at[strspn(at, "0:.")] == '?' || isdigit((unsigned char)at[strspn(at, "0:.")]);
}

/* True if a line of the same shape reports 0 for this counter. The last of 90 epochs is then 89. */
static bool begins_at_0(const gw_log *log, const gw_log_find *of, const gwi_counters *shape, size_t counter)
{
    for (size_t i = 0; i < log->find_count && log->find[i].order <= of->order; i++) {
        if (log->find[i].sign != GW_SAYS_PROGRESS || log->find[i].file != of->file)
            continue;
        gwi_counters c = gwi_counters_read(log->find[i].text);
        if (c.shape == shape->shape && c.value[counter] == 0)
            return true;
    }
    return false;
}

/* Return how much of the work was done at this line. The last counter with a total may stop before it, if no time is
 * left: programs print every tenth step. */
static state state_at(const gw_log *log, const gw_log_find *find, const gwi_counters *c)
{
    size_t last = c->count;
    int left = time_left(find->text);
    for (size_t i = 0; i < c->count; i++)
        last = c->total[i] != 0 ? i : last;
    for (size_t i = 0; i < c->count; i++) {
        bool whole = c->total[i] == 0 || c->value[i] >= c->total[i] ||
                     (c->value[i] + 1 == c->total[i] && begins_at_0(log, find, c, i)) ||
                     (i == last && (left == 0 || strstr(find->text, "100%") != NULL));
        if (!whole)
            return STATE_LEFT;
    }
    if (left == 1)
        return STATE_LEFT;
    for (size_t i = 0; i < c->count; i++) {
        if (c->is_epoch[i] && c->total[i] == 0)
            return STATE_UNKNOWN; /* one epoch is complete, and nothing says how many there are */
    }
    return left == 0 || last < c->count ? STATE_COMPLETE : STATE_UNKNOWN;
}

/* True if the line reports work: it counts epochs or steps, draws a bar, or its counters differ from those of an
 * earlier line of the same shape. */
static bool is_work(const gw_log *log, const gw_log_find *find, const gwi_counters *c)
{
    static const char *const bars[] = {"it/s", "s/it", "━", "█", "[=", "=]", "%|"};
    static const char *const saves[] = {"saving", "Saving", "saved", "Saved", "Restoring", "Loading", "loading"};
    if (GW_HAS_ONE_OF(find->text, saves))
        return false;
    if (c->has_name || GW_HAS_ONE_OF(find->text, bars))
        return true;
    for (size_t i = 0; i < log->find_count && log->find[i].order < find->order; i++) {
        if (log->find[i].sign != GW_SAYS_PROGRESS || log->find[i].file != find->file)
            continue;
        gwi_counters before = gwi_counters_read(log->find[i].text);
        if (before.shape == c->shape && memcmp(before.value, c->value, sizeof c->value) != 0)
            return true;
    }
    return false;
}

static bool has_epochs(const gwi_counters *c)
{
    for (size_t i = 0; i < c->count; i++) {
        if (c->is_epoch[i] && c->total[i] != 0)
            return true;
    }
    return false;
}

typedef struct work {
    const gw_log_find *last, *outer; /* the last line about work; the last one with all epochs, or the time left */
    state last_state, outer_state;
} work;

static work find_work(const gw_log *log, uint32_t file)
{
    work found = {0};
    for (size_t i = 0; i < log->find_count; i++) {
        const gw_log_find *find = &log->find[i];
        if (find->sign != GW_SAYS_PROGRESS || find->file != file)
            continue;
        gwi_counters c = gwi_counters_read(find->text);
        if (c.count == 0 || !is_work(log, find, &c))
            continue;
        found.last = find;
        found.last_state = state_at(log, find, &c);
        if (has_epochs(&c) || (strcasestr(find->text, "eta:") != NULL && time_left(find->text) >= 0)) {
            found.outer = find;
            found.outer_state = found.last_state;
        }
    }
    if (found.last != NULL && found.last->line + LINES_LEFT < log->file[file].line_count)
        found = (work){0};
    return found;
}

/* True if both texts are the same apart from their numbers. */
static bool is_same_form(const char *a, const char *b)
{
    static const char numbers[] = "0123456789.,:+-";
    for (;;) {
        a += strspn(a, numbers);
        b += strspn(b, numbers);
        if (tolower((unsigned char)*a) != tolower((unsigned char)*b))
            return false;
        if (*a == '\0')
            return true;
        a++;
        b++;
    }
}

static bool is_repeated(const gw_log *log, const gw_log_find *words)
{
    for (size_t i = 0; i < log->find_count; i++) {
        const gw_log_find *find = &log->find[i];
        if (find->sign == words->sign && find->file == words->file && find->order != words->order &&
            find->rank == words->rank && is_same_form(find->text, words->text))
            return true;
    }
    return false;
}

static bool is_exit_0(const gw_log_find *find)
{
    int64_t exit;
    return gw_sign_kind_of(find->sign) == GW_SIGN_END && gw_log_number(find, "exit", &exit) && exit == 0;
}

/* Return the last line of the file's end with this sign in or after the last line about work, unless the program
 * printed it more than once. A text of one or two lines is a quotation. */
static const gw_log_find *words_after(const gw_log *log, uint32_t file, gw_sign sign, const gw_log_find *after)
{
    enum { LINES_MIN = 3 };
    const gw_log_find *found = NULL;
    for (size_t i = 0; i < log->find_count; i++) {
        const gw_log_find *find = &log->find[i];
        bool is_one = find->sign == sign && find->file == file && log->file[file].line_count >= LINES_MIN &&
                      find->line + LINES_LEFT >= log->file[file].line_count;
        if (is_one && (after == NULL || find->order >= after->order) && !is_repeated(log, find))
            found = find;
    }
    return found;
}

static const gw_log_find *exit_after(const gw_log *log, uint32_t file, const gw_log_find *after)
{
    for (size_t i = log->find_count; i-- > 0;) {
        const gw_log_find *find = &log->find[i];
        if (find->file == file && is_exit_0(find) && (after == NULL || find->order > after->order))
            return find;
    }
    return words_after(log, file, GW_SAYS_RUN_ENDED, after);
}

/* Return the prompt that shows that the last program ended: not the one at which it was started, and not after ^C. */
static const gw_log_find *prompt_after(const gw_log *log, uint32_t file, const gw_log_find *after)
{
    const gw_log_find *found = words_after(log, file, GW_SAYS_PROMPT, after);
    uint64_t first = log->file[file].line_first > 0 ? log->file[file].line_first : 1;
    return found != NULL && found->line > first && log->count[GW_SAYS_STOPPED_BY_KEY] == 0 ? found : NULL;
}

/* Return the last line that shows a server at work, unless it was stopped later. */
static const gw_log_find *find_serving(const gw_log *log, uint32_t file)
{
    const gw_log_find *found = NULL;
    for (size_t i = 0; i < log->find_count; i++) {
        const gw_log_find *find = &log->find[i];
        if (find->file != file)
            continue;
        if (find->sign == GW_SAYS_SERVED || find->sign == GW_SAYS_SERVER_READY)
            found = find;
        else if (find->sign == GW_SAYS_ORDERLY_STOP)
            found = NULL;
    }
    return found;
}

static gw_log_ending end_of_file(const gw_log *log, uint32_t file)
{
    enum { LAST_LAP = 9, OF = 10 }; /* in the last tenth of the steps, a result may follow */
    gw_log_ending ending = {.serving = find_serving(log, file)};
    work w = find_work(log, file);
    const gw_log_find *after = w.last;
    ending.end = exit_after(log, file, after);
    if (ending.end != NULL)
        return (gw_log_ending){.end = ending.end, .is_sure = true};
    if (w.outer != NULL && w.outer_state == STATE_LEFT)
        ending.open = w.outer == w.last || w.last_state != STATE_LEFT ? w.outer : w.last;
    if (w.last_state == STATE_LEFT && ending.open == NULL) {
        gwi_counters c = gwi_counters_read(w.last->text);
        uint64_t value = c.count > 0 ? c.value[c.count - 1] : 0, total = c.count > 0 ? c.total[c.count - 1] : 0;
        if (value * OF < total * LAST_LAP || words_after(log, file, GW_SAYS_GOOD_END, after) == NULL)
            ending.open = w.last;
    }
    if (ending.open != NULL || ending.serving != NULL)
        return ending;
    ending.end = words_after(log, file, GW_SAYS_GOOD_END, after);
    if (ending.end == NULL && w.last_state == STATE_COMPLETE)
        ending.end = w.last;
    if (ending.end == NULL && w.outer_state == STATE_COMPLETE)
        ending.end = w.outer;
    if (ending.end == NULL)
        ending.end = prompt_after(log, file, after);
    return ending;
}

gw_log_ending gw_log_find_ending(const gw_log *log)
{
    gw_log_ending found = {0};
    for (size_t i = 0; i < log->file_count; i++) {
        gw_log_ending one = end_of_file(log, (uint32_t)i);
        if (found.end == NULL || (one.is_sure && !found.is_sure)) {
            found.end = one.end;
            found.is_sure = one.is_sure;
        }
        found.open = found.open == NULL ? one.open : found.open;
        found.serving = found.serving == NULL ? one.serving : found.serving;
    }
    if (found.is_sure || (found.open == NULL && found.end != NULL))
        found.open = found.serving = NULL;
    else if (found.open != NULL || found.serving != NULL)
        found.end = NULL;
    return found;
}
