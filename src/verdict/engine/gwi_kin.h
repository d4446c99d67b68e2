/* Which processes of a run belong together: peers, launchers that end them, and replacements of failed ones.
 *
 * The lists are made once, so that a run of many processes costs little more than their number. */
#ifndef GWI_KIN_H
#define GWI_KIN_H

#include "gwi_cause.h"

typedef struct gwi_kin {
    const gw_process **worker; /* processes that used the GPU without trouble, by place and then by start; owned */
    size_t worker_count;
    const gw_process **ended; /* processes ended by a launcher's signal, by parent and then by end; owned */
    size_t ended_count;
    const gw_process **ranked; /* those of `ended` that have a rank, by end; owned */
    size_t ranked_count;
} gwi_kin;

/* Make the lists. Without memory they are empty, as if no process had been replaced or ended. */
void gwi_kin_open(gwi_kin *kin, const gw_model *model);
void gwi_kin_close(gwi_kin *kin);

/* True if a launcher's or user's signal ended the process: launchers send it to the other processes when one has
 * failed, and users send it to all. For a process that died badly. */
bool gwi_was_told_to_end(const gw_process *process);
/* True for two ranks of a job and for two children of one parent. */
bool gwi_are_peers(const gw_process *a, const gw_process *b);
/* Return the process that replaced a failed one. The same parent started it after the last call of the failed process,
 * whose end is seen slightly late. It runs the same program with the same rank, used the GPU and had no trouble.
 * Returns NULL if there is none. */
const gw_process *gwi_kin_successor(const gwi_kin *kin, const gw_process *failed);
/* True if a signal ended peers within a minute after the process. Only a launcher does this, so the process's death
 * mattered. */
bool gwi_kin_ended_after(const gwi_kin *kin, const gw_process *process);

#endif
