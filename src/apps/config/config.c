/* `gpuwhy config`: shows every key of the configuration, its value and where the value comes from. */
#include "gw_json.h"
#include "gwi_cmd.h"
#include "gwi_config_cmd.h"
#include "gwi_manual.h"
#include "gwi_options.h"
#include "gwi_terminal.h"

#include "gw_say.h"
#include "gw_text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Writes the configuration as JSON. */

static json_object *names_of(const char *text)
{
    json_object *array = json_object_new_array();
    while (*text != '\0') {
        size_t bytes = strcspn(text, ",");
        json_object_array_add(array, json_object_new_string_len(text, (int)bytes));
        text += bytes + (text[bytes] == ',');
    }
    return array;
}

static json_object *value_of(const gw_config *config, gw_config_id id)
{
    gw_text text = {0};
    json_object *object = NULL;
    switch (gw_config_keys[id].type) {
    case GW_CONFIG_TYPE_BOOL:
        return json_object_new_boolean(config->value[id].number != 0);
    case GW_CONFIG_TYPE_COUNT:
    case GW_CONFIG_TYPE_SIZE:
        return json_object_new_uint64(config->value[id].number);
    case GW_CONFIG_TYPE_NAMES:
        return names_of(config->value[id].text);
    case GW_CONFIG_TYPE_HANG:
    case GW_CONFIG_TYPE_THRESHOLD:
    case GW_CONFIG_TYPE_COLOR:
    case GW_CONFIG_TYPE_FOLDER:
        gwi_config_plain(config, id, &text);
        object = gw_json_text(gw_text_str(&text));
        gw_text_free(&text);
    }
    return object;
}

static const char *source_name(gw_config_source source)
{
    static const char *const names[] = {"built in", "site", "user", "environment", "option"};
    _Static_assert(sizeof names / sizeof names[0] == GW_CONFIG_OPTION + 1, "a name for each source");
    return names[source];
}

static json_object *key_of(const gw_config *config, gw_config_id id)
{
    const gw_config_key *key = &gw_config_keys[id];
    const gw_config_value *value = &config->value[id];
    char variable[GW_CONFIG_VARIABLE_MAX];
    gw_text place = {0};
    json_object *object = json_object_new_object();
    gw_config_add_place(config, id, &place);
    json_object_object_add(object, "key", gw_json_string(key->name));
    json_object_object_add(object, "value", value_of(config, id));
    json_object_object_add(object, "unit", gw_json_string(key->unit));
    json_object_object_add(object, "from", gw_json_string(source_name(value->source)));
    json_object_object_add(object, "place", gw_json_string(gw_text_str(&place)));
    json_object_object_add(object, "standard", gw_json_string(key->standard));
    json_object_object_add(object, "variable", gw_json_string(gw_config_variable(id, variable)));
    json_object_object_add(object, "option", gw_json_string(key->option));
    json_object_object_add(object, "commands", gw_json_text(key->commands));
    json_object_object_add(object, "help", gw_json_string(key->help));
    gw_text_free(&place);
    return object;
}

static json_object *errors_of(const gw_config *config)
{
    json_object *array = json_object_new_array();
    const char *line = gw_text_str(&config->errors);
    while (*line != '\0') {
        size_t bytes = strcspn(line, "\n");
        gw_text one = {0};
        gw_text_addf(&one, "%.*s", (int)bytes, line);
        json_object_array_add(array, gw_json_string(gw_text_str(&one)));
        gw_text_free(&one);
        line += bytes + (line[bytes] == '\n');
    }
    return array;
}

gw_status gwi_config_json(const gw_config *config, gw_text *text, gw_error *err)
{
    json_object *root = json_object_new_object(), *keys = json_object_new_array();
    json_object_object_add(root, "schema", json_object_new_int(1));
    json_object_object_add(root, "kind", gw_json_string("config"));
    for (gw_config_id id = 0; id < GW_CONFIG_COUNT; id++)
        json_object_array_add(keys, key_of(config, id));
    json_object_object_add(root, "keys", keys);
    json_object_object_add(root, "errors", errors_of(config));
    return gw_json_write(root, JSON_C_TO_STRING_PRETTY, text, err);
}

#define GWI_CONFIG_OPTIONS(X)                                                                                          \
    X(FLAG, bool, json, "--json", NULL, NULL, "print JSON (docs/json-schema.md)")                                      \
    X(FLAG, bool, check, "--check", NULL, NULL,                                                                        \
      "report the errors of the configuration, or of a file; the exit status is 1 if there are any")

GWI_OPTIONS(config_options, GWI_CONFIG_OPTIONS,
            const char *text[GW_CONFIG_COUNT]; /* the option of a key that has a value; NULL: not given */
            bool flag[GW_CONFIG_COUNT];        /* the option of a key without a value */
);
enum { TABLE_MAX = OPTION_COUNT + GW_CONFIG_COUNT };

/* ---- options ---- */

/* Write the options of this command to `table`: its own, and those of other commands that set a key. Options that all
 * commands have are not among them. Returns their number. */
static size_t make_table(gwi_option table[TABLE_MAX])
{
    size_t count = OPTION_COUNT;
    memcpy(table, options_table, sizeof options_table);
    for (gw_config_id id = 0; id < GW_CONFIG_COUNT; id++) {
        const gw_config_key *key = &gw_config_keys[id];
        bool is_flag = key->type == GW_CONFIG_TYPE_BOOL;
        if (key->option == NULL || key->commands[0] == '\0')
            continue;
        table[count++] = (gwi_option){
            .type = is_flag ? GWI_OPTION_FLAG : GWI_OPTION_STRING,
            .offset = is_flag ? offsetof(config_options, flag) + id * sizeof(bool)
                              : offsetof(config_options, text) + id * sizeof(const char *),
            .name = key->option,
            .argument = is_flag ? NULL : "VALUE",
            .help = key->help,
        };
    }
    return count;
}

/* Store the options of other commands in the configuration. */
static gw_status take_options(const config_options *options, gw_config *config, gw_error *err)
{
    gw_status st = GW_OK;
    for (gw_config_id id = 0; st == GW_OK && id < GW_CONFIG_COUNT; id++) {
        const char *option = gw_config_keys[id].option, *text = options->text[id];
        if (options->flag[id])
            text = gw_begins(option, "--no-") ? "false" : "true";
        if (text == NULL)
            continue;
        st = gw_config_set(config, id, text, GW_CONFIG_OPTION, 0, err);
        if (st != GW_OK)
            gw_wrap(err, "%s %s", option, text);
    }
    return st;
}

static void add_key(gw_text *text, gw_config_id id)
{
    enum { INDENT = 30, COLUMNS = 80 };
    const gw_config_key *key = &gw_config_keys[id];
    gw_text body = {0};
    char variable[GW_CONFIG_VARIABLE_MAX];
    gw_text_addf(&body, "%s: %s", gw_config_variable(id, variable), key->help);
    if (key->standard[0] != '\0')
        gw_text_addf(&body, " [%s]", key->standard);
    gw_text_addf(text, "  %-26s  ", key->name);
    gw_add_wrapped(text, gw_text_str(&body), INDENT, INDENT, COLUMNS);
    gw_text_free(&body);
}

static void add_keys(gw_text *text)
{
    for (gw_config_id id = 0; id < GW_CONFIG_COUNT; id++)
        add_key(text, id);
}

const gwi_manual gwi_manual_config = {
    .usage = "gpuwhy config [--json] [key]\n"
             "gpuwhy config --check [FILE]\n",
    .about = "Prints every key of the configuration, its value, its unit and where the value comes from. With a key, "
             "prints its value alone. An option of another command shows what would hold with this option.\n\n"
             "docs/config.md describes the files.",
    .words = "KEY|FILE",
    .group = {{.options = options_table, .count = OPTION_COUNT}},
    .add_more = add_keys,
    .more_title = "keys and environment variables",
    .exits = {{GW_EXIT_OK, "the configuration was printed; with --check, it has no errors"},
              {GW_EXIT_UNDETERMINED, "with --check: there are errors"},
              {GW_EXIT_USAGE, "usage error, unknown key, or with --check, the file is missing"}},
    .environment = {{"GPUWHY_KEY", "the value of a key, such as GPUWHY_KEEP_DAYS for keep.days"},
                    {"XDG_CONFIG_HOME", "the user's file is its gpuwhy/config; default: ~/.config"}},
    .files = {{"$XDG_CONFIG_HOME/gpuwhy/config", "the user's file, in JSON"},
              {"/etc/gpuwhy/config", "the site's file"}},
    .examples = {{"gpuwhy config --check config.json", "find the errors of a file before it is installed"},
                 {"gpuwhy config folder", "print where recordings lie"}}};

/* ---- output ---- */

typedef struct row {
    gw_text cell[4]; /* key, value, unit, place */
} row;
enum { CELL_COUNT = 4, GAP = 2 };

static void fill(row *r, const gw_config *config, gw_config_id id)
{
    const gw_config_key *key = &gw_config_keys[id];
    char bytes[GW_BYTES_TEXT_MAX];
    gw_text_add_str(&r->cell[0], key->name);
    gwi_config_plain(config, id, &r->cell[1]);
    if (r->cell[1].bytes == 0)
        gw_text_add_str(&r->cell[1], "-");
    gw_text_add_str(&r->cell[2], key->unit == NULL ? "" : key->unit);
    if (key->type == GW_CONFIG_TYPE_SIZE && config->value[id].number >= 1024)
        gw_text_addf(&r->cell[2], " (%s)", gw_bytes_text(bytes, config->value[id].number));
    gw_config_add_place(config, id, &r->cell[3]);
}

static void print_rows(row *rows, size_t count)
{
    gw_text text = {0};
    size_t width[CELL_COUNT] = {0};
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < CELL_COUNT; k++)
            width[k] = rows[i].cell[k].bytes > width[k] ? rows[i].cell[k].bytes : width[k];
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k + 1 < CELL_COUNT; k++)
            gw_text_addf(&text, "%-*s", (int)width[k] + GAP, gw_text_str(&rows[i].cell[k]));
        gw_text_addf(&text, "%s\n", gw_text_str(&rows[i].cell[CELL_COUNT - 1]));
    }
    gw_print("%s", gw_text_str(&text));
    gw_text_free(&text);
}

static int show(const gw_config *config)
{
    static const char *const heads[CELL_COUNT] = {"KEY", "VALUE", "UNIT", "FROM"};
    row rows[GW_CONFIG_COUNT + 1] = {0};
    for (size_t k = 0; k < CELL_COUNT; k++)
        gw_text_add_str(&rows[0].cell[k], heads[k]);
    for (gw_config_id id = 0; id < GW_CONFIG_COUNT; id++)
        fill(&rows[id + 1], config, id);
    gwi_config_say_errors();
    print_rows(rows, GW_CONFIG_COUNT + 1);
    for (size_t i = 0; i <= GW_CONFIG_COUNT; i++)
        for (size_t k = 0; k < CELL_COUNT; k++)
            gw_text_free(&rows[i].cell[k]);
    return GW_EXIT_OK;
}

static int show_json(const gw_config *config)
{
    gw_text text = {0};
    gw_error err;
    gw_status st = gwi_config_json(config, &text, &err);
    if (st == GW_OK)
        gw_put(gw_text_str(&text));
    else
        gw_say("config: %s", err.text);
    gw_text_free(&text);
    return st == GW_OK ? GW_EXIT_OK : GW_EXIT_USAGE;
}

static int show_key(const gw_config *config, const char *name)
{
    gw_config_id id;
    gw_text text = {0};
    if (!gw_config_find(name, &id)) {
        const char *known = gw_config_suggest(name);
        gw_say("config: unknown key %s%s%s%s; `gpuwhy config` lists them", name, known == NULL ? "" : "; did you mean ",
               known == NULL ? "" : known, known == NULL ? "" : "?");
        return GW_EXIT_USAGE;
    }
    gwi_config_say_errors();
    gwi_config_plain(config, id, &text);
    gw_print("%s\n", gw_text_str(&text));
    gw_text_free(&text);
    return GW_EXIT_OK;
}

/* ---- --check ---- */

static int check_file(const char *path)
{
    gw_config *config = gw_config_process();
    if (access(path, F_OK) != 0) {
        gw_say("config: %s: %s", path, strerror(errno));
        return GW_EXIT_USAGE;
    }
    gw_config_free(config);
    (void)gw_config_read(config, path, GW_CONFIG_USER, true);
    gwi_config_say_errors();
    if (config->error_count > 0)
        return GW_EXIT_UNDETERMINED;
    gw_print("%s: no errors\n", path);
    return GW_EXIT_OK;
}

static void print_file(const gw_config *config, gw_config_source source, const char *path)
{
    gw_print("%s: %s\n", path, config->path[source].bytes > 0 ? "no errors" : "there is no such file");
}

static int check(void)
{
    const gw_config *config = gw_config_process();
    gw_path path;
    if (config->error_count > 0) {
        gwi_config_say_errors();
        return GW_EXIT_UNDETERMINED;
    }
    print_file(config, GW_CONFIG_SITE, GWI_CONFIG_SITE_PATH);
    if (gw_config_path(path, NULL) == GW_OK)
        print_file(config, GW_CONFIG_USER, path);
    return GW_EXIT_OK;
}

/* ---- the command ---- */

/* `gpuwhy config KEY VALUE`, as other programs set a key: name the file that does. */
static gw_status fail_set(const char *key, gw_error *err)
{
    gw_path path;
    bool known = gw_config_path(path, NULL) == GW_OK;
    return gw_fail(err, GW_USAGE,
                   "this command only prints; to set %s, edit %s; `gpuwhy help configuration` describes it", key,
                   known ? path : "the configuration file");
}

static gw_status parse(config_options *options, int argc, char **argv, int *ret_words, gw_error *err)
{
    gwi_option table[TABLE_MAX];
    size_t count = make_table(table);
    gw_status st = gwi_options_parse_mixed(table, count, options, argc, argv, ret_words, err);
    if (st == GW_OK && *ret_words > 1 && !options->check && gw_config_find(argv[1], &(gw_config_id){0}))
        st = fail_set(argv[1], err);
    else if (st == GW_OK && *ret_words > 1)
        st = gw_fail(err, GW_USAGE, "unexpected word: %s", argv[2]);
    if (st == GW_OK && options->json && (options->check || *ret_words > 0))
        st = gw_fail(err, GW_USAGE, "--json prints all keys; it does not go with --check or a key");
    return st == GW_OK ? take_options(options, gw_config_process(), err) : st;
}

int gwi_cmd_config(int argc, char **argv)
{
    config_options options = {0};
    gw_error err = {0};
    int words = 0;
    if (parse(&options, argc, argv, &words, &err) != GW_OK)
        return gwi_refuse("config", &err);
    gwi_pager_begin();
    if (options.help)
        return gwi_manual_print(&gwi_manual_config);
    if (options.check)
        return words > 0 ? check_file(argv[1]) : check();
    if (options.json)
        return show_json(gw_config_process());
    return words > 0 ? show_key(gw_config_process(), argv[1]) : show(gw_config_process());
}
