/* Which of PyTorch's allocator settings would have helped: a replay for each of them. */
#ifndef GW_WHATIF_H
#define GW_WHATIF_H

#include "gw_replay.h"

enum { GW_WHATIF_NAME_MAX = 96, GW_WHATIF_ROWS_MAX = 32, GW_WHATIF_OWN_MAX = 8 };

typedef struct gw_whatif_options {
    uint64_t memory_bytes;              /* size of another card; 0: the recorded one */
    const char *own[GW_WHATIF_OWN_MAX]; /* settings to try, as in PYTORCH_ALLOC_CONF; borrowed */
    size_t own_count;
    const size_t *phase; /* events before which a phase begins, see gw_model_replay_phases(); borrowed */
    size_t phase_count;
    unsigned version; /* of PyTorch: 211 for 2.11; 0: not known. Settings that it does not have are left out */
} gw_whatif_options;

/* What became of the request that was refused in the recording. */
typedef enum gw_whatif_outcome {
    GW_WHATIF_NO_REFUSAL, /* the recording has none, and the replay has none */
    GW_WHATIF_GRANTED,    /* in each of the replays */
    GW_WHATIF_REFUSED,    /* in each of the replays; also a request that the recording does not refuse */
    GW_WHATIF_EARLIER,    /* like REFUSED, but in some replay an earlier request was refused */
    GW_WHATIF_UNSURE,     /* depends on what the recording does not have: exact sizes, addresses, or free memory */
    GW_WHATIF_OUTCOME_COUNT
} gw_whatif_outcome;

typedef struct gw_whatif_row {
    char name[GW_WHATIF_NAME_MAX]; /* the setting, as in PYTORCH_ALLOC_CONF, or what else is changed */
    bool is_setting;
    bool needs_fraction; /* only works after torch.cuda.set_per_process_memory_fraction(1.0) */
    bool is_preferred;   /* if it helps, it is named before all others */
    bool is_own;         /* one of gw_whatif_options.own */
    gw_whatif_outcome outcome;
    gw_replay_result result;
} gw_whatif_row;

typedef struct gw_whatif {
    gw_replay_check check;
    bool ran_out;          /* the recording ends with a refused request */
    uint64_t wanted_bytes; /* of that request: the most that it can have been */
    size_t request_count;  /* granted requests */
    uint64_t room_bytes;   /* memory that the allocator could have in the replays; 0: not known */
    bool is_other_card;    /* room_bytes is for gw_whatif_options.memory_bytes */
    gw_replay_result same; /* the recorded settings, in room_bytes */
    gw_whatif_outcome same_outcome;
    gw_replay_result unlimited; /* the recorded settings on a card that is large enough */
    /* The replay in room_bytes is refused the same request as the recorded run. Only then, whether a run would have
     * lived is known for the recorded card. */
    bool room_is_sure;
    uint64_t need_bytes; /* lowest memory that any allocator would have needed, with the refused request */
    gw_whatif_row row[GW_WHATIF_ROWS_MAX];
    size_t row_count;
} gw_whatif;

/* Check the replay of the input and, if it is exact, try other settings. GW_OK: *ret_whatif is filled; without
 * check.is_exact, it has no rows. GW_USAGE: one of the user's settings is invalid. Otherwise as for gw_replay_try(). */
GW_MUST_CHECK gw_status gw_whatif_make(gw_replay_input *input, const gw_whatif_options *options, gw_whatif *ret_whatif,
                                       gw_error *err);

/* Return the best row whose outcome is GRANTED: expandable_segments:True if it is one of them, otherwise the lowest
 * peak among those that need nothing else. NULL: there is none, or the recorded settings would do. */
const gw_whatif_row *gw_whatif_cure(const gw_whatif *whatif);

/* Return the name of the environment variable that this version of PyTorch reads its settings from. Static. */
const char *gw_whatif_variable(unsigned version);

/* Say in a sentence what the replays show, without a full stop. Writes to `out` and returns it. */
enum { GW_WHATIF_TEXT_MAX = 400 };
char *gw_whatif_sentence(char out[GW_WHATIF_TEXT_MAX], const gw_whatif *whatif);

/* Return "granted", "refused", "refused earlier", "not sure" or "-". Static. */
const char *gw_whatif_outcome_text(gw_whatif_outcome outcome);
/* Format a range as "3.50 GiB" or "3.50 to 3.52 GiB". Writes to `out` and returns it. */
enum { GW_WHATIF_RANGE_MAX = 56 };
char *gw_whatif_range(char out[GW_WHATIF_RANGE_MAX], uint64_t least_bytes, uint64_t most_bytes);

#endif
