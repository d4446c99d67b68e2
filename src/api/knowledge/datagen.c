/* datagen: write the tables of data/ as the C arrays of gw_data.h, and the driver's result codes as a header. Code that
 * links only to the C library uses the header.
 *
 *     datagen data-folder output.c gw_cuda_results.h gw_regression_words.h
 *
 * datagen runs during the build. If a file is invalid, it prints file, line and reason, writes nothing, and the build
 * fails. A table is a file with comment lines starting with '#', one line with the column names, then the rows. One tab
 * separates two columns. "-" means unknown. `tables` defines the columns, and the check_ functions compare rows with
 * each other.
 *
 * To add a column, add it to `tables`, to the struct of the table in gw_data.h, and to the file. */
#define _GNU_SOURCE
#include "gw_text.h"
#include "gw_version.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS_MAX = 16, ROWS_MAX = 1024, LINE_MAX = 2048 };

typedef enum column_type {
    TEXT,           /* any text or "-" */
    NAME,           /* any text except "-" */
    NUMBER,         /* an integer below 65536 */
    NUMBER_OR_NONE, /* an integer below 65536, or "-", which is stored as 0 */
    VERSION,        /* such as 12.4, or "-", which is stored as 0 */
    DRIVER,  /* a version that is also stored as text: as a number, 450.80.02 loses a zero, and 2.9.0 its last part */
    RELEASE, /* such as 2.11.0 or 2.1.x */
    VERSION_FROM,  /* such as 12.6.3 or 12.1+, or "-" */
    ARCHITECTURES, /* such as 7.5 8.0 12.0+PTX, or "-" */
    CONDITIONS,    /* such as cuDNN<9.15 capability>=10.0, or "-" */
    PARTS,         /* literal alternatives of a pattern, separated by |, or "-"; "=" is replaced by the column `text` */
    WORD,          /* one of `words`, stored as text */
    ENUM,          /* one of `words`, written as `prefix` followed by the word in capitals */
    FLAG           /* one of two `words`, stored as a bool named `prefix`; the first word means true */
} column_type;

typedef struct column {
    const char *name;
    column_type type;
    bool is_key;
    const char *words; /* separated by blanks */
    const char *prefix;
} column;

typedef struct table {
    const char *name; /* file name of the table, without .tsv */
    const char *type;
    column columns[COLUMNS_MAX];
} table;

// clang-format off
#define VERIFIED {"verified", ENUM, false, "no partly yes", "GW_VERIFIED_"}
#define SOURCE {"source", NAME, false, NULL, NULL}
#define PLAIN(name, type) {name, type, false, NULL, NULL}
#define KEY(name, type) {name, type, true, NULL, NULL}
// clang-format on

/* The libraries of regressions.tsv, and the names that its column `needs` may use beside them: a card's compute
 * capability, the number of cards that one process uses, and the CUDA version of the driver or of the framework. */
#define REGRESSION_LIBRARIES                                                                                           \
    "PyTorch torchvision Triton TensorFlow Keras JAX jaxlib cuDNN cuBLAS cuBLASLt NCCL driver CUDA CuPy Numba "        \
    "onnxruntime TensorRT bitsandbytes flash-attn xformers DeepSpeed Lightning transformers accelerate peft nnU-Net "  \
    "MONAI ultralytics llama.cpp vLLM numpy"
#define REGRESSION_NEEDS REGRESSION_LIBRARIES " capability cards"

static const table tables[] = {
    {"xid",
     "gw_xid",
     {{"kind", ENUM, true, "xid sxid", "GW_XID_KIND_"},
      KEY("code", NUMBER),
      PLAIN("mnemonic", TEXT),
      PLAIN("meaning", TEXT),
      {"class", WORD, false,
       "app-first app-or-driver bus-or-driver config consequence driver-fw driver-or-app driver-or-corruption "
       "driver-or-hw "
       "fabric fabric-always-fatal fabric-non-fatal fabric-potentially-fatal hardware hardware-managed hw-or-driver "
       "hw-or-fw info not-training unused",
       NULL},
      PLAIN("hint", TEXT),
      PLAIN("flags", TEXT),
      PLAIN("action", TEXT),
      PLAIN("inquiry", TEXT),
      VERIFIED,
      SOURCE}},
    {"cuda_errors",
     "gw_cuda_error",
     {KEY("code", NUMBER),
      PLAIN("driver_name", TEXT),
      PLAIN("runtime_name", TEXT),
      PLAIN("old_code", NUMBER_OR_NONE),
      PLAIN("text", TEXT),
      PLAIN("log_text", PARTS),
      PLAIN("cuda_log_text", PARTS),
      {"sticky", ENUM, false, "no yes practice maybe unknown", "GW_STICKY_"},
      PLAIN("sticky_source", TEXT),
      {"usable", ENUM, false, "no yes none unknown", "GW_USABLE_"},
      {"reported", ENUM, false, "sync async either", "GW_REPORTED_"},
      PLAIN("meaning", TEXT),
      PLAIN("hint", TEXT),
      {"basis", FLAG, false, "documented inferred", "documented"},
      VERIFIED,
      SOURCE}},
    {"cudnn_status",
     "gw_cudnn_status",
     {KEY("major_first", NUMBER), PLAIN("major_last", NUMBER), KEY("code", NUMBER), PLAIN("name", NAME),
      PLAIN("category", TEXT), PLAIN("meaning", TEXT), PLAIN("hint", TEXT), VERIFIED, SOURCE}},
    {"library_status",
     "gw_library_status",
     {{"library", ENUM, true, "cublas nccl", "GW_STATUS_OF_"},
      KEY("code", NUMBER),
      PLAIN("name", NAME),
      PLAIN("meaning", TEXT),
      PLAIN("hint", TEXT),
      VERIFIED,
      SOURCE}},
    {"driver_compat",
     "gw_driver_row",
     {PLAIN("cuda", VERSION), KEY("release", VERSION), PLAIN("driver_shipped", DRIVER), PLAIN("driver_minimum", DRIVER),
      PLAIN("driver_windows", VERSION), VERIFIED, PLAIN("notes", TEXT), SOURCE}},
    {"cuda_families",
     "gw_cuda_family",
     {KEY("major", NUMBER), PLAIN("driver_minimum", DRIVER), VERIFIED, PLAIN("notes", TEXT), SOURCE}},
    {"compute_capability",
     "gw_capability",
     {KEY("capability", VERSION), PLAIN("architecture", NAME), PLAIN("examples", TEXT), PLAIN("cuda_first", VERSION),
      PLAIN("cuda_last", VERSION), VERIFIED, PLAIN("notes", TEXT), SOURCE}},
    {"framework_compat",
     "gw_framework_row",
     {{"component", WORD, true, "pytorch tensorflow jax", NULL},
      KEY("release", RELEASE),
      KEY("cuda", VERSION_FROM),
      PLAIN("cudnn", VERSION_FROM),
      PLAIN("architectures", ARCHITECTURES),
      VERIFIED,
      PLAIN("notes", TEXT),
      SOURCE}},
    {"cudnn_support",
     "gw_cudnn_support",
     {KEY("first", VERSION), PLAIN("last", VERSION), PLAIN("cuda_first", VERSION), PLAIN("cuda_last", VERSION),
      PLAIN("capability_first", VERSION), PLAIN("capability_last", VERSION), VERIFIED, PLAIN("notes", TEXT), SOURCE}},
    {"regressions",
     "gw_regression",
     {{"library", WORD, true, REGRESSION_LIBRARIES, NULL},
      KEY("first", DRIVER),
      PLAIN("before", DRIVER),
      KEY("needs", CONDITIONS),
      PLAIN("card", TEXT),
      PLAIN("seen", PARTS),
      PLAIN("kernel", PARTS),
      {"effect", ENUM, false, "memory host-memory wrong crash error hang slow", "GW_HARM_"},
      KEY("text", NAME),
      PLAIN("cure", NAME),
      PLAIN("withdraws", TEXT),
      PLAIN("likely", CONDITIONS),
      VERIFIED,
      SOURCE}},
};
enum { TABLE_COUNT = sizeof tables / sizeof tables[0] };

typedef struct row {
    int line;
    char *text;                     /* owned; the line, split at its tabs (each tab replaced by 0) */
    const char *field[COLUMNS_MAX]; /* pointers into `text` or `parts` */
    char *parts[2]; /* owned; the columns log_text and cuda_log_text, with "=" replaced by the column `text` */
} row;
static row rows[TABLE_COUNT][ROWS_MAX];
static int row_counts[TABLE_COUNT];
static const char *folder;
static bool failed;

__attribute__((format(printf, 3, 4))) static void bad(const table *t, int line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "%s/%s.tsv:%d: ", folder, t->name, line);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    failed = true;
}

static int column_count(const table *t)
{
    int count = 0;
    while (count < COLUMNS_MAX && t->columns[count].name != NULL)
        count++;
    return count;
}

/* ---- fields ---- */

static bool is_dash(const char *text)
{
    return strcmp(text, "-") == 0;
}

static bool is_number(const char *text)
{
    if (*text == '\0' || strlen(text) > 5 || strspn(text, "0123456789") != strlen(text))
        return false;
    return strtol(text, NULL, 10) < 65536;
}

static bool is_architectures(const char *text)
{
    for (;;) {
        gw_version version;
        const char *end;
        if (!gw_version_parse(text, &version, &end))
            return false;
        if (gw_begins(end, "+PTX"))
            end += 4;
        if (*end == '\0')
            return true;
        if (*end != ' ')
            return false;
        text = end + 1;
    }
}

static int word_index(const char *words, const char *text);

/* True if `text` is a list of conditions such as "cuDNN<9.15 capability>=10.0". */
static bool is_conditions(const char *text)
{
    for (;;) {
        char name[32];
        gw_version version;
        size_t bytes = strcspn(text, "<>=");
        const char *end;
        if (bytes == 0 || bytes >= sizeof name)
            return false;
        memcpy(name, text, bytes);
        name[bytes] = '\0';
        text += bytes;
        bytes = strspn(text, "<>=");
        bool is_operator = (bytes == 1 && *text != '>') || (bytes == 2 && gw_begins(text, ">="));
        if (!is_operator || word_index(REGRESSION_NEEDS, name) < 0 || !gw_version_parse(text + bytes, &version, &end))
            return false;
        if (*end == '\0')
            return true;
        if (*end != ' ')
            return false;
        text = end + 1;
    }
}

/* True if `text` is a list of literal alternatives separated by |. None may be empty or contain a special character of
 * patterns. */
static bool is_parts(const char *text)
{
    if (strpbrk(text, "\\.[](){}*+?^$") != NULL)
        return false;
    for (const char *at = text;; at++) {
        size_t bytes = strcspn(at, "|");
        if (bytes == 0)
            return false;
        at += bytes;
        if (*at == '\0')
            return true;
    }
}

/* Return the index of the word `text` in `words`, or -1 if it is not in the list. */
static int word_index(const char *words, const char *text)
{
    int index = 0;
    size_t length = strlen(text);
    for (const char *at = words; *at != '\0'; index++) {
        size_t bytes = strcspn(at, " ");
        if (bytes == length && memcmp(at, text, bytes) == 0)
            return index;
        at += bytes;
        at += *at == ' ';
    }
    return -1;
}

static bool ends_in(const char *text, const char *tail)
{
    gw_version version;
    const char *end;
    return gw_version_parse(text, &version, &end) && (*end == '\0' || strcmp(end, tail) == 0);
}

static bool fits(const column *c, const char *text)
{
    gw_version version;
    switch (c->type) {
    case TEXT:
        return true;
    case NAME:
        return !is_dash(text);
    case NUMBER:
        return is_number(text);
    case NUMBER_OR_NONE:
        return is_dash(text) || is_number(text);
    case VERSION:
    case DRIVER:
        return is_dash(text) || gw_version_parse(text, &version, NULL);
    case RELEASE:
        return ends_in(text, ".x");
    case VERSION_FROM:
        return is_dash(text) || ends_in(text, "+");
    case ARCHITECTURES:
        return is_dash(text) || is_architectures(text);
    case CONDITIONS:
        return is_dash(text) || is_conditions(text);
    case PARTS:
        return is_dash(text) || is_parts(text);
    case WORD:
    case ENUM:
    case FLAG:
        return word_index(c->words, text) >= 0;
    }
    return false;
}

static const char *wanted(const column *c)
{
    static const char *const texts[] = {
        "a text",
        "a text other than '-'",
        "a number below 65536",
        "a number below 65536, or '-'",
        "a version such as 12.4, or '-'",
        "a version such as 525.60.13, or '-'",
        "a release such as 2.11.0 or 2.1.x",
        "a version such as 12.6 or 12.1+, or '-'",
        "compute capabilities such as 7.5 12.0+PTX, or '-'",
        "conditions such as cuDNN<9.15 capability>=10.0, or '-'",
        "words without characters that patterns give a meaning, separated by |, or '-'"};
    return c->words != NULL ? c->words : texts[c->type];
}

/* ---- reading ---- */

/* Split `text` at its tabs. Returns the number of fields, which may be larger than COLUMNS_MAX. */
static int cut(char *text, const char *fields[COLUMNS_MAX])
{
    int count = 0;
    for (char *at = text;;) {
        if (count < COLUMNS_MAX)
            fields[count] = at;
        count++;
        char *tab = strchr(at, '\t');
        if (tab == NULL)
            return count;
        *tab = '\0';
        at = tab + 1;
    }
}

static void check_names(const table *t, int line, char *text)
{
    const char *names[COLUMNS_MAX];
    int count = cut(text, names);
    int columns = column_count(t);
    if (count != columns) {
        bad(t, line, "%d columns are named, expected %d", count, columns);
        return;
    }
    for (int i = 0; i < columns; i++) {
        if (strcmp(names[i], t->columns[i].name) != 0)
            bad(t, line, "column %d is '%s', expected '%s'", i + 1, names[i], t->columns[i].name);
    }
}

static bool is_clean(const char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text >= 0x7f || ((unsigned char)*text < ' ' && *text != '\t'))
            return false;
    }
    return true;
}

static void add_row(int index, int line, char *text)
{
    const table *t = &tables[index];
    if (row_counts[index] == ROWS_MAX) {
        bad(t, line, "more than %d rows", ROWS_MAX);
        return;
    }
    row *r = &rows[index][row_counts[index]];
    r->line = line;
    r->text = strdup(text);
    if (r->text == NULL) {
        bad(t, line, "out of memory");
        return;
    }
    row_counts[index]++;
    int count = cut(r->text, r->field);
    int columns = column_count(t);
    if (count != columns) {
        bad(t, line, "%d columns, expected %d", count, columns);
        row_counts[index]--;
        free(r->text);
        return;
    }
    for (int i = 0; i < columns; i++) {
        if (r->field[i][0] == '\0')
            bad(t, line, "column '%s' is empty: write '-' for unknown", t->columns[i].name);
        else if (!fits(&t->columns[i], r->field[i]))
            bad(t, line, "'%s' in column '%s', expected %s", r->field[i], t->columns[i].name, wanted(&t->columns[i]));
    }
}

static void read_table(int index)
{
    const table *t = &tables[index];
    char path[4096], text[LINE_MAX];
    snprintf(path, sizeof path, "%s/%s.tsv", folder, t->name);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        bad(t, 0, "%s", strerror(errno));
        return;
    }
    bool named = false;
    for (int line = 1; fgets(text, sizeof text, file) != NULL; line++) {
        size_t length = strlen(text);
        if (length == 0 || text[length - 1] != '\n') {
            bad(t, line, "no end of line, a zero byte, or more than %d characters", LINE_MAX - 2);
            break;
        }
        text[length - 1] = '\0';
        if (text[0] == '#')
            continue;
        if (!is_clean(text)) {
            bad(t, line, "only printable ASCII and tabs");
        } else if (!named) {
            check_names(t, line, text);
            named = true;
        } else {
            add_row(index, line, text);
        }
        if (failed && row_counts[index] == 0)
            break; /* stop here: with wrong column names, every row would be reported */
    }
    if (ferror(file))
        bad(t, 0, "%s", strerror(errno));
    else if (!failed && row_counts[index] == 0)
        bad(t, 0, "no rows");
    fclose(file);
}

/* ---- checks across rows ---- */

static bool same_key(const table *t, const row *a, const row *b)
{
    for (int i = 0; i < column_count(t); i++) {
        if (t->columns[i].is_key && strcmp(a->field[i], b->field[i]) != 0)
            return false;
    }
    return true;
}

static void check_keys(int index)
{
    for (int i = 0; i < row_counts[index]; i++) {
        for (int k = 0; k < i; k++) {
            if (same_key(&tables[index], &rows[index][k], &rows[index][i]))
                bad(&tables[index], rows[index][i].line, "this row is already in line %d", rows[index][k].line);
        }
    }
}

static void free_row(row *r)
{
    free(r->parts[0]);
    free(r->parts[1]);
    free(r->text);
}

static int table_index(const char *name)
{
    for (int i = 0; i < (int)TABLE_COUNT; i++) {
        if (strcmp(tables[i].name, name) == 0)
            return i;
    }
    return -1;
}

static int column_index(int index, const char *name)
{
    for (int i = 0; i < column_count(&tables[index]); i++) {
        if (strcmp(tables[index].columns[i].name, name) == 0)
            return i;
    }
    return -1;
}

static const char *field_of(int index, const row *r, const char *name)
{
    int at = column_index(index, name);
    return at < 0 ? "-" : r->field[at];
}

/* Return a copy of `parts` with "=" replaced by `text`. Returns NULL if out of memory. */
static char *with_text(const char *parts, const char *text)
{
    const char *sign = strchr(parts, '=');
    char *whole = NULL;
    if (sign != NULL && asprintf(&whole, "%.*s%s%s", (int)(sign - parts), parts, text, sign + 1) < 0)
        return NULL;
    return sign != NULL ? whole : strdup(parts);
}

static void fill_in_texts(void)
{
    static const char *const names[] = {"log_text", "cuda_log_text"};
    int index = table_index("cuda_errors");
    for (int i = 0; i < row_counts[index]; i++) {
        row *r = &rows[index][i];
        for (int k = 0; k < 2; k++) {
            int at = column_index(index, names[k]);
            r->parts[k] = with_text(r->field[at], field_of(index, r, "text"));
            if (r->parts[k] == NULL)
                bad(&tables[index], r->line, "out of memory");
            else if (!is_parts(r->parts[k]))
                bad(&tables[index], r->line, "'%s' in column '%s', expected %s", r->parts[k], names[k],
                    wanted(&tables[index].columns[at]));
            else
                r->field[at] = r->parts[k];
        }
    }
}

static gw_version version_of(const char *text)
{
    gw_version version = 0;
    const char *end;
    (void)gw_version_parse(text, &version, &end);
    return version;
}

static gw_version minor_of(gw_version version)
{
    return gw_version_of(gw_version_part(version, 0), gw_version_part(version, 1), 0);
}

/* True if a row of the table has this version (major and minor) in the column `name`. */
static bool has_version(const char *table_name, const char *name, gw_version version)
{
    int index = table_index(table_name);
    for (int i = 0; i < row_counts[index]; i++) {
        if (minor_of(version_of(field_of(index, &rows[index][i], name))) == minor_of(version))
            return true;
    }
    return false;
}

static const row *family_of(unsigned major)
{
    int index = table_index("cuda_families");
    for (int i = 0; i < row_counts[index]; i++) {
        if ((unsigned)strtol(field_of(index, &rows[index][i], "major"), NULL, 10) == major)
            return &rows[index][i];
    }
    return NULL;
}

static void check_driver(int index, const row *r)
{
    const table *t = &tables[index];
    gw_version cuda = version_of(field_of(index, r, "cuda"));
    gw_version release = version_of(field_of(index, r, "release"));
    gw_version minimum = version_of(field_of(index, r, "driver_minimum"));
    if (cuda == 0 || minimum == 0)
        bad(t, r->line, "cuda and driver_minimum must be known");
    if (minor_of(release) != cuda)
        bad(t, r->line, "release %s is none of CUDA %s", field_of(index, r, "release"), field_of(index, r, "cuda"));
    const row *family = family_of(gw_version_part(cuda, 0));
    if (family == NULL) {
        if (gw_version_part(cuda, 0) >= 11)
            bad(t, r->line, "no row for CUDA %u in cuda_families.tsv", gw_version_part(cuda, 0));
        return;
    }
    const char *wanted_minimum = field_of(table_index("cuda_families"), family, "driver_minimum");
    if (strcmp(wanted_minimum, field_of(index, r, "driver_minimum")) != 0)
        bad(t, r->line, "driver_minimum is not %s of cuda_families.tsv", wanted_minimum);
}

static void check_framework(int index, const row *r)
{
    const table *t = &tables[index];
    const char *cuda = field_of(index, r, "cuda");
    if (!is_dash(cuda) && !has_version("driver_compat", "cuda", version_of(cuda)))
        bad(t, r->line, "CUDA %s is not in driver_compat.tsv", cuda);
    const char *architectures = field_of(index, r, "architectures");
    for (const char *at = architectures; !is_dash(architectures) && *at != '\0';) {
        if (!has_version("compute_capability", "capability", version_of(at)))
            bad(t, r->line, "%.*s is not in compute_capability.tsv", (int)strcspn(at, " "), at);
        at += strcspn(at, " ");
        at += *at == ' ';
    }
}

static void check_capability(int index, const row *r)
{
    gw_version first = version_of(field_of(index, r, "cuda_first")), last = version_of(field_of(index, r, "cuda_last"));
    if (first == 0 || (last != 0 && last < first))
        bad(&tables[index], r->line, "cuda_first must be known and not after cuda_last");
}

static void check_support(int index, const row *r)
{
    const char *first = field_of(index, r, "capability_first");
    gw_version last = version_of(field_of(index, r, "last"));
    if (last != 0 && last < version_of(field_of(index, r, "first")))
        bad(&tables[index], r->line, "last is older than first");
    if (!has_version("compute_capability", "capability", version_of(first)))
        bad(&tables[index], r->line, "%s is not in compute_capability.tsv", first);
}

static void check_error(int index, const row *r)
{
    if (is_dash(field_of(index, r, "driver_name")) && is_dash(field_of(index, r, "runtime_name")))
        bad(&tables[index], r->line, "neither the driver nor the runtime has a name for it");
}

/* True if `part` is one of the alternatives in `parts`. */
static bool has_part(const char *parts, const char *part, size_t bytes)
{
    for (const char *at = parts; *at != '\0'; at += *at == '|') {
        size_t length = strcspn(at, "|");
        if (length == bytes && memcmp(at, part, bytes) == 0)
            return true;
        at += length;
    }
    return false;
}

static bool shares_part(const char *a, const char *b)
{
    if (is_dash(a) || is_dash(b))
        return false;
    for (const char *at = a; *at != '\0'; at += *at == '|') {
        size_t bytes = strcspn(at, "|");
        if (has_part(b, at, bytes))
            return true;
        at += bytes;
    }
    return false;
}

static void check_claims(int index, const row *r, const row *before)
{
    static const char *const columns[] = {"log_text", "cuda_log_text"};
    const table *t = &tables[index];
    const char *old = field_of(index, r, "old_code");
    if (!is_dash(old) && strcmp(old, field_of(index, before, "old_code")) == 0)
        bad(t, r->line, "old_code %s is already in line %d", old, before->line);
    for (int i = 0; i < 4; i++) {
        if (shares_part(field_of(index, r, columns[i / 2]), field_of(index, before, columns[i % 2])))
            bad(t, r->line, "words of its %s are already in line %d", columns[i / 2], before->line);
    }
}

static void check_result(int index, const row *r)
{
    static const char stated[] = "yes practice maybe";
    bool has_source = !is_dash(field_of(index, r, "sticky_source"));
    if ((word_index(stated, field_of(index, r, "sticky")) >= 0) != has_source)
        bad(&tables[index], r->line, "sticky_source must be there where sticky is one of: %s", stated);
    for (const row *before = rows[index]; before < r; before++)
        check_claims(index, r, before);
}

static void check_status(int index, const row *r)
{
    if (atoi(field_of(index, r, "major_last")) < atoi(field_of(index, r, "major_first")))
        bad(&tables[index], r->line, "major_last is below major_first");
}

static void check_regression(int index, const row *r)
{
    gw_version first = version_of(field_of(index, r, "first")), before = version_of(field_of(index, r, "before"));
    if (before != 0 && before <= first)
        bad(&tables[index], r->line, "before must be newer than first: it is the first version without the problem");
    if (is_dash(field_of(index, r, "seen")) && is_dash(field_of(index, r, "kernel")) &&
        is_dash(field_of(index, r, "needs")) && is_dash(field_of(index, r, "card")))
        bad(&tables[index], r->line, "a version alone is in every log: fill in seen, kernel, needs or card");
}

static void check_rows(const char *name, void (*check)(int index, const row *r))
{
    int index = table_index(name);
    for (int i = 0; i < row_counts[index]; i++)
        check(index, &rows[index][i]);
}

/* ---- writing ---- */

static void write_text(FILE *out, const char *text)
{
    if (is_dash(text)) {
        fputs("NULL", out);
        return;
    }
    fputc('"', out);
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

static void write_enum(FILE *out, const column *c, const char *text)
{
    fputs(c->prefix, out);
    for (; *text != '\0'; text++)
        fputc(*text == '-' ? '_' : toupper((unsigned char)*text), out);
}

static void write_field(FILE *out, const column *c, const char *text)
{
    fprintf(out, ".%s = ", c->type == FLAG ? c->prefix : c->name);
    switch (c->type) {
    case NUMBER:
        fputs(text, out);
        break;
    case NUMBER_OR_NONE:
        fputs(is_dash(text) ? "0" : text, out);
        break;
    case VERSION:
        fprintf(out, "UINT64_C(%llu)", (unsigned long long)version_of(text));
        break;
    case DRIVER:
        fprintf(out, "UINT64_C(%llu), .%s_text = ", (unsigned long long)version_of(text), c->name);
        write_text(out, text);
        break;
    case ENUM:
        write_enum(out, c, text);
        break;
    case FLAG:
        fputs(word_index(c->words, text) == 0 ? "true" : "false", out);
        break;
    default:
        write_text(out, text);
    }
    fputs(", ", out);
}

static void write_table(FILE *out, int index)
{
    const table *t = &tables[index];
    fprintf(out, "\nconst %s gw_data_%s[] = {\n", t->type, t->name);
    for (int i = 0; i < row_counts[index]; i++) {
        fputs("    {", out);
        for (int k = 0; k < column_count(t); k++)
            write_field(out, &t->columns[k], rows[index][i].field[k]);
        fputs("},\n", out);
    }
    fprintf(out, "};\nconst size_t gw_data_%s_count = sizeof gw_data_%s / sizeof gw_data_%s[0];\n", t->name, t->name,
            t->name);
}

static void write_tables(FILE *out)
{
    fputs("/* Written by datagen from data/. Do not edit. */\n#include \"gw_data.h\"\n#include \"gw_regressions.h\"\n",
          out);
    for (int i = 0; i < (int)TABLE_COUNT; i++)
        write_table(out, i);
}

/* ---- the header with the driver's result codes ---- */

static void write_names(FILE *out, int index)
{
    fputs("\n/* All results of the driver, as X(name, number). */\n#define GW_CUDA_RESULTS(X)", out);
    for (int i = 0; i < row_counts[index]; i++) {
        const row *r = &rows[index][i];
        if (!is_dash(field_of(index, r, "driver_name")))
            fprintf(out, " \\\n    X(%s, %s)", field_of(index, r, "driver_name"), field_of(index, r, "code"));
    }
    fputs("\n\ntypedef enum CUresult {\n#define GW_X(name, number) name = number,\n    GW_CUDA_RESULTS(GW_X)\n"
          "#undef GW_X\n} CUresult;\n",
          out);
}

static void write_texts(FILE *out, int index)
{
    fputs("\n/* The known texts of cuGetErrorString(), as X(number, text). */\n#define GW_CUDA_TEXTS(X)", out);
    for (int i = 0; i < row_counts[index]; i++) {
        const row *r = &rows[index][i];
        if (is_dash(field_of(index, r, "text")))
            continue;
        fprintf(out, " \\\n    X(%s, ", field_of(index, r, "code"));
        write_text(out, field_of(index, r, "text"));
        fputc(')', out);
    }
    fputs("\n\n/* The same texts, one macro for each name of a result. */\n", out);
    for (int i = 0; i < row_counts[index]; i++) {
        const row *r = &rows[index][i];
        if (is_dash(field_of(index, r, "driver_name")) || is_dash(field_of(index, r, "text")))
            continue;
        fprintf(out, "#define GW_TEXT_%s ", field_of(index, r, "driver_name"));
        write_text(out, field_of(index, r, "text"));
        fputc('\n', out);
    }
}

static void write_pattern(FILE *out, int index, const char *macro, const char *name)
{
    fprintf(out, "#define %s", macro);
    bool first = true;
    for (int i = 0; i < row_counts[index]; i++) {
        const char *parts = field_of(index, &rows[index][i], name);
        if (is_dash(parts))
            continue;
        fputs(first ? " \\\n    " : " \\\n    \"|\" ", out);
        write_text(out, parts);
        first = false;
    }
    fputc('\n', out);
}

static void write_sticky(FILE *out, int index)
{
    fputs("\n/* Return 1 if every later call of the process fails after this result, else 0. */\n"
          "static inline int gw_cuda_is_sticky(unsigned result)\n{\n    switch (result) {\n",
          out);
    for (int i = 0; i < row_counts[index]; i++) {
        const row *r = &rows[index][i];
        if (word_index("yes practice", field_of(index, r, "sticky")) >= 0)
            fprintf(out, "    case %s:\n", field_of(index, r, "code"));
    }
    fputs("        return 1;\n    default:\n        return 0;\n    }\n}\n", out);
}

/* Whether a process can go on after a result. An error that is not sticky counts as sticky if it leaves the context
 * unusable. */
static const char *sticks(int index, const row *r)
{
    const char *sticky = field_of(index, r, "sticky");
    if (word_index("yes practice", sticky) >= 0)
        return "1";
    if (strcmp(sticky, "no") != 0)
        return "-1";
    return strcmp(field_of(index, r, "usable"), "no") == 0 ? "1" : "0";
}

static void write_errors(FILE *out, int index)
{
    static const char *const columns[] = {"driver_name", "runtime_name", "text", "meaning"};
    fputs(
        "\n/* All results of the driver and of the runtime, as X(number, driver's name, runtime's name, text, meaning, "
        "sticks). Names and\n * texts are NULL where there is none. `sticks`: 1 if the process must end after this "
        "result, 0 if it can go on, -1 if\n * that is unknown. */\n#define GW_CUDA_ERRORS(X)",
        out);
    for (int i = 0; i < row_counts[index]; i++) {
        const row *r = &rows[index][i];
        fprintf(out, " \\\n    X(%s, ", field_of(index, r, "code"));
        for (size_t k = 0; k < sizeof columns / sizeof *columns; k++) {
            write_text(out, field_of(index, r, columns[k]));
            fputs(", ", out);
        }
        fprintf(out, "%s)", sticks(index, r));
    }
    fputc('\n', out);
}

static void write_results(FILE *out)
{
    int index = table_index("cuda_errors");
    fputs("/* The driver's results. Written by datagen from data/cuda_errors.tsv. Do not edit. */\n"
          "#ifndef GW_CUDA_RESULTS_H\n#define GW_CUDA_RESULTS_H\n",
          out);
    write_names(out, index);
    write_texts(out, index);
    fputs(
        "\n/* Parts of patterns for log lines: texts that name a result, and texts that name one only beside the word "
        "CUDA. */\n",
        out);
    write_pattern(out, index, "GW_CUDA_LOG_TEXTS", "log_text");
    write_pattern(out, index, "GW_CUDA_SHORT_LOG_TEXTS", "cuda_log_text");
    write_sticky(out, index);
    write_errors(out, index);
    fputs("\n#endif\n", out);
}

/* Append the alternatives of one row: "a&b|c" are the literals a, b and c. */
static void write_words(FILE *out, const char *words, bool *first)
{
    while (*words != '\0') {
        size_t bytes = strcspn(words, "|&");
        fprintf(out, "%s%.*s", *first ? "" : "|", (int)bytes, words);
        *first = false;
        words += bytes + (words[bytes] != '\0');
    }
}

static void write_regression_words(FILE *out)
{
    int index = table_index("regressions");
    bool first = true;
    fputs("/* Words of log lines that show a known problem of a library, as a part of a pattern. Written by datagen "
          "from\n"
          " * data/regressions.tsv. Do not edit. */\n"
          "#ifndef GW_REGRESSION_WORDS_H\n#define GW_REGRESSION_WORDS_H\n\n#define GW_REGRESSION_WORDS \"",
          out);
    for (int i = 0; i < row_counts[index]; i++) {
        static const char *const names[] = {"seen", "kernel"};
        for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
            const char *words = field_of(index, &rows[index][i], names[k]);
            if (!is_dash(words))
                write_words(out, words, &first);
        }
    }
    fputs("\"\n\n#endif\n", out);
}

static int write_file(const char *path, void (*write)(FILE *out))
{
    FILE *out = fopen(path, "w");
    if (out == NULL) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return 1;
    }
    write(out);
    bool broken = ferror(out) != 0;
    if (fclose(out) != 0 || broken) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        remove(path);
        return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fputs("usage: datagen data-folder output.c gw_cuda_results.h gw_regression_words.h\n", stderr);
        return 2;
    }
    folder = argv[1];
    for (int i = 0; i < (int)TABLE_COUNT; i++)
        read_table(i);
    fill_in_texts();
    if (!failed) {
        for (int i = 0; i < (int)TABLE_COUNT; i++)
            check_keys(i);
        check_rows("driver_compat", check_driver);
        check_rows("framework_compat", check_framework);
        check_rows("compute_capability", check_capability);
        check_rows("cudnn_support", check_support);
        check_rows("cuda_errors", check_error);
        check_rows("cuda_errors", check_result);
        check_rows("cudnn_status", check_status);
        check_rows("regressions", check_regression);
    }
    int status = failed || write_file(argv[2], write_tables) != 0 || write_file(argv[3], write_results) != 0 ||
                 write_file(argv[4], write_regression_words) != 0;
    for (int i = 0; i < (int)TABLE_COUNT; i++) {
        for (int k = 0; k < row_counts[i]; k++)
            free_row(&rows[i][k]);
    }
    return status;
}
