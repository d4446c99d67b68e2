/* The options of `gpuwhy run`, one row each, and the functions that judge a run while it is running. */
#ifndef GW_RUN_OPTIONS_H
#define GW_RUN_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#define GW_RUN_OPTIONS(X)                                                                                              \
    X(STRING, const char *, gpu, "--gpu", "real|virtual:CARD[,..]", "real",                                            \
      "the GPU to use, such as virtual:h200 or virtual:2xh200,memory=16GiB,fault=..")                                  \
    X(BYTES, uint64_t, memory_bytes, "--memory", "SIZE", NULL, "let the program see GPUs of that size")                \
    X(STRING, const char *, output, "-o", "FILE", NULL, "write the recording to FILE")                                 \
    X(BYTES, uint64_t, record_bytes_max, "--record-limit", "SIZE", "512MiB",                                           \
      "largest recording; the oldest events are dropped first; 0: no limit")                                           \
    X(FLAG, bool, quiet, "--quiet", NULL, NULL, "print a verdict only on failure")                                     \
    X(STRING, const char *, json, "--json", "FILE", NULL, "also write the verdict as JSON; -: to standard output")     \
    X(STRING, const char *, on_failure, "--on-failure", "print|CMD", NULL,                                             \
      "print the verdict, or run CMD, a few seconds after a failure if the program keeps running")                     \
    X(FLAG, bool, core, "--core", NULL, NULL,                                                                          \
      "if a kernel faults, let the driver write a small GPU core dump and read it")                                    \
    X(FLAG, bool, blame, "--blame", NULL, NULL,                                                                        \
      "after a fault on the GPU, run the program again with synchronous launches")                                     \
    X(FLAG, bool, deep, "--deep", NULL, NULL,                                                                          \
      "record the Python line of each PyTorch allocation, and cuDNN's own log; slower")                                \
    X(STRING, const char *, hang_after, "--hang-after", "SECONDS|off", NULL,                                           \
      "report a hang if nothing happens for this long [off on a terminal, otherwise 300]")                             \
    X(FLAG, bool, kill_on_hang, "--kill-on-hang", NULL, NULL,                                                          \
      "after a hang is reported, stop the program: SIGTERM, 10 s later SIGKILL")                                       \
    X(FLAG, bool, no_attach, "--no-attach", NULL, NULL, "do not collect evidence inside Python and frameworks")        \
    X(FLAG, bool, no_sites, "--no-sites", NULL, NULL, "do not record where driver calls were made")                    \
    X(FLAG, bool, catch_crash, "--catch-crash", NULL, NULL,                                                            \
      "install a handler that records the memory address and the stack of a crash in host code")                       \
    X(FLAG, bool, no_stderr, "--no-stderr", NULL, NULL, "do not record the program's stderr")                          \
    X(FLAG, bool, no_sense, "--no-sense", NULL, NULL, "do not sample the state of the cards and the machine")          \
    X(FLAG, bool, no_history, "--no-history", NULL, NULL,                                                              \
      "do not list this run in gpuwhy history, and do not compare it with the last good run")                          \
    X(FLAG, bool, end_with_parent, "--end-with-parent", NULL, NULL,                                                    \
      "stop the program when the process that started gpuwhy exits, or gpuwhy is killed")                              \
    X(FLAG, bool, help, "--help", NULL, NULL, "print this help")

/* The values of the options. */
typedef struct gw_run_options {
#define GW_X(type, ctype, field, name, argument, standard, help) ctype field;
    GW_RUN_OPTIONS(GW_X)
#undef GW_X
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
