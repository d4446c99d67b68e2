/* Converts stacks that were read from outside a process into call sites, so that names, lines and the user's frame are
 * found as for the hook's sites. */
#include "gw_stacks.h"

#include "gw_recording.h"

#include <string.h>

static void put_event(const gw_stacks_writer *it, gw_event_kind kind, const uint64_t arg[4], const char *text)
{
    gw_item item = *it->like;
    size_t bytes = text == NULL ? 0 : strlen(text);
    item.kind = GW_ITEM_EVENT;
    item.event = (gw_event){.t_ns = item.t_ns,
                            .pid = item.pid,
                            .tid = item.tid,
                            .kind = (uint8_t)kind,
                            .arg = {arg[0], arg[1], arg[2], arg[3]},
                            .text = text,
                            .text_bytes = (uint32_t)(bytes < GW_TEXT_BYTES_MAX ? bytes : GW_TEXT_BYTES_MAX)};
    it->put(it->user, &item);
}

static void tell_lines(const gw_stacks_writer *it, uint32_t id, const uint8_t *table, uint32_t bytes)
{
    static const char digit[] = "0123456789abcdef";
    enum { A_FACT = GW_TEXT_BYTES_MAX / 2 };
    char hex[A_FACT * 2 + 1];
    for (uint32_t at = 0; at < bytes; at += A_FACT) {
        uint32_t count = bytes - at < A_FACT ? bytes - at : A_FACT;
        for (uint32_t i = 0; i < count; i++) {
            hex[2 * i] = digit[table[at + i] >> 4];
            hex[2 * i + 1] = digit[table[at + i] & 15];
        }
        hex[2 * count] = '\0';
        put_event(it, GW_EV_PYTHON_LINES, (const uint64_t[4]){id, at, count, 0}, hex);
    }
}

/* Return the number of unused ids; `told` is the last used one. `run` uses the ids below GW_STACKS_IDS_MAX, and
 * `poke` uses the same number of ids above. */
static uint32_t numbers_left(uint32_t told)
{
    return (told < GW_STACKS_IDS_MAX ? GW_STACKS_IDS_MAX : 2 * GW_STACKS_IDS_MAX) - 1 - told;
}

void gw_stacks_write_begin(gw_stacks_writer *it)
{
    const gw_stack_process *process = it->process;
    it->full = process->code_count > numbers_left(*it->codes_told);
    if (it->full)
        return;
    it->code_first = GW_SITE_OUTSIDE_CODE_FIRST + *it->codes_told;
    *it->codes_told += (uint32_t)process->code_count;
    for (size_t i = 0; i < process->mapping_count; i++) {
        const gw_stack_mapping *mapping = &process->mapping[i];
        put_event(it, GW_EV_MAPPED,
                  (const uint64_t[4]){mapping->start, mapping->bytes, mapping->bias, mapping->build_id}, mapping->path);
    }
    for (size_t i = 0; i < process->code_count; i++) {
        const gw_stack_code *code = &process->code[i];
        uint32_t id = it->code_first + (uint32_t)i;
        put_event(it, GW_EV_PYTHON_CODE,
                  (const uint64_t[4]){id, (uint64_t)(int64_t)code->first_line, code->version, code->table_bytes},
                  code->text);
        if (code->table != NULL)
            tell_lines(it, id, code->table, code->table_bytes);
    }
}

static uint64_t numbered(const gw_stacks_writer *it, uint64_t frame)
{
    if ((frame & GW_FRAME_PYTHON) == 0)
        return frame;
    return (frame & GW_FRAME_ENTRY) |
           GW_FRAME_OF_CODE(it->code_first + GW_FRAME_CODE(frame), GW_FRAME_INSTRUCTION(frame));
}

uint32_t gw_stacks_write(gw_stacks_writer *it, const gw_stack_thread *thread)
{
    enum { EACH = 3 };
    if (it->full || numbers_left(*it->sites_told) == 0 || (thread->frame_count == 0 && thread->flags == 0))
        return 0;
    ++*it->sites_told;
    uint32_t id = GW_SITE_OUTSIDE_FIRST + *it->sites_told;
    put_event(it, GW_EV_SITE, (const uint64_t[4]){id, thread->frame_count, thread->flags, 0}, NULL);
    for (size_t i = 0; i < thread->frame_count; i += EACH) {
        uint64_t arg[4] = {id | (uint64_t)i << 32};
        for (size_t k = 0; k < EACH && i + k < thread->frame_count; k++)
            arg[1 + k] = numbered(it, thread->frame[i + k]);
        put_event(it, GW_EV_SITE_FRAMES, arg, NULL);
    }
    return id;
}
