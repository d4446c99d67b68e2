/* The past runs: what is stored of a run, and where. */
#include "gw_say.h"
#include "gwi_past_db.h"

#include "gw_hash.h"
#include "gw_mask.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A run reads the list once (last_good.c) and adds a row. Both waits together keep the user's shell for less than 2 s,
 * even if another program uses the list all the time. */
enum { COMMAND_BYTES_MAX = 2 << 10, WRITE_WAIT_MS = 900 };

static gw_status find_database(gw_path ret_path, gw_error *err)
{
    gw_path folder;
    gw_status st = gw_state_folder(folder, err);
    return st == GW_OK ? gw_path_format(ret_path, err, "%s/runs.db", folder) : st;
}

/* ---- a run ---- */

uint64_t gwi_past_key(const gw_string_list *argv, const char *folder)
{
    /* Hash the final zero of each word, too. It separates the words: "a b" and "a", "b" get different keys. */
    uint64_t hash = gw_hash_bytes(GW_HASH_START, folder, strlen(folder) + 1);
    for (size_t i = 0; i < argv->count; i++)
        hash = gw_hash_bytes(hash, argv->item[i], strlen(argv->item[i]) + 1);
    return hash;
}

/* Return the value that follows the option: after '=', or in the next word. NULL: `word` is another option. */
static const char *batch_value(const char *word, const char *next)
{
    static const char *const names[] = {"--batch-size", "--batch_size", "--batch", "-b"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t bytes = strlen(names[i]);
        if (strncmp(word, names[i], bytes) == 0 && word[bytes] == '=')
            return word + bytes + 1;
        if (strcmp(word, names[i]) == 0)
            return next;
    }
    return NULL;
}

bool gwi_past_batch(const gw_string_list *argv, uint64_t *ret_batch)
{
    bool is_found = false;
    for (size_t i = 0; i < argv->count; i++) {
        const char *value = batch_value(argv->item[i], i + 1 < argv->count ? argv->item[i + 1] : NULL);
        char *end;
        if (value == NULL || !isdigit((unsigned char)value[0]))
            continue;
        errno = 0;
        unsigned long long batch = strtoull(value, &end, 10);
        if (*end == '\0' && errno == 0 && batch > 0 && batch <= INT64_MAX) {
            *ret_batch = batch;
            is_found = true;
        }
    }
    return is_found;
}

static bool copy_command(const gw_string_list *argv, char **ret_command)
{
    gw_text command = {0};
    for (size_t i = 0; i < argv->count && command.bytes < COMMAND_BYTES_MAX; i++)
        gw_text_addf(&command, "%s%.*s", i == 0 ? "" : " ", (int)COMMAND_BYTES_MAX, argv->item[i]);
    bool is_copied = !command.failed && gw_str_copy(gw_text_str(&command), ret_command);
    gw_text_free(&command);
    return is_copied;
}

static bool copy_end(const gw_verdict *verdict, char **ret_end)
{
    char end[48] = "unknown";
    if (verdict->run.cut != NULL)
        snprintf(end, sizeof end, "%s", verdict->run.cut);
    else if (verdict->exit_known && verdict->signal != 0)
        snprintf(end, sizeof end, "died of signal %d", verdict->signal);
    else if (verdict->exit_known)
        snprintf(end, sizeof end, "exited %d", verdict->exit_code);
    return gw_str_copy(end, ret_end);
}

/* Copy the names of the cards, each name once. */
static bool copy_cards(const gw_verdict *verdict, char **ret_cards)
{
    gw_text cards = {0};
    for (size_t i = 0; i < verdict->gpu_count; i++) {
        size_t first = 0;
        while (strcmp(verdict->gpus[first].name, verdict->gpus[i].name) != 0)
            first++;
        if (first == i)
            gw_text_addf(&cards, "%s%s%s", i == 0 ? "" : ", ", verdict->gpus[i].name,
                         verdict->gpus[i].is_virtual ? " (virtual)" : "");
    }
    bool is_copied = !cards.failed && gw_str_copy(gw_text_str(&cards), ret_cards);
    gw_text_free(&cards);
    return is_copied;
}

static bool copy_attempts(const gw_verdict *verdict, gwi_column_attempts *ret_attempts)
{
    size_t count = verdict->attempt_count > 0 ? verdict->attempt_count - 1 : 0;
    ret_attempts->item = calloc(count + 1, sizeof *ret_attempts->item);
    for (size_t i = 0; ret_attempts->item != NULL && i < count; i++) {
        const gw_verdict_attempt *from = &verdict->attempts[i];
        gwi_past_attempt *to = &ret_attempts->item[ret_attempts->count++];
        if (!gw_str_copy(from->cause == NULL ? "" : from->cause, &to->cause) ||
            !gw_str_copy(from->ended == NULL ? "" : from->ended, &to->end) ||
            !gw_str_copy(from->recording == NULL ? "" : from->recording, &to->recording))
            return false;
    }
    return ret_attempts->item != NULL;
}

/* Copy a command line with secrets masked. If memory runs out, the copy is shorter. */
static void mask_command(char *const *program, gw_string_list *ret_argv)
{
    size_t count = 0;
    while (program[count] != NULL)
        count++;
    *ret_argv = (gw_string_list){.item = calloc(count + 1, sizeof *ret_argv->item)};
    for (size_t i = 0; ret_argv->item != NULL && i < count; i++) {
        gw_text word = {0};
        gw_mask_argument(&word, program, (int)i);
        ret_argv->item[i] = strdup(gw_text_str(&word));
        gw_text_free(&word);
        if (ret_argv->item[i] == NULL)
            return;
        ret_argv->count++;
    }
}

static void free_masked(gw_string_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->item[i]);
    free(list->item);
}

/* ---- storing ---- */

static void store(const gwi_past *past)
{
    gw_path path;
    gw_error err;
    if (find_database(path, NULL) == GW_OK && gwi_past_db_add(path, past, WRITE_WAIT_MS, &err) != GW_OK)
        gw_say("history: this run was not added: %s", err.text);
}

void gwi_past_add_answer(char *const *program, uint64_t start_realtime_ns, double seconds, uint64_t batch, bool good,
                         const char *answer)
{
    gw_path folder;
    gw_string_list masked;
    if (getcwd(folder, sizeof folder) == NULL)
        return;
    mask_command(program, &masked);
    gwi_past past = {.start_realtime_ns = start_realtime_ns,
                     .key = gwi_past_key(&masked, folder),
                     .kind = GWI_PAST_FIT,
                     .status = good ? GW_VERDICT_CLEAN : GW_VERDICT_UNDETERMINED,
                     .good = good,
                     .observed = true,
                     .batch = {batch != 0, batch},
                     .seconds = seconds};
    if (gw_str_copy(answer, &past.end) && gw_str_copy(folder, &past.folder) && copy_command(&masked, &past.command))
        store(&past);
    gwi_past_clear(&past);
    free_masked(&masked);
}

void gwi_past_take_end(gwi_past *past, const gw_verdict *verdict)
{
    bool is_signal = verdict->signal != 0;
    past->exit = (gwi_column_number){verdict->exit_known && !is_signal, (uint64_t)verdict->exit_code};
    past->signal = (gwi_column_number){verdict->exit_known && is_signal, (uint64_t)verdict->signal};
    past->peak = (gwi_column_number){verdict->peak.is_known, verdict->peak.bytes};
}

static bool describe(const gw_verdict *verdict, gwi_past *past)
{
    past->start_realtime_ns = verdict->run.start_realtime_ns;
    past->status = verdict->status;
    past->certainty = verdict->status == GW_VERDICT_FAULT ? verdict->certainty : GW_CERTAINTY_NONE;
    gwi_past_take_end(past, verdict);
    past->good = verdict->status == GW_VERDICT_CLEAN && past->exit.is_known && past->exit.value == 0;
    past->observed = !verdict->is_coverage_known || verdict->observed_count > 0;
    /* of the last attempt, which --on may have changed */
    past->batch.is_known = gwi_past_batch(&verdict->argv, &past->batch.value);
    past->seconds = verdict->seconds;
    return gw_str_copy(verdict->cause, &past->cause) && gw_str_copy(verdict->run.host, &past->host) &&
           copy_end(verdict, &past->end) && copy_cards(verdict, &past->card) && copy_attempts(verdict, &past->attempts);
}

void gwi_past_add(const gw_verdict *verdict, const char *recording, char *const *program, const char *folder)
{
    gw_string_list masked = {0};
    gwi_past past = {0};
    gw_path here;
    if (folder == NULL)
        folder = getcwd(here, sizeof here);
    if (folder == NULL || !verdict->run.has_start)
        return;
    if (program != NULL)
        mask_command(program, &masked);
    const gw_string_list *argv = program != NULL ? &masked : &verdict->argv;
    past.key = gwi_past_key(argv, folder);
    if (verdict->rehearsal != NULL) { /* a real run must not be compared with a rehearsal of its command */
        past.key = gw_hash_bytes(past.key, "rehearsal", 9);
        past.kind = GWI_PAST_REHEARSAL;
    }
    if (describe(verdict, &past) && gw_str_copy(recording, &past.recording) && gw_str_copy(folder, &past.folder) &&
        copy_command(argv, &past.command))
        store(&past);
    gwi_past_clear(&past);
    free_masked(&masked);
}

/* ---- reading ---- */

gw_status gwi_past_read(const gwi_past_query *query, gwi_past_list *ret_list, gw_error *err)
{
    gw_path path;
    gw_error reason;
    *ret_list = (gwi_past_list){0};
    gw_status st = find_database(path, err);
    if (st != GW_OK)
        return st;
    st = gwi_past_db_read(path, query, ret_list, &reason);
    if (st == GW_OK || st == GW_MISSING)
        return GW_OK; /* without a database, there are no runs */
    return gw_fail(err, st, "%s", reason.text);
}
