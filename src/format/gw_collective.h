/* NCCL's calls as the shared buffer, the recording and the model number them. */
#ifndef GW_COLLECTIVE_H
#define GW_COLLECTIVE_H

/* X(name, name of NCCL's function, the ranks' element counts must agree, has a root, has a peer) */
#define GW_NCCL_CALLS(X)                                                                                               \
    X(ALL_REDUCE, "ncclAllReduce", 1, 0, 0)                                                                            \
    X(REDUCE_SCATTER, "ncclReduceScatter", 1, 0, 0)                                                                    \
    X(REDUCE, "ncclReduce", 1, 1, 0)                                                                                   \
    X(BROADCAST, "ncclBroadcast", 1, 1, 0)                                                                             \
    X(ALL_GATHER, "ncclAllGather", 1, 0, 0)                                                                            \
    X(ALL_TO_ALL, "ncclAlltoAll", 1, 0, 0)                                                                             \
    X(GATHER, "ncclGather", 1, 1, 0)                                                                                   \
    X(SCATTER, "ncclScatter", 1, 1, 0)                                                                                 \
    X(SEND, "ncclSend", 0, 0, 1)                                                                                       \
    X(RECV, "ncclRecv", 0, 0, 1)                                                                                       \
    X(PUT_SIGNAL, "ncclPutSignal", 0, 0, 1)                                                                            \
    X(SIGNAL, "ncclSignal", 0, 0, 1)                                                                                   \
    X(WAIT_SIGNAL, "ncclWaitSignal", 0, 0, 1)                                                                          \
    X(WINDOW_REGISTER, "ncclCommWindowRegister", 0, 0, 0)

typedef enum gw_nccl_call {
#define GW_X(name, function, agree, root, peer) GW_NCCL_##name,
    GW_NCCL_CALLS(GW_X)
#undef GW_X
        GW_NCCL_CALL_COUNT
} gw_nccl_call;

/* Each row of GW_NCCL_CALLS that has a peer: point-to-point calls, which are numbered apart from collectives. */
static inline int gw_nccl_has_peer(unsigned call)
{
    static const unsigned char rows[] = {
#define GW_X(name, function, agree, root, peer) peer,
        GW_NCCL_CALLS(GW_X)
#undef GW_X
    };
    return call < GW_NCCL_CALL_COUNT && rows[call];
}

/* How far a call has come, as X(name, word in the recording). */
#define GW_COLLECTIVE_STATES(X)                                                                                        \
    X(ENTERED, "entered")   /* the call, or the group that it belongs to, has not returned, or it returned             \
                               ncclInProgress */                                                                       \
    X(ENQUEUED, "enqueued") /* it returned success; whether its work on the GPU has ended is not known to be true */   \
    X(COMPLETED, "completed")                                                                                          \
    X(REFUSED, "refused")   /* it returned an error: `result` */                                                       \
    X(CAPTURED, "captured") /* into a graph: it did not run then */

typedef enum gw_collective_state {
#define GW_X(name, word) GW_COLLECTIVE_##name,
    GW_COLLECTIVE_STATES(GW_X)
#undef GW_X
        GW_COLLECTIVE_STATE_COUNT
} gw_collective_state;

/* names.c. The name of NCCL's function, such as "ncclAllReduce", and the word of a state; "" for a number out of range.
 * Static strings. */
const char *gw_nccl_call_name(gw_nccl_call call);
const char *gw_collective_state_word(gw_collective_state state);

#endif
