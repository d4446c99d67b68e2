/* The facts about a run, for verdict/ and render/. Everything is read only, and all pointers belong to the model. Times
 * are ns since the run began. If a "has_" or "_known" flag is false, the value is unknown, not zero. */
#ifndef GW_MODEL_FACTS_H
#define GW_MODEL_FACTS_H

#include "gw_allocator_facts.h"
#include "gw_event.h"
#include "gw_fact.h"
#include "gw_failure_facts.h"
#include "gw_fault_facts.h"
#include "gw_injected_facts.h"
#include "gw_machine_facts.h"
#include "gw_memory_facts.h"
#include "gw_model.h"
#include "gw_process_facts.h"
#include "gw_rehearsal_facts.h"
#include "gw_sites.h"
#include "gw_stderr_facts.h"
#include "gw_stream_facts.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef enum gw_framework {
    GW_FRAMEWORK_RAW,
    GW_FRAMEWORK_TORCH,
    GW_FRAMEWORK_TENSORFLOW,
    GW_FRAMEWORK_JAX,
    GW_FRAMEWORK_COUNT
} gw_framework;

/* META key: the path of the memory snapshot, saved by PyTorch, that the model was built from. There is no other
 * information about the run. */
#define GW_META_SNAPSHOT "torch.snapshot"

/* META key: the snapshot has blocks in memory pools of their own, of CUDA graphs or made by the program. */
#define GW_META_PRIVATE_POOLS "torch.private_pools"

/* A part of a process's run that the program named, with gpuwhy_phase() or as a cell of a notebook. A phase lasts
 * until the process's next phase begins. */
typedef struct gw_phase {
    uint64_t t_ns;
    uint32_t pid;
    uint32_t alike; /* index of the process's first phase with the same name */
    char *name;     /* owned by the model; NULL: from t_ns on, the process is in no phase */
} gw_phase;

typedef struct gw_pair {
    gw_fact_key what; /* id of `key` (facts.def); set only for facts */
    char *key, *value;
    uint64_t t_ns;
    uint32_t pid, tid;
} gw_pair;

struct gwi_model;
struct gw_model {
    gw_process *process;
    size_t process_count;
    gw_thread *thread;
    size_t thread_count;
    gw_device device[GW_MODEL_DEVICE_PLACES];
    gw_failure *failure; /* in the order of the recording, then those that come from GPU core dumps */
    size_t failure_count;
    uint64_t failures_dropped; /* number of failures that are not in `failure`, because there were too many */
    gw_snapshot *snapshot;
    size_t snapshot_count;
    gw_teardown *teardown;
    size_t teardown_count;
    gw_group *group;
    size_t group_count;
    gw_memory_info *info;
    size_t info_count;
    gw_allocator_report *allocator;
    size_t allocator_count;
    gw_rehearsal rehearsal;
    gw_arrays arrays; /* reported by the last process that reported arrays */
    gw_phase *phase;  /* sorted by process, then by time */
    size_t phase_count;
    /* judge only this phase, which gw_model_end_phase() set; NULL: judge the whole run */
    const gw_phase *asked_phase;
    gw_pair *meta;
    size_t meta_count;
    gw_pair *fact; /* facts from the supervisor */
    size_t fact_count;
    gw_hang *hang; /* sorted by time */
    size_t hang_count;
    /* the first and the last frees not ordered with a copy, at most GW_UNORDERED_MAX, sorted by time; owned */
    gw_unordered *unordered;
    size_t unordered_count;
    uint64_t unordered_total; /* number of all such frees, including those not stored */
    gw_unwaited *unwaited;    /* at most one per process; owned */
    size_t unwaited_count;
    gw_injection *injection; /* in the order of the recording, at most 4,096; owned */
    size_t injection_count;
    uint64_t injected_total, injected_slow_ns; /* number of all recorded injections, and the time that they took */
    gw_fence *fence;                           /* at most one per process; owned */
    size_t fence_count;
    uint64_t note_count[GW_NOTE_COUNT];
    gw_stderr_facts stderr_facts;
    gw_fault_facts faults;
    gw_launch_site *launch_site; /* in the order of the recording; owned */
    size_t launch_site_count;
    gw_alone *alone; /* sorted by process, then elements with on_record first; owned */
    size_t alone_count;
    gw_machine machine;
    gw_cudnn_line *cudnn_line; /* empty without --deep; owned */
    size_t cudnn_line_count;
    bool framework_mapped[GW_FRAMEWORK_COUNT];
    bool cudnn_mapped;
    bool observer_attached;
    unsigned torch_version; /* PyTorch's version as 100 * major + minor; 0: not known */
    bool truncated;         /* the recording has no end item */
    uint64_t damaged_count; /* number of damaged blocks that were skipped */
    char damaged_first[256];
    uint64_t t_end_ns; /* time at which the command ended; if unknown, the time of the last item */
    uint64_t event_count;
    gw_sites *sites;           /* call sites with their stacks, resolved on request; owned */
    uid_t owner;               /* of the recording, as gw_reader_owner(); without a recording: our user */
    const gw_process *command; /* the user's program; NULL: the recording does not contain its end */
    bool is_virtual;           /* the run used gpuwhy's virtual GPU */
    struct gwi_model *inner;   /* state that is used while the model is fed; owned */
};

/* True if the user's program is known to have exited with status 0. */
static inline bool gw_run_ended_well(const gw_model *model)
{
    return model->command != NULL && gw_ended_well(model->command);
}

/* Look up a process, a META value or a fact. Returns NULL if there is none. */
const gw_process *gw_model_process(const gw_model *model, uint32_t pid);
const char *gw_model_meta(const gw_model *model, const char *key);
/* Return the first thread or failure of a pid, or the next one after the given one. NULL: none. The order is that of
 * the model's arrays. Look up failures only after gw_model_finish(). */
const gw_thread *gw_model_first_thread(const gw_model *model, uint32_t pid);
const gw_thread *gw_model_next_thread(const gw_model *model, const gw_thread *thread);
const gw_failure *gw_model_first_failure(const gw_model *model, uint32_t pid);
const gw_failure *gw_model_next_failure(const gw_model *model, const gw_failure *failure);
const gw_pair *gw_model_fact(const gw_model *model, gw_fact_key what); /* the first fact with that key */
/* Return a snapshot together with its list of live blocks, or NULL if there is no such snapshot. The first call for a
 * snapshot builds its list. So call this from one thread at a time, after gw_model_finish(). `live` is NULL if:
 * - nothing was alive
 * - the program recovered from the failure
 * - the list was dropped: there were too many failures or freed blocks
 * - there is no memory */
const gw_snapshot *gw_model_snapshot(const gw_model *model, int index);
const char *gw_model_fn_name(const gw_model *model, uint16_t fn);
/* Return the phase that the process was in at t_ns, or NULL if it was in no phase. */
const gw_phase *gw_model_phase_at(const gw_model *model, uint32_t pid, uint64_t t_ns);
gw_framework gw_model_framework(const gw_model *model);
/* Get the memory limit for processes on the device: the guard's limit or, without one, the device's total memory.
 * Returns false if it is unknown. */
bool gw_model_device_limit(const gw_model *model, int device, uint64_t *ret_bytes);
/* Format the usual name of a call, such as "cuMemAlloc" for "cuMemAlloc_v2" or "cuMemAlloc_v2_ptds". Returns `out`. */
enum { GW_CALL_TEXT_MAX = 80 };
char *gw_call_text(char out[GW_CALL_TEXT_MAX], const char *fn_name);

/* Format what a thread of a hanging process is doing, to follow "thread 12 (left) is". Example: "waiting for a lock (in
 * futex_do_wait)". Returns `out`. */
enum { GW_DOING_TEXT_MAX = 112 };
char *gw_doing_text(char out[GW_DOING_TEXT_MAX], const gw_hang_thread *thread);
const char *gw_result_name(uint16_t result); /* such as "CUDA_ERROR_OUT_OF_MEMORY"; "CUDA_ERROR_?" if unknown; static */
/* Results that leave the context usable. gpuwhy recognises them by the driver's description ("invalid argument")
 * wherever a program prints it. X(name): name as in gw_cuda_results.h. */
#define GW_RESULTS_KNOWN_BY_TEXT(X)                                                                                    \
    X(CUDA_ERROR_INVALID_VALUE)                                                                                        \
    X(CUDA_ERROR_INVALID_DEVICE)                                                                                       \
    X(CUDA_ERROR_INVALID_CONTEXT)                                                                                      \
    X(CUDA_ERROR_INVALID_HANDLE)                                                                                       \
    X(CUDA_ERROR_NOT_FOUND)                                                                                            \
    X(CUDA_ERROR_NOT_SUPPORTED)

#endif
