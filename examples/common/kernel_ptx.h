/* Pieces of PTX text shared by the examples. A module is PTX_HEAD followed by kernels.
 *
 * PTX_FAULTS is for the virtual GPU, which does not execute kernels. It reports a fault of kernel `name` if parameter
 * `index` does not point to allocated memory. A real GPU ignores this data object (include/gpuwhy/kernel_model.h) and
 * runs the kernel, which then faults. */
#ifndef EXAMPLE_KERNEL_PTX_H
#define EXAMPLE_KERNEL_PTX_H

#define PTX_HEAD ".version 7.0\n.target sm_70\n.address_size 64\n"

#define PTX_MODEL(name, fault, when, parameter, operand, duration_us)                                                  \
    ".visible .global .align 8 .u64 gpuwhy_model_" name "[7] = {0x4D4B594857555047, 1, " fault ", " when               \
    ", " parameter ", " operand ", " duration_us "};\n"

#define PTX_FAULTS(name, index) PTX_MODEL(name, "1", "1", index, "0", "0")

/* Set %d0 to the number of this thread in the grid. */
#define PTX_THREAD_NUMBER                                                                                              \
    ".reg .b32 %r<3>;\n.reg .b64 %d<10>;\n.reg .pred %p;\n"                                                            \
    "mov.u32 %r0, %ctaid.x;\nmov.u32 %r1, %ntid.x;\nmov.u32 %r2, %tid.x;\n"                                            \
    "mul.wide.u32 %d0, %r0, %r1;\ncvt.u64.u32 %d1, %r2;\nadd.u64 %d0, %d0, %d1;\n"

#endif
