/* The kernels of the example as PTX text: every CUDA driver compiles it when it is loaded, so that building the
 * example needs no CUDA toolkit.
 *
 * They have the memory traffic of a training step, not its arithmetic: each writes all of its first buffer from what
 * stands in the two others. All take (out, a, b, out_count, a_count, b_count), counts in elements. */
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
