
/* ---- depthwise convolutions: each channel has a filter of its own ---- */

enum { DEPTH_PIXELS = 4, DEPTH_TAPS_MAX = 5 };

struct depth {
    unsigned channels, height, width, out_height, out_width, kernel, stride, pad;
};

/* Reorder weights[channel][tap] to to[tap][channel], so that 8 channels can be read at once. */
KERNEL depth_weights(float *to, const element *weights, unsigned taps, unsigned channels)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < taps * channels)
        to[i] = widen(weights[i % channels * taps + i / channels]);
}

/* A block handles a row of results. A thread handles DEPTH_PIXELS of them, side by side, and reads each weight once. */
DEVICE void depth_forward_any(element *y, const element *x, const float *weights, struct depth depth, const int width)
{
    unsigned groups = depth.channels / width, strips = (depth.out_width + DEPTH_PIXELS - 1) / DEPTH_PIXELS;
    size image = blockIdx.x / depth.out_height;
    int top = (int)(blockIdx.x % depth.out_height * depth.stride) - (int)depth.pad, stride = (int)depth.stride;
    for (unsigned i = threadIdx.x; i < strips * groups; i += blockDim.x) {
        unsigned column = i / groups * DEPTH_PIXELS, channel = i % groups * width;
        int left = (int)column * stride - (int)depth.pad;
        float sum[DEPTH_PIXELS][8] = {{0}}, v[8], weight[8];
        for (int r = 0; r < (int)depth.kernel; r++) {
            if (top + r < 0 || top + r >= (int)depth.height)
                continue;
            const element *line = x + (image * depth.height + top + r) * depth.width * depth.channels + channel;
            for (int s = 0; s < (int)depth.kernel; s++) {
                read_floats(weights + (size)(r * depth.kernel + s) * depth.channels + channel, weight, width);
#pragma unroll
                for (int p = 0; p < DEPTH_PIXELS; p++) {
                    int at = left + p * stride + s;
                    if (at < 0 || at >= (int)depth.width)
                        continue;
                    read_elements(line + (size)at * depth.channels, v, width);
                    WITH(sum[p][k] += v[k] * weight[k])
                }
            }
        }
#pragma unroll
        for (int p = 0; p < DEPTH_PIXELS; p++)
            if (column + p < depth.out_width)
                write_elements(y + ((size)blockIdx.x * depth.out_width + column + p) * depth.channels + channel, sum[p],
                               width);
    }
}
PAIR(depth_forward, (element * y, const element *x, const float *weights, struct depth depth),
     y, x, weights, depth)

/* The result that reads input `at` with tap `tap`, if there is one; otherwise -1. */
DEVICE int depth_reader(int at, int tap, int pad, int stride, int count)
{
    int reader = at + pad - tap;
    if (reader < 0)
        return -1;
    if (stride != 1) {
        if (reader % stride != 0)
            return -1;
        reader /= stride;
    }
    return reader < count ? reader : -1;
}

/* A block handles a row of inputs, a thread DEPTH_PIXELS of them. */
DEVICE void depth_backward_any(element *dx, const element *dy, const float *weights, struct depth depth, int adds,
                               const int width)
{
    unsigned groups = depth.channels / width, strips = (depth.width + DEPTH_PIXELS - 1) / DEPTH_PIXELS;
    size image = blockIdx.x / depth.height;
    int row = (int)(blockIdx.x % depth.height), stride = (int)depth.stride, pad = (int)depth.pad;
    for (unsigned i = threadIdx.x; i < strips * groups; i += blockDim.x) {
        unsigned column = i / groups * DEPTH_PIXELS, channel = i % groups * width;
        float sum[DEPTH_PIXELS][8] = {{0}}, v[8], weight[8];
        for (int r = 0; r < (int)depth.kernel; r++) {
            int from_row = depth_reader(row, r, pad, stride, (int)depth.out_height);
            if (from_row < 0)
                continue;
            const element *line =
                dy + (image * depth.out_height + from_row) * depth.out_width * depth.channels + channel;
            for (int s = 0; s < (int)depth.kernel; s++) {
                read_floats(weights + (size)(r * depth.kernel + s) * depth.channels + channel, weight, width);
#pragma unroll
                for (int p = 0; p < DEPTH_PIXELS; p++) {
                    int at = depth_reader((int)column + p, s, pad, stride, (int)depth.out_width);
                    if (at < 0)
                        continue;
                    read_elements(line + (size)at * depth.channels, v, width);
                    WITH(sum[p][k] += v[k] * weight[k])
                }
            }
        }
#pragma unroll
        for (int p = 0; p < DEPTH_PIXELS; p++)
            if (column + p < depth.width) {
                element *to = dx + ((size)blockIdx.x * depth.width + column + p) * depth.channels + channel;
                if (adds) {
                    read_elements(to, v, width);
                    WITH(sum[p][k] += v[k])
                }
                write_elements(to, sum[p], width);
            }
    }
}
PAIR(depth_backward, (element * dx, const element *dy, const float *weights, struct depth depth, int adds),
     dx, dy, weights, depth, adds)

/* Weight gradients. The blocks of grid.x are divided by `taps`: each set computes that many taps, side by side in a row
 * of the window. A thread steps along rows of results. partial[blockIdx.y][tap][channel]: see give_partial(). */
DEVICE void depth_filter_taps(float *partial, const element *x, const element *dy, struct depth depth, size lines,
                              const int taps, const int width)
{
    unsigned sets = depth.kernel * depth.kernel / taps, across = gridDim.x / sets;
    int first = (int)(blockIdx.x / across) * taps, stride = (int)depth.stride;
    int r = first / (int)depth.kernel - (int)depth.pad, s = first % (int)depth.kernel - (int)depth.pad;
    size column = ((size)(blockIdx.x % across) * blockDim.x + threadIdx.x) * width;
    float sum[DEPTH_TAPS_MAX][8] = {{0}}, v[8], gradient[8];
    for (size line = FIRST_ROW; column < depth.channels && line < lines; line += ROW_STRIDE) {
        int row = (int)(line % depth.out_height) * stride + r;
        if (row < 0 || row >= (int)depth.height)
            continue;
        const element *from = x + (line / depth.out_height * depth.height + row) * depth.width * depth.channels + column;
        const element *by = dy + line * depth.out_width * depth.channels + column;
#pragma unroll 2
        for (int i = 0; i < (int)depth.out_width; i++) {
            read_elements(by + (size)i * depth.channels, gradient, width);
#pragma unroll
            for (int t = 0; t < taps; t++) {
                int at = i * stride + s + t;
                if (at < 0 || at >= (int)depth.width)
                    continue;
                read_elements(from + (size)at * depth.channels, v, width);
                WITH(sum[t][k] += gradient[k] * v[k])
            }
        }
    }
#pragma unroll
    for (int t = 0; t < taps; t++)
        give_partial(partial, sum[t], column, depth.channels, first + t, depth.kernel * depth.kernel, width);
}
DEVICE void depth_filter1_any(float *partial, const element *x, const element *dy, struct depth depth, size lines,
                              const int width)
{
    depth_filter_taps(partial, x, dy, depth, lines, 1, width);
}
DEVICE void depth_filter3_any(float *partial, const element *x, const element *dy, struct depth depth, size lines,
                              const int width)
{
    depth_filter_taps(partial, x, dy, depth, lines, 3, width);
}
DEVICE void depth_filter5_any(float *partial, const element *x, const element *dy, struct depth depth, size lines,
                              const int width)
{
    depth_filter_taps(partial, x, dy, depth, lines, 5, width);
}
PAIR(depth_filter1, (float *partial, const element *x, const element *dy, struct depth depth, size lines),
     partial, x, dy, depth, lines)
PAIR(depth_filter3, (float *partial, const element *x, const element *dy, struct depth depth, size lines),
     partial, x, dy, depth, lines)
PAIR(depth_filter5, (float *partial, const element *x, const element *dy, struct depth depth, size lines),
     partial, x, dy, depth, lines)

/* Add the sums of all parts to gradient[channel][tap]; blockIdx.y is the tap. */
KERNEL depth_filter_end(float *gradient, const float *partial, unsigned taps, unsigned channels, unsigned parts)
{
    unsigned channel = blockIdx.x * blockDim.x + threadIdx.x, tap = blockIdx.y;
    double sum = two_of(partial, channel, channels, (int)tap, (int)tap, (int)taps, parts).one;
    if (threadIdx.y == 0 && channel < channels)
        gradient[(size)channel * taps + tap] += (float)sum;
}
