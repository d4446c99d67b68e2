/* The recording: how `.gpuwhy` files are written and read, and how live buffers are drained. docs/recording-format.md
 * describes the format. Every version of the format stays readable.
 *
 * Times are ns since the start of the run (CLOCK_MONOTONIC at the supervisor's start = 0); realtime is recorded once.
 * Use a writer or a reader from one thread. */
#ifndef GW_RECORDING_H
#define GW_RECORDING_H

#include "gw_buffer.h"
#include "gw_event.h"
#include "gw_machine.h"
#include "gw_metrics.h"
#include "gw_site.h"
#include "gw_status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- the items of a recording ---- */

typedef enum gw_item_kind {
    GW_ITEM_META,       /* one key and value: "version", "argv", "cwd", "host", "option.memory", "env.X", ... */
    GW_ITEM_PROCESS,    /* a process whose driver calls were recorded, when its buffer was first seen */
    GW_ITEM_EVENT,      /* in order of time over all threads and processes */
    GW_ITEM_COUNTERS,   /* a thread's counters at an instant; replaces the previous ones of the thread */
    GW_ITEM_RING,       /* a thread's ring at an instant, oldest first; replaces the previous one */
    GW_ITEM_LOST,       /* events lost in a process so far */
    GW_ITEM_STDERR,     /* bytes of stderr, in order; the end is always kept, the start may be missing */
    GW_ITEM_EXIT,       /* a process ended (pid known), or the run itself (pid of the command) */
    GW_ITEM_MAPS,       /* a mapped file of a process: path, build id or "" */
    GW_ITEM_SUPERVISOR, /* facts that the supervisor recorded: key, value (e.g. "unobserved.driver") */
    GW_ITEM_TRUNCATED,  /* the recording ends without an END block: the machine or the supervisor died */
    GW_ITEM_SYMBOL,     /* the function at an address of a mapped file, so that the file is not needed later */
    GW_ITEM_SAMPLE,     /* values of machine or card at an instant; unchanged ones may be missing */
    GW_ITEM_MACHINE,    /* an event of machine or card */
    GW_ITEM_DRAINED,    /* only from the drain to the writer: progress in the buffers. Never read back */
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
    const char *text; /* text of the joined TEXT records; NULL: none. Borrowed from the reader until the next call */
    uint32_t text_bytes;
} gw_event;

typedef struct gw_hot_call { /* one decoded entry of a ring */
    uint64_t t_ns;
    uint64_t what;
    uint64_t stream;
    uint16_t fn;
} gw_hot_call;

typedef struct gw_exit_fact {
    uint32_t pid;
    bool is_command;   /* the process that `run` started */
    bool status_known; /* false: it ended, but its status could not be read */
    int exit_code;     /* -1 if a signal ended it */
    int signal;        /* 0: none */
    bool core_dumped;
} gw_exit_fact;

typedef struct gw_drained_mark { /* progress in a chunk: the writer has the records up to here */
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
            uint64_t build_id, address; /* an address in terms of the file's symbol table: return address - 1 - bias */
            uint8_t state;              /* gw_symbol_state */
            const gw_symbol_frame *frame;
            uint32_t count;
        } symbol;
        struct {                          /* pid: the process concerned; 0: none */
            uint8_t source;               /* gw_source */
            bool whole;                   /* the sample has all known values of the object, not only those that
                                           * changed */
            uint32_t device;              /* NVML's index; GW_NO_DEVICE: not about a card */
            const gw_sample_value *value; /* each metric at most once; metrics unknown to this build are left out */
            uint32_t count;
        } sample;
        struct {                  /* pid: the process named; 0: none. The time is that of the event */
            uint8_t kind, source; /* gw_machine_event_kind, gw_source */
            uint32_t device;      /* NVML's index; GW_NO_DEVICE: unknown, or not about a card */
            uint32_t count;       /* number of equal events within a short time; the time is that of the first */
            uint64_t code, value;
            const char *text; /* the text of its source; "": none */
        } machine;
        struct {
            uint64_t start_monotonic_ns; /* identifies the buffer, together with the pid */
            const gw_drained_mark *mark;
            uint32_t count;
        } drained;
    };
} gw_item;

/* ---- reading ---- */

typedef struct gw_reader gw_reader;

/* Open a recording or a run folder. For a run folder, the reader returns the recording named in its run.meta, followed
 * by the rest of the buffers. Nothing in the folder is changed, and its supervisor may be alive. The last item is then
 * SUPERVISOR "run.state" = "alive"; otherwise the value is "supervisor died", with TRUNCATED.
 *
 * GW_OK: the caller closes *ret_reader with gw_reader_close(). GW_IO, GW_CORRUPT, GW_VERSION, GW_NOMEM, GW_UNSUPPORTED
 * (compressed by a codec that this build lacks): `err` names file, offset and reason. */
GW_MUST_CHECK gw_status gw_reader_open(const char *path, gw_reader **ret_reader, gw_error *err);
void gw_reader_close(gw_reader *reader); /* takes NULL */

/* Read the next item. GW_OK; GW_END; GW_CORRUPT: the block at the offset in `err` is damaged and was skipped. The
 * next call continues with the next good block, so that no good data is lost. Unless GW_OK, *ret_item is unchanged.
 * The item and what it points to belong to the reader until the next call. */
GW_MUST_CHECK gw_status gw_reader_next(gw_reader *reader, const gw_item **ret_item, gw_error *err);

/* Copy the next events that are already decoded into `event`, up to `room` of them. This is faster than reading one
 * by one. Returns their number. 0 means that gw_reader_next() must be called for the next item, even if that is an
 * event of the next block. Texts belong to the reader until the next call. */
size_t gw_reader_events(gw_reader *reader, gw_event *event, size_t room);

/* Name of a function in the dictionary of this recording; "?" if out of range. Borrowed from the reader. */
const char *gw_reader_fn_name(const gw_reader *reader, uint16_t fn);
/* Number of functions in the dictionary. */
uint32_t gw_reader_fn_count(const gw_reader *reader);

/* ---- writing ---- */

typedef struct gw_writer gw_writer;

/* Name a file on another file system that takes over if the writer's disk is full: what was written is copied there,
 * and the writer goes on in it, with at most `bytes_max` bytes. The first file keeps its blocks, but has no end. */
void gw_writer_set_spare(gw_writer *writer, const char *path, uint64_t bytes_max);
/* The error because of which the writer has moved to the spare file; NULL: it has not. Borrowed from the writer. */
const char *gw_writer_spare_reason(const gw_writer *writer);

/* Create `path` (0600; it must not exist). `bytes_max` 0: no limit. Near the limit the oldest event blocks are
 * dropped, and the SUPERVISOR item "dropped.events" reports it. `fn_names` is the hook's table. */
GW_MUST_CHECK gw_status gw_writer_create(const char *path, uint64_t bytes_max, const char *const *fn_names,
                                         uint32_t fn_count, gw_writer **ret_writer, gw_error *err);
/* Add an item, in order of time. It reaches the file with a later put or flush. GW_IO, GW_NOMEM: `err` has the
 * reason. */
GW_MUST_CHECK gw_status gw_writer_put(gw_writer *writer, const gw_item *item, gw_error *err);
/* Write pending items to the file as whole blocks. `sync`: also flush them to the disk. */
GW_MUST_CHECK gw_status gw_writer_flush(gw_writer *writer, bool sync, gw_error *err);
/* Write END, close and free. If the disk is full, the writer still closes the file with what it has. Takes NULL. */
gw_status gw_writer_close(gw_writer *writer, gw_error *err);

/* Write `<run_folder>/run.meta`, a small recording with the path of the run's recording, so that a reader finds both
 * if the supervisor died. The file must not exist. */
typedef struct gw_run_meta {
    const char *recording; /* absolute path */
    uint64_t t0_monotonic_ns;
    uint32_t supervisor_pid;
    const char *const *argv; /* NULL-terminated; NULL: not recorded */
} gw_run_meta;
GW_MUST_CHECK gw_status gw_run_meta_write(const char *run_folder, const gw_run_meta *meta, const char *const *fn_names,
                                          uint32_t fn_count, gw_error *err);

/* ---- draining ---- */

typedef struct gw_drain gw_drain; /* all buffers of a run folder */

/* Open the buffers of a folder. `t0_monotonic_ns` is the start of the run. Each drain reads the folder again and
 * adds new buffers. */
GW_MUST_CHECK gw_status gw_drain_open(const char *run_folder, uint64_t t0_monotonic_ns, gw_drain **ret_drain,
                                      gw_error *err);
/* Close all buffers without changing them. Takes NULL. */
void gw_drain_close(gw_drain *drain);

/* A descriptor that becomes readable when a buffer was created or a recorded process ended since the last drain.
 * Drain then, while the exit status can still be read. Belongs to the drain. -1: none. */
int gw_drain_end_fd(const gw_drain *drain);

typedef gw_status (*gw_item_sink)(void *user, const gw_item *item, gw_error *err);

/* Refuse buffers of a hook from another build, whose function ids differ. Reported as SUPERVISOR item
 * "buffer.refused". */
void gw_drain_expect(gw_drain *drain, uint32_t fn_count, uint32_t fn_table_hash);

/* Pass every complete item to `sink`, in order of time: PROCESS once per buffer (a process that calls exec has
 * several), events up to 2 ms ago (if `last`, all of them), then LOST and COUNTERS that changed (at most once a second
 * each while nothing fails). Rings are passed after a drain that found a failure other than an out-of-memory, when a
 * thread ended, and for every process if `last` or once the process is gone. EXIT is passed for a process that is gone
 * and was not our child, with its status if the kernel shows it to processes other than the parent. A damaged buffer
 * yields a SUPERVISOR item "buffer.damaged" and is never an error of the call. If a stalled thread publishes an event
 * more than 2 ms after its time stamp, the event gets the time of the event passed before it.
 *
 * The last item is DRAINED, for the writer. Records that were passed stay in the buffers until gw_drain_commit() or the
 * next call. Flush the writer before either, so that no event is lost or duplicated if the supervisor dies. If `sink`
 * returns a status other than GW_OK, the call ends and returns it, and the remaining events are passed by the next
 * call. */
GW_MUST_CHECK gw_status gw_drain_run(gw_drain *drain, bool last, gw_item_sink sink, void *user, gw_error *err);

/* List recorded processes that had not ended at the last drain and whose pids are valid in this namespace. Writes up
 * to `pid_max` of them and returns their total number. */
size_t gw_drain_alive(const gw_drain *drain, uint32_t *pid, size_t pid_max);

/* The state of a thread, read from its slot. */
typedef struct gw_thread_look {
    uint32_t pid, tid;
    uint64_t calls;            /* calls of any kind */
    uint64_t progress;         /* grows with every call except queries and waits: if two looks show the same value,
                                * nothing was done */
    uint64_t questions;        /* grows with every query that returned a result, and with every wait that returned */
    uint64_t not_ready;        /* queries that found the GPU not done; also counted in `questions` */
    uint16_t inside_fn_plus_1; /* 1 + function of the call in progress; 0: none */
    uint64_t inside_since_ns;  /* run time; may be too early by the duration of the quick calls before it */
} gw_thread_look;
typedef void (*gw_thread_sink)(void *user, const gw_thread_look *look);

/* Report all live threads of recorded processes that are alive on this machine. Reads slots and drains nothing. */
void gw_drain_look(gw_drain *drain, gw_thread_sink sink, void *user);
/* The same for the run folder of another supervisor, without disturbing it. GW_IO, GW_NOMEM. */
GW_MUST_CHECK gw_status gw_drain_peek(const char *run_folder, uint64_t t0_monotonic_ns, gw_thread_sink sink, void *user,
                                      gw_error *err);

/* Call this when everything passed so far is in the file: frees chunks, slots, and buffers of processes that are
 * gone. */
void gw_drain_commit(gw_drain *drain);

/* Fill ratio of the fullest buffer, 0 to 1: the current one, or the one predicted for 100 ms from now if the program
 * continues at its rate before the last drain. The supervisor drains sooner as it gets close to 1. It is also 1
 * while a buffer is being created. */
double gw_drain_fill_ratio(const gw_drain *drain);

#endif
