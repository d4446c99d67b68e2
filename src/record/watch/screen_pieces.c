/* Pieces of a line of the screen: columns, times, sizes (gwi_screen.h). */
#include "gwi_screen.h"

#include "gw_text.h"

#include <inttypes.h>
#include <string.h>

void gwi_mark(gw_text *text, gw_watch_mark which)
{
    const char byte = (char)which;
    gw_text_add(text, &byte, 1);
}

bool gwi_is_mark(char byte)
{
    return byte > 0 && byte < GW_MARK_END;
}

void gw_watch_plain(gw_text *out, const char *text)
{
    for (const char *at = text; *at != '\0'; at++)
        if (!gwi_is_mark(*at))
            gw_text_add(out, at, 1);
}

/* Append a line of other lines' text, cut to `width` columns. The marks have no width. A cut line ends with "~". */
void gwi_add_cut(gw_text *text, const char *line, size_t bytes, unsigned width)
{
    gw_text plain = {0};
    for (size_t i = 0; i < bytes; i++)
        if (!gwi_is_mark(line[i]))
            gw_text_add(&plain, line + i, 1);
    bool fits = gw_columns(gw_text_str(&plain), plain.bytes) <= width;
    unsigned columns = 0, room = fits ? width : width - 1;
    gw_text_free(&plain);
    for (size_t i = 0; i < bytes; i++) {
        bool begins = !gwi_is_mark(line[i]) && ((unsigned char)line[i] & 0xc0) != 0x80;
        if (begins && columns == room)
            break;
        columns += begins;
        gw_text_add(text, line + i, 1);
    }
    gw_text_add_str(text, fits ? "\n" : "~\n");
}

/* Append a word from elsewhere in a column of `width`, cut if it is longer. */
void gwi_add_column(gw_text *text, const char *word, unsigned width)
{
    gw_text clean = {0}, cut = {0};
    gw_add_printable(&clean, word);
    const char *from = gw_text_str(&clean);
    unsigned columns = gw_columns(from, clean.bytes);
    size_t bytes = 0;
    for (unsigned seen = 0; from[bytes] != '\0'; bytes++) {
        seen += ((unsigned char)from[bytes] & 0xc0) != 0x80;
        if (seen > width)
            break;
    }
    gw_text_add(&cut, from, bytes);
    gw_text_addf(text, "%s%*s", gw_text_str(&cut), columns < width ? (int)(width - columns) : 0, "");
    gw_text_free(&clean);
    gw_text_free(&cut);
}

const char *gwi_bytes_or(char out[GW_BYTES_TEXT_MAX], uint64_t bytes, const char *otherwise)
{
    return bytes == GW_WATCH_UNKNOWN ? otherwise : gw_bytes_text(out, bytes);
}

/* Append a command line without the folder of the program: it is long and tells little. */
void gwi_add_command(gw_text *text, const char *command)
{
    size_t bytes = strcspn(command, " ");
    const char *from = command;
    for (size_t i = 0; i + 1 < bytes; i++)
        from = command[i] == '/' ? command + i + 1 : from;
    gw_add_printable(text, from);
}

/* Append a time: "12 s", "3 min", "2 h 05 min", "3 d 04 h". */
void gwi_add_time(gw_text *text, uint64_t seconds)
{
    uint64_t minutes = seconds / 60, hours = minutes / 60, days = hours / 24;
    if (seconds < 120)
        gw_text_addf(text, "%" PRIu64 " s", seconds);
    else if (minutes < 120)
        gw_text_addf(text, "%" PRIu64 " min", minutes);
    else if (hours < 48)
        gw_text_addf(text, "%" PRIu64 " h %02" PRIu64 " min", hours, minutes % 60);
    else
        gw_text_addf(text, "%" PRIu64 " d %02" PRIu64 " h", days, hours % 24);
}

void gwi_add_idle(gw_text *text, const gw_watch_process *process)
{
    enum { BUSY_S = 5 }; /* samples are a few seconds apart */
    if (process->idle == GW_WATCH_IDLE_UNKNOWN) {
        gw_text_add_str(text, "unknown");
    } else if (process->idle_s < BUSY_S) {
        gw_text_add_str(text, process->idle == GW_WATCH_IDLE_SINCE ? "in use" : "not in use");
    } else {
        gw_text_add_str(text, process->idle == GW_WATCH_IDLE_AT_LEAST ? "> " : "");
        gwi_add_time(text, process->idle_s);
    }
}
