/* The verdict on one run: what the facts of the model prove. The texts are final, and render/ only formats them.
 *
 * Without enough evidence, gw_judge() returns a verdict with the status UNDETERMINED, not an error. The verdict
 * owns all its strings. It does not need the model any more. */
#ifndef GW_VERDICT_H
#define GW_VERDICT_H

#include "gw_hash.h"
#include "gw_ranks.h"
#include "gw_status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct gw_model gw_model;
typedef struct gw_log gw_log;

typedef enum gw_verdict_status { GW_VERDICT_FAULT, GW_VERDICT_CLEAN, GW_VERDICT_UNDETERMINED } gw_verdict_status;

/* In rising order, so that certainties can be compared. */
typedef enum gw_certainty { GW_CERTAINTY_NONE, GW_HYPOTHESIS, GW_SUPPORTED, GW_ESTABLISHED } gw_certainty;

/* The importance of a line of evidence. If there is no room for all lines, the less important ones are not printed. */
typedef enum gw_weight {
    GW_WEIGHT_PLAIN,
    GW_WEIGHT_DECIDES, /* the failure itself, or a proof of its cause */
    GW_WEIGHT_ASIDE    /* repeats another line, or adds a detail */
} gw_weight;

/* One line of evidence. If `has_value` is false, the line is only text. */
typedef struct gw_evidence {
    uint64_t t_ns; /* since the run began */
    bool has_time;
    char *text;
    bool has_value;
    double value;
    const char *unit;   /* static: "bytes", "count", "ms", "calls", "" */
    const char *source; /* static: "driver", "ledger", "observer", "stderr", "output", "python", "exit", "driver log",
                           "core dump", "dump", "second run", "card", "kernel log", "host", "log", "library log",
                           "tables", "last good run", "earlier runs", "replay", "injection" */
    gw_weight weight;
} gw_evidence;

typedef struct gw_alternative {
    const char *cause; /* static id */
    gw_certainty certainty;
    /* static: the cause in a sentence, and what proves it; NULL unless the verdict is the answer to a question */
    const char *summary, *told_by;
} gw_alternative;

typedef struct gw_string_list {
    char **item; /* owned */
    size_t count;
} gw_string_list;

/* Where and when a run took place, and when its first trouble began: a failure, a hang or a bad end. Used to order
 * the recordings of one job. */
typedef struct gw_verdict_run {
    char *host, *boot_id; /* owned; NULL: not recorded */
    char *cwd;            /* owned; working directory of the command; NULL: not recorded */
    uid_t owner;          /* of the recording, as gw_reader_owner() */
    bool has_start;
    uint64_t start_realtime_ns, start_monotonic_ns; /* monotonic times can be compared only within one boot */
    bool clock_known;                               /* clock_error_ns was read from the kernel; false: it is 0 */
    bool clock_synchronised;
    uint64_t clock_error_ns; /* maximum error of the realtime clock at the start of the run */
    bool has_trouble;
    uint64_t t_trouble_ns; /* since the run began */
    /* How bad the trouble was:
     * - 2: the context was lost, or memory was refused
     * - 1: a hang, or another bad end
     * - 0: the run ended well, was ended from outside, or failed because of another rank */
    unsigned trouble_weight;
    uint32_t pid; /* 0: not known */
    bool has_rank;
    uint32_t rank;
    uint32_t *ranks; /* owned; the ranks of all processes of the run; empty: not known */
    size_t rank_count;
    uint32_t world;  /* number of ranks of the job, as the launcher set it; 0: not known */
    char *job;       /* owned; job and launch, such as "slurm 123.0"; NULL: not known */
    bool is_cut;     /* the recording stops without an end: the machine or gpuwhy died, or the program still runs */
    const char *cut; /* static: why it stops, such as "gpuwhy was killed"; NULL: it has an end */
    bool is_damaged; /* blocks of the recording were skipped */
} gw_verdict_run;

/* A recording that was judged together with others. */
typedef struct gw_verdict_part {
    char *host, *recording, *headline; /* owned; NULL: not known */
    bool has_rank;
    uint32_t rank;
    gw_verdict_status status;
    const char *cause; /* static id; NULL: none */
    bool has_offset;
    double offset_s;      /* seconds from the root's trouble to this run's trouble; negative: this run's was earlier */
    double uncertainty_s; /* possible error of offset_s, in seconds */
} gw_verdict_part;

/* What is known of all recordings of a job together. */
typedef struct gw_verdict_job {
    size_t host_count;               /* number of machines */
    size_t cut_count, damaged_count; /* number of recordings that stop without an end; with damaged blocks */
    uint32_t world;                  /* number of ranks as the launcher set it; 0: not known */
    uint32_t *missing;               /* owned; the ranks without a readable recording, in rising order */
    size_t missing_count;
    gw_string_list unread; /* recordings that could not be read: "path: reason" */
} gw_verdict_job;

/* A block of device memory that was live at the failure. */
typedef struct gw_verdict_block {
    uint64_t address, bytes, t_ns;
    bool has_time; /* t_ns, the time of the allocation, is known */
} gw_verdict_block;

/* Memory that was live at the failure, grouped by the phase in which it was allocated. */
typedef struct gw_verdict_kept {
    char *phase;     /* owned; NULL: allocated outside all phases */
    bool time_known; /* false: allocation time and phase of these blocks are unknown */
    uint64_t bytes, count;
    uint64_t t_first_ns, t_last_ns;
    gw_verdict_block *block; /* owned; the largest blocks; NULL unless the user asked for one phase */
    size_t block_count;
} gw_verdict_kept;

/* The place that a verdict names: a stack, and the index of the user's frame. gw_sites.h defines which frame is the
 * user's. */
typedef struct gw_where_frame {
    char *function, *file;       /* owned; NULL: not known */
    char *module;                /* owned; mapped file of a native frame; NULL: not known, or Python */
    char *text;                  /* owned; the frame in short: "train.py:41 in load_batch" */
    uint64_t address;            /* native frames only: address as in the module's symbol table */
    uint32_t line;               /* 0: not known */
    uint32_t column, column_end; /* part of the line that was running, as in gw_frame; column_end 0: not known */
    const char *whose;           /* static: "own", "user", "package", "framework", "runtime"; NULL: not known */
    bool python;
    bool inlined; /* a native frame that was inlined into the next frame */
} gw_where_frame;
typedef struct gw_where {
    const char *what;      /* static: what happened at this place */
    gw_where_frame *frame; /* owned; innermost first */
    size_t frame_count;
    size_t user;                     /* index of the user's frame */
    char sha256[GW_SHA256_TEXT_MAX]; /* of the file of the user's frame, during the run; "": not recorded */
    gw_string_list notes;            /* about missing parts of the stack */
} gw_where;

/* Objects of one kind that were created at one place and never freed. */
typedef struct gw_verdict_leak {
    const char *kind; /* static: "stream", "plain", ... */
    char *call;       /* owned; driver call that created the objects */
    uint32_t pid;
    uint64_t made, left; /* number created; number never freed: live at the end, or destroyed with their context */
    uint64_t bytes;      /* size of the objects in `left`; 0: they have no size, or are memory of another process */
    uint64_t t_first_ns, t_last_ns;
    gw_where *where; /* owned; NULL: not known */
} gw_verdict_leak;

/* Phases of one process that have the same name, apart from a number at its end: the turns of a loop, such as folds. At
 * the end of the last turn, the process held more device memory than at the end of the first one. */
typedef struct gw_verdict_turns {
    char *phase; /* owned; name of the last turn */
    uint32_t pid;
    uint64_t count; /* of turns */
    uint64_t bytes; /* how much more */
} gw_verdict_turns;

/* Device memory, and managed memory, that a run left to the driver although it ended well. */
typedef struct gw_verdict_unfreed {
    bool is_strict;              /* --leaks strict: all of it is in `leaks`, too */
    const char *unknown_because; /* static, or borrowed from the verdict's `incomplete`; NULL: it is known */
    uint64_t bytes;              /* allocated and never freed, or destroyed with its context */
    gw_verdict_leak *place;      /* owned; by process, the 16 largest of each, the largest first */
    size_t place_count;
    gw_verdict_turns *turns; /* owned; only those of which `bytes` is not 0 */
    size_t turns_count;
} gw_verdict_unfreed;

/* An attempt of `gpuwhy run --restart` or --rescue. */
typedef struct gw_verdict_attempt {
    uint32_t number;                    /* from 1 */
    bool again;                         /* another attempt followed */
    char *cause;                        /* owned, like all texts; NULL: none, or not known */
    char *headline, *ended, *recording; /* NULL: not known */
    char *why;                          /* reason for the decision that followed; NULL: not known */
    char *change;                       /* what was different in the next attempt; NULL: nothing */
    char *proof;                        /* why that should help; NULL: not known beforehand */
    char *resumed;                      /* the checkpoint from which the next attempt goes on; NULL: none */
    double seconds;                     /* how long it ran; 0: not known */
    double kept_seconds;                /* of these, until that checkpoint was written */
} gw_verdict_attempt;

/* A known problem of a library's version (data/regressions.tsv) that may explain the end of the program. */
typedef struct gw_verdict_known {
    char *text;                /* owned; "PyTorch 2.9.0 computes conv3d in bf16 without cuDNN" */
    const char *cure, *source; /* static */
    gw_certainty certainty;    /* supported: the program used what is broken; hypothesis: only the versions match */
} gw_verdict_known;

/* One possible meaning of the code, name or message that the user asked about (instead of a recording or a log). */
typedef struct gw_verdict_meaning {
    const char *kind; /* static: "CUDA error", "cuDNN 9 status", "Xid", "exit status", "signal", "message" */
    bool has_code;
    int code;
    char *name, *meaning, *hint; /* owned; NULL: none, or not known */
    const char *verified;        /* static: "no", "partly", "yes": code and name are in the vendor's own text */
    const char *source;          /* static: where the meaning was found; NULL: the operating system, or the message */
} gw_verdict_meaning;
typedef struct gw_verdict_question {
    char *text;                  /* owned */
    gw_verdict_meaning *meaning; /* owned; most likely first; NULL: not known */
    size_t meaning_count;
    const char *command, *tells; /* static: command that shows which cause is right, and what it prints; NULL: none */
    gw_string_list misleading;   /* common but misleading advice about the code */
} gw_verdict_question;

/* A rehearsal: a run whose device memory existed only in books, and that computed nothing. The numbers are those of the
 * process and card with the highest peak. */
typedef enum gw_fits { GW_FITS_UNKNOWN, GW_FITS, GW_FITS_NOT } gw_fits;
typedef struct gw_verdict_rehearsal {
    gw_fits fits;
    int device;
    uint32_t pid;
    size_t card_count;    /* processes and cards that were rehearsed together */
    uint64_t limit_bytes; /* the card asked for */
    uint64_t real_bytes;  /* the card of this machine */
    uint64_t peak_bytes;  /* the most that the process held, asked_bytes + driver_bytes */
    uint64_t asked_bytes, driver_bytes;
    uint64_t t_peak_ns;
    char *place;                                     /* owned; where the peak was reached; NULL: not known */
    uint64_t torch_live_bytes, torch_reserved_bytes; /* 0: not known */
    uint64_t equal_iterations, launches_each;        /* 0: iterations did not become equal */
    bool was_ended;                                  /* gpuwhy ended the program */
    bool timed;                                      /* the program measured times, which are made up */
    uint64_t refusal_count;                          /* refused requests for memory */
    gw_string_list refused;                          /* calls that a rehearsal does not support */
    gw_string_list sizes;  /* where a size was read from the card: "train.py:40 in forward (nonzero)" */
    gw_string_list values; /* where other small values were read */
} gw_verdict_rehearsal;

/* The most device memory that one process of the run held on one card: memory that it requested and had not freed. In a
 * rehearsal it includes the driver's own memory. Managed memory is not counted. */
typedef struct gw_verdict_peak {
    bool is_known; /* false: part of the run was not observed or not recorded */
    uint64_t bytes;
    int device; /* the number of the card; only valid if `bytes` is not 0 */
    uint32_t pid;
} gw_verdict_peak;

typedef struct gw_verdict {
    gw_verdict_status status;
    const char *cause; /* static id; NULL when clean or undetermined */
    gw_certainty certainty;
    char *headline;
    gw_evidence *evidence;
    size_t evidence_count;
    gw_alternative *alternatives;
    size_t alternative_count;
    gw_string_list ruled_out;    /* excluded explanations: "other processes (0 B)" */
    gw_string_list consequences; /* later errors that are consequences of the root */
    gw_string_list next;         /* fixes, best first */
    gw_string_list left_alone;   /* one sentence for each stream with work that nothing has waited for */
    gw_string_list advice;       /* about wasted time of a healthy run, handled failures, ... */
    gw_where *where;             /* owned; NULL: not known, see where_reason */
    char *where_reason;          /* why the place or its line is missing; NULL: nothing is missing */
    /* the program, for the headline */
    gw_string_list argv;
    bool exit_known;
    int exit_code; /* -1: a signal ended the program */
    int signal;
    double seconds;
    struct gw_verdict_gpu {
        char *name;
        uint64_t bytes_total;
        uint64_t bytes_limit; /* limit that the user set (--memory); 0: none */
        bool is_virtual;
    } * gpus;
    size_t gpu_count;
    gw_verdict_peak peak;
    char *incomplete;          /* owned; what the recording lacks of the run, not a sentence; NULL: nothing */
    bool is_coverage_known;    /* the next two fields are valid; false: no recording was judged */
    size_t observed_count;     /* number of processes whose driver calls were recorded */
    gw_string_list unobserved; /* parts of the run that were not observed, one sentence each */
    char *recording;           /* path; NULL: none */
    bool is_interrupt; /* the user ended the program with Ctrl-C in its terminal; nothing else is known to be wrong */
    bool is_hang;      /* the judged process hangs because of the GPU or of locks, or a rank waits in NCCL */
    gw_verdict_run run;
    gw_ranks ranks;         /* owned; for the comparison with other recordings; empty: none used NCCL */
    gw_verdict_part *parts; /* owned; empty: the recording was judged alone */
    size_t part_count;
    gw_verdict_job *job; /* owned; NULL: the recording was judged alone */
    char *log;           /* names of the judged text logs; NULL: no log was judged */
    char *snapshot;      /* path of the judged file that another program saved; NULL: no such file was judged */
    char *snapshot_kind; /* owned; what `snapshot` is: "PyTorch memory snapshot" */
    gw_verdict_question *question; /* owned; NULL: no question was asked */
    /* the failure that the verdict is about */
    bool has_failure;
    uint64_t t_failure_ns;
    char *failure_phase;   /* owned; NULL: outside all phases */
    bool context_lost;     /* no further GPU call of the failed process can succeed */
    gw_verdict_kept *kept; /* live memory by phase, largest first; empty: the program names no phases */
    size_t kept_count;
    gw_verdict_leak *leaks; /* only for a clean run; by process, the 64 largest of each first */
    size_t leak_count;
    gw_verdict_unfreed unfreed;
    gw_verdict_rehearsal *rehearsal; /* owned; NULL: the run was no rehearsal */
    gw_verdict_attempt *attempts;    /* owned; in order, up to the judged one; empty without --restart */
    size_t attempt_count;
    uint32_t attempts_max;
    gw_verdict_known *known; /* owned; most certain first */
    size_t known_count;
    gw_string_list interventions; /* what gpuwhy did to the run because an option requested it, one sentence each */
    int needed_port;              /* the port that was in use; 0: not known, or not the cause */
    char *wrong_driver;           /* owned; path of the driver library that should not have been loaded; NULL: none */
    int lost_device;              /* CUDA's number of the card that stopped responding; -1: none, or not known */
    int needed_device;            /* CUDA's number of the card; only valid if needed_bytes is not 0 */
    uint64_t
        needed_bytes; /* memory that the failed process needed on its card; 0: not known, or memory is not the cause */
} gw_verdict;

/* The machine on which a recording is judged, perhaps long after the run. */
typedef struct gw_later {
    const char *host, *boot_id; /* borrowed; "": not known */
    uint64_t boot_realtime_ns;  /* when the machine started; 0: not known */
} gw_later;

/* Like gw_judge(), and find out from `later` why the recording has no end. NULL: nothing is known. */
GW_MUST_CHECK gw_status gw_judge_later(const gw_model *model, const gw_later *later, gw_verdict **ret_verdict,
                                       gw_error *err);
/* Judge a recording. The caller frees the verdict. GW_NOMEM: no memory. */
GW_MUST_CHECK gw_status gw_judge(const gw_model *model, gw_verdict **ret_verdict, gw_error *err);
/* Judge a text log with the same catalogue of causes as a recording. A log proves less, so the certainty is usually
 * lower. Errors: GW_NOMEM. */
GW_MUST_CHECK gw_status gw_judge_log(const gw_log *log, gw_verdict **ret_verdict, gw_error *err);
/* List the possible causes of a code or a name: "700", "Xid 79", "CUDNN_STATUS_NOT_INITIALIZED", "exit 137". A code
 * alone proves nothing. So the verdict is UNDETERMINED and lists the causes as alternatives, most likely first.
 * Errors: GW_MISSING if `question` is not a known code or name; GW_NOMEM. */
GW_MUST_CHECK gw_status gw_judge_question(const char *question, gw_verdict **ret_verdict, gw_error *err);
/* Judge a single message as a log, and list the meanings of its codes. A code alone is no fault: the message must
 * have decisive numbers or name a cause. Errors: GW_NOMEM. */
GW_MUST_CHECK gw_status gw_judge_message(const gw_log *log, const char *message, gw_verdict **ret_verdict,
                                         gw_error *err);
/* Choose among verdicts on one run that were judged from different evidence, in the order of its strength: recordings,
 * saved files, logs. `count` is at least 1. Returns the index of the first of:
 * - a fault that is supported, and not a wait for another rank
 * - a rank that the others wait for, supported
 * - a program that somebody else ended
 * - a hypothesis
 * - a run without a fault
 * - any verdict */
size_t gw_verdict_best(const gw_verdict *const *verdict, size_t count);
void gw_verdict_free(gw_verdict *verdict); /* takes NULL */
/* Add evidence without a time, from a source outside the recording. `source` is static. False: no memory. */
bool gw_verdict_add_evidence(gw_verdict *verdict, const char *source, const char *text);

const char *gw_certainty_text(gw_certainty certainty);        /* "established", ... */
const char *gw_verdict_status_text(gw_verdict_status status); /* "fault", "clean", "undetermined" */

/* Whether the same command can succeed if it is started again after a failure (`gpuwhy run --restart`). */
typedef enum gw_again {
    GW_AGAIN_PERMANENT, /* it fails in the same way until somebody changes something */
    GW_AGAIN_TRANSIENT, /* the failure may not happen again */
    GW_AGAIN_WAIT       /* it can succeed as soon as others have released what they hold */
} gw_again;

/* What `gpuwhy run --rescue` may change for the next attempt, in this order. */
typedef enum gw_act {
    GW_ACT_NONE = 0,           /* nothing that gpuwhy can change helps */
    GW_ACT_GROWTH = 1 << 0,    /* let the framework take memory as it needs it */
    GW_ACT_ALLOCATOR = 1 << 1, /* a setting of PyTorch's allocator that a replay shows to help */
    GW_ACT_LIBRARY = 1 << 2,   /* leave out the folder of LD_LIBRARY_PATH whose library was the wrong one */
    GW_ACT_CARDS = 1 << 3,     /* go on without the lost card */
    GW_ACT_WORKERS = 1 << 4,   /* fewer processes that load data */
    GW_ACT_NUMBERS = 1 << 5,   /* another batch, precision or size */
    GW_ACT_RESUME = 1 << 6     /* go on from the last checkpoint, although it will fail again */
} gw_act;

/* The catalogue of causes, for `gpuwhy causes`. Static. */
enum { GW_CAUSE_FRAMEWORKS = 3 };
typedef struct gw_cause_info {
    const char *id;
    const char *summary; /* one sentence */
    const char *proof;   /* the evidence that establishes the cause */
    const char *fixes;   /* best first, separated by newlines */
    struct gw_cause_fixes {
        const char *framework, *fixes; /* NULL `fixes`: use the general fixes */
    } fixes_for[GW_CAUSE_FRAMEWORKS];
    bool from_recording; /* false: no recorded event shows this cause, only messages */
    bool is_advice;      /* only gives advice; never the cause of a failure */
    gw_again again;
    unsigned acts; /* of gw_act */
} gw_cause_info;
/* Return all causes, in the order of the catalogue. Static. */
const gw_cause_info *gw_causes(size_t *ret_count);
/* Return the cause with this id. Static. NULL if there is none. */
const gw_cause_info *gw_cause_find(const char *id);

/* Return the id of a cause, or the name of an error or status, that is similar to `word`; NULL: none. The text is
 * static. */
const char *gw_suggest_name(const char *word);

/* A kind of log line that points to a cause. The strings are static. */
typedef struct gw_cause_line {
    const char *sign;    /* what stands before its value: "CUDA error"; NULL: the sign has no value */
    const char *which;   /* value of the sign: "700", "ALLOC_FAILED NOT_INITIALIZED"; NULL: any */
    const char *example; /* an example line, shortened; NULL: none */
    const char *pattern; /* regular expression of such lines; NULL: none */
    bool is_first;       /* this cause is the most likely one for such a line */
    bool is_only;        /* such a line has no other known cause */
} gw_cause_line;
/* List the log lines that point to a cause, most likely first. Returns their number, at most `count_max`. */
size_t gw_cause_lines(const char *id, gw_cause_line *ret_lines, size_t count_max);

/* A search result: a cause that matches at least one of the words. */
typedef struct gw_cause_hit {
    const gw_cause_info *cause;
    size_t word_count; /* number of the words that matched */
    unsigned weight;   /* sum over these words; a match in the id weighs most */
} gw_cause_hit;
/* Find causes with at least one of these words in their id, summary, fixes, proof or log lines, ignoring case.
 * Sorted by the number of matching words, then by weight. Returns their number, at most `count_max`. */
size_t gw_causes_search(const char *const *words, size_t word_count, gw_cause_hit *ret_hits, size_t count_max);

#endif
