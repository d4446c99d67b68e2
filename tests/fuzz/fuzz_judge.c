/* Feed the model any items that a recording can contain, judge the run and render the verdict.
 *
 * fuzz_reader mutates files, but the reader rejects most of them. Here each input is a list of items as the reader
 * returns them. Most numbers come from a small set, so that items often refer to the same object, process or site.
 * Others are raw bytes, so that sums overflow.
 *
 * Input, for each item: the time since the last item, a byte for its kind, and the fields that take_item() reads. */
#include "gw_fact.h"
#include "gw_model.h"
#include "gw_recording.h"
#include "gw_render.h"
#include "gw_verdict.h"
#include "seeds.h"

#include <stdlib.h>

typedef struct source {
    const uint8_t *at, *end;
} source;

static uint64_t take(source *from, unsigned bytes)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes && from->at < from->end; i++)
        value |= (uint64_t)*from->at++ << 8 * i;
    return value;
}

/* Read a small number, a number with many zeros such as an address or a size, or eight raw bytes. */
static uint64_t take_number(source *from)
{
    uint64_t form = take(from, 1);
    if (form < 192)
        return form & 31;
    return form < 240 ? take(from, 1) << (form & 63) : take(from, 8);
}

static uint32_t take_pid(source *from)
{
    uint64_t form = take(from, 1);
    return form < 250 ? 1 + (uint32_t)(form & 7) : (uint32_t)take(from, 4);
}

/* Read a length byte and a text of up to 63 raw bytes into static buffer number `place`. The next call with that
 * `place` overwrites it. */
static const char *take_text(source *from, unsigned place, uint32_t *ret_bytes)
{
    static char texts[4][64];
    uint32_t bytes = (uint32_t)take(from, 1) & 63;
    for (uint32_t i = 0; i < bytes; i++)
        texts[place][i] = (char)take(from, 1);
    texts[place][bytes] = '\0';
    if (ret_bytes != NULL)
        *ret_bytes = bytes;
    return texts[place];
}

static const char *take_key(source *from)
{
    return gw_fact_key_text((gw_fact_key)(take(from, 1) % GW_FACT_KEY_COUNT));
}

static void take_event(source *from, gw_item *item)
{
    gw_event *event = &item->event;
    *event = (gw_event){.t_ns = item->t_ns, .pid = item->pid, .tid = item->tid};
    event->kind = (uint8_t)take(from, 1);
    event->kind = event->kind < 240 ? event->kind % GW_EV_COUNT : event->kind;
    event->fn = (uint16_t)take(from, 1) & 7;
    event->flags = (uint8_t)take(from, 1);
    static const uint16_t results[] = {0, 0, 0, 0, 1, 2, 2, 3, 4, 100, 201, 400, 600, 700, 709, 719};
    uint64_t result = take(from, 1);
    event->result = result < 240 ? results[result & 15] : (uint16_t)take(from, 2);
    event->took_us = (uint16_t)take(from, 1);
    event->site = (uint32_t)take_number(from);
    event->extra = (uint32_t)take_number(from);
    event->context = take_number(from);
    for (int i = 0; i < 4; i++)
        event->arg[i] = take_number(from);
    if (take(from, 1) & 1)
        event->text = take_text(from, 0, &event->text_bytes);
}

static void take_sample(source *from, gw_item *item)
{
    static gw_sample_value value[4];
    item->sample.source = (uint8_t)take(from, 1);
    item->sample.whole = take(from, 1) & 1;
    item->sample.device = take(from, 1) & 1 ? GW_NO_DEVICE : (uint32_t)take_number(from);
    item->sample.value = value;
    item->sample.count = (uint32_t)take(from, 1) & 3;
    for (uint32_t i = 0; i < item->sample.count; i++)
        value[i] =
            /* the reader rejects unknown metrics and states */
            (gw_sample_value){.metric = (uint16_t)(take(from, 1) % GW_METRIC_COUNT),
                              .state = (uint8_t)take(from, 1) % GW_SAMPLE_STATE_COUNT,
                              .value = take_number(from)};
}

static void take_ring(source *from, gw_item *item)
{
    static gw_hot_call call[8];
    item->ring.call = call;
    item->ring.count = (uint32_t)take(from, 1) & 7;
    for (uint32_t i = 0; i < item->ring.count; i++)
        call[i] = (gw_hot_call){take_number(from), take_number(from), take_number(from), (uint16_t)take(from, 1) & 7};
    item->ring.total = take_number(from);
    item->ring.synced_total = take_number(from);
}

static void take_counters(source *from, gw_item *item)
{
    static uint64_t counter[GW_COUNT_COUNT];
    for (int i = 0; i < GW_COUNT_COUNT; i++)
        counter[i] = take_number(from);
    item->counters.counter = counter;
    item->counters.calls = take_number(from);
    item->counters.synced_at_ns = take_number(from);
    item->counters.inside_since_ns = take_number(from);
    item->counters.inside_fn_plus_1 = (uint16_t)take(from, 1) & 15;
    item->counters.thread_name = take_text(from, 0, NULL);
}

static void take_item(source *from, gw_item *item, uint64_t t_ns)
{
    static gw_symbol_frame frame[2];
    *item = (gw_item){.kind = (gw_item_kind)(take(from, 1) % GW_ITEM_DRAINED), .t_ns = t_ns};
    item->pid = take_pid(from);
    item->tid = take_pid(from);
    switch (item->kind) {
    case GW_ITEM_META:
        item->pair.key = take(from, 1) & 1 ? "option.memory" : take_text(from, 0, NULL);
        item->pair.value = take_text(from, 1, NULL);
        break;
    case GW_ITEM_SUPERVISOR:
        item->pair.key = take_key(from);
        item->pair.value = take_text(from, 1, NULL);
        break;
    case GW_ITEM_MAPS:
        item->pair.key = take_text(from, 0, NULL);
        item->pair.value = take_text(from, 1, NULL);
        break;
    case GW_ITEM_PROCESS:
        item->process.parent_pid = take_pid(from);
        item->process.start_realtime_ns = take_number(from);
        item->process.exe = take_text(from, 0, NULL);
        item->process.driver_path = take_text(from, 1, NULL);
        item->process.driver_build_id = take_text(from, 2, NULL);
        break;
    case GW_ITEM_EVENT:
        take_event(from, item);
        break;
    case GW_ITEM_COUNTERS:
        take_counters(from, item);
        break;
    case GW_ITEM_RING:
        take_ring(from, item);
        break;
    case GW_ITEM_LOST:
        item->lost.events = take_number(from);
        item->lost.failures = take_number(from);
        item->lost.threads = take_number(from);
        break;
    case GW_ITEM_STDERR:
        item->stderr_part.bytes = take_text(from, 0, &item->stderr_part.count);
        break;
    case GW_ITEM_EXIT:
        item->exit = (gw_exit_fact){.pid = item->pid,
                                    .is_command = take(from, 1) & 1,
                                    .status_known = take(from, 1) & 1,
                                    .exit_code = (int)(uint32_t)take_number(from),
                                    .signal = (int)(uint32_t)take_number(from),
                                    .core_dumped = take(from, 1) & 1};
        break;
    case GW_ITEM_SYMBOL:
        frame[0] =
            (gw_symbol_frame){take_text(from, 1, NULL), take_text(from, 2, NULL), (uint32_t)take_number(from), 0};
        frame[0].column = ~frame[0].line;
        frame[1] = (gw_symbol_frame){"main", NULL, 0, 0};
        item->symbol.path = take_text(from, 0, NULL);
        item->symbol.build_id = take_number(from);
        item->symbol.address = take_number(from);
        item->symbol.state = (uint8_t)take(from, 1);
        item->symbol.frame = frame;
        item->symbol.count = (uint32_t)take(from, 1) % 3;
        break;
    case GW_ITEM_SAMPLE:
        take_sample(from, item);
        break;
    case GW_ITEM_MACHINE:
        item->machine.kind = (uint8_t)take(from, 1);
        item->machine.source = (uint8_t)take(from, 1);
        item->machine.device = (uint32_t)take_number(from);
        item->machine.count = (uint32_t)take_number(from);
        item->machine.code = take_number(from);
        item->machine.value = take_number(from);
        item->machine.text = take_text(from, 0, NULL);
        break;
    default:
        break;
    }
}

static void judge(gw_model *model, bool all)
{
    gw_error err;
    gw_verdict *verdict = NULL;
    gw_text text = {0};
    gw_render_style style = {.width = 80, .all = all};
    if (gw_model_finish(model, &err) != GW_OK || gw_judge(model, &verdict, &err) != GW_OK)
        return;
    if (verdict->headline == NULL || verdict->headline[0] == '\0')
        abort();
    gw_render_text(verdict, &style, &text);
    if (verdict->rehearsal != NULL)
        gw_render_rehearsal(verdict, &style, &text);
    gw_text_clear(&text);
    if (gw_render_json(verdict, &text, &err) != GW_OK)
        abort();
    gw_text_free(&text);
    gw_verdict_free(verdict);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const char *const names[] = {"cuMemAlloc_v2",       "cuMemFree_v2",         "cuLaunchKernel",
                                        "cuStreamSynchronize", "cuMemcpyDtoHAsync_v2", "cuCtxDestroy_v2"};
    source from = {data, data + bytes};
    gw_error err;
    gw_model *model;
    gw_item item;
    uint64_t t_ns = 0;
    if (gw_model_new(&model, &err) != GW_OK)
        return 0;
    bool good = gw_model_name_fns(model, names, sizeof names / sizeof names[0], &err) == GW_OK;
    while (good && from.at < from.end) {
        t_ns += take_number(&from) & 0xffffffffff;
        take_item(&from, &item, t_ns);
        good = gw_model_feed(model, &item, &err) == GW_OK;
    }
    if (good)
        judge(model, bytes & 1);
    gw_model_free(model);
    return 0;
}

/* ---- seeds ---- */

enum { SHIFT = 192, GIB = 30 }; /* take_number(): a byte, shifted left by the form less 192 */

/* Write an event of process 1: its kind and four arguments, each of them `value << shift`. */
static void write_event(FILE *file, uint8_t kind, const uint8_t values[4], uint8_t shift)
{
    const uint8_t head[] = {5, GW_ITEM_EVENT, 0, 0, kind, 0, 0, 0, 0, 0, 0, 0, values[0]};
    fwrite(head, 1, sizeof head, file);
    for (int i = 1; i < 4; i++) {
        const uint8_t number[] = {(uint8_t)(SHIFT + (i < 3 ? shift : 0)), values[i]};
        fwrite(number, 1, sizeof number, file);
    }
    fputc(0, file); /* no text */
}

/* A rehearsal of which every event is told, and one that was ended. */
static void write_seeds(const char *folder)
{
    static const uint8_t command_ended[] = {1, GW_ITEM_EXIT, 0, 0, 1, 1, 0, 0, 0},
                         by_gpuwhy[] = {1, GW_ITEM_SUPERVISOR, 0, 0, GW_FACT_REHEARSAL_ENDED, 4, 't', 'i', 'm', 'e'};
    for (size_t seed = 0; seed < 2; seed++) {
        FILE *file = open_seed(folder, seed);
        if (file == NULL)
            continue;
        for (uint8_t what = 0; what < GW_REHEARSAL_FACT_COUNT; what++)
            write_event(file, GW_EV_REHEARSAL, (const uint8_t[]){what, 4, 1, 0}, GIB);
        if (seed == 1)
            fwrite(by_gpuwhy, 1, sizeof by_gpuwhy, file);
        fwrite(command_ended, 1, sizeof command_ended, file);
        fclose(file);
    }
}
