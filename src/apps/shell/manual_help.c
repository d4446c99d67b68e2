/* Print a command's manual as the text of --help. */
#include "gwi_config_cmd.h"
#include "gwi_manual.h"
#include "gwi_terminal.h"

#include "gw_exit.h"
#include "gw_say.h"
#include "gw_text.h"

#include <stdio.h>
#include <string.h>

enum { WIDTH = 80, EXIT_INDENT = 11, EXAMPLE_INDENT = 6 };

static void add_about(const char *about, gw_text *text)
{
    while (*about != '\0') {
        const char *end = strstr(about, "\n\n");
        size_t bytes = end != NULL ? (size_t)(end - about) : strlen(about);
        gw_text paragraph = {0};
        gw_text_add(&paragraph, about, bytes);
        gw_add_wrapped(text, gw_text_str(&paragraph), 0, 0, WIDTH);
        gw_text_free(&paragraph);
        gw_text_add_str(text, "\n");
        about += bytes + (end != NULL ? 2 : 0);
    }
}

const char *gwi_manual_section(const gwi_manual *page, const char *option)
{
    for (size_t i = 0; i < GWI_MANUAL_SECTIONS && page->sections[i].name != NULL; i++)
        if (strcmp(page->sections[i].name, option) == 0)
            return page->sections[i].meaning;
    return NULL;
}

/* Append the options of the first group in their sections. `brief`: only those of page->brief. */
static void add_sections(const gwi_manual *page, bool brief, gw_text *text)
{
    gw_text words = {0};
    gw_text_addf(&words, " %s ", page->brief == NULL ? "" : page->brief);
    for (size_t i = 0; i < page->group[0].count; i++) {
        const gwi_option *option = &page->group[0].options[i];
        const char *title = gwi_manual_section(page, option->name);
        char word[64];
        snprintf(word, sizeof word, " %s ", option->name);
        if (brief && strstr(gw_text_str(&words), word) == NULL)
            continue;
        if (title != NULL)
            gw_text_addf(text, "%s%s:\n", i == 0 ? "" : "\n", title);
        gwi_options_add_rows(option, 1, text);
    }
    gw_text_free(&words);
}

/* Print the short help: the usage, the first sentence, and the most used options. */
static int print_brief(const gwi_manual *page)
{
    gw_text text = {0}, about = {0};
    const char *end = strstr(page->about, ". ");
    gw_text_add(&about, page->about, end == NULL ? strlen(page->about) : (size_t)(end - page->about) + 1);
    gw_text_addf(&text, "%s\n", page->usage);
    add_about(gw_text_str(&about), &text);
    add_sections(page, true, &text);
    gw_text_addf(&text, "\nThe same with --help lists all %zu options, the exit statuses and examples.\n",
                 page->group[0].count);
    gw_put(gw_text_str(&text));
    gw_text_free(&about);
    gw_text_free(&text);
    return GW_EXIT_OK;
}

static void add_groups(const gwi_manual *page, gw_text *text)
{
    size_t common_count;
    const gwi_option *common = gwi_options_common(&common_count);
    bool is_named = page->group[0].name != NULL;
    for (size_t i = 0; i < GWI_MANUAL_GROUPS && page->group[i].options != NULL; i++) {
        if (is_named)
            gw_text_addf(text, "%s:\n", page->group[i].name);
        if (i == 0 && page->sections[0].name != NULL)
            add_sections(page, false, text);
        else
            gwi_options_add_rows(page->group[i].options, page->group[i].count, text);
        gw_text_add_str(text, is_named ? "\n" : "");
    }
    if (is_named)
        gw_text_add_str(text, "all:\n");
    gwi_options_add_rows(common, common_count, text);
}

static void add_exits(const gwi_manual *page, gw_text *text)
{
    if (page->exits[0].meaning == NULL)
        return;
    gw_text_add_str(text, "\nexit status:\n");
    for (size_t i = 0; i < GWI_MANUAL_EXITS && page->exits[i].meaning != NULL; i++) {
        if (page->exits[i].status == GWI_EXIT_PROGRAM)
            gw_text_addf(text, "  %-7s  ", "others");
        else
            gw_text_addf(text, "  %-7d  ", page->exits[i].status);
        gw_add_wrapped(text, page->exits[i].meaning, EXIT_INDENT, EXIT_INDENT, WIDTH);
    }
}

static void add_examples(const gwi_manual *page, gw_text *text)
{
    if (page->examples[0].name == NULL)
        return;
    gw_text_add_str(text, "\nexamples:\n");
    for (size_t i = 0; i < GWI_MANUAL_ROWS && page->examples[i].name != NULL; i++) {
        gw_text_addf(text, "  %s\n%*s", page->examples[i].name, EXAMPLE_INDENT, "");
        gw_add_wrapped(text, page->examples[i].meaning, EXAMPLE_INDENT, EXAMPLE_INDENT, WIDTH);
    }
}

int gwi_manual_print(const gwi_manual *page)
{
    gw_text text = {0};
    if (gwi_common()->is_brief && page->brief != NULL)
        return print_brief(page);
    gw_text_addf(&text, "%s\n", page->usage);
    add_about(page->about, &text);
    add_groups(page, &text);
    if (page->add_more != NULL) {
        gw_text_addf(&text, "\n%s:\n", page->more_title);
        page->add_more(&text);
    }
    add_exits(page, &text);
    add_examples(page, &text);
    gw_put(gw_text_str(&text));
    gw_text_free(&text);
    return GW_EXIT_OK;
}

int gwi_refuse(const char *name, const gw_error *err)
{
    gw_say("%s: %s", name, err->text);
    return GW_EXIT_USAGE;
}

int gwi_program_take(const gwi_manual *page, void *fields, const bool *help, int argc, char **argv, char ***ret_program)
{
    gw_error err = {0};
    int index = 0;
    gw_status st = gwi_options_parse(page->group[0].options, page->group[0].count, fields, argc, argv, &index, &err);
    if (st == GW_OK && *help)
        return gwi_manual_print(page);
    if (st == GW_OK && index == argc)
        st = gw_fail(&err, GW_USAGE, "no program given; for example: %s", page->examples[0].name);
    if (st == GW_OK)
        st = gwi_config_needs_on(&err);
    *ret_program = argv + index;
    return st == GW_OK ? GW_EXIT_OK : gwi_refuse(argv[0], &err);
}
