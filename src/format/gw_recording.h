/* Writes and reads recordings (`.gpuwhy` files), and drains live buffers into them. docs/recording-format.md describes
 * the format. Every version of the format stays readable.
 *
 * Times are ns since the start of the run (0 is the supervisor's start, measured with CLOCK_MONOTONIC); realtime is
 * recorded once. Use a writer or a reader from one thread only. */
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
    GW_ITEM_PROCESS,    /* a process whose driver calls are recorded; written when its buffer is first seen */
    GW_ITEM_EVENT,      /* a driver call or another event; sorted by time over all threads and processes */
    GW_ITEM_COUNTERS,   /* a thread's counters at an instant; replaces the thread's previous counters */
    GW_ITEM_RING,       /* a thread's ring at an instant, oldest call first; replaces the thread's previous ring */
    GW_ITEM_LOST,       /* number of events lost in a process so far */
    GW_ITEM_STDERR,     /* bytes of stderr, in order; the end is always kept, the start may be missing */
    GW_ITEM_EXIT,       /* a process ended, or the run itself (then `pid` is that of the command) */
    GW_ITEM_MAPS,       /* a mapped file of a process: path, build id or "" */
    GW_ITEM_SUPERVISOR, /* a fact that the supervisor recorded: key, value (e.g. "unobserved.driver") */
    GW_ITEM_TRUNCATED,  /* the recording ends without an END block: the machine or the supervisor died */
    GW_ITEM_SYMBOL,     /* the function at an address of a mapped file, so that the file is not needed later */
    GW_ITEM_SAMPLE,     /* values of the machine or a card at an instant; unchanged values may be missing */
    GW_ITEM_MACHINE,    /* an event of the machine or a card */
    GW_ITEM_DRAINED,    /* progress in the buffers, from the drain to the writer; readers never return it */
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
    const char *text; /* text of the event's TEXT records, joined; NULL: none. Valid until the reader's next call */
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
    bool status_known; /* false: the process ended, but its status could not be read */
    int exit_code;     /* -1 if a signal ended the process */
    int signal;        /* 0: none */
    bool core_dumped;
} gw_exit_fact;

typedef struct gw_drained_mark { /* progress in a chunk: the writer has its records up to here */
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
            const char *path;           /* path of the mapped file; build_id is as in MAPPED */
            uint64_t build_id, address; /* address in the file's symbol table: return address - 1 - bias */
            uint8_t state;              /* gw_symbol_state */
            const gw_symbol_frame *frame;
            uint32_t count;
        } symbol;
        struct {                          /* pid: the process concerned; 0: none */
            uint8_t source;               /* gw_source */
            bool whole;                   /* the sample has all known values of the object, not only those that
                                           * changed */
            uint32_t device;              /* NVML's index; GW_NO_DEVICE: not about a card */
            const gw_sample_value *value; /* each metric at most once; unknown metrics are left out */
            uint32_t count;
        } sample;
        struct {                  /* pid: the process that the event names; 0: none. t_ns: time of the event */
            uint8_t kind, source; /* gw_machine_event_kind and gw_source */
            uint32_t device;      /* NVML's index; GW_NO_DEVICE: unknown, or not about a card */
            uint32_t count;       /* number of equal events within a short time; t_ns is the time of the first */
            uint64_t code, value;
            const char *text; /* text from its source; "": none */
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

/* Open a recording or a run folder. For a run folder, the reader returns the recording named in run.meta, followed by
 * the rest of the buffers. Nothing in the folder is changed, so its supervisor may still be running. The last item is
 * SUPERVISOR "run.state": "alive" if the supervisor is still running. Otherwise its value is "supervisor died", and
 * TRUNCATED follows if the recording cannot be read or has no END block.
 *
 * GW_OK: the caller closes *ret_reader with gw_reader_close(). GW_IO, GW_CORRUPT, GW_VERSION, GW_NOMEM, GW_UNSUPPORTED
 * (this build cannot decompress the recording): `err` has file, offset and reason. */
GW_MUST_CHECK gw_status gw_reader_open(const char *path, gw_reader **ret_reader, gw_error *err);
void gw_reader_close(gw_reader *reader); /* takes NULL */

/* Read the next item. GW_OK; GW_END; GW_CORRUPT: the block at the offset in `err` is damaged, and the rest of it is
 * skipped. The next call continues with the next good block, so that no good data is lost. Unless GW_OK, *ret_item is
 * unchanged. The item and everything it points to belong to the reader and are valid until the next call. */
GW_MUST_CHECK gw_status gw_reader_next(gw_reader *reader, const gw_item **ret_item, gw_error *err);

/* Copy up to `room` events into `event`, as far as they are already decoded. This is faster than reading them one by
 * one. Returns the number of events. If it is 0, call gw_reader_next() for the next item, which may be an event too.
 * Texts belong to the reader and are valid until the next call. */
size_t gw_reader_events(gw_reader *reader, gw_event *event, size_t room);

/* Return the name of a function in the recording's dictionary; "?" if `fn` is out of range. Borrowed. */
const char *gw_reader_fn_name(const gw_reader *reader, uint16_t fn);
/* Return the number of functions in the dictionary. */
uint32_t gw_reader_fn_count(const gw_reader *reader);

/* ---- writing ---- */

typedef struct gw_writer gw_writer;

/* Set a spare file on another file system. If a write fails (because the disk is full, for example), the writer copies
 * everything written so far to the spare file and continues there, with at most `bytes_max` bytes. The first file
 * keeps its blocks but has no END block. */
void gw_writer_set_spare(gw_writer *writer, const char *path, uint64_t bytes_max);
/* Return the error that made the writer move to the spare file; NULL if it has not moved. Borrowed from the writer. */
const char *gw_writer_spare_reason(const gw_writer *writer);

/* Create the file `path` with mode 0600; it must not exist. `bytes_max` 0: no limit. Near the limit, the oldest
 * event blocks are dropped, and the SUPERVISOR item "dropped.events" has the number of dropped events. `fn_names` is
 * the hook's table. */
GW_MUST_CHECK gw_status gw_writer_create(const char *path, uint64_t bytes_max, const char *const *fn_names,
                                         uint32_t fn_count, gw_writer **ret_writer, gw_error *err);
/* Add an item; items must be added in order of time. A later put or flush writes it to the file. GW_IO, GW_NOMEM:
 * `err` has the reason. */
GW_MUST_CHECK gw_status gw_writer_put(gw_writer *writer, const gw_item *item, gw_error *err);
/* Write pending items to the file as whole blocks. If `sync` is true, also sync the file to the disk. */
GW_MUST_CHECK gw_status gw_writer_flush(gw_writer *writer, bool sync, gw_error *err);
/* Write the END block, close the file and free the writer. If the disk is full, the file keeps what was written so
 * far. Takes NULL. */
gw_status gw_writer_close(gw_writer *writer, gw_error *err);

/* What a reader of a run folder needs to know about the run. */
typedef struct gw_run_meta {
    const char *recording; /* absolute path */
    uint64_t t0_monotonic_ns;
    uint32_t supervisor_pid;
    const char *const *argv; /* NULL-terminated; NULL: not recorded */
} gw_run_meta;
/* Write `<run_folder>/run.meta`, a small recording with the path of the run's recording. If the supervisor dies, a
 * reader that opens the run folder finds the recording through it. The file must not exist. GW_OK, GW_IO or GW_NOMEM;
 * `err` names the file. */
GW_MUST_CHECK gw_status gw_run_meta_write(const char *run_folder, const gw_run_meta *meta, const char *const *fn_names,
                                          uint32_t fn_count, gw_error *err);

/* ---- draining ---- */

typedef struct gw_drain gw_drain; /* all buffers of a run folder */

/* Open the buffers of a run folder. `t0_monotonic_ns` is the start of the run. Buffers that are created later are
 * found by the next drain. */
GW_MUST_CHECK gw_status gw_drain_open(const char *run_folder, uint64_t t0_monotonic_ns, gw_drain **ret_drain,
                                      gw_error *err);
/* Close all buffers without changing them. Takes NULL. */
void gw_drain_close(gw_drain *drain);

/* Return a descriptor that becomes readable when a buffer is created or a recorded process ends. Drain then, while the
 * exit status can still be read. Belongs to the drain. -1: none. */
int gw_drain_end_fd(const gw_drain *drain);

typedef gw_status (*gw_item_sink)(void *user, const gw_item *item, gw_error *err);

/* Refuse the buffers of hooks from another build, whose function ids differ. The SUPERVISOR item "buffer.refused"
 * reports each refused buffer. */
void gw_drain_expect(gw_drain *drain, uint32_t fn_count, uint32_t fn_table_hash);

/* Pass new items to `sink`:
 * - PROCESS, once per buffer. A process that calls exec has several buffers.
 * - EVENT, in order of time: events that are at least 2 ms old, or all of them if `last`. If a stalled thread
 *   publishes an event later than that, the event gets the time of the event passed before it.
 * - LOST, if it changed.
 * - COUNTERS, if they changed: at most once a second per thread, but with every drain shortly after a failure.
 * - RING after a failure other than out of memory or not found, when a thread ends, when its process ends, and if
 *   `last`.
 * - EXIT of a process that is not our child, with the exit status if the kernel lets us read it.
 *
 * A damaged buffer is reported by the SUPERVISOR item "buffer.damaged" and never makes the call fail.
 *
 * The last items are DRAINED, for the writer. The records that were passed stay in the buffers until gw_drain_commit()
 * or the next call. Flush the writer before either, so that no event is lost or duplicated if the supervisor dies. If
 * `sink` returns a status other than GW_OK, the call ends and returns it, and the next call passes the remaining
 * events. */
GW_MUST_CHECK gw_status gw_drain_run(gw_drain *drain, bool last, gw_item_sink sink, void *user, gw_error *err);

/* List the recorded processes that were alive at the last drain and whose pids are valid in this namespace. Writes up
 * to `pid_max` pids and returns the total number. */
size_t gw_drain_alive(const gw_drain *drain, uint32_t *pid, size_t pid_max);

/* The state of a thread, read from its slot. */
typedef struct gw_thread_look {
    uint32_t pid, tid;
    uint64_t calls;            /* calls of any kind */
    uint64_t progress;         /* calls other than queries and waits; unchanged between two looks: no work was done */
    uint64_t questions;        /* grows with every query and every wait that returns */
    uint64_t not_ready;        /* queries that found the GPU still busy; also counted in `questions` */
    uint16_t inside_fn_plus_1; /* 1 + id of the function being called; 0: none */
    uint64_t
        inside_since_ns; /* since the start of the run; may be too early by the duration of preceding quick calls */
} gw_thread_look;
typedef void (*gw_thread_sink)(void *user, const gw_thread_look *look);

/* Report the live threads of all recorded processes on this machine that are still alive. Reads only the slots and
 * drains nothing. */
void gw_drain_look(gw_drain *drain, gw_thread_sink sink, void *user);
/* Report the same for the run folder of another supervisor, without disturbing it. GW_OK, GW_IO, GW_NOMEM. */
GW_MUST_CHECK gw_status gw_drain_peek(const char *run_folder, uint64_t t0_monotonic_ns, gw_thread_sink sink, void *user,
                                      gw_error *err);

/* Free chunks, slots, and the buffers of processes that are gone. Call this only when the file has everything passed
 * so far. */
void gw_drain_commit(gw_drain *drain);

/* Return the fill ratio of the fullest buffer, 0 to 1: the current one, or the part that the program would fill in 100
 * ms at its rate before the last drain, whichever is greater. The supervisor drains sooner as the ratio gets close to
 * 1. While a buffer is being set up, the ratio is 1 for up to a second. */
double gw_drain_fill_ratio(const gw_drain *drain);

#endif
