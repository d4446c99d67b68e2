/* A feed and its verdict, for tests that judge one run at a time. A verdict lasts until the next one is made, or until
 * the test program ends. */
#ifndef GW_VERDICT_TESTLIB_H
#define GW_VERDICT_TESTLIB_H

#include "judge_testlib.h"

static const uint64_t kib __attribute__((unused)) = 1u << 10, mib __attribute__((unused)) = 1u << 20,
                          gib __attribute__((unused)) = 1u << 30, second_ns __attribute__((unused)) = 1000000000u;

static gw_feed feed; /* too large for the stack */
static gw_verdict *verdict;

__attribute__((destructor)) static void judge_close(void)
{
    gw_verdict_free(verdict);
    verdict = NULL;
}

static inline void judge_open(void)
{
    judge_close();
    verdict = judge_fed(&feed);
}

/* Judge the feed, and check cause and certainty. */
static inline void expect_cause(const char *cause, gw_certainty certainty)
{
    judge_open();
    assert_cause(verdict, cause, certainty);
}

/* Let the program exit with status 1, and check cause and certainty. */
static inline void expect_failure(const char *cause, gw_certainty certainty)
{
    gw_feed_exit(&feed, 1, 0);
    expect_cause(cause, certainty);
}

/* The same, after the program has printed `words` on stderr. */
static inline void expect_failure_told(const char *words, const char *cause, gw_certainty certainty)
{
    gw_feed_stderr(&feed, words);
    expect_failure(cause, certainty);
}

/* Feed a fact about a process, or about one of its threads; tid 0: none. */
static inline void fact_of(uint32_t pid, uint32_t tid, const char *key, const char *value)
{
    gw_error err;
    gw_item item = {.kind = GW_ITEM_SUPERVISOR, .t_ns = feed.t_ns, .pid = pid, .tid = tid, .pair = {key, value}};
    assert_int_equal(gw_model_feed(feed.model, &item, &err), GW_OK);
}

/* Feed the numbers of events and of failed calls that were lost. */
static inline void lose(uint64_t events, uint64_t failures)
{
    gw_error err;
    gw_item item = {.kind = GW_ITEM_LOST, .t_ns = feed.t_ns, .pid = GW_FEED_PID, .lost = {events, failures, 0}};
    assert_int_equal(gw_model_feed(feed.model, &item, &err), GW_OK);
}

/* Open a run in which CUDA's device 0 is NVML's card 1. */
static inline void open_card_run(void)
{
    gw_feed_open(&feed, 16 * gib);
    gw_feed_call(&feed, "cuInit", GW_EV_DEVICE_ATTRIBUTE, 0, 0, 33, 0xaf, 0);
    gw_feed_call(&feed, "cuInit", GW_EV_DEVICE_ATTRIBUTE, 0, 0, 34, 0, 0);
    gw_feed_call(&feed, "cuInit", GW_EV_DEVICE_ATTRIBUTE, 0, 0, 50, 0, 0);
    gw_feed_fact(&feed, "nvml.card", "index=0 pci=00000000:18:00.0 uuid=GPU-1 name=NVIDIA H200");
    gw_feed_fact(&feed, "nvml.card", "index=1 pci=00000000:AF:00.0 uuid=GPU-2 name=NVIDIA H200");
    gw_feed_alloc(&feed, gib);
    gw_feed_launch(&feed, 0xf1f1, 0x5151);
    gw_feed_wait(&feed, second_ns);
}

static inline void lose_context(uint16_t result)
{
    gw_feed_call(&feed, "cuCtxSynchronize", GW_EV_SYNC, result, 0, 0, 0, 0);
    gw_feed_exit(&feed, 1, 0);
}

#endif
