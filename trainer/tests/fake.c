/* The back end for tests: see fake.h. */
#include "fake.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DEVICES_MAX = 4 };

/* The devices that train together and sum their gradients. */
struct group {
    int count, arrived;
    uint64_t meetings;
    bool is_broken;
    struct state *members[DEVICES_MAX];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct fake_watch watched;
static struct group group; /* there is only one group at a time */

struct state {
    const struct schedule *schedule;
    void **blocks; /* owned */
    size_t block_count;
    bool is_fed[2], is_read[2]; /* for each turn: whether feed() was called, and whether iterate() was called since
                                   then; protected by `lock` */
    struct results results;
};

static void misused(const char *what)
{
    fprintf(stderr, "fake: misused: %s\n", what);
    abort();
}

const char *fake_call_text(enum fake_call call)
{
    static const char *const texts[] = {
#define X(name) #name,
        FAKE_CALLS(X)
#undef X
    };
    return texts[call];
}

void fake_reset(void)
{
    watched = (struct fake_watch){.seen = {-1, -1, -1, -1}};
    group = (struct group){0};
}

struct fake_watch *fake_watch(void)
{
    return &watched;
}

/* Count a call. Returns false if this call must fail. */
static bool call(enum fake_call which, struct reason *reason)
{
    pthread_mutex_lock(&lock);
    bool fails = ++watched.calls[which] == watched.fails_at && watched.fails == which;
    pthread_mutex_unlock(&lock);
    return !fails || because(reason, "fake: %s failed", fake_call_text(which));
}

static void count(int *what, int by)
{
    pthread_mutex_lock(&lock);
    *what += by;
    pthread_mutex_unlock(&lock);
}

/* ---- memory ---- */

static bool can(enum precision precision)
{
    return precision != PRECISION_FP16;
}

static bool open(const struct backend_options *options, void **ret_state, struct reason *reason)
{
    (void)options;
    struct state *state;
    if (!call(FAKE_open, reason) || (state = calloc(1, sizeof *state)) == NULL)
        return false;
    count(&watched.states, 1);
    *ret_state = state;
    return true;
}

static void drop_blocks(struct state *state)
{
    for (size_t i = 0; i < state->block_count; i++)
        free(state->blocks[i]);
    free(state->blocks);
    state->blocks = NULL;
    state->block_count = 0;
}

static bool close(void *user, gs_report **ret_report, struct reason *reason)
{
    struct state *state = user;
    if (ret_report != NULL)
        *ret_report = NULL;
    drop_blocks(state);
    free(state);
    count(&watched.states, -1);
    return call(FAKE_close, reason);
}

/* A convolution requests an eighth of the size of its result as workspace, if the budget allows this. */
static bool plan(void *state, const struct schedule_options *options, struct step *step, size_t budget_bytes,
                 struct reason *reason)
{
    (void)state;
    size_t wants = options->images * shape_count(step->layer->out) / 2;
    step->workspace_bytes = step->layer->kind == LAYER_CONV && wants <= budget_bytes ? wants : 0;
    return call(FAKE_plan, reason);
}

static bool load(void *user, const struct schedule *schedule, struct reason *reason)
{
    struct state *state = user;
    if (!call(FAKE_load, reason))
        return false;
    if (schedule->model->layer_count != 2 || schedule->model->layers[1].kind != LAYER_LINEAR)
        return because(reason, "fake: knows \"input, linear\" alone");
    drop_blocks(state);
    state->schedule = schedule;
    state->blocks = calloc(schedule->block_count, sizeof *state->blocks);
    state->block_count = schedule->block_count;
    for (int i = 0; i < LASTING_COUNT; i++)
        if (schedule->lasting[i] != NO_BLOCK)
            state->blocks[schedule->lasting[i]] = malloc(schedule->block_bytes[schedule->lasting[i]]);
    return true;
}

static bool put(void *user, size_t block, const void *data, size_t bytes, struct reason *reason)
{
    struct state *state = user;
    if (bytes > state->schedule->block_bytes[block])
        misused("put: too much");
    memcpy(state->blocks[block], data, bytes);
    return call(FAKE_put, reason);
}

static bool get(void *user, size_t block, void *data, size_t bytes, struct reason *reason)
{
    struct state *state = user;
    if (bytes > state->schedule->block_bytes[block])
        misused("get: too much");
    memcpy(data, state->blocks[block], bytes);
    return call(FAKE_get, reason);
}

static bool host_alloc(void *state, size_t bytes, void **ret, struct reason *reason)
{
    (void)state;
    if (!call(FAKE_host_alloc, reason))
        return false;
    *ret = malloc(bytes);
    count(&watched.host_blocks, 1);
    return true;
}

static void host_free(void *state, void *memory)
{
    (void)state;
    free(memory);
    count(&watched.host_blocks, -1);
}

/* ---- inputs ---- */

static bool feed(void *user, unsigned turn, const float *images, const int32_t *labels, struct reason *reason)
{
    struct state *state = user;
    const struct schedule *schedule = state->schedule;
    size_t to = schedule_input(schedule, turn), to_labels = schedule_labels(schedule, turn);
    if (!call(FAKE_feed, reason))
        return false;
    pthread_mutex_lock(&lock);
    if (state->is_fed[turn] && !state->is_read[turn])
        misused("feed: what was fed before was not computed yet");
    pthread_mutex_unlock(&lock);
    memcpy(state->blocks[to], images, schedule->block_bytes[to]);
    memcpy(state->blocks[to_labels], labels, schedule->block_bytes[to_labels]);
    pthread_mutex_lock(&lock);
    state->is_fed[turn] = true;
    state->is_read[turn] = false;
    pthread_mutex_unlock(&lock);
    return true;
}

static bool fed(void *user, unsigned turn, struct reason *reason)
{
    (void)user;
    (void)turn;
    return call(FAKE_fed, reason);
}

/* ---- computing ---- */

static float *lasting(const struct state *state, enum lasting which)
{
    return state->blocks[state->schedule->lasting[which]];
}

/* Convert logits to probabilities. Returns the loss. */
static float softmax(float *logits, size_t count, size_t label)
{
    float most = logits[0], sum = 0;
    for (size_t i = 1; i < count; i++)
        most = logits[i] > most ? logits[i] : most;
    for (size_t i = 0; i < count; i++)
        sum += logits[i] = expf(logits[i] - most);
    for (size_t i = 0; i < count; i++)
        logits[i] /= sum;
    return -logf(logits[label] > 1e-30f ? logits[label] : 1e-30f);
}

static void one_image(struct state *state, const struct iteration *iteration, const float *image, size_t label)
{
    const struct layer *layer = &state->schedule->model->layers[1];
    size_t inputs = shape_count(layer->in), classes = layer->out.channels, best = 0;
    const float *weights = lasting(state, LASTING_PARAMETERS) + layer->weight_at;
    const float *biases = lasting(state, LASTING_PARAMETERS) + layer->bias_at;
    float *gradients = lasting(state, LASTING_GRADIENTS), logits[64];
    if (classes > sizeof logits / sizeof *logits || label >= classes)
        misused("a label that is no class");
    for (size_t i = 0; i < classes; i++) {
        logits[i] = biases[i];
        for (size_t k = 0; k < inputs; k++)
            logits[i] += weights[i * inputs + k] * image[k];
        best = logits[i] > logits[best] ? i : best;
    }
    state->results.loss += softmax(logits, classes, label);
    state->results.correct += best == label;
    for (size_t i = 0; i < classes && !iteration->is_evaluation; i++) {
        float slope = (logits[i] - (i == label ? 1 : 0)) * iteration->loss_scale / (float)iteration->images_in_step;
        gradients[layer->bias_at + i] += slope;
        for (size_t k = 0; k < inputs; k++)
            gradients[layer->weight_at + i * inputs + k] += slope * image[k];
    }
}

static bool iterate(void *user, const struct iteration *iteration, struct reason *reason)
{
    struct state *state = user;
    const struct model *model = state->schedule->model;
    size_t inputs = shape_count(model->layers[0].out);
    if (!call(FAKE_iterate, reason))
        return false;
    struct timespec pause = {.tv_nsec = watched.iterate_ms * 1000000L};
    if (pause.tv_nsec > 0)
        nanosleep(&pause, NULL);
    pthread_mutex_lock(&lock);
    if (!state->is_fed[iteration->turn] || state->is_read[iteration->turn])
        misused("iterate: nothing new was fed");
    pthread_mutex_unlock(&lock);
    if (iteration->is_first) {
        state->results = (struct results){0};
        if (!iteration->is_evaluation)
            memset(lasting(state, LASTING_GRADIENTS), 0, model->parameter_count * sizeof(float));
    }
    const float *images = state->blocks[schedule_input(state->schedule, iteration->turn)];
    const int32_t *labels = state->blocks[schedule_labels(state->schedule, iteration->turn)];
    for (size_t i = 0; i < iteration->images; i++)
        one_image(state, iteration, images + i * inputs, (size_t)labels[i]);
    pthread_mutex_lock(&lock);
    state->is_read[iteration->turn] = true;
    pthread_mutex_unlock(&lock);
    return true;
}

static bool update(void *user, const struct update *step, struct reason *reason)
{
    struct state *state = user;
    size_t parameters = state->schedule->model->parameter_count;
    float *values = lasting(state, LASTING_PARAMETERS), *gradients = lasting(state, LASTING_GRADIENTS);
    float *moment = lasting(state, LASTING_MOMENT_1), *second = NULL;
    if (!call(FAKE_update, reason))
        return false;
    if (step->optimizer == OPTIMIZER_ADAM)
        second = lasting(state, LASTING_MOMENT_2);
    pthread_mutex_lock(&lock);
    uint64_t number = (uint64_t)watched.calls[FAKE_update];
    pthread_mutex_unlock(&lock);
    state->results.broken = number >= watched.broken_first && number <= watched.broken_last;
    float scale = step->scale;
    if (step->clip > 0) {
        double square = 0;
        for (size_t i = 0; i < parameters; i++)
            square += (double)gradients[i] * (double)gradients[i];
        state->results.norm = (float)sqrt(square) * scale;
        scale *= fminf(1, step->clip / (state->results.norm + 1e-6f));
    }
    for (size_t i = 0; i < parameters && state->results.broken == 0; i++) {
        float gradient = gradients[i] * scale + step->weight_decay * values[i];
        if (second == NULL) {
            moment[i] = step->momentum * moment[i] + gradient;
            values[i] -= step->rate * moment[i];
            continue;
        }
        moment[i] = step->beta_1 * moment[i] + (1 - step->beta_1) * gradient;
        second[i] = step->beta_2 * second[i] + (1 - step->beta_2) * gradient * gradient;
        float mean = moment[i] / (1 - powf(step->beta_1, (float)step->number));
        float deviation = sqrtf(second[i] / (1 - powf(step->beta_2, (float)step->number)));
        values[i] -= step->rate * mean / (deviation + step->epsilon);
    }
    if (state->schedule->options.averages && state->results.broken == 0)
        for (size_t i = 0; i < parameters; i++) {
            float *average = lasting(state, LASTING_AVERAGE) + i;
            *average += step->average_weight * (values[i] - *average);
        }
    return true;
}

static bool swap_average(void *user, struct reason *reason)
{
    struct state *state = user;
    float *one = lasting(state, LASTING_PARAMETERS), *other = lasting(state, LASTING_AVERAGE);
    if (!call(FAKE_swap, reason))
        return false;
    for (size_t i = 0; i < state->schedule->model->parameter_count; i++) {
        float value = one[i];
        one[i] = other[i];
        other[i] = value;
    }
    return true;
}

static bool settle(void *user, struct results *ret_results, struct reason *reason)
{
    struct state *state = user;
    *ret_results = state->results;
    return call(FAKE_settle, reason);
}

static void watch(int device, struct backend_watch *ret_watch)
{
    (void)device;
    *ret_watch = watched.seen;
}

/* ---- devices ---- */

static bool invite(void *state, gs_nccl_id *ret_id, struct reason *reason)
{
    (void)state;
    memset(ret_id, 7, sizeof *ret_id);
    return call(FAKE_invite, reason);
}

static bool join(void *user, int ranks, int rank, const gs_nccl_id *id, struct reason *reason)
{
    if (id->bytes[127] != 7 || rank >= ranks || ranks > DEVICES_MAX)
        misused("join: by another id");
    if (!call(FAKE_join, reason))
        return false;
    pthread_mutex_lock(&lock);
    group.count = ranks;
    group.members[rank] = user;
    pthread_mutex_unlock(&lock);
    return true;
}

/* Wait for all devices of the group; the last one to arrive calls `work`. Returns false if a device has failed. Call
 * with the lock held. */
static bool gather(void (*work)(void))
{
    uint64_t meeting = group.meetings;
    if (!group.is_broken && ++group.arrived == group.count) {
        work();
        group.arrived = 0;
        group.meetings++;
        pthread_cond_broadcast(&changed);
    }
    while (group.meetings == meeting && !group.is_broken)
        pthread_cond_wait(&changed, &lock);
    return group.meetings != meeting;
}

/* Add the gradients in the order of the ranks, so that the result is always the same. */
static void add_up(void)
{
    size_t parameters = group.members[0]->schedule->model->parameter_count;
    float *sum = lasting(group.members[0], LASTING_GRADIENTS);
    for (int i = 1; i < group.count; i++)
        for (size_t k = 0; k < parameters; k++)
            sum[k] += lasting(group.members[i], LASTING_GRADIENTS)[k];
    for (int i = 1; i < group.count; i++)
        memcpy(lasting(group.members[i], LASTING_GRADIENTS), sum, parameters * sizeof *sum);
}

/* If one device fails, the others notice it at once. */
static bool sum_gradients(void *state, struct reason *reason)
{
    (void)state;
    bool is_well = call(FAKE_sum, reason);
    pthread_mutex_lock(&lock);
    if (!is_well) {
        group.is_broken = true;
        pthread_cond_broadcast(&changed);
    } else if (!gather(add_up)) {
        is_well = because(reason, "fake: another device is gone");
    }
    pthread_mutex_unlock(&lock);
    return is_well;
}

const struct backend backend_fake = {
    .name = "fake",
    .can = can,
    .open = open,
    .close = close,
    .plan = plan,
    .load = load,
    .put = put,
    .get = get,
    .host_alloc = host_alloc,
    .host_free = host_free,
    .feed = feed,
    .fed = fed,
    .iterate = iterate,
    .invite = invite,
    .join = join,
    .sum_gradients = sum_gradients,
    .update = update,
    .swap_average = swap_average,
    .settle = settle,
    .watch = watch,
};
