/* Reads values from /proc, /sys and local file systems, under `root` in tests ("" for the real machine). No function
 * here blocks: only the sampler process (gwi_sampler.h) reads file systems that may hang. */
#ifndef GWI_HOST_H
#define GWI_HOST_H

#include "gw_metrics.h"
#include <stdbool.h>
#include <stddef.h>

#include <limits.h>
#include <sys/types.h>

/* Stores the last values of one object (a card, the machine, a process), so that only changed values are recorded. */

typedef struct gwi_values {                 /* {0}: no value was stored yet */
    gw_sample_value value[GW_METRIC_COUNT]; /* indexed by metric */
    bool has[GW_METRIC_COUNT], changed[GW_METRIC_COUNT];
    bool told;
    uint64_t whole_at_ns;
} gwi_values;

/* Store a metric's state and value. If they differ from the stored ones, mark the metric as changed. */
void gwi_values_keep(gwi_values *values, gw_metric metric, gw_sample_state state, uint64_t value);
/* Store a number. If it is unknown, store the state that corresponds to the errno `why` instead. */
void gwi_values_number(gwi_values *values, gw_metric metric, bool is_known, uint64_t number, int why);
/* Collect the values to record now, and return their number. These are the changed values, or all values if `whole`, at
 * the first call, or when a full sample is due. *ret_whole is true if they are all values. */
uint32_t gwi_values_take(gwi_values *values, uint64_t now_ns, bool whole, gw_sample_value ret_value[GW_METRIC_COUNT],
                         bool *ret_whole);

/* ---- control groups (cgroup.c) ---- */

/* The control group of a process for one controller, such as memory. In version 1, each controller has its own tree of
 * groups. */
typedef struct gwi_cgroup_part {
    char path[PATH_MAX]; /* folder of the group; "": not found */
    size_t top_bytes;    /* length of the mount point at the start of `path`; groups above it are not visible */
    bool is_v2;
} gwi_cgroup_part;
typedef struct gwi_cgroup {
    gwi_cgroup_part memory, cpu, pids;
    int why; /* errno if the group was not found */
} gwi_cgroup;

/* Find the control group of process `pid`. Values of a controller without a group are stored as "not supported". */
void gwi_cgroup_find(gwi_cgroup *group, const char *root, pid_t pid);
/* Read limits, use and pressure of the group into `values`. */
void gwi_cgroup_read(const gwi_cgroup *group, gwi_values *values);
/* Store in *ret_count how many processes of the group the kernel has killed for lack of memory. Returns false if the
 * number is unknown. */
bool gwi_cgroup_oom_kills(const gwi_cgroup *group, uint64_t *ret_count);
/* Store in *ret_count how many processes of the group, or of one of its visible parents, systemd-oomd has killed: the
 * largest number, from the extended attribute user.oomd_kill that it sets. Returns false if the number is unknown. */
bool gwi_cgroup_oomd_kills(const gwi_cgroup *group, uint64_t *ret_count);

/* ---- the machine and its processes (host.c) ---- */

/* Read the machine's memory, OOM kills and load, the number of processors that we may use, and the size of /dev/shm. */
void gwi_host_read(const char *root, gwi_values *values);
/* Read the memory of process `pid`, its open files, and the time that it has waited for a processor. Returns false if
 * the process has ended. */
bool gwi_process_read(const char *root, pid_t pid, gwi_values *values);
/* True if this process is in the kernel's initial pid namespace. The pids in the kernel's log are then the same as
 * ours. */
bool gwi_host_counts_pids(const char *root);

/* Call `each` with the pid of every process that has a card's device file (/dev/nvidia0, ...) open, even if NVML does
 * not list it. Other users' processes may be missing. */
void gwi_host_device_users(const char *root, void (*each)(void *user, uint32_t pid), void *user);

/* ---- small files ---- */

/* Read the number after `key` and a blank at the beginning of a line of `text`. Returns false if there is none. */
bool gwi_text_number(const char *text, const char *key, uint64_t *ret_number);

#endif
