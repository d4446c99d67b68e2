/* Text logs as evidence: log_case.c reads finds as statements, log_memory.c does the sums of out-of-memory messages,
 * judge_log.c decides. Inside src/verdict. */
#ifndef GWI_LOG_H
#define GWI_LOG_H

#include "gw_logs.h"
#include "gw_version.h"
#include "gwi_cause.h"

/* A CUDA error has a number, whatever sign told it. */
enum { GW_SAYS_CUDA = GW_SIGN_COUNT, GW_SAYS_NOTHING };

/* In rising order: what explains the others. */
typedef enum gwi_depth { GWI_LAST, GWI_ECHO, GWI_DIRECT, GWI_ROOT } gwi_depth;

enum { GWI_LOG_CAUSES_MAX = 9 };

/* A line that says that something is wrong. */
typedef struct gwi_statement {
    const gw_log_find *find;
    gwi_depth depth;
    gw_certainty certainty;                /* of the first cause */
    const char *cause[GWI_LOG_CAUSES_MAX]; /* likelier first; static ids of the catalogue */
    size_t cause_count;
    char why[256];      /* what else in the log decided; "": nothing */
    bool is_impossible; /* a size that no card has */
    bool survived;      /* the program went on with its work afterwards */
} gwi_statement;

/* One of the user's frames of a traceback, or of a native stack. */
enum { GWI_LOG_FRAMES_MAX = 8 };
typedef struct gwi_log_frame {
    const gw_log_find *find;
    const char *function; /* NULL: not known; the log's */
    char file[256];       /* "train.py", "In [3]"; native: the module */
    uint32_t line;        /* 0: not known */
    bool python;
} gwi_log_frame;

/* What ran, on what, as far as the log says it. Texts are the log's. */
typedef struct gwi_log_context {
    const char *framework;    /* static: "PyTorch"; NULL: none seen */
    const char *version_text; /* "2.0.1+cu118"; NULL: not known */
    gw_version version;       /* 0: not known */
    bool version_by_message;  /* not told: the form of a message is of it, or of an older one */
    const char *card;         /* "Tesla T4"; NULL: not known */
    uint64_t card_bytes;      /* 0: not known */
    bool card_lacks_bfloat16; /* sure; false: it has it, or that is not known */
    const char *driver;       /* NULL: not known */
} gwi_log_context;

typedef struct gwi_log_case {
    const gw_log *log;
    gwi_statement *statement; /* in order; owned */
    size_t count;
    gw_framework framework;
    gwi_log_context context;
    const gw_log_find *exception; /* the last one of Python that nothing survived; NULL: none */
    bool exception_about_child;   /* it only says that another process failed */
} gwi_log_case;

/* The first that says so; NULL: none does. */
const gw_log_find *gwi_log_first(const gw_log *log, gw_sign sign);
/* log_context.c: framework, version, card. */
void gwi_log_look_around(gwi_log_case *c);
/* The cause's fixes in the words of the framework and its version, for that card. False: no memory. */
bool gwi_log_add_fixes(const gwi_log_case *c, const gw_cause *cause, const char *place, gw_string_list *next);

/* log_frames.c: the user's frames of the traceback that ends with this exception, innermost first; of a native stack
 * where it has none. How many. */
size_t gwi_log_frames(const gw_log *log, const gw_log_find *exception, gwi_log_frame *ret_frames);
bool gwi_log_has_traceback(const gw_log *log, const gw_log_find *exception);
/* The exception that a statement came up as: its own line, or the next one of that rank; NULL: none. */
const gw_log_find *gwi_log_exception_of(const gwi_log_case *c, const gw_log_find *find);

/* GW_NOMEM. */
GW_MUST_CHECK gw_status gwi_log_open(const gw_log *log, gwi_log_case *ret_case, gw_error *err);
void gwi_log_close(gwi_log_case *c);

/* The number of a CUDA error that a find names, by name, text or number. False: it is none. */
bool gwi_log_cuda_code(const gw_log_find *find, unsigned *ret_code);

/* Sharpen what out-of-memory statements say, by the numbers in their lines and around them. */
void gwi_log_weigh_memory(gwi_log_case *c);

/* Make `cause` the statement's first, with this certainty. `why`: what decided. */
__attribute__((format(printf, 4, 5))) void gwi_log_decide(gwi_statement *statement, const char *cause,
                                                          gw_certainty certainty, const char *why, ...);

/* What a runtime before CUDA 10.1 called by this number. False: the number meant the same then, or nothing. */
bool gwi_log_old_cuda_code(unsigned number, unsigned *ret_code);
/* Which row of its sign a find belongs to: its name, number or text. */
const char *gwi_log_value(const gw_log_find *find);
/* What log_rules.def says about a sign and a value, as a statement without a find. False: nothing. *ret_is_exact: a row
 * of that very value, not the sign's general one. */
bool gwi_log_rule(int sign, const char *value, gwi_statement *ret_statement, bool *ret_is_exact);
/* Is the word, or the words, of `value` in the list? Names are whole words there; texts may have spaces. */
bool gwi_log_is_listed(const char *list, const char *value);
/* "gpuwhy run ...": the observation that would decide whether it is this cause; NULL: none is known. */
const char *gwi_log_decider(const char *cause);
/* The statement that the log's verdict is about; NULL: none. */
const gwi_statement *gwi_log_root(const gwi_log_case *c);
/* Where a find stands, and its text. */
void gwi_log_say_line(const gwi_log_case *c, gwi_finding *finding, uint64_t t_ns, const char *source,
                      const gw_log_find *find);

/* A recording's stderr, read like a log where no driver call tells why the run ended badly; `said` of the case then
 * points in here. False: no memory. */
typedef struct gwi_told {
    gw_log *log;
    gwi_log_case c;
} gwi_told;
GW_MUST_CHECK bool gwi_told_open(gwi_case *c, gwi_told *ret_told);
void gwi_told_close(gwi_told *told);

#endif
