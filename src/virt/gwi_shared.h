/* The cards' state that the processes of a run share: who holds how much of which card.
 *
 * One mapped file with a robust mutex; without a folder, private memory of this process. A process that is
 * gone (also a zombie) holds nothing: its bytes return to the card when somebody asks. Fields are plain
 * integers, so that another program of ours may read the file: see gw_virt_state.h. */
#ifndef GWI_SHARED_H
#define GWI_SHARED_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "gw_virt_spec.h"

enum { GWI_SHARED_PROCESSES = 512, GWI_SHARED_VERSION = 1 };
#define GWI_SHARED_MAGIC 0x3144524143575047u /* "GPWCARD1" */
#define GWI_SHARED_NAME  "cards.state"

typedef struct gwi_shared_process {
    uint64_t start_ticks; /* of /proc/PID/stat: a pid alone may be used again */
    int32_t pid;          /* 0: a free slot */
    uint32_t reserved;
    uint64_t used_bytes[GW_VIRT_DEVICES_MAX];
} gwi_shared_process;

typedef struct gwi_shared {
    uint64_t magic; /* written last */
    uint32_t version;
    uint32_t device_count;
    pthread_mutex_t lock;
    uint64_t total_bytes[GW_VIRT_DEVICES_MAX];
    uint64_t used_bytes[GW_VIRT_DEVICES_MAX];
    gwi_shared_process processes[GWI_SHARED_PROCESSES];
} gwi_shared;

/* Map the state of `folder` (NULL: private state). False: it cannot be had. *ret_slot is this process's entry. */
bool gwi_shared_open(const char *folder, const gw_virt_spec *spec, gwi_shared **ret_shared, unsigned *ret_slot);
/* Take bytes of a card for the process in `slot`; looks for dead processes before it says no. */
bool gwi_shared_take(gwi_shared *shared, unsigned slot, unsigned device, uint64_t bytes);
void gwi_shared_give(gwi_shared *shared, unsigned slot, unsigned device, uint64_t bytes);
uint64_t gwi_shared_free_bytes(gwi_shared *shared, unsigned device);
/* 0 where the process is gone or unknown. */
uint64_t gwi_process_start_ticks(int pid);

#endif
