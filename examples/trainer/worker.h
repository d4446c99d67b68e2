/* One device of a training: opened, fitted, loaded, and taken through its steps, in one thread. */
#ifndef TRAINER_WORKER_H
#define TRAINER_WORKER_H

#include "checkpoint.h"
#include "place.h"
#include "report.h"
#include "team.h"
#include "train.h"

/* What the devices share. The first one writes `fit`, `way`, `stops`, `start` (once all are loaded) and `result`;
 * the others read them after a meeting. */
struct training {
    const struct train_options *options;
    struct team team;
    struct model model;
    struct data *data;
    struct checkpoint start; /* where it begins; the first device's next checkpoint, later */
    struct fit fit;
    struct way way;
    bool stops;
    gs_nccl_id id;
    int64_t taken_bytes[TRAIN_DEVICES_MAX], free_bytes[TRAIN_DEVICES_MAX]; /* each one writes its own */
    struct results results[TRAIN_DEVICES_MAX];
    int64_t missing_bytes[TRAIN_DEVICES_MAX]; /* of the card after the end, more than may be; each one writes its own */
    struct report *report;                    /* the first device's alone */
    struct train_result result;
};

struct worker {
    struct training *training;
    int device;
    void *state; /* NULL: not open */
    struct schedule schedule;
    struct loader *loader;
    struct walk walk; /* the loader's */
    struct place place;
    struct scale scale;
    uint64_t update_number;
    bool is_stopped;
    int64_t free_begin_bytes; /* of the card, before the device was opened; -1: unknown */
    bool is_warm;             /* the results of a step were read */
    double interval_begin;    /* the first device: since the results were read last */
    uint64_t interval_steps;
    double counted_s; /* once it was warm */
    uint64_t counted_steps;
};

bool is_stop_wanted(void);

/* Everything from open() to close(). */
void worker_run(struct worker *worker);

/* state.c: between a device and a checkpoint. */
bool worker_put(struct worker *worker, struct reason *reason);
/* Into training->start. */
bool worker_get(struct worker *worker, struct reason *reason);

#endif
