/* Describe what the kernels of a test module do, so that the virtual card can imitate them without running them.
 *
 * For a kernel `name`, a module may contain a data object `gpuwhy_model_<name>` with the layout below. It is in .global
 * or .const memory and has an initial value. The virtual card does what the object says, and a real card runs the
 * kernel. So one binary works on both. On the virtual card, a kernel without an object has no effect and takes no time.
 *
 * The object consists of ten 64-bit words. Words at its end may be omitted and are then 0. This example fails with an
 * illegal address (fault 1) if parameter 0 of the kernel `store` is not a mapped address (when 1). In PTX and in CUDA
 * C:
 *
 *     .visible .global .align 8 .u64 gpuwhy_model_store[5] = {0x4D4B594857555047, 1, 1, 1, 0};
 *     extern "C" __device__ struct gw_kernel_model gpuwhy_model_store = {GW_KERNEL_MODEL_MAGIC, 1, ...};
 *
 * For an assertion, a second object `gpuwhy_text_<name>` may contain three NUL-terminated strings: file, function,
 * message. */
#ifndef GPUWHY_KERNEL_MODEL_H
#define GPUWHY_KERNEL_MODEL_H

#include <stdint.h>

/* The bytes "GPUWHYKM" in memory order. */
#define GW_KERNEL_MODEL_MAGIC   0x4D4B594857555047u
#define GW_KERNEL_MODEL_VERSION 1u
/* The value of `duration_us` for a kernel that never ends. */
#define GW_KERNEL_ENDLESS UINT64_MAX

/* The fault of a kernel. After a fault, the next synchronising call returns the CUresult in the comment of the fault,
 * as on a real card. */
enum gw_kernel_fault {
    GW_KERNEL_FAULT_NONE = 0,
    GW_KERNEL_FAULT_ILLEGAL_ADDRESS = 1,     /* CUresult 700 */
    GW_KERNEL_FAULT_MISALIGNED = 2,          /* CUresult 716 */
    GW_KERNEL_FAULT_ASSERT = 3,              /* CUresult 710; the driver also prints the assertion on stderr */
    GW_KERNEL_FAULT_TRAP = 4,                /* CUresult 719 */
    GW_KERNEL_FAULT_STACK_OVERFLOW = 5,      /* CUresult 700 */
    GW_KERNEL_FAULT_ILLEGAL_INSTRUCTION = 6, /* CUresult 715 */
    GW_KERNEL_FAULT_ADDRESS_SPACE = 7,       /* CUresult 717 */
    GW_KERNEL_FAULT_INVALID_PC = 8,          /* CUresult 718 */
    GW_KERNEL_FAULT_COUNT
};

/* The condition under which the kernel faults. The kernel parameter that the condition tests may have at most 64
 * bits. */
enum gw_kernel_when {
    GW_KERNEL_WHEN_ALWAYS = 0,
    GW_KERNEL_WHEN_UNMAPPED = 1,       /* the parameter is not an address in allocated memory of this context */
    GW_KERNEL_WHEN_NULL = 2,           /* the parameter is 0 */
    GW_KERNEL_WHEN_AT_LEAST = 3,       /* the parameter is >= `operand` */
    GW_KERNEL_WHEN_AT_LEAST_PARAM = 4, /* the parameter is >= the parameter with index `operand` */
    GW_KERNEL_WHEN_COUNT
};

struct gw_kernel_model {
    uint64_t magic;     /* GW_KERNEL_MODEL_MAGIC */
    uint64_t version;   /* GW_KERNEL_MODEL_VERSION */
    uint64_t fault;     /* enum gw_kernel_fault */
    uint64_t when;      /* enum gw_kernel_when */
    uint64_t parameter; /* index of the kernel parameter that the condition tests, from 0 */
    /* compared with the parameter: a number, or the index of another parameter (see `when`) */
    uint64_t operand;
    uint64_t duration_us;        /* run time of the kernel, or time until its fault */
    uint64_t duration_parameter; /* 1 + index of the parameter that contains the run time in ns; 0: use duration_us */
    uint64_t line;               /* line number of the assertion in the source */
    /* 1 + index of the parameter with the host address of a struct gw_kernel_meeting, or 0. The kernel ends when its
     * run time is over and the meeting is complete. A parameter of 0 means no meeting */
    uint64_t meeting_parameter;
};

/* A place where kernels of several GPUs or processes wait for each other. It may be in memory that processes share. */
struct gw_kernel_cell {
    uint32_t arrived; /* the number of kernels that have started here */
    uint32_t needed;
};

/* What one kernel waits for. When it starts, it adds 1 to `arrived` of every cell. The meeting is complete when every
 * cell has as many arrivals as it needs. Both stay valid until the kernel has ended. */
struct gw_kernel_meeting {
    uint64_t count;
    struct gw_kernel_cell *const *cell;
};

#endif
