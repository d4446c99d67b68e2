/* The table of causes. The causes judge a case in this order. */
#include "gwi_cause.h"

#include <string.h>

const gw_cause *const gwi_causes[GWI_CAUSE_COUNT] = {
#define GWI_CAUSE(name, again, acts) &gwi_cause_##name,
#include "causes.def"
#undef GWI_CAUSE
};

const gw_again gwi_causes_again[GWI_CAUSE_COUNT] = {
#define GWI_CAUSE(name, again, acts) GW_AGAIN_##again,
#include "causes.def"
#undef GWI_CAUSE
};

const unsigned gwi_causes_acts[GWI_CAUSE_COUNT] = {
#define GWI_CAUSE(name, again, acts) acts,
#include "causes.def"
#undef GWI_CAUSE
};

const gw_cause *gwi_cause_of(const char *id)
{
    for (size_t i = 0; i < GWI_CAUSE_COUNT; i++) {
        if (strcmp(gwi_causes[i]->id, id) == 0)
            return gwi_causes[i];
    }
    return NULL;
}
