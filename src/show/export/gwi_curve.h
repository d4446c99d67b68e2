/* Device memory over time: values that change, in the order of the recording. The model counts what each process has
 * allocated, so the memory needed grows with the blocks that are alive, not with the events. */
#ifndef GWI_CURVE_H
#define GWI_CURVE_H

#include "gw_export.h"
#include "gw_recording.h"
#include "gw_status.h"

#include <stdint.h>

/* X(NAME, name in exports, words). The device of the first six is CUDA's number in the process; that of CARD_USED is
 * NVML's index. */
#define GWI_CURVES(X)                                                                                                  \
    X(ALLOCATED, "allocated", "allocated by the process")                                                              \
    X(MANAGED, "managed", "managed memory of the process")                                                             \
    X(TORCH_ALLOCATED, "torch_allocated", "in use by PyTorch's tensors")                                               \
    X(TORCH_RESERVED, "torch_reserved", "reserved by PyTorch")                                                         \
    X(DEVICE_USED, "device_used", "used on the whole device, by the driver")                                           \
    X(CARD_USED, "card_used", "used on the whole card, by NVML")

typedef enum gwi_curve_what {
#define GW_X(name, text, words) GWI_CURVE_##name,
    GWI_CURVES(GW_X)
#undef GW_X
        GWI_CURVE_COUNT
} gwi_curve_what;

const char *gwi_curve_name(gwi_curve_what what);  /* static: "allocated" */
const char *gwi_curve_words(gwi_curve_what what); /* static: "allocated by the process" */

typedef struct gwi_curve_value {
    uint64_t t_ns; /* since the run began */
    gwi_curve_what what;
    uint32_t pid; /* 0: a card */
    uint32_t device;
    uint64_t bytes; /* from t_ns on */
} gwi_curve_value;

typedef struct gwi_curve gwi_curve;
typedef gw_status gwi_curve_sink(void *user, const gwi_curve_value *value, gw_error *err);

/* GW_NOMEM. The caller frees *ret_memory. */
GW_MUST_CHECK gw_status gwi_curve_new(gwi_curve **ret_memory, gw_error *err);
/* Pass each value that the item changes to `sink`. GW_NOMEM, or the status of `sink`. */
GW_MUST_CHECK gw_status gwi_curve_feed(gwi_curve *memory, const gw_item *item, gwi_curve_sink *sink, void *user,
                                       gw_error *err);
void gwi_curve_free(gwi_curve *memory); /* takes NULL */

/* The export formats, which export.c lists in its table. */

extern const gw_export_format gwi_export_json;
extern const gw_export_format gwi_export_csv;
extern const gw_export_format gwi_export_csv_sheet;
extern const gw_export_format gwi_export_memory_csv;
extern const gw_export_format gwi_export_memory_json;
extern const gw_export_format gwi_export_perfetto;

#endif
