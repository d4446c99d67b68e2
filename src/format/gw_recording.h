/* Writes and reads recordings (`.gpuwhy` files), and drains live buffers into them. docs/recording-format.md describes
 * the format. Every version stays readable.
 *
 * Times are CLOCK_MONOTONIC ns since the start of the supervisor. Only the start of the run and of each process has a
 * real time, too. Use a writer or a reader from one thread only. */
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
#include <sys/types.h>

/* ---- the items of a recording ---- */

typedef enum gw_item_kind {
    GW_ITEM_META,       /* one key and value: "version", "argv", "cwd", "host", "option.memory", "env.X", ... */
    GW_ITEM_PROCESS,    /* a process whose driver calls are recorded; written when its buffer is first seen */
    GW_ITEM_EVENT,      /* a driver call or another event; sorted by time over all threads and processes */
    GW_ITEM_COUNTERS,   /* a thread's counters at an instant; replaces the thread's previous counters */
    GW_ITEM_RING,       /* a thread's ring at an instant, oldest call first; replaces the thread's previous ring */
    GW_ITEM_LOST,       /* numbers of events, failures and threads lost in a process so far; its
                         * time is that of the latest lost event */
    GW_ITEM_STDERR,     /* bytes of stderr, in order; the end of stderr is always kept, the start may be missing */
    GW_ITEM_EXIT,       /* a process ended; if exit.is_command, it is the process that `run` started */
    GW_ITEM_MAPS,       /* a mapped file of a process: path, and build id or "" */
    GW_ITEM_SUPERVISOR, /* a fact that the supervisor recorded: key, value (e.g. "unobserved.driver") */
    GW_ITEM_TRUNCATED,  /* the recording has no END block, because the machine or the supervisor died */
    GW_ITEM_SYMBOL,     /* the function at an address of a mapped file, so that the file is not needed later */
    GW_ITEM_SAMPLE,     /* values of the machine, a card or a process at an instant; unchanged ones may be missing */
    GW_ITEM_MACHINE,    /* an event of the machine or a card */
    GW_ITEM_DRAINED,    /* how far each chunk is drained; from the drain to the writer; readers never return it */
    GW_ITEM_COUNT
} gw_item_kind;

typedef struct gw_event {
    uint64_t t_ns;
    uint32_t pid;
    uint32_t tid;
    uint16_t fn;  /* id of the function in the recording's own dictionary: gw_reader_fn_name() */
    uint8_t kind; /* gw_event_kind; GW_EV_CALL for kinds newer than this build */
    uint8_t flags;
    uint16_t result;
    uint16_t took_us;
    uint32_t site;
    uint32_t extra;
    uint64_t context;
    uint64_t arg[4];
    const char *text; /* the event's text, zero-terminated; NULL: none. Valid until the reader's next call */
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
    bool is_command;   /* this is the process that `run` started */
    bool status_known; /* false: the process ended, but its status could not be read */
    int exit_code;     /* -1 if a signal ended the process */
    int signal;        /* signal that ended the process; 0: none */
    bool core_dumped;
} gw_exit_fact;

typedef struct gw_drained_mark { /* progress in a chunk: the writer has the first `bytes` bytes of its records */
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
        } pair; /* META, SUPERVISOR; MAPS: key is the path, value the build id */
        struct {
            uint32_t parent_pid;
            uint64_t start_realtime_ns;
            const char *exe, *driver_path, *driver_build_id;
            uint64_t pid_namespace; /* that the pid belongs to; 0: unknown */
            const char *launcher;   /* GW_LAUNCHER_BYTES bytes of gw_buffer_head; not recorded: NULL from a reader */
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
            const char *path;           /* path of the mapped file; build_id is its build id, as in MAPPED */
            uint64_t build_id, address; /* address in the file's symbol table: return address - 1 - bias */
            uint8_t state;              /* gw_symbol_state */
            const gw_symbol_frame *frame;
            uint32_t count;
        } symbol;
        struct {                          /* the item's pid: the process that was sampled; 0: none */
            uint8_t source;               /* gw_source */
            bool whole;                   /* true: the sample has all known values, not only those that changed */
            uint32_t device;              /* the card's NVML index; GW_NO_DEVICE: not about a card */
            const gw_sample_value *value; /* each metric at most once; unknown metrics are left out */
            uint32_t count;
        } sample;
        struct { /* the item's pid: the process that the event names, 0: none; its t_ns: time of the event */
            uint8_t kind, source; /* gw_machine_event_kind and gw_source */
            uint32_t device;      /* the card's NVML index; GW_NO_DEVICE: unknown, or not about a card */
            uint32_t count;       /* number of equal events shortly after each other; t_ns is the time of the first */
            uint64_t code, value;
            const char *text; /* the message of the source, such as a line of the kernel log; "": none */
        } machine;
        struct {
            uint64_t start_monotonic_ns; /* from the buffer's head; identifies the buffer, together with the pid */
            const gw_drained_mark *mark;
            uint32_t count;
        } drained;
    };
} gw_item;

/* ---- reading ---- */

typedef struct gw_reader gw_reader;

/* Open a recording or a run folder. A folder is never changed, so its supervisor may still be running.
 *
 * For a run folder, the reader returns:
 * - the items of the recording whose path is in run.meta
 * - the events in the buffers that are not in the recording yet
 * - SUPERVISOR "run.state": "alive" or "supervisor died"
 * - TRUNCATED after "supervisor died", if the recording is unreadable or has no END block
 *
 * GW_OK: close *ret_reader with gw_reader_close(). GW_IO, GW_CORRUPT, GW_VERSION, GW_NOMEM, GW_UNSUPPORTED (this build
 * cannot decompress the recording): `err` has file, offset and reason. */
GW_MUST_CHECK gw_status gw_reader_open(const char *path, gw_reader **ret_reader, gw_error *err);
/* The same, but only for the pairs (META, SUPERVISOR) of a file such as run.meta. It skips the dictionary of events and
 * functions, which takes most of the time in a small file. So other items may be wrong or GW_CORRUPT. */
GW_MUST_CHECK gw_status gw_reader_open_pairs(const char *path, gw_reader **ret_reader, gw_error *err);
void gw_reader_close(gw_reader *reader); /* takes NULL */

/* Return the owner of the recording or the run folder, who can have written anything into it. GW_NO_OWNER: other users
 * can have changed it, too. Not for gw_reader_open_pairs(). */
uid_t gw_reader_owner(const gw_reader *reader);
#define GW_NO_OWNER ((uid_t)-1)

/* Call `report` at each block from now on, with the bytes of the file that were read and those that it has; for a run
 * folder, those of its recording. It is called by the thread that reads. */
typedef void gw_reader_report(void *user, uint64_t done_bytes, uint64_t all_bytes);
void gw_reader_set_report(gw_reader *reader, gw_reader_report *report, void *user);

/* Read the next item. Unless GW_OK, *ret_item is unchanged.
 * - GW_OK: *ret_item and everything it points to belong to the reader, and are valid until the next call.
 * - GW_END: there are no more items.
 * - GW_CORRUPT: the block at the offset in `err` is damaged. The next call continues with the next good block. */
GW_MUST_CHECK gw_status gw_reader_next(gw_reader *reader, const gw_item **ret_item, gw_error *err);

/* Copy up to `room` of the next events that are already decoded. This is faster than reading them one by one. If it
 * returns 0, call gw_reader_next(), which may return an event, too. Texts belong to the reader and are valid until the
 * next call. */
size_t gw_reader_events(gw_reader *reader, gw_event *event, size_t room);

/* Return the name of a function in the recording's dictionary; "?" if `fn` is out of range. Borrowed. */
const char *gw_reader_fn_name(const gw_reader *reader, uint16_t fn);
/* Return the number of functions in the dictionary. */
uint32_t gw_reader_fn_count(const gw_reader *reader);

/* ---- writing ---- */

typedef struct gw_writer gw_writer;

/* Set a spare file on another file system. If a write fails (disk full), the writer copies everything to the spare file
 * and continues there, with at most `bytes_max` bytes. The first file gets no END block. */
void gw_writer_set_spare(gw_writer *writer, const char *path, uint64_t bytes_max);
/* Return a new descriptor of the file, which somebody may have removed or renamed. -1: none is free. The caller closes
 * it. */
int gw_writer_file(const gw_writer *writer);
/* Return the error that made the writer move to the spare file; NULL if it has not moved. Borrowed from the writer. */
const char *gw_writer_spare_reason(const gw_writer *writer);

/* Create the file `path` with mode 0600; it must not exist. `bytes_max` limits its size; 0: no limit. Near the limit,
 * the writer drops the oldest events, and reports their number in the SUPERVISOR item "dropped.events". `fn_names` is
 * the hook's table of function names. */
GW_MUST_CHECK gw_status gw_writer_create(const char *path, uint64_t bytes_max, const char *const *fn_names,
                                         uint32_t fn_count, gw_writer **ret_writer, gw_error *err);
/* Add an item. Items must be added in order of time. The item may stay in memory until a later put or
 * gw_writer_flush(). Returns GW_OK, or GW_IO or GW_NOMEM with the reason in `err`. */
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
/* Write `<run_folder>/run.meta`, a small recording that contains the path of the run's recording. gw_reader_open()
 * needs it to open the run folder. The file must not exist. Returns GW_OK, GW_IO or GW_NOMEM; `err` names the file. */
GW_MUST_CHECK gw_status gw_run_meta_write(const char *run_folder, const gw_run_meta *meta, const char *const *fn_names,
                                          uint32_t fn_count, gw_error *err);

/* ---- draining ---- */

typedef struct gw_drain gw_drain; /* the buffers of a run folder, and the progress in each */

/* Open the buffers of a run folder. `t0_monotonic_ns` is the start of the run. Each gw_drain_run() also opens the
 * buffers that were created since. */
GW_MUST_CHECK gw_status gw_drain_open(const char *run_folder, uint64_t t0_monotonic_ns, gw_drain **ret_drain,
                                      gw_error *err);
/* Close all buffers without changing them, and free the drain. Takes NULL. */
void gw_drain_close(gw_drain *drain);

/* Return a descriptor that becomes readable when a buffer is created or a recorded process ends; -1: none. Then call
 * gw_drain_run() soon, to read the exit status. The descriptor belongs to the drain. */
int gw_drain_end_fd(const gw_drain *drain);

typedef gw_status (*gw_item_sink)(void *user, const gw_item *item, gw_error *err);

/* Refuse the buffers of hooks with another function table. Their function ids have other meanings. A SUPERVISOR item
 * "buffer.refused" reports each one. */
void gw_drain_expect(gw_drain *drain, uint32_t fn_count, uint32_t fn_table_hash);

/* Pass new items to `sink`:
 * - PROCESS, once per buffer. A process that calls exec has several buffers.
 * - EVENT, in order of time: events that are at least 2 ms old, or all if `last`. An event that a stalled thread wrote
 *   later gets the time of the event before it.
 * - LOST, if its numbers changed.
 * - COUNTERS, if they changed: at most once a second per thread, but at every drain in the 2 s after a failure.
 * - RING, if it changed: when a thread or its process ends, if `last`, and after a failure other than out of memory or
 *   not found.
 * - SUPERVISOR "nccl.comm" and "nccl.call", when a process ends, or if `last`.
 * - EXIT of a process that is not our child, with the exit status if readable.
 * - SUPERVISOR "buffer.damaged". The call does not fail.
 * - DRAINED, as the last items, for the writer.
 *
 * Passed records stay in the buffers until gw_drain_commit() or the next gw_drain_run(). Flush the writer before either
 * call, or events are lost or duplicated if the supervisor dies. If `sink` fails, its status is returned, and the next
 * call passes the remaining events. */
GW_MUST_CHECK gw_status gw_drain_run(gw_drain *drain, bool last, gw_item_sink sink, void *user, gw_error *err);

/* Pass the NCCL communicators of all recorded processes that are alive, and their last calls, to `sink`, as SUPERVISOR
 * items. gw_drain_run() passes those of processes that have ended, or of all if `last`. Returns what `sink` returns. */
GW_MUST_CHECK gw_status gw_drain_tell_nccl(gw_drain *drain, gw_item_sink sink, void *user, gw_error *err);

/* List the recorded processes that were alive at the last drain and are in our pid namespace. Writes at most `pid_max`
 * pids. Returns the number of such processes, which may be larger. */
size_t gw_drain_alive(const gw_drain *drain, uint32_t *pid, size_t pid_max);

/* The state of a thread, read from its slot. */
typedef struct gw_thread_look {
    uint32_t pid, tid;
    uint64_t calls;     /* driver calls so far, as in gw_slot */
    uint64_t progress;  /* sum of all counters of work; if it is equal in two looks, no work was done in between */
    uint64_t questions; /* number of queries, and of waits that returned */
    uint64_t not_ready; /* queries that found the GPU still busy; also counted in `questions` */
    uint64_t launches, waits;  /* launches of kernels and graphs; synchronisations and copies to the host */
    uint16_t inside_fn_plus_1; /* 1 + id of the function being called; 0: none */
    bool is_in_nccl;           /* inside a call of NCCL that makes a communicator, or a collective */
    uint64_t
        inside_since_ns; /* start of this call, ns since the run began; earlier quick calls may make it too early */
} gw_thread_look;
typedef void (*gw_thread_sink)(void *user, const gw_thread_look *look);

/* The memory of PyTorch's allocator in a process, as in gw_buffer_head. */
typedef struct gw_cache_look {
    uint32_t pid;
    uint32_t device;
    uint64_t allocated_bytes, reserved_bytes; /* reserved_bytes is not 0 */
} gw_cache_look;
typedef void (*gw_cache_sink)(void *user, const gw_cache_look *look);
/* Pass the allocator's memory of each recorded process that is alive and in our pid namespace, device by device. */
void gw_drain_look_caches(const gw_drain *drain, gw_cache_sink sink, void *user);

/* Pass the state of each live thread to `sink`, for all recorded processes that are alive and in our pid namespace.
 * Reads only the slots and drains nothing. */
void gw_drain_look(gw_drain *drain, gw_thread_sink sink, void *user);
/* Like gw_drain_look(), but for the run folder of another supervisor. Nothing in the folder is changed. Returns GW_OK,
 * GW_IO or GW_NOMEM. */
GW_MUST_CHECK gw_status gw_drain_peek(const char *run_folder, uint64_t t0_monotonic_ns, gw_thread_sink sink, void *user,
                                      gw_error *err);

/* Free the drained chunks and slots, and delete the buffers of processes that have ended. Before this call, all passed
 * items must be in the recording's file. */
void gw_drain_commit(gw_drain *drain);

/* Return the fill ratio of the fullest buffer, 0 to 1. It is the larger of two parts of the buffer:
 * - the part in use now
 * - the part that the program would fill in 100 ms at its recent rate
 *
 * While a buffer is being set up, the ratio is 1, for up to a second. */
double gw_drain_fill_ratio(const gw_drain *drain);

#endif
