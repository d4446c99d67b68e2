/* What machine and cards did, in the words of a verdict. */
#ifndef GWI_VERDICT_MACHINE_H
#define GWI_VERDICT_MACHINE_H

#include "gwi_cause.h"

/* Did it come before the failure, or so shortly after that the card's word was only heard later? */
bool gwi_comes_first(const gwi_case *c, const gw_machine_event *event);
/* The same of a moment. */
bool gwi_is_before_failure(const gwi_case *c, uint64_t t_ns);
/* Was it in the same seconds as the failure, or as the beginning of the hang? What a card survived an hour ago is no
 * proof of why a call failed now. */
bool gwi_happened_with_failure(const gwi_case *c, const gw_machine_event *event);
/* Did calls fail as they do when the card or its driver is gone: the context was lost, calls hang, or the driver does
 * not know the card any more? A refused request for memory is no such failure. */
bool gwi_is_card_failure(const gwi_case *c);
/* The first Xid of these numbers (0 ends the list) that comes first: this run's, or one that may be. NULL: none. */
const gw_machine_event *gwi_find_xid(const gwi_case *c, const unsigned *numbers);
/* An event as evidence, with the log's own line where there is one, and an Xid's meaning. */
void gwi_say_machine_event(const gwi_case *c, gwi_finding *finding, const gw_machine_event *event);
/* The Xids of this run's cards and processes that come first, as evidence; nothing where there are none. */
void gwi_say_xids(const gwi_case *c, gwi_finding *finding);
/* What the table says about the Xid was read in the vendor's own words; else it is never a proof alone. */
bool gwi_is_xid_verified(const gw_machine_event *event);
/* "GPU 1", "a GPU of this machine". */
enum { GWI_CARD_TEXT_MAX = 48 };
char *gwi_card_text(char out[GWI_CARD_TEXT_MAX], const gw_model *model, uint32_t card);

/* Cards that a process of this run used, by NVML's numbers. Returns how many. */
size_t gwi_cards_used(const gwi_case *c, uint32_t out[GW_MODEL_DEVICES_MAX]);

/* Ask `advise_card` about each of them. False: no memory. */
bool gwi_advise_cards(const gwi_case *c, gw_string_list *advice,
                      bool (*advise_card)(const gwi_case *c, uint32_t card, gw_string_list *advice));

/* Processes killed by the kernel for lack of host memory, as far as it may have been this run's. */
typedef struct gwi_oom_kill {
    const gw_machine_event *log;        /* the kernel named a process of this run; NULL: no */
    const gw_machine_event *group;      /* the control group's count rose; NULL: no, or not seen when */
    bool is_group_known, is_host_known; /* whether the counts are known */
    uint64_t group_count, host_count;   /* how far they rose */
} gwi_oom_kill;
gwi_oom_kill gwi_find_oom_kill(const gwi_case *c);

#endif
