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

#endif
