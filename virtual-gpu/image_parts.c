/* Adds kernels and data objects to a module image, and finds them in it. */
#include "gwi_image.h"

#include "gw_array.h"

#include <stdlib.h>
#include <string.h>

gwi_kernel_info *gwi_image_kernel(const gwi_image *image, const char *name)
{
    for (size_t i = 0; i < image->kernel_count; i++)
        if (strcmp(image->kernels[i].name, name) == 0)
            return &image->kernels[i];
    return NULL;
}

static char *name_copy(const char *name, size_t bytes)
{
    char *copy = malloc(bytes + 1);
    if (copy == NULL)
        return NULL;
    memcpy(copy, name, bytes);
    copy[bytes] = '\0';
    return copy;
}

gwi_kernel_info *gwi_image_add_kernel(gwi_image *image, const char *name, size_t name_bytes)
{
    if (!gw_array_more(&image->kernels, image->kernel_count, sizeof *image->kernels))
        return NULL;
    gwi_kernel_info *kernel = &image->kernels[image->kernel_count];
    memset(kernel, 0, sizeof *kernel);
    kernel->name = name_copy(name, name_bytes);
    if (kernel->name == NULL)
        return NULL;
    image->kernel_count++;
    return kernel;
}

gwi_global_info *gwi_image_add_global(gwi_image *image, const char *name, size_t name_bytes, uint64_t bytes)
{
    if (!gw_array_more(&image->globals, image->global_count, sizeof *image->globals))
        return NULL;
    gwi_global_info *global = &image->globals[image->global_count];
    memset(global, 0, sizeof *global);
    global->name = name_copy(name, name_bytes);
    if (global->name == NULL)
        return NULL;
    global->bytes = bytes;
    image->global_count++;
    return global;
}

bool gwi_kernel_add_param(gwi_kernel_info *kernel, uint32_t offset, uint32_t bytes)
{
    if (kernel->param_count == GWI_PARAMS_MAX || bytes > 32768 || offset > 65536)
        return false;
    if (!gw_array_more(&kernel->params, kernel->param_count, sizeof *kernel->params))
        return false;
    kernel->params[kernel->param_count++] = (gwi_param){offset, bytes};
    if (offset + bytes > kernel->param_bytes)
        kernel->param_bytes = offset + bytes;
    return true;
}

void gwi_image_free(gwi_image *image)
{
    for (size_t i = 0; i < image->kernel_count; i++) {
        free(image->kernels[i].name);
        free(image->kernels[i].params);
    }
    for (size_t i = 0; i < image->global_count; i++) {
        free(image->globals[i].name);
        free(image->globals[i].initial);
    }
    free(image->kernels);
    free(image->globals);
    memset(image, 0, sizeof *image);
}
