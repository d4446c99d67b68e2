/* Convolutions and matrix products with cuDNN's graph interface, its older interface, or cuBLAS. */
#ifndef TRAINER_CUDA_CONV_H
#define TRAINER_CUDA_CONV_H

#include "cuda_state.h"

enum conv_kind { CONV_FORWARD, CONV_DATA, CONV_FILTER };

/* The parameters of a convolution. Zero it before filling it in, because problems are compared as bytes. */
struct conv_problem {
    enum conv_kind kind;
    enum precision precision;
    size_t images;
    struct shape in, out;
    size_t kernel, stride, pad;
    size_t budget_bytes;
    size_t adds; /* CONV_DATA: add to the result */
};

enum conv_way_kind { WAY_GEMM, WAY_LEGACY, WAY_GRAPH };
struct conv_way {
    enum conv_way_kind kind;
    int algorithm;        /* WAY_LEGACY */
    void *plan;           /* WAY_GRAPH */
    size_t library_bytes; /* workspace of the library, after our scratch memory */
    size_t scratch_bytes; /* our scratch memory at the front, for a result that is added */
};
enum { CONV_WAYS_MAX = 8 };

struct conv {
    struct conv_problem problem;
    struct conv_way ways[CONV_WAYS_MAX];
    size_t way_count, chosen; /* ways[0], unless another one was found to be faster */
    bool is_tried;
    size_t workspace_bytes;        /* enough for each of the ways */
    void *x, *w, *y, *convolution; /* owned: descriptors of the older interface; NULL: not needed */
    void **descriptors;            /* owned: descriptors of the graph interface */
    size_t descriptor_count, descriptor_room;
};

struct conv_data {
    CUdeviceptr x, w, y;  /* activations or gradients, named as in the forward pass */
    CUdeviceptr gradient; /* CONV_FILTER: fp32, added to */
    CUdeviceptr workspace;
};

/* Find the algorithms for a problem. The state keeps them, and returns the same ones for the same problem. */
bool conv_find(struct cuda *cuda, const struct conv_problem *problem, size_t *ret_index, struct reason *reason);
void conv_free_all(struct cuda *cuda);
/* `pack`: stores cuDNN's list of the addresses while they do not change; initially *pack is NULL. */
gs_status conv_run(struct cuda *cuda, struct conv *conv, size_t way, const struct conv_data *data, void **pack);
/* Run the chosen algorithm over the data, once. If it fails and the GPU still works, choose the next one. */
gs_status conv_try(struct cuda *cuda, struct conv *conv, const struct conv_data *data);
/* Time the algorithms over the data, once, and choose the fastest. The content of the data is lost. */
gs_status conv_time(struct cuda *cuda, struct conv *conv, const struct conv_data *data);
void conv_pack_free(struct cuda *cuda, void **pack);

/* y = x w^T and its gradients, for CONV_FORWARD, CONV_DATA and CONV_FILTER. The rows have `in` and `out` numbers. */
gs_status gemm_run(struct cuda *cuda, enum conv_kind kind, enum precision precision, size_t rows, size_t in, size_t out,
                   bool adds, const struct conv_data *data, CUdeviceptr workspace, size_t workspace_bytes);
size_t gemm_workspace_bytes(size_t budget_bytes);

/* cuda_graph.c: add algorithms to `conv`, in cuDNN's order, until it has `way_limit`. `conv` owns what is created. */
void graph_find(struct cuda *cuda, struct conv *conv, size_t way_limit);
gs_status graph_run(struct cuda *cuda, const struct conv_way *way, const struct conv_data *data, void **pack);
/* Return how many numbers of scratch memory are needed for the result of an algorithm that cannot add; 0 if none. */
size_t conv_result_count(const struct conv_problem *problem);
int conv_type(enum precision precision); /* cudnnDataType_t */
static inline size_t conv_round(size_t bytes)
{
    return (bytes + 511) / 512 * 512;
}

#endif
