/* The state of a supervised program, shared by supervisor.c, loop.c, finish.c and second.c. */
#ifndef GWI_STATE_H
#define GWI_STATE_H

#include "gw_run_options.h"
#include "gwi_child.h"
#include "gwi_cudnn.h"
#include "gwi_run.h"
#include "gwi_shared_file.h"

struct gw_supervisor {
    gw_run_options options;
    gw_run_judges judges;
    char *const *argv;
    gwi_program program;
    gw_path run_folder; /* "" if there is none */
    gwi_handout handout;
    gwi_shared_file shared;
    gwi_doors doors;
    char doors_reason[512]; /* why the hook could not be set up, as a sentence */
    gwi_record record;
    gwi_dumps dumps;
    gwi_cudnn cudnn; /* --deep */
    gwi_stderr capture;
    gwi_signals signals;
    gwi_watch watch;
    gwi_senses senses;
    pid_t child;
    uint64_t started_at_ns; /* run time at which the program was started */
    int status;
    gwi_hangs hangs; /* --hang-after */
    /* --on-failure */
    uint64_t judged_at_ns;
    bool failure_told;
    pid_t command_pid;
    bool is_second;              /* this is the second run of --blame */
    off_t input_at;              /* initial offset of the program's standard input; -1 if it cannot be read again */
    uint64_t rehearsal_ended_ns; /* run time at which a rehearsal was ended; 0: it was not */
    /* --end-with-parent */
    pid_t parent;
    uint64_t parent_gone_at_ns; /* monotonic; 0 while the parent exists */
};

/* Store the options and `argv`, and start the run time. Set file descriptors to -1 and all other fields to zero. */
void gwi_supervisor_init(gw_supervisor *run, const gw_run_options *options, char *const *argv);
/* Set up the run and start the program (supervisor.c). Returns GW_EXIT_OK (0) if the program was started. Any other
 * result is an exit status for gpuwhy, and the caller must call gwi_supervisor_clean_up(). */
int gwi_supervisor_start(gw_supervisor *run);
/* Close everything that is open, and remove the run folder and old recordings. May be called even if the program was
 * not started. */
void gwi_supervisor_clean_up(gw_supervisor *run);

/* Check the options of a rehearsal (rehearsal.c). GW_USAGE: they are wrong. */
GW_MUST_CHECK gw_status gwi_rehearsal_check(const gw_run_options *options, gw_error *err);
/* Return GW_EXIT_OK if the hook will be in the program, or if this is no rehearsal. Otherwise the program would take
 * memory and compute, so it must not be started: print the reason and return gpuwhy's exit status. */
int gwi_rehearsal_possible(const gw_supervisor *run);
/* End the rehearsed program if enough is known. */
void gwi_rehearsal_look(gw_supervisor *run);

/* Watch the program until it has ended (loop.c). */
void gwi_loop_run(gw_supervisor *run);
/* Wait until a signal arrives, a process requests a buffer, a recorded process ends, or the next drain is due. */
void gwi_loop_wait(const gw_supervisor *run);

/* After the program's end: record the last facts, and finally the names of the call sites (finish.c). */
void gwi_finish_recording(gw_supervisor *run);

#endif
