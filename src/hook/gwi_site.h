/* Call sites inside the hook: from a stack to the number of a site.
 *
 *   site.c     the key, the table of known keys, what is written about a new one
 *   unwind.c   the native walk, by the call frame information that compilers leave in every file
 *   modules.c  which file lies at an address
 *   python.c   frames of a Python thread, read without the interpreter's lock
 *
 * Everything runs inside a wrapper after the real call, on the calling thread, and obeys the hook's rules: no lock
 * across anything that may call out, no allocation by malloc, no dl_iterate_phdr, errno kept, no fault whatever the
 * memory holds. Where a stack cannot be read its site is 0 or carries the flag that says what is missing. */
#ifndef GWI_SITE_H
#define GWI_SITE_H

#include "gw_site.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The calling thread's site; 0: not known. */
uint32_t gwi_site(void);
void gwi_site_forked(void); /* in the child of a fork, before its first event */

/* ---- python.c ---- */

/* The Python frames that this thread runs, innermost first.
 * Cheap part, for the key: at most `max` pairs of code address and instruction are put into `out`; the return value
 * says how many, 0: no Python frames on this thread (or no interpreter). `*ret_flags` gets GW_SITE_PYTHON_* bits.
 * Nothing of it may be kept: addresses are used again for other code. `is_main` is set where this is the interpreter's
 * main thread. */
typedef struct gwi_python_frame {
    uintptr_t code;      /* address of the code object */
    int32_t instruction; /* bytes from the start of the code; -1: not known */
    bool is_entry;
} gwi_python_frame;
size_t gwi_python_frames(gwi_python_frame *out, size_t max, unsigned *ret_flags, bool *ret_is_main);

/* The number of the code object at `code`, which a frame of this thread runs right now; PYTHON_CODE and PYTHON_LINES
 * are written when it is first seen. 0: it could not be read or written. A code object that was freed and another at
 * its address are told apart. */
uint32_t gwi_python_code(uintptr_t code);

/* A word that changes when the code at this address is another one (with high probability), for the key. Cheap. */
uint64_t gwi_python_code_mark(uintptr_t code);

void gwi_python_forked(void);

#endif
