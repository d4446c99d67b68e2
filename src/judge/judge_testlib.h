/* Helpers for tests of verdicts with cmocka. They judge a feed's recording (gw_feed.h) and search the verdict for
 * texts. Each test has its own feed. */
#ifndef GW_JUDGE_TESTLIB_H
#define GW_JUDGE_TESTLIB_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gw_feed.h"
#include "gw_logs.h"
#include "gw_verdict.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void verdict_print(const gw_verdict *verdict)
{
    printf("\n%s %s (%s): %s\n", gw_verdict_status_text(verdict->status),
           verdict->cause == NULL ? "none" : verdict->cause, gw_certainty_text(verdict->certainty), verdict->headline);
    for (size_t i = 0; i < verdict->evidence_count; i++)
        printf("  %8.3f  %s  [%s]\n", (double)verdict->evidence[i].t_ns / 1e9, verdict->evidence[i].text,
               verdict->evidence[i].source);
    for (size_t i = 0; i < verdict->ruled_out.count; i++)
        printf("  not: %s\n", verdict->ruled_out.item[i]);
    for (size_t i = 0; i < verdict->consequences.count; i++)
        printf("  then: %s\n", verdict->consequences.item[i]);
    for (size_t i = 0; i < verdict->alternative_count; i++)
        printf("  or: %s (%s)\n", verdict->alternatives[i].cause,
               gw_certainty_text(verdict->alternatives[i].certainty));
    for (size_t i = 0; i < verdict->advice.count; i++)
        printf("  advice: %s\n", verdict->advice.item[i]);
    for (size_t i = 0; i < verdict->next.count; i++)
        printf("  next: %s\n", verdict->next.item[i]);
}

static inline void expect_texts(const gw_string_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        assert_true(list->item[i] != NULL && list->item[i][0] != '\0');
}

/* Check conditions that every verdict on a recording must satisfy. */
static inline void verdict_expect_sound(const gw_verdict *verdict)
{
    bool is_fault = verdict->status == GW_VERDICT_FAULT, is_clean = verdict->status == GW_VERDICT_CLEAN;
    assert_true(verdict->headline != NULL && verdict->headline[0] != '\0');
    assert_true((verdict->cause != NULL) == is_fault);
    assert_true(!is_fault || verdict->certainty >= GW_HYPOTHESIS); /* a hypothesis: only the output shows the cause */
    assert_true(verdict->status != GW_VERDICT_UNDETERMINED || verdict->certainty <= GW_HYPOTHESIS);
    bool was_ended = verdict->rehearsal != NULL && verdict->rehearsal->was_ended; /* by gpuwhy, so with a signal */
    assert_false(is_clean && verdict->exit_known && (verdict->exit_code > 0 || verdict->signal != 0) && !was_ended);
    assert_true(verdict->certainty != GW_ESTABLISHED ||
                (verdict->evidence_count > 0 && verdict->alternative_count == 0));
    for (size_t i = 0; i < verdict->evidence_count; i++) {
        const gw_evidence *line = &verdict->evidence[i];
        assert_true(line->text != NULL && line->text[0] != '\0' && line->source != NULL);
        assert_false(line->has_value && line->unit == NULL);
    }
    for (size_t i = 0; i < verdict->alternative_count; i++) {
        assert_true(verdict->alternatives[i].certainty <= GW_SUPPORTED);
        assert_false(is_fault && strcmp(verdict->alternatives[i].cause, verdict->cause) == 0);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(verdict->alternatives[k].cause, verdict->alternatives[i].cause);
    }
    expect_texts(&verdict->ruled_out);
    expect_texts(&verdict->consequences);
    expect_texts(&verdict->next);
    expect_texts(&verdict->advice);
}

/* Judge the feed and close it. The caller owns the verdict, which does not depend on the feed. Prints the verdict if
 * GW_TEST_PRINT is set. */
static inline gw_verdict *judge_fed(gw_feed *feed)
{
    gw_error err;
    gw_verdict *verdict = NULL;
    gw_model *model = gw_feed_finish(feed);
    assert_int_equal(gw_judge(model, &verdict, &err), GW_OK);
    gw_model_free(model);
    if (getenv("GW_TEST_PRINT") != NULL)
        verdict_print(verdict);
    verdict_expect_sound(verdict);
    return verdict;
}

/* Read a text as a log, which the caller owns. Requires gw_logs_are_supported(). */
static inline gw_log *log_of(const char *name, const char *text)
{
    gw_log_reader *reader = NULL;
    gw_log *log = NULL;
    assert_int_equal(gw_log_open(&reader, NULL), GW_OK);
    assert_int_equal(gw_log_begin(reader, name, NULL), GW_OK);
    assert_int_equal(gw_log_feed(reader, text, strlen(text), NULL), GW_OK);
    assert_int_equal(gw_log_finish(reader, &log, NULL), GW_OK);
    return log;
}

static inline bool list_has(const gw_string_list *list, const char *part)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strstr(list->item[i], part) != NULL)
            return true;
    }
    return false;
}

static inline bool evidence_has(const gw_verdict *verdict, const char *part)
{
    for (size_t i = 0; i < verdict->evidence_count; i++) {
        if (strstr(verdict->evidence[i].text, part) != NULL)
            return true;
    }
    return false;
}

/* True if the headline or the evidence contains `part`. */
static inline bool why_has(const gw_verdict *verdict, const char *part)
{
    return strstr(verdict->headline, part) != NULL || evidence_has(verdict, part);
}

/* Return the certainty of an alternative. Returns GW_CERTAINTY_NONE if the verdict does not have it. */
static inline gw_certainty certainty_of_alternative(const gw_verdict *verdict, const char *cause)
{
    for (size_t i = 0; i < verdict->alternative_count; i++) {
        if (strcmp(verdict->alternatives[i].cause, cause) == 0)
            return verdict->alternatives[i].certainty;
    }
    return GW_CERTAINTY_NONE;
}

/* Check cause and certainty. The cause "none" means that the verdict has no cause. */
static inline void assert_cause(const gw_verdict *verdict, const char *cause, gw_certainty certainty)
{
    assert_string_equal(verdict->cause == NULL ? "none" : verdict->cause, cause);
    assert_string_equal(gw_certainty_text(verdict->certainty), gw_certainty_text(certainty));
}

#endif
