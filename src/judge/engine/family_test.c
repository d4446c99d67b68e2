/* Tests verdicts on runs of several processes: which one failed first, which failures followed from it, and which ones
 * the parent did not notice. */
#include "gw_unit_test.h"
#include "verdict_testlib.h"

#include <signal.h>

enum { COMMAND = GW_FEED_PID, FIRST_RANK = 200, MS = 1000000 };

static void be(uint32_t pid)
{
    feed.pid = pid;
    feed.tid = pid;
    feed.context = 0xc0de0000u + pid;
}

static void begin_worker(uint32_t pid)
{
    gw_feed_process(&feed, pid, COMMAND, "/usr/bin/worker");
    be(pid);
    gw_feed_begin_cuda(&feed, 16 * gib);
    gw_feed_alloc(&feed, gib);
    gw_feed_launch(&feed, 0xf1f1, 0);
    gw_feed_sync(&feed);
    gw_feed_drain(&feed);
    gw_feed_wait(&feed, 10 * MS);
}

static void begin_ranks(uint32_t count)
{
    gw_feed_open_bare(&feed);
    gw_feed_process(&feed, COMMAND, 1, "/usr/bin/launcher");
    for (uint32_t rank = 0; rank < count; rank++) {
        char text[64];
        begin_worker(FIRST_RANK + rank);
        snprintf(text, sizeof text, "rank=%u of=%u by=RANK", rank, count);
        fact_of(FIRST_RANK + rank, 0, "process.rank", text);
    }
}

static void lose_context_of(uint32_t pid)
{
    be(pid);
    gw_feed_launch(&feed, 0xf1f1, 0);
    gw_feed_call(&feed, "cuCtxSynchronize", GW_EV_SYNC, 700, 0, 0, 0, 0);
    gw_feed_wait(&feed, MS);
}

static void end_of(uint32_t pid, int code, int signal_)
{
    gw_feed_wait(&feed, 10 * MS);
    gw_feed_exit_of(&feed, pid, code, signal_);
}

static void judge(int command_code)
{
    gw_feed_wait(&feed, 10 * MS);
    be(COMMAND);
    gw_feed_exit(&feed, command_code, 0);
    judge_open();
}

static bool has_evidence(const char *part)
{
    return evidence_has(verdict, part);
}

/* Let the command exit with this status, and expect this cause; NULL: a clean run. */
static void expect(int command_code, const char *cause, const char *headline_part)
{
    judge(command_code);
    assert_string_equal(gw_verdict_status_text(verdict->status), cause == NULL ? "clean" : "fault");
    if (cause != NULL)
        assert_string_equal(verdict->cause, cause);
    if (headline_part != NULL)
        assert_non_null(strstr(verdict->headline, headline_part));
    if (cause != NULL)
        assert_true(verdict->next.count > 0);
}

GW_TEST(the_first_rank_is_the_root)
{
    begin_ranks(4);
    lose_context_of(202);
    lose_context_of(201); /* a consequence of rank 2's failure */
    end_of(202, 1, 0);
    end_of(201, 1, 0);
    end_of(200, -1, SIGTERM);
    end_of(203, -1, SIGTERM);
    expect(1, "illegal-address", "rank 2 (pid 202): ");
    assert_true(has_evidence("rank 2 (pid 202) was the first of 5"));
    assert_true(list_has(&verdict->consequences, "rank 1 (pid 201): cuCtxSynchronize returned 700"));
    assert_true(list_has(&verdict->consequences, "rank 0 (pid 200) was ended by signal 15"));
    assert_true(list_has(&verdict->consequences, "the command exited with status 1"));
}

/* A rank dies without a failed call, and then another rank loses its context. The verdict must be about the death. */
GW_TEST(a_peers_death_comes_before_its_echo)
{
    begin_ranks(3);
    end_of(201, -1, SIGSEGV);
    lose_context_of(200);
    end_of(200, 1, 0);
    end_of(202, -1, SIGTERM);
    expect(1, "host-crash-of-process", "rank 1 (pid 201): ");
}

/* A script goes on after its first program has failed. That is no peer of the second one. */
GW_TEST(a_death_before_the_start_costs_nothing)
{
    gw_feed_open_bare(&feed);
    begin_worker(200);
    end_of(200, 7, 0);
    begin_worker(201);
    lose_context_of(201);
    end_of(201, 1, 0);
    expect(1, "illegal-address", "pid 201: ");
}

GW_TEST(an_unnoticed_child_is_a_fault)
{
    gw_feed_open_bare(&feed);
    begin_worker(200);
    lose_context_of(200);
    end_of(200, 1, 0);
    expect(0, "illegal-address", "pid 200: ");
    assert_true(has_evidence("command still exited with status 0"));
}

static void refuse_memory(uint32_t pid)
{
    be(pid);
    gw_feed_no_room(&feed, 15 * gib, gib, 16 * gib);
}

GW_TEST(an_unnoticed_child_without_memory_is_a_fault)
{
    gw_feed_open_bare(&feed);
    begin_worker(200);
    refuse_memory(200);
    end_of(200, 1, 0);
    judge(0);
    assert_string_equal(gw_verdict_status_text(verdict->status), "fault");
}

/* A neighbour that was refused first and then killed only filled the card. It is judged if it ended by itself. */
GW_TEST(a_neighbour_that_only_filled_the_card)
{
    static const struct {
        int code, signal;
        const char *who;
    } ends[] = {{-1, SIGKILL, "pid 201: "}, {-1, SIGTERM, "pid 201: "}, {1, 0, "pid 200: "}};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        gw_feed_open_bare(&feed);
        begin_worker(200);
        begin_worker(201);
        refuse_memory(200);
        gw_feed_wait(&feed, MS);
        refuse_memory(201);
        end_of(200, ends[i].code, ends[i].signal);
        end_of(201, 1, 0);
        judge(1);
        assert_non_null(strstr(verdict->headline, ends[i].who));
    }
}

GW_TEST(a_child_that_coped_is_none)
{
    gw_feed_open_bare(&feed);
    begin_worker(200);
    refuse_memory(200);
    end_of(200, 0, 0);
    expect(0, NULL, NULL);
}

/* One worker fails and ends, and then its parent starts another one, which succeeds. */
static void replace_worker(void)
{
    gw_feed_open_bare(&feed);
    begin_worker(200);
    lose_context_of(200);
    end_of(200, 1, 0);
    begin_worker(201);
    end_of(201, 0, 0);
}

GW_TEST(a_replaced_child_is_none)
{
    replace_worker();
    expect(0, NULL, NULL);
    assert_true(list_has(&verdict->advice, "pid 201 replaced it and succeeded"));
}

GW_TEST(a_replacement_whose_end_was_not_seen)
{
    gw_feed_open_bare(&feed);
    begin_worker(200);
    lose_context_of(200);
    end_of(200, 1, 0);
    begin_worker(201);
    expect(0, NULL, NULL);
    assert_true(list_has(&verdict->advice, "pid 201 replaced it; how that one ended was not observed"));
}

/* A child and the command end with different statuses: the sentences are about the child. */
GW_TEST(a_status_is_said_of_the_process_that_had_it)
{
    static const int codes[] = {7, 5};
    static const char *const who[] = {"pid 200 exited with status 5", "the program exited with status 5"};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        gw_feed_open_bare(&feed);
        begin_worker(200);
        end_of(200, 5, 0);
        judge(codes[i]);
        assert_non_null(strstr(verdict->headline, who[i]));
        assert_true(has_evidence(who[i]));
    }
}

/* A failed worker was replaced, but the run ends badly without another explanation. The verdict must blame the
 * worker. */
GW_TEST(a_replaced_child_of_a_bad_run_counts)
{
    replace_worker();
    expect(1, "illegal-address", "pid 200: ");
}

/* A process that started before the failure is not a replacement. */
GW_TEST(a_sibling_is_no_replacement)
{
    gw_feed_open_bare(&feed);
    begin_worker(200);
    begin_worker(201);
    lose_context_of(200);
    end_of(200, 1, 0);
    end_of(201, 0, 0);
    expect(0, "illegal-address", "pid 200: ");
}

/* A pool of workers ends its workers with SIGTERM. This is not a fault. */
GW_TEST(ended_workers_of_a_good_run_are_none)
{
    gw_feed_open_bare(&feed);
    begin_worker(200);
    begin_worker(201);
    end_of(200, -1, SIGTERM);
    end_of(201, -1, SIGTERM);
    expect(0, NULL, NULL);
}

/* A program starts a child only to check its exit status. The run fails long after the child's end, so the verdict must
 * not blame the child. */
GW_TEST(a_probing_child_is_not_blamed)
{
    gw_feed_open_bare(&feed);
    begin_worker(200);
    end_of(200, 1, 0);
    gw_feed_wait(&feed, 60000ull * MS);
    gw_feed_stderr(&feed, "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nValueError: no labels\n");
    expect(1, "script-exception", "ValueError");
    assert_null(strstr(verdict->headline, "pid 200"));
}

GW_TEST(the_childs_own_exception_counts)
{
    begin_ranks(2);
    gw_feed_stderr(&feed, "Traceback (most recent call last):\n  File \"a.py\", line 3, in work\nKeyError: 'x'\n");
    end_of(201, 1, 0);
    end_of(200, -1, SIGTERM);
    gw_feed_stderr(&feed, "Traceback (most recent call last):\n  File \"run.py\", line 9, in launch\n"
                          "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n");
    expect(1, "script-exception", "KeyError");
    assert_true(list_has(&verdict->consequences, "ChildFailedError"));
}

GW_TEST(who_lived_on_is_said)
{
    gw_feed_open_bare(&feed);
    begin_worker(200);
    fact_of(200, 0, "process.alive", "when the command had ended");
    expect(0, NULL, NULL);
    assert_true(list_has(&verdict->advice, "pid 200 was still running"));
}

/* ---- a launcher that starts all its ranks again ---- */

enum { RANKS = 2 };

/* The pid of a rank after `restart` restarts. */
static uint32_t pid_of(uint32_t restart, uint32_t rank)
{
    return FIRST_RANK + 10 * restart + rank;
}

static void start_rank(uint32_t restart, uint32_t rank)
{
    char text[64];
    uint32_t pid = pid_of(restart, rank);
    begin_worker(pid);
    snprintf(text, sizeof text, "rank=%u of=%d restart=%u by=RANK", rank, RANKS, restart);
    fact_of(pid, 0, "process.rank", text);
}

static void start_ranks(uint32_t restart)
{
    for (uint32_t rank = 0; rank < RANKS; rank++)
        start_rank(restart, rank);
}

/* Three starts: rank 1 loses its context, rank 0 exits, and the third one is up to the caller. */
static void restart_twice(void)
{
    gw_feed_open_bare(&feed);
    gw_feed_process(&feed, COMMAND, 1, "/usr/bin/launcher");
    start_ranks(0);
    lose_context_of(pid_of(0, 1));
    end_of(pid_of(0, 1), 1, 0);
    end_of(pid_of(0, 0), -1, SIGTERM);
    start_ranks(1);
    end_of(pid_of(1, 0), 3, 0);
    end_of(pid_of(1, 1), -1, SIGTERM);
    start_ranks(2);
}

GW_TEST(the_last_start_is_judged)
{
    restart_twice();
    end_of(pid_of(2, 1), -1, SIGSEGV);
    end_of(pid_of(2, 0), -1, SIGTERM);
    expect(1, "host-crash-of-process", "rank 1, restart 2 (pid 221): ");
    assert_true(has_evidence("rank 1, restart 2 (pid 221) was the first of 3 recorded processes"));
    assert_true(has_evidence("before restart 1 of all ranks: rank 1 (pid 201): cuCtxSynchronize returned 700"));
    assert_true(has_evidence("before restart 2 of all ranks: rank 0, restart 1 (pid 210) exited with status 3"));
    assert_false(list_has(&verdict->consequences, "(pid 200)"));
}

GW_TEST(a_failure_before_a_restart_is_no_fault_of_a_good_run)
{
    restart_twice();
    end_of(pid_of(2, 0), 0, 0);
    end_of(pid_of(2, 1), 0, 0);
    expect(0, NULL, NULL);
    assert_true(list_has(&verdict->advice, "rank 1 (pid 201): cuCtxSynchronize returned 700"));
    assert_true(list_has(&verdict->advice, "then the launcher started all ranks again (restart 1)"));
    assert_true(list_has(&verdict->advice, "rank 0, restart 1 (pid 210) exited with status 3"));
    assert_false(list_has(&verdict->advice, "replaced it"));
}

/* Rank 0 starts a helper that uses the GPU, too. The helper belongs to the start of its parent. */
GW_TEST(a_child_of_an_earlier_rank_is_not_judged)
{
    gw_feed_open_bare(&feed);
    gw_feed_process(&feed, COMMAND, 1, "/usr/bin/launcher");
    start_ranks(0);
    gw_feed_process(&feed, 300, pid_of(0, 0), "/usr/bin/worker");
    be(300);
    gw_feed_begin_cuda(&feed, 16 * gib);
    gw_feed_process(&feed, 300, pid_of(0, 0), "/usr/bin/worker");
    lose_context_of(300);
    end_of(300, 1, 0);
    end_of(pid_of(0, 0), 1, 0);
    end_of(pid_of(0, 1), -1, SIGTERM);
    start_ranks(1);
    end_of(pid_of(1, 1), -1, SIGSEGV);
    end_of(pid_of(1, 0), -1, SIGTERM);
    expect(1, "host-crash-of-process", "rank 1, restart 1 (pid 211): ");
}

/* Only starts among the last eight restarts are listed. The others were started, but did not use the GPU. */
GW_TEST(many_restarts_are_cut)
{
    static const uint32_t used_gpu[] = {0, 3, 4, 11, 12};
    gw_feed_open_bare(&feed);
    gw_feed_process(&feed, COMMAND, 1, "/usr/bin/launcher");
    for (size_t i = 0; i < sizeof used_gpu / sizeof used_gpu[0]; i++) {
        start_rank(used_gpu[i], 1);
        end_of(pid_of(used_gpu[i], 1), -1, SIGSEGV);
    }
    expect(1, "host-crash-of-process", "rank 1, restart 12 (pid 321): ");
    assert_true(has_evidence("before restart 12 of all ranks: rank 1, restart 11 (pid 311) was ended by signal 11"));
    assert_true(has_evidence("before restart 5 of all ranks"));
    assert_false(has_evidence("before restart 4 of all ranks"));
    assert_true(has_evidence("not listed: 2 failures before earlier restarts"));
}

GW_TEST_MAIN(NULL, NULL)
