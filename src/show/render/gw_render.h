/* Renders verdicts as text for people or as JSON for programs. Only the line of source code is not from the gw_verdict.
 * Any thread may call the functions. */
#ifndef GW_RENDER_H
#define GW_RENDER_H

#include "gw_compare.h"
#include "gw_status.h"
#include "gw_text.h"
#include "gw_verdict.h"
#include "gw_whatif.h"

#include <stdbool.h>

/* The version of the JSON schema, which docs/json-schema.md describes. */
enum { GW_JSON_SCHEMA = 1 };

typedef struct gw_render_style {
    unsigned width;    /* columns to wrap at; 0: 80 */
    bool colour;       /* the output is a terminal, and colours are wanted */
    bool running;      /* the program is still running: print "is running" if the exit status is unknown */
    bool all;          /* print everything instead of one screen */
    const char *again; /* command that the last line suggests for the full text; NULL: gpuwhy explain --all */
} gw_render_style;

/* Number of lines that fit on one screen: a terminal has 24 lines, and the shell needs one for its next prompt. */
enum { GW_RENDER_LINES = 23 };

/* Add the verdict as text to `text`: a head line, then labelled paragraphs. Control characters in strings from
 * elsewhere become '?'.
 *
 * Without style->all, the text has at most GW_RENDER_LINES lines if the width is 80 columns or more. Its last line then
 * has the number of lines that were left out.
 *
 * The source line of the user's frame is printed if the file exists here and is unchanged since the run
 * (gwi_page.h). */
void gw_render_text(const gw_verdict *verdict, const gw_render_style *style, gw_text *text);

/* Append the verdict as a short text for a narrow reader, such as the termination message of a container: the head
 * line, the verdict, the place, what to do, the command that explains the recording, and the first lines of evidence.
 * It has no colours, and at most `bytes_max` bytes: a longer text ends after a complete line, and its last line says
 * that it is cut. Appends nothing if not even the first line and that last line fit, or if out of memory
 * (text->failed). */
void gw_render_message(const gw_verdict *verdict, size_t bytes_max, gw_text *text);

/* Append one line about the run: the command, how it ended, and the cards. If `running`, an unknown end is "is
 * running". Strings from elsewhere are unchanged: pass the line through gw_text.h before printing it. */
void gw_render_head(const gw_verdict *verdict, bool running, gw_text *text);

/* Append the source line of the user's frame in verdict->where and the lines around it, as gw_render_text() prints them
 * after "Where": one line each, without control characters. The line itself begins with '>'. A file that has changed
 * gives a sentence instead. Appends nothing if no line may be shown (gwi_page.h). */
void gw_render_source(const gw_verdict *verdict, gw_text *text);

/* Add the answer of a rehearsal as text: whether the program fits, and its peak. `verdict->rehearsal` must not be NULL.
 * Only the width and the colour of `style` are used. */
void gw_render_rehearsal(const gw_verdict *verdict, const gw_render_style *style, gw_text *text);

/* Add the verdict to `text` as one JSON object and a newline. Returns GW_NOMEM, with `text` unchanged, if out of
 * memory. */
GW_MUST_CHECK gw_status gw_render_json(const gw_verdict *verdict, gw_text *text, gw_error *err);

/* Render comparisons of runs as text for people and as JSON for programs. The rules of gw_render.h apply. */

/* Add the comparison of `good` and `bad` to `text`, for people. Long lists of differences are cut. */
void gw_render_comparison_text(const gw_comparison *comparison, gw_portrait *good, gw_portrait *bad, bool colour,
                               gw_text *text);

/* Add the comparison to `text` as one JSON object and a newline (docs/json-schema.md). Returns GW_OK, or GW_NOMEM
 * with `text` unchanged. */
GW_MUST_CHECK gw_status gw_render_comparison_json(const gw_comparison *comparison, gw_portrait *good, gw_portrait *bad,
                                                  gw_text *text, gw_error *err);

/* Render replays of PyTorch's allocator as text for people and as JSON for programs. The rules of gw_render.h apply. */

/* What a replay is about. All strings are borrowed. */
typedef struct gw_whatif_story {
    const char *recording;   /* path */
    const char *command;     /* the program's command line; NULL: not known */
    const char *impossible;  /* why there is no replay; NULL: there is one, in `whatif` */
    const gw_whatif *whatif; /* NULL if impossible */
    int device;
    unsigned torch_version; /* 100 * major + minor; 0: not known */
} gw_whatif_story;

/* `colour`: with escape sequences for a terminal (gw_say.h). */
void gw_render_whatif_text(const gw_whatif_story *story, bool colour, gw_text *text);

/* Add the replays to `text` as one JSON object and a newline (docs/json-schema.md). Returns GW_OK or GW_NOMEM. On
 * failure, `text` is unchanged. */
GW_MUST_CHECK gw_status gw_render_whatif_json(const gw_whatif_story *story, gw_text *text, gw_error *err);

#endif
