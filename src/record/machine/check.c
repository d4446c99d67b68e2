/* Run all checks, and compare the facts with facts saved earlier. */
#include "gwi_doctor.h"

#include "gw_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void gw_doctor_check(const gw_facts *facts, gw_checkup *checkup)
{
    gwi_check_driver(facts, checkup);
    gwi_check_cards(facts, checkup);
    gwi_check_libraries(facts, checkup);
    gwi_check_known(facts, checkup);
    gwi_check_python(facts, checkup);
    gwi_check_host(facts, checkup);
    gwi_check_environment(facts, checkup);
}

/* ---- comparison with saved facts ---- */

/* True for facts that compare_one() ignores: values that often change by themselves, and libraries, which
 * compare_libraries() compares. */
static bool is_of_the_moment(const char *key)
{
    static const char *const parts[] = {".temperature",   ".throttle", ".speed",
                                        "shm.bytes_free", "library.",  "libraries"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (strstr(key, parts[i]) != NULL)
            return true;
    }
    return false;
}

static bool is_about_cards(const char *key)
{
    return strcmp(key, "nvml.cards") == 0 || strcmp(key, "driver.cards") == 0 || strcmp(key, "pci.cards") == 0;
}

/* Compare a fact with its saved value `then`. A difference is a failure if cards are missing, otherwise a warning. */
static void compare_one(const char *key, const char *now, const char *then, gw_checkup *checkup)
{
    bool is_half_known = now == NULL || then == NULL;
    if (gw_begins(key, "pci.acs.") && (is_half_known || strstr(key, ".read") != NULL))
        return; /* only root can read all of these values, so a difference may not be a real change */
    if (is_of_the_moment(key) || (now != NULL && then != NULL && strcmp(now, then) == 0))
        return;
    bool fewer = is_about_cards(key) && now != NULL && then != NULL && atoll(now) < atoll(then);
    if (fewer)
        gwi_check(checkup, "since", "cards-gone", GW_CHECK_FAIL,
                  "Check the kernel log for Xid 79, the power supply and the seating of the card",
                  "%s: %s now, %s before", key, now, then);
    else
        gwi_check(checkup, "since", "changed", GW_CHECK_WARN, NULL, "%s: %s now, %s before", key,
                  now != NULL ? now : "unknown", then != NULL ? then : "unknown");
}

/* Find the library at `path`. The search is by path, because the number N of a library's fact "library.N" may
 * change. */
static bool library_at(const gw_facts *facts, const char *path, gw_fact_library *ret_library)
{
    for (long long i = 0; i < gwi_library_count(facts); i++) {
        *ret_library = gwi_library_fact(facts, i);
        if (ret_library->has_path && gw_fact_text_is(ret_library->path, path))
            return true;
    }
    return false;
}

static void compare_libraries(const gw_facts *facts, const gw_facts *before, gw_checkup *checkup)
{
    gw_fact_library now, then;
    char version[GW_VERSION_TEXT_MAX], version_then[GW_VERSION_TEXT_MAX];
    for (long long i = 0; i < gwi_library_count(before); i++) {
        then = gwi_library_fact(before, i);
        if (!then.has_path)
            continue;
        bool is_there = library_at(facts, then.path.data, &now);
        gw_fact_text_copy(version, sizeof version, is_there ? now.version : gw_fact_text_of(NULL));
        gw_fact_text_copy(version_then, sizeof version_then, then.version);
        if (!is_there || strcmp(version, version_then) != 0)
            gwi_check(checkup, "since", "changed", GW_CHECK_WARN, NULL, "%s: %s now, %s before", then.path.data,
                      is_there ? version : "missing", version_then);
    }
    for (long long i = 0; i < gwi_library_count(facts); i++) {
        now = gwi_library_fact(facts, i);
        if (now.has_path && !library_at(before, now.path.data, &then))
            gwi_check(checkup, "since", "changed", GW_CHECK_WARN, NULL, "%s: missing before", now.path.data);
    }
}

void gw_doctor_compare(const gw_facts *facts, const gw_facts *before, gw_checkup *checkup)
{
    size_t count = checkup->count;
    bool python = gw_facts_get(facts, "python.version") != NULL && gw_facts_get(before, "python.version") != NULL;
    for (size_t i = 0; i < before->count; i++) {
        if (python || !gw_begins(before->item[i].key, "python."))
            compare_one(before->item[i].key, gw_facts_get(facts, before->item[i].key), before->item[i].value, checkup);
    }
    for (size_t i = 0; i < facts->count; i++) {
        if (gw_facts_get(before, facts->item[i].key) == NULL && (python || !gw_begins(facts->item[i].key, "python.")))
            compare_one(facts->item[i].key, facts->item[i].value, NULL, checkup);
    }
    /* Compare the libraries only if both lists of facts have a Python interpreter, or neither. The packages of an
     * interpreter add libraries to a list. */
    if (python || (gw_facts_get(facts, "python.version") == NULL && gw_facts_get(before, "python.version") == NULL))
        compare_libraries(facts, before, checkup);
    if (checkup->count == count)
        gwi_check(checkup, "since", "changed", GW_CHECK_PASS, NULL, "nothing relevant has changed");
}
