/* The values of the options of `gpuwhy run`, and the functions that judge a run while it is running. */
#ifndef GW_RUN_OPTIONS_H
#define GW_RUN_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

/* The values of the options of `gpuwhy run`. The options' names, defaults and help are the rows in src/cmd/run.c. */
typedef struct gw_run_options {
    const char *gpu;           /* "real" or "virtual:CARD[,..]" */
    uint64_t memory_bytes;     /* size of the GPUs that the program sees; 0: their real size */
    const char *output;        /* path of the recording; NULL: a new file in the state folder */
    uint64_t record_bytes_max; /* 0: no limit */
    bool quiet;
    const char *json;       /* path of the verdict as JSON, "-": standard output; NULL: none */
    const char *on_failure; /* "print" or a shell command; NULL: do nothing before the program ends */
    bool core;
    bool blame;
    bool deep;
    const char *hang_after; /* seconds, or "off"; NULL: off on a terminal, otherwise 300 */
    bool kill_on_hang;
    bool no_attach;
    bool no_sites;
    bool catch_crash;
    bool no_stderr;
    bool no_sense;
    bool no_history;
    bool end_with_parent;
    bool help;
} gw_run_options;

typedef struct gw_supervisor gw_supervisor;

/* Judge the contents of the run folder `folder`, and report them if they are what was asked for. Returns true if so. */
typedef bool gw_run_judge(gw_supervisor *run, const char *folder, void *user);

typedef struct gw_run_judges {
    gw_run_judge *failure; /* --on-failure: a failure has lasted for seconds. Not called again after it returned true */
    gw_run_judge *hang;    /* --hang-after: a process makes no progress. After true, --kill-on-hang ends the program */
    void *user;
} gw_run_judges;

#endif
