/* Exit statuses of gpuwhy. */
#ifndef GW_EXIT_H
#define GW_EXIT_H

/* All commands except `run`, which ends as the program did. */
enum { GW_EXIT_OK = 0, GW_EXIT_UNDETERMINED = 1, GW_EXIT_USAGE = 2 };
/* `run` itself, with the same numbers as in shells. */
enum { GW_EXIT_CANNOT_RUN = 126, GW_EXIT_NOT_FOUND = 127 };

#endif
