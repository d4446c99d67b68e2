/* Perform optimizer steps with PyTorch's formulas: weight decay is added to the gradient. */
#include "cpu.h"

#include <math.h>

static uint32_t count_broken(const float *gradients, size_t count)
{
    uint32_t broken = 0;
    CPU_PARALLEL_SUM(broken)
    for (size_t i = 0; i < count; i++)
        broken += !isfinite(gradients[i]);
    return broken;
}

static void step_sgd(const struct update *update, size_t count, float *parameters, const float *gradients, float *speed)
{
    CPU_PARALLEL_FOR
    for (size_t i = 0; i < count; i++) {
        float gradient = gradients[i] * update->scale + update->weight_decay * parameters[i];
        speed[i] = update->momentum * speed[i] + gradient;
        parameters[i] -= update->rate * speed[i];
    }
}

static void step_adam(const struct update *update, size_t count, float *parameters, const float *gradients, float *mean,
                      float *square)
{
    double left_1 = 1 - pow((double)update->beta_1, (double)update->number);
    double left_2 = 1 - pow((double)update->beta_2, (double)update->number);
    float rate = (float)((double)update->rate / left_1), root = (float)sqrt(left_2);
    CPU_PARALLEL_FOR
    for (size_t i = 0; i < count; i++) {
        float gradient = gradients[i] * update->scale + update->weight_decay * parameters[i];
        mean[i] = update->beta_1 * mean[i] + (1 - update->beta_1) * gradient;
        square[i] = update->beta_2 * square[i] + (1 - update->beta_2) * gradient * gradient;
        parameters[i] -= rate * mean[i] / (sqrtf(square[i]) / root + update->epsilon);
    }
}

void cpu_update(const struct cpu_state *state, const struct update *update)
{
    size_t count = state->schedule->model->parameter_count;
    float *parameters = cpu_lasting(state, LASTING_PARAMETERS), *gradients = cpu_lasting(state, LASTING_GRADIENTS);
    float *moment_1 = cpu_lasting(state, LASTING_MOMENT_1), *moment_2 = cpu_lasting(state, LASTING_MOMENT_2);
    struct results *results = (struct results *)cpu_lasting(state, LASTING_RESULTS);
    uint32_t broken = count_broken(gradients, count);
    results->broken += broken;
    if (broken != 0)
        return;
    if (update->optimizer == OPTIMIZER_SGD)
        step_sgd(update, count, parameters, gradients, moment_1);
    else
        step_adam(update, count, parameters, gradients, moment_1, moment_2);
}
