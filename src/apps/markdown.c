/* Show the Markdown of docs as plain text. */
#include "gw_embedded.h"
#include "gwi_help_text.h"

#include "gw_text.h"

#include <stdbool.h>
#include <string.h>

/* The documents that `gpuwhy help` shows. The build embeds those of docs. */

extern const gw_embedded gwi_documents[]; /* generated from the files that CMakeLists.txt lists */

static const struct {
    const char *name, *about;
    const char *file;    /* in docs, without its ending; NULL: `command` */
    const char *command; /* a command without arguments */
} rows[] = {{"second-run", "the first run works, the second one fails", "it-fails-on-the-second-run", NULL},
            {"long-training", "it crashes after hours of training", "it-crashes-after-long-training", NULL},
            {"second-call", "a CUDA error on the second call", "cuda-error-on-the-second-call", NULL},
            {"cudnn", "cuDNN cannot allocate, cuDNN is not initialized", "cudnn-cannot-allocate", NULL},
            {"kernel-errors", "kernel errors during training", "kernel-errors-during-training", NULL},
            {"causes", "the causes that gpuwhy can find (gpuwhy causes)", NULL, "causes"},
            {"logs", "the messages that gpuwhy knows in text logs, by library", "logs", NULL},
            {"configuration", "the configuration, and how long recordings are kept", "config", NULL},
            {"environment", "environment variables", "environment", NULL},
            {"exit-status", "exit statuses of all commands", "exit-status", NULL},
            {"terminal", "colours and the pager", "terminal", NULL},
            {"json", "the verdict and other output as JSON", "json-schema", NULL},
            {"recordings", "what is in a recording", "recording-format", NULL},
            {"virtual-gpu", "the virtual card: try gpuwhy without a GPU", "virtual-gpu", NULL},
            {"clean-runs", "how to write a program that frees everything", "clean-runs", NULL},
            {"metrics", "metrics for Prometheus and Grafana", "metrics", NULL},
            {"slurm", "gpuwhy in jobs of Slurm", "slurm", NULL},
            {"kubernetes", "gpuwhy in pods of Kubernetes", "kubernetes", NULL},
            {"launchers", "torchrun, mpirun, srun and other launchers", "launchers", NULL},
            {"admins", "gpuwhy for all users of a site", "admins", NULL},
            {"glossary", "what a term means", "GLOSSARY", NULL}};
enum { ROW_COUNT = sizeof rows / sizeof rows[0] };

static const char *document_of(const char *file)
{
    for (const gw_embedded *document = gwi_documents; file != NULL && document->name != NULL; document++)
        if (strcmp(document->name, file) == 0)
            return document->text;
    return NULL;
}

const gwi_topic *gwi_topic_at(size_t index)
{
    static gwi_topic topic[ROW_COUNT];
    if (index >= ROW_COUNT)
        return NULL;
    topic[index] = (gwi_topic){rows[index].name, rows[index].about, document_of(rows[index].file), rows[index].command};
    return &topic[index];
}

const gwi_topic *gwi_topic_find(const char *name)
{
    for (size_t i = 0; i < ROW_COUNT; i++)
        if (strcmp(rows[i].name, name) == 0)
            return gwi_topic_at(i);
    return NULL;
}

enum { LIST_INDENT = 2, CELL_INDENT = 6, NAME_INDENT = 2, NAME_ROOM = 24 };

/* A document while it is read. A paragraph, or an item of a list, is collected until a line ends it. */
typedef struct reader {
    gw_text *text;
    unsigned width;
    gw_text block; /* owned */
    unsigned indent;
    bool in_table;
} reader;

/* True if the asterisk at line[i] is a mark of *emphasis*, and not itself. */
static bool is_mark(const char *line, size_t bytes, size_t i)
{
    bool after_word = i > 0 && strchr(" (*", line[i - 1]) == NULL;
    bool before_word = i + 1 < bytes && strchr(" .,;:)*", line[i + 1]) == NULL;
    return line[i] == '*' && after_word != before_word;
}

/* Append text without its marks: `code`, **bold** and *emphasis* lose them, [text](address) becomes its text. */
static void add_inline(gw_text *text, const char *line, size_t bytes)
{
    bool in_code = false;
    for (size_t i = 0; i < bytes; i++) {
        const char *close =
            line[i] == ']' && !in_code && i + 1 < bytes && line[i + 1] == '(' ? memchr(line + i, ')', bytes - i) : NULL;
        if (line[i] == '`')
            in_code = !in_code;
        else if (!in_code && line[i] == '*' && i + 1 < bytes && line[i + 1] == '*')
            i++;
        else if (!in_code && is_mark(line, bytes, i))
            continue;
        else if (close != NULL)
            i = (size_t)(close - line);
        else if (in_code || line[i] != '[' || memchr(line + i, ']', bytes - i) == NULL)
            gw_text_add(text, line + i, 1);
    }
}

static void end_block(reader *r)
{
    if (r->block.bytes > 0) {
        gw_text plain = {0};
        add_inline(&plain, gw_text_str(&r->block), r->block.bytes);
        gw_add_wrapped(r->text, gw_text_str(&plain), 0, r->indent, r->width);
        gw_text_free(&plain);
    }
    gw_text_clear(&r->block);
    r->indent = 0;
}

static void add_to_block(reader *r, const char *line, size_t bytes)
{
    while (bytes > 0 && *line == ' ') {
        line++;
        bytes--;
    }
    gw_text_addf(&r->block, "%s%.*s", r->block.bytes > 0 ? " " : "", (int)bytes, line);
}

/* Return the bytes of the cell at `cell`, up to its `|`. One after a backslash does not count. */
static size_t cell_bytes(const char *cell, size_t bytes)
{
    size_t i = 0;
    while (i < bytes && !(cell[i] == '|' && (i == 0 || cell[i - 1] != '\\')))
        i++;
    return i;
}

static void trim(const char **text, size_t *bytes)
{
    while (*bytes > 0 && **text == ' ') {
        (*text)++;
        (*bytes)--;
    }
    while (*bytes > 0 && (*text)[*bytes - 1] == ' ')
        (*bytes)--;
}

/* Append a row of a table: the first cell, then the others below it or beside it. */
static void add_row(reader *r, const char *line, size_t bytes)
{
    gw_text first = {0}, others = {0};
    for (size_t at = 1, cell = 0; at < bytes; cell++) {
        size_t room = cell_bytes(line + at, bytes - at), length = room;
        const char *content = line + at;
        trim(&content, &length);
        if (cell > 1 && length > 0 && others.bytes > 0)
            gw_text_add_str(&others, ": ");
        add_inline(cell == 0 ? &first : &others, content, length);
        at += room + 1;
    }
    gw_text_addf(r->text, "%*s%s", NAME_INDENT, "", gw_text_str(&first));
    unsigned at = NAME_INDENT + gw_columns(gw_text_str(&first), first.bytes);
    if (others.bytes == 0) {
        gw_text_add_str(r->text, "\n");
    } else {
        unsigned start = at < NAME_ROOM ? NAME_ROOM : CELL_INDENT;
        gw_text_addf(r->text, at < NAME_ROOM ? "%*s" : "\n%*s", (int)(at < NAME_ROOM ? start - at : start), "");
        gw_add_wrapped(r->text, gw_text_str(&others), start, start, r->width);
    }
    gw_text_free(&first);
    gw_text_free(&others);
}

/* The head of a table and the line of dashes below it are not shown. */
static void read_row(reader *r, const char *line, size_t bytes)
{
    bool is_rule = strspn(line, "|-: ") >= bytes;
    if (r->in_table && !is_rule)
        add_row(r, line, bytes);
    r->in_table = true;
}

static void read_line(reader *r, const char *line, size_t bytes)
{
    bool is_row = bytes > 0 && line[0] == '|';
    if (!is_row)
        r->in_table = false;
    if (bytes == 0) {
        end_block(r);
        if (r->text->bytes > 1 && r->text->data[r->text->bytes - 2] != '\n')
            gw_text_add_str(r->text, "\n");
    } else if (is_row) {
        end_block(r);
        read_row(r, line, bytes);
    } else if (line[0] == '#') {
        size_t marks = strspn(line, "# ");
        end_block(r);
        add_inline(r->text, line + marks, bytes - marks);
        gw_text_add_str(r->text, "\n");
    } else if (r->block.bytes == 0 && gw_begins(line, "    ")) {
        gw_text_addf(r->text, "%.*s\n", (int)bytes, line);
    } else if (gw_begins(line, "- ") || (strspn(line, "0123456789") > 0 && strncmp(line + 1, ". ", 2) == 0)) {
        end_block(r);
        r->indent = line[0] == '-' ? LIST_INDENT : LIST_INDENT + 1;
        add_to_block(r, line, bytes);
    } else {
        add_to_block(r, line, bytes);
    }
}

void gwi_markdown_add_plain(const char *document, unsigned width, gw_text *text)
{
    reader r = {.text = text, .width = width};
    while (*document != '\0') {
        size_t bytes = strcspn(document, "\n");
        read_line(&r, document, bytes);
        document += bytes + (document[bytes] != '\0');
    }
    end_block(&r);
    gw_text_free(&r.block);
}
