/* Functions shared by the files of this folder. */
#ifndef GWI_STACKS_H
#define GWI_STACKS_H

#include "gwi_python.h"

#include <sys/types.h>

/* Return whether the thread's system call continues after a stop without any effect on its result. Calls whose result
 * shows a stop (epoll_wait, socket reads with a time limit, a device's ioctl) must not be stopped. */
bool gwi_may_be_stopped(const gw_stack_thread *thread);

/* Read the frames of all threads, and stop each one briefly if it may be stopped. Sets no_stacks. */
void gwi_stacks_walk(uint32_t pid, gw_stack_process *process, gwi_python *python);

/* Read the Python frames of a thread that is not stopped. If it ran meanwhile, it gets no frames, and a flag and a text
 * report that. */
void gwi_stacks_unheld(uint32_t pid, gw_stack_process *process, gw_stack_thread *thread, gwi_python *python);

#endif
