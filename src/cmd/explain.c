/* `gpuwhy explain`: the verdict for a recording, finished, still being written, or left behind by a supervisor that
 * died. */
#include "gwi_cmd.h"
#include "gwi_run.h"

#include "gw_out.h"
#include "gw_torch.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GWI_EXPLAIN_OPTIONS(X)                                                                                         \
    X(FLAG, bool, json, "--json", NULL, NULL, "print JSON (docs/json-schema.md)")                                      \
    X(STRING, const char *, cell, "--cell", "NAME", NULL,                                                              \
      "judge that phase alone, as if the program had ended with it; its traceback is read from standard input")        \
    X(FLAG, bool, help, "--help", NULL, NULL, "this")

typedef struct explain_options {
    GWI_EXPLAIN_OPTIONS(GWI_OPTION_FIELD)
} explain_options;

#define OPTIONS_STRUCT explain_options
static const gwi_option options_table[] = {GWI_EXPLAIN_OPTIONS(GWI_OPTION_ROW)};
enum { OPTION_COUNT = sizeof options_table / sizeof options_table[0] };

/* What run.meta says. False: there is none. */
typedef struct run_meta {
    gwi_path recording; /* "": none */
    pid_t supervisor;
} run_meta;

static bool read_meta(const char *folder, run_meta *ret_meta)
{
    gwi_path path;
    gw_reader *reader = NULL;
    const gw_item *item;
    *ret_meta = (run_meta){0};
    if (gwi_path_format(path, NULL, "%s/run.meta", folder) != GW_OK || gw_reader_open(path, &reader, NULL) != GW_OK)
        return false;
    while (gw_reader_next(reader, &item, NULL) == GW_OK) {
        if (item->kind != GW_ITEM_META)
            continue;
        if (strcmp(item->pair.key, "run.recording") == 0)
            snprintf(ret_meta->recording, sizeof ret_meta->recording, "%s", item->pair.value);
        if (strcmp(item->pair.key, "run.supervisor_pid") == 0)
            ret_meta->supervisor = (pid_t)strtol(item->pair.value, NULL, 10);
    }
    gw_reader_close(reader);
    return true;
}

static bool is_alive(pid_t pid)
{
    return pid > 0 && (kill(pid, 0) == 0 || errno != ESRCH);
}

typedef struct folder_search {
    gwi_path recording; /* absolute */
    gwi_path folder;    /* the run folder that belongs to it; "" until found */
    bool running;       /* its supervisor is alive */
} folder_search;

/* Whether the run folder's run.meta names this recording. */
static void compare(void *user, const char *folder)
{
    folder_search *search = user;
    static run_meta meta;
    if (!read_meta(folder, &meta) || strcmp(meta.recording, search->recording) != 0)
        return;
    snprintf(search->folder, sizeof search->folder, "%s", folder);
    search->running = is_alive(meta.supervisor);
}

/* What to read for `file`: itself, or the run folder that still holds more of it. */
static const char *where_to_read(const char *file, folder_search *search)
{
    *search = (folder_search){0};
    static run_meta meta;
    if (gw_torch_is_snapshot(file))
        return file;
    if (realpath(file, search->recording) == NULL)
        return file;              /* the reader says why */
    if (read_meta(file, &meta)) { /* a run folder itself */
        search->running = is_alive(meta.supervisor);
        if (meta.recording[0] != '\0')
            snprintf(search->recording, sizeof search->recording, "%s", meta.recording);
        return file;
    }
    gwi_run_folders_visit(compare, search);
    return search->folder[0] == '\0' ? file : search->folder;
}

static int fail(const gw_error *err)
{
    fprintf(stderr, "gpuwhy: explain: %s\n", err->text);
    return GWI_EXIT_USAGE;
}

static int show(const gw_verdict *verdict, bool running, const explain_options *options)
{
    gw_error err;
    int status = verdict->status == GW_VERDICT_UNDETERMINED ? GWI_EXIT_UNDETERMINED : GWI_EXIT_OK;
    if (!options->json)
        gwi_verdict_print(verdict, running, STDOUT_FILENO);
    else if (gwi_verdict_write_json(verdict, "-", &err) != GW_OK)
        status = fail(&err);
    return status;
}

/* All of standard input, but no more than a traceback can be. */
static void read_traceback(gw_text *text)
{
    enum { TRACEBACK_BYTES_MAX = 256 << 10 };
    char part[4096];
    ssize_t bytes;
    while (text->bytes < TRACEBACK_BYTES_MAX && (bytes = read(STDIN_FILENO, part, sizeof part)) > 0)
        gw_text_add(text, part, (size_t)bytes);
}

static gw_status judge_as_asked(const char *path, const explain_options *options, gw_verdict **ret_verdict,
                                gw_error *err)
{
    if (options->cell == NULL)
        return gwi_judge(path, ret_verdict, err);
    gw_text traceback = {0};
    read_traceback(&traceback);
    gw_status st = gwi_judge_phase(path, options->cell, &traceback, ret_verdict, err);
    gw_text_free(&traceback);
    return st;
}

/* The verdict names its recording; NULL: it was said why there is none. *ret_running: the program is alive. */
static gw_verdict *judge(const char *file, const explain_options *options, bool *ret_running)
{
    gw_error err;
    gw_verdict *verdict = NULL;
    static folder_search search;
    if (judge_as_asked(where_to_read(file, &search), options, &verdict, &err) != GW_OK) {
        fail(&err);
        return NULL;
    }
    free(verdict->recording);
    verdict->recording =
        verdict->snapshot != NULL ? NULL : strdup(search.recording[0] == '\0' ? file : search.recording);
    *ret_running = search.running;
    return verdict;
}

static int explain(const char *file, const explain_options *options)
{
    bool running = false;
    gw_verdict *verdict = judge(file, options, &running);
    if (verdict == NULL)
        return GWI_EXIT_USAGE;
    if (!options->json) { /* the user has just named it */
        free(verdict->recording);
        verdict->recording = NULL;
    }
    int status = show(verdict, running, options);
    gw_verdict_free(verdict);
    return status;
}

/* Recordings of one job; of several jobs: one after the other. */
static int explain_together(char **files, int count, const explain_options *options)
{
    gw_error err;
    int status = GWI_EXIT_OK;
    bool running = false;
    gw_verdict *whole = NULL, **runs = calloc((size_t)count, sizeof(gw_verdict *));
    if (runs == NULL) {
        gw_status ignored = gw_fail(&err, GW_NOMEM, "judge %d recordings", count);
        (void)ignored;
        return fail(&err);
    }
    for (int i = 0; i < count; i++) {
        bool alive = false;
        runs[i] = judge(files[i], options, &alive);
        running = running || alive;
        if (runs[i] == NULL)
            status = GWI_EXIT_USAGE;
    }
    if (status != GWI_EXIT_OK)
        goto out;
    gw_status st = gw_judge_together((const gw_verdict *const *)runs, (size_t)count, &whole, &err);
    if (st == GW_UNSUPPORTED && !options->json) {
        fprintf(stderr, "gpuwhy: explain: judged one by one: %s\n", err.text);
        for (int i = 0; i < count; i++) {
            int one = show(runs[i], false, options);
            status = one > status ? one : status;
        }
    } else {
        status = st == GW_OK ? show(whole, running, options) : fail(&err);
    }
out:
    gw_verdict_free(whole);
    for (int i = 0; i < count; i++)
        gw_verdict_free(runs[i]);
    free(runs);
    return status;
}

static int help(void)
{
    gw_text text = {0};
    gw_text_add_str(&text,
                    "gpuwhy explain [options] [recording | run folder | PyTorch memory snapshot]...\n\n"
                    "The verdict for a recording, also one that is still being written. Without a name: for the "
                    "last one.\nSeveral recordings of one job, of several hosts or ranks, are judged together: who was "
                    "first.\nEnds with 0 when there is a verdict, 1 when the cause was not determined, 2 when "
                    "the input cannot be read.\n\n");
    gwi_options_help(options_table, OPTION_COUNT, &text);
    fputs(gw_text_str(&text), stdout);
    gw_text_free(&text);
    return GWI_EXIT_OK;
}

int gwi_cmd_explain(int argc, char **argv)
{
    explain_options options = {0};
    gw_error err = {0};
    int words = 0;
    if (gwi_options_parse_mixed(options_table, OPTION_COUNT, &options, argc, argv, &words, &err) != GW_OK)
        return fail(&err);
    if (options.help)
        return help();
    if (options.cell != NULL && words > 1) {
        gw_status st = gw_fail(&err, GW_USAGE, "--cell: one recording at a time");
        (void)st;
        return fail(&err);
    }
    if (options.json && !gw_out_has_json()) {
        gw_status st =
            gw_fail(&err, GW_USAGE, "--json: this build lacks JSON (json-c was not there when it was built)");
        (void)st;
        return fail(&err);
    }
    if (words > 1)
        return explain_together(argv + 1, words, &options);
    if (words == 1)
        return explain(argv[1], &options);
    static gwi_path last;
    if (gwi_last_recording(last, &err) != GW_OK)
        return fail(&err);
    return explain(last, &options);
}
