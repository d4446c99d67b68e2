/* Names of kernels. */
#include "gwi_kernels.h"

#include "gw_hash.h"

#include <stdlib.h>
#include <string.h>

enum {
    PLACES = GWI_KERNELS_MAX * 2,
    ERROR_NS = 1000 /* times of calls in rings are less exact than those of events */
};

/* Return the place of the handle, or the free place where it belongs. */
static gwi_kernel *place_of(const gwi_kernels *kernels, uint32_t pid, uint64_t handle)
{
    size_t at = (size_t)gw_hash_mix(pid, handle) & (PLACES - 1);
    while (kernels->item[at].name != NULL && (kernels->item[at].pid != pid || kernels->item[at].handle != handle))
        at = (at + 1) & (PLACES - 1);
    return &kernels->item[at];
}

const char *gwi_kernels_find(const gwi_kernels *kernels, uint32_t pid, uint64_t handle, uint64_t t_ns)
{
    const gwi_kernel *kernel = kernels->item == NULL ? NULL : place_of(kernels, pid, handle);
    bool is_later = kernel != NULL && kernel->t_ns > ERROR_NS && t_ns < kernel->t_ns - ERROR_NS;
    return kernel == NULL || is_later ? NULL : kernel->name;
}

/* Return the name in the event or, for a function that was made from a CUkernel, that of the CUkernel; NULL: none. */
static const char *name_in(const gwi_kernels *kernels, const gw_event *event)
{
    if (event->result != 0 || event->arg[2] == GW_OWNER_GLOBAL)
        return NULL;
    if (event->text != NULL && event->text[0] != '\0')
        return event->text;
    return event->arg[2] == GW_OWNER_KERNEL ? gwi_kernels_find(kernels, event->pid, event->arg[1], event->t_ns) : NULL;
}

bool gwi_kernels_add(gwi_kernels *kernels, const gw_event *event)
{
    const char *name = name_in(kernels, event);
    if (name == NULL)
        return true;
    if (kernels->item == NULL && (kernels->item = calloc(PLACES, sizeof *kernels->item)) == NULL)
        return false;
    gwi_kernel *place = place_of(kernels, event->pid, event->arg[0]);
    if (place->name == NULL && kernels->count == GWI_KERNELS_MAX)
        return true;
    if (place->name != NULL && strcmp(place->name, name) == 0)
        return true;
    char *copy = strdup(name);
    if (copy == NULL)
        return false;
    bool is_new = place->name == NULL;
    kernels->count += is_new;
    free(place->name);
    *place = (gwi_kernel){event->arg[0], event->pid, copy, is_new ? 0 : event->t_ns};
    return true;
}

void gwi_kernels_free(gwi_kernels *kernels)
{
    for (size_t i = 0; kernels->item != NULL && i < PLACES; i++)
        free(kernels->item[i].name);
    free(kernels->item);
}
