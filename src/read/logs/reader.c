/* Reads the text of a log and collects the lines that match the pattern of a sign (signs.def).
 *
 * A fast scan finds the lines that contain a literal of a pattern. The exact patterns are matched only with these
 * lines.
 *
 * For matching, a line also ends at a carriage return, so that a progress bar does not hide the text after it. Line
 * numbers count only newlines, as in other tools. */
#include "gwi_logs.h"

#include "gw_array.h"
#include "gw_text.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    BLOCK_BYTES = 1 << 20,
    LINE_BYTES_MAX = 16 << 10, /* in a longer line, match only the part around the first hit */
    BEFORE_HIT_BYTES = 400,    /* start that part this many bytes before the first hit */
    FIRST_MAX = 40,            /* store at most this many finds of a sign from the start of the log */
    LAST_MAX = 24,             /* store at most this many other finds of a sign from the end of the log */
    TRACE_FACTOR = 10,     /* a traceback has many lines, so its signs have limits that are this many times higher */
    NEAR_BYTES = 4 << 10,  /* search this many bytes before a failure or the end of a block for signs of kind NEAR */
    AFTER_BYTES = 8 << 10, /* search this many bytes after a failure for signs of kind NEAR */
    SAYS_MAX = 32          /* maximum number of signs in one line */
};

/* A line of the log. A line in sign_state.late is matched exactly only at the end of the log, because newer lines may
 * replace it. */
typedef struct late_line {
    char *bytes;
    size_t count, room;
    uint32_t file;
    uint64_t line, order;
} late_line;

typedef struct sign_state {
    uint32_t first_count;
    late_line *late; /* ring buffer of the newest lines with a literal of the sign; owned */
    size_t late_at, late_count;
} sign_state;

struct gw_log_reader {
    gwi_matcher *matcher;
    gw_log *log;
    size_t file_room, find_room;
    char *block;
    size_t block_bytes;
    size_t raw_bytes; /* after block_bytes: read, but not yet made plain */
    gwi_plain plain;
    uint64_t order_before; /* number of lines in all previous files */
    bool is_escaped;       /* the file is one string with `\n` for its line ends: decided by its first block */
    gwi_flow flow;
    bool is_open;      /* the last byte scanned was not a newline */
    size_t counted_at; /* newlines of the block are counted up to this offset */
    uint64_t counted;  /* newlines of the file counted so far */
    /* the line for which hits are being collected */
    size_t line_begin, line_end, first_hit;
    bool has_line;
    gw_sign says[SAYS_MAX];
    size_t says_count;
    uint64_t near_line; /* last line of this file that was searched for signs of kind NEAR; 0: none */
    uint64_t banner[2]; /* forms of the first two lines of the file; 0: none, or lines that say nothing of a start */
    uint64_t banner_at; /* last line with the first of these forms; 0: none */
    /* offset in this block, plus 1, of the last line with a sign of kind FAULT or TRACE; 0: none */
    size_t fault_from;
    bool nomem;
    sign_state sign[GW_SIGN_COUNT];
};

static size_t first_max(gw_sign sign)
{
    return gw_sign_kind_of(sign) == GW_SIGN_TRACE ? (size_t)FIRST_MAX * TRACE_FACTOR : FIRST_MAX;
}

static size_t last_max(gw_sign sign)
{
    gw_sign_kind kind = gw_sign_kind_of(sign);
    return kind == GW_SIGN_TRACE || sign == GW_SAYS_PROGRESS ? (size_t)LAST_MAX * TRACE_FACTOR : LAST_MAX;
}

/* ---- finds ---- */

/* Copy the line for display, without control characters and outer spaces. Returns the number of bytes, including the
 * final 0. */
static size_t show(char *out, const char *line, size_t bytes)
{
    size_t count = 0;
    while (bytes > 0 && isspace((unsigned char)line[0])) {
        line++;
        bytes--;
    }
    while (bytes > 0 && isspace((unsigned char)line[bytes - 1]))
        bytes--;
    for (size_t i = 0; i < bytes && count < GW_LOG_TEXT_MAX; i++)
        out[count++] = iscntrl((unsigned char)line[i]) ? ' ' : line[i];
    out[count++] = '\0';
    return count;
}

static void add_find(gw_log_reader *reader, gw_sign sign, const late_line *at, const gwi_match *match)
{
    gw_log *log = reader->log;
    if (!gw_array_room(&log->find, log->find_count, &reader->find_room, sizeof *log->find)) {
        reader->nomem = true;
        return;
    }
    size_t values = 0;
    for (size_t i = 0; i < match->field_count; i++)
        values += strlen(match->field[i].name) + 1 + match->field[i].end - match->field[i].begin + 1;
    char *text = malloc(GW_LOG_TEXT_MAX + 1 + values);
    if (text == NULL) {
        reader->nomem = true;
        return;
    }
    gw_log_find *find = &log->find[log->find_count++];
    *find = (gw_log_find){.sign = sign,
                          .file = at->file,
                          .line = at->line,
                          .order = at->order,
                          .rank = gwi_rank_of(at->bytes, at->count),
                          .text = text,
                          .field_count = match->field_count};
    char *value = text + show(text, at->bytes, at->count);
    for (size_t i = 0; i < match->field_count; i++) {
        size_t bytes = match->field[i].end - match->field[i].begin, name_bytes = strlen(match->field[i].name) + 1;
        memcpy(value, at->bytes + match->field[i].begin, bytes);
        value[bytes] = '\0';
        memcpy(value + bytes + 1, match->field[i].name, name_bytes);
        find->field[i] = (gw_log_field){value + bytes + 1, value};
        value += bytes + 1 + name_bytes;
    }
}

static void keep_late(gw_log_reader *reader, gw_sign sign, const late_line *at)
{
    sign_state *state = &reader->sign[sign];
    if (state->late == NULL && (state->late = calloc(last_max(sign), sizeof *state->late)) == NULL) {
        reader->nomem = true;
        return;
    }
    late_line *slot = &state->late[state->late_at];
    size_t room = slot->room;
    char *bytes = slot->bytes;
    if (room < at->count + 1) { /* reserve more than needed, because lines with the same sign have similar lengths */
        room = at->count + at->count / 2 + 1;
        bytes = realloc(slot->bytes, room);
    }
    if (bytes == NULL) {
        reader->nomem = true;
        return;
    }
    memcpy(bytes, at->bytes, at->count);
    *slot = *at;
    slot->bytes = bytes;
    slot->room = room;
    state->late_at = (state->late_at + 1) % last_max(sign);
    state->late_count += state->late_count < last_max(sign);
}

/* ---- lines ---- */

/* Count newlines in portions whose counts fit in a byte, so that the compiler can vectorise the loop. */
static uint64_t count_lines(const char *bytes, size_t count)
{
    uint64_t lines = 0;
    for (size_t at = 0; at < count;) {
        size_t end = count - at < UINT8_MAX ? count : at + UINT8_MAX;
        uint8_t portion = 0;
        for (; at < end; at++)
            portion = (uint8_t)(portion + (bytes[at] == '\n'));
        lines += portion;
    }
    return lines;
}

/* Return the line number of the offset `at` in the block, which may be before `counted_at`. */
static uint64_t line_number_of(const gw_log_reader *reader, size_t at)
{
    if (at < reader->counted_at)
        return reader->counted + 1 - count_lines(reader->block + at, reader->counted_at - at);
    return reader->counted + 1 + count_lines(reader->block + reader->counted_at, at - reader->counted_at);
}

static uint64_t line_number(gw_log_reader *reader, size_t at)
{
    reader->counted += count_lines(reader->block + reader->counted_at, at - reader->counted_at);
    reader->counted_at = at;
    return reader->counted + 1;
}

/* ---- the first lines of a file, which a program prints again when it starts again ---- */

/* Return a hash of the line's letters. 0: the line is short, or reports progress or an exception. */
static uint64_t form_of(const char *line, size_t bytes)
{
    enum { LETTERS_MIN = 8, TEXT_BYTES = 256 };
    const uint64_t prime = 1099511628211u;
    char text[TEXT_BYTES];
    uint64_t form = 1;
    size_t letters = 0;
    snprintf(text, sizeof text, "%.*s", (int)(bytes < sizeof text ? bytes : sizeof text - 1), line);
    for (const char *at = text; *at != '\0'; at++) {
        if (!isalpha((unsigned char)*at))
            continue;
        form = (form ^ (unsigned char)*at) * prime;
        letters++;
    }
    bool says_nothing = letters < LETTERS_MIN || strstr(text, "Traceback") != NULL || strstr(text, "File \"") != NULL ||
                        gwi_counters_read(text).count > 0;
    return says_nothing ? 0 : form;
}

static void read_banner(gw_log_reader *reader, size_t count)
{
    size_t begin = 0;
    for (size_t i = 0; i < 2; i++) {
        const char *line = reader->block + begin, *stop = memchr(line, '\n', count - begin);
        size_t bytes = stop != NULL ? (size_t)(stop - line) : count - begin;
        reader->banner[i] = form_of(line, bytes);
        begin = stop != NULL ? begin + bytes + 1 : count;
    }
    if (reader->banner[0] == 0 || reader->banner[0] == reader->banner[1])
        reader->banner[1] = 0;
    reader->banner_at = 0;
}

/* Note that both first lines of the file occur again, in this order. */
static void compare_banner(gw_log_reader *reader, const late_line *at)
{
    if (reader->banner[1] == 0 || at->line <= 2)
        return;
    uint64_t form = form_of(at->bytes, at->count);
    if (form == reader->banner[1] && reader->banner_at + 1 == at->line) {
        gw_log_file *file = &reader->log->file[at->file];
        memmove(file->again + 1, file->again, sizeof file->again - sizeof file->again[0]);
        file->again[0] = at->line - 1;
    }
    reader->banner_at = form == reader->banner[0] ? at->line : reader->banner_at;
}

static bool is_noise(const gw_log_reader *reader, const late_line *at)
{
    gwi_match match;
    for (gw_sign sign = 0; sign < GW_SIGN_COUNT; sign++) {
        if (gw_sign_kind_of(sign) == GW_SIGN_NOISE &&
            gwi_matcher_line(reader->matcher, sign, at->bytes, at->count, &match))
            return true;
    }
    return false;
}

static void match_near_signs(gw_log_reader *reader, const late_line *at)
{
    gwi_match match;
    for (gw_sign sign = 0; sign < GW_SIGN_COUNT; sign++) {
        if (gw_sign_kind_of(sign) != GW_SIGN_NEAR ||
            !gwi_matcher_line(reader->matcher, sign, at->bytes, at->count, &match))
            continue;
        if (is_noise(reader, at))
            return;
        reader->log->count[sign]++;
        keep_late(reader, sign, at);
    }
}

/* Search the lines between two positions of the block for signs of kind NEAR. `end` must be the end of a line. */
static void look_near(gw_log_reader *reader, size_t begin, size_t end)
{
    uint64_t line = 0;
    for (size_t next; begin < end; begin = next) {
        const char *bytes = reader->block + begin;
        const char *stop = memchr(bytes, '\n', end - begin);
        size_t count = stop == NULL ? end - begin : (size_t)(stop - bytes);
        next = begin + count + 1;
        line = line == 0 ? line_number_of(reader, begin) : line + 1;
        if (count > LINE_BYTES_MAX)
            continue;
        /* a progress bar is redrawn after each carriage return: search only its last state */
        while (count > 1 && bytes[count - 1] == '\r' && bytes[count - 2] == '\r')
            count--;
        const char *last = memrchr(bytes, '\r', count > 0 ? count - 1 : 0);
        late_line at = {.bytes = (char *)(last == NULL ? bytes : last + 1),
                        .file = (uint32_t)(reader->log->file_count - 1),
                        .line = line,
                        .order = reader->order_before + line};
        at.count = (size_t)(bytes + count - at.bytes);
        if (line <= reader->near_line)
            continue;
        reader->near_line = line;
        compare_banner(reader, &at);
        match_near_signs(reader, &at);
    }
}

static size_t lines_after(const char *block, size_t at, size_t bytes_max, size_t end)
{
    size_t to = end - at > bytes_max ? at + bytes_max : end;
    while (to < end && block[to - 1] != '\n')
        to++;
    return to;
}

static size_t lines_before(const char *bytes, size_t at, size_t bytes_max)
{
    size_t from = at > bytes_max ? at - bytes_max : 0;
    while (from > 0 && from < at && bytes[from - 1] != '\n')
        from++;
    return from;
}

/* Search for signs of kind NEAR from the previous failure of this block on, and before `at`. `at` is the start of the
 * next failure's line, or the end of the block. */
static void look_around(gw_log_reader *reader, size_t at)
{
    if (reader->fault_from > 0 && reader->fault_from <= at)
        look_near(reader, reader->fault_from - 1, lines_after(reader->block, reader->fault_from, AFTER_BYTES, at));
    look_near(reader, lines_before(reader->block, at, NEAR_BYTES), at);
}

/* Match the current line with the exact patterns of the signs whose literals it contains, and store the finds. */
static void finish_line(gw_log_reader *reader)
{
    gwi_match match;
    size_t begin = reader->line_begin;
    if (reader->first_hit > begin + LINE_BYTES_MAX)
        begin = reader->first_hit - BEFORE_HIT_BYTES;
    late_line at = {.bytes = reader->block + begin,
                    .count = reader->line_end - begin,
                    .file = (uint32_t)(reader->log->file_count - 1)};
    reader->has_line = false;
    if (at.count > LINE_BYTES_MAX)
        at.count = LINE_BYTES_MAX;
    at.line = line_number(reader, reader->line_begin);
    at.order = reader->order_before + at.line;
    for (size_t i = 0; i < reader->says_count; i++) {
        gw_sign sign = reader->says[i];
        if (gw_sign_kind_of(sign) == GW_SIGN_NOISE &&
            gwi_matcher_line(reader->matcher, sign, at.bytes, at.count, &match)) {
            reader->log->count[sign]++;
            return;
        }
    }
    for (size_t i = 0; i < reader->says_count; i++) {
        gw_sign sign = reader->says[i];
        if (gw_sign_kind_of(sign) == GW_SIGN_NOISE)
            continue;
        if (reader->sign[sign].first_count == first_max(sign)) {
            reader->log->count[sign]++;
            keep_late(reader, sign, &at);
        } else if (gwi_matcher_line(reader->matcher, sign, at.bytes, at.count, &match)) {
            reader->log->count[sign]++;
            reader->sign[sign].first_count++;
            add_find(reader, sign, &at, &match);
            if (gw_sign_kind_of(sign) == GW_SIGN_FAULT || gw_sign_kind_of(sign) == GW_SIGN_TRACE) {
                look_around(reader, reader->line_begin);
                reader->fault_from = reader->line_begin + 1;
            }
        }
    }
}

/* Find the end of a line: a newline, a carriage return, or `count`. Search in short pieces, because a redrawn progress
 * bar may have no newline for a long time. */
enum { PIECE_BYTES = 256 };

static size_t find_line_end(const char *block, size_t at, size_t count)
{
    while (at < count) {
        size_t piece = count - at < PIECE_BYTES ? count - at : PIECE_BYTES;
        const char *line = memchr(block + at, '\n', piece);
        piece = line != NULL ? (size_t)(line - block) - at : piece;
        const char *back = memchr(block + at, '\r', piece);
        if (back != NULL || line != NULL)
            return back != NULL ? (size_t)(back - block) : (size_t)(line - block);
        at += piece;
    }
    return count;
}

/* Find the start of the line that contains `at`. */
static size_t find_line_begin(const char *block, size_t at)
{
    while (at > 0) {
        size_t piece = at < PIECE_BYTES ? at : PIECE_BYTES;
        const char *from = block + at - piece;
        const char *line = memrchr(from, '\n', piece);
        from = line != NULL ? line + 1 : from;
        const char *back = memrchr(from, '\r', (size_t)(block + at - from));
        if (back != NULL || line != NULL)
            return (size_t)((back != NULL ? back : line) - block) + 1;
        at -= piece;
    }
    return 0;
}

static bool on_hit(void *user, gw_sign sign, size_t end)
{
    gw_log_reader *reader = user;
    size_t last = end > 0 ? end - 1 : 0;
    if (reader->has_line && last >= reader->line_end) {
        finish_line(reader);
    }
    if (!reader->has_line) {
        reader->line_begin = find_line_begin(reader->block, last);
        reader->line_end = find_line_end(reader->block, last, reader->block_bytes);
        reader->has_line = true;
        reader->first_hit = last;
        reader->says_count = 0;
    }
    for (size_t i = 0; i < reader->says_count; i++) {
        if (reader->says[i] == sign)
            return !reader->nomem;
    }
    if (reader->says_count < SAYS_MAX)
        reader->says[reader->says_count++] = sign;
    return !reader->nomem;
}

/* Scan the first `count` bytes of the block and move the bytes after them to the front. */
static gw_status scan(gw_log_reader *reader, size_t count, gw_error *err)
{
    size_t all = reader->block_bytes;
    size_t taken = count;
    bool is_first = reader->counted == 0;
    count = gwi_reflow(&reader->flow, reader->block, count);
    if (is_first)
        read_banner(reader, count);
    reader->block_bytes = count; /* the last line may be incomplete; treat it as ending here */
    gw_status st = gwi_matcher_scan(reader->matcher, reader->block, count, on_hit, reader, err);
    if (reader->has_line)
        finish_line(reader);
    look_around(reader, count);
    reader->fault_from = 0;
    if (reader->nomem)
        st = gw_fail(err, GW_NOMEM, "read a log");
    gw_log_file *file = &reader->log->file[reader->log->file_count - 1];
    line_number(reader, count);
    file->line_count = reader->counted;
    reader->is_open = count > 0 ? reader->block[count - 1] != '\n' : reader->is_open;
    reader->counted_at = 0;
    reader->block_bytes = all - taken;
    memmove(reader->block, reader->block + taken, reader->block_bytes);
    return st;
}

static size_t whole_lines(const char *bytes, size_t count)
{
    const char *last = memrchr(bytes, '\n', count);
    return last == NULL ? 0 : (size_t)(last - bytes) + 1;
}

/* ---- the reader ---- */

gw_status gw_log_open(gw_log_reader **ret_reader, gw_error *err)
{
    gw_log_reader *reader = calloc(1, sizeof *reader);
    if (reader == NULL || (reader->block = malloc(BLOCK_BYTES)) == NULL ||
        (reader->log = calloc(1, sizeof *reader->log)) == NULL) {
        gw_log_cancel(reader);
        return gw_fail(err, GW_NOMEM, "read a log");
    }
    gw_status st = gwi_matcher_open(&reader->matcher, err);
    if (st != GW_OK) {
        gw_log_cancel(reader);
        return st;
    }
    *ret_reader = reader;
    return GW_OK;
}

/* Make the raw bytes of the block plain. Scan the block if it is full then. */
static gw_status take(gw_log_reader *reader, gw_error *err)
{
    char *begin = reader->block + reader->block_bytes;
    gw_log_file *file = &reader->log->file[reader->log->file_count - 1];
    size_t bytes = reader->raw_bytes;
    if (file->bytes == 0)
        reader->is_escaped = gwi_is_escaped(begin, bytes);
    file->bytes += bytes;
    reader->raw_bytes = 0;
    size_t left = reader->is_escaped ? gwi_unescape(begin, bytes) : bytes;
    left = gwi_plain_make(&reader->plain, begin, left);
    reader->block_bytes += left;
    if (reader->block_bytes < BLOCK_BYTES)
        return GW_OK;
    size_t whole = whole_lines(reader->block, reader->block_bytes);
    return scan(reader, whole > 0 ? whole : reader->block_bytes, err);
}

/* Scan the rest of the current file. The last line may lack a newline. */
static gw_status end_file(gw_log_reader *reader, gw_error *err)
{
    if (reader->log->file_count == 0)
        return GW_OK;
    gw_log_file *file = &reader->log->file[reader->log->file_count - 1];
    gw_status st = reader->raw_bytes > 0 ? take(reader, err) : GW_OK;
    if (st == GW_OK && reader->block_bytes > 0)
        st = scan(reader, reader->block_bytes, err);
    file->line_count += reader->is_open;
    reader->is_open = false;
    reader->order_before += file->line_count;
    reader->counted = 0;
    reader->near_line = 0;
    reader->plain = (gwi_plain){0};
    reader->flow = (gwi_flow){0};
    return st;
}

gw_status gw_log_begin(gw_log_reader *reader, const char *name, gw_error *err)
{
    gw_status st = end_file(reader, err);
    if (st != GW_OK)
        return st;
    gw_log *log = reader->log;
    bool good = gw_array_room(&log->file, log->file_count, &reader->file_room, sizeof *log->file);
    char *copy = good ? strdup(name) : NULL;
    if (copy == NULL)
        return gw_fail(err, GW_NOMEM, "read a log");
    log->file[log->file_count++] = (gw_log_file){.name = copy};
    return GW_OK;
}

/* Return the number of bytes that may be added to the block as raw bytes. */
static size_t room_of(const gw_log_reader *reader)
{
    return BLOCK_BYTES - reader->block_bytes - reader->raw_bytes;
}

gw_status gw_log_feed(gw_log_reader *reader, const char *bytes, size_t count, gw_error *err)
{
    while (count > 0) {
        size_t part = room_of(reader) < count ? room_of(reader) : count;
        memcpy(reader->block + reader->block_bytes + reader->raw_bytes, bytes, part);
        reader->raw_bytes += part;
        gw_status st = room_of(reader) == 0 ? take(reader, err) : GW_OK;
        if (st != GW_OK)
            return st;
        bytes += part;
        count -= part;
    }
    return GW_OK;
}

static int by_order(const void *a, const void *b)
{
    const gw_log_find *first = a, *second = b;
    if (first->order != second->order)
        return first->order < second->order ? -1 : 1;
    return first->sign < second->sign ? -1 : first->sign > second->sign;
}

static void look_at_late_lines(gw_log_reader *reader)
{
    gwi_match match;
    for (gw_sign sign = 0; sign < GW_SIGN_COUNT; sign++) {
        sign_state *state = &reader->sign[sign];
        for (size_t i = 0; i < state->late_count; i++) {
            if (gwi_matcher_line(reader->matcher, sign, state->late[i].bytes, state->late[i].count, &match))
                add_find(reader, sign, &state->late[i], &match);
        }
    }
}

/* True if the line of `find` follows a frame of a traceback. Up to three lines after a frame show its source. */
static bool is_after_frame(const gw_log_find *find, const gw_log_find *before)
{
    enum { LINES_OF_FRAME = 4 };
    return before != NULL && before->file == find->file && before->line < find->line &&
           before->line + LINES_OF_FRAME >= find->line;
}

/* Make the finds of RAISED that end a traceback to exceptions, and drop the others. The finds are in order. */
static void settle_raised(gw_log *log)
{
    size_t count = 0;
    const gw_log_find *frame = NULL;
    bool is_traced = false;
    uint64_t exception = 0;
    for (size_t i = 0; i < log->find_count; i++) {
        gw_log_find find = log->find[i];
        if (find.sign == GW_SAYS_RAISED && (exception == find.order || !is_after_frame(&find, frame))) {
            free((char *)find.text);
            continue;
        }
        if (find.sign == GW_SAYS_EXCEPTION || find.sign == GW_SAYS_RAISED) {
            find.sign = GW_SAYS_EXCEPTION;
            exception = find.order;
            is_traced = false;
            frame = NULL;
        }
        is_traced = is_traced || find.sign == GW_SAYS_TRACEBACK;
        log->find[count] = find;
        if (is_traced && find.sign == GW_SAYS_FRAME)
            frame = &log->find[count];
        count++;
    }
    log->find_count = count;
}

/* Drop the words of a command at a prompt: they are no event. The finds are in order. */
static void drop_commands(gw_log *log)
{
    size_t count = 0;
    for (size_t i = 0; i < log->find_count; i++) {
        const gw_log_find *find = &log->find[i];
        bool is_own = find->sign == GW_SAYS_RUN_BEGINS || find->sign == GW_SAYS_PROMPT;
        if (!is_own && gw_log_in_line(log, GW_SAYS_RUN_BEGINS, find->order) != NULL &&
            gw_log_in_line(log, GW_SAYS_PROMPT, find->order) != NULL)
            free((char *)find->text);
        else
            log->find[count++] = *find;
    }
    log->find_count = count;
}

/* Drop what a traceback's source lines seem to report: "signal.signal(signal.SIGTERM, ...)" is no event. The finds are
 * in order. */
static void drop_source_lines(gw_log *log)
{
    size_t count = 0;
    const gw_log_find *frame = NULL;
    for (size_t i = 0; i < log->find_count; i++) {
        const gw_log_find *find = &log->find[i];
        gw_sign_kind kind = gw_sign_kind_of(find->sign);
        bool is_source = frame != NULL && find->order == frame->order + 1 && find->rank == frame->rank &&
                         gw_log_in_line(log, GW_SAYS_EXCEPTION, find->order) == NULL;
        if (is_source && (kind == GW_SIGN_FAULT || kind == GW_SIGN_END)) {
            free((char *)find->text);
            continue;
        }
        log->find[count] = *find;
        if (find->sign == GW_SAYS_FRAME)
            frame = &log->find[count];
        count++;
    }
    log->find_count = count;
}

gw_status gw_log_finish(gw_log_reader *reader, gw_log **ret_log, gw_error *err)
{
    gw_status st = end_file(reader, err);
    if (st == GW_OK) {
        look_at_late_lines(reader);
        if (reader->nomem)
            st = gw_fail(err, GW_NOMEM, "read a log");
    }
    if (st == GW_OK) {
        if (reader->log->find_count > 0)
            qsort(reader->log->find, reader->log->find_count, sizeof *reader->log->find, by_order);
        settle_raised(reader->log);
        drop_commands(reader->log);
        drop_source_lines(reader->log);
        *ret_log = reader->log;
        reader->log = NULL;
    }
    gw_log_cancel(reader);
    return st;
}

void gw_log_cancel(gw_log_reader *reader)
{
    if (reader == NULL)
        return;
    for (gw_sign sign = 0; sign < GW_SIGN_COUNT; sign++) {
        for (size_t i = 0; i < reader->sign[sign].late_count; i++)
            free(reader->sign[sign].late[i].bytes);
        free(reader->sign[sign].late);
    }
    gwi_matcher_close(reader->matcher);
    gw_log_free(reader->log);
    free(reader->block);
    free(reader);
}

void gw_log_free(gw_log *log)
{
    if (log == NULL)
        return;
    for (size_t i = 0; i < log->find_count; i++)
        free((char *)log->find[i].text);
    for (size_t i = 0; i < log->file_count; i++) {
        free((char *)log->file[i].name);
        free((char *)log->file[i].damage);
    }
    free(log->find);
    free(log->file);
    free(log);
}

/* ---- files ---- */

/* Scan the outputs of a notebook's cells, or all its strings if it is damaged. The block already holds the first
 * `count` bytes. */
static gw_status read_notebook(gw_log_reader *reader, gwi_log_source *source, size_t count, gw_error *err)
{
    enum { NOTEBOOK_BYTES_MAX = 256 << 20 };
    gw_text all = {0}, outputs = {0};
    gw_status st = GW_OK;
    while (st == GW_OK && all.bytes < NOTEBOOK_BYTES_MAX) {
        gw_text_add(&all, reader->block, count);
        st = gwi_log_source_read(source, reader->block, BLOCK_BYTES, &count, err);
    }
    if (all.failed)
        st = gw_fail(err, GW_NOMEM, "read a notebook");
    if (st == GW_END || st == GW_OK) {
        gwi_notebook_outputs(gw_text_str(&all), all.bytes, &outputs);
        gw_status fed = outputs.failed ? gw_fail(err, GW_NOMEM, "read a notebook")
                                       : gw_log_feed(reader, gw_text_str(&outputs), outputs.bytes, err);
        st = fed != GW_OK ? fed : GW_END;
    }
    gw_text_free(&outputs);
    gw_text_free(&all);
    return st;
}

/* Fill the block, however little each read returns: what a file is must not depend on that. At its end or on an error,
 * *ret_count is what was read before. */
static gw_status read_block(gw_log_reader *reader, gwi_log_source *source, size_t *ret_count, gw_error *err)
{
    gw_status st = GW_OK;
    *ret_count = 0;
    for (size_t room = room_of(reader), part; st == GW_OK && *ret_count < room;) {
        st = gwi_log_source_read(source, reader->block + reader->block_bytes + *ret_count, room - *ret_count, &part,
                                 err);
        *ret_count += st == GW_OK ? part : 0;
    }
    return st;
}

/* Read the file `fd`, which is closed, or the file at `path` if `fd` is -1. */
static gw_status read_file(gw_log_reader *reader, const char *path, int fd, uint64_t bytes_max, gw_error *err)
{
    gwi_log_source *source = NULL;
    bool first = true, is_zeros = false;
    gw_status st = gwi_log_source_open(path, fd, &source, err);
    if (st == GW_OK)
        st = gw_log_begin(reader, path, err);
    for (uint64_t bytes = 0; st == GW_OK;) {
        size_t count;
        st = read_block(reader, source, &count, err);
        if (count == 0)
            break;
        bytes += count;
        if (bytes > bytes_max && st == GW_OK)
            st = gw_fail(err, GW_CORRUPT, "only the first %" PRIu64 " MiB were read", bytes_max >> 20);
        is_zeros = first && gwi_are_zeros(reader->block, count);
        if (is_zeros)
            continue;
        if (first && gwi_is_binary(reader->block, count)) {
            st = gw_fail(err, GW_CORRUPT, "%s: not a text file (the name of a recording ends in .gpuwhy)", path);
            goto out;
        }
        gw_status taken;
        if (first && gwi_is_notebook(reader->block, count)) {
            taken = read_notebook(reader, source, count, err);
        } else {
            reader->raw_bytes = count;
            taken = take(reader, err);
        }
        st = taken != GW_OK ? taken : st;
        first = false;
    }
    if (st == GW_END && is_zeros) {
        st = gw_fail(err, GW_CORRUPT, "%s: not a text file, it has only bytes of 0", path);
    } else if (st == GW_END) {
        st = GW_OK;
    } else if (st == GW_CORRUPT || (st == GW_IO && !first)) { /* keep the part that could be read */
        gw_log_file *file = &reader->log->file[reader->log->file_count - 1];
        file->damage = strdup(err != NULL ? err->text : gw_status_text(st));
        st = GW_OK;
    } else {
        gw_wrap(err, "%s", path);
    }
out:
    gwi_log_source_close(source);
    return st;
}

gw_status gw_log_read(const char *const *path, size_t count, gw_log **ret_log, gw_error *err)
{
    gw_log_reader *reader = NULL;
    gw_status st = gw_log_open(&reader, err);
    for (size_t i = 0; st == GW_OK && i < count; i++)
        st = read_file(reader, path[i], -1, UINT64_MAX, err);
    if (st == GW_OK)
        return gw_log_finish(reader, ret_log, err);
    gw_log_cancel(reader);
    return st;
}

gw_status gw_log_read_open(int fd, const char *name, uint64_t bytes_max, gw_log **ret_log, gw_error *err)
{
    gw_log_reader *reader = NULL;
    gw_status st = gw_log_open(&reader, err);
    if (st != GW_OK)
        close(fd);
    else
        st = read_file(reader, name, fd, bytes_max, err);
    if (st == GW_OK)
        return gw_log_finish(reader, ret_log, err);
    gw_log_cancel(reader);
    return st;
}

/* ---- finds and their fields ---- */

const gw_log_find *gw_log_in_line(const gw_log *log, gw_sign sign, uint64_t order)
{
    for (size_t i = 0; i < log->find_count; i++) {
        if (log->find[i].sign == sign && log->find[i].order == order)
            return &log->find[i];
    }
    return NULL;
}

const char *gw_log_text(const gw_log_find *find, const char *field)
{
    for (size_t i = 0; i < find->field_count; i++) {
        if (strcmp(find->field[i].name, field) == 0)
            return find->field[i].value;
    }
    return NULL;
}

bool gw_log_number(const gw_log_find *find, const char *field, int64_t *ret_number)
{
    const char *text = gw_log_text(find, field);
    char digits[32], *end;
    size_t count = 0;
    if (text == NULL)
        return false;
    for (; *text != '\0'; text++) {
        if (*text == ',')
            continue;
        if (count == sizeof digits - 1)
            return false;
        digits[count++] = *text;
    }
    digits[count] = '\0';
    long long number = strtoll(digits, &end, 10);
    if (count == 0 || *end != '\0')
        return false;
    *ret_number = number;
    return true;
}

bool gw_log_bytes(const gw_log_find *find, const char *field, uint64_t *ret_bytes)
{
    const char *text = gw_log_text(find, field);
    char compact[32];
    size_t count = 0;
    if (text == NULL)
        return false;
    for (; *text != '\0'; text++) {
        if (*text == ' ' || *text == ',')
            continue;
        if (count == sizeof compact - 1)
            return false;
        compact[count++] = *text;
    }
    compact[count] = '\0';
    return gw_bytes_parse(compact, ret_bytes);
}
