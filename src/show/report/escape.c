/* Writes text and numbers from recordings into a page. */
#include "gwi_escape.h"

#include "gw_text.h"

#include <inttypes.h>

static void add_html(gw_text *page, const char *clean)
{
    for (const char *c = clean; *c != '\0'; c++) {
        switch (*c) {
        case '&':
            gw_text_add_str(page, "&amp;");
            break;
        case '<':
            gw_text_add_str(page, "&lt;");
            break;
        case '>':
            gw_text_add_str(page, "&gt;");
            break;
        case '"':
            gw_text_add_str(page, "&quot;");
            break;
        case '\'':
            gw_text_add_str(page, "&#39;");
            break;
        default:
            gw_text_add(page, c, 1);
            break;
        }
    }
}

void gwi_html(gw_text *page, const char *string)
{
    gw_text clean = {0};
    if (string == NULL)
        return;
    gw_add_printable(&clean, string);
    add_html(page, gw_text_str(&clean));
    page->failed = page->failed || clean.failed;
    gw_text_free(&clean);
}

static bool is_inside_character(char byte)
{
    return ((unsigned char)byte & 0xC0) == 0x80;
}

static size_t characters(const char *text)
{
    size_t count = 0;
    for (; *text != '\0'; text++)
        count += !is_inside_character(*text);
    return count;
}

/* Return the offset of character `index`. */
static size_t offset_of(const char *text, size_t index)
{
    size_t at = 0;
    for (; text[at] != '\0'; at++) {
        if (!is_inside_character(text[at]) && index-- == 0)
            break;
    }
    return at;
}

/* Append the text with its middle cut out. Returns false if it was short enough. `clean` is valid UTF-8. */
static bool add_cut(gw_text *out, const char *clean, unsigned chars_max)
{
    size_t count = characters(clean);
    if (count <= chars_max || chars_max < 3) {
        gw_text_add_str(out, clean);
        return false;
    }
    size_t head = chars_max / 2, tail = chars_max - head - 1;
    gw_text_add(out, clean, offset_of(clean, head));
    gw_text_add_str(out, "…");
    gw_text_add_str(out, clean + offset_of(clean, count - tail));
    return true;
}

void gwi_cut(gw_text *text, const char *string, unsigned chars_max)
{
    gw_text clean = {0};
    gw_add_printable(&clean, string == NULL ? "" : string);
    (void)add_cut(text, gw_text_str(&clean), chars_max);
    text->failed = text->failed || clean.failed;
    gw_text_free(&clean);
}

void gwi_html_cut(gw_text *page, const char *string, unsigned chars_max)
{
    gw_text clean = {0}, cut = {0};
    gw_add_printable(&clean, string == NULL ? "" : string);
    bool is_cut = add_cut(&cut, gw_text_str(&clean), chars_max);
    if (is_cut) {
        gw_text_add_str(page, "<span title=\"");
        add_html(page, gw_text_str(&clean));
        gw_text_add_str(page, "\">");
    }
    add_html(page, gw_text_str(&cut));
    gw_text_add_str(page, is_cut ? "</span>" : "");
    page->failed = page->failed || clean.failed || cut.failed;
    gw_text_free(&clean);
    gw_text_free(&cut);
}

void gwi_script_json(gw_text *page, const char *json)
{
    for (const char *c = json; *c != '\0';) {
        size_t plain = strcspn(c, "<");
        gw_text_add(page, c, plain);
        c += plain;
        if (*c == '<') {
            gw_text_add_str(page, "\\u003c");
            c++;
        }
    }
}

void gwi_bytes(gw_text *page, uint64_t bytes)
{
    char shown[GW_BYTES_TEXT_MAX];
    gw_text_add_str(page, gw_bytes_text(shown, bytes));
}

void gwi_time(gw_text *page, uint64_t ns)
{
    enum { MINUTE = 60, HOUR = 3600 };
    uint64_t seconds = ns / 1000000000u;
    if (seconds < 1)
        gw_text_addf(page, "%.3f s", (double)ns / 1e9);
    else if (seconds < 10)
        gw_text_addf(page, "%.2f s", (double)ns / 1e9);
    else if (seconds < 2 * MINUTE)
        gw_text_addf(page, "%.1f s", (double)ns / 1e9);
    else if (seconds < HOUR)
        gw_text_addf(page, "%" PRIu64 " min %02" PRIu64 " s", seconds / MINUTE, seconds % MINUTE);
    else
        gw_text_addf(page, "%" PRIu64 " h %02" PRIu64 " min", seconds / HOUR, seconds % HOUR / MINUTE);
}
