/* The kernels of the cuda back end: everything between convolutions and matrix products. NVRTC compiles them for the
 * GPU and for one precision of the activations: -DELEMENT=0 is fp32, 1 bf16, 2 fp16. The language is C without
 * headers, so that a test can compile it for the host, too.
 *
 * Activations are rows of channels (images, rows, columns, channels). Sums are in fp32 or fp64, in an order that
 * depends only on the launch, so results are always the same. A kernel only reads data written by earlier kernels on
 * the same stream. Names with _8 require channels in multiples of 8; _1 takes any number. */

typedef unsigned long long size;

#ifndef KERNEL
#define KERNEL   extern "C" __global__ void
#define DEVICE   static __device__ __forceinline__
#define SHARED   __shared__
#define BITS(x)  __float_as_uint(x)
#define FLOAT(x) __uint_as_float(x)
#define ROOT(x)  (1.0f / sqrtf(x))
#endif

/* ---- elements ---- */

#if ELEMENT == 0
typedef float element;
DEVICE float widen(element x)
{
    return x;
}
DEVICE element narrow(float x)
{
    return x;
}
#elif ELEMENT == 1
typedef unsigned short element;
DEVICE float widen(element x)
{
    return FLOAT((unsigned)x << 16);
}
DEVICE element narrow(float x)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    element y;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
#else
    unsigned bits = BITS(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return 0x7fff;
    return (element)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16); /* round to nearest, ties to even */
#endif
}
#else
typedef unsigned short element;
#ifdef __CUDA_ARCH__
DEVICE float widen(element x)
{
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
    return y;
}
DEVICE element narrow(float x)
{
    element y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
}
#endif
#endif

/* 16 bytes, at addresses that are multiples of 16. */
struct __attribute__((aligned(16))) chunk {
    unsigned word[4];
};
#ifdef __CUDA_ARCH__
DEVICE struct chunk read_chunk(const void *from)
{
    uint4 value = *(const uint4 *)from;
    struct chunk ret = {{value.x, value.y, value.z, value.w}};
    return ret;
}
/* Read for the last time in this pass: the L2 cache need not keep these bytes. */
DEVICE struct chunk read_chunk_last(const void *from)
{
    struct chunk ret;
    asm volatile("ld.global.cs.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(ret.word[0]), "=r"(ret.word[1]), "=r"(ret.word[2]), "=r"(ret.word[3])
                 : "l"(from));
    return ret;
}
DEVICE void write_chunk(void *to, struct chunk chunk)
{
    *(uint4 *)to = make_uint4(chunk.word[0], chunk.word[1], chunk.word[2], chunk.word[3]);
}
#else
DEVICE struct chunk read_chunk(const void *from)
{
    return *(const struct chunk *)from;
}
DEVICE struct chunk read_chunk_last(const void *from)
{
    return read_chunk(from);
}
DEVICE void write_chunk(void *to, struct chunk chunk)
{
    *(struct chunk *)to = chunk;
}
#endif

DEVICE void read_floats(const float *from, float *to, const int width)
{
    if (width == 8) {
        struct chunk low = read_chunk(from), high = read_chunk(from + 4);
#pragma unroll
        for (int k = 0; k < 4; k++) {
            to[k] = FLOAT(low.word[k]);
            to[k + 4] = FLOAT(high.word[k]);
        }
    } else
        to[0] = from[0];
}

DEVICE void write_floats(float *to, const float *from, const int width)
{
    if (width == 8) {
        struct chunk low, high;
#pragma unroll
        for (int k = 0; k < 4; k++) {
            low.word[k] = BITS(from[k]);
            high.word[k] = BITS(from[k + 4]);
        }
        write_chunk(to, low);
        write_chunk(to + 4, high);
    } else
        to[0] = from[0];
}

DEVICE void read_elements(const element *from, float *to, const int width)
{
#if ELEMENT == 0
    read_floats(from, to, width);
#else
    if (width == 8) {
        struct chunk chunk = read_chunk(from);
#pragma unroll
        for (int k = 0; k < 4; k++) {
            to[2 * k] = widen((element)(chunk.word[k] & 0xffffu));
            to[2 * k + 1] = widen((element)(chunk.word[k] >> 16));
        }
    } else
        to[0] = widen(from[0]);
#endif
}

DEVICE void write_elements(element *to, const float *from, const int width)
{
#if ELEMENT == 0
    write_floats(to, from, width);
#else
    if (width == 8) {
        struct chunk chunk;
#pragma unroll
        for (int k = 0; k < 4; k++)
            chunk.word[k] = (unsigned)narrow(from[2 * k]) | (unsigned)narrow(from[2 * k + 1]) << 16;
        write_chunk(to, chunk);
    } else
        to[0] = narrow(from[0]);
#endif
}

/* Elements as they are in memory. A kernel that reads several rows before it converts the first keeps more reads in
 * flight. */
struct raw {
    unsigned word[ELEMENT == 0 ? 8 : 4];
};

DEVICE void read_raw(const element *from, struct raw *to, const int is_last, const int width)
{
    if (width == 8) {
#pragma unroll
        for (int i = 0; i < (ELEMENT == 0 ? 2 : 1); i++) {
            const char *at = (const char *)from + 16 * i;
            struct chunk chunk = is_last ? read_chunk_last(at) : read_chunk(at);
#pragma unroll
            for (int k = 0; k < 4; k++)
                to->word[4 * i + k] = chunk.word[k];
        }
    } else {
#if ELEMENT == 0
        to->word[0] = BITS(from[0]);
#else
        to->word[0] = from[0];
#endif
    }
}

DEVICE void raw_floats(const struct raw *from, float *to, const int width)
{
#if ELEMENT == 0
#pragma unroll
    for (int k = 0; k < width; k++)
        to[k] = FLOAT(from->word[k]);
#else
    if (width == 8) {
#pragma unroll
        for (int k = 0; k < 4; k++) {
            to[2 * k] = widen((element)(from->word[k] & 0xffffu));
            to[2 * k + 1] = widen((element)(from->word[k] >> 16));
        }
    } else
        to[0] = widen((element)from->word[0]);
#endif
}

/* ---- element by element: a thread handles 8 elements, and the last threads one element each ---- */

/* Run `body` with `at` and `width`; the width, 8 or 1, is a constant. */
#define EACH(count, body)                                                                                              \
    size thread = (size)blockIdx.x * blockDim.x + threadIdx.x, whole = (count) / 8;                                    \
    if (thread < whole)                                                                                                \
        body(thread * 8, 8);                                                                                           \
    else if (thread < whole + (count) % 8)                                                                             \
        body(whole * 8 + thread - whole, 1);

#define WITH(statement)                                                                                                \
    _Pragma("unroll") for (int k = 0; k < width; k++)                                                                  \
    {                                                                                                                  \
        statement;                                                                                                     \
    }

DEVICE void to_low_at(element *y, const float *x, size at, const int width)
{
    float v[8];
    read_floats(x + at, v, width);
    write_elements(y + at, v, width);
}
KERNEL to_low(element *y, const float *x, size count)
{
#define BODY(at, width) to_low_at(y, x, at, width)
    EACH(count, BODY)
#undef BODY
}

/* ---- folding of images and of the weights that read them: see inner.h ---- */

struct folding {
    unsigned channels, height, width, kernel, pad, stride, front, border;
    unsigned folded_channels, folded_height, folded_width, folded_kernel, across, filter_width;
};

/* Number `channel` of a folded pixel is channel `of` of the pixel in row dy and column dx of its square. */
struct place {
    int dy, dx, of;
};
DEVICE struct place place_of(unsigned channel, struct folding by)
{
    unsigned pixel = channel / by.channels;
    struct place place = {(int)(pixel / by.stride), (int)(pixel % by.stride), (int)(channel % by.channels)};
    return place;
}

/* A thread handles a folded pixel. */
KERNEL to_low_folded(element *y, const float *x, size count, struct folding by)
{
    size thread = (size)blockIdx.x * blockDim.x + threadIdx.x, pixels = (size)by.folded_height * by.folded_width;
    if (thread >= count)
        return;
    size image = thread / pixels;
    int top = ((int)(thread % pixels / by.folded_width) - (int)by.border) * (int)by.stride;
    int left = ((int)(thread % by.folded_width) - (int)by.border) * (int)by.stride;
    struct place place = {0, 0, 0};
    for (unsigned first = 0; first < by.folded_channels; first += 8) {
        float v[8];
#pragma unroll
        for (int k = 0; k < 8; k++) {
            int row = top + place.dy, column = left + place.dx;
            int is_inside = place.dy < (int)by.stride && row >= 0 && row < (int)by.height && column >= 0 &&
                            column < (int)by.width;
            v[k] = is_inside ? x[((image * by.height + row) * by.width + column) * by.channels + place.of] : 0.0f;
            if (++place.of == (int)by.channels) {
                place.of = 0;
                if (++place.dx == (int)by.stride) {
                    place.dx = 0;
                    place.dy++;
                }
            }
        }
        write_elements(y + thread * by.folded_channels + first, v, 8);
    }
}

/* A thread handles a folded weight: one of the pixels that are read as one, for an output channel of one of the results
 * that are computed as one. */
KERNEL fold(element *to, const element *from, size count, struct folding by)
{
    size thread = (size)blockIdx.x * blockDim.x + threadIdx.x;
    if (thread >= count)
        return;
    unsigned across = by.filter_width * by.across, positions = by.folded_kernel * across;
    size outputs = count / positions / by.across / by.folded_channels;
    size pixel = thread / by.folded_channels, output = pixel / positions;
    struct place place = place_of((unsigned)(thread % by.folded_channels), by);
    /* the place of the pixel in the filter of this result */
    int y = (int)(pixel % positions / across), x = (int)(pixel % across) - (int)(output / outputs);
    int row = (y - (int)by.front) * (int)by.stride + (int)by.pad + place.dy;
    int column = (x - (int)by.front) * (int)by.stride + (int)by.pad + place.dx;
    int is_inside = x >= 0 && x < (int)by.folded_kernel && place.dy < (int)by.stride && row >= 0 &&
                    row < (int)by.kernel && column >= 0 && column < (int)by.kernel;
    size weight = (output % outputs * by.kernel + row) * by.kernel + column;
    to[thread] = is_inside ? from[weight * by.channels + place.of] : narrow(0.0f);
}

/* Add folded gradients. A thread handles a position of the filter for one output channel. */
KERNEL add_folded(float *sum, const element *from, size count, struct folding by)
{
    size thread = (size)blockIdx.x * blockDim.x + threadIdx.x;
    if (thread >= count)
        return;
    unsigned position = thread % (by.kernel * by.kernel), shift = by.front * by.stride - by.pad;
    unsigned row = position / by.kernel + shift, column = position % by.kernel + shift;
    unsigned y = row / by.stride, x = column / by.stride;
    unsigned first = (row % by.stride * by.stride + column % by.stride) * by.channels;
    size output = thread / (by.kernel * by.kernel), outputs = count / (by.kernel * by.kernel);
    for (unsigned result = 0; result < by.across; result++) {
        /* result number r of a group reads this pixel at a place r farther right */
        unsigned at = x + result;
        size line = ((result * outputs + output) * by.folded_kernel + y) * by.filter_width + at / by.across;
        const element *pixel = from + (line * by.across + at % by.across) * by.folded_channels + first;
        for (unsigned k = 0; k < by.channels; k++)
            sum[thread * by.channels + k] += widen(pixel[k]);
    }
}

/* ---- the pixels that a 1x1 filter with a stride reads ---- */

struct sampling {
    unsigned channels, height, width, out_height, out_width, stride;
};

/* Copy or add the gradients of these pixels to their places in dx. Without `adds`, the other pixels become 0. A block
 * handles a row of pixels: of dx, or with `adds` of `from`. */
DEVICE void spread_any(element *dx, const element *from, struct sampling by, int adds, const int width)
{
    unsigned groups = by.channels / width, rows = adds ? by.out_height : by.height;
    unsigned count = (adds ? by.out_width : by.width) * groups, step = adds ? by.stride : 1;
    size image = blockIdx.x / rows;
    unsigned y = blockIdx.x % rows * step;
    for (unsigned i = threadIdx.x; i < count; i += blockDim.x) {
        unsigned x = i / groups * step, channel = i % groups * width;
        size at = ((image * by.height + y) * by.width + x) * by.channels + channel;
        float v[8] = {0}, before[8];
        if (y % by.stride == 0 && x % by.stride == 0)
            read_elements(from +
                              ((image * by.out_height + y / by.stride) * by.out_width + x / by.stride) * by.channels +
                              channel,
                          v, width);
        if (adds) {
            read_elements(dx + at, before, width);
            WITH(v[k] += before[k])
        }
        write_elements(dx + at, v, width);
    }
}

/* Apply only the ReLU of a layer. */
DEVICE void relu_at(element *y, size at, const int width)
{
    float v[8];
    read_elements(y + at, v, width);
    WITH(v[k] = v[k] < 0.0f ? 0.0f : v[k])
    write_elements(y + at, v, width);
}
KERNEL relu_forward(element *y, size count)
{
#define BODY(at, width) relu_at(y, at, width)
    EACH(count, BODY)
#undef BODY
}

DEVICE void relu_backward_at(element *dy, const element *y, size at, const int width)
{
    float v[8], gradient[8];
    read_elements(y + at, v, width);
    read_elements(dy + at, gradient, width);
    WITH(gradient[k] = v[k] > 0.0f ? gradient[k] : 0.0f)
    write_elements(dy + at, gradient, width);
}
KERNEL relu_backward(element *dy, const element *y, size count)
{
#define BODY(at, width) relu_backward_at(dy, y, at, width)
    EACH(count, BODY)
#undef BODY
}

/* y = a + b; y may be a or b. */
DEVICE void add_at(element *y, const element *a, const element *b, int has_relu, size at, const int width)
{
    float v[8], w[8];
    read_elements(a + at, v, width);
    read_elements(b + at, w, width);
    WITH(v[k] += w[k]; v[k] = has_relu && v[k] < 0.0f ? 0.0f : v[k])
    write_elements(y + at, v, width);
}
KERNEL add(element *y, const element *a, const element *b, size count, int has_relu)
{
#define BODY(at, width) add_at(y, a, b, has_relu, at, width)
    EACH(count, BODY)
#undef BODY
}

/* Add a weight gradient in the precision of the activations to the sum in fp32. */
DEVICE void add_gradient_at(float *sum, const element *x, size at, const int width)
{
    float v[8], w[8];
    read_floats(sum + at, v, width);
    read_elements(x + at, w, width);
    WITH(v[k] += w[k])
    write_floats(sum + at, v, width);
}
KERNEL add_gradient(float *sum, const element *x, size count)
{
#define BODY(at, width) add_gradient_at(sum, x, at, width)
    EACH(count, BODY)
#undef BODY
}

/* ---- rows of channels: threadIdx.x selects channels, threadIdx.y selects rows ---- */

#define COLUMN(width) (((size)blockIdx.x * blockDim.x + threadIdx.x) * (width))
#define FIRST_ROW     ((size)blockIdx.y * blockDim.y + threadIdx.y)
#define ROW_STRIDE    ((size)gridDim.y * blockDim.y)

/* Define both widths of a kernel: its name, its parameters, and their names. */
#define PAIR(name, parameters, ...) PAIR_OF(name, name##_any, parameters, __VA_ARGS__)
/* The same, if several kernels share the function, so that it has another name. */
#define PAIR_OF(name, function, parameters, ...)                                                                       \
    KERNEL name##_8 parameters                                                                                         \
    {                                                                                                                  \
        function(__VA_ARGS__, 8);                                                                                      \
    }                                                                                                                  \
    KERNEL name##_1 parameters                                                                                         \
    {                                                                                                                  \
        function(__VA_ARGS__, 1);                                                                                      \
    }

PAIR(spread, (element * dx, const element *from, struct sampling by, int adds), dx, from, by, adds)

DEVICE void bias_any(element *y, const float *bias, size rows, unsigned channels, int has_relu, const int width)
{
    size column = COLUMN(width);
    float b[8], v[8];
    if (column >= channels)
        return;
    read_floats(bias + column, b, width);
    for (size row = FIRST_ROW; row < rows; row += ROW_STRIDE) {
        element *at = y + row * channels + column;
        read_elements(at, v, width);
        WITH(v[k] += b[k]; v[k] = has_relu && v[k] < 0.0f ? 0.0f : v[k])
        write_elements(at, v, width);
    }
}
PAIR(bias, (element * y, const float *bias, size rows, unsigned channels, int has_relu),
     y, bias, rows, channels, has_relu)

/* Add up the sums of the threads in one column of a block. The thread in the first row writes the result to
 * partial[blockIdx.y][which][channels]. */
DEVICE void give_partial(float *partial, const float *sum, size column, unsigned channels, int which, int of,
                         const int width)
{
    SHARED float all[8 * 256];
    int threads = blockDim.x * blockDim.y, thread = threadIdx.y * blockDim.x + threadIdx.x;
    __syncthreads();
    for (int k = 0; k < width; k++)
        all[k * threads + thread] = sum[k];
    for (int half = blockDim.y / 2; half > 0; half /= 2) { /* blockDim.y is a power of two */
        __syncthreads();
        if ((int)threadIdx.y < half)
            for (int k = 0; k < width; k++)
                all[k * threads + thread] += all[k * threads + thread + half * blockDim.x];
    }
    if (threadIdx.y == 0 && column < channels)
        for (int k = 0; k < width; k++)
            partial[((size)blockIdx.y * of + which) * channels + column + k] = all[k * threads + thread];
}

/* Add up `of` sums of the threads in each column of a block, and write them to partial[blockIdx.y][of][channels]. */
enum { SUMS_MAX = 3 };
DEVICE void give_sums(float *partial, float sums[][8], unsigned channels, const int of, const int width)
{
    enum { GAP = 4 }; /* keeps the threads of a warp in different banks of shared memory */
    SHARED float all[SUMS_MAX * 8 * (256 + GAP)];
    int threads = blockDim.x * blockDim.y, thread = threadIdx.y * blockDim.x + threadIdx.x;
    int across = width * blockDim.x, line = threads + GAP;
#pragma unroll
    for (int which = 0; which < of; which++) {
#pragma unroll
        for (int k = 0; k < width; k++)
            all[(which * width + k) * line + thread] = sums[which][k];
    }
    __syncthreads();
    for (int i = thread; i < of * across; i += threads) {
        int which = i / across, channel = i % across;
        const float *from = all + (which * width + channel % width) * line + channel / width;
        size column = (size)blockIdx.x * across + channel;
        float sum = 0.0f;
#pragma unroll 8
        for (int y = 0; y < (int)blockDim.y; y++)
            sum += from[y * blockDim.x];
        if (column < channels)
            partial[((size)blockIdx.y * of + which) * channels + column] = sum;
    }
}

/* Return the sums number `one` and `other` of column `channel` of partial[parts][of][channels]. A block has END_COLUMNS
 * columns and END_THREADS threads for each. Only threads with threadIdx.y 0 get the result. Such a kernel lasts as long
 * as the reads that wait for each other, so each thread reads END_PARTS parts before it adds them. */
enum { END_COLUMNS = 8, END_THREADS = 128, END_PARTS = 4, END_GROUP = 8, END_GROUPS = END_THREADS / END_GROUP };
struct two {
    double one, other;
};
DEVICE struct two two_of(const float *partial, unsigned channel, unsigned channels, int one, int other, int of,
                         unsigned parts)
{
    SHARED double all[2][END_THREADS + END_GROUPS][END_COLUMNS + 1];
    unsigned column = threadIdx.x, thread = threadIdx.y;
    struct two sum = {0, 0};
    for (unsigned first = thread; first < parts; first += END_PARTS * END_THREADS) {
        float v[END_PARTS] = {0}, w[END_PARTS] = {0};
#pragma unroll
        for (int i = 0; i < END_PARTS; i++) {
            unsigned part = first + i * END_THREADS;
            if (part < parts && channel < channels) {
                v[i] = partial[((size)part * of + one) * channels + channel];
                w[i] = partial[((size)part * of + other) * channels + channel];
            }
        }
#pragma unroll
        for (int i = 0; i < END_PARTS; i++) {
            sum.one += v[i];
            sum.other += w[i];
        }
    }
    all[0][thread][column] = sum.one;
    all[1][thread][column] = sum.other;
    __syncthreads();
    if (thread < END_GROUPS) {
        sum.one = sum.other = 0;
        for (unsigned i = thread * END_GROUP; i < (thread + 1) * END_GROUP; i++) {
            sum.one += all[0][i][column];
            sum.other += all[1][i][column];
        }
        all[0][END_THREADS + thread][column] = sum.one;
        all[1][END_THREADS + thread][column] = sum.other;
    }
    __syncthreads();
    sum.one = sum.other = 0;
    if (thread == 0)
        for (unsigned i = END_THREADS; i < END_THREADS + END_GROUPS; i++) {
            sum.one += all[0][i][column];
            sum.other += all[1][i][column];
        }
    return sum;
}

/* Bias gradients. y: where it is 0, the ReLU did not pass the value; NULL: there is no ReLU. */
DEVICE void columns_any(float *partial, const element *dy, const element *y, size rows, unsigned channels,
                        const int width)
{
    size column = COLUMN(width);
    float sum[8] = {0}, v[8], result[8];
    if (column < channels) {
#pragma unroll 4
        for (size row = FIRST_ROW; row < rows; row += ROW_STRIDE) {
            read_elements(dy + row * channels + column, v, width);
            if (y != 0) {
                read_elements(y + row * channels + column, result, width);
                WITH(v[k] = result[k] > 0.0f ? v[k] : 0.0f)
            }
            WITH(sum[k] += v[k])
        }
    }
    give_partial(partial, sum, column, channels, 0, 1, width);
}
PAIR(columns, (float *partial, const element *dy, const element *y, size rows, unsigned channels),
     partial, dy, y, rows, channels)

KERNEL columns_end(float *gradient, const float *partial, unsigned channels, unsigned parts)
{
    unsigned channel = blockIdx.x * blockDim.x + threadIdx.x;
    double sum = two_of(partial, channel, channels, 0, 0, 1, parts).one;
    if (threadIdx.y == 0 && channel < channels)
        gradient[channel] += (float)sum;
}

/* ---- batch normalisation ---- */

/* Kernels that compute sums go through the rows backwards, and the others forwards. So each begins with the rows that
 * the kernel before it left in the L2 cache. AT is the index of a row's first element in this thread's
 * columns. A thread reads BATCH rows before it uses the first. */
#ifndef BATCH
#define BATCH 4
#endif
#define AT(row)         ((row) * channels + column)
#define AT_BACK(row)    AT(rows - 1 - (row))
#define BATCHES         for (size first = FIRST_ROW; first < rows; first += BATCH * ROW_STRIDE)
#define EACH_ROW        _Pragma("unroll") for (int i = 0; i < BATCH; i++)
#define THIS_ROW             (first + i * ROW_STRIDE)
#define READ(from, to)  read_raw(from, &(to)[i], 0, width)
#define READ_LAST(from, to) read_raw(from, &(to)[i], 1, width)

/* Sum x - x0 and its square, where x0 is the first row, so that a large mean does not make variances inexact. */
DEVICE void norm_sums_any(float *partial, const element *x, size rows, unsigned channels, const int width)
{
    size column = COLUMN(width);
    float start[8], sums[2][8] = {{0}}, v[8];
    struct raw values[BATCH];
    if (column < channels) {
        read_elements(x + column, start, width);
        BATCHES
        {
            EACH_ROW if (THIS_ROW < rows) READ(x + AT_BACK(THIS_ROW), values);
            EACH_ROW if (THIS_ROW < rows)
            {
                raw_floats(&values[i], v, width);
                WITH(v[k] -= start[k]; sums[0][k] += v[k]; sums[1][k] += v[k] * v[k])
            }
        }
    }
    give_sums(partial, sums, channels, 2, width);
}
PAIR(norm_sums, (float *partial, const element *x, size rows, unsigned channels),
     partial, x, rows, channels)

/* saved: mean and 1/deviation; running: mean and variance, or NULL to leave them unchanged. */
KERNEL norm_statistics(float *saved, float *running, const float *partial, const element *x, size rows,
                       unsigned channels, unsigned parts, float epsilon, float momentum)
{
    unsigned channel = blockIdx.x * blockDim.x + threadIdx.x;
    int has_result = threadIdx.y == 0 && channel < channels, runs = has_result && running != 0;
    /* what the result also needs is read or computed before the sums are there */
    float start = has_result ? widen(x[channel]) : 0.0f;
    float before = runs ? running[channel] : 0.0f, variance_before = runs ? running[channels + channel] : 0.0f;
    double share = 1.0 / rows, unbiased = rows > 1 ? (double)rows / (rows - 1) : 1.0;
    struct two sums = two_of(partial, channel, channels, 0, 1, 2, parts);
    double sum = sums.one * share, variance = sums.other * share - sum * sum;
    if (!has_result)
        return;
    if (variance < 0)
        variance = 0;
    float mean = (float)(start + sum);
    saved[channel] = mean;
    saved[channels + channel] = ROOT((float)variance + epsilon);
    if (runs) {
        running[channel] = before + momentum * (mean - before);
        running[channels + channel] = variance_before + momentum * ((float)(variance * unbiased) - variance_before);
    }
}

/* Statistics for an evaluation. */
KERNEL norm_running(float *saved, const float *running, unsigned channels, float epsilon)
{
    unsigned channel = blockIdx.x * blockDim.x + threadIdx.x;
    if (channel >= channels)
        return;
    saved[channel] = running[channel];
    saved[channels + channel] = ROOT(running[channels + channel] + epsilon);
}

/* The forward and backward pass use the same expression: the ReLU passes a value if it is above 0. */
DEVICE float normal(float centred, float factor, float shift)
{
    return fmaf(centred, factor, shift);
}

/* The parameters of a batch normalisation in the columns of a thread. */
struct columns {
    float mean[8], factor[8], shift[8];
};

DEVICE void read_columns(struct columns *to, const float *saved, const float *scale, const float *shift, size column,
                         unsigned channels, const int width)
{
    float gamma[8];
    read_floats(saved + column, to->mean, width);
    read_floats(saved + channels + column, to->factor, width);
    read_floats(scale + column, gamma, width);
    read_floats(shift + column, to->shift, width);
    WITH(to->factor[k] *= gamma[k])
}

/* ---- activations; the numbers are those of enum activation ---- */

DEVICE float sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

DEVICE float clamped(float x, float most)
{
    return x < 0.0f ? 0.0f : x > most ? most : x;
}

DEVICE float activated(int activation, float x)
{
    switch (activation) {
    case 0:
        return clamped(x, 6.0f);
    case 1:
        return sigmoid(x);
    case 2:
        return x * sigmoid(x);
    default:
        return x * clamped(x + 3.0f, 6.0f) / 6.0f;
    }
}

/* The derivative, from the output (ReLU6, sigmoid) or the input of the layer. */
DEVICE float slope(int activation, float v)
{
    switch (activation) {
    case 0:
        return v > 0.0f && v < 6.0f ? 1.0f : 0.0f;
    case 1:
        return v * (1.0f - v);
    case 2: {
        float s = sigmoid(v);
        return s * (1.0f + v * (1.0f - s));
    }
    default:
        return v < -3.0f ? 0.0f : v <= 3.0f ? v / 3.0f + 0.5f : 1.0f;
    }
}

/* The derivative from the input. */
DEVICE float slope_at(int activation, float x)
{
    return slope(activation, activation == 1 ? sigmoid(x) : x);
}

/* What follows a batch normalisation: values are limited to `low` to `high` (ReLU: 0 to infinity; ReLU6: 0 to 6;
 * nothing: both infinite), or it is a smooth activation. The gradient passes between the limits. */
struct after {
    float low, high;
    int activation; /* used by the kernels for smooth activations */
};

DEVICE float after_norm(struct after after, float z, const int is_smooth)
{
    if (is_smooth)
        return activated(after.activation, z);
    return z < after.low ? after.low : z > after.high ? after.high : z;
}

DEVICE float before_after(struct after after, float z, float gradient, const int is_smooth)
{
    if (is_smooth)
        return gradient * slope_at(after.activation, z);
    return z <= after.low || z >= after.high ? 0.0f : gradient;
}

DEVICE void norm_forward_all(element *y, const element *x, const float *saved, const float *scale, const float *shift,
                             size rows, unsigned channels, struct after after, const int is_smooth, const int width)
{
    size column = COLUMN(width);
    struct columns by;
    struct raw values[BATCH];
    float v[8];
    if (column >= channels)
        return;
    read_columns(&by, saved, scale, shift, column, channels, width);
    BATCHES
    {
        EACH_ROW if (THIS_ROW < rows) READ_LAST(x + AT(THIS_ROW), values);
        EACH_ROW if (THIS_ROW < rows)
        {
            raw_floats(&values[i], v, width);
            WITH(v[k] = after_norm(after, normal(v[k] - by.mean[k], by.factor[k], by.shift[k]), is_smooth))
            write_elements(y + AT(THIS_ROW), v, width);
        }
    }
}
PAIR_OF(norm_forward, norm_forward_all,
     (element * y, const element *x, const float *saved, const float *scale, const float *shift, size rows,
      unsigned channels, struct after after),
     y, x, saved, scale, shift, rows, channels, after, 0)
PAIR_OF(norm_forward_smooth, norm_forward_all,
     (element * y, const element *x, const float *saved, const float *scale, const float *shift, size rows,
      unsigned channels, struct after after),
     y, x, saved, scale, shift, rows, channels, after, 1)

/* A sum with batch normalisations inside it. */
struct normalised {
    const element *x;
    const float *saved, *scale, *shift; /* only x is set if the value is added as it is */
};

/* y = normal(a) + b, or normal(a) + normal(b) if `has_two`. mask: where y is above 0; NULL: there is no ReLU. */
DEVICE void add_normalised(element *y, unsigned char *mask, struct normalised a, struct normalised b, size rows,
                           unsigned channels, const int has_two, const int width)
{
    size column = COLUMN(width);
    struct columns by, and_by;
    struct raw values[BATCH], others[BATCH];
    float v[8], w[8];
    if (column >= channels)
        return;
    read_columns(&by, a.saved, a.scale, a.shift, column, channels, width);
    if (has_two)
        read_columns(&and_by, b.saved, b.scale, b.shift, column, channels, width);
    BATCHES
    {
        EACH_ROW if (THIS_ROW < rows)
        {
            READ_LAST(a.x + AT(THIS_ROW), values);
            READ_LAST(b.x + AT(THIS_ROW), others);
        }
        EACH_ROW if (THIS_ROW < rows)
        {
            unsigned char passed = 0;
            raw_floats(&values[i], v, width);
            raw_floats(&others[i], w, width);
            if (has_two)
                WITH(w[k] = normal(w[k] - and_by.mean[k], and_by.factor[k], and_by.shift[k]))
            WITH(v[k] = normal(v[k] - by.mean[k], by.factor[k], by.shift[k]) + w[k])
            if (mask != 0) {
                WITH(passed |= v[k] > 0.0f ? 1 << k : 0; v[k] = v[k] < 0.0f ? 0.0f : v[k])
                mask[AT(THIS_ROW) / width] = passed;
            }
            write_elements(y + AT(THIS_ROW), v, width);
        }
    }
}
DEVICE void norm_add_any(element *y, unsigned char *mask, struct normalised a, struct normalised b, size rows,
                         unsigned channels, const int width)
{
    add_normalised(y, mask, a, b, rows, channels, 0, width);
}
PAIR(norm_add,
     (element * y, unsigned char *mask, struct normalised a, struct normalised b, size rows, unsigned channels),
     y, mask, a, b, rows, channels)

DEVICE void norm_add_two_any(element *y, unsigned char *mask, struct normalised a, struct normalised b, size rows,
                             unsigned channels, const int width)
{
    add_normalised(y, mask, a, b, rows, channels, 1, width);
}
PAIR(norm_add_two,
     (element * y, unsigned char *mask, struct normalised a, struct normalised b, size rows, unsigned channels),
     y, mask, a, b, rows, channels)

/* Sum g and g (x - mean). g: the gradient of the normalised value, from dy. */
DEVICE void norm_backward_sums_all(float *partial, const element *dy, const element *x, const float *saved,
                                   const float *scale, const float *shift, size rows, unsigned channels,
                                   struct after after, const int is_smooth, const int width)
{
    size column = COLUMN(width);
    struct columns by;
    struct raw values[BATCH], gradients[BATCH];
    float v[8], gradient[8], sums[2][8] = {{0}};
    if (column < channels) {
        read_columns(&by, saved, scale, shift, column, channels, width);
        BATCHES
        {
            EACH_ROW if (THIS_ROW < rows)
            {
                READ(x + AT_BACK(THIS_ROW), values);
                READ(dy + AT_BACK(THIS_ROW), gradients);
            }
            EACH_ROW if (THIS_ROW < rows)
            {
                raw_floats(&values[i], v, width);
                raw_floats(&gradients[i], gradient, width);
                WITH(v[k] -= by.mean[k];
                     gradient[k] = before_after(after, normal(v[k], by.factor[k], by.shift[k]), gradient[k], is_smooth);
                     sums[0][k] += gradient[k]; sums[1][k] += gradient[k] * v[k])
            }
        }
    }
    give_sums(partial, sums, channels, 2, width);
}
PAIR_OF(norm_backward_sums, norm_backward_sums_all,
     (float *partial, const element *dy, const element *x, const float *saved, const float *scale, const float *shift,
      size rows, unsigned channels, struct after after),
     partial, dy, x, saved, scale, shift, rows, channels, after, 0)
PAIR_OF(norm_backward_sums_smooth, norm_backward_sums_all,
     (float *partial, const element *dy, const element *x, const float *saved, const float *scale, const float *shift,
      size rows, unsigned channels, struct after after),
     partial, dy, x, saved, scale, shift, rows, channels, after, 1)

/* The same for a normalisation inside a sum, with the sum's mask. The masked gradient replaces dy. */
DEVICE void norm_masked_sums_any(float *partial, element *dy, const unsigned char *mask, const element *x,
                                 const float *saved, size rows, unsigned channels, const int width)
{
    size column = COLUMN(width);
    struct raw values[BATCH], gradients[BATCH];
    unsigned char passed[BATCH];
    float mean[8], v[8], gradient[8], sums[2][8] = {{0}};
    if (column < channels) {
        read_floats(saved + column, mean, width);
        BATCHES
        {
            EACH_ROW if (THIS_ROW < rows)
            {
                READ(x + AT_BACK(THIS_ROW), values);
                READ(dy + AT_BACK(THIS_ROW), gradients);
                passed[i] = mask[AT_BACK(THIS_ROW) / width];
            }
            EACH_ROW if (THIS_ROW < rows)
            {
                raw_floats(&values[i], v, width);
                raw_floats(&gradients[i], gradient, width);
                WITH(gradient[k] = passed[i] >> k & 1 ? gradient[k] : 0.0f; sums[0][k] += gradient[k];
                     sums[1][k] += gradient[k] * (v[k] - mean[k]))
                write_elements(dy + AT_BACK(THIS_ROW), gradient, width);
            }
        }
    }
    give_sums(partial, sums, channels, 2, width);
}
PAIR(norm_masked_sums,
     (float *partial, element *dy, const unsigned char *mask, const element *x, const float *saved, size rows,
      unsigned channels),
     partial, dy, mask, x, saved, rows, channels)

/* Gradients of scale and shift; `means`: subtracted from each gradient, and subtracted per (x - mean). Of the `of`
 * sums, number 0 is that of the gradient, and number `which` is that of its product with x - mean. */
KERNEL norm_backward_statistics(float *scale_gradient, float *shift_gradient, float *means, const float *partial,
                                const float *saved, size rows, unsigned channels, unsigned parts, int which, int of)
{
    unsigned channel = blockIdx.x * blockDim.x + threadIdx.x;
    int has_result = threadIdx.y == 0 && channel < channels;
    double inverse = has_result ? saved[channels + channel] : 0.0, share = 1.0 / rows;
    float shift_before = has_result ? shift_gradient[channel] : 0.0f;
    float scale_before = has_result ? scale_gradient[channel] : 0.0f;
    struct two sums = two_of(partial, channel, channels, 0, which, of, parts);
    double sum = sums.one, product = sums.other * inverse;
    if (!has_result)
        return;
    shift_gradient[channel] = shift_before + (float)sum;
    scale_gradient[channel] = scale_before + (float)product;
    means[channel] = (float)(sum * share);
    means[channels + channel] = (float)(product * inverse * share);
}

DEVICE void norm_backward_all(element *dx, const element *dy, const element *x, const float *saved, const float *means,
                              const float *scale, const float *shift, size rows, unsigned channels, struct after after,
                              int adds, const int is_smooth, const int width)
{
    size column = COLUMN(width);
    struct columns by;
    struct raw values[BATCH], gradients[BATCH];
    float off[8], steep[8], v[8], gradient[8], before[8];
    if (column >= channels)
        return;
    read_columns(&by, saved, scale, shift, column, channels, width);
    read_floats(means + column, off, width);
    read_floats(means + channels + column, steep, width);
    BATCHES
    {
        EACH_ROW if (THIS_ROW < rows)
        {
            READ_LAST(x + AT(THIS_ROW), values);
            READ_LAST(dy + AT(THIS_ROW), gradients);
        }
        EACH_ROW if (THIS_ROW < rows)
        {
            raw_floats(&values[i], v, width);
            raw_floats(&gradients[i], gradient, width);
            WITH(v[k] -= by.mean[k];
                 gradient[k] = before_after(after, normal(v[k], by.factor[k], by.shift[k]), gradient[k], is_smooth);
                 v[k] = by.factor[k] * (gradient[k] - off[k] - v[k] * steep[k]))
            if (adds) {
                read_elements(dx + AT(THIS_ROW), before, width);
                WITH(v[k] += before[k])
            }
            write_elements(dx + AT(THIS_ROW), v, width);
        }
    }
}
PAIR_OF(norm_backward, norm_backward_all,
     (element * dx, const element *dy, const element *x, const float *saved, const float *means, const float *scale,
      const float *shift, size rows, unsigned channels, struct after after, int adds),
     dx, dy, x, saved, means, scale, shift, rows, channels, after, adds, 0)
PAIR_OF(norm_backward_smooth, norm_backward_all,
     (element * dx, const element *dy, const element *x, const float *saved, const float *means, const float *scale,
      const float *shift, size rows, unsigned channels, struct after after, int adds),
     dx, dy, x, saved, means, scale, shift, rows, channels, after, adds, 1)

/* ---- the backward pass of a sum of two batch normalisations ---- */

/* What the gradient of a normalisation's input depends on. */
struct branch {
    element *dx; /* NULL: not needed */
    const element *x;
    const float *saved, *scale, *means;
};

/* Of the rows that a thread reads at once; more do not fit into its registers. */
#define TWO_BATCHES  for (size first = FIRST_ROW; first < rows; first += 2 * ROW_STRIDE)
#define EACH_OF_TWO  _Pragma("unroll") for (int i = 0; i < 2; i++)

/* Sum dy, dy (x - mean) and the same for the second x, with dy = 0 where the ReLU did not pass the value. mask NULL:
 * there is no ReLU. */
DEVICE void norm_two_sums_any(float *partial, const element *dy, const unsigned char *mask, struct branch a,
                              struct branch b, size rows, unsigned channels, const int width)
{
    size column = COLUMN(width);
    struct raw values[2], others[2], gradients[2];
    unsigned char passed[2];
    float mean[8], other_mean[8], v[8], w[8], gradient[8], sums[3][8] = {{0}};
    if (column < channels) {
        read_floats(a.saved + column, mean, width);
        read_floats(b.saved + column, other_mean, width);
        TWO_BATCHES
        {
            EACH_OF_TWO if (THIS_ROW < rows)
            {
                READ(a.x + AT_BACK(THIS_ROW), values);
                READ(b.x + AT_BACK(THIS_ROW), others);
                READ(dy + AT_BACK(THIS_ROW), gradients);
                passed[i] = mask != 0 ? mask[AT_BACK(THIS_ROW) / width] : 0xff;
            }
            EACH_OF_TWO if (THIS_ROW < rows)
            {
                raw_floats(&values[i], v, width);
                raw_floats(&others[i], w, width);
                raw_floats(&gradients[i], gradient, width);
                WITH(gradient[k] = passed[i] >> k & 1 ? gradient[k] : 0.0f; sums[0][k] += gradient[k];
                     sums[1][k] += gradient[k] * (v[k] - mean[k]); sums[2][k] += gradient[k] * (w[k] - other_mean[k]))
            }
        }
    }
    give_sums(partial, sums, channels, 3, width);
}
PAIR(norm_two_sums,
     (float *partial, const element *dy, const unsigned char *mask, struct branch a, struct branch b, size rows,
      unsigned channels),
     partial, dy, mask, a, b, rows, channels)

/* The numbers of a branch in the columns of a thread. */
struct slopes {
    float mean[8], factor[8], off[8], slope[8];
};

DEVICE void read_slopes(struct slopes *to, struct branch from, size column, unsigned channels, const int width)
{
    float gamma[8];
    read_floats(from.saved + column, to->mean, width);
    read_floats(from.saved + channels + column, to->factor, width);
    read_floats(from.scale + column, gamma, width);
    read_floats(from.means + column, to->off, width);
    read_floats(from.means + channels + column, to->slope, width);
    WITH(to->factor[k] *= gamma[k])
}

DEVICE void write_branch(struct branch to, size at, const struct slopes *by, const float *x, const float *gradient,
                         const int width)
{
    float v[8];
    if (to.dx == 0)
        return;
    WITH(v[k] = by->factor[k] * (gradient[k] - by->off[k] - (x[k] - by->mean[k]) * by->slope[k]))
    write_elements(to.dx + at, v, width);
}

DEVICE void norm_two_backward_any(const element *dy, const unsigned char *mask, struct branch a, struct branch b,
                                  size rows, unsigned channels, const int width)
{
    size column = COLUMN(width);
    struct raw values[2], others[2], gradients[2];
    unsigned char passed[2];
    struct slopes by, other_by;
    float v[8], gradient[8];
    if (column >= channels)
        return;
    read_slopes(&by, a, column, channels, width);
    read_slopes(&other_by, b, column, channels, width);
    TWO_BATCHES
    {
        EACH_OF_TWO if (THIS_ROW < rows)
        {
            READ_LAST(a.x + AT(THIS_ROW), values);
            READ_LAST(b.x + AT(THIS_ROW), others);
            READ_LAST(dy + AT(THIS_ROW), gradients);
            passed[i] = mask != 0 ? mask[AT(THIS_ROW) / width] : 0xff;
        }
        EACH_OF_TWO if (THIS_ROW < rows)
        {
            raw_floats(&gradients[i], gradient, width);
            WITH(gradient[k] = passed[i] >> k & 1 ? gradient[k] : 0.0f)
            raw_floats(&values[i], v, width);
            write_branch(a, AT(THIS_ROW), &by, v, gradient, width);
            raw_floats(&others[i], v, width);
            write_branch(b, AT(THIS_ROW), &other_by, v, gradient, width);
        }
    }
}
PAIR(norm_two_backward,
     (const element *dy, const unsigned char *mask, struct branch a, struct branch b, size rows, unsigned channels),
     dy, mask, a, b, rows, channels)

/* ---- pooling ---- */

struct pool {
    unsigned channels, height, width, out_height, out_width, kernel, stride, pad;
};

DEVICE void copy_bytes(const unsigned char *from, unsigned char *to, const int width)
{
    if (width == 8)
        *(size *)to = *(const size *)from;
    else
        to[0] = from[0];
}

/* Values of a window's row that a thread reads before it uses the first. */
enum { POOL_BATCH = 3 };

/* A block handles a row of results, and a thread steps along the row. bias: added to each maximum, before the ReLU;
 * NULL: none. norm: if `has_norm`, the batch normalisation inside the pooling; x is its input. */
DEVICE void max_any(element *y, unsigned char *which, const element *x, const float *bias, struct normalised norm,
                    struct pool pool, int has_relu, const int has_norm, const int width)
{
    unsigned groups = pool.channels / width, count = pool.out_width * groups;
    size image = blockIdx.x / pool.out_height;
    int top = (int)(blockIdx.x % pool.out_height * pool.stride) - (int)pool.pad;
    for (unsigned i = threadIdx.x; i < count; i += blockDim.x) {
        unsigned column = i / groups, channel = i % groups * width;
        int left = (int)(column * pool.stride) - (int)pool.pad;
        float best[8], v[8];
        union {
            size word;
            unsigned char byte[8];
        } index;
        struct columns by;
        if (has_norm)
            read_columns(&by, norm.saved, norm.scale, norm.shift, channel, pool.channels, width);
        index.word = 0;
        WITH(best[k] = -FLOAT(0x7f800000u))
        for (int r = 0; r < (int)pool.kernel; r++) {
            if (top + r < 0 || top + r >= (int)pool.height)
                continue;
            const element *line = x + (image * pool.height + top + r) * pool.width * pool.channels + channel;
            for (int begin = 0; begin < (int)pool.kernel; begin += POOL_BATCH) {
                struct raw values[POOL_BATCH];
                int is_inside[POOL_BATCH];
#pragma unroll
                for (int i = 0; i < POOL_BATCH; i++) {
                    int s = begin + i;
                    is_inside[i] = s < (int)pool.kernel && left + s >= 0 && left + s < (int)pool.width;
                    if (is_inside[i])
                        READ(line + (size)(left + s) * pool.channels, values);
                }
#pragma unroll
                for (int i = 0; i < POOL_BATCH; i++) {
                    if (!is_inside[i])
                        continue;
                    raw_floats(&values[i], v, width);
                    if (has_norm)
                        WITH(v[k] = normal(v[k] - by.mean[k], by.factor[k], by.shift[k]))
                    WITH(if (v[k] > best[k] || v[k] != v[k]) {
                        best[k] = v[k];
                        index.byte[k] = (unsigned char)(r * pool.kernel + begin + i);
                    })
                }
            }
        }
        if (bias != 0) {
            read_floats(bias + channel, v, width);
            WITH(best[k] += v[k])
        }
        WITH(best[k] = has_relu && best[k] < 0.0f ? 0.0f : best[k])
        size at = ((size)blockIdx.x * pool.out_width + column) * pool.channels + channel;
        write_elements(y + at, best, width);
        copy_bytes(index.byte, which + at, width);
    }
}
DEVICE void max_forward_any(element *y, unsigned char *which, const element *x, const float *bias, struct pool pool,
                            int has_relu, const int width)
{
    struct normalised none = {0, 0, 0, 0};
    max_any(y, which, x, bias, none, pool, has_relu, 0, width);
}
PAIR(max_forward,
     (element * y, unsigned char *which, const element *x, const float *bias, struct pool pool, int has_relu),
     y, which, x, bias, pool, has_relu)

DEVICE void norm_max_forward_any(element *y, unsigned char *which, const element *x, struct normalised norm,
                                 struct pool pool, const int width)
{
    max_any(y, which, x, 0, norm, pool, 1, 1, width);
}
PAIR(norm_max_forward,
     (element * y, unsigned char *which, const element *x, struct normalised norm, struct pool pool),
     y, which, x, norm, pool)

/* A block handles a row of inputs. Each input adds up the windows in which it was the maximum. y: where it is 0, the
 * ReLU inside the pooling did not pass the maximum; NULL: there is none. */
DEVICE void max_backward_any(element *dx, const element *dy, const element *y_of, const unsigned char *which,
                             struct pool pool, int adds, const int width)
{
    unsigned groups = pool.channels / width, count = pool.width * groups;
    size image = blockIdx.x / pool.height;
    int y = (int)(blockIdx.x % pool.height + pool.pad), kernel = (int)pool.kernel, stride = (int)pool.stride;
    for (unsigned i = threadIdx.x; i < count; i += blockDim.x) {
        unsigned column = i / groups, channel = i % groups * width;
        int x = (int)(column + pool.pad);
        size at = ((size)blockIdx.x * pool.width + column) * pool.channels + channel;
        float sum[8] = {0}, v[8], result[8];
        union {
            size word;
            unsigned char byte[8];
        } index;
        if (adds)
            read_elements(dx + at, sum, width);
        for (int row = y < kernel ? 0 : (y - kernel) / stride + 1; row <= y / stride; row++)
            for (int col = x < kernel ? 0 : (x - kernel) / stride + 1; col <= x / stride; col++) {
                if (row >= (int)pool.out_height || col >= (int)pool.out_width)
                    continue;
                size from = ((image * pool.out_height + row) * pool.out_width + col) * pool.channels + channel;
                int here = (y - row * stride) * kernel + x - col * stride;
                copy_bytes(which + from, index.byte, width);
                read_elements(dy + from, v, width);
                if (y_of != 0) {
                    read_elements(y_of + from, result, width);
                    WITH(v[k] = result[k] > 0.0f ? v[k] : 0.0f)
                }
                WITH(sum[k] += index.byte[k] == here ? v[k] : 0.0f)
            }
        write_elements(dx + at, sum, width);
    }
}
PAIR(max_backward,
     (element * dx, const element *dy, const element *y_of, const unsigned char *which, struct pool pool, int adds),
     dx, dy, y_of, which, pool, adds)

/* The same for windows of 2 or 3 with stride 2. Count rows and columns from the border on: rows 2g and 2g + 1 are only
 * in the windows g and, for a width of 3, g - 1. So a thread handles 2 x 2 inputs and reads each of their windows once.
 * A block handles two rows of inputs. */
DEVICE void max_backward_pairs_any(element *dx, const element *dy, const element *y_of, const unsigned char *which,
                                   struct pool pool, int adds, const int width)
{
    unsigned groups = pool.channels / width, across = (pool.width + pool.pad + 1) / 2, count = across * groups;
    unsigned down = (pool.height + pool.pad + 1) / 2;
    size image = blockIdx.x / down;
    int g = (int)(blockIdx.x % down), kernel = (int)pool.kernel;
    for (unsigned i = threadIdx.x; i < count; i += blockDim.x) {
        int h = (int)(i / groups);
        unsigned channel = i % groups * width;
        int top = 2 * g - (int)pool.pad, left = 2 * h - (int)pool.pad;
        size at = ((image * pool.height + top) * pool.width + left) * pool.channels + channel;
        float sum[4][8] = {{0}}, v[8], result[8];
        union {
            size word;
            unsigned char byte[8];
        } index;
#define INSIDE(a, b) (top + (a) >= 0 && top + (a) < (int)pool.height && left + (b) >= 0 && left + (b) < (int)pool.width)
#define INPUT(a, b)  (at + ((size)(a)*pool.width + (b)) * pool.channels)
        if (adds) {
#pragma unroll
            for (int k = 0; k < 4; k++)
                if (INSIDE(k / 2, k % 2))
                    read_elements(dx + INPUT(k / 2, k % 2), sum[k], width);
        }
#pragma unroll
        for (int window = 0; window < 4; window++) {
            const int before = 1 - window / 2, aside = 1 - window % 2; /* 1: window g - 1, or h - 1 */
            int row = g - before, col = h - aside;
            if (row < 0 || row >= (int)pool.out_height || col < 0 || col >= (int)pool.out_width ||
                (kernel == 2 && before + aside != 0))
                continue;
            size from = ((image * pool.out_height + row) * pool.out_width + col) * pool.channels + channel;
            copy_bytes(which + from, index.byte, width);
            read_elements(dy + from, v, width);
            if (y_of != 0) {
                read_elements(y_of + from, result, width);
                WITH(v[k] = result[k] > 0.0f ? v[k] : 0.0f)
            }
#pragma unroll
            for (int a = 0; a < 2; a++)
#pragma unroll
                for (int b = 0; b < 2; b++) {
                    const int r = a + 2 * before, s = b + 2 * aside;
                    if (r < 3 && s < 3)
                        WITH(sum[2 * a + b][k] += index.byte[k] == r * kernel + s ? v[k] : 0.0f)
                }
        }
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (INSIDE(k / 2, k % 2))
                write_elements(dx + INPUT(k / 2, k % 2), sum[k], width);
    }
}
PAIR(max_backward_pairs,
     (element * dx, const element *dy, const element *y_of, const unsigned char *which, struct pool pool, int adds),
     dx, dy, y_of, which, pool, adds)

/* ---- the backward pass of a batch normalisation inside a max pooling ---- */

/* For windows of 2 or 3 with stride 2. A thread handles 2 x 2 inputs as in max_backward_pairs, and these are a "row" of
 * the kernels below. They compute the gradients of the normalised values when they need them. */
struct square {
    size at;       /* index of the first input */
    int top, left; /* place of the first input; -1: in the border */
    /* What is stored for the windows g - 1 (0 and 1) and g (2 and 3), each at h - 1 and h. */
    struct raw gradients[4];
    union {
        size word;
        unsigned char byte[8];
    } which[4];
};

DEVICE void read_square(struct square *to, const element *dy, const unsigned char *which, struct pool pool, size row,
                        size column, const int width)
{
    unsigned across = (pool.width + pool.pad + 1) / 2, down = (pool.height + pool.pad + 1) / 2;
    size line = row / across, image = line / down;
    int g = (int)(line - image * down), h = (int)(row - line * across);
    to->top = 2 * g - (int)pool.pad;
    to->left = 2 * h - (int)pool.pad;
    to->at = ((image * pool.height + to->top) * pool.width + to->left) * pool.channels + column;
#pragma unroll
    for (int window = 0; window < 4; window++) {
        const int before = 1 - window / 2, aside = 1 - window % 2;
        int y = g - before, x = h - aside;
        struct raw none = {{0}};
        to->gradients[window] = none;
        to->which[window].word = ~(size)0; /* no position */
        if (y < 0 || y >= (int)pool.out_height || x < 0 || x >= (int)pool.out_width ||
            (pool.kernel == 2 && before + aside != 0))
            continue;
        size from = ((image * pool.out_height + y) * pool.out_width + x) * pool.channels + column;
        copy_bytes(which + from, to->which[window].byte, width);
        read_raw(dy + from, &to->gradients[window], 0, width);
    }
}

/* Set the gradient of one of the four inputs, without the ReLU. */
DEVICE void square_gradient(float *gradient, const struct square *from, int kernel, const int input, const int width)
{
    float v[8];
    WITH(gradient[k] = 0.0f)
#pragma unroll
    for (int window = 0; window < 4; window++) {
        const int r = input / 2 + 2 * (1 - window / 2), s = input % 2 + 2 * (1 - window % 2);
        if (r < 3 && s < 3) {
            raw_floats(&from->gradients[window], v, width);
            WITH(gradient[k] += from->which[window].byte[k] == r * kernel + s ? v[k] : 0.0f)
        }
    }
}

#define EACH_INPUT      _Pragma("unroll") for (int i = 0; i < 4; i++)
#define IN_IMAGE(of)                                                                                                   \
    ((of).top + i / 2 >= 0 && (of).top + i / 2 < (int)pool.height && (of).left + i % 2 >= 0 &&                         \
     (of).left + i % 2 < (int)pool.width)
#define AT_INPUT(of)    ((of).at + ((size)(i / 2) * pool.width + i % 2) * pool.channels)

/* As norm_backward_sums. rows: number of squares. */
DEVICE void norm_max_sums_any(float *partial, const element *dy, const unsigned char *which, struct normalised norm,
                              struct pool pool, size rows, struct after after, const int width)
{
    size column = COLUMN(width);
    struct columns by;
    struct square square;
    struct raw values[4];
    float v[8], gradient[8], sums[2][8] = {{0}};
    if (column < pool.channels) {
        read_columns(&by, norm.saved, norm.scale, norm.shift, column, pool.channels, width);
        for (size row = FIRST_ROW; row < rows; row += ROW_STRIDE) {
            read_square(&square, dy, which, pool, rows - 1 - row, column, width);
            EACH_INPUT if (IN_IMAGE(square)) READ(norm.x + AT_INPUT(square), values);
            EACH_INPUT if (IN_IMAGE(square))
            {
                raw_floats(&values[i], v, width);
                square_gradient(gradient, &square, (int)pool.kernel, i, width);
                WITH(v[k] -= by.mean[k];
                     gradient[k] = before_after(after, normal(v[k], by.factor[k], by.shift[k]), gradient[k], 0);
                     sums[0][k] += gradient[k]; sums[1][k] += gradient[k] * v[k])
            }
        }
    }
    give_sums(partial, sums, pool.channels, 2, width);
}
PAIR(norm_max_sums,
     (float *partial, const element *dy, const unsigned char *which, struct normalised norm, struct pool pool,
      size rows, struct after after),
     partial, dy, which, norm, pool, rows, after)

/* As norm_backward. */
DEVICE void norm_max_backward_any(element *dx, const element *dy, const unsigned char *which, struct normalised norm,
                                  const float *means, struct pool pool, size rows, struct after after, int adds,
                                  const int width)
{
    size column = COLUMN(width);
    struct columns by;
    struct square square;
    struct raw values[4];
    float off[8], steep[8], v[8], gradient[8], before[8];
    if (column >= pool.channels)
        return;
    read_columns(&by, norm.saved, norm.scale, norm.shift, column, pool.channels, width);
    read_floats(means + column, off, width);
    read_floats(means + pool.channels + column, steep, width);
    for (size row = FIRST_ROW; row < rows; row += ROW_STRIDE) {
        read_square(&square, dy, which, pool, row, column, width);
        EACH_INPUT if (IN_IMAGE(square)) READ_LAST(norm.x + AT_INPUT(square), values);
        EACH_INPUT if (IN_IMAGE(square))
        {
            raw_floats(&values[i], v, width);
            square_gradient(gradient, &square, (int)pool.kernel, i, width);
            WITH(v[k] -= by.mean[k];
                 gradient[k] = before_after(after, normal(v[k], by.factor[k], by.shift[k]), gradient[k], 0);
                 v[k] = by.factor[k] * (gradient[k] - off[k] - v[k] * steep[k]))
            if (adds) {
                read_elements(dx + AT_INPUT(square), before, width);
                WITH(v[k] += before[k])
            }
            write_elements(dx + AT_INPUT(square), v, width);
        }
    }
}
PAIR(norm_max_backward,
     (element * dx, const element *dy, const unsigned char *which, struct normalised norm, const float *means,
      struct pool pool, size rows, struct after after, int adds),
     dx, dy, which, norm, means, pool, rows, after, adds)

/* The mean over an image; a block handles some channels of one image. */
DEVICE void mean_forward_any(element *y, const element *x, unsigned pixels, unsigned channels, int has_relu,
                             const int width)
{
    unsigned channel = (blockIdx.y * blockDim.x + threadIdx.x) * width;
    float sum[8] = {0}, v[8];
    if (channel >= channels)
        return;
    const element *from = x + (size)blockIdx.x * pixels * channels + channel;
    for (unsigned i = 0; i < pixels; i++) {
        read_elements(from + (size)i * channels, v, width);
        WITH(sum[k] += v[k])
    }
    WITH(sum[k] /= pixels; sum[k] = has_relu && sum[k] < 0.0f ? 0.0f : sum[k])
    write_elements(y + (size)blockIdx.x * channels + channel, sum, width);
}
PAIR(mean_forward, (element * y, const element *x, unsigned pixels, unsigned channels, int has_relu),
     y, x, pixels, channels, has_relu)

DEVICE void mean_backward_any(element *dx, const element *dy, unsigned pixels, unsigned channels, int adds,
                              const int width)
{
    unsigned channel = (blockIdx.y * blockDim.x + threadIdx.x) * width;
    float share[8], v[8];
    if (channel >= channels)
        return;
    read_elements(dy + (size)blockIdx.x * channels + channel, share, width);
    WITH(share[k] /= pixels)
    element *to = dx + (size)blockIdx.x * pixels * channels + channel;
    for (unsigned i = 0; i < pixels; i++) {
        WITH(v[k] = share[k])
        if (adds) {
            read_elements(to + (size)i * channels, v, width);
            WITH(v[k] += share[k])
        }
        write_elements(to + (size)i * channels, v, width);
    }
}
PAIR(mean_backward, (element * dx, const element *dy, unsigned pixels, unsigned channels, int adds),
     dx, dy, pixels, channels, adds)

/* ---- loss: softmax and cross entropy, one block per image ---- */

enum { LOSS_THREADS = 128 };

DEVICE float largest_of(const element *x, unsigned classes)
{
    SHARED float values[LOSS_THREADS];
    float largest = -FLOAT(0x7f800000u);
    for (unsigned i = threadIdx.x; i < classes; i += blockDim.x) {
        float v = widen(x[i]);
        largest = v > largest ? v : largest;
    }
    values[threadIdx.x] = largest;
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if ((int)threadIdx.x < half) {
            float other = values[threadIdx.x + half];
            values[threadIdx.x] = other > values[threadIdx.x] ? other : values[threadIdx.x];
        }
    }
    __syncthreads();
    return values[0];
}

DEVICE float sum_of(float part)
{
    SHARED float sums[LOSS_THREADS];
    sums[threadIdx.x] = part;
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if ((int)threadIdx.x < half)
            sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    __syncthreads();
    return sums[0];
}

enum { CLASSES_TOP = 5 };

/* Return the number of classes with a larger logit than the label, or the same one and a smaller number, or one that is
 * not a number. */
DEVICE float rank_of(const element *x, unsigned classes, int label)
{
    float before = 0.0f, own = widen(x[label]);
    for (unsigned i = threadIdx.x; i < classes; i += blockDim.x) {
        float v = widen(x[i]);
        before += (int)i != label && !(v < own || (v == own && (int)i > label)) ? 1.0f : 0.0f;
    }
    return sum_of(before);
}

/* dx NULL: evaluation. each[images][2]: the loss, and 2 if the prediction is right, or 1 if the label is among the
 * CLASSES_TOP best classes. Images from `counted` on are not counted. */
KERNEL loss(element *dx, float *each, const element *logits, const int *labels, unsigned classes, unsigned counted,
            float scale, float smoothing)
{
    size image = blockIdx.x;
    const element *x = logits + image * classes;
    int label = labels[image], is_label = label >= 0 && label < (int)classes;
    float largest = largest_of(x, classes), part = 0.0f;
    for (unsigned i = threadIdx.x; i < classes; i += blockDim.x)
        part += expf(widen(x[i]) - largest);
    float sum = sum_of(part), even = smoothing / classes, off = 0.0f, rank = CLASSES_TOP;
    int counts = image < counted;
    if (smoothing > 0.0f) {
        for (unsigned i = threadIdx.x; i < classes; i += blockDim.x)
            off += widen(x[i]) - largest;
        __syncthreads(); /* all threads have read the last sum */
        off = sum_of(off);
    }
    if (is_label) {
        __syncthreads();
        rank = rank_of(x, classes, label);
    }
    if (threadIdx.x == 0) {
        float own = is_label ? widen(x[label]) : FLOAT(0x7fc00000u), of_label = largest - own;
        if (smoothing > 0.0f)
            of_label = (1.0f - smoothing) * of_label - even * off;
        each[2 * image] = counts ? logf(sum) + of_label : 0.0f;
        each[2 * image + 1] = !counts || own != own || rank >= CLASSES_TOP ? 0.0f : rank < 1.0f ? 2.0f : 1.0f;
    }
    if (dx == 0)
        return;
    for (unsigned i = threadIdx.x; i < classes; i += blockDim.x) {
        float share = expf(widen(x[i]) - largest) / sum - ((int)i == label ? 1.0f - smoothing : 0.0f) - even;
        dx[image * classes + i] = narrow(counts ? share * scale : 0.0f);
    }
}

struct results {
    float loss;
    unsigned correct, broken, top;
    float norm, clip;
    unsigned reserved[2];
};

/* One block adds up the results of all images. */
KERNEL loss_sum(struct results *results, const float *each, unsigned images)
{
    SHARED double losses[256];
    SHARED unsigned corrects[256], tops[256];
    double own = 0;
    unsigned correct = 0, top = 0;
    for (unsigned i = threadIdx.x; i < images; i += blockDim.x) {
        own += each[2 * i];
        correct += each[2 * i + 1] > 1.0f;
        top += each[2 * i + 1] > 0.0f;
    }
    losses[threadIdx.x] = own;
    corrects[threadIdx.x] = correct;
    tops[threadIdx.x] = top;
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if ((int)threadIdx.x < half) {
            losses[threadIdx.x] += losses[threadIdx.x + half];
            corrects[threadIdx.x] += corrects[threadIdx.x + half];
            tops[threadIdx.x] += tops[threadIdx.x + half];
        }
    }
    if (threadIdx.x == 0) {
        results->loss += (float)losses[0];
        results->correct += corrects[0];
        results->top += tops[0];
    }
}

/* ---- the optimizer's step ---- */

/* Count gradients that are not finite. The counts are integers, so the order of the sum does not matter. */
KERNEL check(struct results *results, const float *gradients, size count)
{
    SHARED unsigned all[256];
    unsigned broken = 0;
    size stride = (size)gridDim.x * blockDim.x;
    for (size i = (size)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride)
        broken += (BITS(gradients[i]) & 0x7f800000u) == 0x7f800000u;
    all[threadIdx.x] = broken;
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if ((int)threadIdx.x < half)
            all[threadIdx.x] += all[threadIdx.x + half];
    }
    if (threadIdx.x == 0 && all[0] != 0)
        atomicAdd(&results->broken, all[0]);
}

/* Add up the squares of the gradients. Each block writes one sum. */
KERNEL squares(double *sums, const float *gradients, size count)
{
    SHARED double all[256];
    double own = 0;
    size stride = (size)gridDim.x * blockDim.x;
    for (size i = (size)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride)
        own += (double)gradients[i] * gradients[i];
    all[threadIdx.x] = own;
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if ((int)threadIdx.x < half)
            all[threadIdx.x] += all[threadIdx.x + half];
    }
    if (threadIdx.x == 0)
        sums[blockIdx.x] = all[0];
}

/* One block sets results.norm and results.clip, unless there are gradients that are not finite. */
KERNEL clip(struct results *results, const double *sums, unsigned parts, float scale, float most)
{
    SHARED double all[256];
    double own = 0;
    if (results->broken != 0)
        return;
    for (unsigned i = threadIdx.x; i < parts; i += blockDim.x)
        own += sums[i];
    all[threadIdx.x] = own;
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if ((int)threadIdx.x < half)
            all[threadIdx.x] += all[threadIdx.x + half];
    }
    if (threadIdx.x == 0) {
        float norm = (float)sqrt(all[0]) * scale, factor = most / (norm + 1e-6f);
        results->norm = norm;
        results->clip = factor < 1.0f ? factor : 1.0f;
    }
}

struct step_size {
    float rate, momentum, weight_decay, beta_1, beta_2, epsilon, scale;
    float root_correction; /* sqrt(1 - beta_2^t) */
    float correction;      /* 1 - beta_1^t */
    int clips;             /* 1: multiply the gradients by results.clip, too */
    int is_nesterov, is_decoupled;
};

/* Parameters whose entry in `decayed` is 0 do not decay; each entry is for 64 parameters. decayed NULL: all decay. */
DEVICE float decay_at(struct step_size by, const unsigned char *decayed, size at)
{
    return decayed == 0 || decayed[at / 64] != 0 ? by.weight_decay : 0.0f;
}

DEVICE float scale_of(struct step_size by, const struct results *results)
{
    return by.clips ? by.scale * results->clip : by.scale;
}

DEVICE void sgd_at(float *parameters, float *moment, element *low, const float *gradients, const unsigned char *decayed,
                   float scale, struct step_size by, size at, const int width)
{
    float p[8], m[8], g[8], decay = decay_at(by, decayed, at);
    read_floats(parameters + at, p, width);
    read_floats(moment + at, m, width);
    read_floats(gradients + at, g, width);
    WITH(g[k] = g[k] * scale + decay * p[k]; m[k] = by.momentum * m[k] + g[k];
         p[k] -= by.rate * (by.is_nesterov ? g[k] + by.momentum * m[k] : m[k]))
    write_floats(parameters + at, p, width);
    write_floats(moment + at, m, width);
    if (low != 0)
        write_elements(low + at, p, width);
}
/* low is NULL if there is none. */
KERNEL sgd(float *parameters, float *moment, element *low, const float *gradients, const unsigned char *decayed,
           const struct results *results, struct step_size by, size count)
{
    if (results->broken != 0)
        return;
    float scale = scale_of(by, results);
#define BODY(at, width) sgd_at(parameters, moment, low, gradients, decayed, scale, by, at, width)
    EACH(count, BODY)
#undef BODY
}

DEVICE void adam_at(float *parameters, float *mean, float *square, element *low, const float *gradients,
                    const unsigned char *decayed, float scale, struct step_size by, size at, const int width)
{
    float p[8], m[8], s[8], g[8], decay = decay_at(by, decayed, at);
    float kept = by.is_decoupled ? 1.0f - by.rate * decay : 1.0f;
    read_floats(parameters + at, p, width);
    read_floats(mean + at, m, width);
    read_floats(square + at, s, width);
    read_floats(gradients + at, g, width);
    WITH(g[k] = g[k] * scale + (by.is_decoupled ? 0.0f : decay * p[k]);
         m[k] = by.beta_1 * m[k] + (1.0f - by.beta_1) * g[k];
         s[k] = by.beta_2 * s[k] + (1.0f - by.beta_2) * g[k] * g[k];
         p[k] = p[k] * kept - by.rate / by.correction * m[k] / (sqrtf(s[k]) / by.root_correction + by.epsilon))
    write_floats(parameters + at, p, width);
    write_floats(mean + at, m, width);
    write_floats(square + at, s, width);
    if (low != 0)
        write_elements(low + at, p, width);
}
KERNEL adam(float *parameters, float *mean, float *square, element *low, const float *gradients,
            const unsigned char *decayed, const struct results *results, struct step_size by, size count)
{
    if (results->broken != 0)
        return;
    float scale = scale_of(by, results);
#define BODY(at, width) adam_at(parameters, mean, square, low, gradients, decayed, scale, by, at, width)
    EACH(count, BODY)
#undef BODY
}

/* Update the moving average of the parameters. The weight 1 copies them exactly. */
DEVICE void average_at(float *average, const float *parameters, float weight, size at, const int width)
{
    float a[8], p[8];
    read_floats(average + at, a, width);
    read_floats(parameters + at, p, width);
    WITH(a[k] = weight < 0.5f ? a[k] + weight * (p[k] - a[k]) : p[k] - (1.0f - weight) * (p[k] - a[k]))
    write_floats(average + at, a, width);
}
KERNEL average(float *average, const float *parameters, const struct results *results, float weight, size count)
{
    if (results->broken != 0)
        return;
#define BODY(at, width) average_at(average, parameters, weight, at, width)
    EACH(count, BODY)
#undef BODY
}

/* Exchange the parameters and their average. low is NULL if there is none. */
DEVICE void swap_at(float *parameters, float *average, element *low, size at, const int width)
{
    float a[8], p[8];
    read_floats(average + at, a, width);
    read_floats(parameters + at, p, width);
    write_floats(average + at, p, width);
    write_floats(parameters + at, a, width);
    if (low != 0)
        write_elements(low + at, a, width);
}
KERNEL swap_average(float *parameters, float *average, element *low, size count)
{
#define BODY(at, width) swap_at(parameters, average, low, at, width)
    EACH(count, BODY)
#undef BODY
}
