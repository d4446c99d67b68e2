/* Tests the reader of control groups on made-up machines and on this one. */
#define _GNU_SOURCE
#include "gwi_host.h"

#include "made_root_testlib.h"

#include <unistd.h>

enum { PID = 77 };

/* One file of a made-up machine. A list of files ends with an entry without a name. */
typedef struct made_file {
    const char *name, *text;
} made_file;

static void write_files(const made_file *file)
{
    for (; file->name != NULL; file++)
        write_file(file->name, "w", file->text);
}

static gwi_values read_group(void)
{
    static gwi_cgroup group;
    gwi_values values = {0};
    gwi_cgroup_find(&group, made_root, PID);
    gwi_cgroup_read(&group, &values);
    return values;
}

static void expect(const gwi_values *values, gw_metric metric, gw_sample_state state, uint64_t value)
{
    const gw_sample_value *got = &values->value[metric];
    if (!values->has[metric] || got->state != state || got->value != value)
        fail_msg("%s: %s %llu, not %s %llu", gw_metric_find(metric)->name, gw_sample_state_text(got->state),
                 (unsigned long long)got->value, gw_sample_state_text(state), (unsigned long long)value);
}

typedef struct wanted {
    gw_metric metric;
    gw_sample_state state;
    uint64_t value;
} wanted;

static void expect_all(const gwi_values *values, const wanted *want, size_t count)
{
    for (size_t i = 0; i < count; i++)
        expect(values, want[i].metric, want[i].state, want[i].value);
}
#define EXPECT_ALL(values, want) expect_all(values, want, sizeof(want) / sizeof(want)[0])

static void version_2(void **state)
{
    static const made_file files[] = {
        {"/proc/77/cgroup", "0::/user.slice/job\n"},
        {"/proc/77/mountinfo", "22 1 0:20 / /sys rw - sysfs sysfs rw\n"
                               "30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"},
        {"/sys/fs/cgroup/user.slice/memory.max", "4294967296\n"}, /* this limit applies, because the job has none */
        {"/sys/fs/cgroup/user.slice/job/memory.max", "max\n"},
        {"/sys/fs/cgroup/user.slice/job/memory.current", "1000\n"},
        {"/sys/fs/cgroup/user.slice/job/memory.peak", "2000\n"},
        {"/sys/fs/cgroup/user.slice/job/memory.events", "low 0\nhigh 1\nmax 5\noom 3\noom_kill 2\noom_group_kill 9\n"},
        {"/sys/fs/cgroup/user.slice/job/memory.pressure",
         "some avg10=0.00 avg60=0.00 avg300=0.00 total=12345\nfull avg10=0.00 total=99\n"},
        {"/sys/fs/cgroup/user.slice/job/cpu.max", "150000 100000\n"},
        {"/sys/fs/cgroup/user.slice/job/cpu.stat",
         "usage_usec 5\nnr_periods 100\nnr_throttled 40\nthrottled_usec 7000\n"},
        {"/sys/fs/cgroup/user.slice/job/pids.max", "100\n"},
        {"/sys/fs/cgroup/user.slice/job/pids.current", "7\n"},
        {NULL, NULL}};
    static const wanted want[] = {
        {GW_METRIC_CGROUP_MEMORY_USED, GW_SAMPLE_KNOWN, 1000},
        {GW_METRIC_CGROUP_MEMORY_PEAK, GW_SAMPLE_KNOWN, 2000},
        {GW_METRIC_CGROUP_MEMORY_LIMIT, GW_SAMPLE_KNOWN, 4294967296},
        {GW_METRIC_CGROUP_OOM_KILLS, GW_SAMPLE_KNOWN, 2},
        {GW_METRIC_CGROUP_MEMORY_REFUSED, GW_SAMPLE_KNOWN, 5},
        {GW_METRIC_CGROUP_MEMORY_STALLED, GW_SAMPLE_KNOWN, 12345},
        {GW_METRIC_CGROUP_CPU_LIMIT, GW_SAMPLE_KNOWN, 1500},
        {GW_METRIC_CGROUP_CPU_PERIODS, GW_SAMPLE_KNOWN, 100},
        {GW_METRIC_CGROUP_CPU_THROTTLED, GW_SAMPLE_KNOWN, 40},
        {GW_METRIC_CGROUP_CPU_THROTTLED_TIME, GW_SAMPLE_KNOWN, 7000000},
        {GW_METRIC_CGROUP_PIDS, GW_SAMPLE_KNOWN, 7},
        {GW_METRIC_CGROUP_PIDS_LIMIT, GW_SAMPLE_KNOWN, 100},
    };
    (void)state;
    write_files(files);
    gwi_values values = read_group();
    EXPECT_ALL(&values, want);
}

/* Without a file for the memory limit, the limit is known: there is none. Any other missing file or line makes its
 * value "not supported", not 0. */
static void version_2_without_limits(void **state)
{
    (void)state;
    write_file("/proc/77/cgroup", "w", "0::/\n");
    write_file("/proc/77/mountinfo", "w", "30 22 0:26 / /cg rw - cgroup2 none rw\n");
    write_file("/cg/memory.events", "w", "oom 0\n"); /* older kernels write no line "oom_kill" */
    gwi_values values = read_group();
    expect(&values, GW_METRIC_CGROUP_MEMORY_LIMIT, GW_SAMPLE_KNOWN, UINT64_MAX);
    expect(&values, GW_METRIC_CGROUP_OOM_KILLS, GW_SAMPLE_NOT_SUPPORTED, 0);
    expect(&values, GW_METRIC_CGROUP_MEMORY_PEAK, GW_SAMPLE_NOT_SUPPORTED, 0);
    expect(&values, GW_METRIC_CGROUP_CPU_LIMIT, GW_SAMPLE_NOT_SUPPORTED, 0);
}

/* A container on a machine with control groups of both versions; version 1 has the controllers. The container's own
 * group is the top of its tree. */
static void version_1_in_a_container(void **state)
{
    static const made_file files[] = {
        {"/proc/77/cgroup", "9:name=systemd:/docker/abc\n5:memory:/docker/abc/sub\n4:cpu,cpuacct:/docker/abc\n"
                            "0::/docker/abc\n"},
        {"/proc/77/mountinfo", "40 30 0:30 /docker/abc /sys/fs/cgroup/memory ro master:9 - cgroup cgroup rw,memory\n"
                               "41 30 0:31 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n"
                               "42 30 0:32 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"},
        {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "67108864\n"},
        {"/sys/fs/cgroup/memory/sub/memory.limit_in_bytes", "9223372036854771712\n"}, /* means: no limit */
        {"/sys/fs/cgroup/memory/sub/memory.usage_in_bytes", "100\n"},
        {"/sys/fs/cgroup/memory/sub/memory.max_usage_in_bytes", "200\n"},
        {"/sys/fs/cgroup/memory/sub/memory.failcnt", "3\n"},
        {"/sys/fs/cgroup/memory/sub/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n"},
        {"/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n"},
        {"/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"},
        {"/sys/fs/cgroup/cpu,cpuacct/cpu.stat", "nr_periods 1\nnr_throttled 1\nthrottled_time 123\n"},
        {NULL, NULL}};
    static const wanted want[] = {
        {GW_METRIC_CGROUP_MEMORY_LIMIT, GW_SAMPLE_KNOWN, 67108864},
        {GW_METRIC_CGROUP_MEMORY_USED, GW_SAMPLE_KNOWN, 100},
        {GW_METRIC_CGROUP_MEMORY_PEAK, GW_SAMPLE_KNOWN, 200},
        {GW_METRIC_CGROUP_OOM_KILLS, GW_SAMPLE_KNOWN, 4},
        {GW_METRIC_CGROUP_MEMORY_REFUSED, GW_SAMPLE_KNOWN, 3},
        {GW_METRIC_CGROUP_MEMORY_STALLED, GW_SAMPLE_NOT_SUPPORTED, 0},
        {GW_METRIC_CGROUP_CPU_LIMIT, GW_SAMPLE_KNOWN, UINT64_MAX},
        {GW_METRIC_CGROUP_CPU_THROTTLED_TIME, GW_SAMPLE_KNOWN, 123},
        {GW_METRIC_CGROUP_PIDS, GW_SAMPLE_NOT_SUPPORTED, 0}, /* the machine has no pids controller */
    };
    (void)state;
    write_files(files);
    gwi_values values = read_group();
    EXPECT_ALL(&values, want);
    write_file("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "w", "50000\n");
    values = read_group();
    expect(&values, GW_METRIC_CGROUP_CPU_LIMIT, GW_SAMPLE_KNOWN, 500);
}

/* Damaged files must yield no values, and must not crash the reader. */
static void nonsense(void **state)
{
    (void)state;
    static const char *const groups[] = {"", ":", "::", "0::", "0:::/x\n\n", "a:memory", "5:memory:/x", "0::/../../.."};
    static const char *const mounts[] = {"",
                                         "\n",
                                         "1 2 3",
                                         "30 20 0:26 / /cg rw - cgroup2",
                                         " - cgroup2 a b\n",
                                         "30 20 0:26 / /cg rw - cgroup cgroup rw,memory,memory\n"};
    char large[9000];
    memset(large, 'x', sizeof large - 1);
    large[sizeof large - 1] = '\0';
    write_file("/cg/memory.limit_in_bytes", "w", "lots\n");
    write_file("/cg/memory.oom_control", "w", "oom_kill -4\n");
    write_file("/cg/memory.failcnt", "w", "99999999999999999999999\n");
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++)
        for (size_t k = 0; k < sizeof mounts / sizeof mounts[0]; k++) {
            write_file("/proc/77/cgroup", "w", groups[i]);
            write_file("/proc/77/mountinfo", "w", mounts[k]);
            gwi_values values = read_group();
            assert_int_not_equal(values.value[GW_METRIC_CGROUP_OOM_KILLS].state, GW_SAMPLE_KNOWN);
            assert_int_not_equal(values.value[GW_METRIC_CGROUP_MEMORY_REFUSED].state, GW_SAMPLE_KNOWN);
            assert_int_not_equal(values.value[GW_METRIC_CGROUP_MEMORY_USED].state, GW_SAMPLE_KNOWN);
        }
    write_file("/proc/77/cgroup", "w", large);
    write_file("/proc/77/mountinfo", "w", large);
    (void)read_group();
    remove_root(NULL);
    gwi_values values = read_group(); /* the group has no files at all */
    expect(&values, GW_METRIC_CGROUP_OOM_KILLS, GW_SAMPLE_NOT_SUPPORTED, 0);
}

/* Read the values of this machine, this process and its control group. If this machine has no control groups for
 * memory, skip the group. */
static void this_machine(void **state)
{
    (void)state;
    static gwi_cgroup group;
    gwi_values values = {0};
    gwi_cgroup_find(&group, "", getpid());
    gwi_cgroup_read(&group, &values);
    gwi_host_read("", &values);
    assert_true(gwi_process_read("", getpid(), &values));
    assert_int_equal(values.value[GW_METRIC_HOST_MEMORY_TOTAL].state, GW_SAMPLE_KNOWN);
    assert_true(values.value[GW_METRIC_PROCESS_MEMORY].value > 100000);
    assert_true(values.value[GW_METRIC_PROCESS_DESCRIPTORS].value >= 3);
    assert_false(gwi_process_read("", 0x7ffffffe, &values));
    if (group.memory.path[0] == '\0') {
        print_message("skipped: this machine has no control groups for memory\n");
        skip();
    }
    print_message("memory of this process's group: %s, version %d\n", group.memory.path, group.memory.is_v2 ? 2 : 1);
    assert_int_equal(values.value[GW_METRIC_CGROUP_MEMORY_LIMIT].state, GW_SAMPLE_KNOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(version_2, make_root, remove_root),
        cmocka_unit_test_setup_teardown(version_2_without_limits, make_root, remove_root),
        cmocka_unit_test_setup_teardown(version_1_in_a_container, make_root, remove_root),
        cmocka_unit_test_setup_teardown(nonsense, make_root, remove_root),
        cmocka_unit_test(this_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
