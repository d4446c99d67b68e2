/* How gpuwhy ends. */
#ifndef GWI_EXIT_H
#define GWI_EXIT_H

/* Exit statuses of all commands but `run`, which ends as the program did. */
enum { GWI_EXIT_OK = 0, GWI_EXIT_UNDETERMINED = 1, GWI_EXIT_USAGE = 2 };
/* ... and of `run` itself, as shells have it. */
enum { GWI_EXIT_CANNOT_RUN = 126, GWI_EXIT_NOT_FOUND = 127 };

#endif
