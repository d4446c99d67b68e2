/* Reads a recording a second time, and collects what changed over time: the memory of each holder, and the values of
 * each card. The first reading already named the holders and found the peak. */
#ifndef GWI_COLLECT_H
#define GWI_COLLECT_H

#include "gwi_holders.h"
#include "gwi_thin.h"

#include "gw_model_facts.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Columns of a card's table. */
#define GWI_HEALTH(X)                                                                                                  \
    X(CARD_TEMPERATURE, "GPU temperature", "°C", 1)                                                                    \
    X(CARD_TEMPERATURE_MEMORY, "memory temperature", "°C", 1)                                                          \
    X(CARD_POWER, "power", "W", 1000)                                                                                  \
    X(CARD_CLOCK_SM, "SM clock", "MHz", 1)                                                                             \
    X(CARD_CLOCK_MEMORY, "memory clock", "MHz", 1)                                                                     \
    X(CARD_UTILISATION, "utilisation", "%", 1)

typedef enum gwi_health {
#define GW_X(metric, text, unit, divisor) GWI_HEALTH_##metric,
    GWI_HEALTH(GW_X)
#undef GW_X
        GWI_HEALTH_COUNT
} gwi_health;
_Static_assert((int)GWI_HEALTH_COUNT <= (int)GWI_COLUMNS_MAX, "columns of a table");
_Static_assert((int)GWI_MEMORY_COLUMNS <= (int)GWI_COLUMNS_MAX, "columns of a table");

/* A span of time in which a card's clocks were reduced for these reasons. */
typedef struct gwi_throttle {
    uint64_t from_ns, to_ns, reasons; /* reasons: GW_CLOCK_REASON_* */
} gwi_throttle;
enum { GWI_THROTTLES_MAX = 1 << 16 };
/* Reasons that mean that a card is slower than it could be. */
#define GWI_THROTTLE_REASONS                                                                                           \
    ((uint64_t)(GW_CLOCK_REASON_POWER_CAP | GW_CLOCK_REASON_HW_SLOWDOWN | GW_CLOCK_REASON_SW_THERMAL |                 \
                GW_CLOCK_REASON_HW_THERMAL | GW_CLOCK_REASON_POWER_BRAKE))

typedef struct gwi_card_course {
    gwi_thin table;
    bool has_values;
    gwi_throttle *throttle; /* owned; by time, without overlap */
    size_t throttle_count, throttle_capacity;
    uint64_t throttles_dropped; /* spans that are not in `throttle`, because there were too many */
    uint64_t reasons;           /* at the last sample; 0: none, or not known */
    bool is_throttled;          /* the last element of `throttle` has not ended */
} gwi_card_course;

typedef struct gwi_device_course {
    bool has_changes;
    gwi_thin table; /* columns as in gwi_holders.h */
    /* the process with the highest peak on the device, and its live blocks at its peak */
    uint32_t peak_pid;
    uint64_t peak_bytes, t_peak_ns;
    gw_live *peak; /* owned; by address; NULL: not seen */
    size_t peak_count;
} gwi_device_course;

typedef struct gwi_course {
    gwi_device_course device[GW_MODEL_DEVICE_PLACES];
    gwi_card_course card[GW_MACHINE_CARDS_MAX];
    uint64_t exit_steps; /* number of groups that were read because a process ended, for tests */
    bool was_read;       /* false: there is no recording to read, or it could not be read again: see `reason` */
    char reason[256];
} gwi_course;

/* Return the number of buckets (gwi_thin.h) of a chart if `chart_count` charts share the page. */
unsigned gwi_buckets(unsigned chart_count);

/* Read the recording at `path` again; `model` is the finished model of the first reading. `chart_count` charts share
 * the page, so each gets less detail. A recording that cannot be read again gives GW_OK, with `reason`. GW_NOMEM: no
 * memory. Free *ret_course with gwi_course_free(), also after an error. */
GW_MUST_CHECK gw_status gwi_course_read(const char *path, const gw_model *model, const gwi_holders *holders,
                                        unsigned chart_count, gwi_course *ret_course, gw_error *err);
void gwi_course_free(gwi_course *course);

/* The live bytes of each group of a model. All groups of a process that have live bytes are found without a look at the
 * groups of other processes. */

typedef struct gwi_alive {
    uint64_t *bytes; /* owned; live bytes of each group */
    uint32_t *next;  /* owned; the next group in the list of its process; 0: the group is in no list */
    uint32_t *slot;  /* owned; index in `pid` and `first` of each group */
    uint32_t *pid;   /* owned; ascending */
    uint32_t *first; /* owned; first group in the list of each pid */
    size_t group_count, pid_count;
    uint64_t steps; /* number of groups that were read from lists, for tests */
} gwi_alive;

/* Prepare for the groups of `model`, without live bytes. Returns false, with an empty result, if there is no memory. */
bool gwi_alive_start(const gw_model *model, gwi_alive *ret_alive);
void gwi_alive_free(gwi_alive *alive);
/* Add to the live bytes of a group, or subtract from them. A sum never wraps. Groups that are not known are ignored. */
void gwi_alive_change(gwi_alive *alive, uint32_t group, uint64_t bytes, bool made);
/* Take one group of the process, and set its bytes to 0. Returns its index, and its bytes in *ret_bytes, which may be
 * 0. Returns 0 if none is left. */
uint32_t gwi_alive_take(gwi_alive *alive, uint32_t pid, uint64_t *ret_bytes);

#endif
