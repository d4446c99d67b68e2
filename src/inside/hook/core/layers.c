/* Layers between the wrappers and the driver: see gwi_hook.h. */
#include "gwi_hook.h"

void *gwi_driver[GW_FN_COUNT];

static gwi_layer layers[GWI_LAYERS_MAX]; /* the lowest first */
static unsigned layer_count;

static void *cover(unsigned fn, void *function)
{
    for (unsigned i = 0; i < layer_count; i++) {
        void *above = layers[i](fn, function);
        if (above != NULL)
            function = above;
    }
    return function;
}

void gwi_layer_add(gwi_layer layer)
{
    if (layer_count < GWI_LAYERS_MAX)
        layers[layer_count++] = layer;
}

void gwi_driver_found(unsigned fn, void *function)
{
    gwi_driver[fn] = function;
    __atomic_store_n(&gwi_real[fn], function != NULL ? cover(fn, function) : NULL, __ATOMIC_RELEASE);
}
