/* Creates the file that the processes of a run share, and lets virtual cards be lost. */
#include "gwi_shared_file.h"

#include "gw_run_shared.h"
#include "gw_say.h"
#include "gw_virt_state.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void gwi_shared_file_make(gwi_shared_file *shared, const gw_run_options *options, const char *run_folder)
{
    gw_path path;
    if ((!options->memory_shared && options->inject == NULL) || run_folder[0] == '\0' ||
        gw_path_format(path, NULL, "%s/" GW_RUN_SHARED_NAME, run_folder) != GW_OK)
        return;
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    int failed = fd < 0 ? errno : posix_fallocate(fd, 0, sizeof(gw_run_shared));
    if (failed == 0) {
        void *map = mmap(NULL, sizeof(gw_run_shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        shared->map = map == MAP_FAILED ? NULL : map;
    } else {
        gw_say("%s: %s; processes cannot share a limit or be numbered", path, strerror(failed));
        if (fd >= 0)
            unlink(path);
    }
    if (fd >= 0)
        close(fd);
}

void gwi_shared_file_look(gwi_shared_file *shared, const gwi_doors *doors)
{
    if (shared->map == NULL || doors->virtual_folder[0] == '\0')
        return;
    uint32_t lost = atomic_load(&shared->map->lost_devices) & ~shared->lost_devices;
    for (unsigned device = 0; device < 32 && lost >> device != 0; device++) {
        gw_error err;
        if ((lost >> device & 1) == 0)
            continue;
        if (gw_virt_state_lose(doors->virtual_folder, device, &err) != GW_OK)
            gw_say("--inject: %s", err.text);
        shared->lost_devices |= 1u << device;
    }
}

void gwi_shared_file_close(gwi_shared_file *shared)
{
    if (shared->map != NULL)
        munmap(shared->map, sizeof *shared->map);
    shared->map = NULL;
}
