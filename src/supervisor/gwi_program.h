/* What `run` was asked to start, before it is started. */
#ifndef GWI_PROGRAM_H
#define GWI_PROGRAM_H

#include "gwi_place.h"

#include <stdbool.h>

typedef struct gwi_program {
    gw_path path;  /* the file that exec would take */
    gw_path image; /* the ELF file that will run: behind #! and env; "" when it is none that we understand */
    bool is_32_bit;
    bool is_static;
    bool is_privileged; /* setuid, setgid or capabilities that this user does not have: the loader ignores us */
    char sanitizer[64]; /* SONAME of a sanitizer's runtime that must come first among the preloaded; "": none */
} gwi_program;

/* Find argv[0] as execvp would and look into it. GW_MISSING: there is none (127); GW_IO: it cannot be executed
 * (126). `err` has the reason. */
GW_MUST_CHECK gw_status gwi_program_find(char *const *argv, gwi_program *ret_program, gw_error *err);

#endif
