/* Read answers of NCCL's RAS (NCCL 2.24 and later, src/ras/client_support.cc): what `ncclras` prints for STATUS and
 * VERBOSE STATUS, as text or as JSON.
 *
 * The answer has, for each communicator, how many collectives of each kind a rank has launched. Nothing says whether
 * they have ended. The text names ranks only where counts differ. NCCL 2.24 and 2.25 have one count for all kinds.
 *
 * If a process does not answer, RAS may list ranks that never existed. So ranks that are not below the size of their
 * communicator are ignored. */
#ifndef GW_RAS_H
#define GW_RAS_H

#include "gw_collective_facts.h"
#include "gw_model.h"
#include "gw_status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An index behind those of the calls: all kinds together. */
enum { GW_RAS_ALL = GW_NCCL_CALL_COUNT, GW_RAS_KINDS, GW_RAS_NODE_MAX = 64 };

typedef struct gw_ras_rank {
    uint32_t rank, pid;         /* pid 0: not known */
    char node[GW_RAS_NODE_MAX]; /* address of the host; "": not known */
    bool is_missing;            /* the process did not answer */
    bool is_dead;               /* RAS could not reach the process for a minute */
    bool has[GW_RAS_KINDS];     /* the count is known */
    uint64_t count[GW_RAS_KINDS];
} gw_ras_rank;

typedef struct gw_ras_comm {
    uint64_t hash;
    uint32_t size;     /* number of ranks; 0: not known */
    gw_ras_rank *rank; /* owned; sorted by rank */
    size_t rank_count, rank_capacity;
} gw_ras_comm;

typedef struct gw_ras {
    char version[32];  /* of NCCL, such as "2.28.9" */
    gw_ras_comm *comm; /* owned; those of which something is known */
    size_t comm_count, comm_capacity;
    bool is_timeout; /* some processes did not answer RAS in time, so ranks may be missing */
} gw_ras;

/* True if the text, which may be the beginning of a file, is such an answer. */
bool gw_ras_is(const char *text, size_t bytes);

/* Read an answer. `name` begins the text of errors. On GW_OK the caller frees *ret_ras with gw_ras_free().
 * GW_CORRUPT: damaged JSON; GW_UNSUPPORTED: no answer of RAS, or too many ranks; GW_NOMEM. */
GW_MUST_CHECK gw_status gw_ras_read(const char *name, const char *text, size_t bytes, gw_ras *ret_ras, gw_error *err);
void gw_ras_free(gw_ras *ras); /* resets it to {0} */
/* Read a file of at most 64 MiB. GW_IO: it cannot be read. */
GW_MUST_CHECK gw_status gw_ras_read_file(const char *path, gw_ras *ret_ras, gw_error *err);

/* True if two answers have the same counts: between them, no rank made a call that RAS counts. */
bool gw_ras_same(const gw_ras *a, const gw_ras *b);

/* Read answers of one job, the oldest first, into a finished model: the newest answer, with one process for each of its
 * processes, and whether all answers have the same counts. The caller owns the model. */
GW_MUST_CHECK gw_status gw_ras_model(const char *const *path, size_t count, gw_model **ret_model, gw_error *err);

#endif
