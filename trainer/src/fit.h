/* Chooses how a training run fits into its memory limit. It only makes plans and allocates nothing.
 *
 * On each device, the limit `memory_bytes` covers three sizes:
 *
 *   taken              what the process has on the GPU (context, libraries, handles), after open() and join()
 *   plan               everything that the run allocates, to the byte, including workspaces
 *   FIT_RESERVE_BYTES  memory that libraries allocate late (kernels on first use), and rounding to the driver's pages.
 *                      After the first step, worker.c checks whether this reserve was enough.
 *
 * `taken` is from:
 * - NVML, if it lists the process
 * - otherwise, the decrease of the GPU's free memory since before open(); for several runs in one process, the largest
 * - without NVML, FIT_UNKNOWN_BYTES
 * - without a GPU (`has_card` is false), 0: the limit then covers only the plan
 *
 * Even without a limit, the plan and the reserve must fit into the GPU's free memory.
 *
 * The cheapest way to save memory is tried first: no overlapping steps, then smaller workspaces, then a smaller
 * micro-batch. Below FIT_USEFUL_IMAGES images, checkpointing is tried, then the next allowed precision. If no choice
 * reaches FIT_USEFUL_IMAGES, the one with the largest micro-batch is used. */
#ifndef TRAINER_FIT_H
#define TRAINER_FIT_H

#include "backend.h"

#define FIT_RESERVE_BYTES   ((uint64_t)256 << 20)
#define FIT_UNKNOWN_BYTES   ((uint64_t)1 << 30)
#define FIT_WORKSPACE_BYTES ((uint64_t)1 << 30)
enum { FIT_USEFUL_IMAGES = 32 };

enum choice { CHOICE_OFF, CHOICE_ON, CHOICE_AUTO };

struct fit_options {
    uint64_t memory_bytes;    /* the memory limit; 0: none */
    uint64_t workspace_bytes; /* maximum for each step; 0: FIT_WORKSPACE_BYTES */
    size_t micro_batch;       /* per device; 0: the largest that fits and divides the device's part of the batch */
    enum choice checkpointing;
    bool in_order;            /* no overlapping steps, even if there is memory for them */
    enum precision precision; /* the only precision to try, unless chooses_precision is set */
    bool chooses_precision;   /* try fp32 first, then bf16 if the back end supports it */
};

struct fit_request {
    struct fit_options options;
    const struct model *model;
    const struct backend *backend;
    void *state;   /* open state of the back end; NULL if the back end needs none */
    size_t images; /* images per step on this device */
    enum optimizer optimizer;
    bool averages, selects_decay, clips; /* as in struct schedule_options */
    bool has_card;
    int64_t taken_bytes;                       /* size "taken" above, from fit_taken(); -1: unknown */
    int64_t free_bytes;                        /* current free memory of the GPU; -1: unknown */
    void (*say)(void *user, const char *line); /* reports each choice and its reason in one line; may be NULL */
    void *user;
};

struct fit {
    struct schedule_options schedule; /* the options for schedule_make() */
    uint64_t workspace_bytes;
    uint64_t plan_bytes, taken_bytes, reserve_bytes;
    uint64_t limit_bytes; /* the sum of plan, taken and reserve bytes must not exceed this; 0: no limit */
};

/* Return the GPU memory that the back end took, or -1 if unknown. Read `before` with watch() before open(), and `after`
 * later. */
int64_t fit_taken(const struct backend_watch *before, const struct backend_watch *after);
/* Return the memory left for the plan, in bytes; UINT64_MAX: no limit. Sets taken_bytes, reserve_bytes and limit_bytes
 * of *ret_fit. */
uint64_t fit_budget(const struct fit_request *request, struct fit *ret_fit);
/* Choose a configuration that fits. If nothing fits, `reason` contains the size of the smallest plan that was tried,
 * and is_memory is set. */
bool fit_choose(const struct fit_request *request, struct fit *ret_fit, struct reason *reason);

/* Format a size such as "7.25 GiB"; returns `out`. */
char *size_text(uint64_t bytes, char out[24]);

#endif
