/* Shared inside export/: the formats and a common helper. */
#ifndef GWI_EXPORT_H
#define GWI_EXPORT_H

#include "gw_export.h"

extern const gw_export_format gwi_export_json;
extern const gw_export_format gwi_export_csv;
extern const gw_export_format gwi_export_csv_sheet;

/* Return the name of a kind of item, such as "event" or "counters". Static. */
const char *gwi_item_name(gw_item_kind kind);

#endif
