/* Lists the runs: those in the database, and those that are still going. */
#include "gwi_runs.h"

#include "gw_array.h"
#include "gw_config.h"
#include "gw_recording.h"
#include "gwi_judge.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WAIT_MS = 5000, HANDLE_DIGITS_MAX = 9, ITEMS_MAX = 1000 };

/* Add a run whose supervisor was killed before it could do so. Returns false if the run is still going. */
static bool add_unfinished(const char *recording)
{
    gwi_judged judged;
    const gwi_judge_how how = {.no_history = true, .is_quick = true};
    if (gwi_judge_file(recording, &how, &judged, NULL) != GW_OK)
        return true; /* it cannot be read, and a later look would find the same */
    bool is_over = !judged.running;
    if (is_over)
        gwi_past_add(judged.verdict, recording, NULL, judged.verdict->run.cwd == NULL ? "" : judged.verdict->run.cwd);
    gwi_judged_free(&judged);
    return is_over;
}

static bool take_meta(gwi_past *past, gw_text *command, const char *key, const char *value)
{
    if (strcmp(key, "argv") == 0)
        gw_text_addf(command, "%s%s", command->bytes == 0 ? "" : " ", value);
    else if (strcmp(key, "start_realtime_ns") == 0)
        past->start_realtime_ns = strtoull(value, NULL, 10);
    else if (strcmp(key, "cwd") == 0 && past->folder == NULL)
        return gw_str_copy(value, &past->folder);
    else if (strcmp(key, "host") == 0 && past->host == NULL)
        return gw_str_copy(value, &past->host);
    else if (strcmp(key, "option.gpu") == 0 && past->card == NULL && gw_begins(value, "virtual"))
        return gw_str_copy("(virtual)", &past->card);
    return true;
}

/* Read what the recording says about the run at its beginning. False: out of memory. */
static bool read_beginning(const char *recording, gwi_past *past)
{
    gw_reader *reader = NULL;
    const gw_item *item;
    gw_text command = {0};
    bool good = true;
    if (gw_reader_open(recording, &reader, NULL) != GW_OK)
        return true;
    for (int i = 0; good && i < ITEMS_MAX && gw_reader_next(reader, &item, NULL) == GW_OK; i++)
        if (item->kind == GW_ITEM_META && item->pair.key != NULL && item->pair.value != NULL)
            good = take_meta(past, &command, item->pair.key, item->pair.value);
    gw_reader_close(reader);
    good = good && !command.failed && gw_str_copy(gw_text_str(&command), &past->command);
    gw_text_free(&command);
    return good;
}

/* Add a run that is going to `list`, which is sorted by time. */
static void add_going(gwi_past_list *list, const char *recording)
{
    gwi_past past = {.status = GW_VERDICT_UNDETERMINED, .observed = true, .is_going = true, .seconds = -1};
    bool good = read_beginning(recording, &past) && gw_str_copy(recording, &past.recording) &&
                gw_str_copy("still running", &past.end);
    char **texts[] = {&past.cause, &past.card, &past.folder, &past.command, &past.host};
    for (size_t i = 0; good && i < sizeof texts / sizeof texts[0]; i++)
        good = *texts[i] != NULL || gw_str_copy("", texts[i]);
    if (!good || !gw_array_room(&list->item, list->count, &list->capacity, sizeof *list->item)) {
        gwi_past_clear(&past);
        return;
    }
    size_t at = list->count++;
    for (; at > 0 && list->item[at - 1].start_realtime_ns > past.start_realtime_ns; at--)
        list->item[at] = list->item[at - 1];
    list->item[at] = past;
}

static bool visit(void *user, const char *recording, bool is_going)
{
    if (!is_going) /* false: it is visited again */
        return gw_config_process()->value[GW_CONFIG_ADD_TO_HISTORY].number != 0 && add_unfinished(recording);
    add_going(user, recording);
    return false;
}

gw_status gwi_runs_read(const gwi_past_query *query, gwi_past_list *ret_list, gw_error *err)
{
    gwi_past_list going = {0};
    gw_unfinished_visit(visit, &going);
    gw_status st = gwi_past_read(query, ret_list, err);
    for (size_t i = 0; st == GW_OK && i < ret_list->count; i++)
        ret_list->item[i].number += going.count;
    for (size_t i = 0; st == GW_OK && query->where == NULL && i < going.count; i++) {
        gwi_past *past = &going.item[i];
        past->number = going.count - i;
        if (query->words != NULL && strstr(past->command, query->words) == NULL)
            continue;
        if (!gw_array_room(&ret_list->item, ret_list->count, &ret_list->capacity, sizeof *past)) {
            gwi_past_free(ret_list);
            st = gw_fail(err, GW_NOMEM, "list runs");
            break;
        }
        ret_list->item[ret_list->count++] = *past;
        *past = (gwi_past){0}; /* the list owns the texts */
    }
    gwi_past_free(&going);
    return st;
}

/* ---- handles ---- */

static gw_status check_recording(const char *word, const gwi_past *past, gw_error *err)
{
    if (past->kind == GWI_PAST_FIT)
        return gw_fail(err, GW_MISSING, "%s is an answer of `gpuwhy fit`, which has no recording", word);
    if (past->recording[0] == '\0')
        return gw_fail(err, GW_MISSING, "%s: the recording of this run was not kept", word);
    if (access(past->recording, F_OK) != 0)
        return gw_fail(err, GW_MISSING, "%s: the recording of this run was removed: %s", word, past->recording);
    return GW_OK;
}

/* Find run `number` in the list, which is not empty unless there are no runs at all. */
static gw_status find(const char *word, size_t number, const gwi_past_list *list, char **ret_path, gw_error *err)
{
    if (list->count == 0)
        return gw_fail(err, GW_MISSING, "%s: no runs recorded yet; `gpuwhy run` adds them to the history", word);
    for (size_t i = 0; i < list->count; i++) {
        if (list->item[i].number != number)
            continue;
        gw_status st = check_recording(word, &list->item[i], err);
        if (st == GW_OK && !gw_str_copy(list->item[i].recording, ret_path))
            return gw_fail(err, GW_NOMEM, "%s", word);
        return st;
    }
    return gw_fail(err, GW_MISSING, "%s: there are only %zu runs; `gpuwhy history --all` lists them", word,
                   list->item[0].number);
}

static gw_status resolve(const char *word, char **ret_path, gw_error *err)
{
    size_t digits = strspn(word + 1, "0123456789");
    gwi_past_list list;
    if (digits == 0 || digits > HANDLE_DIGITS_MAX || word[1 + digits] != '\0' || word[1] == '0')
        return gw_fail(err, GW_USAGE, "%s is no run: @1 is the newest one of `gpuwhy history`; a file is ./%s", word,
                       word);
    size_t number = strtoul(word + 1, NULL, 10);
    gwi_past_query query = {.newest_max = number, .wait_ms = WAIT_MS};
    gw_status st = gwi_runs_read(&query, &list, err);
    if (st != GW_OK)
        return st;
    st = find(word, number, &list, ret_path, err);
    gwi_past_free(&list);
    return st;
}

gw_status gwi_handles_resolve(char **words, int count, gw_error *err)
{
    for (int i = 0; i < count; i++) {
        gw_status st = words[i][0] == '@' ? resolve(words[i], &words[i], err) : GW_OK;
        if (st != GW_OK)
            return st;
    }
    return GW_OK;
}
