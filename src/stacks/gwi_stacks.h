/* Functions shared by the files of this folder. */
#ifndef GWI_STACKS_H
#define GWI_STACKS_H

#include "gwi_python.h"

#include <sys/types.h>

/* True if the thread's system call continues after a stop with the same result. Calls whose result reveals a stop
 * (epoll_wait, socket reads with a time limit, a device's ioctl) must not be stopped. */
bool gwi_may_be_stopped(const gw_stack_thread *thread);

/* Read the frames of all threads. Each thread is stopped briefly, if it may be stopped. Sets no_stacks. */
void gwi_stacks_walk(uint32_t pid, gw_stack_process *process, gwi_python *python);

/* Read the Python frames of a thread that is not stopped. If the thread ran during the read, it gets no frames, but a
 * flag, and `process` gets a text that reports this. */
void gwi_stacks_unheld(uint32_t pid, gw_stack_process *process, gw_stack_thread *thread, gwi_python *python);

#endif
