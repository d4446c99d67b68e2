/* Part of gw_model_facts.h: the NCCL communicators of a process and its last calls on each of them.
 *
 * Only calls of the program are recorded, not those that NCCL makes itself. Numbers start at 1. Collectives and
 * point-to-point calls of a communicator are numbered separately: ranks agree on the numbers of collectives alone. A
 * replayed graph makes no NCCL call and gets no number. */
#ifndef GW_COLLECTIVE_FACTS_H
#define GW_COLLECTIVE_FACTS_H

#include "gw_collective.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gw_collective {
    gw_nccl_call call;
    uint64_t number;      /* among the collectives, or among the point-to-point calls, of its communicator */
    uint64_t t_ns;        /* when it was called */
    uint64_t t_end_ns;    /* when it, or its group, returned; 0: not yet */
    uint64_t elements;    /* as passed to NCCL */
    uint64_t stream;      /* the CUstream */
    int32_t type, op;     /* ncclDataType_t, ncclRedOp_t; op: -1 if the function has none */
    int32_t root_or_peer; /* -1: none */
    int32_t result;       /* ncclResult_t */
    uint32_t tid, site,
        group; /* site: 0 if unknown; group: calls of one ncclGroupStart/End have the same number; 0: none */
    gw_collective_state state;
} gw_collective;

typedef struct gw_communicator {
    uint64_t key;    /* names it within the process; handles are reused */
    uint64_t handle; /* ncclComm_t of this process */
    uint64_t id;     /* the same in all ranks of the communicator; 0: unknown */
    uint32_t size, rank;
    int32_t device;               /* -1: unknown */
    uint64_t t_init_ns, t_end_ns; /* t_end_ns: destroyed, finalized or aborted; 0: not */
    bool is_ready;                /* its init call has returned success */
    bool is_aborted;
    bool has_captured; /* a call was captured into a graph, so its number says nothing about what has run */
    uint32_t init_site;
    uint64_t collectives, p2p; /* calls made */
    uint64_t calls[GW_NCCL_CALL_COUNT];
    gw_collective *last; /* owned; its last calls, oldest first */
    size_t last_count;
} gw_communicator;

/* Name of an ncclDataType_t, such as "float32", and its bytes; "unknown type" and 0 for numbers that are not known. */
const char *gw_nccl_type_name(int32_t type, uint32_t *ret_bytes);

/* Write "all_reduce #41 (4.00 MiB, float32)". With `exact`, the number of elements instead of the size. */
enum { GW_NCCL_CALL_TEXT_MAX = 128 };
const char *gw_nccl_call_text(char out[GW_NCCL_CALL_TEXT_MAX], const gw_collective *call, bool exact);
/* Write the name of a call as PyTorch has it: "all_reduce". */
const char *gw_nccl_short_name(char out[GW_NCCL_CALL_TEXT_MAX], gw_nccl_call call);

#endif
