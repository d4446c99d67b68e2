/* Measures the cost of recording a call of NCCL. The stand-in for NCCL refuses the calls, which takes a few ns, so
 * nearly all the time is ours. pncclAllReduce is the same function, but its calls are not recorded.
 * - One after the other: few of the calls get a call site (src/inside/hook/nccl.c).
 * - One each 30 us, as in training: every call gets a call site.
 *
 * Prints the median time per call in ns. Compare only times of the same run.
 *
 *   gpuwhy run --quiet --gpu virtual:h200 -- bench-nccl-cost */
#include "calls.h"
#include "gw_cuda_calls.h"
#include "gw_nccl_abi.h"

#include <stdio.h>
#include <string.h>

enum { ROUNDS = 400, CALLS = 200, NO_TYPE = 99, REST_NS = 30000 };

int ncclAllReduce(const void *from, void *to, size_t elements, int type, int op, ncclComm_t comm, CUstream stream);
int pncclAllReduce(const void *from, void *to, size_t elements, int type, int op, ncclComm_t comm, CUstream stream);
int ncclCommInitRank(ncclComm_t *ret_comm, int size, ncclUniqueId id, int rank);
int ncclGetUniqueId(ncclUniqueId *ret_id);

static ncclComm_t comm;

static double burst(int is_recorded)
{
    double begin = now_ns();
    for (int i = 0; i < CALLS; i++)
        (void)(is_recorded ? ncclAllReduce(NULL, NULL, 1, NO_TYPE, 0, comm, NULL)
                           : pncclAllReduce(NULL, NULL, 1, NO_TYPE, 0, comm, NULL));
    return (now_ns() - begin) / CALLS;
}

static double rested(int is_recorded)
{
    double begin = now_ns();
    while (now_ns() - begin < REST_NS)
        ;
    begin = now_ns();
    (void)(is_recorded ? ncclAllReduce(NULL, NULL, 1, NO_TYPE, 0, comm, NULL)
                       : pncclAllReduce(NULL, NULL, 1, NO_TYPE, 0, comm, NULL));
    return now_ns() - begin;
}

/* Print the difference between the medians of recorded and unrecorded calls, measured alternately. */
static void measure(const char *name, double (*one)(int), int count)
{
    static double time[2][ROUNDS * 10];
    for (int i = -count / 10; i < count; i++) /* the first rounds are not counted */
        for (int is_recorded = 0; is_recorded < 2; is_recorded++)
            time[is_recorded][i < 0 ? 0 : i] = one(is_recorded);
    for (int k = 0; k < 2; k++)
        qsort(time[k], (size_t)count, sizeof time[k][0], compare);
    printf("%-28s %6.1f ns unrecorded, %6.1f ns recorded: %+.1f ns\n", name, time[0][count / 2], time[1][count / 2],
           time[1][count / 2] - time[0][count / 2]);
}

int main(void)
{
    CUdevice device;
    CUcontext context;
    ncclUniqueId id;
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    CHECK(ncclGetUniqueId(&id));
    CHECK(ncclCommInitRank(&comm, 1, id, 0));
    measure("calls one after the other", burst, ROUNDS);
    measure("a call each 30 us", rested, ROUNDS * 10);
    return 0;
}
