/* Write a command's page as a manual page, in the macros of man(7). */
#include "gwi_cmd.h"

#include "gw_text.h"

#include <ctype.h>
#include <string.h>

/* Append one character of a text so that troff prints it as it is. */
static void add_character(gw_text *text, char c)
{
    switch (c) {
    case '\\':
        gw_text_add_str(text, "\\e");
        break;
    case '-':
        gw_text_add_str(text, "\\-");
        break;
    case '\'':
        gw_text_add_str(text, "\\(aq");
        break;
    case '`':
        gw_text_add_str(text, "\\(ga");
        break;
    case '^':
        gw_text_add_str(text, "\\(ha");
        break;
    case '~':
        gw_text_add_str(text, "\\(ti");
        break;
    case '"':
        gw_text_add_str(text, "\\(dq");
        break;
    default:
        gw_text_add(text, &c, 1);
    }
}

/* Append text of a line. A dot at its beginning would be a request. */
static void add_text(gw_text *text, const char *string, size_t bytes)
{
    bool at_start = text->bytes == 0 || text->data[text->bytes - 1] == '\n';
    if (at_start && bytes > 0 && string[0] == '.')
        gw_text_add_str(text, "\\&");
    for (size_t i = 0; i < bytes; i++)
        add_character(text, string[i]);
}

/* Append text with line breaks, because lines of the source should have at most 80 columns. */
static void add_wrapped(gw_text *text, const char *string)
{
    enum { WIDTH = 66 }; /* some characters take more columns in the source */
    gw_text lines = {0};
    gw_add_wrapped(&lines, string, 0, 0, WIDTH);
    for (const char *line = gw_text_str(&lines); *line != '\0';) {
        size_t bytes = strcspn(line, "\n");
        add_text(text, line, bytes);
        gw_text_add_str(text, "\n");
        line += bytes + (line[bytes] != '\0');
    }
    gw_text_free(&lines);
}

/* Append a paragraph with each sentence on its own line, as troff wants it. */
static void add_sentences(gw_text *text, const char *string, size_t bytes)
{
    for (size_t i = 0; i < bytes;) {
        gw_text sentence = {0};
        size_t end = i;
        while (end < bytes && !(string[end] == '.' && end + 2 < bytes && string[end + 1] == ' ' &&
                                isupper((unsigned char)string[end + 2])))
            end++;
        gw_text_add(&sentence, string + i, (end < bytes ? end + 1 : bytes) - i);
        add_wrapped(text, gw_text_str(&sentence));
        gw_text_free(&sentence);
        i = end + 2;
    }
}

static void add_upper(gw_text *text, const char *string)
{
    for (; *string != '\0'; string++)
        add_character(text, (char)toupper((unsigned char)*string));
}

static void add_heading(gw_text *text, const char *title)
{
    gw_text_addf(text, ".SH %s\n", title);
}

/* Append a term in bold and what it means. */
static void add_term(gw_text *text, const char *term, const char *meaning)
{
    gw_text_add_str(text, ".TP\n\\fB");
    add_text(text, term, strlen(term));
    gw_text_add_str(text, "\\fR\n");
    add_sentences(text, meaning, strlen(meaning));
}

static void add_about(gw_text *text, const char *about)
{
    for (bool first = true; *about != '\0'; first = false) {
        const char *end = strstr(about, "\n\n");
        size_t bytes = end != NULL ? (size_t)(end - about) : strlen(about);
        if (!first)
            gw_text_add_str(text, ".PP\n");
        add_sentences(text, about, bytes);
        about += bytes + (end != NULL ? 2 : 0);
    }
}

static void add_synopsis(gw_text *text, const char *usage)
{
    bool first = true;
    while (*usage != '\0') {
        size_t bytes = strcspn(usage, "\n");
        if (!first)
            gw_text_add_str(text, ".br\n");
        add_text(text, usage, bytes);
        gw_text_add_str(text, "\n");
        usage += bytes + (usage[bytes] != '\0');
        first = false;
    }
}

static void add_option(gw_text *text, const gwi_option *option)
{
    gw_text help = {0};
    bool is_optional = option->type == GWI_OPTION_MAYBE;
    gw_text_add_str(text, ".TP\n\\fB");
    add_text(text, option->name, strlen(option->name));
    gw_text_add_str(text, "\\fR");
    if (option->argument != NULL) {
        gw_text_add_str(text, is_optional ? "[=\\fI" : " \\fI");
        add_text(text, option->argument, strlen(option->argument));
        gw_text_add_str(text, is_optional ? "\\fR]" : "\\fR");
    }
    gw_text_addf(&help, "\n%s", option->help);
    if (option->standard != NULL && option->standard[0] != '\0')
        gw_text_addf(&help, " [%s]", option->standard);
    gw_text_add_str(text, "\n");
    add_sentences(text, gw_text_str(&help) + 1, help.bytes - 1);
    gw_text_free(&help);
}

static void add_options(gw_text *text, const gwi_manual *page)
{
    size_t common_count;
    const gwi_option *common = gwi_options_common(&common_count);
    add_heading(text, "OPTIONS");
    for (size_t i = 0; i < GWI_MANUAL_GROUPS && page->group[i].options != NULL; i++) {
        if (page->group[i].name != NULL)
            gw_text_addf(text, ".SS %s\n", page->group[i].name);
        for (size_t k = 0; k < page->group[i].count; k++) {
            const char *title = i == 0 ? gwi_manual_section(page, page->group[i].options[k].name) : NULL;
            if (title != NULL)
                gw_text_addf(text, ".SS %s\n", title);
            add_option(text, &page->group[i].options[k]);
        }
    }
    if (page->group[0].name != NULL)
        gw_text_add_str(text, ".SS all\n");
    for (size_t i = 0; i < common_count; i++)
        add_option(text, &common[i]);
}

static void add_commands(gw_text *text)
{
    size_t count;
    const gwi_command_row *commands = gwi_commands(&count);
    add_heading(text, "COMMANDS");
    for (size_t i = 0; i < count; i++) {
        gw_text term = {0};
        const char *group = gwi_command_group(commands[i].name);
        if (group != NULL)
            gw_text_addf(text, ".SS %s\n", group);
        gw_text_addf(&term, "%s %s", commands[i].name, commands[i].arguments);
        add_term(text, gw_text_str(&term), commands[i].help);
        gw_text_free(&term);
    }
}

/* Append the list that the command knows at run time, as it is. */
static void add_more(gw_text *text, const gwi_manual *page)
{
    gw_text more = {0};
    gw_text_add_str(text, ".SH ");
    add_upper(text, page->more_title);
    gw_text_add_str(text, "\n.nf\n");
    page->add_more(&more);
    for (const char *line = gw_text_str(&more); *line != '\0';) {
        size_t bytes = strcspn(line, "\n");
        add_text(text, line, bytes);
        gw_text_add_str(text, "\n");
        line += bytes + (line[bytes] != '\0');
    }
    gw_text_add_str(text, ".fi\n");
    gw_text_free(&more);
}

static void add_exits(gw_text *text, const gwi_manual *page)
{
    if (page->exits[0].meaning == NULL)
        return;
    add_heading(text, "EXIT STATUS");
    for (size_t i = 0; i < GWI_MANUAL_EXITS && page->exits[i].meaning != NULL; i++) {
        gw_text status = {0};
        if (page->exits[i].status == GWI_EXIT_PROGRAM)
            gw_text_add_str(&status, "others");
        else
            gw_text_addf(&status, "%d", page->exits[i].status);
        add_term(text, gw_text_str(&status), page->exits[i].meaning);
        gw_text_free(&status);
    }
}

static void add_rows(gw_text *text, const char *title, const gwi_manual_row *rows)
{
    if (rows[0].name == NULL)
        return;
    add_heading(text, title);
    for (size_t i = 0; i < GWI_MANUAL_ROWS && rows[i].name != NULL; i++)
        add_term(text, rows[i].name, rows[i].meaning);
}

static void add_examples(gw_text *text, const gwi_manual *page)
{
    if (page->examples[0].name == NULL)
        return;
    add_heading(text, "EXAMPLES");
    for (size_t i = 0; i < GWI_MANUAL_ROWS && page->examples[i].name != NULL; i++) {
        if (i > 0)
            gw_text_add_str(text, ".PP\n");
        add_character(text, (char)toupper((unsigned char)page->examples[i].meaning[0]));
        add_text(text, page->examples[i].meaning + 1, strlen(page->examples[i].meaning) - 1);
        gw_text_add_str(text, ":\n.PP\n.nf\n.RS\n");
        add_text(text, page->examples[i].name, strlen(page->examples[i].name));
        gw_text_add_str(text, "\n.RE\n.fi\n");
    }
}

static void add_reference(gw_text *text, const char *name, size_t bytes, bool is_last)
{
    gw_text_add_str(text, ".BR gpuwhy");
    if (bytes > 0)
        gw_text_addf(text, "\\-%.*s", (int)bytes, name);
    gw_text_addf(text, " (1)%s\n", is_last ? "" : " ,");
}

static void add_see_also(gw_text *text, const gwi_manual *page, const char *name)
{
    add_heading(text, "SEE ALSO");
    if (name == NULL) {
        size_t count;
        const gwi_command_row *commands = gwi_commands(&count);
        for (size_t i = 0; i < count; i++)
            add_reference(text, commands[i].name, strlen(commands[i].name), i + 1 == count);
        return;
    }
    const char *word = page->see_also == NULL ? "" : page->see_also;
    add_reference(text, "", 0, *word == '\0');
    while (*word != '\0') {
        size_t bytes = strcspn(word, " ");
        add_reference(text, word, bytes, word[bytes] == '\0');
        word += bytes + (word[bytes] != '\0');
    }
}

static void add_name(gw_text *text, const char *name, const char *help)
{
    gw_text_add_str(text, ".TH GPUWHY");
    if (name != NULL) {
        gw_text_add_str(text, "\\-");
        add_upper(text, name);
    }
    gw_text_add_str(text, " 1 " GW_MANUAL_DATE " \"gpuwhy " GW_PROGRAM_VERSION "\" \"gpuwhy\"\n");
    add_heading(text, "NAME");
    gw_text_addf(text, "gpuwhy%s%s \\- ", name != NULL ? "\\-" : "", name != NULL ? name : "");
    add_text(text, help, strlen(help));
    gw_text_add_str(text, "\n");
}

void gwi_manual_add_page(const gwi_manual *page, const char *name, const char *help, gw_text *text)
{
    gw_text_add_str(text, ".\\\" Generated by gpuwhy help --man.\n");
    add_name(text, name, help);
    add_heading(text, "SYNOPSIS");
    add_synopsis(text, page->usage);
    add_heading(text, "DESCRIPTION");
    add_about(text, page->about);
    if (name == NULL)
        add_commands(text);
    add_options(text, page);
    if (page->add_more != NULL)
        add_more(text, page);
    add_exits(text, page);
    add_rows(text, "ENVIRONMENT", page->environment);
    add_rows(text, "FILES", page->files);
    add_examples(text, page);
    add_see_also(text, page, name);
}
