/* Convolutions with cuDNN's graph interface, its older interface, cuBLAS, or our own kernels, and matrix products with
 * cuBLAS. */
#ifndef TRAINER_CUDA_CONV_H
#define TRAINER_CUDA_CONV_H

#include "cuda_state.h"

enum conv_kind { CONV_FORWARD, CONV_DATA, CONV_FILTER };

/* The parameters of a convolution. Zero the whole struct before setting them: problems are compared byte by byte,
 * including the padding. */
struct conv_problem {
    enum conv_kind kind;
    enum precision precision;
    size_t images;
    struct shape in, out;
    size_t kernel, kernel_width, stride, pad, groups; /* kernel: the filter's height */
    size_t budget_bytes;
    size_t adds; /* CONV_DATA: true to add to the result instead of overwriting it */
    /* If the images are folded: all the above describe the convolution of the folded images. The weights and their
     * gradient are not folded. */
    struct folding folding;
};

/* WAY_SAMPLED: a matrix product for the pixels that a 1x1 filter with a stride reads; then their gradients are copied
 * to their places. */
enum conv_way_kind { WAY_GEMM, WAY_LEGACY, WAY_GRAPH, WAY_SAMPLED, WAY_DEPTH };
struct conv_way {
    enum conv_way_kind kind;
    int algorithm;        /* for WAY_LEGACY: cuDNN's number of the algorithm */
    void *plan;           /* for WAY_GRAPH: execution plan, borrowed from conv.descriptors */
    size_t library_bytes; /* size of the library's workspace, which follows our scratch memory */
    /* size of our scratch memory at the start of the workspace; it holds a result until our kernel adds it to a block,
     * or folded weights; 0: none */
    size_t scratch_bytes;
};
enum { CONV_WAYS_MAX = 16 };

struct conv {
    struct conv_problem problem;
    struct conv_way ways[CONV_WAYS_MAX];
    /* chosen: index of the way to use; 0, unless another way is faster or the first one failed */
    size_t way_count, chosen;
    bool is_tried;
    size_t workspace_bytes;        /* enough for every way */
    void *x, *w, *y, *convolution; /* owned: descriptors of the older interface; NULL: not needed */
    void **descriptors;            /* owned: descriptors of the graph interface */
    size_t descriptor_count, descriptor_room;
};

struct conv_data {
    /* The input, the weights and the output of the layer. In the backward pass, y is the gradient of the output. For
     * CONV_DATA, x is the gradient of the input. */
    CUdeviceptr x, w, y;
    CUdeviceptr gradient; /* for CONV_FILTER: the result is added to this fp32 block */
    CUdeviceptr workspace;
};

/* Find the algorithms for a problem; *ret_index is their index in cuda->convs. The result is stored, so the same
 * problem always has the same algorithms. */
bool conv_find(struct cuda *cuda, const struct conv_problem *problem, size_t *ret_index, struct reason *reason);
void conv_free_all(struct cuda *cuda);
/* Check the environment variable TRAINER_CUDNN: empty, or one of cuDNN's interfaces. */
bool conv_knows_interface(struct reason *reason);
/* Run the algorithm conv->ways[way]. Set *pack to NULL before the first call, which stores cuDNN's list of addresses
 * there. Later calls must use the same addresses. */
gs_status conv_run(struct cuda *cuda, struct conv *conv, size_t way, const struct conv_data *data, void **pack);
/* Run the chosen algorithm with the data, unless an algorithm was already tried. If it fails and the GPU still works,
 * choose and try the next one. */
gs_status conv_try(struct cuda *cuda, struct conv *conv, const struct conv_data *data);
/* Time the algorithms with the data and choose the fastest, unless one was already tried or there is only one.
 * Afterwards the results are invalid. */
gs_status conv_time(struct cuda *cuda, struct conv *conv, const struct conv_data *data);
void conv_pack_free(struct cuda *cuda, void **pack);

/* Compute one of the products below. A row of x has `in` numbers, a row of y has `out` numbers.
 * - CONV_FORWARD: y = x w^T
 * - CONV_DATA: the gradient of x
 * - CONV_FILTER: the gradient of w */
gs_status gemm_run(struct cuda *cuda, enum conv_kind kind, enum precision precision, size_t rows, size_t in, size_t out,
                   bool adds, const struct conv_data *data, CUdeviceptr workspace, size_t workspace_bytes);
size_t gemm_workspace_bytes(size_t budget_bytes);

/* cuda_depth.c: our own kernels for depthwise convolutions. `data->workspace` has depth_workspace_bytes(). */
bool depth_suits(const struct conv_problem *problem);
size_t depth_workspace_bytes(const struct cuda *cuda, const struct conv_problem *problem);
gs_status depth_run(struct cuda *cuda, const struct conv_problem *problem, const struct conv_data *data);

/* cuda_graph.c: add algorithms to `conv`, in cuDNN's order, until it has `way_limit` of them. `conv` owns the created
 * objects. */
void graph_find(struct cuda *cuda, struct conv *conv, size_t way_limit);
gs_status graph_run(struct cuda *cuda, const struct conv_way *way, const struct conv_data *data, void **pack);
/* Return the number of elements of a result. An algorithm that cannot add needs this much scratch memory. */
size_t conv_result_count(const struct conv_problem *problem);
/* Return the size of the scratch memory for the folded weights. 0: none are needed. */
size_t conv_weight_scratch(const struct conv_problem *problem);
int conv_type(enum precision precision); /* returns a cudnnDataType_t */
static inline size_t conv_round(size_t bytes)
{
    return (bytes + 511) / 512 * 512;
}

#endif
