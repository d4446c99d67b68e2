/* Records which processes hold memory on a card after a refused allocation. For a real card, the sources are NVML and
 * the processes that have the card's device file open. */
#include "gw_frameworks.h"
#include "gwi_run.h"

#include "gw_fact.h"
#include "gw_process.h"
#include "gw_virt_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Finds frameworks by the libraries that a process has mapped (gw_frameworks.h). */

typedef struct framework {
    const char *library; /* part of the name of a mapped file */
    unsigned is;
} framework;

static const framework frameworks[] = {{"libc10_cuda.so", GW_FRAMEWORK_TORCH},
                                       {"libtensorflow", GW_FRAMEWORK_GREEDY},
                                       {"xla_extension", GW_FRAMEWORK_GREEDY},
                                       {"xla_cuda", GW_FRAMEWORK_GREEDY}};

bool gw_frameworks_find(uint32_t pid, unsigned *ret_found)
{
    char path[40], line[4096];
    bool any = false;
    *ret_found = 0;
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/maps", pid);
    FILE *maps = fopen(path, "re");
    if (maps == NULL)
        return false;
    while (fgets(line, sizeof line, maps) != NULL) {
        any = true;
        for (size_t i = 0; i < sizeof frameworks / sizeof frameworks[0]; i++)
            if (strstr(line, frameworks[i].library) != NULL)
                *ret_found |= frameworks[i].is;
    }
    fclose(maps);
    return any; /* a process that is ending has no maps any more */
}

/* Record `holder`. If `is_ours` is true, its pid is valid in our pid namespace, so add the process's user and command
 * line. */
static void put_holder(gwi_record *record, gw_fact_key key, gw_fact_holder *holder, bool is_ours)
{
    gw_text user = {0}, command = {0}, text = {0};
    if (is_ours) {
        gw_process_user_add(&user, (int)holder->pid);
        gw_process_command_add(&command, (int)holder->pid);
        holder->has_user = user.bytes > 0;
        holder->user = gw_fact_text_of(gw_text_str(&user));
        holder->has_command = true;
        holder->command = gw_fact_text_of(gw_text_str(&command));
    }
    gw_fact_holder_write(holder, &text);
    if (!is_ours)
        gw_text_add_str(&text, " "); /* do not remove this space: all versions of gpuwhy have written it */
    gwi_record_fact(record, gw_fact_key_text(key), "%s", gw_text_str(&text));
    gw_text_free(&user);
    gw_text_free(&command);
    gw_text_free(&text);
}

static void put_virtual(gwi_record *record, const gw_virt_process *process, unsigned device)
{
    gw_fact_holder holder = {GW_FACT_SET(pid, (uint32_t)process->pid), GW_FACT_SET(bytes, process->used_bytes[device]),
                             GW_FACT_SET(device, device)};
    put_holder(record, GW_FACT_CARD_HOLDER, &holder, true);
}

void gwi_holders_record(gwi_record *record, const gwi_doors *doors)
{
    /* minimum time between two records, because the verdict groups holders by time */
    const uint64_t apart_ns = 1000000000u;
    uint64_t now_ns = gwi_record_now_ns(record), told_ns = record->holders_told_at_ns;
    if (record->out_of_memory_at_ns <= told_ns || record->holders_told >= GWI_HOLDERS_TOLD_MAX ||
        (record->holders_told > 0 && now_ns < told_ns + apart_ns) || doors->virtual_folder[0] == '\0')
        return;
    gw_virt_state *state = malloc(sizeof *state);
    if (state != NULL && gw_virt_state_read(doors->virtual_folder, state, NULL) == GW_OK) {
        for (unsigned i = 0; i < state->process_count; i++)
            for (unsigned device = 0; device < state->device_count; device++)
                if (state->processes[i].used_bytes[device] != 0)
                    put_virtual(record, &state->processes[i], device);
        record->holders_told_at_ns = now_ns;
        record->holders_told++;
    }
    free(state);
}

void gwi_holder_record(void *user, uint32_t card, uint32_t pid, uint64_t bytes, bool matched)
{
    bool has_card = card != GW_NO_DEVICE;
    gw_fact_holder holder = {GW_FACT_SET(pid, pid), .has_bytes = bytes != UINT64_MAX, .bytes = bytes,
                             .has_card = has_card, .card = card};
    gw_fact_key key = GW_FACT_CARD_HOLDER_UNMATCHED;
    if (!has_card)
        key = GW_FACT_DEVICE_HOLDER;
    else if (matched)
        key = GW_FACT_CARD_HOLDER;
    /* if `matched` is false, another process may have this pid in our namespace */
    put_holder(user, key, &holder, matched);
}
