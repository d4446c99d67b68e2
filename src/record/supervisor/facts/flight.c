/* Finds the Flight Recorder dumps that PyTorch wrote during the run. Their paths are facts; the dumps stay where they
 * are, and src/read/snapshots reads them. */
#include "gw_clock.h"
#include "gw_fact.h"
#include "gwi_run.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILES_MAX = 1024 };

/* Write the beginning of the dumps' paths: the rank follows. Returns false if it is not known. */
static bool stem_of(int which, gw_path out)
{
    const char *own = getenv("TORCH_FR_DUMP_TEMP_FILE"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    own = own != NULL && own[0] != '\0' ? own : getenv("TORCH_NCCL_DEBUG_INFO_TEMP_FILE");
    if (own != NULL && own[0] != '\0')
        return which == 0 && gw_path_format(out, NULL, "%s", own) == GW_OK;
    if (which == 1) /* the default of PyTorch before 2.9 */
        return gw_path_format(out, NULL, "/tmp/nccl_trace_rank_") == GW_OK;
    if (cache != NULL && cache[0] != '\0')
        return which == 0 && gw_path_format(out, NULL, "%s/torch/comm_lib_trace_rank_", cache) == GW_OK;
    return which == 0 && home != NULL &&
           gw_path_format(out, NULL, "%s/.cache/torch/comm_lib_trace_rank_", home) == GW_OK;
}

/* True if the name is `stem` and a number. */
static bool is_dump(const char *name, const char *stem)
{
    size_t bytes = strlen(stem);
    return strncmp(name, stem, bytes) == 0 && isdigit((unsigned char)name[bytes]) &&
           name[bytes + strspn(name + bytes, "0123456789")] == '\0';
}

static bool look_at(gwi_record *record, const char *folder, const char *name, uint64_t since_ns)
{
    gw_path path, whole;
    struct stat info;
    if (gw_path_format(path, NULL, "%s/%s", folder, name) != GW_OK || realpath(path, whole) == NULL ||
        stat(whole, &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != geteuid())
        return false;
    uint64_t written_ns = (uint64_t)info.st_mtim.tv_sec * 1000000000u + (uint64_t)info.st_mtim.tv_nsec;
    if (written_ns < since_ns)
        return false; /* of an earlier run */
    gwi_record_fact(record, gw_fact_key_text(GW_FACT_TORCH_FLIGHT), "%" PRIu64 " %s", written_ns, whole);
    return true;
}

void gwi_flights_take(gwi_record *record)
{
    static gw_path stem, folder_copy, name_copy;
    uint64_t since_ns = gw_realtime_ns() - gwi_record_now_ns(record);
    size_t count = 0;
    for (int which = 0; which < 2; which++) {
        if (!stem_of(which, stem))
            continue;
        snprintf(folder_copy, sizeof folder_copy, "%s", stem);
        snprintf(name_copy, sizeof name_copy, "%s", stem);
        const char *folder = dirname(folder_copy), *name = basename(name_copy);
        DIR *entries = opendir(folder);
        for (struct dirent *entry; entries != NULL && count < FILES_MAX && (entry = readdir(entries)) != NULL;)
            count += is_dump(entry->d_name, name) && look_at(record, folder, entry->d_name, since_ns);
        if (entries != NULL)
            closedir(entries);
    }
}
