/* A growing string, small helpers for strings and paths, and one format for each kind of quantity, so that all outputs
 * use the same.
 *
 * A gw_text starts as {0} and is freed by gw_text_free(). If memory runs out, the text stays unchanged and `failed` is
 * set; callers check it once, at the end. */
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

/* Free the text and reset it to {0}. */
void gw_text_free(gw_text *text);
/* Make the text empty, but keep its memory and `failed`. */
void gw_text_clear(gw_text *text);
/* Append `bytes` bytes, which may include zeros. */
void gw_text_add(gw_text *text, const char *data, size_t bytes);
/* Append a string. */
void gw_text_add_str(gw_text *text, const char *string);
/* Append formatted text. */
__attribute__((format(printf, 2, 3))) void gw_text_addf(gw_text *text, const char *format, ...);
/* The text as a string; "" if it is empty. Borrowed, valid until the next change. */
const char *gw_text_str(const gw_text *text);

/* True if both strings are equal, or both NULL. */
bool gw_str_same(const char *a, const char *b);
/* True if `text` begins with `start`. */
static inline bool gw_begins(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}
/* True if `text` ends with `end`. */
static inline bool gw_ends_with(const char *text, const char *end)
{
    size_t bytes = strlen(text), wanted = strlen(end);
    return bytes >= wanted && strcmp(text + bytes - wanted, end) == 0;
}
/* Copy a string; the caller frees it. The copy of NULL is NULL. False: no memory, and *ret_copy is NULL. */
bool gw_str_copy(const char *from, char **ret_copy);
/* Return the part after the last slash of a path. If there is no slash, or nothing after it, return the whole path.
 * NULL for NULL. Borrowed from `path`. */
const char *gw_path_last(const char *path);

/* Format bytes as "0 B", "512 B", "1.50 KiB", "2.39 GiB": two decimals from KiB on. Writes to `out` and returns it. */
enum { GW_BYTES_TEXT_MAX = 24 };
char *gw_bytes_text(char out[GW_BYTES_TEXT_MAX], uint64_t bytes);

/* Parse "16GiB", "512M", "4096", "1.5g", in binary units. False: not a size, or too large; *ret_bytes is then
 * unchanged. */
bool gw_bytes_parse(const char *text, uint64_t *ret_bytes);

#endif
