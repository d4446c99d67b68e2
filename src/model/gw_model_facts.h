/* What the model knows, for the verdicts and for render/. Everything here is read only; all pointers belong to the
 * model. Times are ns since the run began. A "has_" or "_known" flag that is false means unknown, never zero. */
#ifndef GW_MODEL_FACTS_H
#define GW_MODEL_FACTS_H

#include "gw_allocator_facts.h"
#include "gw_event.h"
#include "gw_fact.h"
#include "gw_failure_facts.h"
#include "gw_fault_facts.h"
#include "gw_machine_facts.h"
#include "gw_memory_facts.h"
#include "gw_model.h"
#include "gw_process_facts.h"
#include "gw_sites.h"
#include "gw_stderr_facts.h"
#include "gw_stream_facts.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum gw_framework {
    GW_FRAMEWORK_RAW,
    GW_FRAMEWORK_TORCH,
    GW_FRAMEWORK_TENSORFLOW,
    GW_FRAMEWORK_JAX,
    GW_FRAMEWORK_COUNT
} gw_framework;

/* META: the model was made from a memory snapshot that PyTorch saved, at this path; nothing else is known of its run.
 */
#define GW_META_SNAPSHOT "torch.snapshot"

/* A part of a process's life as the program named it (gpuwhy_phase(), a cell of a notebook). It lasts until the next
 * one of the process. */
typedef struct gw_phase {
    uint64_t t_ns;
    uint32_t pid;
    uint32_t alike; /* index of the process's first phase of that name */
    char *name;     /* owned; NULL: from here on the process is in none */
} gw_phase;

typedef struct gw_pair {
    gw_fact_key what; /* of a fact: which one of facts.def */
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
    gw_failure *failure; /* in order of time */
    size_t failure_count;
    uint64_t failures_dropped; /* of thousands: recovered ones first, then those in the middle */
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
    gw_arrays arrays; /* of the last process that had some */
    gw_phase *phase;  /* by process, then by time */
    size_t phase_count;
    const gw_phase *asked_phase; /* gw_model_build_phase(): judge this one alone; NULL: the whole run */
    gw_pair *meta;
    size_t meta_count;
    gw_pair *fact; /* the supervisor's */
    size_t fact_count;
    gw_hang *hang; /* in order of time */
    size_t hang_count;
    gw_unordered *unordered; /* the first and the last of them, in order of time; owned */
    size_t unordered_count;
    uint64_t unordered_total; /* how many there were */
    gw_unwaited *unwaited;    /* at most one a process; owned */
    size_t unwaited_count;
    uint64_t note_count[GW_NOTE_COUNT];
    gw_stderr_facts stderr_facts;
    gw_fault_facts faults;
    gw_launch_site *launch_site; /* as they came; owned */
    size_t launch_site_count;
    gw_alone *alone; /* by process; those on record first; owned */
    size_t alone_count;
    gw_machine machine;
    gw_cudnn_line *cudnn_line; /* --deep; owned */
    size_t cudnn_line_count;
    bool framework_mapped[GW_FRAMEWORK_COUNT];
    bool cudnn_mapped;
    bool observer_attached;
    bool truncated;         /* the recording has no end */
    uint64_t damaged_count; /* blocks skipped */
    char damaged_first[256];
    uint64_t t_end_ns; /* the command's end, or the last thing seen */
    uint64_t event_count;
    gw_sites *sites;           /* stacks, put together when asked for; owned */
    const gw_process *command; /* NULL: the command made no driver call and its end was not seen */
    bool is_virtual;           /* the card was a virtual one */
    struct gwi_model *inner;   /* the ledgers at work */
};

/* The program that the user started is known to have ended with 0. */
static inline bool gw_run_ended_well(const gw_model *model)
{
    return model->command != NULL && gw_ended_well(model->command);
}

/* Looks things up. NULL or -1: unknown. */
const gw_process *gw_model_process(const gw_model *model, uint32_t pid);
const char *gw_model_meta(const gw_model *model, const char *key);
const gw_pair *gw_model_fact(const gw_model *model, gw_fact_key what); /* the first of that key */
/* The snapshot with its list. A snapshot is cheap, its list is not: it is made when it is first asked for here, after
 * gw_model_finish(), by one thread at a time. NULL: there is no such snapshot. `live` is NULL when nothing was alive,
 * when the failure was recovered, when too many failures came before it, or without memory. */
const gw_snapshot *gw_model_snapshot(const gw_model *model, int index);
const char *gw_model_fn_name(const gw_model *model, uint16_t fn);
/* The phase that the process was in; NULL: in none, or it never said. */
const gw_phase *gw_model_phase_at(const gw_model *model, uint32_t pid, uint64_t t_ns);
gw_framework gw_model_framework(const gw_model *model);
/* What the process could have: the guard's limit, else the device's total. False: unknown. */
bool gw_model_device_limit(const gw_model *model, int device, uint64_t *ret_bytes);
/* The name of a call as people know it, without version and variant: "cuMemAlloc". Writes to `out`, returns it. */
enum { GW_CALL_TEXT_MAX = 80 };
char *gw_call_text(char out[GW_CALL_TEXT_MAX], const char *fn_name);
const char *gw_result_name(uint16_t result); /* "CUDA_ERROR_OUT_OF_MEMORY"; "CUDA_ERROR_?" */
/* Results that leave the context whole, and whose text is recognised wherever a program prints it. X(name), of
 * gw_cuda_results.h. */
#define GW_RESULTS_KNOWN_BY_TEXT(X)                                                                                    \
    X(CUDA_ERROR_INVALID_VALUE)                                                                                        \
    X(CUDA_ERROR_INVALID_DEVICE)                                                                                       \
    X(CUDA_ERROR_INVALID_CONTEXT)                                                                                      \
    X(CUDA_ERROR_INVALID_HANDLE)                                                                                       \
    X(CUDA_ERROR_NOT_FOUND)                                                                                            \
    X(CUDA_ERROR_NOT_SUPPORTED)

#endif
