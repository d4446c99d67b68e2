/* Reads what the virtual GPU needs from a module image: kernels, parameters, data objects, models of kernels. Accepts
 * PTX text, cubins (ELF) and fat binaries. Never reads beyond `bytes`. */
#ifndef GWI_IMAGE_H
#define GWI_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpuwhy/kernel_model.h"

enum { GWI_PARAMS_MAX = 1024, GWI_MODEL_TEXT_MAX = 512 };

typedef struct gwi_param {
    uint32_t offset;
    uint32_t bytes;
} gwi_param;

typedef struct gwi_kernel_info {
    char *name;        /* owned */
    gwi_param *params; /* owned */
    uint32_t param_count;
    uint32_t param_bytes;
    uint32_t shared_bytes;
    uint32_t threads_max; /* 0: the kernel sets no limit */
    bool has_model;
    struct gw_kernel_model model;
    char text[GWI_MODEL_TEXT_MAX]; /* of a failed assertion: "file\0function\0message\0"; an unknown text is empty */
} gwi_kernel_info;

typedef struct gwi_global_info {
    char *name; /* owned */
    uint64_t bytes;
    unsigned char *initial; /* owned; NULL: all bytes are zero */
    bool constant;
} gwi_global_info;

typedef struct gwi_image {
    gwi_kernel_info *kernels; /* owned */
    size_t kernel_count;
    gwi_global_info *globals; /* owned */
    size_t global_count;
    uint32_t constant_bytes;
    int ptx_version;    /* 75 for 7.5; 0: not known */
    int binary_version; /* 90 for sm_90 */
} gwi_image;

typedef struct gwi_image_wants {
    int compute_capability; /* of the GPU: 90 for 9.0 */
    int ptx_version_max;    /* newest that the driver accepts: 90 for 9.0 */
} gwi_image_wants;

/* Return the size in bytes of the image at `data`, for calls that pass no size: from a binary's headers, or up to the
 * zero after PTX text. */
size_t gwi_image_bytes(const void *data);
/* Read an image. Returns 0 or one of these results; *ret_image is then empty and `reason` says why:
 * - 2: out of memory
 * - 200: invalid image
 * - 209: no code for this GPU
 * - 218: invalid PTX
 * - 222: PTX is too new
 * - 801: not supported */
int gwi_image_read(const void *data, size_t bytes, const gwi_image_wants *wants, gwi_image *ret_image, char *reason,
                   size_t reason_bytes);
void gwi_image_free(gwi_image *image);
gwi_kernel_info *gwi_image_kernel(const gwi_image *image, const char *name);

/* The readers that gwi_image_read() calls, and the functions that add a kernel, a variable or a parameter to *image. */
int gwi_image_read_ptx(const char *text, size_t bytes, const gwi_image_wants *wants, gwi_image *image, char *reason,
                       size_t reason_bytes);
int gwi_image_read_elf(const unsigned char *data, size_t bytes, const gwi_image_wants *wants, gwi_image *image,
                       char *reason, size_t reason_bytes);
gwi_kernel_info *gwi_image_add_kernel(gwi_image *image, const char *name, size_t name_bytes);
gwi_global_info *gwi_image_add_global(gwi_image *image, const char *name, size_t name_bytes, uint64_t bytes);
bool gwi_kernel_add_param(gwi_kernel_info *kernel, uint32_t offset, uint32_t bytes);

#endif
