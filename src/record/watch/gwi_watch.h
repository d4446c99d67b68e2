/* Internal parts of the collector. */
#ifndef GWI_WATCH_H
#define GWI_WATCH_H

#include "gw_text.h"
#include "gw_watch.h"

/* ---- sources of cards (sources.c) ---- */

enum { GWI_SOURCES_MAX = 8 };

/* The cards of this machine, or the virtual cards of a run. */
typedef struct gwi_source {
    gw_room *room;                      /* owned; NULL: not started */
    char folder[PATH_MAX];              /* of the virtual cards; "": real cards */
    char environment[2][PATH_MAX + 32]; /* for the virtual NVML */
    const char *names[3];
    char nvml[PATH_MAX];
    unsigned failures;
    bool is_asked; /* a first read was tried */
    bool has_read; /* the last one succeeded */
    bool is_used;  /* in this look */
} gwi_source;

typedef struct gwi_sources {
    gwi_source *source[GWI_SOURCES_MAX]; /* owned; 0: this machine; NULL: free */
} gwi_sources;

/* Return the source of the virtual cards in `folder`, started if necessary; -1 if there are too many. */
int gwi_sources_virtual(gwi_sources *sources, const char *cards, const char *folder);
/* Start source 0. */
GW_MUST_CHECK gw_status gwi_sources_open(gwi_sources *sources, gw_error *err);
/* Read all sources that are used and close the others. Appends their cards to the snapshot. */
GW_MUST_CHECK gw_status gwi_sources_read(gwi_sources *sources, gw_watch_snapshot *snapshot, size_t *card_room,
                                         gw_error *err);
/* True if the pids that NVML reports for this source's cards are pids of our namespace. */
bool gwi_sources_pids_are_ours(const gwi_sources *sources, unsigned source);
void gwi_sources_close(gwi_sources *sources);

/* ---- how a process was started (origin.c) ---- */

/* Append how the process was started: "notebook", "tmux", "Slurm job 17", "systemd unit x.service", "orphan". Appends
 * nothing if it is not known. `root`: a folder with proc, for tests; "": the real one. */
void gwi_origin_add(gw_text *text, const char *root, uint32_t pid);

/* ---- judgement (judge.c) ---- */

/* The newest values of what the driver holds for a run on a device, beyond its allocations. */
enum { GWI_OUTSIDE_MAX = 5 };
typedef struct gwi_outside {
    uint32_t supervisor_pid; /* 0: free */
    unsigned device;
    uint64_t bytes[GWI_OUTSIDE_MAX];
    size_t count;
    bool is_used;
} gwi_outside;

/* When processes were first seen and were last seen at work. */
typedef struct gwi_seen {
    uint32_t pid; /* 0: free */
    int source;
    uint32_t card;
    uint64_t since_ns, busy_ns; /* CLOCK_REALTIME; busy_ns 0: never */
    bool is_used;
} gwi_seen;

/* The frameworks that processes have mapped. */
typedef struct gwi_mapped {
    uint32_t pid;        /* 0: free */
    uint64_t checked_ns; /* CLOCK_MONOTONIC; 0: never */
    unsigned frameworks;
    bool is_known, is_used;
} gwi_mapped;

enum { GWI_OUTSIDES_MAX = 256, GWI_SEEN_MAX = 1024 };
typedef struct gwi_history {
    gwi_outside outside[GWI_OUTSIDES_MAX];
    gwi_seen seen[GWI_SEEN_MAX];
    gwi_mapped mapped[GWI_SEEN_MAX];
} gwi_history;

/* True if the process exists and may be a part of a run of `owner`. The runs of root may consist of processes of other
 * users, and root may claim anything. */
bool gwi_is_process_of(uid_t owner, uint32_t pid);
/* Remove the pids that do not belong to `owner` from the state of a run: its file is not to be trusted. */
void gwi_run_confine(gw_live *live, uid_t owner);
/* Fill in blind_pid and is_unseen. Looks at a process at most every 10 s (blind.c). */
void gwi_run_look_blind(gw_watch_run *run, gwi_history *history, uint64_t now_ns);

/* Fill in what follows from the values that were read: which card each device of a run is, which run each process
 * belongs to, what runs need, when processes were idle, and alarms. */
void gwi_snapshot_judge(gw_watch_snapshot *snapshot, gwi_history *history);

#endif
