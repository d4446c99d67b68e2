/* NVML, loaded at run time: which of its answers become which metrics. One thread, apart from gwi_nvml_wait().
 *
 * Nothing here is needed: a library, function or answer that is missing is a value that is not known, with the reason.
 * Calls may take seconds, or not come back, on a card that is dying: whoever must not wait calls from another process
 * (sampler.c). */
#ifndef GWI_NVML_H
#define GWI_NVML_H

#include "gw_machine.h"
#include "gw_status.h"
#include "gw_text.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

enum { GWI_NVML_CARDS_MAX = 64, GWI_NVML_PROCESSES_MAX = 128 };

/* What the thread is doing, for whoever watches from outside: lies in shared memory. */
typedef struct gwi_nvml_progress {
    _Atomic uint64_t inside_since_ns; /* monotonic; 0: in no call */
    _Atomic uint32_t inside_row;      /* of gwi_nvml_row_name() */
    _Atomic uint64_t spent_ns;        /* processor time of the calls so far */
    _Atomic uint64_t call_count;
} gwi_nvml_progress;

typedef struct gwi_nvml gwi_nvml;

/* Load `path` (NULL: what the loader finds) and initialise it. GW_MISSING: there is no such library; GW_UNSUPPORTED: it
 * does not work here; `err` says why. `progress` outlives the handle. */
GW_MUST_CHECK gw_status gwi_nvml_open(const char *path, gwi_nvml_progress *progress, gwi_nvml **ret_nvml,
                                      gw_error *err);
void gwi_nvml_close(gwi_nvml *nvml); /* takes NULL */

uint32_t gwi_nvml_card_count(const gwi_nvml *nvml);
/* Append the facts `card` and `nvml` of facts.def. False: the card does not answer. */
bool gwi_nvml_card_text(gwi_nvml *nvml, uint32_t card, gw_text *text);
void gwi_nvml_version_text(gwi_nvml *nvml, gw_text *text);

/* Rows: one call of NVML each, which gives one metric or several in a row of the table. */
size_t gwi_nvml_row_count(void);
const char *gwi_nvml_row_name(size_t row); /* static */
/* How often the row is worth asking, in ns; 0: it does not change. */
uint64_t gwi_nvml_row_interval(size_t row);
/* Ask one; writes up to GWI_NVML_ROW_METRICS values. Returns how many. */
enum { GWI_NVML_ROW_METRICS = 6 };
size_t gwi_nvml_read(gwi_nvml *nvml, uint32_t card, size_t row, gw_sample_value *ret_value);

/* Processes with memory on the card. False: not known, *ret_state says why. bytes UINT64_MAX: not known. */
typedef struct gwi_nvml_process {
    uint32_t pid;
    uint64_t bytes;
} gwi_nvml_process;
bool gwi_nvml_processes(gwi_nvml *nvml, uint32_t card, gwi_nvml_process *ret_process, size_t *ret_count,
                        uint8_t *ret_state);

/* Wait for the next event of any card; for a thread of its own. */
typedef struct gwi_nvml_event {
    bool is_lost; /* NVML says that a card is gone: `type` is its answer */
    uint32_t card;
    uint64_t type, data;
} gwi_nvml_event;
typedef enum gwi_nvml_waited { GWI_NVML_EVENT, GWI_NVML_NOTHING, GWI_NVML_NO_EVENTS } gwi_nvml_waited;
/* Prepare to; false: this driver or card has no events, `err` says why. */
bool gwi_nvml_listen(gwi_nvml *nvml, gw_error *err);
gwi_nvml_waited gwi_nvml_wait(gwi_nvml *nvml, unsigned timeout_ms, gwi_nvml_event *ret_event);

#endif
