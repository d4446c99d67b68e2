/* A GPU emulated in host memory, which replaces libgpuscope's scopes. Everything is executed at once, and the kernels
 * really compute (host_launch.c). So a test without a GPU checks the arithmetic of the cuda back end, and that its
 * streams wait for each other (emulated_order.c). Only the functions for plans are from libgpuscope. */
#include "cuda_state.h"
#include "emulated_order.h"
#include "fake_nvidia.h"
#include "host_kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gs_scope {
    int unused;
};
struct gs_arena {
    const gs_plan *plan;
    char *memory;
};

/* There are only these two scopes. The memory of the arena is freed when a scope ends. */
static struct gs_scope outer, inner;
static struct gs_arena arena;
static float ms_now;
static gs_failure first;
static int has_failure;

#define UNUSED (void)file, (void)line
#define PLACE  const char *file, int line

gs_status gs_check(gs_source source, int code, const char *call, PLACE)
{
    if (code == 0)
        return GS_OK;
    fprintf(stderr, "%s:%d: %s answers %d\n", file, line, call, code);
    first = (gs_failure){.status = GS_FAILED, .source = source, .code = code, .line = line};
    has_failure = 1;
    return GS_FAILED;
}
int gs_alive(void)
{
    return 1;
}
int gs_first_failure(const gs_scope *scope, gs_failure *ret_failure)
{
    (void)scope;
    if (has_failure)
        *ret_failure = first;
    return has_failure;
}
char *gs_failure_text(const gs_failure *failure, char *out, size_t out_bytes)
{
    snprintf(out, out_bytes, "%d", failure->code);
    return out;
}
const char *gs_status_text(int status)
{
    return status == GS_OK ? "success" : "no success";
}
void gs_forgive(gs_scope *scope)
{
    (void)scope;
    has_failure = 0;
}
void gs_report_free(gs_report *report)
{
    (void)report;
}

/* ---- scopes ---- */

gs_status gs_open_at(const gs_options *options, gs_scope **ret_scope, gs_failure *ret_failure, PLACE)
{
    (void)options, (void)ret_failure, UNUSED;
    *ret_scope = &outer;
    return GS_OK;
}
gs_status gs_begin_at(gs_scope *parent, const gs_options *options, gs_scope **ret_scope, PLACE)
{
    (void)parent, (void)options, UNUSED;
    *ret_scope = &inner;
    return GS_OK;
}
gs_status gs_end_at(gs_scope *scope, gs_report **ret_report, PLACE)
{
    UNUSED;
    free(arena.memory);
    arena.memory = NULL;
    if (scope == &outer)
        order_reset();
    if (ret_report != NULL)
        *ret_report = NULL;
    return GS_OK;
}
gs_status gs_enter_at(gs_scope *scope, PLACE)
{
    (void)scope, UNUSED;
    return GS_OK;
}
gs_status gs_leave_at(gs_scope *scope, PLACE)
{
    (void)scope, UNUSED;
    return GS_OK;
}

/* ---- what a scope owns ---- */

static void *some(void)
{
    static char thing;
    return &thing;
}
static struct order_stream *stream_of(void *handle)
{
    return handle;
}
gs_status gs_stream_at(gs_scope *scope, CUstream *ret, PLACE)
{
    (void)scope, UNUSED;
    *ret = (CUstream)(void *)order_stream_new();
    return GS_OK;
}
gs_status gs_event_at(gs_scope *scope, int timing, CUevent *ret, PLACE)
{
    (void)scope, (void)timing, UNUSED;
    *ret = (CUevent)(void *)order_event_new();
    return GS_OK;
}
/* The event is kept until the outer scope ends. */
gs_status gs_event_close_at(gs_scope *scope, CUevent event, PLACE)
{
    (void)scope, (void)event, UNUSED;
    return GS_OK;
}
gs_status gs_alloc_pinned_at(gs_scope *scope, size_t bytes, void **ret, PLACE)
{
    (void)scope, UNUSED;
    *ret = malloc(bytes);
    return *ret == NULL ? GS_NO_MEMORY : GS_OK;
}
gs_status gs_free_host_at(gs_scope *scope, void *memory, PLACE)
{
    (void)scope, UNUSED;
    free(memory);
    return GS_OK;
}
/* In a new arena, memory that was never written reads as NaN. */
gs_status gs_arena_open_at(gs_scope *scope, const gs_plan *plan, gs_arena **ret_arena, PLACE)
{
    (void)scope, UNUSED;
    uint64_t offset = 0, end = 0;
    for (size_t block = 0; gs_plan_offset(plan, block, &offset) == GS_OK; block++)
        end = offset > end ? offset : end;
    size_t bytes = (size_t)end + ((size_t)4 << 20); /* 4 MiB for the last block, whose size the plan does not return */
    arena = (struct gs_arena){.plan = plan, .memory = aligned_alloc(512, bytes)};
    if (arena.memory == NULL)
        return GS_NO_MEMORY;
    memset(arena.memory, 0xff, bytes);
    *ret_arena = &arena;
    return GS_OK;
}
CUdeviceptr gs_arena_at(const gs_arena *of, size_t block)
{
    uint64_t offset;
    return gs_plan_offset(of->plan, block, &offset) == GS_OK ? (CUdeviceptr)(uintptr_t)of->memory + offset : 0;
}

/* ---- libraries ---- */

/* The handles of cuDNN and cuBLAS are the streams. */
static void touch_of_library(void *handle, const void *at, size_t bytes, int writes, const char *call)
{
    order_touch(stream_of(handle), at, bytes, writes, call);
}

gs_status gs_cudnn_at(gs_scope *scope, CUstream stream, void **ret, PLACE)
{
    (void)scope, UNUSED;
    *ret = stream;
    return GS_OK;
}
gs_status gs_cublas_at(gs_scope *scope, CUstream stream, void **ret, PLACE)
{
    (void)scope, UNUSED;
    *ret = stream;
    return GS_OK;
}
gs_status gs_nccl_at(gs_scope *scope, int ranks, const gs_nccl_id *id, int rank, void **ret, PLACE)
{
    (void)scope, (void)ranks, (void)id, (void)rank, UNUSED;
    *ret = some();
    return GS_OK;
}
gs_status gs_nccl_new_id_at(gs_scope *scope, gs_nccl_id *ret, PLACE)
{
    (void)scope, UNUSED;
    memset(ret, 7, sizeof *ret);
    return GS_OK;
}

/* The following functions replace cuda_program.c. */
static int cuDeviceGet(int *ret, int ordinal)
{
    *ret = ordinal;
    return 0;
}
static int cuDeviceGetAttribute(int *ret, int attribute, int device)
{
    *ret = attribute == CU_ATTRIBUTE_MULTIPROCESSORS ? 3 : attribute == CU_ATTRIBUTE_MAJOR ? 9 : 0;
    return device;
}
#define X(name, parameters) int name parameters;
CUDNN_CALLS(X)
CUBLAS_CALLS(X)
NCCL_CALLS(X)
#undef X

bool cuda_find(struct cuda *cuda, struct reason *reason)
{
    (void)reason;
    fake_computes = 1;
    fake_touch = touch_of_library;
#define X(name, parameters) cuda->api.name = name;
    CUDNN_CALLS(X)
    CUBLAS_CALLS(X)
    DRIVER_CALLS(X)
#undef X
    return true;
}
bool cuda_find_nccl(struct cuda *cuda, struct reason *reason)
{
    (void)reason;
#define X(name, parameters) cuda->api.name = name;
    NCCL_CALLS(X)
#undef X
    return true;
}

static CUfunction look_up(enum precision precision, const char *name)
{
    static const struct host_kernel *const tables[] = {host_kernels_0, host_kernels_1, host_kernels_2};
    for (const struct host_kernel *kernel = tables[precision]; kernel->name != NULL; kernel++)
        if (strcmp(kernel->name, name) == 0)
            return (CUfunction)(uintptr_t)kernel;
    fprintf(stderr, "there is no kernel %s\n", name);
    abort();
}

bool cuda_kernels_load(struct cuda *cuda, enum precision precision, struct reason *reason)
{
    (void)reason;
#define X(name) cuda->kernels.name = look_up(precision, #name);
    CUDA_KERNELS(X)
#undef X
#define X(name)                                                                                                        \
    cuda->kernels.name[0] = look_up(precision, #name "_1");                                                            \
    cuda->kernels.name[1] = look_up(precision, #name "_8");
    CUDA_KERNEL_PAIRS(X)
#undef X
    return true;
}

/* ---- work ---- */

static void *host(CUdeviceptr at)
{
    return (void *)(uintptr_t)at;
}
gs_status gs_copy_in_at(CUdeviceptr to, const void *from, size_t bytes, CUstream stream, PLACE)
{
    UNUSED;
    order_touch(stream_of(stream), host(to), bytes, 1, "gs_copy_in");
    memcpy(host(to), from, bytes);
    return GS_OK;
}
gs_status gs_copy_out_at(void *to, CUdeviceptr from, size_t bytes, CUstream stream, PLACE)
{
    UNUSED;
    order_touch(stream_of(stream), host(from), bytes, 0, "gs_copy_out");
    memcpy(to, host(from), bytes);
    return GS_OK;
}
gs_status gs_copy_at(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream, PLACE)
{
    UNUSED;
    order_touch(stream_of(stream), host(from), bytes, 0, "gs_copy");
    order_touch(stream_of(stream), host(to), bytes, 1, "gs_copy");
    memcpy(host(to), host(from), bytes);
    return GS_OK;
}
gs_status gs_fill_at(CUdeviceptr to, unsigned char byte, size_t bytes, CUstream stream, PLACE)
{
    UNUSED;
    order_touch(stream_of(stream), host(to), bytes, 1, "gs_fill");
    memset(host(to), byte, bytes);
    return GS_OK;
}
gs_status gs_record_at(CUevent event, CUstream stream, PLACE)
{
    UNUSED;
    order_record((void *)event, stream_of(stream));
    return GS_OK;
}
gs_status gs_follow_at(CUstream stream, CUevent event, PLACE)
{
    UNUSED;
    order_follow(stream_of(stream), (void *)event);
    return GS_OK;
}
gs_status gs_wait_at(CUstream stream, PLACE)
{
    UNUSED;
    order_wait(stream_of(stream));
    return GS_OK;
}
gs_status gs_wait_event_at(CUevent event, PLACE)
{
    UNUSED;
    order_wait_event((void *)event);
    return GS_OK;
}
/* Each measured time is shorter than the one before, so the last algorithm is chosen. */
gs_status gs_elapsed_at(CUevent begin, CUevent end, float *ret_ms, PLACE)
{
    (void)begin, (void)end, UNUSED;
    ms_now += 1;
    *ret_ms = 1 / ms_now;
    return GS_OK;
}
/* Check the first byte of the blocks that a kernel accesses: it writes to its first argument. Of the others, only those
 * are checked that steps on different streams use. */
static void touch_of_kernel(struct order_stream *stream, const char *name, void **arguments)
{
    static const struct {
        const char *name;     /* or its beginning */
        int reads[2], writes; /* the numbers of arguments; 0: none */
    } rows[] = {{"columns_end", {1, 0}, 0},  {"columns", {1, 0}, 0}, {"depth_filter_end", {1, 0}, 0},
                {"depth_filter", {1, 2}, 0}, {"check", {1, 0}, 0},   {"norm_masked_sums", {0, 0}, 1}};
    void *const *const *blocks = (void *const *const *)arguments;
    order_touch(stream, *blocks[0], 1, 1, name);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strncmp(name, rows[i].name, strlen(rows[i].name)) != 0)
            continue;
        for (int k = 0; k < 2; k++)
            if (rows[i].reads[k] != 0)
                order_touch(stream, *blocks[rows[i].reads[k]], 1, 0, name);
        if (rows[i].writes != 0)
            order_touch(stream, *blocks[rows[i].writes], 1, 1, name);
        return;
    }
}
gs_status gs_launch(CUfunction kernel, gs_dims grid, gs_dims block, unsigned shared_bytes, CUstream stream,
                    void **arguments, const char *call, PLACE)
{
    (void)shared_bytes, (void)call, UNUSED;
    touch_of_kernel(stream_of(stream), ((const struct host_kernel *)(uintptr_t)kernel)->name, arguments);
    host_launch((const struct host_kernel *)(uintptr_t)kernel, (struct dims){grid.x, grid.y, grid.z},
                (struct dims){block.x, block.y, block.z}, arguments);
    return GS_OK;
}
