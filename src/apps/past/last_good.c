/* Adds evidence to a verdict: the differences from the last good run of the same command, and the peaks of its last
 * runs. They cannot change the cause, because the verdict is complete before. */
#include "gwi_past_runs.h"

#include "gw_clock.h"
#include "gw_compare.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const uint64_t time_max_ns = 500000000u;
/* larger recordings take more than half a second to read */
enum { RECORDING_BYTES_MAX = 64 << 20, LINES_MAX = 4, RUNS_MAX = 1000, WAIT_MS = 250 };
static const char source[] = "last good run", peaks_source[] = "earlier runs";

static bool is_readable(const char *path)
{
    struct stat info;
    return path[0] != '\0' && stat(path, &info) == 0 && S_ISREG(info.st_mode) && info.st_size <= RECORDING_BYTES_MAX;
}

/* Compute the key of the verdict's command, to find its other runs. If `folder` is NULL, use the folder that is known
 * of this run. Returns false if there is none. */
static bool find_key(const gw_verdict *verdict, const char *folder, uint64_t *ret_key)
{
    gwi_past_query query = {.has_start = true, .start_realtime_ns = verdict->run.start_realtime_ns, .wait_ms = WAIT_MS};
    gwi_past_list list;
    bool is_found = folder != NULL;
    if (is_found)
        *ret_key = gwi_past_key(&verdict->argv, folder);
    if (is_found || gwi_past_read(&query, &list, NULL) != GW_OK)
        return is_found;
    for (size_t i = 0; i < list.count && !is_found; i++) {
        *ret_key = list.item[i].key;
        is_found = gwi_past_key(&verdict->argv, list.item[i].folder) == list.item[i].key;
    }
    gwi_past_free(&list);
    return is_found;
}

/* Read the newest runs of the verdict's command. False: there are none. */
static bool read_runs(const gw_verdict *verdict, const char *folder, gwi_past_list *ret_list)
{
    gwi_past_query query = {.has_key = true, .newest_max = RUNS_MAX, .wait_ms = WAIT_MS};
    return verdict->run.has_start && find_key(verdict, folder, &query.key) &&
           gwi_past_read(&query, ret_list, NULL) == GW_OK;
}

/* Return the newest earlier good run, or NULL if there is none. Runs whose recording is missing or too large are
 * skipped. */
static const gwi_past *find(const gwi_past_list *list, const gw_verdict *verdict)
{
    for (size_t i = list->count; i-- > 0;) {
        const gwi_past *past = &list->item[i];
        if (past->good && past->start_realtime_ns < verdict->run.start_realtime_ns && is_readable(past->recording))
            return past;
    }
    return NULL;
}

static void say_peaks(gw_verdict *verdict, const gwi_past_list *list)
{
    gwi_peaks peaks;
    gw_text text = {0};
    if (list->count == 0)
        return;
    gwi_past of = {.start_realtime_ns = verdict->run.start_realtime_ns, .key = list->item[0].key};
    gwi_past_take_end(&of, verdict);
    gwi_peaks_find(list, &of, &peaks);
    if (gwi_peaks_text(&peaks, "this one", &text))
        (void)gw_verdict_add_evidence(verdict, peaks_source,
                                      gw_text_str(&text)); /* out of memory: the line is missing */
    gw_text_free(&text);
}

/* True if the difference may explain the fault: `matters` is set, and the difference is not an effect of the fault. */
static bool is_telling(const gw_difference *difference)
{
    if (!difference->matters || difference->area == GW_AREA_END || difference->area == GW_AREA_WORK)
        return false;
    /* less memory is an effect of the fault: a failed run ends early and allocates less */
    bool less = difference->good != NULL && difference->bad != NULL && difference->bad->has_value &&
                difference->bad->value < difference->good->value;
    return difference->area != GW_AREA_MEMORY || (difference->good != NULL && difference->bad != NULL && !less);
}

static const char *lead_of(gw_area area)
{
    if (area == GW_AREA_DRIVER)
        return "the driver's ";
    if (area == GW_AREA_LIBRARY)
        return "the library ";
    if (area == GW_AREA_ENVIRONMENT)
        return "the variable ";
    return "";
}

static const char *value_of(const gw_trait *trait)
{
    return trait == NULL ? "absent" : trait->text;
}

static bool say_difference(gw_verdict *verdict, const gw_difference *difference, const char *when)
{
    char text[800];
    const gw_trait *any = difference->good != NULL ? difference->good : difference->bad;
    snprintf(text, sizeof text, "in the last good run (%s ago), %s%.200s was %.200s; here it is %.200s", when,
             lead_of(difference->area), any->name, value_of(difference->good), value_of(difference->bad));
    return gw_verdict_add_evidence(verdict, source, text);
}

static bool say_parting(gw_verdict *verdict, const gw_parting *parting, const char *when)
{
    char text[700], good[GW_BYTES_TEXT_MAX], bad[GW_BYTES_TEXT_MAX];
    if (!parting->parted || !parting->is_main || parting->good.ended || parting->bad.ended ||
        strcmp(parting->good.call, parting->bad.call) != 0 || parting->good.bytes == parting->bad.bytes)
        return true;
    snprintf(text, sizeof text,
             "the calls match the last good run (%s ago) until %.2f s, where %s requests %s%s%.300s instead of %s",
             when, (double)parting->bad.t_ns / 1e9, parting->bad.call, gw_bytes_text(bad, parting->bad.bytes),
             parting->bad.place == NULL ? "" : " at ", parting->bad.place == NULL ? "" : parting->bad.place,
             gw_bytes_text(good, parting->good.bytes));
    return gw_verdict_add_evidence(verdict, source, text);
}

static bool say(gw_verdict *verdict, const gw_comparison *comparison, const gwi_past *past)
{
    char when[GWI_AGE_TEXT_MAX], text[256];
    size_t told = 0;
    gwi_age_text(when, verdict->run.start_realtime_ns - past->start_realtime_ns);
    for (size_t i = 0; i < comparison->count && told < LINES_MAX; i++) {
        if (!is_telling(&comparison->difference[i]))
            continue;
        if (!say_difference(verdict, &comparison->difference[i], when))
            return false;
        told++;
    }
    if (!say_parting(verdict, &comparison->parting, when))
        return false;
    if (told > 0)
        return true;
    snprintf(text, sizeof text,
             "nothing recorded differs from the last good run (%s ago): driver, libraries, environment, card and "
             "limits are the same",
             when);
    return gw_verdict_add_evidence(verdict, source, text);
}

static void compare(gw_verdict *verdict, const char *path, const gwi_past *past)
{
    uint64_t until_ns = gw_processor_ns() + time_max_ns;
    gw_portrait *good = NULL, *bad = NULL;
    gw_comparison *comparison = NULL;
    if (gw_portrait_read(past->recording, until_ns, &good, NULL) == GW_OK &&
        gw_portrait_read(path, until_ns, &bad, NULL) == GW_OK && gw_portrait_model(good)->damaged_count == 0 &&
        gw_compare(good, bad, &comparison, NULL) == GW_OK)
        (void)say(verdict, comparison, past); /* if out of memory, the evidence is incomplete */
    gw_comparison_free(comparison);
    gw_portrait_free(bad);
    gw_portrait_free(good);
}

void gwi_last_good_say(gw_verdict *verdict, const char *path, const char *folder)
{
    gwi_past_list list;
    if (!read_runs(verdict, folder, &list))
        return;
    say_peaks(verdict, &list); /* first, because a screen may not have room for all lines */
    const gwi_past *past = is_readable(path) ? find(&list, verdict) : NULL;
    if (past != NULL)
        compare(verdict, path, past);
    gwi_past_free(&list);
}
