/* Formats the paragraphs of a page: wraps lines at the width and shortens texts. */
#include "gw_array.h"
#include "gw_render.h"
#include "gw_text.h"
#include "gwi_page.h"

#include <stdlib.h>
#include <string.h>

static unsigned add_body(const gwi_page *page, const gwi_paragraph *paragraph, const char *body, gw_text *text)
{
    unsigned column = paragraph->section == GWI_HEAD ? 0 : GWI_LABEL_COLUMNS;
    if (!paragraph->verbatim)
        return gw_add_wrapped(text, body, column, column + paragraph->hang, page->width);
    gw_text_addf(text, "%s\n", body);
    return 1;
}

unsigned gwi_paragraph_lines(const gwi_page *page, const gwi_paragraph *paragraph, const char *body)
{
    gw_text text = {0};
    unsigned lines = add_body(page, paragraph, body, &text);
    gw_text_free(&text);
    return lines;
}

/* ---- adding paragraphs ---- */

static char *printable(gwi_page *page, const char *foreign)
{
    gw_text clean = {0};
    gw_add_printable(&clean, foreign);
    char *copy = strdup(gw_text_str(&clean));
    page->failed = page->failed || clean.failed || copy == NULL;
    gw_text_free(&clean);
    return copy;
}

gwi_paragraph *gwi_page_add(gwi_page *page, gwi_section section, const char *label, const char *body, unsigned hang)
{
    char *copy = printable(page, body);
    bool good = gw_array_more(&page->paragraph, page->count, sizeof *page->paragraph);
    page->failed = page->failed || !good;
    if (!good || copy == NULL) {
        free(copy);
        return NULL;
    }
    gwi_paragraph *paragraph = &page->paragraph[page->count++];
    *paragraph = (gwi_paragraph){.section = section, .label = label, .body = copy, .hang = hang};
    return paragraph;
}

void gwi_page_brief(gwi_page *page, const char *brief)
{
    if (page->count == 0)
        return;
    gwi_paragraph *last = &page->paragraph[page->count - 1];
    free(last->brief);
    last->brief = printable(page, brief);
}

void gwi_page_role(gwi_page *page, gw_role role, size_t bytes)
{
    if (page->count == 0)
        return;
    page->paragraph[page->count - 1].role = role;
    page->paragraph[page->count - 1].role_bytes = bytes;
}

void gwi_page_free(gwi_page *page)
{
    for (size_t i = 0; i < page->count; i++) {
        free(page->paragraph[i].body);
        free(page->paragraph[i].brief);
        free(page->paragraph[i].shown);
    }
    free(page->paragraph);
    *page = (gwi_page){0};
}

/* ---- cutting ---- */

/* True if a clause ends before the space at `at`: the text may be cut there. */
static bool is_clause_end(const char *body, size_t at)
{
    return at > 0 && (strchr(":;.,", body[at - 1]) != NULL || body[at + 1] == '(');
}

static char *with_dots(const char *body, size_t bytes)
{
    while (bytes > 0 && strchr(" :;.,", body[bytes - 1]) != NULL)
        bytes--;
    gw_text text = {0};
    gw_text_addf(&text, "%.*s ...", (int)bytes, body);
    char *copy = text.failed ? NULL : strdup(gw_text_str(&text));
    gw_text_free(&text);
    return copy;
}

char *gwi_paragraph_cut(const gwi_page *page, const gwi_paragraph *paragraph, const char *body, unsigned lines)
{
    if (paragraph->verbatim || gwi_paragraph_lines(page, paragraph, body) <= lines)
        return strdup(body);
    enum { COLUMN_BYTES_MAX = 16 }; /* a character with its accents */
    size_t longest = 0, most = (size_t)lines * page->width * COLUMN_BYTES_MAX, at = strlen(body);
    for (at = at < most ? at : most; at-- > 0;) {
        if (body[at] != ' ' || (longest != 0 && !is_clause_end(body, at)))
            continue;
        if (longest != 0 && at * 5 < longest * 3)
            break; /* a cut at an earlier end of a clause would leave too little of the text */
        char *cut = with_dots(body, at);
        bool fits = cut != NULL && gwi_paragraph_lines(page, paragraph, cut) <= lines;
        if (cut == NULL || (fits && (longest != 0 || is_clause_end(body, at))))
            return cut;
        free(cut);
        longest = fits ? at : longest;
    }
    return with_dots(body, longest);
}

char *gwi_paragraph_narrow(const gwi_page *page, const gwi_paragraph *paragraph, const char *body)
{
    enum { DOTS = 3 };
    gw_text text = {0};
    unsigned column = (paragraph->section == GWI_HEAD ? 0 : GWI_LABEL_COLUMNS) + paragraph->hang;
    unsigned room = page->width > column + 2 * DOTS ? page->width - column : 2 * DOTS;
    while (*body != '\0' && !paragraph->verbatim) {
        size_t gap = strspn(body, " "), word = strcspn(body + gap, " ");
        gw_text_add(&text, body, gap);
        body += gap;
        if (gw_columns(body, word) > room) {
            size_t begin = gw_head_bytes(body, word, room / 3);
            size_t end = gw_tail_bytes(body, word, room - room / 3 - DOTS);
            gw_text_addf(&text, "%.*s...%.*s", (int)begin, body, (int)end, body + word - end);
        } else {
            gw_text_add(&text, body, word);
        }
        body += word;
    }
    gw_text_add_str(&text, body);
    char *copy = text.failed ? NULL : strdup(gw_text_str(&text));
    gw_text_free(&text);
    return copy;
}

/* ---- printing ---- */

static void add_label(const gwi_page *page, const char *label, gw_text *text)
{
    size_t from = text->bytes;
    gw_text_addf(text, "%-*s", GWI_LABEL_COLUMNS, label);
    if (page->colour)
        gw_paint_begin(text, from, label, strlen(label), GW_ROLE_STRONG);
}

void gwi_page_print(const gwi_page *page, gw_text *text)
{
    const char *last = "";
    for (size_t i = 0; i < page->count; i++) {
        const gwi_paragraph *paragraph = &page->paragraph[i];
        if (paragraph->hidden)
            continue;
        if (paragraph->section != GWI_HEAD)
            add_label(page, strcmp(paragraph->label, last) == 0 ? "" : paragraph->label, text);
        last = paragraph->label;
        size_t from = text->bytes;
        const char *body = paragraph->shown == NULL ? paragraph->body : paragraph->shown;
        add_body(page, paragraph, body, text);
        if (page->colour)
            gw_paint_begin(text, from, body, paragraph->role_bytes, paragraph->role);
        if (paragraph->section == GWI_HEAD)
            gw_text_add(text, "\n", 1);
    }
    text->failed = text->failed || page->failed;
}
