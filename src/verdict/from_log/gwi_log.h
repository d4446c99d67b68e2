/* Judges text logs, only for src/verdict. A gw_log_find is a line of the log that matched a sign (a pattern).
 * log_case.c turns the finds into statements about causes, log_memory.c evaluates the numbers in out-of-memory
 * messages, and judge_log.c decides on a verdict. */
#ifndef GWI_LOG_H
#define GWI_LOG_H

#include "gw_logs.h"
#include "gw_version.h"
#include "gwi_cause.h"

/* In log_rules.def, GW_SAYS_CUDA stands for all signs that give a CUDA error, as a number, a name or a text.
 * GW_SAYS_NOTHING is the sign of a code without any rule, such as a code for success. */
enum { GW_SAYS_CUDA = GW_SIGN_COUNT, GW_SAYS_NOTHING };

/* How much a statement explains, in rising order: a statement of greater depth explains statements of smaller depth. A
 * notice is a message that the program itself logged as a warning or as information. log_rules.def describes the other
 * depths. */
typedef enum gwi_depth { GWI_NOTICE, GWI_LAST, GWI_ECHO, GWI_DIRECT, GWI_ROOT } gwi_depth;

enum { GWI_LOG_CAUSES_MAX = 9 };

/* A line of the log that reports a problem, and the possible causes of the problem. */
typedef struct gwi_statement {
    const gw_log_find *find;
    unsigned code; /* the CUDA error that the find gives; 0: none */
    gwi_depth depth;
    gw_certainty certainty;                /* certainty of cause[0] */
    const char *cause[GWI_LOG_CAUSES_MAX]; /* most likely first; static ids of the catalogue */
    size_t cause_count;
    char why[256];      /* what in the log decided the first cause; "": nothing */
    bool is_impossible; /* the requested size is larger than the memory of any card */
    bool survived;      /* the problem did not end the program */
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
    bool version_by_message;  /* `version` is guessed from a message's form; it may be older */
    const char *card;         /* "Tesla T4"; NULL: not known */
    uint64_t card_bytes;      /* 0: not known */
    bool card_lacks_bfloat16; /* false: the card has bfloat16, or this is not known */
    const char *driver;       /* NULL: not known */
} gwi_log_context;

typedef struct gwi_log_case {
    const gw_log *log;
    gwi_statement *statement; /* owned; in the order of the log; has room for find_count + 1 statements */
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
/* log_context.c: fill in c->context: the framework, its version, the card and the driver. */
void gwi_log_look_around(gwi_log_case *c);
/* log_advice.c: add to `next` the advice for the program or platform that the log names, and for its driver.
 * *ret_replaces is true if this advice replaces the catalogue's fixes, which are for training programs. Returns false
 * if there is no memory. */
bool gwi_log_add_advice(const gwi_log_case *c, const char *cause, bool *ret_replaces, gw_string_list *next);
/* Add to `next` the fixes of the cause for the framework, its version and the card. `place` is the user's frame as
 * text; "": not known. Returns false if there is no memory. */
bool gwi_log_add_fixes(const gwi_log_case *c, const gw_cause *cause, const char *place, gw_string_list *next);

/* log_frames.c: read the user's frames from the traceback of this exception, innermost first. Without a traceback, read
 * them from a native stack. Returns the number of frames. */
size_t gwi_log_frames(const gw_log *log, const gw_log_find *exception, gwi_log_frame *ret_frames);
bool gwi_log_has_traceback(const gw_log *log, const gw_log_find *exception);
/* Return the exception that belongs to this find: the next one with a traceback, in this line or up to 300 lines later,
 * of the same rank. If there is none, return the exception that ended the run (NULL: none). */
const gw_log_find *gwi_log_exception_of(const gwi_log_case *c, const gw_log_find *find);

/* log_work.c: return true if the program continued its work after this find: later lines in the same file report
 * progress of the same rank, or show that a server is ready or answers requests. */
bool gwi_log_went_on(const gw_log *log, const gw_log_find *after);
/* True if the output continues: at least 10 lines of the file follow its last problem, counted from this find on. False
 * if an exception or a bad end is in this file at or after the find, or anywhere in another file. */
bool gwi_log_output_goes_on(const gw_log *log, const gw_log_find *after);
/* True if a line within 10 lines of this find announces another attempt, and the log has a good end after the find. */
bool gwi_log_was_retried(const gw_log *log, const gw_log_find *find);
/* True if Python ignored this exception, or if a server raised it during a normal shutdown. */
bool gwi_log_was_ignored(const gw_log *log, const gw_log_find *find);
/* Return the line that shows that a file of the log has a good end: a message of success, or the last line of progress
 * if it is near the end of the file. No later line of this file has a problem, and if `after` is in this file, the line
 * comes after it. Returns NULL if there is no such line. */
const gw_log_find *gwi_log_good_end(const gw_log *log, const gw_log_find *after);
/* Return the first line that looks like a failure, whether or not gpuwhy recognises it, and after which no line shows
 * that the program continued or ended well. Returns NULL if there is none. */
const gw_log_find *gwi_log_unanswered(const gw_log *log);

/* Turn the finds of a log into statements. The caller passes the case to gwi_log_close(). Errors: GW_NOMEM. */
GW_MUST_CHECK gw_status gwi_log_open(const gw_log *log, gwi_log_case *ret_case, gw_error *err);
void gwi_log_close(gwi_log_case *c);

/* Look up the code of the CUDA error that a find gives by name, text or number. Returns false if the find gives no CUDA
 * error. */
bool gwi_log_cuda_code(const gw_log_find *find, unsigned *ret_code);

/* log_memory.c: for each statement about an out-of-memory error, set the most likely cause (cause[0]) if the numbers in
 * its line and in nearby lines show it. */
void gwi_log_weigh_memory(gwi_log_case *c);

/* log_guess.c: return the causes that the words of an unknown message suggest, separated by spaces, most likely first.
 * Returns NULL if its words suggest none. Static. */
const char *gwi_log_guess(const char *text);
/* log_loss.c: add a statement if the last loss in the log is not a finite number and no other line explains how the run
 * ended. */
void gwi_log_weigh_loss(gwi_log_case *c);

/* log_decide.c: make `cause` the statement's first cause, with this certainty. `why` and the arguments after it
 * describe, as for printf(), the observation that decided this. */
__attribute__((format(printf, 4, 5))) void gwi_log_decide(gwi_statement *statement, const char *cause,
                                                          gw_certainty certainty, const char *why, ...);

/* Translate an old error number, as printed by a runtime before CUDA 10.1, into today's number. Returns false if the
 * number is the same today, or if no error had it. */
bool gwi_log_old_cuda_code(unsigned number, unsigned *ret_code);
/* Return the value (name, code, text, ...) by which a find selects its row in log_rules.def. */
const char *gwi_log_value(const gw_log_find *find);
/* Look up the rule for a sign and a value in log_rules.def, and return it as a statement without a find. *ret_is_exact
 * is true if a row lists the value, and false if only the general row of the sign applies. Returns false if there is no
 * rule. */
bool gwi_log_rule(int sign, const char *value, gwi_statement *ret_statement, bool *ret_is_exact);
/* True if the list, whose items are separated by spaces, contains `value`. Only whole items match; `value` may consist
 * of several items in a row. */
bool gwi_log_is_listed(const char *list, const char *value);
/* Return the command that would confirm or exclude this cause: "gpuwhy run ...". Returns NULL if none is known. */
const char *gwi_log_decider(const char *cause);
/* Return the statement that explains the failure. Returns NULL if there is none. */
const gwi_statement *gwi_log_root(const gwi_log_case *c);
/* Report the line of a find as evidence, with its position and text. */
void gwi_log_say_line(const gwi_log_case *c, gwi_finding *finding, uint64_t t_ns, const char *source,
                      const gw_log_find *find);

/* Read a recording's stderr as a log if no driver call shows why the run ended badly. If a message explains the end,
 * the case's `said` points into *ret_told until gwi_told_close(). Returns false if there is no memory. */
typedef struct gwi_told {
    gw_log *log;
    gwi_log_case c;
} gwi_told;
GW_MUST_CHECK bool gwi_told_open(gwi_case *c, gwi_told *ret_told);
void gwi_told_close(gwi_told *told);

#endif
