/* Finds the recordings of a job of Slurm by the links in the state folder. */
#include "gwi_slurm.h"

#include "gw_own.h"
#include "gw_say.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Read digits, which end at `end`. Returns NULL if they are wrong. */
static const char *read_number(const char *text, const char *end, uint32_t *ret_number)
{
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 9 || strchr(end, text[digits]) == NULL)
        return NULL;
    *ret_number = (uint32_t)strtoul(text, NULL, 10);
    return text + digits;
}

/* Find the last step of the job that has a link in the working folder. */
static size_t find_steps(uint32_t job, uint32_t *ret_step)
{
    DIR *folder = opendir(".");
    size_t count = 0;
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        uint32_t number, step;
        const char *at = read_number(entry->d_name, ".", &number);
        if (at == NULL || *at != '.' || number != job || read_number(at + 1, "", &step) == NULL)
            continue;
        if (count++ == 0 || step > *ret_step)
            *ret_step = step;
    }
    if (folder != NULL)
        closedir(folder);
    return count;
}

/* Make one of our own folders the working folder. Whatever its path leads to later, names are then looked up in the
 * folder that was checked. */
static gw_status enter(const char *path, gw_error *err)
{
    int fd;
    gw_status st = gw_own_folder_open(path, &fd, err);
    if (st != GW_OK)
        return st;
    st = fchdir(fd) == 0 ? GW_OK : gw_fail(err, GW_IO, "%s: %s", path, strerror(errno));
    close(fd);
    return st;
}

gw_status gwi_slurm_enter(const char *word, gw_path out, gw_error *err)
{
    gw_path links;
    char name[32];
    uint32_t job = 0, step = 0;
    const char *at = read_number(word + strlen(GWI_SLURM_PREFIX), ".", &job);
    bool has_step = at != NULL && *at == '.';
    if (at == NULL || (has_step && read_number(at + 1, "", &step) == NULL))
        return gw_fail(err, GW_USAGE, "%s: expected slurm:JOBID or slurm:JOBID.STEP", word);
    gw_status st = gw_state_folder(out, err);
    if (st == GW_OK)
        st = gw_path_format(links, err, "%s/slurm", out);
    if (st != GW_OK || (st = enter(links, err)) == GW_UNSUPPORTED)
        return st;
    size_t count = st != GW_OK || has_step ? 1 : find_steps(job, &step);
    if (count > 1)
        gw_say("explain: %zu steps of job %" PRIu32 " have recordings; this is slurm:%" PRIu32 ".%" PRIu32, count, job,
               job, step);
    snprintf(name, sizeof name, "%" PRIu32 ".%" PRIu32, job, step);
    ssize_t bytes = st == GW_OK ? readlink(name, out, PATH_MAX - 1) : -1;
    if (bytes <= 0)
        return gw_fail(err, GW_MISSING, "%s: no recordings are known; if the job's folder is elsewhere, name it", word);
    out[bytes] = '\0';
    st = enter(out, err);
    if (st != GW_OK)
        gw_wrap(err, "%s", word);
    return st;
}
