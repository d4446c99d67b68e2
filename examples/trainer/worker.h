/* One device of a training: opened, fitted to the memory, loaded, and run through its steps, in one thread. */
#ifndef TRAINER_WORKER_H
#define TRAINER_WORKER_H

#include "checkpoint.h"
#include "place.h"
#include "report.h"
#include "team.h"
#include "train.h"

/* State shared by the devices. The first device writes `fit`, `way`, `stops`, `start` (once all are loaded) and
 * `result`; the others read them after a meeting. */
struct training {
    const struct train_options *options;
    struct team team;
    struct model model;
    struct data *data;
    struct checkpoint start; /* where the training begins; later the first device's next checkpoint */
    struct fit fit;
    struct way way;
    bool stops;
    gs_nccl_id id;
    int64_t taken_bytes[TRAIN_DEVICES_MAX], free_bytes[TRAIN_DEVICES_MAX]; /* each device writes its own entry */
    struct results results[TRAIN_DEVICES_MAX];
    int64_t missing_bytes[TRAIN_DEVICES_MAX]; /* GPU memory missing after the end, beyond what is allowed; each device
                                                 writes its own entry */
    struct report *report;                    /* used only by the first device */
    struct train_result result;
};

struct worker {
    struct training *training;
    int device;
    void *state; /* NULL: not open */
    struct schedule schedule;
    struct loader *loader;
    struct walk walk; /* used by the loader */
    struct place place;
    struct scale scale;
    uint64_t update_number;
    bool is_stopped;
    int64_t free_begin_bytes; /* of the GPU, before the device was opened; -1: unknown */
    bool is_warm;             /* the results of a step were read */
    double interval_begin;    /* the first device: when results were last read */
    uint64_t interval_steps;
    double counted_s; /* since it was warm */
    uint64_t counted_steps;
};

bool is_stop_wanted(void);

/* Run a device from open() to close(). */
void worker_run(struct worker *worker);

/* state.c: copy between a device and a checkpoint. */
bool worker_put(struct worker *worker, struct reason *reason);
/* Copy to training->start. */
bool worker_get(struct worker *worker, struct reason *reason);

#endif
