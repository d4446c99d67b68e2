/* Run one device of a training run in its own thread: choose a configuration that fits into its memory, load the model,
 * and run all steps. */
#ifndef TRAINER_WORKER_H
#define TRAINER_WORKER_H

#include "checkpoint.h"
#include "place.h"
#include "report.h"
#include "team.h"
#include "train.h"

/* State shared by all devices. The first device writes `fit`, `way`, `stops`, `result` and, after all have loaded the
 * model, `start`. The others read these fields after a team_meet(). */
struct training {
    const struct train_options *options;
    struct team team;
    struct model model;
    struct data *data;
    struct checkpoint start; /* where the training starts; later, device 0 builds each new checkpoint in it */
    struct fit fit;
    struct way way;
    struct rate_plan rate;
    bool stops;
    bool is_over; /* the patience is exhausted; the first device writes this between two meetings */
    gs_nccl_id id;
    int64_t taken_bytes[TRAIN_DEVICES_MAX], free_bytes[TRAIN_DEVICES_MAX]; /* each device writes only its own entry */
    struct results results[TRAIN_DEVICES_MAX];
    int64_t missing_bytes[TRAIN_DEVICES_MAX]; /* GPU memory missing after the training; 0: nothing, or no more than
                                                 a context normally keeps */
    struct report *report;                    /* used only by the first device */
    struct train_result result;
};

struct worker {
    struct training *training;
    int device;
    void *state; /* state of the back end; NULL: not open */
    struct schedule schedule;
    struct loader *loader;
    struct walk walk; /* position of the loader; only the loader uses it once the loader is open */
    struct place place;
    struct scale scale;
    uint64_t update_number;
    bool is_stopped, is_over;
    int64_t free_begin_bytes; /* free memory of the GPU before the back end was opened; -1: unknown */
    int64_t own_begin_bytes;  /* memory of this process on the GPU at that time; -1: unknown */
    bool is_warm;             /* the results of at least one step were read */
    double interval_begin;    /* first device: the next report counts images per second from this time */
    uint64_t interval_steps;
    double waited_begin; /* time waited for inputs before interval_begin */
    double counted_s;    /* duration of `counted_steps`, the steps that began after is_warm was set */
    uint64_t counted_steps;
    double counted_waited_s; /* how much of counted_s the device waited for inputs */
};

bool is_stop_wanted(void);
/* Print and log what the data set has to report. Only the first device calls this, as it uses the report. */
void say_notes(struct training *training);

/* True if `start` says that the last evaluations were not better than the best one. */
static inline bool is_out_of_patience(const struct training *training)
{
    uint64_t patience = training->options->patience;
    return patience != 0 && training->start.worse_evaluations >= patience;
}

/* Run one device from open() to close(). Each device calls this in its own thread. */
void worker_run(struct worker *worker);

/* Copy parameters, moments and statistics from training->start to the device (state.c). */
bool worker_put(struct worker *worker, struct reason *reason);
/* Copy parameters, moments and statistics from the device to training->start (state.c). */
bool worker_get(struct worker *worker, struct reason *reason);

#endif
