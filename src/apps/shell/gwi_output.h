/* The files that options name for output, such as --json FILE (output.c).
 *
 * A command opens all of its outputs with one call before any work begins, and writes each one when its contents are
 * complete. Until then, an existing file is unchanged and a new one does not exist, so if the work fails, nothing is
 * lost and nothing is left behind.
 *
 * gwi_outputs_open() refuses:
 * - a recording, a core dump, a program, a database (SQLite) or a file of a run folder, under whatever name
 * - a file that the command reads, or that another option of the command names; but see `beside`
 * - a folder, a socket, a FIFO that no process reads, and devices other than terminals, /dev/null and /dev/full
 * - a file that cannot be created or written
 *
 * /dev/stdout, /dev/stderr, /dev/fd/N and /proc/self/fd/N are written where the descriptor stands. An ordinary file is
 * written in place, through links: it keeps its owner and mode, and may be a mount point (Kubernetes'
 * /dev/termination-log). The space is reserved first, so a full disk does not cost the old contents.
 *
 * Nothing blocks while outputs are opened. A pipe that is full is waited for; see wait_s_max. */
#ifndef GWI_OUTPUT_H
#define GWI_OUTPUT_H

#include "gw_place.h"
#include "gw_text.h"

#include <stdio.h>
#include <sys/stat.h>

typedef enum gwi_output_kind {
    GWI_OUTPUT_FILE,
    GWI_OUTPUT_REPLACED, /* an ordinary file, replaced as a whole: a reader never sees a part of it */
    GWI_OUTPUT_RECORDING /* the supervisor creates it, or a file in this folder; here it is only checked */
} gwi_output_kind;

/* The limit of waits after a program has ended. A reader that does not read must not keep gpuwhy from ending. */
enum { GWI_OUTPUT_WAIT_S = 10 };

typedef struct gwi_output {
    /* set by the caller */
    const char *option; /* static, for messages */
    const char *path;   /* borrowed; NULL: the option is not given */
    gwi_output_kind kind;
    unsigned mode;       /* of a new file, before the umask; 0: 0600 */
    bool may_be_stdout;  /* "-" is standard output */
    bool makes_parents;  /* of a recording: its folder is made with all folders above it */
    const char *beside;  /* static: the ending to add to the name of the new recording, the first output, if both name
                            the same file; NULL: refuse */
    unsigned wait_s_max; /* how long to wait for a pipe's reader that takes nothing; 0: no limit */
    /* set by gwi_outputs_open() */
    int fd;             /* owned; a pipe, a device or a descriptor; -1: an ordinary file */
    bool existed;       /* there was a file */
    struct stat before; /* its state then */
    gw_path real;       /* the path without links; "": unknown */
    const char *asked;  /* the path that the caller set, if `path` is now `moved`; otherwise NULL */
    gw_path moved;
} gwi_output;

/* Open the outputs of a command. `inputs`: the files that it reads. GW_USAGE: "OPTION FILE: reason" is in `err`, and
 * nothing is open. An output that moved is reported in one line. */
GW_MUST_CHECK gw_status gwi_outputs_open(gwi_output *outputs, size_t count, char *const *inputs, int input_count,
                                         gw_error *err);
void gwi_outputs_close(gwi_output *outputs, size_t count);

/* Write the text. The first `kept_bytes` of an ordinary file stay. On an error (GW_IO, GW_NOMEM, GW_USAGE: a recording
 * has got this name meanwhile), `err` names the option, the file and the reason.
 *
 * The wait for a full pipe also ends if SIGINT, SIGTERM or SIGQUIT is pending, for callers that block these signals. */
GW_MUST_CHECK gw_status gwi_output_write(const gwi_output *output, const gw_text *text, size_t kept_bytes,
                                         gw_error *err);

/* Return a stream for contents that are too large for a text. Pass it to gwi_output_finish(). NULL: `err` has the
 * reason. */
FILE *gwi_output_stream(const gwi_output *output, gw_error *err);
/* Close the stream, and write its contents to the output if the work has succeeded, that is, `st` is GW_OK. Returns
 * `st`, or why the output could not be written. */
GW_MUST_CHECK gw_status gwi_output_finish(const gwi_output *output, FILE *stream, gw_status st, gw_error *err);

#endif
