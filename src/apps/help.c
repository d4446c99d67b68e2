/* `gpuwhy help`: prints the commands, the help of one, its manual page, a document, or what a shell needs to complete a
 * command line. */
#include "gwi_help_text.h"

#include "gw_say.h"
#include "gw_text.h"
#include "gwi_cmd.h"
#include "gwi_options.h"
#include "gwi_terminal.h"

#include <string.h>
#include <unistd.h>

#define GWI_HELP_OPTIONS(X)                                                                                            \
    X(FLAG, bool, man, "--man", NULL, NULL,                                                                            \
      "print the manual page of the command, or of gpuwhy, in the macros of man(7)")                                   \
    X(FLAG, bool, complete, "--complete", "-- WORD..", NULL,                                                           \
      "for a shell: list what can take the place of the last word of this command line")

GWI_OPTIONS(help_options, GWI_HELP_OPTIONS);

const gwi_manual gwi_manual_help = {
    .usage = "gpuwhy help [command | topic]\n"
             "gpuwhy help topics\n"
             "gpuwhy help --man [command]\n"
             "gpuwhy help --complete -- gpuwhy [word...]\n",
    .about = "Prints the list of commands, the help of a command, or a document. `topics` lists the documents.",
    .words = "COMMAND|TOPIC",
    .group = {{.options = options_table, .count = OPTION_COUNT}},
    .exits = {{GW_EXIT_OK, "the help was printed"},
              {GW_EXIT_USAGE, "usage error, or there is no such command or topic"}},
    .examples = {{"gpuwhy help run", "the options of gpuwhy run"},
                 {"gpuwhy help exit-status", "a document: the exit statuses of all commands"}}};

enum { WIDTH = 80 };
/* A line of `gpuwhy help` has at most WIDTH columns. */
#define GW_X(name, arguments, help)                                                                                    \
    _Static_assert(sizeof #name <= 9 && sizeof arguments <= 33 && sizeof help <= 35, "the line of " #name);
GWI_COMMANDS(GW_X)
#undef GW_X

void gwi_help_overview(FILE *out)
{
    size_t count;
    const gwi_command_row *commands = gwi_commands(&count);
    fputs("gpuwhy explains why a GPU program failed.\n\n  gpuwhy run -- python train.py\n\ncommands:\n", out);
    for (size_t i = 0; i < count; i++) {
        const char *group = gwi_command_group(commands[i].name);
        if (group != NULL)
            fprintf(out, " %s\n", group);
        fprintf(out, "  %-8s  %-32s  %s\n", commands[i].name, commands[i].arguments, commands[i].help);
    }
    fputs("\n`gpuwhy COMMAND --help` lists the options of a command.\n"
          "`gpuwhy help topics` lists the documents.\n",
          out);
}

static void print_topics(void)
{
    puts("`gpuwhy help TOPIC` prints one of these:\n");
    for (size_t i = 0; gwi_topic_at(i) != NULL; i++)
        printf("  %-14s  %s\n", gwi_topic_at(i)->name, gwi_topic_at(i)->about);
}

static int print_topic(const gwi_topic *topic)
{
    if (topic->command != NULL)
        return gwi_command_find(topic->command)->run(1, &(char *){(char[]){"topic"}});
    gw_text text = {0};
    unsigned width = gwi_terminal_width(STDOUT_FILENO);
    gwi_document_add(topic->document, width == 0 || width > WIDTH ? WIDTH : width, &text);
    gw_put(gw_text_str(&text));
    gw_text_free(&text);
    return GW_EXIT_OK;
}

static int fail_unknown(const char *word)
{
    size_t count;
    gw_nearest nearest = {.word = word};
    const gwi_command_row *commands = gwi_commands(&count);
    for (size_t i = 0; i < count; i++)
        gw_nearest_add(&nearest, commands[i].name);
    for (size_t i = 0; gwi_topic_at(i) != NULL; i++)
        gw_nearest_add(&nearest, gwi_topic_at(i)->name);
    if (nearest.found != NULL)
        gw_say("help: unknown command or topic %s; did you mean %s?", word, nearest.found);
    else
        gw_say("help: unknown command or topic %s; `gpuwhy help` lists the commands, `gpuwhy help topics` the topics",
               word);
    return GW_EXIT_USAGE;
}

static int print_about(const char *word)
{
    const gwi_command_row *command = gwi_command_find(word);
    if (command != NULL)
        return gwi_manual_print(command->page);
    if (strcmp(word, "topics") == 0) {
        print_topics();
        return GW_EXIT_OK;
    }
    const gwi_topic *topic = gwi_topic_find(word);
    return topic != NULL ? print_topic(topic) : fail_unknown(word);
}

static int print_manual(const char *name)
{
    gw_text text = {0};
    const gwi_command_row *command = name != NULL ? gwi_command_find(name) : NULL;
    if (name != NULL && command == NULL)
        return fail_unknown(name);
    if (command == NULL)
        gwi_manual_add_page(&gwi_manual_gpuwhy, NULL, "explain why a GPU program failed", &text);
    else
        gwi_manual_add_page(command->page, name, command->help, &text);
    gw_put(gw_text_str(&text));
    gw_text_free(&text);
    return GW_EXIT_OK;
}

static int print_complete(int count, char *const *words)
{
    gw_text text = {0};
    gwi_complete(count, words, &text);
    gw_put(gw_text_str(&text));
    gw_text_free(&text);
    return GW_EXIT_OK;
}

static gw_status check(const help_options *options, int words, char **argv, gw_error *err)
{
    if (options->man && options->complete)
        return gw_fail(err, GW_USAGE, "--man and --complete cannot be combined");
    if (options->complete && words < 2)
        return gw_fail(err, GW_USAGE, "--complete needs a command line, for example: --complete -- gpuwhy ru");
    if (!options->complete && words > 1)
        return gw_fail(err, GW_USAGE, "unexpected word: %s", argv[2]);
    return GW_OK;
}

int gwi_cmd_help(int argc, char **argv)
{
    help_options options = {0};
    gw_error err = {0};
    int words = 0;
    gw_status st = gwi_options_parse_mixed(options_table, OPTION_COUNT, &options, argc, argv, &words, &err);
    if (st == GW_OK)
        st = check(&options, words, argv, &err);
    if (st != GW_OK)
        return gwi_refuse("help", &err);
    if (options.complete)
        return print_complete(words, argv + 1);
    if (options.man)
        return print_manual(words > 0 ? argv[1] : NULL);
    gwi_pager_begin();
    if (options.help)
        return gwi_manual_print(&gwi_manual_help);
    if (words > 0)
        return print_about(argv[1]);
    gwi_help_overview(stdout);
    return GW_EXIT_OK;
}
