/* A program under supervision: what supervisor.c, loop.c, finish.c and second.c share. */
#ifndef GWI_STATE_H
#define GWI_STATE_H

#include "gw_run_options.h"
#include "gwi_child.h"
#include "gwi_cudnn.h"
#include "gwi_run.h"

struct gw_supervisor {
    gw_run_options options;
    gw_run_judges judges;
    char *const *argv;
    gwi_program program;
    gw_path run_folder; /* "" when there is none */
    gwi_doors doors;
    char doors_reason[512]; /* why they are closed, in words */
    gwi_record record;
    gwi_dumps dumps;
    gwi_cudnn cudnn; /* --deep */
    gwi_stderr capture;
    gwi_signals signals;
    gwi_watch watch;
    gwi_senses senses;
    pid_t child;
    uint64_t started_at_ns; /* run time */
    int status;
    gwi_hangs hangs; /* --hang-after */
    /* --on-failure */
    uint64_t judged_at_ns;
    bool failure_told;
    pid_t command_pid;
    bool is_second; /* the run of --blame */
    off_t input_at; /* where the program's standard input began; -1: it cannot be read again */
    /* --end-with-parent */
    pid_t parent;
    uint64_t parent_gone_at_ns; /* monotonic; 0: it is there */
};

/* Zeroed, but for descriptors that are not open. */
void gwi_supervisor_init(gw_supervisor *run, const gw_run_options *options, char *const *argv);
/* Everything up to the started program. An exit status other than 0: it was not started, and gwi_supervisor_clean_up()
 * is due (supervisor.c). */
int gwi_supervisor_start(gw_supervisor *run);
/* End what is still there. Takes one that was not started. */
void gwi_supervisor_clean_up(gw_supervisor *run);

/* Watch the program until it has ended (loop.c). */
void gwi_loop_run(gw_supervisor *run);
/* Wait until something happened, or it is time to drain. */
void gwi_loop_wait(const gw_supervisor *run);

/* After the program's end: what is left to be recorded, up to the names (finish.c). */
void gwi_finish_recording(gw_supervisor *run);

#endif
