/* The rehearsal's layer: see gwi_rehearse.h. */
#include "gw_hook_rehearsal.h"
#include "gwi_rehearse.h"

#include <stdlib.h>
#include <string.h>

static void *rehearsal_layer(unsigned fn, void *next)
{
    (void)next; /* this is the lowest layer: its functions call the driver */
    return gwi_rehearsal_of(fn);
}

void gwi_rehearse_begin(void)
{
    const char *text = getenv("GPUWHY_REHEARSE");
    if (text == NULL || text[0] == '\0')
        return;
    char *rest = NULL;
    gwi_cards_limit(strtoull(text, &rest, 10));
    if (strncmp(rest, ",iterations=", 12) == 0)
        gwi_steady_want(strtoull(rest + 12, NULL, 10));
    gwi_rehearsal_is_on = true;
    gwi_layer_add(rehearsal_layer);
}

/* Calls that a rehearsal does not understand. */

int gwi_rehearse_refuse(unsigned fn)
{
    static _Atomic uint8_t said[GW_FN_COUNT];
    if (atomic_exchange(&said[fn], 1) == 0)
        gwi_fact(GW_EV_REHEARSAL, GW_REHEARSAL_REFUSED, fn, 0, 0, gw_api_fns[fn].symbol);
    return CUDA_ERROR_NOT_SUPPORTED;
}
