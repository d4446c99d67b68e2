/* The results of gw_whatif_make() in words. */
#include "gw_whatif.h"

#include "gw_text.h"

#include <stdio.h>
#include <string.h>

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
    if (whatif->same.lives)
        snprintf(out, GW_WHATIF_TEXT_MAX, "On that card, where PyTorch could have %s, the recorded settings are enough",
                 room);
    else
        snprintf(out, GW_WHATIF_TEXT_MAX, "On that card, where PyTorch could have %s, this run is refused memory",
                 room);
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
