/* The program as our child: started, signalled, waited for, as if we were not there. */
#ifndef GWI_CHILD_H
#define GWI_CHILD_H

#include "gwi_run.h"

typedef struct gwi_signals {
    int fd;               /* every signal that we pass on arrives here */
    sigset_t mask_before; /* what the program inherits */
    struct sigaction pipe_before, child_before;
    pid_t witness_pid;         /* 0: none */
    void *witness_counts;      /* owned: shared with the witness */
    uint32_t witness_seen[65]; /* by signal: how many of its counts we have matched */
} gwi_signals;

/* Take over signal handling. Never fails: without it, signals end us as they end anybody. */
void gwi_signals_begin(gwi_signals *signals);
/* In the child: as it was before. */
void gwi_signals_restore(const gwi_signals *signals);
/* Handle what has arrived: pass on what was sent to us alone. `child` 0: to nobody, it is gone. */
void gwi_signals_pass_on(gwi_signals *signals, pid_t child);
void gwi_signals_end(gwi_signals *signals);

typedef struct gwi_start {
    char *const *argv;
    const gwi_program *program;
    const gw_run_options *options;
    const gwi_doors *doors;
    const gwi_stderr *capture;
    const gwi_signals *signals;
    const struct gwi_cudnn *cudnn;
    const char *run_folder;
    pid_t supervisor;
} gwi_start;

/* GW_OK: *ret_pid runs the program. GW_IO: it could not be executed, *ret_errno says why. */
GW_MUST_CHECK gw_status gwi_child_start(const gwi_start *start, pid_t *ret_pid, int *ret_errno, gw_error *err);

/* Has it ended? Stops with it when the terminal stops it. */
bool gwi_child_ended(pid_t pid, int *ret_status);

/* End as the program ended: its status, or its signal without a second core dump. */
_Noreturn void gwi_end_like(int status);

#endif
