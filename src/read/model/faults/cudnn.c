/* Collects the entries of cuDNN's own log (facts "cudnn.log", with --deep). Equal entries share one fact, which is
 * recorded again with a larger count. */
#include "gwi_inner.h"

#include <stdlib.h>
#include <string.h>

enum { LINES_MAX = 256 };

static bool is_equal(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static bool is_same(const gw_cudnn_line *a, const gw_cudnn_line *b)
{
    return a->pid == b->pid && a->is_error == b->is_error && is_equal(a->function, b->function) &&
           is_equal(a->status, b->status) && is_equal(a->reason, b->reason);
}

static void free_texts(gw_cudnn_line *line)
{
    free(line->function);
    free(line->status);
    free(line->reason);
}

static gw_cudnn_line read_line(gw_model *model, const gw_item *item)
{
    gw_fact_cudnn_log fact;
    gw_fact_cudnn_log_read(gw_fact_text_of(item->pair.value), &fact);
    return (gw_cudnn_line){.t_ns = item->t_ns,
                           .t_last_ns = item->t_ns,
                           .count = fact.has_count ? fact.count : 1,
                           .pid = item->pid,
                           .is_error = gw_fact_text_is(fact.severity, "error"),
                           .version = fact.version,
                           .more = fact.more,
                           .function = gwi_copy_fact_text(model, fact.function),
                           .status = gwi_copy_fact_text(model, fact.status),
                           .reason = gwi_copy_fact_text(model, fact.reason)};
}

void gwi_cudnn_fact(gw_model *model, const gw_item *item)
{
    gw_cudnn_line line = read_line(model, item);
    for (size_t i = 0; i < model->cudnn_line_count; i++) {
        gw_cudnn_line *old = &model->cudnn_line[i];
        if (!is_same(old, &line))
            continue;
        old->t_last_ns = line.t_last_ns > old->t_last_ns ? line.t_last_ns : old->t_last_ns;
        old->count = line.count > old->count ? line.count : old->count;
        free_texts(&line);
        return;
    }
    if (model->cudnn_line_count == LINES_MAX || !gwi_room(model, &model->cudnn_line, model->cudnn_line_count,
                                                          &model->inner->cudnn_line_capacity, sizeof line)) {
        free_texts(&line);
        return;
    }
    model->cudnn_line[model->cudnn_line_count++] = line;
}

void gwi_cudnn_free(gw_model *model)
{
    for (size_t i = 0; i < model->cudnn_line_count; i++)
        free_texts(&model->cudnn_line[i]);
    free(model->cudnn_line);
}
