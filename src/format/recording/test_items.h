/* Test helper: prints items as lines of text, so that a test can compare two recordings line by line. */
#ifndef GWI_TEST_ITEMS_H
#define GWI_TEST_ITEMS_H

#include "gw_names.h"
#include "gw_recording.h"
#include "gw_text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct test_lines {
    char **line;
    size_t count;
    size_t faults; /* number of times the reader returned GW_CORRUPT */
    gw_error fault;
} test_lines;

static inline void test_add_event(gw_text *text, const gw_event *e, const char *fn_name)
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

static inline void test_add_ring(gw_text *text, const gw_item *item)
{
    gw_text_addf(text, "total %" PRIu64 " synced %" PRIu64, item->ring.total, item->ring.synced_total);
    for (uint32_t i = 0; i < item->ring.count; i++) {
        const gw_hot_call *call = &item->ring.call[i];
        gw_text_addf(text, " (%" PRIu64 " %" PRIx64 " %" PRIx64 " %u)", call->t_ns, call->what, call->stream, call->fn);
    }
}

static inline char *test_line(const gw_item *item, const gw_reader *reader)
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

static inline void test_lines_add(test_lines *lines, char *line)
{
    lines->line = realloc(lines->line, (lines->count + 1) * sizeof *lines->line);
    if (lines->line == NULL)
        abort();
    lines->line[lines->count++] = line;
}

static inline void test_lines_free(test_lines *lines)
{
    for (size_t i = 0; i < lines->count; i++)
        free(lines->line[i]);
    free(lines->line);
    *lines = (test_lines){0};
}

/* Read up to `room` % 9 events with gw_reader_events(). Adds a line for each, in the same form as for
 * gw_reader_next(). */
static inline void test_lines_read_events(gw_reader *reader, size_t room, test_lines *lines)
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
static inline gw_status test_lines_read(const char *path, test_lines *lines, gw_error *err)
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
static inline gw_status check_recording(const char *path, gw_error *err)
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

#endif
