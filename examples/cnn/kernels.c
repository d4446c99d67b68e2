/* Define the kernels of the example in PTX, with macros: see kernels.h. */
#include "kernels.h"

#include "kernel_ptx.h"

/* Load element (thread number modulo `count`) of `buffer` into `float_register`. `load` is the instruction; `shift`
 * is log2 of the element's bytes. */
#define LOAD(float_register, buffer, count, load, shift)                                                               \
    "ld.param.u64 %d3, [" buffer "];\nld.param.u64 %d4, [" count "];\n"                                                \
    "rem.u64 %d5, %d0, %d4;\nshl.b64 %d5, %d5, " shift ";\nadd.u64 %d3, %d3, %d5;\n" load "\n"

#define LOAD_FLOAT(float_register, buffer, count)                                                                      \
    LOAD(float_register, buffer, count, "ld.global.f32 " float_register ", [%d3];", "2")
#define LOAD_BYTE(float_register, buffer, count)                                                                       \
    LOAD(float_register, buffer, count, "ld.global.u8 %r0, [%d3];\ncvt.rn.f32.u32 " float_register ", %r0;", "0")

/* Compute out[i] = (a[i mod a_count] + b[i mod b_count]) / 2 for each i below out_count. */
#define KERNEL(name, load_a)                                                                                           \
    PTX_FAULTS(name, "0")                                                                                              \
    ".visible .entry " name "(.param .u64 out, .param .u64 a, .param .u64 b,\n"                                        \
    ".param .u64 out_count, .param .u64 a_count, .param .u64 b_count)\n{\n" PTX_THREAD_NUMBER ".reg .f32 %f<3>;\n"     \
    "ld.param.u64 %d2, [out_count];\nsetp.ge.u64 %p, %d0, %d2;\n@%p ret;\n" load_a LOAD_FLOAT(                         \
        "%f1", "b", "b_count") "add.f32 %f2, %f0, %f1;\nmul.f32 %f2, %f2, 0f3F000000;\n"                               \
                               "ld.param.u64 %d6, [out];\nshl.b64 %d7, %d0, 2;\nadd.u64 %d6, %d6, "                    \
                               "%d7;\nst.global.f32 [%d6], %f2;\nret;\n}\n"

#define FROM_FLOATS(name) KERNEL(name, LOAD_FLOAT("%f0", "a", "a_count"))
#define FROM_BYTES(name)  KERNEL(name, LOAD_BYTE("%f0", "a", "a_count"))

const char cnn_ptx[] = PTX_HEAD FROM_BYTES("unpack_images") FROM_FLOATS("im2col") FROM_FLOATS("conv_forward")
    FROM_FLOATS("relu_forward") FROM_FLOATS("pool_forward") FROM_FLOATS("pool_indices") FROM_FLOATS("linear_forward")
        FROM_FLOATS("loss_forward") FROM_FLOATS("loss_backward") FROM_FLOATS("linear_backward")
            FROM_FLOATS("pool_backward") FROM_FLOATS("relu_backward") FROM_FLOATS("conv_backward")
                FROM_FLOATS("weight_gradient") FROM_FLOATS("adam") FROM_FLOATS("class_report");

const char *const cnn_kernel_names[KERNEL_COUNT] = {
#define NAME(name) #name,
    CNN_KERNELS(NAME)
#undef NAME
};
