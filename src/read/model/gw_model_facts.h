/* The facts about a run, for verdict/ and render/. Everything is read only, and all pointers belong to the model. Times
 * are ns since the run began. If a "has_" or "_known" flag is false, the value is unknown, not zero. */
#ifndef GW_MODEL_FACTS_H
#define GW_MODEL_FACTS_H

#include "gw_allocator_facts.h"
#include "gw_event.h"
#include "gw_fact.h"
#include "gw_failure_facts.h"
#include "gw_machine.h"
#include "gw_memory_facts.h"
#include "gw_metrics.h"
#include "gw_model.h"
#include "gw_process_facts.h"
#include "gw_sites.h"
#include "gw_stderr_facts.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* ---- failures that gpuwhy injected (--inject), what the program did next, and the fence ---- */

/* A call of the thread after the failed one. */
typedef struct gw_injected_next {
    uint16_t fn, result;
    uint32_t site; /* 0: not known */
    uint64_t t_ns;
} gw_injected_next;

/* A call that gpuwhy changed. Only events are followed; launches and copies that succeeded are in the rings. */
enum { GW_INJECTED_NEXT_MAX = 3 };
typedef struct gw_injection {
    uint64_t t_ns;
    uint32_t pid, tid;
    uint16_t fn;
    uint16_t result; /* 0: the call was only slow */
    uint64_t order;  /* number of the rule's injections in the process, including this one */
    uint64_t slow_ns;
    bool closes; /* all later calls of the process fail with `result`, too */
    char *rule;  /* as the user wrote it; owned by the model; NULL: not known */
    /* The failed call itself, if its event was recorded. */
    bool has_call;
    uint32_t site;  /* 0: not known */
    uint64_t bytes; /* size of the request; 0: the call requests no memory */
    bool is_retry;  /* the call repeated the one of the thread's injection before, and nothing else was in between */
    /* What the thread did until the next injection into it. A retry is a call of the same function before any
     * other work: from the same site, or after memory was freed for the same size. Calls that only release something do
     * not count as work; retries do. */
    uint32_t release_count;
    uint32_t retry_count;
    bool retry_succeeded;
    uint64_t t_retry_ns; /* of the first retry; 0: none */
    uint64_t work_count;
    gw_injected_next next[GW_INJECTED_NEXT_MAX]; /* the first of these calls */
    uint32_t next_count;
} gw_injection;

/* The fence of a process. `refused_count` is the number of calls that it kept from the driver and that were recorded.
 */
typedef struct gw_fence {
    uint64_t t_ns;
    uint32_t pid;
    uint16_t fn, result;
    bool ends; /* the process was ended at this call */
    uint64_t refused_count;
} gw_fence;

/* ---- rehearsals: runs in which device memory existed only in the hook's books and nothing was computed ---- */

/* One process on one device. */
typedef struct gw_rehearsed {
    uint32_t pid;
    int device;
    uint64_t limit_bytes; /* the card that the program saw */
    uint64_t real_bytes;  /* the card of this machine */
    /* The most that the process held at once: of that, what the program asked for, and what the driver held for it
     * (contexts, code, streams). */
    uint64_t peak_bytes, asked_bytes, driver_bytes;
    uint64_t t_peak_ns;
    uint32_t peak_site; /* call site of the request that made the peak; 0: not known */
    bool site_due;      /* the event of that request follows */
} gw_rehearsed;

enum { GW_REHEARSAL_REFUSED_MAX = 32, GW_REHEARSAL_READS_MAX = 64 };

typedef struct gw_rehearsal {
    gw_rehearsed *card; /* owned; empty: the run was no rehearsal */
    size_t card_count;
    char *refused[GW_REHEARSAL_REFUSED_MAX]; /* owned by the model: names of calls that a rehearsal does not support */
    size_t refused_count;
    uint32_t read_site[GW_REHEARSAL_READS_MAX]; /* call sites that read small values from the card */
    size_t read_count;
    bool timed;                /* the program measured times on the card, which are made up */
    uint64_t equal_iterations; /* 0: the iterations did not become equal, or the program ended before */
    uint64_t launches_each;    /* of each equal iteration */
    uint64_t t_steady_ns;
    uint64_t torch_live_bytes, torch_reserved_bytes; /* PyTorch's peak of live bytes, and its reserve; 0: not known */
} gw_rehearsal;

/* ---- the machine: a series for each value that the supervisor sampled, and events ----
 *
 * Cards have NVML's numbers (in the order of the PCI bus), not CUDA's. gw_machine_card_of() and gw_machine_device_of()
 * convert both. With several cards, they need the PCI positions from NVML and CUDA. */

enum { GW_MACHINE_BITS = 16, GW_MACHINE_EVENTS_MAX = 8192, GW_MACHINE_CARDS_MAX = 64 };

/* The samples of one value during the run. If two successive samples differ, the value changed at an unknown time
 * between them. */
typedef struct gw_series {
    uint16_t metric;
    uint8_t source;
    uint8_t state;      /* KNOWN if any sample was KNOWN, otherwise the state of the last sample */
    uint8_t last_state; /* state of the last sample */
    uint32_t device, pid;
    uint64_t reason; /* if FAILED: NVML's error code, or errno */
    /* The fields below are valid only if `state` is KNOWN. */
    uint64_t t_first_ns, t_last_ns; /* times of the first and the last sample, even if the value did not change */
    uint64_t first, last, min, max;
    uint64_t t_min_ns, t_max_ns;
    uint64_t rise;                       /* sum of all increases; for a COUNTER, the count during the run */
    uint64_t t_rise_ns, t_rise_after_ns; /* times of the last sample with an increase, and of the sample before it */
    uint64_t bit_ns[GW_MACHINE_BITS];    /* for BITS: how long each bit was set, in ns */
} gw_series;

typedef struct gw_machine_event {
    uint64_t t_ns, t_last_ns;
    uint8_t kind;    /* gw_machine_event_kind; GW_MACHINE_EVENT_COUNT: a kind that this build does not know */
    uint8_t sources; /* bit (1 << gw_source) for each source that reported the event */
    uint32_t pid;    /* 0: the event names no process */
    uint32_t device; /* GW_NO_DEVICE: unknown, or the event is not about a card */
    uint64_t code, value, count;
    char *text;       /* owned by the model; "": none */
    bool is_ours;     /* the event names a process of this run, or a card that a process of this run used */
    bool may_be_ours; /* is_ours, or nothing shows that the event belongs to another process or card */
} gw_machine_event;

typedef struct gw_machine_card {
    uint32_t index; /* the card's number in NVML */
    int device;     /* the card's number in CUDA; -1: unknown */
    bool has_pci;
    uint32_t domain, bus, slot;
    char name[64];
} gw_machine_card;

/* A process that used memory on a card, or had a card's device file open, when the driver refused a request. */
typedef struct gw_holder {
    gw_fact_key what; /* CARD_HOLDER, CARD_HOLDER_UNMATCHED or DEVICE_HOLDER */
    uint64_t t_ns;
    const char *text; /* value of the fact, read into `fact`; owned by the model */
    gw_fact_holder fact;
} gw_holder;

typedef struct gw_machine {
    gw_series *series; /* owned; sorted by the time of the first sample */
    size_t series_count;
    gw_machine_event *event; /* owned; sorted by time */
    size_t event_count;
    uint64_t events_dropped;
    gw_machine_card card[GW_MACHINE_CARDS_MAX];
    size_t card_count;
    gw_holder *holder; /* owned; sorted by time */
    size_t holder_count;
    bool has_peers;
    gw_fact_peers peers;       /* the model owns its strings */
    struct gwi_machine *inner; /* owned; used only while the model is fed */
} gw_machine;

struct gw_model;

/* Return the series of a metric, NULL if no sample was KNOWN. Pass GW_NO_DEVICE for a metric without a device, and pid
 * 0 for one without a process. */
const gw_series *gw_machine_known(const struct gw_model *model, gw_metric metric, uint32_t device, uint32_t pid);
/* Return NVML's number of a CUDA device, or GW_NO_DEVICE if it is unknown. */
uint32_t gw_machine_card_of(const struct gw_model *model, int device);
/* Return the CUDA device that has this NVML number, or -1 if it is unknown. */
int gw_machine_device_of(const struct gw_model *model, uint32_t card);
/* Return this run's next event of a kind after `from` (NULL: from the beginning), NULL if there is none. If `may_be`,
 * include events that may belong to this run. */
const gw_machine_event *gw_machine_event_next(const struct gw_model *model, const gw_machine_event *from,
                                              gw_machine_event_kind kind, bool may_be);

/* ---- the model ---- */

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

/* META key: the model has only what files of another program contain about ranks: communicators, and the threads of
 * each process (hangs with for_ns 0). The value says what the files are: "PyTorch Flight Recorder dump". The model has
 * GW_META_SNAPSHOT, too. */
#define GW_META_RANKS "saved.ranks"
/* META key, followed by 16 hexadecimal digits of a communicator's id: the name of its process group. */
#define GW_META_GROUP "saved.group."
/* META key, followed by the pid in the model: what is known of the process, such as "pid 4711 on node 10.0.0.1". */
#define GW_META_PROCESS "saved.process."
/* META keys: ranks that did not answer, or that are considered dead: "rank 3 did not answer". */
#define GW_META_SILENT "saved.silent"
#define GW_META_DEAD   "saved.dead"
/* META key: several answers, from different times, had the same counts. */
#define GW_META_SAME "saved.same"
/* META key: all ranks have several dumps of their threads, whose main threads have the same stacks and the same local
 * variables. */
#define GW_META_SAME_STACKS "saved.stacks.same"
/* META key: two files have an equal dump of a rank. One may be a copy of the other, so it is no second look. */
#define GW_META_EQUAL_DUMPS "saved.stacks.equal"
/* META key: the dumps of a rank differ, so it went on. The value names the rank. */
#define GW_META_MOVED "saved.stacks.moved"

/* META key: the snapshot has blocks in memory pools of their own, of CUDA graphs or made by the program. */
#define GW_META_PRIVATE_POOLS "torch.private_pools"

/* A part of a process's run that the program named, with gpuwhy_phase() or as a cell of a notebook. A phase lasts
 * until the process's next phase begins. */
typedef struct gw_phase {
    uint64_t t_ns;
    uint32_t pid;
    uint32_t alike;      /* index of the process's first phase with the same name */
    char *name;          /* owned by the model; NULL: from t_ns on, the process is in no phase */
    uint64_t live_bytes; /* device and managed memory that the process held then, on all devices */
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
    bool output_lost;       /* truncated: an exception was left out because it reports that nothing read the output */
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
/* True if the thread's next granted request was smaller, but not tiny, and from the same call site: a search for a size
 * that fits. */
bool gw_model_asked_for_less(const gw_failure *failure);
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
