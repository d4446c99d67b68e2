/* Complete a command line, from the tables of commands and options. */
#include "gwi_cmd.h"
#include "gwi_help_text.h"
#include "gwi_values.h"

#include <string.h>

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

static void add_options(gwi_values *values, const gwi_option *options, size_t count)
{
    for (size_t i = 0; i < count; i++)
        gwi_values_add(values, options[i].name, options[i].help);
}

static void add_last(gwi_values *values, const place *at, const char *word)
{
    gw_text before = {0};
    const char *equal = strchr(word, '=');
    if (at->option != NULL) {
        gwi_values_add_argument(values, at->option->argument);
    } else if (word[0] == '-' && equal != NULL) {
        const gwi_option *option = find_option(at->group, word);
        gw_text_add(&before, word, (size_t)(equal + 1 - word));
        values->before = gw_text_str(&before);
        values->typed = equal + 1;
        if (option != NULL)
            gwi_values_add_argument(values, option->argument);
    } else if (word[0] == '-') {
        size_t count;
        const gwi_option *common = gwi_options_common(&count);
        if (at->group != NULL)
            add_options(values, at->group->options, at->group->count);
        add_options(values, common, count);
    } else if (at->words != NULL && !gw_begins(at->words, "--")) {
        gwi_values_add_argument(values, at->words);
    }
    gw_text_free(&before);
}

static void add_shell(gw_text *text, gwi_values_shell shell, int program)
{
    static const char *const names[] = {[GWI_VALUES_NOTHING] = "nothing",
                                        [GWI_VALUES_FILES] = "files",
                                        [GWI_VALUES_RECORDINGS] = "files gpuwhy",
                                        [GWI_VALUES_FOLDERS] = "folders",
                                        [GWI_VALUES_PROGRAM] = "program"};
    if (shell == GWI_VALUES_PROGRAM)
        gw_text_addf(text, ":program %d\n", program);
    else
        gw_text_addf(text, ":%s\n", names[shell]);
}

void gwi_complete(int count, char *const *words, gw_text *text)
{
    int last = count - 1, index = 1;
    place at = {.group = &gwi_manual_gpuwhy.group[0], .words = gwi_manual_gpuwhy.words};
    gwi_values values = {.text = text, .before = "", .typed = words[last]};
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
        values.shell = GWI_VALUES_PROGRAM;
    else
        add_last(&values, &at, words[last]);
    add_shell(text, values.shell, at.program != 0 ? at.program : last);
}
