/* Judges text logs. Only for use inside src/judge. A gw_log_find is a line that matched a sign (a pattern).
 * - log_case.c: statements about causes
 * - log_memory.c: the numbers in out-of-memory messages
 * - log_conclude.c: which of them explains the end, and the words of the verdict
 * engine/engine.c makes the verdict: a text log is a case without events. */
#ifndef GWI_LOG_H
#define GWI_LOG_H

#include "gw_logs.h"
#include "gw_version.h"
#include "gwi_cause.h"
#include "gwi_output.h"

/* For log_rules.def. GW_SAYS_CUDA: all signs of a CUDA error (number, name or text). GW_SAYS_NOTHING: a code without a
 * rule, such as success. */
enum { GW_SAYS_CUDA = GW_SIGN_COUNT, GW_SAYS_NOTHING };

/* How much of the failure a statement (a log line that reports a problem) explains, least first. A statement explains
 * those of smaller depth, too. GWI_NOTICE: logged as a warning or as information. log_rules.def describes the rest. */
typedef enum gwi_depth { GWI_NOTICE, GWI_LAST, GWI_ECHO, GWI_DIRECT, GWI_ROOT } gwi_depth;

enum { GWI_LOG_CAUSES_MAX = 9 };

/* A line of the log that reports a problem, and the possible causes of the problem. */
typedef struct gwi_statement {
    const gw_log_find *find;
    unsigned code; /* the CUDA error that the line reports; 0: none */
    gwi_depth depth;
    gw_certainty certainty;                /* certainty of cause[0] */
    const char *cause[GWI_LOG_CAUSES_MAX]; /* most likely first; static ids of the catalogue */
    size_t cause_count;
    char why[256];      /* what in the log decided the first cause; "": nothing */
    bool is_impossible; /* the requested size is larger than the memory of any card */
    bool survived;      /* the problem did not end the program */
    bool is_open;       /* unknown whether the program survived: lines of unknown meaning follow */
} gwi_statement;

/* The framework, card and driver named in the log. Texts are borrowed from the log. */
typedef struct gwi_log_context {
    const char *framework;    /* static: "PyTorch"; NULL: not known */
    const char *version_text; /* "2.0.1+cu118"; NULL: not known */
    gw_version version;       /* 0: not known */
    bool version_by_message;  /* guessed from a message's form: the real version may be older */
    const char *card;         /* "Tesla T4"; NULL: not known */
    uint64_t card_bytes;      /* 0: not known */
    gw_version capability;    /* compute capability of the card; 0: not known */
    bool card_lacks_bfloat16; /* false: the card has bfloat16, or this is not known */
    const char *driver;       /* NULL: not known */
} gwi_log_context;

typedef struct gwi_log_case {
    const gw_log *log;
    const char *source;              /* static: the evidence's source, "log" or "stderr" */
    const gw_stderr_facts *recorded; /* the recorded output that the log was read from; NULL: a file */
    gwi_statement *statement;        /* owned; in the order of the log; has room for find_count + 1 statements */
    size_t count;
    gw_framework framework;
    gwi_log_context context;
    const gw_log_find *exception; /* the last Python exception that the program did not survive; NULL: none */
    bool exception_about_child;   /* `exception` only reports that another process failed */
    const struct gwi_told *told;  /* the earlier runs of the text; NULL: recorded output */
} gwi_log_case;

/* What a text shows about the end of its program. */
typedef struct gwi_conclusion {
    enum { GWI_ENDED_BY_FAULT, GWI_ENDED_BY_EXCEPTION, GWI_ENDED_IN_SILENCE } kind;
    /* The deciding line with its causes: a fault, or else the last exception, or else a line that looks like a failure
     * (`find` is NULL if there is none). If `certainty` is NONE, all causes are only alternatives. */
    gwi_statement it;
    /* The text is clean: this line shows a good end, and work or a good end follows every line that looks like a
     * failure. NULL: it is not clean. */
    const gw_log_find *good;
    /* Nothing failed, and these show that the text stops before the program ended (gw_log_ending). NULL: not known. */
    const gw_log_find *open, *serving;
} gwi_conclusion;

/* Return the first line of the log that matched this sign. Returns NULL if there is none. */
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
/* log_advice.c: add to `next` the advice for the programs and platforms in the log. For a cause about the driver's
 * version, include the CUDA version that this driver supports.
 * *ret_replaces: the advice replaces the catalogue's fixes, which are for training programs. Returns false if there is
 * no memory. */
bool gwi_log_add_advice(const gwi_log_case *c, const char *cause, bool *ret_replaces, gw_string_list *next);

/* Add advice on a text in which no fault was found. Returns false if there is no memory. */
bool gwi_log_add_silent_advice(const gwi_log_case *c, gw_string_list *next);
/* Add to `next` the cause's fixes that suit the framework, its version and the card. `place` is the user's frame as
 * text, "" if unknown. Returns false if there is no memory. */
bool gwi_log_add_fixes(const gwi_log_case *c, const gw_cause *cause, const char *place, gw_string_list *next);

/* Return the exception that belongs to the line `find`. Exceptions of a launcher about its children do not count. The
 * first of these is taken:
 * - the same rank's next exception with a traceback, at most 300 lines later
 * - the exception whose message has several lines and contains `find`
 * - the one that ended the run (NULL: none) */
const gw_log_find *gwi_log_exception_of(const gwi_log_case *c, const gw_log_find *find);

/* Turn the log's matching lines into statements (gwi_statement). `recorded` is the output that the log was read from,
 * or NULL. Fails only with GW_NOMEM. The caller closes *ret_case with gwi_log_close(). */
GW_MUST_CHECK gw_status gwi_log_open(const gw_log *log, const gw_stderr_facts *recorded, gwi_log_case *ret_case,
                                     gw_error *err);
void gwi_log_close(gwi_log_case *c);

/* log_memory.c: set the first cause of each out-of-memory statement, if the numbers in its line or in nearby lines show
 * it. */
void gwi_log_weigh_memory(gwi_log_case *c);

/* log_guess.c: guess causes from the words of an unknown message. Returns them separated by spaces, most likely first,
 * or NULL. The text is static. */
const char *gwi_log_guess(const char *text);
/* log_loss.c: add a statement if the last loss in the log is not a finite number and no other line explains how the run
 * ended. */
void gwi_log_weigh_loss(gwi_log_case *c);

/* log_decide.c: make `cause` the statement's first cause, with this certainty. `why` (a printf() format) describes the
 * observation that decided this. */
__attribute__((format(printf, 4, 5))) void gwi_log_decide(gwi_statement *statement, const char *cause,
                                                          gw_certainty certainty, const char *why, ...);

/* Return the value in a log line (a name, a code, a text, ...) that selects its row in log_rules.def. */
const char *gwi_log_value(const gw_log_find *find);
/* Return the rule for a sign and a value in log_rules.def, as a statement without `find`. *ret_is_exact is false if no
 * row lists the value and the sign's general row is used. Returns false if there is no rule. */
bool gwi_log_rule(int sign, const char *value, gwi_statement *ret_statement, bool *ret_is_exact);
/* True if the list contains `value`. Items are separated by spaces, and only whole items match. `value` may be several
 * successive items. */
bool gwi_log_is_listed(const char *list, const char *value);
/* Return the command that would confirm or exclude this cause: "gpuwhy run ...". Returns NULL if none is known. */
const char *gwi_log_decider(const char *cause);
/* True if the line is only a warning or information, or says that the program continues in another way. False for NCCL,
 * which logs errors as warnings. */
bool gwi_log_is_notice(const char *text);
/* True if the exception reports a missing value (None, or an undefined name), which a failed step may have left. */
bool gwi_log_lacks_value(const gw_log *log, const gw_log_find *exception);
/* True if a line of the same rank with this sign is between the two. */
bool gwi_log_is_between(const gw_log *log, gw_sign sign, const gw_log_find *first, const gw_log_find *last);
/* True if a statement is about the line with this order. */
bool gwi_log_is_stated(const gwi_log_case *c, uint64_t order);
/* Append causes to a statement's list. Their ids are separated by spaces. */
void gwi_log_add_causes(gwi_statement *statement, const char *ids);

/* Return the statement that explains the failure. Returns NULL if there is none. */
const gwi_statement *gwi_log_root(const gwi_log_case *c);
/* log_conclude.c: decide what the text shows about the end of its program. This is the only place that decides it, for
 * logs and for the output in recordings. */
gwi_conclusion gwi_log_conclude(const gwi_log_case *c);
/* Return when the line was recorded, or GWI_NO_TIME for a file. */
uint64_t gwi_log_t_ns(const gwi_log_case *c, const gw_log_find *find);
/* Report a line of the text as evidence, with its position and time. */
void gwi_log_say_line(const gwi_log_case *c, gwi_finding *finding, const gw_log_find *find);
/* Set the headline, and report the lines of the text that led to the conclusion. */
void gwi_log_say(const gwi_log_case *c, const gwi_conclusion *end, gwi_finding *finding);
/* Move the finding into the verdict, with the place of the exception that belongs to the conclusion, and the fixes that
 * suit the programs in the text. Returns false if there is no memory. */
GW_MUST_CHECK bool gwi_log_take(const gwi_log_case *c, const gwi_conclusion *end, gwi_finding *finding,
                                gw_verdict *verdict);
/* Add the causes that the conclusion does not decide for. Returns false if there is no memory. */
bool gwi_log_add_alternatives(gw_verdict *verdict, const gwi_conclusion *end);

/* Store in the verdict the log's files, and the card that a log with a failure names. Returns false if there is no
 * memory. */
GW_MUST_CHECK bool gwi_log_fill(const gwi_log_case *c, const gwi_conclusion *end, gw_verdict *verdict);

/* Read a text log, or without one a recording's stderr if the run did not end well. `c->text` and `c->said` then point
 * into *ret_told until gwi_told_close(). Returns false if there is no memory. */
typedef struct gwi_told {
    gwi_log_case c;
    gwi_conclusion end;
    size_t run_count;           /* runs in the text; only the last one is judged */
    gw_log last, before;        /* if run_count > 1, the last run, and the one before it; else unused */
    gwi_log_case earlier;       /* if run_count > 1, the run before the last one */
    gwi_conclusion earlier_end; /* the conclusion of `earlier` */
} gwi_told;
GW_MUST_CHECK bool gwi_told_open(gwi_case *c, const gw_log *log, gwi_told *ret_told);
void gwi_told_close(gwi_told *told);

#endif
