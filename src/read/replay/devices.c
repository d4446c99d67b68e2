/* The two devices that stand for the driver. */
#include "gwi_allocator.h"

#include "gw_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

/* ---- a device that follows a recording: each call must be the next recorded one, with its result ---- */

void gwi_recorded_differ(gwi_recorded *recorded, const char *format, ...)
{
    va_list arguments;
    if (recorded->difference[0] != '\0')
        return; /* only the first difference counts */
    va_start(arguments, format);
    vsnprintf(recorded->difference, GWI_DIFFERENCE_MAX, format, arguments);
    va_end(arguments);
}

char *gwi_step_text(char out[GWI_STEP_TEXT_MAX], const gw_replay_step *step)
{
    static const char *const names[GW_REPLAY_STEP_COUNT] = {
        "cudaMalloc of", "a refused cudaMalloc of", "cudaFree of",         "a reservation of addresses of",
        "a new page of", "a refused page of",       "an unmapped page of",
    };
    char bytes[GW_BYTES_TEXT_MAX];
    snprintf(out, GWI_STEP_TEXT_MAX, "%s %s", names[step->kind], gw_bytes_text(bytes, step->bytes));
    return out;
}

static gwi_answer differ(gwi_recorded *recorded, const gw_replay_step *wanted, const gw_replay_step *found)
{
    char want[GWI_STEP_TEXT_MAX], have[GWI_STEP_TEXT_MAX];
    gwi_step_text(want, wanted);
    if (found == NULL)
        gwi_recorded_differ(recorded, "the replay makes one call more: %s", want);
    else
        gwi_recorded_differ(recorded, "call %zu: the recording has %s, the replay %s", recorded->at + 1,
                            gwi_step_text(have, found), want);
    return GWI_STOPPED;
}

const gw_replay_step *gwi_recorded_step(const gwi_recorded *recorded)
{
    return recorded->at < recorded->input->step_count ? &recorded->input->step[recorded->at] : NULL;
}

/* Compare with the next step. `refused` is the kind of the same call with another result. */
static gwi_answer follow(gwi_recorded *recorded, gw_replay_step_kind granted, gw_replay_step_kind refused,
                         uint64_t bytes, uint64_t *ret_address)
{
    const gw_replay_step *step = gwi_recorded_step(recorded);
    bool is_equal = step != NULL && (step->kind == granted || step->kind == refused) && step->bytes == bytes;
    bool has_refusals = recorded->input->steps_have_refusals;
    if (!is_equal && !has_refusals && (step == NULL || step->kind != granted))
        return GWI_REFUSED; /* PyTorch's history has no refused calls: something else follows instead */
    if (!is_equal)
        return differ(recorded, &(gw_replay_step){.kind = granted, .bytes = bytes}, step);
    recorded->at++;
    *ret_address = step->address;
    return step->kind == granted ? GWI_GRANTED : GWI_REFUSED;
}

static gwi_answer take(void *user, uint64_t bytes, uint64_t *ret_address)
{
    return follow(user, GW_REPLAY_TAKE, GW_REPLAY_TAKE_REFUSED, bytes, ret_address);
}

static bool give(void *user, uint64_t address, uint64_t bytes)
{
    gwi_recorded *recorded = user;
    const gw_replay_step *step = gwi_recorded_step(recorded);
    if (step == NULL || step->kind != GW_REPLAY_GIVE || step->address != address) {
        (void)differ(recorded, &(gw_replay_step){.kind = GW_REPLAY_GIVE, .bytes = bytes}, step);
        return false;
    }
    recorded->at++;
    return true;
}

/* PyTorch's history has no reservations: its first page is at the start of the range. */
static gwi_answer reserve(void *user, uint64_t bytes, uint64_t *ret_address)
{
    const gwi_recorded *recorded = user;
    const gw_replay_step *step = gwi_recorded_step(recorded);
    if (!recorded->input->steps_have_refusals && step != NULL && step->kind == GW_REPLAY_CREATE) {
        *ret_address = step->address;
        return GWI_GRANTED;
    }
    return follow(user, GW_REPLAY_RESERVE, GW_REPLAY_RESERVE, bytes, ret_address);
}

static gwi_answer create(void *user, uint64_t page_bytes, uint64_t count)
{
    gwi_answer answer = GWI_GRANTED;
    uint64_t ignored;
    for (uint64_t i = 0; answer == GWI_GRANTED && i < count; i++)
        answer = follow(user, GW_REPLAY_CREATE, GW_REPLAY_CREATE_REFUSED, page_bytes, &ignored);
    return answer;
}

static bool unmap(void *user, uint64_t address, uint64_t page_bytes, uint64_t count)
{
    gwi_recorded *recorded = user;
    for (uint64_t i = 0; i < count; i++, recorded->at++) {
        const gw_replay_step *step = gwi_recorded_step(recorded);
        if (step == NULL || step->kind != GW_REPLAY_UNMAP || step->address != address + i * page_bytes ||
            step->bytes != page_bytes) {
            (void)differ(recorded, &(gw_replay_step){.kind = GW_REPLAY_UNMAP, .bytes = page_bytes}, step);
            return false;
        }
    }
    return true;
}

gwi_device gwi_recorded_device(gwi_recorded *recorded)
{
    return (gwi_device){recorded, take, give, reserve, create, unmap};
}

/* ---- a card with a given amount of memory, which the driver hands out in pages of 2 MiB ---- */

static uint64_t whole_pages(uint64_t bytes)
{
    const uint64_t page = 2 * GWI_MIB;
    return (bytes + page - 1) / page * page;
}

static gwi_answer grant(gwi_card *card, uint64_t bytes)
{
    if (whole_pages(bytes) > card->room_bytes - card->used_bytes)
        return GWI_REFUSED;
    card->used_bytes += whole_pages(bytes);
    return GWI_GRANTED;
}

static gwi_answer card_take(void *user, uint64_t bytes, uint64_t *ret_address)
{
    gwi_card *card = user;
    if (grant(card, bytes) == GWI_REFUSED)
        return GWI_REFUSED;
    card->next_address -= card->is_falling ? bytes : 0;
    *ret_address = card->next_address;
    card->next_address += card->is_falling ? 0 : bytes;
    return GWI_GRANTED;
}

static bool card_give(void *user, uint64_t address, uint64_t bytes)
{
    gwi_card *card = user;
    (void)address;
    card->used_bytes -= whole_pages(bytes);
    return true;
}

static gwi_answer card_reserve(void *user, uint64_t bytes, uint64_t *ret_address)
{
    gwi_card *card = user;
    *ret_address = card->next_space;
    card->next_space += bytes;
    return GWI_GRANTED;
}

static gwi_answer card_create(void *user, uint64_t page_bytes, uint64_t count)
{
    return grant(user, whole_pages(page_bytes) * count);
}

static bool card_unmap(void *user, uint64_t address, uint64_t page_bytes, uint64_t count)
{
    return card_give(user, address, whole_pages(page_bytes) * count);
}

gwi_device gwi_card_device(gwi_card *card, uint64_t room_bytes, bool is_falling)
{
    *card = (gwi_card){.room_bytes = room_bytes,
                       .next_address = (uint64_t)1 << 62,
                       .is_falling = is_falling,
                       .next_space = (uint64_t)3 << 62};
    return (gwi_device){card, card_take, card_give, card_reserve, card_create, card_unmap};
}
