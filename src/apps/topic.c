/* The documents that `gpuwhy help` shows. The build embeds those of docs. */
#include "gwi_help.h"

#include "gw_embedded.h"

#include <string.h>

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
