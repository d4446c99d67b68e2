/* A growing string, small helpers for strings and paths, and one format for each kind of quantity.
 *
 * Initialise a gw_text with {0} and free it with gw_text_free(). If memory runs out, the text stays unchanged and
 * `failed` is set. Callers may check `failed` once, at the end. */
#ifndef GW_TEXT_H
#define GW_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct gw_text {
    char *data; /* owned; ends with a zero byte; NULL until something is appended */
    size_t bytes;
    size_t capacity;
    bool failed;
} gw_text;

/* Free the text and reset it to {0}. */
void gw_text_free(gw_text *text);
/* Make the text empty, but keep its memory and the value of `failed`. */
void gw_text_clear(gw_text *text);
/* Append `bytes` bytes, which may include zero bytes. */
void gw_text_add(gw_text *text, const char *data, size_t bytes);
/* Append a string. */
void gw_text_add_str(gw_text *text, const char *string);
/* Append formatted text. */
__attribute__((format(printf, 2, 3))) void gw_text_addf(gw_text *text, const char *format, ...);
/* Return the text as a string; "" if it is empty. The string is borrowed, and valid until the text changes. */
const char *gw_text_str(const gw_text *text);

/* True if both strings are equal, or if both are NULL. */
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
/* True if `text` contains one of the words in an array, or is equal to one of them. */
bool gw_has_one_of(const char *text, const char *const *words, size_t count);
bool gw_is_one_of(const char *text, const char *const *words, size_t count);
#define GW_HAS_ONE_OF(text, words) gw_has_one_of(text, words, sizeof(words) / sizeof(words)[0])
#define GW_IS_ONE_OF(text, words)  gw_is_one_of(text, words, sizeof(words) / sizeof(words)[0])
/* Copy a string; the caller frees the copy. The copy of NULL is NULL. Returns false if there is no memory; *ret_copy is
 * then NULL. */
bool gw_str_copy(const char *from, char **ret_copy);
/* Return the part of a path after its last slash (points into `path`). If that part is empty or there is no slash,
 * return `path`, even NULL. */
const char *gw_path_last(const char *path);

/* Format a number of bytes as "0 B", "512 B", "1.50 KiB" or "2.39 GiB". Writes to `out` and returns `out`. */
enum { GW_BYTES_TEXT_MAX = 24 };
char *gw_bytes_text(char out[GW_BYTES_TEXT_MAX], uint64_t bytes);

/* Parse a size such as "16GiB", "512M", "4096" or "1.5g". All units are binary: 1 M is 1,048,576 bytes. Returns
 * false if the text is not a size, or if the size is too large. *ret_bytes is then unchanged. */
bool gw_bytes_parse(const char *text, uint64_t *ret_bytes);

/* Parse a threshold of memory: a share such as "90%" (above 0, at most 100), which sets *ret_ratio to 0.9 and
 * *ret_bytes to 0; or a size above 0, which sets *ret_ratio to 0. Returns false if it is neither; the results are then
 * unspecified. */
bool gw_threshold_parse(const char *text, double *ret_ratio, uint64_t *ret_bytes);

/* Return how many characters must be inserted, removed, replaced or swapped with their neighbour, ignoring case, to
 * turn one name into the other. SIZE_MAX if `b` is longer than GW_NAME_EDITS_MAX characters. */
enum { GW_NAME_EDITS_MAX = 80 };
size_t gw_name_edits(const char *a, const char *b);

/* Make strings of unknown origin safe to print. Pass every string from a file, a process or a name through one of these
 * functions before printing it. */

/* Append `string`, with '?' for control characters and invalid UTF-8. Otherwise, a program's arguments or stderr could
 * control the user's terminal. Characters that set the direction of text (such as U+202E) or have no width (such as
 * U+200B) count as control characters, because a terminal shows the text in another order, or does not show them. */
void gw_add_printable(gw_text *text, const char *string);

/* Append `string` as valid UTF-8. Invalid bytes become U+FFFD. Control characters stay, because JSON escapes them. */
void gw_add_utf8(gw_text *text, const char *string);

/* Append the text of a JSON document. What gw_add_printable() replaces, and JSON may contain as it is, becomes \uXXXX:
 * DEL, U+0080 to U+009F, U+202E and others. People print JSON on terminals, too. */
void gw_add_json(gw_text *text, const char *json);

/* Append one word of a command that the user may paste into a shell: as it is, or in single quotes. A word with what
 * gw_add_printable() replaces is written as $'..' with \n, \t and octal numbers, which bash, zsh and ksh read. Every
 * word of a printed command that is not a constant goes through this function. */
void gw_add_shell_word(gw_text *text, const char *word);
/* Append a blank and each of the words, the last of which is followed by NULL. `before` stands before the first one:
 * "./", or "". A long command line is cut. */
void gw_add_shell_words(gw_text *text, char *const *words, const char *before);

/* Append lines, which end with a line break, and an empty line, as a block of code in Markdown. Its fence is longer
 * than any run of ` in them, so nothing in the lines can end the block. */
void gw_add_fenced(gw_text *text, const char *lines);

/* Append the command that explains a recording, for a shell; `all`: with all evidence. `recording` may be NULL. */
void gw_add_explain(gw_text *text, bool all, const char *recording);

/* Quote at most `bytes_max` bytes of a text. A longer one is cut after a word, never inside a UTF-8 sequence, and ends
 * with " ...". `bytes` may be SIZE_MAX for a string. Returns `out`. */
enum { GW_QUOTE_MAX = 408 };
char *gw_quote(char out[GW_QUOTE_MAX], const char *text, size_t bytes, size_t bytes_max);

/* ---- the word of each value of an enum ---- */

/* Define `function`, which returns the word of a value, or `other` for a number out of range. The list that defines the
 * enum has rows X(name, word). */
#define GW_WORDS(function, type, list, other) GW_WORDS_BY(GW_WORD, function, type, list, other)
#define GW_WORD(name, word, ...)              word,
/* The same, with another macro for a row: GW_WORD_NAME takes the name itself. */
#define GW_WORD_NAME(name, ...) #name,
#define GW_WORDS_BY(row, function, type, list, other)                                                                  \
    const char *function(type value)                                                                                   \
    {                                                                                                                  \
        static const char *const words[] = {list(row)};                                                                \
        return (size_t)value < sizeof words / sizeof words[0] ? words[value] : (other);                                \
    }

/* ---- columns (target gw_wrap) ---- */

/* Return the number of columns of a string of UTF-8 on a terminal: two for a Chinese character or an emoji, none for an
 * accent that combines with the character before it, or a control character. */
unsigned gw_columns(const char *string, size_t bytes);
/* Return how many bytes at the beginning or end of the string fit into `columns` columns. Never cuts inside a code
 * point, or between a character and its accents. gw_head_words() cuts after a word, unless that leaves two thirds
 * empty. */
size_t gw_head_bytes(const char *string, size_t bytes, unsigned columns);
size_t gw_tail_bytes(const char *string, size_t bytes, unsigned columns);
size_t gw_head_words(const char *string, size_t bytes, unsigned columns);

/* Append the words of `body`, beginning at column `at`, and a line break. A line has at most `width` columns, but a
 * longer word is not broken, because users could not copy a broken path. Later lines are indented by `indent`. Returns
 * the number of lines on a terminal of that width. */
unsigned gw_add_wrapped(gw_text *text, const char *body, unsigned at, unsigned indent, unsigned width);

/* Append `string` in at most `columns` columns, 12 or more. The middle of a longer text is left out, at words if
 * possible, and replaced by "...": "python train.py ... --batch 8". Never cuts inside a UTF-8 sequence. */
void gw_add_short(gw_text *text, const char *string, unsigned columns);

/* ---- "did you mean": the word of a list that is most similar to a misspelt one ---- */

/* A search in a list. Begin with {.word = WORD}. A word of the list is similar if at most a third of the longer word's
 * characters must change, and at most 3; or if it begins with WORD, which has three characters or more. */
typedef struct gw_nearest {
    const char *word;  /* the misspelt word, borrowed */
    const char *found; /* the most similar word so far, borrowed; NULL: none */
    size_t edits;      /* of `found` */
} gw_nearest;

/* Compare one more word, which is borrowed. Of equally similar words, the first one counts. */
void gw_nearest_add(gw_nearest *nearest, const char *known);

#endif
