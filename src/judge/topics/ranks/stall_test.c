/* Tests which rank keeps others waiting: each rule, and the same ranks without the fault or with less evidence. */
#include "gw_text.h"
#include "gw_unit_test.h"
#include "gwi_stall.h"
#include "ranks_testlib.h"

enum { RANKS_MAX = 4, NOBODY = 99 };

typedef struct row {
    const char *name;
    const char *rank[RANKS_MAX + 1];
    gwi_stall_kind kind;
    gw_certainty certainty;
    uint32_t culprit; /* NOBODY: it is not recorded, or there is none */
    uint64_t number;
    const char *headline; /* a part of it; NULL: not checked */
} row;

#define NONE_OF(name, ...)                                                                                             \
    {                                                                                                                  \
        name, {__VA_ARGS__}, GWI_STALL_NONE, GW_CERTAINTY_NONE, NOBODY, 0, NULL                                        \
    }

static const row rows[] = {
    /* ---- different calls at one number ---- */
    {"another collective",
     {"stuck A:0/2 ar40. ar41@57~", "stuck A:1/2 ar40. bc41=256^0@60~"},
     GWI_STALL_DIFFERS,
     GW_ESTABLISHED,
     1,
     41,
     "rank 1 (pid 101) called broadcast #41 (1.00 KiB, float32, root 0) at train.py:60; rank 0 waits in all_reduce #41 "
     "(4.00 KiB, float32) at train.py:57"},
    NONE_OF("the same collective", "stuck A:0/2 ar40. ar41~", "stuck A:1/2 ar40. ar41~"),
    {"the odd one of four",
     {"stuck A:0/4 ag7@9~", "stuck A:1/4 ar7@57~", "stuck A:2/4 ar7@57~", "stuck A:3/4 ar7@57~"},
     GWI_STALL_DIFFERS,
     GW_ESTABLISHED,
     0,
     7,
     "ranks 1-3 wait in all_reduce #7"},
    {"another size",
     {"stuck A:0/2 ar3=10~", "stuck A:1/2 ar3=11~"},
     GWI_STALL_DIFFERS,
     GW_ESTABLISHED,
     1,
     3,
     "rank 1 (pid 101) called all_reduce #3 (11 elements, float32)"},
    {"another type",
     {"stuck A:0/2 ar3=10~", "stuck A:1/2 ar3=10/9~"},
     GWI_STALL_DIFFERS,
     GW_ESTABLISHED,
     1,
     3,
     "(10 elements, bfloat16)"},
    {"another root",
     {"stuck A:0/2 bc3^0~", "stuck A:1/2 bc3^1~"},
     GWI_STALL_DIFFERS,
     GW_ESTABLISHED,
     1,
     3,
     "(4.00 KiB, float32, root 1)"},
    NONE_OF("as many bytes of another type", "stuck A:0/2 bc3=10^0~", "stuck A:1/2 bc3=40/1^0~"),
    {"both receive", {"stuck A:0/2 rv1^1~", "stuck A:1/2 rv1^0~"}, GWI_STALL_DIFFERS, GW_ESTABLISHED, 1, 1, NULL},
    NONE_OF("sizes of send and receive", "stuck A:0/2 sd1=10^1~", "stuck A:1/2 sd1=30^0~"),
    {"further back",
     {"stuck A:0/2 ar3~ ar4~ ar5~", "stuck A:1/2 rs3~ ar4~ ar5~"},
     GWI_STALL_DIFFERS,
     GW_ESTABLISHED,
     1,
     3,
     NULL},
    {"a difference that has left one record",
     {"stuck A:0/2 ar40. ar41~", "stuck A:1/2 bc11^0. ar40. ar41~"},
     GWI_STALL_DIFFERS,
     GW_ESTABLISHED,
     1,
     11,
     NULL},
    NONE_OF("a last call of a function at the same number", "stuck A:0/2 bc11^0. ar40. ar41~",
            "stuck A:1/2 bc11^0. ar40. ar41~"),
    {"the first difference",
     {"stuck A:0/2 ar3~ ar4=5~", "stuck A:1/2 ag3~ ar4~"},
     GWI_STALL_DIFFERS,
     GW_ESTABLISHED,
     1,
     3,
     NULL},
    {"one of the two has ended", {"A:0/2 bc3=9^0.", "stuck A:1/2 ar3!"}, GWI_STALL_DIFFERS, GW_ESTABLISHED, 1, 3, NULL},
    {"both have ended",
     {"stuck A:0/2 bc3^0. ar4~", "stuck A:1/2 ag3. ar4~"},
     GWI_STALL_DIFFERS,
     GW_ESTABLISHED,
     1,
     3,
     NULL},
    {"both have ended, and one sleeps later",
     {"stuck A:0/2 bc3^0. ar4~", "sleep A:1/2 ag3."},
     GWI_STALL_BEHIND,
     GW_ESTABLISHED,
     1,
     4,
     NULL},
    {"both wait, and one has enqueued more",
     {"stuck A:0/2 ar3~ ar4~ ar5~", "stuck A:1/2 ag3~"},
     GWI_STALL_DIFFERS,
     GW_ESTABLISHED,
     1,
     3,
     NULL},
    {"inside the call, without a hang", {"A:0/2 ar3!", "A:1/2 ag3!"}, GWI_STALL_DIFFERS, GW_ESTABLISHED, 1, 3, NULL},
    {"nothing shows that they wait", {"A:0/2 ar3~", "A:1/2 ag3~"}, GWI_STALL_DIFFERS, GW_SUPPORTED, 1, 3, NULL},
    {"with losses", {"stuck lossy A:0/2 ar3~", "stuck A:1/2 ag3~"}, GWI_STALL_DIFFERS, GW_SUPPORTED, 1, 3, NULL},
    {"after a replay", {"stuck replays A:0/2 ar3~", "stuck A:1/2 ag3~"}, GWI_STALL_DIFFERS, GW_SUPPORTED, 1, 3, NULL},
    {"a third rank is not recorded",
     {"stuck A:0/3 ar3~", "stuck A:1/3 ag3~", ""},
     GWI_STALL_DIFFERS,
     GW_ESTABLISHED,
     1,
     3,
     NULL},
    NONE_OF("refused and captured calls", "stuck A:0/2 ar3x ar4~", "stuck A:1/2 ag3c ar4~"),
    NONE_OF("two communicators", "stuck A:0/1 ar3~", "stuck B:0/1 ag3~"),
    {"different groups",
     {"stuck A:0/2 ar2. bc3^0g1~ bc4^1g1~", "stuck A:1/2 ar2. bc3^0g1~ ag4g1~"},
     GWI_STALL_DIFFERS,
     GW_ESTABLISHED,
     1,
     4,
     NULL},
    {"groups of different sizes",
     {"stuck A:0/2 ar2. bc3^0g1~ bc4^1g1~", "stuck A:1/2 ar2. bc3^1g1~"},
     GWI_STALL_DIFFERS,
     GW_ESTABLISHED,
     1,
     3,
     NULL},
    NONE_OF("another order in a group", "stuck A:0/2 ar2. bc3^0g1~ bc4^1g1~", "stuck A:1/2 ar2. bc3^1g1~ bc4^0g1~"),
    NONE_OF("groups that may be longer", "stuck A:0/2 bc3^0g1~ bc4^1g1~", "stuck A:1/2 bc3^1g1~ bc4^1g1~"),

    /* uneven inputs: a rank with fewer batches already synchronises at its end */
    {"a barrier after fewer batches",
     {"stuck A:0/2 ar40. ar41=4000~", "stuck A:1/2 ar40. ar41=1~"},
     GWI_STALL_DIFFERS,
     GW_ESTABLISHED,
     1,
     41,
     "rank 1 (pid 101) called all_reduce #41 (1 element, float32)"},
    /* unused parameters: a rank has no gradient for one bucket */
    {"a bucket less",
     {"stuck A:0/2 ar1=100. ar2=200~ ar3=50~", "stuck A:1/2 ar1=100. ar2=50~"},
     GWI_STALL_DIFFERS,
     GW_ESTABLISHED,
     1,
     2,
     NULL},
    NONE_OF("as many buckets", "stuck A:0/2 ar1=100. ar2=200~ ar3=50~", "stuck A:1/2 ar1=100. ar2=200~ ar3=50~"),

    /* ---- behind ---- */
    {"asleep",
     {"stuck A:0/2 ar40. ar41@57~", "sleep A:1/2 ar40.@57."},
     GWI_STALL_BEHIND,
     GW_ESTABLISHED,
     1,
     41,
     "rank 1 (pid 101) has not called all_reduce #41: it is waiting at load.py:9; rank 0 waits in all_reduce #41"},
    {"in a lock", {"stuck A:0/2 ar41~", "lock A:1/2 ar40."}, GWI_STALL_BEHIND, GW_ESTABLISHED, 1, 41, NULL},
    {"in its data loader", {"stuck A:0/2 ar41~", "loader A:1/2 ar40."}, GWI_STALL_BEHIND, GW_ESTABLISHED, 1, 41, NULL},
    {"in its own kernel", {"stuck A:0/2 ar41~", "kernel A:1/2 ar40."}, GWI_STALL_BEHIND, GW_ESTABLISHED, 1, 41, NULL},
    {"in a kernel behind one of NCCL's",
     {"stuck A:0/2 ar41~", "stuck kernel A:1/2 ar40~"},
     GWI_STALL_BEHIND,
     GW_SUPPORTED,
     1,
     41,
     NULL},
    NONE_OF("in the call before", "stuck A:0/2 ar40~ ar41~", "stuck nccl A:1/2 ar40~"),
    {"waits for a child", {"stuck A:0/2 ar41~", "child A:1/2 ar40."}, GWI_STALL_BEHIND, GW_ESTABLISHED, 1, 41, NULL},
    {"computes", {"stuck A:0/2 ar41~", "running A:1/2 ar40."}, GWI_STALL_BEHIND, GW_SUPPORTED, 1, 41, NULL},
    {"waits for data of somebody",
     {"stuck A:0/2 ar41~", "input A:1/2 ar40."},
     GWI_STALL_BEHIND,
     GW_SUPPORTED,
     1,
     41,
     NULL},
    {"nobody looked", {"stuck A:0/2 ar41~", "A:1/2 ar40."}, GWI_STALL_BEHIND, GW_SUPPORTED, 1, 41, NULL},
    {"asleep, with losses",
     {"stuck A:0/2 ar41~", "sleep lossy A:1/2 ar40."},
     GWI_STALL_BEHIND,
     GW_SUPPORTED,
     1,
     41,
     NULL},
    {"asleep, and a third is not recorded",
     {"stuck A:0/3 ar41~", "sleep A:1/3 ar40.", ""},
     GWI_STALL_BEHIND,
     GW_SUPPORTED,
     1,
     41,
     NULL},
    {"asleep, after replays",
     {"stuck A:0/2 ar41~", "sleep replays A:1/2 ar40."},
     GWI_STALL_BEHIND,
     GW_SUPPORTED,
     1,
     41,
     NULL},
    {"many calls behind",
     {"stuck A:0/2 ar41~ ar42~ ar43~", "sleep A:1/2 ar40."},
     GWI_STALL_BEHIND,
     GW_ESTABLISHED,
     1,
     41,
     NULL},
    {"further behind than the record",
     {"stuck A:0/2 ar91~ ar92~", "sleep A:1/2 ar40."},
     GWI_STALL_BEHIND,
     GW_ESTABLISHED,
     1,
     41,
     NULL},
    {"no call at all",
     {"stuck A:0/2 ar1~", "sleep A:1/2"},
     GWI_STALL_BEHIND,
     GW_ESTABLISHED,
     1,
     1,
     "has not called all_reduce #1"},
    {"the one whose place is known",
     {"stuck A:0/3 ar41~", "A:1/3 ar40.", "sleep A:2/3 ar40."},
     GWI_STALL_BEHIND,
     GW_ESTABLISHED,
     2,
     41,
     NULL},
    NONE_OF("nobody is stuck", "A:0/2 ar41~", "sleep A:1/2 ar40."),
    NONE_OF("stuck elsewhere", "stuck A:0/2 ar41.", "sleep A:1/2 ar40."),
    NONE_OF("all are equally far", "stuck A:0/2 ar41~", "sleep A:1/2 ar41~"),
    NONE_OF("the call has ended", "stuck A:0/2 bc41^0. ar42.", "sleep A:1/2 ar40."),

    /* ---- left ---- */
    {"ended well",
     {"stuck A:0/2 ar41~", "well@500 A:1/2 ar40."},
     GWI_STALL_LEFT,
     GW_ESTABLISHED,
     1,
     41,
     "has not called all_reduce #41: it exited with status 0"},
    {"ended in an unknown way",
     {"stuck A:0/2 ar41~", "gone@500 A:1/2 ar40."},
     GWI_STALL_LEFT,
     GW_SUPPORTED,
     1,
     41,
     "it has ended, and its exit status is unknown"},
    {"stopped", {"stuck A:0/2 ar41~", "stopped A:1/2 ar40."}, GWI_STALL_BEHIND, GW_ESTABLISHED, 1, 41, NULL},
    {"destroyed its communicator",
     {"stuck A:0/2 ar41~", "A:1/2 left@500 ar40."},
     GWI_STALL_LEFT,
     GW_ESTABLISHED,
     1,
     41,
     "it has destroyed the communicator"},
    {"aborted its communicator",
     {"stuck A:0/2 ar41~", "A:1/2 left@500 aborted ar40."},
     GWI_STALL_BEHIND,
     GW_SUPPORTED,
     1,
     41,
     NULL},
    NONE_OF("a communicator that was made at the second attempt", "stuck A:0/2 ar3~",
            "stuck A:1/2 init left@2 A:1/2 ar3~"),
    NONE_OF("aborted their communicator, and went on with another one",
            "stuck A:0/3 left@500 aborted ar41~ B:0/2 ar60~", "stuck A:1/3 left@500 aborted ar41~ B:1/2 ar60~",
            "well A:2/3 ar40."),
    {"ended well, with losses",
     {"stuck A:0/2 ar41~", "well@500 lossy A:1/2 ar40."},
     GWI_STALL_LEFT,
     GW_SUPPORTED,
     1,
     41,
     NULL},
    NONE_OF("ended well after the same calls", "stuck A:0/2 ar41~", "well@500 A:1/2 ar41."),

    /* ---- several communicators ---- */
    {"a circle",
     {"stuck A:0/2 ar5~ B:0/2 ar2.", "stuck A:1/2 ar4. B:1/2 ar3~"},
     GWI_STALL_CIRCLE,
     GW_ESTABLISHED,
     1,
     5,
     "waits in all_reduce #3 (4.00 KiB, float32) of another communicator; rank 0 waits in all_reduce #5"},
    NONE_OF("the same order", "stuck A:0/2 ar5~ B:0/2 ar3~", "stuck A:1/2 ar5~ B:1/2 ar3~"),
    {"two orders on one stream",
     {"stuck A:0/2 ar5t50~ B:0/2 ar3t60~", "stuck A:1/2 ar5t60~ B:1/2 ar3t50~"},
     GWI_STALL_CIRCLE,
     GW_ESTABLISHED,
     1,
     5,
     NULL},
    NONE_OF("one order on one stream", "stuck A:0/2 ar5t50~ B:0/2 ar3t60~", "stuck A:1/2 ar5t50~ B:1/2 ar3t60~"),
    NONE_OF("two orders in a group", "stuck A:0/2 ar5g1t50~ B:0/2 ar3g1t60~", "stuck A:1/2 ar5g1t60~ B:1/2 ar3g1t50~"),
    NONE_OF("one process with two cards", "stuck A:0/2 ar5~ A:1/2 ar4."),
    {"a process with two cards waits",
     {"stuck A:0/3 ar4. A:1/3 ar5~", "sleep A:2/3 ar4."},
     GWI_STALL_BEHIND,
     GW_ESTABLISHED,
     1,
     5,
     NULL},
    {"a chain",
     {"stuck A:0/2 ar5~", "stuck A:1/2 ar4. B:0/2 ar3~", "sleep B:1/2 ar2."},
     GWI_STALL_BEHIND,
     GW_ESTABLISHED,
     2,
     3,
     NULL},

    /* ---- the creation of a communicator ---- */
    {"one never joins",
     {"stuck A:0/2 init", "sleep"},
     GWI_STALL_BEHIND,
     GW_ESTABLISHED,
     1,
     0,
     "rank 1 (pid 101) has not joined the communicator: it is waiting at load.py:9; rank 0 waits in the creation of "
     "the communicator"},
    {"one ended before it joined", {"stuck A:0/2 init", "well@5"}, GWI_STALL_LEFT, GW_ESTABLISHED, 1, 0, NULL},
    {"one is not recorded",
     {"stuck A:0/3 init", "stuck A:1/3 init", ""},
     GWI_STALL_BEHIND,
     GW_SUPPORTED,
     NOBODY,
     0,
     "rank 2 has not joined the communicator, and is in no recording"},
    NONE_OF("all have joined", "stuck A:0/2 init", "stuck A:1/2 init"),
    NONE_OF("nobody waits for it", "A:0/2 init", "sleep"),

    /* ---- send and receive ---- */
    {"a receive without a send",
     {"stuck A:0/2 rv1^1~", "sleep A:1/2 ar1."},
     GWI_STALL_BEHIND,
     GW_ESTABLISHED,
     1,
     0,
     "rank 1 (pid 101) has not made the matching send"},
    {"a send without a receive", {"stuck A:0/2 sd1^1~", "well@9 A:1/2"}, GWI_STALL_LEFT, GW_ESTABLISHED, 1, 0, NULL},
    NONE_OF("a receive and its send", "stuck A:0/2 rv1^1~", "sleep A:1/2 sd1^0."),

    /* ---- errors ---- */
    NONE_OF("an error of the rank behind", "stuck A:0/2 ar41~", "died@500 error@500 A:1/2 ar40."),
    NONE_OF("an error of a third rank", "stuck A:0/3 ar41~", "sleep A:1/3 ar40.", "error@5 A:2/3 ar41~"),
    {"the one that waited gave up",
     {"stuck died@700 A:0/2 ar41~", "sleep ended@800 A:1/2 ar40."},
     GWI_STALL_BEHIND,
     GW_ESTABLISHED,
     1,
     41,
     NULL},
    {"an error after one gave up",
     {"stuck died@700 A:0/2 ar41~", "sleep died@900 error@900 A:1/2 ar40."},
     GWI_STALL_BEHIND,
     GW_SUPPORTED,
     1,
     41,
     NULL},
    NONE_OF("an error before one gave up", "stuck died@700 A:0/2 ar41~", "sleep died@600 error@600 A:1/2 ar40."),
};

static void test_row(void **state)
{
    const row *it = *state;
    gw_ranks ranks = ranks_of_texts(it->rank, RANKS_MAX), copy;
    gw_text packed = {0};
    gwi_stall stall, again;
    assert_true(gwi_stall_find(&ranks, true, &stall));
    assert_int_equal(stall.kind, it->kind);
    assert_int_equal(stall.certainty, it->certainty);
    gw_ranks_pack(&ranks, &packed);
    assert_true(gw_ranks_unpack(packed.data, packed.bytes, &copy));
    gw_ranks_free(&ranks);
    assert_true(gwi_stall_find(&copy, true, &again));
    assert_memory_equal(&stall, &again, sizeof stall);
    if (it->kind != GWI_STALL_NONE) {
        gwi_finding finding = {0};
        assert_int_equal(stall.culprit == SIZE_MAX ? NOBODY : copy.item[stall.culprit].rank, it->culprit);
        assert_int_equal(stall.number, it->number);
        gwi_say_stall(&copy, &stall, &finding);
        assert_false(finding.failed);
        assert_true(finding.evidence_count >= 2);
        assert_true(finding.next.count > 0);
        if (getenv("GW_TEST_PRINT") != NULL)
            print_message("%s: %s\n", it->name, gw_text_str(&finding.headline));
        if (it->headline != NULL && strstr(gw_text_str(&finding.headline), it->headline) == NULL)
            fail_msg("%s", gw_text_str(&finding.headline));
        gwi_finding_free(&finding);
    }
    gw_ranks_free(&copy);
    gw_text_free(&packed);
}

/* Less evidence makes no stall more certain, and no part of a packet is read past its end. */
static void test_less(void **state)
{
    const row *it = *state;
    for (size_t i = 0; it->rank[i] != NULL; i++) {
        gw_ranks ranks = ranks_of_texts(it->rank, RANKS_MAX), part;
        gw_text packed = {0};
        gwi_stall whole, less;
        assert_true(gwi_stall_find(&ranks, true, &whole));
        gw_ranks_pack(&ranks, &packed);
        for (size_t bytes = 0; bytes < packed.bytes; bytes++) {
            char *exact = malloc(bytes + 1); /* so that a sanitizer sees a read past the end */
            memcpy(exact, packed.data, bytes);
            assert_false(gw_ranks_unpack(exact, bytes, &part));
            free(exact);
        }
        if (i < ranks.count) {
            ranks.item[i].is_whole = false;
            assert_true(gwi_stall_find(&ranks, true, &less));
            assert_true(less.certainty <= whole.certainty);
            ranks.item[i].is_stuck = false;
            ranks.item[i].stand = GW_RANK_STANDS_UNKNOWN;
            assert_true(gwi_stall_find(&ranks, true, &less));
            assert_true(less.certainty <= whole.certainty || whole.kind == GWI_STALL_NONE);
            assert_true(less.certainty < GW_ESTABLISHED || whole.certainty == GW_ESTABLISHED);
        }
        gw_text_free(&packed);
        gw_ranks_free(&ranks);
    }
}

/* Versions and settings that differ are reported, whatever the cause is. */
static void test_traits(void **state)
{
    static const char *const differ[] = {"stuck NCCL=2.28.9 NCCL_ALGO=Ring A:0/2 ar2~",
                                         "sleep NCCL=2.27.5 NCCL_ALGO=Ring A:1/2 ar1.", NULL};
    static const char *const same[] = {"stuck NCCL=2.28.9 A:0/2 ar2~", "sleep NCCL=2.28.9 NCCL_ALGO=Ring A:1/2 ar1.",
                                       NULL};
    (void)state;
    for (int is_same = 0; is_same < 2; is_same++) {
        gw_ranks ranks = ranks_of_texts(is_same ? same : differ, RANKS_MAX);
        gwi_stall stall;
        gwi_finding finding = {0};
        size_t found = 0;
        assert_true(gwi_stall_find(&ranks, true, &stall));
        gwi_say_stall(&ranks, &stall, &finding);
        for (size_t i = 0; i < finding.evidence_count; i++)
            found += strcmp(finding.evidence[i].text,
                            "NCCL is 2.27.5 in rank 1 (pid 101), and 2.28.9 in rank 0 (pid 100)") == 0;
        assert_int_equal(found, !is_same);
        assert_int_equal(finding.next.count, is_same ? 1 : 2);
        gwi_finding_free(&finding);
        gw_ranks_free(&ranks);
    }
}

static void test_many(void **state)
{
    enum { MANY = 10000, ODD = 7777 };
    gw_ranks ranks = {.item = calloc(MANY, sizeof *ranks.item), .count = MANY};
    gwi_stall stall;
    gwi_finding finding = {0};
    (void)state;
    for (uint32_t i = 0; i < MANY; i++) {
        ranks.item[i] =
            rank_of_text(i == ODD ? "sleep A:0/10000 ar40. B:0/2 ar9." : "stuck A:0/10000 ar41@57~", i, MANY);
        ranks.item[i].communicator[0].rank = i;
    }
    assert_true(gwi_stall_find(&ranks, false, &stall));
    assert_int_equal(stall.kind, GWI_STALL_BEHIND);
    assert_int_equal(stall.certainty, GW_ESTABLISHED);
    assert_int_equal(stall.culprit, ODD);
    gwi_say_stall(&ranks, &stall, &finding);
    assert_non_null(strstr(gw_text_str(&finding.headline), "ranks 0-7776, 7778-9999 wait in all_reduce #41"));
    assert_true(finding.evidence_count < 8);
    gwi_finding_free(&finding);
    gw_ranks_free(&ranks);
}

int main(void)
{
    enum { COUNT = sizeof rows / sizeof rows[0] };
    struct CMUnitTest tests[2 * COUNT + 2] = {[2 * COUNT] = cmocka_unit_test(test_many),
                                              [2 * COUNT + 1] = cmocka_unit_test(test_traits)};
    for (size_t i = 0; i < COUNT; i++) {
        tests[i] = (struct CMUnitTest){.name = rows[i].name, .test_func = test_row, .initial_state = (void *)&rows[i]};
        tests[COUNT + i] = tests[i];
        tests[COUNT + i].test_func = test_less;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
