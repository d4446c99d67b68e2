/* Tests for plans and the search for a batch. They need no driver. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <gpuwhy/scope.h>

static gs_plan *new_plan(size_t alignment)
{
    gs_plan *plan;
    assert_int_equal(gs_plan_new(alignment, &plan), GS_OK);
    return plan;
}

static size_t take(gs_plan *plan, size_t bytes)
{
    size_t block;
    assert_int_equal(gs_plan_alloc(plan, bytes, &block), GS_OK);
    return block;
}

static void give(gs_plan *plan, size_t block)
{
    assert_int_equal(gs_plan_free(plan, block), GS_OK);
}

static gs_plan_size close_plan(gs_plan *plan)
{
    gs_plan_size size;
    assert_int_equal(gs_plan_close(plan, &size), GS_OK);
    return size;
}

static uint64_t offset_of(const gs_plan *plan, size_t block)
{
    uint64_t offset;
    assert_int_equal(gs_plan_offset(plan, block, &offset), GS_OK);
    return offset;
}

static void refuses_nonsense(void **state)
{
    (void)state;
    gs_plan *plan;
    size_t block;
    uint64_t offset;
    assert_int_equal(gs_plan_new(3, &plan), GS_MISUSE);
    plan = new_plan(0);
    assert_int_equal(gs_plan_alloc(plan, 0, &block), GS_MISUSE);
    assert_int_equal(gs_plan_alloc(plan, SIZE_MAX, &block), GS_MISUSE);
    assert_int_equal(gs_plan_free(plan, 0), GS_MISUSE);
    block = take(plan, (size_t)1 << 60);
    assert_int_equal(gs_plan_alloc(plan, 1, &block), GS_NO_MEMORY);
    give(plan, 0);
    assert_int_equal(gs_plan_free(plan, 0), GS_MISUSE);
    assert_int_equal(gs_plan_offset(plan, 0, &offset), GS_MISUSE); /* the plan is not closed yet */
    close_plan(plan);
    assert_int_equal(gs_plan_alloc(plan, 1, &block), GS_MISUSE);
    assert_int_equal(gs_plan_close(plan, NULL), GS_MISUSE);
    assert_int_equal(gs_plan_offset(plan, 1, &offset), GS_MISUSE);
    gs_plan_delete(plan);
    gs_plan_delete(NULL);
}

static void an_empty_plan_takes_nothing(void **state)
{
    (void)state;
    gs_plan *plan = new_plan(0);
    gs_plan_size size = close_plan(plan);
    assert_int_equal(size.arena_bytes, 0);
    assert_int_equal(size.block_count, 0);
    gs_plan_delete(plan);
}

static void one_after_the_other_shares_a_place(void **state)
{
    (void)state;
    gs_plan *plan = new_plan(256);
    for (int i = 0; i < 10; i++)
        give(plan, take(plan, 1000));
    gs_plan_size size = close_plan(plan);
    assert_int_equal(size.live_peak_bytes, 1024);
    assert_int_equal(size.arena_bytes, 1024);
    gs_plan_delete(plan);
}

/* A training iteration: the forward pass allocates blocks, and the backward pass frees them in reverse order. Each
 * backward step allocates a gradient, then frees the previous one. The arena may be at most 2 % larger than the
 * peak. */
static void a_training_iteration_has_no_gaps(void **state)
{
    (void)state;
    enum { LAYERS = 50 };
    size_t saved[LAYERS], gradient = 0;
    gs_plan *plan = new_plan(512);
    for (int i = 0; i < LAYERS; i++)
        saved[i] = take(plan, (size_t)(1 + i * 7919 % 97) * 4096);
    for (int i = LAYERS; i-- > 0;) {
        size_t next = take(plan, (size_t)(1 + i * 7919 % 97) * 4096);
        if (i < LAYERS - 1)
            give(plan, gradient);
        gradient = next;
        give(plan, saved[i]);
    }
    gs_plan_size size = close_plan(plan);
    assert_int_equal(size.block_count, 2 * LAYERS);
    assert_true(size.arena_bytes <= size.live_peak_bytes * 102 / 100);
    gs_plan_delete(plan);
}

/* In every plan, each block must be aligned and inside the arena. Blocks that live at the same time must not
 * overlap. */
static void random_plans_never_overlap(void **state)
{
    (void)state;
    enum { ROUNDS = 60, BLOCKS = 300 };
    static struct {
        size_t id, begin, end, bytes;
    } blocks[BLOCKS];
    unsigned seed = 1;
    for (int round = 0; round < ROUNDS; round++) {
        gs_plan *plan = new_plan((size_t)1 << round % 12);
        size_t live[BLOCKS], live_count = 0, step = 0;
        for (size_t i = 0; i < BLOCKS; i++, step++) {
            blocks[i].bytes = 1 + (size_t)rand_r(&seed) % (1u << (1 + rand_r(&seed) % 20));
            blocks[i].id = take(plan, blocks[i].bytes);
            blocks[i].begin = step;
            blocks[i].end = SIZE_MAX;
            live[live_count++] = i;
            while (live_count > 0 && rand_r(&seed) % 3 == 0) {
                size_t at = (size_t)rand_r(&seed) % live_count;
                give(plan, blocks[live[at]].id);
                blocks[live[at]].end = ++step;
                live[at] = live[--live_count];
            }
        }
        gs_plan_size size = close_plan(plan);
        assert_true(size.arena_bytes >= size.live_peak_bytes);
        for (size_t a = 0; a < BLOCKS; a++) {
            uint64_t at = offset_of(plan, blocks[a].id);
            assert_int_equal(at % ((uint64_t)1 << round % 12), 0);
            assert_true(at + blocks[a].bytes <= size.arena_bytes);
            for (size_t b = 0; b < a; b++) {
                uint64_t other = offset_of(plan, blocks[b].id);
                if (blocks[a].begin < blocks[b].end && blocks[b].begin < blocks[a].end)
                    assert_true(at + blocks[a].bytes <= other || other + blocks[b].bytes <= at);
            }
        }
        gs_plan_delete(plan);
    }
}

/* ---- the batch that fits ---- */

struct need {
    size_t asked_count;
    gs_status broken;
};

/* Return the memory that a batch of n images needs: 10 bytes per image, but 5 if n is at least 100, as with a
 * better algorithm. A batch of 64 is not possible. */
static gs_status need_of(void *user, size_t n, uint64_t *ret_bytes)
{
    struct need *need = user;
    need->asked_count++;
    if (need->broken != GS_OK)
        return need->broken;
    if (n == 64)
        return GS_UNSUPPORTED;
    if (n > 1000)
        return GS_NO_MEMORY;
    *ret_bytes = n >= 100 ? n * 5 : n * 10;
    return GS_OK;
}

static void finds_the_largest_batch(void **state)
{
    (void)state;
    struct need need = {0};
    size_t n = 0;
    uint64_t bytes = 0;
    gs_fit fit = {.budget_bytes = 700, .n_max = 2000};
    assert_int_equal(gs_fit_batch(&fit, need_of, &need, &n, &bytes), GS_OK);
    assert_int_equal(n, 140); /* batches of 71 to 99 images do not fit, but those of 100 to 140 do */
    assert_int_equal(bytes, 700);
    fit.n_max = 99;
    assert_int_equal(gs_fit_batch(&fit, need_of, &need, &n, &bytes), GS_OK);
    assert_int_equal(n, 70);
    fit.n_max = 64;
    assert_int_equal(gs_fit_batch(&fit, need_of, &need, &n, &bytes), GS_OK);
    assert_int_equal(n, 63);
    fit.n_max = 2000;
    fit.divides = 256;
    assert_int_equal(gs_fit_batch(&fit, need_of, &need, &n, &bytes), GS_OK);
    assert_int_equal(n, 128);
}

/* Stores each n in a list, and fits never. */
struct seen {
    size_t n[64], count;
};
static gs_status note_size(void *user, size_t n, uint64_t *ret_bytes)
{
    struct seen *seen = user;
    assert_true(seen->count < sizeof seen->n / sizeof *seen->n);
    seen->n[seen->count++] = n;
    *ret_bytes = 1;
    return GS_OK;
}

static void tries_every_divisor(void **state)
{
    (void)state;
    size_t n = 0;
    uint64_t bytes;
    for (size_t divides = 1; divides <= 200; divides++)
        for (size_t most = 1; most <= 210; most++) {
            struct seen seen = {.count = 0};
            gs_fit fit = {.n_min = most / 7, .n_max = most, .divides = divides};
            size_t expected = 0;
            assert_int_equal(gs_fit_batch(&fit, note_size, &seen, &n, &bytes), GS_NO_MEMORY);
            for (size_t i = most; i >= (most / 7 == 0 ? 1 : most / 7); i--)
                if (divides % i == 0)
                    assert_int_equal(seen.n[expected++], i);
            assert_int_equal(seen.count, expected);
        }
    /* A large prime, 10^12 - 11. Trying every number would take hours. */
    struct seen seen = {.count = 0};
    gs_fit fit = {.n_max = 999999999989, .divides = 999999999989};
    assert_int_equal(gs_fit_batch(&fit, note_size, &seen, &n, &bytes), GS_NO_MEMORY);
    assert_int_equal(seen.count, 2);
    assert_int_equal(seen.n[1], 1);
}

static void says_what_the_smallest_batch_needs(void **state)
{
    (void)state;
    struct need need = {0};
    size_t n = 77;
    uint64_t bytes = 0;
    gs_fit fit = {.budget_bytes = 39, .n_min = 4, .n_max = 20};
    assert_int_equal(gs_fit_batch(&fit, need_of, &need, &n, &bytes), GS_NO_MEMORY);
    assert_int_equal(n, 77);
    assert_int_equal(bytes, 40);
    fit.n_min = fit.n_max = 64;
    assert_int_equal(gs_fit_batch(&fit, need_of, &need, &n, &bytes), GS_NO_MEMORY);
    assert_true(bytes == UINT64_MAX);
    fit.n_min = 65;
    assert_int_equal(gs_fit_batch(&fit, need_of, &need, &n, &bytes), GS_MISUSE);
    need.broken = GS_DEAD;
    fit.n_min = 1;
    need.asked_count = 0;
    assert_int_equal(gs_fit_batch(&fit, need_of, &need, &n, &bytes), GS_DEAD);
    assert_int_equal(need.asked_count, 1);
}

static void texts_are_never_missing(void **state)
{
    (void)state;
    for (int i = -1; i <= GS_STATUS_COUNT; i++)
        assert_non_null(gs_status_text(i));
    for (int i = -1; i <= GS_KIND_COUNT; i++)
        assert_non_null(gs_kind_text(i));
    gs_report_print(NULL, NULL);
    gs_report_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_nonsense),
        cmocka_unit_test(an_empty_plan_takes_nothing),
        cmocka_unit_test(one_after_the_other_shares_a_place),
        cmocka_unit_test(a_training_iteration_has_no_gaps),
        cmocka_unit_test(random_plans_never_overlap),
        cmocka_unit_test(finds_the_largest_batch),
        cmocka_unit_test(tries_every_divisor),
        cmocka_unit_test(says_what_the_smallest_batch_needs),
        cmocka_unit_test(texts_are_never_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
