/* Functions shared by the files of this folder. */
#ifndef GWI_OUTSIDE_H
#define GWI_OUTSIDE_H

#include "gw_outside.h"

/* The fields of /proc/PID/status and /proc/PID/stat that are needed here. */
typedef struct gwi_identity {
    uint32_t pid, group_pid, parent, tracer; /* group_pid: the process, if `pid` is one of its threads */
    uint32_t uid[4], gid[4];                 /* real, effective, saved, file system */
    char state, name[32];
    bool is_kernel;
    uint64_t cpu_ms, start_realtime_ns;
} gwi_identity;

/* Returns false if there is no such process. */
bool gwi_identity_read(uint32_t pid, gwi_identity *ret);
/* Set process->refused and process->allow if the process cannot be read. */
void gwi_refusal_find(const gwi_identity *is, gw_outside *process);

/* progress.c */
void gwi_sample_take(uint32_t pid, gw_outside_sample *ret);
void gwi_outputs_find(gw_outside *process);
void gwi_outputs_compare(gw_outside *process);
void gwi_network_read(gw_outside *process);
/* Find out what a file of the process is: its path, or the ends of its connection. */
void gwi_file_text(uint32_t pid, int fd, char *out, size_t room);

#endif
