/* Convolutions and matrix products, by cuDNN's graph interface, its older one, or cuBLAS. */
#ifndef TRAINER_CUDA_CONV_H
#define TRAINER_CUDA_CONV_H

#include "cuda_state.h"

enum conv_kind { CONV_FORWARD, CONV_DATA, CONV_FILTER };

/* What is asked for; zeroed before it is filled in, so that it may be compared as bytes. */
struct conv_problem {
    enum conv_kind kind;
    enum precision precision;
    size_t images;
    struct shape in, out;
    size_t kernel, stride, pad;
    size_t budget_bytes;
    size_t adds; /* CONV_DATA: to what is there */
};

enum conv_way_kind { WAY_GEMM, WAY_LEGACY, WAY_GRAPH };
struct conv_way {
    enum conv_way_kind kind;
    int algorithm;        /* WAY_LEGACY */
    void *plan;           /* WAY_GRAPH */
    size_t library_bytes; /* workspace of the library, behind our own */
    size_t scratch_bytes; /* of our own, at the front: a result that is added to something */
};
enum { CONV_WAYS_MAX = 8 };

struct conv {
    struct conv_problem problem;
    struct conv_way ways[CONV_WAYS_MAX];
    size_t way_count, chosen; /* ways[0] until one was found to be quicker */
    bool is_tried;
    size_t workspace_bytes;        /* enough for each of them */
    void *x, *w, *y, *convolution; /* owned: descriptors of the older interface; NULL: not needed */
    void **descriptors;            /* owned: of the graph interface */
    size_t descriptor_count, descriptor_room;
};

struct conv_data {
    CUdeviceptr x, w, y;  /* as the forward pass knows them: of activations or of gradients */
    CUdeviceptr gradient; /* CONV_FILTER: fp32, is added to */
    CUdeviceptr workspace;
};

/* The same problem gets the same answer, which the state keeps. */
bool conv_find(struct cuda *cuda, const struct conv_problem *problem, size_t *ret_index, struct reason *reason);
void conv_free_all(struct cuda *cuda);
/* `pack`: where cuDNN's list of the data is kept while they stay where they are; NULL in it at first. */
gs_status conv_run(struct cuda *cuda, struct conv *conv, size_t way, const struct conv_data *data, void **pack);
/* Run the chosen way over the data, once; where it fails and the card is well, the next one is chosen. */
gs_status conv_try(struct cuda *cuda, struct conv *conv, const struct conv_data *data);
/* Time the ways over the data, once, and choose the quickest. What is in them is lost. */
gs_status conv_time(struct cuda *cuda, struct conv *conv, const struct conv_data *data);
void conv_pack_free(struct cuda *cuda, void **pack);

/* y = x w^T and its gradients, for CONV_FORWARD, CONV_DATA and CONV_FILTER: rows of `in` and `out` numbers. */
gs_status gemm_run(struct cuda *cuda, enum conv_kind kind, enum precision precision, size_t rows, size_t in, size_t out,
                   bool adds, const struct conv_data *data, CUdeviceptr workspace, size_t workspace_bytes);
size_t gemm_workspace_bytes(size_t budget_bytes);

/* cuda_graph.c: adds ways to `conv`, until it has `way_limit`, in cuDNN's order; what it makes belongs to the conv. */
void graph_find(struct cuda *cuda, struct conv *conv, size_t way_limit);
gs_status graph_run(struct cuda *cuda, const struct conv_way *way, const struct conv_data *data, void **pack);
/* What a way that does not add writes its result to: scratch, of this many numbers; 0: it needs none. */
size_t conv_result_count(const struct conv_problem *problem);
int conv_type(enum precision precision); /* cudnnDataType_t */
static inline size_t conv_round(size_t bytes)
{
    return (bytes + 511) / 512 * 512;
}

#endif
