/* Fuzz the replay of PyTorch's allocator. The data are settings as text, up to a line break, and then four bytes for
 * each event or call of the input. Two inputs are made of them:
 *
 *   any       events and calls as the bytes say, which may contradict each other
 *   recorded  the events, and the calls that the allocator makes for them on a card: this input must be exact */
#include "gw_whatif.h"
#include "gwi_allocator.h"
#include "seeds.h"

#include <stdlib.h>
#include <string.h>

enum { EVENTS_MAX = 120, TEXT_MAX = 200, RECORD_BYTES = 4 };

static gw_replay_event event[EVENTS_MAX];
static gw_replay_step step[64 * EVENTS_MAX];
static size_t event_count, step_count;
static uint32_t block_count;
static gwi_card card;
static gwi_device real;

static void write_seeds(const char *folder)
{
    static const char *const settings[] = {
        "\n",
        "expandable_segments:True\n",
        "max_split_size_mb:32,roundup_power2_divisions:[64:2,>:4]\n",
        "garbage_collection_threshold:0.5,large_segment_size_mb:22,max_non_split_rounding_mb:1\n",
    };
    uint32_t x = 1;
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        FILE *file = open_seed(folder, i);
        if (file == NULL)
            continue;
        fputs(settings[i], file);
        for (size_t k = 0; k < (size_t)EVENTS_MAX * RECORD_BYTES; k++, x = x * 1664525 + 1013904223)
            fputc((int)(x >> 24), file);
        fclose(file);
    }
}

/* Sizes of all pools: up to 8 KiB, up to 2 MiB, or up to 64 MiB; seldom more. */
static uint64_t size_of(const uint8_t *record)
{
    uint64_t low = (uint64_t)record[1] << 8 | record[2];
    unsigned shift = record[3] % 4 * 5;
    return (low >> 4 << shift) + 1;
}

/* ---- any input ---- */

static void make_any(gw_replay_input *input, const uint8_t *data, size_t bytes)
{
    for (; bytes >= RECORD_BYTES; data += RECORD_BYTES, bytes -= RECORD_BYTES) {
        if ((data[0] & 0x80) != 0 && step_count < EVENTS_MAX) {
            step[step_count++] = (gw_replay_step){.kind = (gw_replay_step_kind)(data[0] % (GW_REPLAY_STEP_COUNT + 1)),
                                                  .address = (uint64_t)data[3] << 30,
                                                  .bytes = (uint64_t)data[1] << 21 << (data[2] % 40)};
        } else if (event_count < EVENTS_MAX) {
            gw_replay_kind kind = (gw_replay_kind)(data[0] % 5);
            uint64_t size = size_of(data) << (data[0] % 7 == 6 ? 30 : 0);
            event[event_count] = (gw_replay_event){.kind = kind,
                                                   .block = kind == GW_REPLAY_REQUEST ? block_count++ : data[1] % 64u,
                                                   .stream = data[3] >> 6,
                                                   .bytes = size,
                                                   .least = size - (data[0] % 11 == 10 ? 1 : 0),
                                                   .t_ns = event_count,
                                                   .is_requested = data[3] % 2 != 0};
            event_count++;
        }
    }
    input->steps_have_refusals = event_count % 2 != 0;
}

/* ---- a recorded input ---- */

static void note(gw_replay_step_kind kind, uint64_t address, uint64_t bytes)
{
    if (step_count < sizeof step / sizeof step[0])
        step[step_count++] = (gw_replay_step){.kind = kind, .address = address, .bytes = bytes};
}

static gwi_answer note_take(void *user, uint64_t bytes, uint64_t *ret_address)
{
    gwi_answer answer = real.take(user, bytes, ret_address);
    note(answer == GWI_GRANTED ? GW_REPLAY_TAKE : GW_REPLAY_TAKE_REFUSED, answer == GWI_GRANTED ? *ret_address : 0,
         bytes);
    return answer;
}

static bool note_give(void *user, uint64_t address, uint64_t bytes)
{
    note(GW_REPLAY_GIVE, address, bytes);
    return real.give(user, address, bytes);
}

static gwi_answer note_reserve(void *user, uint64_t bytes, uint64_t *ret_address)
{
    gwi_answer answer = real.reserve(user, bytes, ret_address);
    note(GW_REPLAY_RESERVE, *ret_address, bytes);
    return answer;
}

static gwi_answer note_create(void *user, uint64_t page_bytes, uint64_t count)
{
    gwi_answer answer = real.create(user, page_bytes, count);
    for (uint64_t i = 0; i < (answer == GWI_GRANTED ? count : 0); i++)
        note(GW_REPLAY_CREATE, 0, page_bytes);
    if (answer == GWI_REFUSED)
        note(GW_REPLAY_CREATE_REFUSED, 0, page_bytes);
    return answer;
}

static bool note_unmap(void *user, uint64_t address, uint64_t page_bytes, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        note(GW_REPLAY_UNMAP, address + i * page_bytes, page_bytes);
    return real.unmap(user, address, page_bytes, count);
}

/* The blocks of a segment are its bytes, and no two free neighbours are in the same state. */
static void check_blocks(const gwi_allocator *a)
{
    for (size_t i = 1; i < a->block_count; i++) {
        const gwi_block *b = &a->block[i];
        if (b->bytes == 0 || (b->is_used && !b->is_mapped))
            abort();
        if (b->next == 0 || !b->is_used) /* dropped blocks are linked by `next`, too */
            continue;
        if (a->block[b->next].address != b->address + b->bytes || a->block[b->next].prev != i)
            abort();
    }
}

static void record_event(gwi_run *run, const uint8_t *record)
{
    gw_replay_event *it = &event[event_count];
    uint64_t size = size_of(record);
    *it = (gw_replay_event){.stream = record[3] >> 6, .bytes = size, .least = size, .is_requested = true};
    it->kind = (record[0] & 0x20) != 0 ? GW_REPLAY_FREE : GW_REPLAY_REQUEST;
    it->block = it->kind == GW_REPLAY_FREE ? record[1] % (block_count + 1u) : block_count;
    if (it->kind == GW_REPLAY_FREE && (it->block == block_count || run->place[it->block] == 0))
        return;
    it->t_ns = ++event_count;
    gwi_answer answer = gwi_run_event(run, it);
    if (answer == GWI_STOPPED)
        abort();
    if (it->kind == GW_REPLAY_REQUEST && answer == GWI_GRANTED) {
        it->address = run->allocator.block[run->place[it->block]].address;
        block_count++;
    } else if (it->kind == GW_REPLAY_REQUEST) {
        it->kind = GW_REPLAY_REFUSED;
        it->block = 0;
    }
    check_blocks(&run->allocator);
}

static void make_recorded(gw_replay_input *input, const uint8_t *data, size_t bytes)
{
    gwi_run run;
    gw_error err;
    real = gwi_card_device(&card, (uint64_t)300 << 20, event_count % 2 != 0);
    const gwi_device device = {&card, note_take, note_give, note_reserve, note_create, note_unmap};
    input->block_count = EVENTS_MAX;
    if (gwi_run_init(&run, input, &input->settings, &device, input->card_bytes, &err) != GW_OK)
        return;
    for (; bytes >= RECORD_BYTES && event_count + 1 < EVENTS_MAX; data += RECORD_BYTES, bytes -= RECORD_BYTES)
        record_event(&run, data);
    input->reserved_bytes = run.allocator.reserved_bytes;
    input->room_bytes = card.room_bytes;
    input->steps_have_refusals = true;
    if (run.allocator.reserved_bytes != card.used_bytes && input->settings.large_segment_bytes % (2 << 20) == 0)
        abort();
    gwi_run_free(&run);
}

/* ---- both ---- */

static void replay(gw_replay_input *input, const char *own, bool must_be_exact)
{
    static gw_whatif whatif;
    gw_error err;
    input->event_count = event_count;
    input->step_count = step_count;
    input->block_count = block_count;
    input->event = malloc((event_count + 1) * sizeof *event);
    input->step = malloc((step_count + 1) * sizeof *step);
    if (input->event == NULL || input->step == NULL)
        abort();
    memcpy(input->event, event, event_count * sizeof *event);
    memcpy(input->step, step, step_count * sizeof *step);
    gw_whatif_options options = {.own = {own}, .own_count = 1};
    gw_status st = gw_whatif_make(input, &options, &whatif, &err);
    if (must_be_exact && (st != GW_OK || !whatif.check.is_exact))
        abort();
    char sentence[GW_WHATIF_TEXT_MAX];
    if (st == GW_OK && whatif.check.is_exact)
        (void)gw_whatif_sentence(sentence, &whatif);
    gw_replay_input_free(input);
}

static gw_replay_input begin(const gw_replay_settings *settings)
{
    event_count = step_count = 0;
    block_count = 0;
    return (gw_replay_input){.settings = *settings, .card_bytes = (uint64_t)1 << 30};
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char text[TEXT_MAX];
    size_t line = 0;
    gw_error err;
    gw_replay_settings settings = gw_replay_settings_default();
    while (line < bytes && line < TEXT_MAX - 1 && data[line] != '\n')
        line++;
    memcpy(text, data, line);
    text[line] = '\0';
    if (gw_replay_settings_read(&settings, text, &err) != GW_OK) {
        settings = gw_replay_settings_default();
        text[0] = '\0';
    }
    data += line;
    bytes -= line;
    gw_replay_input input = begin(&settings);
    make_any(&input, data, bytes);
    replay(&input, text, false);
    input = begin(&settings);
    make_recorded(&input, data, bytes);
    replay(&input, text, true);
    return 0;
}
