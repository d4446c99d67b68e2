/* A library that uses NCCL, as PyTorch's does. It is built in several ways: linked to NCCL, with NCCL inside, and with
 * nothing that defines NCCL's functions. odd.c opens it. */
#include "gw_nccl_abi.h"

#include <string.h>

int ncclCommInitRank(ncclComm_t *ret_comm, int size, ncclUniqueId id, int rank);
int ncclCommDestroy(ncclComm_t comm);
int ncclAllReduce(const void *from, void *to, size_t elements, int type, int op, ncclComm_t comm, CUstream stream);
int ncclGetUniqueId(ncclUniqueId *ret_id);
int plugin_train(int calls) __attribute__((visibility("default")));
int plugin_reduce(void) __attribute__((visibility("default")));

/* Make a communicator of one rank, and some calls on it. Returns the first result that is not 0. */
int plugin_train(int calls)
{
    ncclUniqueId id;
    ncclComm_t comm;
    int result = ncclGetUniqueId(&id);
    result = result == 0 ? ncclCommInitRank(&comm, 1, id, 0) : result;
    for (int i = 0; i < calls && result == 0; i++)
        result = ncclAllReduce(NULL, NULL, 100, 7, 0, comm, NULL);
    return result == 0 ? ncclCommDestroy(comm) : result;
}

int plugin_reduce(void)
{
    return ncclAllReduce(NULL, NULL, 100, 7, 0, NULL, NULL);
}
