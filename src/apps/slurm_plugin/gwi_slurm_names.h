/* The names that the plugin, which runs in Slurm's own processes, and gpuwhy-slurm-task share. */
#ifndef GWI_SLURM_NAMES_H
#define GWI_SLURM_NAMES_H

/* What the user asks for: "on", "deep" or "off". srun --gpuwhy has the same meaning for one step. */
#define GWI_SLURM_MODE "GPUWHY_SLURM"
/* The folder of the step's recordings, as srun chose it. */
#define GWI_SLURM_FOLDER "GPUWHY_SLURM_FOLDER"
/* More options for `gpuwhy run`, separated by spaces. */
#define GWI_SLURM_OPTIONS "GPUWHY_SLURM_OPTIONS"
/* From the plugin to gpuwhy-slurm-task alone: the task's command, before it was replaced. */
#define GWI_SLURM_COMMAND "GPUWHY_SLURM_COMMAND"

#endif
