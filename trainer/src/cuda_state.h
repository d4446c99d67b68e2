/* The internal state of the back end `cuda`, for one device. */
#ifndef TRAINER_CUDA_STATE_H
#define TRAINER_CUDA_STATE_H

#include "card.h"
#include "cuda_api.h"

/* Functions of NVIDIA's libraries. cuda_find() fills them in, and cuda_find_nccl() those of NCCL. */
struct cuda_calls {
#define X(name, parameters) int(*name) parameters;
    CUDNN_CALLS(X) CUBLAS_CALLS(X) NCCL_CALLS(X) DRIVER_CALLS(X)
#undef X
};

#define CUDA_KERNELS(X)                                                                                                \
    X(to_low)                                                                                                          \
    X(to_low_folded)                                                                                                   \
    X(fold)                                                                                                            \
    X(add_folded)                                                                                                      \
    X(relu_forward)                                                                                                    \
    X(relu_backward)                                                                                                   \
    X(add)                                                                                                             \
    X(add_gradient)                                                                                                    \
    X(activate)                                                                                                        \
    X(activate_backward)                                                                                               \
    X(drop)                                                                                                            \
    X(depth_weights)                                                                                                   \
    X(depth_filter_end)                                                                                                \
    X(columns_end)                                                                                                     \
    X(norm_statistics)                                                                                                 \
    X(norm_running)                                                                                                    \
    X(norm_backward_statistics)                                                                                        \
    X(loss)                                                                                                            \
    X(loss_sum)                                                                                                        \
    X(check)                                                                                                           \
    X(squares)                                                                                                         \
    X(clip)                                                                                                            \
    X(sgd)                                                                                                             \
    X(adam)                                                                                                            \
    X(average)                                                                                                         \
    X(swap_average)
/* Each of these kernels exists in two versions: [1] for channel counts that are multiples of 8, [0] for others. */
#define CUDA_KERNEL_PAIRS(X)                                                                                           \
    X(spread)                                                                                                          \
    X(bias)                                                                                                            \
    X(columns)                                                                                                         \
    X(norm_sums)                                                                                                       \
    X(norm_forward)                                                                                                    \
    X(norm_forward_smooth)                                                                                             \
    X(norm_add)                                                                                                        \
    X(norm_add_two)                                                                                                    \
    X(norm_masked_sums)                                                                                                \
    X(norm_two_sums)                                                                                                   \
    X(norm_two_backward)                                                                                               \
    X(norm_max_forward)                                                                                                \
    X(norm_max_sums)                                                                                                   \
    X(norm_max_backward)                                                                                               \
    X(norm_backward_sums)                                                                                              \
    X(norm_backward_sums_smooth)                                                                                       \
    X(norm_backward)                                                                                                   \
    X(norm_backward_smooth)                                                                                            \
    X(max_forward)                                                                                                     \
    X(max_backward)                                                                                                    \
    X(max_backward_pairs)                                                                                              \
    X(mean_forward)                                                                                                    \
    X(mean_backward)                                                                                                   \
    X(image_sums)                                                                                                      \
    X(image_spread)                                                                                                    \
    X(depth_forward)                                                                                                   \
    X(depth_backward)                                                                                                  \
    X(depth_filter1)                                                                                                   \
    X(depth_filter3)                                                                                                   \
    X(depth_filter5)
struct cuda_kernels {
#define X(name) CUfunction name;
    CUDA_KERNELS(X)
#undef X
#define X(name) CUfunction name[2];
    CUDA_KERNEL_PAIRS(X)
#undef X
};

struct conv;

/* A stream, and the library handles that submit work to it. */
struct lane {
    CUstream stream; /* owned by the scope, like both handles */
    void *cudnn, *cublas;
    CUdeviceptr blas_workspace; /* the workspace last set in the cuBLAS handle */
    size_t blas_bytes;
};
enum { LANE_MAIN, LANE_SIDE, LANE_COUNT };

struct cuda {
    struct card card; /* must be the first member: see card.h */
    struct backend_options options;
    struct cuda_calls api;
    void *nccl; /* owned by the scope */
    /* The steps of the kind STEP_PARAMETERS run on the second lane, and all others on the first, which is
     * card.compute. */
    struct lane lanes[LANE_COUNT];
    struct lane *lane; /* where work is submitted now: one of the above */
    /* recorded in the side lane after its last few steps; step number k of the kind uses k % COUNT */
    CUevent complete[PARAMETERS_AHEAD + 1];
    CUevent ready;         /* recorded in the main lane when the next step of the side lane can begin */
    size_t begun, awaited; /* steps of the side lane in this iteration: begun, and those that the main lane awaits */
    int multiprocessors, architecture;
    CUmodule module; /* the compiled kernels; NULL: not loaded yet */
    enum precision module_precision;
    struct cuda_kernels kernels;
    struct conv **convs; /* owned, with its elements; not freed before close() */
    size_t conv_count, conv_room;
    /* for each step, cuDNN's variant pack (list of addresses). NULL element: not made yet. The array and its elements
     * are owned */
    void **packs;
    size_t pack_count;
    uint64_t iterations;      /* training iterations since load() */
    struct cuda_times *times; /* borrowed from the iteration that is timed; NULL: none is */
};

/* ---- cuda_program.c ---- */

/* Fill in cuda->api. cuda_find_nccl() finds the functions of NCCL, and cuda_find() finds all others. The libraries must
 * be loaded. On failure, `reason` names the missing function. */
bool cuda_find(struct cuda *cuda, struct reason *reason);
bool cuda_find_nccl(struct cuda *cuda, struct reason *reason);
/* Load the kernels for a precision, unless they are loaded already. They are compiled once per process. */
bool cuda_kernels_load(struct cuda *cuda, enum precision precision, struct reason *reason);

/* ---- cuda_lanes.c ---- */

gs_status lanes_open(struct cuda *cuda);
/* Wait for all work of both lanes. */
gs_status lanes_wait(struct cuda *cuda);
/* Submit the work of a step to its lane. The caller must set cuda->lane to the main lane afterwards. */
void lanes_use(struct cuda *cuda, const struct step *step);
/* Let the main lane wait for the first `count` steps of the side lane. */
gs_status lanes_await(struct cuda *cuda, size_t count);
/* Call these before and after submitting a step to the side lane. The step waits for everything that was submitted to
 * the main lane before lanes_begin_side(). */
gs_status lanes_begin_side(struct cuda *cuda);
gs_status lanes_end_side(struct cuda *cuda);

/* cuda_times.c: measure the time of each step in one iteration. */
struct cuda_times {
    /* owned array; the scope owns the events: one at the beginning of each step, and one after the last step */
    CUevent *events;
    size_t count;
};
/* Create the events if TRAINER_TELL_TIMES selects this iteration of the training run to be timed. Otherwise,
 * ret_times->events stays NULL. cuda->times borrows *ret_times until times_end(). */
gs_status times_begin(struct cuda *cuda, struct cuda_times *ret_times);
/* Record the beginning of a step. If no iteration is timed, this does nothing. */
gs_status times_mark(struct cuda *cuda, size_t step);
/* Wait for the events, and log the time of each kind of step, or of each step if TRAINER_TELL_LAYERS is set. */
gs_status times_end(struct cuda *cuda, struct cuda_times *times);

/* cuda_layers.c: the steps that use our own kernels. All work is submitted to cuda->lane. */
struct launch_shape {
    gs_dims grid, block;
    int is_wide; /* 1: each thread handles 8 channels; 0: one channel */
};
/* Threads of a block, unless a kernel needs another number. */
enum { THREADS = 256 };
/* Return the grid for one thread per 8 elements and one thread per remaining element. */
static inline gs_dims cuda_blocks_for(size_t count)
{
    size_t threads = count / 8 + count % 8;
    return gs_dim((unsigned)((threads + THREADS - 1) / THREADS), 1, 1);
}
/* Return the grid and the block for the kernels that add the partial sums of `across` numbers per channel. The numbers
 * must match END_COLUMNS and END_THREADS in cuda_kernels.cu. */
enum { END_COLUMNS = 8, END_THREADS = 128 };
static inline gs_dims cuda_end_grid(size_t channels, size_t across)
{
    return gs_dim((unsigned)((channels + END_COLUMNS - 1) / END_COLUMNS), (unsigned)across, 1);
}
static inline gs_dims cuda_end_block(void)
{
    return gs_dim(END_COLUMNS, END_THREADS, 1);
}
static inline size_t at_most(size_t value, size_t limit)
{
    return value < limit ? value : limit;
}
/* Return the grid and the block for a kernel that handles rows of channels independently. */
struct launch_shape cuda_rows_shape(const struct cuda *cuda, size_t rows, size_t channels);
/* Return the size in bytes of the partial sums over rows of channels. `of` is the number of sums computed at the same
 * time. */
size_t cuda_norm_bytes(const struct cuda *cuda, size_t rows, size_t channels, int of);
/* Return the number of rows over which the backward step of a batch normalisation computes its sums: pixels, or 2 x 2
 * pixels if the step has a pooling. */
size_t cuda_norm_rows(const struct step *step, const struct layer *layer, size_t images);
size_t cuda_bias_bytes(const struct cuda *cuda, size_t rows, size_t channels); /* for a bias gradient */
gs_status cuda_input(struct cuda *cuda, CUdeviceptr y, CUdeviceptr x, size_t count);
/* Convert images to folded ones, weights to folded ones, and add folded gradients of weights to fp32 ones. */
gs_status cuda_input_folded(struct cuda *cuda, CUdeviceptr y, CUdeviceptr x, const struct folding *folding);
gs_status cuda_fold(struct cuda *cuda, CUdeviceptr to, CUdeviceptr from, size_t outputs, const struct folding *folding);
gs_status cuda_add_folded(struct cuda *cuda, CUdeviceptr sum, CUdeviceptr from, size_t outputs,
                          const struct folding *folding);
/* Copy or add to dx the gradients `from` of the pixels that a 1x1 filter with a stride reads. */
struct conv_problem;
gs_status cuda_spread(struct cuda *cuda, CUdeviceptr dx, CUdeviceptr from, const struct conv_problem *problem);
gs_status cuda_bias(struct cuda *cuda, CUdeviceptr y, CUdeviceptr bias, size_t rows, size_t channels, bool has_relu);
/* y: where it is 0, a ReLU did not pass the value; 0: there is no ReLU. */
gs_status cuda_bias_gradient(struct cuda *cuda, CUdeviceptr gradient, CUdeviceptr dy, CUdeviceptr y,
                             CUdeviceptr workspace, size_t rows, size_t channels);
gs_status cuda_relu(struct cuda *cuda, CUdeviceptr y, size_t count);
gs_status cuda_relu_backward(struct cuda *cuda, CUdeviceptr dy, CUdeviceptr y, size_t count);
gs_status cuda_add(struct cuda *cuda, CUdeviceptr y, CUdeviceptr a, CUdeviceptr b, size_t count, bool has_relu);
gs_status cuda_add_gradient(struct cuda *cuda, CUdeviceptr sum, CUdeviceptr x, size_t count);
gs_status cuda_norm(struct cuda *cuda, const struct step *step, bool is_evaluation);
gs_status cuda_norm_backward(struct cuda *cuda, const struct step *step);
/* The backward step of a batch normalisation and of the max pooling around it. */
gs_status cuda_norm_max_backward(struct cuda *cuda, const struct step *step);
/* The statistics of a batch normalisation that is an inner layer. */
gs_status cuda_norm_statistics(struct cuda *cuda, const struct step *step, bool is_evaluation);
/* A sum with batch normalisations inside it. */
gs_status cuda_norm_add(struct cuda *cuda, const struct step *step);
gs_status cuda_norm_add_backward(struct cuda *cuda, const struct step *step);
gs_status cuda_max(struct cuda *cuda, const struct step *step);
gs_status cuda_max_backward(struct cuda *cuda, const struct step *step);
gs_status cuda_mean(struct cuda *cuda, const struct step *step);
gs_status cuda_mean_backward(struct cuda *cuda, const struct step *step);
gs_status cuda_loss(struct cuda *cuda, const struct step *step, const struct iteration *iteration);

/* ---- cuda_step.c: the optimizer's step ---- */

gs_status cuda_check_and_step(struct cuda *cuda, const struct update *update);
gs_status cuda_swap_average(struct cuda *cuda);

/* ---- cuda_elements.c ---- */

gs_status cuda_activation(struct cuda *cuda, const struct step *step);
gs_status cuda_activation_backward(struct cuda *cuda, const struct step *step);
gs_status cuda_dropout(struct cuda *cuda, const struct step *step, const struct iteration *iteration); /* both ways */
gs_status cuda_multiply(struct cuda *cuda, const struct step *step);
gs_status cuda_multiply_backward(struct cuda *cuda, const struct step *step);
/* y has one number for each channel of each image, and `shape` is the shape of the other tensors:
 * y (+)= scale * the sum of a (times b, unless it is 0) over the pixels of an image. */
gs_status cuda_image_sums(struct cuda *cuda, CUdeviceptr y, CUdeviceptr a, CUdeviceptr b, struct shape shape,
                          float scale, bool adds);
/* `by` has one number for each channel of each image: y (+)= scale * by (times x, unless it is 0). */
gs_status cuda_image_spread(struct cuda *cuda, CUdeviceptr y, CUdeviceptr x, CUdeviceptr by, struct shape shape,
                            float scale, bool has_relu, bool adds);

#endif
