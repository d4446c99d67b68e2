/* A page of text made of labelled paragraphs, printed whole or cut to one screen.
 *
 * Add the paragraphs in the order in which they are printed. gwi_page_print() prints all of them, unless gwi_page_fit()
 * has made a selection. Texts are copied, and their control characters are replaced. Use a page from one thread. */
#ifndef GWI_PAGE_H
#define GWI_PAGE_H

#include "gw_say.h"
#include "gw_text.h"
#include "gw_verdict.h"

#include <stdbool.h>
#include <stddef.h>

enum { GWI_LABEL_COLUMNS = 9 };

/* Content of a paragraph. The table in screen.c defines how many lines each section gets on one screen. */
typedef enum gwi_section {
    GWI_HEAD,
    GWI_VERDICT,
    GWI_WHERE,
    GWI_SOURCE, /* the user's line of source code, which is marked, and the lines around it */
    GWI_CALLED,
    GWI_WHERE_NOTE,
    GWI_KNOWN, /* known problems of the libraries */
    GWI_NEXT,
    GWI_WHY,
    GWI_RULED_OUT,
    GWI_COULD,
    GWI_CAUSE,   /* the heading "Possible causes", or one possible cause of the error that the user asked about */
    GWI_CONFIRM, /* how to confirm one of these causes */
    GWI_RUN,     /* attempts, and what gpuwhy did to the run */
    GWI_LATER,
    GWI_BEWARE,
    GWI_ALSO,
    GWI_DETAILS,
    GWI_SECTION_COUNT
} gwi_section;

typedef struct gwi_paragraph {
    gwi_section section;
    const char *label; /* static; printed once for consecutive paragraphs that share it; "": none */
    char *body;        /* owned */
    char *brief;       /* owned; printed instead of `body` if that saves lines on a screen; NULL: none */
    unsigned hang;     /* indentation of all lines after the first, in columns */
    bool verbatim; /* `body` is one line that is already cut to the width: print it unchanged, with all its blanks */
    bool marked;   /* in GWI_SOURCE: this is the user's own line, not one of the lines around it */
    bool spare;    /* in GWI_SOURCE: on a screen only if a line is left at the end */
    gw_role role;  /* colour of the first `role_bytes` bytes of the text */
    size_t role_bytes; /* SIZE_MAX: of all of it */
    /* the next two fields are set by gwi_page_fit() */
    char *shown; /* owned; the text to print; NULL: print `body` */
    bool hidden; /* do not print this paragraph */
} gwi_paragraph;

typedef struct gwi_page {
    gwi_paragraph *paragraph; /* owned */
    size_t count;
    unsigned width;
    bool colour;
    bool failed; /* out of memory: paragraphs may be missing */
} gwi_page;

/* Add a paragraph. `label` must be a static string. Returns the paragraph, valid until the next call of gwi_page_add(),
 * or NULL if out of memory. */
gwi_paragraph *gwi_page_add(gwi_page *page, gwi_section section, const char *label, const char *body, unsigned hang);
/* Set the brief form of the paragraph that was added last. */
void gwi_page_brief(gwi_page *page, const char *brief);
/* Set the colour of the paragraph that was added last: that of its first `bytes` bytes, or SIZE_MAX. */
void gwi_page_role(gwi_page *page, gw_role role, size_t bytes);
/* Select what to print in at most `lines` lines, the most important paragraphs first (screen.c). Returns how many lines
 * are left out, not counting the head. */
unsigned gwi_page_fit(gwi_page *page, unsigned lines);
/* Print what gwi_page_fit() selected, and all paragraphs that were added after that call. If gwi_page_fit() was not
 * called, print everything. */
void gwi_page_print(const gwi_page *page, gw_text *text);
void gwi_page_free(gwi_page *page);

/* Return the number of lines that the paragraph would take if `body` were its text. */
unsigned gwi_paragraph_lines(const gwi_page *page, const gwi_paragraph *paragraph, const char *body);
/* Return a copy of `body`, cut to `lines` lines. The cut is at the end of a clause, if this keeps at least 60 % of the
 * text that fits. The caller frees the result. Returns NULL if out of memory. */
char *gwi_paragraph_cut(const gwi_page *page, const gwi_paragraph *paragraph, const char *body, unsigned lines);

/* Return a copy of `body` with words longer than a line shortened in the middle: "/home/me/.../a.so". The caller frees
 * it. Returns NULL if out of memory. */
char *gwi_paragraph_narrow(const gwi_page *page, const gwi_paragraph *paragraph, const char *body);

/* Reads the line of source code at the user's frame, and the lines around it. Files of more than GW_SOURCE_BYTES_MAX
 * bytes are not read.
 *
 * A line is printed only if it is certainly the line that ran. The run was on this machine, the file is regular, and
 * its hash is the recorded one. So a recording that names a private file shows nothing of it, unless its author knew
 * the whole file. If no hash was recorded:
 * - The recording and the file belong to us.
 * - The file has not changed since the run began or, for native code, since the module was built from it.
 *
 * If another user owns the recording, it must have a hash, and gw_foreign_open() must open the file. */

enum { GWI_SOURCE_LINES = 3, GWI_SOURCE_LINE_MAX = 512 };

typedef enum gwi_source_state {
    GWI_SOURCE_NONE,    /* print nothing: no such line, not readable, not to be shown, or a run on another machine */
    GWI_SOURCE_CHANGED, /* the contents differ, or may differ, from those during the run */
    GWI_SOURCE_READ
} gwi_source_state;

typedef struct gwi_source {
    unsigned first;                                   /* line number of line[0], from 1 */
    unsigned count;                                   /* number of lines in `line` */
    char line[GWI_SOURCE_LINES][GWI_SOURCE_LINE_MAX]; /* raw bytes, without line ends; longer lines are truncated */
} gwi_source;

/* Read the line of the user's frame in verdict->where, and the lines around it. *ret_source is valid only if
 * GWI_SOURCE_READ is returned. */
gwi_source_state gwi_source_read(const gw_verdict *verdict, gwi_source *ret_source);

/* Add the line of the user's frame, the lines around it, and a mark under the part that was running, where it is known.
 * If the file has changed, add a note instead. verdict->where must not be NULL. */
void gwi_source_add(gwi_page *page, const gw_verdict *verdict);

#endif
