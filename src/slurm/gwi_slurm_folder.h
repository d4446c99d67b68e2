/* Whether a step's folder can be trusted. The site may have chosen a place in which all users create folders, and the
 * names are numbers that others can guess: somebody may have made the folder, or a link of its name, first. */
#ifndef GWI_SLURM_FOLDER_H
#define GWI_SLURM_FOLDER_H

#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

/* True if `path` is a folder (not a link) that belongs to this user, and no other user can write to it. */
static inline bool gwi_slurm_folder_is_ours(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid() &&
           (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

#endif
