/* Tests the causes that lie in the machine or the card. Each case has a counterpart that differs a little and must get
 * another verdict. */
#include "gw_unit_test.h"
#include "gwi_shm.h"
#include "verdict_testlib.h"

static bool says(const char *part)
{
    return why_has(verdict, part) || list_has(&verdict->advice, part);
}

/* ---- killed for lack of host memory ---- */

static void host_counts(uint64_t group, uint64_t machine)
{
    gw_feed_sample(&feed, GW_METRIC_CGROUP_OOM_KILLS, GW_NO_DEVICE, 0, group);
    gw_feed_sample(&feed, GW_METRIC_HOST_OOM_KILLS, GW_NO_DEVICE, 0, machine);
}

static void open_host_run(void)
{
    gw_feed_open(&feed, 16 * gib);
    gw_feed_alloc(&feed, gib);
    gw_feed_sample(&feed, GW_METRIC_CGROUP_MEMORY_LIMIT, GW_NO_DEVICE, 0, 64 << 20);
    gw_feed_sample(&feed, GW_METRIC_CGROUP_MEMORY_PEAK, GW_NO_DEVICE, 0, 10 << 20);
    host_counts(3, 22);
    gw_feed_wait(&feed, second_ns);
}

/* Let SIGKILL end the program, and check cause and certainty. */
static void expect_killed(const char *cause, gw_certainty certainty)
{
    gw_feed_exit(&feed, -1, 9);
    expect_cause(cause, certainty);
}

GW_TEST(systemd_oomd_is_named)
{
    for (int late = 0; late < 2; late++) {
        open_host_run();
        gw_feed_machine(&feed, GW_MACHINE_OOM_KILL, GW_SOURCE_CGROUP, GW_NO_DEVICE, 0, GW_OOM_BY_OOMD, 4,
                        "user.oomd_kill rose from 0 to 4");
        gw_feed_wait(&feed, late ? 60 * second_ns : second_ns / 2);
        host_counts(3, 22);
        expect_killed("host-oom-kill", late ? GW_SUPPORTED : GW_ESTABLISHED);
        assert_non_null(strstr(verdict->headline, "systemd-oomd"));
        assert_true(says("user.oomd_kill"));
    }
}

GW_TEST(the_kernel_names_the_command)
{
    open_host_run();
    gw_feed_machine(&feed, GW_MACHINE_OOM_KILL, GW_SOURCE_KERNEL_LOG, GW_NO_DEVICE, GW_FEED_PID, 1, 1,
                    "Memory cgroup out of memory: Killed process 100 (program) total-vm:9000kB");
    expect_killed("host-oom-kill", GW_ESTABLISHED);
    assert_true(says("control group") && says("Killed process 100"));
}

GW_TEST(the_group_count_rises_with_the_death)
{
    open_host_run();
    gw_feed_machine(&feed, GW_MACHINE_OOM_KILL, GW_SOURCE_CGROUP, GW_NO_DEVICE, 0, 2, 1,
                    "the control group's oom_kill count rose from 3 to 4");
    host_counts(4, 23);
    gw_feed_wait(&feed, second_ns / 10);
    expect_killed("host-oom-kill", GW_ESTABLISHED);
}

/* The control group's count of out-of-memory kills rose a minute before the process died, because another process of
 * the group was killed. */
GW_TEST(the_group_count_rose_earlier)
{
    open_host_run();
    gw_feed_machine(&feed, GW_MACHINE_OOM_KILL, GW_SOURCE_CGROUP, GW_NO_DEVICE, 0, 2, 1, "oom_kill 3 to 4");
    host_counts(4, 23);
    gw_feed_wait(&feed, 60 * second_ns);
    expect_killed("host-oom-kill", GW_SUPPORTED);
}

GW_TEST(a_kill_by_hand)
{
    open_host_run();
    host_counts(3, 22);
    expect_killed("killed-by-scheduler-or-user", GW_SUPPORTED);
    assert_true(list_has(&verdict->ruled_out, "out-of-memory killer"));
}

/* The kernel killed a process outside our control group, so the machine's count of out-of-memory kills rose, but the
 * group's did not. */
GW_TEST(somebody_else_was_killed)
{
    open_host_run();
    host_counts(3, 23);
    gw_feed_machine(&feed, GW_MACHINE_OOM_KILL, GW_SOURCE_KERNEL_LOG, GW_NO_DEVICE, 4711, 0, 1,
                    "Out of memory: Killed process 4711 (other) total-vm:9000kB");
    expect_killed("killed-by-scheduler-or-user", GW_SUPPORTED);
}

/* The counts of out-of-memory kills could not be read, so the out-of-memory killer is not ruled out. */
GW_TEST(nothing_is_known_of_the_host)
{
    gw_feed_open(&feed, 16 * gib);
    expect_killed("killed-by-scheduler-or-user", GW_SUPPORTED);
    assert_false(list_has(&verdict->ruled_out, "out-of-memory killer"));
    assert_true(list_has(&verdict->next, "Out of memory"));
}

/* The kernel killed a worker without driver calls. The parent's exception names the worker's pid. */
GW_TEST(a_worker_was_killed)
{
    open_host_run();
    gw_feed_machine(&feed, GW_MACHINE_OOM_KILL, GW_SOURCE_KERNEL_LOG, GW_NO_DEVICE, 555, 0, 1,
                    "Out of memory: Killed process 555 (python3) total-vm:9000kB");
    expect_failure_told("Traceback (most recent call last):\n  File \"train.py\", line 3, in <module>\n"
                        "RuntimeError: DataLoader worker (pid 555) is killed by signal: Killed. \n",
                        "host-oom-kill", GW_ESTABLISHED);
}

GW_TEST(an_oom_kill_elsewhere_harms_nobody)
{
    open_host_run();
    gw_feed_machine(&feed, GW_MACHINE_OOM_KILL, GW_SOURCE_CGROUP, GW_NO_DEVICE, 0, 2, 1, "oom_kill 3 to 4");
    host_counts(4, 23);
    gw_feed_exit(&feed, 0, 0);
    judge_open();
    assert_int_equal(verdict->status, GW_VERDICT_CLEAN);
}

/* ---- /dev/shm ---- */

static void shm(uint64_t total, uint64_t room)
{
    gw_feed_sample(&feed, GW_METRIC_SHM_TOTAL, GW_NO_DEVICE, 0, total);
    gw_feed_sample(&feed, GW_METRIC_SHM_FREE, GW_NO_DEVICE, 0, room);
}

GW_TEST(shm_has_room_at_sigbus)
{
    gw_feed_open(&feed, 16 * gib);
    shm(8 * gib, 7 * gib);
    gw_feed_exit(&feed, -1, 7);
    /* the verdict is only supported, because /dev/shm may have been full between two samples */
    expect_cause("host-crash-of-process", GW_SUPPORTED);
    assert_true(list_has(&verdict->next, "memory-mapped data sets"));
    assert_true(list_has(&verdict->next, "df /dev/shm"));
}

/* Feed a process that died of a SIGBUS with this si_code; 0: the fault was not recorded.
 * - first_room, last_room: free bytes in /dev/shm one second before the end, and at the end
 * - file: the mapped file that a core dump names; "" if it names none; NULL if there is no core dump. A signal
 *   handler then recorded the fault, and does not know the file. */
static void bus_of(uint64_t first_room, uint64_t last_room, int code, const char *file)
{
    enum { BUS = 7, ADDRESS = 0x7f00000 };
    char value[512];
    gw_feed_open(&feed, 16 * gib);
    shm(gib, first_room);
    gw_feed_wait(&feed, second_ns);
    shm(gib, last_room);
    snprintf(value, sizeof value, "path=/w/core\nsignal=7\ntid=100\ncode=%d\naddress=0x%x\nfile=%s\n", code, ADDRESS,
             file != NULL ? file : "");
    if (file == NULL && code != 0)
        gw_feed_call(&feed, "?", GW_EV_CRASH, 0, BUS, ADDRESS, (uint64_t)(int64_t)code, 0x401000);
    else if (code != 0)
        fact_of(GW_FEED_PID, 0, "host.core", value);
    gw_feed_exit(&feed, -1, BUS);
}

GW_TEST(the_fault_decides_at_sigbus)
{
    enum { SENT = -6, NOT_RECORDED = 0, ADRALN = 1, ADRERR = 2, MCEERR_AR = 4 };
    static const char *const causes[] = {"shm-exhausted", "host-crash-of-process"};
    enum { SHM, CRASH };
    static const struct {
        uint64_t first, last;
        int code;
        const char *file;
        int cause; /* the other one is an alternative of the certainty `other` */
        gw_certainty certainty, other;
        const char *says;
    } rows[] = {
        {1u << 30, 0, NOT_RECORDED, NULL, SHM, GW_ESTABLISHED, GW_CERTAINTY_NONE, "SIGBUS"},
        /* it had been full before, so it alone does not prove why the process died */
        {0, 0, NOT_RECORDED, NULL, SHM, GW_SUPPORTED, GW_SUPPORTED, "SIGBUS"},
        /* a little room was left: the process may have requested more, or died for another reason */
        {1u << 30, 20 << 20, NOT_RECORDED, NULL, CRASH, GW_SUPPORTED, GW_HYPOTHESIS, "SIGBUS"},
        {1u << 30, 4 << 20, NOT_RECORDED, NULL, SHM, GW_SUPPORTED, GW_SUPPORTED, "SIGBUS"},
        {0, 0, ADRERR, "/dev/shm/torch_12 (deleted)", SHM, GW_ESTABLISHED, GW_CERTAINTY_NONE,
         "of the mapped file /dev/shm/torch_12"},
        {1u << 30, 0, ADRERR, "/data/train.bin", CRASH, GW_ESTABLISHED, GW_CERTAINTY_NONE,
         "of the mapped file /data/train.bin"},
        {1u << 30, 20 << 20, ADRERR, "/dev/shm/psm_1", SHM, GW_SUPPORTED, GW_SUPPORTED, "psm_1"},
        /* room was left, so the file may have been truncated */
        {1u << 30, 1u << 30, ADRERR, "/dev/shm/psm_1", CRASH, GW_SUPPORTED, GW_HYPOTHESIS, "psm_1"},
        {1u << 30, 1u << 30, ADRERR, "/dev/shmall/x", CRASH, GW_ESTABLISHED, GW_CERTAINTY_NONE, "shmall"},
        {1u << 30, 0, ADRERR, "", SHM, GW_ESTABLISHED, GW_CERTAINTY_NONE, "SIGBUS"},
        {1u << 30, 0, ADRERR, NULL, SHM, GW_ESTABLISHED, GW_CERTAINTY_NONE, "SIGBUS"},
        {1u << 30, 1u << 30, ADRERR, NULL, CRASH, GW_SUPPORTED, GW_CERTAINTY_NONE, "at address"},
        {1u << 30, 0, ADRALN, NULL, CRASH, GW_ESTABLISHED, GW_CERTAINTY_NONE, "at address"},
        {1u << 30, 0, SENT, NULL, CRASH, GW_ESTABLISHED, GW_CERTAINTY_NONE, "was sent"},
        {1u << 30, 0, MCEERR_AR, NULL, CRASH, GW_ESTABLISHED, GW_CERTAINTY_NONE, "memory failed"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bus_of(rows[i].first, rows[i].last, rows[i].code, rows[i].file);
        judge_open();
        gw_certainty other = certainty_of_alternative(verdict, causes[!rows[i].cause]);
        if (verdict->cause == NULL || strcmp(verdict->cause, causes[rows[i].cause]) != 0 ||
            verdict->certainty != rows[i].certainty || other != rows[i].other || !why_has(verdict, rows[i].says))
            fail_msg("row %zu: %s (%s), the other %s: %s", i, verdict->cause, gw_certainty_text(verdict->certainty),
                     gw_certainty_text(other), verdict->headline);
    }
    bus_of(gib, gib, ADRERR, "/data/train.bin");
    judge_open();
    assert_true(list_has(&verdict->next, "whether /data/train.bin was truncated"));
}

/* What no run above shows. */
GW_TEST(the_certainty_of_a_full_shm)
{
#define FULL .known = true, .was_short = true, .was_full = true
    static const struct {
        gwi_shm it;
        gw_certainty certainty;
    } rows[] = {
        {{.told = true}, GW_HYPOTHESIS},
        {{.told = true, .known = true, .is_small = true}, GW_HYPOTHESIS},
        {{.told = true, .known = true}, GW_CERTAINTY_NONE}, /* every sample showed room */
        {{.told = true, .known = true, .was_short = true}, GW_SUPPORTED},
        {{.told = true, FULL}, GW_SUPPORTED},
        {{.told = true, FULL, .full_at_end = true}, GW_SUPPORTED},
        {{.told = true, .told_of_room = true, FULL, .full_at_end = true}, GW_ESTABLISHED},
        {{.told = true, .told_of_room = true, FULL, .full_at_end = true, .failed = true}, GW_SUPPORTED},
        {{.told = true, .told_of_room = true, FULL, .full_at_end = true, .refused = true}, GW_HYPOTHESIS},
        {{.ambiguous = true}, GW_CERTAINTY_NONE},
        {{.ambiguous = true, FULL}, GW_HYPOTHESIS},
        {{.ambiguous = true, FULL, .full_at_end = true}, GW_SUPPORTED},
        {{FULL, .full_at_end = true, .without_room = true}, GW_CERTAINTY_NONE}, /* nothing died of it */
        {{.died = true}, GW_CERTAINTY_NONE},
        {{.died = true, .in_file = true}, GW_SUPPORTED},
        {{.died = true, FULL, .became_full = true, .full_at_end = true}, GW_SUPPORTED},
        {{.died = true, FULL, .without_room = true, .full_at_end = true}, GW_SUPPORTED},
    };
#undef FULL
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (gwi_shm_decide(&rows[i].it) != rows[i].certainty)
            fail_msg("row %zu: %s", i, gw_certainty_text(gwi_shm_decide(&rows[i].it)));
}

GW_TEST(shm_is_full_in_words)
{
    gw_feed_open(&feed, 16 * gib);
    shm(64 << 20, 0);
    expect_failure_told(
        "Traceback (most recent call last):\n  File \"train.py\", line 3, in <module>\n"
        "RuntimeError: DataLoader worker (pid 555) is killed by signal: Bus error. It is possible that "
        "dataloader's workers are out of shared memory. Please try to raise your shared memory limit.\n",
        "shm-exhausted", GW_ESTABLISHED);
}

GW_TEST(shm_full_and_another_end)
{
    gw_feed_open(&feed, 16 * gib);
    shm(64 << 20, 0);
    expect_failure_told("Traceback (most recent call last):\n  File \"x.py\", line 3, in <module>\nKeyError: 'a'\n",
                        "script-exception", GW_ESTABLISHED);
}

/* ---- cards ---- */

static void xid(uint32_t card, uint64_t number, const char *line)
{
    gw_feed_machine(&feed, GW_MACHINE_XID, line[0] == '\0' ? GW_SOURCE_NVML : GW_SOURCE_KERNEL_LOG, card, 0, number, 0,
                    line);
}

GW_TEST(off_the_bus)
{
    open_card_run();
    xid(1, 79, "");
    lose_context(719);
    expect_cause("gpu-off-bus", GW_ESTABLISHED);
    assert_true(says("GPU 0") && says("Xid 79"));
}

GW_TEST(another_card_is_off_the_bus)
{
    open_card_run();
    xid(0, 79, "");
    lose_context(719);
    expect_cause("kernel-fault-other", GW_ESTABLISHED);
}

GW_TEST(off_the_bus_by_the_log_alone)
{
    open_card_run();
    xid(GW_NO_DEVICE, 79,
        "NVRM: Xid (PCI:0000:af:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.");
    lose_context(700);
    expect_cause("gpu-off-bus", GW_ESTABLISHED);
}

/* The card fell off the bus a minute after the program had failed for another reason. */
GW_TEST(off_the_bus_too_late)
{
    open_card_run();
    gw_feed_call(&feed, "cuCtxSynchronize", GW_EV_SYNC, 700, 0, 0, 0, 0);
    gw_feed_wait(&feed, 60 * second_ns);
    xid(1, 79, "");
    expect_failure("illegal-address", GW_ESTABLISHED);
}

GW_TEST(nvml_says_lost)
{
    open_card_run();
    gw_feed_sample(&feed, GW_METRIC_CARD_STATUS, 1, 0, 0);
    gw_feed_wait(&feed, second_ns);
    gw_feed_sample(&feed, GW_METRIC_CARD_STATUS, 1, 0, 15);
    lose_context(999);
    expect_cause("gpu-off-bus", GW_ESTABLISHED);
}

GW_TEST(application_xids_are_no_hardware)
{
    open_card_run();
    xid(1, 31, "");
    xid(1, 43, "");
    lose_context(700);
    expect_cause("illegal-address", GW_ESTABLISHED);
}

GW_TEST(uncorrectable_memory)
{
    open_card_run();
    gw_feed_sample(&feed, GW_METRIC_CARD_ECC_UNCORRECTED, 1, 0, 5);
    gw_feed_wait(&feed, second_ns);
    gw_feed_sample(&feed, GW_METRIC_CARD_ECC_UNCORRECTED, 1, 0, 6);
    gw_feed_sample(&feed, GW_METRIC_CARD_REMAP_PENDING, 1, 0, 1);
    xid(1, 48, "");
    lose_context(700);
    expect_cause("ecc-uncorrectable", GW_ESTABLISHED);
    assert_true(says("Xid 48") && says("uncorrectable memory errors of GPU 0 during the run: 1") && says("next reset"));
}

/* There is no Xid. The counter of uncorrected memory errors rose, and a call returned 214
 * (CUDA_ERROR_ECC_UNCORRECTABLE). */
GW_TEST(uncorrectable_memory_by_the_counter)
{
    open_card_run();
    gw_feed_sample(&feed, GW_METRIC_CARD_ECC_UNCORRECTED, 1, 0, 5);
    gw_feed_wait(&feed, second_ns);
    gw_feed_sample(&feed, GW_METRIC_CARD_ECC_UNCORRECTED, 1, 0, 6);
    lose_context(214);
    expect_cause("ecc-uncorrectable", GW_ESTABLISHED);
}

/* A memory error hit another process on the card, and our process ran out of memory for another reason. */
GW_TEST(contained_error_of_somebody_else)
{
    open_card_run();
    xid(1, 94, "");
    for (int i = 0; i < 7; i++)
        gw_feed_alloc(&feed, 2 * gib);
    gw_feed_no_room(&feed, 4 * gib, gib / 2, 16 * gib);
    expect_failure("gpu-oom-capacity", GW_SUPPORTED);
}

GW_TEST(off_the_bus_after_a_full_card)
{
    open_card_run();
    for (int i = 0; i < 7; i++)
        gw_feed_alloc(&feed, 2 * gib);
    gw_feed_no_room(&feed, 4 * gib, gib / 2, 16 * gib);
    xid(1, 79, "");
    expect_failure("gpu-oom-capacity", GW_SUPPORTED);
}

GW_TEST(old_memory_errors_are_no_news)
{
    open_card_run();
    gw_feed_sample(&feed, GW_METRIC_CARD_ECC_UNCORRECTED, 1, 0, 5);
    gw_feed_wait(&feed, second_ns);
    gw_feed_sample(&feed, GW_METRIC_CARD_ECC_UNCORRECTED, 1, 0, 5);
    gw_feed_sample(&feed, GW_METRIC_CARD_ECC_UNCORRECTED, 0, 0, 5);
    gw_feed_wait(&feed, second_ns);
    /* the counter of card 0, which the program does not use */
    gw_feed_sample(&feed, GW_METRIC_CARD_ECC_UNCORRECTED, 0, 0, 9);
    lose_context(700);
    expect_cause("illegal-address", GW_ESTABLISHED);
}

/* ---- holders of memory ---- */

GW_TEST(nvml_names_the_holder)
{
    open_card_run();
    gw_feed_no_room(&feed, 4 * gib, 2 * gib, 16 * gib);
    gw_feed_fact(&feed, "card.holder", "pid=100 bytes=1610612736 card=1 cmd=program");
    gw_feed_fact(&feed, "card.holder", "pid=4711 bytes=13958643712 card=1 user=ann cmd=python notebook.py device=7");
    gw_feed_fact(&feed, "card.holder", "pid=4712 bytes=15032385536 card=0 user=ann cmd=python other.py");
    expect_failure("gpu-oom-other-process", GW_ESTABLISHED);
    assert_true(says("4711") && says("notebook.py") && !says("4712"));
}

GW_TEST(the_holder_is_on_another_card)
{
    open_card_run();
    for (int i = 0; i < 6; i++)
        gw_feed_alloc(&feed, 2 * gib);
    gw_feed_no_room(&feed, 4 * gib, gib, 16 * gib);
    gw_feed_fact(&feed, "card.holder", "pid=4712 bytes=15032385536 card=0 user=ann cmd=python other.py");
    expect_failure("gpu-oom-capacity", GW_SUPPORTED);
}

/* Another process held most of the memory of the card at the first refusal, but had ended long before the program
 * failed for lack of memory. */
GW_TEST(the_holder_had_gone)
{
    open_card_run();
    gw_feed_no_room(&feed, 4 * gib, 2 * gib, 16 * gib);
    gw_feed_fact(&feed, "card.holder", "pid=4711 bytes=13958643712 card=1 user=ann cmd=python notebook.py");
    gw_feed_wait(&feed, 100 * second_ns);
    for (int i = 0; i < 7; i++)
        gw_feed_alloc(&feed, 2 * gib);
    gw_feed_sync(&feed);
    gw_feed_no_room(&feed, 4 * gib, gib, 16 * gib);
    gw_feed_fact(&feed, "card.holder", "pid=100 bytes=16106127360 card=1 cmd=program");
    expect_failure("gpu-oom-capacity", GW_SUPPORTED);
    assert_false(says("4711"));
}

/* NVML lists processes by pids of the host, which mean nothing in a container. The verdict must name no holder of
 * the memory, and say why. */
GW_TEST(holders_of_another_namespace)
{
    open_card_run();
    gw_feed_no_room(&feed, 4 * gib, gib, 16 * gib);
    gw_feed_fact(&feed, "card.holder.unmatched", "pid=88123 bytes=15032385536 card=1 ");
    gw_feed_fact(&feed, "device.holder", "pid=100 user=ann cmd=program");
    gw_feed_fact(&feed, "device.holder", "pid=321 user=ann cmd=python stale.py");
    expect_failure("gpu-oom-other-process", GW_SUPPORTED);
    assert_true(says("pid=321") && !says("pid=100") && says("pid namespace") && !says("88123"));
}

/* ---- advice ---- */

static void reasons(uint64_t bits, unsigned seconds)
{
    for (unsigned i = 0; i < seconds; i++, gw_feed_wait(&feed, second_ns))
        gw_feed_sample(&feed, GW_METRIC_CARD_CLOCK_REASONS, 1, 0, bits);
}

static void end_well(void)
{
    gw_feed_sync(&feed);
    gw_feed_exit(&feed, 0, 0);
    judge_open();
    assert_int_equal(verdict->status, GW_VERDICT_CLEAN);
}

GW_TEST(heat_is_advice)
{
    open_card_run();
    gw_feed_sample(&feed, GW_METRIC_CARD_TEMPERATURE, 1, 0, 91);
    reasons(0, 10);
    reasons(GW_CLOCK_REASON_HW_THERMAL | GW_CLOCK_REASON_HW_SLOWDOWN, 5);
    reasons(0, 1);
    end_well();
    assert_true(says("GPU 0 ran at lower clocks because of heat for 5.0 of"));
    assert_true(says("91 C"));
}

GW_TEST(a_busy_card_at_its_limit_is_well)
{
    open_card_run();
    gw_feed_sample(&feed, GW_METRIC_CARD_POWER_LIMIT, 1, 0, 700000);
    gw_feed_sample(&feed, GW_METRIC_CARD_POWER_LIMIT_DEFAULT, 1, 0, 700000);
    gw_feed_sample(&feed, GW_METRIC_CARD_PCIE_WIDTH, 1, 0, 16);
    gw_feed_sample(&feed, GW_METRIC_CARD_PCIE_WIDTH_MAX, 1, 0, 16);
    gw_feed_sample(&feed, GW_METRIC_CARD_PCIE_GENERATION, 1, 0, 1);
    gw_feed_sample(&feed, GW_METRIC_CARD_PCIE_GENERATION_MAX, 1, 0, 5);
    gw_feed_sample(&feed, GW_METRIC_CARD_UTILISATION, 1, 0, 0);
    reasons(GW_CLOCK_REASON_IDLE, 3);
    gw_feed_sample(&feed, GW_METRIC_CARD_PCIE_GENERATION, 1, 0, 5); /* the link leaves its idle state */
    gw_feed_sample(&feed, GW_METRIC_CARD_UTILISATION, 1, 0, 100);
    gw_feed_sample(&feed, GW_METRIC_CARD_PCIE_REPLAYS, 1, 0, 1000);
    reasons(GW_CLOCK_REASON_POWER_CAP, 30);
    gw_feed_sample(&feed, GW_METRIC_CARD_PCIE_REPLAYS, 1, 0, 1001);
    end_well();
    assert_false(says("PCIe") || says("power") || says("heat"));
}

GW_TEST(a_lowered_limit_and_a_brake_are_advice)
{
    open_card_run();
    gw_feed_sample(&feed, GW_METRIC_CARD_POWER_LIMIT, 1, 0, 400000);
    gw_feed_sample(&feed, GW_METRIC_CARD_POWER_LIMIT_DEFAULT, 1, 0, 700000);
    reasons(GW_CLOCK_REASON_POWER_CAP | GW_CLOCK_REASON_POWER_BRAKE, 10);
    reasons(0, 1);
    end_well();
    assert_true(says("power limit of 400 W, below its standard 700 W"));
    assert_true(says("power brake"));
}

GW_TEST(a_narrow_link_is_advice)
{
    open_card_run();
    gw_feed_sample(&feed, GW_METRIC_CARD_PCIE_WIDTH, 1, 0, 4);
    gw_feed_sample(&feed, GW_METRIC_CARD_PCIE_WIDTH_MAX, 1, 0, 16);
    gw_feed_sample(&feed, GW_METRIC_CARD_PCIE_REPLAYS, 1, 0, 1000);
    gw_feed_sample(&feed, GW_METRIC_CARD_UTILISATION, 1, 0, 90);
    gw_feed_wait(&feed, second_ns);
    gw_feed_sample(&feed, GW_METRIC_CARD_PCIE_REPLAYS, 1, 0, 1500);
    end_well();
    assert_true(says("4 of 16 lanes"));
    assert_true(says("500 packets"));
}

GW_TEST_MAIN(NULL, NULL)
