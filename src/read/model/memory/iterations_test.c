/* Tests gw_iterations_find() with lists of requests: a proven leak, a suspected leak, and lists that only look like
 * one. */
#include "gw_iterations.h"
#include "gw_unit_test.h"

#include <stdbool.h>

#define MIB (UINT64_C(1) << 20)
enum { LIST_MAX = 4096 };

static gw_request list[LIST_MAX];
static size_t count;
static gw_request now; /* running totals of the simulated process, copied into each request */
static uint64_t live;
static gw_iterations found;

static void begin(void)
{
    count = 0;
    live = 0;
    now = (gw_request){0};
}

static int set_up(void **state)
{
    begin();
    return 0;
}

/* Add a granted request for memory and return its index in the list. */
static size_t take(uint32_t site, uint64_t bytes)
{
    assert_true(count < LIST_MAX);
    now.t_ns += 1000;
    list[count] = now;
    list[count].bytes = bytes;
    list[count].live_bytes = live;
    list[count].order = count + 1;
    list[count].lifetime = GW_ALIVE;
    list[count].site = site;
    list[count].group = site * 64 + (uint32_t)(bytes / MIB % 64);
    live += bytes;
    return count++;
}

static void give_back(size_t index)
{
    list[index].lifetime = count - index;
    live -= list[index].bytes;
    now.frees++;
}

static void launch(uint64_t kernels)
{
    now.launches += kernels;
}

static void wait_for_gpu(void)
{
    now.waits++;
}

static void read_back(void)
{
    now.copies++;
    now.reads++;
}

static void find(gw_request_source source)
{
    gw_iterations_find(list, count, source, live, &found);
}

static void expect(gw_request_source source, gw_loop_doubt doubt)
{
    find(source);
    assert_int_equal(found.doubt, doubt);
}

/* Simulate a training step: activations are allocated and freed, and `kept` bytes stay. */
static void step(uint64_t kept)
{
    size_t input = take(1, 8 * MIB), activation = take(2, 64 * MIB);
    launch(6);
    if (kept != 0)
        take(3, kept);
    launch(2);
    read_back();
    give_back(activation);
    give_back(input);
}

static void take_steps(int number, uint64_t kept)
{
    for (int i = 0; i < number; i++)
        step(kept);
}

GW_TEST_WITH(test_three_that_keep_are_seen_and_not_sure, set_up, NULL)
{
    take(9, 512 * MIB);
    take_steps(5, 100 * MIB);
    expect(GW_REQUESTS_OF_DRIVER, GW_LOOP_SURE);
    assert_true(found.leak_count >= 3);
    assert_int_equal(found.leak_bytes_median, 100 * MIB);
    assert_int_equal(found.keeper[0].site, 3);
    assert_false(gw_iterations_are_sure(&found));
}

GW_TEST_WITH(test_many_after_idle_ones_are_sure, set_up, NULL)
{
    take_steps(5, 0);
    take_steps(12, 100 * MIB);
    find(GW_REQUESTS_OF_DRIVER);
    assert_true(found.idle_count >= 3);
    assert_true(gw_iterations_are_sure(&found));
}

/* Each word of a sentence keeps memory, and the end of the sentence frees it. A longer sentence is no leak. */
GW_TEST_WITH(test_groups_that_are_freed_together_are_no_leak, set_up, NULL)
{
    size_t word[30];
    take(9, 512 * MIB);
    for (int sentence = 0; sentence < 4; sentence++) {
        int words = sentence == 3 ? 30 : 10;
        for (int i = 0; i < words; i++) {
            word[i] = take(3, 40 * MIB);
            launch(4);
            read_back();
        }
        for (int i = 0; i < words && sentence < 3; i++)
            give_back(word[i]);
    }
    find(GW_REQUESTS_OF_DRIVER);
    assert_int_equal(found.doubt, GW_LOOP_GROUP);
    assert_in_range(found.group_count, 8, 10);
    assert_in_range(found.idle_count, 0, 1);
    assert_false(gw_iterations_are_sure(&found));
}

GW_TEST_WITH(test_nothing_is_kept, set_up, NULL)
{
    take(9, 512 * MIB);
    take_steps(12, 0);
    find(GW_REQUESTS_OF_DRIVER);
    assert_int_equal(found.leak_count, 0);
    assert_true(found.balanced_count >= 3);
}

/* The first step allocates state that stays, and later steps keep nothing. With three steps or more, this state is not
 * reported as growth. */
GW_TEST_WITH(test_what_the_first_of_many_keeps_is_not_growth, set_up, NULL)
{
    for (int steps = 2; steps <= 5; steps++) {
        begin();
        step(100 * MIB);
        take_steps(steps - 1, 0);
        find(GW_REQUESTS_OF_DRIVER);
        assert_int_equal(found.again_bytes, steps == 2 ? 100 * MIB : 0);
    }
    begin();
    step(100 * MIB);
    find(GW_REQUESTS_OF_DRIVER);
    assert_int_equal(found.again_bytes, 0);
    take_steps(3, 100 * MIB);
    find(GW_REQUESTS_OF_DRIVER);
    assert_int_equal(found.again_bytes, 200 * MIB);
}

/* The first steps fill a cache. Then validation needs more memory than the cache, so the cache is not a leak. */
GW_TEST_WITH(test_a_phase_outgrows_what_was_kept, set_up, NULL)
{
    take_steps(10, 16 * MIB);
    expect(GW_REQUESTS_OF_DRIVER, GW_LOOP_SURE); /* as long as no phase with a larger need follows */
    for (uint32_t layer = 0; layer < 4; layer++) {
        take(20 + layer, 300 * MIB);
        launch(3);
    }
    expect(GW_REQUESTS_OF_DRIVER, GW_LOOP_OUTGROWN);
    assert_true(found.leak_count >= 3);
}

/* A validation fits, the steps keep memory, and the same validation does not fit any more: the steps leak. */
GW_TEST_WITH(test_a_phase_that_had_fitted, set_up, NULL)
{
    for (int before = 0; before < 2; before++) {
        begin();
        take(9, 100 * MIB);
        launch(3);
        give_back(take(20, before ? 1000 * MIB : 10 * MIB));
        for (int i = 0; i < 10; i++)
            step(16 * MIB);
        take(21, 1000 * MIB);
        expect(GW_REQUESTS_OF_DRIVER, before ? GW_LOOP_SURE : GW_LOOP_OUTGROWN);
        assert_int_equal(found.fitted_before_ns > 0, before);
    }
}

/* Simulate loading of layers with two weights each. Each weight is copied into a staging buffer and converted by
 * `kernels` kernels. */
static void load_layers(int layers, int kernels)
{
    for (int i = 0; i < layers; i++) {
        size_t stage[2];
        for (uint32_t part = 0; part < 2; part++) {
            stage[part] = take(30 + part, 20 * MIB);
            take(40 + part, 40 * MIB);
            now.copies++;
            launch((uint64_t)kernels);
        }
        wait_for_gpu();
        give_back(stage[1]);
        give_back(stage[0]);
    }
}

GW_TEST_WITH(test_a_model_is_loaded_through_buffers, set_up, NULL)
{
    load_layers(30, 1);
    expect(GW_REQUESTS_OF_DRIVER, GW_LOOP_LOADING);
    assert_true(found.leak_count >= 3);
    /* a further model, after other work that freed its memory */
    begin();
    take(1, 800 * MIB);
    for (int i = 0; i < 40; i++) {
        give_back(take(2, 90 * MIB));
        launch(3);
        wait_for_gpu();
    }
    load_layers(30, 1);
    expect(GW_REQUESTS_OF_DRIVER, GW_LOOP_LOADING);
    /* Each weight is used by nine kernels, as in a training loop, so this is not loading. Loading runs one kernel. */
    begin();
    load_layers(30, 9);
    expect(GW_REQUESTS_OF_DRIVER, GW_LOOP_SURE);
}

/* Allocate 20 blocks. After each allocation, copy into the block, launch one kernel and call `then`, which waits for
 * the GPU or reads results. */
static void copy_into_blocks(void (*then)(void))
{
    begin();
    for (int i = 0; i < 20; i++) {
        take(50, 40 * MIB);
        now.copies++;
        launch(1);
        then();
    }
}

GW_TEST_WITH(test_blocks_are_copied_into, set_up, NULL)
{
    copy_into_blocks(wait_for_gpu);
    expect(GW_REQUESTS_OF_DRIVER, GW_LOOP_LOADING);
    /* The host reads results after each block, like a loop that keeps its outputs. This must not count as loading. */
    copy_into_blocks(read_back);
    expect(GW_REQUESTS_OF_DRIVER, GW_LOOP_SURE);
}

/* Simulate repeated relu(linear(x)). Each operation launches `kernels` and requests memory for its result. The results
 * of linear() stay, and those of relu() are freed. */
static void pass_through_layers(int layers, uint64_t kernels, bool waits)
{
    size_t passing = take(60, 10 * MIB);
    for (int i = 0; i < layers; i++) {
        launch(kernels);
        take(61, 200 * MIB);
        launch(kernels);
        size_t next = take(62, 10 * MIB);
        give_back(passing);
        passing = next;
        if (waits)
            wait_for_gpu();
    }
}

GW_TEST_WITH(test_layers_of_a_framework, set_up, NULL)
{
    pass_through_layers(8, 1, false);
    expect(GW_REQUESTS_OF_FRAMEWORK, GW_LOOP_ONE_PASS);
    assert_true(found.leak_count >= 3);
    begin();
    pass_through_layers(8, 1, true); /* iterations, which wait */
    expect(GW_REQUESTS_OF_FRAMEWORK, GW_LOOP_SURE);
}

/* Layers of several kernels each, all requested in the call with this number. With `waits`, the host waits after
 * each. */
GW_TEST_WITH(test_layers_in_one_call, set_up, NULL)
{
    static const struct {
        uint64_t call; /* 0: outside of any call */
        bool waits, moves_weights;
        gw_loop_doubt doubt;
    } cases[] = {{7, false, false, GW_LOOP_ONE_PASS},
                 {0, false, false, GW_LOOP_SURE},
                 /* one line calls the model again and again, as in an evaluation that keeps its outputs */
                 {7, true, false, GW_LOOP_SURE},
                 {7, true, true, GW_LOOP_ONE_PASS}}; /* weights that are moved wait, too */
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        begin();
        pass_through_layers(8, 3, cases[i].waits);
        for (size_t k = 0; k < count; k++) {
            list[k].call = cases[i].call;
            list[k].moves_weights = cases[i].moves_weights;
        }
        expect(GW_REQUESTS_OF_FRAMEWORK, cases[i].doubt);
    }
}

/* Weights, forward and backward pass and an optimizer's state: the same sizes at one place, but other calls. With
 * `alike`, each repetition makes the same two calls. */
static void phases(bool alike)
{
    begin();
    for (uint64_t phase = 1; phase <= 5; phase++) {
        for (uint32_t i = 0; i < 4; i++) {
            size_t at = take(80 + i, (i + 1) * 64 * MIB);
            list[at].call = alike ? 1 + i % 2 : phase;
            launch(2);
        }
        wait_for_gpu();
    }
}

GW_TEST_WITH(test_phases_of_one_iteration, set_up, NULL)
{
    phases(false);
    expect(GW_REQUESTS_OF_FRAMEWORK, GW_LOOP_UNLIKE);
    assert_true(found.leak_count >= 3);
    phases(true);
    expect(GW_REQUESTS_OF_FRAMEWORK, GW_LOOP_SURE);
}

/* Weights are moved layer by layer, with a wait for each tensor; kernels ran only later. */
GW_TEST_WITH(test_weights_that_wait, set_up, NULL)
{
    for (int i = 0; i < 20; i++) {
        take(90, 32 * MIB);
        wait_for_gpu();
        take(91, 1 * MIB);
        wait_for_gpu();
    }
    launch(1);
    take(92, 8 * MIB);
    expect(GW_REQUESTS_OF_FRAMEWORK, GW_LOOP_NO_WORK);
}

/* Simulate host.cuda().half(), layer by layer: each layer is copied to the GPU and converted, and the copy is freed. */
GW_TEST_WITH(test_layers_are_converted_in_a_framework, set_up, NULL)
{
    for (int i = 0; i < 100; i++) {
        size_t whole = take(70, 64 * MIB);
        wait_for_gpu();
        take(71, 32 * MIB);
        launch(1);
        give_back(whole);
    }
    expect(GW_REQUESTS_OF_FRAMEWORK, GW_LOOP_LOADING);
}

/* Allocate 20 blocks. After each allocation, copy into the block if `copies`, and wait for the GPU if `waits`. */
static void take_blocks(bool copies, bool waits)
{
    begin();
    for (int i = 0; i < 20; i++) {
        take(90, 40 * MIB);
        now.copies += copies;
        now.waits += waits;
    }
}

GW_TEST_WITH(test_blocks_and_waits, set_up, NULL)
{
    take_blocks(false, true);
    expect(GW_REQUESTS_OF_DRIVER, GW_LOOP_SURE);
    /* a framework's copies are not recorded, so a wait may belong to a copy and does not count as work */
    expect(GW_REQUESTS_OF_FRAMEWORK, GW_LOOP_NO_WORK);
    take_blocks(true, true);
    expect(GW_REQUESTS_OF_DRIVER, GW_LOOP_NO_WORK);
    take_blocks(true, false);
    expect(GW_REQUESTS_OF_DRIVER, GW_LOOP_NO_WORK);
}

GW_TEST_WITH(test_work_that_is_not_counted, set_up, NULL)
{
    take_steps(12, 100 * MIB);
    find(GW_REQUESTS_WITHOUT_WORK);
    assert_false(found.searched);
    assert_int_equal(found.leak_count, 0);
}

/* The work before the last request may include iterations without requests. Callers detect these with least_work, so it
 * must exclude that work. */
GW_TEST_WITH(test_work_before_the_last_request, set_up, NULL)
{
    take(80, MIB);
    launch(3);
    take(81, MIB);
    launch(2);
    take(82, MIB);
    launch(7);
    take(83, MIB);
    find(GW_REQUESTS_OF_DRIVER);
    assert_int_equal(found.least_work, 2);
    assert_int_equal(found.last_work, 7);
}

/* Simulate `turns` requests of a thread that loads blocks and keeps them, while another thread trains. */
static void load(int turns)
{
    now.thread = 7;
    for (int i = 0; i < turns; i++) {
        now.copies++;
        take(70, 48 * MIB);
    }
    now.thread = 8;
}

static void train(void)
{
    size_t a = take(1, 8 * MIB), b = take(2, 64 * MIB);
    launch(6);
    read_back();
    take(4, MIB);
    give_back(a);
    give_back(b);
    give_back(count - 1);
}

GW_TEST_WITH(test_another_thread_at_its_own_pace, set_up, NULL)
{
    static const int loads[] = {30, 1, 0, 3, 0, 0, 9, 1, 2, 0, 5, 1, 1, 7, 0, 2};
    enum { ROUNDS = sizeof loads / sizeof loads[0] };
    for (int late = 0; late < 2; late++) { /* with the long loads first, then in reverse order */
        begin();
        for (int i = 0; i < ROUNDS; i++) {
            load(loads[late ? ROUNDS - 1 - i : i]);
            train();
        }
        load(1);
        expect(GW_REQUESTS_OF_DRIVER, GW_LOOP_OTHER_WORK);
        assert_int_equal(found.keeper[0].site, 70);
        assert_false(gw_iterations_are_sure(&found));
    }
}

/* One thread trains for several rounds. Meanwhile, another thread keeps memory, which must not count as a leak of the
 * first thread. */
GW_TEST_WITH(test_another_thread_keeps, set_up, NULL)
{
    for (int i = 0; i < 3; i++) {
        train();
        load(30 + i);
    }
    train();
    expect(GW_REQUESTS_OF_DRIVER, GW_LOOP_OTHER_WORK);
}

GW_TEST_WITH(test_near_threads_in_step, set_up, NULL)
{
    for (int i = 0; i < 12; i++) {
        load(1);
        train();
    }
    load(1);
    expect(GW_REQUESTS_OF_DRIVER, GW_LOOP_SURE);
    assert_int_equal(found.launches, 6);
    begin();
    /* the loading thread is up to one block ahead, as with a short queue between the threads */
    for (int i = 0; i < 40; i++) {
        load(i % 3 == 0 ? 2 : i % 3 == 1 ? 1 : 0);
        train();
    }
    expect(GW_REQUESTS_OF_DRIVER, GW_LOOP_SURE);
}

/* If one thread both keeps the blocks and does the work, this is a leak, even if another thread requests memory at its
 * own pace. */
GW_TEST_WITH(test_near_a_thread_with_work_of_its_own, set_up, NULL)
{
    for (int i = 0; i < 12; i++) {
        now.thread = 9;
        for (int k = 0; k < i * 7 % 5; k++)
            take(90, MIB), give_back(count - 1);
        now.thread = 8;
        step(100 * MIB);
    }
    expect(GW_REQUESTS_OF_DRIVER, GW_LOOP_SURE);
    assert_int_equal(found.keeper[0].site, 3);
}

GW_TEST_MAIN(NULL, NULL)
