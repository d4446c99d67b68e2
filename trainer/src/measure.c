/* Measure how fast a data set's images can be made, without a back end: for --measure-data. */
#include "report.h"
#include "train.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { THREADS_MAX = 64 };

struct measure {
    const struct data *data;
    const uint32_t *order; /* borrowed */
    size_t count;          /* images to make */
    size_t image_count;    /* numbers per image */
    _Atomic size_t next;
    pthread_mutex_t lock; /* protects the fields below */
    bool has_failed;
    struct reason reason;
};

static void *run(void *user)
{
    struct measure *measure = user;
    float *image = malloc(measure->image_count * sizeof *image);
    struct reason reason;
    bool is_well = image != NULL || because(&reason, "no host memory for an image");
    for (size_t at; is_well && (at = atomic_fetch_add(&measure->next, 1)) < measure->count;) {
        struct pick pick = {.part = PART_TRAIN, .index = measure->order[at]};
        int32_t label;
        is_well = data_image(measure->data, &pick, image, &label, &reason);
    }
    free(image);
    if (is_well)
        return NULL;
    pthread_mutex_lock(&measure->lock);
    measure->has_failed = true;
    measure->reason = reason;
    pthread_mutex_unlock(&measure->lock);
    atomic_store(&measure->next, measure->count);
    return NULL;
}

/* Return the number of threads that took part. */
static int run_all(struct measure *measure, int wanted)
{
    pthread_t threads[THREADS_MAX];
    int count = 0;
    while (count < wanted - 1 && count < THREADS_MAX && pthread_create(&threads[count], NULL, run, measure) == 0)
        count++;
    run(measure);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    return count + 1;
}

static double cpu_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static bool measure_set(const struct train_options *options, struct measure *measure, FILE *out, struct reason *reason)
{
    size_t all = data_count(measure->data, PART_TRAIN);
    size_t wanted = all;
    if (options->steps != 0 && __builtin_mul_overflow((size_t)options->steps, options->batch, &wanted))
        wanted = all;
    uint32_t *order = malloc(all * sizeof *order);
    if (order == NULL)
        return because(reason, "no host memory for the order of %zu images", all);
    data_order(options->seed, 0, all, order);
    measure->order = order;
    measure->count = wanted < all ? wanted : all;
    double begin = seconds_now(), cpu_begin = cpu_s();
    int threads = run_all(measure, options->loader_threads);
    double taken_s = seconds_now() - begin, cpu_taken_s = cpu_s() - cpu_begin, count = (double)measure->count;
    free(order);
    if (measure->has_failed) {
        *reason = measure->reason;
        return false;
    }
    fprintf(out, "data: %zu images in %.2f s with %d threads: %.0f images/s; %.0f per second of processor time\n",
            measure->count, taken_s, threads, taken_s > 0 ? count / taken_s : 0,
            cpu_taken_s > 0 ? count / cpu_taken_s : 0);
    return true;
}

bool train_measure_data(const struct train_options *options, FILE *out, struct reason *reason)
{
    struct measure measure = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct model model = {0};
    struct data *data = NULL;
    char line[600];
    if (!model_read(options->model_path, &model, reason))
        return false;
    bool is_measured = train_open_data(options, &model, &data, reason);
    if (is_measured) {
        measure.data = data;
        measure.image_count = shape_count(model.layers[0].out);
        is_measured = measure_set(options, &measure, out, reason);
        while (data_next_note(data, line, sizeof line))
            fprintf(out, "%s\n", line);
    }
    data_close(data);
    model_clear(&model);
    return is_measured;
}
