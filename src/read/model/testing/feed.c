/* Feeds a model with calls, in the form in which the hook and the supervisor record them. */
#include "gw_feed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "feed: %s\n", what);
    abort();
}

static void feed_item(gw_feed *feed, const gw_item *item)
{
    gw_error err;
    must(gw_model_feed(feed->model, item, &err) == GW_OK, "the model refused an item");
}

static uint16_t fn_of(gw_feed *feed, const char *fn)
{
    for (uint32_t i = 0; i < feed->name_count; i++) {
        if (strcmp(feed->name[i], fn) == 0)
            return (uint16_t)i;
    }
    must(feed->name_count < GW_FEED_NAMES_MAX, "too many functions");
    feed->name[feed->name_count] = fn;
    return (uint16_t)feed->name_count++;
}

void gw_feed_open_bare(gw_feed *feed)
{
    gw_error err;
    memset(feed, 0, sizeof *feed);
    must(gw_model_new(&feed->model, &err) == GW_OK, "no model");
    feed->t_ns = 1000000;
    feed->pid = feed->tid = GW_FEED_PID;
    feed->address_next = 0x7f0000000000u;
    feed->small_next = 0x7e0000000000u;
    gw_feed_meta(feed, "argv", "program");
    gw_feed_meta(feed, GW_META_WORK, "1");
}

void gw_feed_begin_cuda(gw_feed *feed, uint64_t total_bytes)
{
    gw_feed_process(feed, feed->pid, 1, "/usr/bin/program");
    gw_feed_call(feed, "cuInit", GW_EV_INIT, 0, 0, 0, 0, 0);
    gw_feed_text_call(feed, "cuInit", GW_EV_DEVICE, 0, total_bytes, total_bytes, 0, "Test card");
    feed->context = 0;
    gw_feed_call(feed, "cuDevicePrimaryCtxRetain", GW_EV_CTX_CREATE, 0, 0xc0de, 0, 0, GW_CONTEXT_PRIMARY);
    feed->context = 0xc0de;
}

void gw_feed_open(gw_feed *feed, uint64_t total_bytes)
{
    gw_feed_open_bare(feed);
    gw_feed_begin_cuda(feed, total_bytes);
}

gw_model *gw_feed_finish(gw_feed *feed)
{
    gw_error err;
    must(gw_model_name_fns(feed->model, feed->name, feed->name_count, &err) == GW_OK, "names");
    must(gw_model_finish(feed->model, &err) == GW_OK, "the model did not finish");
    feed->is_finished = true;
    return feed->model;
}

void gw_feed_close(gw_feed *feed)
{
    gw_model_free(feed->is_finished ? feed->model : gw_feed_finish(feed));
}

void gw_feed_wait(gw_feed *feed, uint64_t ns)
{
    feed->t_ns += ns;
}

void gw_feed_event(gw_feed *feed, const gw_event *event)
{
    feed->is_refused = feed->is_refused || event->result == 2;
    gw_item item = {.kind = GW_ITEM_EVENT, .t_ns = event->t_ns, .pid = event->pid, .tid = event->tid};
    item.event = *event;
    feed_item(feed, &item);
}

static gw_event event_of(gw_feed *feed, const char *fn, gw_event_kind kind, uint16_t result, const uint64_t arg[4])
{
    feed->t_ns += 10000;
    gw_event event = {.t_ns = feed->t_ns,
                      .pid = feed->pid,
                      .tid = feed->tid,
                      .fn = fn_of(feed, fn),
                      .kind = (uint8_t)kind,
                      .result = result,
                      .site = feed->site,
                      .took_us = feed->took_us,
                      .context = feed->context};
    memcpy(event.arg, arg, sizeof event.arg);
    return event;
}

static gw_feed_thread *thread_now(gw_feed *feed)
{
    for (size_t i = 0; i < feed->thread_count; i++) {
        if (feed->thread[i].pid == feed->pid && feed->thread[i].tid == feed->tid)
            return &feed->thread[i];
    }
    must(feed->thread_count < GW_FEED_THREADS_MAX, "too many threads");
    gw_feed_thread *thread = &feed->thread[feed->thread_count++];
    thread->pid = feed->pid;
    thread->tid = feed->tid;
    return thread;
}

/* Return the GPU work that the thread has ordered since its last request for memory, that is, since the last call of
 * this function. */
static uint32_t work_now(gw_feed *feed)
{
    gw_feed_thread *thread = thread_now(feed);
    uint64_t since[GW_COUNT_COUNT];
    for (int i = 0; i < GW_COUNT_COUNT; i++) {
        since[i] = thread->counter[i] - thread->counter_at_request[i];
        thread->counter_at_request[i] = thread->counter[i];
    }
    return gw_work_pack(since[GW_COUNT_LAUNCH] + since[GW_COUNT_GRAPH_LAUNCH], since[GW_COUNT_COPY],
                        since[GW_COUNT_READ], since[GW_COUNT_SYNC]);
}

void gw_feed_extra_call(gw_feed *feed, const char *fn, gw_event_kind kind, uint16_t result, uint32_t extra, uint64_t a0,
                        uint64_t a1, uint64_t a2, uint64_t a3)
{
    gw_event event = event_of(feed, fn, kind, result, (uint64_t[4]){a0, a1, a2, a3});
    event.extra = gw_is_request(kind) && extra == 0 ? work_now(feed) : extra;
    gw_feed_event(feed, &event);
}

void gw_feed_call(gw_feed *feed, const char *fn, gw_event_kind kind, uint16_t result, uint64_t a0, uint64_t a1,
                  uint64_t a2, uint64_t a3)
{
    gw_feed_extra_call(feed, fn, kind, result, 0, a0, a1, a2, a3);
}

void gw_feed_text_call(gw_feed *feed, const char *fn, gw_event_kind kind, uint64_t a0, uint64_t a1, uint64_t a2,
                       uint64_t a3, const char *text)
{
    gw_event event = event_of(feed, fn, kind, 0, (uint64_t[4]){a0, a1, a2, a3});
    event.text = text;
    event.text_bytes = (uint32_t)strlen(text);
    gw_feed_event(feed, &event);
}

void gw_feed_captured(gw_feed *feed, uint64_t address, uint64_t bytes, uint64_t stream)
{
    gw_event event = {.t_ns = feed->t_ns + 10,
                      .pid = feed->pid,
                      .tid = feed->tid,
                      .kind = GW_EV_ALLOC_ASYNC,
                      .flags = GW_EVF_CAPTURING,
                      .context = feed->context,
                      .arg = {address, bytes, 0, stream}};
    gw_feed_event(feed, &event);
}

void gw_feed_injected(gw_feed *feed, const char *fn, gw_event_kind kind, uint16_t result, uint64_t bytes,
                      const char *rule)
{
    gw_event fact = event_of(feed, fn, GW_EV_INJECTED, 0, (uint64_t[4]){result, 1, 0, 0});
    fact.text = rule;
    fact.text_bytes = (uint32_t)strlen(rule);
    gw_feed_event(feed, &fact);
    gw_event call = event_of(feed, fn, kind, result, (uint64_t[4]){0, bytes, 0, 0});
    call.flags = GW_EVF_INJECTED;
    gw_feed_event(feed, &call);
}

uint32_t gw_feed_site(gw_feed *feed, const char *frames)
{
    return gw_feed_site_in(feed, NULL, frames);
}

uint32_t gw_feed_site_in(gw_feed *feed, const char *library, const char *frames)
{
    enum { LIBRARY_BYTES = 1 << 20 };
    uint64_t frame[8], count = 0;
    char function[64], file[128], text[256];
    unsigned line;
    int bytes;
    uint32_t id = ++feed->site_last;
    if (library != NULL) {
        uint64_t start = 0x7f0000000000u + (uint64_t)id * LIBRARY_BYTES;
        gw_feed_text_call(feed, "?", GW_EV_MAPPED, start, LIBRARY_BYTES, start, 0, library);
        frame[count++] = start + 0x100;
    }
    while (count < 8 && sscanf(frames, "%63s %127s %u%n", function, file, &line, &bytes) == 3) {
        uint32_t code = id * 8 + (uint32_t)count;
        snprintf(text, sizeof text, "%s\n%s", function, file);
        gw_feed_text_call(feed, "?", GW_EV_PYTHON_CODE, code, 0, 0, 0, text);
        frame[count++] = GW_FRAME_OF_CODE(code, line);
        frames += bytes;
        frames += frames[0] == ',';
    }
    gw_feed_call(feed, "?", GW_EV_SITE, 0, id, count, 0, 0);
    for (uint64_t i = 0; i < count; i += 3)
        gw_feed_call(feed, "?", GW_EV_SITE_FRAMES, 0, id | i << 32, frame[i], i + 1 < count ? frame[i + 1] : 0,
                     i + 2 < count ? frame[i + 2] : 0);
    return id;
}

/* Blocks get addresses like those of a real card: small blocks share pages of 2 MiB, and larger blocks have pages of
 * their own. */
uint64_t gw_feed_alloc(gw_feed *feed, uint64_t bytes)
{
    bool small = bytes <= 1u << 20;
    uint64_t step = small ? 512 : 2u << 20, *next = small ? &feed->small_next : &feed->address_next;
    uint64_t address = *next;
    *next += (bytes + step - 1) / step * step;
    gw_feed_call(feed, "cuMemAlloc_v2", GW_EV_ALLOC, 0, address, bytes, GW_SPACE_DEVICE, 0);
    return address;
}

void gw_feed_free(gw_feed *feed, uint64_t address)
{
    gw_feed_call(feed, "cuMemFree_v2", GW_EV_FREE, 0, address, 0, GW_SPACE_DEVICE, 0);
}

void gw_feed_no_room(gw_feed *feed, uint64_t bytes, uint64_t free_bytes, uint64_t total_bytes)
{
    gw_feed_call(feed, "cuMemAlloc_v2", GW_EV_ALLOC, 2, 0, bytes, GW_SPACE_DEVICE, 0);
    gw_feed_call(feed, "cuMemGetInfo_v2", GW_EV_MEMORY_INFO, 0, free_bytes, total_bytes, 0, 2);
}

void gw_feed_hot(gw_feed *feed, const char *fn, gw_counter counter, uint64_t what, uint64_t stream)
{
    gw_feed_thread *thread = thread_now(feed);
    feed->t_ns += 10000;
    if (thread->ring_count == 2 * GW_RING_ENTRIES) {
        memcpy(&thread->ring[0], &thread->ring[GW_RING_ENTRIES], GW_RING_ENTRIES * sizeof thread->ring[0]);
        thread->ring_count = GW_RING_ENTRIES;
    }
    thread->ring[thread->ring_count++] = (gw_hot_call){feed->t_ns, what, stream, fn_of(feed, fn)};
    thread->total++;
    thread->calls++;
    thread->counter[counter]++;
    if (counter == GW_COUNT_SYNC) {
        thread->synced_at_ns = feed->t_ns;
        thread->synced_total = thread->total;
    }
}

void gw_feed_launch(gw_feed *feed, uint64_t function, uint64_t stream)
{
    gw_feed_hot(feed, "cuLaunchKernel", GW_COUNT_LAUNCH, function, stream);
}

void gw_feed_copy(gw_feed *feed, uint64_t bytes)
{
    gw_feed_hot(feed, "cuMemcpyHtoDAsync_v2", GW_COUNT_COPY, bytes, 0);
    thread_now(feed)->counter[GW_COUNT_COPY_BYTES] += bytes;
}

void gw_feed_read(gw_feed *feed, uint64_t bytes)
{
    gw_feed_hot(feed, "cuMemcpyDtoH_v2", GW_COUNT_COPY, bytes, 0);
    thread_now(feed)->counter[GW_COUNT_COPY_BYTES] += bytes;
    thread_now(feed)->counter[GW_COUNT_READ]++;
}

void gw_feed_sync(gw_feed *feed)
{
    gw_feed_hot(feed, "cuStreamSynchronize", GW_COUNT_SYNC, 0, 0);
}

void gw_feed_inside(gw_feed *feed, const char *fn)
{
    thread_now(feed)->inside_fn_plus_1 = (uint16_t)(fn_of(feed, fn) + 1);
}

void gw_feed_drain(gw_feed *feed)
{
    for (size_t i = 0; i < feed->thread_count; i++) {
        gw_feed_thread *thread = &feed->thread[i];
        gw_item item = {.kind = GW_ITEM_COUNTERS, .t_ns = feed->t_ns, .pid = thread->pid, .tid = thread->tid};
        item.counters.counter = thread->counter;
        item.counters.calls = thread->calls;
        item.counters.synced_at_ns = thread->synced_at_ns;
        item.counters.inside_fn_plus_1 = thread->inside_fn_plus_1;
        item.counters.inside_since_ns = thread->inside_fn_plus_1 == 0 ? 0 : feed->t_ns;
        item.counters.thread_name = "program";
        feed_item(feed, &item);
        gw_item ring = {.kind = GW_ITEM_RING, .t_ns = feed->t_ns, .pid = thread->pid, .tid = thread->tid};
        uint32_t count = thread->ring_count < GW_RING_ENTRIES ? thread->ring_count : GW_RING_ENTRIES;
        ring.ring.call = thread->ring + thread->ring_count - count;
        ring.ring.count = count;
        ring.ring.total = thread->total;
        ring.ring.synced_total = thread->synced_total;
        feed_item(feed, &ring);
    }
}

static void pair(gw_feed *feed, gw_item_kind kind, const char *key, const char *value)
{
    gw_item item = {.kind = kind, .t_ns = feed->t_ns, .pid = feed->pid};
    item.pair.key = key;
    item.pair.value = value;
    feed_item(feed, &item);
}

void gw_feed_meta(gw_feed *feed, const char *key, const char *value)
{
    pair(feed, GW_ITEM_META, key, value);
}

void gw_feed_fact(gw_feed *feed, const char *key, const char *value)
{
    feed->has_output = feed->has_output || strcmp(key, "stderr.not_recorded") == 0;
    pair(feed, GW_ITEM_SUPERVISOR, key, value);
}

static void sample(gw_feed *feed, uint32_t device, uint32_t pid, const gw_sample_value *value)
{
    gw_item item = {.kind = GW_ITEM_SAMPLE, .t_ns = feed->t_ns, .pid = pid};
    item.sample.source = value->metric <= GW_METRIC_CARD_STATUS ? GW_SOURCE_NVML : GW_SOURCE_HOST;
    item.sample.device = device;
    item.sample.value = value;
    item.sample.count = 1;
    feed_item(feed, &item);
}

void gw_feed_sample(gw_feed *feed, gw_metric metric, uint32_t device, uint32_t pid, uint64_t value)
{
    sample(feed, device, pid, &(gw_sample_value){(uint16_t)metric, GW_SAMPLE_KNOWN, value});
}

void gw_feed_unknown(gw_feed *feed, gw_metric metric, uint32_t device, gw_sample_state state)
{
    sample(feed, device, 0, &(gw_sample_value){(uint16_t)metric, (uint8_t)state, 0});
}

void gw_feed_machine(gw_feed *feed, gw_machine_event_kind kind, gw_source source, uint32_t device, uint32_t pid,
                     uint64_t code, uint64_t value, const char *text)
{
    gw_item item = {.kind = GW_ITEM_MACHINE, .t_ns = feed->t_ns, .pid = pid};
    item.machine.kind = (uint8_t)kind;
    item.machine.source = (uint8_t)source;
    item.machine.device = device;
    item.machine.count = 1;
    item.machine.code = code;
    item.machine.value = value;
    item.machine.text = text;
    feed_item(feed, &item);
}

void gw_feed_map(gw_feed *feed, const char *path)
{
    pair(feed, GW_ITEM_MAPS, path, "");
}

void gw_feed_stderr_bytes(gw_feed *feed, const char *bytes, size_t count)
{
    feed->has_output = true;
    gw_item item = {.kind = GW_ITEM_STDERR, .t_ns = feed->t_ns, .pid = feed->pid};
    item.stderr_part.bytes = bytes;
    item.stderr_part.count = (uint32_t)count;
    feed_item(feed, &item);
}

void gw_feed_stderr(gw_feed *feed, const char *text)
{
    gw_feed_stderr_bytes(feed, text, strlen(text));
}

void gw_feed_process(gw_feed *feed, uint32_t pid, uint32_t parent_pid, const char *exe)
{
    gw_item item = {.kind = GW_ITEM_PROCESS, .t_ns = feed->t_ns, .pid = pid, .tid = pid};
    item.process.parent_pid = parent_pid;
    item.process.exe = exe;
    item.process.driver_path = "/usr/lib/libcuda.so.1";
    item.process.driver_build_id = "";
    feed_item(feed, &item);
}

static void exit_item(gw_feed *feed, uint32_t pid, bool is_command, int code, int signal)
{
    if (feed->is_refused && !feed->has_output && !feed->is_silent && code > 0 && signal == 0)
        gw_feed_stderr(feed, "CUDA error: out of memory\n");
    gw_feed_drain(feed);
    feed->t_ns += 1000000;
    gw_item item = {.kind = GW_ITEM_EXIT, .t_ns = feed->t_ns, .pid = pid};
    item.exit = (gw_exit_fact){pid, is_command, true, signal != 0 ? -1 : code, signal, false};
    feed_item(feed, &item);
}

void gw_feed_exit(gw_feed *feed, int code, int signal)
{
    exit_item(feed, GW_FEED_PID, true, code, signal);
}

void gw_feed_truncated(gw_feed *feed)
{
    gw_feed_drain(feed);
    gw_item item = {.kind = GW_ITEM_TRUNCATED, .t_ns = feed->t_ns};
    feed_item(feed, &item);
}

void gw_feed_exit_of(gw_feed *feed, uint32_t pid, int code, int signal)
{
    exit_item(feed, pid, false, code, signal);
}
