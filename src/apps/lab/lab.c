/* `gpuwhy lab`: lessons about the ways in which GPU programs fail, and the check that a run ends as expected. */
#include "gw_json.h"
#include "gwi_cmd.h"
#include "gwi_gate.h"
#include "gwi_lesson.h"
#include "gwi_manual.h"
#include "gwi_options.h"
#include "gwi_terminal.h"

#include "gw_place.h"
#include "gw_say.h"
#include "gw_text.h"
#include "gw_verdict.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIST_OPTIONS(X) X(FLAG, bool, json, "--json", NULL, NULL, "print JSON")
#define RUN_OPTIONS(X)                                                                                                 \
    X(FLAG, bool, repaired, "--repaired", NULL, NULL, "run the program without its fault; its verdict must be clean")  \
    X(FLAG, bool, source, "--source", NULL, NULL, "print the source of the program instead of running it")             \
    X(STRING, const char *, gpu, "--gpu", "virtual|real", "virtual",                                                   \
      "the card of the lesson, or the one of this machine")                                                            \
    X(FLAG, bool, json, "--json", NULL, NULL, "print the result as JSON; all other output goes to stderr")
#define CHECK_OPTIONS(X)                                                                                               \
    X(STRING, const char *, expect, "--expect", "CAUSE|clean", NULL, "the verdict that the run must have")             \
    X(STRING, const char *, certainty, "--certainty", "supported|established", "supported",                            \
      "how certain the cause must be at least")                                                                        \
    X(STRING, const char *, gpu, "--gpu", "real|virtual:CARD[,..]", "virtual:h200", "the GPU, as for gpuwhy run")      \
    X(STRING, const char *, leaks, "--leaks", "strict", NULL,                                                          \
      "with --expect clean: device memory that is left unfreed is a leak, and a leak is not clean")                    \
    X(LIST, gw_option_list, run_option, "--run-option", "OPTION", NULL,                                                \
      "an option of gpuwhy run, such as --run-option=--memory=8GiB; may be repeated")                                  \
    X(FLAG, bool, json, "--json", NULL, NULL, "print the result as JSON; all other output goes to stderr")

/* Each part of the command has some of these. */
typedef struct lab_options {
    bool json, help, repaired, source;
    const char *gpu, *expect, *certainty, *leaks;
    gw_option_list run_option;
} lab_options, OPTIONS_STRUCT;
GWI_OPTION_TABLE(list_table, LIST_COUNT, LIST_OPTIONS);
GWI_OPTION_TABLE(run_table, RUN_COUNT, RUN_OPTIONS);
GWI_OPTION_TABLE(check_table, CHECK_COUNT, CHECK_OPTIONS);
enum { WIDTH = 80 };

const gwi_manual gwi_manual_lab = {
    .usage = "gpuwhy lab list [--json]\n"
             "gpuwhy lab run ID [options]\n"
             "gpuwhy lab check [options] -- PROGRAM [arguments]\n"
             "gpuwhy lab check PROGRAM [arguments] --expect CAUSE|clean [options]\n",
    .about =
        "Lessons: small programs that fail on a GPU, each with its repaired twin. `list` lists them. `run` runs one "
        "on a virtual card and explains it. `check` runs any program, and compares its verdict with the expected "
        "one.",
    .words = "list|run|check",
    .group = {{"list", NULL, list_table, LIST_COUNT},
              {"run", "LESSON", run_table, RUN_COUNT},
              {"check", "PROGRAM", check_table, CHECK_COUNT}},
    .exits = {{GW_EXIT_OK, "the verdict is the expected one"},
              {GW_EXIT_UNDETERMINED, "the verdict is another one"},
              {GW_EXIT_USAGE, "usage error"},
              {GW_EXIT_CANNOT_RUN, "the program cannot be executed"},
              {GW_EXIT_NOT_FOUND, "there is no such program"}},
    .examples = {{"gpuwhy lab run S05", "run a lesson on a virtual card, and explain it"},
                 {"gpuwhy lab check --expect gpu-oom-leak -- ./exercise", "does the program leak, as it should?"}},
    .see_also = "run explain causes"};

static int fail(const gw_error *err, int status)
{
    gw_say("lab: %s", err->text);
    return status;
}

/* ---- words ---- */

typedef struct words {
    char **item; /* owned, like the strings; ends with NULL */
    size_t count;
    bool failed; /* out of memory */
} words;

static void words_add(words *to, const char *text, size_t bytes)
{
    char **item = realloc(to->item, (to->count + 2) * sizeof *item);
    if (item != NULL) {
        to->item = item;
        item[to->count] = strndup(text, bytes);
        item[to->count + 1] = NULL;
    }
    if (item == NULL || item[to->count] == NULL)
        to->failed = true;
    else
        to->count++;
}

/* Add the words of a text, which are separated by blanks. */
static void words_split(words *to, const char *text)
{
    for (const char *at = text; at != NULL && *at != '\0';) {
        size_t bytes = strcspn(at, " ");
        if (bytes > 0)
            words_add(to, at, bytes);
        at += bytes + (at[bytes] != '\0');
    }
}

static void words_free(words *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->item[i]);
    free(list->item);
}

/* ---- list ---- */

static json_object *lesson_json(const gwi_lesson *lesson)
{
    json_object *object = json_object_new_object();
    json_object_object_add(object, "id", gw_json_string(lesson->id));
    json_object_object_add(object, "title", gw_json_string(lesson->title));
    json_object_object_add(object, "cause", gw_json_string(lesson->cause));
    json_object_object_add(object, "needs", gw_json_string(gwi_lab_needs_text(lesson->needs)));
    json_object_object_add(object, "by_hand", gw_json_string(lesson->by_hand));
    json_object_object_add(object, "program", gw_json_string(lesson->program));
    json_object_object_add(object, "arguments", gw_json_string(lesson->faulty));
    json_object_object_add(object, "card", gw_json_string(lesson->card));
    json_object_object_add(object, "repaired_arguments", gw_json_string(lesson->repaired));
    json_object_object_add(object, "repaired_card",
                           gw_json_string(lesson->repaired_card == NULL ? lesson->card : lesson->repaired_card));
    json_object_object_add(object, "run_options", gw_json_string(lesson->options));
    json_object_object_add(object, "real_gpu", json_object_new_boolean(!lesson->virtual_only));
    return object;
}

static gw_status list_as_json(const gwi_lesson *lesson, size_t count, gw_error *err)
{
    json_object *root = json_object_new_object(), *array = json_object_new_array();
    for (size_t i = 0; i < count; i++)
        json_object_array_add(array, lesson_json(&lesson[i]));
    json_object_object_add(root, "schema", json_object_new_int(1));
    json_object_object_add(root, "kind", json_object_new_string("lessons"));
    json_object_object_add(root, "lessons", array);
    return gw_json_print(root, err);
}

static void print_row(const gwi_lesson *lesson)
{
    gw_print("%-4s  %-27s  %-21s  %s\n", lesson->id, lesson->cause == NULL ? "clean" : lesson->cause,
             gwi_lab_needs_text(lesson->needs), lesson->title);
}

/* Print a lesson for people: the title, and below it the cause and what the lesson needs. */
static void print_entry(const gwi_lesson *lesson, unsigned width)
{
    enum { ID_COLUMNS = 6 };
    gw_text text = {0};
    bool colour = gwi_has_colour(STDOUT_FILENO);
    gw_text_addf(&text, "%-*s", (int)ID_COLUMNS, lesson->id);
    gw_add_wrapped(&text, lesson->title, ID_COLUMNS, ID_COLUMNS, width);
    if (colour)
        gw_paint_begin(&text, 0, lesson->id, strlen(lesson->id), GW_ROLE_STRONG);
    size_t from = text.bytes;
    gw_text_addf(&text, "%*s%s", (int)ID_COLUMNS, "", lesson->cause == NULL ? "clean" : lesson->cause);
    if (lesson->by_hand != NULL)
        gw_text_addf(&text, "; needs %s", gwi_lab_needs_text(lesson->needs));
    gw_text_add_str(&text, "\n");
    if (colour)
        gw_paint(&text, from, GW_ROLE_DIM);
    gw_put(gw_text_str(&text));
    gw_text_free(&text);
}

/* On a terminal, lines fit its width. Elsewhere, each lesson is one line, for programs such as grep. */
static void print_list(const gwi_lesson *lesson, size_t count)
{
    enum { WIDTH_MIN = 20 };
    unsigned width = gwi_terminal_width(STDOUT_FILENO);
    width = width > WIDTH ? WIDTH : width;
    for (size_t i = 0; i < count; i++) {
        if (gwi_is_terminal(STDOUT_FILENO))
            print_entry(&lesson[i], width < WIDTH_MIN ? WIDTH_MIN : width);
        else
            print_row(&lesson[i]);
    }
}

static int list(int argc, char **argv)
{
    lab_options options = {0};
    gw_error err = {0};
    int index = 0;
    size_t count = 0;
    const gwi_lesson *lesson = gwi_lessons(&count);
    gw_status st = gwi_options_parse(list_table, LIST_COUNT, &options, argc, argv, &index, &err);
    if (st == GW_OK && !options.help && index < argc)
        st = gw_fail(&err, GW_USAGE, "list takes no %s", argv[index]);
    if (st != GW_OK)
        return fail(&err, GW_EXIT_USAGE);
    gwi_pager_begin();
    if (options.help)
        return gwi_manual_print(&gwi_manual_lab);
    if (options.json)
        return list_as_json(lesson, count, &err) == GW_OK ? GW_EXIT_OK : fail(&err, GW_EXIT_USAGE);
    print_list(lesson, count);
    return GW_EXIT_OK;
}

/* ---- run ---- */

enum { TITLE_INDENT = 6, TEXT_INDENT = 15 };

static void print_paragraph(const char *label, const char *body, unsigned indent, FILE *out)
{
    gw_text text = {0};
    gw_text_addf(&text, "%-*s", (int)indent, label);
    gw_add_wrapped(&text, body, indent, indent, WIDTH);
    fputs(gw_text_str(&text), out);
    gw_text_free(&text);
}

static gw_status print_source(const gwi_lesson *lesson, gw_error *err)
{
    gw_path file, path;
    char part[4096];
    size_t bytes = 0;
    gw_status st = gw_path_format(file, err, "lab/%s.c", lesson->program);
    if (st == GW_OK)
        st = gw_library_find(file, path, err);
    if (st != GW_OK)
        return st;
    FILE *source = fopen(path, "re");
    if (source == NULL)
        return gw_fail(err, GW_IO, "open %s: %s", path, strerror(errno));
    while ((bytes = fread(part, 1, sizeof part, source)) > 0)
        fwrite(part, 1, bytes, stdout);
    if (ferror(source))
        st = gw_fail(err, GW_IO, "read %s: %s", path, strerror(errno));
    fclose(source);
    return st;
}

/* Add the options of `gpuwhy run` for a lesson. */
static gw_status add_options(const gwi_lesson *lesson, const lab_options *options, words *to, gw_error *err)
{
    bool is_real = strcmp(options->gpu, "real") == 0;
    gw_text gpu = {0};
    if (!is_real && strcmp(options->gpu, "virtual") != 0)
        return gw_fail(err, GW_USAGE, "--gpu %s: must be virtual or real", options->gpu);
    if (is_real && lesson->virtual_only)
        return gw_fail(err, GW_USAGE, "lesson %s needs the virtual card: a real one does not show this fault",
                       lesson->id);
    const char *card = options->repaired && lesson->repaired_card != NULL ? lesson->repaired_card : lesson->card;
    gw_text_addf(&gpu, "--gpu %s%s", is_real ? "real" : "virtual:", is_real ? "" : card);
    if (is_real && lesson->memory != NULL)
        gw_text_addf(&gpu, " --memory %s", lesson->memory);
    words_split(to, gw_text_str(&gpu));
    words_split(to, lesson->options);
    gw_text_free(&gpu);
    return GW_OK;
}

static gw_status add_program(const gwi_lesson *lesson, bool repaired, words *to, gw_error *err)
{
    gw_path file, path;
    gw_status st = gw_path_format(file, err, "lab/%s", lesson->program);
    if (st == GW_OK)
        st = gw_library_find(file, path, err);
    if (st != GW_OK)
        return st;
    words_add(to, path, strlen(path));
    words_split(to, repaired ? lesson->repaired : lesson->faulty);
    return GW_OK;
}

static void print_word(const char *word, FILE *out)
{
    gw_text quoted = {0};
    gw_add_shell_word(&quoted, word);
    fprintf(out, " %s", gw_text_str(&quoted));
    gw_text_free(&quoted);
}

static void print_head(const gwi_lesson *lesson, bool repaired, const words *option, const words *word, FILE *out)
{
    gw_text title = {0};
    gw_text_addf(&title, "%s%s", lesson->title, repaired ? " (repaired)" : "");
    print_paragraph(lesson->id, gw_text_str(&title), TITLE_INDENT, out);
    gw_text_free(&title);
    fputs("$ gpuwhy run", out);
    for (size_t i = 0; i < option->count; i++)
        print_word(option->item[i], out);
    fputs(" --", out);
    for (size_t i = 0; i < word->count; i++)
        print_word(i == 0 ? gw_path_last(word->item[i]) : word->item[i], out);
    fputs("\n\n", out);
}

static void print_tail(const gwi_lesson *lesson, FILE *out)
{
    fputc('\n', out);
    print_paragraph("What happens", lesson->happens, TEXT_INDENT, out);
    print_paragraph("Often thought", lesson->believed, TEXT_INDENT, out);
    print_paragraph("What to do", lesson->change, TEXT_INDENT, out);
    fputc('\n', out);
}

static int run_words(const gwi_lesson *lesson, const lab_options *options, const words *option, const words *word)
{
    gw_error err = {0};
    json_object *verdict = NULL;
    int status = GW_EXIT_UNDETERMINED;
    FILE *out = options->json ? stderr : stdout;
    const gwi_lab_run run = {
        .option = option->item, .word = word->item, .quiet_stdout = options->json, .in_own_folder = true};
    const gwi_lab_expected expected = {.cause = options->repaired ? NULL : lesson->cause};
    print_head(lesson, options->repaired, option, word, out);
    if (gwi_lab_start(&run, &verdict, &status, &err) != GW_OK)
        return fail(&err, GW_EXIT_UNDETERMINED);
    if (verdict == NULL)
        return status == GW_EXIT_OK ? GW_EXIT_UNDETERMINED : status;
    print_tail(lesson, out);
    status = gwi_lab_grade(verdict, &expected, lesson, options->json);
    json_object_put(verdict);
    return status;
}

static int run_lesson(const gwi_lesson *lesson, const lab_options *options)
{
    words option = {0}, word = {0};
    gw_error err = {0};
    int status = GW_EXIT_USAGE;
    gw_status st = add_options(lesson, options, &option, &err);
    if (st == GW_OK)
        st = add_program(lesson, options->repaired, &word, &err);
    if (st == GW_OK && (option.failed || word.failed))
        st = gw_fail(&err, GW_NOMEM, "start lesson %s", lesson->id);
    status = st == GW_OK ? run_words(lesson, options, &option, &word) : fail(&err, GW_EXIT_USAGE);
    words_free(&option);
    words_free(&word);
    return status;
}

static gw_status find_lesson(const lab_options *options, int count, char **argv, const gwi_lesson **ret_lesson,
                             gw_error *err)
{
    if (count != 1)
        return gw_fail(err, GW_USAGE, "run needs the id of one lesson, such as S05; `gpuwhy lab list` lists them");
    const gwi_lesson *lesson = gwi_lesson_find(argv[1]);
    if (lesson == NULL)
        return gw_fail(err, GW_USAGE, "unknown lesson %s; `gpuwhy lab list` lists them", argv[1]);
    if (lesson->by_hand != NULL)
        return gw_fail(err, GW_USAGE, "lesson %s needs %s; in gpuwhy's source folder, run it by hand: %s", lesson->id,
                       gwi_lab_needs_text(lesson->needs), lesson->by_hand);
    if (options->repaired && lesson->repaired == NULL)
        return gw_fail(err, GW_USAGE, "lesson %s has no repaired program, because its program has no fault",
                       lesson->id);
    *ret_lesson = lesson;
    return GW_OK;
}

static int run(int argc, char **argv)
{
    lab_options options = {0};
    const gwi_lesson *lesson = NULL;
    gw_error err = {0};
    int count = 0;
    gw_status st = gwi_options_parse_mixed(run_table, RUN_COUNT, &options, argc, argv, &count, &err);
    if (st == GW_OK && options.help)
        return gwi_manual_print(&gwi_manual_lab);
    if (st == GW_OK)
        st = find_lesson(&options, count, argv, &lesson, &err);
    if (st == GW_OK && options.source)
        st = print_source(lesson, &err);
    if (st != GW_OK)
        return fail(&err, GW_EXIT_USAGE);
    return options.source ? GW_EXIT_OK : run_lesson(lesson, &options);
}

/* ---- check ---- */

/* If the program comes first, the options begin at the last `--expect`. Move them to the front, with `--` between them
 * and the program. `ret_argv` has room for one word more than argv. Returns the number of words. */
static int options_first(int argc, char **argv, char **ret_argv)
{
    static char separator[] = "--";
    int split = argc, count = 1;
    ret_argv[0] = argv[0];
    if (argc > 1 && argv[1][0] != '-')
        for (int i = argc - 1; i > 1 && split == argc; i--)
            if (strcmp(argv[i], "--expect") == 0 || gw_begins(argv[i], "--expect="))
                split = i;
    if (split == argc) {
        memcpy(ret_argv, argv, (size_t)argc * sizeof *argv);
        return argc;
    }
    for (int i = split; i < argc; i++)
        ret_argv[count++] = argv[i];
    ret_argv[count++] = separator;
    for (int i = 1; i < split; i++)
        ret_argv[count++] = argv[i];
    return count;
}

static gw_status take_expected(const lab_options *options, gwi_lab_expected *expected, gw_error *err)
{
    if (options->leaks != NULL && (options->expect == NULL || strcmp(options->expect, "clean") != 0))
        return gw_fail(err, GW_USAGE, "--leaks needs --expect clean");
    if (options->expect == NULL)
        return gw_fail(err, GW_USAGE, "check needs --expect with a cause (`gpuwhy causes` lists them), or with clean");
    if (strcmp(options->expect, "clean") != 0) {
        gw_status st = gwi_cause_check("--expect", options->expect, false, err);
        if (st != GW_OK)
            return st;
        expected->cause = options->expect;
    }
    expected->established = strcmp(options->certainty, "established") == 0;
    if (!expected->established && strcmp(options->certainty, "supported") != 0)
        return gw_fail(err, GW_USAGE, "--certainty %s: must be supported or established", options->certainty);
    return GW_OK;
}

static gw_status take_options(const lab_options *options, words *to, gw_error *err)
{
    words_add(to, "--gpu", strlen("--gpu"));
    words_add(to, options->gpu, strlen(options->gpu));
    if (options->leaks != NULL) {
        words_split(to, "--fail-on leak --leaks");
        words_add(to, options->leaks, strlen(options->leaks));
    }
    for (size_t i = 0; i < options->run_option.count; i++) {
        const char *option = options->run_option.item[i];
        if (strcmp(option, "--json") == 0 || gw_begins(option, "--json="))
            return gw_fail(err, GW_USAGE, "--run-option %s: use --json of lab check, or `gpuwhy run` for the verdict",
                           option);
        words_add(to, option, strlen(option));
    }
    if (to->failed)
        return gw_fail(err, GW_NOMEM, "check");
    gw_status st = gwi_run_options_check((int)to->count, to->item, err);
    if (st != GW_OK)
        gw_wrap(err, "--run-option");
    return st;
}

static int check_program(const lab_options *options, gwi_lab_expected *expected, const words *option, char **program)
{
    gw_error err = {0};
    json_object *verdict = NULL;
    int status = GW_EXIT_UNDETERMINED;
    const gwi_lab_run run = {.option = option->item, .word = program, .quiet_stdout = options->json};
    if (gwi_lab_start(&run, &verdict, &status, &err) != GW_OK)
        return fail(&err, GW_EXIT_UNDETERMINED);
    if (verdict == NULL)
        return status == GW_EXIT_OK ? GW_EXIT_UNDETERMINED : status;
    expected->has_leaks = status == GW_EXIT_FAIL_ON && options->leaks != NULL;
    status = gwi_lab_grade(verdict, expected, NULL, options->json);
    json_object_put(verdict);
    return status;
}

static int check_ordered(int argc, char **argv)
{
    lab_options options = {0};
    gwi_lab_expected expected = {0};
    words option = {0};
    gw_error err = {0};
    int index = 0, status = GW_EXIT_USAGE;
    gw_status st = gwi_options_parse(check_table, CHECK_COUNT, &options, argc, argv, &index, &err);
    if (st == GW_OK && options.help)
        return gwi_manual_print(&gwi_manual_lab);
    if (st == GW_OK && index >= argc)
        st = gw_fail(&err, GW_USAGE, "check needs a program; for example: gpuwhy lab check --expect clean -- ./train");
    if (st == GW_OK)
        st = take_expected(&options, &expected, &err);
    if (st == GW_OK)
        st = take_options(&options, &option, &err);
    status = st == GW_OK ? check_program(&options, &expected, &option, argv + index) : fail(&err, GW_EXIT_USAGE);
    words_free(&option);
    return status;
}

static int check(int argc, char **argv)
{
    char **ordered = calloc((size_t)argc + 2, sizeof *ordered);
    if (ordered == NULL) {
        gw_say("lab: out of memory");
        return GW_EXIT_UNDETERMINED;
    }
    int status = check_ordered(options_first(argc, argv, ordered), ordered);
    free(ordered);
    return status;
}

/* ---- the command ---- */

int gwi_cmd_lab(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(int argc, char **argv);
    } parts[] = {{"list", list}, {"run", run}, {"check", check}};
    gw_error err = {0};
    int first = 1;
    if (gwi_options_parse_common(argc, argv, &first, &err) != GW_OK)
        return fail(&err, GW_EXIT_USAGE);
    argc -= first - 1;
    argv += first - 1;
    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
        return gwi_manual_print(&gwi_manual_lab);
    for (size_t i = 0; argc > 1 && i < sizeof parts / sizeof parts[0]; i++)
        if (strcmp(argv[1], parts[i].name) == 0)
            return parts[i].run(argc - 1, argv + 1);
    gw_say("lab: %s%smust be list, run or check; see `gpuwhy lab --help`", argc > 1 ? argv[1] : "the first word",
           argc > 1 ? ": " : " ");
    return GW_EXIT_USAGE;
}
