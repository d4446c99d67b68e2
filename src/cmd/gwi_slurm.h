/* Finds the recordings of a job of Slurm (slurm.c). */
#ifndef GWI_SLURM_H
#define GWI_SLURM_H

#include "gw_place.h"

#define GWI_SLURM_PREFIX "slurm:"

/* Find the folder of "slurm:JOBID" or "slurm:JOBID.STEP". Without a step, it is the last one that has recordings; if
 * there are several, a line on stderr says which. The link <state folder>/slurm/JOBID.STEP leads to the folder; the
 * first task of the step wrote it (src/slurm/task.c). Returns GW_USAGE if the word is wrong, GW_MISSING if there are no
 * recordings. */
GW_MUST_CHECK gw_status gwi_slurm_folder(const char *word, gw_path out, gw_error *err);

#endif
