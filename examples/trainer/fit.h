/* How a training fits into the memory that it may take: by plan, before any of it is taken.
 *
 * What counts against a promise of `memory_bytes`, on each device:
 * - taken: what the process holds on the card once the back end is open and has joined the others: context, libraries,
 *   handles. By NVML's word on this process; where NVML does not name it, what the card has less than before open(),
 * the most of all runs of the process; FIT_UNKNOWN_BYTES where NVML is missing. On a host (`has_card` false) nothing: a
 * promise is for the plan alone there, without libraries and data.
 * - the plan: all that the run allocates, to the byte, workspaces included.
 * - FIT_RESERVE_BYTES: what libraries load late (kernels at their first use), and the driver's pages. Whether that was
 *   enough is measured after the first step (train.h).
 * Without a promise the card's free memory takes its place.
 *
 * The order of choices: less memory first by what costs least. A micro-batch as large as possible; where it would be
 * smaller than FIT_USEFUL_IMAGES, checkpointing; then the next precision that is allowed; then whatever has the largest
 * micro-batch. Within one, smaller workspaces come before a smaller micro-batch. */
#ifndef TRAINER_FIT_H
#define TRAINER_FIT_H

#include "backend.h"

#define FIT_RESERVE_BYTES   ((uint64_t)256 << 20)
#define FIT_UNKNOWN_BYTES   ((uint64_t)1 << 30)
#define FIT_WORKSPACE_BYTES ((uint64_t)1 << 30)
enum { FIT_USEFUL_IMAGES = 32 };

enum choice { CHOICE_OFF, CHOICE_ON, CHOICE_AUTO };

struct fit_options {
    uint64_t memory_bytes;    /* the promise; 0: none */
    uint64_t workspace_bytes; /* of one step, at most; 0: FIT_WORKSPACE_BYTES */
    size_t micro_batch;       /* on each device; 0: the largest that fits and divides the device's part of the batch */
    enum choice checkpointing;
    enum precision precision; /* the one that is tried first */
    bool chooses_precision;   /* fp32, then bf16: where the back end can */
};

struct fit_request {
    struct fit_options options;
    const struct model *model;
    const struct backend *backend;
    void *state;   /* open */
    size_t images; /* this device's part of a step */
    enum optimizer optimizer;
    bool has_card;
    int64_t taken_bytes;                       /* as above, by fit_taken(); -1: unknown */
    int64_t free_bytes;                        /* of the card, now; -1: unknown */
    void (*say)(void *user, const char *line); /* one line a choice, and why; may be NULL */
    void *user;
};

struct fit {
    struct schedule_options schedule; /* what schedule_make() wants */
    uint64_t workspace_bytes;
    uint64_t plan_bytes, taken_bytes, reserve_bytes;
    uint64_t limit_bytes; /* that the three stay below; 0: none */
};

/* What open() took of a card, by watch() before and after it. -1: unknown. */
int64_t fit_taken(const struct backend_watch *before, const struct backend_watch *after);
/* What is left for the plan. UINT64_MAX: no limit. */
uint64_t fit_budget(const struct fit_request *request, struct fit *ret_fit);
/* `reason` says what the smallest choice needs where none fits; is_memory is set then. */
bool fit_choose(const struct fit_request *request, struct fit *ret_fit, struct reason *reason);

/* "7.25 GiB"; returns `out`. */
char *size_text(uint64_t bytes, char out[24]);

#endif
