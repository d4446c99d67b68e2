/* One buffer file as seen by the drain. It belongs to a process that may be dying, broken or hostile. So it is read
 * with pread (a mapping would kill us if the file shrinks), every number in it is checked before use, and only the
 * supervisor's own fields are written. */
#ifndef GWI_BUFFER_H
#define GWI_BUFFER_H

#include "gwi_layout.h"

/* The clocks of the machine, read together. */
typedef struct gwi_now {
    uint64_t monotonic_ns;
    uint64_t tsc; /* 0: this machine has none */
    uint64_t cntvct;
} gwi_now;
gwi_now gwi_now_take(void);

typedef struct gwi_chunk_mark { /* progress in a chunk */
    uint64_t sequence;
    uint32_t handed_bytes; /* bytes already passed to the sink */
    bool seen;
    bool changed; /* handed_bytes grew during this drain */
    bool taken;   /* the chunk was not free at the last look */
} gwi_chunk_mark;

typedef struct gwi_slot_said { /* what was last reported about a slot */
    uint32_t generation;
    uint64_t at_ns;
    uint64_t ring_head;
    uint64_t ring_at_ns;
    bool ring_said;
    bool ended_said; /* its thread ended and everything was passed on: the slot may be freed */
    gw_item counters;
    uint64_t counter[GW_COUNT_COUNT];
} gwi_slot_said;

typedef struct gwi_buffer {
    char *name; /* owned: file name in the run folder */
    int fd;     /* owned; -1: the file was copied or is gone */
    int pidfd;  /* owned; -1: none. Before adoption it refers to the process named in the file name */
    uint64_t opened_at_ns;
    uint8_t *copy; /* owned; NULL: the buffer is live */
    uint64_t copy_bytes;
    uint64_t *ring_head_after; /* owned, indexed by slot: read after the copy was made; NULL: live */
    gw_buffer_head head;       /* as read when the buffer became ready */
    bool adopted;              /* the buffer is ready, and its layout was checked */
    bool introduced;           /* its PROCESS item was reported */
    bool useless;              /* damaged or refused, which was reported */
    bool gone;                 /* its process ended or runs another program now */
    bool replaced;             /* gone by exec: the process is still alive */
    bool finished;             /* everything in it was passed on */
    bool ring_due;
    bool handed;           /* some mark changed during this drain */
    bool left_over;        /* some records remain to be passed on */
    bool is_elsewhere;     /* its process is in another pid namespace, so its pid has no meaning here */
    double foreseen_ratio; /* predicted fill ratio */
    uint64_t gone_at_ns;
    bool status_known; /* status is known, in the format of wait() */
    int status;
    uint64_t failure_at_ns;
    uint64_t lost_said[3];
    gwi_chunk_mark *chunk;  /* owned: head.chunk_count */
    uint64_t sequence_seen; /* chunks ever taken, as of the last look at all chunks */
    gwi_slot_said *slot;    /* owned: head.slot_count */
} gwi_buffer;

/* Open file `name` of the folder. GW_OK; GW_MISSING: not a buffer, or already removed; GW_IO, GW_NOMEM. */
gw_status gwi_buffer_open(int folder_fd, const char *name, bool copy, gwi_buffer **ret_buffer);
void gwi_buffer_close(gwi_buffer *buffer); /* takes NULL */

/* Check whether the hook has finished setting it up. GW_OK: adopted; GW_MISSING: not yet; GW_CORRUPT: `err` has the
 * reason. */
gw_status gwi_buffer_adopt(gwi_buffer *buffer, gw_error *err);

/* Copy bytes of the file. Bytes beyond its end read as zeros. */
void gwi_buffer_read(const gwi_buffer *buffer, uint64_t offset, void *to, size_t bytes);
/* Write one of the supervisor's own fields. Does nothing for copies. */
void gwi_buffer_write(const gwi_buffer *buffer, uint64_t offset, const void *from, size_t bytes);

bool gwi_buffer_process_gone(const gwi_buffer *buffer);

/* Find out how a process that is gone ended. The kernel shows this to processes other than the parent in /proc while
 * the parent has not waited for it, and afterwards by a pidfd (Linux 6.15 and later). Sets status and status_known
 * if it is known. */
void gwi_buffer_ask_status(gwi_buffer *buffer);

/* Convert ticks of the buffer's clock to CLOCK_MONOTONIC ns, limited to the time between its start and now. */
uint64_t gwi_buffer_ns(const gwi_buffer *buffer, const gwi_now *now, uint64_t ticks);

static inline uint64_t gwi_chunk_offset(const gwi_buffer *buffer, uint32_t index)
{
    return buffer->head.chunk_offset + (uint64_t)index * GW_CHUNK_BYTES;
}

static inline uint64_t gwi_slot_offset(const gwi_buffer *buffer, uint32_t index)
{
    return buffer->head.slot_offset + (uint64_t)index * sizeof(gw_slot);
}

#endif
