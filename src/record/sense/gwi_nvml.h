/* Loads NVML at run time and stores its values as metrics. Call it from one thread, except gwi_nvml_wait().
 *
 * If the library, a function or a value is missing, the metric is unknown and the reason is stored. On a failing card,
 * a call may take seconds or never return, so the sampler makes the calls in another process (sampler.c). */
#ifndef GWI_NVML_H
#define GWI_NVML_H

#include "gw_metrics.h"
#include "gw_status.h"
#include "gw_text.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

enum { GWI_NVML_CARDS_MAX = 64, GWI_NVML_PROCESSES_MAX = 128 };

/* The NVML call in progress, and the cost of all calls. They are in shared memory, so that the supervisor can read
 * them. */
typedef struct gwi_nvml_progress {
    _Atomic uint64_t inside_since_ns; /* monotonic start of the current call; 0: no call in progress */
    _Atomic uint32_t inside_row;      /* row of the current call, an index for gwi_nvml_row_name() */
    _Atomic uint64_t spent_ns;        /* processor time of all calls so far */
    _Atomic uint64_t call_count;
} gwi_nvml_progress;

typedef struct gwi_nvml gwi_nvml;

/* Load NVML from `path` (NULL: search for the library) and initialise it. `progress` must exist until gwi_nvml_close().
 * Errors, with the reason in `err`:
 * - GW_MISSING: no such library
 * - GW_UNSUPPORTED: NVML does not work on this machine */
GW_MUST_CHECK gw_status gwi_nvml_open(const char *path, gwi_nvml_progress *progress, gwi_nvml **ret_nvml,
                                      gw_error *err);
void gwi_nvml_close(gwi_nvml *nvml); /* takes NULL */

uint32_t gwi_nvml_card_count(const gwi_nvml *nvml);
/* Append the card's identity in the form of the fact `card` (facts.def). Returns false if NVML has no
 * handle for the card. */
bool gwi_nvml_card_text(gwi_nvml *nvml, uint32_t card, gw_text *text);
/* Append the versions of NVML and the driver, in the form of the fact `nvml` of facts.def. */
void gwi_nvml_version_text(gwi_nvml *nvml, gw_text *text);

/* Return the number of rows in the table of values to read (nvml.c). A row has one or several metrics, mostly from one
 * NVML call. */
size_t gwi_nvml_row_count(void);
const char *gwi_nvml_row_name(size_t row); /* static */
/* Return the interval between reads of the row, in ns. 0: read the row only once, because its values never change. */
uint64_t gwi_nvml_row_interval(size_t row);
/* Read one row for a card. Writes up to GWI_NVML_ROW_METRICS values to ret_value and returns their number. */
enum { GWI_NVML_ROW_METRICS = 6 };
size_t gwi_nvml_read(gwi_nvml *nvml, uint32_t card, size_t row, gw_sample_value *ret_value);

/* A process with memory on a card; `bytes` is UINT64_MAX if unknown. gwi_nvml_processes() lists at most
 * GWI_NVML_PROCESSES_MAX of them. It returns false, with the reason in *ret_state, if it cannot read the list. */
typedef struct gwi_nvml_process {
    uint32_t pid;
    uint64_t bytes;
    uint64_t busy_at_us; /* CLOCK_REALTIME of the newest sample in which it used the card; 0: none in NVML's buffer */
} gwi_nvml_process;
/* Also sets busy_at_us of each process. *ret_busy_since_us: the oldest sample that was looked at; 0: NVML has no
 * samples, or does not return them. */
bool gwi_nvml_processes(gwi_nvml *nvml, uint32_t card, gwi_nvml_process *ret_process, size_t *ret_count,
                        uint8_t *ret_state, uint64_t *ret_busy_since_us);

/* gwi_nvml_wait() waits for the next event of any card. Call it in a thread of its own. */
typedef struct gwi_nvml_event {
    bool is_lost; /* the card is lost; `type` is the code that NVML returned */
    uint32_t card;
    uint64_t type, data;
} gwi_nvml_event;
typedef enum gwi_nvml_waited { GWI_NVML_EVENT, GWI_NVML_NOTHING, GWI_NVML_NO_EVENTS } gwi_nvml_waited;
/* Register for events, before the first gwi_nvml_wait(). Returns false, with the reason in `err`, if the driver or the
 * cards do not support events. */
bool gwi_nvml_listen(gwi_nvml *nvml, gw_error *err);
gwi_nvml_waited gwi_nvml_wait(gwi_nvml *nvml, unsigned timeout_ms, gwi_nvml_event *ret_event);

#endif
