/* What the supervisor read about machine and cards during the run, put in order: each value from first to last, and
 * what happened. Part of gw_model_facts.h; everything is read only and belongs to the model.
 *
 * Cards have NVML's numbers (the order of the PCI bus), which are not CUDA's: gw_machine_card_of() and
 * gw_machine_device_of() translate where both said where on the bus the card is. */
#ifndef GW_MACHINE_FACTS_H
#define GW_MACHINE_FACTS_H

#include "gw_fact.h"
#include "gw_machine.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GW_MACHINE_BITS = 16, GW_MACHINE_EVENTS_MAX = 8192, GW_MACHINE_CARDS_MAX = 64 };

/* One value over the run. Times are of readings: what happened between two of them is between them. */
typedef struct gw_series {
    uint16_t metric;
    uint8_t source;
    uint8_t state;      /* the last one's; of a series that was known once it stays KNOWN */
    uint8_t last_state; /* the last one's without that */
    uint32_t device, pid;
    uint64_t reason; /* of FAILED: NVML's number, or errno */
    /* state KNOWN only */
    uint64_t t_first_ns, t_last_ns; /* of the first and the last reading, changed or not */
    uint64_t first, last, min, max;
    uint64_t t_min_ns, t_max_ns;
    uint64_t rise;                       /* all steps upwards together; of a COUNTER what was counted during the run */
    uint64_t t_rise_ns, t_rise_after_ns; /* the last step upwards was seen at the one, and came after the other */
    uint64_t bit_ns[GW_MACHINE_BITS];    /* BITS: for so long the bit was seen set */
} gw_series;

typedef struct gw_machine_event {
    uint64_t t_ns, t_last_ns;
    uint8_t kind;    /* gw_machine_event_kind; GW_MACHINE_EVENT_COUNT: newer than this build */
    uint8_t sources; /* bits of gw_source: who told of it */
    uint32_t pid;    /* 0: none named */
    uint32_t device; /* GW_NO_DEVICE: not known, or not about a card */
    uint64_t code, value, count;
    char *text;       /* owned; "" none */
    bool is_ours;     /* it names a process of this run, or a card that one used */
    bool may_be_ours; /* nothing says that it is not: card and process are not known */
} gw_machine_event;

typedef struct gw_machine_card {
    uint32_t index; /* NVML's */
    int device;     /* CUDA's; -1: not known */
    bool has_pci;
    uint32_t domain, bus, slot;
    char name[64];
} gw_machine_card;

/* A process with memory on a card, or with a card's device file open, as the supervisor saw it at a refused request. */
typedef struct gw_holder {
    gw_fact_key what; /* CARD_HOLDER, CARD_HOLDER_UNMATCHED or DEVICE_HOLDER */
    uint64_t t_ns;
    const char *text; /* the whole fact; borrowed from the model */
    gw_fact_holder fact;
} gw_holder;

typedef struct gw_machine {
    gw_series *series; /* owned; in order of first reading */
    size_t series_count;
    gw_machine_event *event; /* owned; in order of time */
    size_t event_count;
    uint64_t events_dropped;
    gw_machine_card card[GW_MACHINE_CARDS_MAX];
    size_t card_count;
    gw_holder *holder; /* owned; in order of time */
    size_t holder_count;
    bool has_peers;
    gw_fact_peers peers;       /* texts borrowed from the model */
    struct gwi_machine *inner; /* owned; while it is fed */
} gw_machine;

struct gw_model;

/* The values of a metric; `device` GW_NO_DEVICE and `pid` 0 where it has none. NULL: never known. */
const gw_series *gw_machine_known(const struct gw_model *model, gw_metric metric, uint32_t device, uint32_t pid);
/* NVML's number of CUDA's device; GW_NO_DEVICE: not known. */
uint32_t gw_machine_card_of(const struct gw_model *model, int device);
/* CUDA's device of NVML's card; -1: not known. */
int gw_machine_device_of(const struct gw_model *model, uint32_t card);
/* The first event of that kind from `from` on (NULL: of all) that is this run's, or may be where `may_be`. NULL: none.
 */
const gw_machine_event *gw_machine_event_next(const struct gw_model *model, const gw_machine_event *from,
                                              gw_machine_event_kind kind, bool may_be);

#endif
