/* A training from its beginning, or from a checkpoint, to its end.
 *
 * A step is `batch` images: each device takes its part in micro-batches, one after the other, into the same gradients;
 * the gradients of all devices are summed, and each takes the same step. A device is a thread with a state of the back
 * end of its own.
 *
 * SIGINT and SIGTERM (train_stop()): the step is finished, a checkpoint written, and the training ends well.
 * Whatever fails, every device's thread and loader end and all is given back. Where a device does not come back within
 * TRAIN_WAIT_S of another one's failure (a sum of gradients may wait for a dead card for ever), the process ends with
 * status 3 after a line on stderr: the last checkpoint is whole. */
#ifndef TRAINER_TRAIN_H
#define TRAINER_TRAIN_H

#include "fit.h"
#include "scale.h"

#include <stdio.h>

enum { TRAIN_WAIT_S = 60, TRAIN_DEVICES_MAX = 16 };

struct train_options {
    const char *name; /* of the run */
    const char *model_path;
    const struct backend *backend;
    int devices;

    const char *data; /* as data_options has them */
    size_t image_count;
    bool labels_are_lot;
    int loader_threads; /* for each device; 0: one */
    uint64_t seed;      /* of first values, data and order */
    bool deterministic;
    bool tunes; /* the back end may time its algorithms first: another run may take others */

    size_t batch; /* images in a step, of all devices */
    struct fit_options fit;
    uint64_t steps;  /* in all, those before a checkpoint too; 0: by epochs */
    uint64_t epochs; /* 0: by steps */
    enum optimizer optimizer;
    double rate, momentum, weight_decay; /* momentum: of SGD */
    enum scaling scaling;
    double loss_scale;    /* SCALING_FIXED */
    uint64_t scale_after; /* 0: SCALE_AFTER */

    bool evaluates;          /* at the end */
    uint64_t evaluate_every; /* steps, too; 0: not in between */
    uint64_t results_every;  /* steps after which the host reads the results; 0: each. Each costs a wait for the device.
                                With a dynamic loss scale it is each */
    const char *checkpoint_path; /* NULL: none */
    uint64_t checkpoint_every;   /* steps; 0: at the end alone */
    bool resumes;                /* from checkpoint_path; begins where there is no file */

    FILE *log, *progress; /* borrowed; NULL: none */
    uint64_t progress_every;
    uint64_t memory_warn_bytes;
    int temperature_warn;
    bool says_all; /* what the back end logs, too */
};

struct train_result {
    uint64_t steps; /* made in all; of them in this run: */
    uint64_t own_steps;
    bool was_stopped;
    double loss, accuracy;           /* of the last step whose results were read; -1: none */
    double test_loss, test_accuracy; /* -1: not evaluated */
    double images_per_s;             /* of all steps but the first; -1: too few */
    struct fit fit;
    /* By the back end's scope, of the first device. */
    bool has_scope;
    uint64_t peak_bytes, pinned_peak_bytes;
    bool has_free; /* of the card, whoever uses it, without a context of ours: */
    uint64_t free_begin_bytes, free_end_bytes;
    int64_t own_bytes; /* most that this process held on a card, by what was seen; -1: unknown */
};

/* true: it came to its end or was stopped, and everything was given back. */
bool train(const struct train_options *options, struct train_result *ret_result, struct reason *reason);
/* What it would take: the plan alone, printed. Without a card the libraries' workspaces are unknown, and that is said.
 */
bool train_plan(const struct train_options *options, FILE *out, struct reason *reason);
/* Whether the batch has an equal part for each device: both of the above refuse it else. */
bool train_has_parts(const struct train_options *options, struct reason *reason);
/* From a signal handler, or any thread: all trainings of the process end soon. */
void train_stop(void);

#endif
