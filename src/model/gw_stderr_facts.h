/* Part of gw_model_facts.h: what the program wrote to stderr, and what libraries wrote to their own logs. */
#ifndef GW_STDERR_FACTS_H
#define GW_STDERR_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A kind of line in stderr: the text of the first or the last such line, which may be cut, and the number of such
 * lines. */
enum { GW_STDERR_LINE_MAX = 400 };
typedef struct gw_stderr_line {
    bool seen;
    uint64_t t_ns;
    uint64_t count;
    char text[GW_STDERR_LINE_MAX];
} gw_stderr_line;
typedef struct gw_stderr_facts {
    uint64_t bytes;
    /* The text as written, or the beginning and the end of a long text. `text_gap` is the index at which the end
     * begins, after the missing lines. 0: nothing is missing. */
    char *text; /* owned */
    size_t text_bytes, text_gap;
    /* Index from which the text is not from stderr: the exception that ended a Python interpreter, if stderr does not
     * contain it. 0 without `inside_pid`: all of the text is from stderr. */
    size_t inside_at;
    uint32_t inside_pid;
    bool inside_from_top; /* that exception's traceback begins where a program begins, so probably nothing caught it */
    bool traceback;       /* stderr contains a Python traceback */
    gw_stderr_line exception; /* the last line of the last traceback: "ValueError: ..." */
    char exception_type[96];
    bool exception_about_child;         /* `exception` only reports that another process failed */
    gw_stderr_line child_exception;     /* the last line that reports a failed process, even if it is not `exception` */
    char frame[GW_STDERR_LINE_MAX];     /* innermost frame of `exception`: File "x.py", line 12, in f */
    char own_frame[GW_STDERR_LINE_MAX]; /* innermost frame of `exception` outside of installed packages; "": none */
    bool exception_chain_oom;           /* the chain of `exception` contains an earlier out-of-memory error */
    bool exception_is_chained;          /* the chain of `exception` contains an earlier exception */
    bool exception_after_oom;       /* the traceback of `exception` followed an out-of-memory line almost directly */
    bool exception_is_fork_refused; /* a framework refused to use CUDA in a forked child and raised `exception` */
    bool exception_lacks_value;     /* `exception` is about a value that was never set: None, or an unknown name */
    uint64_t oom_last_t_ns;
    gw_stderr_line oom; /* the first out-of-memory line of a framework; its `count` is the number of such lines */
    gw_stderr_line cuda_error; /* "CUDA error: ...", "CUDA_ERROR_..." */
    gw_stderr_line device_assert;
    gw_stderr_line wrong_device;   /* a framework reports that something is on another GPU than the current one */
    gw_stderr_line library_status; /* a status of a library: CUDNN_STATUS_..., CUBLAS_STATUS_... */
    gw_stderr_line terminate;      /* from C++: terminate called, what(): */
    gw_stderr_line host_memory;    /* MemoryError, std::bad_alloc, Cannot allocate memory */
    gw_stderr_line result;         /* the last line that names a CUDA result, or contains the runtime's text for one */
    gw_stderr_line disk_full;      /* the last line that reports a full disk or quota: "No space left on device" */
    gw_stderr_line limit;          /* the last line that reports too many files, threads or processes */
    gw_stderr_line xla_dump;       /* the summary that the allocator of TensorFlow or XLA prints */
    gw_stderr_line fatal;          /* Fatal Python error, Segmentation fault */
    gw_stderr_line fork_refused;   /* a framework refused to use CUDA in a forked child, before any driver call */
    char fork_frame[GW_STDERR_LINE_MAX]; /* innermost frame of that traceback outside of installed packages */
    gw_stderr_line driver_log;           /* lines of the driver's own log, not of stderr */
} gw_stderr_facts;

/* Entries of cuDNN's own log that are equal except for their times. */
typedef struct gw_cudnn_line {
    uint64_t t_ns, t_last_ns; /* when the supervisor read the first and the last entry, 0.1 s after cuDNN wrote it */
    uint64_t count;
    uint32_t pid;                     /* the pid in the log; 0: the log has none */
    uint32_t version;                 /* 90300, 8204; 0: unknown */
    uint32_t more;                    /* number of further messages of the entry */
    bool is_error;                    /* false: a warning */
    char *function, *status, *reason; /* owned; NULL: unknown */
} gw_cudnn_line;

/* What an exception is about, from its last line. NONE: no exception. SCRIPT: neither GPU memory nor the GPU. */
typedef enum gw_exception_kind {
    GW_EXCEPTION_NONE,
    GW_EXCEPTION_SCRIPT,
    GW_EXCEPTION_OOM,
    GW_EXCEPTION_GPU
} gw_exception_kind;
/* Return the kind of the exception that ended the program, from its last line. */
gw_exception_kind gw_exception_kind_of(const gw_stderr_facts *facts);
/* True if a refused request for memory may have caused the exception, whatever its type: it mentions memory, it is
 * about a value that was never set, or it was raised while another exception was handled. */
bool gw_exception_may_follow_refusal(const gw_stderr_facts *facts);

#endif
