/* Parse a command line with a table of options, and print the table as help. */
#include "gwi_options.h"

#include "gw_config.h"
#include "gw_text.h"
#include "gwi_terminal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT_MAX = 1000000 };

/* The options of all commands. */
#define OPTIONS_STRUCT gwi_common_settings
static const gwi_option common[] = {GWI_COMMON_OPTIONS(GWI_OPTION_ROW)};
enum { COMMON_COUNT = sizeof common / sizeof common[0] };

static gw_status set_count(const gwi_option *option, uint32_t *field, const char *value, gw_error *err)
{
    char *end = NULL;
    unsigned long number = strtoul(value, &end, 10);
    if (value[0] < '0' || value[0] > '9' || *end != '\0' || number > COUNT_MAX)
        return gw_fail(err, GW_USAGE, "%s %s: not a number from 0 to %d", option->name, value, COUNT_MAX);
    *field = (uint32_t)number;
    return GW_OK;
}

static gw_status add_item(const gwi_option *option, gw_option_list *list, const char *value, gw_error *err)
{
    if (list->count == GW_OPTION_LIST_MAX)
        return gw_fail(err, GW_USAGE, "%s: given more than %d times", option->name, GW_OPTION_LIST_MAX);
    list->item[list->count++] = value;
    return GW_OK;
}

static bool parse_number(const char *text, uint64_t *ret_number)
{
    char *end = NULL;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0)
        return false;
    *ret_number = number;
    return true;
}

static gw_status set_value(const gwi_option *option, void *fields, const char *value, gw_error *err)
{
    char *field = (char *)fields + option->offset;
    switch (option->type) {
    case GWI_OPTION_FLAG:
        *(bool *)(void *)field = true;
        return GW_OK;
    case GWI_OPTION_STRING:
    case GWI_OPTION_MAYBE:
        *(const char **)(void *)field = value;
        return GW_OK;
    case GWI_OPTION_NUMBER:
        if (parse_number(value, (uint64_t *)(void *)field))
            return GW_OK;
        return gw_fail(err, GW_USAGE, "%s %s: not a whole number", option->name, value);
    case GWI_OPTION_BYTES:
        if (gw_bytes_parse(value, (uint64_t *)(void *)field))
            return GW_OK;
        return gw_fail(err, GW_USAGE, "%s %s: not a size (use for example 16GiB, 512MiB or 4096)", option->name, value);
    case GWI_OPTION_COUNT:
        return set_count(option, (uint32_t *)(void *)field, value, err);
    case GWI_OPTION_LIST:
        return add_item(option, (gw_option_list *)(void *)field, value, err);
    }
    return gw_fail(err, GW_USAGE, "%s: no such type", option->name);
}

static gw_status set_defaults(const gwi_option *options, size_t count, void *fields, gw_error *err)
{
    for (size_t i = 0; i < count; i++) {
        if (options[i].standard == NULL)
            continue;
        gw_status st = set_value(&options[i], fields, options[i].standard, err);
        if (st != GW_OK)
            return st;
    }
    return GW_OK;
}

/* ---- the configuration ---- */

static bool is_negative(const gwi_option *option)
{
    return gw_begins(option->name, "--no-");
}

/* Set the option to the value that the configuration has for it. A value that the option does not accept was reported
 * when the configuration was read. */
static gw_status set_configured(const gwi_option *options, size_t count, void *fields, const char *command,
                                gw_error *err)
{
    gw_status st = GW_OK;
    for (size_t i = 0; st == GW_OK && i < count; i++) {
        gw_config_id id;
        if (!gw_config_find_option(command, options[i].name, &id))
            continue;
        const gw_config_value *value = &gw_config_process()->value[id];
        if (value->source == GW_CONFIG_BUILT_IN || value->source == GW_CONFIG_OPTION)
            continue;
        if (options[i].type == GWI_OPTION_FLAG)
            *(bool *)(void *)((char *)fields + options[i].offset) = (value->number != 0) != is_negative(&options[i]);
        else
            st = set_value(&options[i], fields, value->text, err);
    }
    return st;
}

/* Store an option of the command line in the configuration, if it sets a key. A value that is not valid is not stored:
 * the command reports it. */
static void configure(const gwi_option *option, const char *command, const char *value)
{
    gw_config_id id;
    if (!gw_config_find_option(command, option->name, &id))
        return;
    if (option->type == GWI_OPTION_FLAG)
        value = is_negative(option) ? "false" : "true";
    if (gw_config_set(gw_config_process(), id, value, GW_CONFIG_OPTION, 0, NULL) != GW_OK)
        return;
}

/* ---- words ---- */

static bool is_own(const gwi_option *options, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(options[i].name, name) == 0)
            return true;
    return false;
}

/* Return the option that `word` names, or NULL. `-h` is `--help`, unless the command has its own `-h`. *ret_value is
 * the value inside `word` (`--name=value` or
 * `-ovalue`), or NULL if there is none. */
static const gwi_option *find(const gwi_option *options, size_t count, const char *word, const char **ret_value)
{
    *ret_value = NULL;
    if (strcmp(word, "-h") == 0 && !is_own(options, count, word))
        word = "--help";
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(options[i].name);
        if (strncmp(word, options[i].name, length) != 0)
            continue;
        if (word[length] == '\0')
            return &options[i];
        bool is_letter = options[i].name[1] != '-';
        if (!is_letter && word[length] != '=')
            continue;
        if (is_letter && options[i].argument == NULL)
            continue;
        *ret_value = word + length + (is_letter ? 0 : 1);
        return &options[i];
    }
    return NULL;
}

/* Return the option whose name is nearest to the name in `word`, or NULL: none is near. */
static const char *find_nearest(const gwi_option *options, size_t count, const char *word)
{
    char name[64];
    gw_nearest nearest = {.word = name};
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    for (size_t i = 0; i < count; i++)
        gw_nearest_add(&nearest, options[i].name);
    for (size_t i = 0; i < COMMON_COUNT; i++)
        gw_nearest_add(&nearest, common[i].name);
    return nearest.found;
}

static gw_status fail_unknown(const gwi_option *options, size_t count, const char *word, gw_error *err)
{
    const char *nearest = find_nearest(options, count, word);
    if (nearest == NULL)
        return gw_fail(err, GW_USAGE, "unknown option %s", word);
    return gw_fail(err, GW_USAGE, "unknown option %s; did you mean %s?", word, nearest);
}

/* Parse the option at argv[*index] and its value. *index is advanced to the next word. */
static gw_status take_from(const gwi_option *options, size_t count, void *fields, int argc, char **argv, int *index,
                           gw_error *err)
{
    const char *word = argv[(*index)++], *value = NULL;
    const gwi_option *option = find(options, count, word, &value);
    if (option == NULL)
        return fail_unknown(options, count, word, err);
    if (option->type == GWI_OPTION_FLAG && value != NULL)
        return gw_fail(err, GW_USAGE, "%s takes no value", option->name);
    if (option->type == GWI_OPTION_MAYBE && value == NULL)
        value = "";
    if (option->type != GWI_OPTION_FLAG && value == NULL) {
        if (*index == argc)
            return gw_fail(err, GW_USAGE, "%s needs a value: %s", option->name, option->argument);
        value = argv[(*index)++];
    }
    gw_status st = set_value(option, fields, value, err);
    if (st == GW_OK)
        configure(option, argv[0], value);
    return st;
}

static bool is_common(const char *word)
{
    const char *ignored;
    return find(common, COMMON_COUNT, word, &ignored) != NULL;
}

static gw_status take_common(int argc, char **argv, int *index, gw_error *err)
{
    gw_status st = take_from(common, COMMON_COUNT, gwi_common(), argc, argv, index, err);
    return st == GW_OK ? gwi_common_check(err) : st;
}

gw_status gwi_options_parse_common(int argc, char **argv, int *ret_index, gw_error *err)
{
    gw_status st = GW_OK;
    *ret_index = 1;
    while (st == GW_OK && *ret_index < argc && is_common(argv[*ret_index]))
        st = take_common(argc, argv, ret_index, err);
    return st;
}

/* Parse the option at argv[*index], which is the command's own or one of all commands. */
static gw_status take(const gwi_option *options, size_t count, void *fields, int argc, char **argv, int *index,
                      gw_error *err)
{
    static char help[] = "--help";
    const char *ignored;
    if (strcmp(argv[*index], "-h") == 0 && find(options, count, help, &ignored) != NULL) {
        argv[*index] = help;
        gwi_common()->is_brief = true;
    }
    if (find(options, count, argv[*index], &ignored) == NULL && is_common(argv[*index]))
        return take_common(argc, argv, index, err);
    return take_from(options, count, fields, argc, argv, index, err);
}

static bool is_option(const char *word)
{
    return word[0] == '-' && word[1] != '\0'; /* "-" alone is a file name: standard input or output */
}

gw_status gwi_options_parse(const gwi_option *options, size_t count, void *fields, int argc, char **argv,
                            int *ret_index, gw_error *err)
{
    gw_status st = set_defaults(options, count, fields, err);
    if (st == GW_OK)
        st = set_configured(options, count, fields, argv[0], err);
    int index = 1;
    while (st == GW_OK && index < argc && is_option(argv[index])) {
        if (strcmp(argv[index], "--") == 0) {
            index++;
            break;
        }
        st = take(options, count, fields, argc, argv, &index, err);
    }
    if (st == GW_OK)
        *ret_index = index;
    return st;
}

gw_status gwi_options_parse_mixed(const gwi_option *options, size_t count, void *fields, int argc, char **argv,
                                  int *ret_words, gw_error *err)
{
    gw_status st = set_defaults(options, count, fields, err);
    if (st == GW_OK)
        st = set_configured(options, count, fields, argv[0], err);
    int words = 0;
    bool options_ended = false;
    for (int index = 1; st == GW_OK && index < argc;) {
        if (options_ended || !is_option(argv[index])) {
            argv[1 + words++] = argv[index++];
        } else if (strcmp(argv[index], "--") == 0) {
            options_ended = true;
            index++;
        } else {
            st = take(options, count, fields, argc, argv, &index, err);
        }
    }
    if (st == GW_OK)
        *ret_words = words;
    return st;
}

enum { HELP_INDENT = 30, HELP_COLUMNS = 80 };

void gwi_options_add_rows(const gwi_option *options, size_t count, gw_text *text)
{
    for (size_t i = 0; i < count; i++) {
        const gwi_option *option = &options[i];
        gw_text left = {0}, help = {0};
        const char *between = option->type == GWI_OPTION_MAYBE ? "[=" : " ";
        gw_text_addf(&left, "%s%s%s%s", option->name, option->argument == NULL ? "" : between,
                     option->argument == NULL ? "" : option->argument, option->type == GWI_OPTION_MAYBE ? "]" : "");
        if (left.bytes > 26)
            gw_text_addf(text, "  %s\n%*s", gw_text_str(&left), HELP_INDENT, "");
        else
            gw_text_addf(text, "  %-26s  ", gw_text_str(&left));
        gw_text_add_str(&help, option->help);
        if (option->standard != NULL && option->standard[0] != '\0')
            gw_text_addf(&help, " [%s]", option->standard);
        gw_add_wrapped(text, gw_text_str(&help), HELP_INDENT, HELP_INDENT, HELP_COLUMNS);
        gw_text_free(&help);
        gw_text_free(&left);
    }
}

size_t gwi_add_folder(const char **words)
{
    if (gwi_common()->folder == NULL)
        return 0;
    words[0] = "--folder";
    words[1] = gwi_common()->folder;
    return GWI_FOLDER_WORDS;
}

const gwi_option *gwi_options_common(size_t *ret_count)
{
    *ret_count = COMMON_COUNT;
    return common;
}
