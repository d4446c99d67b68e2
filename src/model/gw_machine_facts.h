/* What the supervisor read about machine and cards during the run: each value from its first to its last reading, and
 * events. Part of gw_model_facts.h; everything is read only and belongs to the model.
 *
 * Cards are numbered as in NVML (in the order of the PCI bus), which differs from CUDA. gw_machine_card_of() and
 * gw_machine_device_of() translate if the position on the bus is known from both. */
#ifndef GW_MACHINE_FACTS_H
#define GW_MACHINE_FACTS_H

#include "gw_fact.h"
#include "gw_machine.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GW_MACHINE_BITS = 16, GW_MACHINE_EVENTS_MAX = 8192, GW_MACHINE_CARDS_MAX = 64 };

/* One value over the run. Times are those of readings; changes happened between two readings. */
typedef struct gw_series {
    uint16_t metric;
    uint8_t source;
    uint8_t state;      /* state of the last reading; stays KNOWN once the series was known */
    uint8_t last_state; /* state of the last reading */
    uint32_t device, pid;
    uint64_t reason; /* if FAILED: NVML's number, or errno */
    /* only if `state` is KNOWN */
    uint64_t t_first_ns, t_last_ns; /* of the first and the last reading, whether the value changed or not */
    uint64_t first, last, min, max;
    uint64_t t_min_ns, t_max_ns;
    uint64_t rise;                       /* sum of all increases; for a COUNTER, the count during the run */
    uint64_t t_rise_ns, t_rise_after_ns; /* when the last increase was seen, and the reading before it */
    uint64_t bit_ns[GW_MACHINE_BITS];    /* for BITS: how long the bit was seen set */
} gw_series;

typedef struct gw_machine_event {
    uint64_t t_ns, t_last_ns;
    uint8_t kind;    /* gw_machine_event_kind; GW_MACHINE_EVENT_COUNT: newer than this build */
    uint8_t sources; /* bits of gw_source: who reported it */
    uint32_t pid;    /* 0: it names none */
    uint32_t device; /* GW_NO_DEVICE: not known, or not about a card */
    uint64_t code, value, count;
    char *text;       /* owned; "": none */
    bool is_ours;     /* it names a process of this run, or a card that such a process used */
    bool may_be_ours; /* nothing shows that it is not ours: card and process are not known */
} gw_machine_event;

typedef struct gw_machine_card {
    uint32_t index; /* NVML's */
    int device;     /* CUDA's number; -1: not known */
    bool has_pci;
    uint32_t domain, bus, slot;
    char name[64];
} gw_machine_card;

/* A process with memory on a card, or with a card's device file open, seen by the supervisor at a refused request. */
typedef struct gw_holder {
    gw_fact_key what; /* CARD_HOLDER, CARD_HOLDER_UNMATCHED or DEVICE_HOLDER */
    uint64_t t_ns;
    const char *text; /* the whole fact; borrowed from the model */
    gw_fact_holder fact;
} gw_holder;

typedef struct gw_machine {
    gw_series *series; /* owned; sorted by first reading */
    size_t series_count;
    gw_machine_event *event; /* owned; sorted by time */
    size_t event_count;
    uint64_t events_dropped;
    gw_machine_card card[GW_MACHINE_CARDS_MAX];
    size_t card_count;
    gw_holder *holder; /* owned; sorted by time */
    size_t holder_count;
    bool has_peers;
    gw_fact_peers peers;       /* its texts are borrowed from the model */
    struct gwi_machine *inner; /* owned; used while the model is fed */
} gw_machine;

struct gw_model;

/* Find the values of a metric. `device` is GW_NO_DEVICE and `pid` 0 for a metric without one. NULL: never known. */
const gw_series *gw_machine_known(const struct gw_model *model, gw_metric metric, uint32_t device, uint32_t pid);
/* NVML's number of a CUDA device; GW_NO_DEVICE: not known. */
uint32_t gw_machine_card_of(const struct gw_model *model, int device);
/* The CUDA device of NVML's card; -1: not known. */
int gw_machine_device_of(const struct gw_model *model, uint32_t card);
/* Find the next event of that kind after `from` (NULL: the first) that belongs to this run, or may belong to it if
 * `may_be`. NULL: none. */
const gw_machine_event *gw_machine_event_next(const struct gw_model *model, const gw_machine_event *from,
                                              gw_machine_event_kind kind, bool may_be);

#endif
