/* Part of gw_model_facts.h: a rehearsal, a run in which device memory existed only in the hook's books and nothing was
 * computed. */
#ifndef GW_REHEARSAL_FACTS_H
#define GW_REHEARSAL_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One process on one device. */
typedef struct gw_rehearsed {
    uint32_t pid;
    int device;
    uint64_t limit_bytes; /* the card that the program saw */
    uint64_t real_bytes;  /* the card of this machine */
    /* The most that the process held at once: of that, what the program asked for, and what the driver held for it
     * (contexts, code, streams). */
    uint64_t peak_bytes, asked_bytes, driver_bytes;
    uint64_t t_peak_ns;
    uint32_t peak_site; /* call site of the request that made the peak; 0: not known */
    bool site_due;      /* the event of that request follows */
} gw_rehearsed;

enum { GW_REHEARSAL_REFUSED_MAX = 32, GW_REHEARSAL_READS_MAX = 64 };

typedef struct gw_rehearsal {
    gw_rehearsed *card; /* owned; empty: the run was no rehearsal */
    size_t card_count;
    char *refused[GW_REHEARSAL_REFUSED_MAX]; /* owned by the model: names of calls that a rehearsal does not support */
    size_t refused_count;
    uint32_t read_site[GW_REHEARSAL_READS_MAX]; /* call sites that read small values from the card */
    size_t read_count;
    bool timed;                /* the program measured times on the card, which are made up */
    uint64_t equal_iterations; /* 0: the iterations did not become equal, or the program ended before */
    uint64_t launches_each;    /* of each equal iteration */
    uint64_t t_steady_ns;
    uint64_t torch_live_bytes, torch_reserved_bytes; /* PyTorch's peak of live bytes, and its reserve; 0: not known */
} gw_rehearsal;

#endif
