/* What the parts of this folder share. */
#ifndef GWI_STACKS_H
#define GWI_STACKS_H

#include "gwi_python.h"

#include <sys/types.h>

/* Does the thread's system call go on after a stop as if nothing had been? Those with a result that tells of the stop
 * (epoll_wait, socket reads with a time limit, a device's ioctl) must not be stopped. */
bool gwi_may_be_stopped(const gw_stack_thread *thread);

/* Fill in the frames of all threads, stopping those that may be for a moment. Writes no_stacks. */
void gwi_stacks_walk(uint32_t pid, gw_stack_process *process, gwi_python *python);

/* The Python frames of a thread that is not held. None, and said so, where it did not stand still meanwhile. */
void gwi_stacks_unheld(uint32_t pid, gw_stack_process *process, gw_stack_thread *thread, gwi_python *python);

#endif
