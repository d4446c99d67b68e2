/* Detects a job whose ranks all stand still, whether or not they use the GPU. Ranks that wait in gloo or MPI make no
 * driver call, so gw_hang_watch.h does not see them. Everything here is read from /proc, from the kernel's list of
 * sockets and from memory that ranks of MPI share; only gwi_call_of_mpi() stops threads. Linux only. Call all functions
 * from one thread. */
#ifndef GWI_STILL_H
#define GWI_STILL_H

#include "gw_status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { GWI_FAMILY_MAX = 512 };

/* The command and its descendants, parents before their children (watch.c). */
typedef struct gwi_family {
    pid_t pid[GWI_FAMILY_MAX];
    pid_t parent[GWI_FAMILY_MAX]; /* 0 for the command, whose parent is the supervisor */
    size_t count;
} gwi_family;
void gwi_family_find(gwi_family *family, pid_t command);

/* ---- sockets (sockets.c) ---- */

/* One end of a TCP connection, as in the kernel's network byte order. IPv4 addresses are in their IPv6 form. */
typedef struct gwi_socket_end {
    uint8_t address[16];
    uint16_t port;
} gwi_socket_end;

typedef struct gwi_socket {
    uint32_t inode, user;
    bool is_listening;
    gwi_socket_end local, remote;
    uint64_t bytes; /* sent and acknowledged, plus received */
} gwi_socket;

typedef struct gwi_sockets {
    gwi_socket *item; /* owned */
    size_t count, capacity;
} gwi_sockets;

/* List the TCP sockets of this network namespace that listen or are connected. Returns false if the kernel does not
 * list all of them with their byte counts; the list is then empty. Free it with gwi_sockets_free() after either. */
bool gwi_sockets_read(gwi_sockets *ret_sockets);
void gwi_sockets_free(gwi_sockets *sockets);
/* Return the socket of an open file by what /proc/PID/fd/FD links to: "socket:[123]". NULL: it is none of the list. */
const gwi_socket *gwi_socket_at(const gwi_sockets *sockets, const char *target);
/* Return the socket that the process has open as descriptor `fd`, or NULL. */
const gwi_socket *gwi_socket_of(const gwi_sockets *sockets, pid_t pid, int fd);
/* Compare two sockets for qsort(): those that listen come first, then by local port, local address and remote end. */
int gwi_sockets_compare(const gwi_socket *one, const gwi_socket *other);

/* ---- ranks that poll (polling.c) ---- */

enum { GWI_SEGMENTS_MAX = 64 };

/* The memory that a rank of MPI shares with other processes. */
typedef struct gwi_shared {
    bool has_mpi;  /* the process has loaded MPI; if not, nothing else is set */
    bool is_known; /* all of it could be read, and none is of a network card */
    uint64_t hash; /* of its contents, without what was read from another rank; every message changes it */
    uint64_t segment[GWI_SEGMENTS_MAX]; /* identities of the larger pieces */
    size_t segment_count;
} gwi_shared;

/* The pages that one look has read from any rank. Ranks share most of them, so each is read once. All 0 before a look.
 */
enum { GWI_PAGES_MAX = 1 << 14, GWI_PAGE_SLOTS = 2 * GWI_PAGES_MAX }; /* 64 MiB */
typedef struct gwi_pages {
    size_t count;
    uint64_t slot[GWI_PAGE_SLOTS]; /* identities; 0: unused */
} gwi_pages;

/* Read the shared memory of a rank, except for pages in `pages`, and add what was read there. With more than
 * GWI_PAGES_MAX pages, the memory of the rank is not known. */
void gwi_shared_read(pid_t pid, gwi_pages *pages, gwi_shared *ret_shared);
/* True if the two processes share a piece of memory. */
bool gwi_shared_is_linked(const gwi_shared *one, const gwi_shared *other);
/* If the thread is inside MPI, return a hash of where the program made this call; else 0. A thread that MPI has started
 * counts, too, but the main thread only inside a function of MPI itself. Each thread is stopped for a moment, as in
 * gw_stacks.h. */
uint64_t gwi_call_of_mpi(pid_t pid, uint32_t tid);

/* ---- the job (still_job.c) ---- */

typedef struct gwi_still_process {
    pid_t pid, parent;
    uint64_t start_ticks; /* the pid may be reused */
    uint64_t exe_hash;    /* exec() may change the environment */
    bool has_rank, seen;
    uint32_t rank, of;
    uint64_t cpu_ms;         /* when the job last made progress */
    uint64_t meeting_cpu_ms; /* when gwi_meeting last moved */
    uint64_t position;       /* of its main thread in the last look of gwi_still_ranks(); equal: it has not moved */
    gwi_shared shared;
} gwi_still_process;

/* What the ranks have done while they may wait for all ranks to come (meeting.c). */
typedef struct gwi_meeting {
    uint64_t since_ns; /* nothing has moved since then; 0: not known yet */
    uint64_t outside_bytes, processes;
    uint64_t io_bytes; /* of ranks that serve nothing: read() and write() */
    uint64_t server_io_bytes,
        served_bytes; /* of ranks that serve, and those of them that are answers to the run's ranks */
    uint64_t members; /* changes if a rank is started or ends */
    bool is_known, is_busy, is_meeting, told; /* is_busy: a rank used more than a tenth of a processor */
    unsigned told_count;
    uint64_t told_at_ns;
} gwi_meeting;

/* An open socket of a process of the run. */
typedef struct gwi_owned {
    const gwi_socket *socket;
    const gwi_still_process *process;
    uint32_t rank; /* UINT32_MAX: it is not of a rank's own program */
} gwi_owned;

/* The sockets of all processes of the run, as one look found them. */
typedef struct gwi_owners {
    gwi_sockets sockets;
    gwi_owned *item; /* owned; by gwi_sockets_compare(), then in the order of the processes */
    size_t count, capacity;
    bool is_known; /* false: a process could not be read */
} gwi_owners;

typedef struct gwi_still_job {
    gwi_still_process *process; /* owned; GWI_FAMILY_MAX; NULL: not used yet */
    size_t process_count;
    uint64_t looked_at_ns;
    uint64_t since_ns; /* the job has stood still since then; 0: it has not */
    /* sums over the processes of the ranks; `is_known` false: some could not be read */
    uint64_t cpu_ms, io_bytes, socket_bytes, shared_hash;
    bool has_mpi; /* ranks poll, so processor time is no progress */
    bool is_known, told;
    uint64_t next_ns;  /* run time before which gwi_still_ranks() does not stop a rank again */
    bool is_undecided; /* the last hang that was told was judged to be none: look again at next_ns */
    unsigned told_count;
    bool stood; /* gwi_still_ranks() has found the hang once; the next look must find it again */
    gwi_meeting meeting;
    gwi_owners owners; /* of the last look; not known if no process has a rank */
    gwi_pages *pages;  /* owned; NULL: not used yet */
} gwi_still_job;

/* Return the first owner of the other end of a connection. NULL: it is not of this run. */
const gwi_owned *gwi_owner_of_peer(const gwi_owners *owners, const gwi_socket *socket);
/* Return the first owner of a socket that listens on the port, or that is connected with it as the local port. NULL:
 * there is none. */
const gwi_owned *gwi_owner_of_port(const gwi_owners *owners, uint16_t port, bool is_listening);

/* A rank of a job that stands still. */
typedef struct gwi_still_rank {
    pid_t pid;
    uint32_t rank, of;
    uint64_t cpu_ms; /* processor time of the process when the job last made progress */
} gwi_still_rank;

enum { GWI_STILL_RANKS_MAX = 64 };

/* Look at the processes below `command`. `now_ns`: run time. `driver_ns`: run time at which a process of the run last
 * made progress in the driver. Returns true if the job makes progress again after a hang that was told. */
bool gwi_still_look(gwi_still_job *job, pid_t command, uint64_t now_ns, uint64_t driver_ns);
/* Return the ranks if the job has stood still for `after_ns`, and two looks in a row show that this can only be a hang
 * or a very long pause:
 * - all ranks of the job run here, and two of them are connected with each other or share memory for messages
 * - none of them waits for somebody outside of the job: it has no connection with others, nobody else could connect to
 *   it, and its main thread does not wait for other input
 * - the main thread of one of them waits for a lock or for another rank; a thread that runs waits only if it is inside
 *   the same call of MPI in both looks.
 * Returns their number; 0 if not, or if any of it is unknown. */
size_t gwi_still_ranks(gwi_still_job *job, uint64_t now_ns, uint64_t after_ns,
                       gwi_still_rank ret_rank[GWI_STILL_RANKS_MAX]);
/* List the ranks of the job that run here, in the order of the processes. Returns their number; 0: none, too many, or
 * several jobs. */
size_t gwi_still_list(const gwi_still_job *job, gwi_still_rank ret_rank[GWI_STILL_RANKS_MAX]);

/* ---- ranks that wait for all to come (meeting.c) ---- */

/* Call it after gwi_still_look(). Returns true if something moves again after a wait that was told. */
bool gwi_meeting_look(gwi_still_job *job, uint64_t now_ns, uint64_t driver_ns);
/* Return the ranks that run here if nothing has moved for `after_ns`; 0 if not. They need not be all ranks of the job.
 */
size_t gwi_meeting_ranks(const gwi_still_job *job, uint64_t now_ns, uint64_t after_ns,
                         gwi_still_rank ret_rank[GWI_STILL_RANKS_MAX]);

/* True if the process still exists, and not another one with its pid. */
bool gwi_still_is_there(const gwi_still_process *process);
void gwi_still_free(gwi_still_job *job);

#endif
