/* Exit statuses of gpuwhy. */
#ifndef GW_EXIT_H
#define GW_EXIT_H

/* Exit statuses of gpuwhy's commands. `run` exits with the program's status instead, except after a usage error. */
enum { GW_EXIT_OK = 0, GW_EXIT_UNDETERMINED = 1, GW_EXIT_USAGE = 2 };
/* Exit status of a command whose verdict is one of --fail-on. Not 125, with which `git bisect run` skips a commit. */
enum { GW_EXIT_FAIL_ON = 123 };
/* Exit status of `run`, and of the program, if the host has no memory left for the virtual cards. */
enum { GW_EXIT_HOST_FULL = 124 };
/* Exit statuses of `run` if it cannot run the program, with the same numbers as in shells. */
enum { GW_EXIT_STOPPED = 125 }; /* inside the supervisor only: a signal ended the wait before the program's start */
enum { GW_EXIT_CANNOT_RUN = 126, GW_EXIT_NOT_FOUND = 127 };

#endif
