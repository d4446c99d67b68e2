/* Functions shared by the files of this folder. */
#ifndef GWI_STACKS_H
#define GWI_STACKS_H

#include "gwi_python.h"

#include <sys/types.h>

/* Read the start of /proc/PID/task/TID/FILE as text (waits.c), like gw_read_small(). */
ssize_t gwi_read_of_thread(char *text, size_t room, uint32_t pid, uint32_t tid, const char *file);
/* Read memory of process `pid`. Returns false if not all of it can be read; errno has the reason. */
bool gwi_read_memory(uint32_t pid, uint64_t address, void *to, size_t bytes);
/* Find out which system call a thread is in, and what it waits for. `process` must have all threads, because lock
 * owners are looked up there. */
void gwi_look_at_call(uint32_t pid, gw_stack_process *process, gw_stack_thread *thread);

/* Return true if the thread may be stopped without a visible effect. Its system call must continue afterwards with the
 * same result. A stop may change the result of epoll_wait, socket reads with a time limit, or ioctl on a device. */
bool gwi_may_be_stopped(const gw_stack_thread *thread);

/* Read the Python frames of a thread without stopping it. If it ran meanwhile, the frames are dropped,
 * GW_SITE_PYTHON_UNKNOWN is set, and `no_python` has the reason. */
void gwi_stacks_unheld(uint32_t pid, gw_stack_process *process, gw_stack_thread *thread, gwi_python *python);

/* Read the frames of all threads (walk.c). A thread is stopped briefly if gwi_may_be_stopped() allows it. If stacks are
 * missing, process->no_stacks has the reason. */
void gwi_stacks_walk(uint32_t pid, gw_stack_process *process, gwi_python *python);

#endif
