/* Tries PyTorch's settings one by one. A row changes one setting; all others are as recorded. */
#include "gw_text.h"
#include "gw_whatif.h"

#include "gwi_allocator.h"

#include <stdio.h>
#include <string.h>

/* The results of gw_whatif_make() in words. */

const char *gw_whatif_outcome_text(gw_whatif_outcome outcome)
{
    static const char *const texts[GW_WHATIF_OUTCOME_COUNT] = {"-", "granted", "refused", "refused earlier",
                                                               "not sure"};
    return outcome < GW_WHATIF_OUTCOME_COUNT ? texts[outcome] : "-";
}

char *gw_whatif_range(char out[GW_WHATIF_RANGE_MAX], uint64_t least_bytes, uint64_t most_bytes)
{
    char least[GW_BYTES_TEXT_MAX], most[GW_BYTES_TEXT_MAX];
    gw_bytes_text(least, least_bytes);
    gw_bytes_text(most, most_bytes);
    char *unit = strchr(least, ' ');
    const char *other = strchr(most, ' ');
    if (strcmp(least, most) == 0) {
        snprintf(out, GW_WHATIF_RANGE_MAX, "%s", most);
        return out;
    }
    if (unit != NULL && other != NULL && strcmp(unit, other) == 0)
        *unit = '\0';
    snprintf(out, GW_WHATIF_RANGE_MAX, "%s to %s", least, most);
    return out;
}

const gw_whatif_row *gw_whatif_cure(const gw_whatif *whatif)
{
    const gw_whatif_row *best = NULL;
    for (size_t i = 0; i < whatif->row_count && whatif->same_outcome != GW_WHATIF_GRANTED; i++) {
        const gw_whatif_row *row = &whatif->row[i];
        if (row->outcome != GW_WHATIF_GRANTED)
            continue;
        if (row->is_preferred)
            return row;
        bool is_simpler = best != NULL && best->needs_fraction && !row->needs_fraction;
        bool is_lower = best != NULL && best->needs_fraction == row->needs_fraction &&
                        row->result.reserved_most < best->result.reserved_most;
        if (best == NULL || is_simpler || is_lower)
            best = row;
    }
    return best;
}

/* The row with the lowest peak, for a run that was not refused memory; NULL: none is lower than recorded. */
static const gw_whatif_row *lowest(const gw_whatif *whatif)
{
    const gw_whatif_row *best = NULL;
    for (size_t i = 0; i < whatif->row_count; i++) {
        const gw_whatif_row *row = &whatif->row[i];
        uint64_t limit = best != NULL ? best->result.reserved_most : whatif->check.reserved_peak;
        if (row->result.lives && row->result.reserved_most < limit)
            best = row;
    }
    return best;
}

static bool any_is_unsure(const gw_whatif *whatif)
{
    for (size_t i = 0; i < whatif->row_count; i++)
        if (whatif->row[i].outcome == GW_WHATIF_UNSURE)
            return true;
    return false;
}

static void say_none(char out[GW_WHATIF_TEXT_MAX], const gw_whatif *whatif)
{
    char need[GW_BYTES_TEXT_MAX], room[GW_BYTES_TEXT_MAX];
    gw_bytes_text(need, whatif->need_bytes);
    gw_bytes_text(room, whatif->room_bytes);
    if (whatif->need_bytes > whatif->room_bytes)
        snprintf(
            out, GW_WHATIF_TEXT_MAX,
            "None of PyTorch's settings would have helped: the program needs %s at once, and PyTorch could have %s",
            need, room);
    else if (any_is_unsure(whatif))
        snprintf(out, GW_WHATIF_TEXT_MAX,
                 "None of PyTorch's settings would certainly have helped: for some it depends on sizes and addresses "
                 "that the "
                 "recording does not have");
    else
        snprintf(out, GW_WHATIF_TEXT_MAX, "None of PyTorch's settings would have helped");
}

static void say_cure(char out[GW_WHATIF_TEXT_MAX], const gw_whatif *whatif, const gw_whatif_row *cure)
{
    char peak[GW_WHATIF_RANGE_MAX], instead[GW_WHATIF_RANGE_MAX], wanted[GW_BYTES_TEXT_MAX];
    snprintf(out, GW_WHATIF_TEXT_MAX,
             "With %s this run peaks at %s reserved, instead of the %s that its own settings need: the refused request "
             "of %s would have been granted",
             cure->name, gw_whatif_range(peak, cure->result.reserved_least, cure->result.reserved_most),
             gw_whatif_range(instead, whatif->unlimited.reserved_least, whatif->unlimited.reserved_most),
             gw_bytes_text(wanted, whatif->wanted_bytes));
}

static void say_other_card(char out[GW_WHATIF_TEXT_MAX], const gw_whatif *whatif)
{
    char room[GW_BYTES_TEXT_MAX];
    gw_bytes_text(room, whatif->room_bytes);
    snprintf(out, GW_WHATIF_TEXT_MAX, "On that card, where PyTorch could have %s, %s", room,
             whatif->same.lives ? "the recorded settings are enough" : "this run is refused memory");
}

char *gw_whatif_sentence(char out[GW_WHATIF_TEXT_MAX], const gw_whatif *whatif)
{
    char peak[GW_WHATIF_RANGE_MAX], instead[GW_BYTES_TEXT_MAX];
    const gw_whatif_row *cure = gw_whatif_cure(whatif), *best = lowest(whatif);
    if (cure != NULL)
        say_cure(out, whatif, cure);
    else if (whatif->is_other_card)
        say_other_card(out, whatif);
    else if (whatif->ran_out && !whatif->room_is_sure)
        snprintf(out, GW_WHATIF_TEXT_MAX,
                 "It is not known how much memory was free, and so not whether the refused request would have been "
                 "granted");
    else if (whatif->ran_out)
        say_none(out, whatif);
    else if (best == NULL)
        snprintf(out, GW_WHATIF_TEXT_MAX, "None of PyTorch's settings lowers the peak");
    else
        snprintf(out, GW_WHATIF_TEXT_MAX, "With %s this run peaks at %s reserved instead of %s", best->name,
                 gw_whatif_range(peak, best->result.reserved_least, best->result.reserved_most),
                 gw_bytes_text(instead, whatif->check.reserved_peak));
    return out;
}

const char *gw_whatif_variable(unsigned version)
{
    /* 2.9 to 2.11 ignore some settings in the new name, and older versions do not know it. */
    enum { NEW_NAME_SINCE = 212 };
    return version >= NEW_NAME_SINCE ? "PYTORCH_ALLOC_CONF" : "PYTORCH_CUDA_ALLOC_CONF";
}

typedef struct maker {
    gw_replay_input *input;
    const gw_whatif_options *options;
    gw_whatif *whatif;
    gw_error *err;
} maker;

/* Settings, with the first version of PyTorch that has them. */
static const struct {
    const char *text;
    unsigned since;
} candidates[] = {
    {"expandable_segments:True", 201},
    {"expandable_segments:False", 201},
    {"max_split_size_mb:32", 0},
    {"max_split_size_mb:64", 0},
    {"max_split_size_mb:128", 0},
    {"max_split_size_mb:256", 0},
    {"max_split_size_mb:512", 0},
    {"garbage_collection_threshold:0.6", 112},
    {"garbage_collection_threshold:0.8", 112},
    {"roundup_power2_divisions:4", 112},
    {"roundup_power2_divisions:8", 112},
};

static bool is_same(const gw_replay_settings *left, const gw_replay_settings *right)
{
    return left->is_expandable == right->is_expandable && left->max_split_bytes == right->max_split_bytes &&
           left->non_split_rounding_bytes == right->non_split_rounding_bytes &&
           left->large_segment_bytes == right->large_segment_bytes && left->limit_bytes == right->limit_bytes &&
           !(left->collect_ratio < right->collect_ratio) && !(left->collect_ratio > right->collect_ratio) &&
           memcmp(left->divisions, right->divisions, sizeof left->divisions) == 0;
}

static uint64_t card_of(const maker *m)
{
    return m->options->memory_bytes != 0 ? m->options->memory_bytes : m->input->card_bytes;
}

static gw_replay_variant variant_of(const maker *m, const gw_replay_settings *settings)
{
    uint64_t room = m->whatif->room_bytes;
    return (gw_replay_variant){
        .settings = *settings, .room_bytes = room != 0 ? room : UINT64_MAX, .card_bytes = card_of(m)};
}

static size_t last_refusal(const gw_replay_input *input)
{
    size_t at = input->event_count;
    while (at > 0 && input->event[at - 1].kind != GW_REPLAY_REFUSED)
        at--;
    return at > 0 ? at - 1 : 0;
}

static gw_whatif_outcome outcome_of(const maker *m, const gw_replay_result *result)
{
    const gw_whatif *whatif = m->whatif;
    bool is_known = whatif->room_bytes != 0 && (whatif->is_other_card || whatif->room_is_sure);
    if (!whatif->ran_out && result->lives)
        return GW_WHATIF_NO_REFUSAL;
    if (whatif->ran_out && !is_known)
        return GW_WHATIF_UNSURE;
    if (result->fails)
        return result->failed_at < last_refusal(m->input) || !whatif->ran_out ? GW_WHATIF_EARLIER : GW_WHATIF_REFUSED;
    return result->lives ? GW_WHATIF_GRANTED : GW_WHATIF_UNSURE;
}

static gw_status add_row(maker *m, const gw_whatif_row *row, const gw_replay_variant *variant)
{
    gw_whatif *whatif = m->whatif;
    if (whatif->row_count == GW_WHATIF_ROWS_MAX)
        return GW_OK;
    gw_whatif_row *to = &whatif->row[whatif->row_count];
    *to = *row;
    gw_status st = gw_replay_try(m->input, variant, &to->result, m->err);
    if (st != GW_OK)
        return st;
    to->outcome = outcome_of(m, &to->result);
    whatif->row_count++;
    return GW_OK;
}

static gw_status try_setting(maker *m, const char *text, bool is_own)
{
    gw_replay_settings settings = m->input->settings;
    gw_whatif_row row = {.is_setting = true, .is_own = is_own, .is_preferred = text == candidates[0].text};
    gw_status st = gw_replay_settings_read(&settings, text, m->err);
    if (st != GW_OK)
        return st;
    if (settings.collect_ratio > 0.0 && settings.limit_bytes == UINT64_MAX) {
        if (card_of(m) == 0)
            return GW_OK; /* a fraction of what? */
        settings.limit_bytes = card_of(m);
        row.needs_fraction = true;
    }
    if (is_same(&settings, &m->input->settings) && !is_own)
        return GW_OK;
    snprintf(row.name, sizeof row.name, "%s", text);
    gw_replay_variant variant = variant_of(m, &settings);
    return add_row(m, &row, &variant);
}

static gw_status try_phases(maker *m)
{
    gw_replay_variant variant = variant_of(m, &m->input->settings);
    gw_whatif_row row = {.name = "torch.cuda.empty_cache() at each phase"};
    variant.empty_before = m->options->phase;
    variant.empty_count = m->options->phase_count;
    return variant.empty_count == 0 ? GW_OK : add_row(m, &row, &variant);
}

/* The card, less what the allocator could not have on the recorded one. */
static void set_room(maker *m)
{
    gw_whatif *whatif = m->whatif;
    uint64_t card = m->input->card_bytes, room = m->input->room_bytes, other = m->options->memory_bytes;
    if (room == 0 && m->input->settings.limit_bytes != UINT64_MAX)
        room = m->input->settings.limit_bytes;
    whatif->room_bytes = room;
    if (other == 0)
        return;
    whatif->is_other_card = true;
    uint64_t taken = room != 0 && card > room ? card - room : 0;
    whatif->room_bytes = other > taken ? other - taken : 1;
}

static void count(maker *m)
{
    const gw_replay_input *input = m->input;
    uint64_t wanted_least = 0;
    for (size_t i = 0; i < input->event_count; i++) {
        m->whatif->request_count += input->event[i].kind == GW_REPLAY_REQUEST;
        if (input->event[i].kind == GW_REPLAY_REQUEST) {
            m->whatif->ran_out = false;
            wanted_least = 0;
        }
        if (input->event[i].kind == GW_REPLAY_REFUSED) {
            m->whatif->ran_out = true;
            m->whatif->wanted_bytes = input->event[i].bytes;
            wanted_least = input->event[i].least;
        }
    }
    uint64_t at_end = m->whatif->check.live_bytes + wanted_least;
    m->whatif->need_bytes = at_end > m->whatif->check.live_peak ? at_end : m->whatif->check.live_peak;
}

gw_status gw_whatif_make(gw_replay_input *input, const gw_whatif_options *options, gw_whatif *ret_whatif, gw_error *err)
{
    maker m = {.input = input, .options = options, .whatif = ret_whatif, .err = err};
    *ret_whatif = (gw_whatif){0};
    gw_status st = gw_replay_check_input(input, &ret_whatif->check, err);
    if (st != GW_OK || !ret_whatif->check.is_exact)
        return st;
    count(&m);
    set_room(&m);
    gw_replay_variant same = variant_of(&m, &input->settings);
    st = gw_replay_try(input, &same, &ret_whatif->same, err);
    ret_whatif->room_is_sure =
        !ret_whatif->is_other_card && ret_whatif->ran_out && ret_whatif->room_bytes != 0 && ret_whatif->same.fails;
    ret_whatif->same_outcome = outcome_of(&m, &ret_whatif->same);
    same.room_bytes = UINT64_MAX;
    if (st == GW_OK)
        st = gw_replay_try(input, &same, &ret_whatif->unlimited, err);
    for (size_t i = 0; st == GW_OK && i < sizeof candidates / sizeof candidates[0]; i++)
        if (options->version == 0 || options->version >= candidates[i].since)
            st = try_setting(&m, candidates[i].text, false);
    if (st == GW_OK)
        st = try_phases(&m);
    for (size_t i = 0; st == GW_OK && i < options->own_count; i++)
        st = try_setting(&m, options->own[i], true);
    return st;
}
