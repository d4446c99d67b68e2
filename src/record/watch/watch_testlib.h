/* Snapshots for the tests of this folder: a card with 100 GiB, a run on it, and a process of someone else. */
#ifndef WATCH_TESTLIB_H
#define WATCH_TESTLIB_H

#include "gwi_watch.h"

#include <stdio.h>
#include <string.h>

static const uint64_t gib = UINT64_C(1) << 30;

typedef struct test_world {
    gw_watch_card card[16];
    gw_watch_process process[64];
    gw_watch_run run[4];
    gw_watch_snapshot s;
} test_world;

static inline void world_set(gw_watch_card *card, gw_metric metric, uint64_t value)
{
    card->is.value[metric] = (gw_sample_value){(uint16_t)metric, GW_SAMPLE_KNOWN, value};
}

static inline gw_watch_card *world_add_card(test_world *w)
{
    uint32_t index = (uint32_t)w->s.card_count++;
    gw_watch_card *card = &w->card[index];
    *card = (gw_watch_card){.index = index, .total_bytes = 100 * gib, .used_bytes = 60 * gib, .free_bytes = 40 * gib};
    for (unsigned metric = 0; metric < GW_METRIC_COUNT; metric++)
        card->is.value[metric] = (gw_sample_value){(uint16_t)metric, GW_SAMPLE_NOT_SUPPORTED, 0};
    card->is.holders_known = true;
    snprintf(card->is.name, sizeof card->is.name, "NVIDIA Test");
    snprintf(card->is.pci, sizeof card->is.pci, "00000000:%02X:00.0", 16 + index);
    return card;
}

static inline gw_watch_process *world_add_process(test_world *w, int card, uint32_t pid, uint64_t bytes,
                                                  const char *user)
{
    gw_watch_process *process = &w->process[w->s.process_count++];
    gw_room_card *is = &w->card[card].is;
    *process = (gw_watch_process){.pid = pid, .pid_is_ours = true, .card = card, .run = GW_WATCH_NONE, .bytes = bytes};
    snprintf(process->user, sizeof process->user, "%s", user);
    snprintf(process->command, sizeof process->command, "/usr/bin/python %s.py", user);
    if (is->holder_count < GW_ROOM_HOLDERS_MAX)
        is->holder[is->holder_count++] = (gw_room_holder){.pid = pid, .bytes = bytes};
    return process;
}

/* A run of process `pid` on device 0, which is the card with this index. */
static inline gw_watch_run *world_add_run(test_world *w, unsigned card, uint32_t pid, uint64_t live_bytes)
{
    gw_watch_run *run = &w->run[w->s.run_count++];
    *run = (gw_watch_run){.is = {.pid_count = 1, .pid = {pid}, .process_count = 1, .supervisor_pid = pid + 1000},
                          .seconds = 90,
                          .idle_s = GW_WATCH_UNKNOWN,
                          .failed_s = GW_WATCH_UNKNOWN,
                          .use_count = 1};
    run->use[0] = (gw_watch_use){.card = GW_WATCH_NONE,
                                 .is = {.live_bytes = live_bytes,
                                        .kept_bytes = live_bytes,
                                        .limit_bytes = 100 * gib,
                                        .has_pci = true,
                                        .pci_bus = 16 + card}};
    snprintf(run->id, sizeof run->id, "20260101-120000-%u", pid);
    snprintf(run->user, sizeof run->user, "ann");
    snprintf(run->is.command, sizeof run->is.command, "python train.py");
    return run;
}

static inline void world_begin(test_world *w)
{
    memset(w, 0, sizeof *w);
    w->s = (gw_watch_snapshot){.card = w->card,
                               .process = w->process,
                               .run = w->run,
                               .sees_all = true,
                               .alarm_ratio = 0.9,
                               .t_realtime_ns = UINT64_C(1800000000000000000)};
}

#endif
