/* Part of gw_model_facts.h: what the program wrote to stderr, and libraries to their own logs. */
#ifndef GW_STDERR_FACTS_H
#define GW_STDERR_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What stderr contains. Lines are kept in part. */
enum { GW_STDERR_LINE_MAX = 400 };
typedef struct gw_stderr_line {
    bool seen;
    uint64_t t_ns;
    uint64_t count;
    char text[GW_STDERR_LINE_MAX];
} gw_stderr_line;
typedef struct gw_stderr_facts {
    uint64_t bytes;
    /* The text as written; of a long text, its beginning and its end. `text_gap`: the end starts here, and lines before
     * it are missing; 0: nothing is missing. */
    char *text; /* owned */
    size_t text_bytes, text_gap;
    /* From here on the text is not from stderr, but the exception with which a Python interpreter ended and that stderr
     * does not contain. 0 without `inside_pid`: all of it is from stderr. */
    size_t inside_at;
    uint32_t inside_pid;
    bool inside_from_top; /* its traceback starts where programs start: as far as a file can tell, nobody caught it */
    bool traceback;       /* there was a Python traceback */
    gw_stderr_line exception; /* the last line of the last traceback: "ValueError: ..." */
    char exception_type[96];
    bool exception_about_child;         /* it only reports that another process failed */
    gw_stderr_line child_exception;     /* the last such line, whether it is `exception` or not */
    char frame[GW_STDERR_LINE_MAX];     /* its innermost frame: File "x.py", line 12, in f */
    char own_frame[GW_STDERR_LINE_MAX]; /* the innermost frame outside of installed packages; "": none */
    bool exception_chain_oom;           /* the chain of exceptions contains an earlier out-of-memory error */
    bool exception_is_chained;          /* the chain contains an earlier exception */
    bool exception_after_oom;           /* its traceback followed an out-of-memory line directly */
    bool exception_is_fork_refused;     /* it is a framework's refusal to use CUDA in a forked child */
    bool exception_lacks_value;         /* it is about a value that was never set: None, or an unknown name */
    uint64_t oom_last_t_ns;
    gw_stderr_line oom;        /* the first out-of-memory line of a framework; count: number of such lines */
    gw_stderr_line cuda_error; /* "CUDA error: ...", "CUDA_ERROR_..." */
    gw_stderr_line device_assert;
    gw_stderr_line wrong_device;   /* a framework reports that something is on another GPU than the current one */
    gw_stderr_line library_status; /* CUDNN_STATUS_..., CUBLAS_STATUS_... */
    gw_stderr_line terminate;      /* C++: terminate called, what(): */
    gw_stderr_line host_memory;    /* MemoryError, std::bad_alloc, Cannot allocate memory */
    gw_stderr_line result;         /* the last one that names a CUDA result, or contains the runtime's text for one */
    gw_stderr_line disk_full;      /* the last one; a disk or quota is full: "No space left on device" */
    gw_stderr_line limit;          /* the last one; too many files, threads or processes: "Too many open files" */
    gw_stderr_line xla_dump;       /* the summary of TensorFlow's or XLA's allocator */
    gw_stderr_line fatal;          /* Fatal Python error, Segmentation fault */
    gw_stderr_line fork_refused;   /* a framework refused to use CUDA in a forked child; then no driver call is made */
    char fork_frame[GW_STDERR_LINE_MAX]; /* the innermost frame of that traceback outside of installed packages */
    gw_stderr_line driver_log;           /* not from stderr: lines of the driver's own log */
} gw_stderr_facts;

/* Entries of cuDNN's own log that differ only in their time. */
typedef struct gw_cudnn_line {
    uint64_t t_ns,
        t_last_ns; /* when the supervisor read the first and the last of them: 0.1 s after they were written */
    uint64_t count;
    uint32_t pid;                     /* as the log has it; 0: it has none */
    uint32_t version;                 /* 90300, 8204; 0: not known */
    uint32_t more;                    /* further messages of the entry */
    bool is_error;                    /* false: a warning */
    char *function, *status, *reason; /* owned; NULL: not known */
} gw_cudnn_line;

/* Whether an exception's line is about the GPU. */
typedef enum gw_exception_kind {
    GW_EXCEPTION_NONE,
    GW_EXCEPTION_SCRIPT,
    GW_EXCEPTION_OOM,
    GW_EXCEPTION_GPU
} gw_exception_kind;
/* The same for the last line of the exception that ended the program. */
gw_exception_kind gw_exception_kind_of(const gw_stderr_facts *facts);
/* True if it is about memory in any words, about a value that was never set, or raised while another exception was
 * handled. Then a refused request may be its reason, whatever its type. */
bool gw_exception_may_follow_refusal(const gw_stderr_facts *facts);

#endif
