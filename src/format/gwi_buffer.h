/* Reads one buffer file for the drain. The file's process may be dying or hostile, so every number is checked. pread()
 * is used, because a mapped file that shrinks would crash the supervisor. Only the supervisor's own fields are
 * written. */
#ifndef GWI_BUFFER_H
#define GWI_BUFFER_H

#include "gwi_layout.h"

/* The machine's clocks, all read at the same moment. */
typedef struct gwi_now {
    uint64_t monotonic_ns;
    uint64_t tsc; /* 0: this machine has no TSC */
    uint64_t cntvct;
} gwi_now;
gwi_now gwi_now_take(void);

typedef struct gwi_chunk_mark { /* how much of a chunk was passed to the sink */
    uint64_t sequence;
    uint32_t handed_bytes; /* bytes already passed to the sink */
    bool seen;
    bool changed; /* handed_bytes grew during this drain */
    bool taken;   /* the chunk was in use when it was last read */
} gwi_chunk_mark;

typedef struct gwi_slot_said { /* what was last reported about a thread's slot */
    uint32_t generation;
    uint64_t at_ns;
    uint64_t ring_head;
    uint64_t ring_at_ns;
    bool ring_said;
    bool ended_said; /* the thread's end was reported; the slot is freed when no chunk belongs to it */
    gw_item counters;
    uint64_t counter[GW_COUNT_COUNT];
} gwi_slot_said;

typedef struct gwi_buffer {
    char *name; /* owned: file name in the run folder */
    int fd;     /* owned; -1: the file was copied to memory or removed */
    int pidfd;  /* owned; -1: none. For the pid in the file name or, once the buffer is adopted, for head.pid */
    uint64_t opened_at_ns;
    uint8_t *copy; /* owned: copy of the file; NULL: the file itself is read */
    uint64_t copy_bytes;
    uint64_t *ring_head_after; /* owned, indexed by slot: ring_head as read after copying; NULL: no copy */
    gw_buffer_head head;       /* the buffer's header, as read when the buffer was adopted */
    bool adopted;              /* the hook has set up the buffer, and its layout was checked */
    bool introduced;           /* the PROCESS item for this buffer was passed on */
    bool useless;              /* the buffer is damaged or was refused, and this was reported */
    bool gone;                 /* the process ended or called exec */
    bool replaced;             /* the process called exec: it still runs, but no longer uses this buffer */
    bool finished;             /* everything in the buffer was passed on */
    bool ring_due;
    bool handed;           /* a record was passed on during this drain */
    bool left_over;        /* some records were not passed on yet */
    bool is_elsewhere;     /* the process is in another pid namespace, so its pid means nothing here */
    double foreseen_ratio; /* predicted fill ratio of the buffer (1: full); see foresee() in drain.c */
    uint64_t gone_at_ns;
    bool status_known; /* `status` is valid; it has the format of wait() */
    int status;
    uint64_t failure_at_ns;
    uint64_t lost_said[3];
    gwi_chunk_mark *chunk;  /* owned: head.chunk_count entries */
    uint64_t sequence_seen; /* the header's chunk_sequence (number of chunks taken so far) at the last drain */
    gwi_slot_said *slot;    /* owned: head.slot_count entries */
} gwi_buffer;

/* Open the file `name` in the folder. Returns GW_OK; GW_MISSING if it is not a buffer or was removed meanwhile;
 * GW_IO or GW_NOMEM. */
gw_status gwi_buffer_open(int folder_fd, const char *name, bool copy, gwi_buffer **ret_buffer);
void gwi_buffer_close(gwi_buffer *buffer); /* NULL is allowed */

/* Adopt the buffer if the hook has finished setting it up. Returns GW_OK, GW_MISSING (not finished yet), or GW_CORRUPT
 * with the reason in `err`. */
gw_status gwi_buffer_adopt(gwi_buffer *buffer, gw_error *err);

/* Read bytes of the buffer. Bytes beyond the end of the file read as zeros. */
void gwi_buffer_read(const gwi_buffer *buffer, uint64_t offset, void *to, size_t bytes);
/* Write one of the supervisor's own fields. Does nothing if the buffer is a copy. */
void gwi_buffer_write(const gwi_buffer *buffer, uint64_t offset, const void *from, size_t bytes);

bool gwi_buffer_process_gone(const gwi_buffer *buffer);

/* Find out how an ended process ended, and set `status` and `status_known`. Until its parent has waited for it, the
 * status is in /proc, afterwards in a pidfd (Linux 6.15 and later). Sets nothing if neither has it. */
void gwi_buffer_ask_status(gwi_buffer *buffer);

/* Convert ticks of the buffer's clock to ns of CLOCK_MONOTONIC. The result is never before the start of the buffer
 * and never after `now`. */
uint64_t gwi_buffer_ns(const gwi_buffer *buffer, const gwi_now *now, uint64_t ticks);

/* Pass the NCCL communicators of the process to `sink` as SUPERVISOR items nccl.comm and nccl.call, with the time
 * `t_ns`. All times are ns since `t0_monotonic_ns`. Returns what `sink` returns. */
gw_status gwi_buffer_tell_nccl(const gwi_buffer *buffer, const gwi_now *now, uint64_t t0_monotonic_ns, uint64_t t_ns,
                               gw_item_sink sink, void *user, gw_error *err);

/* Store the threads that are inside a call of NCCL, at most `tid_max`, in `tid`. Returns their number. */
size_t gwi_buffer_inside_nccl(const gwi_buffer *buffer, uint32_t *tid, size_t tid_max);

static inline uint64_t gwi_chunk_offset(const gwi_buffer *buffer, uint32_t index)
{
    return buffer->head.chunk_offset + (uint64_t)index * GW_CHUNK_BYTES;
}

static inline uint64_t gwi_slot_offset(const gwi_buffer *buffer, uint32_t index)
{
    return buffer->head.slot_offset + (uint64_t)index * sizeof(gw_slot);
}

#endif
