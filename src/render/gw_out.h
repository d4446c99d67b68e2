/* Verdicts rendered: text for people, JSON for programs. Nothing is computed here, everything comes from
 * the gw_verdict. All calls may be made from any thread; nothing is kept between them. */
#ifndef GW_OUT_H
#define GW_OUT_H

#include "gw_status.h"
#include "gw_text.h"
#include "gw_verdict.h"

#include <stdbool.h>

/* The version of the JSON schema; docs/json-schema.md is its description. */
enum { GW_JSON_SCHEMA = 1 };

typedef struct gw_out_style {
    unsigned width;    /* columns to wrap at; 0: 80 */
    bool colour;       /* the reader is a terminal that wants it */
    bool running;      /* the program is alive: do not print that its end is not known */
    bool all;          /* everything, not one screen */
    const char *again; /* the command that prints everything, after "12 more lines: "; NULL: gpuwhy explain --all with
                          the verdict's recording */
} gw_out_style;

/* The lines of a screen: of a terminal of 24, one is left to the shell's next prompt. */
enum { GW_OUT_LINES = 23 };

/* Add the verdict as text to `text`: a head line, then labelled paragraphs, each line with its newline. Unless
 * style->all, the text has at most GW_OUT_LINES lines of 80 columns or more, and its last line says how many were left
 * out. Control characters of foreign strings (arguments, log lines, source files) become '?'.
 *
 * Under the verdict's place stands the user's line of source, where its file is on this machine and was not
 * changed since (gwi_source.h). */
void gw_out_text(const gw_verdict *verdict, const gw_out_style *style, gw_text *text);

/* Add the verdict as one JSON object and a newline. GW_OK; GW_NOMEM. Unless
 * GW_OK, `text` is unchanged. */
GW_MUST_CHECK gw_status gw_out_json(const gw_verdict *verdict, gw_text *text, gw_error *err);

/* Add `string` with every control character and every byte that is not part of valid UTF-8 replaced by '?': it may
 * come from the program's arguments or its stderr, and must not steer the reader's terminal. */
void gw_out_add_printable(gw_text *text, const char *string);

/* Add `string` as valid UTF-8: wrong bytes become U+FFFD, control characters stay (JSON escapes them). */
void gw_out_add_utf8(gw_text *text, const char *string);

#endif
