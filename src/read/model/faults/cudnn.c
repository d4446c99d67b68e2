/* Collects the entries of cuDNN's own log (facts "cudnn.log", with --deep). Equal entries share one fact, which is
 * recorded again with a larger count. */
#include "gwi_inner.h"

enum { LINES_MAX = 256 };

static bool is_equal(const char *text, gw_fact_text said)
{
    return text == NULL ? said.bytes == 0 : gw_fact_text_is(said, text);
}

static bool is_same(const gw_cudnn_line *line, uint32_t pid, bool is_error, const gw_fact_cudnn_log *said)
{
    return line->pid == pid && line->is_error == is_error && is_equal(line->function, said->function) &&
           is_equal(line->status, said->status) && is_equal(line->reason, said->reason);
}

void gwi_cudnn_fact(gw_model *model, const gw_item *item)
{
    gw_fact_cudnn_log said;
    gw_fact_cudnn_log_read(gw_fact_text_of(item->pair.value), &said);
    uint64_t count = said.has_count ? said.count : 1;
    bool is_error = gw_fact_text_is(said.severity, "error");
    for (size_t i = 0; i < model->cudnn_line_count; i++) {
        gw_cudnn_line *old = &model->cudnn_line[i];
        if (!is_same(old, item->pid, is_error, &said))
            continue;
        old->t_last_ns = item->t_ns > old->t_last_ns ? item->t_ns : old->t_last_ns;
        old->count = count > old->count ? count : old->count;
        return;
    }
    if (model->cudnn_line_count == LINES_MAX || !gwi_room(model, &model->cudnn_line, model->cudnn_line_count,
                                                          &model->inner->cudnn_line_capacity, sizeof(gw_cudnn_line)))
        return;
    model->cudnn_line[model->cudnn_line_count++] = (gw_cudnn_line){.t_ns = item->t_ns,
                                                                   .t_last_ns = item->t_ns,
                                                                   .count = count,
                                                                   .pid = item->pid,
                                                                   .is_error = is_error,
                                                                   .version = said.version,
                                                                   .more = said.more,
                                                                   .function = gwi_copy_fact_text(model, said.function),
                                                                   .status = gwi_copy_fact_text(model, said.status),
                                                                   .reason = gwi_copy_fact_text(model, said.reason)};
}
