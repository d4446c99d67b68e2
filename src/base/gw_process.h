/* The command line and the user of a process of this machine, from /proc, and other small files. Any thread may call
 * the functions. */
#ifndef GW_PROCESS_H
#define GW_PROCESS_H

#include "gw_text.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Read the beginning of a file into `out` as a string. `format` makes the path. Returns the number of bytes; -1 if the
 * file cannot be read, also if a part of it could be: `out` is "" then, and *ret_why, which may be NULL, and errno have
 * the reason. */
ssize_t gw_read_small(char *out, size_t room, int *ret_why, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Append the command line of a process, with secrets masked, and '?' for control characters; long ones are cut after
 * about 200 bytes. Appends nothing if it cannot be read. */
void gw_process_command_add(gw_text *text, int pid);
/* Append the name of the user that owns a process, or the uid. Appends nothing if there is no such process. */
void gw_process_user_add(gw_text *text, int pid);
enum { GW_PROCESS_STAT_MAX = 1024 };
/* Read /proc/PID/stat from the end of the process's name on: ") S 1 ...". Returns false if there is no such process. */
bool gw_process_stat(int pid, char out[GW_PROCESS_STAT_MAX]);
/* Store when a process started, in clock ticks since the machine started. With the pid, this names a process for as
 * long as the machine runs. Returns false if there is no such process. */
bool gw_process_started(int pid, uint64_t *ret_ticks);
/* Store the bytes that a process has read and written so far, with files, pipes, terminals and sockets. Returns false
 * if they cannot be read. */
bool gw_process_io(int pid, uint64_t *ret_read_bytes, uint64_t *ret_written_bytes);
/* Call `see` for each open file of a process until it returns false. `target` is what /proc/PID/fd/FD links to, such as
 * "socket:[123]". Returns false if the files cannot be listed. */
bool gw_process_files(int pid, bool (*see)(void *user, int fd, const char *target), void *user);
/* Store the identity of this start of the machine, from /proc/sys/kernel/random/boot_id; "" and false if unknown. */
enum { GW_BOOT_ID_MAX = 64 };
bool gw_boot_id(char out[GW_BOOT_ID_MAX]);
/* True if the process exists and runs for this user: its real or effective uid. */
bool gw_process_is_of(unsigned uid, int pid);
/* True if this process has a capability in effect. `number`: as in linux/capability.h. */
bool gw_process_has_capability(unsigned number);
/* True if this process may read the files of all users: it is root, or has the capability CAP_DAC_READ_SEARCH. */
bool gw_process_reads_all(void);
/* From now on, this process becomes the parent of descendants whose parent ends, also of those with a session of their
 * own. */
void gw_orphans_take(void);
/* The file of the program that copies the stderr of a run (src/record/supervisor/gwi_relay.h). */
#define GW_RELAY_FILE "stderr-relay"
/* True if the process is one of gpuwhy's: it runs the same file as this process, or the relay. */
bool gw_process_is_gpuwhy(int pid);
/* End those descendants, with SIGTERM and half a second later with SIGKILL, and wait for at most 3 s. Processes of
 * gpuwhy are left alone. Does not work without /proc/PID/task/TID/children.
 * Returns the number of processes that were sent a signal, and appends the names and pids of the first ones. *ret_left:
 * the number of those that are still there. */
size_t gw_orphans_end(size_t *ret_left, gw_text *names);
/* Append the name of a user, or the uid. Only /etc/passwd is read, because other sources may need the network. */
void gw_user_name_add(gw_text *text, unsigned uid);

#endif
