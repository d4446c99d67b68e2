/* Writes the user's line of source code, the lines around it, and a mark under the part that was running:
 *
 *      30 |     loss = criterion(model(x), y)
 *    > 31 |     losses.append(loss * scale(x))
 *         |                          ^^^^^^^^
 *
 * Of a line of C or C++, only the beginning of that part is known, so the mark is a single "^".
 */
#include "gw_mask.h"
#include "gw_own.h"
#include "gw_render.h"
#include "gw_sites.h"
#include "gw_text.h"
#include "gwi_page.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Reads the line of the user's frame and the lines around it from the source file, if the file is unchanged since the
 * run. */

/* True if the run was on this machine. A file of the same name on another machine may be different. */
static bool is_this_machine(const gw_verdict_run *run)
{
    char host[256] = "";
    return run->host != NULL && gethostname(host, sizeof host - 1) == 0 && strcmp(host, run->host) == 0;
}

static bool take_lines(const char *data, size_t bytes, uint32_t wanted, gwi_source *source)
{
    const char *at = data, *end = data + bytes;
    *source = (gwi_source){.first = wanted > 1 ? wanted - 1 : 1};
    for (uint32_t line = 1; at < end && line <= wanted + 1; line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t length = (size_t)((stop == NULL ? end : stop) - at);
        if (line >= source->first)
            memcpy(source->line[source->count++], at, length < GWI_SOURCE_LINE_MAX ? length : GWI_SOURCE_LINE_MAX - 1);
        at = stop == NULL ? end : stop + 1;
    }
    return source->first + source->count > wanted;
}

/* Open the file if its lines may be shown. Returns -1 if not. */
static int open_source(const gw_verdict *verdict, const char *path, struct stat *ret_info)
{
    bool has_hash = verdict->where->sha256[0] != '\0';
    int fd = -1;
    if (verdict->run.owner == geteuid())
        (void)!gw_plain_open(path, true, &fd, NULL);
    else if (has_hash)
        fd = gw_foreign_open(path, verdict->run.owner);
    if (fd < 0 || (fstat(fd, ret_info) == 0 && (has_hash || ret_info->st_uid == geteuid())))
        return fd;
    close(fd);
    return -1;
}

gwi_source_state gwi_source_read(const gw_verdict *verdict, gwi_source *ret_source)
{
    char path[PATH_MAX], sha256[GW_SHA256_TEXT_MAX];
    struct stat info;
    size_t bytes;
    const gw_where *where = verdict->where;
    const gw_verdict_run *run = &verdict->run;
    const gw_where_frame *frame = where == NULL ? NULL : &where->frame[where->user];
    if (frame == NULL || frame->file == NULL || frame->line == 0 || frame->line == UINT32_MAX || !run->has_start ||
        !is_this_machine(run) || !gw_source_path(run->cwd, frame->file, path))
        return GWI_SOURCE_NONE;
    int fd = open_source(verdict, path, &info);
    if (fd < 0)
        return GWI_SOURCE_NONE;
    char *data = gw_source_read(fd, GW_SOURCE_BYTES_MAX, &bytes, sha256);
    bool changed = where->sha256[0] != '\0'
                       ? data != NULL && strcmp(sha256, where->sha256) != 0
                       : gw_source_may_have_changed(&info, run->start_realtime_ns, frame->python, frame->module);
    gwi_source_state state = changed ? GWI_SOURCE_CHANGED : GWI_SOURCE_NONE;
    if (!changed && data != NULL && take_lines(data, bytes, frame->line, ret_source))
        state = GWI_SOURCE_READ;
    free(data);
    close(fd);
    return state;
}

enum { TAB_COLUMNS = 4 };

/* Copy a source line. Replace tabs by spaces, and remove a carriage return at the end. add_source_line() later masks
 * secrets, and replaces other control characters by '?'. */
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
    gw_text line = {0}, masked = {0}, clean = {0};
    gw_mask_text(&masked, code, strlen(code));
    gw_add_printable(&clean, gw_text_str(&masked));
    const char *text = gw_text_str(&clean);
    size_t bytes = strlen(text), room = page->width - GWI_LABEL_COLUMNS - strlen(gutter);
    bool cut = gw_columns(text, bytes) > room;
    bytes = gw_head_bytes(text, bytes, (unsigned)room - (cut ? 3 : 0));
    gw_text_addf(&line, "%s%.*s%s", gutter, (int)bytes, text, cut ? "..." : "");
    gwi_paragraph *paragraph = gwi_page_add(page, GWI_SOURCE, "Where", gw_text_str(&line), 0);
    if (paragraph != NULL) {
        paragraph->verbatim = true;
        paragraph->marked = marked;
        gwi_page_role(page, marked ? GW_ROLE_STRONG : GW_ROLE_DIM, SIZE_MAX);
    }
    gw_text_free(&line);
    gw_text_free(&masked);
    gw_text_free(&clean);
}

/* ---- the mark ---- */

/* Return the number of columns of the first `bytes` bytes of a source line, as it is printed. */
static unsigned columns_of(const char *raw, size_t bytes)
{
    gw_text part = {0}, expanded = {0}, shown = {0};
    gw_text_add(&part, raw, bytes);
    expand(gw_text_str(&part), &expanded);
    gw_add_printable(&shown, gw_text_str(&expanded));
    unsigned columns = gw_columns(gw_text_str(&shown), shown.bytes);
    gw_text_free(&part);
    gw_text_free(&expanded);
    gw_text_free(&shown);
    return columns;
}

/* True if the columns of the frame are a place in `raw`. They count bytes of UTF-8 without a byte order mark, so a line
 * with other bytes, or with a masked secret, has no mark. */
static bool has_columns(const char *raw, const gw_where_frame *frame)
{
    gw_text clean = {0}, masked = {0};
    gw_add_utf8(&clean, raw);
    gw_mask_text(&masked, raw, strlen(raw));
    bool good = frame->column < frame->column_end && frame->column_end <= strlen(raw) &&
                !gw_begins(raw, "\xEF\xBB\xBF") && strcmp(gw_text_str(&clean), raw) == 0 &&
                strcmp(gw_text_str(&masked), raw) == 0;
    gw_text_free(&clean);
    gw_text_free(&masked);
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

void gw_render_source(const gw_verdict *verdict, gw_text *text)
{
    enum { COLUMNS = 120 };
    gwi_page page = {.width = GWI_LABEL_COLUMNS + COLUMNS};
    if (verdict->where == NULL)
        return;
    gwi_source_add(&page, verdict);
    for (size_t i = 0; i < page.count; i++)
        gw_text_addf(text, "%s\n", page.paragraph[i].body);
    text->failed = text->failed || page.failed;
    gwi_page_free(&page);
}
