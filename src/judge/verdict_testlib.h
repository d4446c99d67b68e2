/* A feed and its verdict, for tests that judge one run at a time. */
#ifndef GW_VERDICT_TESTLIB_H
#define GW_VERDICT_TESTLIB_H

#include "judge_testlib.h"

static const uint64_t kib __attribute__((unused)) = 1u << 10, mib __attribute__((unused)) = 1u << 20,
                          gib __attribute__((unused)) = 1u << 30, second_ns __attribute__((unused)) = 1000000000u;

static gw_feed feed; /* too large for the stack */
static gw_verdict *verdict;

static inline void judge_open(void)
{
    verdict = judge_fed(&feed);
}

static inline void judge_close(void)
{
    gw_verdict_free(verdict);
    verdict = NULL;
}

/* Judge the feed, and check cause and certainty. The verdict stays open. */
static inline void expect_cause(const char *cause, gw_certainty certainty)
{
    judge_open();
    assert_cause(verdict, cause, certainty);
}

/* The same, and close the verdict. */
static inline void expect_only(const char *cause, gw_certainty certainty)
{
    expect_cause(cause, certainty);
    judge_close();
}

#endif
