/* What was found out about a kernel's fault beside the calls that failed: GPU core dumps, and a second run with
 * blocking launches. All of it stands in the recording as facts of the supervisor (docs/recording-format.md). Read
 * only; owned by the model. */
#ifndef GW_FAULT_FACTS_H
#define GW_FAULT_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GW_GPU_FAULTS_MAX = 256, GW_GPU_DUMPS_MAX = 64 };

/* Threads of one kernel that met the same exception at the same place. */
typedef struct gw_gpu_fault {
    uint64_t t_ns; /* the dump was complete */
    uint32_t pid;
    uint32_t exception; /* the driver's number for it */
    char *name;         /* "WARP_ILLEGAL_ADDRESS" */
    uint16_t result;    /* what calls answer after such an exception: 700, ... */
    uint32_t device, sm;
    uint64_t count;  /* threads; SMs where !has_thread */
    bool has_thread; /* false: the fault was found after its warp had left */
    uint32_t block[3], thread[3];
    bool has_pc;
    uint64_t pc;
    char *kernel;    /* mangled; NULL: unknown */
    char *function;  /* that the PC lies in; NULL: unknown */
    uint64_t offset; /* in it */
    bool has_grid;
    uint32_t grid_dim[3], block_dim[3];
    char *file; /* NULL: no line information */
    uint32_t line;
} gw_gpu_fault;

typedef struct gw_gpu_dump {
    uint64_t t_ns;
    uint32_t pid;
    char *path;
    uint64_t bytes;
    bool kept;             /* the file still lay there when the run ended */
    char *refused;         /* why it could not be read; NULL: it was */
    uint64_t fault_count;  /* places in it; 0: it holds no exception */
    uint64_t fault_beyond; /* of these, not told */
    bool skip_abort;       /* the program went on after the exception, because its environment said so */
} gw_gpu_dump;

/* The same command once more, with CUDA_LAUNCH_BLOCKING=1. */
typedef enum gw_blame_end {
    GW_BLAME_IN_LAUNCH, /* a launch reported the fault: it is the one */
    GW_BLAME_ELSEWHERE, /* another call did */
    GW_BLAME_NO_FAULT,  /* it ended well */
    GW_BLAME_OTHER,     /* it ended badly, but no GPU fault was seen */
    GW_BLAME_NOT_RUN    /* it could not be started */
} gw_blame_end;
const char *gw_blame_end_text(gw_blame_end end); /* "in-launch", as the recording has it; static */

/* A frame of the call at fault, as the second run's verdict has it (gw_where_frame). */
typedef struct gw_blame_frame {
    char *function, *file, *module, *text, *whose; /* owned; NULL: not known */
    uint64_t address;
    uint32_t line;
    bool python, inlined;
} gw_blame_frame;

enum { GW_BLAME_FRAMES_MAX = 512, GW_BLAME_NOTES_MAX = 8 };

typedef struct gw_blame {
    bool known;
    gw_blame_end end;
    char *recording; /* of the second run; NULL: none was kept */
    char *ended;     /* "exit status 1", "signal 6" */
    uint16_t result;
    char *call;   /* that reported it; NULL unless IN_LAUNCH or ELSEWHERE */
    char *kernel; /* of the launch; ELSEWHERE: of the last one before the call; NULL: unknown */
    uint64_t stream;
    uint32_t tid;
    char *thread; /* its name */
    bool has_order;
    uint64_t order;                 /* launches of its thread before it */
    uint64_t t_ns;                  /* in the second run */
    char *frame;                    /* the innermost frame of its Python traceback; NULL: none was seen */
    char *where;                    /* the place in the program, as the second run's verdict has it; NULL: unknown */
    gw_blame_frame *stack;          /* of that place; innermost first; owned */
    size_t stack_count;             /* 0: unknown */
    size_t stack_user;              /* index of the user's frame */
    char *note[GW_BLAME_NOTES_MAX]; /* what is missing of the stack; NULL behind the last */
    char *where_reason;             /* why there is no place, or no line; NULL: nothing is missing */
} gw_blame;

/* A line of the driver's own log that tells of a lost context. Most lines of that log tell of harmless probes. */
enum { GW_FAULT_LOGS_MAX = 8, GW_FAULT_LOG_BYTES_MAX = 200 };
typedef struct gw_fault_log {
    uint64_t t_ns;
    uint32_t pid;
    char text[GW_FAULT_LOG_BYTES_MAX];
} gw_fault_log;

typedef struct gw_fault_facts {
    gw_gpu_dump *dump;
    size_t dump_count;
    gw_gpu_fault *fault; /* of each dump: threads first, the most frequent first */
    size_t fault_count;
    gw_blame blame;
    gw_fault_log log[GW_FAULT_LOGS_MAX]; /* the first ones, no line twice */
    size_t log_count;
} gw_fault_facts;

#endif
