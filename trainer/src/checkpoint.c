/* Write and read checkpoints. */
#include "checkpoint.h"

#include "checksum.h"
#include "dropout.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The last character is the version. */
static const char magic[] = "GSTRAIN2";
enum { MAGIC_BYTES = 8, FRONT_BYTES = 16, HEAD_BYTES_MAX = 16384 };

/* ---- the header: one row per field ---- */

enum field_kind { FIELD_TEXT, FIELD_U64, FIELD_U32, FIELD_DOUBLE };
struct field {
    const char *key;
    enum field_kind kind;
    size_t at, bytes;
    char since; /* the first version that has the field */
};
static const struct field fields[] = {
#define PLACE(name)         offsetof(struct checkpoint, name), sizeof((struct checkpoint *)0)->name
#define FIELD(name, kind)   {#name, kind, PLACE(name), '1'},
#define FIELD_2(name, kind) {#name, kind, PLACE(name), '2'},
    FIELD(model, FIELD_TEXT) FIELD(model_sum, FIELD_U32) FIELD(parameter_count, FIELD_U64)
        FIELD(statistics_count, FIELD_U64) FIELD(moment_count, FIELD_U64) FIELD(optimizer, FIELD_TEXT)
            FIELD(data, FIELD_TEXT) FIELD(image_count, FIELD_U64) FIELD(batch, FIELD_U64) FIELD(seed, FIELD_U64)
                FIELD(precision, FIELD_TEXT) FIELD(micro_batch, FIELD_U64) FIELD(devices, FIELD_U64)
                    FIELD(rate, FIELD_DOUBLE) FIELD(momentum, FIELD_DOUBLE) FIELD(weight_decay, FIELD_DOUBLE)
                        FIELD(step, FIELD_U64) FIELD(update_number, FIELD_U64) FIELD(epoch, FIELD_U64)
                            FIELD(position, FIELD_U64) FIELD(loss_scale, FIELD_DOUBLE) FIELD(good_steps, FIELD_U64)
                                FIELD(broken_steps, FIELD_U64) FIELD(broken_in_a_row, FIELD_U64)
                                    FIELD_2(average_count, FIELD_U64) FIELD_2(recipe, FIELD_TEXT)
                                        FIELD_2(best_accuracy, FIELD_DOUBLE) FIELD_2(best_step, FIELD_U64)
                                            FIELD_2(worse_evaluations, FIELD_U64)
#undef PLACE
#undef FIELD
#undef FIELD_2
};
enum { FIELD_COUNT = sizeof fields / sizeof *fields };

/* Write a line with a key and a text. Line breaks in the text are replaced by question marks. */
static int put_text(char *out, size_t bytes, const struct field *field, const char *text)
{
    int length = snprintf(out, bytes, "%s %.*s\n", field->key, (int)field->bytes - 1, text);
    for (char *at = out; length > 0 && (size_t)length < bytes && at < out + length - 1; at++)
        if (*at == '\n')
            *at = '?';
    return length;
}

static int put_field(char *out, size_t bytes, const struct field *field, const struct checkpoint *checkpoint)
{
    const char *at = (const char *)checkpoint + field->at;
    switch (field->kind) {
    case FIELD_TEXT:
        return put_text(out, bytes, field, at);
    case FIELD_U64:
        return snprintf(out, bytes, "%s %" PRIu64 "\n", field->key, *(const uint64_t *)(const void *)at);
    case FIELD_U32:
        return snprintf(out, bytes, "%s %" PRIu32 "\n", field->key, *(const uint32_t *)(const void *)at);
    case FIELD_DOUBLE:
        break;
    }
    return snprintf(out, bytes, "%s %a\n", field->key, *(const double *)(const void *)at); /* %a loses no precision */
}

static bool get_number(const char *text, uint64_t most, uint64_t *ret)
{
    char *end;
    errno = 0;
    if (*text < '0' || *text > '9')
        return false;
    unsigned long long number = strtoull(text, &end, 10);
    if (*end != '\0' || errno != 0 || number > most)
        return false;
    *ret = number;
    return true;
}

static bool get_field(const char *text, const struct field *field, struct checkpoint *checkpoint)
{
    char *at = (char *)checkpoint + field->at, *end;
    uint64_t number;
    double real;
    switch (field->kind) {
    case FIELD_TEXT:
        return snprintf(at, field->bytes, "%s", text) < (int)field->bytes;
    case FIELD_U64:
        return get_number(text, UINT64_MAX, (uint64_t *)(void *)at);
    case FIELD_U32:
        if (!get_number(text, UINT32_MAX, &number))
            return false;
        *(uint32_t *)(void *)at = (uint32_t)number;
        return true;
    case FIELD_DOUBLE:
        break;
    }
    real = strtod(text, &end);
    if (end == text || *end != '\0' || !(real >= 0 && real < 1e30))
        return false;
    *(double *)(void *)at = real;
    return true;
}

static bool get_line(const char *name, char **rest, const struct field *field, struct checkpoint *checkpoint,
                     struct reason *reason)
{
    char *line = *rest, *end = strchr(line, '\n');
    size_t key_bytes = strlen(field->key);
    if (end == NULL || strncmp(line, field->key, key_bytes) != 0 || line[key_bytes] != ' ')
        return because(reason, "%s: the header has no \"%s\"", name, field->key);
    *end = '\0';
    *rest = end + 1;
    if (!get_field(line + key_bytes + 1, field, checkpoint))
        return because(reason, "%s: \"%s\" in the header is \"%.40s\"", name, field->key, line + key_bytes + 1);
    return true;
}

/* ---- content ---- */

void checkpoint_clear(struct checkpoint *checkpoint)
{
    free(checkpoint->parameters);
    free(checkpoint->statistics);
    free(checkpoint->average);
    for (size_t i = 0; i < CHECKPOINT_MOMENTS_MAX; i++)
        free(checkpoint->moments[i]);
    *checkpoint = (struct checkpoint){0};
}

struct part {
    float **vector;
    uint64_t count;
};
enum { PARTS_MAX = 3 + CHECKPOINT_MOMENTS_MAX };

/* List the arrays in the order in which the file stores them. */
static size_t parts_of(struct checkpoint *checkpoint, struct part parts[PARTS_MAX])
{
    size_t count = 0;
    parts[count++] = (struct part){&checkpoint->parameters, checkpoint->parameter_count};
    for (size_t i = 0; i < checkpoint->moment_count; i++)
        parts[count++] = (struct part){&checkpoint->moments[i], checkpoint->parameter_count};
    parts[count++] = (struct part){&checkpoint->statistics, checkpoint->statistics_count};
    if (checkpoint->average_count != 0)
        parts[count++] = (struct part){&checkpoint->average, checkpoint->parameter_count};
    return count;
}

bool checkpoint_alloc(struct checkpoint *checkpoint, struct reason *reason)
{
    struct part parts[PARTS_MAX];
    size_t count = parts_of(checkpoint, parts);
    for (size_t i = 0; i < count; i++) {
        if (parts[i].count == 0)
            continue;
        *parts[i].vector = calloc(parts[i].count, sizeof(float));
        if (*parts[i].vector == NULL)
            return because(reason, "checkpoint: no host memory for %" PRIu64 " numbers", parts[i].count);
    }
    return true;
}

uint32_t checkpoint_model_sum(const struct model *model)
{
    uint32_t sum = 0;
    for (size_t i = 0; i < model->layer_count; i++) {
        const struct layer *l = &model->layers[i];
        uint64_t has[] = {l->kind,     l->from[0],    l->from[1],   l->in.channels,  l->in.height,
                          l->in.width, l->out.height, l->out.width, l->out.channels, l->kernel,
                          l->stride,   l->pad,        l->has_bias,  l->has_relu};
        sum = checksum(sum, has, sizeof has);
        uint64_t more[] = {l->groups, (uint64_t)l->activation, dropout_limit(l->rate), l->drops_images};
        if (l->groups > 1 || l->kind >= LAYER_ACTIVATION) /* other models keep the sums of older checkpoints */
            sum = checksum(sum, more, sizeof more);
    }
    return sum;
}

/* ---- writing ---- */

static size_t write_head(const struct checkpoint *checkpoint, char head[HEAD_BYTES_MAX])
{
    size_t at = 0;
    for (size_t i = 0; i < FIELD_COUNT; i++)
        at += (size_t)put_field(head + at, HEAD_BYTES_MAX - at, &fields[i], checkpoint);
    return at;
}
_Static_assert(FIELD_COUNT *(CHECKPOINT_TEXT_BYTES + 32) + CHECKPOINT_RECIPE_BYTES < HEAD_BYTES_MAX,
               "the longest head has room");

static void put_u32(uint8_t *at, uint32_t number)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(number >> 8 * i);
}

static uint32_t get_u32(const uint8_t *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static bool write_file(int fd, const void *user)
{
    const struct checkpoint *checkpoint = user;
    struct checkpoint copy = *checkpoint; /* copied, because parts_of() does not take a const struct */
    struct part parts[PARTS_MAX];
    char head[HEAD_BYTES_MAX];
    uint8_t front[FRONT_BYTES];
    size_t head_bytes = write_head(checkpoint, head), count = parts_of(&copy, parts);
    uint32_t sum = checksum(0, head, head_bytes);
    for (size_t i = 0; i < count; i++)
        sum = checksum(sum, *parts[i].vector, parts[i].count * sizeof(float));
    memcpy(front, magic, MAGIC_BYTES);
    put_u32(front + 8, (uint32_t)head_bytes);
    put_u32(front + 12, sum);
    bool is_written = file_write(fd, front, sizeof front) && file_write(fd, head, head_bytes);
    for (size_t i = 0; i < count && is_written; i++)
        is_written = file_write(fd, *parts[i].vector, parts[i].count * sizeof(float));
    return is_written;
}

bool checkpoint_write(const char *path, const struct checkpoint *checkpoint, struct reason *reason)
{
    return file_replace(path, write_file, checkpoint, reason);
}

/* ---- reading ---- */

uint64_t checkpoint_bytes_max(uint64_t parameter_count, uint64_t statistics_count)
{
    return FRONT_BYTES + HEAD_BYTES_MAX +
           sizeof(float) * (parameter_count * (2 + CHECKPOINT_MOMENTS_MAX) + statistics_count);
}

static bool parse_front(const char *name, const struct bytes *bytes, size_t *ret_head_bytes, struct reason *reason)
{
    if (bytes->count < FRONT_BYTES || memcmp(bytes->data, magic, MAGIC_BYTES - 1) != 0)
        return because(reason, "%s: byte 0: not a checkpoint of this trainer", name);
    if (bytes->data[MAGIC_BYTES - 1] < '1' || bytes->data[MAGIC_BYTES - 1] > magic[MAGIC_BYTES - 1])
        return because(reason, "%s: byte %d: a checkpoint of another version of this trainer", name, MAGIC_BYTES - 1);
    size_t head_bytes = get_u32(bytes->data + 8);
    if (head_bytes == 0 || head_bytes >= HEAD_BYTES_MAX || head_bytes > bytes->count - FRONT_BYTES)
        return because(reason, "%s: byte 8: a header of %zu bytes in a file of %zu", name, head_bytes, bytes->count);
#ifndef TRAINER_FUZZ_IGNORE_SUM
    uint32_t sum = checksum(0, bytes->data + FRONT_BYTES, bytes->count - FRONT_BYTES);
    if (sum != get_u32(bytes->data + 12))
        return because(reason, "%s: damaged: the checksum is %08x instead of %08x", name, sum,
                       get_u32(bytes->data + 12));
#endif
    *ret_head_bytes = head_bytes;
    return true;
}

static bool parse_head(const char *name, char version, const uint8_t *from, size_t bytes, struct checkpoint *checkpoint,
                       struct reason *reason)
{
    char head[HEAD_BYTES_MAX], *rest = head;
    memcpy(head, from, bytes);
    head[bytes] = '\0';
    for (size_t i = 0; i < FIELD_COUNT; i++)
        if (fields[i].since <= version && !get_line(name, &rest, &fields[i], checkpoint, reason))
            return false;
    if (version == '1')
        strcpy(checkpoint->recipe, CHECKPOINT_PLAIN);
    if (rest != head + bytes)
        return because(reason, "%s: the header has %td bytes too many", name, head + bytes - rest);
    return true;
}

/* Check the counts from the file. They may be damaged, so they must match the file's size before memory is
 * allocated. */
static bool parse_sizes(const char *name, size_t bytes, const struct checkpoint *checkpoint, struct reason *reason)
{
    uint64_t most = bytes / sizeof(float);
    if (checkpoint->moment_count > CHECKPOINT_MOMENTS_MAX || checkpoint->average_count > 1 ||
        checkpoint->parameter_count > most || checkpoint->statistics_count > most ||
        (checkpoint->parameter_count * (1 + checkpoint->moment_count + checkpoint->average_count) +
         checkpoint->statistics_count) *
                sizeof(float) !=
            bytes)
        return because(reason,
                       "%s: %" PRIu64 " parameters, %" PRIu64 " moments and %" PRIu64 " averages of each and %" PRIu64
                       " statistics do not match the %zu bytes after the header",
                       name, checkpoint->parameter_count, checkpoint->moment_count, checkpoint->average_count,
                       checkpoint->statistics_count, bytes);
    return true;
}

static bool parse_vectors(const uint8_t *from, struct checkpoint *checkpoint, struct reason *reason)
{
    struct part parts[PARTS_MAX];
    if (!checkpoint_alloc(checkpoint, reason))
        return false;
    size_t count = parts_of(checkpoint, parts);
    for (size_t i = 0; i < count; i++) {
        if (parts[i].count > 0)
            memcpy(*parts[i].vector, from, parts[i].count * sizeof(float));
        from += parts[i].count * sizeof(float);
    }
    return true;
}

bool checkpoint_parse(const char *name, const struct bytes *bytes, struct checkpoint *ret_checkpoint,
                      struct reason *reason)
{
    struct checkpoint checkpoint = {0};
    size_t head_bytes = 0;
    if (!parse_front(name, bytes, &head_bytes, reason))
        return false;
    size_t at = FRONT_BYTES + head_bytes;
    char version = (char)bytes->data[MAGIC_BYTES - 1];
    if (!parse_head(name, version, bytes->data + FRONT_BYTES, head_bytes, &checkpoint, reason) ||
        !parse_sizes(name, bytes->count - at, &checkpoint, reason) ||
        !parse_vectors(bytes->data + at, &checkpoint, reason)) {
        checkpoint_clear(&checkpoint);
        return false;
    }
    *ret_checkpoint = checkpoint;
    return true;
}

bool checkpoint_read(const char *path, uint64_t most_bytes, struct checkpoint *ret_checkpoint, struct reason *reason)
{
    struct bytes bytes = {0};
    bool is_read =
        bytes_read(path, most_bytes, &bytes, reason) && checkpoint_parse(path, &bytes, ret_checkpoint, reason);
    bytes_clear(&bytes);
    return is_read;
}

/* ---- whether it matches ---- */

static bool same_text(const char *what, const char *is, const char *wants, struct reason *reason)
{
    return strcmp(is, wants) == 0 || because(reason, "the checkpoint is for %s %.120s, not %.120s", what, is, wants);
}

static bool same_number(const char *what, uint64_t is, uint64_t wants, struct reason *reason)
{
    return is == wants || because(reason, "the checkpoint is for %s %" PRIu64 ", not %" PRIu64, what, is, wants);
}

bool checkpoint_fits(const struct checkpoint *is, const struct checkpoint *wants, char *ret_note, size_t note_bytes,
                     struct reason *reason)
{
    if (!same_text("model", is->model, wants->model, reason) ||
        !same_number("a model with the sum", is->model_sum, wants->model_sum, reason) ||
        !same_number("parameter count", is->parameter_count, wants->parameter_count, reason) ||
        !same_number("statistics count", is->statistics_count, wants->statistics_count, reason) ||
        !same_text("optimizer", is->optimizer, wants->optimizer, reason) ||
        !same_number("moment count", is->moment_count, wants->moment_count, reason) ||
        !same_number("average count", is->average_count, wants->average_count, reason) ||
        !same_text("data", is->data, wants->data, reason) ||
        !same_number("image count", is->image_count, wants->image_count, reason) ||
        !same_number("batch", is->batch, wants->batch, reason) || !same_number("seed", is->seed, wants->seed, reason))
        return false;
    bool is_inside = is->position == 0 || (is->batch <= is->image_count && is->position <= is->image_count - is->batch);
    if (!is_inside || is->update_number > is->step)
        return because(reason,
                       "the checkpoint has an impossible position: image %" PRIu64 " of %" PRIu64 ", update %" PRIu64
                       " of step %" PRIu64,
                       is->position, is->image_count, is->update_number, is->step);
    char rate[REAL_TEXT_BYTES], momentum[REAL_TEXT_BYTES], decay[REAL_TEXT_BYTES];
    *ret_note = '\0';
    if (strcmp(is->precision, wants->precision) != 0 || is->micro_batch != wants->micro_batch ||
        is->devices != wants->devices || is->rate != wants->rate || is->momentum != wants->momentum ||
        is->weight_decay != wants->weight_decay || strcmp(is->recipe, wants->recipe) != 0)
        snprintf(ret_note, note_bytes,
                 "the checkpoint was made with %s, micro-batch %" PRIu64 ", %" PRIu64
                 " devices, rate %s, momentum %s, weight decay %s, %s: the results will differ from those of an "
                 "uninterrupted run",
                 is->precision, is->micro_batch, is->devices, real_text(is->rate, rate),
                 real_text(is->momentum, momentum), real_text(is->weight_decay, decay), is->recipe);
    return true;
}
