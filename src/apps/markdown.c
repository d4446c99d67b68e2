/* Shows the documents of `gpuwhy help`, which make_documents.c has read, on a terminal. */
#include "gw_embedded.h"
#include "gwi_help_text.h"

#include "gw_text.h"

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

/* Append a row of a table: the first cell, then the others below it or beside it. */
static void add_row(const char *row, unsigned width, gw_text *text)
{
    enum { CELL_INDENT = 6, NAME_INDENT = 2, NAME_ROOM = 24 };
    size_t bytes = strcspn(row, "\t");
    unsigned at = NAME_INDENT + gw_columns(row, bytes), start = at < NAME_ROOM ? NAME_ROOM : CELL_INDENT;
    gw_text_addf(text, "%*s%.*s", NAME_INDENT, "", (int)bytes, row);
    if (row[bytes] == '\0' || row[bytes + 1] == '\0') {
        gw_text_add_str(text, "\n");
        return;
    }
    gw_text_addf(text, at < NAME_ROOM ? "%*s" : "\n%*s", (int)(at < NAME_ROOM ? start - at : start), "");
    gw_add_wrapped(text, row + bytes + 1, start, start, width);
}

void gwi_document_add(const char *document, unsigned width, gw_text *text)
{
    gw_text line = {0};
    for (const char *at = document; *at != '\0';) {
        size_t bytes = strcspn(at, "\n");
        gw_text_clear(&line);
        gw_text_add(&line, at, bytes);
        at += bytes + (at[bytes] != '\0');
        const char *is = gw_text_str(&line);
        if (is[0] == 'w') {
            unsigned first = (unsigned)(is[1] - '0');
            gw_text_addf(text, "%*s", (int)first, "");
            gw_add_wrapped(text, is + 3, first, (unsigned)(is[2] - '0'), width);
        } else if (is[0] == 'r') {
            add_row(is + 1, width, text);
        } else {
            gw_text_addf(text, is[0] == 'c' && is[1] != '\0' ? "    %s\n" : "\n", is + 1);
        }
    }
    gw_text_free(&line);
}
