/* libgpuscope: a scope owns all GPU resources of a run and releases them at its end.
 *
 *     gs_options options = {.name = "training", .memory_bytes = 8ull << 30};
 *     gs_scope *scope;
 *     if (gs_open(&options, &scope, NULL) != GS_OK) ...    this thread enters the scope
 *     CUdeviceptr weights;
 *     gs_alloc(scope, bytes, &weights);
 *     GS_LAUNCH(kernel, gs_dim(64, 1, 1), gs_dim(256, 1, 1), 0, stream, &weights);
 *     gs_report *report = NULL;
 *     gs_end(scope, &report);                              waits, releases, compares
 *     gs_report_print(report, stderr);
 *     gs_report_free(report);
 *
 * C11 or later, or C++11. The driver and CUDA's libraries are loaded at run time. So a program builds without a
 * toolkit, and starts without a driver (gs_open() then returns GS_NO_DRIVER). Include this file before or after
 * <cuda.h>. The library never resets a device.
 *
 * Rules for every call:
 * - Calls return a status and write their outputs only on GS_OK, unless their comment says otherwise. A scope stores
 *   its first failure (gs_first_failure()).
 * - A thread must enter a scope before it works in it. gs_open() and gs_begin() enter the new scope; other threads call
 *   gs_enter(). GS_MISUSE: the thread has entered no scope, or its innermost scope is on another device.
 * - Inside a scope, the scope's context is the thread's current context. Code that makes another one current must
 *   restore it.
 * - Any number of threads may use one scope at once. But gs_end() returns GS_BUSY if another thread is still in it.
 * - A sticky error (an illegal address, an assertion, a lost card) makes the context unusable, and with it the process.
 *   All scopes of the device are then dead: every later call returns GS_DEAD without calling the driver.
 *   gs_run_in_child() can continue the work in a new process.
 * - Text arguments: `file` must stay valid while the scope exists, as __FILE__ does. `name` is copied.
 *
 * libgpuscope/docs/scope.md has the whole contract, examples and limits. */
#ifndef GPUWHY_SCOPE_H
#define GPUWHY_SCOPE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The same declarations as in <cuda.h>, for programs that do not include it. */
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
#define GS_HERE           __FILE__, __LINE__
#define GS_NUMBER(handle) ((uint64_t)(uintptr_t)(handle))

typedef struct gs_scope gs_scope;

/* ---- status ------------------------------------------------------------------------------------------------------ */

/* The status of a call: GS_OK, or the reason why it failed. GS_STATUSES(X) lists all as X(name, text). Their numbers
 * never change: new ones come at the end. gs_status_text() returns the text of a status. */
#define GS_STATUSES(X)                                                                                                 \
    X(OK, "success")                                                                                                   \
    X(NO_MEMORY, "the card is full, or the scope's limit is reached; nothing else is wrong")                           \
    X(FAILED, "a call failed; the scope stays usable")                                                                 \
    X(DEAD, "a sticky error destroyed the context; restart the process")                                               \
    X(NO_DRIVER, "the driver library is missing or lacks a function")                                                  \
    X(NO_DEVICE, "no such card")                                                                                       \
    X(NO_LIBRARY, "a CUDA library is missing or lacks a function")                                                     \
    X(MISUSE, "invalid request; the failure's text gives the reason")                                                  \
    X(BUSY, "other threads are still inside the scope")                                                                \
    X(UNSUPPORTED, "not supported by this driver or card")                                                             \
    X(NO_HOST_MEMORY, "the host has no free memory")                                                                   \
    X(DIFFERS, "an iteration differs from the plan")                                                                   \
    X(CHILD_DIED, "the child process ended without a result")                                                          \
    X(TIMEOUT, "timed out")                                                                                            \
    X(NOT_READY, "the work is not finished yet")
typedef enum gs_status {
#define GS_X(name, text) GS_##name,
    GS_STATUSES(GS_X)
#undef GS_X
        GS_STATUS_COUNT
} gs_status;
GS_API const char *gs_status_text(int status); /* static, never NULL */

/* Evaluate a call that returns a gs_status, and return the status from the calling function unless it is GS_OK:
 *
 *     GS_RETURN_IF_FAILED(gs_alloc(scope, bytes, &weights));
 *
 * The scope owns what was created before, so nothing needs to be released first. */
#define GS_RETURN_IF_FAILED(call)                                                                                      \
    do {                                                                                                               \
        gs_status gs_returned_ = (call);                                                                               \
        if (gs_returned_ != GS_OK)                                                                                     \
            return gs_returned_;                                                                                       \
    } while (0)

/* The source of a failure. It determines the meaning of the failure's `code`. */
typedef enum gs_source {
    GS_FROM_DRIVER,
    GS_FROM_CUDNN,
    GS_FROM_CUBLAS,
    GS_FROM_CUBLASLT,
    GS_FROM_NCCL,
    GS_FROM_SCOPE,  /* an error that this library detected: `code` is 0, `text` contains the reason */
    GS_FROM_CUDART, /* the CUDA runtime; see <gpuwhy/scope_cuda.h> */
    GS_SOURCE_COUNT
} gs_source;

/* A failure, as plain data: it may be copied, stored, and sent to another process. */
typedef struct gs_failure {
    gs_status status;
    gs_source source;
    int code;
    int is_sticky;
    /* line: line number of `call` in `file`. The launch_ members describe the failing thread's latest launch before
     * the failure; 0 and "" if there was none */
    int line, launch_line;
    char call[128]; /* the failed call: its source text for GS_TRY, otherwise a function name */
    char file[128]; /* source file of the call; if the path is too long, its end */
    char text[320]; /* name, number and text of the error */
    char launch_file[128];
    char launch_call[64]; /* source text of the latest launch's `kernel` argument */
} gs_failure;

/* Read the first failure of a scope, or else the failure that killed its device. If `scope` is NULL, read the first
 * failure of the process. Returns 1, or 0 if there is none. *ret_failure is then unchanged. */
GS_API int gs_first_failure(const gs_scope *scope, gs_failure *ret_failure);
/* Read the failure that killed the scope's device, which may be later than the scope's first one. Returns 0 if the
 * device is not dead, else 1. */
GS_API int gs_death(const gs_scope *scope, gs_failure *ret_failure);
/* Forget the scope's first failure, usually because it was handled. The next failure becomes the first one. A dead
 * scope stays dead. */
GS_API void gs_forgive(gs_scope *scope);
/* Write "file:line: call: text" to `out`. For a sticky error, a second line shows the latest launch. Returns `out`. */
GS_API char *gs_failure_text(const gs_failure *failure, char *out, size_t out_bytes);

/* ---- checked calls ----------------------------------------------------------------------------------------------- */

/* Make a driver call and evaluate to its status: GS_TRY(cuMemsetD32Async(p, 0, n, stream)). Works for CUresult and
 * cudaError_t.
 * - In a dead scope, the call is not made.
 * - A failure is stored in the thread's innermost scope. Outside of any scope, only the first failure of the process is
 *   stored.
 * - The result "not ready" of a query becomes GS_NOT_READY and is not a failure. */
#define GS_TRY(call) (gs_alive() ? gs_check(GS_FROM_DRIVER, (int)(call), #call, GS_HERE) : GS_DEAD)
/* Make a library call and evaluate to its status: GS_TRY_OF(GS_FROM_CUDNN, cudnnSetStream(handle, stream)). */
#define GS_TRY_OF(source, call) (gs_alive() ? gs_check((source), (int)(call), #call, GS_HERE) : GS_DEAD)
GS_API int gs_alive(void); /* returns 0 if the calling thread's innermost scope is dead, else 1 */
GS_API gs_status gs_check(gs_source source, int code, const char *call, const char *file, int line);

/* The size of a grid or a block. */
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

/* Launch a kernel. The arguments after `stream` are pointers to the kernel's arguments. Pass NULL if the kernel has no
 * arguments. */
#ifdef __cplusplus
#define GS_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                                                      \
    gs_launch_pointers(#kernel, GS_HERE, (kernel), (grid), (block), (shared_bytes), (stream), __VA_ARGS__)
#else
#define GS_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                                                      \
    gs_launch((kernel), (grid), (block), (shared_bytes), (stream), (void *[]){__VA_ARGS__}, #kernel, GS_HERE)
#endif
GS_API gs_status gs_launch(CUfunction kernel, gs_dims grid, gs_dims block, unsigned shared_bytes, CUstream stream,
                           void **arguments, const char *call, const char *file, int line);

/* Return a function of the driver or of a library by its exported name, such as "cuMemcpyDtoHAsync_v2"; NULL: none.
 * gs_open() loads the driver, and the first handle of a library loads the library. */
GS_API void *gs_symbol(gs_source source, const char *name);

/* ---- scopes ------------------------------------------------------------------------------------------------------ */

enum {
    GS_WAIT_FOR_LAUNCHES = 1 /* wait after every launch, so that a fault is reported for the launch that caused it.
                              * Slow: use it only to find a fault */
};

/* Options of a scope. In each member, 0 or NULL selects the default. */
typedef struct gs_options {
    const char *name;      /* name of the scope, also set as gpuwhy's phase; NULL: none */
    int device;            /* index of the GPU, as for cuDeviceGet(); used only by gs_open() */
    unsigned flags;        /* 0 or GS_WAIT_FOR_LAUNCHES; inherited by inner scopes */
    uint64_t memory_bytes; /* limit of the device memory of the scope and its inner scopes; 0: no limit */
    /* receives lines about fallbacks and about resources held at the end; inherited by inner scopes; called from any
     * thread */
    void (*log)(void *user, const char *line);
    void *log_user;
    uint64_t reserved[4]; /* must be 0 */
} gs_options;

/* Open an outermost scope, which retains the device's primary context. If this fails, *ret_failure has the reason
 * (NULL allowed). */
#define gs_open(options, ret_scope, ret_failure) gs_open_at((options), (ret_scope), (ret_failure), GS_HERE)
GS_API gs_status gs_open_at(const gs_options *options, gs_scope **ret_scope, gs_failure *ret_failure, const char *file,
                            int line);

/* Begin a scope inside `parent` on the same context. `options` may be NULL. The calling thread must be inside a scope
 * of the parent's device. */
#define gs_begin(parent, options, ret_scope) gs_begin_at((parent), (options), (ret_scope), GS_HERE)
GS_API gs_status gs_begin_at(gs_scope *parent, const gs_options *options, gs_scope **ret_scope, const char *file,
                             int line);

/* Enter and leave a scope in a thread that did not open it. A thread must leave its innermost scope first. Its end
 * leaves all its scopes. */
#define gs_enter(scope) gs_enter_at((scope), GS_HERE)
#define gs_leave(scope) gs_leave_at((scope), GS_HERE)
GS_API gs_status gs_enter_at(gs_scope *scope, const char *file, int line);
GS_API gs_status gs_leave_at(gs_scope *scope, const char *file, int line);

/* Kinds of resources, in the order of release. Managed memory is released after device memory. */
typedef enum gs_kind {
    GS_KIND_NCCL,
    GS_KIND_CUDNN,
    GS_KIND_CUBLASLT,
    GS_KIND_CUBLAS,
    GS_KIND_EVENT,
    GS_KIND_ORDERED, /* stream-ordered memory */
    GS_KIND_POOL,    /* the scope's own memory pool; never reported as held */
    GS_KIND_DEVICE,  /* device memory */
    GS_KIND_MAPPED,
    GS_KIND_PINNED,
    GS_KIND_MODULE,
    GS_KIND_STREAM,
    GS_KIND_MANAGED, /* managed memory of the CUDA runtime */
    GS_KIND_COUNT
} gs_kind;
GS_API const char *gs_kind_text(int kind); /* for example "device memory"; static */

/* Resources of one kind that were created at the same place in the source and still held at the end of the scope. */
typedef struct gs_held {
    gs_kind kind;
    size_t count;
    uint64_t bytes; /* sum of the requested sizes; 0 for resources that are not memory */
    const char *file;
    int line;
    char scope[32];    /* name of the scope that held the resources */
    size_t kept_count; /* number of resources that could not be released */
} gs_held;

/* The context after the end of a scope. */
typedef enum gs_context_end {
    GS_CONTEXT_STAYS,    /* the scope was an inner scope, or the context is still retained elsewhere */
    GS_CONTEXT_RELEASED, /* the context was released and is no longer active */
    GS_CONTEXT_UNSURE    /* the release of the context failed, so it may still be active */
} gs_context_end;

/* What gs_end() returns about the scope that it has ended. */
typedef struct gs_report {
    char name[32];
    int is_dead;
    int has_failure;
    gs_failure failure; /* the first failure of the scope */
    size_t held_count;  /* number of resources still held at the end */
    /* number of resources that could not be released. They stay in the context, but an inner scope passes memory to
     * its parent */
    size_t kept_count;
    size_t entry_count;
    gs_held *entries;    /* owned; sorted by kind, file, line */
    uint64_t peak_bytes; /* maximum of the device memory held at one time by the scope and its inner scopes */
    uint64_t pinned_peak_bytes;
    int has_memory; /* 1 if the driver reported its free memory both at the start and at the end */
    uint64_t free_begin_bytes, free_end_bytes;
    int64_t missing_bytes; /* decrease of the card's free memory, minus what other open scopes allocated meanwhile */
    /* memory that a context normally keeps (for streams and shared pages); a larger missing_bytes indicates a leak */
    uint64_t allowed_bytes;
    gs_context_end context;
} gs_report;

/* End a scope and the inner scopes that are still open: wait for the context's work and release everything. The calling
 * thread need not have entered the scope. The caller frees the report. `ret_report` may be NULL.
 *
 * After these, the scope is freed and *ret_report is set:
 * - GS_OK
 * - GS_FAILED: a resource or the context could not be released
 * - GS_DEAD: the context was released without waiting
 * After GS_BUSY, GS_MISUSE and GS_NO_HOST_MEMORY, the scope is unchanged and still open. */
#define gs_end(scope, ret_report) gs_end_at((scope), (ret_report), GS_HERE)
GS_API gs_status gs_end_at(gs_scope *scope, gs_report **ret_report, const char *file, int line);
/* Print a report, or free it. `report` may be NULL: nothing is printed or freed then. */
GS_API void gs_report_print(const gs_report *report, FILE *out);
GS_API void gs_report_free(gs_report *report);

/* Read how much memory a scope and the card use now. */
typedef struct gs_memory {
    /* sum of the requested sizes of device memory, in the scope and its inner scopes */
    uint64_t live_bytes, peak_bytes;
    /* like live_bytes, with each block rounded up as the driver does; limited by limit_bytes */
    uint64_t taken_bytes;
    uint64_t pinned_live_bytes, pinned_peak_bytes;
    uint64_t limit_bytes;             /* gs_options.memory_bytes; 0: no limit */
    uint64_t free_bytes, total_bytes; /* memory of the whole card, reported by the driver */
} gs_memory;
#define gs_memory_of(scope, ret_memory) gs_memory_of_at((scope), (ret_memory), GS_HERE)
GS_API gs_status gs_memory_of_at(gs_scope *scope, gs_memory *ret_memory, const char *file, int line);

/* Set the phase of the process for gpuwhy (gpuwhy.h). A scope with a name sets the phase when it begins. When it
 * ends, the phase is the name of the nearest enclosing scope that has one. */
GS_API void gs_phase(const char *name);

/* ---- resources of a scope ----------------------------------------------------------------------------------------
 * Each resource is released by its own call or at the end of its scope, whichever comes first. Pass the owner of the
 * resource, or a scope inside the owner, to the releasing call. The call returns GS_MISUSE if neither that scope nor
 * an enclosing scope owns the resource. */

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

/* Allocate device memory. After GS_NO_MEMORY the scope remains usable: request less memory, or free some first. */
GS_API gs_status gs_alloc_at(gs_scope *scope, size_t bytes, CUdeviceptr *ret, const char *file, int line);
/* Free device memory. The call first waits for the device. */
GS_API gs_status gs_free_at(gs_scope *scope, CUdeviceptr address, const char *file, int line);
/* Allocate stream-ordered memory from the scope's own pool, which lives as long as the scope. Without pools,
 * allocates plain device memory and logs this. */
GS_API gs_status gs_alloc_ordered_at(gs_scope *scope, size_t bytes, CUstream stream, CUdeviceptr *ret, const char *file,
                                     int line);
GS_API gs_status gs_free_ordered_at(gs_scope *scope, CUdeviceptr address, CUstream stream, const char *file, int line);
/* Allocate page-locked host memory. The card can access mapped memory, too: *ret_address is its address on the card. */
GS_API gs_status gs_alloc_pinned_at(gs_scope *scope, size_t bytes, void **ret, const char *file, int line);
GS_API gs_status gs_alloc_mapped_at(gs_scope *scope, size_t bytes, void **ret, CUdeviceptr *ret_address,
                                    const char *file, int line);
/* Free host memory. NULL is accepted. */
GS_API gs_status gs_free_host_at(gs_scope *scope, void *memory, const char *file, int line);
/* Create a stream that does not wait for the default stream. */
GS_API gs_status gs_stream_at(gs_scope *scope, CUstream *ret, const char *file, int line);
GS_API gs_status gs_stream_close_at(gs_scope *scope, CUstream stream, const char *file, int line);
GS_API gs_status gs_event_at(gs_scope *scope, int timing, CUevent *ret, const char *file, int line);
GS_API gs_status gs_event_close_at(gs_scope *scope, CUevent event, const char *file, int line);
/* Load PTX text (NUL-terminated), a cubin or a fatbin. If this fails, the failure's text contains the messages of the
 * driver's compiler. */
GS_API gs_status gs_module_at(gs_scope *scope, const void *image, CUmodule *ret, const char *file, int line);
GS_API gs_status gs_module_close_at(gs_scope *scope, CUmodule module, const char *file, int line);
/* Find a kernel of a module. The kernel is valid until the module is unloaded. */
GS_API gs_status gs_kernel_at(gs_scope *scope, CUmodule module, const char *name, CUfunction *ret, const char *file,
                              int line);

/* Let the scope own a resource that other code has created, so that the end of the scope releases it.
 * - gs_adopt(): created with a call of the driver, of cuDNN, cuBLAS, cuBLASLt or NCCL. The scope uses the library that
 *   the program is linked to, or else loads it like gs_cudnn().
 * - gs_adopt_with(): the scope calls `release`, which returns 0 or an error number of `source`. `call` is its name in
 *   messages, a static string. Use it, for example, for a library that is linked statically.
 * - gs_cuda_adopt() in <gpuwhy/scope_cuda.h>: created with the CUDA runtime.
 *
 * `handle` is a pointer or an address on the card; it must not be 0. `bytes` is the size of memory, otherwise 0. On any
 * status but GS_OK, the resource still belongs to the caller. GS_MISUSE: a scope owns it already. GS_NO_MEMORY: its
 * memory does not fit in the scope's limit. GS_NO_LIBRARY: the library's release function was not found.
 *
 * The report's `missing_bytes` is right only if the memory was allocated after the scope began. */
typedef int gs_release(void *handle);
#define gs_adopt(scope, kind, handle, bytes) gs_adopt_at((scope), (kind), GS_NUMBER(handle), (bytes), GS_HERE)
#define gs_adopt_with(scope, kind, handle, bytes, source, release, call)                                               \
    gs_adopt_with_at((scope), (kind), GS_NUMBER(handle), (bytes), (source), (release), (call), GS_HERE)
GS_API gs_status gs_adopt_at(gs_scope *scope, gs_kind kind, uint64_t handle, size_t bytes, const char *file, int line);
GS_API gs_status gs_adopt_with_at(gs_scope *scope, gs_kind kind, uint64_t handle, size_t bytes, gs_source source,
                                  gs_release *release, const char *call, const char *file, int line);
/* Give up the ownership of a resource: the scope forgets it, and the caller must release it. Until then, its memory
 * counts as missing at the end of the scope. GS_MISUSE: neither the scope nor an enclosing one owns it. */
#define gs_disown(scope, kind, handle) gs_disown_at((scope), (kind), GS_NUMBER(handle), GS_HERE)
GS_API gs_status gs_disown_at(gs_scope *scope, gs_kind kind, uint64_t handle, const char *file, int line);

/* Create handles of CUDA's libraries. The first handle loads the library: the newest known file name, or the one in
 * GPUSCOPE_CUDNN, GPUSCOPE_CUBLAS, GPUSCOPE_CUBLASLT or GPUSCOPE_NCCL. Handles of cuDNN and cuBLAS work on
 * `stream`. */
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

/* ---- work in the thread's innermost scope ------------------------------------------------------------------------ */

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

/* Copies and fills run in stream order. Call gs_wait() before the host uses their result or changes their source. */
GS_API gs_status gs_copy_in_at(CUdeviceptr to, const void *from, size_t bytes, CUstream stream, const char *file,
                               int line);
GS_API gs_status gs_copy_out_at(void *to, CUdeviceptr from, size_t bytes, CUstream stream, const char *file, int line);
GS_API gs_status gs_copy_at(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream, const char *file,
                            int line);
GS_API gs_status gs_fill_at(CUdeviceptr to, unsigned char byte, size_t bytes, CUstream stream, const char *file,
                            int line);
/* Record an event on a stream: the event is complete when all work before it is. */
GS_API gs_status gs_record_at(CUevent event, CUstream stream, const char *file, int line);
/* Make the stream wait for the event. The host does not wait. */
GS_API gs_status gs_follow_at(CUstream stream, CUevent event, const char *file, int line);
/* Make the host wait: for the work of a stream, for an event, or for all work of the thread's current context. */
GS_API gs_status gs_wait_at(CUstream stream, const char *file, int line);
GS_API gs_status gs_wait_event_at(CUevent event, const char *file, int line);
GS_API gs_status gs_wait_all_at(const char *file, int line);
/* Read the time between two events that were created with timing, in milliseconds. Wait for both events before. */
GS_API gs_status gs_elapsed_at(CUevent begin, CUevent end, float *ret_ms, const char *file, int line);

/* ---- planned memory ----------------------------------------------------------------------------------------------
 * The program first describes one iteration without running it: all allocations and frees, in order. Each block of the
 * plan then gets a fixed place in one large allocation of device memory. So memory cannot become fragmented, and the
 * peak is known before the first step. A plan is plain host data, which needs no driver and no scope. Only one thread
 * at a time may use a plan. Blocks that share a place use the place one after the other, in the order of the plan. If
 * an iteration uses several streams, the program must make a stream wait before it reuses memory of another stream. */
typedef struct gs_plan gs_plan;
typedef struct gs_plan_size {
    size_t block_count;
    uint64_t live_peak_bytes; /* largest total size of blocks that are alive at the same time, each rounded up to the
                               * alignment; no layout can be smaller */
    uint64_t arena_bytes;     /* size of the memory that the computed layout needs */
} gs_plan_size;
GS_API gs_status gs_plan_new(size_t alignment_bytes, gs_plan **ret_plan);       /* a power of two; 0: 512 */
GS_API void gs_plan_delete(gs_plan *plan);                                      /* `plan` may be NULL */
GS_API gs_status gs_plan_alloc(gs_plan *plan, size_t bytes, size_t *ret_block); /* blocks are numbered from 0 */
GS_API gs_status gs_plan_free(gs_plan *plan, size_t block);
/* End the description and compute the offsets. A block that was not freed lives until the end of the iteration. The
 * plan is final then. */
GS_API gs_status gs_plan_close(gs_plan *plan, gs_plan_size *ret_size);
GS_API gs_status gs_plan_offset(const gs_plan *plan, size_t block, uint64_t *ret_offset);

/* Allocate the device memory for a closed plan. The plan must live as long as the arena. The scope frees the arena. */
typedef struct gs_arena gs_arena;
#define gs_arena_open(scope, plan, ret_arena) gs_arena_open_at((scope), (plan), (ret_arena), GS_HERE)
GS_API gs_status gs_arena_open_at(gs_scope *scope, const gs_plan *plan, gs_arena **ret_arena, const char *file,
                                  int line);
/* Return the device address of a block of the plan, or 0 if the plan has no such block. */
GS_API CUdeviceptr gs_arena_at(const gs_arena *arena, size_t block);
/* Repeat the allocations and frees of the plan, call by call. gs_arena_restart() begins an iteration. It returns
 * GS_DIFFERS if the previous one was not complete. The others return GS_DIFFERS for a call that is not the plan's
 * next step. The failure's text then names the step, and the arena is unchanged. */
#define gs_arena_restart(arena)           gs_arena_restart_at((arena), GS_HERE)
#define gs_arena_alloc(arena, bytes, ret) gs_arena_alloc_at((arena), (bytes), (ret), GS_HERE)
#define gs_arena_free(arena, address)     gs_arena_free_at((arena), (address), GS_HERE)
GS_API gs_status gs_arena_restart_at(gs_arena *arena, const char *file, int line);
GS_API gs_status gs_arena_alloc_at(gs_arena *arena, size_t bytes, CUdeviceptr *ret, const char *file, int line);
GS_API gs_status gs_arena_free_at(gs_arena *arena, CUdeviceptr address, const char *file, int line);

/* ---- workspace of library algorithms -----------------------------------------------------------------------------
 * A workspace is a block of memory that grows as needed, up to a budget. The program passes the sizes that its
 * algorithms need, and the first one that fits the budget and the card's free memory is chosen. Sizes that did not fit
 * are logged. Use a workspace on only one stream at a time. */
typedef struct gs_workspace gs_workspace;
#define gs_workspace_open(scope, budget_bytes, ret) gs_workspace_open_at((scope), (budget_bytes), (ret), GS_HERE)
#define gs_workspace_choose(workspace, sizes, count, ret_choice, ret)                                                  \
    gs_workspace_choose_at((workspace), (sizes), (count), (ret_choice), (ret), GS_HERE)
GS_API gs_status gs_workspace_open_at(gs_scope *scope, uint64_t budget_bytes, gs_workspace **ret, const char *file,
                                      int line);
/* Choose the first of `sizes` that fits (best algorithm first); *ret_choice is its index. *ret is the workspace's
 * address, valid until the next call, or 0 for 0 bytes. GS_NO_MEMORY: none fits. */
GS_API gs_status gs_workspace_choose_at(gs_workspace *workspace, const size_t *sizes, size_t count, size_t *ret_choice,
                                        CUdeviceptr *ret, const char *file, int line);

/* ---- largest batch that fits ------------------------------------------------------------------------------------- */

/* Compute the memory that a micro-batch of `n` needs, for example from a plan. Any other status ends the search:
 * - GS_OK: *ret_bytes is set
 * - GS_NO_MEMORY: the size is too large to compute
 * - GS_UNSUPPORTED: n is not possible */
typedef gs_status gs_bytes_for(void *user, size_t n, uint64_t *ret_bytes);
typedef struct gs_fit {
    uint64_t budget_bytes;
    size_t n_min, n_max; /* n_min: 0 means 1. n_max must be set */
    size_t divides; /* allow only divisors of this number, so that gradient accumulation has equal parts; 0: all n */
} gs_fit;
/* Find the largest n that fits into the budget. A larger n may need less memory, by another algorithm, so every n
 * is tried, largest first. On GS_NO_MEMORY, *ret_bytes is the need of the smallest possible n (UINT64_MAX:
 * unknown). */
GS_API gs_status gs_fit_batch(const gs_fit *fit, gs_bytes_for *bytes_for, void *user, size_t *ret_n,
                              uint64_t *ret_bytes);

/* ---- running in a new process ------------------------------------------------------------------------------------
 * gs_run_in_child() starts the program again in a new process and runs one function there. The program's main() must
 * first call gs_child_main() with the list of functions that may be run. In the child, gs_child_main() does not
 * return. */
typedef struct gs_reply gs_reply;
typedef gs_status gs_child_function(const void *input, size_t input_bytes, gs_reply *reply);
typedef struct gs_child_entry {
    const char *name;
    gs_child_function *function;
} gs_child_entry; /* the list ends with {NULL, NULL} and must stay valid */
GS_API void gs_child_main(int argc, char **argv, const gs_child_entry *entries);
/* Append bytes to the reply for the parent. Call this only in the child. The parent receives the bytes even if the
 * child dies. */
GS_API gs_status gs_reply_write(gs_reply *reply, const void *data, size_t bytes);

/* The result of gs_run_in_child(). */
typedef struct gs_child_result {
    gs_status status; /* the function's return value; or GS_CHILD_DIED or GS_TIMEOUT if the function did not return */
    int exit_status;  /* exit status of the process; -1 if a signal ended it */
    int signal;       /* the signal that ended the process; 0: none */
    int has_failure;
    gs_failure failure; /* the first failure in the child */
    void *output;       /* owned; release it with free() */
    size_t output_bytes;
} gs_child_result;
/* Run the function in a child process. The child is killed after `timeout_ms` (0: no limit). Returns:
 * - GS_OK: a child ran; ret_result->status may still be an error
 * - GS_MISUSE: the function is not in the list, or gs_child_main() was not called
 * - GS_FAILED: no process could be started (errno)
 * - GS_NO_HOST_MEMORY */
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
