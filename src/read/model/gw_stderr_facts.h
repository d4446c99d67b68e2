/* Part of gw_model_facts.h: the program's output to stderr, and messages that libraries wrote to their own logs. */
#ifndef GW_STDERR_FACTS_H
#define GW_STDERR_FACTS_H

#include "gw_signs.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The lines of one kind on stderr: the first or the last one, and the number of lines. What the line means is asked
 * with gw_stderr_field(); its text is only for display. */
typedef struct gw_stderr_line {
    bool seen;
    uint64_t t_ns;
    uint64_t count;
    const struct gw_log_find *find; /* first sign of the line; NULL: the line has no sign */
} gw_stderr_line;
/* What an exception is about. NONE: there was no exception. SCRIPT: the exception concerns neither the GPU nor its
 * memory. */
typedef enum gw_exception_kind {
    GW_EXCEPTION_NONE,
    GW_EXCEPTION_SCRIPT,
    GW_EXCEPTION_OOM,
    GW_EXCEPTION_GPU
} gw_exception_kind;

typedef struct gw_stderr_facts {
    uint64_t bytes;
    struct gwi_stderr_output *output; /* owned; the text, which belongs to the model alone; NULL: none */
    /* The text, read as a log when the model was finished; owned. NULL: there is no text, or this build has no matcher.
     * Its second file is the text after the gap. */
    struct gw_log *log;
    /* The pid of a Python interpreter whose last exception is missing on stderr; it was appended to the text. 0:
     * nothing was appended. */
    uint32_t inside_pid;
    /* the appended traceback begins at the top level of a program, so probably nothing caught it */
    bool inside_from_top;
    bool traceback; /* stderr contains a Python traceback */
    /* The exception that ended the program, such as "ValueError: ...": see gw_log_exception(). */
    gw_stderr_line exception;
    char exception_type[96];
    bool exception_about_child; /* `exception` only reports that another process failed */
    /* the last exception that reports a failed child process; `exception` may be another one */
    gw_stderr_line child_exception;
    gw_stderr_line frame;      /* innermost frame of the last traceback */
    bool exception_chain_oom;  /* `exception` is chained to an earlier out-of-memory error */
    bool exception_is_chained; /* `exception` is chained to an earlier exception */
    bool exception_after_oom; /* at most two lines lie between the last traceback and an out-of-memory line before it */
    bool exception_lacks_value; /* `exception` reports that a value is missing: None, or an undefined name */
    bool exception_mentions_memory;
    /* `exception` ended a thread, but not the main one, and is not usual in a thread whose peer ends first */
    bool exception_ended_thread;
    bool exception_goes_on; /* a line after the exception announces that the program continues */
    gw_exception_kind exception_kind;
    gw_stderr_line oom;      /* first out-of-memory line of a framework */
    gw_stderr_line oom_last; /* last out-of-memory line of a framework */
    gw_stderr_line device_assert;
    gw_stderr_line library_status; /* first line with a library's error status: CUDNN_STATUS_..., CUBLAS_STATUS_... */
    gw_stderr_line terminate;      /* last line about an uncaught C++ exception: "terminate called", "what():" */
    /* first line about host memory: "MemoryError", "std::bad_alloc", "Cannot allocate memory" */
    gw_stderr_line host_memory;
    /* last line with the name of a CUDA result, or with its description, such as "invalid argument" */
    gw_stderr_line result;
    gw_stderr_line fatal; /* first line about a crash: "Fatal Python error", "Segmentation fault" */
    gw_stderr_line last;  /* last line that is neither empty nor gpuwhy's own */
} gw_stderr_facts;

/* Entries of cuDNN's own log with the same process, severity, function, status and reason. Their times may differ. */
typedef struct gw_cudnn_line {
    /* when the supervisor read the first and the last entry, about 0.1 s after cuDNN wrote it */
    uint64_t t_ns, t_last_ns;
    uint64_t count;
    uint32_t pid;                     /* pid from the log entry; 0: the entry has none */
    uint32_t version;                 /* cuDNN version, such as 90300 or 8204; 0: unknown */
    uint32_t more;                    /* number of messages in the entry besides `reason` */
    bool is_error;                    /* false: the entry is a warning */
    char *function, *status, *reason; /* owned by the model; NULL: unknown */
} gw_cudnn_line;

/* Return the last line of the output with this sign, or NULL. With `field`, only lines count that have this field. */
const struct gw_log_find *gw_stderr_said(const gw_stderr_facts *facts, gw_sign sign, const char *field);
/* Return the field of this sign in the line, or NULL if the line does not have the sign or the field. Without `field`,
 * return "" if the line has the sign. */
const char *gw_stderr_field(const gw_stderr_facts *facts, const gw_stderr_line *line, gw_sign sign, const char *field);
/* Return the number of the CUDA error in this line, 0 if it contains none. */
unsigned gw_stderr_code(const gw_stderr_facts *facts, const gw_stderr_line *line);
/* Look up the code of the CUDA error that a log line contains as a name, a text or a number. Returns false if the line
 * contains none. */
bool gw_log_cuda_code(const struct gw_log_find *find, unsigned *ret_code);
/* Convert an error number of a runtime before CUDA 10.1 into today's number. Returns false if the number has not
 * changed or was unused. */
bool gw_log_old_cuda_code(unsigned number, unsigned *ret_code);
/* Return when a line of `log` was read. */
uint64_t gw_stderr_line_t_ns(const gw_stderr_facts *facts, uint32_t file, uint64_t line);
/* True if the line was not on stderr: it is part of the exception that was appended (`inside_pid`). */
bool gw_stderr_is_inside(const gw_stderr_facts *facts, const struct gw_log_find *find);
/* For display: return the last line before *at that is neither empty nor gpuwhy's own, without spaces around it. A
 * carriage return also begins a line, because progress bars overwrite their line. *at is SIZE_MAX for the end of what
 * was on stderr, and becomes the place before the line. *ret_bytes is the line's length, 0 if there is none. */
const char *gw_stderr_line_before(const gw_stderr_facts *facts, size_t *at, size_t *ret_bytes);
/* Determine the kind of the exception that ended the program from the last line of its traceback. */
gw_exception_kind gw_exception_kind_of(const gw_stderr_facts *facts);
/* True if the last exception may be a consequence of a refused request for memory, even if it is no out-of-memory
 * error. One of these is true:
 * - The message mentions memory.
 * - The exception reports a missing value: None, or an undefined name.
 * - The exception was raised while another one was handled. */
bool gw_exception_may_follow_refusal(const gw_stderr_facts *facts);

#endif
