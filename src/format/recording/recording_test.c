/* Tests the writer together with the reader, and the reader with damaged files. */
#define _GNU_SOURCE
#include "gw_names.h"
#include "gw_recording.h"
#include "gw_test_folder.h"
#include "gw_text.h"
#include "gwi_code.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- items as lines of text, to compare two recordings line by line ---- */

typedef struct test_lines {
    char **line;
    size_t count;
    size_t faults; /* number of times the reader returned GW_CORRUPT */
    gw_error fault;
} test_lines;

static void test_add_event(gw_text *text, const gw_event *e, const char *fn_name)
{
    gw_text_addf(text, "%u %u %s kind %s flags %u result %u took %u site %u extra %u context %" PRIx64 " args", e->pid,
                 e->tid, fn_name, gw_event_kind_name(e->kind), e->flags, e->result, e->took_us, e->site, e->extra,
                 e->context);
    for (int i = 0; i < 4; i++)
        gw_text_addf(text, " %" PRIx64, e->arg[i]);
    if (e->text != NULL) {
        gw_text_addf(text, " text %u ", e->text_bytes);
        gw_text_add(text, e->text, e->text_bytes);
    }
}

static void test_add_ring(gw_text *text, const gw_item *item)
{
    gw_text_addf(text, "total %" PRIu64 " synced %" PRIu64, item->ring.total, item->ring.synced_total);
    for (uint32_t i = 0; i < item->ring.count; i++) {
        const gw_hot_call *call = &item->ring.call[i];
        gw_text_addf(text, " (%" PRIu64 " %" PRIx64 " %" PRIx64 " %u)", call->t_ns, call->what, call->stream, call->fn);
    }
}

static char *test_line(const gw_item *item, const gw_reader *reader)
{
    gw_text text = {0};
    gw_text_addf(&text, "%d t %" PRIu64 " %u %u: ", (int)item->kind, item->t_ns, item->pid, item->tid);
    switch (item->kind) {
    case GW_ITEM_META:
    case GW_ITEM_SUPERVISOR:
    case GW_ITEM_MAPS:
        gw_text_addf(&text, "%s = %s", item->pair.key, item->pair.value);
        break;
    case GW_ITEM_PROCESS:
        gw_text_addf(&text, "%u %" PRIu64 " %s %s %s", item->process.parent_pid, item->process.start_realtime_ns,
                     item->process.exe, item->process.driver_path, item->process.driver_build_id);
        if (item->process.pid_namespace != 0)
            gw_text_addf(&text, " in %" PRIu64, item->process.pid_namespace);
        break;
    case GW_ITEM_EVENT:
        test_add_event(&text, &item->event, reader == NULL ? "?" : gw_reader_fn_name(reader, item->event.fn));
        break;
    case GW_ITEM_COUNTERS:
        gw_text_addf(&text, "%s calls %" PRIu64 " synced %" PRIu64 " inside %" PRIu64 " %u", item->counters.thread_name,
                     item->counters.calls, item->counters.synced_at_ns, item->counters.inside_since_ns,
                     item->counters.inside_fn_plus_1);
        for (unsigned i = 0; i < GW_COUNT_COUNT; i++)
            if (item->counters.counter[i] != 0)
                gw_text_addf(&text, " %s %" PRIu64, gw_counter_name(i), item->counters.counter[i]);
        break;
    case GW_ITEM_RING:
        test_add_ring(&text, item);
        break;
    case GW_ITEM_LOST:
        gw_text_addf(&text, "%" PRIu64 " %" PRIu64 " %" PRIu64, item->lost.events, item->lost.failures,
                     item->lost.threads);
        break;
    case GW_ITEM_STDERR:
        gw_text_add(&text, item->stderr_part.bytes, item->stderr_part.count);
        break;
    case GW_ITEM_EXIT:
        gw_text_addf(&text, "%u command %d known %d code %d signal %d core %d", item->exit.pid, item->exit.is_command,
                     item->exit.status_known, item->exit.exit_code, item->exit.signal, item->exit.core_dumped);
        break;
    case GW_ITEM_SYMBOL:
        gw_text_addf(&text, "%s %" PRIx64 " %" PRIx64 " state %u", item->symbol.path, item->symbol.build_id,
                     item->symbol.address, item->symbol.state);
        for (uint32_t i = 0; i < item->symbol.count; i++) {
            const gw_symbol_frame *frame = &item->symbol.frame[i];
            gw_text_addf(&text, " [%s|%s|%u", frame->function == NULL ? "-" : frame->function,
                         frame->file == NULL ? "-" : frame->file, frame->line);
            if (frame->column != 0)
                gw_text_addf(&text, ":%u", frame->column);
            gw_text_add_str(&text, "]");
        }
        break;
    case GW_ITEM_SAMPLE:
        gw_text_addf(&text, "source %u whole %d device %" PRIx32, item->sample.source, item->sample.whole,
                     item->sample.device);
        for (uint32_t i = 0; i < item->sample.count; i++)
            gw_text_addf(&text, " %u:%u:%" PRIx64, item->sample.value[i].metric, item->sample.value[i].state,
                         item->sample.value[i].value);
        break;
    case GW_ITEM_MACHINE:
        gw_text_addf(&text, "event %u source %u device %" PRIx32 " count %u code %" PRIx64 " value %" PRIx64 " %s",
                     item->machine.kind, item->machine.source, item->machine.device, item->machine.count,
                     item->machine.code, item->machine.value, item->machine.text);
        break;
    default:
        break;
    }
    return text.data;
}

static void test_lines_add(test_lines *lines, char *line)
{
    lines->line = realloc(lines->line, (lines->count + 1) * sizeof *lines->line);
    if (lines->line == NULL)
        abort();
    lines->line[lines->count++] = line;
}

static void test_lines_free(test_lines *lines)
{
    for (size_t i = 0; i < lines->count; i++)
        free(lines->line[i]);
    free(lines->line);
    *lines = (test_lines){0};
}

/* Read up to `room` % 9 events with gw_reader_events(). Adds a line for each, in the same form as for
 * gw_reader_next(). */
static void test_lines_read_events(gw_reader *reader, size_t room, test_lines *lines)
{
    gw_event event[8];
    size_t count = gw_reader_events(reader, event, room % 9);
    for (size_t i = 0; i < count; i++) {
        gw_item item = {.kind = GW_ITEM_EVENT, .t_ns = event[i].t_ns, .pid = event[i].pid, .tid = event[i].tid};
        item.event = event[i];
        test_lines_add(lines, test_line(&item, reader));
    }
}

/* Read all items of the recording at `path`, in turn with gw_reader_next() and gw_reader_events() (up to eight).
 * Returns the last status of gw_reader_next(): GW_END at the end. */
static gw_status test_lines_read(const char *path, test_lines *lines, gw_error *err)
{
    gw_reader *reader;
    const gw_item *item;
    gw_status st = gw_reader_open(path, &reader, err);
    if (st != GW_OK)
        return st;
    while ((st = gw_reader_next(reader, &item, err)) == GW_OK || st == GW_CORRUPT) {
        if (st == GW_OK) {
            test_lines_add(lines, test_line(item, reader));
            test_lines_read_events(reader, lines->count, lines);
        } else {
            lines->faults++;
            lines->fault = *err;
        }
    }
    gw_reader_close(reader);
    return st;
}

/* Read the whole recording. Returns GW_OK, or the status of the first fault. */
static gw_status check_recording(const char *path, gw_error *err)
{
    gw_reader *reader = NULL;
    const gw_item *item;
    gw_status st = gw_reader_open(path, &reader, err);
    while (st == GW_OK) {
        st = gw_reader_next(reader, &item, err);
        if (st == GW_OK && item->kind == GW_ITEM_TRUNCATED)
            st = gw_fail(err, GW_CORRUPT, "%s ends without its END block", path);
    }
    gw_reader_close(reader);
    return st == GW_END ? GW_OK : st;
}

/* ---- writing ---- */

static const char *const fn_names[] = {"cuInit", "cuMemAlloc_v2", "cuMemFree_v2", "cuLaunchKernel"};
enum { FN_COUNT = 4 };

static gw_error err; /* of the last failure */

static gw_writer *create(uint64_t bytes_max)
{
    gw_writer *writer = NULL;
    unlink(gw_test_file);
    if (gw_writer_create(gw_test_file, bytes_max, fn_names, FN_COUNT, &writer, &err) != GW_OK)
        fail_msg("%s", err.text);
    return writer;
}

static void put(gw_writer *writer, const gw_item *item, test_lines *expected)
{
    if (gw_writer_put(writer, item, &err) != GW_OK)
        fail_msg("%s", err.text);
    if (expected != NULL)
        test_lines_add(expected, test_line(item, NULL));
}

static void close_writer(gw_writer *writer)
{
    if (gw_writer_close(writer, &err) != GW_OK)
        fail_msg("%s", err.text);
}

static gw_reader *open_reader(void)
{
    gw_reader *reader = NULL;
    if (gw_reader_open(gw_test_file, &reader, &err) != GW_OK)
        fail_msg("%s", err.text);
    return reader;
}

static gw_item event_item(uint64_t t_ns, uint8_t kind, uint16_t fn, uint64_t arg0, uint64_t arg1)
{
    gw_item item = {.kind = GW_ITEM_EVENT, .t_ns = t_ns, .pid = 10, .tid = 11};
    item.event = (gw_event){.t_ns = t_ns, .pid = 10, .tid = 11, .fn = fn, .kind = kind, .arg = {arg0, arg1}};
    return item;
}

static void put_events(gw_writer *writer, test_lines *expected)
{
    gw_item item = event_item(1000, GW_EV_ALLOC, 1, 0x7f0000000000, 2 << 20);
    put(writer, &item, expected);
    item = event_item(1500, GW_EV_FREE, 2, 0x7f0000000000, 0);
    item.event.took_us = 65535;
    item.event.context = 0x55aa55aa55aa;
    put(writer, &item, expected);
    item = event_item(UINT64_MAX, GW_EV_CALL, 0xffff, UINT64_MAX, 1);
    item.event.arg[2] = 1ull << 63;
    item.event.arg[3] = UINT64_MAX - 1;
    item.event.result = 999;
    item.event.site = UINT32_MAX;
    item.event.extra = 1;
    item.event.flags = 0xff;
    item.event.text = "kernel \"f\"\n";
    item.event.text_bytes = 11;
    put(writer, &item, expected);
    item.event.text = "";
    item.event.text_bytes = 0;
    item.event.arg[0] = 0;
    put(writer, &item, expected);
    item = event_item(7, GW_EV_ALLOC, 1, 0, 0); /* earlier than the previous event, which is allowed */
    put(writer, &item, expected);
}

static void put_state(gw_writer *writer, test_lines *expected)
{
    uint64_t counter[GW_COUNT_COUNT];
    for (unsigned i = 0; i < GW_COUNT_COUNT; i++)
        counter[i] = i * i * 1000003u;
    gw_item item = {.kind = GW_ITEM_COUNTERS,
                    .t_ns = 5,
                    .pid = 10,
                    .tid = 11,
                    .counters = {counter, UINT64_MAX, 3, 4, 2, "worker"}};
    put(writer, &item, expected);
    gw_hot_call call[3] = {{5, 0x1000, 0x2000, 3}, {9, 0x1000, 0, 3}, {9, UINT64_MAX, UINT64_MAX, 0}};
    put(writer, &(gw_item){.kind = GW_ITEM_RING, .t_ns = 6, .pid = 10, .tid = 11, .ring = {call, 3, 77, 76}}, expected);
    put(writer, &(gw_item){.kind = GW_ITEM_LOST, .t_ns = 6, .pid = 10, .lost = {1, 2, 3}}, expected);
}

static void put_facts(gw_writer *writer, test_lines *expected)
{
    gw_item item = {.kind = GW_ITEM_META, .pair = {"argv", "python"}};
    put(writer, &item, expected);
    item.pair.value = "";
    put(writer, &item, expected);
    item = (gw_item){.kind = GW_ITEM_PROCESS, .t_ns = 1, .pid = 10, .tid = 10};
    item.process.parent_pid = 9;
    item.process.start_realtime_ns = 1763600000000000000;
    item.process.exe = "/usr/bin/python3";
    item.process.driver_path = "/lib/libcuda.so.1";
    item.process.driver_build_id = "00ff";
    item.process.pid_namespace = 4026531836;
    put(writer, &item, expected);
    put(writer, &(gw_item){.kind = GW_ITEM_MAPS, .pid = 10, .pair = {"/lib/libc.so.6", "abcd"}}, expected);
    put(writer, &(gw_item){.kind = GW_ITEM_SUPERVISOR, .t_ns = 8, .pair = {"unobserved.driver", "10"}}, expected);
}

static void put_symbols(gw_writer *writer, test_lines *expected)
{
    gw_symbol_frame frame[GW_SYMBOL_FRAMES_MAX] = {{"std::vector<float>::resize", "stl_vector.h", 940, 8},
                                                   {"load_batch", "train.cpp", 41, 0},
                                                   {"main", NULL, 0, 0}};
    gw_item item = {
        .kind = GW_ITEM_SYMBOL, .t_ns = 9, .symbol = {"/bin/train", UINT64_MAX, 0x1234, GW_SYMBOL_LINE, frame, 3}};
    put(writer, &item, expected);
    item.symbol.count = GW_SYMBOL_FRAMES_MAX;
    put(writer, &item, expected);
    item.symbol.count = 0;
    item.symbol.state = 77; /* a state that only a later version has */
    item.symbol.path = "";
    put(writer, &item, expected);
}

static void put_end(gw_writer *writer, test_lines *expected)
{
    gw_item item = {.kind = GW_ITEM_STDERR, .t_ns = 9, .pid = 10, .stderr_part = {"Traceback\n\0\xff!", 13}};
    put(writer, &item, expected);
    item = (gw_item){.kind = GW_ITEM_EXIT,
                     .t_ns = 10,
                     .pid = 10,
                     .exit = {.pid = 10, .is_command = true, .status_known = true, .exit_code = -1, .signal = 11}};
    put(writer, &item, expected);
    item.exit = (gw_exit_fact){.pid = 12, .core_dumped = true, .exit_code = 255};
    put(writer, &item, expected);
}

static void put_machine(gw_writer *writer, test_lines *expected)
{
    gw_sample_value value[GW_METRIC_COUNT];
    for (unsigned i = 0; i < GW_METRIC_COUNT; i++)
        value[i] = (gw_sample_value){(uint16_t)i, (uint8_t)(i % GW_SAMPLE_STATE_COUNT), i == 0 ? UINT64_MAX : i * i};
    gw_item item = {
        .kind = GW_ITEM_SAMPLE, .t_ns = 9, .pid = 12, .sample = {GW_SOURCE_NVML, true, 3, value, GW_METRIC_COUNT}};
    put(writer, &item, expected);
    item.sample.count = 0;
    item.sample.whole = false;
    item.sample.device = GW_NO_DEVICE;
    put(writer, &item, expected);
    item = (gw_item){.kind = GW_ITEM_MACHINE, .t_ns = 10, .pid = 12};
    item.machine.kind = GW_MACHINE_XID;
    item.machine.source = GW_SOURCE_KERNEL_LOG;
    item.machine.device = 1;
    item.machine.count = UINT32_MAX;
    item.machine.code = 79;
    item.machine.value = UINT64_MAX;
    item.machine.text = "GPU has fallen off the bus.";
    put(writer, &item, expected);
    item.machine.kind = 200; /* a kind that only a later version has */
    item.machine.text = "";
    put(writer, &item, expected);
}

/* Write at least one item of every kind. The texts in `expected` have "?" in place of function names. */
static void write_all_kinds(gw_writer *writer, test_lines *expected)
{
    put_facts(writer, expected);
    put_events(writer, expected);
    put_state(writer, expected);
    assert_int_equal(gw_writer_flush(writer, true, &err), GW_OK);
    put_events(writer, expected);
    put_symbols(writer, expected);
    put_machine(writer, expected);
    put_end(writer, expected);
}

static void strip_fn_names(test_lines *lines)
{
    for (size_t i = 0; i < lines->count; i++)
        for (unsigned k = 0; k < FN_COUNT; k++) {
            char *at = strstr(lines->line[i], fn_names[k]);
            if (at != NULL) {
                *at = '?';
                memmove(at + 1, at + strlen(fn_names[k]), strlen(at + strlen(fn_names[k])) + 1);
            }
        }
}

static void assert_same(const test_lines *got, const test_lines *expected)
{
    for (size_t i = 0; i < got->count && i < expected->count; i++)
        assert_string_equal(got->line[i], expected->line[i]);
    assert_int_equal(got->count, expected->count);
}

GW_TEST(every_item_comes_back)
{
    test_lines expected = {0}, got = {0};
    gw_writer *writer = create(0);
    write_all_kinds(writer, &expected);
    close_writer(writer);
    assert_int_equal(test_lines_read(gw_test_file, &got, &err), GW_END);
    assert_int_equal(got.faults, 0);
    strip_fn_names(&got);
    assert_same(&got, &expected);
    assert_int_equal(check_recording(gw_test_file, &err), GW_OK);
    struct stat info;
    assert_int_equal(stat(gw_test_file, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    test_lines_free(&got);
    test_lines_free(&expected);
}

GW_TEST(functions_have_names)
{
    close_writer(create(0));
    gw_reader *reader = open_reader();
    assert_int_equal(gw_reader_fn_count(reader), FN_COUNT);
    assert_string_equal(gw_reader_fn_name(reader, 3), "cuLaunchKernel");
    assert_string_equal(gw_reader_fn_name(reader, 4), "?");
    assert_string_equal(gw_reader_fn_name(reader, 0xffff), "?");
    gw_reader_close(reader);
}

/* Write events of so many threads, functions and contexts that their templates do not fit into one block. All events
 * must be read as they were written. */
GW_TEST(many_templates)
{
    enum { COUNT = 60000 };
    gw_writer *writer = create(0);
    for (uint32_t i = 0; i < COUNT; i++) {
        gw_item item = event_item(i, GW_EV_ALLOC, (uint16_t)(i % FN_COUNT), i * 4096ull, i);
        item.event.tid = item.tid = i * 7919 % 5000;
        item.event.context = i % 3;
        put(writer, &item, NULL);
    }
    close_writer(writer);
    gw_reader *reader = open_reader();
    const gw_item *item = NULL;
    for (uint32_t i = 0; i < COUNT; i++) {
        if (gw_reader_next(reader, &item, &err) != GW_OK)
            fail_msg("event %u: %s", i, err.text);
        assert_int_equal(item->event.t_ns, i);
        assert_int_equal(item->event.tid, i * 7919 % 5000);
        assert_int_equal(item->tid, i * 7919 % 5000);
        assert_int_equal(item->event.context, i % 3);
        assert_int_equal(item->event.arg[0], i * 4096ull);
        assert_int_equal(item->event.arg[1], i);
    }
    assert_int_equal(gw_reader_next(reader, &item, &err), GW_END);
    gw_reader_close(reader);
}

/* Read the same events one by one and many together; the results must be equal. Arguments stay the same, decrease, or
 * need all eight bytes. Texts, sites and durations are present or missing. */
GW_TEST(events_come_in_numbers)
{
    enum { COUNT = 30000, ROOM = 64 };
    static gw_event event[ROOM];
    gw_writer *writer = create(0);
    for (uint64_t i = 0; i < COUNT; i++) {
        gw_item item = event_item(i * 3, GW_EV_ALLOC, (uint16_t)(i % FN_COUNT), i * 0x9e3779b97f4a7c15u, i % 5);
        item.event.arg[2] = i % 7 == 0 ? ~(i * i) : 1;
        item.event.arg[3] = i % 11 == 0 ? i << 50 : 2;
        item.event.took_us = i % 3 == 0 ? (uint16_t)i : 0;
        item.event.site = (uint32_t)(i / 10);
        item.event.extra = (uint32_t)(i / 100);
        item.event.text = i % 13 == 0 ? "text" : NULL;
        item.event.text_bytes = i % 13 == 0 ? 4 : 0;
        put(writer, &item, NULL);
    }
    close_writer(writer);
    gw_reader *one = open_reader(), *many = open_reader();
    const gw_item *item = NULL;
    assert_int_equal(gw_reader_events(many, event, ROOM), 0); /* gw_reader_next() has not started a block yet */
    size_t seen = 0, calls = 0;
    while (gw_reader_next(many, &item, &err) == GW_OK) {
        size_t count = 1;
        for (event[0] = item->event; count > 0; count = gw_reader_events(many, event, ROOM), calls++) {
            for (size_t i = 0; i < count; i++, seen++) {
                assert_int_equal(gw_reader_next(one, &item, &err), GW_OK);
                char *line = test_line(item, one);
                gw_item other = *item;
                other.event = event[i];
                char *same = test_line(&other, many);
                assert_string_equal(line, same);
                assert_int_equal(event[i].t_ns, item->t_ns);
                free(line);
                free(same);
            }
        }
    }
    assert_int_equal(seen, COUNT);
    assert_true(calls < COUNT / 32);
    gw_reader_close(one);
    gw_reader_close(many);
}

/* ---- damage ---- */

static uint8_t *load(size_t *ret_bytes)
{
    FILE *file = fopen(gw_test_file, "rb");
    struct stat info;
    assert_non_null(file);
    assert_int_equal(fstat(fileno(file), &info), 0);
    uint8_t *data = malloc((size_t)info.st_size + 1);
    *ret_bytes = fread(data, 1, (size_t)info.st_size, file);
    fclose(file);
    return data;
}

static void store(const uint8_t *data, size_t bytes)
{
    gw_test_write(gw_test_file, data, bytes);
}

/* True if all lines of `got` are in `whole`, in the same order. If not, the reader returned an item that was never
 * written. */
static bool is_subsequence(const test_lines *got, const test_lines *whole)
{
    char truncated[16];
    size_t at = 0;
    int bytes = snprintf(truncated, sizeof truncated, "%d t ", GW_ITEM_TRUNCATED);
    for (size_t i = 0; i < got->count; i++) {
        if (strncmp(got->line[i], truncated, (size_t)bytes) == 0)
            continue;
        while (at < whole->count && strcmp(whole->line[at], got->line[i]) != 0)
            at++;
        if (at++ == whole->count)
            return false;
    }
    return true;
}

static void check_flipped(size_t at, const test_lines *whole)
{
    test_lines got = {0};
    gw_status st = test_lines_read(gw_test_file, &got, &err);
    if (st != GW_END) { /* the whole file was refused, so the error must name an offset */
        if (strstr(err.text, "offset") == NULL)
            fail_msg("byte %zu: %s", at, err.text);
    } else if (got.faults == 0 && got.count > 0 && atoi(got.line[got.count - 1]) == GW_ITEM_TRUNCATED) {
        if (!is_subsequence(&got, whole))
            fail_msg("byte %zu: items that were never written", at);
    } else if (got.faults == 0) {
        assert_same(&got, whole);
        fail_msg("byte %zu: the flip was not noticed", at);
    } else if (!is_subsequence(&got, whole)) {
        fail_msg("byte %zu: items that were never written", at);
    } else if (strstr(got.fault.text, "offset") == NULL) {
        fail_msg("byte %zu: no offset: %s", at, got.fault.text);
    } else if (got.count + 20 < whole->count) {
        fail_msg("byte %zu: more than a block is gone: %zu of %zu", at, got.count, whole->count);
    }
    test_lines_free(&got);
}

/* Write a recording with all kinds of items. Returns its bytes, and its items as lines. */
static uint8_t *make_whole(size_t *ret_bytes, test_lines *ret_lines)
{
    gw_writer *writer = create(0);
    write_all_kinds(writer, NULL);
    close_writer(writer);
    assert_int_equal(test_lines_read(gw_test_file, ret_lines, &err), GW_END);
    return load(ret_bytes);
}

GW_TEST(every_flipped_byte_is_noticed)
{
    test_lines whole = {0};
    size_t bytes;
    uint8_t *data = make_whole(&bytes, &whole);
    int fd = open(gw_test_file, O_WRONLY);
    for (size_t i = 0; i < bytes; i++) {
        static const uint8_t masks[] = {0xff, 0x01, 0x80};
        for (unsigned k = 0; k < sizeof masks; k++) {
            uint8_t flipped = data[i] ^ masks[k];
            assert_int_equal(pwrite(fd, &flipped, 1, (off_t)i), 1);
            check_flipped(i, &whole);
        }
        assert_int_equal(pwrite(fd, &data[i], 1, (off_t)i), 1);
    }
    close(fd);
    assert_int_equal(check_recording(gw_test_file, &err), GW_OK);
    free(data);
    test_lines_free(&whole);
}

GW_TEST(every_truncation_gives_a_prefix)
{
    test_lines whole = {0};
    size_t bytes, longest = 0;
    uint8_t *data = make_whole(&bytes, &whole);
    for (size_t cut = bytes; cut-- > 0;) {
        test_lines got = {0};
        assert_int_equal(truncate(gw_test_file, (off_t)cut), 0);
        gw_status st = test_lines_read(gw_test_file, &got, &err);
        if (cut < 32) {
            assert_int_equal(st, GW_CORRUPT);
            assert_non_null(strstr(err.text, "offset 0"));
            continue;
        }
        assert_int_equal(st, GW_END);
        assert_int_equal(got.faults, 0);
        assert_true(got.count > 0);
        assert_int_equal(atoi(got.line[got.count - 1]), GW_ITEM_TRUNCATED);
        for (size_t i = 0; i + 1 < got.count; i++)
            assert_string_equal(got.line[i], whole.line[i]);
        longest = got.count > longest ? got.count : longest;
        assert_int_equal(check_recording(gw_test_file, &err), GW_CORRUPT);
        test_lines_free(&got);
    }
    assert_int_equal(longest, whole.count + 1); /* the longest of the truncated files lacks only the END block */
    free(data);
    test_lines_free(&whole);
}

/* Remove bytes from the middle of a file, or insert some. The reader must find the blocks before and after the
 * change. */
GW_TEST(shifted_blocks_are_found)
{
    test_lines whole = {0};
    size_t bytes;
    uint8_t *data = make_whole(&bytes, &whole);
    uint8_t *changed = malloc(bytes + 100);
    for (size_t at = 32; at + 7 < bytes; at += 13) {
        memcpy(changed, data, at);
        memcpy(changed + at, data + at + 7, bytes - at - 7);
        store(changed, bytes - 7);
        check_flipped(at, &whole);
        memset(changed + at, 0xa7, 100);
        memcpy(changed + at + 100, data + at, bytes - at);
        store(changed, bytes + 100);
        check_flipped(at, &whole);
    }
    free(changed);
    free(data);
    test_lines_free(&whole);
}

/* The body of each block is damaged and contains the header of the next block. The reader must finish in limited time
 * and memory. */
GW_TEST(nested_heads_end)
{
    enum { HEADS = 100000 };
    close_writer(create(0));
    size_t bytes;
    uint8_t *file = load(&bytes);
    uint8_t *data = calloc(1, 32 + 32 * HEADS);
    memcpy(data, file, 32);
    for (unsigned cut = 0; cut < 2; cut++) {
        for (size_t i = 0; i < HEADS; i++) {
            size_t left = 32 * (HEADS - 1 - i);
            gwi_block_head head = {.marker = GWI_BLOCK_MARKER, .type = 3, .stored_crc = 1};
            head.raw_bytes = head.stored_bytes =
                cut || left > GWI_BLOCK_RAW_MAX ? GWI_BLOCK_RAW_MAX - (uint32_t)(i % 32) : (uint32_t)left;
            head.head_crc = gwi_crc32c(0, &head, sizeof head - 4);
            memcpy(data + 32 + 32 * i, &head, sizeof head);
        }
        store(data, 32 + 32 * HEADS);
        test_lines got = {0};
        assert_int_equal(test_lines_read(gw_test_file, &got, &err), GW_END);
        assert_true(got.faults > 0);
        assert_int_equal(got.count, 1); /* the TRUNCATED item */
        test_lines_free(&got);
    }
    free(data);
    free(file);
}

static void refuse(const char *content, size_t bytes, gw_status expected, const char *reason)
{
    gw_reader *reader;
    store((const uint8_t *)content, bytes);
    assert_int_equal(gw_reader_open(gw_test_file, &reader, &err), expected);
    if (strstr(err.text, reason) == NULL || strstr(err.text, gw_test_file) == NULL)
        fail_msg("expected \"%s\": %s", reason, err.text);
}

GW_TEST(what_is_no_recording_is_refused)
{
    gw_reader *reader;
    refuse("", 0, GW_CORRUPT, "empty");
    refuse("GPUWHY", 6, GW_CORRUPT, "too short");
    refuse("#!/bin/sh\n# a script that is long enough to have a header\n", 58, GW_CORRUPT, "not a gpuwhy recording");
    unlink(gw_test_file);
    assert_int_equal(gw_reader_open(gw_test_file, &reader, &err), GW_IO);
    assert_int_equal(gw_reader_open("/dev/null", &reader, &err), GW_IO);
    assert_int_equal(gw_reader_open("/nowhere/at/all", &reader, &err), GW_IO);
    assert_int_equal(gw_reader_open(gw_test_folder, &reader, &err), GW_IO);
    assert_non_null(strstr(err.text, "not a run folder"));
}

GW_TEST(a_newer_version_is_refused)
{
    gw_reader *reader;
    size_t bytes;
    close_writer(create(0));
    uint8_t *data = load(&bytes);
    data[8] = 9;
    uint32_t crc = gwi_crc32c(0, data, 28);
    memcpy(data + 28, &crc, 4);
    store(data, bytes);
    assert_int_equal(gw_reader_open(gw_test_file, &reader, &err), GW_VERSION);
    assert_non_null(strstr(err.text, "version 9"));
    free(data);
}

/* ---- other builds ---- */

/* Another build numbers kinds and counters differently, and has names that are unknown here. The known names must get
 * the numbers of this build. */
GW_TEST(numbers_of_another_build)
{
    static const char *const names[] = {"FREE", "TELEPORT", "ALLOC", "COPY_BYTES", "SPIN", "LAUNCH", "cuOne"};
    gwi_bytes dict = {0};
    uint32_t counts[3] = {3, 3, 1};
    dict.data = malloc(4096);
    dict.capacity = 4096;
    memcpy(dict.data, counts, 12);
    dict.used_bytes = 12;
    for (unsigned i = 0; i < 7; i++) {
        uint32_t length = (uint32_t)strlen(names[i]);
        memcpy(dict.data + dict.used_bytes, &length, 4);
        memcpy(dict.data + dict.used_bytes + 4, names[i], length + 1);
        dict.used_bytes += 5 + length;
    }
    gwi_dict decoded = {0};
    assert_int_equal(gwi_dict_decode(dict.data, dict.used_bytes, &decoded), GW_OK);
    gwi_encoder *encoder = gwi_encoder_new();
    for (uint8_t kind = 0; kind < 4; kind++) {
        gw_event event = {.t_ns = kind, .kind = kind, .arg = {kind}};
        assert_true(gwi_encoder_add(encoder, &event));
    }
    uint32_t bytes, count;
    const uint8_t *data = gwi_encoder_data(encoder, &bytes, &count);
    uint8_t *raw = calloc(1, bytes + GWI_SLACK_BYTES);
    memcpy(raw, data, bytes);
    gwi_decoder *decoder = malloc(sizeof *decoder);
    assert_true(gwi_decoder_start(decoder, &decoded, raw, bytes));
    static const uint8_t expected[] = {GW_EV_FREE, GW_EV_CALL, GW_EV_ALLOC};
    const gw_item *item = NULL;
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(gwi_decoder_next(decoder, &item), GW_OK);
        assert_int_equal(item->event.kind, expected[i]);
        assert_int_equal(item->event.arg[0], i);
    }
    assert_int_equal(gwi_decoder_next(decoder, &item), GW_CORRUPT); /* the dictionary has only the kinds 0 to 2 */
    assert_int_equal(decoded.counter[0], GW_COUNT_COPY_BYTES);
    assert_int_equal(decoded.counter[1], GW_COUNT_COUNT);
    assert_int_equal(decoded.counter[2], GW_COUNT_LAUNCH);
    assert_string_equal(decoded.fn_name[0], "cuOne");
    free(decoder);
    free(raw);
    free(encoder);
    gwi_dict_free(&decoded);
    gwi_bytes_free(&dict);
}

GW_TEST(unknown_items_are_passed_over)
{
    gwi_bytes bytes = {0};
    gw_item meta = {.kind = GW_ITEM_META, .pair = {"a", "b"}};
    assert_int_equal(gwi_item_encode(&bytes, &meta), GW_OK);
    uint32_t second = bytes.used_bytes;
    assert_int_equal(gwi_item_encode(&bytes, &meta), GW_OK);
    bytes.data[0] = 200;
    gwi_item_reader reader = {0};
    gwi_dict dict = {0};
    const gw_item *item = NULL;
    gwi_item_reader_start(&reader, &dict, bytes.data, bytes.used_bytes);
    assert_int_equal(gwi_item_reader_next(&reader, &item), GW_OK);
    assert_string_equal(item->pair.key, "a");
    assert_int_equal(gwi_item_reader_next(&reader, &item), GW_END);
    /* Truncate the second item at every length. The decoder must not read past the end of the allocation. */
    for (uint32_t cut = second + 1; cut < bytes.used_bytes; cut++) {
        uint8_t *exact = malloc(cut);
        memcpy(exact, bytes.data, cut);
        gwi_item_reader_start(&reader, &dict, exact, cut);
        assert_int_equal(gwi_item_reader_next(&reader, &item), GW_CORRUPT);
        free(exact);
    }
    gwi_item_reader_free(&reader);
    gwi_bytes_free(&bytes);
}

/* ---- limits ---- */

/* Return a pseudo-random number, so that the data cannot be compressed. */
static uint64_t noise(uint64_t i)
{
    i = (i + 1) * 0x9e3779b97f4a7c15u;
    i = (i ^ (i >> 29)) * 0xbf58476d1ce4e5b9u;
    return i ^ (i >> 32);
}

static void put_churn(gw_writer *writer, uint32_t rounds)
{
    for (uint32_t i = 0; i < rounds; i++) {
        uint64_t address = noise(i) >> 16;
        gw_item item = event_item(i * 100ull, GW_EV_ALLOC, 1, address, noise(address) >> 44);
        put(writer, &item, NULL);
        bool leaks = i % 5000 == 0;
        bool fails = i % 7000 == 1;
        item = event_item(i * 100ull + 50, leaks ? GW_EV_LIMIT_SET : GW_EV_FREE, 2, address, 0);
        if (!leaks)
            put(writer, &item, NULL);
        if (fails) {
            item.event.result = 2;
            item.event.arg[0] = i;
            put(writer, &item, NULL);
        }
    }
}

typedef struct tally {
    uint64_t events, leaks, failures, dropped, duplicates;
    uint64_t t_ns_last;
    bool exit_seen, meta_seen, in_order;
} tally;

static tally count_items(void)
{
    tally t = {.in_order = true};
    gw_reader *reader;
    const gw_item *item = NULL;
    gw_status st;
    assert_int_equal(gw_reader_open(gw_test_file, &reader, &err), GW_OK);
    while ((st = gw_reader_next(reader, &item, &err)) == GW_OK) {
        if (item->kind == GW_ITEM_EVENT) {
            t.events++;
            t.in_order &= item->t_ns >= t.t_ns_last;
            t.t_ns_last = item->t_ns;
            t.failures += item->event.result != 0;
            t.leaks += item->event.kind == GW_EV_ALLOC && item->t_ns / 100 % 5000 == 0;
        }
        t.meta_seen |= item->kind == GW_ITEM_META;
        t.exit_seen |= item->kind == GW_ITEM_EXIT;
        if (item->kind == GW_ITEM_SUPERVISOR && strcmp(item->pair.key, "dropped.events") == 0)
            t.dropped = strtoull(item->pair.value, NULL, 10);
    }
    if (st != GW_END)
        fail_msg("%s", err.text);
    gw_reader_close(reader);
    return t;
}

GW_TEST(the_limit_keeps_what_is_alive)
{
    enum { ROUNDS = 200000, LIMIT = 600 << 10 };
    struct stat info;
    gw_writer *writer = create(LIMIT);
    put_facts(writer, NULL);
    for (unsigned i = 0; i < 20; i++) {
        put_state(writer, NULL);
        put_churn(writer, 0);
    }
    put_churn(writer, ROUNDS);
    put_end(writer, NULL);
    close_writer(writer);
    assert_int_equal(stat(gw_test_file, &info), 0);
    assert_true(info.st_size <= LIMIT * 9 / 8);
    assert_int_equal(check_recording(gw_test_file, &err), GW_OK);
    tally t = count_items();
    assert_true(t.meta_seen && t.exit_seen && t.in_order);
    assert_int_equal(t.leaks, ROUNDS / 5000);
    assert_int_equal(t.failures, (ROUNDS - 2) / 7000 + 1);
    assert_true(t.dropped > 0);
    assert_int_equal(t.events + t.dropped, 2 * ROUNDS - ROUNDS / 5000 + (ROUNDS - 2) / 7000 + 1);
    assert_true(t.events > 10000);
    char smaller[sizeof gw_test_file + 16];
    snprintf(smaller, sizeof smaller, "%s.smaller", gw_test_file);
    assert_int_equal(access(smaller, F_OK), -1);
}

/* When the file is compacted at its size limit, it must keep the first and the last full sample of each device. */
GW_TEST(the_limit_keeps_first_and_last_samples)
{
    enum { ROUNDS = 40, LIMIT = 300 << 10, FIRST = 7 };
    gw_writer *writer = create(LIMIT);
    for (unsigned i = 0; i < ROUNDS; i++) {
        for (uint32_t device = 0; device < 2; device++) {
            gw_sample_value value = {GW_METRIC_CARD_ECC_UNCORRECTED, GW_SAMPLE_KNOWN, FIRST + i};
            gw_item item = {
                .kind = GW_ITEM_SAMPLE, .t_ns = i, .sample = {GW_SOURCE_NVML, i % 4 == 0, device, &value, 1}};
            put(writer, &item, NULL);
        }
        put_churn(writer, 8000);
    }
    close_writer(writer);
    gw_reader *reader;
    const gw_item *item;
    uint64_t first[2] = {0, 0}, last[2] = {0, 0}, count = 0, dropped = 0;
    assert_int_equal(gw_reader_open(gw_test_file, &reader, &err), GW_OK);
    while (gw_reader_next(reader, &item, &err) == GW_OK) {
        if (item->kind == GW_ITEM_SUPERVISOR && strcmp(item->pair.key, "dropped.events") == 0)
            dropped = strtoull(item->pair.value, NULL, 10);
        if (item->kind != GW_ITEM_SAMPLE)
            continue;
        uint32_t device = item->sample.device;
        assert_true(device < 2 && item->sample.count == 1);
        if (first[device] == 0)
            first[device] = item->sample.value[0].value;
        last[device] = item->sample.value[0].value;
        count++;
    }
    gw_reader_close(reader);
    assert_true(dropped > 0 && count < 2 * ROUNDS);
    for (uint32_t device = 0; device < 2; device++) {
        assert_int_equal(first[device], FIRST);
        assert_int_equal(last[device], FIRST + ROUNDS - 1);
    }
}

/* Write `count` events that cannot be compressed, although the disk becomes full. Returns the first failure. */
static gw_status put_noise(gw_writer *writer, uint32_t count)
{
    gw_status st = GW_OK;
    for (uint32_t i = 0; i < count; i++) {
        gw_item item = event_item(i, GW_EV_ALLOC, 1, noise(i), noise(i + count));
        gw_status now = gw_writer_put(writer, &item, &err);
        st = st == GW_OK ? now : st;
    }
    return st;
}

static const gw_item end = {.kind = GW_ITEM_EXIT, .t_ns = 10, .pid = 10, .exit = {.pid = 10}};

GW_TEST(a_full_disk_is_said_and_closed)
{
    struct rlimit unlimited, tight;
    gw_writer *writer = create(0);
    put_facts(writer, NULL);
    assert_int_equal(gw_writer_flush(writer, false, &err), GW_OK);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &unlimited), 0);
    tight = unlimited;
    tight.rlim_cur = 200 << 10;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    assert_int_equal(put_noise(writer, 200000), GW_IO);
    assert_non_null(strstr(err.text, gw_test_file));
    /* This call writes only the pending block of events. The write succeeds if the block still fits. */
    gw_status st = gw_writer_put(writer, &end, &err);
    assert_true(st == GW_IO || st == GW_OK);
    assert_int_equal(gw_writer_close(writer, &err), GW_IO);
    assert_non_null(strstr(err.text, "write at offset"));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &unlimited), 0);
    assert_int_equal(check_recording(gw_test_file, &err), GW_OK);
    tally t = count_items();
    assert_true(t.meta_seen && t.exit_seen);
    assert_int_equal(t.events + t.dropped, 200000);
}

/* Write more events than a file system of 1 MiB can hold. The file must still end with the EXIT item and the END
 * block. */
GW_TEST(a_full_file_system_leaves_room_for_the_end)
{
    if (mount("tmpfs", gw_test_folder, "tmpfs", 0, "size=1m") != 0) {
        print_message("skipped: mounting a small tmpfs: %s\n", strerror(errno));
        skip();
    }
    gw_writer *writer = create(0);
    gw_status st = put_noise(writer, 300000);
    /* This call writes the last block of events, which is smaller than the others and may still fit. */
    gw_status put_st = gw_writer_put(writer, &end, &err);
    gw_status close_st = gw_writer_close(writer, &err);
    gw_error check_err = {""};
    gw_status check_st = check_recording(gw_test_file, &check_err);
    tally t = count_items();
    umount(gw_test_folder);
    assert_int_equal(st, GW_IO);
    assert_true(put_st == GW_IO || put_st == GW_OK);
    assert_int_equal(close_st, GW_IO);
    assert_non_null(strstr(err.text, "No space left"));
    assert_int_equal(check_st, GW_OK);
    assert_true(t.exit_seen);
    assert_int_equal(t.events + t.dropped, 300000);
}

GW_TEST(an_existing_file_is_not_overwritten)
{
    gw_writer *writer;
    close_writer(create(0));
    assert_int_equal(gw_writer_create(gw_test_file, 0, fn_names, FN_COUNT, &writer, &err), GW_IO);
    assert_non_null(strstr(err.text, gw_test_file));
}

GW_TEST(both_checksums_agree)
{
    uint8_t data[300];
    for (unsigned i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 37 + i / 7);
    assert_int_equal(gwi_crc32c(0, "123456789", 9), 0xe3069283);
    for (unsigned from = 0; from < 9; from++)
        for (unsigned bytes = 0; bytes + from <= sizeof data; bytes++)
            assert_int_equal(gwi_crc32c(7, data + from, bytes), gwi_crc32c_by_table(7, data + from, bytes));
}

/* ---- old recordings stay readable ---- */

static void write_fixture(const char *name)
{
    test_lines expected = {0};
    snprintf(gw_test_file, sizeof gw_test_file, "%s", name);
    gw_writer *writer = create(0);
    write_all_kinds(writer, &expected);
    close_writer(writer);
}

/* Append one line of the text file that lists the contents of a fixture. Characters that are not printable ASCII are
 * written as \xHH. */
static void put_escaped(gw_text *to, const char *line)
{
    for (; *line != '\0'; line++) {
        if (*line >= ' ' && *line < 127 && *line != '\\')
            gw_text_add(to, line, 1);
        else
            gw_text_addf(to, "\\x%02x", (unsigned char)*line);
    }
    gw_text_add_str(to, "\n");
}

static char *fixture_text(const char *name, gw_status *ret_status)
{
    test_lines got = {0};
    gw_text text = {0};
    *ret_status = test_lines_read(name, &got, &err);
    for (size_t i = 0; i < got.count; i++)
        put_escaped(&text, got.line[i]);
    assert_int_equal(got.faults, 0);
    test_lines_free(&got);
    return text.data;
}

static void check_fixture(const char *name)
{
    char file[512];
    gw_status st;
    char *golden = calloc(1, 65536);
    snprintf(file, sizeof file, "%s/version-1.txt", GW_FIXTURES);
    FILE *golden_file = fopen(file, "r");
    assert_non_null(golden_file);
    assert_true(fread(golden, 1, 65535, golden_file) > 100);
    fclose(golden_file);
    snprintf(file, sizeof file, "%s/%s", GW_FIXTURES, name);
    char *text = fixture_text(file, &st);
    assert_int_equal(st, GW_END);
    assert_string_equal(text, golden);
    free(text);
    free(golden);
}

GW_TEST(version_1_is_read)
{
    check_fixture("version-1-plain.gpuwhy");
    check_fixture("version-1-packed.gpuwhy");
}

/* Check that the columns of the table of event kinds are consistent. For example, if a kind with GW_FOLD_PAIR creates
 * objects of a type, another kind must end them. */
GW_TEST(columns_of_kinds_go_together)
{
    unsigned pairs[GW_THING_COUNT] = {0};
    for (unsigned i = 0; i < GW_EV_COUNT; i++) {
        const gw_kind_traits *kind = gw_event_kind_traits(i);
        assert_int_equal(kind->effect == GW_EFFECT_NONE, kind->thing == GW_THING_NONE);
        if (kind->fold == GW_FOLD_PAIR)
            pairs[kind->thing] |= 1u << kind->effect;
        if (kind->effect != GW_EFFECT_NONE || kind->order != GW_ORDERING_NONE)
            assert_int_equal(kind->price, GW_PRICE_RARE);
        if (kind->order == GW_ORDERING_FREES)
            assert_int_equal(kind->effect, GW_EFFECT_ENDS);
        if (gw_is_request(i) || gw_is_pinning(i))
            assert_string_equal(gw_event_arg_name(i, 1), "bytes");
    }
    assert_int_equal(pairs[GW_THING_NONE], 0);
    for (unsigned i = 0; i < GW_THING_COUNT; i++)
        assert_true(pairs[i] == 0 || pairs[i] == (1u << GW_EFFECT_MAKES | 1u << GW_EFFECT_ENDS) ||
                    pairs[i] == (1u << GW_EFFECT_TAKES | 1u << GW_EFFECT_ENDS));
    assert_ptr_equal(gw_event_kind_traits(GW_EV_COUNT), gw_event_kind_traits(GW_EV_CALL));
}

/* `recording_test --fixture FILE` writes a recording with items of every kind and prints its contents. It makes the
 * fixture for a new version of the format. */
int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--fixture") == 0) {
        gw_status st;
        write_fixture(argv[2]);
        char *text = fixture_text(argv[2], &st);
        fputs(text, stdout);
        free(text);
        return st == GW_END ? 0 : 1;
    }
    return GW_TEST_RUN(gw_test_folder_make, gw_test_folder_remove);
}
