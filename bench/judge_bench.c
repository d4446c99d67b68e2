/* Measure how fast `gpuwhy explain` reads, models and judges a recording on one core.
 *
 *   gw_judge_bench [LIVE_BLOCKS [EVENTS]]
 *
 * Prints the median, the lowest and the highest speed of five rounds, in million events per second of processor time,
 * so that other programs disturb it little. The time to write the recording is not measured. made_recording.h describes
 * the mix of events. */
#define _GNU_SOURCE
#include "gw_clock.h"
#include "gw_model.h"
#include "gw_verdict.h"
#include "made_recording.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { ROUNDS = 5 };

static gw_status explain(const char *path, gw_error *err)
{
    gw_reader *reader = NULL;
    gw_model *model = NULL;
    gw_verdict *verdict = NULL;
    gw_status st = gw_reader_open(path, &reader, err);
    if (st == GW_OK)
        st = gw_model_build(reader, &model, err);
    if (st == GW_OK)
        st = gw_judge(model, &verdict, err);
    gw_verdict_free(verdict);
    gw_model_free(model);
    gw_reader_close(reader);
    return st;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static gw_status measure(const char *file, uint64_t live_count, uint64_t event_count, gw_error *err)
{
    double rate[ROUNDS];
    gw_status st = gw_made_recording_write(file, event_count, live_count, err);
    for (int i = 0; st == GW_OK && i < ROUNDS; i++) {
        uint64_t start_ns = gw_processor_ns();
        st = explain(file, err);
        rate[i] = (double)event_count / ((double)(gw_processor_ns() - start_ns) / 1e9) / 1e6;
    }
    if (st != GW_OK)
        return st;
    qsort(rate, ROUNDS, sizeof rate[0], by_size);
    printf("read, modelled and judged: %.1f M events/s (%.1f to %.1f) at up to %llu live blocks, %llu events\n",
           rate[ROUNDS / 2], rate[0], rate[ROUNDS - 1], (unsigned long long)live_count,
           (unsigned long long)event_count);
    return GW_OK;
}

int main(int argc, char **argv)
{
    uint64_t live_count = argc > 1 ? strtoull(argv[1], NULL, 10) : 100000;
    uint64_t event_count = argc > 2 ? strtoull(argv[2], NULL, 10) : 5000000;
    char folder[] = "/tmp/gw-judge-bench-XXXXXX";
    if (event_count == 0 || live_count == 0 || mkdtemp(folder) == NULL)
        return 1;
    char file[64];
    snprintf(file, sizeof file, "%s/r.gpuwhy", folder);
    gw_error err = {""};
    gw_status st = measure(file, live_count, event_count, &err);
    if (st != GW_OK)
        fprintf(stderr, "gw_judge_bench: %s\n", err.text);
    unlink(file);
    rmdir(folder);
    return st == GW_OK ? 0 : 1;
}
