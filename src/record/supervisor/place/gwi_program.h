/* Finds and examines the program that `run` will start. */
#ifndef GWI_PROGRAM_H
#define GWI_PROGRAM_H

#include "gwi_place.h"

#include <stdbool.h>

typedef struct gwi_program {
    gw_path path;  /* the file that exec would start */
    gw_path image; /* the ELF file that will run, after resolving #! and env; "" if none was found */
    bool is_32_bit;
    bool is_static;
    bool is_privileged; /* setuid, setgid, or capabilities that this user lacks; the loader then ignores LD_PRELOAD */
    char sanitizer[64]; /* SONAME of a sanitizer's runtime, which must be preloaded first; "" if none */
} gwi_program;

/* Find the program argv[0] as execvp() does, and examine its file. `err` has the reason of a failure: GW_MISSING if
 * there is no such file (exit status 127), GW_IO if it cannot be executed (126). */
GW_MUST_CHECK gw_status gwi_program_find(char *const *argv, gwi_program *ret_program, gw_error *err);

#endif
