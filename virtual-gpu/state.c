/* Read the memory use of the virtual GPUs from another program: see gw_virt_state.h. */
#include "gw_virt_state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gwi_shared.h"

_Static_assert((int)GW_VIRT_PROCESSES_MAX == (int)GWI_SHARED_PROCESSES, "one entry a process");

static void take_over(const gwi_shared *shared, gw_virt_state *state)
{
    memset(state, 0, sizeof *state);
    state->device_count = shared->device_count;
    memcpy(state->total_bytes, shared->total_bytes, sizeof state->total_bytes);
    for (unsigned p = 0; p < GWI_SHARED_PROCESSES; p++) {
        const gwi_shared_process *from = &shared->processes[p];
        if (from->pid == 0 || gwi_process_start_ticks(from->pid) != from->start_ticks)
            continue;
        gw_virt_process *to = &state->processes[state->process_count++];
        to->pid = from->pid;
        memcpy(to->used_bytes, from->used_bytes, sizeof to->used_bytes);
        for (unsigned d = 0; d < GW_VIRT_DEVICES_MAX; d++)
            state->used_bytes[d] += from->used_bytes[d];
    }
}

gw_status gw_virt_state_read(const char *folder, gw_virt_state *ret_state, gw_error *err)
{
    char path[4096];
    if (snprintf(path, sizeof path, "%s/%s", folder, GWI_SHARED_NAME) >= (int)sizeof path)
        return gw_fail(err, GW_USAGE, "%.100s...: the path is too long", folder);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return gw_fail(err, errno == ENOENT ? GW_MISSING : GW_IO, "%s: %s", path, strerror(errno));
    const size_t bytes = offsetof(gwi_shared, busy); /* `busy` and later fields are not needed here */
    gwi_shared *shared = malloc(sizeof *shared);
    gw_status st = GW_OK;
    if (shared == NULL)
        st = gw_fail(err, GW_NOMEM, "%s", path);
    else if (pread(fd, shared, bytes, 0) != (ssize_t)bytes)
        st = gw_fail(err, GW_CORRUPT, "%s: shorter than %zu bytes", path, bytes);
    else if (shared->magic != GWI_SHARED_MAGIC || shared->version != GWI_SHARED_VERSION ||
             shared->device_count > GW_VIRT_DEVICES_MAX)
        st = gw_fail(err, GW_CORRUPT, "%s: not the state of virtual cards", path);
    if (st == GW_OK)
        take_over(shared, ret_state);
    free(shared);
    close(fd);
    return st;
}

gw_status gw_virt_state_lose(const char *folder, unsigned device, gw_error *err)
{
    char path[4096];
    struct stat found;
    if (snprintf(path, sizeof path, "%s/%s", folder, GWI_SHARED_NAME) >= (int)sizeof path)
        return gw_fail(err, GW_USAGE, "%.100s...: the path is too long", folder);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return gw_fail(err, errno == ENOENT ? GW_MISSING : GW_IO, "%s: %s", path, strerror(errno));
    gwi_shared *shared = MAP_FAILED;
    gw_status st = GW_OK;
    if (fstat(fd, &found) != 0 || found.st_size < (off_t)sizeof *shared)
        st = gw_fail(err, GW_CORRUPT, "%s: shorter than %zu bytes", path, sizeof *shared);
    else
        shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (shared == MAP_FAILED)
        return st != GW_OK ? st : gw_fail(err, GW_IO, "%s: %s", path, strerror(errno));
    if (shared->magic != GWI_SHARED_MAGIC || shared->version != GWI_SHARED_VERSION)
        st = gw_fail(err, GW_CORRUPT, "%s: not the state of virtual cards", path);
    else if (device >= shared->device_count)
        st = gw_fail(err, GW_MISSING, "there is no virtual card %u", device);
    else
        gwi_health_lose(shared, device);
    gwi_shared_close(shared);
    return st;
}
