/* The interface of causes: the case, the finding and the cause itself.
 *
 * A cause judges a case and returns its certainty, with evidence in the finding. It uses only the model and the
 * case, which the engine derives from the model. docs/HOWTO_ADD_CAUSE.md is the guide, causes/template.c an empty
 * cause. */
#ifndef GWI_CAUSE_H
#define GWI_CAUSE_H

#include "gw_growth.h"
#include "gw_model_facts.h"
#include "gw_ranks.h"
#include "gw_signs.h"
#include "gw_text.h"
#include "gw_verdict.h"

/* ---- the case ---- */

/* The state of the memory when a request was refused for lack of memory. */
typedef struct gwi_memory {
    bool known;       /* the driver or a framework's allocator refused a request, and the program did not recover */
    bool from_stderr; /* the refusal is known only from a framework's message */
    bool has_pool;    /* if from_stderr: the message has the sums of the framework's pool */
    uint64_t pool_limit_bytes, pool_used_bytes;
    uint64_t t_ns;
    uint32_t pid;
    int device;
    const char *call;      /* what refused the request: "cuMemAlloc_v2", "PyTorch's allocator" */
    uint64_t wanted_bytes; /* size of the request; 0: for an object without a size, such as a stream */
    bool has_free, has_total, has_limit;
    uint64_t free_bytes, total_bytes;
    uint64_t limit_bytes; /* limit of the guard or of the framework, else the size of the card */
    bool limit_is_guard, limit_is_framework;
    bool card_free_known;                 /* card_free_bytes is known */
    uint64_t card_free_bytes, card_bytes; /* if limit_is_framework: free and total memory of the card; 0: unknown */
    bool limit_is_about;     /* limit_bytes is only a lower bound of the framework's limit, from a saved snapshot */
    uint64_t own_bytes;      /* allocated by the process and not freed */
    uint64_t reserved_bytes; /* reserved by a framework's allocator; 0: none or not known */
    bool foreign_known;      /* foreign_bytes was counted by the card or the ledger; false: not known */
    uint64_t foreign_bytes;  /* device memory held by other processes */
    uint32_t foreign_pid;    /* the process that holds most of foreign_bytes */
    char foreign_command[251];
    bool foreign_recorded;  /* the process `foreign_pid` belongs to this run */
    bool foreign_by_ledger; /* foreign_bytes counts only allocations of this run's processes, not their contexts */
    bool rest_known;
    uint64_t rest_bytes;         /* in use beyond all recorded allocations: contexts, streams, code, other programs */
    bool has_losses;             /* events were lost or damaged: those that show another cause may be among them */
    bool has_gaps;               /* own_bytes may be wrong, too: see case.c */
    const gw_pool_state *pools;  /* stream-ordered pools of the process; NULL: none, or not known */
    const gw_snapshot *snapshot; /* the ledger at the refusal; NULL: none */
    const gw_allocator_report *report; /* a framework's report of the refusal; NULL: none */
    const gw_live *live;               /* live blocks from `report`, else from `snapshot` */
    size_t live_count;
    gw_growth growth;
    uint64_t stream_count, context_count; /* number of live objects in the process */
    uint64_t made_context_count;          /* part of context_count: contexts other than the primary one */
    /* Other memory that may explain the refusal. The request might have fitted without this memory. */
    uint64_t idle_page_bytes; /* in half-used pages of small blocks */
    uint64_t cached_bytes;    /* reserved by a framework's allocator but not in use */
    /* The refused request did not come from the framework's allocator that `report` describes, such as one of cuBLAS.
     * It cannot use cached_bytes. */
    bool is_other_request;
    bool empty_known;                  /* empty_bytes is known */
    uint64_t empty_bytes;              /* part of cached_bytes that the framework can return to the driver */
    const gw_allocator_report *caught; /* an earlier out-of-memory error that the program survived; NULL: none */
    uint64_t caught_bytes;             /* bytes that were live at that error and are still live at the refusal */
} gwi_memory;

/* The kind of hang; hang.c explains how each kind is detected. */
typedef enum gwi_hang_kind {
    GWI_HANG_NONE,
    GWI_HANG_KERNEL,
    GWI_HANG_PEER,
    GWI_HANG_DEADLOCK,
    GWI_HANG_JOB /* all ranks of a job stand still, outside of the driver (job_hang.c) */
} gwi_hang_kind;
typedef struct gwi_hang {
    gwi_hang_kind kind;
    const gw_hang *hang;           /* NULL: no hang, or the hang is over */
    const gw_hang_thread *waiting; /* the thread that waits for the GPU; NULL: none */
    bool in_circle;                /* DEADLOCK: lock owners prove that the threads wait in a circle */
    bool is_off_record;            /* KERNEL: the rings no longer contain the launch that `waiting` waits for */
} gwi_hang;

/* Which rank keeps others waiting in NCCL (gwi_stall.h). */
typedef enum gwi_stall_kind {
    GWI_STALL_NONE,
    GWI_STALL_DIFFERS, /* two ranks made different calls where NCCL matches them */
    GWI_STALL_LEFT,    /* a rank ended, or destroyed the communicator, before a call in which others wait */
    GWI_STALL_CIRCLE,  /* two ranks wait for each other, on two communicators */
    GWI_STALL_BEHIND   /* a rank has not made the call in which others wait */
} gwi_stall_kind;
typedef struct gwi_stall {
    gwi_stall_kind kind;
    gw_certainty certainty;
    uint64_t id;     /* of the communicator */
    uint64_t number; /* of the collective; 0: the creation of the communicator, or point-to-point */
    bool is_p2p;
    /* Indexes in gw_ranks: the rank at fault (SIZE_MAX: it was not recorded), and one that waits. */
    size_t culprit, waiting;
    uint32_t culprit_rank; /* its rank in the communicator */
    size_t behind_count;   /* BEHIND: the number of ranks like the one at fault */
    uint64_t other_id;     /* CIRCLE: the communicator on which the rank at fault waits */
    uint64_t t_ns;         /* when `waiting` made the call */
    uint64_t t_gave_up_ns; /* when the first waiting rank died; UINT64_MAX: none did */
} gwi_stall;

typedef struct gwi_case {
    const gw_model *model;
    const gw_later *later;     /* borrowed; the machine that judges; NULL: not known */
    const gw_process *process; /* the process to judge; NULL: none was recorded */
    bool ended;                /* the end of the process or of the command is known */
    int exit_code;             /* -1: ended by a signal */
    int signal;
    bool bad_end;         /* a signal, an exit status other than 0, or is_thread_death */
    bool is_left_over;    /* not ended: an exception ended the program of `process`, whose interpreter waits in its
                             shutdown. It is judged as its end with status 1 would be. */
    bool is_thread_death; /* an exception ended a thread, and the program exited with status 0 */
    gw_framework framework;
    gw_exception_kind exception;
    /* Failures of the process that no earlier failure explains; NULL: none. The process recovered only from
     * `handled`. */
    const gw_failure *root;       /* the root failure, as determined by root.c */
    const gw_failure *oom;        /* first refused allocation from which the process did not recover */
    const gw_failure *oom_last;   /* last refusal of the same request as `oom` */
    const gw_failure *sticky;     /* first failure that destroyed the context */
    const gw_failure *other;      /* first failure of any other kind */
    const gw_failure *handled;    /* first allocation failure from which the program recovered */
    bool is_root_unsure;          /* the refusal may not have ended the run, so no cause is established: see root.c */
    bool is_root_unknown;         /* no output shows which refusal ended the run, or whether one did: see root.c */
    bool may_be_reported;         /* nothing shows whether the exception, of another line, reports the refusal `oom` */
    const gw_failure *start;      /* failed cuInit, or failed first context under an address-space limit */
    const gw_failure *no_context; /* the first context was refused for lack of memory, without an address limit */
    bool has_address_limit;       /* the address space was limited, as by ulimit -v */
    uint64_t address_limit_bytes;
    size_t handled_count;
    gwi_hang hang;              /* hang of the judged process */
    gw_ranks ranks;             /* owned; what each rank did last with NCCL */
    gwi_stall stall;            /* if its kind is not NONE, the judged process is the rank at fault */
    const gw_stderr_line *told; /* if no driver call failed: message of a framework that refused memory; NULL: none */
    gwi_memory memory;
    /* A text log, or the output of a program that ended badly (told.c); NULL: not read. */
    const struct gwi_log_case *text;
    /* The conclusion from `text`. NULL if the driver's events show why the run ended. */
    const struct gwi_conclusion *said;
} gwi_case;

gw_status gwi_case_open(const gw_model *model, gwi_case *ret_case, gw_error *err);
void gwi_case_close(gwi_case *c);

/* Write the name of a driver call without its version suffix to `out`, such as "cuMemAlloc". Returns `out`. */
enum { GWI_CALL_TEXT_MAX = 80 };
char *gwi_call_text(char out[GWI_CALL_TEXT_MAX], const char *fn_name);

/* Return the next failure of the same process. Returns NULL at the end. */
const gw_failure *gwi_failure_next(const gwi_case *c, const gw_failure *failure);

/* ---- what was observed (observed.c) ---- */

/* Return the number of processes whose driver calls were recorded. */
size_t gwi_observed_count(const gw_model *model);
/* Return the next fact about a part of the run that was not observed, or NULL after the last one. Pass the previous
 * fact, or NULL to get the first. */
const gw_pair *gwi_unseen(const gw_model *model, const gw_pair *after);
/* Return the first unobserved part that may have used a driver, or NULL if there is none. */
const gw_pair *gwi_unseen_driver(const gw_model *model);
/* True if no failed driver call can be missing: the recording reaches its end, or the present state of a run that still
 * runs, no block is damaged, no buffer was too full for a failed call, and no process had too many threads. */
bool gwi_is_whole(const gw_model *model);

/* True if events of the judged process at or after `t_ns` may be missing: some were lost, or blocks are damaged. */
bool gwi_lost_after(const gwi_case *c, uint64_t t_ns);

/* Whose actions could confirm an explanation. */
typedef enum gwi_concerns {
    GWI_OF_MACHINE, /* no process's: the machine's state, or a fact that no driver call can change */
    GWI_OF_PROCESS, /* those of the judged process */
    GWI_OF_RUN      /* those of any process of the run */
} gwi_concerns;
/* True if the recording is whole, and the driver calls of every concerned process were recorded: for the judged process
 * all of them, for the run at least those that failed. */
bool gwi_is_observed(const gwi_case *c, gwi_concerns concerns);

/* ---- the finding ---- */

/* The place that the verdict should name, and how to find it. */
typedef struct gwi_wanted_place {
    enum { GWI_WHERE_NONE, GWI_WHERE_CALL, GWI_WHERE_SECOND_RUN, GWI_WHERE_TRACEBACK } by;
    uint32_t site;    /* site of the call, for GWI_WHERE_CALL */
    const char *what; /* static; what happened at the place */
    /* For GWI_WHERE_TRACEBACK, borrowed from the program's output: the exception. NULL: the one that ended the run. */
    const struct gw_log_find *exception;
} gwi_wanted_place;

typedef struct gwi_finding {
    const struct gw_cause *cause; /* the cause being judged; NULL: none */
    gw_text headline;
    gw_evidence *evidence; /* owned */
    size_t evidence_count;
    struct gwi_ruled_out *ruled_out; /* owned; NULL: nothing. Only gwi_rule_out() can add to it. */
    gw_string_list consequences, next;
    gw_framework fixes_for; /* use the fixes for this framework; RAW: for the case's framework */
    bool failed;            /* no memory for a part of the finding */
    bool refutes_text;      /* a fact shows that the program's output is wrong about this cause, or leaves it open */
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
/* Set the weight of the evidence that was added last. If there are too many lines, the weight decides which are
 * printed. */
void gwi_weigh(gwi_finding *finding, gw_weight weight);
/* Rule out an explanation. Does nothing unless gwi_is_observed(). */
GWI_FORMAT(4)
void gwi_rule_out(const gwi_case *c, gwi_finding *finding, gwi_concerns concerns, const char *format, ...);
GWI_FORMAT(2) void gwi_consequence(gwi_finding *finding, const char *format, ...);
/* Add a next step. It is listed before the cause's own fixes. */
GWI_FORMAT(2) void gwi_next(gwi_finding *finding, const char *format, ...);
void gwi_finding_free(gwi_finding *finding);
/* Move the list of what is ruled out out of the finding. The caller owns it. */
gw_string_list gwi_take_ruled_out(gwi_finding *finding);
bool gwi_list_add(gw_string_list *list, const char *text);
GWI_FORMAT(2) bool gwi_list_addf(gw_string_list *list, const char *format, ...);
void gwi_list_free(gw_string_list *list);

/* Add the cause's fixes for the framework, or else its general fixes. Returns false if memory runs out. */
struct gw_cause;
bool gwi_add_fixes(gw_string_list *next, const struct gw_cause *cause, gw_framework framework);

/* Move the finding's headline, evidence and lists into the verdict. Returns false if there is no memory. */
bool gwi_take_words(gwi_finding *finding, gw_verdict *verdict);
/* Add an alternative, unless it is the verdict's cause or already listed. More certain ones come first. `cause` is
 * static. Returns false if memory runs out. */
bool gwi_add_alternative(gw_verdict *verdict, const char *cause, gw_certainty certainty);

/* Quote a line of the output (output.c). A line that was not seen is not quoted.
 * - gwi_say_line(): as evidence, after the words `intro`; gwi_say_line_count(): with the number of such lines
 * - gwi_line_follows(): as a consequence, with its time
 * - gwi_quote_line(): append its first 200 bytes to a text
 * - gwi_source_of(): the evidence's source: "python" for a line that was read from the interpreter, else "stderr" */
void gwi_say_line(const gwi_case *c, gwi_finding *finding, const gw_stderr_line *line, const char *intro);
void gwi_say_line_count(const gwi_case *c, gwi_finding *finding, const gw_stderr_line *line);
void gwi_line_follows(gwi_finding *finding, const gw_stderr_line *line);
void gwi_quote_line(gw_text *text, const gw_stderr_line *line);
const char *gwi_source_of(const gwi_case *c, const struct gw_log_find *find);

/* Report the refused request, the free memory, the limit and the process's memory: the first lines of every verdict
 * about memory. */
void gwi_say_request(const gwi_case *c, gwi_finding *finding);
/* Report the sum of the live memory, the refused request, contexts and other memory, and compare it with the limit. */
void gwi_say_sum(const gwi_case *c, gwi_finding *finding);
/* Plural ending for a count in a sentence: "1 block", "2 blocks". */
#define GWI_PLURAL(count) ((count) == 1 ? "" : "s")
/* Write a kernel's name without the mangled parameters: "at::native::fill" for "_ZN2at6native4fillE...". */
enum { GWI_KERNEL_TEXT_MAX = 160 };
char *gwi_kernel_text(char out[GWI_KERNEL_TEXT_MAX], const char *kernel);
/* Report which explanations the numbers rule out. `which` selects the explanations to check. */
enum { GWI_NOT_FOREIGN = 1, GWI_NOT_FRAGMENTED = 2, GWI_NOT_GROWTH = 4 };
void gwi_say_memory_ruled_out(const gwi_case *c, gwi_finding *finding, unsigned which);
/* Rule out that a driver call failed and ended the run. For causes that apply only if none did. */
void gwi_rule_out_failed_call(const gwi_case *c, gwi_finding *finding);
/* Write the name of a stream: "the default stream", "stream 0x7f..". */
enum { GWI_STREAM_TEXT_MAX = 32 };
const char *gwi_stream_text(char out[GWI_STREAM_TEXT_MAX], uint64_t stream);
/* Write the name of a process: "rank 3 (pid 123)", "pid 123". */
enum { GWI_WHO_TEXT_MAX = 64 };
char *gwi_who_text(char out[GWI_WHO_TEXT_MAX], const gw_process *process);
/* Write numbers as "3, 7-9, 12", and how many more there are if that is longer than the limit. `number` is sorted. */
enum { GWI_NUMBERS_TEXT_MAX = 96 };
char *gwi_numbers_text(char out[GWI_NUMBERS_TEXT_MAX], const uint32_t *number, size_t count);
/* True if the kernel was launched at or before `t_ns`, and no wait shows that it had ended by then. */
bool gwi_is_open_launch(const gw_ring_call *call, uint64_t t_ns);
/* True if the rings contain all launches since the process's last good synchronisation, which was at `synced_ns`. */
bool gwi_window_is_whole(const gwi_case *c, uint64_t synced_ns);
/* Report when the fault happened: the last good synchronisation and the launches after it. gwi_say_sticky() includes
 * this. */
void gwi_say_window(const gwi_case *c, gwi_finding *finding, const gw_failure *sticky);
/* Report a sticky fault: the call that first returned it, the time window in which it happened, and whether a device
 * reset helps. */
void gwi_say_sticky(const gwi_case *c, gwi_finding *finding, const gw_failure *sticky, const char *what);
/* List the process's failures after `after` as consequences. */
void gwi_say_consequences(const gwi_case *c, gwi_finding *finding, const gw_failure *after);

/* Return the source of the list `live` as the static name that evidence uses, such as "ledger". */
const char *gwi_memory_source(const gwi_memory *memory);

/* Memory that iterations kept (iterations.c):
 * - gwi_loop_certainty(): how certain it is that a leak in a loop explains the refusal
 * - gwi_objects_may_hold(): objects such as more contexts may hold so much memory that the request did not fit
 * - gwi_loop_is_balanced(): the iterations freed everything, and objects do not explain it. This rules out a leak.
 * - gwi_say_loop_leak(): set the headline, the evidence and the place of a leak
 * - gwi_say_loop(): add evidence about iterations that are not a leak */
gw_certainty gwi_loop_certainty(const gwi_memory *memory);
bool gwi_objects_may_hold(const gwi_memory *memory);
bool gwi_loop_is_balanced(const gwi_memory *memory);
/* Return the bytes that iterations, or an earlier run in the same process, left behind. 0: no leak. */
uint64_t gwi_leak_bytes(const gwi_memory *memory);
/* True if a leak of more than `bytes` explains the refusal better than other memory of that size does, or if lost
 * events may hide one. */
bool gwi_may_leak_more(const gwi_memory *memory, uint64_t bytes);
/* Return the bytes that were still held when their place requested memory again, after kernels had run and the host had
 * waited: perhaps the old model while a new one is built. 0: none, or too little to explain the refusal. */
uint64_t gwi_held_while_built_again(const gwi_memory *memory);
void gwi_say_loop_leak(const gwi_case *c, gwi_finding *finding);
void gwi_say_loop(const gwi_case *c, gwi_finding *finding);

/* Write a call site as text (where.c), or "" for an unknown one.
 * - gwi_place(): "train.py:41 in load_batch, called at train.py:88 in main"
 * - gwi_at(): " at train.py:41 in load_batch", to be appended to a sentence */
enum { GWI_PLACE_TEXT_MAX = 600 };
char *gwi_place(const gwi_case *c, uint32_t site, char out[GWI_PLACE_TEXT_MAX]);
char *gwi_at(const gwi_case *c, uint32_t site, char out[GWI_PLACE_TEXT_MAX]);
/* Write where the process was forked, for example by Python's multiprocessing; "" if unknown. The place is in the
 * stack of the child's call. */
char *gwi_fork_place(const gwi_case *c, uint32_t site, char out[GWI_PLACE_TEXT_MAX]);
/* Set the place of the verdict, replacing an earlier one. `what` is static: what happened there, such as "the
 * request that was refused". */
void gwi_where(gwi_finding *finding, uint32_t site, const char *what);
/* Set the place from the stack that the second run (--blame) found. */
void gwi_where_in_second(gwi_finding *finding, const char *what);
/* Set the place to the line of the Python exception that ended the program. If the exception is about the GPU, its
 * line also replaces a place whose stack is unknown. */
void gwi_where_raised(gwi_finding *finding);
/* Report which place allocated most of `live`, and make it the verdict's place; false: unknown. `of_what` names the
 * blocks: "the memory kept". */
bool gwi_say_holder(const gwi_case *c, gwi_finding *finding, uint64_t t_ns, const char *source, const gw_live *live,
                    size_t count, const char *of_what);
/* Report which lines and phases hold the live memory of a framework's allocator (lines.c). Does not replace the
 * verdict's place. */
void gwi_say_live_holder(const gwi_case *c, gwi_finding *finding, const char *of_what);
/* Report which places held memory at the peak, if the peak was before `report`. Does nothing if `report` is NULL.
 * gwi_advise_peak() adds these facts as advice on a healthy run. */
void gwi_say_peak(const gwi_case *c, gwi_finding *finding, const gw_allocator_report *report);
bool gwi_advise_peak(const gwi_case *c, uint32_t pid, gw_string_list *advice); /* false: no memory */
/* Report the phase that the program had named when the failure happened. */
void gwi_say_phase(const gwi_case *c, gwi_finding *finding);
/* Return the name of the phase in which the failure happened. Returns NULL if there was no phase, or if it was the
 * same at `before_ns`. */
const char *gwi_later_phase(const gwi_case *c, uint64_t before_ns);
uint32_t gwi_request_site(const gwi_case *c); /* site of the refused request that ended the run; 0: not known */
/* For the engine: resolve the place that gwi_where() set, and store it in the verdict. Returns false if there is no
 * memory. */
bool gwi_take_where(const gwi_case *c, const gwi_finding *finding, gw_verdict *verdict);
void gwi_where_free(gw_where *where); /* NULL is allowed */
gw_where *gwi_where_copy(const gw_where *where);
/* Resolve the place of a site. *ret_where is NULL if it is unknown. `what` is static. Returns false, and sets NULL,
 * if memory runs out. */
bool gwi_where_at(const gwi_case *c, uint32_t site, const char *what, gw_where **ret_where);

/* Return the bytes that the process's stream-ordered pools have reserved but do not use. */
uint64_t gwi_pool_idle_bytes(const gwi_memory *memory);
/* True if the request would have fitted with `freed_bytes` more free memory. */
bool gwi_would_fit(const gwi_memory *memory, uint64_t freed_bytes);
/* Return how many bytes of the framework's pool were unused, if they are many and as many as were requested. 0: not. */
uint64_t gwi_pool_in_pieces(const gwi_memory *memory);
/* Report the sums of the framework's pool. */
void gwi_say_pool_sums(const gwi_case *c, gwi_finding *finding);
/* True if another library's request was refused that would have fitted if the framework had returned its cache. The
 * whole cache counts if it is not known which part could have been returned. */
bool gwi_cache_may_explain(const gwi_memory *memory);
/* True if another library's request was refused that would have fitted without the framework's unused cache, and this
 * cache is at least half as large as the live memory. It may be in pieces that cannot be returned. Then a fault of the
 * live memory, such as a leak, does not explain the refusal by itself. */
bool gwi_cache_is_much(const gwi_memory *memory);
/* Return the bytes that the process kept from others. Unlike own_bytes, this includes the framework's unused cache if
 * the refused request could not use it. */
uint64_t gwi_kept_from_others(const gwi_memory *memory);

void gwi_verdict_job_free(gw_verdict_job *job); /* takes NULL */
void gwi_verdict_run_free(gw_verdict_run *run); /* what the run owns */

/* ---- the cause ---- */

typedef struct gw_cause {
    const char *id;      /* name in the catalogue (`gpuwhy causes`) */
    const char *summary; /* one sentence about the cause */
    const char *proof;   /* the evidence that establishes the cause, as a noun phrase */
    /* Fixes for each framework, one per line, best first. NULL: use the general fixes, which are at index
     * GW_FRAMEWORK_RAW and are required. */
    const char *fixes[GW_FRAMEWORK_COUNT];
    /* Use the cause only if no other cause explains the failure. If a cause in an earlier row of causes.def is
     * supported, this one is at most a hypothesis. If an earlier one is established, this one is dropped. */
    bool is_remainder;
    /* How far the cause is from the root: a kernel's fault may follow from a broken card or a refused request, and the
     * way in which the program ended, such as an exception, may follow from anything. An established cause explains the
     * causes of greater depth, which are then no alternatives. */
    enum { GWI_IS_ROOT, GWI_IS_FAULT, GWI_IS_END } depth;
    const char *excludes; /* id of a cause that the evidence for this one refutes, if it is established; NULL: none */
    /* How a replay of PyTorch's allocator belongs to the verdict (topics/gwi_whatif.h). LEAK: settings cannot cure it.
     */
    enum { GWI_NO_REPLAY, GWI_REPLAY, GWI_REPLAY_OF_LEAK } replay;
    /* If the cause is at least supported, the causes after it in causes.def are not judged. */
    bool is_sole;
    /* Return the certainty by facts of the recording. If it is GW_CERTAINTY_NONE, the content of `finding` is dropped.
     * The engine also judges each cause by the program's output (gwi_judge_by_text()). NULL: no fact shows the cause.
     */
    gw_certainty (*judge)(const gwi_case *c, gwi_finding *finding);
    /* Add advice to any verdict, even a clean one. Returns false if there is no memory. NULL: the cause gives no
     * advice. */
    bool (*advise)(const gwi_case *c, gw_string_list *advice);
} gw_cause;

/* The program's output as evidence, if no driver call shows why the run ended (told.c). Otherwise the results are false
 * and NONE.
 * - gwi_is_told(): the text shows this cause, gwi_is_told_another(): it shows another one
 * - gwi_judge_by_text(): judge finding->cause by the text alone, and report the lines that show it
 * - gwi_where_told(): if the text shows finding->cause, and the finding has no place, take that of the exception
 * - gwi_say_told(): report the line that decided for another cause than finding->cause
 * - gwi_is_decided_by(): the deciding line has this sign, with this field if it is not NULL
 * - gwi_is_just_the_end(): the cause only says how a program ended, not why
 * - gwi_is_log(): the case is a text log; its model has no events */
struct gw_cause;
bool gwi_is_log(const gwi_case *c);
bool gwi_is_told(const gwi_case *c, const struct gw_cause *cause);
bool gwi_is_told_another(const gwi_case *c, const struct gw_cause *cause);
gw_certainty gwi_judge_by_text(const gwi_case *c, gwi_finding *finding);
void gwi_where_told(const gwi_case *c, gwi_finding *finding);
void gwi_say_told(const gwi_case *c, gwi_finding *finding);
bool gwi_is_decided_by(const gwi_case *c, gw_sign sign, const char *field);
bool gwi_is_just_the_end(const char *cause);
/* Lines of the output as facts, whatever ended the run.
 * - gwi_said(): the first line whose most likely cause is `cause`; NULL: none. A line that the program survived does
 * not count.
 * - gwi_is_said_last(): the line is the last one of the output, written in the last five seconds of the run
 * - gwi_say_said(): report the line as evidence; gwi_said_t_ns(): when it was recorded
 * - gwi_said_last_code(): the last line with the name, the number or the text of a CUDA error; gwi_said_code(): its
 *   number */
struct gw_log_find;
const struct gw_log_find *gwi_said(const gwi_case *c, const struct gw_cause *cause);
bool gwi_is_said_last(const gwi_case *c, const struct gw_log_find *said);
void gwi_say_said(const gwi_case *c, gwi_finding *finding, const struct gw_log_find *said);
uint64_t gwi_said_t_ns(const gwi_case *c, const struct gw_log_find *said);
const struct gw_log_find *gwi_said_last_code(const gwi_case *c);
unsigned gwi_said_code(const struct gw_log_find *said);

#define GWI_CAUSE(name, again, acts) extern const gw_cause gwi_cause_##name;
#include "causes.def"
#undef GWI_CAUSE

enum {
#define GWI_CAUSE(name, again, acts) GWI_CAUSE_PLACE_##name,
#include "causes.def"
#undef GWI_CAUSE
    GWI_CAUSE_COUNT
};
extern const gw_cause *const gwi_causes[GWI_CAUSE_COUNT]; /* in the order of causes.def */
extern const gw_again gwi_causes_again[GWI_CAUSE_COUNT];  /* second column of causes.def */
extern const unsigned gwi_causes_acts[GWI_CAUSE_COUNT];   /* third column */
/* Return the cause with this id. Returns NULL if there is none. */
const gw_cause *gwi_cause_of(const char *id);

#endif
