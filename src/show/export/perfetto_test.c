/* Tests the traces for Perfetto: the wire format, and that items with any times, threads and sizes give a trace that
 * can be read: tracks exist before their events, slices do not overlap, and each one that begins also ends. The decoder
 * here has its own field numbers, from Perfetto's schema. tests/cmd/test_perfetto.py tests traces of real runs. */
#define _GNU_SOURCE
#include "gw_export.h"
#include "gw_test_folder.h"
#include "gw_test_random.h"
#include "gwi_perfetto.h"

#include <malloc.h>
#include <string.h>
#include <unistd.h>

static void expect_bytes(gw_text *message, const char *bytes, size_t count)
{
    assert_int_equal(message->bytes, count);
    assert_memory_equal(gw_text_str(message), bytes, count);
    gw_text_clear(message);
}

GW_TEST(the_wire_format)
{
    gw_text message = {0}, inner = {0};
    gwi_wire_number(&message, 1, 150);
    expect_bytes(&message, "\x08\x96\x01", 3);
    gwi_wire_number(&message, 1, 0);
    expect_bytes(&message, "\x08\x00", 2);
    gwi_wire_number(&message, 60, 127);
    expect_bytes(&message, "\xe0\x03\x7f", 3);
    gwi_wire_number(&message, 1, UINT64_MAX);
    expect_bytes(&message, "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11);
    gwi_wire_string(&message, 2, "hi");
    expect_bytes(&message, "\x12\x02hi", 4);
    gwi_wire_string(&message, 2, "a\xff");
    expect_bytes(&message,
                 "\x12\x04"
                 "a\xef\xbf\xbd",
                 6);
    gwi_wire_number(&inner, 1, 150);
    gwi_wire_message(&message, 3, &inner);
    expect_bytes(&message, "\x1a\x03\x08\x96\x01", 5);
    assert_int_equal(inner.bytes, 0);
    gw_text_free(&message);
    gw_text_free(&inner);
}

/* ---- a decoder ---- */

typedef struct field {
    unsigned number;
    uint64_t value; /* a number, or the count of bytes */
    const char *bytes;
} field;

static uint64_t take_varint(const char **at, const char *end)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        assert_true(*at < end);
        unsigned byte = (unsigned char)*(*at)++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return value;
    }
    fail_msg("a number of more than 10 bytes");
    return 0;
}

/* Read the next field. False at the end. */
static bool take_field(const char **at, const char *end, field *ret_field)
{
    if (*at == end)
        return false;
    uint64_t tag = take_varint(at, end);
    *ret_field = (field){.number = (unsigned)(tag >> 3)};
    ret_field->value = take_varint(at, end);
    if ((tag & 7) == 2) {
        assert_true(ret_field->value <= (uint64_t)(end - *at));
        ret_field->bytes = *at;
        *at += ret_field->value;
    } else {
        assert_int_equal(tag & 7, 0);
    }
    return true;
}

/* Return the value of a field of a message; 0: there is none. */
static uint64_t value_of(const field *message, unsigned number)
{
    const char *at = message->bytes;
    field one;
    while (at != NULL && take_field(&at, message->bytes + message->value, &one))
        if (one.number == number)
            return one.value;
    return 0;
}

static field message_in(const field *message, unsigned number)
{
    const char *at = message->bytes;
    field one;
    while (at != NULL && take_field(&at, message->bytes + message->value, &one))
        if (one.number == number)
            return one;
    return (field){0};
}

typedef struct seen_track {
    uint64_t uuid, t_last_ns;
    unsigned depth;
} seen_track;

enum { SEEN_MAX = 1 << 18 };
typedef struct seen {
    seen_track *track; /* hashed */
    size_t tracks, packets, slices, instants, counts;
} seen;

static seen_track *seen_of(seen *all, uint64_t uuid)
{
    size_t at = (size_t)(uuid * UINT64_C(0x9e3779b97f4a7c15) >> 40) % SEEN_MAX;
    while (all->track[at].uuid != 0 && all->track[at].uuid != uuid)
        at = (at + 1) % SEEN_MAX;
    return &all->track[at];
}

static void see_event(seen *all, const field *event, uint64_t t_ns)
{
    uint64_t type = value_of(event, 9);
    seen_track *track = seen_of(all, value_of(event, 11));
    assert_true(track->uuid != 0); /* its descriptor came before */
    assert_true(t_ns <= INT64_MAX);
    if (type == 1 || type == 2) {
        assert_true(t_ns >= track->t_last_ns);
        assert_true(type == 1 ? track->depth == 0 : track->depth == 1);
        track->depth = type == 1;
        track->t_last_ns = t_ns;
        all->slices += type == 1;
    }
    all->instants += type == 3;
    all->counts += type == 4;
}

static seen see_trace(const char *bytes, size_t count)
{
    seen all = {.track = calloc(SEEN_MAX, sizeof(seen_track))};
    const char *at = bytes;
    field packet;
    assert_non_null(all.track);
    while (take_field(&at, bytes + count, &packet)) {
        field track = message_in(&packet, 60), event = message_in(&packet, 11);
        assert_int_equal(packet.number, 1);
        assert_int_equal(value_of(&packet, 10), 1);
        assert_int_equal(value_of(&packet, 13), all.packets == 0 ? 3 : 2);
        assert_true((track.bytes != NULL) != (event.bytes != NULL));
        if (track.bytes != NULL) {
            seen_track *known = seen_of(&all, value_of(&track, 1));
            all.tracks += known->uuid == 0;
            known->uuid = value_of(&track, 1);
        } else {
            see_event(&all, &event, value_of(&packet, 8));
        }
        all.packets++;
    }
    return all;
}

/* ---- hostile items ---- */

/* Small numbers, numbers of any size, and numbers near the largest one. */
static uint64_t any_number(void)
{
    switch (gw_test_random() % 4) {
    case 0:
        return gw_test_random() % 8;
    case 1:
        return gw_test_random();
    case 2:
        return UINT64_MAX - gw_test_random() % 8;
    default:
        return gw_test_random() >> gw_test_random() % 64;
    }
}

static gw_item any_event(unsigned threads)
{
    gw_item item = {.kind = GW_ITEM_EVENT, .t_ns = any_number()};
    item.pid = (uint32_t)(gw_test_random() % 4 == 0 ? any_number() : 7);
    item.tid = (uint32_t)(gw_test_random() % threads);
    item.event = (gw_event){.t_ns = item.t_ns,
                            .pid = item.pid,
                            .tid = item.tid,
                            .fn = (uint16_t)gw_test_random(),
                            .kind = (uint8_t)(gw_test_random() % (GW_EV_COUNT + 2)),
                            .flags = (uint8_t)gw_test_random(),
                            .result = gw_test_random() % 4 == 0 ? (uint16_t)any_number() : 0,
                            .took_us = (uint16_t)any_number(),
                            .site = (uint32_t)any_number(),
                            .context = any_number() % 4};
    for (int i = 0; i < 4; i++)
        item.event.arg[i] = any_number();
    if (gw_test_random() % 4 == 0) {
        item.event.text = "text\x01\xff";
        item.event.text_bytes = 6;
    }
    return item;
}

static gw_item any_item(unsigned threads, gw_hot_call call[4], gw_sample_value value[2])
{
    unsigned kind = (unsigned)(gw_test_random() % 16);
    gw_item event = any_event(threads);
    gw_item item = {.t_ns = event.t_ns, .pid = event.pid, .tid = event.tid};
    switch (kind) {
    case 0:
        for (int i = 0; i < 4; i++)
            call[i] = (gw_hot_call){any_number(), any_number(), any_number(), (uint16_t)gw_test_random()};
        item.kind = GW_ITEM_RING;
        item.ring.call = call;
        item.ring.count = (uint32_t)(gw_test_random() % 5);
        item.ring.total = any_number();
        break;
    case 1:
        value[0] = (gw_sample_value){(uint16_t)(gw_test_random() % GW_METRIC_COUNT), GW_SAMPLE_KNOWN, any_number()};
        value[1] = (gw_sample_value){GW_METRIC_CARD_MEMORY_USED, GW_SAMPLE_KNOWN, any_number()};
        item.kind = GW_ITEM_SAMPLE;
        item.sample.source = GW_SOURCE_NVML;
        item.sample.device = (uint32_t)any_number();
        item.sample.value = value;
        item.sample.count = 2;
        break;
    case 2:
        item.kind = GW_ITEM_EXIT;
        item.exit = (gw_exit_fact){.pid = item.pid, .status_known = true, .exit_code = (int)any_number()};
        break;
    default:
        return event;
    }
    return item;
}

static int make_recording(void **state)
{
    static const char *const fn_names[] = {"cuMemAlloc_v2", "cuLaunchKernel"};
    gw_writer *writer;
    gw_error err;
    if (gw_test_folder_make(state) != 0 || gw_writer_create(gw_test_file, 0, fn_names, 2, &writer, &err) != GW_OK)
        return -1;
    return gw_writer_close(writer, &err) == GW_OK ? 0 : -1;
}

/* Items for an export: the next one, or false after the last. */
typedef struct source {
    gw_item (*next)(struct source *from);
    size_t count, done;
    unsigned threads;
    gw_hot_call call[4];
    gw_sample_value value[2];
} source;

static gw_item next_random(source *from)
{
    return any_item(from->threads, from->call, from->value);
}

/* Export the items of `from`, and one damaged block. The caller frees the text. */
static char *export_items(const char *name, source *from, size_t *ret_bytes)
{
    char *text = NULL;
    gw_error err = {""};
    gw_reader *reader = NULL;
    const gw_export_format *format = gw_export_find(name);
    assert_int_equal(gw_reader_open(gw_test_file, &reader, &err), GW_OK);
    gw_export_to to = {.file = open_memstream(&text, ret_bytes), .reader = reader};
    gw_status st = format->begin(&to, &err);
    for (; from->done < from->count && st == GW_OK; from->done++) {
        gw_item item = from->next(from);
        st = format->item(&to, &item, &err);
    }
    if (st == GW_OK && format->fault != NULL)
        st = format->fault(&to, "damage", &err);
    if (st == GW_OK && format->end != NULL)
        st = format->end(&to, &err);
    if (format->close != NULL)
        format->close(&to);
    if (st != GW_OK)
        fail_msg("%s: %s", name, err.text);
    fclose(to.file);
    gw_reader_close(reader);
    return text;
}

static char *export_any(const char *name, size_t count, unsigned threads, size_t *ret_bytes)
{
    source from = {.next = next_random, .count = count, .threads = threads};
    return export_items(name, &from, ret_bytes);
}

/* Rings of a thread with three calls each: of the calls 0 to 2, 2 to 4, and 2 to 4 again. After exec(), of the calls 0
 * to 2 of another ring. */
static gw_item next_ring(source *from)
{
    static const uint64_t total[] = {3, 5, 5, 3}, t_first_ns[] = {0, 2, 2, 50};
    gw_item item = {.kind = GW_ITEM_RING, .t_ns = 100, .pid = 7, .tid = 8};
    for (uint64_t i = 0; i < 3; i++)
        from->call[i] = (gw_hot_call){.t_ns = t_first_ns[from->done] + i, .fn = 1, .stream = 9};
    item.ring.call = from->call;
    item.ring.count = 3;
    item.ring.total = total[from->done];
    return item;
}

GW_TEST(each_call_of_a_ring_is_exported_once)
{
    size_t bytes;
    source from = {.next = next_ring, .count = 4};
    char *text = export_items("perfetto", &from, &bytes);
    seen all = see_trace(text, bytes);
    assert_int_equal(all.instants, 2 * (5 + 3) + 1); /* on the thread and on the stream, and the damage */
    free(all.track);
    free(text);
}

/* A handle that is used again: its first name, a second one, and a ring with a launch before and one after that. */
static gw_item next_of_reused_handle(source *from)
{
    gw_item item = {.kind = GW_ITEM_EVENT, .t_ns = from->done == 0 ? 10 : 50000, .pid = 7, .tid = 8};
    if (from->done < 2) {
        item.event = (gw_event){.t_ns = item.t_ns, .pid = 7, .tid = 8, .kind = GW_EV_FUNCTION};
        item.event.arg[0] = 99;
        item.event.text = from->done == 0 ? "first_kernel" : "second_kernel";
        item.event.text_bytes = (uint32_t)strlen(item.event.text);
        return item;
    }
    from->call[0] = (gw_hot_call){.t_ns = 20000, .fn = 1, .stream = 9, .what = 99};
    from->call[1] = (gw_hot_call){.t_ns = 60000, .fn = 1, .stream = 9, .what = 99};
    item.kind = GW_ITEM_RING;
    item.ring.call = from->call;
    item.ring.count = item.ring.total = 2;
    return item;
}

static size_t count_of(const char *text, size_t bytes, const char *words)
{
    size_t count = 0, left = bytes;
    const char *at = text;
    while ((at = memmem(at, left, words, strlen(words))) != NULL) {
        count++;
        at += strlen(words);
        left = bytes - (size_t)(at - text);
    }
    return count;
}

/* The name of an earlier launch is unknown, because the handle had another name then. */
GW_TEST(a_launch_has_the_name_of_its_time)
{
    size_t bytes;
    source from = {.next = next_of_reused_handle, .count = 3};
    char *text = export_items("perfetto", &from, &bytes);
    /* the launch on the thread has it as an annotation, that on the stream as an interned name, and the event as text
     */
    assert_int_equal(count_of(text, bytes, "second_kernel"), 3);
    assert_int_equal(count_of(text, bytes, "first_kernel"), 1); /* of the event */
    free(text);
}

GW_TEST(any_items_give_a_trace)
{
    for (uint64_t round = 1; round <= 20; round++) {
        size_t bytes;
        gw_test_random_state = round * 88172645463325252u;
        char *text = export_any("perfetto", 2000, 4, &bytes);
        seen all = see_trace(text, bytes);
        assert_true(all.tracks > 4 && all.instants > 0 && all.counts > 0 && all.slices > 0);
        free(all.track);
        free(text);
    }
}

/* There are at most 65,536 tracks and one for all others. */
GW_TEST(too_many_threads_share_a_track)
{
    size_t bytes;
    gw_test_random_state = 1;
    char *text = export_any("perfetto", 120000, UINT32_MAX, &bytes);
    seen all = see_trace(text, bytes);
    assert_int_equal(all.tracks, (1 << 16) + 1);
    free(all.track);
    free(text);
}

GW_TEST(any_items_give_tables)
{
    for (unsigned i = 0; gw_export_at(i) != NULL; i++) {
        size_t bytes;
        gw_test_random_state = 5 + i;
        char *text = export_any(gw_export_at(i)->name, 5000, 4, &bytes);
        assert_true(bytes > 5000);
        free(text);
    }
}

/* An allocation, and then its free. */
static gw_item next_pair(uint64_t number)
{
    gw_item item = {.kind = GW_ITEM_EVENT, .t_ns = number * 1000, .pid = 7, .tid = 8};
    item.event = (gw_event){.t_ns = item.t_ns, .pid = 7, .tid = 8, .kind = number % 2 == 0 ? GW_EV_ALLOC : GW_EV_FREE};
    item.event.arg[0] = 4096 * (number / 2 + 1);
    item.event.arg[1] = number % 2 == 0 ? 4096 : 0;
    return item;
}

/* Return the bytes that are allocated; 0: unknown. */
static size_t heap_bytes(void)
{
#if __GLIBC_PREREQ(2, 33)
    struct mallinfo2 info = mallinfo2(); /* a sanitizer's allocator reports 0 */
    return info.uordblks + info.hblkhd;
#else
    return 0;
#endif
}

static size_t heap_after(const char *name, uint64_t count)
{
    gw_error err = {""};
    gw_reader *reader = NULL;
    const gw_export_format *format = gw_export_find(name);
    assert_int_equal(gw_reader_open(gw_test_file, &reader, &err), GW_OK);
    gw_export_to to = {.file = fopen("/dev/null", "w"), .reader = reader};
    assert_non_null(to.file);
    gw_status st = format->begin(&to, &err);
    for (uint64_t i = 0; i < count && st == GW_OK; i++) {
        gw_item item = next_pair(i);
        st = format->item(&to, &item, &err);
    }
    assert_int_equal(st, GW_OK);
    size_t bytes = heap_bytes();
    if (format->close != NULL)
        format->close(&to);
    fclose(to.file);
    gw_reader_close(reader);
    return bytes;
}

/* What a format remembers grows with what is alive, not with the events. The model keeps some of the last requests. */
GW_TEST(memory_does_not_grow_with_the_events)
{
    for (unsigned i = 0; gw_export_at(i) != NULL; i++) {
        const char *name = gw_export_at(i)->name;
        if (gw_export_at(i)->close == NULL)
            continue; /* it remembers nothing */
        size_t some = heap_after(name, 100000), many = heap_after(name, 400000);
        if (some == 0)
            print_message("skipped: the C library does not report allocated bytes\n");
        else if (many > some + some / 8)
            fail_msg("%s: %zu bytes after 100,000 events, %zu after 400,000", name, some, many);
    }
}

GW_TEST_MAIN(make_recording, gw_test_folder_remove)
