/* Records the program's stderr as evidence, without disturbing its reader.
 *
 *   a file       is read in place afterwards, from its size at the start of the run
 *   a terminal   becomes a second terminal of the same size and modes; a relay process copies it to the first one
 *   a pipe       becomes a second pipe, and is copied in the same way
 *   anything else is left alone
 *
 * If standard output is the same file or pipe (`> log 2>&1`, `2>&1 | tee log`), both are evidence. A file contains both
 * anyway. A second pipe also becomes the program's standard output, so that the order of lines is kept.
 *
 * The relay is a separate process, so that the program's stderr keeps working if the supervisor dies. A child of the
 * relay does the copying and is replaced if it is killed. It ends when the last writer has closed its end, or when our
 * own reader has gone; the program then notices this as it would without us. Only the last GWI_STDERR_BYTES_MAX bytes
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
    const char *not_recorded; /* static: why stderr is not recorded; NULL: it is recorded */
    bool with_stdout;         /* the recorded text includes standard output, because both are one file or pipe */
    int child_fd;             /* becomes the program's stderr; -1: stderr is unchanged */
    int file_fd;              /* stderr's file, opened again for reading; -1: none */
    off_t file_start;
    pid_t relay_pid;       /* 0: none */
    int source_fd;         /* the pipe that the relay reads, for a new relay if it is killed; -1: none */
    gwi_stderr_tail *tail; /* owned; shared with the relay */
    uint64_t bytes_taken;  /* number of bytes that gwi_stderr_take() has returned */
} gwi_stderr;

/* Examine our stderr and prepare its recording. Never fails: if it cannot be recorded, it is left alone. */
void gwi_stderr_begin(gwi_stderr *capture, bool wanted);
/* In the child, before exec. */
void gwi_stderr_enter(const gwi_stderr *capture);
/* In the supervisor, when the child exists. */
void gwi_stderr_began(gwi_stderr *capture);
/* Replace the relay if it was killed. Call it when a child of ours has ended. */
void gwi_relay_look(gwi_stderr *capture);
/* Wait a short time until everything that the dead program wrote has passed through the relay. */
void gwi_stderr_settle(gwi_stderr *capture);
/* Take the bytes since the last call, at most GWI_STDERR_BYTES_MAX. *ret_bytes belongs to the caller. 0: nothing new.
 */
size_t gwi_stderr_take(gwi_stderr *capture, char **ret_bytes);
void gwi_stderr_end(gwi_stderr *capture);

#endif
