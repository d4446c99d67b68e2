/* Runs the program as a child process, passes signals on, and ends gpuwhy in the same way. Users and other programs see
 * no difference. */
#ifndef GWI_CHILD_H
#define GWI_CHILD_H

#include "gwi_run.h"

typedef struct gwi_signals {
    int fd;               /* signalfd for all signals that we handle; -1: none */
    sigset_t mask_before; /* the signal mask that the program inherits */
    struct sigaction pipe_before, child_before;
    pid_t witness_pid;         /* pid of the witness process (child.c); 0: not running */
    void *witness_counts;      /* for each signal: how often the witness received it; owned; shared memory */
    uint32_t witness_seen[65]; /* per signal: value of the witness's counter when it was last read */
    int stop_signal;           /* the last signal that asked us or the whole group to end; 0: none so far */
    uint64_t stop_ns;          /* CLOCK_MONOTONIC when it arrived */
    bool is_from_outside;      /* its sender is known not to belong to the program */
    pid_t sender;              /* 0: the terminal, or a process in an outer pid namespace */
    char sender_name[300];     /* its command line, or what it is; "": unknown */
} gwi_signals;

/* Block the signals that we handle, and read them from a signalfd. Without a signalfd, they stay blocked and are not
 * passed on. */
void gwi_signals_begin(gwi_signals *signals);
/* True if the signal is one with which a user or a scheduler asks a program to end. */
bool gwi_signal_is_stop(int signal);
/* In the child, before exec: undo gwi_signals_begin(). */
void gwi_signals_restore(const gwi_signals *signals);
/* Handle the signals that arrived. A signal that was sent only to us is passed on to `child`, or dropped if `child` is
 * 0. */
void gwi_signals_pass_on(gwi_signals *signals, pid_t child);
void gwi_signals_end(gwi_signals *signals);

/* Raise our own limits on open files and file sizes; the program gets the original ones. Returns false if too few open
 * files are allowed to watch a program. */
bool gwi_limits_begin(void);
/* In the child, before exec: restore the original limits. */
void gwi_limits_restore(void);

typedef struct gwi_start {
    char *const *argv;
    const gwi_program *program;
    const gw_run_options *options;
    const gwi_doors *doors;
    const gwi_stderr *capture;
    gwi_signals *signals;
    const struct gwi_cudnn *cudnn;
    const char *run_folder;
    const char *handout; /* see gwi_doors_enter() */
    pid_t supervisor;
} gwi_start;

/* Start the program. On GW_OK, *ret_pid is its pid. Returns GW_IO if the program cannot be executed; *ret_errno is then
 * the reason. */
GW_MUST_CHECK gw_status gwi_child_start(const gwi_start *start, pid_t *ret_pid, int *ret_errno, gw_error *err);

/* Return true if the child has ended; *ret_status is then as from waitpid(). If the terminal has stopped the child,
 * this process stops, too. */
bool gwi_child_ended(pid_t pid, int *ret_status);

/* End this process in the same way as the program ended: with the same exit status, or by the same signal. Do not write
 * a second core dump. */
_Noreturn void gwi_end_like(int status);

#endif
