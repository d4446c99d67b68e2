/* A back end with a small model, made-up values and a batch, for the tests of back ends. Any failure ends the test. */
#ifndef TRAINER_RIG_H
#define TRAINER_RIG_H

#include "backend.h"

struct rig_options {
    size_t images; /* per micro-batch */
    size_t parts;  /* number of micro-batches to generate; 0: 1 */
    bool checkpointing;
    enum optimizer optimizer;
    enum precision precision;
    bool tune;
    bool averages, selects_decay, clips; /* as in struct schedule_options */
    float smoothing, loss_scale;         /* of the iterations; loss_scale 0: 1 */
    size_t budget_bytes;                 /* largest size of each workspace */
    uint64_t seed;
};

struct rig {
    struct rig_options options;
    struct model model;
    struct schedule schedule;
    const struct backend *backend;
    void *state;
    float *parameters, *statistics; /* owned; initial values, which differ from the usual 0 and 1 */
    float *images;                  /* owned; for all parts */
    int32_t *labels;                /* owned */
};

struct model rig_model(const char *text);
/* Open a back end. The same seed gives the same values and images, however they are divided into parts. */
void rig_open(struct rig *rig, const struct backend *backend, const char *text, const struct rig_options *options);
void rig_close(struct rig *rig);
/* Return the iteration for micro-batch `part` of a step over all parts. */
struct iteration rig_iteration(const struct rig *rig, size_t part);
void rig_iterate(struct rig *rig, size_t part, const struct iteration *iteration);
/* Return a copy of a lasting block. The caller frees it. */
void *rig_get(struct rig *rig, enum lasting which);
struct results rig_settle(struct rig *rig);
/* Compute the gradients of all parts, starting from 0. The caller frees them. */
float *rig_gradients(struct rig *rig);

#endif
