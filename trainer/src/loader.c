/* Runs the loader's threads.
 *
 * Each micro-batch has a number. Its host buffer is slot number % queue, and its buffers on the device are turn
 * number % TURNS. The feeder is the thread that plans micro-batches, copies them to the device and publishes them. It
 * and the helpers fill slots in the order of their numbers: each claims a few images, fills them, and claims again. So
 * a slow image delays only its own thread.
 *
 * A slot is planned again only when the copy from it is complete (fed()). A copy to the device starts only after the
 * steps that read the old content were submitted. Before that, the back end does not know which steps the copy must
 * wait for. */
#include "loader.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Helpers are used only if images are decoded, or if a micro-batch has at least WORTH_HELP numbers (pixel values). A
 * claim has about CLAIM_NUMBERS. */
enum { TURNS = 2, HELPERS_MAX = 63, WORTH_HELP = 1 << 16, CLAIM_NUMBERS = 1 << 15 };

/* A host buffer. `load` and `indexes` change only when the slot is planned; the lock protects the counts. */
struct slot {
    float *images; /* owned, like `labels`; released with host_free() */
    int32_t *labels;
    uint32_t *indexes; /* owned; which images to load */
    struct load load;
    size_t claimed_count, filled_count; /* images */
};

struct loader {
    struct loader_options options;
    struct slot slots[LOADER_QUEUE_MAX];
    size_t claim_count; /* images per claim */
    uint32_t *order;    /* owned; image indexes in the order of epoch order_epoch; used only by the feeder */
    uint64_t order_epoch;
    bool has_order;
    uint64_t copied_count; /* micro-batches whose copy to the device is complete; used only by the feeder */
    double waited_s;       /* used only by the thread that takes */

    pthread_t feeder, helpers[HELPERS_MAX];
    bool is_running;  /* the feeder was created and must be joined */
    int helper_count; /* helpers that the feeder has created and will join */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* anything but new work for helpers */
    pthread_cond_t work;    /* something can be claimed, or the helpers must end */
    /* The lock protects the fields below. Numbers of micro-batches only grow. */
    uint64_t planned_count, claimed_count; /* claimed_count: micro-batches whose images are all claimed */
    uint64_t fed_count, taken_count, passed_count;
    struct load loads[TURNS]; /* the newest that were fed */
    bool is_over;             /* nothing more will be fed: the data ended or the loader failed */
    bool has_failed;
    struct reason reason;
    bool stops; /* all threads of the loader must stop */
};

static struct slot *slot_of(struct loader *loader, uint64_t number)
{
    return &loader->slots[number % (uint64_t)loader->options.queue];
}

/* ---- filling, in all threads of the loader ---- */

static bool fill(const struct loader *loader, struct slot *slot, size_t begin, size_t end, struct reason *reason)
{
    const struct loader_options *options = &loader->options;
    for (size_t i = begin; i < end; i++) {
        struct pick pick = {.part = slot->load.part, .epoch = slot->load.epoch, .index = slot->indexes[i]};
        if (!data_image(options->data, &pick, slot->images + i * options->image_count, &slot->labels[i], reason))
            return false;
    }
    return true;
}

static void fail(struct loader *loader, const struct reason *reason)
{
    if (!loader->has_failed)
        loader->reason = *reason;
    loader->has_failed = true;
    loader->stops = true;
}

static bool has_work(const struct loader *loader)
{
    return !loader->stops && loader->claimed_count < loader->planned_count;
}

/* Claim some images and fill them. The caller holds the lock, and has_work() is true. */
static void work(struct loader *loader)
{
    struct slot *slot = slot_of(loader, loader->claimed_count);
    size_t begin = slot->claimed_count, left = slot->load.count - begin;
    size_t end = begin + (left < loader->claim_count ? left : loader->claim_count);
    struct reason reason;
    slot->claimed_count = end;
    if (end == slot->load.count)
        loader->claimed_count++;
    pthread_mutex_unlock(&loader->lock);
    bool is_filled = fill(loader, slot, begin, end, &reason);
    pthread_mutex_lock(&loader->lock);
    slot->filled_count += end - begin;
    if (!is_filled)
        fail(loader, &reason);
    if (!is_filled || slot->filled_count == slot->load.count) {
        pthread_cond_broadcast(&loader->changed);
        pthread_cond_broadcast(&loader->work);
    }
}

static void *run_helper(void *user)
{
    struct loader *loader = user;
    pthread_mutex_lock(&loader->lock);
    while (!loader->stops && !loader->is_over) {
        if (has_work(loader))
            work(loader);
        else
            pthread_cond_wait(&loader->work, &loader->lock);
    }
    pthread_mutex_unlock(&loader->lock);
    return NULL;
}

/* ---- in the feeder ---- */

static void fill_order(struct loader *loader, uint64_t epoch)
{
    if (loader->has_order && loader->order_epoch == epoch)
        return;
    data_order(loader->options.seed, epoch, data_count(loader->options.data, PART_TRAIN), loader->order);
    loader->order_epoch = epoch;
    loader->has_order = true;
}

/* Wait until the copy of micro-batch number - TURNS is complete. The next copy uses the same turn. */
static bool wait_for_copy(struct loader *loader, uint64_t number, struct reason *reason)
{
    const struct loader_options *options = &loader->options;
    if (number < TURNS || loader->copied_count > number - TURNS)
        return true;
    if (!options->backend->fed(options->state, (unsigned)(number % TURNS), reason))
        return false;
    loader->copied_count = number - TURNS + 1;
    return true;
}

static void plan_one(struct loader *loader, uint64_t number, const struct load *load)
{
    struct slot *slot = slot_of(loader, number);
    if (load->part == PART_TRAIN)
        fill_order(loader, load->epoch);
    for (size_t i = 0; i < load->count; i++)
        slot->indexes[i] = load->part == PART_TRAIN ? loader->order[load->first + i] : (uint32_t)(load->first + i);
    slot->load = *load;
    slot->load.turn = (unsigned)(number % TURNS);
    pthread_mutex_lock(&loader->lock);
    slot->claimed_count = slot->filled_count = 0;
    loader->planned_count++;
    pthread_cond_broadcast(&loader->work);
    pthread_mutex_unlock(&loader->lock);
}

/* Plan micro-batch `number`, unless the data ends before it, and those after it for which there are free slots. */
static bool plan(struct loader *loader, uint64_t number, bool *is_end, struct reason *reason)
{
    const struct loader_options *options = &loader->options;
    uint64_t queue = (uint64_t)options->queue;
    while (!*is_end && loader->planned_count < number + queue) {
        uint64_t next = loader->planned_count; /* only this thread changes it */
        struct load load = {0};
        if (next >= queue && loader->copied_count <= next - queue) {
            if (next > number)
                break; /* without waiting */
            if (!wait_for_copy(loader, number, reason))
                return false;
        }
        *is_end = !options->next(options->user, &load);
        if (!*is_end)
            plan_one(loader, next, &load);
    }
    return true;
}

static bool is_filled(struct loader *loader, uint64_t number)
{
    const struct slot *slot = slot_of(loader, number);
    return slot->filled_count == slot->load.count;
}

/* The steps that read the old content of the buffers on the device were submitted. */
static bool is_passed(struct loader *loader, uint64_t number)
{
    return loader->passed_count + TURNS > number;
}

/* Fill slots until a condition holds. Returns false if the loader must stop. */
static bool work_until(struct loader *loader, bool (*holds)(struct loader *, uint64_t), uint64_t number)
{
    pthread_mutex_lock(&loader->lock);
    while (!loader->stops && !holds(loader, number)) {
        if (has_work(loader))
            work(loader);
        else
            pthread_cond_wait(&loader->changed, &loader->lock);
    }
    bool goes_on = !loader->stops;
    pthread_mutex_unlock(&loader->lock);
    return goes_on;
}

/* Fill the rest of a short micro-batch with its first image. */
static void pad(const struct loader *loader, struct slot *slot)
{
    const struct loader_options *options = &loader->options;
    for (size_t i = slot->load.count; i < options->images; i++) {
        memcpy(slot->images + i * options->image_count, slot->images, options->image_count * sizeof *slot->images);
        slot->labels[i] = slot->labels[0];
    }
}

static bool feed_next(struct loader *loader, uint64_t number, bool *is_end, bool *ret_is_over, struct reason *reason)
{
    const struct loader_options *options = &loader->options;
    struct slot *slot = slot_of(loader, number);
    if (!plan(loader, number, is_end, reason))
        return false;
    *ret_is_over = number == loader->planned_count || !work_until(loader, is_filled, number) ||
                   !work_until(loader, is_passed, number);
    if (*ret_is_over)
        return true;
    pad(loader, slot);
    if (!wait_for_copy(loader, number, reason) ||
        !options->backend->feed(options->state, slot->load.turn, slot->images, slot->labels, reason))
        return false;
    pthread_mutex_lock(&loader->lock);
    loader->loads[slot->load.turn] = slot->load;
    loader->fed_count++;
    pthread_cond_broadcast(&loader->changed);
    pthread_mutex_unlock(&loader->lock);
    return true;
}

static void begin_helpers(struct loader *loader)
{
    const struct loader_options *options = &loader->options;
    int wanted = options->threads - 1 < HELPERS_MAX ? options->threads - 1 : HELPERS_MAX;
    if (!data_decodes(options->data) && options->images * options->image_count < WORTH_HELP)
        return;
    while (loader->helper_count < wanted &&
           pthread_create(&loader->helpers[loader->helper_count], NULL, run_helper, loader) == 0)
        loader->helper_count++;
}

static void *run(void *user)
{
    struct loader *loader = user;
    struct reason reason = {0};
    bool is_well = true, is_end = false, is_over = false;
    begin_helpers(loader);
    for (uint64_t number = 0; is_well && !is_over; number++)
        is_well = feed_next(loader, number, &is_end, &is_over, &reason);
    pthread_mutex_lock(&loader->lock);
    if (!is_well)
        fail(loader, &reason);
    loader->is_over = true;
    pthread_cond_broadcast(&loader->changed);
    pthread_cond_broadcast(&loader->work);
    pthread_mutex_unlock(&loader->lock);
    for (int i = 0; i < loader->helper_count; i++)
        pthread_join(loader->helpers[i], NULL);
    return NULL;
}

/* ---- in other threads ---- */

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

double loader_waited(const struct loader *loader)
{
    return loader->waited_s;
}

/* Wait until a micro-batch was fed or there are no more. The caller holds the lock. */
static void wait_for_fed(struct loader *loader)
{
    if (loader->is_over || loader->taken_count < loader->fed_count)
        return;
    double begin = now_s();
    while (!loader->is_over && loader->taken_count == loader->fed_count)
        pthread_cond_wait(&loader->changed, &loader->lock);
    loader->waited_s += now_s() - begin;
}

bool loader_take(struct loader *loader, struct load *ret_load, struct reason *reason)
{
    pthread_mutex_lock(&loader->lock);
    wait_for_fed(loader);
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
    for (int i = 0; i < loader->options.queue; i++) {
        struct slot *slot = &loader->slots[i];
        void *images, *labels;
        slot->indexes = malloc(options->images * sizeof *slot->indexes);
        if (slot->indexes == NULL)
            return because(reason, "loader: no host memory for the indexes of %zu images", options->images);
        if (!options->backend->host_alloc(options->state, options->images * options->image_count * sizeof(float),
                                          &images, reason))
            return false;
        slot->images = images;
        if (!options->backend->host_alloc(options->state, options->images * sizeof(int32_t), &labels, reason))
            return false;
        slot->labels = labels;
    }
    return true;
}

static bool set_options(struct loader *loader, const struct loader_options *options, struct reason *reason)
{
    int queue = options->queue == 0 ? LOADER_QUEUE_MIN : options->queue;
    loader->options = *options;
    loader->options.queue = 0; /* there are no slots to free yet */
    if (queue < LOADER_QUEUE_MIN || queue > LOADER_QUEUE_MAX)
        return because(reason, "loader: a queue of %d micro-batches; %d to %d are possible", queue, LOADER_QUEUE_MIN,
                       LOADER_QUEUE_MAX);
    loader->options.queue = queue;
    loader->claim_count = CLAIM_NUMBERS / options->image_count;
    if (loader->claim_count == 0 || data_decodes(options->data))
        loader->claim_count = 1;
    return true;
}

bool loader_open(const struct loader_options *options, struct loader **ret_loader, struct reason *reason)
{
    struct loader *loader = calloc(1, sizeof *loader);
    if (loader == NULL)
        return because(reason, "loader: no host memory");
    pthread_mutex_init(&loader->lock, NULL);
    pthread_cond_init(&loader->changed, NULL);
    pthread_cond_init(&loader->work, NULL);
    bool is_open = set_options(loader, options, reason) && take_memory(loader, reason);
    if (is_open) {
        int error = pthread_create(&loader->feeder, NULL, run, loader);
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
    pthread_cond_broadcast(&loader->work);
    pthread_mutex_unlock(&loader->lock);
    pthread_join(loader->feeder, NULL);
}

/* Wait for copies that still read the host buffers, then free the buffers. */
static void give_memory(struct loader *loader)
{
    const struct loader_options *options = &loader->options;
    struct reason ignored;
    for (unsigned turn = 0; turn < TURNS; turn++)
        if (loader->fed_count > turn)
            (void)options->backend->fed(options->state, turn, &ignored);
    for (int i = 0; i < options->queue; i++) {
        struct slot *slot = &loader->slots[i];
        if (slot->images != NULL)
            options->backend->host_free(options->state, slot->images);
        if (slot->labels != NULL)
            options->backend->host_free(options->state, slot->labels);
        free(slot->indexes);
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
    pthread_cond_destroy(&loader->work);
    pthread_cond_destroy(&loader->changed);
    pthread_mutex_destroy(&loader->lock);
    free(loader);
}
