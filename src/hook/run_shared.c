/* Maps the file that all processes of a run share (gw_run_shared.h). */
#include "gw_run_shared.h"
#include "gwi_gate.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

gw_run_shared *gwi_run_shared(void)
{
    static gw_run_shared *_Atomic shared;
    gw_run_shared *none = NULL;
    char path[sizeof gwi.run_dir + 16];
    if (shared != NULL || gwi.run_dir[0] == '\0')
        return shared;
    snprintf(path, sizeof path, "%s/%s", gwi.run_dir, GW_RUN_SHARED_NAME);
    int cancel_state; /* open() is a cancellation point, and the guard's lock may be held */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0) {
        void *map = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        close(fd);
        if (map != MAP_FAILED && !atomic_compare_exchange_strong(&shared, &none, map))
            munmap(map, sizeof *none); /* another thread has mapped it */
    }
    pthread_setcancelstate(cancel_state, NULL);
    return shared;
}
