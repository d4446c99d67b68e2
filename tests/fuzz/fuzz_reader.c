/* Fuzz the reader of recordings: read a recording to its end, and access everything that the reader returns. */
#include "gw_recording.h"
#include "inputs.h"
#include "seeds.h"

/* Write a seed: a recording with one item of each kind. */
static void write_seeds(const char *folder)
{
    static const char *const fn_names[] = {"cuMemAlloc_v2", "cuMemFree_v2"};
    char path[4096];
    gw_error err;
    gw_writer *writer;
    snprintf(path, sizeof path, "%s/seed.gpuwhy", folder);
    unlink(path);
    if (gw_writer_create(path, 0, fn_names, 2, &writer, &err) != GW_OK)
        return;
    gw_hot_call call[2] = {{1, 2, 3, 1}, {9, 2, 3, 0}};
    uint64_t counter[GW_COUNT_COUNT] = {1, 2, 3};
    gw_sample_value sample[2] = {{GW_METRIC_CARD_POWER, GW_SAMPLE_KNOWN, 70000}, {3, GW_SAMPLE_NOT_SUPPORTED, 0}};
    gw_symbol_frame frame[2] = {{"inlined", "x.h", 1, 5}, {"main", NULL, 0, 0}};
    gw_item items[] = {
        {.kind = GW_ITEM_META, .pair = {"key", "value"}},
        {.kind = GW_ITEM_PROCESS, .pid = 1, .process = {2, 3, "exe", "driver", "id"}},
        {.kind = GW_ITEM_EVENT,
         .event = {.t_ns = 5, .kind = GW_EV_ALLOC, .arg = {1, 2, 3, 4}, .text = "t", .text_bytes = 1}},
        {.kind = GW_ITEM_EVENT, .event = {.t_ns = 6, .fn = 1, .kind = GW_EV_FREE, .arg = {1}, .site = 3, .extra = 4}},
        {.kind = GW_ITEM_COUNTERS, .counters = {.counter = counter, .thread_name = "name"}},
        {.kind = GW_ITEM_RING, .ring = {call, 2, 3, 4}},
        {.kind = GW_ITEM_LOST, .lost = {1, 2, 3}},
        {.kind = GW_ITEM_STDERR, .stderr_part = {"text", 4}},
        {.kind = GW_ITEM_EXIT, .exit = {.pid = 1}},
        {.kind = GW_ITEM_SYMBOL, .symbol = {"/bin/x", 1, 2, GW_SYMBOL_LINE, frame, 2}},
        {.kind = GW_ITEM_SAMPLE, .pid = 7, .sample = {GW_SOURCE_NVML, true, 1, sample, 2}},
        {.kind = GW_ITEM_MACHINE, .machine = {GW_MACHINE_XID, GW_SOURCE_KERNEL_LOG, 0, 3, 79, 0, "fallen"}},
    };
    for (size_t i = 0; i < sizeof items / sizeof items[0]; i++)
        if (gw_writer_put(writer, &items[i], &err) != GW_OK)
            abort();
    if (gw_writer_close(writer, &err) != GW_OK)
        abort();
}

static volatile uint64_t sink;

static void look(const gw_reader *reader, const gw_item *item)
{
    switch (item->kind) {
    case GW_ITEM_EVENT:
        sink += strlen(gw_reader_fn_name(reader, item->event.fn)) + item->event.arg[3];
        if (item->event.text != NULL)
            sink += strlen(item->event.text) + (unsigned char)item->event.text[item->event.text_bytes];
        break;
    case GW_ITEM_META:
    case GW_ITEM_SUPERVISOR:
    case GW_ITEM_MAPS:
        sink += strlen(item->pair.key) + strlen(item->pair.value);
        break;
    case GW_ITEM_PROCESS:
        sink += strlen(item->process.exe) + strlen(item->process.driver_path) + strlen(item->process.driver_build_id);
        break;
    case GW_ITEM_COUNTERS:
        sink += strlen(item->counters.thread_name) + item->counters.counter[GW_COUNT_COUNT - 1];
        break;
    case GW_ITEM_RING:
        for (uint32_t i = 0; i < item->ring.count; i++)
            sink += item->ring.call[i].what;
        break;
    case GW_ITEM_STDERR:
        for (uint32_t i = 0; i < item->stderr_part.count; i++)
            sink += (unsigned char)item->stderr_part.bytes[i];
        break;
    case GW_ITEM_SYMBOL:
        sink += strlen(item->symbol.path);
        for (uint32_t i = 0; i < item->symbol.count; i++) {
            const gw_symbol_frame *frame = &item->symbol.frame[i];
            sink += frame->line + frame->column + (frame->function == NULL ? 0 : strlen(frame->function)) +
                    (frame->file == NULL ? 0 : strlen(frame->file));
        }
        break;
    case GW_ITEM_SAMPLE:
        for (uint32_t i = 0; i < item->sample.count; i++)
            sink += item->sample.value[i].value + strlen(gw_metric_find(item->sample.value[i].metric)->name);
        break;
    case GW_ITEM_MACHINE:
        sink += item->machine.code + strlen(item->machine.text);
        break;
    default:
        break;
    }
}

/* Read up to `room` of the next events in one call, and access them. */
static void look_at_events(gw_reader *reader, size_t room)
{
    gw_event event[4];
    size_t count = gw_reader_events(reader, event, room);
    for (size_t i = 0; i < count; i++) {
        gw_item item = {.kind = GW_ITEM_EVENT};
        item.event = event[i];
        look(reader, &item);
    }
}

static void read_all(gw_reader *reader, size_t room)
{
    gw_error err;
    const gw_item *item;
    gw_status st;
    while ((st = gw_reader_next(reader, &item, &err)) == GW_OK || st == GW_CORRUPT || st == GW_UNSUPPORTED)
        if (st == GW_OK) {
            look(reader, item);
            look_at_events(reader, room);
        }
    gw_reader_close(reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    int fd = fuzz_file(data, bytes);
    char path[64];
    gw_error err;
    gw_reader *reader;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (gw_reader_open(path, &reader, &err) == GW_OK)
        read_all(reader, bytes % 5);
    if (gw_reader_open_pairs(path, &reader, &err) == GW_OK)
        read_all(reader, bytes % 5);
    return 0;
}
