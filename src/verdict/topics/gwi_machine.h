/* Events and states of the machine and its cards, as evidence for a verdict. */
#ifndef GWI_VERDICT_MACHINE_H
#define GWI_VERDICT_MACHINE_H

#include "gwi_cause.h"

/* True if the event was before the failure, or so shortly after it that only its report was late. */
bool gwi_comes_first(const gwi_case *c, const gw_machine_event *event);
/* The same for a time. */
bool gwi_is_before_failure(const gwi_case *c, uint64_t t_ns);
/* True if the event was within seconds of the failure, or of the beginning of the hang. An event that a card survived
 * an hour ago does not prove why a call failed now. */
bool gwi_happened_with_failure(const gwi_case *c, const gw_machine_event *event);
/* True if calls failed as they do when the card or its driver is gone: the context was lost, calls hang, or the driver
 * no longer finds the card. A refused request for memory does not count. */
bool gwi_is_card_failure(const gwi_case *c);
/* The first Xid with one of these numbers (0 ends the list) before the failure that belongs to this run, or may. NULL:
 * none. */
const gw_machine_event *gwi_find_xid(const gwi_case *c, const unsigned *numbers);
/* Report an event as evidence, with the log's own line if there is one, and the meaning of an Xid. */
void gwi_say_machine_event(const gwi_case *c, gwi_finding *finding, const gw_machine_event *event);
/* Report the Xids of this run's cards and processes before the failure as evidence, if there are any. */
void gwi_say_xids(const gwi_case *c, gwi_finding *finding);
/* True if the Xid's entry in the table was verified with the vendor's text. Otherwise the Xid alone never proves
 * anything. */
bool gwi_is_xid_verified(const gw_machine_event *event);
/* "GPU 1", "a GPU of this machine". */
enum { GWI_CARD_TEXT_MAX = 48 };
char *gwi_card_text(char out[GWI_CARD_TEXT_MAX], const gw_model *model, uint32_t card);

/* List the cards that processes of this run used, by NVML's numbers. Returns their number. */
size_t gwi_cards_used(const gwi_case *c, uint32_t out[GW_MODEL_DEVICES_MAX]);

/* Call `advise_card` for each of these cards. False: no memory. */
bool gwi_advise_cards(const gwi_case *c, gw_string_list *advice,
                      bool (*advise_card)(const gwi_case *c, uint32_t card, gw_string_list *advice));

/* Processes that the kernel killed for lack of host memory and that may belong to this run. */
typedef struct gwi_oom_kill {
    const gw_machine_event *log;        /* the kernel named a process of this run; NULL: no */
    const gw_machine_event *group;      /* the control group's count rose; NULL: it did not, or the time is not known */
    bool is_group_known, is_host_known; /* the counts are known */
    uint64_t group_count, host_count;   /* by how much they rose */
} gwi_oom_kill;
gwi_oom_kill gwi_find_oom_kill(const gwi_case *c);

#endif
