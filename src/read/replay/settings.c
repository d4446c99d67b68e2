/* PyTorch's allocator settings: their defaults, their text form, and the rounding of requests. */
#include "gw_replay.h"

#include "gwi_allocator.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

gw_replay_settings gw_replay_settings_default(void)
{
    return (gw_replay_settings){.max_split_bytes = UINT64_MAX,
                                .non_split_rounding_bytes = GWI_LARGE_SEGMENT,
                                .large_segment_bytes = GWI_LARGE_SEGMENT,
                                .limit_bytes = UINT64_MAX};
}

/* ---- the text ---- */

enum { VALUE_MAX = 256 };

/* Take the next "key:value" from *at. A value in brackets may have commas. Spaces are dropped, as PyTorch does. Returns
 * false at the end of the text, or (with *ret_bad set) if there is no colon or a part is too long. */
static bool next_pair(const char **at, char key[VALUE_MAX], char value[VALUE_MAX], bool *ret_bad)
{
    size_t key_bytes = 0, value_bytes = 0;
    bool in_value = false, in_brackets = false, any = false;
    for (; **at != '\0' && (**at != ',' || in_brackets); (*at)++) {
        char c = **at;
        size_t *bytes = in_value ? &value_bytes : &key_bytes;
        any = any || c != ' ';
        in_brackets = (in_brackets || c == '[') && c != ']';
        if (c == ':' && !in_value)
            in_value = true;
        else if (c != ' ' && *bytes + 1 < VALUE_MAX)
            (in_value ? value : key)[(*bytes)++] = c;
        else if (c != ' ')
            *ret_bad = true;
    }
    key[key_bytes] = value[value_bytes] = '\0';
    bool is_end = **at == '\0';
    *at += is_end ? 0 : 1;
    *ret_bad = *ret_bad || (any && !in_value);
    return any || !is_end;
}

static bool read_count(const char *text, uint64_t *ret_count)
{
    char *end;
    unsigned long long value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || value > UINT32_MAX)
        return false;
    *ret_count = value;
    return true;
}

static bool read_mib(const char *text, uint64_t *ret_bytes)
{
    uint64_t mib;
    if (!read_count(text, &mib))
        return false;
    *ret_bytes = mib * GWI_MIB;
    return true;
}

static bool read_ratio(const char *text, double *ret_ratio)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value >= 0.0 && value <= 1.0))
        return false;
    *ret_ratio = value;
    return true;
}

static bool is_power_of_two(uint64_t value)
{
    return value != 0 && (value & (value - 1)) == 0;
}

static unsigned log2_of(uint64_t value)
{
    return 63u - (unsigned)__builtin_clzll(value);
}

/* Read "[256:1,512:2,>:4]": each size in MiB has its divisions, ">" all larger ones. Sizes below the first one have
 * its divisions. */
static bool read_division_list(char *list, uint32_t divisions[GW_REPLAY_INTERVALS])
{
    unsigned at = 0;
    uint64_t count = 0;
    for (char *rest = NULL, *part = strtok_r(list, ",", &rest); part != NULL; part = strtok_r(NULL, ",", &rest)) {
        char *colon = strchr(part, ':');
        uint64_t mib = 0;
        if (colon == NULL)
            return false;
        *colon = '\0';
        bool is_rest = strcmp(part, ">") == 0;
        if (!read_count(colon + 1, &count) || !is_power_of_two(count) || (!is_rest && !read_count(part, &mib)) ||
            (!is_rest && !is_power_of_two(mib)))
            return false;
        unsigned index = is_rest ? GW_REPLAY_INTERVALS - 1 : log2_of(mib);
        index = index < GW_REPLAY_INTERVALS ? index : GW_REPLAY_INTERVALS - 1;
        if (at == 0)
            for (unsigned i = 0; i < index; i++)
                divisions[i] = (uint32_t)count;
        for (unsigned i = is_rest ? at : index; i <= index; i++)
            divisions[i] = (uint32_t)count;
        at = index + 1;
    }
    return true;
}

static bool read_divisions(char *text, uint32_t divisions[GW_REPLAY_INTERVALS])
{
    uint64_t count;
    size_t bytes = strlen(text);
    if (text[0] == '[' && bytes >= 2 && text[bytes - 1] == ']') {
        text[bytes - 1] = '\0';
        return read_division_list(text + 1, divisions);
    }
    if (!read_count(text, &count) || !is_power_of_two(count))
        return false;
    for (unsigned i = 0; i < GW_REPLAY_INTERVALS; i++)
        divisions[i] = (uint32_t)count;
    return true;
}

static bool read_bool(const char *text, bool *ret_value)
{
    *ret_value = strcmp(text, "True") == 0;
    return *ret_value || strcmp(text, "False") == 0;
}

/* Apply one pair. Returns false if the value is invalid. */
static bool apply(gw_replay_settings *settings, const char *key, char *value)
{
    if (strcmp(key, "expandable_segments") == 0)
        return read_bool(value, &settings->is_expandable);
    if (strcmp(key, "max_split_size_mb") == 0) /* PyTorch refuses 20 and less */
        return read_mib(value, &settings->max_split_bytes) && settings->max_split_bytes > GWI_LARGE_SEGMENT;
    if (strcmp(key, "max_non_split_rounding_mb") == 0)
        return read_mib(value, &settings->non_split_rounding_bytes);
    if (strcmp(key, "large_segment_size_mb") == 0)
        return read_mib(value, &settings->large_segment_bytes) && settings->large_segment_bytes >= GWI_SMALL_SEGMENT &&
               settings->large_segment_bytes <= 64 * GWI_LARGE_SEGMENT;
    if (strcmp(key, "garbage_collection_threshold") == 0)
        return read_ratio(value, &settings->collect_ratio);
    if (strcmp(key, "roundup_power2_divisions") == 0)
        return read_divisions(value, settings->divisions);
    return true;
}

gw_status gw_replay_settings_read(gw_replay_settings *settings, const char *text, gw_error *err)
{
    char key[VALUE_MAX], value[VALUE_MAX];
    bool bad = false;
    while (next_pair(&text, key, value, &bad)) {
        if (bad)
            return gw_fail(err, GW_USAGE, "allocator settings: \"%.40s\" is not KEY:VALUE", key);
        if (strcmp(key, "backend") == 0 && strcasecmp(value, "native") != 0)
            return gw_fail(err, GW_UNSUPPORTED, "the program used another allocator (backend:%.40s)", value);
        if (!apply(settings, key, value))
            return gw_fail(err, GW_USAGE, "allocator settings: the value of %.40s is not valid: \"%.40s\"", key, value);
    }
    return GW_OK;
}

/* ---- rounding ---- */

static uint64_t divisions_for(const gw_replay_settings *settings, uint64_t bytes)
{
    unsigned log2_mib = bytes <= GWI_MIB ? 0 : log2_of(bytes) - 20;
    return settings->divisions[log2_mib < GW_REPLAY_INTERVALS ? log2_mib : GW_REPLAY_INTERVALS - 1];
}

uint64_t gw_replay_round(const gw_replay_settings *settings, uint64_t bytes)
{
    if (bytes < GWI_UNIT)
        return GWI_UNIT;
    uint64_t divisions = divisions_for(settings, bytes);
    if (divisions > 1 && bytes > GWI_UNIT * divisions) {
        uint64_t power = (uint64_t)1 << log2_of(bytes), step = power >> log2_of(divisions);
        return is_power_of_two(bytes) ? bytes : (bytes + step - 1) / step * step;
    }
    return (bytes + GWI_UNIT - 1) / GWI_UNIT * GWI_UNIT;
}
