/* Determines which processes of a run belong together: peers, launchers that end them, and replacements of failed ones.
 * The lists are sorted once, so that runs of many processes are judged quickly. */
#ifndef GWI_KIN_H
#define GWI_KIN_H

#include "gwi_cause.h"

typedef struct gwi_kin {
    /* Processes that used the GPU without trouble, sorted by parent, program and rank, then by start. Owned. */
    const gw_process **worker;
    size_t worker_count;
    const gw_process **ended; /* processes ended by a launcher's signal, sorted by parent, then by end; owned */
    size_t ended_count;
    const gw_process **ranked; /* those of `ended` that have a rank, sorted by end; owned */
    size_t ranked_count;
    const gw_process **counted; /* processes of a launcher that counts its restarts, sorted by parent, restart; owned */
    size_t counted_count;
} gwi_kin;

/* Build the lists. If there is no memory, they are empty, as if no process had been replaced or ended. */
void gwi_kin_open(gwi_kin *kin, const gw_model *model);
void gwi_kin_close(gwi_kin *kin);

/* True if a launcher or a user ended the process with a signal. A launcher does this to the other processes when one
 * has failed; a user does it to all. Call this only for a process that died badly. */
bool gwi_was_told_to_end(const gw_process *process);
/* True for two ranks of a job and for two children of one parent. */
bool gwi_are_peers(const gw_process *a, const gw_process *b);
/* Return the process that replaced a failed one, or NULL. It has the same parent, program and rank, used the GPU and
 * had no trouble. It started after the failed process's last call. The end of the failed process is detected slightly
 * late, so it is not compared. */
const gw_process *gwi_kin_successor(const gwi_kin *kin, const gw_process *failed);
/* True if the process, or one of its parents, is a rank that its launcher has started again later, as torchrun does
 * with all ranks after a failure (--max-restarts). Its failure did not end the run. */
bool gwi_kin_is_restarted(const gwi_kin *kin, const gw_model *model, const gw_process *process);
/* True if a signal ended peers within a minute after the death of the process. Only a launcher ends them in this way,
 * so this death mattered. */
bool gwi_kin_ended_after(const gwi_kin *kin, const gw_process *process);

#endif
