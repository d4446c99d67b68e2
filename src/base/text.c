/* The growing string, helpers for strings and paths, and sizes in bytes as text. */
#include "gw_text.h"

#include "gw_array.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void gw_text_free(gw_text *text)
{
    free(text->data);
    *text = (gw_text){0};
}

void gw_text_clear(gw_text *text)
{
    text->bytes = 0;
    if (text->data != NULL)
        text->data[0] = '\0';
}

static bool reserve(gw_text *text, size_t more)
{
    if (text->failed)
        return false;
    text->failed = !gw_array_reach(&text->data, text->bytes + more + 1, &text->capacity, 1);
    return !text->failed;
}

void gw_text_add(gw_text *text, const char *data, size_t bytes)
{
    if (!reserve(text, bytes))
        return;
    memcpy(text->data + text->bytes, data, bytes);
    text->bytes += bytes;
    text->data[text->bytes] = '\0';
}

void gw_text_add_str(gw_text *text, const char *string)
{
    gw_text_add(text, string, strlen(string));
}

void gw_text_addf(gw_text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    va_list again;
    va_copy(again, args);
    int wanted = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (wanted > 0 && reserve(text, (size_t)wanted)) {
        vsnprintf(text->data + text->bytes, (size_t)wanted + 1, format, again);
        text->bytes += (size_t)wanted;
    }
    va_end(again);
}

const char *gw_text_str(const gw_text *text)
{
    return text->data == NULL ? "" : text->data;
}

bool gw_str_same(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

bool gw_has_one_of(const char *text, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strstr(text, words[i]) != NULL)
            return true;
    return false;
}

bool gw_is_one_of(const char *text, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(text, words[i]) == 0)
            return true;
    return false;
}

bool gw_str_copy(const char *from, char **ret_copy)
{
    *ret_copy = from == NULL ? NULL : strdup(from);
    return from == NULL || *ret_copy != NULL;
}

const char *gw_path_last(const char *path)
{
    const char *slash = path == NULL ? NULL : strrchr(path, '/');
    return slash == NULL || slash[1] == '\0' ? path : slash + 1;
}

static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};

char *gw_bytes_text(char out[GW_BYTES_TEXT_MAX], uint64_t bytes)
{
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 1023.995 && unit + 1 < sizeof units / sizeof units[0]) {
        value /= 1024.0;
        unit++;
    }
    snprintf(out, GW_BYTES_TEXT_MAX, unit == 0 ? "%.0f %s" : "%.2f %s", value, units[unit]);
    return out;
}

static int unit_shift(const char *suffix)
{
    static const char letters[] = "KMGT";
    if (suffix[0] == '\0' || strcasecmp(suffix, "B") == 0)
        return 0;
    const char *letter = strchr(letters, toupper((unsigned char)suffix[0]));
    const char *rest = suffix + 1;
    if (letter == NULL || (*rest != '\0' && strcasecmp(rest, "B") != 0 && strcasecmp(rest, "iB") != 0))
        return -1;
    return 10 * (int)(letter - letters + 1);
}

bool gw_bytes_parse(const char *text, uint64_t *ret_bytes)
{
    if (!isdigit((unsigned char)text[0]))
        return false;
    char *end = NULL;
    errno = 0;
    double value = strtod(text, &end);
    while (*end == ' ')
        end++;
    int shift = unit_shift(end);
    if (errno != 0 || shift < 0)
        return false;
    value = ldexp(value, shift);
    if (!(value < 9.2e18))
        return false;
    *ret_bytes = (uint64_t)value;
    return true;
}

bool gw_threshold_parse(const char *text, double *ret_ratio, uint64_t *ret_bytes)
{
    char *end = NULL;
    double percent = strtod(text, &end);
    *ret_ratio = 0;
    *ret_bytes = 0;
    if (end == text || strcmp(end, "%") != 0)
        return gw_bytes_parse(text, ret_bytes) && *ret_bytes > 0;
    *ret_ratio = percent / 100;
    return percent > 0 && percent <= 100;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static bool is_same(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* This is the optimal string alignment distance, with three rows of its table. */
size_t gw_name_edits(const char *a, const char *b)
{
    size_t row[3][GW_NAME_EDITS_MAX + 1], b_bytes = strlen(b), i = 0;
    if (b_bytes > GW_NAME_EDITS_MAX)
        return SIZE_MAX;
    for (size_t k = 0; k <= b_bytes; k++)
        row[0][k] = k;
    while (a[i] != '\0') {
        i++;
        size_t *now = row[i % 3];
        const size_t *before = row[(i + 2) % 3], *twice_before = row[(i + 1) % 3];
        now[0] = i;
        for (size_t k = 1; k <= b_bytes; k++) {
            size_t replaced = before[k - 1] + !is_same(a[i - 1], b[k - 1]);
            now[k] = least(replaced, least(before[k], now[k - 1]) + 1);
            if (i > 1 && k > 1 && is_same(a[i - 1], b[k - 2]) && is_same(a[i - 2], b[k - 1]))
                now[k] = least(now[k], twice_before[k - 2] + 1);
        }
    }
    return row[i % 3][b_bytes];
}

/* ---- strings of unknown origin ---- */

static bool is_continuation(unsigned char byte)
{
    return (byte & 0xC0) == 0x80;
}

/* Return the length, in bytes, of the valid UTF-8 sequence at the start of `string`, or 0 if there is none. */
static size_t utf8_length(const char *string)
{
    const unsigned char *s = (const unsigned char *)string;
    if (s[0] < 0x80)
        return s[0] != 0;
    size_t length = 2;
    if (s[0] >= 0xF0)
        length = 4;
    else if (s[0] >= 0xE0)
        length = 3;
    if (s[0] < 0xC2 || s[0] > 0xF4)
        return 0;
    for (size_t i = 1; i < length; i++) /* a terminating zero is not a continuation byte, so the loop stops there */
        if (!is_continuation(s[i]))
            return 0;
    /* reject overlong forms, surrogates, and code points beyond U+10FFFF */
    if ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F) || (s[0] == 0xF0 && s[1] < 0x90) ||
        (s[0] == 0xF4 && s[1] > 0x8F))
        return 0;
    return length;
}

/* Return the code point of a valid sequence. */
static unsigned code_of(const char *string, size_t length)
{
    unsigned code = (unsigned char)string[0];
    if (length == 2)
        code &= 0x1F;
    else if (length > 2)
        code &= length == 3 ? 0x0F : 0x07;
    for (size_t i = 1; i < length; i++)
        code = code << 6 | ((unsigned char)string[i] & 0x3F);
    return code;
}

/* True for characters that control a terminal, or that make it show a text in another order than it is, or not at all.
 * `length` is that of a valid sequence. */
static bool is_control(const char *string, size_t length)
{
    /* the marks, embeddings, overrides and isolates of right-to-left text; the separators of lines and paragraphs;
     * characters without width. The joiners U+200C and U+200D are letters' neighbours in Persian, Hindi and emoji. */
    static const struct {
        unsigned first, last;
    } ranges[] = {{0x00, 0x1F},     {0x7F, 0x9F},     {0xAD, 0xAD},      {0x061C, 0x061C}, {0x180E, 0x180E},
                  {0x200B, 0x200B}, {0x200E, 0x200F}, {0x2028, 0x202E},  {0x2060, 0x2064}, {0x2066, 0x206F},
                  {0xFEFF, 0xFEFF}, {0xFFF9, 0xFFFB}, {0xE0000, 0xE007F}};
    unsigned code = code_of(string, length);
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        if (code >= ranges[i].first && code <= ranges[i].last)
            return true;
    return false;
}

static void add_clean(gw_text *text, const char *string, const char *wrong, bool drop_controls)
{
    while (*string != '\0') {
        size_t length = utf8_length(string);
        if (length == 0 || (drop_controls && is_control(string, length))) {
            gw_text_add_str(text, wrong);
            string += length == 0 ? 1 : length;
        } else {
            gw_text_add(text, string, length);
            string += length;
        }
    }
}

void gw_add_printable(gw_text *text, const char *string)
{
    add_clean(text, string, "?", true);
}

void gw_add_utf8(gw_text *text, const char *string)
{
    add_clean(text, string, "\xEF\xBF\xBD", false);
}

void gw_add_json(gw_text *text, const char *json)
{
    while (*json != '\0') {
        size_t length = utf8_length(json), shown = length == 0 ? 1 : length;
        unsigned code = length == 0 ? 0 : code_of(json, length);
        if (code < 0x7F || !is_control(json, length))
            gw_text_add(text, json, shown);
        else if (code < 0x10000)
            gw_text_addf(text, "\\u%04x", code);
        else /* a surrogate pair */
            gw_text_addf(text, "\\u%04x\\u%04x", 0xD800 + ((code - 0x10000) >> 10), 0xDC00 + (code & 0x3FF));
        json += shown;
    }
}

/* ---- words for a shell ---- */

/* True for a word that no shell changes. A word of other letters is one, too: shells split at ASCII characters. */
static bool is_plain_word(const char *word)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,+@%=";
    for (const char *c = word; *c != '\0'; c++)
        if ((unsigned char)*c < 0x80 && strchr(letters, *c) == NULL)
            return false;
    return word[0] != '\0' && word[0] != '='; /* zsh replaces =name by the path of a program */
}

void gw_add_shell_word(gw_text *text, const char *word)
{
    gw_text clean = {0};
    gw_add_printable(&clean, word);
    bool is_printable = strcmp(gw_text_str(&clean), word) == 0;
    gw_text_free(&clean);
    if (is_printable && is_plain_word(word)) {
        gw_text_add_str(text, word);
        return;
    }
    gw_text_add_str(text, is_printable ? "'" : "$'");
    for (const char *c = word; *c != '\0';) {
        size_t length = utf8_length(c);
        bool is_shown = length > 0 && !is_control(c, length);
        if (is_printable && *c == '\'')
            gw_text_add_str(text, "'\\''");
        else if (is_printable || (is_shown && *c != '\'' && *c != '\\'))
            gw_text_add(text, c, length);
        else if (*c == '\n' || *c == '\t')
            gw_text_add_str(text, *c == '\n' ? "\\n" : "\\t");
        else /* a quote, too: sh, which does not know $'..', would end the word at \' */
            for (size_t i = 0; i < (length == 0 ? 1 : length); i++)
                gw_text_addf(text, "\\%03o", (unsigned)(unsigned char)c[i]);
        c += length == 0 ? 1 : length;
    }
    gw_text_add_str(text, "'");
}

void gw_add_fenced(gw_text *page, const char *lines)
{
    gw_text fence = {0};
    size_t longest = 2;
    for (const char *at = lines; (at = strchr(at, '`')) != NULL;) {
        size_t run = strspn(at, "`");
        longest = run > longest ? run : longest;
        at += run;
    }
    for (size_t i = 0; i <= longest; i++)
        gw_text_add_str(&fence, "`");
    gw_text_addf(page, "%s\n%s%s\n\n", gw_text_str(&fence), lines, gw_text_str(&fence));
    page->failed = page->failed || fence.failed;
    gw_text_free(&fence);
}

void gw_add_shell_words(gw_text *text, char *const *words, const char *before)
{
    enum { BYTES_MAX = 120 };
    size_t begin = text->bytes;
    for (size_t i = 0; words[i] != NULL; i++) {
        gw_text word = {0};
        gw_text_addf(&word, "%s%s", i == 0 ? before : "", words[i]);
        bool is_long = text->bytes - begin + word.bytes > BYTES_MAX;
        gw_text_add_str(text, is_long ? " ..." : " ");
        if (!is_long)
            gw_add_shell_word(text, gw_text_str(&word));
        gw_text_free(&word);
        if (is_long)
            return;
    }
}

void gw_add_explain(gw_text *text, bool all, const char *recording)
{
    gw_text_addf(text, "gpuwhy explain%s%s", all ? " --all" : "", recording == NULL ? "" : " ");
    if (recording != NULL && recording[0] == '-')
        gw_text_add_str(text, "./"); /* otherwise, it would be an option */
    if (recording != NULL)
        gw_add_shell_word(text, recording);
}

char *gw_quote(char out[GW_QUOTE_MAX], const char *text, size_t bytes, size_t bytes_max)
{
    static const char dots[] = " ...";
    size_t most = least(bytes_max, GW_QUOTE_MAX - sizeof dots), all = strnlen(text, bytes), end = least(all, most),
           word;
    while (end < all && end > 0 && is_continuation((unsigned char)text[end]))
        end--;
    for (word = end; end < all && word > 0 && text[word] != ' ';)
        word--;
    end = word > most / 2 ? word : end; /* otherwise, the last word is long */
    while (end < all && end > 0 && text[end - 1] == ' ')
        end--;
    snprintf(out, GW_QUOTE_MAX, "%.*s%s", (int)end, text, end < all ? dots : "");
    return out;
}

/* ---- the most similar word of a list ---- */

enum { EDITS_MAX = 3, EDITS_SHARE = 3, BEGINNING_MIN = 3 };

void gw_nearest_add(gw_nearest *nearest, const char *known)
{
    size_t bytes = strlen(nearest->word), known_bytes = strlen(known);
    size_t edits = gw_name_edits(nearest->word, known);
    size_t allowed = (bytes > known_bytes ? bytes : known_bytes) / EDITS_SHARE;
    bool is_similar = edits <= (allowed < EDITS_MAX ? allowed : EDITS_MAX);
    bool is_beginning = bytes >= BEGINNING_MIN && bytes <= known_bytes && memcmp(nearest->word, known, bytes) == 0;
    if ((is_similar || is_beginning) && (nearest->found == NULL || edits < nearest->edits)) {
        nearest->found = known;
        nearest->edits = edits;
    }
}
