/* Opens folders of images and decodes their files: see folder.h. */
#include "folder.h"

#include "checksum.h"
#include "folder_list.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 4096, THREADS_MAX = 64, LINE_BYTES = 760, DAMAGED_SHOWN = 20, ATTEMPTS_MAX = 100 };
static const uint64_t file_most = 1ull << 30;

/* Mean and deviation of ImageNet's training images, in the order red, green, blue, and of all three. */
static const double means[4] = {123.675, 116.28, 103.53, 114.495}, deviations[4] = {58.395, 57.12, 57.375, 57.63};

struct note {
    struct note *next; /* owned */
    char line[LINE_BYTES];
};

struct folder {
    struct folder_options options;
    char *path; /* owned */
    struct file_list list;
    int32_t *labels; /* owned; the label of each sub-folder; NULL: its index */
    uint32_t sum;

    pthread_mutex_t lock; /* protects the fields below */
    struct note *first, **last;
    size_t damaged_count;
    uint8_t *is_noted; /* owned; for each file: damage was found when it was decoded */
};

static bool path_of(const struct folder *folder, size_t index, char path[PATH_BYTES])
{
    const struct listed *file = &folder->list.files[index];
    return snprintf(path, PATH_BYTES, "%s/%s/%s", folder->path, folder->list.classes[file->label],
                    folder->list.names + file->name_at) < PATH_BYTES;
}

/* ---- notes ---- */

/* Add a line. Without memory it is lost. */
static void add_note(struct folder *folder, const char *line)
{
    struct note *note = malloc(sizeof *note);
    if (note == NULL)
        return;
    *note = (struct note){0};
    snprintf(note->line, sizeof note->line, "%s", line);
    *folder->last = note;
    folder->last = &note->next;
}

bool folder_next_note(struct folder *folder, char *ret_line, size_t line_bytes)
{
    pthread_mutex_lock(&folder->lock);
    struct note *note = folder->first;
    if (note != NULL) {
        folder->first = note->next;
        if (folder->first == NULL)
            folder->last = &folder->first;
        snprintf(ret_line, line_bytes, "%s", note->line);
    }
    pthread_mutex_unlock(&folder->lock);
    free(note);
    return note != NULL;
}

size_t folder_damaged(struct folder *folder)
{
    pthread_mutex_lock(&folder->lock);
    size_t count = folder->damaged_count;
    pthread_mutex_unlock(&folder->lock);
    return count;
}

/* ---- looking at all files ---- */

struct look {
    struct folder *folder;
    _Atomic size_t next;
    uint8_t *traits;    /* of each file */
    char **why_failed;  /* of each file: NULL, or why it cannot be used (owned) */
    uint8_t *is_damage; /* of each file: its content is the reason; otherwise, it could not be read */
    _Atomic bool lacks_memory;
};
enum { TRAITS_BYTES = 1 }; /* a byte has room for all traits */
_Static_assert(TRAIT_COUNT <= 8 * TRAITS_BYTES, "a bit for each");

static void look_at(struct look *look, size_t index)
{
    char path[PATH_BYTES];
    struct probe probe;
    struct reason reason;
    bool is_well = path_of(look->folder, index, path) || because(&reason, "the path is too long");
    if (is_well && probe_path(path, &probe, &reason)) {
        look->traits[index] = (uint8_t)probe.traits;
        return;
    }
    look->is_damage[index] = reason.is_damage;
    look->why_failed[index] = strdup(reason.text);
    if (look->why_failed[index] == NULL)
        look->lacks_memory = true;
}

static void *run_look(void *user)
{
    struct look *look = user;
    for (size_t index; (index = atomic_fetch_add(&look->next, 1)) < look->folder->list.count;)
        look_at(look, index);
    return NULL;
}

static void look_at_all(struct look *look)
{
    pthread_t threads[THREADS_MAX];
    int count = 0, wanted = look->folder->options.threads - 1;
    while (count < wanted && count < THREADS_MAX && pthread_create(&threads[count], NULL, run_look, look) == 0)
        count++;
    run_look(look);
    while (count > 0)
        pthread_join(threads[--count], NULL);
}

/* Note how many of the remaining files are converted, or have something that is ignored. */
static void note_traits(struct folder *folder, const uint8_t *traits)
{
    static const char *const texts[TRAIT_COUNT] = {"are grey",
                                                   "are CMYK: converted to RGB",
                                                   "have a palette: converted to RGB",
                                                   "have 16 bits: reduced to 8",
                                                   "have transparency, which is ignored",
                                                   "have an EXIF orientation, which is ignored"};
    char line[LINE_BYTES];
    for (int trait = 0; trait < TRAIT_COUNT; trait++) {
        size_t count = 0;
        for (size_t i = 0; i < folder->list.count; i++)
            count += traits[i] >> trait & 1;
        if (count == 0 || (trait == TRAIT_GREY && folder->options.shape.channels == 1))
            continue;
        snprintf(line, sizeof line, "%s: %zu of %zu images %s", folder->path, count, folder->list.count, texts[trait]);
        add_note(folder, line);
    }
    if (folder->list.other_count > 0) {
        snprintf(line, sizeof line, "%s: %zu files or folders are not used, because of their names or places",
                 folder->path, folder->list.other_count);
        add_note(folder, line);
    }
}

/* Leave out damaged files, and note their names. */
static void leave_out(struct folder *folder, struct look *look)
{
    struct file_list *list = &folder->list;
    size_t kept = 0;
    char line[LINE_BYTES];
    for (size_t i = 0; i < list->count; i++) {
        if (look->why_failed[i] == NULL) {
            look->traits[kept] = look->traits[i];
            list->files[kept++] = list->files[i];
        } else if (++folder->damaged_count <= DAMAGED_SHOWN) {
            snprintf(line, sizeof line, "left out: %s", look->why_failed[i]);
            add_note(folder, line);
        }
    }
    if (folder->damaged_count > 0) {
        snprintf(line, sizeof line, "%s: %zu of %zu files are left out, because they are damaged", folder->path,
                 folder->damaged_count, list->count);
        add_note(folder, line);
    }
    list->count = kept;
}

static bool judge(struct folder *folder, struct look *look, struct reason *reason)
{
    size_t damaged = 0, first = 0, unread = folder->list.count;
    for (size_t i = folder->list.count; i-- > 0;) {
        if (look->why_failed[i] == NULL)
            continue;
        if (look->is_damage[i]) {
            damaged++;
            first = i;
        } else {
            unread = i;
        }
    }
    if (look->lacks_memory)
        return because(reason, "%s: no host memory to look at its files", folder->path);
    if (unread < folder->list.count)
        return because(reason, "%s", look->why_failed[unread]);
    if (damaged > 0 && !folder->options.skips_damaged)
        return because(reason, "%.400s (%zu of %zu files are damaged; --damaged skip leaves them out)",
                       look->why_failed[first], damaged, folder->list.count);
    leave_out(folder, look);
    note_traits(folder, look->traits);
    return folder->list.count > 0 || because(reason, "%s: all files are damaged", folder->path);
}

static bool look_through(struct folder *folder, struct reason *reason)
{
    size_t count = folder->list.count;
    struct look look = {.folder = folder,
                        .traits = calloc(count, sizeof *look.traits),
                        .why_failed = calloc(count, sizeof *look.why_failed),
                        .is_damage = calloc(count, sizeof *look.is_damage)};
    bool is_well = look.traits != NULL && look.why_failed != NULL && look.is_damage != NULL;
    if (is_well) {
        look_at_all(&look);
        is_well = judge(folder, &look, reason);
    } else {
        because(reason, "%s: no host memory to look at its files", folder->path);
    }
    for (size_t i = 0; look.why_failed != NULL && i < count; i++)
        free(look.why_failed[i]);
    free(look.why_failed);
    free(look.is_damage);
    free(look.traits);
    return is_well;
}

/* ---- opening ---- */

static bool has_decoders(const struct folder_options *options, struct reason *reason)
{
    if (*image_missing() == '\0')
        return true;
    return because(reason, "%s: this build cannot decode %s files: libjpeg or libpng was not found when it was built",
                   options->path, image_missing());
}

/* Number the classes as those of the training images. */
static bool map_classes(struct folder *folder, const struct folder *others, struct reason *reason)
{
    struct file_list *list = &folder->list;
    int32_t *labels = calloc(list->class_count, sizeof *labels);
    bool is_known = labels != NULL || because(reason, "%s: no host memory", folder->path);
    for (size_t i = 0, at = 0; is_known && i < list->class_count; i++) { /* both lists are sorted */
        while (at < others->list.class_count && strcmp(others->list.classes[at], list->classes[i]) < 0)
            at++;
        is_known = at < others->list.class_count && strcmp(others->list.classes[at], list->classes[i]) == 0;
        labels[i] = (int32_t)at;
        if (!is_known)
            because(reason, "%s: the class \"%s\" is not among the training images in %s", folder->path,
                    list->classes[i], others->path);
    }
    folder->labels = labels;
    return is_known;
}

static uint32_t sum_of(const struct file_list *list)
{
    uint32_t sum = 0;
    for (size_t i = 0; i < list->class_count; i++)
        sum = checksum(sum, list->classes[i], strlen(list->classes[i]) + 1);
    for (size_t i = 0; i < list->count; i++) {
        const char *name = list->names + list->files[i].name_at;
        uint8_t label[4];
        for (int at = 0; at < 4; at++)
            label[at] = (uint8_t)((uint32_t)list->files[i].label >> (8 * at));
        sum = checksum(sum, label, sizeof label);
        sum = checksum(sum, name, strlen(name) + 1);
    }
    return sum;
}

static bool open_list(struct folder *folder, struct reason *reason)
{
    const struct folder_options *options = &folder->options;
    if (!has_decoders(options, reason) || !file_list_read(folder->path, &folder->list, reason))
        return false;
    if (options->others != NULL && !map_classes(folder, options->others, reason))
        return false;
    if (options->others == NULL && folder->list.class_count > options->class_count)
        return because(reason, "%s: %zu sub-folders, which are the classes, but the model has %zu classes",
                       folder->path, folder->list.class_count, options->class_count);
    if (!look_through(folder, reason))
        return false;
    folder->is_noted = calloc(folder->list.count, 1);
    folder->sum = sum_of(&folder->list);
    return folder->is_noted != NULL || because(reason, "%s: no host memory", folder->path);
}

bool folder_open(const struct folder_options *options, struct folder **ret_folder, struct reason *reason)
{
    struct folder *folder = calloc(1, sizeof *folder);
    if (folder == NULL)
        return because(reason, "%s: no host memory", options->path);
    folder->options = *options;
    folder->last = &folder->first;
    pthread_mutex_init(&folder->lock, NULL);
    folder->path = strdup(options->path);
    if (folder->path == NULL ? !because(reason, "%s: no host memory", options->path) : !open_list(folder, reason)) {
        folder_close(folder);
        return false;
    }
    folder->options.path = folder->path;
    folder->options.others = NULL;
    *ret_folder = folder;
    return true;
}

void folder_close(struct folder *folder)
{
    if (folder == NULL)
        return;
    for (struct note *note = folder->first, *next; note != NULL; note = next) {
        next = note->next;
        free(note);
    }
    pthread_mutex_destroy(&folder->lock);
    file_list_clear(&folder->list);
    free(folder->labels);
    free(folder->is_noted);
    free(folder->path);
    free(folder);
}

size_t folder_count(const struct folder *folder)
{
    return folder->list.count;
}

uint32_t folder_sum(const struct folder *folder)
{
    return folder->sum;
}

const char *folder_class(const struct folder *folder, size_t index)
{
    return index < folder->list.class_count ? folder->list.classes[index] : NULL;
}

/* ---- an image ---- */

void folder_normal(size_t channel, size_t channels, double *ret_mean, double *ret_deviation)
{
    size_t at = channels == 3 ? channel : 3;
    *ret_mean = means[at];
    *ret_deviation = deviations[at];
}

static void normalise(const struct shape *shape, float *image)
{
    size_t count = shape_count(*shape);
    float shifts[3], factors[3];
    for (size_t channel = 0; channel < shape->channels; channel++) {
        double mean, deviation;
        folder_normal(channel, shape->channels, &mean, &deviation);
        factors[channel] = (float)(1 / deviation);
        shifts[channel] = (float)(-mean / deviation);
    }
    for (size_t i = 0; i < count; i += shape->channels)
        for (size_t channel = 0; channel < shape->channels; channel++)
            image[i + channel] = image[i + channel] * factors[channel] + shifts[channel];
}

/* Return the largest reduction by the JPEG decoder that keeps at least as many pixels as the result has. */
static unsigned shrink_of(const struct box *box, const struct shape *shape)
{
    unsigned shrink = 8;
    while (shrink > 1 &&
           (box->width < (double)(shape->width * shrink) || box->height < (double)(shape->height * shrink)))
        shrink /= 2;
    return shrink;
}

bool folder_decode(const char *path, const struct bytes *bytes, const struct shape *shape, size_t resize,
                   const struct augment *augment, const struct chances *chances, float *ret_values,
                   struct reason *reason)
{
    struct probe_file file = {.name = path, .bytes = bytes->count, .data = bytes->data, .fd = -1};
    struct image image = {0};
    struct probe probe;
    if (!probe_image(&file, &probe, reason))
        return false;
    struct box box = augment_box(augment, chances, probe.width, probe.height, shape, resize);
    if (!image_decode(path, bytes, &probe, shape->channels, shrink_of(&box, shape), &image, reason))
        return false;
    double across = (double)image.width / (double)probe.width, down = (double)image.height / (double)probe.height;
    box = (struct box){box.left * across, box.top * down, box.width * across, box.height * down};
    bool is_resized = image_resize(&image, &box, shape->width, shape->height, ret_values, reason);
    image_clear(&image);
    return is_resized;
}

static bool read_and_decode(const struct folder *folder, size_t index, const struct augment *augment,
                            const struct chances *chances, float *ret_image, struct reason *reason)
{
    char path[PATH_BYTES];
    struct bytes bytes;
    if (!path_of(folder, index, path))
        return because(reason, "%s: a path is too long", folder->path);
    if (!bytes_read(path, file_most, &bytes, reason))
        return false;
    bool is_decoded = folder_decode(path, &bytes, &folder->options.shape, folder->options.resize, augment, chances,
                                    ret_image, reason);
    bytes_clear(&bytes);
    if (is_decoded)
        normalise(&folder->options.shape, ret_image);
    return is_decoded;
}

/* Count a damaged file, and note its name at its first use. */
static void note_damage(struct folder *folder, size_t index, const struct reason *reason)
{
    char line[LINE_BYTES];
    pthread_mutex_lock(&folder->lock);
    if (!folder->is_noted[index]) {
        folder->is_noted[index] = 1;
        if (++folder->damaged_count <= DAMAGED_SHOWN) {
            snprintf(line, sizeof line, "replaced by the next image: %s", reason->text);
            add_note(folder, line);
        }
    }
    pthread_mutex_unlock(&folder->lock);
}

bool folder_image(struct folder *folder, size_t index, const struct augment *augment, const struct chances *chances,
                  float *ret_image, int32_t *ret_label, struct reason *reason)
{
    size_t attempts = folder->list.count < ATTEMPTS_MAX ? folder->list.count : ATTEMPTS_MAX;
    for (size_t i = 0; i < attempts; i++) {
        size_t at = (index + i) % folder->list.count;
        struct reason why = {0};
        if (read_and_decode(folder, at, augment, chances, ret_image, &why)) {
            int32_t label = folder->list.files[at].label;
            *ret_label = folder->labels != NULL ? folder->labels[label] : label;
            return true;
        }
        if (!why.is_damage) {
            *reason = why;
            return false;
        }
        if (!folder->options.skips_damaged)
            return because(reason, "%.500s (--damaged skip uses other images)", why.text);
        note_damage(folder, at, &why);
    }
    return because(reason, "%s: %zu files in a row cannot be decoded", folder->path, attempts);
}
