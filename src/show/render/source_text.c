/* Writes the user's line of source code, the lines around it, and a mark under the part that was running:
 *
 *      30 |     loss = criterion(model(x), y)
 *    > 31 |     losses.append(loss * scale(x))
 *         |                          ^^^^^^^^
 *
 * Of a line of C or C++, only the beginning of that part is known, so the mark is a single "^".
 */
#include "gw_text.h"
#include "gwi_page.h"
#include "gwi_source.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { TAB_COLUMNS = 4 };

/* Copy a source line. Replace tabs by spaces, and remove a carriage return at the end. add_source_line() later replaces
 * other control characters by '?'. */
static void expand(const char *raw, gw_text *line)
{
    for (const char *c = raw; *c != '\0'; c++) {
        if (*c == '\t')
            gw_text_add(line, "        ", TAB_COLUMNS);
        else if (*c != '\r' || c[1] != '\0')
            gw_text_add(line, c, 1);
    }
}

static size_t indent_of(const char *line)
{
    size_t indent = strspn(line, " ");
    return line[indent] == '\0' ? SIZE_MAX : indent;
}

/* True for a line without a letter or digit. Around the user's line, such lines are not printed. */
static bool says_nothing(const char *line)
{
    for (; *line != '\0'; line++) {
        unsigned char c = (unsigned char)*line;
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c >= 0x80)
            return false;
    }
    return true;
}

/* Add a line of source, cut to the width. */
static void add_source_line(gwi_page *page, const char *gutter, const char *code, bool marked)
{
    gw_text line = {0}, clean = {0};
    gw_add_printable(&clean, code);
    const char *text = gw_text_str(&clean);
    size_t bytes = strlen(text), room = page->width - GWI_LABEL_COLUMNS - strlen(gutter);
    bool cut = gw_columns(text, bytes) > room;
    while (bytes > 0 && (((unsigned char)text[bytes] & 0xC0) == 0x80 || gw_columns(text, bytes) + (cut ? 3 : 0) > room))
        bytes--;
    gw_text_addf(&line, "%s%.*s%s", gutter, (int)bytes, text, cut ? "..." : "");
    gwi_paragraph *paragraph = gwi_page_add(page, GWI_SOURCE, "Where", gw_text_str(&line), 0);
    if (paragraph != NULL) {
        paragraph->verbatim = true;
        paragraph->marked = marked;
        gwi_page_role(page, marked ? GW_ROLE_STRONG : GW_ROLE_DIM, SIZE_MAX);
    }
    gw_text_free(&line);
    gw_text_free(&clean);
}

/* ---- the mark ---- */

/* Return the number of columns of the first `bytes` bytes of a source line, as it is printed. */
static unsigned columns_of(const char *raw, size_t bytes)
{
    gw_text part = {0}, shown = {0};
    gw_text_add(&part, raw, bytes);
    expand(gw_text_str(&part), &shown);
    unsigned columns = gw_columns(gw_text_str(&shown), shown.bytes);
    gw_text_free(&part);
    gw_text_free(&shown);
    return columns;
}

/* True if the columns of the frame are a place in `raw`. They count bytes of UTF-8 without a byte order mark, so a line
 * with other bytes has no mark. */
static bool has_columns(const char *raw, const gw_where_frame *frame)
{
    gw_text clean = {0};
    gw_add_utf8(&clean, raw);
    bool good = frame->column < frame->column_end && frame->column_end <= strlen(raw) &&
                !gw_begins(raw, "\xEF\xBB\xBF") && strcmp(gw_text_str(&clean), raw) == 0;
    gw_text_free(&clean);
    return good;
}

/* True if the columns are the whole line, apart from blanks. */
static bool is_whole_line(const char *raw, const gw_where_frame *frame)
{
    const char *rest = raw + frame->column_end;
    return strspn(raw, " \t") >= frame->column && rest[strspn(rest, " \t\r")] == '\0';
}

/* Add a line with a mark under the part of the user's line `raw` that was running, if that part is known and is not the
 * whole line. `indent` columns of the line are not printed. */
static void add_mark(gwi_page *page, const char *raw, const gw_where_frame *frame, size_t indent, int digits)
{
    gw_text line = {0};
    if (!has_columns(raw, frame) || is_whole_line(raw, frame))
        return;
    size_t begin = columns_of(raw, frame->column);
    size_t end = frame->python ? columns_of(raw, frame->column_end) : begin + 1; /* only the beginning is known */
    gw_text_addf(&line, "  %*s | ", digits, "");
    size_t room = page->width - GWI_LABEL_COLUMNS, gutter = line.bytes;
    for (size_t i = indent; i < end && line.bytes < room; i++)
        gw_text_add(&line, i < begin ? " " : "^", 1);
    bool is_visible = begin >= indent && gutter + begin - indent < line.bytes;
    gwi_paragraph *paragraph = is_visible ? gwi_page_add(page, GWI_SOURCE, "Where", gw_text_str(&line), 0) : NULL;
    if (paragraph != NULL) {
        paragraph->verbatim = true;
        paragraph->marked = frame->python;
        paragraph->spare = !frame->python; /* a beginning alone says less than the callers */
        gwi_page_role(page, GW_ROLE_FAILED, SIZE_MAX);
    }
    gw_text_free(&line);
}

/* ---- the lines ---- */

/* Add the user's line and the lines around it, without the indentation that all of them share. */
static void add_lines(gwi_page *page, const gwi_source *source, const gw_where_frame *frame)
{
    unsigned wanted = frame->line;
    gw_text line[GWI_SOURCE_LINES] = {{0}};
    size_t indent = SIZE_MAX;
    int digits = snprintf(NULL, 0, "%u", source->first + source->count - 1);
    for (unsigned i = 0; i < source->count; i++) {
        expand(source->line[i], &line[i]);
        bool left_out = source->first + i != wanted && says_nothing(gw_text_str(&line[i]));
        size_t one = left_out ? SIZE_MAX : indent_of(gw_text_str(&line[i]));
        indent = one < indent ? one : indent;
    }
    for (unsigned i = 0; i < source->count; i++) {
        char gutter[32];
        const char *code = gw_text_str(&line[i]);
        bool marked = source->first + i == wanted, blank = indent_of(code) == SIZE_MAX;
        if (marked || !says_nothing(code)) {
            snprintf(gutter, sizeof gutter, "%s %*u | ", marked ? ">" : " ", digits, source->first + i);
            add_source_line(page, gutter, blank ? "" : code + indent, marked);
        }
        if (marked && !blank)
            add_mark(page, source->line[i], frame, indent, digits);
        gw_text_free(&line[i]);
    }
}

void gwi_source_add(gwi_page *page, const gw_verdict *verdict)
{
    gwi_source source;
    const gw_where_frame *frame = &verdict->where->frame[verdict->where->user];
    gwi_source_state state = gwi_source_read(verdict, &source);
    if (state == GWI_SOURCE_READ)
        add_lines(page, &source, frame);
    else if (state == GWI_SOURCE_CHANGED)
        gwi_page_add(page, GWI_WHERE_NOTE, "Where",
                     "the source line is not shown because the file has changed since the run", 2);
}
