/* Judges text logs, only for src/verdict. A gw_log_find is a part of a line that matched a sign. log_case.c turns the
 * finds into statements about causes, log_memory.c evaluates the sums of out-of-memory messages, and judge_log.c
 * decides on a verdict. */
#ifndef GWI_LOG_H
#define GWI_LOG_H

#include "gw_logs.h"
#include "gw_version.h"
#include "gwi_cause.h"

/* GW_SAYS_CUDA is the common sign of all finds that give a CUDA error, as a number, a name or a text. */
enum { GW_SAYS_CUDA = GW_SIGN_COUNT, GW_SAYS_NOTHING };

/* In rising order. A statement of greater depth explains statements of smaller depth. A notice is a message that the
 * program itself logged as a warning or as information. */
typedef enum gwi_depth { GWI_NOTICE, GWI_LAST, GWI_ECHO, GWI_DIRECT, GWI_ROOT } gwi_depth;

enum { GWI_LOG_CAUSES_MAX = 9 };

/* A line that reports a problem. */
typedef struct gwi_statement {
    const gw_log_find *find;
    unsigned code; /* the CUDA error that the find gives; 0: none */
    gwi_depth depth;
    gw_certainty certainty;                /* of the first cause */
    const char *cause[GWI_LOG_CAUSES_MAX]; /* most likely first; static ids of the catalogue */
    size_t cause_count;
    char why[256];      /* other facts in the log that decided; "": none */
    bool is_impossible; /* the requested size is larger than any card */
    bool survived;      /* the program continued its work afterwards */
    bool is_open;       /* unknown whether the program survived: lines of unknown meaning follow */
} gwi_statement;

/* A frame of the user's code in a traceback or in a native stack. */
enum { GWI_LOG_FRAMES_MAX = 8 };
typedef struct gwi_log_frame {
    const gw_log_find *find;
    const char *function; /* NULL: not known; borrowed from the log */
    char file[256];       /* "train.py", "In [3]"; the module of a native frame */
    uint32_t line;        /* 0: not known */
    bool python;
} gwi_log_frame;

/* The framework, card and driver named in the log. Texts are borrowed from the log. */
typedef struct gwi_log_context {
    const char *framework;    /* static: "PyTorch"; NULL: not known */
    const char *version_text; /* "2.0.1+cu118"; NULL: not known */
    gw_version version;       /* 0: not known */
    bool version_by_message;  /* guessed from the form of a message: this version or an older one */
    const char *card;         /* "Tesla T4"; NULL: not known */
    uint64_t card_bytes;      /* 0: not known */
    bool card_lacks_bfloat16; /* false: the card has it, or this is not known */
    const char *driver;       /* NULL: not known */
} gwi_log_context;

typedef struct gwi_log_case {
    const gw_log *log;
    gwi_statement *statement; /* owned; in the order of the log; room for one more than the log has finds */
    size_t count;
    gw_framework framework;
    gwi_log_context context;
    const gw_log_find *exception; /* the last Python exception that the program did not survive; NULL: none */
    bool exception_about_child;   /* `exception` only reports that another process failed */
} gwi_log_case;

/* Return the first find with this sign. Returns NULL if there is none. */
static inline const gw_log_find *gwi_log_first(const gw_log *log, gw_sign sign)
{
    for (size_t i = 0; i < log->find_count; i++) {
        if (log->find[i].sign == sign)
            return &log->find[i];
    }
    return NULL;
}
/* log_context.c: fill in the framework, its version and the card. */
void gwi_log_look_around(gwi_log_case *c);
/* log_advice.c: add the advice for the program or platform that the log names, and for its driver. *ret_replaces: the
 * advice takes the place of the catalogue's, which is about training. False: no memory. */
bool gwi_log_add_advice(const gwi_log_case *c, const char *cause, bool *ret_replaces, gw_string_list *next);
/* Add the fixes of the cause for the framework, its version and the card. False: no memory. */
bool gwi_log_add_fixes(const gwi_log_case *c, const gw_cause *cause, const char *place, gw_string_list *next);

/* log_frames.c: read the user's frames from the traceback of this exception, innermost first. Without a traceback, read
 * them from a native stack. Returns the number of frames. */
size_t gwi_log_frames(const gw_log *log, const gw_log_find *exception, gwi_log_frame *ret_frames);
bool gwi_log_has_traceback(const gw_log *log, const gw_log_find *exception);
/* Return the exception that raised the statement with this find: its own line, or the next exception of the same rank.
 * Returns NULL if there is none. */
const gw_log_find *gwi_log_exception_of(const gwi_log_case *c, const gw_log_find *find);

/* log_work.c: return true if the program worked on after this find: later lines of the same rank and file report
 * progress, or requests that a server answered. */
bool gwi_log_went_on(const gw_log *log, const gw_log_find *after);
/* True if many lines without a problem follow, and no exception or bad end appears in this line or later. */
bool gwi_log_output_goes_on(const gw_log *log, const gw_log_find *after);
/* True if a line next to this find announces another attempt, and a later line shows a good end. */
bool gwi_log_was_retried(const gw_log *log, const gw_log_find *find);
/* True if Python ignored this exception, or if a server raised it while it stopped in order. */
bool gwi_log_was_ignored(const gw_log *log, const gw_log_find *find);
/* Return the line that shows a good end of a file: a known good end, or the last line of progress up to the end of the
 * text. It is later than `after` (NULL: anywhere), and no line behind it has a problem. NULL if there is none. */
const gw_log_find *gwi_log_good_end(const gw_log *log, const gw_log_find *after);
/* Return the first line that looks like a failure which no later line answers, whether or not gpuwhy knows the failure.
 * NULL if there is none. */
const gw_log_find *gwi_log_unanswered(const gw_log *log);

/* Turn the finds of a log into statements. The caller closes the case. GW_NOMEM. */
GW_MUST_CHECK gw_status gwi_log_open(const gw_log *log, gwi_log_case *ret_case, gw_error *err);
void gwi_log_close(gwi_log_case *c);

/* Look up the code of the CUDA error that a find gives by name, text or number. False: it is not a CUDA error. */
bool gwi_log_cuda_code(const gw_log_find *find, unsigned *ret_code);

/* Refine statements about out-of-memory errors by the numbers in their lines and nearby. */
void gwi_log_weigh_memory(gwi_log_case *c);

/* log_guess.c: return the causes that the words of an unknown message suggest, separated by spaces, most likely first.
 * Returns NULL if its words suggest none. Static. */
const char *gwi_log_guess(const char *text);
/* log_loss.c: add a statement if the loss is not a finite number up to the end of the log and nothing else explains
 * the end. */
void gwi_log_weigh_loss(gwi_log_case *c);

/* log_decide.c: make `cause` the statement's first cause, with this certainty. `why` is the observation that
 * decided it, as a format of printf. */
__attribute__((format(printf, 4, 5))) void gwi_log_decide(gwi_statement *statement, const char *cause,
                                                          gw_certainty certainty, const char *why, ...);

/* Translate an error number of runtimes before CUDA 10.1 to the present number. False: the number had the same meaning
 * before 10.1, or no meaning. */
bool gwi_log_old_cuda_code(unsigned number, unsigned *ret_code);
/* Return the value (name, code, text, ...) by which a find selects its row in log_rules.def. */
const char *gwi_log_value(const gw_log_find *find);
/* Look up a sign and a value in log_rules.def, and return the rule as a statement without a find. False: there is no
 * rule. *ret_is_exact: the row lists this value. Otherwise it is the general row of the sign. */
bool gwi_log_rule(int sign, const char *value, gwi_statement *ret_statement, bool *ret_is_exact);
/* True if `value` is in the list. A name must be a whole word of the list; a text may contain spaces. */
bool gwi_log_is_listed(const char *list, const char *value);
/* Return the command that would confirm or exclude this cause: "gpuwhy run ...". Returns NULL if none is known. */
const char *gwi_log_decider(const char *cause);
/* Return the statement that explains the failure. Returns NULL if there is none. */
const gwi_statement *gwi_log_root(const gwi_log_case *c);
/* Report the line of a find as evidence, with its position and text. */
void gwi_log_say_line(const gwi_log_case *c, gwi_finding *finding, uint64_t t_ns, const char *source,
                      const gw_log_find *find);

/* Read a recording's stderr as a log if no driver call shows why the run ended badly. The case's `said` then points
 * into *ret_told. False: no memory. */
typedef struct gwi_told {
    gw_log *log;
    gwi_log_case c;
} gwi_told;
GW_MUST_CHECK bool gwi_told_open(gwi_case *c, gwi_told *ret_told);
void gwi_told_close(gwi_told *told);

#endif
