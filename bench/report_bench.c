/* Measure how long `gpuwhy report` takes for a large recording, and how large the page is.
 *
 *   gw_report_bench [EVENTS [LIVE_BLOCKS]]
 *
 * The time includes the model and the verdict, but not writing the recording. made_recording.h describes the mix of
 * events. */
#define _GNU_SOURCE
#include "gw_clock.h"
#include "gw_report.h"
#include "made_recording.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static gw_status write_page(const char *path, gw_text *page, gw_error *err)
{
    gw_reader *reader = NULL;
    gw_model *model = NULL;
    gw_verdict *verdict = NULL;
    gw_report *report = NULL;
    const gw_report_assets none = {0};
    gw_status st = gw_reader_open(path, &reader, err);
    if (st == GW_OK)
        st = gw_model_build(reader, &model, err);
    if (st == GW_OK)
        st = gw_judge(model, &verdict, err);
    if (st == GW_OK)
        st = gw_report_begin(1, &report, err);
    if (st == GW_OK)
        st = gw_report_add(report, &(gw_report_run){path, path, model, verdict, false}, err);
    if (st == GW_OK)
        st = gw_report_finish(report, NULL, NULL, &none, page, err);
    gw_report_free(report);
    gw_verdict_free(verdict);
    gw_model_free(model);
    gw_reader_close(reader);
    return st;
}

int main(int argc, char **argv)
{
    gw_error err = {""};
    gw_text page = {0};
    char bytes[GW_BYTES_TEXT_MAX], file[] = "/tmp/gw-report-bench-XXXXXX";
    uint64_t events = argc > 1 ? strtoull(argv[1], NULL, 10) : 10000000;
    uint64_t live = argc > 2 ? strtoull(argv[2], NULL, 10) : 100000;
    int fd = mkstemp(file);
    if (fd < 0 || close(fd) != 0 || unlink(file) != 0)
        return 1;
    gw_status st = gw_made_recording_write(file, events, live, &err);
    uint64_t start_ns = gw_monotonic_ns();
    if (st == GW_OK)
        st = write_page(file, &page, &err);
    unlink(file);
    if (st == GW_OK)
        printf("report: %.2f s for %llu events, at up to %llu live blocks; the page without scripts has %s\n",
               (double)(gw_monotonic_ns() - start_ns) / 1e9, (unsigned long long)events, (unsigned long long)live,
               gw_bytes_text(bytes, page.bytes));
    else
        fprintf(stderr, "gw_report_bench: %s\n", err.text);
    gw_text_free(&page);
    return st == GW_OK ? 0 : 1;
}
