/* Records the program's stderr as evidence, without disturbing its reader.
 *
 *   a file         is read in place, from the offset at which the program's output begins
 *   a terminal     is left alone; a preloaded library copies what the program writes (gw_stderr_door.h)
 *   a pipe         is replaced by a second one, from which a relay process copies to the first
 *   anything else  is left alone
 *
 * Standard output is recorded if it is the same file or pipe (`> log 2>&1`, `2>&1 | tee log`). The second pipe then
 * replaces both, so that the order of lines is preserved.
 *
 * The relay is a program of its own, so stderr keeps working if gpuwhy dies. A child of the relay does the copying, and
 * is replaced if it is killed. The relay ends when the last writer has closed its end. It also ends
 * when our stderr has no reader any more: the program's next write then fails, as without gpuwhy. Only the last
 * GW_STDERR_BYTES_MAX bytes are kept for the recording. */
#ifndef GWI_STDERR_H
#define GWI_STDERR_H

#include "gw_place.h"
#include "gwi_relay.h"

#include <stddef.h>

typedef struct gwi_stderr {
    const char *not_recorded; /* static string: why stderr is not recorded, or not all of it; NULL if all is */
    bool with_stdout;         /* standard output is the same file or pipe, so the recorded text includes it */
    int child_fd;             /* becomes the program's stderr; -1: stderr is inherited */
    int file_fd;              /* stderr's file, opened again for reading; -1 if none */
    off_t file_start;
    gw_path relay_path;    /* the relay's program; "": it cannot be executed */
    pid_t relay_pid;       /* 0 if none */
    int source_fd;         /* read end of the pipe, for a new relay if the relay is killed; -1 if none */
    gwi_stderr_tail *tail; /* owned; shared with the relay; NULL if there is none */
    int tail_fd;           /* its file; -1 if none */
    gw_stderr_ring *ring;  /* what was written: the relay's, or for a terminal an own file (owned); NULL if none */
    gw_path ring_path;     /* the file of the ring of a terminal; "" if there is none */
    uint64_t missing_at;   /* total of the ring when some of its bytes were not there yet */
    uint64_t bytes_taken;  /* offset of the next byte to return; in a file, relative to file_start */
} gwi_stderr;

/* Examine our stderr. If `wanted`, prepare to record it; on a terminal, by a file in `run_folder` ("": there is none).
 * Never fails: if stderr cannot be recorded, it stays as it is. */
void gwi_stderr_begin(gwi_stderr *capture, bool wanted, const char *run_folder);
/* In the child: start the relay, replace stderr, and standard output if it is recorded too, and execute `argv`. If this
 * cannot be done by the relay's program, return, and the child must execute it itself. `report_fd` gets the errno of a
 * failed exec. */
void gwi_stderr_execute(const gwi_stderr *capture, char *const *argv, int report_fd);
/* In the supervisor, after the child's exec: close the end that the program writes to. */
void gwi_stderr_began(gwi_stderr *capture);
/* Replace the relay if it was killed. Call this when one of our children has ended. */
void gwi_relay_look(gwi_stderr *capture);
/* After the program's end: wait a short time for the relay to copy the rest of the program's output. */
void gwi_stderr_settle(gwi_stderr *capture);
/* Store the bytes written since the last call in *ret_bytes (caller frees), at most the last GW_STDERR_BYTES_MAX.
 * Returns their number. */
size_t gwi_stderr_take(gwi_stderr *capture, char **ret_bytes);
void gwi_stderr_end(gwi_stderr *capture);

#endif
