/* Train a model, from the beginning or from a checkpoint, to the end of the run.
 *
 * A step covers `batch` images. Each device processes its part in micro-batches and adds up the gradients. The
 * gradients of all devices are then summed, and each device makes the same update. Each device has its own thread and
 * back end state.
 *
 * On SIGINT and SIGTERM, the program calls train_stop(). The current step is finished, a checkpoint is written, and the
 * run ends normally.
 *
 * After a failure, all threads and loaders end, and everything is released. But a device may wait forever for the
 * gradients of a failed GPU. If it does not end within device_wait_s seconds, the process prints a line on stderr
 * and ends with status 3. The last checkpoint is then still complete. */
#ifndef TRAINER_TRAIN_H
#define TRAINER_TRAIN_H

#include "data.h"
#include "events.h"
#include "exchange.h"
#include "fit.h"
#include "rate.h"
#include "scale.h"

#include <stdio.h>

enum { TRAIN_WAIT_S = 60, TRAIN_DEVICES_MAX = 16 };

struct train_options {
    const char *name; /* name of the run */
    const char *model_path;
    const struct backend *backend;
    int devices;
    int device_wait_s; /* how long to wait for the other devices after a failure; 0: TRAIN_WAIT_S */

    const char *data;      /* data set, as in data_options.source */
    const char *test_data; /* data set of the test images, or NULL: that of `data` */
    const char *augment;   /* these four are as in data_options */
    size_t resize;
    bool skips_damaged;
    size_t image_count;
    bool labels_are_lot;
    int loader_threads; /* number of threads per device that prepare inputs; 0: one */
    int loader_queue;   /* as loader_options.queue */
    uint64_t seed;      /* seed of initial values, data and order */
    bool deterministic;
    bool tunes; /* the back end may time its algorithms before training; the choice may differ between runs */

    size_t batch; /* images per step, on all devices */
    struct fit_options fit;
    uint64_t steps;  /* total number of steps, including those done before the checkpoint; 0: use epochs */
    uint64_t epochs; /* number of epochs, including those done before the checkpoint; used only if `steps` is 0 */
    enum optimizer optimizer;
    double rate, momentum, weight_decay; /* momentum is only used by SGD */
    struct rate_options schedule;        /* how the rate changes; schedule.rate is not used */
    bool is_nesterov;
    bool selects_decay; /* weight decay leaves out biases, and scale and shift of batch normalisation */
    double clip;        /* largest norm of the gradients; 0: they are not clipped */
    double smoothing;   /* label smoothing, from 0 to below 1 */
    /* Evaluate a moving average of the parameters instead of the parameters. After each step, the average is multiplied
     * by this, and the new parameters by the rest. 0: no average */
    double average;
    enum scaling scaling;
    double loss_scale;    /* the scale for SCALING_FIXED */
    uint64_t scale_after; /* a dynamic scale doubles after this many good steps; 0: after SCALE_AFTER */

    bool evaluates;           /* evaluate after the last step */
    uint64_t evaluate_every;  /* if `evaluates`: steps between evaluations; 0: evaluate only after the last step */
    uint64_t evaluate_epochs; /* the same in epochs, used if evaluate_every is 0 */
    /* End the training after this many evaluations in a row without a better accuracy than the best one. 0: never. If
     * there is a checkpoint_path, the checkpoint with the best accuracy is kept in a file with ".best" behind it. */
    uint64_t patience;
    /* The host reads the results once in this many steps. 0, or a dynamic loss scale: after every step. Each read
     * waits for the device. */
    uint64_t results_every;
    const char *checkpoint_path; /* NULL: write no checkpoint */
    uint64_t checkpoint_every;   /* number of steps between checkpoints; 0: write one only at the end */
    bool resumes; /* continue from checkpoint_path; if the file does not exist, start from the beginning */
    /* A run that continues from a checkpoint does not read exchange.weights. A stopped run writes no weights. */
    struct exchange exchange;

    FILE *log, *csv, *progress; /* borrowed; NULL: no log, no CSV, no output for the user */
    struct events *events;      /* borrowed; NULL: no event file for TensorBoard */
    uint64_t progress_every;
    uint64_t memory_warn_bytes;
    int temperature_warn;
    bool says_all; /* also print the back end's log */
};

struct train_result {
    uint64_t steps; /* number of steps, including those done before the checkpoint */
    uint64_t own_steps;
    bool was_stopped;
    double loss, accuracy;           /* of the last step whose results the host read; -1: no results were read */
    double test_loss, test_accuracy; /* -1: not evaluated */
    double test_top;                 /* part of the images whose class is among the CLASSES_TOP best; -1: unknown */
    double best_accuracy;            /* of all evaluations, including those before the checkpoint; -1: none */
    uint64_t best_step;              /* step of the best evaluation; 0: none */
    bool ended_early;                /* the patience was exhausted before the last step */
    double images_per_s;             /* mean over all steps after the first; -1: there were none */
    double loader_wait; /* part of the same time that the first device's steps waited for inputs, 0 to 1; -1 as above */
    size_t damaged_images; /* image files that were left out or replaced */
    struct fit fit;
    /* has_scope: the next two sizes are known. They are from the report of the first device's scope. */
    bool has_scope;
    uint64_t peak_bytes, pinned_peak_bytes;
    /* has_free: the next two sizes are known. They are the free memory of the first device's GPU before and after the
     * run. */
    bool has_free;
    uint64_t free_begin_bytes, free_end_bytes;
    /* Memory of this process on the first device's GPU before and after the run, from NVML; -1: unknown, or NVML does
     * not list the process, for example because it has no context yet. */
    int64_t own_begin_bytes, own_end_bytes;
    int64_t own_bytes; /* largest memory use of this process that was observed on one GPU; -1: unknown */
};

/* Run a training. Returns true if the training reached its last step or was stopped by train_stop(), and everything was
 * released. */
bool train(const struct train_options *options, struct train_result *ret_result, struct reason *reason);
/* Print only the plan, without training. Without a GPU, the sizes of the libraries' workspaces are unknown, and the
 * output says so. */
bool train_plan(const struct train_options *options, FILE *out, struct reason *reason);
/* Open the data set of a training. The caller closes it. */
bool train_open_data(const struct train_options *options, const struct model *model, struct data **ret_data,
                     struct reason *reason);
/* Make the images of an epoch, or of `steps` steps if these are fewer, without a back end, and print how fast that is.
 */
bool train_measure_data(const struct train_options *options, FILE *out, struct reason *reason);
/* True if the number of devices is allowed and divides the batch. Otherwise train() and train_plan() fail. */
bool train_has_parts(const struct train_options *options, struct reason *reason);
/* True if the choice of parameters that decay is needed on the device. */
static inline bool train_selects_decay(const struct train_options *options)
{
    return options->selects_decay && options->weight_decay > 0;
}
/* Stop all trainings of the process after their current step. May be called from a signal handler or any thread. */
void train_stop(void);

#endif
