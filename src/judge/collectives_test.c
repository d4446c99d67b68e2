/* Tests the verdict on recordings of several ranks that use NCCL: the rank at fault is judged, and what others did
 * because of it is a consequence. */
#include "gw_unit_test.h"
#include "ranks_testlib.h"
#include "verdict_testlib.h"

#include <signal.h>

enum { FIRST_PID = 201, RANKS_MAX = 4, AGENT = GW_FEED_PID, WORLD = 2 };

static const char nccl_kernel[] = "ncclDevKernel_AllReduce_Sum_f32_RING_LL";

/* ---- a job: an agent, and the ranks that it started ---- */

static void as_process(uint32_t pid)
{
    feed.pid = feed.tid = pid;
    feed.context = 0xc0de;
}

static uint32_t pid_of(uint32_t rank)
{
    return FIRST_PID + rank;
}

/* Open a job of two ranks. Each has launched `kernel`, and nothing has waited for it. */
static void open_job(void)
{
    char text[32];
    gw_feed_open(&feed, 16 * gib);
    for (uint32_t rank = 0; rank < WORLD; rank++) {
        as_process(pid_of(rank));
        gw_feed_process(&feed, feed.pid, AGENT, "/usr/bin/python3");
        gw_feed_begin_cuda(&feed, 16 * gib);
        snprintf(text, sizeof text, "rank=%u of=%u", rank, (unsigned)WORLD);
        fact_of(feed.pid, 0, "process.rank", text);
        gw_feed_text_call(&feed, "cuModuleGetFunction", GW_EV_FUNCTION, 0xf1f1, 0xabab, GW_OWNER_MODULE, 0,
                          nccl_kernel);
        gw_feed_text_call(&feed, "cuModuleGetFunction", GW_EV_FUNCTION, 0xf2f2, 0xabab, GW_OWNER_MODULE, 0, "spin");
    }
}

/* The rank launches a kernel and waits for it until the supervisor sees a hang. */
static void wait_for(uint32_t rank, uint64_t function)
{
    as_process(pid_of(rank));
    gw_feed_launch(&feed, function, 0x5151);
    gw_feed_drain(&feed);
}

static void hang_of(uint32_t rank, unsigned for_ms, const char *thread)
{
    char text[48];
    snprintf(text, sizeof text, "for_ms=%u cpu_ms=1", for_ms);
    fact_of(pid_of(rank), 0, "hang", text);
    fact_of(pid_of(rank), pid_of(rank), "hang.thread", thread);
}

static const char stuck[] = "wait=running in=cuStreamSynchronize in_ms=5000 name=python3";
static const char asleep[] = "wait=sleep where=hrtimer_nanosleep name=python3";

/* Rank 0 waits in NCCL, and rank 1 stands elsewhere. */
static void hang_beside(const char *thread)
{
    wait_for(0, 0xf1f1);
    gw_feed_wait(&feed, 10 * second_ns);
    hang_of(0, 5000, stuck);
    hang_of(1, 0, thread);
}

static void hang_both(void)
{
    wait_for(0, 0xf1f1);
    wait_for(1, 0xf1f1);
    gw_feed_wait(&feed, 10 * second_ns);
    hang_of(0, 5000, stuck);
    hang_of(1, 5000, stuck);
}

/* ---- the calls of NCCL ---- */

static const char *calls[RANKS_MAX]; /* of each rank, as in ranks_testlib.h */
static bool is_unseen;               /* more calls were made than were seen */
static uint64_t inside_since_ns;     /* when the threads that are in a driver call entered it; 0: just now */

static void attach(gw_model *model, uint32_t number)
{
    gw_rank rank = rank_of_text(calls[number], number, WORLD);
    for (size_t i = 0; i < model->process_count; i++) {
        gw_process *process = &model->process[i];
        if (process->pid != pid_of(number))
            continue;
        process->communicator = calloc(rank.communicator_count, sizeof *process->communicator);
        process->communicator_count = rank.communicator_count;
        process->nccl_unseen = is_unseen;
        for (size_t k = 0; k < rank.communicator_count; k++) {
            const gw_rank_communicator *from = &rank.communicator[k];
            gw_communicator *to = &process->communicator[k];
            *to = (gw_communicator){.id = from->id, .size = from->size, .rank = from->rank, .device = -1};
            to->is_ready = from->is_ready;
            to->is_aborted = from->is_aborted;
            to->t_end_ns = from->t_end_ns;
            to->collectives = from->collectives;
            to->p2p = from->p2p;
            to->last = calloc(from->call_count + 1, sizeof *to->last);
            to->last_count = from->call_count;
            for (size_t n = 0; n < from->call_count; n++) {
                const gw_rank_call *call = &from->call[n];
                to->last[n] = (gw_collective){.call = (gw_nccl_call)call->call,
                                              .number = call->number,
                                              .t_ns = call->t_ns,
                                              .elements = call->elements,
                                              .type = call->type,
                                              .root_or_peer = call->root_or_peer,
                                              .group = call->group,
                                              .state = (gw_collective_state)call->state};
            }
        }
    }
    gw_ranks one = {.item = malloc(sizeof rank), .count = 1};
    one.item[0] = rank;
    gw_ranks_free(&one);
}

static void judge_job(void)
{
    gw_error err;
    gw_model *model = gw_feed_finish(&feed);
    judge_close();
    for (uint32_t i = 0; i < RANKS_MAX; i++)
        if (calls[i] != NULL)
            attach(model, i);
    for (size_t i = 0; inside_since_ns != 0 && i < model->thread_count; i++)
        model->thread[i].inside_since_ns = inside_since_ns;
    assert_int_equal(gw_judge(model, &verdict, &err), GW_OK);
    gw_model_free(model);
    if (getenv("GW_TEST_PRINT") != NULL)
        verdict_print(verdict);
    verdict_expect_sound(verdict);
}

static void expect_job(const char *cause, gw_certainty certainty)
{
    judge_job();
    assert_cause(verdict, cause, certainty);
    assert_true(verdict->next.count > 0);
}

/* ---- tests ---- */

GW_TEST(different_calls)
{
    calls[0] = "A:0/2 ar40. ar41~";
    calls[1] = "A:1/2 ar40. bc41^0~";
    open_job();
    hang_both();
    expect_job("collective-desync", GW_ESTABLISHED);
    assert_true(verdict->is_hang);
    assert_true(why_has(verdict, "rank 1 (pid 202) called broadcast #41"));
    assert_true(why_has(verdict, "rank 0 waits in all_reduce #41 (4.00 KiB, float32)"));
    assert_int_equal(verdict->alternative_count, 0);
    calls[1] = "A:1/2 ar40. ar41~"; /* the same calls */
    open_job();
    hang_both();
    judge_job();
    assert_int_equal(verdict->status, GW_VERDICT_UNDETERMINED);
}

GW_TEST(a_rank_that_sleeps)
{
    calls[0] = "A:0/2 ar40. ar41~";
    calls[1] = "A:1/2 ar40.";
    open_job();
    hang_beside(asleep);
    expect_job("straggler", GW_ESTABLISHED);
    assert_true(verdict->is_hang);
    assert_true(why_has(verdict, "rank 1 (pid 202) has not called all_reduce #41: it is sleeping"));
    open_job();
    hang_beside("wait=running name=python3"); /* it computes */
    expect_job("straggler", GW_SUPPORTED);
    open_job(); /* nothing hangs: ranks may be a call apart when the user ends them */
    wait_for(0, 0xf1f1);
    gw_feed_wait(&feed, second_ns);
    gw_feed_fact(&feed, "stop.signal", "signal=15 outside=1 pid=7 from=timeout 60");
    for (uint32_t rank = 0; rank < WORLD; rank++)
        gw_feed_exit_of(&feed, pid_of(rank), -1, SIGTERM);
    gw_feed_exit(&feed, -1, SIGTERM);
    judge_job();
    assert_string_equal(verdict->cause, "killed-by-scheduler-or-user");
    assert_false(why_has(verdict, "all_reduce"));
}

/* On a terminal, no hang is reported. The user stops the job after some minutes. */
GW_TEST(a_job_that_the_user_stopped)
{
    calls[0] = "A:0/2 ar40. ar41~";
    calls[1] = "A:1/2 ar40.";
    for (uint64_t waited_s = 60; waited_s <= 360; waited_s += 300) {
        open_job();
        wait_for(0, 0xf1f1);
        inside_since_ns = feed.t_ns;
        gw_feed_inside(&feed, "cuStreamSynchronize");
        gw_feed_wait(&feed, waited_s * second_ns);
        gw_feed_fact(&feed, "stop.signal", "signal=2 outside=1 pid=7 from=bash");
        for (uint32_t rank = 0; rank < WORLD; rank++)
            gw_feed_exit_of(&feed, pid_of(rank), -1, SIGINT);
        gw_feed_exit(&feed, -1, SIGINT);
        judge_job();
        assert_string_equal(verdict->cause, waited_s < 300 ? "killed-by-scheduler-or-user" : "straggler");
        assert_true(waited_s < 300 || verdict->certainty == GW_SUPPORTED);
    }
    inside_since_ns = 0;
}

GW_TEST(a_rank_in_its_own_kernel)
{
    calls[0] = "A:0/2 ar41~";
    calls[1] = "A:1/2 ar40.";
    open_job();
    wait_for(0, 0xf1f1);
    wait_for(1, 0xf2f2);
    gw_feed_wait(&feed, 10 * second_ns);
    hang_of(0, 5000, stuck);
    hang_of(1, 5000, stuck);
    expect_job("straggler", GW_ESTABLISHED);
    assert_true(why_has(verdict, "it is inside cuStreamSynchronize"));
    assert_true(why_has(verdict, "spin was launched"));
}

/* Kernels that were launched later wait for NCCL's. */
GW_TEST(later_kernels_wait_for_it)
{
    calls[0] = "A:0/2 ar40. ar41~";
    calls[1] = "A:1/2 ar40.";
    open_job();
    wait_for(0, 0xf1f1);
    wait_for(0, 0xf2f2);
    gw_feed_wait(&feed, 10 * second_ns);
    hang_of(0, 5000, stuck);
    hang_of(1, 0, asleep);
    expect_job("straggler", GW_ESTABLISHED);
}

GW_TEST(a_rank_that_ended)
{
    calls[0] = "A:0/2 ar41~";
    calls[1] = "A:1/2 ar40.";
    open_job();
    gw_feed_exit_of(&feed, pid_of(1), 0, 0);
    wait_for(0, 0xf1f1);
    gw_feed_wait(&feed, 10 * second_ns);
    hang_of(0, 5000, stuck);
    expect_job("collective-desync", GW_ESTABLISHED);
    assert_true(why_has(verdict, "it exited with status 0"));
    assert_true(list_has(&verdict->next, "same number of steps"));
}

/* What gpuwhy, a user or a launcher does to end a hang changes nothing about its cause. */
GW_TEST(who_ended_the_job_is_not_the_cause)
{
    calls[0] = "A:0/2 ar41~";
    calls[1] = "A:1/2 ar40.";
    for (int by_gpuwhy = 0; by_gpuwhy < 2; by_gpuwhy++) {
        open_job();
        hang_beside(asleep);
        if (by_gpuwhy)
            gw_feed_fact(&feed, "own.stop", "--kill-on-hang: gpuwhy sent SIGTERM to pid 100");
        else
            gw_feed_fact(&feed, "stop.signal", "signal=15 outside=1 pid=7 from=timeout 60");
        gw_feed_exit_of(&feed, pid_of(0), -1, SIGTERM);
        gw_feed_exit_of(&feed, pid_of(1), -1, SIGTERM);
        gw_feed_exit(&feed, 1, 0);
        expect_job("straggler", GW_ESTABLISHED);
    }
}

/* PyTorch's watchdog aborts the rank that waits, and its launcher ends the others. */
GW_TEST(a_watchdog_is_a_consequence)
{
    calls[0] = "A:0/2 ar41~";
    calls[1] = "A:1/2 bc41^0~";
    open_job();
    hang_both();
    gw_feed_stderr(&feed, "[rank0]:[E ProcessGroupNCCL.cpp:683] [Rank 0] Watchdog caught collective operation timeout: "
                          "WorkNCCL(SeqNum=41, OpType=ALLREDUCE, NumelIn=1024, NumelOut=1024, Timeout(ms)=600000) ran "
                          "for 600010 milliseconds before timing out.\n");
    gw_feed_exit_of(&feed, pid_of(0), -1, SIGABRT);
    gw_feed_wait(&feed, second_ns);
    gw_feed_exit_of(&feed, pid_of(1), -1, SIGTERM);
    gw_feed_exit(&feed, 1, 0);
    expect_job("collective-desync", GW_ESTABLISHED);
    assert_true(list_has(&verdict->consequences, "the first rank that waited gave up"));
}

/* An error of one rank is the root, and the waiting of the others is its consequence. */
GW_TEST(an_error_is_before_the_waiting)
{
    calls[0] = "A:0/2 ar41~";
    calls[1] = "A:1/2 ar40.";
    open_job();
    wait_for(0, 0xf1f1);
    as_process(pid_of(1));
    gw_feed_no_room(&feed, 20 * gib, gib, 16 * gib);
    gw_feed_wait(&feed, 10 * second_ns);
    hang_of(0, 5000, stuck);
    gw_feed_exit_of(&feed, pid_of(1), 1, 0);
    gw_feed_exit_of(&feed, pid_of(0), -1, SIGTERM);
    gw_feed_exit(&feed, 1, 0);
    judge_job();
    assert_true(gw_begins(verdict->cause, "gpu-oom"));
    assert_true(list_has(&verdict->consequences, "rank 0 (pid 201) waited in all_reduce #41"));
    open_job(); /* the rank dies for another reason */
    wait_for(0, 0xf1f1);
    gw_feed_wait(&feed, 10 * second_ns);
    hang_of(0, 5000, stuck);
    gw_feed_stderr(&feed,
                   "Traceback (most recent call last):\n  File \"/data/train.py\", line 9, in step\nKeyError: 'a'\n");
    gw_feed_exit_of(&feed, pid_of(1), 1, 0);
    gw_feed_exit_of(&feed, pid_of(0), -1, SIGTERM);
    gw_feed_exit(&feed, 1, 0);
    judge_job();
    assert_string_equal(verdict->cause, "script-exception");
    assert_true(list_has(&verdict->consequences, "rank 0 (pid 201) waited in all_reduce #41"));
}

/* An exception ended the program of a rank, and its interpreter waits in its shutdown, as JAX does. gpuwhy then ends
 * the run. */
GW_TEST(an_exception_of_a_rank_that_does_not_go)
{
    static const char *const raised[] = {"Traceback (most recent call last):", "  File \"train.py\", line 9, in step",
                                         "KeyError: 'a'"};
    calls[0] = "A:0/2 ar41~";
    calls[1] = "A:1/2 ar40.";
    for (int is_ended = 0; is_ended < 2; is_ended++) {
        open_job();
        as_process(pid_of(1));
        for (size_t i = 0; i < sizeof raised / sizeof raised[0]; i++)
            gw_feed_text_call(&feed, "", GW_EV_PYTHON_RAISED, 0, 0, 0, 0, raised[i]);
        hang_beside("wait=lock where=futex_do_wait name=python3");
        if (is_ended) {
            gw_feed_fact(&feed, "own.stop", "--kill-on-hang");
            gw_feed_exit_of(&feed, pid_of(1), -1, SIGTERM);
            gw_feed_exit_of(&feed, pid_of(0), -1, SIGTERM);
            gw_feed_exit(&feed, -1, SIGTERM);
        }
        expect_job("script-exception", GW_SUPPORTED); /* stderr was elsewhere */
        assert_true(list_has(&verdict->consequences, "rank 0 (pid 201) waited in all_reduce #41"));
    }
}

/* A rank that exits with an error and no words is the root of the hang, too. */
GW_TEST(a_silent_exit_is_before_the_waiting)
{
    calls[0] = "A:0/2 ar41~";
    calls[1] = "A:1/2 ar40.";
    open_job();
    gw_feed_exit_of(&feed, pid_of(1), 3, 0);
    wait_for(0, 0xf1f1);
    gw_feed_wait(&feed, 10 * second_ns);
    hang_of(0, 5000, stuck);
    judge_job();
    assert_int_equal(verdict->status, GW_VERDICT_UNDETERMINED);
    assert_true(verdict->is_hang);
    assert_memory_equal(verdict->headline, "rank 1 (pid 202): ", 18);
    assert_true(list_has(&verdict->consequences, "rank 0 (pid 201) waited in all_reduce #41"));
}

/* A worker of the data loader was killed, so its rank stands still. */
GW_TEST(a_killed_worker_is_before_the_waiting)
{
    enum { WORKER = 300, KILL = 9 };
    calls[0] = "A:0/2 ar41~";
    calls[1] = "A:1/2 ar40.";
    for (int is_killed = 0; is_killed < 2; is_killed++) {
        open_job();
        as_process(WORKER);
        gw_feed_process(&feed, WORKER, pid_of(1), "/usr/bin/python3");
        if (is_killed)
            gw_feed_exit_of(&feed, WORKER, -1, KILL);
        hang_beside("wait=input name=python3");
        judge_job();
        assert_true((strcmp(verdict->cause, "straggler") == 0) == !is_killed);
    }
}

/* What NCCL's RAS answered during the hang: rank 0 has launched 41 calls. */
static void answered_by_ras(unsigned second)
{
    char answer[400];
    snprintf(answer, sizeof answer,
             "{\"nccl_version\": \"2.28.9\", \"communicators\": [{\"hash\": \"0x1f\", \"size\": 2, \"ranks\": "
             "[{\"rank\": 0, \"host\": \"h\", \"pid\": 201, \"collective_counts\": {\"AllReduce\": 41}}, {\"rank\": 1, "
             "\"host\": \"h\", \"pid\": 202, \"collective_counts\": {\"AllReduce\": %u}}]}]}",
             second);
    for (int i = 0; i < 2; i++)
        gw_feed_fact(&feed, "nccl.ras", answer);
}

/* RAS also names a rank whose calls are not recorded, which makes the verdict no more certain. */
GW_TEST(counts_of_ras_are_evidence)
{
    static const char *const of_second[] = {"A:1/2 ar40.", NULL};
    for (size_t i = 0; i < sizeof of_second / sizeof of_second[0]; i++) {
        calls[0] = "A:0/2 ar41~";
        calls[1] = of_second[i];
        open_job();
        hang_beside(asleep);
        answered_by_ras(40);
        expect_job(calls[1] != NULL ? "straggler" : "peer-died", calls[1] != NULL ? GW_ESTABLISHED : GW_SUPPORTED);
        assert_true(why_has(verdict, "rank 1 (pid 202) has launched 40 ncclAllReduce, others 41"));
    }
    calls[1] = "A:1/2 ar40.";
    open_job();
    hang_beside(asleep);
    answered_by_ras(41);
    expect_job("straggler", GW_ESTABLISHED);
    assert_false(why_has(verdict, "RAS"));
}

GW_TEST(losses_are_no_proof)
{
    calls[0] = "A:0/2 ar41~";
    calls[1] = "A:1/2 ar40.";
    open_job();
    gw_error err;
    gw_item item = {.kind = GW_ITEM_LOST, .t_ns = feed.t_ns, .pid = pid_of(1), .lost = {3, 0, 0}};
    assert_int_equal(gw_model_feed(feed.model, &item, &err), GW_OK);
    hang_beside(asleep);
    expect_job("straggler", GW_SUPPORTED);
    open_job();
    hang_beside(asleep);
    is_unseen = true;
    expect_job("straggler", GW_SUPPORTED);
    is_unseen = false;
}

GW_TEST(a_good_run_is_clean)
{
    calls[0] = "A:0/2 ar40. ar41~";
    calls[1] = "A:1/2 ar40. bc41^0~";
    open_job();
    for (uint32_t rank = 0; rank < WORLD; rank++)
        gw_feed_exit_of(&feed, pid_of(rank), 0, 0);
    gw_feed_exit(&feed, 0, 0);
    judge_job();
    assert_int_equal(verdict->status, GW_VERDICT_CLEAN);
}

GW_TEST(a_rank_that_never_joins)
{
    calls[0] = "A:0/2 init";
    calls[1] = NULL;
    open_job();
    wait_for(0, 0xf2f2);
    gw_feed_wait(&feed, 10 * second_ns);
    hang_of(0, 5000, "wait=input name=python3");
    hang_of(1, 0, asleep);
    expect_job("straggler", GW_ESTABLISHED);
    assert_true(why_has(verdict, "rank 1 (pid 202) has not joined the communicator: it is sleeping"));
}

/* NCCL itself refuses two ranks on one card. */
GW_TEST(two_ranks_on_one_card)
{
    calls[0] = "A:0/2 init";
    calls[1] = "A:1/2 init";
    for (int is_repaired = 0; is_repaired < 2; is_repaired++) {
        open_job();
        if (!is_repaired)
            gw_feed_stderr(&feed,
                           "node01:202:202 [0] init.cc:981 NCCL WARN Duplicate GPU detected : rank 0 and rank 1 both "
                           "on CUDA device 18000\n"
                           "[rank1]: Traceback (most recent call last):\n"
                           "[rank1]:   File \"/home/u/ranks.py\", line 288, in one_card\n"
                           "[rank1]:     dist.all_reduce(data)\n"
                           "[rank1]:   File \"/usr/lib/python3/dist-packages/torch/distributed/c10d.py\", line 83, in "
                           "wrapper\n"
                           "[rank1]: torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:77, invalid "
                           "usage, NCCL version 2.28.9\n"
                           "[rank1]: ncclInvalidUsage: This usually reflects invalid usage of NCCL library.\n"
                           "[rank1]: Last error:\n"
                           "[rank1]: Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 18000\n"
                           "Traceback (most recent call last):\n"
                           "  File \"/usr/bin/torchrun\", line 8, in <module>\n"
                           "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n");
        for (uint32_t rank = 0; rank < WORLD; rank++)
            gw_feed_exit_of(&feed, pid_of(rank), !is_repaired, 0);
        gw_feed_exit(&feed, !is_repaired, 0);
        judge_job();
        assert_string_equal(verdict->cause == NULL ? "none" : verdict->cause,
                            is_repaired ? "none" : "wrong-current-device");
        assert_true(is_repaired || (verdict->where != NULL && verdict->where->frame[0].line == 288));
    }
}

GW_TEST_MAIN(NULL, NULL)
