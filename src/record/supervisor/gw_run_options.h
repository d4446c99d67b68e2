/* The option values of `gpuwhy run`, and the callbacks that judge a run in progress. */
#ifndef GW_RUN_OPTIONS_H
#define GW_RUN_OPTIONS_H

#include "gw_option_list.h"

#include <stdbool.h>
#include <stdint.h>

/* The option values of `gpuwhy run`. The table in src/apps/run/run.c contains the options' names, defaults and help. */
typedef struct gw_run_options {
    const char *gpu;           /* "real" or "virtual:CARD[,..]" */
    uint64_t memory_bytes;     /* memory size that the GPUs report to the program; 0: their real size */
    bool memory_shared;        /* the processes of the run share memory_bytes */
    const char *inject;        /* plan of injected failures (gw_inject.h), checked; NULL: none */
    const char *fence;         /* "": fail all calls after a sticky error; "exit": end the program; NULL: neither */
    const char *output;        /* path of the recording, or a folder, perhaps ending with a slash, for a new file;
                                  NULL: a new file in the state folder */
    uint64_t record_bytes_max; /* size limit of the recording; 0: no limit */
    const char *record_environment; /* names of further variables to record (gw_config_names_contain()); NULL: none */
    const char *leaks; /* "strict": memory that is not freed at a clean end is a leak; NULL: not all of it */
    bool quiet;
    const char *fail_on;    /* verdicts that make a good exit status a bad one (gwi_gate.h), checked; NULL: none */
    const char *junit;      /* file for the result as JUnit XML; NULL: none */
    bool no_verdict;        /* print no verdict */
    const char *json;       /* file for the verdict as JSON, "-" for standard output; NULL: none */
    const char *message;    /* file for a short text about a failure; NULL: none */
    const char *on_failure; /* after a failure: "print" the verdict, or run this shell command; NULL: neither */
    bool core;
    bool blame;
    bool deep;
    bool allocations;
    const char *hang_after; /* seconds, or "off"; NULL, "auto": off on a terminal without kill_on_hang, otherwise 300 */
    bool kill_on_hang;
    bool no_ras;
    bool no_attach;
    bool no_sites;
    bool catch_crash;
    bool no_stderr;
    bool no_sense;
    bool no_history;
    bool off; /* start the program without recording it; the caller of gw_supervisor_start() does this */
    bool end_with_parent;
    bool rehearse; /* run nothing and take no memory: the program sees a card of memory_bytes */
    const char
        *until; /* end a rehearsal at "steady", "end", a number of equal iterations, or "SECONDSs"; NULL: "steady" */
    uint32_t restart_count;  /* largest number of attempts after the first one; 0: no restart */
    bool cure;               /* apply a setting that is shown to help */
    gw_option_list on;       /* CAUSE:ACTION, what to change for the next attempt */
    const char *rescue;      /* "", "N", "leak" or both: change what can help and start again; NULL: do not */
    const char *resume_with; /* words for the next attempt's command, with {last} for a checkpoint; NULL: none */
    const char *checkpoints; /* pattern of the checkpoints' files; NULL: none */
    const char *alarm_at;    /* "90%", "12GiB", with ":command"; NULL: no alarm */
    const char *wait_memory; /* "SIZE" or "SIZE:TIMEOUT"; NULL: do not wait */
    bool help;
} gw_run_options;

typedef struct gw_supervisor gw_supervisor;

/* Judge the recording in progress, in the run folder `folder`. Report what the verdict shows, and return true: a
 * failure for gw_run_judges.failure, a hang for gw_run_judges.hang. */
typedef bool gw_run_judge(gw_supervisor *run, const char *folder, void *user);

struct gw_text;
/* Append the lines of the program that allocated device memory since the run time `since_ns` and still hold it, the
 * largest first: "train.py:31 in step (1.10 GiB)". Appends nothing if they are not known. */
typedef void gw_run_lines(const char *folder, uint64_t since_ns, struct gw_text *text);

typedef struct gw_run_judges {
    gw_run_judge *failure; /* --on-failure: called a few seconds after each failure, until it has returned true */
    /* --hang-after: called after each hang, until it has returned true; --kill-on-hang then ends the program */
    gw_run_judge *hang;
    gw_run_lines *lines; /* --alarm-at: called once, when memory grows */
    void *user;
} gw_run_judges;

#endif
