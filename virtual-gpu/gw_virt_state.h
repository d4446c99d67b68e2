/* The memory in use on the virtual GPUs of a run, for programs that watch the run. */
#ifndef GW_VIRT_STATE_H
#define GW_VIRT_STATE_H

#include <stdint.h>

#include "gw_status.h"
#include "gw_virt_spec.h"

enum { GW_VIRT_PROCESSES_MAX = 512 };

typedef struct gw_virt_process {
    int pid;
    uint64_t used_bytes[GW_VIRT_DEVICES_MAX];
} gw_virt_process;

typedef struct gw_virt_state {
    unsigned device_count;
    uint64_t total_bytes[GW_VIRT_DEVICES_MAX];
    uint64_t used_bytes[GW_VIRT_DEVICES_MAX]; /* used by live processes */
    unsigned process_count;
    gw_virt_process processes[GW_VIRT_PROCESSES_MAX];
} gw_virt_state;

/* Read the state in `folder` (GPUWHY_VIRTUAL_DIR), without the lock. If a call changes the state at the same time, the
 * result may contain only a part of the change.
 *
 * Returns GW_MISSING if no process has used a virtual GPU yet. GW_IO, GW_CORRUPT: `err` has the reason. */
GW_MUST_CHECK gw_status gw_virt_state_read(const char *folder, gw_virt_state *ret_state, gw_error *err);
/* Let a virtual GPU be lost, for the program and for NVML.
 *
 * Returns GW_MISSING if no process has used a virtual GPU yet, or there is no such device. GW_IO, GW_CORRUPT: `err` has
 * the reason. */
GW_MUST_CHECK gw_status gw_virt_state_lose(const char *folder, unsigned device, gw_error *err);

#endif
