/* A program with the allocator of TensorFlow: best fit with coalescing ("BFC"). It takes regions from the driver and
 * never returns one. By default, its first region is nearly the whole card; with growth, each region is twice as large
 * as the one before, and after a first refusal it asks for a tenth less until the request no longer fits.
 *
 *   growth   the batch is too large for the card; --repaired: a smaller one, for which only a region is refused
 *   pieces   the batch would fit, but not into the pieces that growth has made; --repaired: without growth
 *   limit    the memory limit is too small for the model; --repaired: a larger limit
 *   refit    the model of the first fit() is kept while the second one is built; --repaired: it is freed before
 *
 * --library: a file with a name of TensorFlow, which is loaded. On stderr, the program writes what TensorFlow writes.
 */
#include "scenario.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)
enum { CHUNKS_MAX = 4096, UNIT = 256, LAYERS = 8, BLOCKS_MAX = 64, STEPS = 12, REGION_FIRST = 2 };

struct chunk {
    CUdeviceptr at;
    size_t bytes;
    bool used, begins_region;
};

struct pool {
    struct chunk chunk[CHUNKS_MAX]; /* by region, then by address */
    size_t count;
    size_t limit, taken, used, next_region, refused;
    bool went_back;
};

static size_t rounded(size_t bytes)
{
    return (bytes + UNIT - 1) / UNIT * UNIT;
}

/* ---- the allocator ---- */

static void insert(struct pool *p, size_t index, struct chunk chunk)
{
    if (p->count == CHUNKS_MAX)
        scenario_fail("too many chunks");
    memmove(&p->chunk[index + 1], &p->chunk[index], (p->count - index) * sizeof p->chunk[0]);
    p->chunk[index] = chunk;
    p->count++;
}

static CUdeviceptr ask_driver(struct pool *p, size_t bytes)
{
    CUdeviceptr at = 0;
    if (cuMemAlloc(&at, bytes) != CUDA_SUCCESS) {
        p->refused++;
        return 0;
    }
    return at;
}

/* Take another region that has room for `bytes`. */
static bool extend(struct pool *p, size_t bytes)
{
    size_t left = (p->limit - p->taken) / UNIT * UNIT;
    bool was_raised = false;
    if (bytes > left)
        return false;
    for (; bytes > p->next_region; was_raised = true)
        p->next_region *= 2;
    size_t wanted = p->next_region < left ? p->next_region : left;
    CUdeviceptr at = ask_driver(p, wanted);
    if (at == 0 && !p->went_back) {
        p->went_back = true;
        while (at == 0 && (wanted = rounded(wanted / 10 * 9)) >= bytes)
            at = ask_driver(p, wanted);
    }
    if (at == 0)
        return false;
    p->next_region *= was_raised ? 1 : 2;
    p->taken += wanted;
    insert(p, p->count, (struct chunk){at, wanted, false, true});
    return true;
}

static struct chunk *best_fit(struct pool *p, size_t bytes)
{
    struct chunk *best = NULL;
    for (size_t i = 0; i < p->count; i++) {
        struct chunk *it = &p->chunk[i];
        if (!it->used && it->bytes >= bytes && (best == NULL || it->bytes < best->bytes))
            best = it;
    }
    return best;
}

/* Return a block, or 0. */
static CUdeviceptr pool_take(struct pool *p, size_t wanted)
{
    size_t bytes = rounded(wanted);
    struct chunk *found = best_fit(p, bytes);
    if (found == NULL && extend(p, bytes))
        found = best_fit(p, bytes);
    if (found == NULL)
        return 0;
    size_t rest = found->bytes - bytes;
    found->used = true;
    if (rest >= UNIT) {
        found->bytes = bytes;
        insert(p, (size_t)(found - p->chunk) + 1, (struct chunk){found->at + bytes, rest, false, false});
    }
    p->used += found->bytes;
    return found->at;
}

static void merge(struct pool *p, size_t index)
{
    if (index + 1 >= p->count || p->chunk[index].used || p->chunk[index + 1].used || p->chunk[index + 1].begins_region)
        return;
    p->chunk[index].bytes += p->chunk[index + 1].bytes;
    p->count--;
    memmove(&p->chunk[index + 1], &p->chunk[index + 2], (p->count - index - 1) * sizeof p->chunk[0]);
}

static void pool_give(struct pool *p, CUdeviceptr at)
{
    size_t index = 0;
    while (p->chunk[index].at != at)
        index++;
    p->chunk[index].used = false;
    p->used -= p->chunk[index].bytes;
    merge(p, index);
    if (index > 0)
        merge(p, index - 1);
}

/* ---- the program ---- */

__attribute__((noreturn)) static void give_up(const struct pool *p, size_t bytes)
{
    const double mib = 1 << 20;
    fprintf(stderr,
            "W external/local_xla/xla/tsl/framework/bfc_allocator.cc:501] Allocator (GPU_0_bfc) ran out of memory "
            "trying to allocate %.2fMiB (rounded to %zu)requested by op Conv2D\n"
            "I external/local_xla/xla/tsl/framework/bfc_allocator.cc:1117] Sum Total of in-use chunks: %.2fMiB\n"
            "I external/local_xla/xla/tsl/framework/bfc_allocator.cc:1123] Stats: \nLimit:           %16zu\n"
            "InUse:           %16zu\n\n",
            (double)bytes / mib, rounded(bytes), (double)p->used / mib, p->limit, p->used);
    truth("used_bytes", "%zu", p->used);
    truth("limit_bytes", "%zu", p->limit);
    truth("refused", "%zu", p->refused);
    scenario_fail("Traceback (most recent call last):\n  File \"fit.py\", line 31, in <module>\n    model.fit(x, y)\n"
                  "tensorflow.python.framework.errors_impl.ResourceExhaustedError: {{function_node Conv2D}} OOM when "
                  "allocating tensor with shape[%zu] and type float on "
                  "/job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc [Op:Conv2D]",
                  bytes / sizeof(float));
}

static CUdeviceptr take_or_fail(struct pool *p, size_t bytes)
{
    CUdeviceptr at = pool_take(p, bytes);
    if (at == 0)
        give_up(p, bytes);
    return at;
}

struct model {
    CUdeviceptr layer[LAYERS];
};

static void build(struct pool *p, struct model *model, size_t layer_bytes)
{
    for (int i = 0; i < LAYERS; i++)
        model->layer[i] = take_or_fail(p, layer_bytes + (size_t)i * MIB);
}

static void free_model(struct pool *p, struct model *model)
{
    for (int i = 0; i < LAYERS; i++)
        pool_give(p, model->layer[i]);
}

/* Train with `count` blocks of activations in each step. */
static void fit(struct pool *p, CUfunction store, const struct model *model, int count, size_t block_bytes)
{
    for (int step = 0; step < STEPS; step++) {
        CUdeviceptr output[BLOCKS_MAX];
        int loss = 0;
        for (int i = 0; i < count; i++) {
            output[i] = take_or_fail(p, block_bytes);
            CHECK(scenario_store(store, model->layer[i % LAYERS], NULL));
            CHECK(scenario_store(store, output[i], NULL));
        }
        CHECK(cuMemcpyDtoH(&loss, output[count - 1], sizeof loss));
        for (int i = count; i-- > 0;)
            pool_give(p, output[i]);
    }
}

static struct pool pool;

int main(int argc, char **argv)
{
    const char *what = "growth";
    struct gpu gpu;
    struct model first, second;
    size_t free_bytes, total_bytes, reserve = 300 * MIB;
    const struct option_row rows[] = {{"what", OPTION_TEXT, &what, "growth, pieces, limit or refit"},
                                      {NULL, OPTION_FLAG, NULL, NULL}};
    bool repaired = scenario_begin(argc, argv, rows, "Trains with TensorFlow's way to allocate memory.");
    bool is_refit = strcmp(what, "refit") == 0, is_limit = strcmp(what, "limit") == 0;
    gpu_open(&gpu, 0);
    CUfunction store = gpu_kernel(gpu_load(scenario_ptx), "store");
    scenario_memory(&free_bytes, &total_bytes);
    bool is_growth = strcmp(what, "growth") == 0, is_pieces = strcmp(what, "pieces") == 0;
    bool is_growing = is_growth || (is_pieces && !repaired);
    size_t block_bytes = (is_pieces ? 360 : 64) * MIB;
    pool.limit = rounded(is_limit ? (repaired ? 1024 : 512) * MIB : free_bytes - reserve);
    pool.next_region = is_growing ? REGION_FIRST * MIB : pool.limit;
    if (is_growth)
        (void)scenario_take(400 * MIB); /* a library's */
    build(&pool, &first, (is_refit ? 256 : 32) * MIB);
    fit(&pool, store, &first, is_growth ? (repaired ? 36 : 60) : LAYERS, block_bytes);
    if (is_refit && repaired)
        free_model(&pool, &first);
    if (is_refit) {
        build(&pool, &second, 256 * MIB);
        fit(&pool, store, &second, LAYERS, block_bytes);
    }
    truth("refused", "%zu", pool.refused);
    gpu_close(&gpu);
    printf("%d steps, training finished\n", STEPS);
    return 0;
}
