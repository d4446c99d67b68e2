/* Run one device of a training in one thread: open the device, choose what fits into its memory, load, and run all
 * steps. */
#ifndef TRAINER_WORKER_H
#define TRAINER_WORKER_H

#include "checkpoint.h"
#include "place.h"
#include "report.h"
#include "team.h"
#include "train.h"

/* State shared by the devices. The first device writes `fit`, `way`, `stops`, `start` (after all devices have loaded)
 * and `result`. The others read these fields after a meeting. */
struct training {
    const struct train_options *options;
    struct team team;
    struct model model;
    struct data *data;
    struct checkpoint start; /* start of the training; later the buffer for the first device's next checkpoint */
    struct fit fit;
    struct way way;
    bool stops;
    gs_nccl_id id;
    int64_t taken_bytes[TRAIN_DEVICES_MAX], free_bytes[TRAIN_DEVICES_MAX]; /* each device writes its own entry */
    struct results results[TRAIN_DEVICES_MAX];
    int64_t missing_bytes[TRAIN_DEVICES_MAX]; /* GPU memory missing after the end if it is more than allowed; each
                                               * device writes its own entry */
    struct report *report;                    /* used only by the first device */
    struct train_result result;
};

struct worker {
    struct training *training;
    int device;
    void *state; /* NULL: not open */
    struct schedule schedule;
    struct loader *loader;
    struct walk walk; /* used only by the loader */
    struct place place;
    struct scale scale;
    uint64_t update_number;
    bool is_stopped;
    int64_t free_begin_bytes; /* free memory of the GPU before the device was opened; -1: unknown */
    bool is_warm;             /* true after the results of a step were read once */
    double interval_begin;    /* set only on the first device: time when results were last read */
    uint64_t interval_steps;
    double counted_s; /* seconds counted for images_per_s, from when is_warm became true */
    uint64_t counted_steps;
};

bool is_stop_wanted(void);

/* Run a device from open() to close(). */
void worker_run(struct worker *worker);

/* state.c: copy parameters, moments and statistics from training->start to the device. */
bool worker_put(struct worker *worker, struct reason *reason);
/* Copy parameters, moments and statistics from the device to training->start. */
bool worker_get(struct worker *worker, struct reason *reason);

#endif
