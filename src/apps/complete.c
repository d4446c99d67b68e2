/* Complete a command line, from the tables of commands and options.
 *
 * The table of options names the argument of an option: "FILE", "auto|always|never", "real|virtual:CARD[,..]". Each
 * part between two `|` is a value if it has no capital letters. A part with a name of `lists` stands for a list,
 * possibly after a beginning such as `virtual:`. All other parts are free text. */
#include "gwi_cmd.h"
#include "gwi_help_text.h"
#include "gwi_lesson.h"
#include "gwi_runs.h"

#include "gw_config.h"
#include "gw_export.h"
#include "gw_process.h"
#include "gw_text.h"
#include "gw_verdict.h"
#include "gw_virt_spec.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>

/* What a shell completes by itself. */
typedef enum shell_adds {
    SHELL_NOTHING,
    SHELL_FILES,
    SHELL_RECORDINGS, /* files that end in .gpuwhy */
    SHELL_FOLDERS,
    SHELL_PROGRAM /* a program, or, as words, a program and its arguments */
} shell_adds;

/* A list of values under construction. */
typedef struct values_list {
    gw_text *text;      /* receives one line for each value: value, tab, meaning */
    const char *before; /* the value is part of a word and follows this: "--gpu=" */
    const char *typed;  /* only values that begin with this are added */
    shell_adds shell;   /* what the shell adds */
} values_list;

/* Append a value if it begins with values->typed. `meaning` may be NULL. */
static void add_value(values_list *values, const char *value, const char *meaning)
{
    if (!gw_begins(value, values->typed))
        return;
    gw_text_addf(values->text, "%s%s\t", values->before, value);
    for (const char *c = meaning == NULL ? "" : meaning; *c != '\0' && *c != '\n'; c++)
        gw_text_add(values->text, *c == '\t' ? " " : c, 1);
    gw_text_add_str(values->text, "\n");
}

/* ---- the lists. Each one adds values that begin with `begin` and end with `end`. ---- */

typedef struct edges {
    const char *begin, *end;
} edges;

static void add_between(values_list *values, const edges *around, const char *value, const char *meaning)
{
    gw_text whole = {0};
    gw_text_addf(&whole, "%s%s%s", around->begin, value, around->end);
    add_value(values, gw_text_str(&whole), meaning);
    gw_text_free(&whole);
}

static void add_causes(values_list *values, const edges *around)
{
    size_t count;
    const gw_cause_info *causes = gw_causes(&count);
    for (size_t i = 0; i < count; i++)
        add_between(values, around, causes[i].id, causes[i].summary);
}

static void add_cards(values_list *values, const edges *around)
{
    for (size_t i = 0; gw_virt_card_name(i) != NULL; i++)
        add_between(values, around, gw_virt_card_name(i), "a virtual card");
}

static void add_lessons(values_list *values, const edges *around)
{
    size_t count;
    const gwi_lesson *lessons = gwi_lessons(&count);
    for (size_t i = 0; i < count; i++)
        add_between(values, around, lessons[i].id, lessons[i].title);
}

static void add_formats(values_list *values, const edges *around)
{
    for (unsigned i = 0; gw_export_at(i) != NULL; i++)
        add_between(values, around, gw_export_at(i)->name, gw_export_at(i)->about);
}

static void add_commands(values_list *values, const edges *around)
{
    size_t count;
    const gwi_command_row *commands = gwi_commands(&count);
    for (size_t i = 0; i < count; i++)
        add_between(values, around, commands[i].name, commands[i].help);
}

static void add_topics(values_list *values, const edges *around)
{
    add_between(values, around, "topics", "list the documents");
    for (size_t i = 0; gwi_topic_at(i) != NULL; i++)
        add_between(values, around, gwi_topic_at(i)->name, gwi_topic_at(i)->about);
}

static void add_keys(values_list *values, const edges *around)
{
    for (gw_config_id id = 0; id < GW_CONFIG_COUNT; id++)
        add_between(values, around, gw_config_keys[id].name, gw_config_keys[id].help);
}

static void add_pids(values_list *values, const edges *around)
{
    char name[32];
    DIR *dir = opendir("/proc");
    if (dir == NULL)
        return;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        if (!isdigit((unsigned char)entry->d_name[0]) || !gw_begins(entry->d_name, values->typed))
            continue;
        gw_read_small(name, sizeof name, NULL, "/proc/%.20s/comm", entry->d_name);
        add_between(values, around, entry->d_name, name);
    }
    closedir(dir);
}

/* Add the handles of the last runs if the word begins as one. The database is read without waiting for long. */
static void add_handles(values_list *values, const edges *around)
{
    enum { RUNS_MAX = 20, WAIT_MS = 100 };
    gwi_past_list list;
    const gwi_past_query query = {.newest_max = RUNS_MAX, .wait_ms = WAIT_MS};
    if (values->typed[0] == '@' && gwi_runs_read(&query, &list, NULL) == GW_OK) {
        for (size_t i = list.count; i-- > 0;) {
            gw_text handle = {0}, meaning = {0};
            gw_text_addf(&handle, "@%zu", list.item[i].number);
            gw_add_printable(&meaning, list.item[i].command);
            add_between(values, around, gw_text_str(&handle), gw_text_str(&meaning));
            gw_text_free(&handle);
            gw_text_free(&meaning);
        }
        gwi_past_free(&list);
    }
}

static const struct {
    const char *name; /* in a table of options */
    void (*add)(values_list *values, const edges *around);
    shell_adds shell; /* what the shell adds */
} lists[] = {{"CAUSE", add_causes, SHELL_NOTHING},
             {"CARD", add_cards, SHELL_NOTHING},
             {"LESSON", add_lessons, SHELL_NOTHING},
             {"FORMAT", add_formats, SHELL_NOTHING},
             {"COMMAND", add_commands, SHELL_NOTHING},
             {"TOPIC", add_topics, SHELL_NOTHING},
             {"KEY", add_keys, SHELL_NOTHING},
             {"PID", add_pids, SHELL_NOTHING},
             {"FILE", NULL, SHELL_FILES},
             {"RECORDING", add_handles, SHELL_RECORDINGS},
             {"DIR", NULL, SHELL_FOLDERS},
             {"PYTHON", NULL, SHELL_PROGRAM},
             {"CMD", NULL, SHELL_PROGRAM},
             {"PROGRAM", NULL, SHELL_PROGRAM}};

/* Add the values of a list. With several kinds of files, all files count. */
static void add_list(values_list *values, const char *name, const edges *around)
{
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        if (strcmp(lists[i].name, name) != 0)
            continue;
        if (lists[i].add != NULL)
            lists[i].add(values, around);
        if (lists[i].shell != SHELL_NOTHING)
            values->shell = values->shell == SHELL_NOTHING ? lists[i].shell : SHELL_FILES;
    }
}

/* Add the values of the part at `part`, such as "auto", "virtual:CARD[,..]" or "CAUSE:ACTION". */
static void add_part(values_list *values, const char *part, size_t bytes)
{
    enum { PART_MAX = 40 };
    char begin[PART_MAX + 1], name[PART_MAX + 1];
    size_t before = 0, after;
    if (bytes == 0 || bytes > PART_MAX)
        return;
    while (before < bytes && !isupper((unsigned char)part[before]))
        before++;
    after = before;
    while (after < bytes && isupper((unsigned char)part[after]))
        after++;
    memcpy(begin, part, before);
    begin[before] = '\0';
    memcpy(name, part + before, after - before);
    name[after - before] = '\0';
    if (before == bytes)
        add_value(values, begin, NULL);
    else
        add_list(values, name, &(edges){begin, after < bytes && part[after] == ':' ? ":" : ""});
}

/* Append all values of an argument. */
static void add_argument(values_list *values, const char *argument)
{
    while (argument != NULL && *argument != '\0') {
        size_t bytes = strcspn(argument, "|");
        add_part(values, argument, bytes);
        argument += bytes + (argument[bytes] != '\0');
    }
}

/* ---- the command line ---- */

/* What is known about the command line before its last word. */
typedef struct place {
    const gwi_manual_group *group; /* its options, beside those of all commands; NULL: only those of all commands */
    const char *words;             /* as in gwi_manual */
    const gwi_option *option;      /* the last word is its value; NULL: it is not */
    int program;                   /* index of the first word of a program's command line; 0: there is none */
} place;

static const gwi_option *find_in(const gwi_option *options, size_t count, const char *name, size_t bytes)
{
    for (size_t i = 0; i < count; i++)
        if (strlen(options[i].name) == bytes && memcmp(options[i].name, name, bytes) == 0)
            return &options[i];
    return NULL;
}

/* Find an option by the part of a word before its `=`. */
static const gwi_option *find_option(const gwi_manual_group *group, const char *word)
{
    size_t bytes = strcspn(word, "="), count;
    const gwi_option *common = gwi_options_common(&count);
    const gwi_option *found = group != NULL ? find_in(group->options, group->count, word, bytes) : NULL;
    return found != NULL ? found : find_in(common, count, word, bytes);
}

/* True if the value of the option is the next word. */
static bool takes_next(const gwi_option *option, const char *word)
{
    return option != NULL && option->type != GWI_OPTION_FLAG && option->type != GWI_OPTION_MAYBE &&
           strchr(word, '=') == NULL;
}

/* Read the words from words[from] to the one before the last. */
static void read_words(place *at, int from, int last, char *const *words)
{
    const char *kinds = at->words == NULL ? "" : at->words;
    bool has_program = strstr(kinds, "PROGRAM") != NULL;
    for (int i = from; i < last && at->program == 0; i++) {
        const gwi_option *option = words[i][0] == '-' ? find_option(at->group, words[i]) : NULL;
        if (strcmp(words[i], "--") == 0) {
            at->program = has_program ? i + 1 : 0;
            at->words = NULL;
            at->group = NULL;
            return;
        }
        if (takes_next(option, words[i]) && ++i == last)
            at->option = option;
        else if (option == NULL && words[i][0] != '-' && gw_begins(kinds, "PROGRAM"))
            at->program = i;
    }
}

/* Choose the options of the subcommand words[index], if the command has subcommands. Returns the index of the word
 * after it. */
static int read_subcommand(place *at, const gwi_manual *page, int index, int last, char *const *words)
{
    if (page->group[0].name == NULL || index >= last)
        return index;
    at->words = NULL;
    at->group = NULL;
    for (size_t i = 0; i < GWI_MANUAL_GROUPS && page->group[i].options != NULL; i++) {
        if (strcmp(page->group[i].name, words[index]) == 0) {
            at->group = &page->group[i];
            at->words = at->group->words;
        }
    }
    return index + 1;
}

static void add_options(values_list *values, const gwi_option *options, size_t count)
{
    for (size_t i = 0; i < count; i++)
        add_value(values, options[i].name, options[i].help);
}

static void add_last(values_list *values, const place *at, const char *word)
{
    gw_text before = {0};
    const char *equal = strchr(word, '=');
    if (at->option != NULL) {
        add_argument(values, at->option->argument);
    } else if (word[0] == '-' && equal != NULL) {
        const gwi_option *option = find_option(at->group, word);
        gw_text_add(&before, word, (size_t)(equal + 1 - word));
        values->before = gw_text_str(&before);
        values->typed = equal + 1;
        if (option != NULL)
            add_argument(values, option->argument);
    } else if (word[0] == '-') {
        size_t count;
        const gwi_option *common = gwi_options_common(&count);
        if (at->group != NULL)
            add_options(values, at->group->options, at->group->count);
        add_options(values, common, count);
    } else if (at->words != NULL && !gw_begins(at->words, "--")) {
        add_argument(values, at->words);
    }
    gw_text_free(&before);
}

static void add_shell(gw_text *text, shell_adds shell, int program)
{
    static const char *const names[] = {[SHELL_NOTHING] = "nothing",
                                        [SHELL_FILES] = "files",
                                        [SHELL_RECORDINGS] = "files gpuwhy",
                                        [SHELL_FOLDERS] = "folders",
                                        [SHELL_PROGRAM] = "program"};
    if (shell == SHELL_PROGRAM)
        gw_text_addf(text, ":program %d\n", program);
    else
        gw_text_addf(text, ":%s\n", names[shell]);
}

void gwi_complete(int count, char *const *words, gw_text *text)
{
    int last = count - 1, index = 1;
    place at = {.group = &gwi_manual_gpuwhy.group[0], .words = gwi_manual_gpuwhy.words};
    values_list values = {.text = text, .before = "", .typed = words[last]};
    while (index < last && words[index][0] == '-')
        index += takes_next(find_option(at.group, words[index]), words[index]) ? 2 : 1;
    if (index > last && last > 1)
        at.option = find_option(at.group, words[last - 1]);
    if (index < last) {
        const gwi_command_row *command = gwi_command_find(words[index]);
        at = command == NULL ? (place){.words = "FILE"}
                             : (place){.group = &command->page->group[0], .words = command->page->words};
        index++;
        if (command != NULL)
            index = read_subcommand(&at, command->page, index, last, words);
        read_words(&at, index, last, words);
    }
    if (at.program != 0)
        values.shell = SHELL_PROGRAM;
    else
        add_last(&values, &at, words[last]);
    add_shell(text, values.shell, at.program != 0 ? at.program : last);
}
