/* Compiles cuda_kernels.cu for the host, in one precision: -DELEMENT=0 (fp32), 1 (bf16) or 2 (fp16). */
#include "host_kernels.h"

#include <math.h>
#include <string.h>

#define KERNEL          static void
#define DEVICE          static inline __attribute__((always_inline)) /* so that widths are constants, as on a GPU */
#define SHARED          static
#define ROOT(x)         (1.0F / sqrtf(x))
#define __syncthreads() host_barrier()

static unsigned bits_of(float x)
{
    unsigned bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static float float_of(unsigned bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
#define BITS(x)  bits_of(x)
#define FLOAT(x) float_of(x)

__attribute__((unused)) static unsigned atomicAdd(unsigned *to, unsigned value)
{
    unsigned before = *to;
    *to += value;
    return before;
}

#if ELEMENT == 2 /* conversions of fp16 (IEEE 754) to fp32 and back */
static float widen(unsigned short x)
{
    int exponent = x >> 10 & 31, fraction = x & 1023;
    float size = exponent == 31
                     ? (fraction != 0 ? NAN : INFINITY)
                     : ldexpf((float)(exponent == 0 ? fraction : fraction + 1024), (exponent == 0 ? 1 : exponent) - 25);
    return x >> 15 ? -size : size;
}
static unsigned short narrow(float x)
{
    unsigned sign = bits_of(x) >> 16 & 0x8000;
    float size = fabsf(x);
    if (size != size)
        return 0x7fff;
    if (size >= 65520.0F)
        return (unsigned short)(sign | 0x7c00);
    int exponent, is_small = size < 0x1p-14F; /* is_small: below the smallest normal number */
    frexpf(size, &exponent);
    unsigned digits = (unsigned)nearbyintf(ldexpf(size, is_small ? 24 : 11 - exponent));
    /* Rounding up may carry into the bits of the exponent. The result is right in this case, too. */
    return (unsigned short)(sign | (is_small ? digits : ((unsigned)(exponent + 13) << 10) + digits));
}
#endif

#include "cuda_kernels.cu"

#include "cuda_elements.cu"

#include "cuda_depth.cu"

/* ---- one thread of a launch: its arguments are pointers to values ---- */

#define A(type, n) (*(type *)arguments[n])
#define THUNK(name, ...)                                                                                               \
    static void run_##name(void **arguments)                                                                           \
    {                                                                                                                  \
        name(__VA_ARGS__);                                                                                             \
    }
#define THUNKS(name, ...)                                                                                              \
    THUNK(name##_8, __VA_ARGS__)                                                                                       \
    THUNK(name##_1, __VA_ARGS__)
#define ROW(name, has_barriers) {#name, run_##name, has_barriers},
#define E(n)                    A(element *, n)
#define F(n)                    A(float *, n)
#define S(n)                    A(size, n)
#define U(n)                    A(unsigned, n)
#define I(n)                    A(int, n)

THUNK(to_low, E(0), F(1), S(2))
THUNK(to_low_folded, E(0), F(1), S(2), A(struct folding, 3))
THUNK(fold, E(0), E(1), S(2), A(struct folding, 3))
THUNK(add_folded, F(0), E(1), S(2), A(struct folding, 3))
THUNK(relu_forward, E(0), S(1))
THUNK(relu_backward, E(0), E(1), S(2))
THUNK(add, E(0), E(1), E(2), S(3), I(4))
THUNK(add_gradient, F(0), E(1), S(2))
THUNK(activate, E(0), E(1), I(2), S(3))
THUNK(activate_backward, E(0), E(1), E(2), I(3), I(4), S(5))
THUNK(drop, E(0), E(1), A(struct drop, 2), S(3))
THUNK(depth_weights, F(0), E(1), U(2), U(3))
THUNK(depth_filter_end, F(0), F(1), U(2), U(3), U(4))
THUNK(columns_end, F(0), F(1), U(2), U(3))
THUNK(norm_statistics, F(0), F(1), F(2), E(3), S(4), U(5), U(6), A(float, 7), A(float, 8))
THUNK(norm_running, F(0), F(1), U(2), A(float, 3))
THUNK(norm_backward_statistics, F(0), F(1), F(2), F(3), F(4), S(5), U(6), U(7), I(8), I(9))
THUNK(loss, E(0), F(1), E(2), A(int *, 3), U(4), U(5), A(float, 6), A(float, 7))
THUNK(loss_sum, A(struct results *, 0), F(1), U(2))
THUNK(check, A(struct results *, 0), F(1), S(2))
THUNK(squares, A(double *, 0), F(1), S(2))
THUNK(clip, A(struct results *, 0), A(double *, 1), U(2), A(float, 3), A(float, 4))
THUNK(sgd, F(0), F(1), E(2), F(3), A(unsigned char *, 4), A(struct results *, 5), A(struct step_size, 6), S(7))
THUNK(adam, F(0), F(1), F(2), E(3), F(4), A(unsigned char *, 5), A(struct results *, 6), A(struct step_size, 7), S(8))
THUNK(average, F(0), F(1), A(struct results *, 2), A(float, 3), S(4))
THUNK(swap_average, F(0), F(1), E(2), S(3))
THUNKS(spread, E(0), E(1), A(struct sampling, 2), I(3))
THUNKS(bias, E(0), F(1), S(2), U(3), I(4))
THUNKS(columns, F(0), E(1), E(2), S(3), U(4))
THUNKS(norm_sums, F(0), E(1), S(2), U(3))
THUNKS(norm_forward, E(0), E(1), F(2), F(3), F(4), S(5), U(6), A(struct after, 7))
THUNKS(norm_forward_smooth, E(0), E(1), F(2), F(3), F(4), S(5), U(6), A(struct after, 7))
THUNKS(norm_add, E(0), A(unsigned char *, 1), A(struct normalised, 2), A(struct normalised, 3), S(4), U(5))
THUNKS(norm_add_two, E(0), A(unsigned char *, 1), A(struct normalised, 2), A(struct normalised, 3), S(4), U(5))
THUNKS(norm_masked_sums, F(0), E(1), A(unsigned char *, 2), E(3), F(4), S(5), U(6))
THUNKS(norm_two_sums, F(0), E(1), A(unsigned char *, 2), A(struct branch, 3), A(struct branch, 4), S(5), U(6))
THUNKS(norm_two_backward, E(0), A(unsigned char *, 1), A(struct branch, 2), A(struct branch, 3), S(4), U(5))
THUNKS(norm_max_forward, E(0), A(unsigned char *, 1), E(2), A(struct normalised, 3), A(struct pool, 4))
THUNKS(norm_max_sums, F(0), E(1), A(unsigned char *, 2), A(struct normalised, 3), A(struct pool, 4), S(5),
       A(struct after, 6))
THUNKS(norm_max_backward, E(0), E(1), A(unsigned char *, 2), A(struct normalised, 3), F(4), A(struct pool, 5), S(6),
       A(struct after, 7), I(8))
THUNKS(norm_backward_sums, F(0), E(1), E(2), F(3), F(4), F(5), S(6), U(7), A(struct after, 8))
THUNKS(norm_backward_sums_smooth, F(0), E(1), E(2), F(3), F(4), F(5), S(6), U(7), A(struct after, 8))
THUNKS(norm_backward, E(0), E(1), E(2), F(3), F(4), F(5), F(6), S(7), U(8), A(struct after, 9), I(10))
THUNKS(norm_backward_smooth, E(0), E(1), E(2), F(3), F(4), F(5), F(6), S(7), U(8), A(struct after, 9), I(10))
THUNKS(max_forward, E(0), A(unsigned char *, 1), E(2), F(3), A(struct pool, 4), I(5))
THUNKS(max_backward, E(0), E(1), E(2), A(unsigned char *, 3), A(struct pool, 4), I(5))
THUNKS(max_backward_pairs, E(0), E(1), E(2), A(unsigned char *, 3), A(struct pool, 4), I(5))
THUNKS(mean_forward, E(0), E(1), U(2), U(3), I(4))
THUNKS(mean_backward, E(0), E(1), U(2), U(3), I(4))
THUNKS(image_sums, E(0), E(1), E(2), U(3), U(4), A(float, 5), I(6))
THUNKS(image_spread, E(0), E(1), E(2), S(3), U(4), U(5), A(float, 6), I(7), I(8))
THUNKS(depth_forward, E(0), E(1), F(2), A(struct depth, 3))
THUNKS(depth_backward, E(0), E(1), F(2), A(struct depth, 3), I(4))
THUNKS(depth_filter1, F(0), E(1), E(2), A(struct depth, 3), S(4))
THUNKS(depth_filter3, F(0), E(1), E(2), A(struct depth, 3), S(4))
THUNKS(depth_filter5, F(0), E(1), E(2), A(struct depth, 3), S(4))

#define PASTE(a, b) a##b
#define TABLE(n)    PASTE(host_kernels_, n)
const struct host_kernel TABLE(ELEMENT)[] = {
#define X(name)  ROW(name, 0)
#define XX(name) ROW(name##_8, 0) ROW(name##_1, 0)
#define B(name)  ROW(name, 1)
#define BB(name) ROW(name##_8, 1) ROW(name##_1, 1)
    /* clang-format off */
    X(to_low) X(to_low_folded) X(fold) X(add_folded) X(relu_forward) X(relu_backward) X(add) X(add_gradient) X(norm_running) X(sgd) X(adam)
    X(average) X(swap_average)
    XX(spread) XX(bias) XX(norm_forward) XX(norm_forward_smooth) XX(norm_add) XX(norm_add_two) XX(norm_two_backward) XX(norm_max_forward) XX(norm_max_backward) XX(norm_backward) XX(norm_backward_smooth) XX(max_forward) XX(max_backward) XX(max_backward_pairs) XX(mean_forward) XX(mean_backward)
    B(columns_end) B(norm_statistics) B(norm_backward_statistics) B(loss) B(loss_sum) B(check)
    B(squares) B(clip)
    BB(columns) BB(norm_sums) BB(norm_backward_sums) BB(norm_backward_sums_smooth) BB(norm_masked_sums) BB(norm_two_sums) BB(norm_max_sums)
    X(activate) X(activate_backward) X(drop) X(depth_weights) B(depth_filter_end) XX(image_spread) BB(image_sums)
    XX(depth_forward) XX(depth_backward) BB(depth_filter1) BB(depth_filter3) BB(depth_filter5)
    {0}
    /* clang-format on */
};
