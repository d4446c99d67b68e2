/* Measures the cost of recording a call of NCCL. The stand-in for NCCL refuses the calls, which takes a few ns, so
 * nearly all the time is ours. pncclAllReduce is the same function. Its calls are not recorded if dlsym() found it.
 * - burst: one after the other. Few of the calls get a call site (src/inside/hook/nccl.c).
 * - rested: one each 30 us, as in training. Every call gets a call site.
 *
 * Prints the times per call in ns as JSON, of recorded (on) and unrecorded (off) calls in turns. The program is built
 * as a library, too, which nccl_python.py calls: then there are Python frames on the stack, as with PyTorch.
 *
 *   gpuwhy run --quiet --gpu virtual:h200 -- bench-nccl-cost */
#include "calls.h"
#include "gw_cuda_calls.h"
#include "gw_nccl_abi.h"

#include <dlfcn.h>
#include <stdint.h>

enum { ROUNDS = 1000, CALLS = 200, NO_TYPE = 99, REST_NS = 30000 };

int ncclAllReduce(const void *from, void *to, size_t elements, int type, int op, ncclComm_t comm, CUstream stream);
int ncclCommInitRank(ncclComm_t *ret_comm, int size, ncclUniqueId id, int rank);
int ncclGetUniqueId(ncclUniqueId *ret_id);
int bench_nccl_cost(void) __attribute__((visibility("default")));

static ncclComm_t comm;
static __typeof__(ncclAllReduce) *unrecorded;

static double burst(int is_recorded)
{
    double begin = now_ns();
    for (int i = 0; i < CALLS; i++)
        (void)(is_recorded ? ncclAllReduce(NULL, NULL, 1, NO_TYPE, 0, comm, NULL)
                           : unrecorded(NULL, NULL, 1, NO_TYPE, 0, comm, NULL));
    return (now_ns() - begin) / CALLS;
}

static double rested(int is_recorded)
{
    double begin = now_ns();
    while (now_ns() - begin < REST_NS)
        ;
    begin = now_ns();
    (void)(is_recorded ? ncclAllReduce(NULL, NULL, 1, NO_TYPE, 0, comm, NULL)
                       : unrecorded(NULL, NULL, 1, NO_TYPE, 0, comm, NULL));
    return now_ns() - begin;
}

static void measure(const char *name, double (*one)(int))
{
    static double time[2][ROUNDS];
    for (int i = -ROUNDS / 10; i < ROUNDS; i++) /* the first rounds are not counted */
        for (int is_recorded = 0; is_recorded < 2; is_recorded++)
            time[is_recorded][i < 0 ? 0 : i] = one(is_recorded);
    for (int k = 0; k < 2; k++) {
        printf("\"%s_%s_ns\": [", name, k == 0 ? "off" : "on");
        for (int i = 0; i < ROUNDS; i++)
            printf("%.1f%s", time[k][i], i + 1 < ROUNDS ? ", " : "],\n");
    }
}

int bench_nccl_cost(void)
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
    void *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD);
    unrecorded = library == NULL ? NULL : (__typeof__(unrecorded))(uintptr_t)dlsym(library, "pncclAllReduce");
    check(unrecorded == NULL, "dlsym");
    printf("{");
    measure("burst", burst);
    measure("rested", rested);
    printf("\"calls_a_block\": %d}\n", CALLS);
    return fflush(stdout);
}

#ifndef BENCH_IS_LIBRARY
int main(void)
{
    return bench_nccl_cost();
}
#endif
