/* How fast a recording is written and read: gw_reader_bench [EVENTS [LIVE_BLOCKS]].
 *
 * The mix, of 1,000 events: 460 allocations and 460 frees (four threads; sizes from 512 B to 64 MiB in steps of 512 B;
 * a random live block is freed), 30 stream-ordered allocations and 30 frees, 10 event creations, 5 kernel names with
 * text, 5 failed allocations. */
#define _GNU_SOURCE
#include "gw_clock.h"
#include "gw_names.h"
#include "gw_recording.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static uint64_t seed = 1;

static uint64_t random_next(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

static const char *const fn_names[] = {"cuMemAlloc_v2",  "cuMemFree_v2",  "cuMemAllocAsync",
                                       "cuMemFreeAsync", "cuEventCreate", "cuModuleGetFunction"};

static void die(const gw_error *err)
{
    fprintf(stderr, "gw_reader_bench: %s\n", err->text);
    exit(1);
}

static void fill_event(gw_event *event, uint64_t *live, uint64_t live_count)
{
    unsigned what = (unsigned)(random_next() % 1000);
    uint64_t *block = &live[random_next() % live_count];
    bool async = what >= 920 && what < 980;
    if (what < 980) {
        bool frees = *block != 0;
        event->kind = async ? (frees ? GW_EV_FREE_ASYNC : GW_EV_ALLOC_ASYNC) : (frees ? GW_EV_FREE : GW_EV_ALLOC);
        event->fn = (uint16_t)((async ? 2 : 0) + frees);
        event->arg[1] = frees ? 0 : (1 + random_next() % (random_next() % 8 == 0 ? 131072 : 64)) * 512;
        event->arg[0] = frees ? *block : 0x7f0000000000 + (random_next() % (1 << 26)) * 512;
        event->arg[3] = async ? 0x55d0c0ffee00 : 0;
        event->took_us = (uint16_t)(random_next() % 4 == 0 ? 1 + random_next() % 60 : 0);
        *block = frees ? 0 : event->arg[0];
    } else if (what < 990) {
        event->kind = GW_EV_EVENT_CREATE;
        event->fn = 4;
        event->arg[0] = 0x55d000000000 + (random_next() % (1 << 20)) * 64;
    } else if (what < 995) {
        event->kind = GW_EV_FUNCTION;
        event->fn = 5;
        event->arg[0] = 0x55d000000000 + (random_next() % (1 << 20)) * 64;
        event->text = "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEE";
        event->text_bytes = (uint32_t)strlen(event->text);
    } else {
        event->kind = GW_EV_ALLOC;
        event->result = 2;
        event->arg[1] = (random_next() % 1024) << 20;
    }
}

static void write_recording(const char *path, uint64_t count, uint64_t live_count)
{
    gw_error err = {""};
    gw_writer *writer;
    uint64_t *live = calloc(live_count, sizeof *live);
    if (live == NULL || gw_writer_create(path, 0, fn_names, 6, &writer, &err) != GW_OK)
        die(&err);
    uint64_t t_ns = 0;
    for (uint64_t i = 0; i < count; i++) {
        gw_item item = {.kind = GW_ITEM_EVENT, .pid = 1000};
        gw_event *event = &item.event;
        fill_event(event, live, live_count);
        t_ns += random_next() % (random_next() % 64 == 0 ? 200000 : 6000);
        item.t_ns = event->t_ns = t_ns;
        event->pid = item.pid;
        event->tid = item.tid = 1000 + (uint32_t)(random_next() % 16 < 12 ? 0 : random_next() % 4);
        event->context = 0x55d0deadbeef0;
        if (gw_writer_put(writer, &item, &err) != GW_OK)
            die(&err);
    }
    if (gw_writer_close(writer, &err) != GW_OK)
        die(&err);
    free(live);
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
    uint64_t start_ns = gw_monotonic_ns();
    write_recording(file, count, live_count);
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
