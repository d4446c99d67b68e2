/* Tests the kernel log parser with lines of real drivers and kernels, and with damaged lines. */
#include "gw_cudnn_log.h"
#include "gw_klog.h"
#include "gwi_host.h"
#include "made_root_testlib.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ANY GW_MACHINE_EVENT_COUNT

typedef struct row {
    const char *line;
    gw_machine_event_kind kind; /* ANY: the parser must skip the line */
    uint32_t pid;
    uint64_t code, value;
    const char *name;
    int bus; /* number of the PCI bus; -1: the line has no PCI address */
} row;

/* Lines as real drivers and kernels write them, and what the parser must return for them. */
static const row rows[] = {
    {"NVRM: Xid (PCI:0000:01:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.", GW_MACHINE_XID, 0,
     79, 0, "", 1},
    {"[ 1103.983772] NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.", GW_MACHINE_XID, 0, 79, 0, "", 1},
    {"[Mon Jan  1 00:00:00 2024] NVRM: Xid (PCI:0000:02:00): 31, pid=1004, Ch 00000008, intr 00000000. MMU Fault: "
     "ENGINE "
     "GRAPHICS GPCCLIENT_T1_10 faulted @ 0x7f0000000000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ",
     GW_MACHINE_XID, 1004, 31, 0, "", 2},
    {"4,711,5678901,-;NVRM: Xid (PCI:0000:18:00): 31, pid=4242, name=python3, Ch 00000008, intr 10000000",
     GW_MACHINE_XID, 4242, 31, 0, "python3", 0x18},
    {"4,712,5678902,-;NVRM: Xid (PCI:0000:18:00): 13, Graphics SM Warp Exception on (GPC 1, TPC 2, SM 0): Out Of Range "
     "Address",
     GW_MACHINE_XID, 0, 13, 0, "", 0x18},
    {"NVRM: Xid (PCI:0000:18:00): 43, pid=77, name=my prog, Ch 0000000a", GW_MACHINE_XID, 77, 43, 0, "my prog", 0x18},
    {"NVRM: Xid (PCI:0000:18:00 GPU-I:01 GPU-CI:00): 45, pid=5, name=a, Ch 1 caused by previous Xid 31", GW_MACHINE_XID,
     5, 45, 31, "a", 0x18},
    {"NVRM: Xid (0000:03:00): 48, An uncorrectable double bit error (DBE) has been detected", GW_MACHINE_XID, 0, 48, 0,
     "", 3},
    {"NVRM: Xid (PCI:0001:af:00): 94, pid=8, name=b, Contained: SM (0x1). RST: No, D-RST: No", GW_MACHINE_XID, 8, 94, 0,
     "b", 0xaf},
    {"NVRM: Xid (PCI:0000:18:00): 119, pid=9, name=c, Timeout after 45s of waiting for RPC response from GPU0 GSP! "
     "Expected function 76",
     GW_MACHINE_XID, 9, 119, 0, "c", 0x18},
    {"NVRM: Xid (PCI:0000:18:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
     GW_MACHINE_XID, 0, 154, 0, "", 0x18},
    {"NVRM: GPU 0000:01:00.0: GPU has fallen off the bus.", GW_MACHINE_DRIVER_LOG, 0, GW_DRIVER_LINE_OFF_BUS, 0, "", 1},
    {"NVRM: GPU at PCI:0000:01:00: GPU-00000000-0000-0000-0000-000000000001", GW_MACHINE_DRIVER_LOG, 0,
     GW_DRIVER_LINE_OTHER, 0, "", 1},
    {"NVRM: API mismatch: the client has the version 550.54.15, but", GW_MACHINE_DRIVER_LOG, 0, GW_DRIVER_LINE_VERSIONS,
     0, "", -1},
    {"NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x22:0x56:751)", GW_MACHINE_DRIVER_LOG, 0, GW_DRIVER_LINE_INIT, 0,
     "", 1},
    {"nvidia-nvlink: Nvlink Core is being initialized, major device number 235", GW_MACHINE_DRIVER_LOG, 0,
     GW_DRIVER_LINE_NVLINK, 0, "", -1},
    {"nvidia-nvswitch3: SXid (PCI:0000:c4:00.0): 20034, Fatal, Link 30 LTSSM Fault Up", GW_MACHINE_DRIVER_LOG, 0,
     GW_DRIVER_LINE_SWITCH, 20034, "", 0xc4},
    {"Out of memory: Killed process 1234 (python3) total-vm:9000kB, anon-rss:8000kB, file-rss:0kB, UID:1000",
     GW_MACHINE_OOM_KILL, 1234, 0, 1, "python3", -1},
    {"3,99,1,-;Memory cgroup out of memory: Killed process 55 (a) b) (x) total-vm:1kB", GW_MACHINE_OOM_KILL, 55, 1, 1,
     "a", -1},
    {"Killed process 77 (train) total-vm:1kB", GW_MACHINE_OOM_KILL, 77, 2, 1, "train", -1},
    {"python3[1234]: segfault at 7f00deadb000 ip 000055d0 sp 00007ffd error 4 in libc.so.6[7f00+195000]",
     GW_MACHINE_CRASH, 1234, 11, 0x7f00deadb000, "python3", -1},
    {"traps: my [odd] prog[12] general protection fault ip:55 sp:7f error:0 in x[55+1]", GW_MACHINE_CRASH, 12, 11, 0,
     "my [odd] prog", -1},
    {"traps: a[3] trap invalid opcode ip:55 sp:7f error:0 in a[55+1]", GW_MACHINE_CRASH, 3, 4, 0, "a", -1},
    {"prog[44]: unhandled level 2 translation fault (11) at 0x00001000, esr 0x92000006, in prog[aaaa+1000]",
     GW_MACHINE_CRASH, 44, 11, 0x1000, "prog", -1},
    {"pcieport 0000:00:01.0: AER: Corrected error received: 0000:01:00.0", GW_MACHINE_BUS_ERROR, 0, 0, 0, "", 0},
    {"nvidia 0000:41:00.0: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction Layer",
     GW_MACHINE_BUS_ERROR, 0, 1, 0, "", 0x41},
    {"nvidia 0000:41:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Inaccessible", GW_MACHINE_BUS_ERROR, 0, 2,
     0, "", 0x41},
    /* lines that do not concern a GPU run */
    {"usb 1-1: new high-speed USB device", ANY, 0, 0, 0, NULL, -1},
    {"30,1,2,-;NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.", ANY, 0, 0, 0, NULL,
     -1}, /* not the kernel's facility: a program wrote it */
    {"oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),task=python3,pid=5,uid=0", ANY, 0, 0, 0, NULL, -1},
    {"oom_reaper: reaped process 5 (python3), now anon-rss:0kB", ANY, 0, 0, 0, NULL, -1},
    {"pcieport 0000:00:01.0: AER: enabled with IRQ 26", ANY, 0, 0, 0, NULL, -1},
    {"", ANY, 0, 0, 0, NULL, -1},
};

GW_TEST(lines_are_understood)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const row *r = &rows[i];
        gw_klog klog;
        bool kept = gw_klog_parse(r->line, strlen(r->line), &klog);
        if (kept != (r->kind != ANY))
            fail_msg("kept %d: %s", kept, r->line);
        if (!kept)
            continue;
        if (klog.kind != r->kind || klog.pid != r->pid || klog.code != r->code || klog.value != r->value ||
            strcmp(klog.name, r->name) != 0 || klog.has_pci != (r->bus >= 0) ||
            (r->bus >= 0 && klog.bus != (uint32_t)r->bus))
            fail_msg("kind %d pid %u code %llu value %llx name '%s' pci %d bus %x: %s", klog.kind, klog.pid,
                     (unsigned long long)klog.code, (unsigned long long)klog.value, klog.name, klog.has_pci, klog.bus,
                     r->line);
        assert_true(klog.text[0] != '\0' && strchr(klog.text, '\n') == NULL);
    }
}

GW_TEST(stamps_are_read)
{
    gw_klog klog;
    const char *kmsg = "4,711,5678901,-,caller=T1;NVRM: Xid (PCI:0000:18:00): 31, pid=1\n SUBSYSTEM=pci\n";
    assert_true(gw_klog_parse(kmsg, strlen(kmsg), &klog));
    assert_true(klog.has_stamp && klog.stamp_us == 5678901);
    assert_null(strstr(klog.text, "SUBSYSTEM"));
    const char *dmesg = "<4>[ 1103.000772] NVRM: Xid (PCI:0000:01:00): 79, x";
    assert_true(gw_klog_parse(dmesg, strlen(dmesg), &klog));
    assert_true(klog.has_stamp && klog.stamp_us == 1103000772);
    const char *bare = "NVRM: Xid (PCI:0000:01:00): 79, x";
    assert_true(gw_klog_parse(bare, strlen(bare), &klog));
    assert_false(klog.has_stamp);
}

/* The parser must read every Xid number, including unknown ones, and the pid of the process. */
GW_TEST(every_number_is_read)
{
    for (unsigned xid = 1; xid < 300; xid++) {
        char line[160];
        gw_klog klog;
        snprintf(line, sizeof line, "NVRM: Xid (PCI:0000:3b:00): %u, pid=%u, name=p%u, text", xid, xid + 5, xid);
        assert_true(gw_klog_parse(line, strlen(line), &klog));
        assert_int_equal(klog.code, xid);
        assert_int_equal(klog.pid, xid + 5);
    }
}

/* The parser must not crash or read past the end if a line is cut anywhere and one of its bytes is changed. */
GW_TEST(damage_does_no_harm)
{
    gw_klog klog;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t bytes = strlen(rows[i].line);
        for (size_t cut = 0; cut <= bytes; cut++) {
            /* no larger than needed, so that a sanitizer can detect a read past the end */
            char *copy = malloc(cut > 0 ? cut : 1);
            assert_non_null(copy);
            memcpy(copy, rows[i].line, cut);
            (void)gw_klog_parse(copy, cut, &klog);
            for (size_t at = 0; at < cut; at++) {
                for (int value = 0; value < 256; value += 51) {
                    copy[at] = (char)value;
                    if (gw_klog_parse(copy, cut, &klog))
                        assert_true(strlen(klog.name) < GW_KLOG_NAME_MAX && strlen(klog.text) < GW_KLOG_TEXT_MAX);
                }
                copy[at] = rows[i].line[at];
            }
            free(copy);
        }
    }
    static char huge[70000];
    memset(huge, 'x', sizeof huge);
    memcpy(huge, "NVRM: Xid (PCI:0000:3b:00): 31, pid=99999999999999999999999, name=", 66);
    assert_true(gw_klog_parse(huge, sizeof huge, &klog));
    assert_int_equal(klog.pid, 0);
}

/* Tests the cuDNN log parser. Some logs have level letters and some have none. Each is passed in pieces of various
 * sizes. */

static gw_cudnn_message told[8];
static size_t told_count;

static void take(void *user, const gw_cudnn_message *message)
{
    if (told_count < sizeof told / sizeof told[0])
        told[told_count] = *message;
    told_count++;
}

/* Pass the text to the parser in pieces of `piece` bytes. */
static void read_text(const char *text, size_t piece)
{
    gw_cudnn_log log = {0};
    size_t bytes = strlen(text);
    told_count = 0;
    for (size_t at = 0; at < bytes; at += piece)
        gw_cudnn_log_feed(&log, text + at, piece < bytes - at ? piece : bytes - at, take, NULL);
    gw_cudnn_log_end(&log, take, NULL);
}

static const char version_9[] =
    "E! CuDNN (v90300 75) function cudnnBackendFinalize() called:\n"
    "e!         Error: CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED; Reason: ptrDesc->finalize()\n"
    "e! Time: 2025-01-21T05:14:40.853014 (0d+0h+0m+10s since start)\n"
    "e! Process=1856706; Thread=1856707; GPU=NULL; Handle=NULL; StreamId=NULL.\n\n";

GW_TEST(version_9_in_any_pieces)
{
    for (size_t piece = 1; piece < sizeof version_9; piece++) {
        read_text(version_9, piece);
        assert_int_equal(told_count, 1);
        assert_true(told[0].is_error);
        assert_int_equal(told[0].version, 90300);
        assert_int_equal(told[0].pid, 1856706);
        assert_string_equal(told[0].function, "cudnnBackendFinalize");
        assert_string_equal(told[0].status, "CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED");
        assert_string_equal(told[0].reason, "ptrDesc->finalize()");
        assert_int_equal(told[0].more, 0);
    }
}

GW_TEST(version_8_with_a_traceback)
{
    read_text("W! CuDNN (v8902) function cudnnBackendFinalize() called:\n"
              "w!     Info: Traceback contains 3 message(s)\n"
              "w!         Warning: CUDNN_STATUS_NOT_SUPPORTED; Reason: numUserNodes != 5\n"
              "w!         Warning: CUDNN_STATUS_NOT_SUPPORTED; Reason: checkGraph\n"
              "w!         Warning: CUDNN_STATUS_NOT_SUPPORTED; Reason: finalize_internal()\n"
              "w! Time: 2022-11-25T08:47:48.178932 (0d+0h+0m+2s since start)\n"
              "w! Process=391; Thread=391; GPU=NULL; Handle=NULL; StreamId=NULL.\n",
              7);
    assert_int_equal(told_count, 1);
    assert_false(told[0].is_error);
    assert_int_equal(told[0].version, 8902);
    assert_int_equal(told[0].more, 2);
    assert_string_equal(told[0].reason, "numUserNodes != 5");
}

/* If an entry has a warning and then an error, the parser must report the error. */
GW_TEST(an_error_counts_more)
{
    read_text("E! CuDNN (v8700) function cudnnCreate() called:\n"
              "e!     Warning: CUDNN_STATUS_ALLOC_FAILED; Reason: host side\n"
              "e!     Error: CUDNN_STATUS_NOT_INITIALIZED; reason: cudaMalloc failed\n",
              64);
    assert_int_equal(told_count, 1);
    assert_true(told[0].is_error);
    assert_string_equal(told[0].status, "CUDNN_STATUS_NOT_INITIALIZED");
    assert_string_equal(told[0].reason, "cudaMalloc failed");
    assert_int_equal(told[0].more, 1);
    assert_int_equal(told[0].pid, 0);
}

/* An entry as in NVIDIA's documentation: without a level letter on each line. Its error has no status. */
GW_TEST(without_letters)
{
    read_text("cuDNN (v90000) function cudnnCreate() called:\n    Error: something else\n"
              "Time: 2024-01-21T14:14:21.366171 (0d+0h+1m+5s since start)\n"
              "Process: 21264, Thread: 21264, cudnn_handle: NULL, cudnn_stream: NULL.\n",
              1000);
    assert_int_equal(told_count, 1);
    assert_string_equal(told[0].status, "");
    assert_string_equal(told[0].reason, "something else");
    assert_int_equal(told[0].pid, 21264);
}

GW_TEST(calls_are_no_messages)
{
    read_text("I! CuDNN (v90100 17) function cudnnSetActivationDescriptor() called:\n"
              "i!     mode: type=cudnnActivationMode_t; val=CUDNN_ACTIVATION_RELU (1);\n"
              "i! Time: 2024-01-21T14:14:21.366171 (0d+0h+1m+5s since start)\n"
              "i! Process=5; Thread=5; GPU=NULL; Handle=NULL; StreamId=NULL.\n",
              1000);
    assert_int_equal(told_count, 0);
    read_text("an Error: of somebody else's\nProcess=5\n\n", 3);
    assert_int_equal(told_count, 0);
}

GW_TEST(hostile_lines)
{
    static char text[3 * GW_CUDNN_LINE_MAX];
    memset(text, 'x', sizeof text - 1);
    static const char *const heads[] = {"E! CuDNN (v", "e! Error: CUDNN_STATUS_",
                                        "e! Error: CUDNN_STATUS_A; Reason: ", "e! Process=99999999999999999999",
                                        "E! CuDNN (v1) function "};
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        memcpy(text, heads[i], strlen(heads[i]));
        read_text(text, 100);
        assert_true(told_count <= 1);
        memset(text, 'x', strlen(heads[i]));
    }
    read_text("e! Error: \ne! Error: CUDNN_STATUS_;\n!!\nE!\n", 2);
    assert_int_equal(told_count, 1);
    assert_string_equal(told[0].status, "CUDNN_STATUS_");
}

/* Tests the reader of control groups on made-up machines and on this one. */

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
    gwi_cgroup_find(&group, gw_test_folder, PID);
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

GW_TEST_WITH(version_2, gw_test_folder_make, gw_test_folder_remove)
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
    write_files(files);
    gwi_values values = read_group();
    EXPECT_ALL(&values, want);
}

/* Without a file for the memory limit, the limit is known: there is none. Any other missing file or line makes its
 * value "not supported", not 0. */
GW_TEST_WITH(version_2_without_limits, gw_test_folder_make, gw_test_folder_remove)
{
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
GW_TEST_WITH(version_1_in_a_container, gw_test_folder_make, gw_test_folder_remove)
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
    write_files(files);
    gwi_values values = read_group();
    EXPECT_ALL(&values, want);
    write_file("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "w", "50000\n");
    values = read_group();
    expect(&values, GW_METRIC_CGROUP_CPU_LIMIT, GW_SAMPLE_KNOWN, 500);
}

/* Damaged files must yield no values, and must not crash the reader. */
GW_TEST_WITH(nonsense, gw_test_folder_make, gw_test_folder_remove)
{
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
    gw_test_folder_remove(NULL);
    gwi_values values = read_group(); /* the group has no files at all */
    expect(&values, GW_METRIC_CGROUP_OOM_KILLS, GW_SAMPLE_NOT_SUPPORTED, 0);
}

/* Read the values of this machine, this process and its control group. If this machine has no control groups for
 * memory, skip the group. */
GW_TEST(this_machine)
{
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

GW_TEST_MAIN(NULL, NULL)
