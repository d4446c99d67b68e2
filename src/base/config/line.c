/* Finds the line of a key. json-c reads the values, but does not report where they are. */
#include "gwi_config.h"

#include <string.h>

enum { DEPTH_MAX = 2 };

typedef struct finder {
    const char *text;
    size_t bytes, at;
    const char *name;
    const char *key[DEPTH_MAX + 1];  /* the last key at each depth; borrowed from the text */
    size_t key_bytes[DEPTH_MAX + 1]; /* 0: there is none, as in an array */
    unsigned depth, found_line;
} finder;

size_t gwi_config_blank(const char *text, size_t bytes, size_t at)
{
    size_t start = at;
    while (at < bytes) {
        const char *end = NULL;
        if (strchr(" \t\r\n", text[at]) != NULL && text[at] != '\0') {
            at++;
        } else if (at + 1 < bytes && text[at] == '/' && text[at + 1] == '*') {
            end = memmem(text + at + 2, bytes - at - 2, "*/", 2);
            at = end == NULL ? bytes : (size_t)(end - text) + 2;
        } else if (at + 1 < bytes && text[at] == '/' && text[at + 1] == '/') {
            end = memchr(text + at, '\n', bytes - at);
            at = end == NULL ? bytes : (size_t)(end - text) + 1;
        } else {
            break;
        }
    }
    return at - start;
}

/* True if the keys on the way to this one are the wanted name. */
static bool is_wanted(const finder *f)
{
    const char *rest = f->name;
    for (unsigned depth = 1; depth <= f->depth; depth++) {
        size_t bytes = f->key_bytes[depth];
        if (bytes == 0 || bytes > strlen(rest) || memcmp(rest, f->key[depth], bytes) != 0)
            return false;
        rest += bytes;
        if (depth < f->depth && *rest++ != '.')
            return false;
    }
    return *rest == '\0';
}

static unsigned line_of(const finder *f, const char *key)
{
    unsigned line = 1;
    for (const char *at = f->text; at < key; at++)
        line += *at == '\n';
    return line;
}

/* Skip the string at `at`. If a colon follows, the string is a key. */
static void take_string(finder *f)
{
    char quote = f->text[f->at++];
    size_t start = f->at;
    while (f->at < f->bytes && f->text[f->at] != quote)
        f->at += f->text[f->at] == '\\' ? 2 : 1;
    size_t end = f->at < f->bytes ? f->at : f->bytes;
    f->at = end + 1;
    if (f->at >= f->bytes)
        return;
    size_t next = f->at + gwi_config_blank(f->text, f->bytes, f->at);
    if (next >= f->bytes || f->text[next] != ':' || f->depth == 0 || f->depth > DEPTH_MAX)
        return;
    f->key[f->depth] = f->text + start;
    f->key_bytes[f->depth] = end - start;
    if (is_wanted(f))
        f->found_line = line_of(f, f->key[f->depth]);
}

unsigned gwi_config_line(const char *text, size_t bytes, const char *name)
{
    finder f = {.text = text, .bytes = bytes, .name = name};
    while (f.at < bytes) {
        size_t blank = gwi_config_blank(text, bytes, f.at);
        f.at += blank;
        if (blank > 0)
            continue;
        char c = text[f.at];
        if (c == '"' || c == '\'') {
            take_string(&f);
            continue;
        }
        if (c == '{' || c == '[') {
            f.depth++;
            if (f.depth <= DEPTH_MAX)
                f.key_bytes[f.depth] = 0;
        }
        if ((c == '}' || c == ']') && f.depth > 0)
            f.depth--;
        f.at++;
    }
    return f.found_line;
}
