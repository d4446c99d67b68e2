/* Provide the kernels of the example as PTX text, which the driver compiles, so building needs no CUDA toolkit.
 *
 * The kernels have the memory traffic of a training step, but not its arithmetic. Each one fills its first buffer with
 * values computed from the other two. All take (out, a, b, out_count, a_count, b_count), with counts in elements. */
#ifndef CNN_KERNELS_H
#define CNN_KERNELS_H

#define CNN_KERNELS(X)                                                                                                 \
    X(unpack_images)                                                                                                   \
    X(im2col)                                                                                                          \
    X(conv_forward)                                                                                                    \
    X(relu_forward)                                                                                                    \
    X(pool_forward)                                                                                                    \
    X(pool_indices)                                                                                                    \
    X(linear_forward)                                                                                                  \
    X(loss_forward)                                                                                                    \
    X(loss_backward)                                                                                                   \
    X(linear_backward)                                                                                                 \
    X(pool_backward)                                                                                                   \
    X(relu_backward)                                                                                                   \
    X(conv_backward)                                                                                                   \
    X(weight_gradient)                                                                                                 \
    X(adam)                                                                                                            \
    X(class_report)

enum kernel {
#define KERNEL(name) KERNEL_##name,
    CNN_KERNELS(KERNEL)
#undef KERNEL
        KERNEL_COUNT
};

extern const char cnn_ptx[];
extern const char *const cnn_kernel_names[KERNEL_COUNT];

#endif
