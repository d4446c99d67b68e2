/* What is known about a kernel's fault besides the failed calls: GPU core dumps, and a second run with blocking
 * launches. All of it is in the recording as facts of the supervisor (docs/recording-format.md). Read only; owned by
 * the model. */
#ifndef GW_FAULT_FACTS_H
#define GW_FAULT_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GW_GPU_FAULTS_MAX = 256, GW_GPU_DUMPS_MAX = 64 };

/* Threads of one kernel with the same exception at the same place. */
typedef struct gw_gpu_fault {
    uint64_t t_ns; /* when the dump was complete */
    uint32_t pid;
    uint32_t exception; /* the driver's number for it */
    char *name;         /* "WARP_ILLEGAL_ADDRESS" */
    uint16_t result;    /* the result that calls return after such an exception: 700, ... */
    uint32_t device, sm;
    uint64_t count;  /* number of threads; of SMs if !has_thread */
    bool has_thread; /* false: the fault was found after its warp had ended */
    uint32_t block[3], thread[3];
    bool has_pc;
    uint64_t pc;
    char *kernel;    /* mangled; NULL: unknown */
    char *function;  /* the function that contains the PC; NULL: unknown */
    uint64_t offset; /* in the function */
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
    bool kept;             /* the file still existed when the run ended */
    char *refused;         /* why it could not be read; NULL: it was read */
    uint64_t fault_count;  /* number of places in it; 0: it has no exception */
    uint64_t fault_beyond; /* how many of these were not recorded */
    bool skip_abort;       /* the program continued after the exception, because its environment requested that */
} gw_gpu_dump;

/* The end of a second run of the same command with CUDA_LAUNCH_BLOCKING=1. */
typedef enum gw_blame_end {
    GW_BLAME_IN_LAUNCH, /* a launch reported the fault: it is at fault */
    GW_BLAME_ELSEWHERE, /* another call reported it */
    GW_BLAME_NO_FAULT,  /* the program ended well */
    GW_BLAME_OTHER,     /* the program ended badly, but without a GPU fault */
    GW_BLAME_NOT_RUN    /* the program could not be started */
} gw_blame_end;
const char *gw_blame_end_text(gw_blame_end end); /* "in-launch", as in the recording; static */

/* A frame of the call at fault, from the second run's verdict (gw_where_frame). */
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
    char *recording; /* of the second run; NULL: it was not kept */
    char *ended;     /* "exit status 1", "signal 6" */
    uint16_t result;
    char *call;   /* the reporting call; NULL unless IN_LAUNCH or ELSEWHERE */
    char *kernel; /* of the launch; if ELSEWHERE, of the last launch before the call; NULL: unknown */
    uint64_t stream;
    uint32_t tid;
    char *thread; /* its name */
    bool has_order;
    uint64_t order;                 /* number of launches of its thread before it */
    uint64_t t_ns;                  /* in the second run */
    char *frame;                    /* the innermost frame of its Python traceback; NULL: none was seen */
    char *where;                    /* the place in the program, from the second run's verdict; NULL: unknown */
    gw_blame_frame *stack;          /* stack of that place, innermost first; owned */
    size_t stack_count;             /* 0: unknown */
    size_t stack_user;              /* index of the user's frame */
    char *note[GW_BLAME_NOTES_MAX]; /* which parts of the stack are missing; NULL after the last note */
    char *where_reason;             /* why there is no place, or no line; NULL: nothing is missing */
} gw_blame;

/* Lines of the driver's own log about a lost context. Most other lines of that log are about harmless probes. */
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
    gw_fault_log log[GW_FAULT_LOGS_MAX]; /* the first ones, without repetitions */
    size_t log_count;
} gw_fault_facts;

#endif
