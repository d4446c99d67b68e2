/* A page of text made of labelled paragraphs, printed whole or as one screen.
 *
 * Paragraphs are added in the order in which they are printed. gwi_page_print() prints all of them. gwi_page_fit()
 * first selects which of them, and how much of each, to show on one screen. Texts are copied, and their control
 * characters replaced. Use a page from one thread. */
#ifndef GWI_PAGE_H
#define GWI_PAGE_H

#include "gw_text.h"

#include <stdbool.h>
#include <stddef.h>

enum { GWI_LABEL_COLUMNS = 9 };

/* Content of a paragraph. screen.c has the rules for each section. */
typedef enum gwi_section {
    GWI_HEAD,
    GWI_VERDICT,
    GWI_WHERE,
    GWI_SOURCE, /* the user's source line, which is marked, and the lines around it */
    GWI_CALLED,
    GWI_WHERE_NOTE,
    GWI_NEXT,
    GWI_WHY,
    GWI_RULED_OUT,
    GWI_COULD,
    GWI_CAUSE,   /* the heading of the possible causes of an error code, and each of them */
    GWI_CONFIRM, /* how to confirm the cause */
    GWI_LATER,
    GWI_BEWARE,
    GWI_ALSO,
    GWI_DETAILS,
    GWI_SECTION_COUNT
} gwi_section;

typedef struct gwi_paragraph {
    gwi_section section;
    const char *label; /* static; printed before the first of several paragraphs that share it; "": none */
    char *body;        /* owned */
    char *brief;       /* owned; printed instead of `body` if that saves lines on a screen; NULL: none */
    unsigned hang;     /* indentation of all lines after the first */
    bool verbatim;     /* print the line unchanged, with its blanks; it already has the right width */
    bool marked;       /* in GWI_SOURCE: the user's own line, not a neighbour */
    /* set by gwi_page_fit() */
    char *shown; /* owned; the text to print; NULL: the body */
    bool hidden; /* do not print this paragraph */
} gwi_paragraph;

typedef struct gwi_page {
    gwi_paragraph *paragraph; /* owned */
    size_t count;
    unsigned width;
    bool colour;
    bool failed; /* out of memory: paragraphs may be missing */
} gwi_page;

/* Add a paragraph. `label` is static. Returns the paragraph, which is valid until the next
 * call of gwi_page_add(), or NULL if out of memory. */
gwi_paragraph *gwi_page_add(gwi_page *page, gwi_section section, const char *label, const char *body, unsigned hang);
/* Set the brief form of the last paragraph. */
void gwi_page_brief(gwi_page *page, const char *brief);
/* Select what to print in at most `lines` lines. Head and verdict are printed even if they need more. Returns the
 * number of lines of the whole page that are left out. Words cut from the head do not count. */
unsigned gwi_page_fit(gwi_page *page, unsigned lines);
/* Print what gwi_page_fit() selected and all paragraphs added after it. Without gwi_page_fit(), print everything. */
void gwi_page_print(const gwi_page *page, gw_text *text);
void gwi_page_free(gwi_page *page);

/* Return the number of lines that the paragraph would take with `body` in place of its own body. */
unsigned gwi_paragraph_lines(const gwi_page *page, const gwi_paragraph *paragraph, const char *body);
/* Return the part of `body` that fits into `lines` lines, cut at the end of a clause if one is near. The caller frees
 * the result. Returns NULL if out of memory. */
char *gwi_paragraph_cut(const gwi_page *page, const gwi_paragraph *paragraph, const char *body, unsigned lines);

/* Return `body` with long words shortened to the width of a line: "/home/me/.../a.so". The caller frees the result.
 * Returns NULL if out of memory. */
char *gwi_paragraph_narrow(const gwi_page *page, const gwi_paragraph *paragraph, const char *body);

#endif
