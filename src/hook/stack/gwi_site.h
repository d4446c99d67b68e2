/* Call sites inside the hook: from a stack to the number of a site.
 *
 *   site.c     the key, the table of known keys, what is written about a new one
 *   unwind.c   the native walk, with rules that were learned before
 *   cfi.c      the rules, from the call frame information that compilers leave in every file
 *   modules.c  which file lies at an address
 *   python.c   frames of a Python thread, read without the interpreter's lock
 *
 * Everything runs inside a wrapper after the real call, on the calling thread, and obeys the hook's rules: no lock
 * across anything that may call out, no allocation by malloc, no dl_iterate_phdr, errno kept, no fault whatever the
 * memory holds. Where a stack cannot be read its site is 0 or carries the flag that says what is missing. */
#ifndef GWI_SITE_H
#define GWI_SITE_H

#include "gw_buffer.h"
#include "gw_site.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* This process begins to record: its first event is to come. Also in the child of a fork, which knows no sites yet.
 * Under the hook's lock, one thread. */
void gwi_site_begin(void);

/* The calling thread's site, inside the wrapper of `fn`; 0: not known. What is new about it is written first, at the
 * time `ticks`, which is to be the event's; `is_precious`: room that is kept for failures may be used for it. */
uint32_t gwi_site(gw_slot *slot, unsigned fn, uint64_t ticks, bool is_precious);

/* ---- python.c ----
 *
 * The interpreter is CPython 3.9 to 3.14 with its lock, found among the files that are mapped. A thread's frames are
 * read without that lock: the thread is inside our call, so nothing it runs can move. Any other version, a thread of a
 * sub-interpreter, an interpreter that is going down, memory that does not look as it should: no frames, and
 * GW_SITE_PYTHON_UNKNOWN. */

/* Look for an interpreter among what is mapped. Not on the common path: a thousand files take a millisecond. At the
 * first call into the hook, and whenever a file turns up that was not mapped before. Takes no lock of the loader's.
 * True: there is one now and there was none before. */
bool gwi_python_look(void);

/* In the child of a fork: true when another thread of the parent was just looking, so that a new look is due. */
bool gwi_python_look_forked(void);

typedef struct gwi_python_frame {
    uintptr_t code;      /* address of the code object */
    uint64_t mark;       /* differs when the code at this address is another one (with high probability): for the key */
    int32_t instruction; /* bytes from the start of the code; -1: not known */
    bool is_entry;
} gwi_python_frame;

/* How a stop reads the interpreter: NULL for the process's first thread, otherwise `space`, emptied. The interpreter
 * does not end while its first thread is in here. Under other threads it may, unless they hold its lock, so these read
 * through the kernel. */
typedef struct gwi_python_memory gwi_python_memory;
gwi_python_memory *gwi_python_memory_begin(gwi_python_memory *space, bool is_first_thread);

/* The Python frames that this thread runs, innermost first: at most `max` are put into `out`; the return value says how
 * many. 0: this thread runs no Python, or there is no interpreter, or (see `*ret_flags`) it could not be read.
 * `memory`: of this stop, from gwi_python_memory_begin().
 * `*ret_flags` gets GW_SITE_PYTHON_* bits. `*ret_is_main`: this is the interpreter's main thread.
 * Nothing of it may be kept: addresses are used again for other code. */
size_t gwi_python_frames(gwi_python_frame *out, size_t max, gwi_python_memory *memory, unsigned *ret_flags,
                         bool *ret_is_main);

/* The number of the code object of a frame just read; PYTHON_CODE and PYTHON_LINES are written when it is first seen.
 * 0: it could not be read or written. A code object that was freed and another at its address are told apart. */
uint32_t gwi_python_code(const gwi_python_frame *frame, gwi_python_memory *memory);

/* For threads that run no Python (PyTorch's backward threads): the main thread tells its site each time it has one with
 * Python frames; a thread for which gwi_python_frames() says GW_SITE_PYTHON_BORROWED gets the last of these, which is
 * part of its key and stands in its SITE. */
void gwi_python_main_site(uint32_t site);
uint32_t gwi_python_borrowed_site(void);

void gwi_python_forked(void); /* in the child of a fork, before its first event */

#endif
