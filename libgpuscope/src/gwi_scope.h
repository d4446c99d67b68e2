/* Internal header of libgpuscope: its objects, and the functions that its files share.
 *
 * One lock, gwi_lock, protects all lists and counts of the process. It is never held during a call of the driver, of a
 * library or of a user's callback. Call functions whose names end in "_locked" with the lock held. */
#ifndef GWI_SCOPE_H
#define GWI_SCOPE_H

#include <gpuwhy/scope.h>

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { GWI_DEVICES_MAX = 64, GWI_NAME_BYTES = 32, GWI_PAGE_BYTES = 2 << 20, GWI_SMALL_BYTES = 1 << 20 };

typedef struct gwi_device {
    int ordinal;
    int device;
    CUcontext context; /* the device's primary context; never changes once it is set */
    atomic_int is_dead;
    gs_failure death;      /* written once, before is_dead is set */
    uint64_t taken_bytes;  /* device memory of all scopes, rounded as in gwi_taken_bytes() */
    bool has_shared_pages; /* small blocks, which share pages, have been allocated in the context */
} gwi_device;

/* A resource that a scope owns: memory, a stream, an event and so on. It is in the scope's list and in the process's
 * table (things.c). */
typedef struct gwi_thing {
    gs_kind kind;
    uint64_t handle;
    uint64_t bytes;       /* requested size */
    uint64_t taken_bytes; /* device memory that the driver uses for the resource */
    const char *file;     /* the caller's source file; a static string */
    int line;
    /* How the resource is released; NULL: by the driver's or library's call for its kind. `release_call` is static. */
    gs_release *release;
    const char *release_call;
    gs_source release_source;
    bool is_inner; /* the program cannot free it by its address: a pool, or the block of an arena or workspace */
    gs_scope *scope;
    struct gwi_thing *next, *previous;
    struct gwi_thing *bucket_next;
} gwi_thing;

/* First member of a host object that a scope frees: an arena or a workspace. */
typedef struct gwi_helper {
    struct gwi_helper *next;
    gs_scope *scope;
} gwi_helper;

/* Records that a thread has entered a scope. It exists until the thread leaves the scope. */
typedef struct gwi_entry {
    gs_scope *scope;
    long thread; /* the system's thread id */
    const char *file;
    int line;
    CUcontext before;        /* the context that was current before the thread entered */
    struct gwi_entry *outer; /* the enclosing entry of the same thread */
    struct gwi_entry *next;  /* the next entry of the same scope */
} gwi_entry;

struct gs_scope {
    gs_scope *parent;
    gs_scope *children, *sibling;
    gwi_device *device;
    char name[GWI_NAME_BYTES];
    unsigned flags;
    uint64_t limit_bytes;
    void (*log)(void *user, const char *line);
    void *log_user;
    const char *file;
    int line;

    gwi_thing *things;
    gwi_helper *helpers;
    gwi_entry *entries;
    bool is_ending;
    uint64_t pool; /* handle of the scope's memory pool; 0: not created yet */
    bool has_no_pools;

    /* The sums below include inner scopes. */
    uint64_t live_bytes, peak_bytes, taken_bytes;
    uint64_t pinned_bytes, pinned_peak_bytes;
    size_t streams_made;

    bool has_memory;
    uint64_t free_begin_bytes, device_begin_bytes;
    bool has_failure;
    gs_failure failure;
};

/* state.c */
extern pthread_mutex_t gwi_lock;
/* While this is true, gwi_keep() ignores out-of-memory failures of this thread, because they are not final: the thread
 * will try a smaller size. */
extern _Thread_local bool gwi_is_trial;
/* The latest launch of this thread. */
typedef struct gwi_last_launch {
    const char *call, *file;
    int line;
} gwi_last_launch;
extern _Thread_local gwi_last_launch gwi_launched;

/* describe.c */
/* Fill in a failure, but do not store it as the first failure of a scope or the process. */
void gwi_describe(gs_failure *failure, gs_source source, int code, const char *call, const char *file, int line);
/* Fill in a failure for an error that libgpuscope itself detected. `failure` may be NULL. Returns `status`. */
__attribute__((format(printf, 4, 5))) gs_status gwi_refusal(gs_failure *failure, gs_status status, const char *call,
                                                            const char *format, ...);
/* Like gwi_refusal(), but with the source position, and with the format arguments as a va_list. `failure` must not be
 * NULL. */
void gwi_describe_refusal(gs_failure *failure, gs_status status, const char *call, const char *file, int line,
                          const char *format, va_list arguments);
/* Look up in our table whether an error is sticky. Returns 1 if it is, 0 if it is not, and -1 if the error number alone
 * does not show it. */
int gwi_sticks_by_table(gs_source source, int code);

/* failure.c */
/* Store the failure as the first failure of the process and of `scope` (may be NULL), unless they already have one. If
 * its status is GS_DEAD, mark the scope's device as dead. */
void gwi_keep(gs_scope *scope, const gs_failure *failure);
/* Handle a failed call: find out whether the error is sticky, and call gwi_keep(). Returns GS_DEAD, GS_NO_MEMORY or
 * GS_FAILED. `note` (may be NULL) is appended to the failure's text. */
gs_status gwi_failed(gs_scope *scope, gs_source source, int code, const char *call, const char *note, const char *file,
                     int line);
/* Like gwi_failed(), but for an error that libgpuscope itself detected. Returns `status`. */
__attribute__((format(printf, 6, 7))) gs_status gwi_refuse(gs_scope *scope, gs_status status, const char *call,
                                                           const char *file, int line, const char *format, ...);
bool gwi_is_dead(const gs_scope *scope);
/* Read the first failure of the process. Returns false if there is none. */
bool gwi_process_failure(gs_failure *ret_failure);

/* scope.c */
/* Return the innermost scope of the calling thread. Returns NULL if there is none. */
gs_scope *gwi_current(void);
/* Check that the calling thread may use the scope. Returns GS_OK, GS_DEAD or GS_MISUSE. GS_MISUSE is also stored as a
 * failure. */
gs_status gwi_usable(gs_scope *scope, const char *call, const char *file, int line);
/* Format a line and pass it to the scope's log callback, if the scope has one. */
__attribute__((format(printf, 2, 3))) void gwi_log(gs_scope *scope, const char *format, ...);
/* Remove the calling thread's entries in `scope` and its inner scopes. *ret_before is the context that was current
 * before the first of them. Returns false if there were none. */
bool gwi_entries_leave(gs_scope *scope, CUcontext *ret_before);

/* things.c */
/* Return the device memory that the driver uses for a block of `bytes`. Up to 1 MiB, it rounds up to a multiple of 512
 * bytes. Larger blocks use whole pages of 2 MiB. */
uint64_t gwi_taken_bytes(uint64_t bytes);
/* Create a thing and count its memory against the limits of its scopes. Finish with gwi_thing_own() or
 * gwi_thing_drop(). Returns GS_OK. Otherwise, stores a failure and returns GS_NO_MEMORY (a limit is reached) or
 * GS_NO_HOST_MEMORY. */
gs_status gwi_thing_new(gs_scope *scope, gs_kind kind, uint64_t bytes, const char *call, const char *file, int line,
                        gwi_thing **ret_thing);
void gwi_thing_own(gwi_thing *thing, uint64_t handle);
void gwi_thing_drop(gwi_thing *thing); /* frees a thing that is in no list, and stops counting its memory */
/* Add a new object of a library to the scope. If creating it failed (`code` is not 0), store the failure of the call
 * `create` instead. */
gs_status gwi_thing_made(gwi_thing *thing, gs_source source, int code, const char *create, const void *handle);
/* Find a thing that `scope` or an enclosing scope owns, and remove it from its owner. A thing whose is_inner is set is
 * found only if `inner_too`. Returns NULL if there is none. */
gwi_thing *gwi_thing_take(gs_scope *scope, gs_kind kind, uint64_t handle, bool inner_too);
/* True if the error means that the driver does not know the handle. The thing must not be released again: the handle
 * may belong to an unrelated object by now. */
bool gwi_is_unknown_to_driver(int code);
void gwi_thing_take_locked(gwi_thing *thing);
bool gwi_thing_has(const gs_scope *scope, gs_kind kind, uint64_t handle);
/* Find the kind of a thing that any scope owns, and the place in the source where the scope became its owner. Memory is
 * also found if the scope owns it as another kind, or as an arena. Returns false if no scope owns it. */
bool gwi_thing_owned(gs_kind kind, uint64_t handle, gs_kind *ret_kind, const char **ret_file, int *ret_line);
/* Find a thing of any scope and remove it from its owner. If the calling thread is inside the owner, return the thing:
 * finish with gwi_thing_put() or gwi_thing_drop(). Otherwise the owner could end meanwhile, so the thing is freed.
 * Returns NULL then, and if there is no such thing. */
gwi_thing *gwi_thing_take_any(gs_kind kind, uint64_t handle);
/* Position of a kind in the order of release. */
int gwi_kind_order(gs_kind kind);
/* Make `scope` the owner of a thing that gwi_thing_take() removed from its owner. */
void gwi_thing_put(gwi_thing *thing, gs_scope *scope);
/* Release a thing with the driver or library call for its kind. *ret_call is the name of this call. Returns the call's
 * error number; 0: success. */
int gwi_thing_release(const gwi_thing *thing, gs_source *ret_source, const char **ret_call);
gs_status gwi_thing_close(gs_scope *scope, gs_kind kind, uint64_t handle, bool inner_too, const char *call,
                          const char *file, int line);

/* runtime.c */
/* Release a resource that no scope owns with the CUDA runtime, and ignore failures. If `runtime` is NULL, another call
 * must have found the runtime before. */
struct gs_cuda_runtime;
void gwi_runtime_discard(const struct gs_cuda_runtime *runtime, gs_kind kind, uint64_t handle);

/* adopt.c */
/* Make the scope the owner of a resource that exists already. `release` may be NULL, see gwi_thing. */
gs_status gwi_adopt(gs_scope *scope, gs_kind kind, uint64_t handle, uint64_t bytes, gs_source source,
                    gs_release *release, const char *release_call, const char *call, const char *file, int line);

/* memory.c */
gs_status gwi_alloc(gs_scope *scope, uint64_t bytes, bool is_inner, CUdeviceptr *ret, const char *call,
                    const char *file, int line);

/* bytes.c */
/* Format a number of bytes as "0 B", "512 B" or "2.39 GiB". Writes to `out` and returns `out`. */
enum { GWI_BYTES_TEXT_MAX = 24 };
char *gwi_bytes_text(char out[GWI_BYTES_TEXT_MAX], uint64_t bytes);
/* Format a number of bytes exactly, and also in its unit from 1 KiB: "2097152 bytes (2.00 MiB)". Writes to `out` and
 * returns `out`. */
enum { GWI_BYTES_EXACT_MAX = 56 };
char *gwi_bytes_exact(char out[GWI_BYTES_EXACT_MAX], uint64_t bytes);

/* plan.c */
/* One step of a planned iteration: an allocation or a free. */
typedef struct gwi_plan_step {
    bool is_free;
    size_t block;
    uint64_t bytes, offset;
} gwi_plan_step;
size_t gwi_plan_step_count(const gs_plan *plan);
gwi_plan_step gwi_plan_step_at(const gs_plan *plan, size_t step);
uint64_t gwi_plan_arena_bytes(const gs_plan *plan); /* 0: the plan is empty or not closed */

#endif
