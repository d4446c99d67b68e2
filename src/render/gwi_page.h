/* A page of text: labelled paragraphs, whole or as one screen.
 *
 * Paragraphs are added in the order in which they are printed. gwi_page_print() prints all of them;
 * gwi_page_fit() first decides which of them, and how much of each, are worth a line of a screen.
 * Texts are copied, and their control characters replaced. One thread. */
#ifndef GWI_PAGE_H
#define GWI_PAGE_H

#include "gw_text.h"

#include <stdbool.h>
#include <stddef.h>

enum { GWI_LABEL_COLUMNS = 9 };

/* What a paragraph is about. screen.c has a row for each. */
typedef enum gwi_section {
    GWI_HEAD,
    GWI_VERDICT,
    GWI_WHERE,
    GWI_SOURCE, /* the user's line: one that is marked, and its neighbours */
    GWI_CALLED,
    GWI_WHERE_NOTE,
    GWI_NEXT,
    GWI_WHY,
    GWI_RULED_OUT,
    GWI_COULD,
    GWI_CAUSE,   /* one that a code may come from */
    GWI_CONFIRM, /* what would establish it */
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
    char *brief;       /* owned; printed instead of `body` where that saves lines of a screen; NULL: none */
    unsigned hang;     /* further lines are indented by so much */
    bool verbatim;     /* one line as it is, spaces and all: it was cut to the width already */
    bool marked;       /* of GWI_SOURCE: the user's line itself, not a neighbour */
    /* by gwi_page_fit() */
    char *shown; /* owned; what is printed; NULL: the body */
    bool hidden; /* nothing is */
} gwi_paragraph;

typedef struct gwi_page {
    gwi_paragraph *paragraph; /* owned */
    size_t count;
    unsigned width;
    bool colour;
    bool failed; /* no memory: what is there may lack a part */
} gwi_page;

/* `label` is static. The paragraph is valid until the next call; NULL: no memory. */
gwi_paragraph *gwi_page_add(gwi_page *page, gwi_section section, const char *label, const char *body, unsigned hang);
/* The same for the paragraph that was added last. */
void gwi_page_brief(gwi_page *page, const char *brief);
/* Choose what is printed, `lines` lines at most where the head and the verdict leave room. Returns how many lines of
 * the whole page that leaves out; words cut from the head do not count. */
unsigned gwi_page_fit(gwi_page *page, unsigned lines);
/* What gwi_page_fit() chose, and what was added since; without it, everything. */
void gwi_page_print(const gwi_page *page, gw_text *text);
void gwi_page_free(gwi_page *page);

/* For screen.c: lines that `body` takes in place of the paragraph's own. */
unsigned gwi_paragraph_lines(const gwi_page *page, const gwi_paragraph *paragraph, const char *body);
/* As much of `body` as fits into `lines` lines, at the end of a clause where one is near: the caller frees it; NULL: no
 * memory. */
char *gwi_paragraph_cut(const gwi_page *page, const gwi_paragraph *paragraph, const char *body, unsigned lines);

/* `body` with no word longer than a line: "/home/me/.../a.so". The caller frees it; NULL: no memory. */
char *gwi_paragraph_narrow(const gwi_page *page, const gwi_paragraph *paragraph, const char *body);

/* Columns that a string takes: a UTF-8 sequence counts as one. Good enough for what we print. */
unsigned gwi_columns(const char *string, size_t bytes);

#endif
