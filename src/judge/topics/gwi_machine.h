/* Reports events and states of the machine and its cards as evidence. */
#ifndef GWI_VERDICT_MACHINE_H
#define GWI_VERDICT_MACHINE_H

#include "gwi_cause.h"

/* True if the event happened before the failure, or up to 5 s after it, because events may be reported late. */
bool gwi_comes_first(const gwi_case *c, const gw_machine_event *event);
/* Same as gwi_comes_first(), for an event at the time `t_ns`. */
bool gwi_is_before_failure(const gwi_case *c, uint64_t t_ns);
/* True if the event happened at most 10 s before the failure or the start of the hang, or at most 5 s after. The card
 * may have survived an older event. */
bool gwi_happened_with_failure(const gwi_case *c, const gw_machine_event *event);
/* True if the card or its driver may be gone: a lost context, calls that hang, or a driver that no longer finds the
 * card. A refused request for memory is not enough. */
bool gwi_is_card_failure(const gwi_case *c);
/* Return the first Xid of `numbers` (which end with 0) that happened before the failure and may belong to this run, or
 * NULL. */
const gw_machine_event *gwi_find_xid(const gwi_case *c, const unsigned *numbers);
/* Report an event as evidence, with its line of the kernel log if there is one. For an Xid, add its meaning. */
void gwi_say_machine_event(const gwi_case *c, gwi_finding *finding, const gw_machine_event *event);
/* Report the first four Xids before the failure that belong to cards or processes of this run. */
void gwi_say_xids(const gwi_case *c, gwi_finding *finding);
/* True if the vendor's documentation confirms the meaning of this Xid. An Xid without a confirmed meaning is no proof
 * on its own. */
bool gwi_is_xid_verified(const gw_machine_event *event);
/* Format the name of a card: "GPU 1", "card 1 in nvidia-smi" (no known CUDA device), or "a GPU of this machine" (no
 * known card). */
enum { GWI_CARD_TEXT_MAX = 48 };
char *gwi_card_text(char out[GWI_CARD_TEXT_MAX], const gw_model *model, uint32_t card);

/* List the cards that processes of this run used, by NVML index. Returns their number. */
size_t gwi_cards_used(const gwi_case *c, uint32_t out[GW_MODEL_DEVICES_MAX]);

/* Call `advise_card` for each card that this run used. Returns false if there is no memory. */
bool gwi_advise_cards(const gwi_case *c, gw_string_list *advice,
                      bool (*advise_card)(const gwi_case *c, uint32_t card, gw_string_list *advice));

/* Evidence that the Linux kernel killed processes because the host had no memory left. Includes only kills that may
 * have affected this run. */
typedef struct gwi_oom_kill {
    const gw_machine_event *log;   /* first line of the kernel log about a killed process of this run; NULL: none */
    const gw_machine_event *group; /* last rise of the control group's count of kills; NULL: no rise was recorded */
    bool is_group_known, is_host_known; /* true if the group's (the host's) count of kills was read at least twice */
    uint64_t group_count, host_count;   /* number of kills during the run; 0 if the count is not known */
} gwi_oom_kill;
gwi_oom_kill gwi_find_oom_kill(const gwi_case *c);

#endif
