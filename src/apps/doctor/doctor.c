/* `gpuwhy doctor`: prints one page about problems of this machine that would make a program fail. */
#include "gw_doctor.h"
#include "gw_json.h"
#include "gw_say.h"
#include "gw_text.h"
#include "gwi_cmd.h"
#include "gwi_manual.h"
#include "gwi_options.h"
#include "gwi_output.h"
#include "gwi_terminal.h"

#include "gw_place.h"
#include "gw_render.h"

#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Write the result of `gpuwhy doctor` as JUnit XML, which systems for continuous integration read: one test case for
 * each check. The texts come from files and the environment, so they may contain anything. */

/* Append one character of valid UTF-8, of `bytes` bytes. XML 1.0 has no control characters except the tab and line
 * ends, and neither U+FFFE nor U+FFFF, not even escaped: they become '?'. */
static void add_character(gw_text *text, const char *c, size_t bytes)
{
    static const struct {
        char c;
        const char *escaped;
    } escapes[] = {{'&', "&amp;"}, {'<', "&lt;"},   {'>', "&gt;"},  {'"', "&quot;"},
                   {'\t', "&#9;"}, {'\n', "&#10;"}, {'\r', "&#13;"}};
    for (size_t i = 0; i < sizeof escapes / sizeof escapes[0]; i++) {
        if (*c == escapes[i].c) {
            gw_text_add_str(text, escapes[i].escaped);
            return;
        }
    }
    bool is_none = bytes == 3 && (memcmp(c, "\xef\xbf\xbe", 3) == 0 || memcmp(c, "\xef\xbf\xbf", 3) == 0);
    if (((unsigned char)*c < ' ' && bytes == 1) || is_none)
        gw_text_add(text, "?", 1);
    else
        gw_text_add(text, c, bytes);
}

static size_t character_bytes(unsigned char first)
{
    if (first < 0xc0)
        return 1;
    if (first < 0xe0)
        return 2;
    return first < 0xf0 ? 3 : 4;
}

/* Append a string as text of an element, or as the value of an attribute. */
static void add_escaped(gw_text *text, const char *string)
{
    gw_text valid = {0};
    gw_add_utf8(&valid, string);
    const char *all = gw_text_str(&valid);
    for (size_t i = 0; i < valid.bytes; i += character_bytes((unsigned char)all[i]))
        add_character(text, all + i, character_bytes((unsigned char)all[i]));
    gw_text_free(&valid);
}

static void add_attribute(gw_text *text, const char *name, const char *value)
{
    gw_text_addf(text, " %s=\"", name);
    add_escaped(text, value);
    gw_text_add_str(text, "\"");
}

/* Append the text of a check, and what to do. */
static void add_output(gw_text *text, const gw_check *check, const char *before)
{
    add_escaped(text, before);
    add_escaped(text, check->text);
    if (check->todo != NULL) {
        gw_text_add_str(text, "\nTo do: ");
        add_escaped(text, check->todo);
    }
}

/* Append the name of a check: its id, with a number if earlier checks of its section have the same id. Texts are no
 * names, because they change with every version of a driver, and a name should stay the same. */
static void add_name(gw_text *text, const gw_checkup *checkup, size_t index)
{
    const gw_check *check = &checkup->item[index];
    gw_text name = {0}, section = {0};
    size_t number = 1;
    for (size_t i = 0; i < index; i++)
        number += strcmp(checkup->item[i].id, check->id) == 0 && strcmp(checkup->item[i].section, check->section) == 0;
    gw_text_addf(&section, "gpuwhy.doctor.%s", check->section);
    gw_text_addf(&name, number > 1 ? "%s %zu" : "%s", check->id, number);
    add_attribute(text, "classname", gw_text_str(&section));
    add_attribute(text, "name", gw_text_str(&name));
    gw_text_free(&section);
    gw_text_free(&name);
}

static void add_case(gw_text *text, const gw_checkup *checkup, size_t index)
{
    const gw_check *check = &checkup->item[index];
    gw_text_add_str(text, "    <testcase");
    add_name(text, checkup, index);
    gw_text_add_str(text, ">\n");
    switch (check->state) {
    case GW_CHECK_FAIL:
        gw_text_add_str(text, "      <failure");
        add_attribute(text, "message", check->text);
        add_attribute(text, "type", check->id);
        gw_text_add_str(text, ">");
        add_output(text, check, "");
        gw_text_add_str(text, "</failure>\n");
        break;
    case GW_CHECK_UNKNOWN: /* it was not checked */
        gw_text_add_str(text, "      <skipped");
        add_attribute(text, "message", check->text);
        gw_text_add_str(text, "/>\n");
        break;
    default:
        gw_text_add_str(text, "      <system-out>");
        add_output(text, check, check->state == GW_CHECK_WARN ? "warning: " : "");
        gw_text_add_str(text, "</system-out>\n");
    }
    gw_text_add_str(text, "    </testcase>\n");
}

/* Write the checks to the output as JUnit XML: a check that fails is a failure, one that is unknown is skipped. Returns
 * like gwi_output_write(). */
GW_MUST_CHECK
static gw_status doctor_write_junit(const gw_checkup *checkup, const gwi_output *output, gw_error *err)
{
    gw_text text = {0};
    gw_text_addf(&text,
                 "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n"
                 "  <testsuite name=\"gpuwhy doctor\" tests=\"%zu\" failures=\"%zu\" errors=\"0\" skipped=\"%zu\">\n",
                 checkup->count, checkup->counts[GW_CHECK_FAIL], checkup->counts[GW_CHECK_UNKNOWN]);
    for (size_t i = 0; i < checkup->count; i++)
        add_case(&text, checkup, i);
    gw_text_add_str(&text, "  </testsuite>\n</testsuites>\n");
    gw_status st = gwi_output_write(output, &text, 0, err);
    gw_text_free(&text);
    return st;
}

/* Write the result of `gpuwhy doctor` as JSON, with json-c. Its values come from files and the environment, and may
 * contain invalid UTF-8. */

static json_object *of_check(const gw_check *check)
{
    json_object *object = json_object_new_object();
    json_object_object_add(object, "section", json_object_new_string(check->section));
    json_object_object_add(object, "id", json_object_new_string(check->id));
    json_object_object_add(object, "state", json_object_new_string(gw_check_state_text(check->state)));
    json_object_object_add(object, "text", gw_json_string(check->text));
    json_object_object_add(object, "todo", gw_json_string(check->todo));
    return object;
}

/* Write the checks and the facts to standard output as JSON (docs/json-schema.md). */
GW_MUST_CHECK
static gw_status doctor_write_json(const gw_checkup *checkup, const gw_facts *facts, gw_error *err)
{
    json_object *whole = json_object_new_object(), *checks = json_object_new_array(),
                *counts = json_object_new_object(), *values = json_object_new_object();
    for (size_t i = 0; i < checkup->count; i++)
        json_object_array_add(checks, of_check(&checkup->item[i]));
    for (int i = 0; i < GW_CHECK_STATE_COUNT; i++)
        json_object_object_add(counts, gw_check_state_text((gw_check_state)i),
                               json_object_new_int64((int64_t)checkup->counts[i]));
    for (size_t i = 0; i < facts->count; i++)
        json_object_object_add(values, facts->item[i].key, gw_json_string(facts->item[i].value));
    json_object_object_add(whole, "schema", json_object_new_int(1));
    json_object_object_add(whole, "kind", json_object_new_string("doctor"));
    json_object_object_add(whole, "counts", counts);
    json_object_object_add(whole, "checks", checks);
    json_object_object_add(whole, "facts", values);
    return gw_json_print(whole, err);
}

#define GWI_DOCTOR_OPTIONS(X)                                                                                          \
    X(FLAG, bool, json, "--json", NULL, NULL, "print JSON (docs/json-schema.md)")                                      \
    X(STRING, const char *, junit, "--junit", "FILE", NULL,                                                            \
      "also write the checks as JUnit XML, for a system for continuous integration")                                   \
    X(STRING, const char *, save, "--save", "FILE", NULL, "save the current state, for --against")                     \
    X(STRING, const char *, against, "--against", "FILE", NULL, "print what changed since the state in FILE")          \
    X(STRING, const char *, root, "--root", "DIR", "", "check the directory tree DIR instead of this machine")

GWI_OPTIONS(doctor_options, GWI_DOCTOR_OPTIONS);
enum { EXIT_FAILS = 1 };

const gwi_manual gwi_manual_doctor = {
    .usage = "gpuwhy doctor [options] [-- python [arguments]]\n",
    .about = "Checks this machine for problems before a program runs into them. With an interpreter, also checks "
             "what its packages were built for, without importing them.",
    .words = "-- PROGRAM",
    .group = {{.options = options_table, .count = OPTION_COUNT}},
    .exits = {{GW_EXIT_OK, "no check failed; warnings and unknown results are not failures"},
              {EXIT_FAILS, "a check failed"},
              {GW_EXIT_USAGE, "usage error, or a file cannot be read or written"}},
    .examples = {{"gpuwhy doctor -- python", "check the machine and the packages of an interpreter"},
                 {"gpuwhy doctor --junit doctor.xml", "for the report of a system for continuous integration"},
                 {"gpuwhy doctor --save good.state", "save the state of a machine that works, for --against"}},
    .see_also = "run explain"};

static gw_role role_of(gw_check_state state)
{
    static const gw_role roles[] = {[GW_CHECK_PASS] = GW_ROLE_GOOD,
                                    [GW_CHECK_WARN] = GW_ROLE_WARNING,
                                    [GW_CHECK_FAIL] = GW_ROLE_FAILED,
                                    [GW_CHECK_UNKNOWN] = GW_ROLE_DIM};
    _Static_assert(sizeof roles / sizeof roles[0] == GW_CHECK_STATE_COUNT, "a state has no colour");
    return roles[state];
}

/* Append text in the colour of `role`, padded to `columns`. */
static void add_in(gw_text *page, gw_role role, int columns, const char *text)
{
    size_t from = page->bytes;
    gw_text_addf(page, "%-*s", columns, text);
    if (gwi_has_colour(STDOUT_FILENO))
        gw_paint_begin(page, from, text, strlen(text), role);
}

static void print_page(const gw_checkup *checkup)
{
    enum { INDENT = 10, WIDTH = 120, STATE_COLUMNS = 8 };
    const char *section = "";
    gw_text page = {0};
    for (size_t i = 0; i < checkup->count; i++) {
        const gw_check *check = &checkup->item[i];
        if (strcmp(section, check->section) != 0)
            gw_text_add_str(&page, i > 0 ? "\n" : "");
        if (strcmp(section, check->section) != 0) {
            add_in(&page, GW_ROLE_STRONG, 0, check->section);
            gw_text_add(&page, "\n", 1);
        }
        section = check->section;
        gw_text_add_str(&page, "  ");
        add_in(&page, role_of(check->state), STATE_COLUMNS, gw_check_state_text(check->state));
        gw_text line = {0};
        gw_add_printable(&line, check->text);
        gw_add_wrapped(&page, gw_text_str(&line), INDENT, INDENT, WIDTH);
        gw_text_clear(&line);
        if (check->todo != NULL) {
            gw_text_addf(&page, "%*s-> ", INDENT, "");
            gw_add_printable(&line, check->todo); /* it may contain paths and names */
            gw_add_wrapped(&page, gw_text_str(&line), INDENT + 3, INDENT + 3, WIDTH);
        }
        gw_text_free(&line);
    }
    gw_put(gw_text_str(&page));
    gw_text_free(&page);
    printf("\n%zu passed, %zu warning%s, %zu failed, %zu unknown\n", checkup->counts[GW_CHECK_PASS],
           checkup->counts[GW_CHECK_WARN], checkup->counts[GW_CHECK_WARN] == 1 ? "" : "s",
           checkup->counts[GW_CHECK_FAIL], checkup->counts[GW_CHECK_UNKNOWN]);
}

static void ask_python(gw_facts *facts, const char *root, char *const *words)
{
    gw_path script;
    gw_error err;
    if (gw_library_find("python/gpuwhy_doctor.py", script, &err) != GW_OK)
        gw_facts_set(facts, "python.why", "%s", err.text);
    else
        gw_doctor_ask_python(facts, root, words, script);
}

static gw_status save(const gw_facts *facts, const gwi_output *output, gw_error *err)
{
    gw_text text = {0};
    gw_facts_add_text(facts, &text);
    gw_status st = gwi_output_write(output, &text, 0, err);
    gw_text_free(&text);
    return st;
}

static gw_status examine(const doctor_options *options, char *const *words, gw_facts *facts, gw_checkup *checkup,
                         gw_error *err)
{
    gw_facts before = {0};
    gw_status st = GW_OK;
    if (options->against != NULL)
        st = gw_facts_load(&before, options->against, err);
    if (st != GW_OK)
        goto out;
    gw_doctor_look(facts, options->root);
    if (options->root[0] == '\0')
        gw_doctor_ask_nvml(facts);
    if (words[0] != NULL)
        ask_python(facts, options->root, words);
    gw_doctor_check(facts, checkup);
    if (options->against != NULL)
        gw_doctor_compare(facts, &before, checkup);
    if (facts->failed || checkup->failed)
        st = gw_fail(err, GW_NOMEM, "out of memory");
out:
    gw_facts_free(&before);
    return st;
}

int gwi_cmd_doctor(int argc, char **argv)
{
    doctor_options options = {0};
    gw_error err = {0};
    int index = 0;
    if (gwi_options_parse(options_table, OPTION_COUNT, &options, argc, argv, &index, &err) != GW_OK)
        return gwi_refuse("doctor", &err);
    gwi_pager_begin();
    if (options.help)
        return gwi_manual_print(&gwi_manual_doctor);
    if (index < argc && strcmp(argv[index - 1], "--") != 0) {
        gw_say("doctor: %s: write the interpreter after `--`", argv[index]);
        return GW_EXIT_USAGE;
    }
    if (access(options.root[0] == '\0' ? "/" : options.root, X_OK) != 0) {
        gw_say("doctor: --root %s: no such folder", options.root);
        return GW_EXIT_USAGE;
    }
    gw_facts facts = {0};
    gw_checkup checkup = {0};
    enum { SAVE, JUNIT, OUTPUT_COUNT, MODE = 0666 };
    gwi_output output[] = {[SAVE] = {.option = "--save", .path = options.save, .mode = MODE},
                           [JUNIT] = {.option = "--junit", .path = options.junit, .mode = MODE}};
    char *input = (char *)(uintptr_t)options.against; /* gwi_outputs_open() only reads it */
    gw_status st = gwi_outputs_open(output, OUTPUT_COUNT, &input, input != NULL, &err);
    if (st == GW_OK)
        st = examine(&options, argv + index, &facts, &checkup, &err);
    if (st == GW_OK && options.save != NULL)
        st = save(&facts, &output[SAVE], &err);
    if (st == GW_OK && options.junit != NULL)
        st = doctor_write_junit(&checkup, &output[JUNIT], &err);
    if (st == GW_OK && options.json)
        st = doctor_write_json(&checkup, &facts, &err);
    else if (st == GW_OK)
        print_page(&checkup);
    int status = GW_EXIT_OK;
    if (st != GW_OK)
        status = gwi_refuse("doctor", &err);
    else if (checkup.counts[GW_CHECK_FAIL] > 0)
        status = EXIT_FAILS;
    gw_checkup_free(&checkup);
    gw_facts_free(&facts);
    return status;
}
