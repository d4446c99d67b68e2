/* Run one device of a training in its own thread: open the device, choose a configuration that fits into its memory,
 * load the model, and run all steps. */
#ifndef TRAINER_WORKER_H
#define TRAINER_WORKER_H

#include "checkpoint.h"
#include "place.h"
#include "report.h"
#include "team.h"
#include "train.h"

/* State shared by all devices. The first device writes `fit`, `way`, `stops`, `result` and, after all devices have
 * loaded the model, `start`. The other devices read these fields after a team_meet(). */
struct training {
    const struct train_options *options;
    struct team team;
    struct model model;
    struct data *data;
    struct checkpoint start; /* start of the training; later a buffer in which device 0 makes the next checkpoint */
    struct fit fit;
    struct way way;
    bool stops;
    gs_nccl_id id;
    int64_t taken_bytes[TRAIN_DEVICES_MAX], free_bytes[TRAIN_DEVICES_MAX]; /* each device writes only its own entry */
    struct results results[TRAIN_DEVICES_MAX];
    int64_t missing_bytes[TRAIN_DEVICES_MAX]; /* GPU memory missing after the run if more than is allowed, else 0 */
    struct report *report;                    /* used only by the first device */
    struct train_result result;
};

struct worker {
    struct training *training;
    int device;
    void *state; /* state of the back end; NULL: not open */
    struct schedule schedule;
    struct loader *loader;
    struct walk walk; /* used only by the loader, after it was opened */
    struct place place;
    struct scale scale;
    uint64_t update_number;
    bool is_stopped;
    int64_t free_begin_bytes; /* free memory of the GPU before the back end was opened; -1: unknown */
    bool is_warm;             /* the results of at least one step were read */
    double interval_begin;    /* on the first device: start of the steps whose results were not read yet */
    uint64_t interval_steps;
    double counted_s; /* duration of the counted_steps, which begin when is_warm is set */
    uint64_t counted_steps;
};

bool is_stop_wanted(void);

/* Run a device from open() to close(). */
void worker_run(struct worker *worker);

/* Copy parameters, moments and statistics from training->start to the device (in state.c, like worker_get()). */
bool worker_put(struct worker *worker, struct reason *reason);
/* Copy parameters, moments and statistics from the device to training->start. */
bool worker_get(struct worker *worker, struct reason *reason);

#endif
