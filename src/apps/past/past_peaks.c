/* Compares the peak of a run's device memory with those of the command's last runs. */
#include "gwi_past.h"

#include <string.h>

static bool has_failed(const gwi_past *past)
{
    return past->has_exit && (past->signal != 0 || past->exit_code != 0);
}

/* Collect the peaks of the earlier runs that are good, or of those that are not. */
static void collect(const gwi_past_list *list, const gwi_past *of, bool good, gwi_peaks *peaks)
{
    for (size_t i = list->count; i-- > 0 && peaks->count < GWI_PEAKS_MAX;) {
        const gwi_past *past = &list->item[i];
        if (past->key != of->key || past->is_answer || past->good != good || !past->has_peak ||
            past->start_realtime_ns >= of->start_realtime_ns)
            continue;
        if (peaks->count == 0 || past->peak_bytes < peaks->least_bytes)
            peaks->least_bytes = past->peak_bytes;
        if (past->peak_bytes > peaks->most_bytes)
            peaks->most_bytes = past->peak_bytes;
        peaks->all_failed = peaks->all_failed && has_failed(past);
        peaks->count++;
    }
}

void gwi_peaks_find(const gwi_past_list *list, const gwi_past *of, gwi_peaks *ret_peaks)
{
    *ret_peaks = (gwi_peaks){
        .is_known = of->has_peak,
        .bytes = of->peak_bytes,
        .is_end_known = of->has_exit,
        .failed = has_failed(of),
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
    return peaks->all_failed ? ", none of which ended well," : ", none of which is known to have ended well,";
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
