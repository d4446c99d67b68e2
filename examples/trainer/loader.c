/* Runs the loader's thread.
 *
 * The loader writes to a host buffer only when the previous copy from it is complete (fed()). It starts a copy to the
 * device only after the steps that read the old content were submitted. Before that, the back end does not know which
 * steps the copy must wait for.
 *
 * All waiting uses two counters that only grow: fed micro-batches, and calls of loader_passed(). */
#include "loader.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Helper threads are used only if a micro-batch has at least WORTH_HELP numbers (pixel values). */
enum { TURNS = 2, HELPERS_MAX = 15, WORTH_HELP = 1 << 16 };

struct helper {
    struct loader *loader;
    int index; /* the part that the helper fills; from 1, because the loader's thread fills part 0 */
    pthread_t thread;
};

struct loader {
    struct loader_options options;
    float *images[TURNS]; /* owned, like `labels`; released with host_free() */
    int32_t *labels[TURNS];
    uint32_t *order; /* owned; image indexes in the order of epoch order_epoch; written only by the loader's thread */
    uint64_t order_epoch;
    bool has_order;

    pthread_t thread;
    bool is_running; /* the thread was created and must be joined */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct load loads[TURNS]; /* protected by `lock`, like the fields down to `stops` */
    uint64_t fed_count, taken_count, passed_count;
    bool is_over; /* nothing more will be fed: the data ended or the loader failed */
    bool has_failed;
    struct reason reason;
    bool stops; /* the loader's thread must stop */

    struct helper helpers[HELPERS_MAX];
    int helper_count; /* number of helpers that were started */
    pthread_mutex_t help_lock;
    pthread_cond_t help_changed;
    /* number of buffers that the helpers were asked to fill so far; help_lock protects this field and the fields
     * below */
    uint64_t help_wanted;
    int helping; /* helpers that are still working on the newest buffer */
    struct load help_load;
    bool help_ends;
};

/* ---- in the loader's thread ---- */

static void fill_order(struct loader *loader, uint64_t epoch)
{
    if (loader->has_order && loader->order_epoch == epoch)
        return;
    data_order(loader->options.seed, epoch, data_count(loader->options.data, PART_TRAIN), loader->order);
    loader->order_epoch = epoch;
    loader->has_order = true;
}

static bool is_stopped(struct loader *loader)
{
    pthread_mutex_lock(&loader->lock);
    bool stops = loader->stops;
    pthread_mutex_unlock(&loader->lock);
    return stops;
}

/* Note the first failure of any thread, and stop all of them. */
static void fail(struct loader *loader, const struct reason *reason)
{
    pthread_mutex_lock(&loader->lock);
    if (!loader->has_failed)
        loader->reason = *reason;
    loader->has_failed = true;
    loader->stops = true;
    pthread_mutex_unlock(&loader->lock);
}

/* Fill one thread's part of the images. Returns early if the loader must stop. */
static void fill_part(struct loader *loader, const struct load *load, int part)
{
    const struct loader_options *options = &loader->options;
    size_t parts = (size_t)loader->helper_count + 1;
    size_t begin = options->images * (size_t)part / parts, end = options->images * ((size_t)part + 1) / parts;
    for (size_t i = begin; i < end; i++) {
        size_t at = load->first + (i < load->count ? i : 0);
        if (i % 64 == 0 && is_stopped(loader))
            return;
        struct pick pick = {load->part, load->epoch, load->part == PART_TRAIN ? loader->order[at] : at};
        struct reason reason;
        if (!data_image(options->data, &pick, loader->images[load->turn] + i * options->image_count,
                        &loader->labels[load->turn][i], &reason)) {
            fail(loader, &reason);
            return;
        }
    }
}

static void *run_helper(void *user)
{
    struct helper *helper = user;
    struct loader *loader = helper->loader;
    pthread_mutex_lock(&loader->help_lock);
    for (uint64_t done = 0;; done++) {
        while (!loader->help_ends && loader->help_wanted == done)
            pthread_cond_wait(&loader->help_changed, &loader->help_lock);
        if (loader->help_wanted == done)
            break;
        struct load load = loader->help_load;
        pthread_mutex_unlock(&loader->help_lock);
        fill_part(loader, &load, helper->index);
        pthread_mutex_lock(&loader->help_lock);
        if (--loader->helping == 0)
            pthread_cond_broadcast(&loader->help_changed);
    }
    pthread_mutex_unlock(&loader->help_lock);
    return NULL;
}

static void call_helpers(struct loader *loader, const struct load *load)
{
    pthread_mutex_lock(&loader->help_lock);
    loader->help_load = *load;
    loader->help_wanted++;
    loader->helping = loader->helper_count;
    pthread_cond_broadcast(&loader->help_changed);
    pthread_mutex_unlock(&loader->help_lock);
}

static void wait_for_helpers(struct loader *loader)
{
    pthread_mutex_lock(&loader->help_lock);
    while (loader->helping > 0)
        pthread_cond_wait(&loader->help_changed, &loader->help_lock);
    pthread_mutex_unlock(&loader->help_lock);
}

/* Fill a host buffer. Returns false if the loader must stop. */
static bool fill(struct loader *loader, const struct load *load)
{
    if (load->part == PART_TRAIN)
        fill_order(loader, load->epoch);
    if (loader->helper_count > 0)
        call_helpers(loader, load);
    fill_part(loader, load, 0);
    if (loader->helper_count > 0)
        wait_for_helpers(loader);
    return !is_stopped(loader);
}

/* Wait until micro-batch `number` may be copied into its device buffers. The steps that read the old content must have
 * been submitted. Returns false if the loader must stop. */
static bool wait_for_turn(struct loader *loader, uint64_t number)
{
    pthread_mutex_lock(&loader->lock);
    while (!loader->stops && loader->passed_count + TURNS <= number)
        pthread_cond_wait(&loader->changed, &loader->lock);
    bool stops = loader->stops;
    pthread_mutex_unlock(&loader->lock);
    return !stops;
}

static bool feed_next(struct loader *loader, uint64_t number, bool *ret_is_over, struct reason *reason)
{
    const struct loader_options *options = &loader->options;
    struct load load = {0};
    if (!options->next(options->user, &load)) {
        *ret_is_over = true;
        return true;
    }
    load.turn = (unsigned)(number % TURNS);
    if (number >= TURNS && !options->backend->fed(options->state, load.turn, reason))
        return false;
    if (!fill(loader, &load) || !wait_for_turn(loader, number)) {
        *ret_is_over = true;
        return true;
    }
    if (!options->backend->feed(options->state, load.turn, loader->images[load.turn], loader->labels[load.turn],
                                reason))
        return false;
    pthread_mutex_lock(&loader->lock);
    loader->loads[load.turn] = load;
    loader->fed_count++;
    pthread_cond_broadcast(&loader->changed);
    pthread_mutex_unlock(&loader->lock);
    return true;
}

/* Start the helpers before the first buffer is filled, so that the part of each helper never changes. */
static void begin_helpers(struct loader *loader)
{
    const struct loader_options *options = &loader->options;
    int wanted = options->threads - 1 < HELPERS_MAX ? options->threads - 1 : HELPERS_MAX;
    if (options->images * options->image_count < WORTH_HELP)
        return;
    pthread_mutex_lock(&loader->help_lock); /* the helpers must not read helper_count until all of them are started */
    while (loader->helper_count < wanted) {
        struct helper *helper = &loader->helpers[loader->helper_count];
        *helper = (struct helper){.loader = loader, .index = loader->helper_count + 1};
        if (pthread_create(&helper->thread, NULL, run_helper, helper) != 0)
            break;
        loader->helper_count++;
    }
    pthread_mutex_unlock(&loader->help_lock);
}

static void end_helpers(struct loader *loader)
{
    pthread_mutex_lock(&loader->help_lock);
    loader->help_ends = true;
    pthread_cond_broadcast(&loader->help_changed);
    pthread_mutex_unlock(&loader->help_lock);
    for (int i = 0; i < loader->helper_count; i++)
        pthread_join(loader->helpers[i].thread, NULL);
}

static void *run(void *user)
{
    struct loader *loader = user;
    struct reason reason = {0};
    bool is_well = true, is_over = false;
    begin_helpers(loader);
    for (uint64_t number = 0; is_well && !is_over; number++)
        is_well = feed_next(loader, number, &is_over, &reason);
    end_helpers(loader);
    pthread_mutex_lock(&loader->lock);
    loader->is_over = true;
    if (!is_well && !loader->has_failed) {
        loader->has_failed = true;
        loader->reason = reason;
    }
    pthread_cond_broadcast(&loader->changed);
    pthread_mutex_unlock(&loader->lock);
    return NULL;
}

/* ---- in other threads ---- */

bool loader_take(struct loader *loader, struct load *ret_load, struct reason *reason)
{
    pthread_mutex_lock(&loader->lock);
    while (!loader->is_over && loader->taken_count == loader->fed_count)
        pthread_cond_wait(&loader->changed, &loader->lock);
    bool is_there = loader->taken_count < loader->fed_count;
    if (is_there)
        *ret_load = loader->loads[loader->taken_count++ % TURNS];
    else if (loader->has_failed)
        *reason = loader->reason;
    else
        because(reason, "loader: there are no more micro-batches");
    pthread_mutex_unlock(&loader->lock);
    return is_there;
}

void loader_passed(struct loader *loader)
{
    pthread_mutex_lock(&loader->lock);
    loader->passed_count++;
    pthread_cond_broadcast(&loader->changed);
    pthread_mutex_unlock(&loader->lock);
}

static bool take_memory(struct loader *loader, struct reason *reason)
{
    const struct loader_options *options = &loader->options;
    size_t count = data_count(options->data, PART_TRAIN);
    loader->order = malloc(count * sizeof *loader->order);
    if (loader->order == NULL)
        return because(reason, "loader: no host memory for the order of %zu images", count);
    for (int turn = 0; turn < TURNS; turn++) {
        void *images, *labels;
        if (!options->backend->host_alloc(options->state, options->images * options->image_count * sizeof(float),
                                          &images, reason))
            return false;
        loader->images[turn] = images;
        if (!options->backend->host_alloc(options->state, options->images * sizeof(int32_t), &labels, reason))
            return false;
        loader->labels[turn] = labels;
    }
    return true;
}

bool loader_open(const struct loader_options *options, struct loader **ret_loader, struct reason *reason)
{
    struct loader *loader = calloc(1, sizeof *loader);
    if (loader == NULL)
        return because(reason, "loader: no host memory");
    loader->options = *options;
    pthread_mutex_init(&loader->lock, NULL);
    pthread_cond_init(&loader->changed, NULL);
    pthread_mutex_init(&loader->help_lock, NULL);
    pthread_cond_init(&loader->help_changed, NULL);
    bool is_open = take_memory(loader, reason);
    if (is_open) {
        int error = pthread_create(&loader->thread, NULL, run, loader);
        loader->is_running = error == 0;
        is_open = error == 0 || because(reason, "loader: cannot create a thread: %s", strerror(error));
    }
    if (!is_open) {
        loader_close(loader);
        return false;
    }
    *ret_loader = loader;
    return true;
}

static void stop(struct loader *loader)
{
    pthread_mutex_lock(&loader->lock);
    loader->stops = true;
    pthread_cond_broadcast(&loader->changed);
    pthread_mutex_unlock(&loader->lock);
    pthread_join(loader->thread, NULL);
}

/* Wait for copies that still read the host buffers, then free the buffers. */
static void give_memory(struct loader *loader)
{
    const struct loader_options *options = &loader->options;
    struct reason ignored;
    for (unsigned turn = 0; turn < TURNS; turn++) {
        if (loader->fed_count > turn)
            (void)options->backend->fed(options->state, turn, &ignored);
        if (loader->images[turn] != NULL)
            options->backend->host_free(options->state, loader->images[turn]);
        if (loader->labels[turn] != NULL)
            options->backend->host_free(options->state, loader->labels[turn]);
    }
    free(loader->order);
}

void loader_close(struct loader *loader)
{
    if (loader == NULL)
        return;
    if (loader->is_running)
        stop(loader);
    give_memory(loader);
    pthread_cond_destroy(&loader->help_changed);
    pthread_mutex_destroy(&loader->help_lock);
    pthread_cond_destroy(&loader->changed);
    pthread_mutex_destroy(&loader->lock);
    free(loader);
}
