/* Writes facts, events and call sites of a saved file into a model. */
#include "gwi_feeder.h"

#include "gw_site.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FRAMES_MAX = GW_SITE_PYTHON_MAX };

bool gwi_feed_begin(gwi_feeder *f, const gwi_torch *torch, uint32_t pid)
{
    f->torch = torch;
    f->pid = pid;
    f->site_first = GW_SITE_FRAMEWORK_FIRST;
    f->code_first = GW_SITE_FRAMEWORK_CODE_FIRST;
    f->told_stack = calloc(torch->number_most + 1u, 1);
    f->told_frame = calloc(torch->number_most + 1u, 1);
    return f->told_stack != NULL && f->told_frame != NULL;
}

void gwi_feed_end(gwi_feeder *f)
{
    free(f->told_stack);
    free(f->told_frame);
    f->told_stack = f->told_frame = NULL;
}

void gwi_feed_as_outside(gwi_feeder *f, uint32_t from)
{
    f->site_first = GW_SITE_OUTSIDE_FIRST + from;
    f->code_first = GW_SITE_OUTSIDE_CODE_FIRST + from;
}

/* ---- feeding ---- */

void gwi_feed(gwi_feeder *f, const gw_item *item)
{
    if (f->status == GW_OK)
        f->status = gw_model_feed(f->model, item, f->err);
}

void gwi_feed_event(gwi_feeder *f, gw_event_kind kind, uint32_t site, const uint64_t arg[4], const char *text)
{
    gw_item item = {.kind = GW_ITEM_EVENT, .t_ns = f->now_ns, .pid = f->pid, .tid = f->pid};
    item.event = (gw_event){.t_ns = f->now_ns,
                            .pid = f->pid,
                            .tid = f->pid,
                            .fn = UINT16_MAX,
                            .kind = (uint8_t)kind,
                            .site = site,
                            .extra = f->extra,
                            .arg = {arg[0], arg[1], arg[2], arg[3]},
                            .text = text,
                            .text_bytes = text == NULL ? 0 : (uint32_t)strlen(text)};
    gwi_feed(f, &item);
}

void gwi_feed_fact(gwi_feeder *f, gw_event_kind kind, uint32_t site, uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3)
{
    gwi_feed_event(f, kind, site, (const uint64_t[4]){a0, a1, a2, a3}, NULL);
}

void gwi_feed_pair(gwi_feeder *f, gw_item_kind kind, const char *key, const char *value)
{
    gw_item item = {.kind = kind, .t_ns = f->now_ns, .pair = {key, value}};
    gwi_feed(f, &item);
}

void gwi_feed_process(gwi_feeder *f)
{
    gw_item process = {.kind = GW_ITEM_PROCESS, .pid = f->pid};
    process.process.exe = process.process.driver_path = process.process.driver_build_id = "";
    gwi_feed(f, &process);
}

/* ---- sites ---- */

static void tell_frame(gwi_feeder *f, uint32_t number)
{
    gwi_torch_frame frame = gwi_torch_frame_of(f->torch, number);
    char text[GW_TEXT_BYTES_MAX];
    if (f->told_frame[number])
        return;
    f->told_frame[number] = 1;
    gw_pickle_value name = {.type = GW_PICKLE_TEXT, .number = frame.name};
    gw_pickle_value file = {.type = GW_PICKLE_TEXT, .number = frame.file};
    snprintf(text, sizeof text, "%.300s\n%.600s", gw_pickle_text(f->torch->pickle, name, NULL),
             gw_pickle_text(f->torch->pickle, file, NULL));
    gwi_feed_event(f, GW_EV_PYTHON_CODE, 0, (const uint64_t[4]){f->code_first + number, 0, 0, 0}, text);
}

uint32_t gwi_feed_site(gwi_feeder *f, uint32_t stack)
{
    if (stack == 0)
        return 0;
    uint32_t site = f->site_first + stack;
    if (f->told_stack[stack])
        return site;
    f->told_stack[stack] = 1;
    uint32_t frame[FRAMES_MAX];
    size_t all = gwi_torch_stack_of(f->torch, stack, frame, FRAMES_MAX), count = all < FRAMES_MAX ? all : FRAMES_MAX;
    for (size_t i = 0; i < count; i++)
        tell_frame(f, frame[i]);
    gwi_feed_fact(f, GW_EV_SITE, 0, site, count, all > count ? GW_SITE_PYTHON_CUT : 0, 0);
    for (size_t i = 0; i < count; i += 3) {
        uint64_t three[3] = {0};
        for (size_t k = 0; k < 3 && i + k < count; k++)
            three[k] = GW_FRAME_OF_CODE(f->code_first + frame[i + k], gwi_torch_frame_of(f->torch, frame[i + k]).line);
        gwi_feed_fact(f, GW_EV_SITE_FRAMES, 0, site | (uint64_t)i << 32, three[0], three[1], three[2]);
    }
    return site;
}
