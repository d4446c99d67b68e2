/* Runs with injected failures or with the fence, and runs that are close to them. */
#include "run_testlib.h"

static void inject_alloc(void)
{
    gw_feed_injected(&feed, "cuMemAlloc_v2", GW_EV_ALLOC, 2, 500 * mib, "oom@alloc:9");
}

static void open_injected(void)
{
    open_program(16 * gib);
    gw_feed_meta(&feed, GW_META_INJECT, "oom@alloc:9");
    iterate(4);
}

static void feed_noticed(void)
{
    open_injected();
    inject_alloc();
    gw_feed_stderr(&feed, "train: cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY\n");
    close_program(1);
}

static void feed_noticed_by_a_program_that_ended_well(void)
{
    open_injected();
    inject_alloc();
    close_program(0);
}

/* The same end, but the card itself refused the request: nothing may be said about --inject. */
static void feed_noticed_near_a_real_refusal(void)
{
    open_program(16 * gib);
    iterate(4);
    gw_feed_no_room(&feed, 17 * gib, 15 * gib, 16 * gib);
    close_program(1);
}

static void feed_retried(void)
{
    open_injected();
    inject_alloc();
    gw_feed_alloc(&feed, 500 * mib);
    iterate(4);
    close_program(0);
}

static void feed_retried_in_vain(void)
{
    open_injected();
    for (int i = 0; i < 4; i++)
        inject_alloc();
    close_program(1);
}

/* Memory is freed first, as a caching allocator does. */
static void feed_retried_after_a_free(void)
{
    open_injected();
    uint64_t cached = gw_feed_alloc(&feed, 100 * mib);
    inject_alloc();
    gw_feed_free(&feed, cached);
    gw_feed_alloc(&feed, 500 * mib);
    iterate(4);
    close_program(0);
}

static void feed_went_on_with_null(void)
{
    open_injected();
    inject_alloc();
    gw_feed_call(&feed, "cuMemcpyHtoD_v2", GW_EV_COPY, 1, 0, 0x7000, mib, 0);
    close_program(1);
}

static void feed_died(void)
{
    open_injected();
    inject_alloc();
    gw_feed_exit(&feed, -1, 11);
}

/* A signal from outside is no reaction of the program. */
static void feed_died_near_ended_from_outside(void)
{
    open_injected();
    inject_alloc();
    gw_feed_exit(&feed, -1, 15);
}

/* A real fault of the GPU before the injection is the root. */
static void feed_a_real_fault_first(void)
{
    fault_with(700);
    gw_feed_injected(&feed, "cuStreamCreate", GW_EV_STREAM_CREATE, 800, 0, "800@stream");
    close_program(1);
}

static void feed_a_plan_without_effect(void)
{
    open_injected();
    close_program(0);
}

static void feed_fenced(void)
{
    fault_with(700);
    gw_feed_call(&feed, "cuMemFree_v2", GW_EV_FENCED, 0, 700, 0, 0, 0);
    for (uint64_t i = 0; i < 3; i++) {
        gw_event event = {.t_ns = feed.t_ns += 10000,
                          .pid = feed.pid,
                          .tid = feed.tid,
                          .kind = GW_EV_FREE,
                          .flags = GW_EVF_FENCED,
                          .result = 700,
                          .arg = {0x7000 + i}};
        gw_feed_event(&feed, &event);
    }
    close_program(1);
}

static void feed_fenced_near_no_fence(void)
{
    fault_with(700);
    close_program(1);
}

static const row rows[] = {
    FAULT(noticed, "injected-failure", GW_ESTABLISHED,
          .says = {"on purpose", "noticed: did no further GPU work", "CUDA_ERROR_OUT_OF_MEMORY"},
          .no_alternative = {"gpu-oom-capacity"}),
    NO_FAULT(noticed_by_a_program_that_ended_well, GW_VERDICT_CLEAN, .advice = {"let 1 call fail on purpose"}),
    FAULT(noticed_near_a_real_refusal, "gpu-oom-capacity", GW_ESTABLISHED, .silent = {"inject", "on purpose"}),
    NO_FAULT(retried, GW_VERDICT_CLEAN, .advice = {"retried: called cuMemAlloc again, with success"}),
    FAULT(retried_in_vain, "injected-failure", GW_ESTABLISHED,
          .says = {"retried: called cuMemAlloc again, 3 times, without success"}),
    NO_FAULT(retried_after_a_free, GW_VERDICT_CLEAN, .advice = {"retried: called cuMemAlloc again, with success"}),
    FAULT(went_on_with_null, "injected-failure", GW_ESTABLISHED,
          .says = {"went on: next cuMemcpyHtoD (which returned 1)", "went on with the NULL pointer"}),
    FAULT(died, "injected-failure", GW_SUPPORTED, .says = {"died of signal 11"}),
    FAULT(died_near_ended_from_outside, "injected-failure", GW_ESTABLISHED, .silent = {"died of"}),
    FAULT(a_real_fault_first, "illegal-address", GW_ESTABLISHED, .advice = {"--inject 800@stream: gpuwhy let 1 call"}),
    NO_FAULT(a_plan_without_effect, GW_VERDICT_CLEAN, .advice = {"no rule took effect"}),
    FAULT(fenced, "illegal-address", GW_ESTABLISHED, .advice = {"--fence: after result 700", "kept 3 calls"}),
    FAULT(fenced_near_no_fence, "illegal-address", GW_ESTABLISHED, .no_advice = {"fence"}),
};

ROWS_MAIN(rows)
