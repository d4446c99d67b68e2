/* The recording: `.gpuwhy` files, how they are written, read and checked, and how live buffers are drained.
 * docs/recording-format.md is the grammar. What was written stays readable for ever.
 *
 * Times are ns since the run began (CLOCK_MONOTONIC at the supervisor's start = 0); realtime is given once.
 * One writer, one thread; one reader, one thread. */
#ifndef GW_RECORDING_H
#define GW_RECORDING_H

#include "gw_buffer.h"
#include "gw_event.h"
#include "gw_machine.h"
#include "gw_site.h"
#include "gw_status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- what a recording holds, item by item ---- */

typedef enum gw_item_kind {
    GW_ITEM_META,       /* one key and value: "version", "argv", "cwd", "host", "option.memory", "env.X", ... */
    GW_ITEM_PROCESS,    /* a process whose driver calls were recorded, when its buffer was first seen */
    GW_ITEM_EVENT,      /* in order of time over all threads and processes */
    GW_ITEM_COUNTERS,   /* a thread's counters at an instant: each supersedes the last of that thread */
    GW_ITEM_RING,       /* a thread's ring at an instant: oldest first; each supersedes the last */
    GW_ITEM_LOST,       /* events lost in a process so far */
    GW_ITEM_STDERR,     /* bytes of stderr, in order; the tail is kept, the start may be missing */
    GW_ITEM_EXIT,       /* a process ended (pid known), or the run itself (pid of the command) */
    GW_ITEM_MAPS,       /* a mapped file of a process: path, build id or "" */
    GW_ITEM_SUPERVISOR, /* facts the supervisor found: key, value (e.g. "unobserved.driver") */
    GW_ITEM_TRUNCATED,  /* the recording ends here without its END block: machine or supervisor died */
    GW_ITEM_SYMBOL,     /* what lies at an address of a mapped file: names outlive the machine that the file is on */
    GW_ITEM_SAMPLE,     /* values of machine or card at an instant; those that did not change may be missing */
    GW_ITEM_MACHINE,    /* something happened to machine or card */
    GW_ITEM_DRAINED,    /* from the drain to the writer only: how far the buffers were read. Never read back */
    GW_ITEM_COUNT
} gw_item_kind;

typedef struct gw_event {
    uint64_t t_ns;
    uint32_t pid;
    uint32_t tid;
    uint16_t fn;  /* index into the recording's own dictionary: gw_reader_fn_name() */
    uint8_t kind; /* gw_event_kind; GW_EV_CALL for kinds newer than this build */
    uint8_t flags;
    uint16_t result;
    uint16_t took_us;
    uint32_t site;
    uint32_t extra;
    uint64_t context;
    uint64_t arg[4];
    const char *text; /* joined TEXT records; NULL: none. Borrowed from the reader until the next call */
    uint32_t text_bytes;
} gw_event;

typedef struct gw_hot_call { /* one decoded ring entry */
    uint64_t t_ns;
    uint64_t what;
    uint64_t stream;
    uint16_t fn;
} gw_hot_call;

typedef struct gw_exit_fact {
    uint32_t pid;
    bool is_command;   /* the process that `run` started */
    bool status_known; /* false: it ended, nobody could read how */
    int exit_code;     /* -1 when it died of a signal */
    int signal;        /* 0: none */
    bool core_dumped;
} gw_exit_fact;

typedef struct gw_drained_mark { /* the records of this chunk up to here are with the writer */
    uint64_t sequence;
    uint32_t bytes;
} gw_drained_mark;

typedef struct gw_item {
    gw_item_kind kind;
    uint64_t t_ns;
    uint32_t pid, tid;
    union {
        gw_event event;
        struct {
            const char *key, *value;
        } pair; /* META, SUPERVISOR, MAPS (key = path) */
        struct {
            uint32_t parent_pid;
            uint64_t start_realtime_ns;
            const char *exe, *driver_path, *driver_build_id;
        } process;
        struct {
            const uint64_t *counter;
            uint64_t calls, synced_at_ns, inside_since_ns;
            uint16_t inside_fn_plus_1;
            const char *thread_name;
        } counters;
        struct {
            const gw_hot_call *call;
            uint32_t count;
            uint64_t total;
            uint64_t synced_total;
        } ring;
        struct {
            uint64_t events, failures, threads;
        } lost;
        struct {
            const char *bytes;
            uint32_t count;
        } stderr_part;
        gw_exit_fact exit;
        struct {
            const char *path;           /* of the mapped file; with build_id as in MAPPED */
            uint64_t build_id, address; /* an address of the file's symbol table: return address - 1 - bias */
            uint8_t state;              /* gw_symbol_state */
            const gw_symbol_frame *frame;
            uint32_t count;
        } symbol;
        struct {                          /* pid: the process that it is about; 0: none */
            uint8_t source;               /* gw_source */
            bool whole;                   /* all values that are known of it, not only those that changed */
            uint32_t device;              /* NVML's index; GW_NO_DEVICE: not about a card */
            const gw_sample_value *value; /* each metric once; those that this build does not know are left out */
            uint32_t count;
        } sample;
        struct {                  /* pid: the process that it names; 0: none. The time is when it happened */
            uint8_t kind, source; /* gw_machine_event_kind, gw_source */
            uint32_t device;      /* NVML's index; GW_NO_DEVICE: not known, or not about a card */
            uint32_t count;       /* equal ones in a short while; the first has the time */
            uint64_t code, value;
            const char *text; /* in the words of its source; "": none */
        } machine;
        struct {
            uint64_t start_monotonic_ns; /* with the pid: which buffer */
            const gw_drained_mark *mark;
            uint32_t count;
        } drained;
    };
} gw_item;

/* ---- reading ---- */

typedef struct gw_reader gw_reader;

/* Open a recording, or, when `path` is a run folder, the recording its run.meta names followed by what its buffers
 * still hold; nothing there is changed, the supervisor may be alive (then SUPERVISOR "run.state" = "alive" comes last,
 * else "supervisor died" and TRUNCATED).
 * GW_OK: *ret_reader is the caller's, closed by gw_reader_close(). GW_IO, GW_CORRUPT, GW_VERSION, GW_NOMEM,
 * GW_UNSUPPORTED (compressed by a codec this build lacks): `err` names file, offset and reason. */
GW_MUST_CHECK gw_status gw_reader_open(const char *path, gw_reader **ret_reader, gw_error *err);
void gw_reader_close(gw_reader *reader); /* takes NULL */

/* The next item. GW_OK; GW_END; GW_CORRUPT: the block at the named offset is damaged and was skipped: a
 * further call goes on with the next good block, so that nothing good is lost. Unless GW_OK, *ret_item is
 * untouched. The item and what it points to belong to the reader until the next call. */
GW_MUST_CHECK gw_status gw_reader_next(gw_reader *reader, const gw_item **ret_item, gw_error *err);

/* The events that come next and lie at hand, up to `room` of them, copied into `event`: faster than one by one. Returns
 * how many; 0: what comes next, if only the next block, is gw_reader_next()'s to say. Their texts belong to the reader
 * until the next call. */
size_t gw_reader_events(gw_reader *reader, gw_event *event, size_t room);

/* Name of a function of this recording's dictionary; "?" when out of range. Borrowed from the reader. */
const char *gw_reader_fn_name(const gw_reader *reader, uint16_t fn);
uint32_t gw_reader_fn_count(const gw_reader *reader);

/* ---- writing ---- */

typedef struct gw_writer gw_writer;

/* Create `path` (0600; it must not exist). `bytes_max` 0: no limit; else the oldest event blocks are dropped as the
 * limit nears (what was dropped is said by a SUPERVISOR item "dropped.events"). `fn_names` is the hook's table. */
GW_MUST_CHECK gw_status gw_writer_create(const char *path, uint64_t bytes_max, const char *const *fn_names,
                                         uint32_t fn_count, gw_writer **ret_writer, gw_error *err);
GW_MUST_CHECK gw_status gw_writer_put(gw_writer *writer, const gw_item *item, gw_error *err);
/* Put what is pending into the file as whole blocks; `sync`: and onto the disk. */
GW_MUST_CHECK gw_status gw_writer_flush(gw_writer *writer, bool sync, gw_error *err);
/* Write END, close, free. A writer whose disk filled up still closes what it has. Takes NULL. */
gw_status gw_writer_close(gw_writer *writer, gw_error *err);

/* Make `<run_folder>/run.meta`: a recording of its own that says where the run's recording is, so that a reader finds
 * both when the supervisor is gone. It must not exist. */
typedef struct gw_run_meta {
    const char *recording; /* absolute path */
    uint64_t t0_monotonic_ns;
    uint32_t supervisor_pid;
    const char *const *argv; /* NULL-terminated; NULL: not said */
} gw_run_meta;
GW_MUST_CHECK gw_status gw_run_meta_write(const char *run_folder, const gw_run_meta *meta, const char *const *fn_names,
                                          uint32_t fn_count, gw_error *err);

/* ---- draining ---- */

typedef struct gw_drain gw_drain; /* all buffers of a run folder */

/* `t0_monotonic_ns` is the run's zero. The folder is read again at each drain: new buffers join. */
GW_MUST_CHECK gw_status gw_drain_open(const char *run_folder, uint64_t t0_monotonic_ns, gw_drain **ret_drain,
                                      gw_error *err);
void gw_drain_close(gw_drain *drain);

/* A descriptor that is readable once a buffer was made, or a recorded process has ended, that no drain has seen yet:
 * drain then, and how it ends, or ended, may still be there to read. Belongs to the drain; -1: none. */
int gw_drain_end_fd(const gw_drain *drain);

typedef gw_status (*gw_item_sink)(void *user, const gw_item *item, gw_error *err);

/* Refuse buffers of another build's hook (SUPERVISOR item "buffer.refused"): its function ids mean something else. */
void gw_drain_expect(gw_drain *drain, uint32_t fn_count, uint32_t fn_table_hash);

/* Hand every item that is complete to `sink`, in order of time: PROCESS once a buffer (a process that execs has
 * several), events up to 2 ms ago (`last`: all of them), then LOST and COUNTERS that changed (at most once a second
 * each while nothing fails). Rings: after a drain that saw a failure that is not a mere out-of-memory, when a thread
 * ended, and for every process at `last` or once its process is gone. EXIT for a process that is
 * gone and was not our child; its status is known where the kernel tells it to others than the parent. A damaged buffer
 * is a SUPERVISOR item "buffer.damaged" and never an error of the call. An event that a stalled thread publishes later
 * than 2 ms after its stamp gets the time of the event handed out before it.
 *
 * The last item is DRAINED, for the writer: what was handed out stays in the buffers until gw_drain_commit() or the
 * next call, so flush the writer before either: then the death of the supervisor loses nothing and doubles nothing. A
 * status of `sink` other than GW_OK ends the call and is returned; events not handed out come with the next call. */
GW_MUST_CHECK gw_status gw_drain_run(gw_drain *drain, bool last, gw_item_sink sink, void *user, gw_error *err);

/* Recorded processes that had not ended at the last drain, as far as their numbers mean something here. Writes up to
 * `pid_max` of them; returns how many there are. */
size_t gw_drain_alive(const gw_drain *drain, uint32_t *pid, size_t pid_max);

/* A thread as its slot shows it at this instant. */
typedef struct gw_thread_look {
    uint32_t pid, tid;
    uint64_t calls;            /* of any kind */
    uint64_t progress;         /* grows with every call but questions: two equal ones mean that nothing was done */
    uint64_t questions;        /* grows with every query that was answered, and with every wait that came back */
    uint64_t not_ready;        /* answers that the GPU is not done; counted in questions, too */
    uint16_t inside_fn_plus_1; /* the call it is inside; 0: none */
    uint64_t inside_since_ns;  /* run time; may be earlier than the call by the calls before it that were quick */
} gw_thread_look;
typedef void (*gw_thread_sink)(void *user, const gw_thread_look *look);

/* Look at all live threads of recorded processes that are alive here. Reads slots, drains nothing. */
void gw_drain_look(gw_drain *drain, gw_thread_sink sink, void *user);
/* The same for a run folder of somebody else, disturbing nobody. GW_IO, GW_NOMEM. */
GW_MUST_CHECK gw_status gw_drain_peek(const char *run_folder, uint64_t t0_monotonic_ns, gw_thread_sink sink, void *user,
                                      gw_error *err);

/* What was handed out is in the file: free the chunks, slots and buffers of processes that are gone. */
void gw_drain_commit(gw_drain *drain);

/* How full the fullest buffer is, or will be in 100 ms if its program goes on as it did before the last drain, 0 to 1:
 * the supervisor drains sooner when it nears 1. 1 also while a buffer is being made. */
double gw_drain_fill_ratio(const gw_drain *drain);

#endif
