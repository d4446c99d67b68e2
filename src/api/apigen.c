/* apigen: reads the description of the driver API (api/driver.api) and generates C code from it.
 *
 *     apigen driver.api output-folder
 *
 * apigen runs during the build. The top of driver.api explains the columns. For a bad row, apigen prints file, line and
 * reason, and exits with status 1. Otherwise it writes these files. In brackets: the part that is built with the file.
 *
 *   gw_api.h, gw_api.c     ids, names, kinds and routes of all entry points            (all)
 *   gw_api_proto.h         typedef int gw_fn_t_<symbol>(parameters)                    (hook, virtual card)
 *   gw_hook_special.h      prototypes of the functions written by hand: gwi_after_, gwi_instead_, gwi_refuse
 *   gw_hook_wrappers.c     one wrapper for each documented symbol, and gwi_wrappers[]  (hook)
 *   gw_hook_rehearsal.h    prototypes of gwi_rehearse_<symbol>: functions that the hook's rehearsal may define
 *   gw_hook_rehearsal.c    what stands in front of the driver in a rehearsal           (hook)
 *   gw_hook_gates.c        one gate for each documented symbol, and gwi_gates[]        (hook)
 *   gw_virt_calls.h        int gwi_virt_<symbol>(parameters): functions that the virtual card may define
 *   gw_virt_exports.c      the exported symbols of the virtual card                    (virtual card)
 *   gw_cuda_calls.h        prototypes for programs that use the driver API
 *
 * Wrappers use these functions and variables of src/inside/hook/core/gwi_hook.h:
 *
 *   extern void *gwi_real[GW_FN_COUNT];              the functions of the real driver
 *   bool gwi_enter(&th, fn)                          false: call the driver without recording
 *   bool gwi_enter_quick(&th, fn)                    gwi_enter() for short calls: CALL, rows with after=, and HOT kinds
 *                                                    except COPY and SYNC, which may wait
 *   void gwi_leave(&th)
 *   void gwi_hot(&th, fn, GW_COUNT_<kind>, what, stream, bytes)
 *                                                    success of a HOT kind
 *   void gwi_hot_read(&th)                           called after gwi_hot if a copy went to the host
 *   void gwi_event(&th, fn, kind, result, flags, extra, a0, a1, a2, a3, text)
 *                                                    success of a RARE kind
 *   void gwi_failed(&th, fn, kind, result, flags, extra, a0, a1, a2, a3, text)
 *                                                    failure; f0 to f3 of the row (or 0) replace arguments that
 *                                                    read outputs
 *   void gwi_get_failed(fn, result, flags, a0, a1, a2, a3)
 *                                                    failure of a GET, which does not call gwi_enter
 *   extern bool gwi_guard_on;
 *   bool gwi_orders(), gwi_orders_fills()            true if the order of GPU work (of fills) is recorded
 *   void gwi_order(&th, fn, step, flags, object, source, bytes, stream)
 *                                                    called only if the order is recorded
 *
 * Rows may name these functions, too (prototypes in gw_hook_special.h):
 *
 *   void gwi_after_<f>(&th, fn, parameters...)       after success, instead of gwi_event (failures: gwi_failed)
 *   int gwi_instead_<f>(fn, parameters...)           makes the call and records it, instead of the wrapper
 *   bool gwi_refuse(&th, fn, device, bytes, what)    true: the guard refuses the bytes, and the wrapper calls
 *                                                    gwi_failed and returns 2 (out of memory); device -1: the
 *                                                    device of the current context; `what`: argument a2 of the row
 *
 * `flags` is GW_EVF_PER_THREAD or 0. `what` is argument a0 of the row. For COPY, FILL and PREFETCH it is the number
 * of bytes. */
#include "gw_event.h"
#include "gw_hash.h"
#include "gw_text.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARAMS_MAX = 16, ROUTES_MAX = 8, ROWS_MAX = 4096, VIRT_VERSION = 13000, SUFFIX_LENGTH = 5 };

typedef struct param {
    const char *type; /* stored in kept_texts, like all strings of a row */
    const char *name;
} param;

typedef struct route {
    const char *name;
    int version;
    bool per_thread;
} route;

/* The values that a row may set, in the order of `keys`. */
enum {
    VALUE_A,
    VALUE_F = 4,
    VALUE_EXTRA = 8,
    VALUE_TEXT,
    VALUE_REFUSE,
    VALUE_DEVICE,
    VALUE_AFTER,
    VALUE_INSTEAD,
    VALUE_COUNT
};
static const char *const keys[VALUE_COUNT] = {"a0", "a1",    "a2",   "a3",     "f0",     "f1",    "f2",
                                              "f3", "extra", "text", "refuse", "device", "after", "instead"};

typedef struct row {
    const char *symbol;
    int line;
    bool per_thread; /* the name ends with _ptsz or _ptds */
    bool is_public;  /* the parameters are documented */
    bool is_get;     /* only failures are recorded, and the call never waits */
    bool is_read;    /* a GET that goes straight to the driver, without a wrapper, once cuInit has succeeded */
    bool is_fence;   /* a CALL that orders GPU work in a way that gpuwhy does not follow */
    int kind;
    const char *value[VALUE_COUNT]; /* NULL: not set */
    route routes[ROUTES_MAX];
    int route_count;
    const char *c_name; /* name that C programs use (column =name); NULL: `symbol` */
    const char *signature;
    param params[PARAMS_MAX];
    int param_count;
} row;

typedef struct kind_info {
    const char *name;
    const char *price;
} kind_info;

static const kind_info kinds[] = {
#define GW_X(name, price, ...) {#name, #price},
    GW_EVENT_KINDS(GW_X)
#undef GW_X
};
_Static_assert(sizeof kinds / sizeof kinds[0] == GW_EV_COUNT, "one row a kind");

static const char *api_path;
static row rows[ROWS_MAX];
static int row_count;

/* --- errors and texts ------------------------------------------------------------------------------------ */

static void die_at(int line, const char *format, ...) __attribute__((noreturn, format(printf, 2, 3)));

static void die_at(int line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (line > 0)
        fprintf(stderr, "%s:%d: ", api_path, line);
    else
        fprintf(stderr, "%s: ", api_path);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

/* A list of all strings of the rows. They are never freed. */
typedef struct kept_text {
    struct kept_text *next;
    char text[];
} kept_text;
static kept_text *kept_texts;

static char *copy_text(const char *from, size_t bytes)
{
    kept_text *kept = malloc(sizeof *kept + bytes + 1);
    if (kept == NULL)
        die_at(0, "out of memory");
    kept->next = kept_texts;
    kept_texts = kept;
    memcpy(kept->text, from, bytes);
    kept->text[bytes] = '\0';
    return kept->text;
}

/* Copy the text without leading and trailing blanks. */
static char *trimmed(const char *from, size_t bytes)
{
    while (bytes > 0 && isspace((unsigned char)*from))
        from++, bytes--;
    while (bytes > 0 && isspace((unsigned char)from[bytes - 1]))
        bytes--;
    return copy_text(from, bytes);
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static bool is_identifier(const char *text)
{
    if (!isalpha((unsigned char)*text) && *text != '_')
        return false;
    for (; *text; text++)
        if (!is_word(*text))
            return false;
    return true;
}

/* --- the columns ----------------------------------------------------------------------------------------- */

static const param *find_param(const row *r, const char *name, size_t bytes)
{
    for (int i = 0; i < r->param_count; i++)
        if (strlen(r->params[i].name) == bytes && memcmp(r->params[i].name, name, bytes) == 0)
            return &r->params[i];
    return NULL;
}

static void add_param(row *r, const char *from, size_t bytes)
{
    char *text = trimmed(from, bytes);
    size_t end = strlen(text), start = end;
    while (start > 0 && is_word(text[start - 1]))
        start--;
    if (start == 0 || start == end || !is_identifier(text + start))
        die_at(r->line, "parameter '%s' of %s: expected a type and a name", text, r->symbol);
    if (r->param_count == PARAMS_MAX)
        die_at(r->line, "%s has more than %d parameters", r->symbol, PARAMS_MAX);
    if (find_param(r, text + start, end - start))
        die_at(r->line, "%s has two parameters '%s'", r->symbol, text + start);
    r->params[r->param_count].type = trimmed(text, start);
    r->params[r->param_count].name = copy_text(text + start, end - start);
    r->param_count++;
}

static void read_params(row *r, const char *text)
{
    r->signature = text;
    if (strcmp(text, "void") == 0)
        return;
    if (strpbrk(text, "(){};=") != NULL)
        die_at(r->line, "parameters of %s: '%c' cannot stand there", r->symbol, *strpbrk(text, "(){};="));
    for (const char *at = text;;) {
        size_t bytes = strcspn(at, ",");
        add_param(r, at, bytes);
        if (at[bytes] == '\0')
            return;
        at += bytes + 1;
    }
}

static void add_route(row *r, const char *token)
{
    route *to = &r->routes[r->route_count];
    const char *at = strchr(token, '@');
    char *end;
    if (r->route_count == ROUTES_MAX)
        die_at(r->line, "%s has more than %d routes", r->symbol, ROUTES_MAX);
    if (at == NULL || at == token)
        die_at(r->line, "route '%s' of %s: expected name@version", token, r->symbol);
    to->name = copy_text(token, (size_t)(at - token));
    to->version = (int)strtol(at + 1, &end, 10);
    to->per_thread = *end == ':';
    if (end == at + 1 || to->version < 1000 || (*end != '\0' && *end != ':') || !is_identifier(to->name))
        die_at(r->line, "route '%s' of %s: expected name@version or name@version:ptsz", token, r->symbol);
    if (to->per_thread && strcmp(end, ":ptsz") != 0 && strcmp(end, ":ptds") != 0)
        die_at(r->line, "route '%s' of %s: after ':' only ptsz or ptds", token, r->symbol);
    if (to->per_thread != r->per_thread || (to->per_thread && !gw_ends_with(r->symbol, end + 1)))
        die_at(r->line, "route '%s' does not fit the symbol %s: both or none say ptsz or ptds", token, r->symbol);
    r->route_count++;
}

static void read_routes(row *r, const char *text)
{
    if (strcmp(text, "-") == 0)
        return;
    for (const char *at = text;;) {
        size_t bytes = strcspn(at, ",");
        char *token = trimmed(at, bytes);
        if (*token != '=')
            add_route(r, token);
        else if (r->c_name != NULL || !is_identifier(token + 1))
            die_at(r->line, "'%s' of %s: expected one =name", token, r->symbol);
        else
            r->c_name = token + 1;
        if (at[bytes] == '\0')
            return;
        at += bytes + 1;
    }
}

/* Find the next ` key=` at or after `at`. If there is none, *ret_key is -1 and the end of the text is returned. */
static const char *next_key(const char *at, int *ret_key)
{
    for (; *at; at++)
        for (int k = 0; k < VALUE_COUNT; k++) {
            size_t n = strlen(keys[k]);
            if (at[0] == ' ' && strncmp(at + 1, keys[k], n) == 0 && at[1 + n] == '=' && at[2 + n] != '=') {
                *ret_key = k;
                return at;
            }
        }
    *ret_key = -1;
    return at;
}

/* True if the value is exactly `*name`, which reads an output parameter of the call. */
static bool is_plain_output(const char *value)
{
    return *value == '*' && is_identifier(value + 1);
}

static bool is_output(const char *value)
{
    return is_plain_output(value) || strstr(value, "gw_out_") != NULL;
}

/* Check that every word of the value is a parameter, the name of a called function or a constant. Otherwise, print an
 * error and exit. */
static void check_words(const row *r, const char *key, const char *value)
{
    for (const char *at = value; *at;) {
        if (!is_word(*at)) {
            at++;
            continue;
        }
        size_t n = 0;
        while (is_word(at[n]))
            n++;
        bool is_constant = isupper((unsigned char)*at) || isdigit((unsigned char)*at);
        if (!is_constant && at[n] != '(' && find_param(r, at, n) == NULL)
            die_at(r->line, "%s=%s of %s: no parameter '%.*s'", key, value, r->symbol, (int)n, at);
        at += n;
    }
}

static void check_expression(const row *r, const char *key, const char *value)
{
    int depth = 0;
    if (*value == '\0')
        die_at(r->line, "%s= of %s is empty", key, r->symbol);
    for (const char *at = value; *at; at++) {
        depth += (*at == '(') - (*at == ')');
        if (depth < 0)
            break;
        if (*at == '*' && (is_word(at[1]) || at[1] == '(' || at[1] == '*') && !is_plain_output(value))
            die_at(r->line, "%s=%s of %s: `*` reads an output and must be the only expression: write a gw_out_ helper",
                   key, value, r->symbol);
    }
    if (depth != 0)
        die_at(r->line, "%s=%s of %s: brackets do not match", key, value, r->symbol);
    check_words(r, key, is_plain_output(value) ? value + 1 : value);
    if (is_plain_output(value)) {
        const param *p = find_param(r, value + 1, strlen(value + 1));
        if (p && strchr(p->type, '*') == NULL)
            die_at(r->line, "%s=%s of %s: '%s' is no pointer", key, value, r->symbol, p->name);
    }
}

static void check_values(row *r)
{
    static const char bytes_mark[] = "bytes:";
    const char *refuse = r->value[VALUE_REFUSE];
    if (refuse != NULL) {
        if (!gw_begins(refuse, bytes_mark))
            die_at(r->line, "refuse=%s of %s: expected refuse=bytes:EXPRESSION", refuse, r->symbol);
        r->value[VALUE_REFUSE] = refuse + sizeof bytes_mark - 1;
    }
    if (r->value[VALUE_DEVICE] != NULL && refuse == NULL)
        die_at(r->line, "device= of %s needs refuse=", r->symbol);
    for (int k = 0; k < VALUE_COUNT; k++) {
        const char *value = r->value[k];
        if (value == NULL)
            continue;
        if (k >= VALUE_AFTER) {
            if (!is_identifier(value))
                die_at(r->line, "%s=%s of %s: expected a name", keys[k], value, r->symbol);
            continue;
        }
        check_expression(r, keys[k], value);
        bool before_call = k == VALUE_REFUSE || k == VALUE_DEVICE || (k >= VALUE_F && k < VALUE_EXTRA);
        if (before_call && is_output(value))
            die_at(r->line, "%s=%s of %s: cannot read an output", keys[k], value, r->symbol);
    }
    for (int i = 0; i < 4; i++)
        if (r->value[VALUE_F + i] && !(r->value[VALUE_A + i] && is_output(r->value[VALUE_A + i])))
            die_at(r->line, "f%d= of %s: only where a%d= reads an output", i, r->symbol, i);
}

static int find_kind(const char *name, size_t bytes)
{
    for (int k = 0; k < GW_EV_COUNT; k++)
        if (strlen(kinds[k].name) == bytes && memcmp(kinds[k].name, name, bytes) == 0)
            return k;
    return -1;
}

static void read_effect(row *r, const char *text)
{
    size_t word = strcspn(text, " ");
    r->is_public = !(word == 4 && gw_begins(text, "JUMP"));
    r->is_read = word == 4 && gw_begins(text, "READ");
    r->is_get = r->is_read || (word == 3 && gw_begins(text, "GET"));
    r->is_fence = word == 5 && gw_begins(text, "FENCE");
    r->kind = r->is_public && !r->is_get && !r->is_fence ? find_kind(text, word) : (int)GW_EV_CALL;
    if (r->kind < 0 || strcmp(kinds[r->kind].price, "FACT") == 0)
        die_at(r->line, "effect of %s: no kind of call '%.*s'", r->symbol, (int)word, text);
    int key;
    const char *at = next_key(text + word, &key);
    if (at != text + word)
        die_at(r->line, "effect of %s: '%s' has no known key=", r->symbol, text + word);
    while (key >= 0) {
        const char *value = at + 2 + strlen(keys[key]);
        int next;
        at = next_key(value, &next);
        if (r->value[key] != NULL)
            die_at(r->line, "%s= of %s twice", keys[key], r->symbol);
        r->value[key] = trimmed(value, (size_t)(at - value));
        key = next;
    }
    if (!r->is_public && text[word] != '\0')
        die_at(r->line, "JUMP of %s takes nothing", r->symbol);
    if (r->kind == GW_EV_CALL)
        for (int k = 0; k <= VALUE_TEXT; k++)
            if (r->value[k] != NULL)
                die_at(r->line, "%s= of %s: a CALL has no arguments of its own", keys[k], r->symbol);
    if ((r->is_get || r->is_fence) && text[word] != '\0')
        die_at(r->line, "%.*s of %s takes nothing", (int)word, text, r->symbol);
}

static void read_row(char *text, int line)
{
    enum { COLUMNS = 4 };
    char *column[COLUMNS];
    row *r = &rows[row_count];
    int count = 0;
    for (char *at = text;; at++) {
        size_t bytes = strcspn(at, "|");
        if (count == COLUMNS)
            die_at(line, "more than four columns");
        column[count++] = trimmed(at, bytes);
        at += bytes;
        if (*at == '\0')
            break;
    }
    if (count != COLUMNS)
        die_at(line, "%d columns, expected four: symbol | routes | effect | parameters", count);
    if (row_count == ROWS_MAX)
        die_at(line, "more than %d rows", ROWS_MAX);
    r->line = line;
    r->symbol = column[0];
    if (!is_identifier(r->symbol) || !gw_begins(r->symbol, "cu"))
        die_at(line, "'%s' is no name of a driver function", r->symbol);
    r->per_thread = gw_ends_with(r->symbol, "_ptsz") || gw_ends_with(r->symbol, "_ptds");
    read_routes(r, column[1]);
    read_effect(r, column[2]);
    if (r->is_public)
        read_params(r, column[3]);
    else if (strcmp(column[3], "-") != 0)
        die_at(line, "%s is a JUMP: its parameters are '-'", r->symbol);
    check_values(r);
    row_count++;
}

static void check_pair(const row *a, const row *b)
{
    if (strcmp(a->symbol, b->symbol) == 0)
        die_at(b->line, "%s is already in line %d", b->symbol, a->line);
    for (int i = 0; i < a->route_count; i++)
        for (int j = 0; j < b->route_count; j++) {
            const route *x = &a->routes[i], *y = &b->routes[j];
            if (x->version == y->version && x->per_thread == y->per_thread && strcmp(x->name, y->name) == 0)
                die_at(b->line, "route %s@%d of %s leads to %s already (line %d)", y->name, y->version, b->symbol,
                       a->symbol, a->line);
        }
    if (a->c_name && b->c_name && strcmp(a->c_name, b->c_name) == 0)
        die_at(b->line, "=%s of %s is taken by %s (line %d)", b->c_name, b->symbol, a->symbol, a->line);
    for (int k = VALUE_AFTER; k <= VALUE_INSTEAD; k++)
        if (a->value[k] && b->value[k] && strcmp(a->value[k], b->value[k]) == 0 &&
            strcmp(a->signature, b->signature) != 0)
            die_at(b->line, "%s=%s of %s: %s (line %d) has it with other parameters", keys[k], b->value[k], b->symbol,
                   a->symbol, a->line);
}

static void read_api(void)
{
    char *text = NULL;
    size_t capacity = 0;
    ssize_t bytes;
    FILE *in = fopen(api_path, "r");
    if (in == NULL)
        die_at(0, "%s", strerror(errno));
    for (int line = 1; (bytes = getline(&text, &capacity, in)) >= 0; line++) {
        if (memchr(text, '\0', (size_t)bytes) != NULL)
            die_at(line, "a zero byte");
        text[strcspn(text, "\r\n")] = '\0';
        if (text[strspn(text, " \t")] != '\0' && text[0] != '#')
            read_row(text, line);
    }
    if (ferror(in))
        die_at(0, "%s", strerror(errno));
    free(text);
    fclose(in);
    if (row_count == 0)
        die_at(0, "no rows");
    for (int i = 0; i < row_count; i++)
        for (int j = i + 1; j < row_count; j++)
            check_pair(&rows[i], &rows[j]);
}

/* --- writing: parts -------------------------------------------------------------------------------------- */

static const char *out_dir;
static char out_path[4096];

static FILE *begin_file(const char *name, const char *what)
{
    if (snprintf(out_path, sizeof out_path, "%s/%s", out_dir, name) >= (int)sizeof out_path)
        die_at(0, "output path too long: %s/%s", out_dir, name);
    FILE *out = fopen(out_path, "w");
    if (out == NULL) {
        fprintf(stderr, "%s: %s\n", out_path, strerror(errno));
        exit(1);
    }
    fprintf(out, "/* %s\n *\n * Generated by apigen from api/driver.api. Do not edit. */\n", what);
    return out;
}

static void end_file(FILE *out)
{
    bool failed = ferror(out) != 0;
    if (fclose(out) != 0 || failed) {
        fprintf(stderr, "%s: %s\n", out_path, strerror(errno));
        exit(1);
    }
}

static void begin_header(FILE *out, const char *guard)
{
    fprintf(out, "#ifndef %s\n#define %s\n\n", guard, guard);
}

static const char *flags_of(const row *r)
{
    return r->per_thread ? "GW_EVF_PER_THREAD" : "0";
}

/* Write a text about a row. $S stands for the symbol, $F for the flags, $P for the parameters with their types, $A for
 * the names of the parameters; $M is like $A, with a comma before each name. */
static void put(FILE *out, const row *r, const char *text)
{
    for (const char *at = text; *at != '\0'; at++) {
        char sign = *at == '$' ? *++at : '\0';
        if (sign == '\0')
            fputc(*at, out);
        else if (sign == 'S')
            fputs(r->symbol, out);
        else if (sign == 'F')
            fputs(flags_of(r), out);
        else if (sign == 'P')
            fputs(r->signature, out);
        for (int i = 0; (sign == 'A' || sign == 'M') && i < r->param_count; i++)
            fprintf(out, "%s%s", i > 0 || sign == 'M' ? ", " : "", r->params[i].name);
    }
}

/* Write a text about each call whose parameters are documented. */
static void put_public(FILE *out, const char *text)
{
    for (int i = 0; i < row_count; i++)
        if (rows[i].is_public)
            put(out, &rows[i], text);
}

static bool is_constant(const char *value)
{
    for (const char *at = value; *at; at++)
        if (!isupper((unsigned char)*at) && !isdigit((unsigned char)*at) && *at != '_')
            return false;
    return true;
}

/* Write an expression that converts a value of any type to 64 bits. It uses the macros AT and U64, which
 * write_hook_wrappers() defines. */
static void put_value(FILE *out, const char *value)
{
    if (value == NULL)
        fputs("0", out);
    else if (is_plain_output(value))
        fprintf(out, "AT(%s)", value + 1);
    else if (is_constant(value))
        fputs(value, out);
    else
        fprintf(out, "U64(%s)", value);
}

/* Return the expression to record for argument `i` after a failed call; NULL: record 0. The driver sets no outputs
 * on failure. So f0 to f3 of the row replace such arguments. */
static const char *value_failed(const row *r, int i)
{
    const char *value = r->value[VALUE_A + i];
    return value && is_output(value) ? r->value[VALUE_F + i] : value;
}

static bool is_scalar(const param *p)
{
    static const char *const others[] = {"float",      "double",       "CUipcMemHandle", "CUipcEventHandle",
                                         "CUeglFrame", "CUmemLocation"};
    if (strchr(p->type, '*') != NULL)
        return true;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strcmp(p->type, others[i]) == 0)
            return false;
    return true;
}

/* Write the four arguments to record for a failed CALL or GET. These are its first four parameters that are numbers
 * or pointers, padded with 0. */
static void put_call_arguments(FILE *out, const row *r)
{
    int count = 0;
    for (int i = 0; i < r->param_count && count < 4; i++)
        if (is_scalar(&r->params[i])) {
            fputs(", ", out);
            put_value(out, r->params[i].name);
            count++;
        }
    for (; count < 4; count++)
        fputs(", 0", out);
}

static bool is_price(const row *r, const char *price)
{
    return strcmp(kinds[r->kind].price, price) == 0;
}

/* --- writing: the hook ----------------------------------------------------------------------------------- */

static void put_failed(FILE *out, const row *r)
{
    const char *extra = r->value[VALUE_EXTRA];
    fprintf(out, "gwi_failed(&gw_th, GW_FN_%s, GW_EV_%s, gw_result, %s, ", r->symbol, kinds[r->kind].name, flags_of(r));
    fprintf(out, "%s", extra && !is_output(extra) ? extra : "0");
    if (r->kind == GW_EV_CALL) {
        put_call_arguments(out, r);
    } else {
        for (int i = 0; i < 4; i++) {
            fputs(", ", out);
            put_value(out, value_failed(r, i));
        }
    }
    fprintf(out, ", %s);\n", r->value[VALUE_TEXT] ? r->value[VALUE_TEXT] : "NULL");
}

static void put_hot(FILE *out, const row *r)
{
    int bytes = -1;
    if (r->kind == GW_EV_COPY || r->kind == GW_EV_FILL)
        bytes = 2;
    else if (r->kind == GW_EV_PREFETCH)
        bytes = 1;
    fprintf(out, "gwi_hot(&gw_th, GW_FN_%s, GW_COUNT_%s, ", r->symbol, kinds[r->kind].name);
    if (bytes < 0)
        put_value(out, r->value[VALUE_A]);
    else
        fputs("gw_bytes", out);
    fputs(", ", out);
    put_value(out, r->value[VALUE_A + 3]);
    fprintf(out, ", %s);\n", bytes < 0 ? "0" : "gw_bytes");
    if (r->kind == GW_EV_COPY && (strstr(r->symbol, "DtoH") != NULL || strstr(r->symbol, "AtoH") != NULL))
        fputs("        gwi_hot_read(&gw_th);\n", out);
}

static bool has_type(const row *r, const char *value, const char *type)
{
    const param *p = value == NULL ? NULL : find_param(r, value, strlen(value));
    return p != NULL && strcmp(p->type, type) == 0;
}

/* Return the call's effect on the order of GPU work: a GW_ORDER_ constant without the prefix. Returns NULL if there
 * is no effect. Launches are not recorded, because this would slow them down. */
static const char *order_step(const row *r)
{
    bool on_stream = r->value[VALUE_A + 3] != NULL;
    switch (r->kind) {
    case GW_EV_COPY:
        return on_stream ? "COPY" : "COPY_WAITED";
    case GW_EV_FILL:
        return "FILL";
    case GW_EV_EVENT_RECORD:
        /* without a stream, the event covers all streams of a context: gpuwhy does not track this */
        return on_stream ? "RECORD" : "UNKNOWN";
    case GW_EV_STREAM_WAIT:
        return on_stream ? "WAIT" : "UNKNOWN";
    case GW_EV_HOST_FUNC:
        return "HOST_FUNC";
    case GW_EV_PREFETCH:
        return "UNKNOWN";
    case GW_EV_QUERY:
    case GW_EV_SYNC:
        if (has_type(r, r->value[VALUE_A], "CUstream"))
            return "STREAM_DONE";
        if (has_type(r, r->value[VALUE_A], "CUevent"))
            return "EVENT_DONE";
        return "CONTEXT_DONE";
    default:
        return r->is_fence ? "UNKNOWN" : NULL;
    }
}

/* True if one call makes several copies. Then a0 and a1 are the addresses of only the first copy, and a2 is the number
 * of bytes of all copies. */
static bool is_batch(const row *r)
{
    const char *to = r->value[VALUE_A];
    return to != NULL && (gw_begins(to, "gw_first(") || gw_begins(to, "gw_batch3d_"));
}

static void put_order(FILE *out, const row *r)
{
    const char *step = order_step(r);
    if (step == NULL)
        return;
    bool is_range = (r->kind == GW_EV_COPY || r->kind == GW_EV_FILL) && !is_batch(r);
    const char *const value[] = {r->value[VALUE_A], r->kind == GW_EV_COPY ? r->value[VALUE_A + 1] : NULL,
                                 is_range ? "gw_bytes" : NULL, r->value[VALUE_A + 3]};
    fprintf(out, "        if (gwi_orders%s())\n            gwi_order(&gw_th, GW_FN_%s, GW_ORDER_%s, %s",
            r->kind == GW_EV_FILL ? "_fills" : "", r->symbol, step, flags_of(r));
    for (int i = 0; i < 4; i++) {
        fputs(", ", out);
        put_value(out, value[i]);
    }
    fputs(");\n", out);
}

static void put_rare(FILE *out, const row *r)
{
    fprintf(out, "gwi_event(&gw_th, GW_FN_%s, GW_EV_%s, gw_result, %s, %s", r->symbol, kinds[r->kind].name, flags_of(r),
            r->value[VALUE_EXTRA] ? r->value[VALUE_EXTRA] : "0");
    for (int i = 0; i < 4; i++) {
        fputs(", ", out);
        put_value(out, r->value[VALUE_A + i]);
    }
    fprintf(out, ", %s);\n", r->value[VALUE_TEXT] ? r->value[VALUE_TEXT] : "NULL");
}

static void put_success(FILE *out, const row *r)
{
    if (r->value[VALUE_AFTER]) {
        fprintf(out, "gwi_after_%s", r->value[VALUE_AFTER]);
        put(out, r, "(&gw_th, GW_FN_$S$M);\n");
    } else if (is_price(r, "HOT")) {
        put_hot(out, r);
    } else {
        put_rare(out, r);
    }
}

static void put_hot_bytes(FILE *out, const row *r)
{
    const char *bytes = NULL;
    if (r->kind == GW_EV_COPY || r->kind == GW_EV_FILL)
        bytes = r->value[VALUE_A + 2];
    else if (r->kind == GW_EV_PREFETCH)
        bytes = r->value[VALUE_A + 1];
    if (bytes) {
        fputs("        uint64_t gw_bytes = ", out);
        put_value(out, bytes);
        fputs(";\n", out);
    }
}

static void put_call_through(FILE *out, const row *r)
{
    fputs("    int gw_result = ", out);
    if (r->value[VALUE_REFUSE]) {
        const char *device = r->value[VALUE_DEVICE] ? r->value[VALUE_DEVICE] : "-1";
        const char *what = r->value[VALUE_A + 2];
        fprintf(out, "gwi_guard_on && gwi_refuse(&gw_th, GW_FN_%s, %s, %s, ", r->symbol, device,
                r->value[VALUE_REFUSE]);
        put_value(out, what != NULL && is_output(what) ? NULL : what);
        fputs(") ? CUDA_ERROR_OUT_OF_MEMORY\n        : ", out);
    }
    put(out, r, "gw_real($A);\n");
}

/* Write the wrapper of a GET, a call that only reads something. Such calls are too short for the supervisor to see.
 * So the wrapper uses the thread's slot only on failure. Frameworks make about ten such calls around every launch. */
static void put_get(FILE *out, const row *r)
{
    put(out, r,
        "    int gw_result = ((gw_fn_t_$S *)gwi_real[GW_FN_$S])($A);\n"
        "    if (__builtin_expect(gw_result != 0, 0))\n        gwi_get_failed(GW_FN_$S, gw_result, $F");
    put_call_arguments(out, r);
    fputs(");\n    return gw_result;\n}\n\n", out);
}

static void put_wrapper(FILE *out, const row *r)
{
    /* the attribute places the most frequently called wrappers next to each other */
    const char *often = is_price(r, "HOT") || r->is_get || r->value[VALUE_AFTER] ? "__attribute__((hot)) " : "";
    fputs(often, out);
    put(out, r, "static int gwi_wrap_$S($P)\n{\n");
    if (r->is_get) {
        put_get(out, r);
        return;
    }
    if (r->value[VALUE_INSTEAD]) {
        fprintf(out, "    return gwi_instead_%s", r->value[VALUE_INSTEAD]);
        put(out, r, "(GW_FN_$S$M);\n}\n\n");
        return;
    }
    bool quick = is_price(r, "FAILURE") || r->value[VALUE_AFTER] != NULL ||
                 (is_price(r, "HOT") && r->kind != GW_EV_SYNC && r->kind != GW_EV_COPY);
    put(out, r,
        "    gw_fn_t_$S *gw_real = (gw_fn_t_$S *)gwi_real[GW_FN_$S];\n    gwi_slot_ref gw_th;\n    if (!gwi_enter");
    put(out, r, quick ? "_quick(&gw_th, GW_FN_$S))\n" : "(&gw_th, GW_FN_$S))\n");
    put(out, r, "        return gw_real($A);\n");
    put_call_through(out, r);
    if (r->is_fence) {
        fputs("    if (__builtin_expect(gw_result == 0, 1)) {\n", out);
        put_order(out, r);
        fputs("    } else\n        ", out);
    } else if (r->kind == GW_EV_CALL && !r->value[VALUE_AFTER]) {
        fputs("    if (__builtin_expect(gw_result != 0, 0))\n        ", out);
    } else {
        fputs("    if (__builtin_expect(gw_result == 0, 1)) {\n", out);
        if (!r->value[VALUE_AFTER])
            put_hot_bytes(out, r);
        fputs("        ", out);
        put_success(out, r);
        put_order(out, r);
        fputs("    } else\n        ", out);
    }
    put_failed(out, r);
    fputs("    gwi_leave(&gw_th);\n    return gw_result;\n}\n\n", out);
}

static void write_hook_wrappers(void)
{
    FILE *out = begin_file("gw_hook_wrappers.c",
                           "The hook's wrappers: call the driver, look at the result, and record the call.");
    fputs("#include \"gwi_hook.h\"\n\n#include \"gw_api_args.h\"\n#include \"gw_hook_special.h\"\n\n"
          "#define U64(value) ((uint64_t)(uintptr_t)(value))\n"
          "#define AT(pointer) ((pointer) ? U64(*(pointer)) : 0) /* an output that the caller may not want */\n\n",
          out);
    for (int i = 0; i < row_count; i++)
        if (rows[i].is_public)
            put_wrapper(out, &rows[i]);
    fputs("void *const gwi_wrappers[GW_FN_COUNT] = {\n", out);
    put_public(out, "    [GW_FN_$S] = (void *)gwi_wrap_$S,\n");
    fputs("};\n", out);
    end_file(out);
}

/* A gate stands between the wrapper and the driver while --inject or --fence needs it; see src/inside/hook/gwi_gate.h,
 * which declares gwi_gate_before, gwi_gate_failed and gwi_gate_next. */
static const char gate[] = "static int gwi_gate_$S($P)\n{\n    int gw_result;\n"
                           "    if (gwi_gate_before(GW_FN_$S, &gw_result))\n        return gw_result;\n"
                           "    gw_result = ((gw_fn_t_$S *)gwi_gate_next[GW_FN_$S])($A);\n"
                           "    if (__builtin_expect(gw_result != 0, 0))\n        gwi_gate_failed(gw_result);\n"
                           "    return gw_result;\n}\n\n";

static void write_hook_gates(void)
{
    FILE *out = begin_file("gw_hook_gates.c", "The hook's gates: may return a result instead of calling the driver.");
    fputs("#include \"gwi_gate.h\"\n\n", out);
    put_public(out, gate);
    fputs("void *const gwi_gates[GW_FN_COUNT] = {\n", out);
    put_public(out, "    [GW_FN_$S] = (void *)gwi_gate_$S,\n");
    fputs("};\n", out);
    end_file(out);
}

/* True if no earlier row has the same value for `key` (after= or instead=), so that each prototype is written once. */
static bool is_first_use(int index, int key)
{
    for (int i = 0; i < index; i++)
        if (rows[i].value[key] && strcmp(rows[i].value[key], rows[index].value[key]) == 0)
            return false;
    return true;
}

static void write_hook_special(void)
{
    FILE *out = begin_file("gw_hook_special.h", "Hand-written functions of the hook that rows of api/driver.api name.");
    begin_header(out, "GW_HOOK_SPECIAL_H");
    fputs(
        "#include \"gw_cuda_abi.h\"\n\n#include <stdbool.h>\n\nstruct gwi_slot_ref;\n\n"
        "/* Return true if the guard refuses to allocate `bytes` on `device` (-1: the device of the current context).\n"
        " * `what` is argument a2 of the row. The refusal is recorded. */\n"
        "bool gwi_refuse(struct gwi_slot_ref *th, unsigned fn, int device, uint64_t bytes, uint64_t what);\n\n",
        out);
    for (int i = 0; i < row_count; i++) {
        const row *r = &rows[i];
        const char *parameters = strcmp(r->is_public ? r->signature : "void", "void") == 0 ? "" : r->signature;
        const char *comma = *parameters ? ", " : "";
        if (r->value[VALUE_AFTER] && is_first_use(i, VALUE_AFTER))
            fprintf(out, "void gwi_after_%s(struct gwi_slot_ref *th, unsigned fn%s%s);\n", r->value[VALUE_AFTER], comma,
                    parameters);
        if (r->value[VALUE_INSTEAD] && is_first_use(i, VALUE_INSTEAD))
            fprintf(out, "int gwi_instead_%s(unsigned fn%s%s);\n", r->value[VALUE_INSTEAD], comma, parameters);
    }
    fputs("\n#endif\n", out);
    end_file(out);
}

/* --- writing: ids, names, routes ------------------------------------------------------------------------- */

typedef struct sorted_route {
    const route *route;
    const row *row;
} sorted_route;

static int compare_routes(const void *a, const void *b)
{
    const route *x = ((const sorted_route *)a)->route, *y = ((const sorted_route *)b)->route;
    int order = strcmp(x->name, y->name);
    if (order == 0)
        order = x->per_thread - y->per_thread;
    return order ? order : x->version - y->version;
}

static int compare_symbols(const void *a, const void *b)
{
    return strcmp((*(const row *const *)a)->symbol, (*(const row *const *)b)->symbol);
}

static int count_routes(void)
{
    int count = 0;
    for (int i = 0; i < row_count; i++)
        count += rows[i].route_count;
    return count;
}

/* Return a hash of all symbols and kinds, in the order of the rows. Builds with the same hash use the same ids for
 * the entry points. */
static uint32_t api_hash(void)
{
    uint64_t hash = GW_HASH_START;
    for (int i = 0; i < row_count; i++) {
        const char *parts[] = {rows[i].symbol, kinds[rows[i].kind].name};
        for (int p = 0; p < 2; p++)
            hash = gw_hash_bytes(hash, parts[p], strlen(parts[p]) + 1);
    }
    return (uint32_t)(hash ^ hash >> 32);
}

static void write_api_header(void)
{
    FILE *out = begin_file("gw_api.h",
                           "The driver's entry points: numbers, names, kinds, and how cuGetProcAddress finds them.");
    begin_header(out, "GW_API_H");
    fputs("#include <stdint.h>\n\n"
          "typedef enum gw_fn {\n",
          out);
    for (int i = 0; i < row_count; i++)
        fprintf(out, "    GW_FN_%s,\n", rows[i].symbol);
    fprintf(out, "    GW_FN_COUNT\n} gw_fn;\n\nenum { GW_API_ROUTE_COUNT = %d };\n", count_routes());
    fprintf(
        out,
        "#define GW_API_HASH 0x%08xu /* hash of all names and kinds; builds with other tables have another hash */\n\n",
        api_hash());
    fputs(
        "enum {\n"
        "    GW_API_PUBLIC = 1,     /* the parameters are known, so the hook has a wrapper */\n"
        "    GW_API_PER_THREAD = 2, /* stream 0 means the per-thread default stream */\n"
        "    GW_API_INSTEAD = 4,    /* the hook has a hand-written replacement */\n"
        "    GW_API_REFUSABLE = 8,   /* an allocation that the guard may refuse */\n"
        "    GW_API_GET = 16,       /* a query: recorded only if it failed */\n"
        "    GW_API_READ = 32,      /* a GET that calls the driver directly after cuInit */\n"
        "};\n\n"
        "typedef struct gw_api_fn {\n"
        "    const char *symbol; /* static */\n"
        "    uint8_t kind;       /* gw_event_kind */\n"
        "    uint8_t price;      /* gw_price */\n"
        "    uint8_t flags;      /* GW_API_ */\n"
        "} gw_api_fn;\n"
        "extern const gw_api_fn gw_api_fns[GW_FN_COUNT];\n\n"
        "/* A name for cuGetProcAddress, the function that it returns, and the first CUDA version that returns it.\n"
        " * Sorted by name, then per_thread, then version. */\n"
        "typedef struct gw_api_route {\n"
        "    const char *name; /* static */\n"
        "    int version;\n"
        "    uint16_t fn;\n"
        "    uint8_t per_thread;\n"
        "} gw_api_route;\n"
        "extern const gw_api_route gw_api_routes[GW_API_ROUTE_COUNT];\n\n"
        "extern const uint32_t gw_api_hash;\n\n"
        "/* Return the fn of an exported symbol, or -1 if the table does not have it. Any thread. */\n"
        "int gw_api_find_symbol(const char *symbol);\n\n"
        "/* Return the fn that cuGetProcAddress of a driver of at least `version` returns for `name`, as measured, or\n"
        " * -1 if the table does not have it. If a name has routes for per-thread streams, a request for per-thread\n"
        " * streams uses only these. Any thread. */\n"
        "int gw_api_resolve(const char *name, int version, int per_thread);\n\n"
        "#endif\n",
        out);
    end_file(out);
}

static const char *const api_functions =
    "int gw_api_find_symbol(const char *symbol)\n"
    "{\n"
    "    int low = 0, high = GW_FN_COUNT;\n"
    "    while (low < high) {\n"
    "        int middle = (low + high) / 2;\n"
    "        int order = strcmp(symbol, gw_api_fns[by_symbol[middle]].symbol);\n"
    "        if (order == 0)\n"
    "            return by_symbol[middle];\n"
    "        if (order < 0)\n"
    "            high = middle;\n"
    "        else\n"
    "            low = middle + 1;\n"
    "    }\n"
    "    return -1;\n"
    "}\n\n"
    "int gw_api_resolve(const char *name, int version, int per_thread)\n"
    "{\n"
    "    int low = 0, high = GW_API_ROUTE_COUNT, plain = -1, own = -1;\n"
    "    int has_own = 0;\n"
    "    while (low < high) {\n"
    "        int middle = (low + high) / 2;\n"
    "        if (strcmp(gw_api_routes[middle].name, name) < 0)\n"
    "            low = middle + 1;\n"
    "        else\n"
    "            high = middle;\n"
    "    }\n"
    "    for (; low < GW_API_ROUTE_COUNT && strcmp(gw_api_routes[low].name, name) == 0; low++) {\n"
    "        const gw_api_route *route = &gw_api_routes[low];\n"
    "        has_own |= route->per_thread;\n"
    "        if (route->version <= version)\n"
    "            *(route->per_thread ? &own : &plain) = route->fn;\n"
    "    }\n"
    "    return per_thread && has_own ? own : plain;\n"
    "}\n";

static void put_fn_rows(FILE *out)
{
    for (int i = 0; i < row_count; i++) {
        const row *r = &rows[i];
        int flags = (r->is_public ? 1 : 0) | (r->per_thread ? 2 : 0) | (r->value[VALUE_INSTEAD] ? 4 : 0) |
                    (r->value[VALUE_REFUSE] ? 8 : 0) | (r->is_get ? 16 : 0) | (r->is_read ? 32 : 0);
        fprintf(out, "    {\"%s\", GW_EV_%s, GW_PRICE_%s, %d},\n", r->symbol, kinds[r->kind].name, kinds[r->kind].price,
                flags);
    }
}

static void write_api_source(void)
{
    static sorted_route sorted[ROWS_MAX * ROUTES_MAX];
    static const row *by_symbol[ROWS_MAX];
    int count = 0;
    FILE *out = begin_file("gw_api.c", "The tables behind gw_api.h.");
    for (int i = 0; i < row_count; i++) {
        by_symbol[i] = &rows[i];
        for (int j = 0; j < rows[i].route_count; j++)
            sorted[count++] = (sorted_route){&rows[i].routes[j], &rows[i]};
    }
    qsort(sorted, (size_t)count, sizeof sorted[0], compare_routes);
    qsort(by_symbol, (size_t)row_count, sizeof by_symbol[0], compare_symbols);
    fputs("#include \"gw_api.h\"\n\n#include \"gw_event.h\"\n\n#include <string.h>\n\n"
          "const uint32_t gw_api_hash = GW_API_HASH;\n\nconst gw_api_fn gw_api_fns[GW_FN_COUNT] = {\n",
          out);
    put_fn_rows(out);
    fputs("};\n\nconst gw_api_route gw_api_routes[GW_API_ROUTE_COUNT] = {\n", out);
    for (int i = 0; i < count; i++)
        fprintf(out, "    {\"%s\", %d, GW_FN_%s, %d},\n", sorted[i].route->name, sorted[i].route->version,
                sorted[i].row->symbol, sorted[i].route->per_thread);
    fputs("};\n\nstatic const uint16_t by_symbol[GW_FN_COUNT] = {\n", out);
    for (int i = 0; i < row_count; i++)
        fprintf(out, "    GW_FN_%s,\n", by_symbol[i]->symbol);
    fprintf(out, "};\n\n%s", api_functions);
    end_file(out);
}

static void write_proto(void)
{
    FILE *out = begin_file("gw_api_proto.h", "The type of every documented entry point.");
    begin_header(out, "GW_API_PROTO_H");
    fputs("#include \"gw_cuda_abi.h\"\n\n", out);
    put_public(out, "typedef int gw_fn_t_$S($P);\n");
    fputs("\n#endif\n", out);
    end_file(out);
}

/* --- writing: the virtual card and programs -------------------------------------------------------------- */

/* True if the call is newer than the CUDA version that the virtual card reports (VIRT_VERSION). */
static bool is_too_new(const row *r)
{
    for (int i = 0; i < r->route_count; i++)
        if (r->routes[i].version <= VIRT_VERSION)
            return false;
    return r->route_count > 0;
}

/* Return the row of the same call without the suffix _ptsz or _ptds. Returns NULL if there is no such row, or if `r`
 * has no such suffix. */
static const row *plain_variant(const row *r)
{
    size_t bytes = strlen(r->symbol) - SUFFIX_LENGTH;
    if (!r->per_thread)
        return NULL;
    for (int i = 0; i < row_count; i++)
        if (strlen(rows[i].symbol) == bytes && memcmp(rows[i].symbol, r->symbol, bytes) == 0 &&
            rows[i].param_count == r->param_count)
            return &rows[i];
    return NULL;
}

static void write_virt_calls(void)
{
    FILE *out = begin_file("gw_virt_calls.h", "Functions that the virtual card may define, one per entry point.\n *\n"
                                              " * All are optional. Define them in objects that are linked directly: "
                                              "the references are weak, so\n * functions in a static library would not "
                                              "be found. A per-thread variant without a function of\n * its own calls "
                                              "the plain one; gwi_virt_enter() was given the number of the variant.");
    begin_header(out, "GW_VIRT_CALLS_H");
    fprintf(out, "#include \"gw_api.h\"\n#include \"gw_api_proto.h\"\n\nenum { GW_VIRT_VERSION = %d };\n\n",
            VIRT_VERSION);
    fputs("/* Called before every call. Returns 0, or the result to return instead of making the call. */\n"
          "int gwi_virt_enter(unsigned fn);\n"
          "/* Called after every call that gwi_virt_enter() allowed. Returns `result`. */\n"
          "int gwi_virt_leave(unsigned fn, int result);\n"
          "/* Count a call of an entry point that the virtual card does not have, and return its result. */\nint "
          "gwi_virt_lacks(unsigned fn);\n\n",
          out);
    for (int i = 0; i < row_count; i++)
        if (rows[i].is_public && !is_too_new(&rows[i]))
            put(out, &rows[i], "gw_fn_t_$S gwi_virt_$S;\n");
    fputs("\n#endif\n", out);
    end_file(out);
}

static void put_virt_try(FILE *out, const row *r, const char *symbol)
{
    fprintf(out, "    if (gwi_virt_%s)\n        return ", symbol);
    put(out, r, "gwi_virt_leave(GW_FN_$S, ");
    fprintf(out, "gwi_virt_%s", symbol);
    put(out, r, "($A));\n");
}

static void put_virt_export(FILE *out, const row *r)
{
    const row *plain = plain_variant(r);
    fprintf(out, "GW_EXPORT int %s(%s)\n{\n", r->symbol, r->is_public ? r->signature : "void");
    if (!r->is_public) {
        put(out, r, "    return gwi_virt_lacks(GW_FN_$S);\n}\n\n");
        return;
    }
    put(out, r, "    int gw_result = gwi_virt_enter(GW_FN_$S);\n    if (gw_result != 0)\n        return gw_result;\n");
    put_virt_try(out, r, r->symbol);
    if (plain)
        put_virt_try(out, r, plain->symbol);
    put(out, r, "    gwi_virt_leave(GW_FN_$S, 0);\n    return gwi_virt_lacks(GW_FN_$S);\n}\n\n");
}

static void write_virt_exports(void)
{
    FILE *out = begin_file("gw_virt_exports.c", "The exported symbols of the virtual card.");
    fputs("#include \"gw_virt_calls.h\"\n\n"
          "/* The programs that call these functions declare them. */\n"
          "#pragma GCC diagnostic ignored \"-Wmissing-prototypes\"\n"
          "#pragma GCC diagnostic ignored \"-Waddress\"\n\n"
          "#define GW_EXPORT __attribute__((visibility(\"default\")))\n\n",
          out);
    for (int i = 0; i < row_count; i++)
        if (rows[i].is_public && !is_too_new(&rows[i]))
            put(out, &rows[i], "extern gw_fn_t_$S gwi_virt_$S __attribute__((weak, visibility(\"hidden\")));\n");
    fputs("\n", out);
    for (int i = 0; i < row_count; i++)
        if (!is_too_new(&rows[i]))
            put_virt_export(out, &rows[i]);
    end_file(out);
}

static void write_cuda_calls(void)
{
    FILE *out =
        begin_file("gw_cuda_calls.h", "The driver API for C programs built without a CUDA toolkit: links "
                                      "with -lcuda.\n *\n * A name without a suffix means the same as in a program "
                                      "built for CUDA 12.");
    begin_header(out, "GW_CUDA_CALLS_H");
    fputs("#include \"gw_cuda_abi.h\"\n\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n", out);
    put_public(out, "CUresult $S($P);\n");
    fputs("\n#ifdef __cplusplus\n}\n#endif\n\n", out);
    for (int i = 0; i < row_count; i++)
        if (rows[i].c_name)
            fprintf(out, "#define %s %s\n", rows[i].c_name, rows[i].symbol);
    fputs("\n#endif\n", out);
    end_file(out);
}

/* --- writing: the rehearsal ------------------------------------------------------------------------------ */

/* Structures that contain device addresses. */
static const char *const address_structures[] = {
    "CUDA_MEMSET_NODE_PARAMS",   "CUDA_MEMCPY3D",     "CUDA_BATCH_MEM_OP_NODE_PARAMS",
    "CUstreamBatchMemOpParams",  "CUgraphNodeParams", "CUmemDecompressParams",
    "CUDA_RESOURCE_DESC",        "CUarrayMapInfo",    "CUDA_FABRIC_COPY_BATCH_OP",
    "CUDA_MEM_ALLOC_NODE_PARAMS"};

/* True if the call reads a structure that may contain device addresses. */
static bool reads_addresses(const row *r)
{
    if (r->is_get || strstr(r->symbol, "GetParams") != NULL || strstr(r->symbol, "GetResourceDesc") != NULL)
        return false;
    for (int i = 0; i < r->param_count; i++)
        for (size_t k = 0; k < sizeof address_structures / sizeof address_structures[0]; k++)
            if (strstr(r->params[i].type, address_structures[k]) != NULL)
                return true;
    return false;
}

/* True for a parameter that is a device address, or a handle of physical memory. */
static bool is_address(const param *p)
{
    return strcmp(p->type, "CUdeviceptr") == 0 || strcmp(p->type, "CUdeviceptr_v1") == 0 ||
           strcmp(p->type, "CUmemGenericAllocationHandle") == 0;
}

static bool has_address(const row *r)
{
    for (int i = 0; i < r->param_count; i++)
        if (is_address(&r->params[i]))
            return true;
    return false;
}

/* True if the call allocates device memory that a rehearsal does not take from the driver. Arrays are real there. */
static bool is_taking(const row *r)
{
    const char *space = r->value[VALUE_A + 2];
    bool is_array = space != NULL && (strcmp(space, "GW_SPACE_ARRAY") == 0 || strcmp(space, "GW_SPACE_MIPMAP") == 0);
    return r->value[VALUE_REFUSE] != NULL && r->kind != GW_EV_CTX_CREATE && !is_array;
}

typedef enum stand_in { STAND_NONE, STAND_COPY, STAND_FILL, STAND_LAUNCH, STAND_CHECK, STAND_REFUSE } stand_in;

static stand_in stand_in_of(const row *r)
{
    switch (r->kind) {
    case GW_EV_COPY:
        return STAND_COPY;
    case GW_EV_FILL:
        return STAND_FILL;
    case GW_EV_LAUNCH:
    case GW_EV_GRAPH_LAUNCH:
        return STAND_LAUNCH;
    default:
        if (is_taking(r) || reads_addresses(r))
            return STAND_REFUSE;
        return has_address(r) ? STAND_CHECK : STAND_NONE;
    }
}

static void put_addresses(FILE *out, const row *r)
{
    const char *between = "";
    for (int i = 0; i < r->param_count; i++)
        if (is_address(&r->params[i])) {
            fprintf(out, "%sgwi_rehearses(U64(%s))", between, r->params[i].name);
            between = " || ";
        }
}

/* Write the test that is true if the rehearsal makes the call itself. */
static void put_own_condition(FILE *out, const row *r, stand_in how)
{
    if (how == STAND_CHECK) {
        put_addresses(out, r);
    } else if (how == STAND_LAUNCH) {
        fputs("gwi_rehearses_launch(", out);
        put_value(out, r->value[VALUE_A + 3]);
        fputs(")", out);
    } else {
        fputs("gwi_rehearses(", out);
        put_value(out, r->value[VALUE_A]);
        fputs(")", out);
        if (how == STAND_COPY) {
            fputs(" || gwi_rehearses(", out);
            put_value(out, r->value[VALUE_A + 1]);
            fputs(")", out);
        }
    }
}

static void put_own_call(FILE *out, const row *r, stand_in how)
{
    static const char *const names[] = {[STAND_COPY] = "copy",
                                        [STAND_FILL] = "fill",
                                        [STAND_LAUNCH] = "launch",
                                        [STAND_CHECK] = "refuse",
                                        [STAND_REFUSE] = "refuse"};
    static const int argument_count[] = {[STAND_COPY] = 3, [STAND_FILL] = 3, [STAND_LAUNCH] = 1, [STAND_REFUSE] = 0};
    fprintf(out, "return gwi_rehearse_%s(GW_FN_%s", names[how], r->symbol);
    for (int i = 0; i < argument_count[how]; i++) {
        fputs(", ", out);
        put_value(out, r->kind == GW_EV_GRAPH_LAUNCH ? NULL : r->value[VALUE_A + i]);
    }
    fputs(");\n", out);
}

static void put_stand_in(FILE *out, const row *r)
{
    stand_in how = stand_in_of(r);
    if (how == STAND_NONE)
        return;
    put(out, r, "static int stand_in_$S($P)\n{\n");
    if (how == STAND_REFUSE) {
        for (int i = 0; i < r->param_count; i++)
            fprintf(out, "    (void)%s;\n", r->params[i].name);
        fputs("    ", out);
    } else {
        fputs("    if (", out);
        put_own_condition(out, r, how);
        fputs(")\n        ", out);
    }
    put_own_call(out, r, how);
    put(out, r, how != STAND_REFUSE ? "    return GWI_DRIVER($S)($A);\n}\n\n" : "}\n\n");
}

static void write_rehearsal_header(void)
{
    FILE *out = begin_file("gw_hook_rehearsal.h",
                           "Functions that the hook's rehearsal may define, one per entry point. All are optional: the "
                           "references are weak.\n * A per-thread variant without a function of its own uses the plain "
                           "one.");
    begin_header(out, "GW_HOOK_REHEARSAL_H");
    fputs("#include \"gw_api.h\"\n#include \"gw_api_proto.h\"\n\n"
          "/* Return what a rehearsal puts in front of the driver for `fn`; NULL: nothing. */\n"
          "void *gwi_rehearsal_of(unsigned fn);\n\n",
          out);
    put_public(out, "gw_fn_t_$S gwi_rehearse_$S;\n");
    fputs("\n#endif\n", out);
    end_file(out);
}

static void put_rehearsal_row(FILE *out, const row *r)
{
    const row *plain = plain_variant(r);
    put(out, r, "    [GW_FN_$S] = {(void *)gwi_rehearse_$S, ");
    put(out, plain, plain != NULL ? "(void *)gwi_rehearse_$S, " : "NULL, ");
    put(out, r, stand_in_of(r) != STAND_NONE ? "(void *)stand_in_$S},\n" : "NULL},\n");
}

static void write_rehearsal(void)
{
    FILE *out = begin_file("gw_hook_rehearsal.c", "What stands in front of the driver in a rehearsal.");
    fputs("#include \"gw_api_args.h\"\n#include \"gw_hook_rehearsal.h\"\n#include \"gwi_rehearse.h\"\n\n"
          "#define U64(value) ((uint64_t)(uintptr_t)(value))\n\n",
          out);
    put_public(out, "extern gw_fn_t_$S gwi_rehearse_$S __attribute__((weak, visibility(\"hidden\")));\n");
    fputs("\n", out);
    for (int i = 0; i < row_count; i++)
        if (rows[i].is_public)
            put_stand_in(out, &rows[i]);
    fputs("/* The function written by hand, that of the plain variant, the generated one: the first that exists "
          "serves. */\n"
          "static void *const rehearsals[GW_FN_COUNT][3] = {\n",
          out);
    for (int i = 0; i < row_count; i++)
        if (rows[i].is_public)
            put_rehearsal_row(out, &rows[i]);
    fputs("};\n\nvoid *gwi_rehearsal_of(unsigned fn)\n{\n    for (int i = 0; i < 3; i++)\n"
          "        if (rehearsals[fn][i] != NULL)\n            return rehearsals[fn][i];\n    return NULL;\n}\n",
          out);
    end_file(out);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fputs("usage: apigen driver.api output-folder\n", stderr);
        return 2;
    }
    api_path = argv[1];
    out_dir = argv[2];
    read_api();
    write_api_header();
    write_api_source();
    write_proto();
    write_hook_special();
    write_hook_wrappers();
    write_rehearsal_header();
    write_rehearsal();
    write_hook_gates();
    write_virt_calls();
    write_virt_exports();
    write_cuda_calls();
    return 0;
}
