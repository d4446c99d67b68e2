/* Past runs in memory: their texts, how they ended, and how the peak of a run's device memory compares with those of
 * the command's last runs. */
#include "gwi_past_runs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void gwi_past_clear(gwi_past *past)
{
    gwi_column_attempts *attempts = &past->attempts;
    for (size_t i = 0; i < attempts->count; i++) {
        free(attempts->item[i].cause);
        free(attempts->item[i].end);
        free(attempts->item[i].recording);
    }
    free(attempts->item);
#define GWI_COLUMN(type, field, column, json, meaning)                                                                 \
    free(_Generic(past->field, char * : past->field, default : NULL));
#include "past_columns.def"
    *past = (gwi_past){0};
}

void gwi_past_free(gwi_past_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        gwi_past_clear(&list->item[i]);
    free(list->item);
    *list = (gwi_past_list){0};
}

bool gwi_past_ended_badly(const gwi_past *past)
{
    return past->signal.is_known || (past->exit.is_known && past->exit.value != 0);
}

bool gwi_past_failed(const gwi_past *past)
{
    return past->status == GW_VERDICT_FAULT || gwi_past_ended_badly(past);
}

char *gwi_past_key_text(char out[GWI_KEY_TEXT_MAX], uint64_t key)
{
    snprintf(out, GWI_KEY_TEXT_MAX, "%016" PRIx64, key);
    return out;
}

const char *gwi_past_kind_text(gwi_column_kind kind)
{
    static const char *const texts[GWI_PAST_KINDS] = {"run", "rehearsal", "fit"};
    return texts[kind];
}

char *gwi_age_text(char out[GWI_AGE_TEXT_MAX], uint64_t ns)
{
    static const struct {
        uint64_t seconds;
        const char *word;
    } units[] = {{86400, "day"}, {3600, "h"}, {60, "min"}, {1, "s"}};
    uint64_t seconds = ns / 1000000000u;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (seconds < units[i].seconds && i + 1 < sizeof units / sizeof units[0])
            continue;
        uint64_t count = seconds / units[i].seconds;
        snprintf(out, GWI_AGE_TEXT_MAX, "%" PRIu64 " %s%s", count, units[i].word, i == 0 && count != 1 ? "s" : "");
        break;
    }
    return out;
}

/* ---- peaks ---- */

/* Collect the peaks of the earlier runs that are good, or of those that are not. */
static void collect(const gwi_past_list *list, const gwi_past *of, bool good, gwi_peaks *peaks)
{
    for (size_t i = list->count; i-- > 0 && peaks->count < GWI_PEAKS_MAX;) {
        const gwi_past *past = &list->item[i];
        if (past->key != of->key || past->kind == GWI_PAST_FIT || past->good != good || !past->peak.is_known ||
            past->start_realtime_ns >= of->start_realtime_ns)
            continue;
        if (peaks->count == 0 || past->peak.value < peaks->least_bytes)
            peaks->least_bytes = past->peak.value;
        if (past->peak.value > peaks->most_bytes)
            peaks->most_bytes = past->peak.value;
        peaks->all_failed = peaks->all_failed && gwi_past_ended_badly(past);
        peaks->count++;
    }
}

void gwi_peaks_find(const gwi_past_list *list, const gwi_past *of, gwi_peaks *ret_peaks)
{
    *ret_peaks = (gwi_peaks){
        .is_known = of->peak.is_known,
        .bytes = of->peak.value,
        .is_end_known = of->exit.is_known || of->signal.is_known,
        .failed = gwi_past_ended_badly(of),
        .all_good = true,
        .all_failed = true,
    };
    collect(list, of, true, ret_peaks);
    if (ret_peaks->count == 0) {
        ret_peaks->all_good = false;
        collect(list, of, false, ret_peaks);
    }
}

static const char *not_good_one(const gwi_peaks *peaks)
{
    if (peaks->all_good)
        return "";
    return peaks->all_failed ? ", which did not end well," : ", which is not known to have ended well,";
}

static const char *not_good_several(const gwi_peaks *peaks)
{
    if (peaks->all_good)
        return "";
    return peaks->all_failed ? " (none of them ended well)" : " (none of them is known to have ended well)";
}

bool gwi_peaks_text(const gwi_peaks *peaks, const char *this_one, gw_text *text)
{
    char least[GW_BYTES_TEXT_MAX], most[GW_BYTES_TEXT_MAX], own[GW_BYTES_TEXT_MAX];
    if (peaks->count == 0 || (peaks->most_bytes == 0 && (!peaks->is_known || peaks->bytes == 0)))
        return false; /* there is nothing to compare, or no run used device memory */
    gw_bytes_text(least, peaks->least_bytes);
    gw_bytes_text(most, peaks->most_bytes);
    gw_bytes_text(own, peaks->bytes);
    const char *good = peaks->all_good ? " good" : "";
    if (peaks->count == 1)
        gw_text_addf(text, "the last%s run of this command%s peaked at %s", good, not_good_one(peaks), most);
    else
        gw_text_addf(text, "the last %zu%s runs of this command%s peaked at ", peaks->count, good,
                     not_good_several(peaks));
    if (peaks->count > 1 && strcmp(least, most) == 0)
        gw_text_add_str(text, most);
    else if (peaks->count > 1)
        gw_text_addf(text, "%s to %s", least, most);
    if (!peaks->is_known)
        gw_text_addf(text, "; the peak of %s is unknown", this_one);
    else
        gw_text_addf(text, ", %s peaked at %s%s", this_one, own, peaks->failed ? " and failed" : "");
    return true;
}
