/* Measures how many events per second the model can process: gw_model_bench [LIVE_BLOCKS [EVENTS]]
 *
 * Before the measurement, the ledger is filled with LIVE_BLOCKS blocks. Of each 100 events:
 * - 46 are cuMemFree of a random live block
 * - 46 are cuMemAlloc (64 sizes from 512 B to 48 MiB, a quarter of them at most 1 MiB)
 * - 2 each are cuMemAllocAsync, cuMemFreeAsync, cuEventCreate and cuEventDestroy
 *
 * The time to create the events is not measured. Prints the median, the slowest and the fastest of five rounds. */
#include "gw_clock.h"
#include "gw_model_facts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 5, BATCH = 1 << 12, SIZES = 64 };

typedef struct bench {
    gw_model *model;
    uint64_t *live; /* addresses of the live blocks; owned */
    size_t live_count, async_count, event_count;
    uint64_t async[64], event[64];
    uint64_t random, address_next, t_ns;
    gw_item *batch; /* owned */
} bench;

static uint64_t next_random(bench *b)
{
    b->random ^= b->random << 13;
    b->random ^= b->random >> 7;
    b->random ^= b->random << 17;
    return b->random;
}

static uint64_t size_of(uint64_t random)
{
    uint64_t sort = random % SIZES;
    return sort < SIZES / 4 ? (uint64_t)512 << (sort % 12) : ((uint64_t)1 << 20) * (sort - SIZES / 4 + 1);
}

static void make(bench *b, gw_item *item, gw_event_kind kind, uint64_t a0, uint64_t a1)
{
    b->t_ns += 50;
    item->kind = GW_ITEM_EVENT;
    item->t_ns = b->t_ns;
    item->event = (gw_event){.t_ns = b->t_ns,
                             .pid = 1,
                             .tid = 1,
                             .fn = (uint16_t)kind,
                             .kind = (uint8_t)kind,
                             .context = 0xc0de,
                             .arg = {a0, a1, 0, 0}};
}

static uint64_t next_address(bench *b)
{
    return b->address_next += 2 << 20;
}

static void make_pair(bench *b, gw_item *item, uint64_t sort)
{
    if (sort < 46) {
        size_t at = next_random(b) % b->live_count;
        make(b, &item[0], GW_EV_FREE, b->live[at], 0);
        b->live[at] = next_address(b);
        make(b, &item[1], GW_EV_ALLOC, b->live[at], size_of(next_random(b)));
    } else if (sort < 48) {
        uint64_t address = next_address(b);
        make(b, &item[0], GW_EV_ALLOC_ASYNC, address, size_of(next_random(b)));
        make(b, &item[1], GW_EV_FREE_ASYNC, address, 0);
    } else {
        make(b, &item[0], GW_EV_EVENT_CREATE, next_address(b), 0);
        make(b, &item[1], GW_EV_EVENT_DESTROY, item[0].event.arg[0], 0);
    }
}

static void must(gw_status status)
{
    if (status == GW_OK)
        return;
    fprintf(stderr, "gw_model_bench: %s\n", gw_status_text(status));
    exit(1);
}

static void fill(bench *b, size_t count)
{
    gw_item item = {0};
    make(b, &item, GW_EV_CTX_CREATE, 0xc0de, 0);
    must(gw_model_feed(b->model, &item, NULL));
    for (b->live_count = 0; b->live_count < count; b->live_count++) {
        b->live[b->live_count] = next_address(b);
        make(b, &item, GW_EV_ALLOC, b->live[b->live_count], size_of(next_random(b)));
        must(gw_model_feed(b->model, &item, NULL));
    }
}

static double run_round(bench *b, uint64_t events)
{
    uint64_t took_ns = 0;
    for (uint64_t done = 0; done < events; done += BATCH) {
        for (size_t i = 0; i < BATCH; i += 2)
            make_pair(b, &b->batch[i], next_random(b) % 50);
        uint64_t begin = gw_monotonic_ns();
        for (size_t i = 0; i < BATCH; i++)
            must(gw_model_feed(b->model, &b->batch[i], NULL));
        took_ns += gw_monotonic_ns() - begin;
    }
    uint64_t whole = (events + BATCH - 1) / BATCH * BATCH;
    return (double)whole * 1e3 / (double)took_ns;
}

static int by_value(const void *left, const void *right)
{
    const double *a = left, *b = right;
    return *a < *b ? -1 : *a > *b;
}

int main(int argc, char **argv)
{
    size_t live = argc > 1 ? strtoull(argv[1], NULL, 10) : 100000;
    uint64_t events = argc > 2 ? strtoull(argv[2], NULL, 10) : 4000000;
    if (live == 0 || events == 0) {
        fprintf(stderr, "usage: gw_model_bench [LIVE_BLOCKS [EVENTS]]\n");
        return 2;
    }
    bench b = {.random = 88172645463325252u, .address_next = 0x7f0000000000u};
    b.live = malloc(live * sizeof *b.live);
    b.batch = calloc(BATCH, sizeof *b.batch);
    double rate[ROUNDS];
    if (b.live == NULL || b.batch == NULL)
        must(GW_NOMEM);
    must(gw_model_new(&b.model, NULL));
    fill(&b, live);
    for (int i = 0; i < ROUNDS; i++)
        rate[i] = run_round(&b, events);
    qsort(rate, ROUNDS, sizeof rate[0], by_value);
    uint64_t begin = gw_monotonic_ns();
    must(gw_model_finish(b.model, NULL));
    double finish_ms = (double)(gw_monotonic_ns() - begin) / 1e6;
    printf("%zu live blocks: %.1f million events/s (%.1f to %.1f in %d rounds of %" PRIu64 "), finish %.1f ms\n", live,
           rate[ROUNDS / 2], rate[0], rate[ROUNDS - 1], ROUNDS, events, finish_ms);
    gw_model_free(b.model);
    free(b.live);
    free(b.batch);
    return 0;
}
