/* The program's stderr as evidence, without standing between it and its reader.
 *
 *   a file       read afterwards in place, from where it ended when the run began
 *   a terminal   a second terminal of the same size and modes, copied to the first by a relay process
 *   a pipe       a second pipe, copied likewise
 *   else         left alone
 *
 * Where standard output is the same file or pipe (`> log 2>&1`, `2>&1 | tee log`), both are evidence: of a file both
 * are there anyway, and the second pipe becomes the program's standard output, too, so that the order is kept.
 *
 * The relay is a process of its own, so that the program's stderr works on when the supervisor dies. The copying is
 * done by a child of it, which is replaced when it is killed. It ends when the last writer has closed its end, or when
 * our own reader has gone (then the program learns it as it would without us). Only the last GWI_STDERR_BYTES_MAX bytes
 * are kept. */
#ifndef GWI_STDERR_H
#define GWI_STDERR_H

#include "gw_status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { GWI_STDERR_BYTES_MAX = 256 << 10 };

typedef struct gwi_stderr_tail gwi_stderr_tail;

typedef struct gwi_stderr {
    const char *not_recorded; /* static: why it is left alone; NULL: it is recorded */
    bool with_stdout;         /* what is recorded holds the standard output, too: both are one file or pipe */
    int child_fd;             /* what becomes the program's stderr; -1: it stays */
    int file_fd;              /* a file, opened again for reading; -1: none */
    off_t file_start;
    pid_t relay_pid;       /* 0: none */
    gwi_stderr_tail *tail; /* owned: shared with the relay */
    uint64_t bytes_taken;  /* what gwi_stderr_take() has handed out */
} gwi_stderr;

/* Look at our stderr and set up what it needs. Never fails: what cannot be recorded is left alone. */
void gwi_stderr_begin(gwi_stderr *capture, bool wanted);
/* In the child, before exec. */
void gwi_stderr_enter(const gwi_stderr *capture);
/* In the supervisor, once the child exists. */
void gwi_stderr_began(gwi_stderr *capture);
/* Wait, not long, until what the dead program wrote has gone through the relay. */
void gwi_stderr_settle(gwi_stderr *capture);
/* The bytes since the last call, at most GWI_STDERR_BYTES_MAX: *ret_bytes is the caller's. 0: nothing new. */
size_t gwi_stderr_take(gwi_stderr *capture, char **ret_bytes);
void gwi_stderr_end(gwi_stderr *capture);

#endif
