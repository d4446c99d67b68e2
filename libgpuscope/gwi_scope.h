/* The inside of libgpuscope: its objects, and what the files of this folder ask of each other.
 *
 * One lock, gwi_lock, guards all lists and counts of the process. It is never held across a call of the driver or of a
 * library, nor across a user's callback. Functions with "locked" in their name want it held. */
#ifndef GWI_SCOPE_H
#define GWI_SCOPE_H

#include <gpuwhy/scope.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { GWI_DEVICES_MAX = 64, GWI_NAME_BYTES = 32, GWI_PAGE_BYTES = 2 << 20, GWI_SMALL_BYTES = 1 << 20 };

typedef struct gwi_device {
    int ordinal;
    int device;
    CUcontext context; /* the same for the life of the process */
    atomic_int is_dead;
    gs_failure death;      /* written once, before is_dead */
    uint64_t taken_bytes;  /* by all scopes, in pages */
    bool has_shared_pages; /* some of it were small blocks, which share them */
} gwi_device;

/* Something that a scope owns: a member of its list and of the table of all. */
typedef struct gwi_thing {
    gs_kind kind;
    uint64_t handle;
    uint64_t bytes;       /* as asked for */
    uint64_t taken_bytes; /* of device memory, as the driver takes it */
    const char *file;     /* static, the caller's */
    int line;
    bool is_inner;  /* an arena's or a workspace's block, a pool: not to be given back by address */
    bool is_failed; /* its release failed */
    gs_scope *scope;
    struct gwi_thing *next, *previous;
    struct gwi_thing *bucket_next;
} gwi_thing;

/* Host objects that end with a scope: arenas, workspaces. */
typedef struct gwi_helper {
    struct gwi_helper *next;
    gs_scope *scope;
} gwi_helper;

/* A thread inside a scope. */
typedef struct gwi_entry {
    gs_scope *scope;
    long thread; /* its id in the system */
    const char *file;
    int line;
    CUcontext before;        /* what was current */
    struct gwi_entry *outer; /* of the same thread */
    struct gwi_entry *next;  /* of the same scope */
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
    uint64_t pool; /* 0: none yet */
    bool has_no_pools;

    /* with inner scopes */
    uint64_t live_bytes, peak_bytes, taken_bytes;
    uint64_t pinned_bytes, pinned_peak_bytes;
    size_t streams_made;

    bool has_memory;
    uint64_t free_begin_bytes, device_begin_bytes;
    bool has_failure;
    gs_failure failure;
};

extern pthread_mutex_t gwi_lock;

/* failure.c */
/* Fill in a failure; no list is touched. */
void gwi_describe(gs_failure *failure, gs_source source, int code, const char *call, const char *file, int line);
/* The same for a refusal of our own. Returns `status`. `failure` may be NULL. */
__attribute__((format(printf, 4, 5))) gs_status gwi_refusal(gs_failure *failure, gs_status status, const char *call,
                                                            const char *format, ...);
/* As the first one of the process and of `scope` (may be NULL), unless they have one. GS_DEAD as its status kills the
 * scope's device. */
void gwi_keep(gs_scope *scope, const gs_failure *failure);
/* A call failed: keep it if it is the first, find out whether it is sticky. Returns GS_DEAD, GS_NO_MEMORY or GS_FAILED.
 * `note` (may be NULL) is added to the text. */
gs_status gwi_failed(gs_scope *scope, gs_source source, int code, const char *call, const char *note, const char *file,
                     int line);
/* A refusal of our own, kept likewise. `scope` may be NULL. */
__attribute__((format(printf, 6, 7))) gs_status gwi_refuse(gs_scope *scope, gs_status status, const char *call,
                                                           const char *file, int line, const char *format, ...);
/* While it is set, a thread's failures for want of memory are not kept: something smaller is tried next. */
extern _Thread_local bool gwi_is_trial;
bool gwi_is_dead(const gs_scope *scope);
/* The first failure in the process. */
bool gwi_process_failure(gs_failure *ret_failure);

/* scope.c */
/* The thread's innermost scope; NULL: none. */
gs_scope *gwi_current(void);
/* May the calling thread use the scope? GS_OK, GS_DEAD, or GS_MISUSE, which is kept. */
gs_status gwi_usable(gs_scope *scope, const char *call, const char *file, int line);
/* A line to the user, if anybody listens. */
__attribute__((format(printf, 2, 3))) void gwi_log(gs_scope *scope, const char *format, ...);
/* Take out every entry of the calling thread into `scope` and its inner ones. *ret_before: what was current then. */
bool gwi_entries_leave(gs_scope *scope, CUcontext *ret_before);

/* things.c */
/* A thing to be filled in; takes room in the budgets for `taken_bytes`. GS_OK, GS_NO_MEMORY (kept), GS_NO_HOST_MEMORY
 * (kept). Ends with gwi_thing_own() or gwi_thing_drop(). */
gs_status gwi_thing_new(gs_scope *scope, gs_kind kind, uint64_t bytes, const char *call, const char *file, int line,
                        gwi_thing **ret_thing);
void gwi_thing_own(gwi_thing *thing, uint64_t handle);
void gwi_thing_drop(gwi_thing *thing); /* one that nobody owns */
/* Take it out of its scope: of `scope` or one around it. NULL: there is none. */
gwi_thing *gwi_thing_take(gs_scope *scope, gs_kind kind, uint64_t handle, bool inner_too);
/* The driver answered that it has no such thing: trying again could only hit somebody else's. */
bool gwi_is_unknown_to_driver(int code);
void gwi_thing_take_locked(gwi_thing *thing);
bool gwi_thing_has(const gs_scope *scope, gs_kind kind, uint64_t handle);
/* Put one that was taken back into the list of `scope`. */
void gwi_thing_put(gwi_thing *thing, gs_scope *scope);
/* Give it back to driver or library. 0, or their number; *ret_call: what was called. */
int gwi_thing_release(const gwi_thing *thing, gs_source *ret_source, const char **ret_call);
gs_status gwi_thing_close(gs_scope *scope, gs_kind kind, uint64_t handle, bool inner_too, const char *call,
                          const char *file, int line);

/* libraries.c */
const char *gwi_library_error(gs_source source, int code); /* NULL: not known */
int gwi_library_destroy(gs_kind kind, void *handle, gs_source *ret_source, const char **ret_call);
void *gwi_library_symbol(gs_source source, const char *name);

/* memory.c */
gs_status gwi_alloc(gs_scope *scope, uint64_t bytes, bool is_inner, CUdeviceptr *ret, const char *call,
                    const char *file, int line);
/* What the driver takes for a block of device memory: steps of 512 bytes up to 1 MiB, then whole pages. */
uint64_t gwi_taken_bytes(uint64_t bytes);

/* plan.c */
/* What an iteration does, step by step. */
typedef struct gwi_plan_step {
    bool is_free;
    size_t block;
    uint64_t bytes, offset;
} gwi_plan_step;
size_t gwi_plan_step_count(const gs_plan *plan);
gwi_plan_step gwi_plan_step_at(const gs_plan *plan, size_t step);
uint64_t gwi_plan_arena_bytes(const gs_plan *plan); /* 0: not closed, or nothing in it */

/* work.c */
/* This thread's newest launch. */
typedef struct gwi_last_launch {
    const char *call, *file;
    int line;
} gwi_last_launch;
extern _Thread_local gwi_last_launch gwi_launched;

#endif
