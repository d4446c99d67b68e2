/* Functions shared by the files of this folder. */
#ifndef GWI_STACKS_H
#define GWI_STACKS_H

#include "gwi_python.h"

#include <sys/types.h>

/* Return true if the thread may be stopped, because its system call then continues with the same result. The result of
 * other calls (epoll_wait, socket reads with a time limit, a device's ioctl) would reveal the stop. */
bool gwi_may_be_stopped(const gw_stack_thread *thread);

/* Read the frames of all threads. Each thread that may be stopped is stopped briefly. Sets no_stacks if stacks are
 * missing. */
void gwi_stacks_walk(uint32_t pid, gw_stack_process *process, gwi_python *python);

/* Read the Python frames of a thread that is not stopped. If the thread ran during the read, its Python frames are
 * dropped, GW_SITE_PYTHON_UNKNOWN is set, and no_python contains the reason. */
void gwi_stacks_unheld(uint32_t pid, gw_stack_process *process, gw_stack_thread *thread, gwi_python *python);

#endif
