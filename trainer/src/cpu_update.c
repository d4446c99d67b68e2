/* Perform optimizer steps with PyTorch's formulas: see struct update. */
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

/* Return the Euclidean norm of the gradients. The parts have a fixed size and are added in their order, so the result
 * does not depend on the number of threads. */
static double norm_of(const float *gradients, size_t count, double *squares)
{
    size_t each = (count + NORM_PARTS - 1) / NORM_PARTS;
    double sum = 0;
    CPU_PARALLEL_FOR
    for (size_t part = 0; part < NORM_PARTS; part++) {
        size_t end = (part + 1) * each < count ? (part + 1) * each : count;
        squares[part] = 0;
        for (size_t i = part * each; i < end; i++)
            squares[part] += (double)gradients[i] * (double)gradients[i];
    }
    for (size_t part = 0; part < NORM_PARTS; part++)
        sum += squares[part];
    return sqrt(sum);
}

/* Set norm and clip of the results. Returns the factor for the gradients: scale, and clip if it is used. */
static float clip(const struct cpu_state *state, const struct update *update, const float *gradients, size_t count)
{
    struct results *results = (struct results *)cpu_lasting(state, LASTING_RESULTS);
    double *squares = (double *)cpu_lasting(state, LASTING_SQUARES);
    if (!(update->clip > 0))
        return update->scale;
    results->norm = (float)norm_of(gradients, count, squares) * update->scale;
    results->clip = update->clip / (results->norm + 1e-6f);
    if (!(results->clip < 1))
        results->clip = 1;
    return update->scale * results->clip;
}

/* What the steps of all optimizers use. */
struct rule {
    const struct update *update;
    size_t count;
    float scale;            /* factor of the gradients */
    const uint8_t *decayed; /* model_decayed(); NULL: all parameters decay */
    float *parameters;
    const float *gradients;
};

static float decay_at(const struct rule *rule, size_t at)
{
    return rule->decayed == NULL || rule->decayed[at / MODEL_ALIGNED] ? rule->update->weight_decay : 0;
}

static void step_sgd(const struct rule *rule, float *speed)
{
    const struct update *update = rule->update;
    float *parameters = rule->parameters;
    CPU_PARALLEL_FOR
    for (size_t i = 0; i < rule->count; i++) {
        float gradient = rule->gradients[i] * rule->scale + decay_at(rule, i) * parameters[i];
        speed[i] = update->momentum * speed[i] + gradient;
        parameters[i] -= update->rate * (update->is_nesterov ? gradient + update->momentum * speed[i] : speed[i]);
    }
}

static void step_adam(const struct rule *rule, float *mean, float *square)
{
    const struct update *update = rule->update;
    float *parameters = rule->parameters;
    double left_1 = 1 - pow((double)update->beta_1, (double)update->number);
    double left_2 = 1 - pow((double)update->beta_2, (double)update->number);
    float rate = (float)((double)update->rate / left_1), root = (float)sqrt(left_2);
    bool is_decoupled = update->optimizer == OPTIMIZER_ADAMW;
    CPU_PARALLEL_FOR
    for (size_t i = 0; i < rule->count; i++) {
        float decay = decay_at(rule, i), gradient = rule->gradients[i] * rule->scale;
        if (is_decoupled)
            parameters[i] *= 1 - update->rate * decay;
        else
            gradient += decay * parameters[i];
        mean[i] = update->beta_1 * mean[i] + (1 - update->beta_1) * gradient;
        square[i] = update->beta_2 * square[i] + (1 - update->beta_2) * gradient * gradient;
        parameters[i] -= rate * mean[i] / (sqrtf(square[i]) / root + update->epsilon);
    }
}

/* The weight 1 copies the parameters exactly. */
static void average(float *mean, const float *parameters, size_t count, float weight)
{
    CPU_PARALLEL_FOR
    for (size_t i = 0; i < count; i++)
        mean[i] = weight < 0.5f ? mean[i] + weight * (parameters[i] - mean[i])
                                : parameters[i] - (1 - weight) * (parameters[i] - mean[i]);
}

void cpu_update(const struct cpu_state *state, const struct update *update)
{
    size_t count = state->schedule->model->parameter_count;
    float *moment_1 = cpu_lasting(state, LASTING_MOMENT_1), *moment_2 = cpu_lasting(state, LASTING_MOMENT_2);
    struct results *results = (struct results *)cpu_lasting(state, LASTING_RESULTS);
    struct rule rule = {.update = update,
                        .count = count,
                        .decayed = (const uint8_t *)cpu_lasting(state, LASTING_DECAYED),
                        .parameters = cpu_lasting(state, LASTING_PARAMETERS),
                        .gradients = cpu_lasting(state, LASTING_GRADIENTS)};
    uint32_t broken = count_broken(rule.gradients, count);
    results->broken += broken;
    if (broken != 0)
        return;
    rule.scale = clip(state, update, rule.gradients, count);
    if (update->optimizer == OPTIMIZER_SGD)
        step_sgd(&rule, moment_1);
    else
        step_adam(&rule, moment_1, moment_2);
    if (cpu_lasting(state, LASTING_AVERAGE) != NULL)
        average(cpu_lasting(state, LASTING_AVERAGE), rule.parameters, count, update->average_weight);
}

void cpu_swap(float *one, float *other, size_t count)
{
    CPU_PARALLEL_FOR
    for (size_t i = 0; i < count; i++) {
        float value = one[i];
        one[i] = other[i];
        other[i] = value;
    }
}
