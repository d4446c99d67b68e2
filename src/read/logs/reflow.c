/* Undoes what copying does to a log, so that its lines read as the program printed them:
 * - a whole log in one string of JSON or of Python: `\n` stands for a line end
 * - lines that a terminal cut at its width
 * - a mark before every line: "ERROR", "stderr", or "> " of a quotation
 *
 * The number of line ends stays, except in an escaped string: the line ends of cut lines move behind the joined line.
 */
#include "gwi_logs.h"

#include <ctype.h>
#include <string.h>

/* ---- escaped text ---- */

bool gwi_is_escaped(const char *bytes, size_t count)
{
    enum { ESCAPES_MIN = 3 };
    size_t escapes = 0, lines = 0;
    for (size_t i = 0; i < count; i++) {
        lines += bytes[i] == '\n';
        escapes += bytes[i] == '\\' && i + 1 < count && bytes[i + 1] == 'n';
    }
    return escapes >= ESCAPES_MIN && lines * 2 < escapes;
}

/* Return the character for the escape at `at`, and its bytes: *ret_bytes. 0 bytes: the escape goes on after `count`. */
static char unescaped(const char *at, size_t count, size_t *ret_bytes)
{
    enum { UNICODE_BYTES = 6, HEX_BYTES = 4 };
    static const char from[] = "nrtb\"'\\/", to[] = "\n\r\t\b\"'\\/";
    *ret_bytes = 0;
    if (count < 2)
        return '\\';
    size_t need = at[1] == 'u' ? UNICODE_BYTES : at[1] == 'x' ? HEX_BYTES : 2;
    if (count < need)
        return '\\';
    *ret_bytes = need;
    const char *found = at[1] != '\0' ? strchr(from, at[1]) : NULL;
    if (found != NULL)
        return to[found - from];
    if (need > 2)
        return memcmp(at + need - 2, "1b", 2) == 0 || memcmp(at + need - 2, "1B", 2) == 0 ? '\x1b' : '?';
    *ret_bytes = 1;
    return '\\';
}

/* Return the bytes between two strings of a list: `", "`. */
static size_t separator_at(const char *at, size_t count)
{
    static const char *const marks[] = {"\", \"", "\",\"", "', '"};
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        size_t bytes = strlen(marks[i]);
        if (count >= bytes && memcmp(at, marks[i], bytes) == 0)
            return bytes;
    }
    return 0;
}

size_t gwi_unescape(char *bytes, size_t count)
{
    size_t out = 0;
    for (size_t i = 0, used; i < count; i += used) {
        char c = bytes[i];
        used = 1;
        if (c == '\\')
            c = unescaped(bytes + i, count - i, &used);
        used = used == 0 ? count - i : used; /* an escape that the block cuts is lost */
        bytes[out++] = c;
        if (c == '\n')
            used += separator_at(bytes + i + used, count - i - used);
    }
    return out;
}

/* ---- lines ---- */

static size_t line_bytes(const char *bytes, size_t at, size_t count)
{
    const char *stop = memchr(bytes + at, '\n', count - at);
    size_t end = stop != NULL ? (size_t)(stop - bytes) : count;
    return end > at && bytes[end - 1] == '\r' ? end - at - 1 : end - at;
}

static size_t next_line(const char *bytes, size_t at, size_t count)
{
    const char *stop = memchr(bytes + at, '\n', count - at);
    return stop != NULL ? (size_t)(stop - bytes) + 1 : count;
}

/* ---- a mark before every line ---- */

enum { PERCENT = 100, MOST_PERCENT = 95, LINES_MIN = 4, LINES_LOOK = 400 };

/* Return the bytes before the end of the mark, if most lines have it at the same place. 0: they do not. */
static size_t mark_end(const char *bytes, size_t count, const char *mark, size_t place_max)
{
    size_t length = strlen(mark), first = line_bytes(bytes, 0, count);
    const char *found = memmem(bytes, first < place_max + length ? first : place_max + length, mark, length);
    size_t place = found != NULL ? (size_t)(found - bytes) : 0, lines = 0, marked = 0;
    for (size_t at = 0; found != NULL && at < count && lines < LINES_LOOK; at = next_line(bytes, at, count)) {
        size_t line = line_bytes(bytes, at, count);
        lines += line > 0;
        marked += line >= place + length && memcmp(bytes + at + place, mark, length) == 0;
    }
    return marked >= LINES_MIN && marked * PERCENT >= lines * MOST_PERCENT ? place + length : 0;
}

/* Return the bytes from a line's start to the end of the mark that the lines have. 0: they have none. */
static size_t find_mark(const char *bytes, size_t count, const char **ret_mark)
{
    static const char *const marks[] = {"ERROR", "stderr", "Error", "error", "> "};
    enum { PLACE_MAX = 60 };
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        size_t end = mark_end(bytes, count, marks[i], marks[i][0] == '>' ? 0 : PLACE_MAX);
        *ret_mark = marks[i];
        if (end > 0)
            return end;
    }
    return 0;
}

/* Return the bytes of the mark in this line, with the punctuation and the space after it. 0: it lacks the mark. */
static size_t marked_bytes(const char *line, size_t bytes, const char *mark, size_t end)
{
    size_t length = strlen(mark);
    if (bytes < end || memcmp(line + end - length, mark, length) != 0)
        return 0;
    if (mark[length - 1] == ' ')
        return end;
    end += end < bytes && strchr("])", line[end]) != NULL && line[end] != '\0';
    if (end + 2 < bytes && line[end] == ' ' && strchr("-|:", line[end + 1]) != NULL && line[end + 1] != '\0')
        end++;
    end += end < bytes && strchr(":|-", line[end]) != NULL && line[end] != '\0';
    return end + (end < bytes && line[end] == ' ');
}

static size_t without_marks(char *bytes, size_t count, const char *mark, size_t end)
{
    size_t out = 0;
    for (size_t at = 0, next; at < count; at = next) {
        next = next_line(bytes, at, count);
        at += marked_bytes(bytes + at, line_bytes(bytes, at, count), mark, end);
        memmove(bytes + out, bytes + at, next - at);
        out += next - at;
    }
    return out;
}

/* ---- lines cut at a width ---- */

static size_t characters(const char *line, size_t bytes)
{
    size_t found = 0;
    for (size_t i = 0; i < bytes; i++)
        found += ((unsigned char)line[i] & 0xc0) != 0x80;
    return found;
}

/* True if a line of this width seems to go on in the next one: it does not end a table's row, and the next line begins
 * otherwise. */
static bool goes_on(const char *line, size_t bytes, const char *next, size_t next_bytes)
{
    enum { BEGIN_BYTES = 6 };
    bool is_row = bytes == 0 || strchr("|+-=#*_", line[bytes - 1]) != NULL;
    bool is_alike = next_bytes >= BEGIN_BYTES && memcmp(line, next, BEGIN_BYTES) == 0;
    return !is_row && !is_alike && next_bytes > 0;
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '/' || c == '.';
}

/* Return the width at which a terminal cut the lines. 0: it did not. */
static size_t width_of(const char *bytes, size_t count)
{
    enum { WIDTH_MIN = 60, WIDTH_MAX = 250, FULL_MIN = 3, GO_ON_PERCENT = 80, WORDS_PERCENT = 30 };
    size_t width = 0, full = 0, going = 0, words = 0;
    for (size_t at = 0; at < count; at = next_line(bytes, at, count)) {
        size_t line = characters(bytes + at, line_bytes(bytes, at, count));
        width = line > width ? line : width;
    }
    if (width < WIDTH_MIN || width > WIDTH_MAX)
        return 0;
    for (size_t at = 0, next; at < count; at = next) {
        size_t line = line_bytes(bytes, at, count);
        next = next_line(bytes, at, count);
        if (characters(bytes + at, line) != width || next == count)
            continue;
        bool on = goes_on(bytes + at, line, bytes + next, line_bytes(bytes, next, count));
        full++;
        going += on;
        words += on && is_word(bytes[at + line - 1]) && is_word(bytes[next]);
    }
    bool is_cut =
        full >= FULL_MIN && going * PERCENT >= full * GO_ON_PERCENT && words * PERCENT >= full * WORDS_PERCENT;
    return is_cut ? width : 0;
}

static size_t join_lines(char *bytes, size_t count, size_t width)
{
    size_t out = 0, moved = 0;
    for (size_t at = 0, next; at < count; at = next) {
        size_t line = line_bytes(bytes, at, count);
        next = next_line(bytes, at, count);
        bool is_cut = next < count && characters(bytes + at, line) == width &&
                      goes_on(bytes + at, line, bytes + next, line_bytes(bytes, next, count));
        bool has_end = bytes[next - 1] == '\n';
        size_t kept = is_cut ? line : next - at - has_end;
        memmove(bytes + out, bytes + at, kept);
        out += kept;
        moved += has_end;
        for (; !is_cut && moved > 0; moved--)
            bytes[out++] = '\n';
    }
    return out;
}

size_t gwi_reflow(gwi_flow *flow, char *bytes, size_t count)
{
    bool began = flow->began;
    if (!began)
        flow->mark_bytes = find_mark(bytes, count, &flow->mark);
    if (flow->mark_bytes > 0)
        count = without_marks(bytes, count, flow->mark, flow->mark_bytes);
    if (!began)
        flow->width = width_of(bytes, count);
    flow->began = true;
    return flow->width > 0 ? join_lines(bytes, count, flow->width) : count;
}
