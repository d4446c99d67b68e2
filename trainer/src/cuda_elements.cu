
/* ---- activations ---- */

DEVICE void activate_at(element *y, const element *x, int activation, size at, const int width)
{
    float v[8];
    read_elements(x + at, v, width);
    WITH(v[k] = activated(activation, v[k]))
    write_elements(y + at, v, width);
}
KERNEL activate(element *y, const element *x, int activation, size count)
{
#define BODY(at, width) activate_at(y, x, activation, at, width)
    EACH(count, BODY)
#undef BODY
}

/* from: the output or the input of the layer, which slope() needs. */
DEVICE void activate_backward_at(element *dx, const element *dy, const element *from, int activation, int adds, size at,
                                 const int width)
{
    float v[8], gradient[8], before[8];
    read_elements(from + at, v, width);
    read_elements(dy + at, gradient, width);
    WITH(v[k] = gradient[k] * slope(activation, v[k]))
    if (adds) {
        read_elements(dx + at, before, width);
        WITH(v[k] += before[k])
    }
    write_elements(dx + at, v, width);
}
KERNEL activate_backward(element *dx, const element *dy, const element *from, int activation, int adds, size count)
{
#define BODY(at, width) activate_backward_at(dx, dy, from, activation, adds, at, width)
    EACH(count, BODY)
#undef BODY
}

/* ---- dropout: the decisions of dropout.h ---- */

struct drop {
    size key;  /* of the first image */
    size each; /* numbers per image */
    unsigned limit;
    int drops_images, adds;
    float factor;
};

DEVICE size dropout_mix(size z)
{
    z += 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

DEVICE int dropout_keeps(size key_of_image, size index, unsigned limit)
{
    return (unsigned)(dropout_mix(dropout_mix(key_of_image) + index) >> 32) >= limit;
}

DEVICE void drop_at(element *y, const element *x, struct drop drop, size at, const int width)
{
    float v[8], before[8];
    size image = at / drop.each, index = at % drop.each;
    read_elements(x + at, v, width);
    WITH(v[k] = dropout_keeps(drop.key + image, drop.drops_images ? 0 : index, drop.limit) ? v[k] * drop.factor : 0.0f;
         index++; image += index == drop.each; index = index == drop.each ? 0 : index)
    if (drop.adds) {
        read_elements(y + at, before, width);
        WITH(v[k] += before[k])
    }
    write_elements(y + at, v, width);
}
KERNEL drop(element *y, const element *x, struct drop drop, size count)
{
#define BODY(at, width) drop_at(y, x, drop, at, width)
    EACH(count, BODY)
#undef BODY
}

/* ---- one number for each channel of each image ---- */

/* y[image][channel] = scale * the sum of a (or a * b) over the pixels. A block handles some channels of one image;
 * threadIdx.y selects pixels. */
DEVICE void image_sums_any(element *y, const element *a, const element *b, unsigned pixels, unsigned channels,
                           float scale, int adds, const int width)
{
    SHARED float all[8 * 256];
    unsigned channel = (blockIdx.y * blockDim.x + threadIdx.x) * width;
    int threads = blockDim.x * blockDim.y, thread = threadIdx.y * blockDim.x + threadIdx.x;
    float sum[8] = {0}, v[8], w[8], before[8] = {0};
    if (channel < channels) {
        size first = (size)blockIdx.x * pixels * channels + channel;
#pragma unroll 4
        for (unsigned i = threadIdx.y; i < pixels; i += blockDim.y) {
            read_elements(a + first + (size)i * channels, v, width);
            if (b != 0) {
                read_elements(b + first + (size)i * channels, w, width);
                WITH(v[k] *= w[k])
            }
            WITH(sum[k] += v[k])
        }
    }
    WITH(all[k * threads + thread] = sum[k])
    for (int half = blockDim.y / 2; half > 0; half /= 2) { /* blockDim.y is a power of two */
        __syncthreads();
        if ((int)threadIdx.y < half) {
            WITH(all[k * threads + thread] += all[k * threads + thread + half * blockDim.x])
        }
    }
    if (threadIdx.y != 0 || channel >= channels)
        return;
    if (adds)
        read_elements(y + (size)blockIdx.x * channels + channel, before, width);
    WITH(sum[k] = all[k * threads + thread] * scale + before[k])
    write_elements(y + (size)blockIdx.x * channels + channel, sum, width);
}
PAIR(image_sums,
     (element * y, const element *a, const element *b, unsigned pixels, unsigned channels, float scale, int adds),
     y, a, b, pixels, channels, scale, adds)

/* y = scale * by[image][channel] (* x, unless x is NULL). */
DEVICE void image_spread_any(element *y, const element *x, const element *by, size rows, unsigned pixels,
                             unsigned channels, float scale, int has_relu, int adds, const int width)
{
    size column = COLUMN(width);
    float v[8], factor[8], before[8];
    if (column >= channels)
        return;
#pragma unroll 2
    for (size row = FIRST_ROW; row < rows; row += ROW_STRIDE) {
        size at = row * channels + column, image = rows >> 32 ? row / pixels : (unsigned)row / pixels;
        read_elements(by + image * channels + column, factor, width);
        WITH(v[k] = 1.0f)
        if (x != 0)
            read_elements(x + at, v, width);
        WITH(v[k] = v[k] * (factor[k] * scale); v[k] = has_relu && v[k] < 0.0f ? 0.0f : v[k])
        if (adds) {
            read_elements(y + at, before, width);
            WITH(v[k] += before[k])
        }
        write_elements(y + at, v, width);
    }
}
PAIR(image_spread,
     (element * y, const element *x, const element *by, size rows, unsigned pixels, unsigned channels, float scale,
      int has_relu, int adds),
     y, x, by, rows, pixels, channels, scale, has_relu, adds)
