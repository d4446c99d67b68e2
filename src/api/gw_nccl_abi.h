/* The binary interface of NCCL (libnccl.so.2), as far as gpuwhy uses it, written independently of nccl.h. Never include
 * both. It is that of versions 2.18 to 2.30; none of these functions has changed since it was added.
 *
 * The lists describe every function whose calls are recorded. The hook's wrappers (nccl.c), its table of names and
 * the library that stands in for NCCL in tests come from them. */
#ifndef GW_NCCL_ABI_H
#define GW_NCCL_ABI_H

#include "gw_cuda_abi.h"

#include <stddef.h>

enum { GW_NCCL_ID_BYTES = 128, GW_NCCL_TYPE_COUNT = 12 };
enum { GW_NCCL_OK = 0, GW_NCCL_INVALID_ARGUMENT = 4, GW_NCCL_IN_PROGRESS = 7 }; /* of ncclResult_t */
enum { GW_NCCL_SHRINK_ABORT = 1 };

#ifndef NCCL_MAJOR /* the test of this file includes nccl.h first, and compares */
typedef struct ncclComm *ncclComm_t;
/* Passed by value, so on the stack on x86-64 and by reference on arm64. */
typedef struct ncclUniqueId {
    char internal[GW_NCCL_ID_BYTES];
} ncclUniqueId;
#endif

/* ncclWaitSignalDesc_t */
typedef struct gw_nccl_wait {
    int count, peer, signal, context;
} gw_nccl_wait;

// clang-format off
/* Collectives and point-to-point calls, as X(function, its GW_NCCL_ value in gw_collective.h, parameters, arguments,
 * operation, root or peer). -1: the function has none. All have parameters `elements`, `type`, `comm` and `stream`. */
#define GW_NCCL_WORK(X) \
    X(ncclAllReduce, ALL_REDUCE, (const void *from, void *to, size_t elements, int type, int op, ncclComm_t comm, CUstream stream), \
      (from, to, elements, type, op, comm, stream), op, -1) \
    X(ncclReduceScatter, REDUCE_SCATTER, (const void *from, void *to, size_t elements, int type, int op, ncclComm_t comm, CUstream stream), \
      (from, to, elements, type, op, comm, stream), op, -1) \
    X(ncclReduce, REDUCE, (const void *from, void *to, size_t elements, int type, int op, int root, ncclComm_t comm, CUstream stream), \
      (from, to, elements, type, op, root, comm, stream), op, root) \
    X(ncclBroadcast, BROADCAST, (const void *from, void *to, size_t elements, int type, int root, ncclComm_t comm, CUstream stream), \
      (from, to, elements, type, root, comm, stream), -1, root) \
    X(ncclBcast, BROADCAST, (void *buffer, size_t elements, int type, int root, ncclComm_t comm, CUstream stream), \
      (buffer, elements, type, root, comm, stream), -1, root) \
    X(ncclAllGather, ALL_GATHER, (const void *from, void *to, size_t elements, int type, ncclComm_t comm, CUstream stream), \
      (from, to, elements, type, comm, stream), -1, -1) \
    X(ncclAlltoAll, ALL_TO_ALL, (const void *from, void *to, size_t elements, int type, ncclComm_t comm, CUstream stream), \
      (from, to, elements, type, comm, stream), -1, -1) \
    X(ncclGather, GATHER, (const void *from, void *to, size_t elements, int type, int root, ncclComm_t comm, CUstream stream), \
      (from, to, elements, type, root, comm, stream), -1, root) \
    X(ncclScatter, SCATTER, (const void *from, void *to, size_t elements, int type, int root, ncclComm_t comm, CUstream stream), \
      (from, to, elements, type, root, comm, stream), -1, root) \
    X(ncclSend, SEND, (const void *buffer, size_t elements, int type, int peer, ncclComm_t comm, CUstream stream), \
      (buffer, elements, type, peer, comm, stream), -1, peer) \
    X(ncclRecv, RECV, (void *buffer, size_t elements, int type, int peer, ncclComm_t comm, CUstream stream), \
      (buffer, elements, type, peer, comm, stream), -1, peer)

/* Calls with other parameters (2.29; ncclCommWindowRegister 2.27), as X(function, its GW_NCCL_ value, parameters,
 * arguments, elements, type, peer, stream). Type -1: nothing is sent. The parameter `window` is an ncclWindow_t. */
#define GW_NCCL_OTHER_WORK(X) \
    X(ncclPutSignal, PUT_SIGNAL, (const void *from, size_t elements, int type, int peer, void *window, size_t offset, int signal, \
      int context, unsigned flags, ncclComm_t comm, CUstream stream), \
      (from, elements, type, peer, window, offset, signal, context, flags, comm, stream), elements, type, peer, stream) \
    X(ncclSignal, SIGNAL, (int peer, int signal, int context, unsigned flags, ncclComm_t comm, CUstream stream), \
      (peer, signal, context, flags, comm, stream), 0, -1, peer, stream) \
    X(ncclWaitSignal, WAIT_SIGNAL, (int count, gw_nccl_wait *waits, ncclComm_t comm, CUstream stream), \
      (count, waits, comm, stream), 0, -1, count == 1 && waits != NULL ? waits->peer : -1, stream) \
    X(ncclCommWindowRegister, WINDOW_REGISTER, (ncclComm_t comm, void *buffer, size_t bytes, void **ret_window, int flags), \
      (comm, buffer, bytes, ret_window, flags), 0, -1, -1, NULL)

/* Calls that make or end communicators and groups, as X(function, parameters). */
#define GW_NCCL_CONTROL(X) \
    X(ncclCommInitRank, (ncclComm_t *ret_comm, int size, ncclUniqueId id, int rank)) \
    X(ncclCommInitRankConfig, (ncclComm_t *ret_comm, int size, ncclUniqueId id, int rank, void *config)) \
    X(ncclCommInitRankScalable, (ncclComm_t *ret_comm, int size, int rank, int id_count, ncclUniqueId *ids, void *config)) \
    X(ncclCommInitAll, (ncclComm_t *ret_comms, int count, const int *devices)) \
    X(ncclCommSplit, (ncclComm_t comm, int color, int key, ncclComm_t *ret_comm, void *config)) \
    X(ncclCommShrink, (ncclComm_t comm, int *excluded, int excluded_count, ncclComm_t *ret_comm, void *config, int flags)) \
    X(ncclCommGrow, (ncclComm_t comm, int size, const ncclUniqueId *id, int rank, ncclComm_t *ret_comm, void *config)) \
    X(ncclCommRevoke, (ncclComm_t comm, int flags)) \
    X(ncclCommFinalize, (ncclComm_t comm)) \
    X(ncclCommDestroy, (ncclComm_t comm)) \
    X(ncclCommAbort, (ncclComm_t comm)) \
    X(ncclGroupStart, (void)) \
    X(ncclGroupEnd, (void)) \
    X(ncclGroupSimulateEnd, (void *simulation))

/* Functions that the hook calls, but does not record. */
#define GW_NCCL_QUERIES(X) \
    X(ncclCommCount, (const ncclComm_t comm, int *ret_count)) \
    X(ncclCommUserRank, (const ncclComm_t comm, int *ret_rank)) \
    X(ncclCommCuDevice, (const ncclComm_t comm, int *ret_device))
// clang-format on

#endif
