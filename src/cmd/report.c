/* `gpuwhy report`: writes one HTML page about a recording, or about the recordings of one job. */
#include "gw_say.h"
#include "gwi_cmd.h"
#include "gwi_folder.h"
#include "gwi_judge.h"
#include "gwi_judged.h"
#include "gwi_options.h"

#include "gw_report.h"
#include "gw_together.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define GWI_REPORT_OPTIONS(X)                                                                                          \
    X(STRING, const char *, output, "-o", "FILE", "report.html", "write the page to FILE; -: to standard output")      \
    X(FLAG, bool, no_history, "--no-history", NULL, NULL, "do not compare the run with the last good run")             \
    X(FLAG, bool, help, "--help", NULL, NULL, "print this help")

typedef struct report_options {
    GWI_REPORT_OPTIONS(GWI_OPTION_FIELD)
} report_options;

#define OPTIONS_STRUCT report_options
static const gwi_option options_table[] = {GWI_REPORT_OPTIONS(GWI_OPTION_ROW)};
enum { OPTION_COUNT = sizeof options_table / sizeof options_table[0] };

static int fail(const gw_error *err)
{
    gw_say("report: %s", err->text);
    return GW_EXIT_USAGE;
}

static int help(void)
{
    gw_text text = {0};
    gw_text_add_str(&text, "gpuwhy report [options] [recording | run folder | folder | memory snapshot]...\n"
                           "\n"
                           "Writes one HTML page: the verdict, device memory over time, maps of the memory\n"
                           "at the failure and at the peak, the largest holders, the health of the cards,\n"
                           "failed calls, and what is not known. The page opens without a network. Without an\n"
                           "argument, the page is about the last recording. Several recordings of one job\n"
                           "share a page. Exit status: 0 if there is a verdict, 1 if the cause was not\n"
                           "determined, 2 if the input cannot be read or the page cannot be written.\n"
                           "\n");
    gwi_options_help(options_table, OPTION_COUNT, &text);
    fputs(gw_text_str(&text), stdout);
    gw_text_free(&text);
    return GW_EXIT_OK;
}

/* Read the files that become part of the page. This comes first, so that a missing one is reported at once. */
static gw_status read_assets(gw_report_assets *ret_assets, gw_error *err)
{
    gw_path folder;
    gw_status st = gw_library_find("report/report.js", folder, err);
    if (st != GW_OK)
        return st;
    *strrchr(folder, '/') = '\0';
    return gw_report_assets_read(folder, ret_assets, err);
}

/* Refuse to overwrite one of the recordings. */
static gw_status check_output(const char *output, char *const *files, int count, gw_error *err)
{
    struct stat out, in;
    for (int i = 0; i < count && strcmp(output, "-") != 0 && stat(output, &out) == 0; i++) {
        if (stat(files[i], &in) == 0 && in.st_dev == out.st_dev && in.st_ino == out.st_ino)
            return gw_fail(err, GW_USAGE, "-o %s would overwrite the recording", output);
    }
    return GW_OK;
}

static gw_status judge_all(char *const *files, int count, const report_options *options, gwi_judged *judged,
                           gw_error *err)
{
    gw_status st = GW_OK;
    for (int i = 0; i < count && st == GW_OK; i++)
        st = gwi_judge_file(files[i], &(gwi_judge_how){.no_history = options->no_history}, &judged[i], err);
    return st;
}

/* Judge all recordings together. Recordings that did not overlap in time have no common verdict. */
static gw_status judge_whole(const gwi_judged *judged, int count, gw_verdict **ret_whole, gw_error *ret_apart,
                             gw_error *err)
{
    gw_brief *brief = calloc((size_t)count, sizeof *brief);
    const gw_job job = {.brief = brief, .count = (size_t)count};
    size_t first = 0;
    gw_status st = brief == NULL ? gw_fail(ret_apart, GW_NOMEM, "judge %d recordings", count) : GW_OK;
    for (int i = 0; i < count && st == GW_OK; i++)
        st = gw_brief_of(judged[i].verdict, &brief[i], ret_apart);
    if (st == GW_OK)
        st = gw_job_check(&job, ret_apart);
    if (st == GW_OK)
        st = gw_job_first(&job, &first, ret_apart);
    if (st == GW_OK)
        st = gw_judge_together(&job, judged[first].verdict, ret_whole, ret_apart);
    for (int i = 0; i < count && brief != NULL; i++)
        gw_brief_free(&brief[i]);
    free(brief);
    if (st == GW_UNSUPPORTED)
        return GW_OK;
    return st == GW_OK ? GW_OK : gw_fail(err, st, "%s", ret_apart->text);
}

static gw_status write_page(const gw_report *report, const gw_report_assets *assets, const char *output, gw_error *err)
{
    char bytes[GW_BYTES_TEXT_MAX];
    gw_text page = {0};
    gw_status st = gw_report_write(report, assets, &page, err);
    if (st == GW_OK)
        st = gwi_text_write(&page, output, err);
    if (st == GW_OK && strcmp(output, "-") != 0)
        printf("%s: %s\n", output, gw_bytes_text(bytes, page.bytes));
    gw_text_free(&page);
    return st;
}

/* Return the worst status of the verdicts. */
static int status_of(const gw_verdict *whole, const gwi_judged *judged, int count)
{
    bool undetermined = whole != NULL && whole->status == GW_VERDICT_UNDETERMINED;
    for (int i = 0; i < count && whole == NULL; i++)
        undetermined = undetermined || judged[i].verdict->status == GW_VERDICT_UNDETERMINED;
    return undetermined ? GW_EXIT_UNDETERMINED : GW_EXIT_OK;
}

static gw_status report_judged(char *const *files, const gwi_judged *judged, int count, const gw_report_assets *assets,
                               const char *output, int *ret_status, gw_error *err)
{
    gw_error apart = {""};
    gw_verdict *whole = NULL;
    gw_report_run *run = calloc((size_t)count, sizeof *run);
    gw_status st = run == NULL ? gw_fail(err, GW_NOMEM, "the page") : GW_OK;
    if (st == GW_OK && count > 1)
        st = judge_whole(judged, count, &whole, &apart, err);
    for (int i = 0; i < count && st == GW_OK; i++)
        run[i] = (gw_report_run){.name = files[i],
                                 .path = judged[i].verdict->snapshot != NULL ? NULL : judged[i].path,
                                 .model = judged[i].model,
                                 .verdict = judged[i].verdict,
                                 .running = judged[i].running};
    if (st == GW_OK) {
        const gw_report page = {run, (size_t)count, whole, count > 1 && whole == NULL ? apart.text : NULL};
        st = write_page(&page, assets, output, err);
    }
    if (st == GW_OK)
        *ret_status = status_of(whole, judged, count);
    gw_verdict_free(whole);
    free(run);
    return st;
}

static int report(char *const *files, int count, const report_options *options)
{
    gw_error err = {""};
    int status = GW_EXIT_USAGE;
    gw_report_assets assets = {0};
    gwi_judged *judged = calloc((size_t)count, sizeof *judged);
    gw_status st = judged == NULL ? gw_fail(&err, GW_NOMEM, "judge %d recordings", count) : GW_OK;
    if (st == GW_OK)
        st = check_output(options->output, files, count, &err);
    if (st == GW_OK)
        st = read_assets(&assets, &err);
    if (st == GW_OK)
        st = judge_all(files, count, options, judged, &err);
    if (st == GW_OK)
        st = report_judged(files, judged, count, &assets, options->output, &status, &err);
    for (int i = 0; judged != NULL && i < count; i++)
        gwi_judged_free(&judged[i]);
    free(judged);
    gw_report_assets_free(&assets);
    return st == GW_OK ? status : fail(&err);
}

static int report_folder(const char *folder, const report_options *options)
{
    gw_error err;
    gwi_folder_files files;
    gw_status st = gwi_folder_list(folder, &files, &err);
    if (st == GW_OK && !files.are_recordings)
        st = gw_fail(&err, GW_USAGE, "%s: no recordings in this folder", folder);
    int status = st == GW_OK ? report(files.path, files.count, options) : fail(&err);
    gwi_folder_free(&files);
    return status;
}

int gwi_cmd_report(int argc, char **argv)
{
    report_options options = {0};
    gw_error err = {0};
    int words = 0;
    static gw_path last;
    if (gwi_options_parse_mixed(options_table, OPTION_COUNT, &options, argc, argv, &words, &err) != GW_OK)
        return fail(&err);
    if (options.help)
        return help();
    if (words == 1 && gwi_folder_is_one(argv[1]))
        return report_folder(argv[1], &options);
    if (words > 0)
        return report(argv + 1, words, &options);
    if (gw_last_recording(last, &err) != GW_OK)
        return fail(&err);
    return report(&(char *){last}, 1, &options);
}
