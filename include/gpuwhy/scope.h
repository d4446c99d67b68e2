/* libgpuscope: a scope owns what a run takes from a GPU, and gives all of it back.
 *
 *     gs_options options = {.name = "training", .memory_bytes = 8ull << 30};
 *     gs_scope *scope;
 *     if (gs_open(&options, &scope, NULL) != GS_OK) ...       context, retained; this thread is inside
 *     CUdeviceptr weights;
 *     gs_alloc(scope, bytes, &weights);
 *     GS_LAUNCH(kernel, gs_dim(64, 1, 1), gs_dim(256, 1, 1), 0, stream, &weights, &count);
 *     gs_report *report;
 *     gs_end(scope, &report);                  waits, releases, compares the driver's free memory with the start
 *     gs_report_print(report, stderr);
 *     gs_report_free(report);
 *
 * C11 or later, or C++11. The driver and CUDA's libraries are loaded at run time: a program builds without a toolkit
 * and starts without a driver; gs_open() then answers GS_NO_DRIVER. It may be included before or after <cuda.h>. A
 * device is never reset.
 *
 * What holds for every call:
 * - Every call answers a status, and outputs are written on GS_OK alone. The first failure of a scope is kept
 *   (gs_first_failure()).
 * - A thread works in the scopes that it has entered, innermost first. gs_open() and gs_begin() enter the new scope;
 *   other threads call gs_enter(). While a thread is inside, the scope's context is current in it: whoever makes
 *   another one current makes it current again. A call for a scope from a thread that is in no scope of that device is
 *   GS_MISUSE.
 * - Any number of threads may use one scope at once. gs_end() alone wants the others out: GS_BUSY otherwise.
 * - A sticky error (an illegal address, an assertion, a lost card) makes the context useless, and the process with it:
 *   all scopes of the device are dead, and every later use answers GS_DEAD at once, without asking the driver.
 *   gs_run_in_child() is the way to go on.
 * - Texts of `file` and `name` arguments: `file` must stay valid while the scope lives (__FILE__ does), names are
 *   copied.
 *
 * docs/scope.md has the whole contract, examples and limits. */
#ifndef GPUWHY_SCOPE_H
#define GPUWHY_SCOPE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* As in <cuda.h>; said again for programs without it. */
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;

#if defined(__GNUC__)
#define GS_API __attribute__((visibility("default")))
#else
#define GS_API
#endif
#define GS_HERE __FILE__, __LINE__

typedef struct gs_scope gs_scope;

/* ---- answers ---------------------------------------------------------------------------------------------------- */

/* X(name, text). The numbers are part of the interface: new ones come at the end. */
#define GS_STATUSES(X)                                                                                                 \
    X(OK, "success")                                                                                                   \
    X(NO_MEMORY, "the card, or the scope's share of it, has no room; nothing else is wrong")                           \
    X(FAILED, "a call failed; the scope stays usable")                                                                 \
    X(DEAD, "a sticky error made the context useless; only a new process helps")                                       \
    X(NO_DRIVER, "no driver library, or one that lacks what is needed")                                                \
    X(NO_DEVICE, "no such card")                                                                                       \
    X(NO_LIBRARY, "a CUDA library is not there, or lacks what is needed")                                              \
    X(MISUSE, "the request makes no sense; the failure's text says why")                                               \
    X(BUSY, "other threads are still inside")                                                                          \
    X(UNSUPPORTED, "this driver or card cannot do that")                                                               \
    X(NO_HOST_MEMORY, "the host has no memory left")                                                                   \
    X(DIFFERS, "an iteration does not repeat what was planned")                                                        \
    X(CHILD_DIED, "the child process ended without an answer")                                                         \
    X(TIMEOUT, "the time was over")                                                                                    \
    X(NOT_READY, "the work is not over yet")

typedef enum gs_status {
#define GS_X(name, text) GS_##name,
    GS_STATUSES(GS_X)
#undef GS_X
        GS_STATUS_COUNT
} gs_status;
GS_API const char *gs_status_text(int status); /* static, never NULL */

/* Whose number a failure's `code` is. */
typedef enum gs_source {
    GS_FROM_DRIVER,
    GS_FROM_CUDNN,
    GS_FROM_CUBLAS,
    GS_FROM_CUBLASLT,
    GS_FROM_NCCL,
    GS_FROM_SCOPE, /* our own refusal: `code` is 0, `text` says why */
    GS_SOURCE_COUNT
} gs_source;

/* A failure. Plain data: may be copied, kept, and sent to another process. */
typedef struct gs_failure {
    gs_status status;
    gs_source source;
    int code;
    int is_sticky;
    int line, launch_line; /* launch_*: this thread's newest launch before it; "" and 0: none */
    char call[128];        /* as written in the source */
    char file[128];        /* a longer path keeps its end */
    char text[320];        /* the error's name, number and text */
    char launch_file[128];
    char launch_call[64]; /* the kernel, as written in the source */
} gs_failure;

/* The first failure of a scope; where it has none, what killed its device. NULL as the scope: the first one of the
 * process. 1: there is one; 0: there is none, and *ret_failure is untouched. */
GS_API int gs_first_failure(const gs_scope *scope, gs_failure *ret_failure);
/* What killed the scope's device: it may have come after the scope's first failure. 0: it lives. */
GS_API int gs_death(const gs_scope *scope, gs_failure *ret_failure);
/* A failure was dealt with: forget it, so that the next one is the first again. A dead scope stays dead. */
GS_API void gs_forgive(gs_scope *scope);
/* "file:line: call: text" and what else is known, in one or two lines. Returns `out`. */
GS_API char *gs_failure_text(const gs_failure *failure, char *out, size_t out_bytes);

/* ---- every call checked ------------------------------------------------------------------------------------------ */

/* GS_TRY(cuMemsetD32Async(p, 0, n, stream)): a status. In a dead scope the call is not made. The failure is kept in
 * the thread's innermost scope; outside of any, as the process's first one alone. Works for CUresult and cudaError_t.
 * "Not ready" of a query is GS_NOT_READY, and no failure. */
#define GS_TRY(call) (gs_alive() ? gs_check(GS_FROM_DRIVER, (int)(call), #call, GS_HERE) : GS_DEAD)
/* The same for the results of a library: GS_TRY_OF(GS_FROM_CUDNN, cudnnSetStream(handle, stream)). */
#define GS_TRY_OF(source, call) (gs_alive() ? gs_check((source), (int)(call), #call, GS_HERE) : GS_DEAD)
GS_API int gs_alive(void); /* 0: the calling thread's innermost scope is dead */
GS_API gs_status gs_check(gs_source source, int code, const char *call, const char *file, int line);

typedef struct gs_dims {
    unsigned x, y, z;
} gs_dims;
static inline gs_dims gs_dim(unsigned x, unsigned y, unsigned z)
{
    gs_dims dims;
    dims.x = x;
    dims.y = y;
    dims.z = z;
    return dims;
}

/* Launch a kernel; what follows the stream are pointers to its arguments, at least one (NULL where it has none). */
#ifdef __cplusplus
#define GS_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                                                      \
    gs_launch_pointers(#kernel, GS_HERE, (kernel), (grid), (block), (shared_bytes), (stream), __VA_ARGS__)
#else
#define GS_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                                                      \
    gs_launch((kernel), (grid), (block), (shared_bytes), (stream), (void *[]){__VA_ARGS__}, #kernel, GS_HERE)
#endif
GS_API gs_status gs_launch(CUfunction kernel, gs_dims grid, gs_dims block, unsigned shared_bytes, CUstream stream,
                           void **arguments, const char *call, const char *file, int line);

/* A function of the driver, or of a library, by its exported name ("cuMemcpyDtoHAsync_v2",
 * "cudnnSetTensor4dDescriptor"); NULL: not loaded, or it has none. The driver is loaded by gs_open(), a library by the
 * first handle made of it. */
GS_API void *gs_symbol(gs_source source, const char *name);

/* ---- scopes ------------------------------------------------------------------------------------------------------ */

enum {
    GS_WAIT_FOR_LAUNCHES = 1 /* every launch is waited for: its faults are its own. For a search: it costs much */
};

/* Zero is the default of everything. */
typedef struct gs_options {
    const char *name;      /* NULL: none. A name is also marked as a phase for gpuwhy */
    int device;            /* of gs_open() alone */
    unsigned flags;        /* inherited by inner scopes */
    uint64_t memory_bytes; /* device memory that scope and inner scopes may hold together; 0: no limit */
    void (*log)(void *user, const char *line); /* fall-backs and what was held at the end; inherited; any thread */
    void *log_user;
    uint64_t reserved[4]; /* 0 */
} gs_options;

/* An outermost scope: the device's primary context is retained. `ret_failure` (may be NULL) is written unless GS_OK. */
#define gs_open(options, ret_scope, ret_failure) gs_open_at((options), (ret_scope), (ret_failure), GS_HERE)
GS_API gs_status gs_open_at(const gs_options *options, gs_scope **ret_scope, gs_failure *ret_failure, const char *file,
                            int line);

/* A scope inside `parent`, on the same context. `options` may be NULL. It may be begun by any thread inside the
 * parent's device. */
#define gs_begin(parent, options, ret_scope) gs_begin_at((parent), (options), (ret_scope), GS_HERE)
GS_API gs_status gs_begin_at(gs_scope *parent, const gs_options *options, gs_scope **ret_scope, const char *file,
                             int line);

/* Other threads come and go; the last entered is left first. A thread that ends leaves everything. */
#define gs_enter(scope) gs_enter_at((scope), GS_HERE)
#define gs_leave(scope) gs_leave_at((scope), GS_HERE)
GS_API gs_status gs_enter_at(gs_scope *scope, const char *file, int line);
GS_API gs_status gs_leave_at(gs_scope *scope, const char *file, int line);

/* In the order of release. */
typedef enum gs_kind {
    GS_KIND_NCCL,
    GS_KIND_CUDNN,
    GS_KIND_CUBLASLT,
    GS_KIND_CUBLAS,
    GS_KIND_EVENT,
    GS_KIND_ORDERED, /* stream-ordered memory */
    GS_KIND_POOL,    /* the scope's own: never listed as held */
    GS_KIND_DEVICE,  /* device memory */
    GS_KIND_MAPPED,
    GS_KIND_PINNED,
    GS_KIND_MODULE,
    GS_KIND_STREAM,
    GS_KIND_COUNT
} gs_kind;
GS_API const char *gs_kind_text(int kind); /* "device memory"; static */

/* What was still held when the scope ended, by place. */
typedef struct gs_held {
    gs_kind kind;
    size_t count;
    uint64_t bytes; /* as asked for */
    const char *file;
    int line;
    char scope[32];    /* the name of the scope that held it */
    size_t kept_count; /* of them: could not be released */
} gs_held;

typedef enum gs_context_end {
    GS_CONTEXT_STAYS,    /* an inner scope, or others hold it, too */
    GS_CONTEXT_RELEASED, /* and nobody else holds it */
    GS_CONTEXT_UNSURE    /* the release failed */
} gs_context_end;

typedef struct gs_report {
    char name[32];
    int is_dead;
    int has_failure;
    gs_failure failure; /* the first one */
    size_t held_count;  /* things */
    size_t
        kept_count; /* of them: not released; an inner scope leaves them to its parent, the outermost to the context */
    size_t entry_count;
    gs_held *entries;    /* owned; by kind, file, line */
    uint64_t peak_bytes; /* device memory, as asked for, of the scope and its inner ones */
    uint64_t pinned_peak_bytes;
    int has_memory; /* the driver could be asked, at the beginning and at the end */
    uint64_t free_begin_bytes, free_end_bytes;
    int64_t missing_bytes; /* free memory that is gone, less what scopes that still live took meanwhile */
    uint64_t
        allowed_bytes; /* of it: what a context keeps for itself (streams, shared pages); more than that is amiss */
    gs_context_end context;
} gs_report;

/* End a scope, and the inner ones that are still open: wait for the context's work, release everything, leave it. The
 * calling thread may have entered it or not. `ret_report` may be NULL, else the caller frees the report.
 *
 * GS_OK; GS_FAILED: something could not be released; GS_DEAD: nothing was waited for nor released but the context. The
 * scope is gone in all three. GS_BUSY, GS_MISUSE, GS_NO_HOST_MEMORY: nothing was done. */
#define gs_end(scope, ret_report) gs_end_at((scope), (ret_report), GS_HERE)
GS_API gs_status gs_end_at(gs_scope *scope, gs_report **ret_report, const char *file, int line);
GS_API void gs_report_print(const gs_report *report, FILE *out);
GS_API void gs_report_free(gs_report *report);

typedef struct gs_memory {
    uint64_t live_bytes, peak_bytes; /* device memory as asked for, of scope and inner ones */
    uint64_t taken_bytes;            /* in the driver's pages: what memory_bytes limits */
    uint64_t pinned_live_bytes, pinned_peak_bytes;
    uint64_t limit_bytes;             /* 0: none */
    uint64_t free_bytes, total_bytes; /* the driver's, of the whole card */
} gs_memory;
#define gs_memory_of(scope, ret_memory) gs_memory_of_at((scope), (ret_memory), GS_HERE)
GS_API gs_status gs_memory_of_at(gs_scope *scope, gs_memory *ret_memory, const char *file, int line);

/* For gpuwhy (gpuwhy.h): from now on the process is in this phase. A scope with a name does it by itself, and its end
 * goes back to the parent's name. */
GS_API void gs_phase(const char *name);

/* ---- what a scope owns -------------------------------------------------------------------------------------------- *
 * Each is given back by its own call or by the end of its scope, whichever comes first. The scope named when giving
 * back is the owner or a scope inside it. GS_MISUSE: it owns no such thing. */

#define gs_alloc(scope, bytes, ret)                 gs_alloc_at((scope), (bytes), (ret), GS_HERE)
#define gs_free(scope, address)                     gs_free_at((scope), (address), GS_HERE)
#define gs_alloc_ordered(scope, bytes, stream, ret) gs_alloc_ordered_at((scope), (bytes), (stream), (ret), GS_HERE)
#define gs_free_ordered(scope, address, stream)     gs_free_ordered_at((scope), (address), (stream), GS_HERE)
#define gs_alloc_pinned(scope, bytes, ret)          gs_alloc_pinned_at((scope), (bytes), (ret), GS_HERE)
#define gs_alloc_mapped(scope, bytes, ret, ret_address)                                                                \
    gs_alloc_mapped_at((scope), (bytes), (ret), (ret_address), GS_HERE)
#define gs_free_host(scope, memory)         gs_free_host_at((scope), (memory), GS_HERE)
#define gs_stream(scope, ret)               gs_stream_at((scope), (ret), GS_HERE)
#define gs_stream_close(scope, stream)      gs_stream_close_at((scope), (stream), GS_HERE)
#define gs_event(scope, timing, ret)        gs_event_at((scope), (timing), (ret), GS_HERE)
#define gs_event_close(scope, event)        gs_event_close_at((scope), (event), GS_HERE)
#define gs_module(scope, image, ret)        gs_module_at((scope), (image), (ret), GS_HERE)
#define gs_module_close(scope, module)      gs_module_close_at((scope), (module), GS_HERE)
#define gs_kernel(scope, module, name, ret) gs_kernel_at((scope), (module), (name), (ret), GS_HERE)

/* Device memory. GS_NO_MEMORY is an answer, not an end: ask for less, or free something. */
GS_API gs_status gs_alloc_at(gs_scope *scope, size_t bytes, CUdeviceptr *ret, const char *file, int line);
GS_API gs_status gs_free_at(gs_scope *scope, CUdeviceptr address, const char *file,
                            int line); /* waits for the device */
/* Stream-ordered memory from a pool of the scope's own, which keeps what it has until the scope ends. On cards and
 * drivers without pools it is plain device memory, and the log says so. */
GS_API gs_status gs_alloc_ordered_at(gs_scope *scope, size_t bytes, CUstream stream, CUdeviceptr *ret, const char *file,
                                     int line);
GS_API gs_status gs_free_ordered_at(gs_scope *scope, CUdeviceptr address, CUstream stream, const char *file, int line);
/* Page-locked host memory; mapped: the card sees it at *ret_address. */
GS_API gs_status gs_alloc_pinned_at(gs_scope *scope, size_t bytes, void **ret, const char *file, int line);
GS_API gs_status gs_alloc_mapped_at(gs_scope *scope, size_t bytes, void **ret, CUdeviceptr *ret_address,
                                    const char *file, int line);
GS_API gs_status gs_free_host_at(gs_scope *scope, void *memory, const char *file, int line);
/* Streams do not wait for the default stream. */
GS_API gs_status gs_stream_at(gs_scope *scope, CUstream *ret, const char *file, int line);
GS_API gs_status gs_stream_close_at(gs_scope *scope, CUstream stream, const char *file, int line);
GS_API gs_status gs_event_at(gs_scope *scope, int timing, CUevent *ret, const char *file, int line);
GS_API gs_status gs_event_close_at(gs_scope *scope, CUevent event, const char *file, int line);
/* PTX text (terminated), cubin or fatbin. The failure's text has what the driver's compiler said. */
GS_API gs_status gs_module_at(gs_scope *scope, const void *image, CUmodule *ret, const char *file, int line);
GS_API gs_status gs_module_close_at(gs_scope *scope, CUmodule module, const char *file, int line);
/* A kernel lives as long as its module. */
GS_API gs_status gs_kernel_at(gs_scope *scope, CUmodule module, const char *name, CUfunction *ret, const char *file,
                              int line);

/* Handles of CUDA's libraries, loaded at the first one: cudnnHandle_t, cublasHandle_t, cublasLtHandle_t, ncclComm_t.
 * `stream` (not for cuBLASLt, NCCL) is where the handle works. The environment variables GPUSCOPE_CUDNN,
 * GPUSCOPE_CUBLAS, GPUSCOPE_CUBLASLT and GPUSCOPE_NCCL name a file to load instead of the newest by name. */
typedef struct gs_nccl_id {
    char bytes[128];
} gs_nccl_id;
#define gs_cudnn(scope, stream, ret)         gs_cudnn_at((scope), (stream), (ret), GS_HERE)
#define gs_cublas(scope, stream, ret)        gs_cublas_at((scope), (stream), (ret), GS_HERE)
#define gs_cublaslt(scope, ret)              gs_cublaslt_at((scope), (ret), GS_HERE)
#define gs_nccl_new_id(scope, ret)           gs_nccl_new_id_at((scope), (ret), GS_HERE)
#define gs_nccl(scope, ranks, id, rank, ret) gs_nccl_at((scope), (ranks), (id), (rank), (ret), GS_HERE)
#define gs_handle_close(scope, kind, handle) gs_handle_close_at((scope), (kind), (handle), GS_HERE)
GS_API gs_status gs_cudnn_at(gs_scope *scope, CUstream stream, void **ret, const char *file, int line);
GS_API gs_status gs_cublas_at(gs_scope *scope, CUstream stream, void **ret, const char *file, int line);
GS_API gs_status gs_cublaslt_at(gs_scope *scope, void **ret, const char *file, int line);
GS_API gs_status gs_nccl_new_id_at(gs_scope *scope, gs_nccl_id *ret, const char *file, int line);
GS_API gs_status gs_nccl_at(gs_scope *scope, int ranks, const gs_nccl_id *id, int rank, void **ret, const char *file,
                            int line);
GS_API gs_status gs_handle_close_at(gs_scope *scope, gs_kind kind, void *handle, const char *file, int line);

/* ---- work, in the thread's innermost scope ------------------------------------------------------------------------
 */

#define gs_copy_in(to, from, bytes, stream)  gs_copy_in_at((to), (from), (bytes), (stream), GS_HERE)
#define gs_copy_out(to, from, bytes, stream) gs_copy_out_at((to), (from), (bytes), (stream), GS_HERE)
#define gs_copy(to, from, bytes, stream)     gs_copy_at((to), (from), (bytes), (stream), GS_HERE)
#define gs_fill(to, byte, bytes, stream)     gs_fill_at((to), (byte), (bytes), (stream), GS_HERE)
#define gs_record(event, stream)             gs_record_at((event), (stream), GS_HERE)
#define gs_follow(stream, event)             gs_follow_at((stream), (event), GS_HERE)
#define gs_wait(stream)                      gs_wait_at((stream), GS_HERE)
#define gs_wait_event(event)                 gs_wait_event_at((event), GS_HERE)
#define gs_wait_all()                        gs_wait_all_at(GS_HERE)
#define gs_elapsed(begin, end, ret_ms)       gs_elapsed_at((begin), (end), (ret_ms), GS_HERE)

/* Copies and fills are in order on the stream; they are done for the host after gs_wait(). */
GS_API gs_status gs_copy_in_at(CUdeviceptr to, const void *from, size_t bytes, CUstream stream, const char *file,
                               int line);
GS_API gs_status gs_copy_out_at(void *to, CUdeviceptr from, size_t bytes, CUstream stream, const char *file, int line);
GS_API gs_status gs_copy_at(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream, const char *file,
                            int line);
GS_API gs_status gs_fill_at(CUdeviceptr to, unsigned char byte, size_t bytes, CUstream stream, const char *file,
                            int line);
GS_API gs_status gs_record_at(CUevent event, CUstream stream, const char *file, int line);
GS_API gs_status gs_follow_at(CUstream stream, CUevent event, const char *file,
                              int line); /* the stream waits, not the host */
GS_API gs_status gs_wait_at(CUstream stream, const char *file, int line);
GS_API gs_status gs_wait_event_at(CUevent event, const char *file, int line);
GS_API gs_status gs_wait_all_at(const char *file, int line);
GS_API gs_status gs_elapsed_at(CUevent begin, CUevent end, float *ret_ms, const char *file, int line);

/* ---- memory planned ahead ------------------------------------------------------------------------------------------
 * * An iteration is told once, dry: what it allocates and frees, in order. Each block then has a place for good in one
 * block of device memory: nothing can fragment, and the peak is known before the first step. A plan is plain data of
 * the host: no driver, no scope, one thread at a time. Blocks that share a place do so in the order of the plan: an
 * iteration that works on several streams orders them where they hand memory over. */
typedef struct gs_plan gs_plan;
typedef struct gs_plan_size {
    size_t block_count;
    uint64_t live_peak_bytes; /* what the blocks that live at once come to, each rounded to the alignment: no layout is
                                 smaller */
    uint64_t arena_bytes;     /* what this layout takes */
} gs_plan_size;
GS_API gs_status gs_plan_new(size_t alignment_bytes, gs_plan **ret_plan);       /* 0: 512; a power of two */
GS_API void gs_plan_delete(gs_plan *plan);                                      /* takes NULL */
GS_API gs_status gs_plan_alloc(gs_plan *plan, size_t bytes, size_t *ret_block); /* blocks count from 0 */
GS_API gs_status gs_plan_free(gs_plan *plan, size_t block);
/* The iteration is told: find the places. Blocks not freed live to its end. After it the plan does not change. */
GS_API gs_status gs_plan_close(gs_plan *plan, gs_plan_size *ret_size);
GS_API gs_status gs_plan_offset(const gs_plan *plan, size_t block, uint64_t *ret_offset);

typedef struct gs_arena gs_arena;
/* One block of device memory for a closed plan, which must live as long as the arena. The scope owns the arena. */
#define gs_arena_open(scope, plan, ret_arena) gs_arena_open_at((scope), (plan), (ret_arena), GS_HERE)
GS_API gs_status gs_arena_open_at(gs_scope *scope, const gs_plan *plan, gs_arena **ret_arena, const char *file,
                                  int line);
/* Where a block of the plan lies. 0: no such block. */
GS_API CUdeviceptr gs_arena_at(const gs_arena *arena, size_t block);
/* The same, step by step: an iteration repeats the calls of the plan. GS_DIFFERS: it does not; the failure's text names
 * the step, and the arena has not moved on. gs_arena_restart() begins an iteration; GS_DIFFERS: the last one was not
 * over. */
#define gs_arena_restart(arena)           gs_arena_restart_at((arena), GS_HERE)
#define gs_arena_alloc(arena, bytes, ret) gs_arena_alloc_at((arena), (bytes), (ret), GS_HERE)
#define gs_arena_free(arena, address)     gs_arena_free_at((arena), (address), GS_HERE)
GS_API gs_status gs_arena_restart_at(gs_arena *arena, const char *file, int line);
GS_API gs_status gs_arena_alloc_at(gs_arena *arena, size_t bytes, CUdeviceptr *ret, const char *file, int line);
GS_API gs_status gs_arena_free_at(gs_arena *arena, CUdeviceptr address, const char *file, int line);

/* ---- workspace of library algorithms --------------------------------------------------------------------------------
 * * One block that grows as needed up to a budget. An algorithm is chosen by what it may have: the first of the wanted
 * sizes that fits the budget and that the card has room for. What was refused goes to the log. One stream at a time. */
typedef struct gs_workspace gs_workspace;
#define gs_workspace_open(scope, budget_bytes, ret) gs_workspace_open_at((scope), (budget_bytes), (ret), GS_HERE)
#define gs_workspace_choose(workspace, sizes, count, ret_choice, ret)                                                  \
    gs_workspace_choose_at((workspace), (sizes), (count), (ret_choice), (ret), GS_HERE)
GS_API gs_status gs_workspace_open_at(gs_scope *scope, uint64_t budget_bytes, gs_workspace **ret, const char *file,
                                      int line);
/* `sizes`: best algorithm first. *ret_choice: which one; *ret: the memory, until the next call (0 where it is 0 bytes).
 * GS_NO_MEMORY: none fits. */
GS_API gs_status gs_workspace_choose_at(gs_workspace *workspace, const size_t *sizes, size_t count, size_t *ret_choice,
                                        CUdeviceptr *ret, const char *file, int line);

/* ---- the batch that fits
 * ---------------------------------------------------------------------------------------------- */

/* How many bytes a micro-batch of `n` needs, by plan: GS_OK and *ret_bytes; GS_NO_MEMORY: more than can be said;
 * GS_UNSUPPORTED: n is not possible. Any other status ends the search. */
typedef gs_status gs_bytes_for(void *user, size_t n, uint64_t *ret_bytes);
typedef struct gs_fit {
    uint64_t budget_bytes;
    size_t n_min, n_max; /* 0: 1; n_max must be given */
    size_t divides;      /* only divisors of it, so that gradient accumulation has equal parts; 0: any */
} gs_fit;
/* The largest n that fits. More images may need less memory (algorithms change), so every n is asked, from the top.
 * GS_NO_MEMORY: none does, and *ret_bytes is what the smallest possible n needs (UINT64_MAX: not known). */
GS_API gs_status gs_fit_batch(const gs_fit *fit, gs_bytes_for *bytes_for, void *user, size_t *ret_n,
                              uint64_t *ret_bytes);

/* ---- a clean slate
 * ------------------------------------------------------------------------------------------------------ *
 * gs_run_in_child() starts the program again and runs one function in it. The program must be able to: its main() calls
 * gs_child_main() before anything else, with the functions that may be run so. In the child it does not return. */
typedef struct gs_reply gs_reply;
typedef gs_status gs_child_function(const void *input, size_t input_bytes, gs_reply *reply);
typedef struct gs_child_entry {
    const char *name;
    gs_child_function *function;
} gs_child_entry; /* a list ends with {NULL, NULL}, and must stay valid */
GS_API void gs_child_main(int argc, char **argv, const gs_child_entry *entries);
/* In the child: bytes for the parent, one behind the other. What was written is handed back even if the child dies. */
GS_API gs_status gs_reply_write(gs_reply *reply, const void *data, size_t bytes);

typedef struct gs_child_result {
    gs_status status; /* what the function returned; GS_CHILD_DIED, GS_TIMEOUT */
    int exit_status;  /* of the process; -1: a signal ended it */
    int signal;       /* 0: none */
    int has_failure;
    gs_failure failure; /* the first one in the child */
    void *output;       /* owned: free() */
    size_t output_bytes;
} gs_child_result;
/* timeout_ms: 0: none. After it the child is killed. The result is written whenever a child was started (GS_OK, though
 * its status may be anything); GS_MISUSE: the function is no entry, or gs_child_main() was not called;
 * GS_FAILED: no process could be started (errno says why); GS_NO_HOST_MEMORY. */
GS_API gs_status gs_run_in_child(gs_child_function *function, const void *input, size_t input_bytes,
                                 unsigned timeout_ms, gs_child_result *ret_result);

#ifdef __cplusplus
}

template <typename... pointers>
static inline gs_status gs_launch_pointers(const char *call, const char *file, int line, CUfunction kernel,
                                           gs_dims grid, gs_dims block, unsigned shared_bytes, CUstream stream,
                                           pointers... arguments)
{
    void *list[] = {const_cast<void *>(static_cast<const volatile void *>(arguments))..., nullptr};
    return gs_launch(kernel, grid, block, shared_bytes, stream, list, call, file, line);
}
#endif

#endif
