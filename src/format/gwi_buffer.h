/* One buffer file as the drain sees it. It belongs to a process that may be dying, broken or hostile: it is read with
 * pread (a mapping would kill us when the file shrinks), every number in it is checked before use, and only the
 * supervisor's own fields are ever written. */
#ifndef GWI_BUFFER_H
#define GWI_BUFFER_H

#include "gwi_layout.h"

/* The machine's clocks, read together. */
typedef struct gwi_now {
    uint64_t monotonic_ns;
    uint64_t tsc; /* 0: this machine has none */
    uint64_t cntvct;
} gwi_now;
gwi_now gwi_now_take(void);

typedef struct gwi_chunk_mark { /* how far we are in a chunk */
    uint64_t sequence;
    uint32_t handed_bytes; /* with the sink */
    bool seen;
    bool changed; /* handed_bytes grew in this drain */
    bool taken;   /* it was not free when it was last looked at */
} gwi_chunk_mark;

typedef struct gwi_slot_said { /* what was last handed out about a slot */
    uint32_t generation;
    uint64_t at_ns;
    uint64_t ring_head;
    uint64_t ring_at_ns;
    bool ring_said;
    bool ended_said; /* its thread ended, all of it was handed out: the slot may be freed */
    gw_item counters;
    uint64_t counter[GW_COUNT_COUNT];
} gwi_slot_said;

typedef struct gwi_buffer {
    char *name; /* owned: in the run folder */
    int fd;     /* owned; -1: copied or gone */
    int pidfd;  /* owned; -1: none. Before adoption: of the process that the name names */
    uint64_t opened_at_ns;
    uint8_t *copy; /* owned; NULL: live */
    uint64_t copy_bytes;
    uint64_t *ring_head_after; /* owned, by slot: read after the copy was made; NULL: live */
    gw_buffer_head head;       /* as it was when the buffer became ready */
    bool adopted;              /* ready, and its layout is checked */
    bool introduced;           /* its PROCESS item was handed out */
    bool useless;              /* damaged or refused, and said so */
    bool gone;                 /* its process ended or became another program */
    bool replaced;             /* gone by exec: the process lives on */
    bool finished;             /* all of it was handed out */
    bool ring_due;
    bool handed;           /* some mark changed in this drain */
    bool left_over;        /* records that are still to be handed out */
    bool is_elsewhere;     /* in another PID namespace than ours: its number tells us nothing */
    double foreseen_ratio; /* how full it will soon be */
    uint64_t gone_at_ns;
    bool status_known; /* how it ended, as wait() would say it */
    int status;
    uint64_t failure_at_ns;
    uint64_t lost_said[3];
    gwi_chunk_mark *chunk;  /* owned: head.chunk_count */
    uint64_t sequence_seen; /* chunks that had ever been taken when all of them were last looked at */
    gwi_slot_said *slot;    /* owned: head.slot_count */
} gwi_buffer;

/* Open `name` in the folder. GW_OK; GW_MISSING: not a buffer, or already removed; GW_IO, GW_NOMEM. */
gw_status gwi_buffer_open(int folder_fd, const char *name, bool copy, gwi_buffer **ret_buffer);
void gwi_buffer_close(gwi_buffer *buffer); /* takes NULL */

/* Look whether the hook has made it ready. GW_OK: adopted; GW_MISSING: not yet; GW_CORRUPT: `err` says what is wrong.
 */
gw_status gwi_buffer_adopt(gwi_buffer *buffer, gw_error *err);

/* Copy from the file; what lies behind its end reads as zeros. */
void gwi_buffer_read(const gwi_buffer *buffer, uint64_t offset, void *to, size_t bytes);
/* Write one of the supervisor's own fields; nothing for copies. */
void gwi_buffer_write(const gwi_buffer *buffer, uint64_t offset, const void *from, size_t bytes);

bool gwi_buffer_process_gone(const gwi_buffer *buffer);

/* How the process that is gone ended, where the kernel tells somebody who is not its parent: /proc while nobody has
 * waited for it, its pidfd afterwards (Linux 6.15 and later). Sets status and status_known; else they stay. */
void gwi_buffer_ask_status(gwi_buffer *buffer);

/* Ticks of the buffer's clock as CLOCK_MONOTONIC ns, never before its start or after now. */
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
