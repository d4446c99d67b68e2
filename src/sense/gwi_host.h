/* Reads values from /proc, /sys and local file systems. Every path is prefixed with `root` ("" for the real
 * machine), so that tests can use a made-up tree. No function here blocks: file systems that may hang are read by
 * the sampler process. */
#ifndef GWI_HOST_H
#define GWI_HOST_H

#include "gwi_values.h"

#include <limits.h>
#include <sys/types.h>

/* ---- control groups (cgroup.c) ---- */

/* Location of a process's control group for one controller. In version 1 each controller has its own tree. */
typedef struct gwi_cgroup_part {
    char path[PATH_MAX]; /* "": none */
    size_t top_bytes;    /* length of the mount point within `path`: limits apply from there down */
    bool is_v2;
} gwi_cgroup_part;
typedef struct gwi_cgroup {
    gwi_cgroup_part memory, cpu, pids;
    int why; /* errno if no group was found */
} gwi_cgroup;

/* Find the control group of process `pid`. For parts that are not found, gwi_cgroup_read() stores the values as
 * missing. */
void gwi_cgroup_find(gwi_cgroup *group, const char *root, pid_t pid);
/* Read limits, use and pressure of the group into `values`. */
void gwi_cgroup_read(const gwi_cgroup *group, gwi_values *values);
/* Read only the number of processes of the group that were killed for lack of memory. Returns false if it is
 * unknown. */
bool gwi_cgroup_oom_kills(const gwi_cgroup *group, uint64_t *ret_count);

/* ---- the machine and its processes (host.c) ---- */

/* Read memory, OOM kills, load, processors and /dev/shm of the machine into `values`. */
void gwi_host_read(const char *root, gwi_values *values);
/* Returns false if the process no longer exists. */
bool gwi_process_read(const char *root, pid_t pid, gwi_values *values);
/* Returns true if this process sees the kernel's own pids and not those of a pid namespace. */
bool gwi_host_counts_pids(const char *root);

/* Call `each` with the pid of every process that has a card's device file open (/dev/nvidia0, ...), regardless of
 * what NVML lists. Processes of other users are found only with their permissions. */
void gwi_host_device_users(const char *root, void (*each)(void *user, uint32_t pid), void *user);

/* ---- small files ---- */

/* Read the beginning of a file as a string. Returns its length, or -1 with the errno in *ret_why. */
ssize_t gwi_read_text(char *out, size_t room, int *ret_why, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Read the number after "key " at the beginning of a line. */
bool gwi_text_number(const char *text, const char *key, uint64_t *ret_number);

#endif
