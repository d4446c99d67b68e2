/* Measure how fast a recording is written and read.
 *
 *   gw_reader_bench [EVENTS [LIVE_BLOCKS]]
 *
 * made_recording.h describes the mix of events. */
#define _GNU_SOURCE
#include "gw_clock.h"
#include "made_recording.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static void die(const gw_error *err)
{
    fprintf(stderr, "gw_reader_bench: %s\n", err->text);
    exit(1);
}

static double read_recording(const char *path, uint64_t *ret_count)
{
    gw_error err = {""};
    gw_reader *reader;
    const gw_item *item;
    uint64_t count = 0, sum = 0, start_ns = gw_monotonic_ns();
    if (gw_reader_open(path, &reader, &err) != GW_OK)
        die(&err);
    gw_status st;
    while ((st = gw_reader_next(reader, &item, &err)) == GW_OK) {
        count++;
        sum += item->event.arg[0] + item->event.t_ns;
    }
    if (st != GW_END)
        die(&err);
    gw_reader_close(reader);
    *ret_count = count + (sum == 1);
    return (double)(gw_monotonic_ns() - start_ns) / 1e9;
}

int main(int argc, char **argv)
{
    uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : 20000000;
    uint64_t live_count = argc > 2 ? strtoull(argv[2], NULL, 10) : 100000;
    char path[] = "/tmp/gw-reader-bench-XXXXXX";
    if (count == 0 || live_count == 0 || mkdtemp(path) == NULL)
        return 1;
    char file[64];
    snprintf(file, sizeof file, "%s/r.gpuwhy", path);
    gw_error err = {""};
    uint64_t start_ns = gw_monotonic_ns();
    if (gw_made_recording_write(file, count, live_count, &err) != GW_OK)
        die(&err);
    double write_s = (double)(gw_monotonic_ns() - start_ns) / 1e9;
    struct stat info = {0};
    (void)stat(file, &info);
    printf("%llu events, %llu live blocks; %.2f bytes an event; written (with making them up) at %.1f M events/s\n",
           (unsigned long long)count, (unsigned long long)live_count, (double)info.st_size / (double)count,
           (double)count / write_s / 1e6);
    for (int i = 0; i < 3; i++) {
        uint64_t got;
        double read_s = read_recording(file, &got);
        printf("read: %.1f M events/s\n", (double)got / read_s / 1e6);
    }
    unlink(file);
    rmdir(path);
    return 0;
}
