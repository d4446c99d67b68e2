/* Facts about kernel faults that failed calls do not contain: GPU core dumps, and a second run with blocking launches.
 * The supervisor records them (docs/recording-format.md). Read only; owned by the model. */
#ifndef GW_FAULT_FACTS_H
#define GW_FAULT_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GW_GPU_FAULTS_MAX = 256, GW_GPU_DUMPS_MAX = 64 };

/* A fault: threads of one kernel that had the same exception at the same place. */
typedef struct gw_gpu_fault {
    uint64_t t_ns; /* when the dump was complete */
    uint32_t pid;
    uint32_t exception; /* the driver's number for the exception */
    char *name;         /* such as "WARP_ILLEGAL_ADDRESS" */
    uint16_t result;    /* result that calls return after such an exception, such as 700 */
    uint32_t device, sm;
    uint64_t count;  /* number of threads, or of SMs if !has_thread */
    bool has_thread; /* false: the exception was found after its warp had ended */
    uint32_t block[3], thread[3];
    bool has_pc;
    uint64_t pc;
    char *kernel;    /* mangled name; NULL: unknown */
    char *function;  /* function that contains the PC; NULL: unknown */
    uint64_t offset; /* offset of the PC in the function */
    bool has_grid;
    uint32_t grid_dim[3], block_dim[3];
    char *file; /* source file; NULL: no line information */
    uint32_t line;
} gw_gpu_fault;

typedef struct gw_gpu_dump {
    uint64_t t_ns;
    uint32_t pid;
    char *path;
    uint64_t bytes;
    bool kept;             /* the dump's file still existed when the run ended */
    char *refused;         /* why the dump could not be read; NULL: it was read */
    uint64_t fault_count;  /* number of places with an exception; 0: the dump has no exception */
    uint64_t fault_beyond; /* number of these places that are not recorded */
    bool skip_abort;       /* the program continued after the exception, because its environment requested this */
} gw_gpu_dump;

/* How the second run of the same command, with CUDA_LAUNCH_BLOCKING=1, ended. */
typedef enum gw_blame_end {
    GW_BLAME_IN_LAUNCH, /* a launch reported the fault, so its kernel is at fault */
    GW_BLAME_ELSEWHERE, /* a call other than a launch reported the fault */
    GW_BLAME_NO_FAULT,  /* the program succeeded */
    GW_BLAME_OTHER,     /* the program failed, but without a GPU fault */
    GW_BLAME_NOT_RUN    /* the program could not be started */
} gw_blame_end;
const char *gw_blame_end_text(gw_blame_end end); /* such as "in-launch", as in the recording; static */

/* A frame in the stack of the call at fault, from the second run's verdict (gw_where_frame). */
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
    char *recording; /* path of the second run's recording; NULL: it was not kept */
    char *ended;     /* how the program ended, such as "exit status 1" or "signal 6" */
    uint16_t result;
    char *call;   /* call that reported the fault; NULL unless `end` is GW_BLAME_IN_LAUNCH or GW_BLAME_ELSEWHERE */
    char *kernel; /* kernel of that launch, or of the last launch before `call`; NULL: unknown */
    uint64_t stream;
    uint32_t tid;
    char *thread; /* name of the thread */
    bool has_order;
    uint64_t order;                 /* number of earlier launches by the same thread */
    uint64_t t_ns;                  /* time in the second run */
    char *frame;                    /* innermost frame of the thread's Python traceback; NULL: none was seen */
    char *where;                    /* place in the program, from the second run's verdict; NULL: unknown */
    gw_blame_frame *stack;          /* stack of `where`, innermost frame first; owned */
    size_t stack_count;             /* 0: unknown */
    size_t stack_user;              /* index of the frame of the user's code */
    char *note[GW_BLAME_NOTES_MAX]; /* which parts of the stack are missing; NULL after the last note */
    char *where_reason;             /* why `where` or its line is unknown; NULL: nothing is missing */
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
    gw_gpu_fault *fault; /* for each dump: faults with a thread first, starting with the most frequent */
    size_t fault_count;
    gw_blame blame;
    gw_fault_log log[GW_FAULT_LOGS_MAX]; /* the first lines, without repetitions */
    size_t log_count;
} gw_fault_facts;

#endif
