/* Whether a step's folder can be trusted. The site may have chosen a place in which all users create folders, and the
 * names are numbers that others can guess: somebody may have made the folder, or a link of its name, first. */
#ifndef GWI_SLURM_FOLDER_H
#define GWI_SLURM_FOLDER_H

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* Open a folder (not a link) that belongs to this user, and to which no other user can write. -1: it is not. */
static inline int gwi_slurm_folder_open(const char *path)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || (fstat(fd, &info) == 0 && info.st_uid == geteuid() && (info.st_mode & (S_IWGRP | S_IWOTH)) == 0))
        return fd;
    close(fd);
    return -1;
}

/* The names that the plugin, which runs in Slurm's own processes, and gpuwhy-slurm-task share. */

/* What the user asks for: "on", "deep" or "off". srun --gpuwhy has the same meaning for one step. */
#define GWI_SLURM_MODE "GPUWHY_SLURM"
/* The folder of the step's recordings, as srun chose it. */
#define GWI_SLURM_FOLDER "GPUWHY_SLURM_FOLDER"
/* More options for `gpuwhy run`, separated by spaces. */
#define GWI_SLURM_OPTIONS "GPUWHY_SLURM_OPTIONS"
/* From the plugin to gpuwhy-slurm-task alone: the task's command, before it was replaced. */
#define GWI_SLURM_COMMAND "GPUWHY_SLURM_COMMAND"

#endif
