/* What a cause is, what it is shown, and how it speaks.
 *
 * A cause looks at one case and answers how certain it is, with evidence. It sees the model and what the engine made of
 * it, nothing else. docs/HOWTO_ADD_CAUSE.md shows the way; causes/template.c is an empty one. */
#ifndef GWI_CAUSE_H
#define GWI_CAUSE_H

#include "gw_growth.h"
#include "gw_model_facts.h"
#include "gw_text.h"
#include "gw_verdict.h"

/* ---- the case ---- */

/* Memory at the failure that ran out of it. */
typedef struct gwi_memory {
    bool known;       /* an allocation, or a framework's allocator, found no room and that was not recovered */
    bool from_stderr; /* only a framework's message tells of it */
    uint64_t t_ns;
    uint32_t pid;
    int device;
    const char *call;      /* "cuMemAlloc_v2", "PyTorch's allocator" */
    uint64_t wanted_bytes; /* 0: an object without a size */
    bool has_free, has_total, has_limit;
    uint64_t free_bytes, total_bytes;
    uint64_t limit_bytes; /* the guard's or the framework's own, else the total */
    bool limit_is_guard, limit_is_framework;
    bool card_free_known; /* limit_is_framework: what the card itself had, and how large it is (0: not known) */
    uint64_t card_free_bytes, card_bytes;
    bool limit_is_about;     /* the framework's limit is at least limit_bytes and was too low: from a saved snapshot */
    uint64_t own_bytes;      /* what the process asked for and still had */
    uint64_t reserved_bytes; /* by a framework's allocator; 0: none or not known */
    bool foreign_known;      /* foreign_bytes is what holders said, not a difference */
    uint64_t foreign_bytes;  /* held by other processes */
    uint32_t foreign_pid;    /* the largest of them */
    char foreign_command[251];
    bool foreign_recorded;  /* it is a process of this run */
    bool foreign_by_ledger; /* foreign_bytes is what processes of this run asked for, without their contexts */
    bool rest_known;
    uint64_t rest_bytes;         /* in use, asked for by nobody we saw: contexts, streams, code, other programs */
    const gw_pool_state *pools;  /* stream-ordered ones of the process, as the driver said; NULL: none, or unknown */
    const gw_snapshot *snapshot; /* NULL: none */
    const gw_allocator_report *report; /* NULL: no framework's word on it */
    const gw_live *live;               /* of the report, else of the snapshot */
    size_t live_count;
    gw_growth growth;
    uint64_t stream_count, context_count; /* alive in the process */
    uint64_t made_context_count;          /* of these, besides the primary one */
    /* memory that other explanations would set free, so that the request would have fitted */
    uint64_t idle_page_bytes;          /* in half-used pages of small blocks */
    uint64_t cached_bytes;             /* inside a framework's allocator, not in use */
    const gw_allocator_report *caught; /* an earlier out-of-memory that the program outlived; NULL: none */
    uint64_t caught_bytes;             /* live then and now */
} gwi_memory;

/* What stands still; hang.c says how each kind is told. */
typedef enum gwi_hang_kind { GWI_HANG_NONE, GWI_HANG_KERNEL, GWI_HANG_PEER, GWI_HANG_DEADLOCK } gwi_hang_kind;
typedef struct gwi_hang {
    gwi_hang_kind kind;
    const gw_hang *hang;           /* NULL: none that lasts */
    const gw_hang_thread *waiting; /* for the GPU; NULL: none does */
    bool in_circle;                /* DEADLOCK: owners of locks prove it */
    bool is_off_record;            /* KERNEL: the rings no longer hold the launch that is waited for */
} gwi_hang;

typedef struct gwi_case {
    const gw_model *model;
    const gw_process *process; /* the one to judge; NULL: nothing of it was recorded */
    bool ended;                /* its end, or the command's, is known */
    int exit_code;             /* -1: a signal */
    int signal;
    bool bad_end; /* not exit 0 */
    gw_framework framework;
    gw_exception_kind exception;
    /* Failures of the process that nothing explains and nothing made good; NULL: none. */
    const gw_failure *root;     /* the one that the engine holds for the root */
    const gw_failure *oom;      /* first allocation of its series */
    const gw_failure *oom_last; /* last one of the same request */
    const gw_failure *sticky;   /* first that cost the context */
    const gw_failure *other;    /* first of the rest */
    const gw_failure *handled;  /* the first allocation failure that was recovered */
    bool is_root_unsure;        /* another thread may be the reason of the end: nothing is established */
    const gw_failure *start;    /* kept CUDA from starting: cuInit, or the first context under an address-space limit */
    const gw_failure *no_context; /* the first context found no memory, with nothing of this process on the device */
    bool has_address_limit;       /* ulimit -v */
    uint64_t address_limit_bytes;
    size_t handled_count;
    gwi_hang hang;              /* of the process */
    const gw_stderr_line *told; /* no call failed, but a framework's message tells of the failure that ended it all */
    gwi_memory memory;
    /* What stderr says, read as a log (told.c); NULL where the driver's events tell why the run ended. */
    const struct gwi_statement *said;
    const struct gwi_log_case *said_in;
} gwi_case;

gw_status gwi_case_open(const gw_model *model, gwi_case *ret_case, gw_error *err);

/* The name of the failed call, without the version: "cuMemAlloc". Static storage of the caller. */
enum { GWI_CALL_TEXT_MAX = 80 };
char *gwi_call_text(char out[GWI_CALL_TEXT_MAX], const char *fn_name);

/* Failure after `failure` in its process: NULL at the end. */
const gw_failure *gwi_failure_next(const gwi_case *c, const gw_failure *failure);

/* ---- the finding ---- */

/* The place that the verdict shall name, and by what it is known. */
typedef struct gwi_wanted_place {
    enum { GWI_WHERE_NONE, GWI_WHERE_CALL, GWI_WHERE_SECOND_RUN, GWI_WHERE_TRACEBACK } by;
    uint32_t site;    /* of the call */
    const char *what; /* static */
} gwi_wanted_place;

typedef struct gwi_finding {
    const struct gw_cause *cause; /* that is asked; NULL: none in particular */
    gw_text headline;
    gw_evidence *evidence; /* owned */
    size_t evidence_count;
    gw_string_list ruled_out, consequences, next;
    gw_framework fixes_for; /* whose words the cause's fixes take; RAW: the case's framework */
    bool failed;            /* no memory */
    gwi_wanted_place where;
} gwi_finding;

#define GWI_NO_TIME    UINT64_MAX
#define GWI_FORMAT(at) __attribute__((format(printf, at, at + 1)))
GWI_FORMAT(2) void gwi_headline(gwi_finding *finding, const char *format, ...);
/* Source and unit: the static words of gw_evidence. */
GWI_FORMAT(4) void gwi_evidence(gwi_finding *finding, uint64_t t_ns, const char *source, const char *format, ...);
GWI_FORMAT(6)
void gwi_measure(gwi_finding *finding, uint64_t t_ns, const char *source, double value, const char *unit,
                 const char *format, ...);
/* The evidence that was given last: of that weight, where not all of it is printed. */
void gwi_weigh(gwi_finding *finding, gw_weight weight);
GWI_FORMAT(2) void gwi_rule_out(gwi_finding *finding, const char *format, ...);
GWI_FORMAT(2) void gwi_consequence(gwi_finding *finding, const char *format, ...);
GWI_FORMAT(2) void gwi_next(gwi_finding *finding, const char *format, ...); /* before the cause's own fixes */
void gwi_finding_free(gwi_finding *finding);
bool gwi_list_add(gw_string_list *list, const char *text);
GWI_FORMAT(2) bool gwi_list_addf(gw_string_list *list, const char *format, ...);

/* The cause's fixes in the framework's words, else the general ones. False: no memory. */
struct gw_cause;
bool gwi_add_fixes(gw_string_list *next, const struct gw_cause *cause, gw_framework framework);

/* What was said becomes the verdict's: head line, evidence, lists. False: no memory. */
bool gwi_take_words(gwi_finding *finding, gw_verdict *verdict);
/* Among the alternatives, the more certain first, each once; `cause` is static. False: no memory. */
bool gwi_add_alternative(gw_verdict *verdict, const char *cause, gw_certainty certainty);

/* The failed request with the free memory, the limit and what the process held: every memory verdict begins so. */
void gwi_say_request(const gwi_case *c, gwi_finding *finding);
/* What the refused request needed: what lives, what was asked for, contexts and the rest, added up against the limit.
 */
void gwi_say_sum(const gwi_case *c, gwi_finding *finding);
/* "a block", "2 blocks": for counts in sentences. */
#define GWI_PLURAL(count) ((count) == 1 ? "" : "s")
/* A kernel's name without the mangling of its parameters: "at::native::fill" of "_ZN2at6native4fillE...". */
enum { GWI_KERNEL_TEXT_MAX = 160 };
char *gwi_kernel_text(char out[GWI_KERNEL_TEXT_MAX], const char *kernel);
/* Rules out what the numbers exclude: other processes, fragmentation, growth. */
enum { GWI_NOT_FOREIGN = 1, GWI_NOT_FRAGMENTED = 2, GWI_NOT_GROWTH = 4 };
void gwi_say_memory_ruled_out(const gwi_case *c, gwi_finding *finding, unsigned which);
/* "the default stream", "stream 0x7f..". */
enum { GWI_STREAM_TEXT_MAX = 32 };
const char *gwi_stream_text(char out[GWI_STREAM_TEXT_MAX], uint64_t stream);
/* "rank 3 (pid 123)", "pid 123" */
enum { GWI_WHO_TEXT_MAX = 48 };
char *gwi_who_text(char out[GWI_WHO_TEXT_MAX], const gw_process *process);
/* Is it a launch, not later than t_ns, of which no wait shows that it was over? */
bool gwi_is_open_launch(const gw_ring_call *call, uint64_t t_ns);
/* All launches since the process's last good synchronisation are in the rings. */
bool gwi_window_is_whole(const gwi_case *c, uint64_t synced_ns);
/* The part of it that tells of the time: the last good synchronisation, the launches since then. */
void gwi_say_window(const gwi_case *c, gwi_finding *finding, const gw_failure *sticky);
/* A sticky fault: where it first surfaced, the window in which it happened, what a reset did. */
void gwi_say_sticky(const gwi_case *c, gwi_finding *finding, const gw_failure *sticky, const char *what);
/* Later failures of the process as consequences. */
void gwi_say_consequences(const gwi_case *c, gwi_finding *finding, const gw_failure *after);

/* Who says what is live: the word for evidence. */
const char *gwi_memory_source(const gwi_memory *memory);

/* What iterations leave behind (iterations.c). Is it a leak that explains the refusal? Were they balanced: is a leak
 * ruled out? The headline, the evidence and the place of a leak; what is worth saying where it is none. */
gw_certainty gwi_loop_certainty(const gwi_memory *memory);
bool gwi_loop_is_balanced(const gwi_memory *memory);
uint64_t gwi_leak_bytes(const gwi_memory *memory); /* kept by iterations or an earlier run; 0: no leak is seen */
void gwi_say_loop_leak(const gwi_case *c, gwi_finding *finding);
void gwi_say_loop(const gwi_case *c, gwi_finding *finding);

/* Call sites (where.c). A site that is not known is left out of sentences: the texts are then empty.
 * gwi_place: "train.py:41 in load_batch, called at train.py:88 in main"; gwi_at: " at train.py:41 in load_batch". */
enum { GWI_PLACE_TEXT_MAX = 600 };
char *gwi_place(const gwi_case *c, uint32_t site, char out[GWI_PLACE_TEXT_MAX]);
char *gwi_at(const gwi_case *c, uint32_t site, char out[GWI_PLACE_TEXT_MAX]);
/* Where the process was forked, as far as the stack of a call in the child tells: by Python's multiprocessing. */
char *gwi_fork_place(const gwi_case *c, uint32_t site, char out[GWI_PLACE_TEXT_MAX]);
/* The place of the verdict; the last word counts. `what` happened there: static, "the request that was refused". */
void gwi_where(gwi_finding *finding, uint32_t site, const char *what);
/* The same, by the stack that the second run (--blame) found. */
void gwi_where_in_second(gwi_finding *finding, const char *what);
/* The line of the Python exception that ended the program. Any other place of a verdict falls back to it where its own
 * stack is not known, and the exception is about the GPU. */
void gwi_where_raised(gwi_finding *finding, const char *what);
/* Say which place holds most of these blocks, as evidence and as the verdict's place. False: no site of theirs is
 * known. `of_what`: "the memory kept". */
bool gwi_say_holder(const gwi_case *c, gwi_finding *finding, uint64_t t_ns, const char *source, const gw_live *live,
                    size_t count, const char *of_what);
/* Memory by line and phase (lines.c). What lives in a framework's allocator, without moving the verdict's place. */
void gwi_say_live_holder(const gwi_case *c, gwi_finding *finding, const char *of_what);
/* Who held most when most was in use, where that was earlier than the report (NULL: none); for a healthy run as advice.
 */
void gwi_say_peak(const gwi_case *c, gwi_finding *finding, const gw_allocator_report *report);
bool gwi_advise_peak(const gwi_case *c, uint32_t pid, gw_string_list *advice); /* false: no memory */
/* The phase that the program named for the time of the failure. */
void gwi_say_phase(const gwi_case *c, gwi_finding *finding);
/* Its name, where it is another one than at `before_ns`; NULL else. */
const char *gwi_later_phase(const gwi_case *c, uint64_t before_ns);
uint32_t gwi_request_site(const gwi_case *c); /* of the refused request that ended it all */
/* For the engine: what gwi_where() asked for becomes the verdict's. False: no memory. */
bool gwi_take_where(const gwi_case *c, const gwi_finding *finding, gw_verdict *verdict);
void gwi_where_free(gw_where *where); /* takes NULL */
gw_where *gwi_where_copy(const gw_where *where);
/* The place of a site, `what` is static; NULL where it is not known. False: no memory, and *ret_where is NULL. */
bool gwi_where_at(const gwi_case *c, uint32_t site, const char *what, gw_where **ret_where);

/* Reserved and not used by the process's own stream-ordered pools. */
uint64_t gwi_pool_idle_bytes(const gwi_memory *memory);
/* Does the explanation free enough for the request? */
bool gwi_would_fit(const gwi_memory *memory, uint64_t freed_bytes);

/* ---- the cause ---- */

typedef struct gw_cause {
    const char *id;      /* as in the catalogue */
    const char *summary; /* one sentence */
    const char *proof;   /* what evidence establishes it */
    /* Best first, one a line. Index GW_FRAMEWORK_RAW is the general one and must be there; NULL: the general ones. */
    const char *fixes[GW_FRAMEWORK_COUNT];
    /* It is what is left: a hypothesis only when an earlier row of causes.def is supported, nothing when one is
     * established. */
    bool is_remainder;
    /* GW_CERTAINTY_NONE: this is not it; what was written to `finding` is then dropped. NULL: never the reason of a
     * failure, only advice. */
    gw_certainty (*judge)(const gwi_case *c, gwi_finding *finding);
    /* gwi_judge_by_log() is asked where `judge` finds nothing: events show it only now and then, words tell of it. */
    bool is_told;
    /* What is worth knowing beside any verdict, a clean one too. NULL: nothing. False: no memory. */
    bool (*advise)(const gwi_case *c, gw_string_list *advice);
} gw_cause;

/* For causes of which what is printed tells (log_rules.def): does stderr speak of the cause that is asked? Nothing
 * where a driver call failed, the run ended well, or this build cannot read logs. */
gw_certainty gwi_judge_by_log(const gwi_case *c, gwi_finding *finding);
/* Does stderr tell of a cause that is more than the exception or the signal which it led to? */
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
