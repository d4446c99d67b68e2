/* Reads values from /proc, /sys and local file systems. Every path is prefixed with `root` ("" for the real machine),
 * so that tests can use a made-up tree. No function here blocks: the sampler process reads the file systems that may
 * hang. */
#ifndef GWI_HOST_H
#define GWI_HOST_H

#include "gwi_values.h"

#include <limits.h>
#include <sys/types.h>

/* ---- control groups (cgroup.c) ---- */

/* Path of a process's control group for one controller. In version 1 each controller has its own tree. */
typedef struct gwi_cgroup_part {
    char path[PATH_MAX]; /* "": none */
    size_t top_bytes;    /* length of the mount point at the start of `path`: no limit above it is visible */
    bool is_v2;
} gwi_cgroup_part;
typedef struct gwi_cgroup {
    gwi_cgroup_part memory, cpu, pids;
    int why; /* errno if the group was not found */
} gwi_cgroup;

/* Find the control group of process `pid`. If a part is not found, gwi_cgroup_read() stores its values as missing. */
void gwi_cgroup_find(gwi_cgroup *group, const char *root, pid_t pid);
/* Read limits, use and pressure of the group into `values`. */
void gwi_cgroup_read(const gwi_cgroup *group, gwi_values *values);
/* Read only the number of processes of the group that the kernel killed for lack of memory. Returns false if the number
 * is unknown. */
bool gwi_cgroup_oom_kills(const gwi_cgroup *group, uint64_t *ret_count);

/* ---- the machine and its processes (host.c) ---- */

/* Read memory, OOM kills, load, processors and /dev/shm of the machine into `values`. */
void gwi_host_read(const char *root, gwi_values *values);
/* Read memory, open files and the time spent waiting for a processor. Returns false if the process no longer exists. */
bool gwi_process_read(const char *root, pid_t pid, gwi_values *values);
/* True if this process sees the kernel's own pids and not those of another pid namespace. */
bool gwi_host_counts_pids(const char *root);

/* Call `each` with the pid of every process that has a card's device file (/dev/nvidia0, ...) open, whether NVML lists
 * the process or not. Processes of other users are found only if their open files may be read. */
void gwi_host_device_users(const char *root, void (*each)(void *user, uint32_t pid), void *user);

/* ---- small files ---- */

/* Read the beginning of a file as a string. Returns its length, or -1 with the errno in *ret_why. */
ssize_t gwi_read_text(char *out, size_t room, int *ret_why, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Read the number after `key` and a blank at the beginning of a line. Returns false if there is none. */
bool gwi_text_number(const char *text, const char *key, uint64_t *ret_number);

#endif
