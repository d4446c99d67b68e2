/* Run a training from its beginning, or from a checkpoint, to its end.
 *
 * A step covers `batch` images. Each device processes its part in micro-batches, one after the other, and adds up
 * their gradients. The gradients of all devices are then summed, and each device makes the same update. A device is
 * a thread with its own back end state.
 *
 * On SIGINT and SIGTERM (train_stop()) the step is finished, a checkpoint is written, and the training ends
 * normally. After any failure, the thread and the loader of every device end, and everything is released. If a
 * device does not come back within TRAIN_WAIT_S seconds after the failure of another one (a sum of gradients may
 * wait for a dead GPU for ever), the process prints a line on stderr and ends with status 3. The last checkpoint is
 * then still complete. */
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

    const char *data; /* as in data_options */
    size_t image_count;
    bool labels_are_lot;
    int loader_threads; /* per device; 0: one */
    uint64_t seed;      /* for initial values, data and order */
    bool deterministic;
    bool tunes; /* the back end may time its algorithms first; the choice may differ between runs */

    size_t batch; /* images per step, on all devices */
    struct fit_options fit;
    uint64_t steps;  /* total, including those before a checkpoint; 0: use epochs */
    uint64_t epochs; /* 0: use steps */
    enum optimizer optimizer;
    double rate, momentum, weight_decay; /* momentum: for SGD */
    enum scaling scaling;
    double loss_scale;    /* for SCALING_FIXED */
    uint64_t scale_after; /* 0: SCALE_AFTER */

    bool evaluates;          /* evaluate at the end */
    uint64_t evaluate_every; /* evaluate also after this many steps; 0: never */
    uint64_t results_every;  /* number of steps after which the host reads the results; 0: every step. Each read waits
                                for the device. With a dynamic loss scale the results are read after every step */
    const char *checkpoint_path; /* NULL: none */
    uint64_t checkpoint_every;   /* steps; 0: only at the end */
    bool resumes;                /* from checkpoint_path; starts anew if there is no file */

    FILE *log, *progress; /* borrowed; NULL: none */
    uint64_t progress_every;
    uint64_t memory_warn_bytes;
    int temperature_warn;
    bool says_all; /* also print the back end's log */
};

struct train_result {
    uint64_t steps; /* total so far; the next field counts this run: */
    uint64_t own_steps;
    bool was_stopped;
    double loss, accuracy;           /* of the last step whose results were read; -1: none */
    double test_loss, test_accuracy; /* -1: not evaluated */
    double images_per_s;             /* over all steps except the first; -1: too few steps */
    struct fit fit;
    /* Reported by the back end's scope of the first device. */
    bool has_scope;
    uint64_t peak_bytes, pinned_peak_bytes;
    bool has_free; /* free memory of the whole GPU, read without a context of ours: */
    uint64_t free_begin_bytes, free_end_bytes;
    int64_t own_bytes; /* maximum observed memory of this process on a GPU; -1: unknown */
};

/* Returns true if the training finished or was stopped, and everything was released. */
bool train(const struct train_options *options, struct train_result *ret_result, struct reason *reason);
/* Print only the plan. Without a GPU the libraries' workspaces are unknown, and the output mentions this. */
bool train_plan(const struct train_options *options, FILE *out, struct reason *reason);
/* Whether the batch divides equally among the devices. Both functions above reject it otherwise. */
bool train_has_parts(const struct train_options *options, struct reason *reason);
/* Make all trainings of the process end soon. May be called from a signal handler and from any thread. */
void train_stop(void);

#endif
