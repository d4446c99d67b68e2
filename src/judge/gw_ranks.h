/* What each rank of a job did last with NCCL, and where it stood: all that is needed to compare ranks, of one recording
 * or of many. It needs no model, so it can be kept for ten thousand ranks.
 *
 * Times are ns since the recording of the rank began. Two recordings have no common clock. */
#ifndef GW_RANKS_H
#define GW_RANKS_H

#include "gw_collective_facts.h"
#include "gw_status.h"

typedef struct gw_text gw_text;

/* For each communicator of a rank, its last calls; for each rank, its last communicators. */
enum { GW_RANK_CALLS_MAX = 32, GW_RANK_COMMUNICATORS_MAX = 32 };

typedef struct gw_rank_call {
    uint64_t number, elements, stream, t_ns;
    int32_t type, root_or_peer;
    uint32_t group, site; /* `site` belongs to the model of the rank's recording; 0: unknown */
    uint16_t place;       /* index + 1 in gw_rank.place; 0: unknown */
    uint8_t call, state;  /* gw_nccl_call, gw_collective_state */
} gw_rank_call;

typedef struct gw_rank_communicator {
    uint64_t id;                                          /* never 0 */
    uint64_t collectives, p2p, calls[GW_NCCL_CALL_COUNT]; /* calls made; by function */
    uint64_t t_init_ns, t_end_ns;                         /* t_end_ns 0: neither destroyed nor aborted */
    uint32_t size, rank, init_site;
    uint16_t init_place; /* as gw_rank_call.place */
    bool is_ready, is_aborted;
    gw_rank_call *call; /* owned; oldest first: the last ones, and the last collective of each function */
    size_t call_count;
} gw_rank_communicator;

typedef enum gw_rank_end {
    GW_RANK_RUNS, /* or its end is unknown */
    GW_RANK_ENDED_WELL,
    GW_RANK_ENDED, /* its status is unknown */
    GW_RANK_DIED,
    GW_RANK_WAS_ENDED /* by a launcher, a user or gpuwhy */
} gw_rank_end;

/* What the rank did while others waited, as read from its threads. */
typedef enum gw_rank_stand {
    GW_RANK_STANDS_UNKNOWN,
    GW_RANK_STANDS_RUNNING,
    GW_RANK_STANDS_INPUT, /* waits for data, perhaps of another rank */
    GW_RANK_STANDS_NCCL,  /* waits for the GPU, and the last work there is NCCL's */
    GW_RANK_STANDS_KERNEL,
    GW_RANK_STANDS_SLEEP,
    GW_RANK_STANDS_LOCK,
    GW_RANK_STANDS_LOADER,
    GW_RANK_STANDS_CHILD,
    GW_RANK_STANDS_DEVICE,
    GW_RANK_STANDS_STOPPED /* by SIGSTOP or a debugger */
} gw_rank_stand;

typedef struct gw_rank {
    uint32_t pid, rank, world; /* rank, world: valid if has_rank; world 0: unknown */
    bool has_rank;
    bool no_pid;      /* `pid` is not the process's, since a saved file does not contain it */
    bool is_whole;    /* no NCCL call of the process can be missing */
    bool is_stuck;    /* it makes no progress and is inside NCCL, or waits for NCCL's work */
    bool has_replays; /* it launched graphs, whose collectives have no number */
    /* The process failed by itself: a lost context, memory that was refused, or its death. A death that can follow from
     * waiting for other ranks does not count. */
    bool has_error;
    uint64_t t_error_ns;
    gw_rank_end end;
    uint64_t t_end_ns; /* 0: unknown */
    gw_rank_stand stand;
    uint32_t stand_site;
    char *stand_text; /* owned; such as "sleeping (in hrtimer_nanosleep) at load.py:9 in read"; NULL: unknown */
    /* owned; what should be equal in all ranks, one "name=value" a line: versions, programs, settings; NULL: none */
    char *traits;
    gw_rank_communicator *communicator; /* owned */
    size_t communicator_count;
    char **place; /* owned; such as "train.py:57 in step" */
    size_t place_count;
} gw_rank;

typedef struct gw_ranks {
    gw_rank *item; /* owned */
    size_t count;
} gw_ranks;

void gw_ranks_free(gw_ranks *ranks); /* resets it to {0} */
/* Write the ranks to `text`, and read them again in the same process or in a fork of it. Returns false, with *ret_ranks
 * {0}, if there is no memory or the bytes are not complete. */
void gw_ranks_pack(const gw_ranks *ranks, gw_text *text);
GW_MUST_CHECK bool gw_ranks_unpack(const char *data, size_t bytes, gw_ranks *ret_ranks);

#endif
