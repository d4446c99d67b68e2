/* Convolutions with cuDNN's graph interface, its older interface, or cuBLAS, and matrix products with cuBLAS. */
#ifndef TRAINER_CUDA_CONV_H
#define TRAINER_CUDA_CONV_H

#include "cuda_state.h"

enum conv_kind { CONV_FORWARD, CONV_DATA, CONV_FILTER };

/* The parameters of a convolution. Zero the struct before setting them, because problems are compared as bytes. */
struct conv_problem {
    enum conv_kind kind;
    enum precision precision;
    size_t images;
    struct shape in, out;
    size_t kernel, stride, pad;
    size_t budget_bytes;
    size_t adds; /* CONV_DATA: true to add to the result instead of overwriting it */
};

enum conv_way_kind { WAY_GEMM, WAY_LEGACY, WAY_GRAPH };
struct conv_way {
    enum conv_way_kind kind;
    int algorithm;        /* for WAY_LEGACY: number of cuDNN's algorithm */
    void *plan;           /* for WAY_GRAPH: execution plan */
    size_t library_bytes; /* workspace of the library; it follows our scratch memory */
    size_t scratch_bytes; /* our scratch memory, first in the workspace, for a result to be added afterwards */
};
enum { CONV_WAYS_MAX = 8 };

struct conv {
    struct conv_problem problem;
    struct conv_way ways[CONV_WAYS_MAX];
    size_t way_count, chosen; /* chosen: 0, unless another way is faster or the first one failed */
    bool is_tried;
    size_t workspace_bytes;        /* size that is enough for every way */
    void *x, *w, *y, *convolution; /* owned: descriptors of the older interface; NULL: not needed */
    void **descriptors;            /* owned: descriptors of the graph interface */
    size_t descriptor_count, descriptor_room;
};

struct conv_data {
    CUdeviceptr x, w, y;  /* activations or gradients, with the names of the forward pass */
    CUdeviceptr gradient; /* for CONV_FILTER: the result is added to this fp32 block */
    CUdeviceptr workspace;
};

/* Find the algorithms for a problem. The state stores them, so the same problem always has the same algorithms. */
bool conv_find(struct cuda *cuda, const struct conv_problem *problem, size_t *ret_index, struct reason *reason);
void conv_free_all(struct cuda *cuda);
/* `pack` stores cuDNN's list of addresses between calls, as long as the addresses do not change. *pack is NULL before
 * the first call. */
gs_status conv_run(struct cuda *cuda, struct conv *conv, size_t way, const struct conv_data *data, void **pack);
/* Run the chosen algorithm with the data, unless it was tried before. If it fails and the GPU still works, choose the
 * next algorithm. */
gs_status conv_try(struct cuda *cuda, struct conv *conv, const struct conv_data *data);
/* Time the algorithms with the data, unless they were timed before, and choose the fastest. The content of the data is
 * lost. */
gs_status conv_time(struct cuda *cuda, struct conv *conv, const struct conv_data *data);
void conv_pack_free(struct cuda *cuda, void **pack);

/* Compute y = x w^T (CONV_FORWARD) or its gradients (CONV_DATA, CONV_FILTER). A row of x has `in` numbers, a row of y
 * has `out` numbers. */
gs_status gemm_run(struct cuda *cuda, enum conv_kind kind, enum precision precision, size_t rows, size_t in, size_t out,
                   bool adds, const struct conv_data *data, CUdeviceptr workspace, size_t workspace_bytes);
size_t gemm_workspace_bytes(size_t budget_bytes);

/* cuda_graph.c: add algorithms to `conv`, in cuDNN's order, up to `way_limit`. `conv` owns the created objects. */
void graph_find(struct cuda *cuda, struct conv *conv, size_t way_limit);
gs_status graph_run(struct cuda *cuda, const struct conv_way *way, const struct conv_data *data, void **pack);
/* Return the number of elements of a result. An algorithm that cannot add needs this much scratch memory. */
size_t conv_result_count(const struct conv_problem *problem);
int conv_type(enum precision precision); /* cudnnDataType_t */
static inline size_t conv_round(size_t bytes)
{
    return (bytes + 511) / 512 * 512;
}

#endif
