/* Layers between the wrappers and the driver.
 *
 * A wrapper calls gwi_real[fn]. Normally that is the driver's own function, so a layer that is not in use costs
 * nothing. A layer replaces some of these functions by its own, which decide whether to call the next one. So the
 * wrappers record what the program sees, whichever layer returned it.
 *
 * Layers are added once, before the driver's functions are stored, and are never removed. The first one added is
 * nearest to the driver. */
#ifndef GWI_LAYERS_H
#define GWI_LAYERS_H

#include "gwi_hook.h"

enum { GWI_LAYERS_MAX = 4 };

/* The driver's own functions, indexed by fn, whichever layers are in use. NULL: the driver does not have the
 * function. */
extern GWI_HIDDEN void *gwi_driver[GW_FN_COUNT];
#define GWI_DRIVER(symbol) ((gw_fn_t_##symbol *)gwi_driver[GW_FN_##symbol])

/* Return the function that stands in front of `next` for `fn`, or NULL for none. The layer keeps `next`. Called with
 * the hook's lock held, once per function of the driver. */
typedef void *(*gwi_layer)(unsigned fn, void *next);

/* Add a layer on top of the others. Call with the lock held, before the first gwi_driver_found(). */
void gwi_layer_add(gwi_layer layer);
/* Store a function of the driver: gwi_driver[fn], and gwi_real[fn] with all layers in front of it. NULL: the driver
 * does not have it. */
void gwi_driver_found(unsigned fn, void *function);

#endif
