/* `gpuwhy report`: writes one HTML page about a recording, or about the recordings of one job. */
#include "gwi_cmd.h"
#include "gwi_folder.h"
#include "gwi_judge.h"
#include "gwi_manual.h"
#include "gwi_options.h"
#include "gwi_output.h"
#include "gwi_runs.h"

#include "gw_report.h"
#include "gw_together.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define GWI_REPORT_OPTIONS(X)                                                                                          \
    X(STRING, const char *, output, "-o", "FILE", "report.html", "write the page to FILE; -: to standard output")      \
    X(FLAG, bool, no_history, "--no-history", NULL, NULL, "do not compare the run with the last good run")

GWI_OPTIONS(report_options, GWI_REPORT_OPTIONS);

const gwi_manual gwi_manual_report = {
    .usage = "gpuwhy report [options] [recording | run folder | folder | memory snapshot]...\n",
    .about = "Writes one HTML page: the verdict, device memory over time, maps of the memory at the failure and at "
             "the peak, the largest holders, the health of the cards, failed calls, and what is not known. The "
             "page opens without a network. Without an argument, the page is about the last recording. Several "
             "recordings of one job share a page.",
    .words = "RECORDING|FILE",
    .group = {{.options = options_table, .count = OPTION_COUNT}},
    .exits = {{GW_EXIT_OK, "the page was written, and there is a verdict"},
              {GW_EXIT_UNDETERMINED, "the page was written, but the cause was not determined"},
              {GW_EXIT_USAGE, "usage error, unreadable input, or the page could not be written"}},
    .environment = {{GWI_MANUAL_STATE_HOME}},
    .files = {{GWI_MANUAL_RECORDINGS},
              {GWI_MANUAL_HANDLE},
              {"$XDG_STATE_HOME/gpuwhy/last", "link to the last recording"}},
    .examples = {{"gpuwhy report run.gpuwhy -o report.html", "write a page about a recording"}},
    .see_also = "explain export"};

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

/* Add the judged recording to the page. Its model is not needed after that, and many models would need much memory. */
static gw_status add_judged(gw_report *page, const char *file, gwi_judged *judged, gw_error *err)
{
    const gw_report_run run = {.name = file,
                               .path = judged->verdict->snapshot != NULL ? NULL : judged->path,
                               .model = judged->model,
                               .verdict = judged->verdict,
                               .running = judged->running};
    gw_status st = gw_report_add(page, &run, err);
    gw_model_free(judged->model);
    judged->model = NULL;
    return st;
}

/* Refuse a file that was named twice: its copies would be judged as two ranks of a job. */
static gw_status check_twice(char *const *files, int count, gw_error *err)
{
    struct stat one, other;
    for (int i = 0; i < count; i++)
        for (int k = 0; k < i && stat(files[i], &one) == 0; k++)
            if (stat(files[k], &other) == 0 && one.st_dev == other.st_dev && one.st_ino == other.st_ino)
                return gw_fail(err, GW_USAGE, "%s: named twice", files[i]);
    return GW_OK;
}

static gw_status add_all(gw_report *page, char *const *files, int count, const report_options *options,
                         gwi_judged *judged, gw_error *err)
{
    gw_status st = GW_OK;
    for (int i = 0; i < count && st == GW_OK; i++) {
        st = gwi_judge_file(files[i], &(gwi_judge_how){.no_history = options->no_history}, &judged[i], err);
        if (st == GW_OK)
            st = add_judged(page, files[i], &judged[i], err);
    }
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

/* Finish the page and write it to the file. */
static gw_status write_page(const gw_report *report, const gw_verdict *whole, const char *apart_reason,
                            const gw_report_assets *assets, const gwi_output *output, gw_error *err)
{
    char bytes[GW_BYTES_TEXT_MAX];
    gw_text page = {0};
    gw_status st = gw_report_finish(report, whole, apart_reason, assets, &page, err);
    if (st == GW_OK)
        st = gwi_output_write(output, &page, 0, err);
    if (st == GW_OK && output->fd < 0)
        printf("%s: %s\n", output->path, gw_bytes_text(bytes, page.bytes));
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

static gw_status report_all(char *const *files, int count, const report_options *options, const gwi_output *output,
                            gwi_judged *judged, int *ret_status, gw_error *err)
{
    gw_error apart = {""};
    gw_verdict *whole = NULL;
    gw_report *page = NULL;
    gw_report_assets assets = {0};
    /* Return the large arrays of a model to the kernel when they are freed. By default, glibc raises this threshold
     * with each of them, and then the arrays of the next models fill the heap around the page's text. */
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
    gw_status st = read_assets(&assets, err);
    if (st == GW_OK)
        st = gw_report_begin((size_t)count, &page, err);
    if (st == GW_OK)
        st = add_all(page, files, count, options, judged, err);
    if (st == GW_OK && count > 1)
        st = judge_whole(judged, count, &whole, &apart, err);
    if (st == GW_OK)
        st = write_page(page, whole, count > 1 && whole == NULL ? apart.text : NULL, &assets, output, err);
    if (st == GW_OK)
        *ret_status = status_of(whole, judged, count);
    gw_verdict_free(whole);
    gw_report_free(page);
    gw_report_assets_free(&assets);
    return st;
}

static int report(char *const *files, int count, const report_options *options)
{
    gw_error err = {""};
    int status = GW_EXIT_USAGE;
    gwi_judged *judged = calloc((size_t)count, sizeof *judged);
    gwi_output output = {.option = "-o", .path = options->output, .may_be_stdout = true};
    gw_status st =
        judged == NULL ? gw_fail(&err, GW_NOMEM, "judge %d recordings", count) : check_twice(files, count, &err);
    if (st == GW_OK)
        st = gwi_outputs_open(&output, 1, files, count, &err);
    if (st == GW_OK) {
        st = report_all(files, count, options, &output, judged, &status, &err);
        gwi_outputs_close(&output, 1);
    }
    for (int i = 0; judged != NULL && i < count; i++)
        gwi_judged_free(&judged[i]);
    free(judged);
    return st == GW_OK ? status : gwi_refuse("report", &err);
}

static int report_folder(const char *folder, const report_options *options)
{
    gw_error err;
    gwi_folder_files files;
    gw_status st = gwi_folder_list(folder, false, &files, &err);
    if (st == GW_OK && !files.are_recordings)
        st = gw_fail(&err, GW_USAGE, "%s: no recordings in this folder", folder);
    int status = st == GW_OK ? report(files.path, files.count, options) : gwi_refuse("report", &err);
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
        return gwi_refuse("report", &err);
    if (options.help)
        return gwi_manual_print(&gwi_manual_report);
    if (gwi_handles_resolve(argv + 1, words, &err) != GW_OK)
        return gwi_refuse("report", &err);
    if (words == 1 && gwi_folder_is_one(argv[1]))
        return report_folder(argv[1], &options);
    if (words > 0)
        return report(argv + 1, words, &options);
    if (gw_last_recording(last, &err) != GW_OK)
        return gwi_refuse("report", &err);
    return report(&(char *){last}, 1, &options);
}
