/* Compares gw_nccl_abi.h with NCCL's own header: each function is called with our parameters, so that a wrong number,
 * order or kind of parameters does not compile. Nothing is linked or run. */
#include <nccl.h>

#define CUuuid gw_uuid /* both headers define it */
#include "gw_nccl_abi.h"

_Static_assert(sizeof(ncclUniqueId) == GW_NCCL_ID_BYTES, "size of an id");
_Static_assert((int)ncclSuccess == GW_NCCL_OK && (int)ncclInvalidArgument == GW_NCCL_INVALID_ARGUMENT &&
                   (int)ncclInProgress == GW_NCCL_IN_PROGRESS,
               "results");
_Static_assert(sizeof(ncclResult_t) == sizeof(int) && sizeof(ncclDataType_t) == sizeof(int) &&
                   sizeof(ncclRedOp_t) == sizeof(int),
               "enumerations are passed as int");
_Static_assert((int)ncclInt8 == 0 && (int)ncclFloat16 == 6 && (int)ncclFloat32 == 7 && (int)ncclFloat64 == 8 &&
                   (int)ncclBfloat16 == 9,
               "types");

#define GW_X(name, call, parameters, arguments, op, root)                                                              \
    int check_##name parameters;                                                                                       \
    int check_##name parameters                                                                                        \
    {                                                                                                                  \
        return (int)name arguments;                                                                                    \
    }
GW_NCCL_WORK(GW_X)
#undef GW_X

/* Functions that this NCCL may lack. */
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 29, 2)
_Static_assert(sizeof(ncclWaitSignalDesc_t) == sizeof(gw_nccl_wait), "a wait for signals");
#define ncclWaitSignal(count, waits, ...) ncclWaitSignal(count, (ncclWaitSignalDesc_t *)(waits), __VA_ARGS__)
#define ncclCommWindowRegister(comm, buffer, bytes, window, flags)                                                     \
    ncclCommWindowRegister(comm, buffer, bytes, (ncclWindow_t *)(window), flags)
#define GW_X(name, call, parameters, arguments, elements, type, peer, stream)                                          \
    int check_##name parameters;                                                                                       \
    int check_##name parameters                                                                                        \
    {                                                                                                                  \
        return (int)name arguments;                                                                                    \
    }
GW_NCCL_OTHER_WORK(GW_X)
#undef GW_X
#endif

/* Our declarations, under other names, so that they can be called with the same arguments as NCCL's. */
#define GW_X(name, parameters) int our_##name parameters;
GW_NCCL_CONTROL(GW_X)
GW_NCCL_QUERIES(GW_X)
#undef GW_X

#define BOTH(name, ...) ((int)name(__VA_ARGS__) + our_##name(__VA_ARGS__))

int check_control(ncclComm_t comm, ncclUniqueId id, ncclConfig_t *config, const int *devices);
int check_control(ncclComm_t comm, ncclUniqueId id, ncclConfig_t *config, const int *devices)
{
    int number;
    return BOTH(ncclCommInitRank, &comm, 1, id, 2) + BOTH(ncclCommInitRankConfig, &comm, 1, id, 2, config) +
           BOTH(ncclCommInitRankScalable, &comm, 1, 2, 3, &id, config) + BOTH(ncclCommInitAll, &comm, 1, devices) +
           BOTH(ncclCommSplit, comm, 1, 2, &comm, config) + BOTH(ncclCommFinalize, comm) + BOTH(ncclCommDestroy, comm) +
           BOTH(ncclCommAbort, comm) + BOTH(ncclGroupStart) + BOTH(ncclGroupEnd) + BOTH(ncclCommCount, comm, &number) +
           BOTH(ncclCommUserRank, comm, &number) + BOTH(ncclCommCuDevice, comm, &number);
}

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 29, 2)
int check_later_control(ncclComm_t comm, ncclUniqueId id, ncclConfig_t *config, int *excluded);
int check_later_control(ncclComm_t comm, ncclUniqueId id, ncclConfig_t *config, int *excluded)
{
    _Static_assert(NCCL_SHRINK_ABORT == GW_NCCL_SHRINK_ABORT, "a flag");
    return BOTH(ncclCommShrink, comm, excluded, 1, &comm, config, 0) +
           BOTH(ncclCommGrow, comm, 1, &id, 2, &comm, config) + BOTH(ncclCommRevoke, comm, 0) +
           BOTH(ncclGroupSimulateEnd, NULL);
}
#endif
