/* The export formats, which export.c lists in its table. */
#ifndef GWI_EXPORT_H
#define GWI_EXPORT_H

#include "gw_export.h"

extern const gw_export_format gwi_export_json;
extern const gw_export_format gwi_export_csv;
extern const gw_export_format gwi_export_csv_sheet;
extern const gw_export_format gwi_export_memory_csv;
extern const gw_export_format gwi_export_memory_json;
extern const gw_export_format gwi_export_perfetto;

#endif
