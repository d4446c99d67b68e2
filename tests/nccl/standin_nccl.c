/* A stand-in for libnccl.so.2 with the entry points of version 2.18 and those of gw_nccl_abi.h that were added later.
 *
 * It moves no data, but its ranks really wait for each other, as those of NCCL do:
 * - ncclCommInitRank and ncclCommSplit return when all ranks have called them.
 * - A collective launches a kernel that ends when the kernels of all ranks have started. Ranks whose n-th collectives
 *   differ (other function, size, type, operation or root) wait for ever. A send waits for its receive.
 * - The calls of a group launch one kernel for each communicator, at the end of the group.
 * The kernels need the virtual card (struct gw_kernel_meeting). Without a current context, the calls themselves wait.
 *
 * The ranks of a communicator share a file in the folder STANDIN_NCCL_DIR, or else in /dev/shm, which is named by the
 * unique id and unlinked once all ranks have opened it. As in NCCL, each function exists twice, as ncclX (weak) and
 * pncclX, and some functions call others through their public names. A replayed graph does not wait a second time. */
#define _GNU_SOURCE
#include "gw_cuda_calls.h"
#include "gw_nccl_abi.h"

#include "../../include/gpuwhy/kernel_model.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <unistd.h>

enum { RANKS_MAX = 64, SPLITS_MAX = 32, CELLS = 1 << 16, GROUP_MAX = 256, KERNELS = 6, VERSION = 21805 };
enum { OK = GW_NCCL_OK, UNHANDLED_CUDA = 1, SYSTEM = 2, INVALID_ARGUMENT = 4, INVALID_USAGE = 5, REMOTE = 6 };

#define PUBLIC(name, parameters)                                                                                       \
    int name parameters __attribute__((weak, visibility("default")));                                                  \
    extern __typeof__(name) p##name __attribute__((alias(#name), visibility("default")));

#define DECLARE_WORK(name, call, parameters, arguments, op, root) PUBLIC(name, parameters)
GW_NCCL_WORK(DECLARE_WORK)
#define DECLARE_OTHER(name, call, parameters, ...) PUBLIC(name, parameters)
GW_NCCL_OTHER_WORK(DECLARE_OTHER)
GW_NCCL_CONTROL(PUBLIC)
GW_NCCL_QUERIES(PUBLIC)
PUBLIC(ncclGetUniqueId, (ncclUniqueId *))
PUBLIC(ncclGetVersion, (int *))
PUBLIC(ncclCommGetAsyncError, (ncclComm_t, int *))
const char *ncclGetErrorString(int result) __attribute__((visibility("default")));
const char *ncclGetLastError(ncclComm_t comm) __attribute__((visibility("default")));

/* ---- what the ranks of a communicator share ---- */

typedef struct cell {
    _Atomic uint64_t key; /* 0: free */
    struct gw_kernel_cell cell;
} cell;

typedef struct shared_room {
    _Atomic uint32_t joined;
    struct {
        _Atomic uint32_t arrived;
        int color[RANKS_MAX], key[RANKS_MAX];
    } split[SPLITS_MAX];
    _Atomic uint64_t grown_key; /* of the communicator that this one becomes */
    cell cells[CELLS];
} shared_room;

struct ncclComm {
    shared_room *room; /* mapped; never unmapped, because kernels may still use it */
    uint64_t key;
    int size, rank;
    CUdevice device;
    CUfunction kernel[KERNELS]; /* loaded at the first launch */
    uint64_t collectives, sent[RANKS_MAX], received[RANKS_MAX];
    uint64_t signals_sent[RANKS_MAX], signals_awaited[RANKS_MAX], windows;
    uint32_t splits;
    _Atomic int is_aborted;
    struct gw_kernel_cell *last_cell; /* of its last call */
};

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return (hash ^ hash >> 29) | 1;
}

static void room_path(uint64_t key, char *out, size_t bytes)
{
    const char *folder = getenv("STANDIN_NCCL_DIR");
    snprintf(out, bytes, "%s/gpuwhy-standin-nccl-%016llx", folder == NULL ? "/dev/shm" : folder,
             (unsigned long long)key);
}

static shared_room *room_open(uint64_t key)
{
    char path[512];
    room_path(key, path, sizeof path);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return NULL;
    void *memory = ftruncate(fd, sizeof(shared_room)) != 0
                       ? MAP_FAILED
                       : mmap(NULL, sizeof(shared_room), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return memory == MAP_FAILED ? NULL : memory;
}

static void wait_for_count(_Atomic uint32_t *count, uint32_t wanted)
{
    while (atomic_load(count) < wanted)
        usleep(200);
}

/* Join the other ranks without waiting for them: a process may hold several ranks. */
static int join(ncclComm_t *ret_comm, uint64_t key, int size, int rank)
{
    CUcontext context = NULL;
    if (ret_comm == NULL || size < 1 || size > RANKS_MAX || rank < 0 || rank >= size)
        return INVALID_ARGUMENT;
    ncclComm_t comm = calloc(1, sizeof *comm);
    if (comm == NULL)
        return SYSTEM;
    *comm = (struct ncclComm){.room = room_open(key), .key = key, .size = size, .rank = rank, .device = -1};
    if (comm->room == NULL) {
        free(comm);
        return SYSTEM;
    }
    if (cuCtxGetCurrent(&context) == CUDA_SUCCESS && context != NULL)
        (void)cuCtxGetDevice(&comm->device);
    atomic_fetch_add(&comm->room->joined, 1);
    *ret_comm = comm;
    return OK;
}

static void meet(ncclComm_t comm)
{
    char path[512];
    wait_for_count(&comm->room->joined, (uint32_t)comm->size);
    room_path(comm->key, path, sizeof path);
    (void)unlink(path);
}

/* Return the cell of this key. All ranks find the same one. */
static struct gw_kernel_cell *cell_of(shared_room *room, uint64_t key, uint32_t needed)
{
    for (uint64_t at = key >> 32;; at++) {
        cell *c = &room->cells[at % CELLS];
        uint64_t found = 0;
        if (atomic_compare_exchange_strong(&c->key, &found, key) || found == key) {
            __atomic_store_n(&c->cell.needed, needed, __ATOMIC_RELEASE);
            return &c->cell;
        }
    }
}

/* ---- kernels ---- */

/* Names as in NCCL 2.22 and later. */
#define KERNEL_NAMES(X)                                                                                                \
    X("_Z39ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE")                                \
    X("_Z43ncclDevKernel_ReduceScatter_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE")                            \
    X("_Z36ncclDevKernel_Reduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE")                                   \
    X("_Z31ncclDevKernel_Broadcast_RING_LL24ncclDevKernelArgsStorageILm4096EE")                                        \
    X("_Z31ncclDevKernel_AllGather_RING_LL24ncclDevKernelArgsStorageILm4096EE")                                        \
    X("_Z22ncclDevKernel_SendRecv24ncclDevKernelArgsStorageILm4096EE")

#define NAME(name) name,
static const char *const kernel_names[KERNELS] = {KERNEL_NAMES(NAME)};
#define PTX(name)                                                                                                      \
    ".visible .global .align 8 .u64 gpuwhy_model_" name "[10] = {0x4D4B594857555047, 1, 0, 0, 0, 0, 0, 0, 0, 1};\n"    \
    ".visible .entry " name "(.param .u64 meeting)\n{\nret;\n}\n"
static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n" KERNEL_NAMES(PTX);

typedef struct request {
    ncclComm_t comm;
    CUstream stream;
    int kernel;
    struct gw_kernel_cell *cell; /* NULL: waits for nobody */
} request;

static _Thread_local struct {
    int depth;
    uint32_t count, joined_count;
    request request[GROUP_MAX];
    ncclComm_t joined[GROUP_MAX]; /* communicators that were made in the group */
} group;

static CUfunction kernel_of(ncclComm_t comm, int number)
{
    CUmodule module;
    if (comm->kernel[number] == NULL && cuModuleLoadData(&module, ptx) == CUDA_SUCCESS)
        for (int i = 0; i < KERNELS; i++)
            if (cuModuleGetFunction(&comm->kernel[i], module, kernel_names[i]) != CUDA_SUCCESS)
                comm->kernel[i] = NULL;
    return comm->kernel[number];
}

static int wait_on_host(const request *requests, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (requests[i].cell != NULL)
            __atomic_fetch_add(&requests[i].cell->arrived, 1, __ATOMIC_ACQ_REL);
    for (uint32_t i = 0; i < count; i++)
        while (requests[i].cell != NULL &&
               __atomic_load_n(&requests[i].cell->arrived, __ATOMIC_ACQUIRE) < requests[i].cell->needed) {
            if (atomic_load(&requests[i].comm->is_aborted))
                return REMOTE;
            usleep(200);
        }
    return OK;
}

/* Launch one kernel for the requests of the first request's communicator and stream, and mark them done. */
static int launch_one(request *requests, uint32_t count)
{
    const request first = requests[0];
    struct {
        struct gw_kernel_meeting meeting;
        struct gw_kernel_cell *cell[];
    } *all = calloc(1, sizeof *all + count * sizeof(void *)); /* not freed: the kernel uses it until it ends */
    if (all == NULL)
        return SYSTEM;
    all->meeting.cell = all->cell;
    for (uint32_t i = 0; i < count; i++) {
        if (requests[i].comm != first.comm || requests[i].stream != first.stream)
            continue;
        if (requests[i].cell != NULL)
            all->cell[all->meeting.count++] = requests[i].cell;
        requests[i].comm = NULL;
    }
    CUfunction kernel = kernel_of(first.comm, first.kernel);
    uint64_t parameter = all->meeting.count > 0 ? (uint64_t)(uintptr_t)&all->meeting : 0;
    void *parameters[] = {&parameter};
    if (all->meeting.count == 0)
        free(all);
    if (kernel == NULL || cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, first.stream, parameters, NULL) != CUDA_SUCCESS)
        return UNHANDLED_CUDA;
    return OK;
}

static int launch_all(request *requests, uint32_t count)
{
    CUcontext context = NULL;
    int result = OK;
    if (cuCtxGetCurrent(&context) != CUDA_SUCCESS || context == NULL)
        return wait_on_host(requests, count);
    for (uint32_t i = 0; i < count && result == OK; i++)
        if (requests[i].comm != NULL)
            result = launch_one(requests + i, count - i);
    return result;
}

static int add(ncclComm_t comm, CUstream stream, int kernel, uint64_t key, uint32_t needed)
{
    request r = {comm, stream, kernel, needed > 1 ? cell_of(comm->room, key, needed) : NULL};
    comm->last_cell = r.cell;
    if (group.depth == 0)
        return launch_all(&r, 1);
    if (group.count == GROUP_MAX)
        return INVALID_USAGE;
    group.request[group.count++] = r;
    return OK;
}

static int collective(int kernel, int call, size_t elements, int type, int op, int root, ncclComm_t comm,
                      CUstream stream)
{
    if (comm == NULL || type < 0 || type >= GW_NCCL_TYPE_COUNT || (root != -1 && (root < 0 || root >= comm->size)))
        return INVALID_ARGUMENT;
    uint64_t key = mix(mix(mix(comm->key, ++comm->collectives), (uint64_t)call), elements);
    key = mix(mix(mix(key, (uint64_t)type), (uint64_t)op), (uint64_t)root);
    return add(comm, stream, kernel, key, (uint32_t)comm->size);
}

static int transfer(int from, int to, uint64_t number, size_t elements, int type, ncclComm_t comm, CUstream stream)
{
    uint64_t pair = (uint64_t)from << 32 | (uint64_t)to | 1ull << 63;
    return add(comm, stream, 5, mix(mix(mix(mix(comm->key, pair), number), elements), (uint64_t)type), 2);
}

/* ---- collectives ---- */

int ncclAllReduce(const void *from, void *to, size_t elements, int type, int op, ncclComm_t comm, CUstream stream)
{
    (void)from, (void)to;
    return collective(0, 0, elements, type, op, -1, comm, stream);
}

int ncclReduceScatter(const void *from, void *to, size_t elements, int type, int op, ncclComm_t comm, CUstream stream)
{
    (void)from, (void)to;
    return collective(1, 1, elements, type, op, -1, comm, stream);
}

int ncclReduce(const void *from, void *to, size_t elements, int type, int op, int root, ncclComm_t comm,
               CUstream stream)
{
    (void)from, (void)to;
    return collective(2, 2, elements, type, op, root, comm, stream);
}

int ncclBroadcast(const void *from, void *to, size_t elements, int type, int root, ncclComm_t comm, CUstream stream)
{
    int error;
    (void)from, (void)to;
    (void)ncclCommGetAsyncError(comm, &error);
    return collective(3, 3, elements, type, -1, root, comm, stream);
}

int ncclBcast(void *buffer, size_t elements, int type, int root, ncclComm_t comm, CUstream stream)
{
    return ncclBroadcast(buffer, buffer, elements, type, root, comm, stream);
}

int ncclAllGather(const void *from, void *to, size_t elements, int type, ncclComm_t comm, CUstream stream)
{
    (void)from, (void)to;
    return collective(4, 4, elements, type, -1, -1, comm, stream);
}

int ncclAlltoAll(const void *from, void *to, size_t elements, int type, ncclComm_t comm, CUstream stream)
{
    (void)from, (void)to;
    return collective(5, 5, elements, type, -1, -1, comm, stream);
}

int ncclGather(const void *from, void *to, size_t elements, int type, int root, ncclComm_t comm, CUstream stream)
{
    (void)from, (void)to;
    return collective(5, 6, elements, type, -1, root, comm, stream);
}

int ncclScatter(const void *from, void *to, size_t elements, int type, int root, ncclComm_t comm, CUstream stream)
{
    (void)from, (void)to;
    return collective(5, 7, elements, type, -1, root, comm, stream);
}

static int is_bad_peer(ncclComm_t comm, int peer)
{
    return comm == NULL || peer < 0 || peer >= comm->size;
}

int ncclSend(const void *buffer, size_t elements, int type, int peer, ncclComm_t comm, CUstream stream)
{
    (void)buffer;
    if (is_bad_peer(comm, peer))
        return INVALID_ARGUMENT;
    return transfer(comm->rank, peer, ++comm->sent[peer], elements, type, comm, stream);
}

int ncclRecv(void *buffer, size_t elements, int type, int peer, ncclComm_t comm, CUstream stream)
{
    (void)buffer;
    if (is_bad_peer(comm, peer))
        return INVALID_ARGUMENT;
    return transfer(peer, comm->rank, ++comm->received[peer], elements, type, comm, stream);
}

/* ---- one-sided calls, and windows ---- */

/* The n-th signal from one rank to another. The waiter's kernel waits for it, but not the other way round. */
static uint64_t signal_key(int from, int to, uint64_t number, ncclComm_t comm)
{
    return mix(mix(mix(comm->key, (uint64_t)from << 32 | (uint64_t)to), number), 0x516);
}

static int send_signal(int peer, ncclComm_t comm, CUstream stream)
{
    if (is_bad_peer(comm, peer))
        return INVALID_ARGUMENT;
    struct gw_kernel_cell *it = cell_of(comm->room, signal_key(comm->rank, peer, ++comm->signals_sent[peer], comm), 2);
    __atomic_fetch_add(&it->arrived, 1, __ATOMIC_ACQ_REL);
    return add(comm, stream, 5, 0, 1);
}

int ncclPutSignal(const void *from, size_t elements, int type, int peer, void *window, size_t offset, int signal,
                  int context, unsigned flags, ncclComm_t comm, CUstream stream)
{
    (void)from, (void)elements, (void)type, (void)window, (void)offset, (void)signal, (void)context, (void)flags;
    return send_signal(peer, comm, stream);
}

int ncclSignal(int peer, int signal, int context, unsigned flags, ncclComm_t comm, CUstream stream)
{
    (void)signal, (void)context, (void)flags;
    return send_signal(peer, comm, stream);
}

int ncclWaitSignal(int count, gw_nccl_wait *waits, ncclComm_t comm, CUstream stream)
{
    int result = OK;
    for (int i = 0; i < count && result == OK; i++) {
        int peer = waits[i].peer;
        if (is_bad_peer(comm, peer))
            return INVALID_ARGUMENT;
        for (int k = 0; k < waits[i].count && result == OK; k++)
            result = add(comm, stream, 5, signal_key(peer, comm->rank, ++comm->signals_awaited[peer], comm), 2);
    }
    return result;
}

int ncclCommWindowRegister(ncclComm_t comm, void *buffer, size_t bytes, void **ret_window, int flags)
{
    (void)bytes, (void)flags;
    if (comm == NULL || buffer == NULL || ret_window == NULL)
        return INVALID_ARGUMENT;
    request r = {.comm = comm,
                 .cell = cell_of(comm->room, mix(mix(comm->key, ++comm->windows), 0x31d), (uint32_t)comm->size)};
    *ret_window = buffer;
    return wait_on_host(&r, 1);
}

/* ---- groups ---- */

int ncclGroupStart(void)
{
    group.depth++;
    return OK;
}

int ncclGroupEnd(void)
{
    if (group.depth == 0)
        return INVALID_USAGE;
    if (--group.depth > 0)
        return OK;
    for (uint32_t i = 0; i < group.joined_count; i++)
        meet(group.joined[i]);
    uint32_t count = group.count;
    group.count = group.joined_count = 0;
    return launch_all(group.request, count);
}

/* The calls of the group are forgotten. */
int ncclGroupSimulateEnd(void *simulation)
{
    (void)simulation;
    if (group.depth == 0)
        return INVALID_USAGE;
    group.count = --group.depth == 0 ? 0 : group.count;
    return OK;
}

/* ---- communicators ---- */

int ncclGetUniqueId(ncclUniqueId *ret_id)
{
    if (ret_id == NULL)
        return INVALID_ARGUMENT;
    return getrandom(ret_id, sizeof *ret_id, 0) == sizeof *ret_id ? OK : SYSTEM;
}

static uint64_t key_of(const ncclUniqueId *id)
{
    uint64_t word[GW_NCCL_ID_BYTES / 8], key = 1;
    memcpy(word, id, sizeof word);
    for (size_t i = 0; i < sizeof word / sizeof word[0]; i++)
        key = mix(key, word[i]);
    return key;
}

static void *ras(void *unused)
{
    prctl(PR_SET_NAME, "NCCL RAS");
    for (;;)
        pause();
    return unused;
}

/* If the test has set an address for RAS, start a thread with the name of RAS's. The test itself answers there. */
static void start_ras(void)
{
    static _Atomic int started;
    pthread_t thread;
    if (getenv("NCCL_RAS_ADDR") != NULL && atomic_fetch_add(&started, 1) == 0 &&
        pthread_create(&thread, NULL, ras, NULL) == 0)
        pthread_detach(thread);
}

static int join_and_meet(ncclComm_t *ret_comm, uint64_t key, int size, int rank)
{
    start_ras();
    int result = join(ret_comm, key, size, rank);
    if (result == OK && group.depth == 0)
        meet(*ret_comm);
    else if (result == OK && group.joined_count < GROUP_MAX)
        group.joined[group.joined_count++] = *ret_comm;
    return result;
}

int ncclCommInitRank(ncclComm_t *ret_comm, int size, ncclUniqueId id, int rank)
{
    return join_and_meet(ret_comm, key_of(&id), size, rank);
}

int ncclCommInitRankConfig(ncclComm_t *ret_comm, int size, ncclUniqueId id, int rank, void *config)
{
    (void)config;
    return join_and_meet(ret_comm, key_of(&id), size, rank);
}

int ncclCommInitRankScalable(ncclComm_t *ret_comm, int size, int rank, int id_count, ncclUniqueId *ids, void *config)
{
    (void)config;
    return id_count < 1 ? INVALID_ARGUMENT : join_and_meet(ret_comm, key_of(&ids[0]), size, rank);
}

int ncclCommInitAll(ncclComm_t *ret_comms, int count, const int *devices)
{
    ncclUniqueId id;
    int result = ncclGetUniqueId(&id);
    (void)devices;
    for (int i = 0; i < count && result == OK; i++)
        result = join(&ret_comms[i], key_of(&id), count, i);
    for (int i = 0; i < count && result == OK; i++)
        meet(ret_comms[i]);
    return result;
}

int ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *ret_comm, void *config)
{
    if (comm == NULL || ret_comm == NULL)
        return INVALID_ARGUMENT;
    uint32_t number = comm->splits++ % SPLITS_MAX;
    int size = 0, rank = 0;
    comm->room->split[number].color[comm->rank] = color;
    comm->room->split[number].key[comm->rank] = key;
    atomic_fetch_add(&comm->room->split[number].arrived, 1);
    wait_for_count(&comm->room->split[number].arrived, (uint32_t)comm->size);
    *ret_comm = NULL;
    if (color < 0) /* this rank joins no new communicator */
        return OK;
    for (int i = 0; i < comm->size; i++) {
        int its = comm->room->split[number].key[i];
        if (comm->room->split[number].color[i] != color)
            continue;
        size++;
        rank += its < key || (its == key && i < comm->rank);
    }
    int result = join_and_meet(ret_comm, mix(mix(comm->key, comm->splits), (uint64_t)color), size, rank);
    return result == OK && config != NULL ? GW_NCCL_IN_PROGRESS : result; /* any config asks for that */
}

int ncclCommShrink(ncclComm_t comm, int *excluded, int excluded_count, ncclComm_t *ret_comm, void *config, int flags)
{
    (void)config;
    int rank = comm == NULL ? 0 : comm->rank;
    if (comm == NULL || (flags != 0 && ncclCommRevoke(comm, 0) != OK))
        return INVALID_ARGUMENT;
    for (int i = 0; i < excluded_count; i++) {
        if (excluded[i] == comm->rank)
            return INVALID_ARGUMENT;
        rank -= excluded[i] < comm->rank;
    }
    uint64_t key = mix(mix(comm->key, ++comm->splits), UINT64_MAX);
    return join_and_meet(ret_comm, key, comm->size - excluded_count, rank);
}

/* The root passes the id; the other old ranks wait for it, and keep their ranks; new ranks have no communicator yet. */
int ncclCommGrow(ncclComm_t comm, int size, const ncclUniqueId *id, int rank, ncclComm_t *ret_comm, void *config)
{
    (void)config;
    uint64_t key = id == NULL ? 0 : key_of(id);
    if (comm == NULL)
        return id == NULL ? INVALID_ARGUMENT : join_and_meet(ret_comm, key, size, rank);
    if (id != NULL)
        atomic_store(&comm->room->grown_key, key);
    while ((key = atomic_load(&comm->room->grown_key)) == 0)
        usleep(200);
    return join_and_meet(ret_comm, key, size, comm->rank);
}

/* The ranks that wait in the last call of this one stop waiting. */
int ncclCommRevoke(ncclComm_t comm, int flags)
{
    (void)flags;
    if (comm == NULL)
        return INVALID_ARGUMENT;
    atomic_store(&comm->is_aborted, 1);
    if (comm->last_cell != NULL)
        __atomic_store_n(&comm->last_cell->arrived, comm->last_cell->needed, __ATOMIC_RELEASE);
    return OK;
}

int ncclCommFinalize(ncclComm_t comm)
{
    return comm == NULL ? INVALID_ARGUMENT : OK;
}

int ncclCommDestroy(ncclComm_t comm)
{
    free(comm);
    return OK;
}

/* Another thread may be waiting in a call, so the memory stays. */
int ncclCommAbort(ncclComm_t comm)
{
    if (comm == NULL)
        return INVALID_ARGUMENT;
    atomic_store(&comm->is_aborted, 1);
    return OK;
}

int ncclCommCount(const ncclComm_t comm, int *ret_count)
{
    *ret_count = comm->size;
    return OK;
}

int ncclCommUserRank(const ncclComm_t comm, int *ret_rank)
{
    *ret_rank = comm->rank;
    return OK;
}

int ncclCommCuDevice(const ncclComm_t comm, int *ret_device)
{
    *ret_device = comm->device;
    return OK;
}

int ncclCommGetAsyncError(ncclComm_t comm, int *ret_error)
{
    if (comm == NULL)
        return INVALID_ARGUMENT;
    *ret_error = OK;
    return OK;
}

int ncclGetVersion(int *ret_version)
{
    *ret_version = VERSION;
    return OK;
}

const char *ncclGetErrorString(int result)
{
    return result == OK ? "no error" : "unhandled error (stand-in)";
}

const char *ncclGetLastError(ncclComm_t comm)
{
    (void)comm;
    return "";
}
