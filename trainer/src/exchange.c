/* Exchange trained networks with other programs: see exchange.h. */
#include "exchange.h"

#include "checkpoint.h"
#include "file.h"
#include "onnx.h"
#include "weights.h"

#include <stdlib.h>

bool exchange_begin(const struct exchange *exchange, const struct model *model, float *parameters, float *statistics,
                    struct reason *reason)
{
    return exchange->weights == NULL ||
           weights_read(exchange->weights, model, exchange->except, parameters, statistics, reason);
}

bool exchange_writes(const struct exchange *exchange)
{
    return exchange->save_weights != NULL || exchange->onnx != NULL;
}

bool exchange_check(const struct exchange *exchange, const struct model *model, struct reason *reason)
{
    struct weight *weights;
    size_t count;
    if (exchange->except != NULL && exchange->weights == NULL)
        return because(reason, "exceptions are given, but no file with weights");
    if (!exchange_writes(exchange))
        return true;
    if (!weights_list(model, &weights, &count, reason))
        return false;
    free(weights);
    return (exchange->save_weights == NULL || file_can_replace(exchange->save_weights, reason)) &&
           (exchange->onnx == NULL || (onnx_check(model, reason) && file_can_replace(exchange->onnx, reason)));
}

bool exchange_end(const struct exchange *exchange, const struct model *model, const float *parameters,
                  const float *statistics, struct reason *reason)
{
    if (exchange->save_weights != NULL && !weights_write(exchange->save_weights, model, parameters, statistics, reason))
        return false;
    return exchange->onnx == NULL || onnx_write(exchange->onnx, model, parameters, statistics, reason);
}

/* ---- without a training ---- */

static bool read_checkpoint(const char *path, const struct model *model, struct checkpoint *ret, struct reason *reason)
{
    uint64_t most = checkpoint_bytes_max(model->parameter_count, model->statistics_count);
    if (!checkpoint_read(path, most, ret, reason))
        return false;
    if (ret->model_sum != checkpoint_model_sum(model) || ret->parameter_count != model->parameter_count ||
        ret->statistics_count != model->statistics_count)
        return because(reason, "%s: the checkpoint is for a model %.120s with other layers than the model %s", path,
                       ret->model, model->name);
    return true;
}

static bool begin_anew(const struct exchange *exchange, const struct model *model, uint64_t seed,
                       struct checkpoint *ret, struct reason *reason)
{
    ret->parameter_count = model->parameter_count;
    ret->statistics_count = model->statistics_count;
    if (!checkpoint_alloc(ret, reason))
        return false;
    model_begin(model, seed, ret->parameters, ret->statistics);
    return exchange_begin(exchange, model, ret->parameters, ret->statistics, reason);
}

bool exchange_convert(const struct exchange *exchange, const char *model_path, const char *checkpoint_path,
                      uint64_t seed, struct reason *reason)
{
    struct model model = {0};
    struct checkpoint values = {0};
    if (!exchange_writes(exchange))
        return because(reason, "no file to write is given");
    if (checkpoint_path != NULL && exchange->weights != NULL)
        return because(reason, "both a checkpoint and a file with weights are given");
    bool is_written = model_read(model_path, &model, reason) && exchange_check(exchange, &model, reason) &&
                      (checkpoint_path != NULL ? read_checkpoint(checkpoint_path, &model, &values, reason)
                                               : begin_anew(exchange, &model, seed, &values, reason)) &&
                      exchange_end(exchange, &model, checkpoint_weights(&values), values.statistics, reason);
    checkpoint_clear(&values);
    model_clear(&model);
    return is_written;
}
