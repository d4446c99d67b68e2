/* What a run is given: the options of `gpuwhy run`, one row each, and what judges it while it goes on. */
#ifndef GW_RUN_OPTIONS_H
#define GW_RUN_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#define GW_RUN_OPTIONS(X)                                                                                              \
    X(STRING, const char *, gpu, "--gpu", "real|virtual:CARD[,..]", "real",                                            \
      "the GPU to run on; virtual:h200, virtual:2xh200,memory=16GiB,fault=..")                                         \
    X(BYTES, uint64_t, memory_bytes, "--memory", "SIZE", NULL, "let the program see GPUs of that size")                \
    X(STRING, const char *, output, "-o", "FILE", NULL, "write the recording there")                                   \
    X(BYTES, uint64_t, record_bytes_max, "--record-limit", "SIZE", "512MiB",                                           \
      "largest recording; the oldest events go first; 0: no limit")                                                    \
    X(FLAG, bool, quiet, "--quiet", NULL, NULL, "print the verdict only when there is a fault")                        \
    X(STRING, const char *, json, "--json", "FILE", NULL, "write the verdict as JSON, too; -: to standard output")     \
    X(STRING, const char *, on_failure, "--on-failure", "print|CMD", NULL,                                             \
      "do not wait for the end: judge seconds after a failure that lasts")                                             \
    X(FLAG, bool, core, "--core", NULL, NULL, "let the driver write a small GPU core dump at a fault, and read it")    \
    X(FLAG, bool, blame, "--blame", NULL, NULL, "after a fault on the GPU, run once more and wait for each launch")    \
    X(FLAG, bool, deep, "--deep", NULL, NULL,                                                                          \
      "record the Python line of each of PyTorch's allocations, and cuDNN's own log; it costs time")                   \
    X(STRING, const char *, hang_after, "--hang-after", "SECONDS|off", NULL,                                           \
      "tell when nothing went on for so long [off on a terminal, else 300]")                                           \
    X(FLAG, bool, kill_on_hang, "--kill-on-hang", NULL, NULL, "end the program then: SIGTERM, 10 s later SIGKILL")     \
    X(FLAG, bool, no_attach, "--no-attach", NULL, NULL, "do not ask Python and frameworks for their own evidence")     \
    X(FLAG, bool, no_sites, "--no-sites", NULL, NULL, "do not record from where driver calls were made")               \
    X(FLAG, bool, catch_crash, "--catch-crash", NULL, NULL, "note where in memory host code crashed, by a handler")    \
    X(FLAG, bool, no_stderr, "--no-stderr", NULL, NULL, "do not record the program's stderr")                          \
    X(FLAG, bool, no_sense, "--no-sense", NULL, NULL, "do not read the state of cards and machine meanwhile")          \
    X(FLAG, bool, no_history, "--no-history", NULL, NULL,                                                              \
      "neither list this run for gpuwhy history nor compare it with the last good one")                                \
    X(FLAG, bool, end_with_parent, "--end-with-parent", NULL, NULL,                                                    \
      "end the program when the process that started gpuwhy, or gpuwhy itself, is gone")                               \
    X(FLAG, bool, help, "--help", NULL, NULL, "this")

/* Their values. */
typedef struct gw_run_options {
#define GW_X(type, ctype, field, name, argument, standard, help) ctype field;
    GW_RUN_OPTIONS(GW_X)
#undef GW_X
} gw_run_options;

typedef struct gw_supervisor gw_supervisor;

/* Judge what `folder`, the run folder, holds so far, and report it if it is what was asked for. True: it was. */
typedef bool gw_run_judge(gw_supervisor *run, const char *folder, void *user);

typedef struct gw_run_judges {
    gw_run_judge *failure; /* --on-failure: a failure has lasted for seconds. Not called again after true */
    gw_run_judge *hang;    /* --hang-after: a process stands still. After true --kill-on-hang ends the program */
    void *user;
} gw_run_judges;

#endif
