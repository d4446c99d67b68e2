/* The program as our child process: started, signalled and waited for as if gpuwhy were not there. */
#ifndef GWI_CHILD_H
#define GWI_CHILD_H

#include "gwi_run.h"

typedef struct gwi_signals {
    int fd;               /* delivers every signal that we pass on */
    sigset_t mask_before; /* the mask that the program inherits */
    struct sigaction pipe_before, child_before;
    pid_t witness_pid;         /* 0: none */
    void *witness_counts;      /* owned; shared with the witness */
    uint32_t witness_seen[65]; /* by signal: number of the witness's signals that were matched with ours */
} gwi_signals;

/* Take over signal handling. Never fails: without it, signals end us like any process. */
void gwi_signals_begin(gwi_signals *signals);
/* In the child: restore the state before gwi_signals_begin(). */
void gwi_signals_restore(const gwi_signals *signals);
/* Handle the signals that arrived, and pass on those that were sent only to us. `child` 0: the program has ended. */
void gwi_signals_pass_on(gwi_signals *signals, pid_t child);
void gwi_signals_end(gwi_signals *signals);

/* Raise our own limits of open files and of file sizes as far as we may; the program gets the original ones. False: too
 * few files may be open. */
bool gwi_limits_begin(void);
/* In the child, before exec. */
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

/* GW_OK: *ret_pid runs the program. GW_IO: it could not be executed; *ret_errno is the reason. */
GW_MUST_CHECK gw_status gwi_child_start(const gwi_start *start, pid_t *ret_pid, int *ret_errno, gw_error *err);

/* True if the child has ended. If the terminal stopped it, stop too. */
bool gwi_child_ended(pid_t pid, int *ret_status);

/* End this process like the program: with its exit status, or by its signal without a second core dump. */
_Noreturn void gwi_end_like(int status);

#endif
