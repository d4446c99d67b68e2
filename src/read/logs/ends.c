/* Decides from a log whether the program went on after a problem, whether it ended well, and which exception ended it.
 * A log ends well if a line near its end shows success and no failure follows. A log that just stops does not. This
 * file finds the first failure that neither further work nor a good end follows. */
#include "gwi_logs.h"

#include <string.h>

/* ---- work ---- */

static bool has_risen(const gwi_counters *before, const gwi_counters *now)
{
    for (size_t i = 0; i < now->count && i < before->count; i++) {
        if (now->value[i] != before->value[i])
            return now->value[i] > before->value[i];
    }
    return false;
}

/* True if the program printed a line with the same counters before the problem as well. */
static bool is_a_habit(const gw_log *log, const gw_log_find *problem, const gwi_counters *shape)
{
    for (size_t i = 0; i < log->find_count && problem != NULL && log->find[i].order < problem->order; i++) {
        if (log->find[i].sign != GW_SAYS_PROGRESS)
            continue;
        gwi_counters c = gwi_counters_read(log->find[i].text);
        if (c.count > 0 && c.shape == shape->shape)
            return true;
    }
    return false;
}

static bool is_same_rank(const gw_log_find *a, const gw_log_find *b)
{
    return a->rank < 0 || b->rank < 0 || a->rank == b->rank;
}

/* Return the last line of this file that reports progress after `after` (NULL: anywhere). Its counters must be higher
 * than in the previous line of the same shape.
 *
 * The first pair of counters that differs decides, so the step number may restart in each epoch. Totals are part of the
 * shape, because a dying program may print several progress bars again. */
static const gw_log_find *last_progress(const gw_log *log, uint32_t file, const gw_log_find *after)
{
    enum { SHAPES_MAX = 16 };
    gwi_counters seen[SHAPES_MAX];
    const gw_log_find *found = NULL;
    size_t shapes = 0;
    for (size_t i = 0; i < log->find_count; i++) {
        const gw_log_find *find = &log->find[i];
        if (find->sign != GW_SAYS_PROGRESS || find->file != file ||
            (after != NULL && (find->order <= after->order || !is_same_rank(find, after))))
            continue;
        gwi_counters now = gwi_counters_read(find->text);
        size_t at = 0;
        while (at < shapes && seen[at].shape != now.shape)
            at++;
        if (now.count == 0 || at == SHAPES_MAX)
            continue;
        bool counts = now.has_measure || is_a_habit(log, after, &now);
        if (at < shapes && has_risen(&seen[at], &now) && (counts || after == NULL))
            found = find;
        shapes += at == shapes;
        seen[at] = now;
    }
    return found;
}

/* True if the line belongs to a traceback or contains an exception. */
static bool is_exception(const gw_log *log, const gw_log_find *find)
{
    bool found = gw_sign_kind_of(find->sign) == GW_SIGN_TRACE;
    for (size_t i = 0; i < log->find_count && !found; i++)
        found = log->find[i].sign == GW_SAYS_EXCEPTION && log->find[i].order == find->order;
    return found;
}

/* True if a server answered at least 3 requests after the problem, or became ready after an exception. */
static bool served_on(const gw_log *log, const gw_log_find *after)
{
    enum { ANSWERS_MIN = 3 };
    size_t answers = 0;
    for (size_t i = 0; i < log->find_count; i++) {
        const gw_log_find *find = &log->find[i];
        bool is_later = find->file == after->file && find->order > after->order;
        answers += is_later && find->sign == GW_SAYS_SERVED;
        if (is_later && find->sign == GW_SAYS_SERVER_READY && is_exception(log, after))
            return true; /* the server runs without the part that raised the exception */
    }
    return answers >= ANSWERS_MIN;
}

/* True if a search of parameters ended another trial after this line. */
static bool searched_on(const gw_log *log, const gw_log_find *after)
{
    for (size_t i = 0; i < log->find_count; i++) {
        const gw_log_find *find = &log->find[i];
        if (find->sign == GW_SAYS_TRIAL_ENDED && find->file == after->file && find->rank == after->rank &&
            find->order > after->order)
            return true;
    }
    return false;
}

/* Lines in other files do not count. If the output and the errors are in separate files, it is unknown which line was
 * printed first. */
bool gw_log_went_on(const gw_log *log, const gw_log_find *after)
{
    return last_progress(log, after->file, after) != NULL || served_on(log, after) || searched_on(log, after);
}

/* ---- the end ---- */

static bool has_exit_0(const gw_log_find *find)
{
    int64_t exit;
    return (gw_log_number(find, "exit", &exit) || gw_log_number(find, "exit2", &exit)) && exit == 0;
}

static bool is_bad_end(const gw_log_find *find)
{
    return find->sign == GW_SAYS_EXCEPTION || (gw_sign_kind_of(find->sign) == GW_SIGN_END && !has_exit_0(find));
}

bool gw_log_output_goes_on(const gw_log *log, const gw_log_find *after)
{
    enum { LINES_ON = 10 }; /* the text and notes that belong to a failure have fewer lines */
    uint64_t last = after->line;
    for (size_t i = 0; i < log->find_count; i++) {
        const gw_log_find *find = &log->find[i];
        gw_sign_kind kind = gw_sign_kind_of(find->sign);
        bool later = find->file != after->file || find->order >= after->order;
        if (later && is_bad_end(find))
            return false;
        if (find->sign == GW_SAYS_PROMPT && find->file == after->file && find->order > after->order)
            return find->line > last + LINES_ON; /* the rest is the output of other commands */
        bool is_bad = kind == GW_SIGN_FAULT || kind == GW_SIGN_STATUS || kind == GW_SIGN_TRACE;
        if (is_bad && find->file == after->file && find->line > last)
            last = find->line;
    }
    return log->file[after->file].line_count >= last + LINES_ON;
}

/* True if the line looks like a failure of any kind. */
static bool is_alarm(const gw_log_find *find)
{
    gw_sign_kind kind = gw_sign_kind_of(find->sign);
    return is_bad_end(find) || kind == GW_SIGN_FAULT || kind == GW_SIGN_STATUS || find->sign == GW_SAYS_TRACEBACK ||
           find->sign == GW_SAYS_ALARM || find->sign == GW_SAYS_ERROR_WORD;
}

/* Return the last line that shows a good end of this file. */
static const gw_log_find *good_line(const gw_log *log, uint32_t file)
{
    enum { LINES_LEFT = 40, LINES_MIN = 3 }; /* LINES_LEFT: programs may print a summary after the last step */
    const gw_log_find *found = last_progress(log, file, NULL);
    if (found != NULL && found->line + LINES_LEFT < log->file[file].line_count)
        found = NULL;
    for (size_t i = 0; i < log->find_count; i++) {
        const gw_log_find *find = &log->find[i];
        bool words = (find->sign == GW_SAYS_GOOD_END || find->sign == GW_SAYS_SERVER_READY) &&
                     log->file[file].line_count >= LINES_MIN;
        bool good = words || (gw_sign_kind_of(find->sign) == GW_SIGN_END && has_exit_0(find));
        if (good && find->file == file && find->line + LINES_LEFT >= log->file[file].line_count &&
            (found == NULL || find->order >= found->order))
            found = find;
    }
    return found;
}

/* True if this line belongs to a report about an ignored exception. The report begins with a line such as "Exception
 * ignored in". It ends with the next exception. */
static bool is_in_ignored_report(const gw_log *log, const gw_log_find *find)
{
    enum { LINES_MAX = 80 };
    const gw_log_find *begin = NULL;
    for (size_t i = 0; i < log->find_count && log->find[i].order <= find->order; i++) {
        const gw_log_find *at = &log->find[i];
        if (at->file != find->file)
            continue;
        if (at->sign == GW_SAYS_EXCEPTION_IGNORED)
            begin = at;
        else if (at->sign == GW_SAYS_EXCEPTION && at->order < find->order)
            begin = NULL; /* the exception ended the report */
    }
    return begin != NULL && find->order - begin->order <= LINES_MAX;
}

static bool has_alarm_behind(const gw_log *log, const gw_log_find *good)
{
    for (size_t i = 0; i < log->find_count; i++) {
        const gw_log_find *find = &log->find[i];
        if (find->file == good->file && find->order >= good->order && is_alarm(find) &&
            !is_in_ignored_report(log, find))
            return true;
    }
    return false;
}

const gw_log_find *gw_log_good_end(const gw_log *log, const gw_log_find *after)
{
    for (size_t i = 0; i < log->file_count; i++) {
        const gw_log_find *found = good_line(log, (uint32_t)i);
        if (found != NULL && !has_alarm_behind(log, found) &&
            (after == NULL || found->file != after->file || found->order > after->order))
            return found;
    }
    return NULL;
}

bool gw_log_was_retried(const gw_log *log, const gw_log_find *find)
{
    enum { LINES_NEAR = 10 };
    for (size_t i = 0; i < log->find_count; i++) {
        const gw_log_find *at = &log->find[i];
        uint64_t distance = at->order > find->order ? at->order - find->order : find->order - at->order;
        if (at->sign == GW_SAYS_RETRIED && at->file == find->file && distance <= LINES_NEAR)
            return gw_log_good_end(log, find) != NULL;
    }
    return false;
}

/* True if a server reported before this line that it was shutting down, and the log has a good end after the line. */
static bool is_in_orderly_stop(const gw_log *log, const gw_log_find *find)
{
    bool is_stopping = false;
    for (size_t i = 0; i < log->find_count && log->find[i].order <= find->order && !is_stopping; i++)
        is_stopping = log->find[i].sign == GW_SAYS_ORDERLY_STOP && log->find[i].file == find->file;
    return is_stopping && gw_log_good_end(log, find) != NULL;
}

bool gw_log_was_ignored(const gw_log *log, const gw_log_find *find)
{
    return is_in_ignored_report(log, find) || is_in_orderly_stop(log, find);
}

/* True if a word such as "done" does not show that the program recovered from this line. The program that started this
 * one may have printed the word. Only further work or exit status 0 is enough. */
static bool needs_work(const gw_log_find *find)
{
    return find->sign == GW_SAYS_TRACEBACK || find->sign == GW_SAYS_ALARM;
}

const gw_log_find *gw_log_unanswered(const gw_log *log)
{
    for (size_t i = 0; i < log->find_count; i++) {
        const gw_log_find *find = &log->find[i];
        if (!is_alarm(find) || gw_log_went_on(log, find) || gw_log_was_retried(log, find) ||
            gw_log_was_ignored(log, find))
            continue;
        const gw_log_find *good = good_line(log, find->file);
        bool answered = good != NULL && good->order > find->order && (!needs_work(find) || has_exit_0(good));
        if (!answered)
            return find;
    }
    return NULL;
}

/* ---- the exception that ended the program ---- */

bool gw_log_is_trace(const gw_log_find *find)
{
    return find->sign == GW_SAYS_TRACEBACK || find->sign == GW_SAYS_FRAME || find->sign == GW_SAYS_NOTEBOOK_FRAME ||
           find->sign == GW_SAYS_NOTEBOOK_FILE;
}

bool gw_log_has_traceback(const gw_log *log, const gw_log_find *exception)
{
    if (gw_begins(exception->text, "E   ")) /* pytest prints the exception of a failed test this way */
        return true;
    for (size_t i = 0; i < log->find_count && log->find[i].order <= exception->order; i++) {
        if (gw_log_is_trace(&log->find[i]) && exception->order - log->find[i].order <= GW_LOG_TRACEBACK_LINES_MAX)
            return true;
    }
    return false;
}

bool gw_log_is_about_child(const gw_log *log, const gw_log_find *exception)
{
    return gw_log_in_line(log, GW_SAYS_CHILD_EXCEPTION, exception->order) != NULL ||
           gw_log_in_line(log, GW_SAYS_WORKER_KILLED, exception->order) != NULL ||
           gw_log_in_line(log, GW_SAYS_PROCESS_GONE, exception->order) != NULL ||
           gw_log_in_line(log, GW_SAYS_TASK_FAILED, exception->order) != NULL;
}

/* True if the exception is one of the last lines of its file. It then needs no traceback, which an excerpt of a log may
 * lack. */
static bool is_last_line(const gw_log *log, const gw_log_find *exception)
{
    enum { LINES_LAST = 3 };
    return exception->line + LINES_LAST > log->file[exception->file].line_count;
}

/* True if gloo raised the exception in a rank whose peer was gone. What ended the peer stands above, if at all. */
static bool is_about_peer(const gw_log *log, const gw_log_find *exception)
{
    return gw_log_in_line(log, GW_SAYS_PEER_GONE, exception->order) != NULL &&
           strstr(exception->text, "gloo/transport/") != NULL;
}

const gw_log_find *gw_log_exception(const gw_log *log, bool *ret_about_child)
{
    const gw_log_find *found = NULL, *about_peer = NULL, *about_child = NULL;
    for (size_t i = log->find_count; i-- > 0 && found == NULL;) {
        const gw_log_find *find = &log->find[i];
        if (find->sign != GW_SAYS_EXCEPTION || !(gw_log_has_traceback(log, find) || is_last_line(log, find)) ||
            gw_log_went_on(log, find) || gw_log_was_retried(log, find) || gw_log_was_ignored(log, find))
            continue;
        const char *type = gw_log_text(find, "type");
        if (type != NULL && strcmp(type, "FatalError") == 0) /* PaddlePaddle reports a signal this way */
            continue;
        if (gw_log_is_about_child(log, find))
            about_child = about_child == NULL ? find : about_child;
        else if (is_about_peer(log, find))
            about_peer = about_peer == NULL ? find : about_peer;
        else
            found = find;
    }
    found = found == NULL ? about_peer : found;
    *ret_about_child = found == NULL && about_child != NULL;
    return found != NULL ? found : about_child;
}
