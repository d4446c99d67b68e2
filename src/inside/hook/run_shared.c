/* Maps the file that all processes of a run share (gw_run_shared.h). */
#include "gw_run_shared.h"
#include "gwi_gate.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

gw_run_shared *gwi_run_shared(void)
{
    static gw_run_shared *_Atomic shared;
    gw_run_shared *none = NULL;
    if (shared != NULL || gwi.run_dir[0] == '\0')
        return shared;
    int cancel_state; /* open() is a cancellation point, and the guard's lock may be held */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    int fd = gwi_run_file_open(GW_RUN_SHARED_NAME, 0);
    if (fd >= 0) {
        void *map = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        close(fd);
        if (map != MAP_FAILED && !atomic_compare_exchange_strong(&shared, &none, map))
            munmap(map, sizeof *none); /* another thread has mapped it */
    }
    pthread_setcancelstate(cancel_state, NULL);
    return shared;
}
