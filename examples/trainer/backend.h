/* A back end does the computing. Each is one table of functions: `cpu` (oneDNN), `cuda` (cuDNN, cuBLAS and its own
 * kernels, loaded at run time), `dry` (allocates the memory on a GPU and computes nothing).
 *
 * One state belongs to one device and is used by one thread at a time. Only feed() and fed() may be called by a
 * loader's thread at the same time. Steps run in order and may still be running when a function returns; settle()
 * waits for them. A function that returns false has set `reason`. After a device is lost, all later functions return
 * false. close() always works. */
#ifndef TRAINER_BACKEND_H
#define TRAINER_BACKEND_H

#include "schedule.h"

struct backend_options {
    int device;
    uint64_t memory_bytes; /* memory limit of the run; 0: no limit */
    bool deterministic;    /* the same sums in the same order each time */
    bool tune;             /* load() may time algorithms and use the fastest; the choice may differ between runs */
    const char *name;      /* name of the scope, and so of the phase that gpuwhy shows; NULL: none */
    void (*log)(void *user, const char *line); /* reports fallbacks and what was still held; called by any thread */
    void *log_user;
};

/* One step of the optimizer. Gradients are first multiplied by `scale` (1 / loss scale). */
struct update {
    enum optimizer optimizer;
    float rate, momentum, weight_decay;
    float beta_1, beta_2, epsilon; /* Adam */
    uint64_t number;               /* from 1, for Adam's bias correction */
    float scale;
};

struct iteration {
    unsigned turn;         /* which input buffers to use; they have been fed */
    bool is_first;         /* first micro-batch of a step: gradients and results begin at 0 */
    bool is_evaluation;    /* forward pass and loss only, with the running statistics; no gradients */
    float loss_scale;      /* each image's gradient is multiplied by loss_scale / images_in_step */
    size_t images_in_step; /* in all micro-batches and on all devices */
    size_t images; /* images of this micro-batch that count, from the beginning: the last one of an evaluation may be
                      short */
};

/* Values observed on a device. Unknown values are -1. */
struct backend_watch {
    int64_t free_bytes, total_bytes; /* of the whole GPU, used by any process */
    int64_t own_bytes;               /* memory of this process on the GPU, including contexts, libraries and kernels */
    int temperature;                 /* degrees Celsius */
};

struct backend {
    const char *name;
    bool (*can)(enum precision precision);
    /* Open a device. Pass `ret_state` to close(). */
    bool (*open)(const struct backend_options *options, void **ret_state, struct reason *reason);
    /* Wait for all work and release everything. `ret_report` may be NULL; it is set to NULL if the back end has no
     * scope. */
    bool (*close)(void *state, gs_report **ret_report, struct reason *reason);

    /* Choose the algorithm of a step and its workspace: sets step->algorithm and step->workspace_bytes. Called by
     * schedule_make(), before any memory is allocated. The budget limits optional workspace. Workspace that a step
     * cannot do without (partial sums, results that are added to others) is allocated in any case. */
    bool (*plan)(void *state, const struct schedule_options *options, struct step *step, size_t budget_bytes,
                 struct reason *reason);
    /* Allocate all memory of the schedule at once and set the moments to 0. The schedule must live as long as the
     * state, or until the next load(). A second load() frees the memory of the first. */
    bool (*load)(void *state, const struct schedule *schedule, struct reason *reason);

    /* Copy bytes to or from a block; the copy is complete on return. Data written to LASTING_PARAMETERS is also
     * written to LASTING_LOW. */
    bool (*put)(void *state, size_t block, const void *data, size_t bytes, struct reason *reason);
    bool (*get)(void *state, size_t block, void *data, size_t bytes, struct reason *reason);

    /* Allocate host memory from which feed() copies quickly (page-locked if there is a GPU). */
    bool (*host_alloc)(void *state, size_t bytes, void **ret, struct reason *reason);
    void (*host_free)(void *state, void *memory);
    /* Copy images and labels into the buffers of `turn` while the device computes. The copy begins after the steps
     * that read the buffers have ended. */
    bool (*feed)(void *state, unsigned turn, const float *images, const int32_t *labels, struct reason *reason);
    /* Wait until feed()'s copy of `turn` is complete, so that the host memory may be written again. */
    bool (*fed)(void *state, unsigned turn, struct reason *reason);

    /* Run all steps of the schedule over one micro-batch. */
    bool (*iterate)(void *state, const struct iteration *iteration, struct reason *reason);
    /* The next three are NULL if the back end supports only one device. One device invites, and all join with its
     * id, each in its own thread. This is done before load(), so that the communicator's memory is measured with the
     * rest. */
    bool (*invite)(void *state, gs_nccl_id *ret_id, struct reason *reason);
    bool (*join)(void *state, int ranks, int rank, const gs_nccl_id *id, struct reason *reason);
    /* Sum the gradients of all devices; between join() and close(). */
    bool (*sum_gradients)(void *state, struct reason *reason);
    /* Count the gradients that are not finite in results.broken. If there are none, update the parameters, all on
     * the device. */
    bool (*update)(void *state, const struct update *update, struct reason *reason);
    /* Wait for all work and return the results since the last is_first. */
    bool (*settle)(void *state, struct results *ret_results, struct reason *reason);
    /* Read the GPU's values. Needs no state and creates no context, so it may be called before open(), from any
     * thread. Back ends with a GPU use card_watch() (watch.h). */
    void (*watch)(int device, struct backend_watch *ret_watch);
};

/* NULL: there is no such back end, or this build does not have it. */
const struct backend *backend_find(const char *name);
extern const struct backend backend_cpu, backend_cuda, backend_dry;

#endif
