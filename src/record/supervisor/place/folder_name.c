/* Names recordings in a folder that the user gave with -o. The runs of a job share it, so the name must be unique: it
 * has the host, the rank and the pid. */
#include "gwi_place.h"

#include "gw_rank_variables.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HOST_BYTES_MAX = 65, RANK_DIGITS_MAX = 9, NAMES_MAX = 100 };

bool gwi_is_folder(const char *path)
{
    struct stat info;
    size_t bytes = strlen(path);
    return (bytes > 0 && path[bytes - 1] == '/') || (stat(path, &info) == 0 && S_ISDIR(info.st_mode));
}

/* Return the rank that a launcher has set for this process; NULL: none. */
static const char *own_rank(void)
{
    static const char *const names[] = {
#define GW_X(rank, of, local) rank,
        GW_RANK_VARIABLES(GW_X)
#undef GW_X
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = getenv(names[i]);
        size_t digits = value == NULL ? 0 : strspn(value, "0123456789");
        if (digits > 0 && digits <= RANK_DIGITS_MAX && value[digits] == '\0')
            return value;
    }
    return NULL;
}

gw_status gwi_recording_name_in(const char *folder, gw_path out, gw_error *err)
{
    char host[HOST_BYTES_MAX] = "host";
    const char *rank = own_rank();
    size_t bytes = strlen(folder);
    while (bytes > 1 && folder[bytes - 1] == '/')
        bytes--;
    if (mkdir(folder, 0700) != 0 && errno != EEXIST)
        return gw_fail(err, GW_IO, "-o %s: %s", folder, strerror(errno));
    if (gethostname(host, sizeof host - 1) != 0 || strchr(host, '/') != NULL)
        memcpy(host, "host", sizeof "host");
    gw_status st = GW_OK;
    for (unsigned again = 1; st == GW_OK && again < NAMES_MAX; again++) { /* pids repeat, and an attempt has the pid of
                                                                             the one before */
        char suffix[16] = "";
        if (again > 1)
            snprintf(suffix, sizeof suffix, "-%u", again);
        st = gw_path_format(out, err, "%.*s/%s%s%s.%d%s.gpuwhy", (int)bytes, folder, host, rank == NULL ? "" : ".",
                            rank == NULL ? "" : rank, (int)getpid(), suffix);
        if (st == GW_OK && access(out, F_OK) != 0)
            return GW_OK;
    }
    return st == GW_OK ? gw_fail(err, GW_IO, "-o %s: no free name", folder) : st;
}
