/* Finds and fills the placeholders of `gpuwhy run --rescue`. */
#include "gwi_places.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const numbers[] = {"batch", "steps", "size", "workers", "gpus"};

/* A placeholder in a word. */
typedef struct found {
    const char *name, *values; /* not terminated; `values` is NULL for {NAME} */
    size_t name_bytes, value_bytes, bytes;
    bool is_escaped; /* {{NAME:..}} */
} found;

static bool is_value_byte(char byte)
{
    return isalnum((unsigned char)byte) || strchr("_.,+-", byte) != NULL;
}

/* Read "{NAME}" or "{NAME:VALUES}" at `at`. */
static bool read_braces(const char *at, found *it)
{
    const char *end = at + 1;
    if (at[0] != '{' || !(isalpha((unsigned char)*end) || *end == '_'))
        return false;
    while (isalnum((unsigned char)*end) || *end == '_')
        end++;
    *it = (found){.name = at + 1, .name_bytes = (size_t)(end - at - 1)};
    if (*end == ':') {
        it->values = ++end;
        while (*end != '\0' && is_value_byte(*end))
            end++;
        it->value_bytes = (size_t)(end - it->values);
    }
    it->bytes = (size_t)(end - at + 1);
    return *end == '}' && (it->values == NULL || it->value_bytes > 0);
}

static bool is_number_name(const found *it)
{
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (strlen(numbers[i]) == it->name_bytes && strncmp(numbers[i], it->name, it->name_bytes) == 0)
            return true;
    return false;
}

/* Is it one of ours? Other text in braces, such as "{i:02d}" of Python, has a name that stands for no number, and no
 * list of values. */
static bool is_placeholder(const found *it)
{
    static const char precision[] = "precision";
    bool is_list = it->values != NULL && memchr(it->values, ',', it->value_bytes) != NULL;
    bool is_precision = it->name_bytes == strlen(precision) && strncmp(it->name, precision, it->name_bytes) == 0;
    bool may_have_place = it->values == NULL; /* fill() leaves {NAME} alone if there is no {NAME:VALUES} */
    return may_have_place || is_number_name(it) || is_precision || (is_list && it->value_bytes > 1);
}

/* Find the next placeholder from `at` on in `word`; with {{..}}, `at` moves to its first brace. */
static const char *next_in(const char *word, const char *at, found *it)
{
    for (; (at = strchr(at, '{')) != NULL; at++) {
        if (at > word && at[-1] == '$')
            continue;
        if (at[1] == '{' && read_braces(at + 1, it) && it->values != NULL && is_placeholder(it) &&
            at[1 + it->bytes] == '}') {
            it->is_escaped = true;
            it->bytes += 2;
            return at;
        }
        if (read_braces(at, it) && is_placeholder(it))
            return at;
    }
    return NULL;
}

/* Return the index of its place; places->count if there is none. */
static size_t place_of(const gwi_places *places, const found *it)
{
    size_t i = 0;
    while (i < places->count && (strlen(places->place[i].name) != it->name_bytes ||
                                 strncmp(places->place[i].name, it->name, it->name_bytes) != 0))
        i++;
    return i;
}

/* ---- reading ---- */

static gw_status add_values(gwi_place *place, const found *it, gw_error *err)
{
    const char *at = it->values, *end = it->values + it->value_bytes;
    for (;; at++) {
        size_t bytes = 0;
        while (at + bytes < end && at[bytes] != ',')
            bytes++;
        if (bytes == 0)
            return gw_fail(err, GW_USAGE, "--rescue: {%s:%.*s} has an empty value", place->name, (int)it->value_bytes,
                           it->values);
        if (place->count == GWI_PLACE_VALUES_MAX)
            return gw_fail(err, GW_USAGE, "--rescue: {%s:..} has more than %d values", place->name,
                           GWI_PLACE_VALUES_MAX);
        if ((place->value[place->count] = strndup(at, bytes)) == NULL)
            return gw_fail(err, GW_NOMEM, "out of memory");
        place->count++;
        at += bytes;
        if (at == end)
            return GW_OK;
    }
}

static gw_status check_values(gwi_place *place, gw_error *err)
{
    if (!place->is_number)
        return place->count > 1 ? GW_OK
                                : gw_fail(err, GW_USAGE,
                                          "--rescue: {%s:%s} has one value; list all in the order in which they may "
                                          "be tried, such as {%s:fp32,bf16}",
                                          place->name, place->value[0], place->name);
    char *end = NULL;
    errno = 0;
    place->number = strtoull(place->value[0], &end, 10);
    bool is_number = place->count == 1 && isdigit((unsigned char)place->value[0][0]) && *end == '\0' && errno == 0;
    if (!is_number || place->number > UINT32_MAX || (place->number == 0 && strcmp(place->name, "workers") != 0))
        return gw_fail(err, GW_USAGE, "--rescue: {%s:%s%s}: expected a whole number, at least 1", place->name,
                       place->value[0], place->count > 1 ? ",.." : "");
    return GW_OK;
}

static gw_status add_place(gwi_places *places, const found *it, gw_error *err)
{
    if (places->count == GWI_PLACES_MAX)
        return gw_fail(err, GW_USAGE, "--rescue: the command has more than %d placeholders", GWI_PLACES_MAX);
    gwi_place *place = &places->place[places->count];
    *place = (gwi_place){.name = strndup(it->name, it->name_bytes), .is_number = is_number_name(it)};
    if (place->name == NULL)
        return gw_fail(err, GW_NOMEM, "out of memory");
    places->count++;
    gw_status st = add_values(place, it, err);
    return st == GW_OK ? check_values(place, err) : st;
}

/* A second {NAME:VALUES} must say the same as the first. */
static gw_status check_same(const gwi_place *place, const found *it, gw_error *err)
{
    gw_text values = {0};
    for (size_t i = 0; i < place->count; i++)
        gw_text_addf(&values, "%s%s", i == 0 ? "" : ",", place->value[i]);
    bool is_same = strlen(gw_text_str(&values)) == it->value_bytes &&
                   strncmp(gw_text_str(&values), it->values, it->value_bytes) == 0;
    gw_status st = is_same ? GW_OK
                           : gw_fail(err, GW_USAGE, "--rescue: the command has both {%s:%s} and {%s:%.*s}", place->name,
                                     gw_text_str(&values), place->name, (int)it->value_bytes, it->values);
    gw_text_free(&values);
    return st;
}

gw_status gwi_places_read(char *const *command, gwi_places *ret_places, gw_error *err)
{
    *ret_places = (gwi_places){.command = command};
    for (size_t i = 0; command[i] != NULL; i++) {
        const char *at = command[i];
        for (found it; (at = next_in(command[i], at, &it)) != NULL; at += it.bytes) {
            size_t known = place_of(ret_places, &it);
            if (it.is_escaped || it.values == NULL)
                continue;
            gw_status st = known == ret_places->count ? add_place(ret_places, &it, err)
                                                      : check_same(&ret_places->place[known], &it, err);
            if (st != GW_OK)
                return st;
        }
    }
    return GW_OK;
}

void gwi_places_free(gwi_places *places)
{
    for (size_t i = 0; i < places->count; i++) {
        free(places->place[i].name);
        for (size_t k = 0; k < places->place[i].count; k++)
            free(places->place[i].value[k]);
    }
    *places = (gwi_places){0};
}

/* ---- using ---- */

gwi_place *gwi_places_find(gwi_places *places, const char *name)
{
    size_t at = place_of(places, &(found){.name = name, .name_bytes = strlen(name)});
    return at < places->count ? &places->place[at] : NULL;
}

bool gwi_place_set(gwi_place *place, uint64_t number)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, number);
    char *copy = strdup(text);
    if (copy == NULL)
        return false;
    free(place->value[0]);
    place->value[0] = copy;
    place->number = number;
    return true;
}

void gwi_place_say(const gwi_place *place, const char *before, gw_text *text)
{
    gw_text_addf(text, "%s%s %s instead of %s", text->bytes > 0 ? ", " : "", place->name, place->value[place->now],
                 before);
}

static char *fill(const gwi_places *places, const char *word)
{
    gw_text filled = {0};
    const char *from = word, *at = word;
    for (found it; (at = next_in(word, at, &it)) != NULL; from = at += it.bytes) {
        size_t place = place_of(places, &it);
        gw_text_add(&filled, from, (size_t)(at - from));
        if (it.is_escaped)
            gw_text_add(&filled, at + 1, it.bytes - 2);
        else if (place == places->count)
            gw_text_add(&filled, at, it.bytes);
        else
            gw_text_add_str(&filled, places->place[place].value[places->place[place].now]);
    }
    gw_text_add_str(&filled, from);
    char *copy = filled.failed ? NULL : strdup(gw_text_str(&filled));
    gw_text_free(&filled);
    return copy;
}

bool gwi_places_command(const gwi_places *places, gwi_command *ret_command)
{
    if (!gwi_command_copy(places->command, ret_command))
        return false;
    for (size_t i = 0; i < ret_command->count; i++) {
        free(ret_command->argv[i]);
        ret_command->argv[i] = fill(places, places->command[i]);
        if (ret_command->argv[i] != NULL)
            continue;
        for (size_t k = i + 1; k < ret_command->count; k++)
            free(ret_command->argv[k]);
        ret_command->count = i;
        gwi_command_free(ret_command);
        return false;
    }
    return true;
}
