/* Module images: detect the kind of an image, and read fat binaries. See gwi_image.h. */
#include "gw_text.h"
#include "gwi_image.h"

#include <stdio.h>
#include <string.h>

/* A fat binary has a header and then its parts, each with a header of its own. All values are little-endian. */
enum {
    FATBIN_MAGIC = 0xBA55ED50,
    WRAPPER_MAGIC = 0x466243B1,
    PART_PTX = 1,
    PART_ELF = 2,
    PART_HEAD_BYTES = 64,
    PART_COMPRESSED = 0x2000 | 0x8000
};

static uint64_t number_at(const unsigned char *data, size_t offset, int bytes)
{
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--)
        value = value << 8 | data[offset + (size_t)i];
    return value;
}

static void model_apply(gwi_kernel_info *kernel, const gwi_global_info *global)
{
    struct gw_kernel_model model;
    memset(&model, 0, sizeof model);
    if (global->initial == NULL)
        return;
    memcpy(&model, global->initial, global->bytes < sizeof model ? (size_t)global->bytes : sizeof model);
    if (model.magic != GW_KERNEL_MODEL_MAGIC || model.version != GW_KERNEL_MODEL_VERSION ||
        model.fault >= GW_KERNEL_FAULT_COUNT || model.when >= GW_KERNEL_WHEN_COUNT)
        return;
    kernel->model = model;
    kernel->has_model = true;
}

static void models_find(gwi_image *image)
{
    for (size_t i = 0; i < image->global_count; i++) {
        const gwi_global_info *global = &image->globals[i];
        bool is_model = gw_begins(global->name, "gpuwhy_model_");
        bool is_text = gw_begins(global->name, "gpuwhy_text_");
        if (!is_model && !is_text)
            continue;
        gwi_kernel_info *kernel = gwi_image_kernel(image, global->name + (is_model ? 13 : 12));
        if (kernel == NULL)
            continue;
        if (is_model)
            model_apply(kernel, global);
        else if (global->initial != NULL)
            memcpy(kernel->text, global->initial,
                   global->bytes < sizeof kernel->text - 3 ? (size_t)global->bytes : sizeof kernel->text - 3);
    }
}

static size_t elf_bytes(const unsigned char *data)
{
    uint64_t end = number_at(data, 40, 8) + number_at(data, 58, 2) * number_at(data, 60, 2);
    uint64_t programs = number_at(data, 32, 8) + number_at(data, 54, 2) * number_at(data, 56, 2);
    return (size_t)(programs > end ? programs : end);
}

size_t gwi_image_bytes(const void *image)
{
    const unsigned char *data = image;
    if (memcmp(data, "\177ELF", 4) == 0)
        return elf_bytes(data);
    if (number_at(data, 0, 1) == 0x50 && number_at(data, 0, 4) == FATBIN_MAGIC)
        return (size_t)(number_at(data, 6, 2) + number_at(data, 8, 8));
    return strlen(image);
}

static int fail(int code, char *reason, size_t reason_bytes, const char *text)
{
    snprintf(reason, reason_bytes, "%s", text);
    return code;
}

/* Return how well a part fits the GPU, 0 if it does not. Code for exactly this GPU is best, then code for an older GPU
 * of the same family, then PTX. */
static int part_score(const unsigned char *part, const gwi_image_wants *wants)
{
    int arch = (int)number_at(part, 28, 4);
    if (number_at(part, 0, 2) == PART_ELF && arch / 10 == wants->compute_capability / 10 &&
        arch <= wants->compute_capability)
        return 1000 + arch;
    if (number_at(part, 0, 2) == PART_PTX && arch <= wants->compute_capability)
        return arch;
    return 0;
}

static int read_fatbin(const unsigned char *data, size_t bytes, const gwi_image_wants *wants, gwi_image *image,
                       char *reason, size_t reason_bytes)
{
    if (bytes < 16)
        return fail(200, reason, reason_bytes, "fat binary: truncated in its header");
    size_t offset = (size_t)number_at(data, 6, 2);
    const unsigned char *best = NULL;
    int best_score = 0;
    while (offset < bytes && bytes - offset >= PART_HEAD_BYTES) {
        const unsigned char *part = data + offset;
        uint64_t head = number_at(part, 4, 4);
        uint64_t size = number_at(part, 8, 8);
        if (head < PART_HEAD_BYTES || head > bytes - offset || size > bytes - offset - head)
            return fail(200, reason, reason_bytes, "fat binary: a part extends past the end");
        if (part_score(part, wants) > best_score) {
            best = part;
            best_score = part_score(part, wants);
        }
        offset += (size_t)(head + size);
    }
    if (best == NULL)
        return fail(209, reason, reason_bytes, "fat binary: no part for this card");
    size_t head = (size_t)number_at(best, 4, 4);
    size_t size = (size_t)number_at(best, 8, 8);
    if (number_at(best, 40, 8) & PART_COMPRESSED)
        return fail(801, reason, reason_bytes,
                    "fat binary: the part for this card is compressed, which the virtual card cannot read; build with "
                    "nvcc --no-compress");
    if (number_at(best, 0, 2) == PART_ELF)
        return gwi_image_read_elf(best + head, size, wants, image, reason, reason_bytes);
    return gwi_image_read_ptx((const char *)best + head, strnlen((const char *)best + head, size), wants, image, reason,
                              reason_bytes);
}

int gwi_image_read(const void *image, size_t bytes, const gwi_image_wants *wants, gwi_image *ret_image, char *reason,
                   size_t reason_bytes)
{
    const unsigned char *data = image;
    int code;
    memset(ret_image, 0, sizeof *ret_image);
    reason[0] = '\0';
    if (bytes >= 4 && memcmp(data, "\177ELF", 4) == 0)
        code = gwi_image_read_elf(data, bytes, wants, ret_image, reason, reason_bytes);
    else if (bytes >= 4 && number_at(data, 0, 4) == FATBIN_MAGIC)
        code = read_fatbin(data, bytes, wants, ret_image, reason, reason_bytes);
    else
        code = gwi_image_read_ptx(image, bytes, wants, ret_image, reason, reason_bytes);
    if (code == 0)
        models_find(ret_image);
    else
        gwi_image_free(ret_image);
    return code;
}
