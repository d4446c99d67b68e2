/* `gpuwhy explain`: prints the verdict on a recording, a text log or a single message. A recording need not be
 * finished: its supervisor may still run or have been killed. */
#include "gw_say.h"
#include "gwi_cmd.h"
#include "gwi_folder.h"
#include "gwi_gate.h"
#include "gwi_job.h"
#include "gwi_judge.h"
#include "gwi_manual.h"
#include "gwi_mixed.h"
#include "gwi_options.h"
#include "gwi_output.h"
#include "gwi_runs.h"
#include "gwi_terminal.h"

#include "gw_logs.h"
#include "gw_mask.h"
#include "gw_place.h"
#include "gw_render.h"
#include "gw_text.h"
#include "gw_torch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#define GWI_EXPLAIN_OPTIONS(X)                                                                                         \
    X(STRING, const char *, message, "-m", "TEXT", NULL,                                                               \
      "explain one message, code or name (700, \"Xid 79\", CUDNN_STATUS_NOT_INITIALIZED, \"exit 137\"): its possible " \
      "causes, and how to tell which one it is")                                                                       \
    X(FLAG, bool, all, "--all", NULL, NULL, "print everything, not just one screen")                                   \
    X(FLAG, bool, json, "--json", NULL, NULL, "print JSON (docs/json-schema.md)")                                      \
    X(STRING, const char *, cell, "--cell", "NAME", NULL,                                                              \
      "explain only this phase, as if the program had ended with it; its traceback is read from standard input")       \
    X(STRING, const char *, bundle, "--bundle", "FILE", NULL,                                                          \
      "also write the whole verdict, the versions and this machine's system into a file for a bug report, with "       \
      "secrets masked (- is standard output, in place of the verdict)")                                                \
    X(STRING, const char *, fail_on, "--fail-on", "any|leak|CAUSE[,..]", NULL,                                         \
      "exit with 123 if the verdict is one of these; any: a fault or a leak, or unknown")                              \
    X(FLAG, bool, quiet, "--quiet", NULL, NULL, "print nothing if no fault was found")                                 \
    X(FLAG, bool, store, "--store", NULL, NULL,                                                                        \
      "with slurm:JOBID: write the verdict into the file gpuwhy.txt beside the recordings, not to standard output")    \
    X(FLAG, bool, no_history, "--no-history", NULL, NULL, "do not compare the run with the last good run")

GWI_OPTIONS(explain_options, GWI_EXPLAIN_OPTIONS,
            const char *again;        /* the user's command with --all added, which the verdict suggests */
            const gwi_output *output; /* where --bundle writes; NULL: not given */
);

static int refuse(const char *reason)
{
    gw_say("explain: %s", reason);
    return GW_EXIT_USAGE;
}

static int fail(const gw_error *err)
{
    return refuse(err->text);
}

/* Write one file for a bug report, in Markdown. What programs wrote may hold secrets, so all of it is masked. */
static gw_status write_bundle(const gw_verdict *verdict, bool running, const gwi_output *output, gw_error *err)
{
    enum { WIDTH = 1000 }; /* a secret that is broken into two lines would not be recognised */
    gw_text page = {0}, text = {0}, masked = {0};
    struct utsname host;
    gw_text_add_str(&page,
                    "Report of gpuwhy " GW_PROGRAM_VERSION "\n\nAttach this file, or paste it as text: text can be "
                    "searched and quoted, a picture of text cannot.\n\n");
    gw_render_text(verdict, &(gw_render_style){.width = WIDTH, .running = running, .all = true}, &text);
    gw_add_fenced(&page, gw_text_str(&text));
    page.failed = page.failed || text.failed;
    if (verdict->recording == NULL) /* the machine of a recording is in the verdict */
        gw_text_add_str(&page,
                        "A text log is judged by its lines alone: add the command, and the output of `nvidia-smi`.\n");
    if (uname(&host) == 0)
        gw_text_addf(&page, "Written on %s %s (%s).\n", host.sysname, host.release, host.machine);
    gw_mask_text(&masked, gw_text_str(&page), page.bytes);
    gw_status st = page.failed || masked.failed ? gw_fail(err, GW_NOMEM, "write a report")
                                                : gwi_output_write(output, &masked, 0, err);
    gw_text_free(&page);
    gw_text_free(&text);
    gw_text_free(&masked);
    return st;
}

/* True if the report takes the place of the verdict on standard output. */
static bool is_bundle_alone(const explain_options *options)
{
    const char *path = options->bundle;
    return path != NULL && (strcmp(path, "-") == 0 || strcmp(path, "/dev/stdout") == 0);
}

/* Print the verdict, and return the exit status without --fail-on. */
static int print(const gw_verdict *verdict, bool running, const explain_options *options)
{
    gw_error err;
    if (options->output != NULL && write_bundle(verdict, running, options->output, &err) != GW_OK)
        return fail(&err);
    int status = verdict->status == GW_VERDICT_UNDETERMINED ? GW_EXIT_UNDETERMINED : GW_EXIT_OK;
    if (is_bundle_alone(options) || (options->quiet && verdict->status == GW_VERDICT_CLEAN))
        return status;
    if (!options->json)
        gwi_verdict_print(verdict, &(gwi_print){.running = running, .all = options->all, .again = options->again},
                          STDOUT_FILENO);
    else if (gwi_verdict_write_json(verdict, NULL, &err) != GW_OK)
        status = fail(&err);
    return status;
}

static int show(const gw_verdict *verdict, bool running, const explain_options *options)
{
    int status = print(verdict, running, options);
    return status != GW_EXIT_USAGE && gwi_gate_fails(options->fail_on, verdict) ? GW_EXIT_FAIL_ON : status;
}

/* Read the traceback from standard input, up to a size that no real traceback reaches. */
static void read_traceback(gw_text *text)
{
    enum { TRACEBACK_BYTES_MAX = 256 << 10 };
    char part[4096];
    ssize_t bytes;
    while (text->bytes < TRACEBACK_BYTES_MAX && (bytes = read(STDIN_FILENO, part, sizeof part)) > 0)
        gw_text_add(text, part, (size_t)bytes);
}

/* Judge a recording and store its path in the verdict. On failure, prints the reason and returns NULL. *ret_running is
 * true if the program is still running. */
static gw_verdict *judge(const char *file, const explain_options *options, bool *ret_running)
{
    gw_error err;
    gwi_judged judged;
    gw_text traceback = {0};
    if (options->cell != NULL)
        read_traceback(&traceback);
    gw_status st = gwi_judge_file(
        file, &(gwi_judge_how){.no_history = options->no_history, .cell = options->cell, .traceback = &traceback},
        &judged, &err);
    gw_text_free(&traceback);
    if (st != GW_OK) {
        fail(&err);
        return NULL;
    }
    gw_verdict *verdict = judged.verdict;
    *ret_running = judged.running;
    judged.verdict = NULL;
    gwi_judged_free(&judged);
    return verdict;
}

static int explain(const char *file, const explain_options *options)
{
    bool running = false;
    gw_verdict *verdict = judge(file, options, &running);
    if (verdict == NULL)
        return GW_EXIT_USAGE;
    if (!options->json) { /* the user has just typed the path, so do not print it again */
        free(verdict->recording);
        verdict->recording = NULL;
    }
    int status = show(verdict, running, options);
    gw_verdict_free(verdict);
    return status;
}

/* Explain recordings that are not of one job one by one. Many of them would be screen after screen. */
static int explain_apart(char **files, const gwi_job *job, const gw_error *why, const explain_options *options)
{
    int status = GW_EXIT_OK;
    if (options->json || options->output != NULL || job->count > GWI_JOB_FEW)
        return fail(why);
    gw_say("explain: the recordings are explained one by one, because %s", why->text);
    for (size_t i = 0; i < job->count; i++) {
        bool running = false;
        gw_verdict *verdict = judge(files[job->file[i]], options, &running);
        int one = verdict == NULL ? GW_EXIT_USAGE : show(verdict, running, options);
        status = one > status ? one : status;
        gw_verdict_free(verdict);
    }
    return status;
}

/* Explain the recordings of one job together, or recordings of several jobs one by one. */
static int explain_together(char **files, int count, const explain_options *options)
{
    gw_error err;
    gwi_job job;
    gw_verdict *whole = NULL;
    int status;
    gw_status st = gwi_job_read(files, count, &job, &err);
    if (st == GW_OK)
        st = gwi_job_judge(&job, files, options->no_history, &whole, &err);
    if (st == GW_UNSUPPORTED && job.count > 0)
        status = explain_apart(files, &job, &err, options);
    else
        status = st == GW_OK ? show(whole, job.running, options) : fail(&err);
    gw_verdict_free(whole);
    gwi_job_free(&job);
    return status;
}

/* ---- evidence of several kinds ---- */

static int explain_mixed(char **files, const gwi_kinds *kinds, const explain_options *options)
{
    gw_error err;
    gw_verdict *verdict = NULL;
    bool running = false;
    int status = gwi_mixed_judge(files, kinds, options->no_history, &verdict, &running, &err) == GW_OK
                     ? show(verdict, running, options)
                     : fail(&err);
    gw_verdict_free(verdict);
    return status;
}

/* ---- text logs ---- */

static int explain_log(const gw_log *log, const explain_options *options)
{
    gw_error err;
    gw_verdict *verdict = NULL;
    int status = gw_judge_log(log, &verdict, &err) == GW_OK ? show(verdict, false, options) : fail(&err);
    gw_verdict_free(verdict);
    return status;
}

static int explain_logs(char **files, int count, const explain_options *options)
{
    gw_error err;
    gw_log *log = NULL;
    int status = gw_log_read((const char *const *)files, (size_t)count, &log, &err) == GW_OK ? explain_log(log, options)
                                                                                             : fail(&err);
    gw_log_free(log);
    return status;
}

/* Explain files that are a mixture, or logs. Returns false if they are neither. */
static bool explain_by_kind(char **files, int count, const explain_options *options, int *ret_status)
{
    gwi_kinds kinds = gwi_kinds_of(files, count);
    bool is_known = kinds.is_mixed || kinds.are_logs;
    if (is_known)
        *ret_status = kinds.is_mixed ? explain_mixed(files, &kinds, options) : explain_logs(files, count, options);
    gwi_kinds_free(&kinds);
    return is_known;
}

/* ---- questions ---- */

static gw_status read_message(const char *message, gw_log **ret_log, gw_error *err)
{
    gw_log_reader *reader = NULL;
    gw_status st = gw_log_open(&reader, err);
    if (st != GW_OK)
        return st;
    st = gw_log_begin(reader, "the message", err);
    if (st == GW_OK)
        st = gw_log_feed(reader, message, strlen(message), err);
    if (st == GW_OK)
        return gw_log_finish(reader, ret_log, err);
    gw_log_cancel(reader);
    return st;
}

static int explain_message(const char *message, const explain_options *options)
{
    gw_error err;
    gw_log *log = NULL;
    gw_verdict *verdict = NULL;
    gw_status st = gw_judge_question(message, &verdict, &err);
    if (st == GW_MISSING) {
        st = read_message(message, &log, &err);
        if (st == GW_OK)
            st = gw_judge_message(log, message, &verdict, &err);
    }
    int status = st == GW_OK ? show(verdict, false, options) : fail(&err);
    gw_log_free(log);
    gw_verdict_free(verdict);
    return status;
}

/* True if the word can only be the name of a file. Then "file not found" is the right error. */
static bool looks_like_file(const char *word)
{
    static const char *const ends[] = {".gpuwhy", ".log", ".txt", ".out", ".err", ".gz",     ".xz",
                                       ".ipynb",  ".zst", ".pkl", ".bin", ".csv", ".pickle", ".json"};
    size_t bytes = strlen(word);
    bool ended = strchr(word, '/') != NULL || bytes == 0 || strcmp(word, "-") == 0;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0] && !ended; i++) {
        size_t end = strlen(ends[i]);
        ended = bytes > end && strcasecmp(word + bytes - end, ends[i]) == 0;
    }
    return ended;
}

/* True if the word differs by at most two characters from the name of an error or status. */
static bool is_mistyped_name(const char *word)
{
    enum { EDITS_MAX = 2 };
    const char *name = strchr(word, ' ') == NULL ? gw_suggest_name(word) : NULL;
    return name != NULL && gw_name_edits(word, name) <= EDITS_MAX;
}

/* Explain all words together as one error code, name or message, such as "Xid 79". Returns false if they are file
 * names, or an unknown error. */
static bool explain_words(char **words, int count, const explain_options *options, int *ret_status)
{
    struct stat info;
    gw_text question = {0};
    gw_log *log = NULL;
    gw_verdict *verdict = NULL;
    bool known = count > 0;
    if (count == 1 && lstat(words[0], &info) != 0 && gwi_causes_show(words[0])) {
        *ret_status = GW_EXIT_OK;
        return true;
    }
    for (int i = 0; i < count && known; i++) {
        known = !looks_like_file(words[i]) && lstat(words[i], &info) != 0;
        gw_text_addf(&question, "%s%s", i == 0 ? "" : " ", words[i]);
    }
    if (known && gw_judge_question(gw_text_str(&question), &verdict, NULL) != GW_OK) {
        known = !is_mistyped_name(gw_text_str(&question)) &&
                read_message(gw_text_str(&question), &log, NULL) == GW_OK &&
                gw_judge_message(log, gw_text_str(&question), &verdict, NULL) == GW_OK &&
                (verdict->question->meaning_count > 0 || verdict->question->command != NULL ||
                 (count > 1 && (verdict->status == GW_VERDICT_FAULT || verdict->alternative_count > 0)));
    }
    if (known)
        *ret_status = show(verdict, false, options);
    gw_log_free(log);
    gw_verdict_free(verdict);
    gw_text_free(&question);
    return known;
}

/* Explain the recordings in a folder. If it has no recordings, explain its text logs and saved files as those of one
 * run. `is_entered`: it is the working folder, and all files in it must be ours. */
static int explain_folder(const char *folder, bool is_entered, const explain_options *options)
{
    gw_error err;
    gwi_folder_files files;
    gw_status st = gwi_folder_list(is_entered ? "." : folder, is_entered, &files, &err);
    int status;
    if (st != GW_OK && is_entered)
        gw_wrap(&err, "%s", folder);
    if (st != GW_OK)
        status = fail(&err);
    else if (!files.are_recordings)
        status = explain_by_kind(files.path, files.count, options, &status)
                     ? status
                     : explain_logs(files.path, files.count, options);
    else if (files.count == 1)
        status = explain(files.path[0], options);
    else
        status = explain_together(files.path, files.count, options);
    gwi_folder_free(&files);
    return status;
}

/* Report a word that is neither a file nor a known code or name, and suggest the most similar file or name. */
static int explain_unknown(const char *word, char **words, int count)
{
    char name[512];
    gw_text text = {0};
    struct stat info;
    for (int i = 0; i < count && count > 1; i++)
        count = looks_like_file(words[i]) || lstat(words[i], &info) == 0 ? 0 : count;
    if (count > 1) { /* words, not files */
        gw_add_shell_words(&text, words, "");
        gw_say("explain: no file, code or message that gpuwhy knows; to search the causes: gpuwhy causes --search%s",
               gw_text_str(&text));
        gw_text_free(&text);
        return GW_EXIT_USAGE;
    }
    const char *known = gw_suggest_name(word);
    if (gwi_folder_similar(word, name, sizeof name))
        known = name;
    gw_say("explain: %s: %s%s%s%s", word,
           looks_like_file(word) ? "No such file or directory" : "No such file, code or name",
           known != NULL ? "; did you mean " : "", known != NULL ? known : "", known != NULL ? "?" : "");
    return GW_EXIT_USAGE;
}

/* Store what explain_folder() prints for the working folder, which is our own, in a file there. If it prints nothing,
 * remove the file of an earlier run. */
static int store_verdict(const char *folder, const explain_options *options)
{
    static const char name[] = GWI_FOLDER_VERDICT;
    char fresh[sizeof name + 32];
    struct stat info;
    gw_error err;
    snprintf(fresh, sizeof fresh, ".%s.%ld", name, (long)getpid());
    unlink(fresh); /* remove the file if a killed process with the same pid left it behind */
    int status = GW_EXIT_USAGE, fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    bool good = fd >= 0 && dup2(fd, STDOUT_FILENO) >= 0;
    if (good)
        status = explain_folder(folder, true, options);
    good = good && fflush(stdout) == 0 && !ferror(stdout) && fstat(fd, &info) == 0 &&
           (info.st_size > 0 ? rename(fresh, name) == 0 : unlink(name) == 0 || errno == ENOENT);
    gw_status st = good ? GW_OK : gw_fail(&err, GW_IO, "write %s/%s: %s", folder, name, strerror(errno));
    unlink(fresh);
    if (fd >= 0)
        close(fd);
    return st == GW_OK ? status : fail(&err);
}

/* Explain the recordings of a job of Slurm: "slurm:123" or "slurm:123.0". */
static int explain_slurm(const char *word, const explain_options *options)
{
    gw_path folder;
    gw_error err;
    if (gwi_slurm_enter(word, folder, &err) != GW_OK)
        return fail(&err);
    return options->store ? store_verdict(folder, options) : explain_folder(folder, true, options);
}

static bool is_missing(const char *word)
{
    struct stat info;
    return lstat(word, &info) != 0 && errno == ENOENT;
}

/* Handle `... | gpuwhy explain` and `gpuwhy explain < train.log`. Returns false if standard input is empty, or is
 * neither a pipe nor a file. */
static bool explain_input(const explain_options *options, int *ret_status)
{
    struct stat info;
    gw_log *log = NULL;
    bool piped = fstat(STDIN_FILENO, &info) == 0 && (S_ISFIFO(info.st_mode) || S_ISREG(info.st_mode));
    bool has = piped && gw_log_read((const char *const[]){"-"}, 1, &log, NULL) == GW_OK && log->file[0].bytes > 0;
    if (has)
        *ret_status = explain_log(log, options);
    gw_log_free(log);
    return has;
}

/* Write this command with --all added, as the user would type it. A command that is too long, contains --cell or
 * reads standard input is written as "the same command with --all". */
static void write_again(gw_text *text, int argc, char **argv)
{
    enum { AGAIN_BYTES_MAX = 160 };
    bool plain = isatty(STDIN_FILENO) != 0 || argc > 1;
    gw_text_add_str(text, "gpuwhy explain --all");
    for (int i = 1; i < argc; i++) {
        plain = plain && strcmp(argv[i], "-") != 0 && strcmp(argv[i], "--cell") != 0;
        if (strcmp(argv[i], "--quiet") == 0)
            continue;
        gw_text_add_str(text, " ");
        gw_add_shell_word(text, argv[i]);
    }
    if (plain && text->bytes <= AGAIN_BYTES_MAX)
        return;
    gw_text_clear(text);
    gw_text_add_str(text, "the same command with --all");
}

const gwi_manual gwi_manual_explain = {
    .usage = "gpuwhy explain [options] [recording | run folder | PyTorch memory snapshot]...\n"
             "gpuwhy explain [options] [LOG | FLIGHT-DUMP | RAS-ANSWER | PY-SPY-DUMP]...\n"
             "gpuwhy explain [options] FOLDER\n"
             "gpuwhy explain [options] slurm:JOBID[.STEP]\n"
             "... | gpuwhy explain\n"
             "gpuwhy explain [options] CODE or NAME\n"
             "gpuwhy explain [options] -m \"one message\"\n",
    .about = "Explains a recording, even one that is still being written, or text logs (plain, .gz, .xz, .zst, "
             ".ipynb; - is standard input), or what PyTorch, NCCL and py-spy saved about the ranks of a job, all files "
             "together. For a folder, explains the recordings in it or, if there are none, its other files. Without an "
             "argument, explains the last recording. Several recordings of one job (from "
             "several hosts or ranks) are explained together: which one failed first.",
    .words = "RECORDING|FILE",
    .group = {{.options = options_table, .count = OPTION_COUNT}},
    .exits = {{GW_EXIT_OK, "there is a verdict, also if it is \"clean\""},
              {GW_EXIT_UNDETERMINED, "the cause was not determined; always for a code alone"},
              {GW_EXIT_FAIL_ON, "with --fail-on: the verdict is one of the words"},
              {GW_EXIT_USAGE, "usage error or unreadable input; one line on stderr names the input and the reason"}},
    .environment = {{GWI_MANUAL_STATE_HOME}},
    .files = {{GWI_MANUAL_RECORDINGS},
              {GWI_MANUAL_HANDLE},
              {"$XDG_STATE_HOME/gpuwhy/last", "link to the last recording"}},
    .examples = {{"gpuwhy explain", "explain the last run again, even while it is running"},
                 {"gpuwhy explain @3", "explain the third newest run of `gpuwhy history`"},
                 {"gpuwhy explain --all run.gpuwhy", "print all the evidence, not just one screen"},
                 {"gpuwhy explain slurm-123.out slurm-123.err", "explain the text logs of a job"},
                 {"gpuwhy explain --bundle report.md train.log", "write one file to attach to a bug report"},
                 {"gpuwhy explain 700", "what an error code can mean, and how to find out"}},
    .see_also = "run causes report diff"};

static int refuse_script(const char *path)
{
    gw_text word = {0};
    gw_add_shell_word(&word, path);
    gw_say("explain: %s is a Python script; to run it: gpuwhy run -- python3 %s", path, gw_text_str(&word));
    gw_text_free(&word);
    return GW_EXIT_USAGE;
}

static int explain_what(int words, char **argv, const explain_options *options)
{
    gw_error err = {0};
    int status;
    bool is_slurm = words == 1 && gw_begins(argv[1], GWI_SLURM_PREFIX) && options->cell == NULL;
    if (options->message != NULL && (words > 0 || options->cell != NULL))
        return refuse("-m takes one message and cannot be combined with files or --cell");
    if (options->cell != NULL && words > 1)
        return refuse("--cell takes one recording");
    if (options->json && is_bundle_alone(options))
        return refuse("--json and --bundle - would both be on standard output");
    if (options->store && !is_slurm)
        return refuse("--store takes one job of Slurm, such as slurm:123");
    if (options->message != NULL)
        return explain_message(options->message, options);
    if (is_slurm)
        return explain_slurm(argv[1], options);
    if (words == 1 && gw_ends_with(argv[1], ".py") && !is_missing(argv[1]))
        return refuse_script(argv[1]);
    if (options->cell == NULL && explain_words(argv + 1, words, options, &status))
        return status;
    if (options->cell == NULL && explain_by_kind(argv + 1, words, options, &status))
        return status;
    for (int i = 1; i <= words && words > 1; i++) {
        if (is_missing(argv[i]))
            return explain_unknown(argv[i], argv + 1, words);
    }
    if (words > 1)
        return explain_together(argv + 1, words, options);
    if (words == 1 && is_missing(argv[1]))
        return explain_unknown(argv[1], argv + 1, words);
    if (words == 1 && options->cell == NULL && gwi_folder_is_one(argv[1]))
        return explain_folder(argv[1], false, options);
    if (words == 1)
        return explain(argv[1], options);
    if (options->cell == NULL && explain_input(options, &status))
        return status;
    static gw_path last;
    if (gw_last_recording(last, &err) != GW_OK)
        return fail(&err);
    return explain(last, options);
}

int gwi_cmd_explain(int argc, char **argv)
{
    explain_options options = {0};
    gw_error err = {0};
    gw_text again = {0};
    int words = 0;
    write_again(&again, argc, argv);
    if (gwi_options_parse_mixed(options_table, OPTION_COUNT, &options, argc, argv, &words, &err) != GW_OK ||
        gwi_gate_check(options.fail_on, &err) != GW_OK) {
        gw_text_free(&again);
        return fail(&err);
    }
    if (!options.help && options.message == NULL && gwi_handles_resolve(argv + 1, words, &err) != GW_OK) {
        gw_text_free(&again);
        return fail(&err);
    }
    options.again = gw_text_str(&again);
    gwi_output bundle = {.option = "--bundle", .path = options.bundle, .may_be_stdout = true};
    if (gwi_outputs_open(&bundle, 1, argv + 1, words, &err) != GW_OK) {
        gw_text_free(&again);
        return fail(&err);
    }
    options.output = options.bundle != NULL ? &bundle : NULL;
    if ((options.all || options.json || options.help) && !options.store) /* otherwise, the text fits on the screen */
        gwi_pager_begin();
    int status = options.help ? gwi_manual_print(&gwi_manual_explain) : explain_what(words, argv, &options);
    gwi_outputs_close(&bundle, 1);
    gw_text_free(&again);
    return status;
}
