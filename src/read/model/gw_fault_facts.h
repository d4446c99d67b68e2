/* Facts about kernel faults from GPU core dumps and from a second run with blocking launches. The supervisor
 * records them. Read only; owned by the model. */
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
    uint16_t result;    /* CUDA result that calls return after such an exception, such as 700 */
    uint32_t device, sm;
    uint64_t count;  /* number of threads with this exception; if !has_thread, number of SMs */
    bool has_thread; /* false: `block` and `thread` are unknown, because the warp had already ended */
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
    bool kept;             /* gpuwhy did not delete the dump's file */
    char *refused;         /* why the dump could not be read; NULL: it was read */
    uint64_t fault_count;  /* number of faults in the dump that were recorded; 0: the dump has no exception */
    uint64_t fault_beyond; /* number of further faults in the dump, which were not recorded */
    /* CUDA_COREDUMP_GENERATION_FLAGS contained skip_abort: the program continued after the exception */
    bool skip_abort;
} gw_gpu_dump;

/* How the second run of the same command, with CUDA_LAUNCH_BLOCKING=1, ended. */
typedef enum gw_blame_end {
    GW_BLAME_IN_LAUNCH, /* a launch reported the fault, so its kernel is at fault */
    GW_BLAME_ELSEWHERE, /* a call other than a launch reported the fault */
    GW_BLAME_NO_FAULT,  /* the program succeeded, so the fault did not occur again */
    GW_BLAME_OTHER,     /* the program failed, but without a GPU fault */
    GW_BLAME_NOT_RUN    /* the program could not be started */
} gw_blame_end;
const char *gw_blame_end_text(gw_blame_end end); /* such as "in-launch", as in the recording; static */

/* A frame in the stack of the call that reported the fault, from the verdict on --blame's second run
 * (gw_where_frame). */
typedef struct gw_blame_frame {
    char *function, *file, *module, *text, *whose; /* owned by the model; NULL: not known */
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
    char *kernel; /* kernel of the launch that reported the fault, or of the last launch before `call`; NULL: unknown */
    uint64_t stream;
    uint32_t tid;
    char *thread; /* name of the thread that made the call */
    bool has_order;
    uint64_t order; /* number of launches that this thread made before the call */
    uint64_t t_ns;  /* time of the call, in ns since the second run began */
    char *frame;    /* innermost Python frame of the thread, from the traceback; NULL: none was seen */
    char *where;    /* place in the program where the call was made, from the second run's verdict; NULL: unknown */
    gw_blame_frame *stack;          /* stack that leads to `where`, innermost frame first; owned */
    size_t stack_count;             /* 0: the stack is unknown */
    size_t stack_user;              /* index in `stack` of the user's frame */
    char *note[GW_BLAME_NOTES_MAX]; /* texts that say which parts of the stack are missing; NULL after the last one */
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
    gw_fault_log log[GW_FAULT_LOGS_MAX]; /* the first such lines, without repetitions */
    size_t log_count;
} gw_fault_facts;

#endif
