/* What /proc, /sys and the file systems of this machine say. `root` stands before every path ("" for the machine
 * itself), so that tests can make trees up. Nothing here waits: file systems that may hang are the sampler's. */
#ifndef GWI_HOST_H
#define GWI_HOST_H

#include "gwi_values.h"

#include <limits.h>
#include <sys/types.h>

/* ---- control groups (cgroup.c) ---- */

/* Where the files of a process's control group are, by part; of version 1 each part has its own tree. */
typedef struct gwi_cgroup_part {
    char path[PATH_MAX]; /* "": none */
    size_t top_bytes;    /* of it, the mount point: limits hold from there down */
    bool is_v2;
} gwi_cgroup_part;
typedef struct gwi_cgroup {
    gwi_cgroup_part memory, cpu, pids;
    int why; /* errno, where nothing was found */
} gwi_cgroup;

/* The group of process `pid`; what is not found is told as missing by the readers. */
void gwi_cgroup_find(gwi_cgroup *group, const char *root, pid_t pid);
void gwi_cgroup_read(const gwi_cgroup *group, gwi_values *values);
/* Only how many processes of the group were killed for lack of memory. False: not known. */
bool gwi_cgroup_oom_kills(const gwi_cgroup *group, uint64_t *ret_count);

/* ---- the machine and its processes (host.c) ---- */

void gwi_host_read(const char *root, gwi_values *values);
/* False: the process is gone. `whole`: also what rarely changes. */
bool gwi_process_read(const char *root, pid_t pid, gwi_values *values);
/* Does this process number processes as the kernel itself does? */
bool gwi_host_counts_pids(const char *root);

/* Processes that have a card's device file open (/dev/nvidia0, ...), whatever NVML shows of them: `each` gets the pid.
 * Those of other users are seen with their rights alone. */
void gwi_host_device_users(const char *root, void (*each)(void *user, uint32_t pid), void *user);

/* ---- small files ---- */

/* The file's first bytes as a string. Returns how many; -1: none, *ret_why is the errno. */
ssize_t gwi_read_text(char *out, size_t room, int *ret_why, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The number behind "key " at the beginning of a line. */
bool gwi_text_number(const char *text, const char *key, uint64_t *ret_number);

#endif
