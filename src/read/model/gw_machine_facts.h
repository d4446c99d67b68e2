/* What the supervisor sampled of the machine and its cards: a series for each value, and events. Part of
 * gw_model_facts.h. Read only; belongs to the model.
 *
 * Cards have NVML's numbers (in the order of the PCI bus), not CUDA's. gw_machine_card_of() and gw_machine_device_of()
 * convert both. With several cards, they need the PCI positions from NVML and CUDA. */
#ifndef GW_MACHINE_FACTS_H
#define GW_MACHINE_FACTS_H

#include "gw_fact.h"
#include "gw_machine.h"
#include "gw_metrics.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GW_MACHINE_BITS = 16, GW_MACHINE_EVENTS_MAX = 8192, GW_MACHINE_CARDS_MAX = 64 };

/* The samples of one value during the run. If two successive samples differ, the value changed at an unknown time
 * between them. */
typedef struct gw_series {
    uint16_t metric;
    uint8_t source;
    uint8_t state;      /* KNOWN if any sample was KNOWN, otherwise the state of the last sample */
    uint8_t last_state; /* state of the last sample */
    uint32_t device, pid;
    uint64_t reason; /* if FAILED: NVML's error code, or errno */
    /* The fields below are valid only if `state` is KNOWN. */
    uint64_t t_first_ns, t_last_ns; /* times of the first and the last sample, even if the value did not change */
    uint64_t first, last, min, max;
    uint64_t t_min_ns, t_max_ns;
    uint64_t rise;                       /* sum of all increases; for a COUNTER, the count during the run */
    uint64_t t_rise_ns, t_rise_after_ns; /* times of the last sample with an increase, and of the sample before it */
    uint64_t bit_ns[GW_MACHINE_BITS];    /* for BITS: how long each bit was set, in ns */
} gw_series;

typedef struct gw_machine_event {
    uint64_t t_ns, t_last_ns;
    uint8_t kind;    /* gw_machine_event_kind; GW_MACHINE_EVENT_COUNT: a kind that this build does not know */
    uint8_t sources; /* bit (1 << gw_source) for each source that reported the event */
    uint32_t pid;    /* 0: the event names no process */
    uint32_t device; /* GW_NO_DEVICE: unknown, or the event is not about a card */
    uint64_t code, value, count;
    char *text;       /* owned by the model; "": none */
    bool is_ours;     /* the event names a process of this run, or a card that a process of this run used */
    bool may_be_ours; /* is_ours, or nothing shows that the event belongs to another process or card */
} gw_machine_event;

typedef struct gw_machine_card {
    uint32_t index; /* the card's number in NVML */
    int device;     /* the card's number in CUDA; -1: unknown */
    bool has_pci;
    uint32_t domain, bus, slot;
    char name[64];
} gw_machine_card;

/* A process that used memory on a card, or had a card's device file open, when the driver refused a request. */
typedef struct gw_holder {
    gw_fact_key what; /* CARD_HOLDER, CARD_HOLDER_UNMATCHED or DEVICE_HOLDER */
    uint64_t t_ns;
    const char *text; /* value of the fact, read into `fact`; owned by the model */
    gw_fact_holder fact;
} gw_holder;

typedef struct gw_machine {
    gw_series *series; /* owned; sorted by the time of the first sample */
    size_t series_count;
    gw_machine_event *event; /* owned; sorted by time */
    size_t event_count;
    uint64_t events_dropped;
    gw_machine_card card[GW_MACHINE_CARDS_MAX];
    size_t card_count;
    gw_holder *holder; /* owned; sorted by time */
    size_t holder_count;
    bool has_peers;
    gw_fact_peers peers;       /* the model owns its strings */
    struct gwi_machine *inner; /* owned; used only while the model is fed */
} gw_machine;

struct gw_model;

/* Return the series of a metric, NULL if no sample was KNOWN. Pass GW_NO_DEVICE for a metric without a device, and pid
 * 0 for one without a process. */
const gw_series *gw_machine_known(const struct gw_model *model, gw_metric metric, uint32_t device, uint32_t pid);
/* Return NVML's number of a CUDA device, or GW_NO_DEVICE if it is unknown. */
uint32_t gw_machine_card_of(const struct gw_model *model, int device);
/* Return the CUDA device that has this NVML number, or -1 if it is unknown. */
int gw_machine_device_of(const struct gw_model *model, uint32_t card);
/* Return this run's next event of a kind after `from` (NULL: from the beginning), NULL if there is none. If `may_be`,
 * include events that may belong to this run. */
const gw_machine_event *gw_machine_event_next(const struct gw_model *model, const gw_machine_event *from,
                                              gw_machine_event_kind kind, bool may_be);

#endif
