/* Finds the recordings of a job of Slurm (slurm.c). */
#ifndef GWI_SLURM_H
#define GWI_SLURM_H

#include "gw_place.h"

#define GWI_SLURM_PREFIX "slurm:"

/* Make the folder of "slurm:JOBID" or "slurm:JOBID.STEP" the working folder, and store its path in `out`. Without a
 * step, it is the last one that has recordings; if there are several, a line on stderr says which. The link <state
 * folder>/slurm/JOBID.STEP leads to the folder; the first task of the step wrote it (src/apps/slurm_plugin/task.c).
 *
 * GW_USAGE: the word is wrong. GW_MISSING: there is no link. GW_IO: it leads to no folder. GW_UNSUPPORTED: another user
 * owns the folder by now, or may write to it. The working folder may change on failure, too. */
GW_MUST_CHECK gw_status gwi_slurm_enter(const char *word, gw_path out, gw_error *err);

#endif
