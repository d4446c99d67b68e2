/* Print the plan of a training: its memory blocks and its steps. Nothing is trained. */
#include "train.h"
#include "watch.h"

#include <inttypes.h>

static const char *const lasting_texts[] = {"parameters", "gradients", "moment 1",  "moment 2",  "parameters, low",
                                            "statistics", "images, 1", "images, 2", "labels, 1", "labels, 2",
                                            "results",    "average",   "decayed",   "squares"};
_Static_assert(sizeof lasting_texts / sizeof *lasting_texts == LASTING_COUNT, "a text for each");

static void print_line(FILE *out, const char *what, uint64_t bytes)
{
    char text[24];
    fprintf(out, "  %-24s %16" PRIu64 "  %s\n", what, bytes, size_text(bytes, text));
}

static uint64_t block_bytes(const struct schedule *schedule, size_t block)
{
    return block == NO_BLOCK ? 0 : schedule->block_bytes[block];
}

/* Print the size of each block that lives as long as the run, and the total for each kind of block of an iteration. The
 * totals are larger than the memory that is used, because blocks share memory. */
static void print_blocks(const struct schedule *schedule, FILE *out)
{
    uint64_t lasting = 0, results = 0, gradients = 0, saved = 0, workspace_most = 0;
    fprintf(out, "allocated for the whole run\n");
    for (int i = 0; i < LASTING_COUNT; i++)
        if (schedule->lasting[i] != NO_BLOCK) {
            print_line(out, lasting_texts[i], block_bytes(schedule, schedule->lasting[i]));
            lasting += block_bytes(schedule, schedule->lasting[i]);
        }
    for (size_t i = 0; i < schedule->step_count; i++) {
        const struct step *step = &schedule->steps[i];
        bool is_forward = step->kind <= STEP_STATISTICS;
        if (is_forward) {
            results += block_bytes(schedule, step->y);
            saved += block_bytes(schedule, step->saved);
        } else if (!step->adds && step->kind != STEP_RELU)
            gradients += block_bytes(schedule, step->dx) + block_bytes(schedule, step->dx2);
        if (block_bytes(schedule, step->workspace) > workspace_most)
            workspace_most = block_bytes(schedule, step->workspace);
    }
    fprintf(out, "allocated in each iteration, sharing memory\n");
    print_line(out, "layers' results", results);
    print_line(out, "saved for backward", saved);
    print_line(out, "gradients of results", gradients);
    print_line(out, "largest workspace", workspace_most);
    fprintf(out, "total\n");
    print_line(out, "for the whole run", lasting);
    print_line(out, "maximum live at once", schedule->size.live_peak_bytes);
    print_line(out, "taken", schedule->size.arena_bytes);
}

/* Print the blocks that a step writes: the result, or one or two gradients. */
static void print_written(const struct schedule *schedule, const struct step *step, FILE *out)
{
    bool has_result = step->y != NO_BLOCK && step->kind <= STEP_FORWARD;
    const size_t blocks[] = {has_result ? step->y : step->dx, has_result ? NO_BLOCK : step->dx2};
    const char *before = " -> ";
    char text[24];
    for (int i = 0; i < 2; i++)
        if (blocks[i] != NO_BLOCK) {
            fprintf(out, "%s%s at %" PRIu64, before, size_text(block_bytes(schedule, blocks[i]), text),
                    schedule_offset(schedule, blocks[i]));
            before = " and ";
        }
}

static void print_steps(const struct schedule *schedule, FILE *out)
{
    char workspace[24];
    fprintf(out, "steps\n");
    for (size_t i = 0; i < schedule->step_count; i++) {
        const struct step *step = &schedule->steps[i];
        fprintf(out, "  %4zu %-8s %-11s line %-4d", i, step_kind_text(step->kind), layer_kind_text(step->layer->kind),
                step->layer->line);
        print_written(schedule, step, out);
        if (step->workspace != NO_BLOCK)
            fprintf(out, ", workspace %s", size_text(block_bytes(schedule, step->workspace), workspace));
        fprintf(out, "%s%s\n", step->adds ? ", added" : "", step->is_again ? ", again" : "");
    }
}

/* ---- without a GPU ---- */

static bool plan_nothing(void *state, const struct schedule_options *options, struct step *step, size_t budget_bytes,
                         struct reason *reason)
{
    (void)state;
    (void)options;
    (void)budget_bytes;
    (void)reason;
    step->workspace_bytes = 0;
    return true;
}

static void say_line(void *out, const char *line)
{
    fprintf(out, "%s\n", line);
}

static bool print_plan(const struct train_options *options, const struct model *model, struct fit_request *request,
                       FILE *out, struct reason *reason)
{
    struct schedule schedule = {0};
    struct fit fit;
    if (!fit_choose(request, &fit, reason) || !schedule_make(model, &fit.schedule, request->backend, request->state,
                                                             (size_t)fit.workspace_bytes, &schedule, reason))
        return false;
    fprintf(out, "%s: %zu layers, %zu parameters; %s, batch %zu on %d devices, micro-batch %zu\n", model->name,
            model->layer_count, model_parameters(model), optimizer_text(options->optimizer), options->batch,
            options->devices, fit.schedule.images);
    print_blocks(&schedule, out);
    print_steps(&schedule, out);
    schedule_clear(&schedule);
    return true;
}

bool train_plan(const struct train_options *options, FILE *out, struct reason *reason)
{
    struct backend without = {.name = options->backend->name,
                              .fuses = options->backend->fuses,
                              .overlaps = options->backend->overlaps,
                              .can = options->backend->can,
                              .plan = plan_nothing};
    struct backend_options backend_options = {.deterministic = options->deterministic, .tune = options->tunes};
    struct backend_watch before, after;
    struct fit_request request = {.options = options->fit,
                                  .backend = options->backend,
                                  .optimizer = options->optimizer,
                                  .averages = options->average > 0,
                                  .selects_decay = train_selects_decay(options),
                                  .clips = options->clip > 0,
                                  .has_card = has_card(options->backend),
                                  .taken_bytes = -1,
                                  .free_bytes = -1,
                                  .say = say_line,
                                  .user = out};
    struct model model = {0};
    struct reason ignored;
    void *state = NULL;
    if (!train_has_parts(options, reason) || !model_read(options->model_path, &model, reason))
        return false;
    request.images = options->batch / (size_t)options->devices;
    options->backend->watch(0, &before);
    if (options->backend->open(&backend_options, &state, &ignored)) {
        options->backend->watch(0, &after);
        request.state = state;
        request.taken_bytes = fit_taken(&before, &after);
        request.free_bytes = after.free_bytes;
    } else {
        fprintf(out, "%s; planned without it, so workspaces are missing\n", ignored.text);
        request.backend = &without;
    }
    request.model = &model;
    bool is_printed = print_plan(options, &model, &request, out, reason);
    if (state != NULL && !options->backend->close(state, NULL, &ignored) && is_printed) {
        *reason = ignored;
        is_printed = false;
    }
    model_clear(&model);
    return is_printed;
}
