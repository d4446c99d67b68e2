/* The interface of causes: the case that a cause judges, the finding that it fills in, and the cause itself.
 *
 * A cause judges one case and returns its certainty, with evidence. Its only input is the model and the case that the
 * engine derived from it. docs/HOWTO_ADD_CAUSE.md is the guide; causes/template.c is an empty cause. */
#ifndef GWI_CAUSE_H
#define GWI_CAUSE_H

#include "gw_growth.h"
#include "gw_model_facts.h"
#include "gw_text.h"
#include "gw_verdict.h"

/* ---- the case ---- */

/* The state of memory at the out-of-memory failure. */
typedef struct gwi_memory {
    bool known;       /* an allocation or a framework's allocator found no room, and the program did not recover */
    bool from_stderr; /* only a framework's message shows it */
    uint64_t t_ns;
    uint32_t pid;
    int device;
    const char *call;      /* "cuMemAlloc_v2", "PyTorch's allocator" */
    uint64_t wanted_bytes; /* 0: an object without a size */
    bool has_free, has_total, has_limit;
    uint64_t free_bytes, total_bytes;
    uint64_t limit_bytes; /* the guard's or the framework's limit, else the card's total */
    bool limit_is_guard, limit_is_framework;
    bool card_free_known; /* limit_is_framework: the card's own free memory and its size (0: not known) */
    uint64_t card_free_bytes, card_bytes;
    bool limit_is_about;     /* the framework's limit is at least limit_bytes and was too low: from a saved snapshot */
    uint64_t own_bytes;      /* allocated by the process and not freed */
    uint64_t reserved_bytes; /* by a framework's allocator; 0: none or not known */
    bool foreign_known;      /* foreign_bytes was reported by holders, it is not a difference */
    uint64_t foreign_bytes;  /* held by other processes */
    uint32_t foreign_pid;    /* the one that holds most */
    char foreign_command[251];
    bool foreign_recorded;  /* that process belongs to this run */
    bool foreign_by_ledger; /* foreign_bytes is the allocations of this run's processes, without their contexts */
    bool rest_known;
    uint64_t rest_bytes; /* in use beyond all recorded allocations: contexts, streams, code, other programs */
    bool has_gaps; /* events of the process were lost, and what the driver has in use does not confirm own_bytes: too
                    * much or too little may be counted */
    const gw_pool_state *pools;  /* the process's stream-ordered pools, as the driver reported them; NULL: none, or
                                  * unknown */
    const gw_snapshot *snapshot; /* NULL: none */
    const gw_allocator_report *report; /* NULL: no framework reported */
    const gw_live *live;               /* from the report, else from the snapshot */
    size_t live_count;
    gw_growth growth;
    uint64_t stream_count, context_count; /* alive in the process */
    uint64_t made_context_count;          /* of these, besides the primary one */
    /* memory that other explanations would free, so that the request would have fitted */
    uint64_t idle_page_bytes;          /* in half-used pages of small blocks */
    uint64_t cached_bytes;             /* inside a framework's allocator, not in use */
    const gw_allocator_report *caught; /* an earlier out-of-memory error that the program survived; NULL: none */
    uint64_t caught_bytes;             /* bytes live both then and now */
} gwi_memory;

/* The kind of hang; hang.c explains how each kind is detected. */
typedef enum gwi_hang_kind { GWI_HANG_NONE, GWI_HANG_KERNEL, GWI_HANG_PEER, GWI_HANG_DEADLOCK } gwi_hang_kind;
typedef struct gwi_hang {
    gwi_hang_kind kind;
    const gw_hang *hang;           /* NULL: no lasting hang */
    const gw_hang_thread *waiting; /* the thread that waits for the GPU; NULL: none */
    bool in_circle;                /* DEADLOCK: the lock owners prove it */
    bool is_off_record;            /* KERNEL: the rings no longer hold the launch that is waited for */
} gwi_hang;

typedef struct gwi_case {
    const gw_model *model;
    const gw_process *process; /* the process to judge; NULL: none was recorded */
    bool ended;                /* the end of the process or of the command is known */
    int exit_code;             /* -1: a signal */
    int signal;
    bool bad_end; /* not exit 0 */
    gw_framework framework;
    gw_exception_kind exception;
    /* Unexplained failures of the process from which the program did not recover; NULL: none. */
    const gw_failure *root;       /* the root failure, as determined by root.c */
    const gw_failure *oom;        /* first allocation of its series */
    const gw_failure *oom_last;   /* last refusal of the same request */
    const gw_failure *sticky;     /* first failure that destroyed the context */
    const gw_failure *other;      /* first failure of any other kind */
    const gw_failure *handled;    /* the first allocation failure that was recovered */
    bool is_root_unsure;          /* another thread may have caused the end, so no cause is established */
    const gw_failure *start;      /* prevented CUDA from starting: cuInit, or the first context under an address-space
                                   * limit */
    const gw_failure *no_context; /* the first context found no memory, with nothing of this process on the device */
    bool has_address_limit;       /* ulimit -v */
    uint64_t address_limit_bytes;
    size_t handled_count;
    gwi_hang hang;              /* of the process */
    const gw_stderr_line *told; /* no call failed, but a framework's message reports the failure that ended the run */
    gwi_memory memory;
    /* The root statement of stderr, read as a log (told.c); NULL if the driver's events show why the run ended. */
    const struct gwi_statement *said;
    const struct gwi_log_case *said_in;
} gwi_case;

gw_status gwi_case_open(const gw_model *model, gwi_case *ret_case, gw_error *err);

/* The name of the failed call, without the version: "cuMemAlloc". `out` is the caller's. */
enum { GWI_CALL_TEXT_MAX = 80 };
char *gwi_call_text(char out[GWI_CALL_TEXT_MAX], const char *fn_name);

/* The next failure after `failure` in the same process; NULL at the end. */
const gw_failure *gwi_failure_next(const gwi_case *c, const gw_failure *failure);

/* ---- the finding ---- */

/* The place that the verdict should name, and its source. */
typedef struct gwi_wanted_place {
    enum { GWI_WHERE_NONE, GWI_WHERE_CALL, GWI_WHERE_SECOND_RUN, GWI_WHERE_TRACEBACK } by;
    uint32_t site;    /* of the call */
    const char *what; /* static */
} gwi_wanted_place;

typedef struct gwi_finding {
    const struct gw_cause *cause; /* the cause being judged; NULL: none in particular */
    gw_text headline;
    gw_evidence *evidence; /* owned */
    size_t evidence_count;
    gw_string_list ruled_out, consequences, next;
    gw_framework fixes_for; /* the framework of the cause's fixes; RAW: the case's framework */
    bool failed;            /* no memory */
    gwi_wanted_place where;
} gwi_finding;

#define GWI_NO_TIME    UINT64_MAX
#define GWI_FORMAT(at) __attribute__((format(printf, at, at + 1)))
GWI_FORMAT(2) void gwi_headline(gwi_finding *finding, const char *format, ...);
/* Add a line of evidence. `source` and `unit` are static strings listed at gw_evidence. */
GWI_FORMAT(4) void gwi_evidence(gwi_finding *finding, uint64_t t_ns, const char *source, const char *format, ...);
GWI_FORMAT(6)
void gwi_measure(gwi_finding *finding, uint64_t t_ns, const char *source, double value, const char *unit,
                 const char *format, ...);
/* Set the weight of the evidence that was added last. It decides which lines are printed if there are too many. */
void gwi_weigh(gwi_finding *finding, gw_weight weight);
GWI_FORMAT(2) void gwi_rule_out(gwi_finding *finding, const char *format, ...);
GWI_FORMAT(2) void gwi_consequence(gwi_finding *finding, const char *format, ...);
GWI_FORMAT(2) void gwi_next(gwi_finding *finding, const char *format, ...); /* comes before the cause's own fixes */
void gwi_finding_free(gwi_finding *finding);
bool gwi_list_add(gw_string_list *list, const char *text);
GWI_FORMAT(2) bool gwi_list_addf(gw_string_list *list, const char *format, ...);

/* Add the cause's fixes for the framework, else the general ones. False: no memory. */
struct gw_cause;
bool gwi_add_fixes(gw_string_list *next, const struct gw_cause *cause, gw_framework framework);

/* Move the finding's headline, evidence and lists into the verdict. False: no memory. */
bool gwi_take_words(gwi_finding *finding, gw_verdict *verdict);
/* Insert an alternative, with the more certain ones first and each cause only once. `cause` is static. False: no
 * memory. */
bool gwi_add_alternative(gw_verdict *verdict, const char *cause, gw_certainty certainty);

/* Report the failed request with the free memory, the limit and the memory that the process held. Every memory verdict
 * begins with this. */
void gwi_say_request(const gwi_case *c, gwi_finding *finding);
/* Report the memory that the refused request needed: live memory, the request, contexts and the rest, added up and
 * compared with the limit. */
void gwi_say_sum(const gwi_case *c, gwi_finding *finding);
/* "a block", "2 blocks": for counts in sentences. */
#define GWI_PLURAL(count) ((count) == 1 ? "" : "s")
/* A kernel's name without the mangling of its parameters: "at::native::fill" of "_ZN2at6native4fillE...". */
enum { GWI_KERNEL_TEXT_MAX = 160 };
char *gwi_kernel_text(char out[GWI_KERNEL_TEXT_MAX], const char *kernel);
/* Rule out the explanations that the numbers exclude: other processes, fragmentation, growth. */
enum { GWI_NOT_FOREIGN = 1, GWI_NOT_FRAGMENTED = 2, GWI_NOT_GROWTH = 4 };
void gwi_say_memory_ruled_out(const gwi_case *c, gwi_finding *finding, unsigned which);
/* "the default stream", "stream 0x7f..". */
enum { GWI_STREAM_TEXT_MAX = 32 };
const char *gwi_stream_text(char out[GWI_STREAM_TEXT_MAX], uint64_t stream);
/* "rank 3 (pid 123)", "pid 123" */
enum { GWI_WHO_TEXT_MAX = 48 };
char *gwi_who_text(char out[GWI_WHO_TEXT_MAX], const gw_process *process);
/* True for a launch not later than t_ns for which no wait shows that it had ended. */
bool gwi_is_open_launch(const gw_ring_call *call, uint64_t t_ns);
/* True if the rings hold all launches since the process's last good synchronisation. */
bool gwi_window_is_whole(const gwi_case *c, uint64_t synced_ns);
/* The part of it that tells of the time: the last good synchronisation, the launches since then. */
void gwi_say_window(const gwi_case *c, gwi_finding *finding, const gw_failure *sticky);
/* Report a sticky fault: where it first surfaced, the window in which it happened, and the effect of a reset. */
void gwi_say_sticky(const gwi_case *c, gwi_finding *finding, const gw_failure *sticky, const char *what);
/* List the later failures of the process as consequences. */
void gwi_say_consequences(const gwi_case *c, gwi_finding *finding, const gw_failure *after);

/* The source name of the live memory, for evidence. Static. */
const char *gwi_memory_source(const gwi_memory *memory);

/* Memory that iterations leave behind (iterations.c). gwi_loop_certainty: how certain it is that a leak explains the
 * refusal. gwi_objects_may_hold: objects for which the driver takes memory, such as further contexts, may hold so much
 * that the request would have fitted without them. gwi_loop_is_balanced: the iterations freed everything and no objects
 * may hold it, so a leak is ruled out. gwi_say_loop_leak: headline, evidence and place of a leak. gwi_say_loop:
 * evidence if it is not a leak. */
gw_certainty gwi_loop_certainty(const gwi_memory *memory);
bool gwi_objects_may_hold(const gwi_memory *memory);
bool gwi_loop_is_balanced(const gwi_memory *memory);
uint64_t gwi_leak_bytes(const gwi_memory *memory); /* kept by iterations or an earlier run; 0: no leak was seen */
void gwi_say_loop_leak(const gwi_case *c, gwi_finding *finding);
void gwi_say_loop(const gwi_case *c, gwi_finding *finding);

/* Call sites (where.c). The texts of an unknown site are empty, so that sentences leave it out. gwi_place: "train.py:41
 * in load_batch, called at train.py:88 in main"; gwi_at: " at train.py:41 in load_batch". */
enum { GWI_PLACE_TEXT_MAX = 600 };
char *gwi_place(const gwi_case *c, uint32_t site, char out[GWI_PLACE_TEXT_MAX]);
char *gwi_at(const gwi_case *c, uint32_t site, char out[GWI_PLACE_TEXT_MAX]);
/* The place at which the process was forked, if the stack of a call in the child shows it (Python's multiprocessing).
 * Empty: not known. */
char *gwi_fork_place(const gwi_case *c, uint32_t site, char out[GWI_PLACE_TEXT_MAX]);
/* Set the place of the verdict; the last call wins. `what` says what happened there, as in "the request that was
 * refused"; static. */
void gwi_where(gwi_finding *finding, uint32_t site, const char *what);
/* Set the place from the stack that the second run (--blame) found. */
void gwi_where_in_second(gwi_finding *finding, const char *what);
/* Set the place to the line of the Python exception that ended the program. Any other place of a verdict falls back to
 * this line if its own stack is not known and the exception is about the GPU. */
void gwi_where_raised(gwi_finding *finding, const char *what);
/* Report the place that holds most of these blocks as evidence, and make it the verdict's place. `of_what`: "the memory
 * kept". False: none of their sites is known. */
bool gwi_say_holder(const gwi_case *c, gwi_finding *finding, uint64_t t_ns, const char *source, const gw_live *live,
                    size_t count, const char *of_what);
/* Memory by line and phase (lines.c). Report the holders of live memory in a framework's allocator, without changing
 * the verdict's place. */
void gwi_say_live_holder(const gwi_case *c, gwi_finding *finding, const char *of_what);
/* Report the holders at the time of peak use, if that was before the report (NULL: none). gwi_advise_peak() does the
 * same as advice for a healthy run. */
void gwi_say_peak(const gwi_case *c, gwi_finding *finding, const gw_allocator_report *report);
bool gwi_advise_peak(const gwi_case *c, uint32_t pid, gw_string_list *advice); /* false: no memory */
/* Report the phase that the program had named at the time of the failure. */
void gwi_say_phase(const gwi_case *c, gwi_finding *finding);
/* The name of that phase if it differs from the phase at `before_ns`, else NULL. */
const char *gwi_later_phase(const gwi_case *c, uint64_t before_ns);
uint32_t gwi_request_site(const gwi_case *c); /* site of the refused request that ended the run */
/* For the engine: resolve the place that gwi_where() set, and store it in the verdict. False: no memory. */
bool gwi_take_where(const gwi_case *c, const gwi_finding *finding, gw_verdict *verdict);
void gwi_where_free(gw_where *where); /* takes NULL */
gw_where *gwi_where_copy(const gw_where *where);
/* Resolve the place of a site; *ret_where is NULL if it is not known. `what` is static. False: no memory, and
 * *ret_where is NULL. */
bool gwi_where_at(const gwi_case *c, uint32_t site, const char *what, gw_where **ret_where);

/* Bytes that the process's own stream-ordered pools reserve but do not use. */
uint64_t gwi_pool_idle_bytes(const gwi_memory *memory);
/* True if the request would have fitted with `freed_bytes` more free memory. */
bool gwi_would_fit(const gwi_memory *memory, uint64_t freed_bytes);

/* ---- the cause ---- */

typedef struct gw_cause {
    const char *id;      /* as in the catalogue */
    const char *summary; /* one sentence */
    const char *proof;   /* what evidence establishes it */
    /* Best first, one per line. Index GW_FRAMEWORK_RAW has the general fixes and is required; NULL: the general ones
     * apply. */
    const char *fixes[GW_FRAMEWORK_COUNT];
    /* The cause applies only if no other does: it becomes a hypothesis if an earlier row of causes.def is supported,
     * and is dropped if one is established. */
    bool is_remainder;
    /* GW_CERTAINTY_NONE: this is not the cause, and the content of `finding` is dropped. NULL: the cause only gives
     * advice. */
    gw_certainty (*judge)(const gwi_case *c, gwi_finding *finding);
    /* gwi_judge_by_log() runs if `judge` finds nothing: events show the cause only sometimes, but messages report it.
     */
    bool is_told;
    /* Adds advice to any verdict, also to a clean one. NULL: none. False: no memory. */
    bool (*advise)(const gwi_case *c, gw_string_list *advice);
} gw_cause;

/* For causes that show in printed messages (log_rules.def): the certainty with which stderr reports the cause being
 * judged. GW_CERTAINTY_NONE if a driver call failed, the run ended well, or this build cannot read logs. */
gw_certainty gwi_judge_by_log(const gwi_case *c, gwi_finding *finding);
/* True if stderr reports a cause beyond the exception or signal that it led to. */
bool gwi_is_told_by_log(const gwi_case *c);

#define GWI_CAUSE(name) extern const gw_cause gwi_cause_##name;
#include "causes.def"
#undef GWI_CAUSE

enum {
#define GWI_CAUSE(name) GWI_CAUSE_PLACE_##name,
#include "causes.def"
#undef GWI_CAUSE
    GWI_CAUSE_COUNT
};
extern const gw_cause *const gwi_causes[GWI_CAUSE_COUNT]; /* in the order of causes.def */
/* NULL: there is none of that name. */
const gw_cause *gwi_cause_of(const char *id);

#endif
