/* Selects the lines of a verdict to show on one screen.
 *
 * The most important parts must be on it: the verdict, the place, what to do, and the decisive evidence. The table
 * `rules` lists which paragraphs receive lines first, and how many at most. Paragraphs of a section are sorted by
 * importance. If one does not fit, the later ones are left out. */
#include "gwi_page.h"

#include <limits.h>
#include <stdlib.h>

enum { WHY_LINES_MAX = 8, NEXT_LINES_MAX = 8, ALL = UCHAR_MAX };

typedef struct rule {
    unsigned char section;
    unsigned char count; /* the rule covers the first `count` paragraphs of the section */
    unsigned char lines; /* maximum lines of each paragraph */
} rule;

static const rule rules[] = {
    {GWI_HEAD, 1, 2},     {GWI_VERDICT, 1, 4}, {GWI_WHERE, 1, 2}, {GWI_CALLED, 1, 2},     {GWI_KNOWN, 1, 2},
    {GWI_NEXT, 1, 2},     {GWI_WHY, 1, 3},     {GWI_RUN, 4, 2},   {GWI_KNOWN, 2, 2},      {GWI_CAUSE, 4, 1},
    {GWI_SOURCE, ALL, 1}, {GWI_WHY, 2, 2},     {GWI_NEXT, 2, 2},  {GWI_COULD, 1, 1},      {GWI_WHY, 4, 2},
    {GWI_CAUSE, 9, 1},    {GWI_NEXT, 4, 2},    {GWI_WHY, ALL, 3}, {GWI_RULED_OUT, 1, 2},  {GWI_BEWARE, 1, 2},
    {GWI_LATER, 1, 2},    {GWI_ALSO, 2, 2},    {GWI_LATER, 4, 2}, {GWI_WHERE_NOTE, 1, 2}, {GWI_BEWARE, ALL, 2},
    {GWI_ALSO, ALL, 2},
};
enum { RULE_COUNT = sizeof rules / sizeof rules[0] };

/* Sections that share a limit on their number of lines are in POOL_WHY or POOL_NEXT. All others are in POOL_REST,
 * without a limit. */
typedef enum pool { POOL_REST, POOL_WHY, POOL_NEXT, POOL_COUNT } pool;

static pool pool_of(gwi_section section)
{
    if (section == GWI_NEXT)
        return POOL_NEXT;
    return section == GWI_WHY || section == GWI_RULED_OUT || section == GWI_COULD ? POOL_WHY : POOL_REST;
}

typedef struct screen {
    gwi_page *page;
    unsigned left;
    unsigned left_of[POOL_COUNT];
    bool closed[GWI_SECTION_COUNT];
} screen;

static unsigned lines_shown(const gwi_page *page, const gwi_paragraph *paragraph)
{
    if (paragraph->shown == NULL)
        return 0;
    return gwi_paragraph_lines(page, paragraph, paragraph->shown) + (paragraph->section == GWI_HEAD);
}

/* Return the text to show, in at most `lines` lines: the body, or the brief form if the body is longer. Words
 * longer than a line are shortened in the middle. */
static char *text_for(gwi_page *page, const gwi_paragraph *paragraph, unsigned lines)
{
    unsigned whole = gwi_paragraph_lines(page, paragraph, paragraph->body);
    const char *body = whole > lines && paragraph->brief != NULL ? paragraph->brief : paragraph->body;
    char *narrow = gwi_paragraph_narrow(page, paragraph, body);
    char *text = narrow == NULL ? NULL : gwi_paragraph_cut(page, paragraph, narrow, lines);
    free(narrow);
    page->failed = page->failed || text == NULL;
    return text;
}

/* Show the paragraph in at most `lines` lines. If there is no room or no memory, return false and change nothing. */
static bool show(screen *it, gwi_paragraph *paragraph, unsigned lines)
{
    pool of = pool_of(paragraph->section);
    unsigned before = lines_shown(it->page, paragraph);
    char *text = text_for(it->page, paragraph, lines), *shown = paragraph->shown;
    if (text == NULL)
        return false;
    paragraph->shown = text;
    unsigned more = lines_shown(it->page, paragraph) - before;
    if (more > it->left || more > it->left_of[of]) {
        paragraph->shown = shown;
        free(text);
        return false;
    }
    free(shown);
    it->left -= more;
    it->left_of[of] -= more;
    return true;
}

static unsigned room_for(const screen *it, gwi_section section)
{
    unsigned room = it->left_of[pool_of(section)];
    return it->left < room ? it->left : room;
}

/* Show the user's line of source code with the lines around it, or alone if there is too little room. */
static void show_source(screen *it)
{
    unsigned lines = 0;
    for (size_t i = 0; i < it->page->count; i++)
        lines += it->page->paragraph[i].section == GWI_SOURCE && !it->page->paragraph[i].spare;
    bool alone = lines > it->left;
    for (size_t i = 0; i < it->page->count; i++) {
        gwi_paragraph *paragraph = &it->page->paragraph[i];
        if (paragraph->section == GWI_SOURCE && !paragraph->spare && (paragraph->marked || !alone))
            (void)show(it, paragraph, 1);
    }
}

static void show_spare(screen *it)
{
    for (size_t i = 0; i < it->page->count; i++)
        if (it->page->paragraph[i].spare && it->page->paragraph[i].shown == NULL)
            (void)show(it, &it->page->paragraph[i], 1);
}

/* Show a paragraph within the limits of a rule. A longer text is not shown if only one line is left, because one
 * line of it is of little use. */
static bool show_by(screen *it, gwi_paragraph *paragraph, const rule *one)
{
    unsigned room = room_for(it, paragraph->section);
    unsigned lines = room < one->lines ? room : one->lines;
    if (lines == 1 && one->lines > 1 && gwi_paragraph_lines(it->page, paragraph, paragraph->body) > 1 &&
        (paragraph->brief == NULL || gwi_paragraph_lines(it->page, paragraph, paragraph->brief) > 1))
        return false;
    return lines > 0 && show(it, paragraph, lines);
}

static void follow(screen *it, const rule *one)
{
    unsigned seen = 0;
    for (size_t i = 0; i < it->page->count && !it->closed[one->section]; i++) {
        gwi_paragraph *paragraph = &it->page->paragraph[i];
        if (paragraph->section != one->section || seen++ >= one->count || paragraph->shown != NULL)
            continue;
        it->closed[one->section] = !show_by(it, paragraph, one);
    }
}

/* Use the lines that are still free to show more of the paragraphs that were cut, in the order of the page. */
static void fill(screen *it)
{
    for (size_t i = 0; i < it->page->count && it->left > 0; i++) {
        gwi_paragraph *paragraph = &it->page->paragraph[i];
        if (paragraph->shown != NULL && paragraph->section != GWI_HEAD && paragraph->section != GWI_NEXT &&
            paragraph->section != GWI_SOURCE)
            (void)show(it, paragraph, lines_shown(it->page, paragraph) + room_for(it, paragraph->section));
    }
}

/* Return the number of lines that the whole paragraph takes. Words longer than a line are shortened first, as when it
 * is printed. */
static unsigned lines_printed(gwi_page *page, const gwi_paragraph *paragraph)
{
    char *narrow = gwi_paragraph_narrow(page, paragraph, paragraph->body);
    unsigned lines = narrow == NULL ? 0 : gwi_paragraph_lines(page, paragraph, narrow);
    page->failed = page->failed || narrow == NULL;
    free(narrow);
    return lines;
}

unsigned gwi_page_fit(gwi_page *page, unsigned lines)
{
    screen it = {.page = page, .left = lines, .left_of = {UINT_MAX, WHY_LINES_MAX, NEXT_LINES_MAX}};
    static const rule confirm = {GWI_CONFIRM, ALL, 3};
    unsigned left_out = 0;
    for (size_t i = 0; i < RULE_COUNT; i++) {
        if (rules[i].section == GWI_SOURCE)
            show_source(&it);
        else
            follow(&it, &rules[i]);
    }
    fill(&it);
    show_spare(&it);
    follow(&it, &confirm); /* if lines are left, show how to confirm the causes */
    for (size_t i = 0; i < page->count; i++) {
        gwi_paragraph *paragraph = &page->paragraph[i];
        unsigned whole = lines_printed(page, paragraph), shown = lines_shown(page, paragraph);
        paragraph->hidden = paragraph->shown == NULL;
        if (paragraph->section != GWI_HEAD)
            left_out += whole > shown ? whole - shown : 0;
    }
    return left_out;
}
