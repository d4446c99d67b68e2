/* Which place in the program, or which other holder, each block of device memory belongs to. The largest holders of a
 * device have a column of their own in its chart, and a colour that is the same in the chart and in the maps. */
#ifndef GWI_HOLDERS_H
#define GWI_HOLDERS_H

#include "gw_model_facts.h"
#include "gw_text.h"

enum {
    GWI_NAMED_MAX = 7,           /* holders with a name */
    GWI_SMALLER = GWI_NAMED_MAX, /* column of all smaller holders */
    GWI_OUTSIDE,                 /* column of memory that no recorded call requested */
    GWI_TOTAL,                   /* column with the sum of the named and the smaller holders */
    GWI_MEMORY_COLUMNS
};

typedef struct gwi_device_holders {
    size_t count;              /* named holders */
    char *name[GWI_NAMED_MAX]; /* owned */
    uint64_t weight[GWI_NAMED_MAX];
    size_t smaller_count; /* places that share GWI_SMALLER */
} gwi_device_holders;

typedef struct gwi_holders {
    uint8_t *column; /* owned; column of each group of the model, before groups were merged */
    size_t group_count;
    gwi_device_holders device[GW_MODEL_DEVICE_PLACES];
} gwi_holders;

/* Name the holders. `model` is finished and its sites are named. Returns false if there is no memory. */
bool gwi_holders_find(const gw_model *model, gwi_holders *ret_holders);
void gwi_holders_free(gwi_holders *holders);
/* Return the column of a group, GWI_SMALLER if the group is not known. */
uint8_t gwi_holder_column(const gwi_holders *holders, uint32_t group);

/* Append the user's frame of a call site: "train.py:31 in step", or "unknown place". Returns false if the place is not
 * known. */
bool gwi_site_text(const gw_model *model, uint32_t site, gw_text *text);

#endif
