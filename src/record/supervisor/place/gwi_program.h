/* Finds and examines the program that `run` will start. */
#ifndef GWI_PROGRAM_H
#define GWI_PROGRAM_H

#include "gwi_place.h"

#include "gw_text.h"

#include <stdbool.h>

typedef struct gwi_program {
    gw_path path;  /* the file that exec would start */
    gw_path image; /* the ELF file that will run, after resolving #! and env; "" if none was found */
    bool is_32_bit;
    bool is_static;
    bool is_privileged; /* setuid, setgid, or capabilities that this user lacks; the loader then ignores LD_PRELOAD */
    bool needs_driver, needs_runtime; /* linked with libcuda; with the CUDA runtime or a framework that uses it */
    char sanitizer[64];               /* SONAME of a sanitizer's runtime, which must be preloaded first; "" if none */
} gwi_program;

/* Find the program argv[0] as execvp() does, and examine its file. `err` has the reason of a failure: GW_MISSING if
 * there is no such file (exit status 127), GW_IO if it cannot be executed (126). */
GW_MUST_CHECK gw_status gwi_program_find(char *const *argv, gwi_program *ret_program, gw_error *err);

/* If argv[0], which gwi_program_find() has refused, is a script or a program in this folder, append what was probably
 * meant: "; train.py is a Python script: COMMAND python3 train.py". */
void gwi_program_meant(char *const *argv, const char *command, gw_text *text);

#endif
