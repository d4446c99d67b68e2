/* A growing string, small questions about strings and paths, and the few ways we print quantities, so that they look
 * alike everywhere.
 *
 * A gw_text starts as {0} and is freed by gw_text_free(). When memory runs out the text stays as it is and
 * `failed` is set: callers look once, at the end. */
#ifndef GW_TEXT_H
#define GW_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct gw_text {
    char *data; /* owned; terminated; NULL while empty */
    size_t bytes;
    size_t capacity;
    bool failed;
} gw_text;

void gw_text_free(gw_text *text);
void gw_text_clear(gw_text *text);
void gw_text_add(gw_text *text, const char *data, size_t bytes);
void gw_text_add_str(gw_text *text, const char *string);
__attribute__((format(printf, 2, 3))) void gw_text_addf(gw_text *text, const char *format, ...);
/* The text; "" while empty. Borrowed until the next change. */
const char *gw_text_str(const gw_text *text);

/* The same characters, or both NULL. */
bool gw_str_same(const char *a, const char *b);
static inline bool gw_begins(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}
static inline bool gw_ends_with(const char *text, const char *end)
{
    size_t bytes = strlen(text), wanted = strlen(end);
    return bytes >= wanted && strcmp(text + bytes - wanted, end) == 0;
}
/* A copy for the caller to free; NULL of NULL. False: no memory, and *ret_copy is NULL. */
bool gw_str_copy(const char *from, char **ret_copy);
/* What is behind the last slash of a path; all of it where there is no slash or nothing behind it; NULL of NULL. */
const char *gw_path_last(const char *path);

/* "0 B", "512 B", "1.50 KiB", "2.39 GiB": two decimals from KiB on. Writes to `out`, returns it. */
enum { GW_BYTES_TEXT_MAX = 24 };
char *gw_bytes_text(char out[GW_BYTES_TEXT_MAX], uint64_t bytes);

/* "16GiB", "512M", "4096", "1.5g": binary units. False when it is not a size or does not fit. */
bool gw_bytes_parse(const char *text, uint64_t *ret_bytes);

#endif
