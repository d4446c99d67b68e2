/* Lets a test module describe to the virtual card what its kernels would do.
 *
 * The virtual card computes nothing. Next to a kernel `name`, a module may hold a data object `gpuwhy_model_<name>` (in
 * .global or .const memory, with an initial value) with the layout below. A real card ignores the object and runs the
 * kernel. The virtual card follows the object and ignores the kernel's code, so that one binary runs on both. A kernel
 * without an object has no effect and takes no time. The kernel's name alone has no meaning.
 *
 * In PTX (ten 64-bit words; trailing ones may be left out):
 *
 *     .visible .global .align 8 .u64 gpuwhy_model_store[5] = {0x4D4B594857555047, 1, 1, 1, 0};
 *
 * makes the kernel `store` fail with an illegal address (fault 1) if parameter 0 is unmapped (when 1). The same in CUDA
 * C: `extern "C" __device__ struct gw_kernel_model gpuwhy_model_store = {GW_KERNEL_MODEL_MAGIC, 1, ...};`
 *
 * For an assertion, a second object `gpuwhy_text_<name>` may hold three strings, each ending with a NUL: file,
 * function, message. */
#ifndef GPUWHY_KERNEL_MODEL_H
#define GPUWHY_KERNEL_MODEL_H

#include <stdint.h>

/* The bytes "GPUWHYKM" in memory. */
#define GW_KERNEL_MODEL_MAGIC   0x4D4B594857555047u
#define GW_KERNEL_MODEL_VERSION 1u
/* `duration_us` of a kernel that never ends. */
#define GW_KERNEL_ENDLESS UINT64_MAX

/* What goes wrong, and the result a real card reports at the next synchronising call. */
enum gw_kernel_fault {
    GW_KERNEL_FAULT_NONE = 0,
    GW_KERNEL_FAULT_ILLEGAL_ADDRESS = 1,     /* 700 */
    GW_KERNEL_FAULT_MISALIGNED = 2,          /* 716 */
    GW_KERNEL_FAULT_ASSERT = 3,              /* 710, and the assertion's text on stderr */
    GW_KERNEL_FAULT_TRAP = 4,                /* 719 */
    GW_KERNEL_FAULT_STACK_OVERFLOW = 5,      /* 700 */
    GW_KERNEL_FAULT_ILLEGAL_INSTRUCTION = 6, /* 715 */
    GW_KERNEL_FAULT_ADDRESS_SPACE = 7,       /* 717 */
    GW_KERNEL_FAULT_INVALID_PC = 8,          /* 718 */
    GW_KERNEL_FAULT_COUNT
};

/* When it goes wrong. "Parameter" is the 64-bit (or shorter) value of the kernel's parameter `parameter`. */
enum gw_kernel_when {
    GW_KERNEL_WHEN_ALWAYS = 0,
    GW_KERNEL_WHEN_UNMAPPED = 1,       /* the address in it is in no live block of this context */
    GW_KERNEL_WHEN_NULL = 2,           /* it is 0 */
    GW_KERNEL_WHEN_AT_LEAST = 3,       /* it is >= `operand` */
    GW_KERNEL_WHEN_AT_LEAST_PARAM = 4, /* it is >= the parameter whose index is `operand` */
    GW_KERNEL_WHEN_COUNT
};

struct gw_kernel_model {
    uint64_t magic;              /* GW_KERNEL_MODEL_MAGIC */
    uint64_t version;            /* GW_KERNEL_MODEL_VERSION */
    uint64_t fault;              /* enum gw_kernel_fault */
    uint64_t when;               /* enum gw_kernel_when */
    uint64_t parameter;          /* index */
    uint64_t operand;            /* see `when` */
    uint64_t duration_us;        /* how long the kernel runs; with a fault: until the fault */
    uint64_t duration_parameter; /* 1 + index of a parameter that holds the duration in ns; 0: none */
    uint64_t line;               /* of an assertion */
    uint64_t reserved;           /* 0 */
};

#endif
