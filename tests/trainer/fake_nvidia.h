/* cuDNN, cuBLAS, NCCL and NVRTC as far as the trainer calls them. They look at what they are given as the real ones do,
 * count what is made of them, fail where they are told to, and, where memory is the host's, compute: by plain loops. */
#ifndef FAKE_NVIDIA_H
#define FAKE_NVIDIA_H

#define FAKE_API __attribute__((visibility("default")))

/* 1: memory is the host's. */
FAKE_API extern int fake_computes;
/* Calls are counted; the `fake_fail_at`-th (from 1; 0: none) answers `fake_fail_code` and does nothing. */
FAKE_API extern long fake_calls, fake_fail_at;
FAKE_API extern int fake_fail_code;
FAKE_API extern const char *fake_failed; /* which one it was; NULL: none yet */
/* 1: what cuDNN's graph interface has planned it refuses to run. */
FAKE_API extern int fake_refuses_graphs;
/* Handles, descriptors, plans and programs that were made and not given back. */
FAKE_API extern long fake_alive;
/* Of work: convolutions and products. */
FAKE_API extern long fake_legacy_runs, fake_graph_runs, fake_gemm_runs, fake_sums;

#endif
