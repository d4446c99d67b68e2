/* Chooses the micro-batch size, the precision and the workspaces, so that a training fits into the GPU's memory. */
#include "fit.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

char *size_text(uint64_t bytes, char out[24])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double size = (double)bytes;
    size_t unit = 0;
    while (size >= 1024 && unit + 1 < sizeof units / sizeof *units) {
        size /= 1024;
        unit++;
    }
    snprintf(out, 24, unit == 0 ? "%.0f %s" : "%.2f %s", size, units[unit]);
    return out;
}

__attribute__((format(printf, 2, 3))) static void say(const struct fit_request *request, const char *format, ...)
{
    char line[512];
    va_list arguments;
    if (request->say == NULL)
        return;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    request->say(request->user, line);
}

/* ---- the budget ---- */

int64_t fit_taken(const struct backend_watch *before, const struct backend_watch *after)
{
    if (after->own_bytes >= 0)
        return after->own_bytes;
    if (before->free_bytes < 0 || after->free_bytes < 0)
        return -1;
    return before->free_bytes > after->free_bytes ? before->free_bytes - after->free_bytes : 0;
}

uint64_t fit_budget(const struct fit_request *request, struct fit *ret_fit)
{
    uint64_t memory_bytes = request->options.memory_bytes, left = UINT64_MAX;
    ret_fit->taken_bytes = !request->has_card         ? 0
                           : request->taken_bytes < 0 ? FIT_UNKNOWN_BYTES
                                                      : (uint64_t)request->taken_bytes;
    ret_fit->reserve_bytes = request->has_card ? FIT_RESERVE_BYTES : 0;
    if (memory_bytes != 0)
        left = memory_bytes > ret_fit->taken_bytes ? memory_bytes - ret_fit->taken_bytes : 0;
    if (request->has_card && request->free_bytes >= 0 && (uint64_t)request->free_bytes < left)
        left = (uint64_t)request->free_bytes;
    ret_fit->limit_bytes = left == UINT64_MAX ? 0 : left + ret_fit->taken_bytes;
    if (left == UINT64_MAX)
        return left;
    return left > ret_fit->reserve_bytes ? left - ret_fit->reserve_bytes : 0;
}

/* ---- one choice ---- */

struct attempt {
    const struct fit_request *request;
    struct fit fit; /* the configuration being tried, with its plan if it fits */
    uint64_t budget_bytes;
    uint64_t least_bytes; /* size of the smallest plan that was tried; UINT64_MAX: none */
    struct reason *reason;
};

/* What to try for each number of images, the fastest first. `workspace_part` is the divisor of the maximum workspace
 * size (fit_options.workspace_bytes); 0: no workspace. */
static const struct variant {
    bool overlaps;
    unsigned workspace_part;
} variants[] = {{true, 1}, {false, 1}, {false, 4}, {false, 16}, {false, 0}};
enum { VARIANTS = sizeof variants / sizeof *variants };

static bool plan(struct attempt *attempt, size_t images, uint64_t workspace_bytes, uint64_t *ret_bytes)
{
    const struct fit_request *request = attempt->request;
    struct schedule schedule = {0};
    attempt->fit.schedule.images = images;
    if (!schedule_make(request->model, &attempt->fit.schedule, request->backend, request->state,
                       (size_t)workspace_bytes, &schedule, attempt->reason))
        return false;
    *ret_bytes = schedule.size.arena_bytes;
    schedule_clear(&schedule);
    return true;
}

static void say_refused(const struct attempt *attempt, uint64_t bytes)
{
    char needs[24], has[24];
    say(attempt->request, "refused: micro-batch %zu, checkpointing %s, %s: the plan needs %s, but only %s is available",
        attempt->fit.schedule.images, attempt->fit.schedule.checkpointing ? "on" : "off",
        precision_text(attempt->fit.schedule.precision), size_text(bytes, needs),
        size_text(attempt->budget_bytes, has));
}

/* Callback of gs_fit_batch(): plan micro-batches of `images` with the first variant that fits. Sets *ret_bytes to the
 * size of the plan. */
static gs_status bytes_for(void *user, size_t images, uint64_t *ret_bytes)
{
    struct attempt *attempt = user;
    uint64_t all = attempt->request->options.workspace_bytes, bytes = UINT64_MAX, least = UINT64_MAX;
    if (all == 0)
        all = FIT_WORKSPACE_BYTES;
    for (int i = 0; i < VARIANTS; i++) {
        unsigned part = variants[i].workspace_part;
        uint64_t workspace_bytes = part == 0 ? 0 : all / part;
        if (variants[i].overlaps && (!attempt->request->backend->overlaps || attempt->request->options.in_order))
            continue;
        attempt->fit.schedule.overlaps = variants[i].overlaps;
        attempt->reason->is_memory = false;
        if (!plan(attempt, images, workspace_bytes, &bytes)) {
            if (!attempt->reason->is_memory)
                return GS_FAILED;
            continue;
        }
        attempt->fit.workspace_bytes = workspace_bytes;
        least = bytes < least ? bytes : least;
        if (bytes <= attempt->budget_bytes)
            break;
    }
    if (least < attempt->least_bytes)
        attempt->least_bytes = least;
    if (least > attempt->budget_bytes)
        say_refused(attempt, least);
    *ret_bytes = least;
    return least == UINT64_MAX ? GS_NO_MEMORY : GS_OK;
}

/* Find the largest micro-batch for one precision, with or without checkpointing. *ret_images is 0 if none fits. */
static bool try_one(struct attempt *attempt, enum precision precision, bool checkpointing, size_t *ret_images)
{
    const struct fit_request *request = attempt->request;
    size_t asked = request->options.micro_batch, most = asked != 0 ? asked : request->images;
    gs_fit fit = {.budget_bytes = attempt->budget_bytes,
                  .n_min = asked != 0 ? asked : 1,
                  .n_max = most,
                  .divides = request->images};
    attempt->fit.schedule = (struct schedule_options){.precision = precision,
                                                      .optimizer = request->optimizer,
                                                      .checkpointing = checkpointing,
                                                      .averages = request->averages,
                                                      .selects_decay = request->selects_decay,
                                                      .clips = request->clips};
    gs_status status = gs_fit_batch(&fit, bytes_for, attempt, ret_images, &attempt->fit.plan_bytes);
    if (status == GS_OK)
        return true;
    *ret_images = 0;
    return status == GS_NO_MEMORY;
}

/* ---- all of them ---- */

static bool is_enough(const struct fit_request *request, size_t images)
{
    return images != 0 &&
           (images >= FIT_USEFUL_IMAGES || images == request->images || images == request->options.micro_batch);
}

static size_t precisions_of(const struct fit_request *request, enum precision ret[PRECISION_COUNT])
{
    size_t count = 0;
    if (!request->options.chooses_precision) {
        ret[count++] = request->options.precision;
        return count;
    }
    ret[count++] = PRECISION_FP32;
    if (request->backend->can(PRECISION_BF16))
        ret[count++] = PRECISION_BF16;
    return count;
}

/* Try the choices (precision, with or without checkpointing) until one is good enough. `best` is the choice with the
 * largest micro-batch so far. */
static bool try_all(struct attempt *attempt, struct fit *best, size_t *best_images)
{
    const struct fit_request *request = attempt->request;
    enum choice checkpointing = request->options.checkpointing;
    enum precision precisions[PRECISION_COUNT];
    size_t count = precisions_of(request, precisions), images;
    *best_images = 0;
    for (size_t i = 0; i < count; i++)
        for (int on = checkpointing == CHOICE_ON; on <= (checkpointing != CHOICE_OFF); on++) {
            if (on && checkpointing == CHOICE_AUTO && request->model->segment_count < 2)
                /* the last segment is always kept, so with a single segment, checkpointing saves nothing */
                continue;
            if (!try_one(attempt, precisions[i], on, &images))
                return false;
            if (images > *best_images) {
                *best_images = images;
                *best = attempt->fit;
                best->schedule.images = images;
            }
            if (is_enough(request, images))
                return true;
        }
    return true;
}

static void say_chosen(const struct fit_request *request, const struct fit *fit, size_t devices_part)
{
    char plan_text[24], taken[24], reserve[24], sum[24], limit[24], workspace[24];
    uint64_t bytes = fit->plan_bytes + fit->taken_bytes + fit->reserve_bytes;
    say(request, "chosen: micro-batch %zu (%zu in a step), checkpointing %s, %s, workspaces up to %s%s",
        fit->schedule.images, devices_part / fit->schedule.images, fit->schedule.checkpointing ? "on" : "off",
        precision_text(fit->schedule.precision), size_text(fit->workspace_bytes, workspace),
        fit->schedule.overlaps ? ", overlapping steps" : "");
    say(request, "memory: %s for the plan, %s for context and libraries, %s in reserve: %s%s%s",
        size_text(fit->plan_bytes, plan_text), size_text(fit->taken_bytes, taken),
        size_text(fit->reserve_bytes, reserve), size_text(bytes, sum), fit->limit_bytes == 0 ? "" : " of ",
        fit->limit_bytes == 0 ? "" : size_text(fit->limit_bytes, limit));
    if (request->model->statistics_count != 0 && fit->schedule.images < devices_part)
        say(request, "batch normalisation uses micro-batches of %zu: the results differ from those with %zu at once",
            fit->schedule.images, devices_part);
}

static bool is_possible(const struct fit_request *request, struct reason *reason)
{
    size_t asked = request->options.micro_batch;
    enum precision precision = request->options.precision;
    if (request->images == 0 || (asked != 0 && (asked > request->images || request->images % asked != 0)))
        return because(reason, "micro-batches of %zu do not divide the %zu images of a device's step", asked,
                       request->images);
    if (!request->options.chooses_precision && !request->backend->can(precision))
        return because(reason, "the back end %s cannot compute in %s", request->backend->name,
                       precision_text(precision));
    return true;
}

static bool none_fits(const struct attempt *attempt, const struct fit *fit, struct reason *reason)
{
    char least[24], has[24], limit[24], taken[24];
    because(
        reason, "nothing fits: the plan needs at least %s, but of %s only %s is left: context and libraries use %s",
        attempt->least_bytes == UINT64_MAX ? "more bytes than can be counted" : size_text(attempt->least_bytes, least),
        size_text(fit->limit_bytes, limit), size_text(attempt->budget_bytes, has), size_text(fit->taken_bytes, taken));
    reason->is_memory = true;
    return false;
}

bool fit_choose(const struct fit_request *request, struct fit *ret_fit, struct reason *reason)
{
    struct reason why = {0};
    struct attempt attempt = {.request = request, .least_bytes = UINT64_MAX, .reason = &why};
    struct fit best = {0};
    size_t images;
    if (!is_possible(request, reason))
        return false;
    attempt.budget_bytes = fit_budget(request, &attempt.fit);
    if (!try_all(&attempt, &best, &images)) {
        *reason = why;
        return false;
    }
    if (images == 0)
        return none_fits(&attempt, &attempt.fit, reason);
    say_chosen(request, &best, request->images);
    *ret_fit = best;
    return true;
}
