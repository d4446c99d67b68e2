/* Run a training from its beginning, or from a checkpoint, to its end.
 *
 * A step covers `batch` images. Each device processes its part in micro-batches, one after the other, and adds up
 * their gradients. The gradients of all devices are then summed, and each device makes the same update. Each device
 * has its own thread and its own back end state.
 *
 * On SIGINT and SIGTERM (train_stop()) the step is finished, a checkpoint is written, and the training ends
 * normally. After any failure, the thread and the loader of every device end, and everything is released. A sum of
 * gradients may wait for a dead GPU for ever: if a device does not end within TRAIN_WAIT_S seconds after the failure
 * of another device, the process prints a line on stderr and ends with status 3. The last checkpoint is then still
 * complete. */
#ifndef TRAINER_TRAIN_H
#define TRAINER_TRAIN_H

#include "fit.h"
#include "scale.h"

#include <stdio.h>

enum { TRAIN_WAIT_S = 60, TRAIN_DEVICES_MAX = 16 };

struct train_options {
    const char *name; /* name of the run */
    const char *model_path;
    const struct backend *backend;
    int devices;

    const char *data; /* data set, as in data_options.source */
    size_t image_count;
    bool labels_are_lot;
    int loader_threads; /* threads per device that fill inputs; 0: one */
    uint64_t seed;      /* seed of initial values, data and order */
    bool deterministic;
    bool tunes; /* the back end may time its algorithms before training; the choice may differ between runs */

    size_t batch; /* images per step, on all devices */
    struct fit_options fit;
    uint64_t steps;  /* total number of steps, including those before a checkpoint; 0: use epochs */
    uint64_t epochs; /* 0: use steps */
    enum optimizer optimizer;
    double rate, momentum, weight_decay; /* momentum is only used by SGD */
    enum scaling scaling;
    double loss_scale;    /* the scale for SCALING_FIXED */
    uint64_t scale_after; /* number of good steps after which the scale doubles; 0: SCALE_AFTER */

    bool evaluates;          /* evaluate at the end */
    uint64_t evaluate_every; /* number of steps after which to evaluate; 0: do not evaluate before the end */
    /* The host reads the results after this number of steps; 0: after every step. Each read waits for the device. With
     * a dynamic loss scale, the results are read after every step. */
    uint64_t results_every;
    const char *checkpoint_path; /* NULL: none */
    uint64_t checkpoint_every;   /* number of steps after which to write a checkpoint; 0: only at the end */
    bool resumes; /* continue from checkpoint_path; if the file does not exist, start from the beginning */

    FILE *log, *progress; /* borrowed; NULL: none */
    uint64_t progress_every;
    uint64_t memory_warn_bytes;
    int temperature_warn;
    bool says_all; /* also print the back end's log */
};

struct train_result {
    uint64_t steps; /* total number of steps; own_steps counts only this run */
    uint64_t own_steps;
    bool was_stopped;
    double loss, accuracy;           /* values of the last step whose results were read; -1: no results were read */
    double test_loss, test_accuracy; /* -1: not evaluated */
    double images_per_s;             /* over all steps except the first; -1: too few steps */
    struct fit fit;
    /* Values from the report of the first device's scope. */
    bool has_scope;
    uint64_t peak_bytes, pinned_peak_bytes;
    bool has_free; /* the next two fields are known: free memory of the whole GPU before and after the run */
    uint64_t free_begin_bytes, free_end_bytes;
    int64_t own_bytes; /* maximum observed memory of this process on a GPU; -1: unknown */
};

/* Run a training. Returns true if the training finished or was stopped, and everything was released. */
bool train(const struct train_options *options, struct train_result *ret_result, struct reason *reason);
/* Print only the plan. Without a GPU the libraries' workspaces are unknown, and the output mentions this. */
bool train_plan(const struct train_options *options, FILE *out, struct reason *reason);
/* True if the batch divides equally among the devices. Otherwise train() and train_plan() fail. */
bool train_has_parts(const struct train_options *options, struct reason *reason);
/* Stop all trainings of the process after the current step. May be called from a signal handler and any thread. */
void train_stop(void);

#endif
