/* The functions of cuDNN, cuBLAS, NCCL and NVRTC that the trainer calls. They check their arguments, count the
 * objects that they create, and fail on request. With fake_computes, they compute, too. */
#ifndef FAKE_NVIDIA_H
#define FAKE_NVIDIA_H

#include <stddef.h>

#define FAKE_API __attribute__((visibility("default")))

/* 1: all memory is host memory, and the fake functions really compute their results. 0: they only check their
 * arguments and count the calls. */
FAKE_API extern int fake_computes;
/* Called with each tensor, matrix or workspace that the work of a handle reads or writes; NULL: not called. */
FAKE_API extern void (*fake_touch)(void *handle, const void *at, size_t bytes, int writes, const char *call);
/* Number of calls so far. Call number `fake_fail_at` (1-based; 0: none) returns `fake_fail_code` and has no effect. */
FAKE_API extern long fake_calls, fake_fail_at;
FAKE_API extern int fake_fail_code;
FAKE_API extern const char *fake_failed; /* the call that failed; NULL: none yet */
/* 1: cuDNN's graph interface refuses to run the plans that it made. */
FAKE_API extern int fake_refuses_graphs;
/* Number of handles, descriptors, plans and programs that were created and not released. */
FAKE_API extern long fake_alive;
/* Number of runs: convolutions by the older and by the graph interface, matrix products, and sums over devices. */
FAKE_API extern long fake_legacy_runs, fake_graph_runs, fake_gemm_runs, fake_sums;

#endif
