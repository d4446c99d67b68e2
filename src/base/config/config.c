/* The table of keys, their values, and the environment variables. */
#include "gwi_config.h"

#include "gw_text.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const gw_config_key gw_config_keys[GW_CONFIG_COUNT] = {
#define GW_X(id, type, name, unit, standard, commands, option, help)                                                   \
    {GW_CONFIG_TYPE_##type, name, unit, standard, commands, option, help},
    GW_CONFIG_KEYS(GW_X)
#undef GW_X
};

GW_WORDS(gw_config_valid, gw_config_type, GW_CONFIG_TYPES, "?")

/* ---- values ---- */

static bool is_one_of(const char *text, const char *const *words)
{
    for (; *words != NULL; words++)
        if (strcmp(text, *words) == 0)
            return true;
    return false;
}

static bool parse_bool(const char *text, uint64_t *ret)
{
    static const char *const yes[] = {"true", "1", "yes", "on", NULL}, *const no[] = {"false", "0", "no", "off", NULL};
    *ret = is_one_of(text, yes);
    return *ret == 1 || is_one_of(text, no);
}

static bool parse_count(const char *text, uint64_t *ret)
{
    char *end = NULL;
    errno = 0;
    *ret = strtoull(text, &end, 10);
    return isdigit((unsigned char)text[0]) && *end == '\0' && errno == 0;
}

static bool is_hang(const char *text)
{
    static const char *const words[] = {"auto", "off", NULL};
    char *end = NULL;
    double seconds = strtod(text, &end);
    return is_one_of(text, words) || (end != text && *end == '\0' && seconds >= 0.1 && seconds <= 1e6);
}

static bool is_threshold(const char *text)
{
    double ratio;
    uint64_t bytes;
    return gw_threshold_parse(text, &ratio, &bytes);
}

static bool is_color(const char *text)
{
    static const char *const words[] = {"auto", "always", "never", NULL};
    return is_one_of(text, words);
}

static bool is_folder(const char *text)
{
    for (const char *at = text; *at != '\0'; at++)
        if (iscntrl((unsigned char)*at))
            return false;
    return text[0] == '/' || gw_begins(text, "~/");
}

/* Return the length of the name at `text`, with the * at its end. 0: there is no valid name. */
static size_t name_bytes(const char *text)
{
    size_t bytes = 0;
    while (isalnum((unsigned char)text[bytes]) || text[bytes] == '_')
        bytes++;
    bool is_name = bytes > 0 && !isdigit((unsigned char)text[0]);
    return is_name ? bytes + (text[bytes] == '*') : 0;
}

bool gw_config_names_are_valid(const char *text)
{
    while (text != NULL && *text != '\0') {
        size_t bytes = name_bytes(text);
        text += bytes;
        if (bytes == 0 || (*text != '\0' && *text != ',') || (*text == ',' && text[1] == '\0'))
            return false;
        text += *text == ',';
    }
    return true;
}

bool gw_config_names_contain(const char *names, const char *name)
{
    while (names != NULL && *names != '\0') {
        size_t bytes = strcspn(names, ",");
        bool is_beginning = bytes > 0 && names[bytes - 1] == '*';
        if (is_beginning ? strncmp(names, name, bytes - 1) == 0
                         : strlen(name) == bytes && strncmp(names, name, bytes) == 0)
            return true;
        names += bytes + (names[bytes] == ',');
    }
    return false;
}

static bool parse(gw_config_type type, const char *text, uint64_t *ret_number)
{
    *ret_number = 0;
    switch (type) {
    case GW_CONFIG_TYPE_BOOL:
        return parse_bool(text, ret_number);
    case GW_CONFIG_TYPE_COUNT:
        return parse_count(text, ret_number);
    case GW_CONFIG_TYPE_SIZE:
        return gw_bytes_parse(text, ret_number);
    case GW_CONFIG_TYPE_HANG:
        return is_hang(text);
    case GW_CONFIG_TYPE_THRESHOLD:
        return is_threshold(text);
    case GW_CONFIG_TYPE_COLOR:
        return is_color(text);
    case GW_CONFIG_TYPE_FOLDER:
        return is_folder(text);
    case GW_CONFIG_TYPE_NAMES:
        return gw_config_names_are_valid(text);
    }
    return false;
}

bool gw_config_is_valid(gw_config_type type, const char *text)
{
    uint64_t number;
    return parse(type, text, &number);
}

static const char *canonical(gw_config_type type, const char *text, uint64_t number)
{
    if (type == GW_CONFIG_TYPE_BOOL)
        return number != 0 ? "true" : "false";
    return text;
}

gw_status gw_config_set(gw_config *config, gw_config_id id, const char *text, gw_config_source source, unsigned line,
                        gw_error *err)
{
    const gw_config_key *key = &gw_config_keys[id];
    gw_config_value *value = &config->value[id];
    uint64_t number;
    char *copy;
    if (!parse(key->type, text, &number))
        return gw_fail(err, GW_USAGE, "%s: expected %s", key->name, gw_config_valid(key->type));
    if (source < value->source)
        return GW_OK;
    if (!gw_str_copy(canonical(key->type, text, number), &copy))
        return gw_fail(err, GW_NOMEM, "%s: out of memory", key->name);
    free(value->owned);
    *value = (gw_config_value){.text = copy, .owned = copy, .number = number, .source = source, .line = line};
    return GW_OK;
}

/* ---- the configuration ---- */

void gw_config_init(gw_config *config)
{
    *config = (gw_config){.error_count = 0};
    for (size_t i = 0; i < GW_CONFIG_COUNT; i++) {
        config->value[i].text = gw_config_keys[i].standard;
        (void)parse(gw_config_keys[i].type, gw_config_keys[i].standard, &config->value[i].number);
    }
}

void gw_config_free(gw_config *config)
{
    for (size_t i = 0; i < GW_CONFIG_COUNT; i++)
        free(config->value[i].owned);
    for (size_t i = 0; i < sizeof config->path / sizeof config->path[0]; i++)
        gw_text_free(&config->path[i]);
    gw_text_free(&config->errors);
    gw_config_init(config);
}

gw_config *gw_config_process(void)
{
    static gw_config config; /* of the process: set by main() */
    if (config.value[0].text == NULL)
        gw_config_init(&config);
    return &config;
}

void gwi_config_complain(gw_config *config, const char *format, ...)
{
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    config->error_count++;
    if (config->error_count > GWI_CONFIG_ERRORS_MAX + 1)
        return;
    gw_add_printable(&config->errors, config->error_count > GWI_CONFIG_ERRORS_MAX ? "there are further errors" : line);
    gw_text_add_str(&config->errors, "\n");
}

void gw_config_read_environment(gw_config *config)
{
    char variable[GW_CONFIG_VARIABLE_MAX];
    gw_error err;
    bool is_inside = getenv("GPUWHY_RUN_DIR") != NULL;
    for (gw_config_id id = 0; id < GW_CONFIG_COUNT; id++) {
        const char *text = getenv(gw_config_variable(id, variable));
        /* The hook reads these variables, too. Inside another run they are that run's, and not the user's. */
        bool is_outer = is_inside && (id == GW_CONFIG_MEMORY || id == GW_CONFIG_MEMORY_SHARED);
        if (text == NULL || text[0] == '\0' || is_outer)
            continue;
        if (gw_config_set(config, id, text, GW_CONFIG_ENVIRONMENT, 0, &err) != GW_OK)
            gwi_config_complain(config, "%s=%s: expected %s", variable, text, gw_config_valid(gw_config_keys[id].type));
    }
}

/* ---- names ---- */

const char *gw_config_variable(gw_config_id id, char out[GW_CONFIG_VARIABLE_MAX])
{
    size_t at = (size_t)snprintf(out, GW_CONFIG_VARIABLE_MAX, "GPUWHY_%s", gw_config_keys[id].name);
    for (size_t i = 0; i < at && i < GW_CONFIG_VARIABLE_MAX; i++)
        out[i] = out[i] == '.' ? '_' : (char)toupper((unsigned char)out[i]);
    return out;
}

bool gw_config_find(const char *name, gw_config_id *ret_id)
{
    for (gw_config_id id = 0; id < GW_CONFIG_COUNT; id++) {
        if (strcmp(gw_config_keys[id].name, name) != 0)
            continue;
        *ret_id = id;
        return true;
    }
    return false;
}

const char *gw_config_suggest(const char *name)
{
    static const char *const groups[] = {"keep", "record", "watch"};
    gw_nearest nearest = {.word = name};
    for (size_t i = 0; i < GW_CONFIG_COUNT; i++)
        gw_nearest_add(&nearest, gw_config_keys[i].name);
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++)
        gw_nearest_add(&nearest, groups[i]);
    return nearest.found;
}

/* True if `word` is one of the words. No words stand for all. */
static bool has_word(const char *words, const char *word)
{
    size_t bytes = strlen(word);
    if (words[0] == '\0')
        return true;
    for (const char *at = strstr(words, word); at != NULL; at = strstr(at + 1, word))
        if ((at == words || at[-1] == ' ') && (at[bytes] == ' ' || at[bytes] == '\0'))
            return true;
    return false;
}

bool gw_config_find_option(const char *command, const char *option, gw_config_id *ret_id)
{
    for (gw_config_id id = 0; id < GW_CONFIG_COUNT; id++) {
        const gw_config_key *key = &gw_config_keys[id];
        if (key->option == NULL || strcmp(key->option, option) != 0 || !has_word(key->commands, command))
            continue;
        *ret_id = id;
        return true;
    }
    return false;
}

void gw_config_add_place(const gw_config *config, gw_config_id id, gw_text *text)
{
    const gw_config_value *value = &config->value[id];
    char variable[GW_CONFIG_VARIABLE_MAX];
    switch (value->source) {
    case GW_CONFIG_BUILT_IN:
        gw_text_add_str(text, "built in");
        return;
    case GW_CONFIG_SITE:
    case GW_CONFIG_USER:
        gw_text_add_str(text, gw_text_str(&config->path[value->source]));
        if (value->line != 0)
            gw_text_addf(text, ":%u", value->line);
        return;
    case GW_CONFIG_ENVIRONMENT:
        gw_text_add_str(text, gw_config_variable(id, variable));
        return;
    case GW_CONFIG_OPTION:
        gw_text_add_str(text, gw_config_keys[id].option);
    }
}
