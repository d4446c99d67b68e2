/* Keep a list of facts, sorted by key, and read and write the file in which it is saved. */
#include "gwi_doctor.h"

#include "gw_array.h"
#include "gw_process.h"
#include "gw_text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char first_line[] = "gpuwhy doctor facts 1\n";

/* ---- the list: sorted by key ---- */

static size_t place_of(const gw_facts *facts, const char *key, bool *ret_found)
{
    size_t low = 0, high = facts->count;
    *ret_found = false;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(facts->item[middle].key, key);
        if (order == 0) {
            *ret_found = true;
            return middle;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_key(const char *key)
{
    return key[0] != '\0' && key[strcspn(key, " =\n\t")] == '\0';
}

static void one_line(char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            *text = ' ';
    }
}

static void put(gw_facts *facts, const char *key, char *value)
{
    bool found;
    size_t at = place_of(facts, key, &found);
    if (found) {
        free(facts->item[at].value);
        facts->item[at].value = value;
        return;
    }
    char *copy = gw_array_room(&facts->item, facts->count, &facts->capacity, sizeof *facts->item) ? strdup(key) : NULL;
    if (copy == NULL) {
        facts->failed = true;
        free(value);
        return;
    }
    memmove(facts->item + at + 1, facts->item + at, (facts->count - at) * sizeof *facts->item);
    facts->item[at] = (gw_fact){copy, value};
    facts->count++;
}

void gw_facts_set(gw_facts *facts, const char *key, const char *format, ...)
{
    va_list args;
    char *value = NULL;
    va_start(args, format);
    int bytes = vasprintf(&value, format, args);
    va_end(args);
    if (bytes < 0 || !is_key(key)) {
        facts->failed = facts->failed || bytes < 0;
        if (bytes >= 0)
            free(value);
        return;
    }
    one_line(value);
    put(facts, key, value);
}

const char *gw_facts_get(const gw_facts *facts, const char *key)
{
    bool found;
    size_t at = place_of(facts, key, &found);
    return found ? facts->item[at].value : NULL;
}

const char *gw_facts_getf(const gw_facts *facts, const char *format, ...)
{
    char key[GWI_FACT_KEY_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(key, sizeof key, format, args);
    va_end(args);
    return gw_facts_get(facts, key);
}

bool gw_facts_number(const gw_facts *facts, const char *key, long long *ret_number)
{
    const char *value = gw_facts_get(facts, key);
    char *end;
    if (value == NULL || *value == '\0')
        return false;
    errno = 0;
    long long number = strtoll(value, &end, 0);
    if (*end != '\0' || errno != 0)
        return false;
    *ret_number = number;
    return true;
}

void gw_facts_free(gw_facts *facts)
{
    for (size_t i = 0; i < facts->count; i++) {
        free(facts->item[i].key);
        free(facts->item[i].value);
    }
    free(facts->item);
    *facts = (gw_facts){0};
}

/* ---- text ---- */

static bool begins_with_one(const char *key, const char *beginnings)
{
    for (const char *at = beginnings; at != NULL && *at != '\0';) {
        size_t bytes = strcspn(at, " ");
        if (strncmp(key, at, bytes) == 0)
            return true;
        at += bytes;
        at += *at == ' ';
    }
    return beginnings == NULL;
}

void gw_facts_parse(gw_facts *facts, const char *text, const char *beginnings)
{
    while (*text != '\0') {
        char key[GWI_FACT_KEY_MAX];
        size_t line = strcspn(text, "\n"), name = strcspn(text, "=\n");
        if (name < line && name > 0 && name < sizeof key) {
            memcpy(key, text, name);
            key[name] = '\0';
            if (begins_with_one(key, beginnings))
                gw_facts_set(facts, key, "%.*s", (int)(line - name - 1), text + name + 1);
        }
        text += line + (text[line] == '\n');
    }
}

void gw_facts_add_text(const gw_facts *facts, gw_text *text)
{
    gw_text_add_str(text, first_line);
    for (size_t i = 0; i < facts->count; i++)
        gw_text_addf(text, "%s=%s\n", facts->item[i].key, facts->item[i].value);
}

gw_status gw_facts_load(gw_facts *facts, const char *path, gw_error *err)
{
    enum { BYTES_MAX = 4 << 20 };
    gw_status st = GW_OK;
    char *text = malloc(BYTES_MAX + 1);
    FILE *file = fopen(path, "re");
    if (text == NULL || file == NULL) {
        st = gw_fail(err, text == NULL ? GW_NOMEM : GW_IO, "read %s: %s", path, strerror(errno));
        goto out;
    }
    size_t bytes = fread(text, 1, BYTES_MAX, file);
    if (ferror(file)) {
        st = gw_fail(err, GW_IO, "read %s: %s", path, strerror(errno));
        goto out;
    }
    text[bytes] = '\0';
    if (!gw_begins(text, first_line))
        st = gw_fail(err, GW_CORRUPT, "%s: not a file of gpuwhy doctor --save", path);
    else
        gw_facts_parse(facts, text + sizeof first_line - 1, NULL);
out:
    if (file != NULL)
        fclose(file);
    free(text);
    return st;
}

/* ---- helpers for the other files ---- */

char *gwi_read_file(const char *root, const char *path)
{
    char *text = malloc(GWI_FILE_BYTES_MAX + 1);
    if (text != NULL && gw_read_small(text, GWI_FILE_BYTES_MAX + 1, NULL, "%s%s", root, path) >= 0)
        return text;
    free(text);
    return NULL;
}

gw_version gwi_version(const char *text)
{
    gw_version version;
    const char *end;
    return text != NULL && gw_version_parse(text, &version, &end) ? version : 0;
}

bool gwi_is(const char *value, const char *wanted)
{
    return value != NULL && strcmp(value, wanted) == 0;
}

long long gwi_number_or(const gw_facts *facts, const char *key, long long otherwise)
{
    long long number;
    return gw_facts_number(facts, key, &number) ? number : otherwise;
}

bool gwi_has_device(const gw_facts *facts, const char *name)
{
    const char *list = gw_facts_get(facts, "device.files");
    size_t bytes = strlen(name);
    for (const char *at = list; at != NULL && (at = strstr(at, name)) != NULL; at += bytes) {
        if ((at == list || at[-1] == ' ') && (at[bytes] == '\0' || at[bytes] == ' '))
            return true;
    }
    return false;
}

long long gwi_card_count(const gw_facts *facts)
{
    long long count;
    if (gw_facts_number(facts, "nvml.cards", &count) || gw_facts_number(facts, "driver.cards", &count) ||
        gw_facts_number(facts, "pci.cards", &count))
        return count > GWI_CARDS_MAX ? GWI_CARDS_MAX : count;
    return -1;
}

const char *gwi_card(const gw_facts *facts, long long index, const char *what)
{
    const char *value = gw_facts_getf(facts, "card.%lld.%s", index, what);
    return value != NULL ? value : gw_facts_getf(facts, "driver.card.%lld.%s", index, what);
}

const char *gwi_driver(const gw_facts *facts)
{
    static const char *const keys[] = {"driver.module", "nvml.driver", "driver.library.version"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const char *version = gw_facts_get(facts, keys[i]);
        if (version != NULL)
            return version;
    }
    return NULL;
}

/* Collect the results of the checks. */

GW_WORDS(gw_check_state_text, gw_check_state, GW_CHECK_STATES, "?")

void gwi_check(gw_checkup *checkup, const char *section, const char *id, gw_check_state state, const char *todo,
               const char *format, ...)
{
    gw_check check = {.section = section, .id = id, .state = state};
    va_list args;
    va_start(args, format);
    int bytes = vasprintf(&check.text, format, args);
    va_end(args);
    if (bytes < 0) {
        checkup->failed = true;
        return;
    }
    if (todo != NULL && todo[0] != '\0' && !gw_str_copy(todo, &check.todo))
        checkup->failed = true;
    if (!gw_array_room(&checkup->item, checkup->count, &checkup->capacity, sizeof *checkup->item)) {
        checkup->failed = true;
        free(check.text);
        free(check.todo);
        return;
    }
    checkup->item[checkup->count++] = check;
    checkup->counts[state]++;
}

void gw_checkup_free(gw_checkup *checkup)
{
    for (size_t i = 0; i < checkup->count; i++) {
        free(checkup->item[i].text);
        free(checkup->item[i].todo);
    }
    free(checkup->item);
    *checkup = (gw_checkup){0};
}
