/* `gpuwhy doctor`: prints one page about problems of this machine that would make a program fail. */
#include "gw_doctor.h"
#include "gw_json.h"
#include "gw_say.h"
#include "gw_text.h"
#include "gwi_cmd.h"
#include "gwi_junit.h"
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

/* Write the checks to the output as JUnit XML: a check that fails is a failure, one that is unknown is skipped, because
 * it was not checked. The name of a case is the id of its check, with a number if earlier checks of its section have
 * the same id. Texts are no names, because they change with every version of a driver. Returns like gwi_output_write().
 */
GW_MUST_CHECK
static gw_status doctor_write_junit(const gw_checkup *checkup, const gwi_output *output, gw_error *err)
{
    static const gwi_junit_state states[GW_CHECK_STATE_COUNT] = {
        [GW_CHECK_FAIL] = GWI_JUNIT_FAILED, [GW_CHECK_UNKNOWN] = GWI_JUNIT_SKIPPED};
    gwi_junit suite = {0};
    for (size_t index = 0; index < checkup->count; index++) {
        const gw_check *check = &checkup->item[index];
        gw_text name = {0}, section = {0}, text = {0};
        size_t number = 1;
        for (const gw_check *i = checkup->item; i < check; i++)
            number += strcmp(i->id, check->id) == 0 && strcmp(i->section, check->section) == 0;
        gw_text_addf(&section, "gpuwhy.doctor.%s", check->section);
        gw_text_addf(&name, number > 1 ? "%s %zu" : "%s", check->id, number);
        gw_text_addf(&text, "%s%s%s%s", check->state == GW_CHECK_WARN ? "warning: " : "", check->text,
                     check->todo != NULL ? "\nTo do: " : "", check->todo != NULL ? check->todo : "");
        gwi_junit_add(&suite, &(gwi_junit_case){.classname = gw_text_str(&section),
                                                .name = gw_text_str(&name),
                                                .state = states[check->state],
                                                .type = check->id,
                                                .message = check->text,
                                                .text = gw_text_str(&text)});
        suite.cases.failed = suite.cases.failed || name.failed || section.failed || text.failed;
        gw_text_free(&section);
        gw_text_free(&name);
        gw_text_free(&text);
    }
    return gwi_junit_write(&suite, "gpuwhy doctor", output, err);
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
