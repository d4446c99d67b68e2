/* Demangles names and shortens them to what a programmer would write. The demangler of libstdc++ or libc++abi is loaded
 * at run time: a C program should not depend on a C++ library. Without it, C++ names are not demangled. */
#include "gwi_inner.h"

#include "gw_text.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { MANGLED_BYTES_MAX = 16 << 10, NAME_BYTES_MAX = 1000 };

typedef char *demangler(const char *name, char *buffer, size_t *length, int *status);

static demangler *find_demangler(void)
{
    static bool looked;
    static demangler *found;
    if (!looked) {
        looked = true;
        void *library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_LOCAL);
        if (library == NULL)
            library = dlopen("libc++abi.so.1", RTLD_LAZY | RTLD_LOCAL);
        if (library != NULL)
            *(void **)&found = dlsym(library, "__cxa_demangle");
    }
    return found;
}

/* Return the position of a demangled name's parameter list, or the end of the name if it has none. The list begins at
 * the parenthesis that matches the last closing one. " const", "&" or " [clone .cold]" may follow it. */
static size_t parameters_at(const char *name)
{
    size_t end = strlen(name);
    for (;;) { /* skip the text after the list */
        while (end > 0 && (name[end - 1] == ' ' || name[end - 1] == '&'))
            end--;
        if (end >= 6 && gw_begins(name + end - 6, " const"))
            end -= 6;
        else if (end >= 9 && gw_begins(name + end - 9, " volatile"))
            end -= 9;
        else if (end > 0 && name[end - 1] == ']') {
            size_t open = end;
            while (open > 0 && name[open] != '[')
                open--;
            if (open < 2 || !gw_begins(name + open, "[clone"))
                break;
            end = open;
        } else {
            break;
        }
    }
    if (end == 0 || name[end - 1] != ')')
        return strlen(name);
    int depth = 0;
    for (size_t at = end; at-- > 0;) {
        depth += (name[at] == ')') - (name[at] == '(');
        if (depth == 0)
            return at == 0 || (at >= 8 && gw_begins(name + at - 8, "operator")) ? strlen(name) : at;
    }
    return strlen(name);
}

/* Return the position after the return type, or 0 if the name has none. Only the names of template functions contain a
 * return type. `end` is the position of the parameter list. */
static size_t return_type_end(const char *name, size_t end)
{
    int depth = 0;
    size_t from = 0;
    for (size_t at = 0; at < end; at++) {
        char c = name[at];
        if (gw_begins(name + at, "operator") && (at == 0 || !isalnum((unsigned char)name[at - 1])))
            return from; /* a space after "operator" is part of the name */
        if (c == '<' || c == '(' || c == '{' || c == '[')
            depth++;
        else if (c == '>' || c == ')' || c == '}' || c == ']')
            depth--;
        if (c == ' ' && depth == 0)
            from = at + 1;
    }
    return from;
}

/* Return the end of the name without Rust's hash. Rust's old mangling scheme appends "::h" and sixteen hexadecimal
 * digits to every name. */
static size_t without_rust_hash(const char *name, size_t end)
{
    enum { HASH = 19 };
    if (end <= HASH || !gw_begins(name + end - HASH, "::h"))
        return end;
    for (size_t at = end - HASH + 3; at < end; at++)
        if (!isxdigit((unsigned char)name[at]))
            return end;
    return end - HASH;
}

/* Replace Rust's escapes: "$LT$" by "<", ".." by "::", and others. */
static void replace_rust_escapes(char *name)
{
    static const struct {
        const char *escape, *text;
    } escapes[] = {{"$LT$", "<"},  {"$GT$", ">"},  {"$RF$", "&"},  {"$BP$", "*"},  {"$LP$", "("},
                   {"$RP$", ")"},  {"$C$", ","},   {"$SP$", "@"},  {"$u20$", " "}, {"$u27$", "'"},
                   {"$u5b$", "["}, {"$u5d$", "]"}, {"$u7b$", "{"}, {"$u7d$", "}"}, {"..", "::"}};
    char *out = name;
    for (const char *in = name; *in != '\0';) {
        if (gw_begins(in, "_$"))
            in++; /* Rust adds "_" before an escape at the start of an identifier */
        size_t i = 0, count = sizeof escapes / sizeof escapes[0];
        while (i < count && !gw_begins(in, escapes[i].escape))
            i++;
        if (i == count) {
            *out++ = *in++;
            continue;
        }
        memcpy(out, escapes[i].text, strlen(escapes[i].text)); /* the text is never longer than its escape */
        out += strlen(escapes[i].text);
        in += strlen(escapes[i].escape);
    }
    *out = '\0';
}

/* Copy a demangled name without its parameters and return type. The caller owns the copy. Returns NULL if
 * there is no memory. */
static char *without_parameters(const char *name)
{
    size_t end = parameters_at(name), from = return_type_end(name, end);
    bool is_rust = without_rust_hash(name, end) != end;
    end = without_rust_hash(name, end);
    if (from >= end)
        from = 0;
    if (end - from > NAME_BYTES_MAX)
        end = from + NAME_BYTES_MAX;
    char *copy = strndup(name + from, end - from);
    if (copy != NULL && is_rust)
        replace_rust_escapes(copy);
    return copy;
}

char *gwi_demangle(const char *name)
{
    demangler *demangle = gw_begins(name, "_Z") ? find_demangler() : NULL;
    if (demangle == NULL || strnlen(name, MANGLED_BYTES_MAX) == MANGLED_BYTES_MAX)
        return strndup(name, NAME_BYTES_MAX);
    int status = 0;
    char *whole = demangle(name, NULL, NULL, &status);
    if (whole == NULL || status != 0) {
        free(whole);
        return strndup(name, NAME_BYTES_MAX);
    }
    char *shorter = without_parameters(whole);
    free(whole);
    return shorter;
}
