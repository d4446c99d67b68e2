/* Tests the sampling as a whole, with a fake libnvidia-ml and a made-up kernel log. */
#define _GNU_SOURCE
#include "gw_room.h"
#include "gw_sense.h"

#include "gw_clock.h"
#include "gw_text.h"
#include "made_root_testlib.h"

#include <limits.h>
#include <sys/xattr.h>
#include <unistd.h>

typedef struct seen {
    gw_sample_value card[2][GW_METRIC_COUNT], host[GW_METRIC_COUNT];
    uint32_t samples, wholes, holders, unmatched, events[GW_MACHINE_EVENT_COUNT];
    uint64_t xid, holder_bytes, oom_kills;
    uint32_t users, last_user;
    uint32_t xid_card, crash_pid, log_count;
    char card_text[2][200], facts[4096], last_event[256];
} seen;

static void forget(seen *s)
{
    memset(s, 0, sizeof *s);
    for (size_t i = 0; i < GW_METRIC_COUNT; i++)
        s->card[0][i].state = s->card[1][i].state = s->host[i].state = UINT8_MAX;
}

static void take_fact(seen *s, const gw_item *item)
{
    if (strcmp(item->pair.key, "nvml.card") == 0 && gw_begins(item->pair.value, "index="))
        snprintf(s->card_text[atoi(item->pair.value + 6) & 1], sizeof s->card_text[0], "%s", item->pair.value);
    size_t used = strlen(s->facts);
    snprintf(s->facts + used, sizeof s->facts - used, "%s=%s\n", item->pair.key, item->pair.value);
}

static void take_item(void *user, const gw_item *item)
{
    seen *s = user;
    if (item->kind == GW_ITEM_SUPERVISOR)
        take_fact(s, item);
    if (item->kind == GW_ITEM_MACHINE) {
        s->events[item->machine.kind]++;
        snprintf(s->last_event, sizeof s->last_event, "%s", item->machine.text);
        if (item->machine.kind == GW_MACHINE_XID) {
            s->xid = item->machine.code;
            s->xid_card = item->machine.device;
            s->log_count += item->machine.count;
        }
        if (item->machine.kind == GW_MACHINE_CRASH)
            s->crash_pid = item->pid;
        if (item->machine.kind == GW_MACHINE_OOM_KILL)
            s->oom_kills += item->machine.value;
    }
    if (item->kind != GW_ITEM_SAMPLE)
        return;
    s->samples++;
    s->wholes += item->sample.whole;
    gw_sample_value *to = item->sample.device == GW_NO_DEVICE ? s->host : s->card[item->sample.device & 1];
    for (uint32_t i = 0; i < item->sample.count; i++)
        to[item->sample.value[i].metric] = item->sample.value[i];
}

static void take_holder(void *user, uint32_t card, uint32_t pid, uint64_t bytes, bool matched)
{
    seen *s = user;
    if (card == GW_NO_DEVICE) { /* a process with a card's device file open; it may really exist on this machine */
        s->users++;
        s->last_user = pid;
        return;
    }
    assert_int_equal(card, 0);
    assert_true(pid == 4711 || pid == (uint32_t)getpid());
    s->holders++;
    s->unmatched += !matched;
    if (pid != 4711)
        s->holder_bytes = bytes;
}

static seen all;
static const gw_sense_sink sink = {&all, take_item, take_holder};

enum { WAIT_MS = 200000 };

static uint32_t pid; /* of this process, which plays the program */
static gw_sense_now now;
static gw_sense *sense;
static uint64_t settle_ns; /* gw_sense_options.settle_ns of the next open_senses() */

static void open_senses(const char *words, const char *root)
{
    static char word[64];
    static const char *environment[2] = {word};
    gw_error err = {""};
    snprintf(word, sizeof word, "GW_FAKE_NVML=%s", words);
    gw_sense_options options = {.t0_monotonic_ns = gw_monotonic_ns(),
                                .command = getpid(),
                                .nvml_path = GW_FAKE_NVML_PATH,
                                .environment = environment,
                                .root = root,
                                .settle_ns = settle_ns};
    forget(&all);
    pid = (uint32_t)getpid();
    now = (gw_sense_now){.pid = &pid, .pid_count = 1};
    if (gw_sense_open(&options, &sense, &err) != GW_OK)
        fail_msg("%s", err.text);
}

static void close_senses(unsigned wait_ms)
{
    gw_sense_last(sense, &now, &sink, wait_ms);
    gw_sense_close(sense);
}

/* Call gw_sense_look() until `*until` is not 0, but for no longer than WAIT_MS. */
static void look_until(const uint32_t *until)
{
    uint64_t end_ns = gw_monotonic_ns() + (uint64_t)WAIT_MS * 1000000;
    while (*until == 0 && gw_monotonic_ns() < end_ns) {
        usleep(5000);
        gw_sense_look(sense, &now, &sink);
    }
}

/* Call gw_sense_look() `times` times, with pauses of 5 ms before each call: it reads nothing in the first 4 ms after
 * gw_sense_open(). */
static void look_often(unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
        usleep(5000);
        gw_sense_look(sense, &now, &sink);
    }
}

static void expect(const gw_sample_value *values, gw_metric metric, gw_sample_state state, uint64_t value)
{
    const gw_sample_value *got = &values[metric];
    if (got->state != state || got->value != value)
        fail_msg("%s: %s %llu", gw_metric_find(metric)->name, gw_sample_state_text(got->state),
                 (unsigned long long)got->value);
}

GW_TEST(every_answer_is_told_with_its_reason)
{
    open_senses("", "");
    look_until(&all.events[GW_MACHINE_XID]);
    close_senses(WAIT_MS);
    assert_int_equal(all.xid, 79);
    assert_int_equal(all.xid_card, 1);
    assert_string_equal(all.card_text[1], "index=1 pci=00000000:19:00.0 uuid= name=Fake card");
    expect(all.card[0], GW_METRIC_CARD_MEMORY_USED, GW_SAMPLE_KNOWN, 400);
    expect(all.card[1], GW_METRIC_CARD_MEMORY_TOTAL, GW_SAMPLE_KNOWN, 1001);
    expect(all.card[0], GW_METRIC_CARD_POWER, GW_SAMPLE_KNOWN, 70000);
    expect(all.card[1], GW_METRIC_CARD_POWER, GW_SAMPLE_NO_PERMISSION, 0);
    expect(all.card[0], GW_METRIC_CARD_POWER_LIMIT, GW_SAMPLE_NOT_SUPPORTED, 0); /* the fake library lacks this call */
    expect(all.card[0], GW_METRIC_CARD_ECC_UNCORRECTED, GW_SAMPLE_NOT_SUPPORTED, 0);
    expect(all.card[0], GW_METRIC_CARD_PCIE_REPLAYS, GW_SAMPLE_FAILED, 999);
    expect(all.card[0], GW_METRIC_CARD_CLOCK_REASONS, GW_SAMPLE_KNOWN, GW_CLOCK_REASON_POWER_CAP);
    expect(all.card[0], GW_METRIC_CARD_NVLINK_REPLAYS, GW_SAMPLE_KNOWN, 40); /* sum of four links */
    expect(all.card[0], GW_METRIC_CARD_NVLINK_CRC, GW_SAMPLE_NOT_SUPPORTED, 0);
    expect(all.card[0], GW_METRIC_CARD_RECOVERY_ACTION, GW_SAMPLE_KNOWN, 1);
    expect(all.card[0], GW_METRIC_CARD_TEMPERATURE_MEMORY, GW_SAMPLE_NOT_SUPPORTED, 0);
    assert_int_equal(all.card[1][GW_METRIC_CARD_ECC_UNCORRECTED].state, GW_SAMPLE_KNOWN);
    assert_true(all.wholes >= 4); /* a full sample at the start and at the end, for each of two cards */
    assert_int_equal(all.host[GW_METRIC_DISK_CWD_FREE].state, GW_SAMPLE_KNOWN);
    assert_int_equal(all.host[GW_METRIC_HOST_MEMORY_TOTAL].state, GW_SAMPLE_KNOWN);
    assert_int_equal(all.host[GW_METRIC_PROCESS_DESCRIPTORS].state, GW_SAMPLE_KNOWN);
    assert_int_equal(all.holders, 0); /* no allocation was refused */
}

GW_TEST(holders_are_asked_at_a_refusal)
{
    open_senses("", "");
    look_often(10);
    assert_int_equal(all.holders, 0);
    now.failure_at_ns = now.out_of_memory_at_ns = 1000;
    look_until(&all.holders);
    close_senses(WAIT_MS);
    /* two processes, found by one query at the refusal; no second query at the end */
    assert_int_equal(all.holders, 2);
    assert_int_equal(all.unmatched, 0);
    assert_int_equal(all.holder_bytes, 100);
    assert_non_null(strstr(all.facts, "nvml.no_processes=not supported")); /* reported for the second card */
}

/* If an NVML call never returns, the supervisor must not block: it reports the call and still ends. */
GW_TEST(a_call_that_hangs_is_said)
{
    open_senses("hang", "");
    uint64_t before_ns = gw_monotonic_ns(), looks = 0;
    while (all.events[GW_MACHINE_SENSE] == 0 && gw_monotonic_ns() - before_ns < WAIT_MS * UINT64_C(1000000)) {
        usleep(5000);
        gw_sense_look(sense, &now, &sink);
        looks++;
    }
    assert_int_equal(all.events[GW_MACHINE_SENSE], 1);
    assert_non_null(strstr(all.last_event, "nvmlDeviceGetUtilizationRates"));
    assert_true(looks > 10);
    close_senses(50);
    assert_non_null(strstr(all.last_event, "did not respond in time"));
}

GW_TEST(a_crash_in_the_library_is_survived)
{
    open_senses("crash", "");
    look_until(&all.events[GW_MACHINE_SENSE]);
    close_senses(50);
    assert_int_equal(all.events[GW_MACHINE_SENSE], 1);
    assert_non_null(strstr(all.last_event, "ended by itself"));
}

GW_TEST(a_library_that_does_not_work_is_said)
{
    open_senses("init", "");
    close_senses(WAIT_MS);
    assert_non_null(strstr(all.facts, "nvml.none=nvmlInit_v2 returned 18 (versions differ)"));
}

/* A program that ends before settle_ns is not sampled. settle_ns is one hour here, so that the test also passes on the
 * slowest machine. */
GW_TEST(nothing_is_done_for_a_short_program)
{
    settle_ns = UINT64_C(3600000000000);
    open_senses("", "");
    now.pid_count = 0;
    gw_sense_look(sense, &now, &sink);
    gw_sense_close(sense);
    settle_ns = 0;
    assert_int_equal(all.samples, 0);
    assert_int_equal(all.facts[0], '\0');
}

/* ---- a made-up machine ---- */

/* Only lines written after the start are reported. Of 100 equal lines, four are reported singly, and the number of the
 * others at the end. */
GW_TEST(the_kernel_log_is_followed)
{
    char line[256];
    write_file("/dev/kmsg", "w", "4,1,1,-;NVRM: Xid (PCI:0000:18:00): 48, old\n");
    open_senses("init", gw_test_folder);
    look_often(4);
    assert_int_equal(all.events[GW_MACHINE_XID], 0);
    for (int i = 0; i < 100; i++)
        write_file("/dev/kmsg", "a", "4,2,2,-;NVRM: Xid (PCI:0000:18:00): 31, pid=1, name=x\n");
    write_file("/dev/kmsg", "a", "4,3,3,-;python3[99]: segfault at 0 ip 0 sp 0 error 4 in x\n");
    snprintf(line, sizeof line, "4,4,4,-;python3[%u]: segfault at 0 ip 0 sp 0 error 4 in x\n", pid);
    write_file("/dev/kmsg", "a", line);
    gw_sense_look(sense, &now, &sink);
    assert_int_equal(all.events[GW_MACHINE_XID], 4);
    close_senses(0);
    assert_int_equal(all.log_count, 100);
    assert_int_equal(all.events[GW_MACHINE_XID], 5);
    /* On the made-up machine, the pid namespace is unknown, so the pids in the log cannot be compared with those of the
     * run. */
    assert_int_equal(all.events[GW_MACHINE_CRASH], 0);
    assert_non_null(strstr(all.facts, "sense.pids=of a namespace"));
}

/* Processes with a card's device file open must be found even if NVML does not list them. */
GW_TEST(users_of_device_files_are_found)
{
    char path[256];
    static const char *const targets[] = {"/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia", "/dev/null"};
    for (unsigned i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        snprintf(path, sizeof path, "/proc/%u/fd/note", 4000 + i);
        write_file(path, "w", "");
        snprintf(path, sizeof path, "%s/proc/%u/fd/3", gw_test_folder, 4000 + i);
        assert_int_equal(symlink(targets[i], path), 0);
    }
    open_senses("init", gw_test_folder);
    now.pid_count = 0;
    look_often(4);
    assert_int_equal(all.users, 0);
    now.out_of_memory_at_ns = 1000;
    look_often(4);
    gw_sense_close(sense);
    assert_int_equal(all.users, 1);
    assert_int_equal(all.last_user, 4000);
}

GW_TEST(a_rise_of_oom_kill_is_an_event)
{
    char name[64];
    snprintf(name, sizeof name, "/proc/%d/cgroup", (int)getpid());
    write_file(name, "w", "0::/job\n");
    snprintf(name, sizeof name, "/proc/%d/mountinfo", (int)getpid());
    write_file(name, "w", "30 20 0:26 / /cg rw shared:4 - cgroup2 cgroup2 rw\n");
    write_file("/cg/job/memory.events", "w", "low 0\nhigh 0\nmax 7\noom 2\noom_kill 2\noom_group_kill 0\n");
    open_senses("init", gw_test_folder);
    now.pid_count = 0;
    look_often(10);
    expect(all.host, GW_METRIC_CGROUP_OOM_KILLS, GW_SAMPLE_KNOWN, 2);
    expect(all.host, GW_METRIC_CGROUP_MEMORY_REFUSED, GW_SAMPLE_KNOWN, 7);
    assert_int_equal(all.oom_kills, 0);
    write_file("/cg/job/memory.events", "w", "max 9\noom_kill 3\n");
    gw_sense_look(sense, &now, &sink);
    assert_int_equal(all.oom_kills, 1);
    char group[PATH_MAX];
    snprintf(group, sizeof group, "%s/cg/job", gw_test_folder);
    if (setxattr(group, "user.oomd_kill", "4", 1, 0) == 0) {
        gw_sense_look(sense, &now, &sink);
        assert_int_equal(all.oom_kills, 5);
        gw_sense_look(sense, &now, &sink); /* the same count is no new kill */
        assert_int_equal(all.oom_kills, 5);
    } else {
        print_message("not tested: this file system has no extended attributes for systemd-oomd\n");
    }
    gw_sense_close(sense);
}

GW_TEST(free_memory_and_holders_are_read_before_a_run)
{
    gw_sense_options options = {.nvml_path = GW_FAKE_NVML_PATH, .root = gw_test_folder};
    const gw_room_card *card = NULL;
    size_t count = 0;
    gw_room *room = NULL;
    gw_error err;
    assert_int_equal(setenv("GW_FAKE_NVML", "", 1), 0);
    assert_int_equal(gw_room_open(&options, &room, &err), GW_OK);
    for (int i = 0; i < 2; i++) { /* it can be read again */
        assert_int_equal(gw_room_read(room, 60000, &card, &count, &err), GW_OK);
        assert_int_equal(count, 2);
        assert_true(card[0].is_known && card[1].is_known);
        assert_int_equal(card[0].free_bytes, 600);
        assert_int_equal(card[1].total_bytes, 1001);
        assert_true(card[0].holder_count > 0);
    }
    gw_room_close(room);
}

GW_TEST(without_nvml_the_reason_is_returned)
{
    gw_sense_options options = {.nvml_path = "/nowhere/libnvidia-ml.so.1", .root = gw_test_folder};
    const gw_room_card *card = NULL;
    size_t count = 0;
    gw_room *room = NULL;
    gw_error err = {""};
    assert_int_equal(gw_room_open(&options, &room, &err), GW_OK);
    assert_int_equal(gw_room_read(room, 60000, &card, &count, &err), GW_MISSING);
    assert_non_null(strstr(err.text, "libnvidia-ml"));
    gw_room_close(room);
    options.nvml_path = GW_FAKE_NVML_PATH;
    assert_int_equal(setenv("GW_FAKE_NVML", "crash", 1), 0); /* the library ends the process */
    assert_int_equal(gw_room_open(&options, &room, &err), GW_OK);
    assert_int_equal(gw_room_read(room, 60000, &card, &count, &err), GW_END);
    gw_room_close(room);
    assert_int_equal(setenv("GW_FAKE_NVML", "hang", 1), 0);
    assert_int_equal(gw_room_open(&options, &room, &err), GW_OK);
    assert_int_equal(gw_room_read(room, 50, &card, &count, &err), GW_IO);
    gw_room_close(room);
}

GW_TEST_MAIN(gw_test_folder_make, gw_test_folder_remove)
