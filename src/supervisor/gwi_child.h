/* Runs the program as our child process: starts it, passes signals on to it, waits for it, and ends gpuwhy as the
 * program ended. All this works as if gpuwhy were not there. */
#ifndef GWI_CHILD_H
#define GWI_CHILD_H

#include "gwi_run.h"

typedef struct gwi_signals {
    int fd;               /* signalfd for all signals that we handle; -1: none */
    sigset_t mask_before; /* the signal mask that the program inherits */
    struct sigaction pipe_before, child_before;
    pid_t witness_pid;         /* pid of the witness process (child.c); 0: not running */
    void *witness_counts;      /* number of each signal that the witness received; owned; shared memory */
    uint32_t witness_seen[65]; /* per signal: value of the witness's counter when it was last read */
    int stop_signal;           /* the last signal that asked us or the whole group to end; 0: none so far */
} gwi_signals;

/* Block the signals that we handle, and read them from a signalfd from now on. Never fails: if there is no signalfd,
 * the signals stay blocked and are not passed on. */
void gwi_signals_begin(gwi_signals *signals);
/* True if the signal is one with which a user or a scheduler asks a program to end. */
bool gwi_signal_is_stop(int signal);
/* In the child, before exec: undo gwi_signals_begin(). */
void gwi_signals_restore(const gwi_signals *signals);
/* Handle the signals that arrived. Signals that were sent only to us are passed on to `child`. If `child` is 0, they
 * are dropped. */
void gwi_signals_pass_on(gwi_signals *signals, pid_t child);
void gwi_signals_end(gwi_signals *signals);

/* Raise our own limits on open files and on file sizes as far as permitted. The program gets the original limits.
 * Returns false if the limit on open files is still too low to watch a program. */
bool gwi_limits_begin(void);
/* In the child, before exec: restore the original limits. */
void gwi_limits_restore(void);

typedef struct gwi_start {
    char *const *argv;
    const gwi_program *program;
    const gw_run_options *options;
    const gwi_doors *doors;
    const gwi_stderr *capture;
    const gwi_signals *signals;
    const struct gwi_cudnn *cudnn;
    const char *run_folder;
    const char *handout; /* see gwi_doors_enter() */
    pid_t supervisor;
} gwi_start;

/* Start the program. On GW_OK, *ret_pid is its pid. On GW_IO, the program could not be executed and *ret_errno is the
 * reason. */
GW_MUST_CHECK gw_status gwi_child_start(const gwi_start *start, pid_t *ret_pid, int *ret_errno, gw_error *err);

/* Return true if the child has ended. *ret_status is then its status as from waitpid(). If the terminal stopped the
 * child, stop this process too. */
bool gwi_child_ended(pid_t pid, int *ret_status);

/* End this process as the program ended: with the same exit status, or by the same signal but without a second core
 * dump. */
_Noreturn void gwi_end_like(int status);

#endif
