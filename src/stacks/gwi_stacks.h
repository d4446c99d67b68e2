/* Functions shared by the files of this folder. */
#ifndef GWI_STACKS_H
#define GWI_STACKS_H

#include "gwi_python.h"

#include <sys/types.h>

/* waits.c. Read the start of a /proc file as text. Returns the number of bytes; 0 if the file cannot be read, with the
 * reason in errno. gwi_read_of_thread() reads /proc/PID/task/TID/FILE. */
size_t gwi_read_small(char *text, size_t room, const char *path);
size_t gwi_read_of_thread(char *text, size_t room, uint32_t pid, uint32_t tid, const char *file);
/* Read memory of process `pid`. Returns false if not all of it can be read; errno has the reason. */
bool gwi_read_memory(uint32_t pid, uint64_t address, void *to, size_t bytes);
/* Find out which system call a thread is in, and what it waits for. The list of threads in `process` must be complete,
 * because lock owners are looked up in it. */
void gwi_look_at_call(uint32_t pid, gw_stack_process *process, gw_stack_thread *thread);

/* Return true if the thread may be stopped, because its system call then continues with the same result. The result of
 * other calls (epoll_wait, socket reads with a time limit, a device's ioctl) would reveal the stop. */
bool gwi_may_be_stopped(const gw_stack_thread *thread);

/* Read the Python frames of a thread that is not stopped. If the thread ran during the read, its Python frames are
 * dropped, GW_SITE_PYTHON_UNKNOWN is set, and no_python contains the reason. */
void gwi_stacks_unheld(uint32_t pid, gw_stack_process *process, gw_stack_thread *thread, gwi_python *python);

/* walk.c. Read the frames of all threads. Each thread that may be stopped is stopped briefly. Sets process->no_stacks
 * if stacks are missing. */
void gwi_stacks_walk(uint32_t pid, gw_stack_process *process, gwi_python *python);

#endif
