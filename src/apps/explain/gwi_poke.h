/* What `gpuwhy poke` prints about processes that gpuwhy did not start. */
#ifndef GWI_POKE_H
#define GWI_POKE_H

#include "gw_model.h"
#include "gw_outside.h"

/* Processes that were read at the same time. Everything is borrowed. */
typedef struct gwi_poked {
    gw_outside *const *process; /* the first one is the one that the user named */
    size_t count;
    gw_sites *sites;
    bool is_job;          /* the others are its descendants; otherwise there is only one */
    double window_s;      /* time between the two samples */
    const char *left_out; /* why descendants were not inspected, such as zombies: lines */
    const char *ras;      /* what NCCL's RAS says about the ranks: lines; "": nothing */
    /* children of the process, if `is_job` is false */
    const uint32_t *child;
    size_t child_count;
} gwi_poked;

/* Append all frames, one a line, and mark the user's frame. `sites` has the names. */
void gwi_poke_add_stack(gw_text *text, gw_sites *sites, uint32_t site);
/* Print what changed between the two samples of a process. */
void gwi_poke_print_progress(const gw_outside *process);
void gwi_poke_print(const gwi_poked *poked);
/* Print the same as JSON (docs/json-schema.md). GW_NOMEM. */
GW_MUST_CHECK gw_status gwi_poke_print_json(const gwi_poked *poked, gw_error *err);

/* Print the NCCL communicators of a recorded process, and the ranks that are behind. `now_ns`: as the times in the
 * model, which has the names of its sites. */
void gwi_poke_print_nccl(const gw_model *model, uint32_t pid, uint64_t now_ns);
/* Ask NCCL's RAS, if one of the processes has it, and append what it says about their ranks. Takes at most 2 s. */
void gwi_poke_ask_ras(gw_text *text, const uint32_t *pid, size_t count);

/* Inspect `pid` and, with `is_job`, all its descendants, and print them. With `no_ras`, NCCL's RAS is not asked.
 * Returns the exit status. */
int gwi_poke_outside(uint32_t pid, bool is_job, double window_s, bool no_ras, bool json);

#endif
