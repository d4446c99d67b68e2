/* Reads a process of this machine from outside, whether gpuwhy started it or not: what it is, what its threads do, and
 * what has changed in a short time. Nothing is changed in the process; gw_stacks.h says how its threads are read.
 *
 * The order of calls: gw_outside_begin() for each process, a pause, gw_outside_end() for each, gw_sites_resolve(), and
 * then gw_outside_group(). Everything that /proc does not let this user read is unknown, and `refused` says why.
 *
 * Sources: proc(5), ptrace(2), and Documentation/admin-guide/LSM/Yama.rst of the Linux kernel. Use one thread. */
#ifndef GW_OUTSIDE_H
#define GW_OUTSIDE_H

#include "gw_sites.h"
#include "gw_stacks.h"
#include "gw_text.h"

enum { GW_OUTSIDE_OUTPUTS_MAX = 8, GW_OUTSIDE_CARDS_MAX = 16, GW_OUTSIDE_PROCESSES_MAX = 512 };

/* A file to which the process writes. */
typedef struct gw_outside_output {
    int fd;
    char path[256];
    bool is_file; /* false: a terminal, a pipe or a socket, of which only the name is known */
    uint64_t device, inode;
    uint64_t bytes, grew_bytes;  /* its size, and by how much it has grown since gw_outside_begin() */
    uint64_t written_realtime_s; /* time of the last change */
} gw_outside_output;

/* What was counted until now; all but the queues are sums since the start of the process. */
typedef struct gw_outside_sample {
    uint64_t t_ns; /* of the monotonic clock */
    bool cpu_known, io_known;
    uint64_t cpu_ms;
    uint64_t read_bytes, written_bytes; /* by system calls: files, pipes, terminals, sockets */
} gw_outside_sample;

/* The TCP connections of the process. */
typedef struct gw_outside_network {
    bool is_known;
    unsigned connections;
    uint64_t unread_bytes, unsent_bytes; /* in the queues of the kernel */
    char peer[64];                       /* the other end of the connection with the longest queue; "": no queue */
} gw_outside_network;

typedef struct gw_outside_card {
    uint32_t index;           /* NVML's */
    uint64_t bytes;           /* UINT64_MAX: unknown */
    uint64_t busy_realtime_s; /* when NVML last saw the process use the card; 0: not in the samples that NVML has */
} gw_outside_card;

typedef struct gw_outside_thread {
    const gw_stack_thread *is; /* belongs to `threads` */
    uint32_t site;             /* number of its stack in the gw_sites; 0: unknown */
    uint64_t cpu_ms;           /* since gw_outside_begin() */
    char target[320];          /* the file or process that it waits for; "": unknown */
    char gpu_call[80];         /* the function of CUDA that it is in, or "the CUDA driver"; "": none */
    char pool[64];             /* idle: whose thread it is, such as "OpenBLAS"; "": it is not idle, or not known */
    size_t group;              /* index of the first thread that does the same at the same place */
    size_t group_count;        /* of that thread: how many they are; of the others: 0 */
} gw_outside_thread;

typedef enum gw_outside_gpu { GW_OUTSIDE_GPU_UNKNOWN, GW_OUTSIDE_GPU_NONE, GW_OUTSIDE_GPU_USED } gw_outside_gpu;

typedef struct gw_outside {
    uint32_t pid, parent;
    char state; /* as in /proc */
    char name[32];
    gw_text command, user; /* "": unknown */
    uint64_t start_realtime_ns;
    int rank, rank_count; /* from the variables of launchers; -1: none, or unknown */
    uint32_t tracer;      /* a debugger that traces the process; 0: none */
    char tracer_name[32];
    char refused[256]; /* why its memory and its threads cannot be read; "": they can */
    char allow[256];   /* what an administrator could do about it */
    bool is_init;      /* the first process of the machine: its threads are never stopped */
    gw_outside_sample before, after;
    gw_outside_output output[GW_OUTSIDE_OUTPUTS_MAX];
    size_t output_count;
    gw_outside_network network;
    gw_outside_gpu gpu;
    gw_outside_card card[GW_OUTSIDE_CARDS_MAX];
    size_t card_count;
    char no_cards[160];        /* why NVML's data is missing; "": it is not */
    bool is_ended;             /* it ended between the calls */
    gw_stack_process *earlier; /* owned; the threads at gw_outside_begin(), without stacks; NULL: not read */
    gw_stack_process *threads; /* owned; NULL: not read */
    gw_text signature;         /* what the main thread does and where; processes with equal texts do the same */
    gw_outside_thread *thread; /* owned; as many as `threads` has */
} gw_outside;

/* Find out whether the process can be inspected. GW_OK: it is a program. GW_MISSING: there is no such process.
 * GW_UNSUPPORTED: it is a zombie, a thread of the kernel, or gpuwhy itself. `err` has one line for the user. */
GW_MUST_CHECK gw_status gw_outside_check(uint32_t pid, gw_error *err);

/* Read what the process is, and take the first sample. On GW_OK, free *ret_process with gw_outside_free(). Errors are
 * those of gw_outside_check(), and GW_NOMEM. */
GW_MUST_CHECK gw_status gw_outside_begin(uint32_t pid, gw_outside **ret_process, gw_error *err);

/* Take the second sample, and read the threads. Their stacks are added to `sites`, whose names are looked up later.
 * `sites_told` and `codes_told` count the ids that were given, and are 0 for the first process. If the process has
 * ended meanwhile, only is_ended is set. GW_OK or GW_NOMEM. */
GW_MUST_CHECK gw_status gw_outside_end(gw_outside *process, gw_sites *sites, uint32_t *sites_told, uint32_t *codes_told,
                                       gw_error *err);
/* Ask NVML which cards the processes use, if one of them uses a GPU. May wait 2 s if NVML hangs. */
void gw_outside_cards(gw_outside *const *process, size_t count);

/* Find threads that do the same at the same place, idle threads of libraries, and calls of CUDA. `sites` must have its
 * names. GW_OK or GW_NOMEM. */
GW_MUST_CHECK gw_status gw_outside_group(gw_outside *process, gw_sites *sites, gw_error *err);
/* Return the thread that holds the lock for which `thread` waits, or that must end first. NULL: none is known. */
const gw_outside_thread *gw_outside_owner(const gw_outside *process, const gw_outside_thread *thread);
/* True if the thread waits, through locks and ends of other threads, for itself, and did so at gw_outside_begin(). */
bool gw_outside_is_deadlocked(const gw_outside *process, const gw_outside_thread *thread);
void gw_outside_free(gw_outside *process); /* takes NULL */

/* List a process and all its descendants, parents first. Stores at most `room` pids, and returns their number. Kernel
 * threads, zombies and gpuwhy itself are included. */
size_t gw_outside_tree(uint32_t pid, uint32_t *ret_pid, size_t room);

/* ---- why a process cannot be read ---- */

/* What decides whether the kernel permits reading another process. */
typedef struct gw_outside_rights {
    bool same_user;          /* all user and group ids of the process are those of gpuwhy */
    bool may_trace;          /* gpuwhy has the capability CAP_SYS_PTRACE */
    bool is_dumpable;        /* false: setuid, file capabilities, or prctl(PR_SET_DUMPABLE) */
    bool calls_are_filtered; /* a seccomp filter of gpuwhy's own container forbids the system calls */
    int yama_scope;          /* /proc/sys/kernel/yama/ptrace_scope; -1: the kernel has no Yama */
    const char *user;        /* the owner of the process */
} gw_outside_rights;

/* Format why it was refused and what an administrator could allow, as one sentence each. */
void gw_outside_refusal(const gw_outside_rights *rights, char refused[256], char allow[256]);

#endif
