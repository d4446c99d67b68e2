/* Controls the sampling of a run. Reads the kernel's log and the host's values itself, and requests all others from the
 * sampler process. */
#include "gw_sense.h"

#include "gw_clock.h"
#include "gw_fact.h"
#include "gwi_host.h"
#include "gwi_kmsg.h"
#include "gwi_sampler.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t second_ns = 1000000000u;
static const uint64_t fast_ns = 100000000u;
/* For this time after the start and after each failure, values are read ten times a second. */
static const uint64_t fast_start_ns = 1000000000u, fast_failure_ns = 3000000000u;
/* By default, gw_sense_look() reads nothing for this long after the start, so that sampling does not slow down short
 * programs. */
static const uint64_t settle_standard_ns = 4000000u;
/* An NVML call longer than this is reported as stuck. The slowest calls on healthy cards are much shorter. */
static const uint64_t stuck_ns = 3000000000u;
/* The driver may report a fault shortly after the call that failed. gw_sense_last() waits this long for the report. */
static const uint64_t trailing_ns = 100000000u;
enum { PROCESSES_MAX = 32, HOLDERS_ASKED_MAX = 16 };

typedef struct process {
    uint32_t pid;
    bool gone;
    gwi_values values;
} process;

struct gw_sense {
    gw_sense_options options;
    uint64_t opened_ns, host_due_ns, fast_until_ns;
    bool looked;
    gwi_kmsg kmsg;
    bool counts_pids; /* this process sees the kernel's own pids */
    gwi_cgroup cgroup;
    gwi_values group, host;
    bool has_oom_kills, has_oomd_kills;
    uint64_t oom_kills, oomd_kills;
    process *process; /* owned */
    size_t process_count;
    gwi_sampler sampler;
    bool sampler_tried, stuck_told;
    uint64_t failure_seen_ns, request_number, done_number;
    uint64_t holders_asked_ns; /* time of the last such query, from the start of the run */
    uint32_t holders_asked;    /* number of queries for the processes with card memory */
    bool users_told;
    uint64_t card_events; /* number of events that NVML reported */
};

gw_status gw_sense_open(const gw_sense_options *options, gw_sense **ret_sense, gw_error *err)
{
    gw_sense *sense = calloc(1, sizeof *sense);
    if (sense == NULL || (sense->process = calloc(PROCESSES_MAX, sizeof *sense->process)) == NULL) {
        free(sense);
        return gw_fail(err, GW_NOMEM, "the senses");
    }
    sense->options = *options;
    if (sense->options.root == NULL)
        sense->options.root = "";
    sense->opened_ns = gw_monotonic_ns();
    sense->fast_until_ns = sense->opened_ns + fast_start_ns;
    sense->sampler.fd = -1;
    gwi_kmsg_open(&sense->kmsg, sense->options.root);
    *ret_sense = sense;
    return GW_OK;
}

void gw_sense_close(gw_sense *sense)
{
    if (sense == NULL)
        return;
    (void)gwi_sampler_stop(&sense->sampler);
    gwi_kmsg_close(&sense->kmsg);
    free(sense->process);
    free(sense);
}

/* ---- reporting ---- */

static uint64_t run_time(const gw_sense *sense, uint64_t monotonic_ns)
{
    return monotonic_ns > sense->options.t0_monotonic_ns ? monotonic_ns - sense->options.t0_monotonic_ns : 0;
}

static void tell_fact(const gw_sense *sense, const gw_sense_sink *sink, const char *key, const char *value)
{
    gw_item item = {.kind = GW_ITEM_SUPERVISOR, .t_ns = run_time(sense, gw_monotonic_ns())};
    item.pair.key = key;
    item.pair.value = value;
    sink->item(sink->user, &item);
}

static void tell_event(const gw_sense *sense, const gw_sense_sink *sink, gw_machine_event_kind kind, gw_source source,
                       uint64_t code, uint64_t value, const char *text)
{
    gw_item item = {.kind = GW_ITEM_MACHINE, .t_ns = run_time(sense, gw_monotonic_ns())};
    item.machine.kind = (uint8_t)kind;
    item.machine.source = (uint8_t)source;
    item.machine.device = GW_NO_DEVICE;
    item.machine.count = 1;
    item.machine.code = code;
    item.machine.value = value;
    item.machine.text = text;
    sink->item(sink->user, &item);
}

static void tell_values(const gw_sense *sense, const gw_sense_sink *sink, gwi_values *values, gw_source source,
                        uint32_t pid, bool whole)
{
    gw_sample_value value[GW_METRIC_COUNT];
    uint64_t now = gw_monotonic_ns();
    gw_item item = {.kind = GW_ITEM_SAMPLE, .t_ns = run_time(sense, now), .pid = pid};
    item.sample.source = (uint8_t)source;
    item.sample.device = GW_NO_DEVICE;
    item.sample.value = value;
    item.sample.count = gwi_values_take(values, now, whole, value, &item.sample.whole);
    if (item.sample.count > 0)
        sink->item(sink->user, &item);
}

/* ---- the host ---- */

/* Report that processes of the control group were killed for lack of memory. The count is read often, because the time
 * of its rise shows which process was killed. */
static void look_at_oom_kills(gw_sense *sense, const gw_sense_sink *sink)
{
    uint64_t count;
    char text[96];
    if (!gwi_cgroup_oom_kills(&sense->cgroup, &count))
        return;
    if (sense->has_oom_kills && count > sense->oom_kills) {
        snprintf(text, sizeof text, "the control group's oom_kill count rose from %" PRIu64 " to %" PRIu64,
                 sense->oom_kills, count);
        tell_event(sense, sink, GW_MACHINE_OOM_KILL, GW_SOURCE_CGROUP, 2, count - sense->oom_kills, text);
    }
    sense->has_oom_kills = true;
    sense->oom_kills = count;
}

/* Like look_at_oom_kills(), for processes that systemd-oomd killed because of memory pressure. */
static void look_at_oomd_kills(gw_sense *sense, const gw_sense_sink *sink)
{
    uint64_t count;
    char text[128];
    if (!gwi_cgroup_oomd_kills(&sense->cgroup, &count))
        return;
    if (sense->has_oomd_kills && count > sense->oomd_kills) {
        snprintf(text, sizeof text,
                 "systemd-oomd killed processes of the control group (user.oomd_kill rose from %" PRIu64 " to %" PRIu64
                 ")",
                 sense->oomd_kills, count);
        tell_event(sense, sink, GW_MACHINE_OOM_KILL, GW_SOURCE_CGROUP, GW_OOM_BY_OOMD, count - sense->oomd_kills, text);
    }
    sense->has_oomd_kills = true;
    sense->oomd_kills = count;
}

static process *process_of(gw_sense *sense, uint32_t pid)
{
    for (size_t i = 0; i < sense->process_count; i++)
        if (sense->process[i].pid == pid)
            return &sense->process[i];
    if (sense->process_count == PROCESSES_MAX)
        return NULL;
    process *it = &sense->process[sense->process_count++];
    it->pid = pid;
    return it;
}

static void look_at_process(gw_sense *sense, const gw_sense_sink *sink, uint32_t pid)
{
    process *it = process_of(sense, pid);
    if (it == NULL || it->gone)
        return;
    if (gwi_process_read(sense->options.root, (pid_t)pid, &it->values))
        tell_values(sense, sink, &it->values, GW_SOURCE_PROCESS, pid, false);
    else
        it->gone = true;
}

static void look_at_host(gw_sense *sense, const gw_sense_now *now, const gw_sense_sink *sink, bool whole)
{
    gwi_host_read(sense->options.root, &sense->host);
    tell_values(sense, sink, &sense->host, GW_SOURCE_HOST, 0, whole);
    gwi_cgroup_read(&sense->cgroup, &sense->group);
    tell_values(sense, sink, &sense->group, GW_SOURCE_CGROUP, 0, whole);
    look_at_process(sense, sink, (uint32_t)sense->options.command);
    for (size_t i = 0; i < now->pid_count; i++)
        look_at_process(sense, sink, now->pid[i]);
}

static void begin(gw_sense *sense, const gw_sense_sink *sink)
{
    sense->looked = true;
    sense->counts_pids = gwi_host_counts_pids(sense->options.root);
    gwi_cgroup_find(&sense->cgroup, sense->options.root, sense->options.command);
    tell_fact(sense, sink, "sense.pids", sense->counts_pids ? "the kernel's" : "of a namespace");
    if (sense->kmsg.fd < 0)
        tell_fact(sense, sink, "sense.no_kernel_log",
                  sense->kmsg.why == EPERM || sense->kmsg.why == EACCES ? "no permission" : strerror(sense->kmsg.why));
}

/* ---- the sampler ---- */

static void start_sampler(gw_sense *sense, const gw_sense_sink *sink)
{
    gw_error why;
    sense->sampler_tried = true;
    if (gwi_sampler_start(&sense->sampler, &sense->options, &why) != GW_OK)
        tell_fact(sense, sink, "nvml.none", why.text);
}

static bool is_ours(const gw_sense *sense, const gw_sense_now *now, uint32_t pid)
{
    bool ours = pid == (uint32_t)sense->options.command;
    for (size_t i = 0; i < now->pid_count && !ours; i++)
        ours = now->pid[i] == pid;
    return ours;
}

/* Report the processes with memory on a card. In a container, NVML may list the host's pids. If none of them is a pid
 * of this run, `matched` is false, because one may be the program itself. */
static void take_holders(gw_sense *sense, const gw_sense_now *now, const gw_sense_sink *sink,
                         const gwi_message *message)
{
    bool matched = sense->counts_pids;
    if (!message->whole) {
        tell_fact(sense, sink, "nvml.no_processes", gw_sample_state_text((unsigned)message->code));
        return;
    }
    for (uint32_t i = 0; i < message->count && !matched; i++)
        matched = is_ours(sense, now, message->holder[i].pid);
    for (uint32_t i = 0; i < message->count; i++)
        sink->holder(sink->user, message->card, message->holder[i].pid, message->holder[i].bytes, matched);
}

static void take_message(gw_sense *sense, const gw_sense_now *now, const gw_sense_sink *sink, gwi_message *message)
{
    gw_item item = {.kind = GW_ITEM_SAMPLE, .t_ns = run_time(sense, message->t_monotonic_ns)};
    switch ((gwi_message_kind)message->kind) {
    case GWI_MESSAGE_SAMPLE:
        item.sample.source = message->source;
        item.sample.whole = message->whole;
        item.sample.device = message->card;
        item.sample.value = message->sample;
        item.sample.count = message->count;
        sink->item(sink->user, &item);
        break;
    case GWI_MESSAGE_EVENT:
        sense->card_events++;
        item.kind = GW_ITEM_MACHINE;
        item.machine.kind = message->event_kind;
        item.machine.source = message->source;
        item.machine.device = message->card;
        item.machine.count = 1;
        item.machine.code = message->code;
        item.machine.value = message->value;
        item.machine.text = message->text;
        sink->item(sink->user, &item);
        break;
    case GWI_MESSAGE_FACT: {
        message->text[sizeof message->text - 1] = '\0';
        char *equals = strchr(message->text, '=');
        if (equals == NULL)
            break;
        *equals = '\0';
        tell_fact(sense, sink, message->text, equals + 1);
        break;
    }
    case GWI_MESSAGE_HOLDERS:
        take_holders(sense, now, sink, message);
        break;
    case GWI_MESSAGE_DONE:
        sense->done_number = message->code;
        break;
    }
}

static void take_messages(gw_sense *sense, const gw_sense_now *now, const gw_sense_sink *sink)
{
    enum { AT_ONCE_MAX = 256 };
    gwi_message message;
    int got = 0;
    for (int i = 0; i < AT_ONCE_MAX && (got = gwi_sampler_next(&sense->sampler, &message)) > 0; i++)
        take_message(sense, now, sink, &message);
    if (got < 0 && sense->sampler.pid > 0) {
        tell_event(sense, sink, GW_MACHINE_SENSE, GW_SOURCE_SUPERVISOR, 0, 0,
                   "the process that queries NVML ended by itself: the cards are no longer sampled");
        (void)gwi_sampler_stop(&sense->sampler);
    }
}

static void look_at_sampler(gw_sense *sense, const gw_sense_sink *sink)
{
    const gwi_nvml_progress *progress = sense->sampler.progress;
    char text[160];
    if (progress == NULL || sense->stuck_told)
        return;
    uint64_t since = atomic_load_explicit(&progress->inside_since_ns, memory_order_acquire);
    uint64_t now = gw_monotonic_ns();
    if (since == 0 || now < since + stuck_ns)
        return;
    sense->stuck_told = true;
    snprintf(text, sizeof text, "NVML has not responded for %.1f s: %s", (double)(now - since) / 1e9,
             gwi_nvml_row_name(atomic_load_explicit(&progress->inside_row, memory_order_relaxed)));
    tell_event(sense, sink, GW_MACHINE_SENSE, GW_SOURCE_NVML, 1, now - since, text);
}

/* True if an allocation was refused since the last query of the card's processes. At most HOLDERS_ASKED_MAX queries are
 * made, at least a second apart. */
static bool wants_holders(const gw_sense *sense, const gw_sense_now *now)
{
    if (now->holders_known || sense->holders_asked >= HOLDERS_ASKED_MAX ||
        now->out_of_memory_at_ns <= sense->holders_asked_ns)
        return false;
    return sense->holders_asked == 0 || run_time(sense, gw_monotonic_ns()) >= sense->holders_asked_ns + second_ns;
}

static void ask(gw_sense *sense, const gw_sense_now *now, bool everything)
{
    gwi_request request = {.fast_until_ns = sense->fast_until_ns};
    if (sense->sampler.pid <= 0)
        return;
    if (everything)
        request.number = ++sense->request_number;
    request.holders = wants_holders(sense, now);
    if (!gwi_sampler_ask(&sense->sampler, &request) || !request.holders)
        return;
    sense->holders_asked++;
    sense->holders_asked_ns = run_time(sense, gw_monotonic_ns());
}

/* Record the number of NVML calls and their processor time. */
static void tell_cost(const gw_sense *sense, const gw_sense_sink *sink)
{
    const gwi_nvml_progress *progress = sense->sampler.progress;
    gw_text text = {0};
    if (progress == NULL)
        return;
    const gw_fact_nvml_cost cost = {
        GW_FACT_SET(calls, atomic_load_explicit(&progress->call_count, memory_order_relaxed)),
        GW_FACT_SET(cpu_us, atomic_load_explicit(&progress->spent_ns, memory_order_relaxed) / 1000),
        GW_FACT_SET(of_ms, (gw_monotonic_ns() - sense->opened_ns) / 1000000),
    };
    gw_fact_nvml_cost_write(&cost, &text);
    tell_fact(sense, sink, gw_fact_key_text(GW_FACT_NVML_COST), gw_text_str(&text));
    gw_text_free(&text);
}

/* ---- sampling ---- */

static void tell_user(void *user, uint32_t pid)
{
    const gw_sense_sink *sink = user;
    sink->holder(sink->user, GW_NO_DEVICE, pid, UINT64_MAX, true);
}

/* At the first refused allocation, report the processes that have a card's device file open. NVML may omit such
 * processes, or list their pids of another namespace. */
static void look_at_users(gw_sense *sense, const gw_sense_now *now, const gw_sense_sink *sink)
{
    if (now->out_of_memory_at_ns == 0 || sense->users_told || sense->options.is_virtual)
        return;
    sense->users_told = true;
    gwi_host_device_users(sense->options.root, tell_user, (void *)(uintptr_t)sink);
}

/* After a new failure, read all values more often for fast_failure_ns. */
static void look_at_failure(gw_sense *sense, const gw_sense_now *now)
{
    bool is_new = now->failure_at_ns != 0 && now->failure_at_ns > sense->failure_seen_ns;
    if (!is_new && !(sense->sampler.pid > 0 && wants_holders(sense, now)))
        return;
    bool was_calm = gw_monotonic_ns() > sense->fast_until_ns;
    sense->failure_seen_ns = now->failure_at_ns > sense->failure_seen_ns ? now->failure_at_ns : sense->failure_seen_ns;
    sense->fast_until_ns = gw_monotonic_ns() + fast_failure_ns;
    if (was_calm)
        sense->host_due_ns = 0;
    ask(sense, now, false);
}

void gw_sense_look(gw_sense *sense, const gw_sense_now *now, const gw_sense_sink *sink)
{
    uint64_t time = gw_monotonic_ns();
    uint64_t settle_ns = sense->options.settle_ns != 0 ? sense->options.settle_ns : settle_standard_ns;
    if (time < sense->opened_ns + settle_ns)
        return;
    if (!sense->looked)
        begin(sense, sink);
    const gwi_kmsg_to to = {&sense->options, now, sink, sense->counts_pids};
    gwi_kmsg_read(&sense->kmsg, &to, false);
    look_at_oom_kills(sense, sink);
    look_at_oomd_kills(sense, sink);
    look_at_failure(sense, now);
    look_at_users(sense, now, sink);
    if (time >= sense->host_due_ns) {
        look_at_host(sense, now, sink, false);
        sense->host_due_ns = time + (time < sense->fast_until_ns ? fast_ns / 2 : second_ns - fast_ns / 2);
    }
    if (!sense->sampler_tried && (now->pid_count > 0 || time > sense->opened_ns + second_ns)) {
        start_sampler(sense, sink);
        look_at_failure(sense, now);
    }
    take_messages(sense, now, sink);
    look_at_sampler(sense, sink);
}

static void wait_for_answer(gw_sense *sense, const gw_sense_now *now, const gw_sense_sink *sink, uint64_t until_ns)
{
    while (sense->sampler.pid > 0 && sense->done_number < sense->request_number) {
        uint64_t time = gw_monotonic_ns();
        struct pollfd waited = {.fd = sense->sampler.fd, .events = POLLIN};
        if (time >= until_ns) {
            tell_event(sense, sink, GW_MACHINE_SENSE, GW_SOURCE_NVML, 2, 0,
                       "NVML did not respond in time at the program's end: the last values are older");
            return;
        }
        poll(&waited, 1, (int)((until_ns - time) / 1000000) + 1);
        take_messages(sense, now, sink);
    }
}

/* True if the program failed less than a second ago for a reason other than lack of card memory, and no card has
 * reported an event yet. */
static bool is_fresh_fault(const gw_sense *sense, const gw_sense_now *now)
{
    return sense->sampler.pid > 0 && sense->card_events == 0 && sense->done_number == sense->request_number &&
           now->failure_at_ns != 0 && now->out_of_memory_at_ns == 0 &&
           run_time(sense, gw_monotonic_ns()) < now->failure_at_ns + second_ns;
}

static void wait_for_events(gw_sense *sense, const gw_sense_now *now, const gw_sense_sink *sink, uint64_t until_ns)
{
    for (uint64_t time; sense->sampler.pid > 0 && sense->card_events == 0 && (time = gw_monotonic_ns()) < until_ns;) {
        struct pollfd waited = {.fd = sense->sampler.fd, .events = POLLIN};
        poll(&waited, 1, (int)((until_ns - time) / 1000000) + 1);
        take_messages(sense, now, sink);
    }
}

void gw_sense_last(gw_sense *sense, const gw_sense_now *now, const gw_sense_sink *sink, unsigned wait_ms)
{
    if (!sense->looked)
        begin(sense, sink);
    uint64_t until_ns = gw_monotonic_ns() + (uint64_t)wait_ms * 1000000;
    if (!sense->sampler_tried && now->pid_count > 0)
        start_sampler(sense, sink);
    ask(sense, now, true);
    const gwi_kmsg_to to = {&sense->options, now, sink, sense->counts_pids};
    gwi_kmsg_read(&sense->kmsg, &to, true);
    look_at_oom_kills(sense, sink);
    look_at_oomd_kills(sense, sink);
    look_at_host(sense, now, sink, true);
    look_at_users(sense, now, sink);
    wait_for_answer(sense, now, sink, until_ns);
    if (is_fresh_fault(sense, now))
        wait_for_events(sense, now, sink, gw_monotonic_ns() + trailing_ns);
    gwi_kmsg_read(&sense->kmsg, &to, true); /* lines that were written during the wait */
    tell_cost(sense, sink);
    if (!gwi_sampler_stop(&sense->sampler))
        tell_event(sense, sink, GW_MACHINE_SENSE, GW_SOURCE_NVML, 3, 0,
                   "the process that queries NVML cannot be killed: it hangs in the driver");
}
