/* Internal header of the back end `cpu`. Convolutions, pooling and linear layers use oneDNN (cpu_dnnl.c); all other
 * steps are loops (cpu_loops.c, cpu_elements.c, cpu_update.c). Everything is fp32, and images are stored as rows,
 * columns, channels. */
#ifndef TRAINER_CPU_H
#define TRAINER_CPU_H

#include "backend.h"

#include <oneapi/dnnl/dnnl.h>

#ifdef _OPENMP
#define CPU_PARALLEL_FOR _Pragma("omp parallel for schedule(static)")
#define CPU_PARALLEL_SUM(counter) CPU_PRAGMA(omp parallel for schedule(static) reduction(+ : counter))
#define CPU_PRAGMA(text) _Pragma(#text)
#else
#define CPU_PARALLEL_FOR
#define CPU_PARALLEL_SUM(counter)
#endif

enum { CPU_ARGUMENTS = 8, CPU_CALLS = 8, CPU_MEMORIES = 32 };

struct cpu_call {
    dnnl_primitive_t primitive; /* owned */
    dnnl_exec_arg_t arguments[CPU_ARGUMENTS];
    int argument_count;
};

/* The oneDNN calls of a step, in order. Empty if oneDNN does not compute the step. */
struct cpu_work {
    struct cpu_call calls[CPU_CALLS];
    size_t call_count;
    dnnl_memory_t memories[CPU_MEMORIES]; /* owned; the calls' arguments refer to them */
    size_t memory_count;
};

struct cpu_state {
    struct backend_options options;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    /* How a primitive stores its result: unchanged; after a ReLU; added to the old value. */
    dnnl_primitive_attr_t plain, relu, adding;
    const struct schedule *schedule; /* borrowed; NULL: load() was not called */
    char *memory;                    /* owned; memory of the schedule; NULL: load() was not called */
    struct cpu_work *works;          /* owned; one per step */
};

/* Return the address of a block. Returns NULL for NO_BLOCK. */
static inline void *cpu_block(const struct cpu_state *state, size_t block)
{
    return block == NO_BLOCK ? NULL : state->memory + schedule_offset(state->schedule, block);
}
static inline float *cpu_lasting(const struct cpu_state *state, enum lasting which)
{
    return cpu_block(state, state->schedule->lasting[which]);
}

/* ---- cpu_dnnl.c ---- */

bool cpu_dnnl_open(struct cpu_state *state, struct reason *reason);
void cpu_dnnl_close(struct cpu_state *state); /* also accepts a state for which cpu_dnnl_open() failed */
/* Implement backend.plan() for the steps that oneDNN computes. */
bool cpu_dnnl_plan(struct cpu_state *state, const struct schedule_options *options, struct step *step,
                   size_t budget_bytes, struct reason *reason);
/* Create the oneDNN calls of a step. Their arguments are in the loaded memory. */
bool cpu_dnnl_build(struct cpu_state *state, const struct step *step, struct cpu_work *work, struct reason *reason);
bool cpu_dnnl_run(struct cpu_state *state, const struct cpu_work *work, struct reason *reason);
void cpu_work_clear(struct cpu_work *work); /* accepts a zeroed struct */
bool cpu_linear_forward(struct cpu_state *state, const struct step *step, struct reason *reason);
bool cpu_linear_backward(struct cpu_state *state, const struct step *step, struct reason *reason);

/* ---- cpu_loops.c ---- */

void cpu_copy(float *to, const float *from, size_t count);
void cpu_add(float *to, const float *from, size_t count);
void cpu_add_forward(const struct cpu_state *state, const struct step *step);
void cpu_relu_backward(const struct cpu_state *state, const struct step *step);
void cpu_batchnorm_forward(const struct cpu_state *state, const struct step *step, bool is_evaluation);
void cpu_batchnorm_backward(const struct cpu_state *state, const struct step *step);
bool cpu_loss(const struct cpu_state *state, const struct step *step, const struct iteration *iteration,
              struct reason *reason);

/* ---- cpu_elements.c ---- */

void cpu_activation_forward(const struct cpu_state *state, const struct step *step);
void cpu_activation_backward(const struct cpu_state *state, const struct step *step);
void cpu_multiply_forward(const struct cpu_state *state, const struct step *step);
void cpu_multiply_backward(const struct cpu_state *state, const struct step *step);
/* Compute a forward or backward step. An evaluation drops nothing. */
void cpu_dropout(const struct cpu_state *state, const struct step *step, const struct iteration *iteration);

/* ---- cpu_update.c ---- */

void cpu_update(const struct cpu_state *state, const struct update *update);
void cpu_swap(float *one, float *other, size_t count);

#endif
