/* Who computes. One table of functions each: `cpu` (oneDNN), `cuda` (cuDNN, cuBLAS and own kernels, loaded at run
 * time), `dry` (takes the memory on a card, computes nothing).
 *
 * One state is one device and is used by one thread at a time; feed() and fed() may be called by a loader's thread
 * beside it. Steps are in order, and may still be running when a function returns; settle() waits. A function that
 * answers false has written `reason`; once a device is lost all later ones answer false, too. close() works in any
 * case. */
#ifndef TRAINER_BACKEND_H
#define TRAINER_BACKEND_H

#include "schedule.h"

struct backend_options {
    int device;
    uint64_t memory_bytes; /* that the run may take; 0: no limit */
    bool deterministic;    /* the same sums in the same order each time */
    bool tune;             /* load() may time algorithms and keep the quickest: not the same ones each time */
    const char *name;      /* of the scope, thus the phase for gpuwhy; NULL: none */
    void (*log)(void *user, const char *line); /* falls back, what was held; any thread */
    void *log_user;
};

/* One step of the optimizer. Gradients are multiplied by `scale` first (1 / loss scale). */
struct update {
    enum optimizer optimizer;
    float rate, momentum, weight_decay;
    float beta_1, beta_2, epsilon; /* Adam */
    uint64_t number;               /* from 1: Adam's correction */
    float scale;
};

struct iteration {
    unsigned turn;         /* which input buffers; they have been fed */
    bool is_first;         /* of the micro-batches of a step: gradients and results begin at 0 */
    bool is_evaluation;    /* forward and loss alone, by the running statistics; no gradients */
    float loss_scale;      /* each image's gradient is multiplied by loss_scale / images_in_step */
    size_t images_in_step; /* of all micro-batches and devices */
    size_t images; /* of this micro-batch that count, from its front: the last one of an evaluation may be short */
};

/* What a device has seen. Unknown is -1. */
struct backend_watch {
    int64_t free_bytes, total_bytes; /* the card's, whoever uses it */
    int64_t own_bytes;               /* what this process holds there: contexts, libraries and kernels, too */
    int temperature;                 /* degrees Celsius */
};

struct backend {
    const char *name;
    bool (*can)(enum precision precision);
    /* `ret_state` is given back by close(). */
    bool (*open)(const struct backend_options *options, void **ret_state, struct reason *reason);
    /* Waits, gives everything back. `ret_report`: may be NULL; NULL in it where the back end has no scope. */
    bool (*close)(void *state, gs_report **ret_report, struct reason *reason);

    /* Which algorithm a step takes, and its workspace: writes step->algorithm and step->workspace_bytes. Called by
     * schedule_make(), before there is memory. The budget is for what an algorithm likes to have; what a step cannot do
     * without (partial sums, results that are added to others) it takes in any case. */
    bool (*plan)(void *state, const struct schedule_options *options, struct step *step, size_t budget_bytes,
                 struct reason *reason);
    /* All memory of the schedule, at once; the moments are 0. The schedule must live as long as the state, or until the
     * next load(). A second load() gives the first one's memory back. */
    bool (*load)(void *state, const struct schedule *schedule, struct reason *reason);

    /* To and from a block, as bytes; done when they return. What is put into LASTING_PARAMETERS goes into LASTING_LOW,
     * too. */
    bool (*put)(void *state, size_t block, const void *data, size_t bytes, struct reason *reason);
    bool (*get)(void *state, size_t block, void *data, size_t bytes, struct reason *reason);

    /* Host memory that feed() copies from quickly (page-locked where there is a card). */
    bool (*host_alloc)(void *state, size_t bytes, void **ret, struct reason *reason);
    void (*host_free)(void *state, void *memory);
    /* Copy images and labels into the buffers of `turn` beside the computing, once the steps that read them are over.
     */
    bool (*feed)(void *state, unsigned turn, const float *images, const int32_t *labels, struct reason *reason);
    /* Until feed()'s copy of `turn` is done: the host memory may be written again. */
    bool (*fed)(void *state, unsigned turn, struct reason *reason);

    /* All steps of the schedule over one micro-batch. */
    bool (*iterate)(void *state, const struct iteration *iteration, struct reason *reason);
    /* The three are NULL where the back end knows one device alone. One device invites, all join by its id, each in a
     * thread of its own, before load(): what the communicator takes is measured with the rest. */
    bool (*invite)(void *state, gs_nccl_id *ret_id, struct reason *reason);
    bool (*join)(void *state, int ranks, int rank, const gs_nccl_id *id, struct reason *reason);
    /* Of all devices, between join() and close(). */
    bool (*sum_gradients)(void *state, struct reason *reason);
    /* Count gradients that are no numbers into results.broken, and take the step on the device only if there are
     * none. */
    bool (*update)(void *state, const struct update *update, struct reason *reason);
    /* Waits for everything; the results since the last is_first. */
    bool (*settle)(void *state, struct results *ret_results, struct reason *reason);
    /* Needs no state: also before open(), where it makes no context. Any thread. card_watch() (watch.h) is it, where
     * there are cards. */
    void (*watch)(int device, struct backend_watch *ret_watch);
};

/* NULL: not part of this build, or no such back end. */
const struct backend *backend_find(const char *name);
extern const struct backend backend_cpu, backend_cuda, backend_dry;

#endif
