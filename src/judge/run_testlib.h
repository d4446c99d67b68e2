/* Helpers for verdict tests that are written as tables, and the small training program that most runs imitate. Each row
 * has a run and the rules for its verdict. Each test program has its own feed and verdict. */
#ifndef GW_RUN_TESTLIB_H
#define GW_RUN_TESTLIB_H

#include "verdict_testlib.h"

enum { STREAM = 0x5151, KERNEL = 0xf1f1 };

static inline void expect_fault(const char *cause, gw_certainty certainty)
{
    judge_open();
    assert_string_equal(gw_verdict_status_text(verdict->status), "fault");
    assert_string_equal(verdict->cause, cause);
    assert_string_equal(gw_certainty_text(verdict->certainty), gw_certainty_text(certainty));
    assert_true(verdict->evidence_count > 0);
    assert_true(verdict->next.count > 0);
    if (verdict->where != NULL) { /* these runs have no call sites, so only a traceback shows a place */
        assert_true(gw_begins(verdict->where->what, "the exception was raised here"));
        return;
    }
    assert_non_null(verdict->where_reason);
}

static inline void expect_status(gw_verdict_status status)
{
    judge_open();
    assert_string_equal(gw_verdict_status_text(verdict->status), gw_verdict_status_text(status));
    assert_null(verdict->cause);
}

static inline bool says(const char *part)
{
    return why_has(verdict, part) || list_has(&verdict->next, part) || list_has(&verdict->advice, part);
}

static inline bool has_value(double value, const char *unit)
{
    for (size_t i = 0; i < verdict->evidence_count; i++) {
        const gw_evidence *it = &verdict->evidence[i];
        if (it->has_value && it->value == value && strcmp(it->unit, unit) == 0)
            return true;
    }
    return false;
}

static inline bool has_alternative(const char *cause)
{
    return certainty_of_alternative(verdict, cause) != GW_CERTAINTY_NONE;
}

/* Expect no cause, but this one as an alternative. */
static inline void expect_open(const char *cause)
{
    expect_status(GW_VERDICT_UNDETERMINED);
    assert_true(has_alternative(cause));
}

/* Expect this cause, or only an alternative if its proof is missing. */
static inline void expect_fault_if(bool is_proven, const char *cause, gw_certainty certainty)
{
    if (is_proven)
        expect_fault(cause, certainty);
    else
        expect_open(cause);
}

/* ---- a training program, and what several tests feed ---- */

typedef struct run {
    uint64_t block[8], saved;
} run;

static const uint64_t weight_bytes[8] = {6912, 256, 294912, 512, 250880, 40, 300 * 1024, 77824};

static inline void run_begin(run *it)
{
    for (int i = 0; i < 8; i++)
        it->block[i] = gw_feed_alloc(&feed, weight_bytes[i]);
}

static inline void run_end(const run *it)
{
    for (int i = 0; i < 8; i++)
        gw_feed_free(&feed, it->block[i]);
    if (it->saved != 0)
        gw_feed_free(&feed, it->saved);
}

static inline void iterate(int count)
{
    for (int k = 0; k < count; k++) {
        uint64_t batch = gw_feed_alloc(&feed, 7 * mib), activation = gw_feed_alloc(&feed, 500 * mib);
        gw_feed_copy(&feed, 7 * mib);
        for (int i = 0; i < 10; i++)
            gw_feed_launch(&feed, KERNEL, STREAM);
        gw_feed_sync(&feed);
        gw_feed_free(&feed, activation);
        gw_feed_free(&feed, batch);
    }
}

static inline void open_program(uint64_t total)
{
    gw_feed_open(&feed, total);
    gw_feed_text_call(&feed, "cuModuleGetFunction", GW_EV_FUNCTION, KERNEL, 0x77, GW_OWNER_MODULE, 0, "class_report");
    gw_feed_call(&feed, "cuStreamCreate", GW_EV_STREAM_CREATE, 0, STREAM, 0, 0, 0);
}

static inline void close_program(int code)
{
    if (code == 0)
        gw_feed_call(&feed, "cuDevicePrimaryCtxRelease_v2", GW_EV_CTX_RELEASE, 0, 0, 0, 0, 0);
    gw_feed_exit(&feed, code, 0);
}

static inline void expect_place(const char *text, const char *what)
{
    assert_non_null(verdict->where);
    assert_string_equal(verdict->where->frame[verdict->where->user].text, text);
    assert_non_null(strstr(verdict->where->what, what));
}

static inline void small_blocks(bool free_half)
{
    static uint64_t block[7000];
    for (int i = 0; i < 7000; i++)
        block[i] = gw_feed_alloc(&feed, mib);
    for (int i = 0; i < 7000 && free_half; i += 2)
        gw_feed_free(&feed, block[i]);
}

static inline void observe_oom(uint64_t wanted, uint64_t allocated, uint64_t reserved, uint64_t largest)
{
    gw_feed_call(&feed, "cuMemAlloc_v2", GW_EV_ALLOC, 2, 0, wanted, 0, 0);
    gw_feed_call(&feed, "cuMemGetInfo_v2", GW_EV_MEMORY_INFO, 0, 10 * mib, 4 * gib, 0, 2);
    gw_feed_call(&feed, "?", GW_EV_ALLOCATOR_OOM, 0, wanted, 4 * gib, 10 * mib, 0);
    const uint64_t fields[][2] = {{GW_ALLOCATOR_ALLOCATED, allocated},
                                  {GW_ALLOCATOR_RESERVED, reserved},
                                  {GW_ALLOCATOR_LARGEST_INACTIVE, largest},
                                  {GW_ALLOCATOR_SEGMENTS, 122}};
    for (size_t i = 0; i < 4; i++)
        gw_feed_call(&feed, "?", GW_EV_ALLOCATOR_STATE, 0, fields[i][0], fields[i][1], 0, 0);
}

static inline void open_torch(uint64_t total)
{
    open_program(total);
    gw_feed_map(&feed, "/venv/lib/torch/lib/libtorch_cuda.so");
    gw_feed_call(&feed, "?", GW_EV_NOTE, 0, GW_NOTE_OBSERVER_ATTACHED, 0, 0, 0);
}

static inline void torch_oom_message(void)
{
    gw_feed_stderr(&feed, "Traceback (most recent call last):\n  File \"train.py\", line 9, in step\n"
                          "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 26.00 MiB.\n");
}

static inline void fault_with(uint16_t result)
{
    open_program(16 * gib);
    run it = {0};
    run_begin(&it);
    iterate(5);
    gw_feed_launch(&feed, KERNEL, STREAM);
    gw_feed_wait(&feed, 50000000);
    gw_feed_call(&feed, "cuMemAlloc_v2", GW_EV_ALLOC, result, 0, mib, 0, 0);
}

/* ---- the table ---- */

enum { PARTS_MAX = 4, VALUES_MAX = 2 };

/* What the verdict on a run must contain, and what it must not contain. Unused entries of a list are NULL. */
typedef struct row {
    const char *name;
    void (*feed)(void);
    const char *cause, *not_cause; /* NULL: not checked; not_cause "": judge, but allow any cause */
    gw_certainty certainty;        /* NONE: not checked */
    gw_verdict_status status;      /* checked only if `cause` and `not_cause` are NULL */
    struct {
        double value;
        const char *unit;
    } value[VALUES_MAX]; /* values that the evidence must contain */
    /* texts that the headline, evidence, next steps or advice must contain (`says`), or that none of them may contain
     * (`silent`) */
    const char *says[PARTS_MAX], *silent[PARTS_MAX];
    const char *alternative[PARTS_MAX], *no_alternative[PARTS_MAX];
    const char *advice[PARTS_MAX], *no_advice[PARTS_MAX];
    const char *ruled_out[PARTS_MAX], *not_ruled_out[PARTS_MAX];
    const char *then[PARTS_MAX]; /* texts that the consequences must contain */
    void (*also)(void);          /* further checks; NULL: none */
    void (*test)(void **state);  /* a test that judges several runs itself; the other members are then unused */
} row;

/* What the verdict on the run must have:
 * - FAULT: this cause with this certainty
 * - NO_FAULT: no cause
 * - NAMED: this cause with any certainty
 * - NOT_NAMED: another cause, or none
 * - TEST: the function checks it */
#define FAULT(run, which, how, ...)                                                                                    \
    {                                                                                                                  \
        .name = #run, .feed = feed_##run, .cause = which, .certainty = how, __VA_ARGS__                                \
    }
#define NO_FAULT(run, end, ...)                                                                                        \
    {                                                                                                                  \
        .name = #run, .feed = feed_##run, .status = end, __VA_ARGS__                                                   \
    }
#define NAMED(run, which, ...)                                                                                         \
    {                                                                                                                  \
        .name = #run, .feed = feed_##run, .cause = which, __VA_ARGS__                                                  \
    }
#define NOT_NAMED(run, which, ...)                                                                                     \
    {                                                                                                                  \
        .name = #run, .feed = feed_##run, .not_cause = which, __VA_ARGS__                                              \
    }
#define TEST(function)                                                                                                 \
    {                                                                                                                  \
        .name = #function, .test = function                                                                            \
    }

static inline void expect_parts(const gw_string_list *list, const char *const *part, bool there)
{
    for (size_t i = 0; i < PARTS_MAX && part[i] != NULL; i++)
        if (list_has(list, part[i]) != there)
            fail_msg("%s: %s", there ? "not there" : "there", part[i]);
}

static inline void expect_cause_of(const row *it)
{
    if (it->cause != NULL && it->certainty != GW_CERTAINTY_NONE) {
        expect_fault(it->cause, it->certainty);
    } else if (it->cause != NULL) {
        judge_open();
        assert_string_equal(verdict->cause, it->cause);
    } else if (it->not_cause != NULL) {
        judge_open();
        assert_string_not_equal(verdict->cause == NULL ? "none" : verdict->cause, it->not_cause);
    } else {
        expect_status(it->status);
    }
}

static inline void test_row(void **state)
{
    const row *it = *state;
    it->feed();
    expect_cause_of(it);
    for (size_t i = 0; i < PARTS_MAX; i++) {
        assert_true(it->says[i] == NULL || says(it->says[i]));
        assert_false(it->silent[i] != NULL && says(it->silent[i]));
        assert_true(it->alternative[i] == NULL || has_alternative(it->alternative[i]));
        assert_false(it->no_alternative[i] != NULL && has_alternative(it->no_alternative[i]));
    }
    for (size_t i = 0; i < VALUES_MAX; i++)
        assert_true(it->value[i].unit == NULL || has_value(it->value[i].value, it->value[i].unit));
    expect_parts(&verdict->advice, it->advice, true);
    expect_parts(&verdict->advice, it->no_advice, false);
    expect_parts(&verdict->ruled_out, it->ruled_out, true);
    expect_parts(&verdict->ruled_out, it->not_ruled_out, false);
    expect_parts(&verdict->consequences, it->then, true);
    if (it->also != NULL)
        it->also();
}

/* main() of a test program, for its table. */
#define ROWS_MAIN(rows)                                                                                                \
    int main(void)                                                                                                     \
    {                                                                                                                  \
        struct CMUnitTest tests[sizeof(rows) / sizeof(rows)[0]];                                                       \
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows)[0]; i++)                                                    \
            tests[i] = (struct CMUnitTest){.name = (rows)[i].name,                                                     \
                                           .test_func = (rows)[i].test != NULL ? (rows)[i].test : test_row,            \
                                           .initial_state = (void *)&(rows)[i]};                                       \
        return cmocka_run_group_tests(tests, NULL, NULL);                                                              \
    }

#endif
