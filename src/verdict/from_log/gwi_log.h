/* Judges text logs. log_case.c turns finds into statements, log_memory.c evaluates the sums of out-of-memory messages,
 * and judge_log.c decides. Only for src/verdict. */
#ifndef GWI_LOG_H
#define GWI_LOG_H

#include "gw_logs.h"
#include "gw_version.h"
#include "gwi_cause.h"

/* A CUDA error has a number, whichever sign matched it. */
enum { GW_SAYS_CUDA = GW_SIGN_COUNT, GW_SAYS_NOTHING };

/* In rising order: a deeper statement explains the others. */
typedef enum gwi_depth { GWI_LAST, GWI_ECHO, GWI_DIRECT, GWI_ROOT } gwi_depth;

enum { GWI_LOG_CAUSES_MAX = 9 };

/* A line that reports a problem. */
typedef struct gwi_statement {
    const gw_log_find *find;
    gwi_depth depth;
    gw_certainty certainty;                /* certainty of the first cause */
    const char *cause[GWI_LOG_CAUSES_MAX]; /* most likely first; static ids of the catalogue */
    size_t cause_count;
    char why[256];      /* what else in the log was decisive; "": nothing */
    bool is_impossible; /* a size that no card has */
    bool survived;      /* the program went on with its work afterwards */
} gwi_statement;

/* A frame of the user's code in a traceback or in a native stack. */
enum { GWI_LOG_FRAMES_MAX = 8 };
typedef struct gwi_log_frame {
    const gw_log_find *find;
    const char *function; /* NULL: not known; borrowed from the log */
    char file[256];       /* "train.py", "In [3]"; native: the module */
    uint32_t line;        /* 0: not known */
    bool python;
} gwi_log_frame;

/* The framework, card and driver that the log names. Texts are borrowed from the log. */
typedef struct gwi_log_context {
    const char *framework;    /* static: "PyTorch"; NULL: none seen */
    const char *version_text; /* "2.0.1+cu118"; NULL: not known */
    gw_version version;       /* 0: not known */
    bool version_by_message;  /* not printed: the form of a message shows this version or an older one */
    const char *card;         /* "Tesla T4"; NULL: not known */
    uint64_t card_bytes;      /* 0: not known */
    bool card_lacks_bfloat16; /* certain; false: the card has it, or this is not known */
    const char *driver;       /* NULL: not known */
} gwi_log_context;

typedef struct gwi_log_case {
    const gw_log *log;
    gwi_statement *statement; /* in order; owned */
    size_t count;
    gw_framework framework;
    gwi_log_context context;
    const gw_log_find *exception; /* the last Python exception that the program did not survive; NULL: none */
    bool exception_about_child;   /* it only reports that another process failed */
} gwi_log_case;

/* The first find with this sign; NULL: none. */
const gw_log_find *gwi_log_first(const gw_log *log, gw_sign sign);
/* log_context.c: framework, version, card. */
void gwi_log_look_around(gwi_log_case *c);
/* Add the cause's fixes for the framework, its version and the card. False: no memory. */
bool gwi_log_add_fixes(const gwi_log_case *c, const gw_cause *cause, const char *place, gw_string_list *next);

/* log_frames.c: the user's frames of the traceback that ends with this exception, innermost first, or those of a native
 * stack if it has none. Returns their number. */
size_t gwi_log_frames(const gw_log *log, const gw_log_find *exception, gwi_log_frame *ret_frames);
bool gwi_log_has_traceback(const gw_log *log, const gw_log_find *exception);
/* The exception that raised a statement: its own line, or the next exception of that rank; NULL: none. */
const gw_log_find *gwi_log_exception_of(const gwi_log_case *c, const gw_log_find *find);

/* GW_NOMEM. */
GW_MUST_CHECK gw_status gwi_log_open(const gw_log *log, gwi_log_case *ret_case, gw_error *err);
void gwi_log_close(gwi_log_case *c);

/* The number of the CUDA error that a find gives by name, text or number. False: it is not a CUDA error. */
bool gwi_log_cuda_code(const gw_log_find *find, unsigned *ret_code);

/* Refine out-of-memory statements by the numbers in their lines and nearby. */
void gwi_log_weigh_memory(gwi_log_case *c);

/* Make `cause` the statement's first cause, with this certainty. `why`: the decisive observation. */
__attribute__((format(printf, 4, 5))) void gwi_log_decide(gwi_statement *statement, const char *cause,
                                                          gw_certainty certainty, const char *why, ...);

/* The present number of the error that had this number in runtimes before CUDA 10.1. False: the number meant the same
 * then, or nothing. */
bool gwi_log_old_cuda_code(unsigned number, unsigned *ret_code);
/* The value that selects the row of the find's sign: its name, number or text. */
const char *gwi_log_value(const gw_log_find *find);
/* The rule of log_rules.def for a sign and a value, as a statement without a find. False: there is none. *ret_is_exact:
 * the row lists this value, it is not the sign's general row. */
bool gwi_log_rule(int sign, const char *value, gwi_statement *ret_statement, bool *ret_is_exact);
/* True if the list contains the word or words of `value`. Names are whole words in it; texts may have spaces. */
bool gwi_log_is_listed(const char *list, const char *value);
/* "gpuwhy run ...": the command that would confirm this cause or exclude it; NULL: none is known. */
const char *gwi_log_decider(const char *cause);
/* The statement that the log's verdict is about; NULL: none. */
const gwi_statement *gwi_log_root(const gwi_log_case *c);
/* Report the line of a find with its position and text. */
void gwi_log_say_line(const gwi_log_case *c, gwi_finding *finding, uint64_t t_ns, const char *source,
                      const gw_log_find *find);

/* A recording's stderr, read like a log if no driver call shows why the run ended badly. `said` of the case then points
 * into it. False: no memory. */
typedef struct gwi_told {
    gw_log *log;
    gwi_log_case c;
} gwi_told;
GW_MUST_CHECK bool gwi_told_open(gwi_case *c, gwi_told *ret_told);
void gwi_told_close(gwi_told *told);

#endif
