/* Call sites inside the hook: from a stack to the number of a site.
 *
 *   site.c     the key, the table of known keys, the records of a new site
 *   unwind.c   the native walk, with rules that were cached earlier
 *   cfi.c      the rules, from the call frame information in every file
 *   modules.c  the file that is mapped at an address
 *   python.c   frames of a Python thread, read without the interpreter's lock
 *
 * Everything runs inside a wrapper after the real call, on the calling thread, and follows the hook's rules: no lock
 * held across anything that may call out, no malloc, no dl_iterate_phdr, errno preserved, no fault whatever the memory
 * contains. If a stack cannot be read, its site is 0 or has a flag for the missing part. */
#ifndef GWI_SITE_H
#define GWI_SITE_H

#include "gw_buffer.h"
#include "gw_site.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Call this before the first event of a process that starts to record, and of a forked child, which knows no sites yet.
 * Call with the hook's lock held, on one thread. */
void gwi_site_begin(void);

/* Return the calling thread's site inside the wrapper of `fn`; 0: not known. Records about a new site are written
 * first, with the time `ticks`, which must also be the event's time. If `is_precious` is true, they may use the room
 * reserved for failures. */
uint32_t gwi_site(gw_slot *slot, unsigned fn, uint64_t ticks, bool is_precious);

/* ---- python.c ----
 *
 * Supports CPython 3.9 to 3.14 with the GIL, found among the mapped files. A thread's frames are read without that
 * lock: the thread is inside our call, so nothing that it runs can change. Any other version, a thread of a
 * sub-interpreter, an interpreter that is shutting down and implausible memory give no frames and
 * GW_SITE_PYTHON_UNKNOWN. */

/* Look for an interpreter among the mapped files. Not for the common path: a thousand files take a millisecond. Call it
 * at the first call into the hook, and whenever a new mapped file is found. Takes no loader lock. Returns true if it
 * found the first interpreter. */
bool gwi_python_look(void);

/* Call in a forked child. Returns true if another thread of the parent was looking at the time of the fork, so that a
 * new look is needed. */
bool gwi_python_look_forked(void);

typedef struct gwi_python_frame {
    uintptr_t code;      /* address of the code object */
    uint64_t mark;       /* for the key: differs (with high probability) if this address now holds other code */
    int32_t instruction; /* bytes from the start of the code; -1: not known */
    bool is_entry;
} gwi_python_frame;

/* Choose how a stop reads the interpreter: NULL (in place) for the first thread of the process, otherwise `space`,
 * which is cleared. The interpreter cannot shut down while its first thread is inside the hook. Under other threads it
 * can, unless they hold its lock, so they read through the kernel. */
typedef struct gwi_python_memory gwi_python_memory;
gwi_python_memory *gwi_python_memory_begin(gwi_python_memory *space, bool is_first_thread);

/* Read the Python frames of this thread, innermost first. Stores at most `max` frames in `out` and returns their
 * number. 0: this thread runs no Python, there is no interpreter, or (see `*ret_flags`) the frames could not be read.
 * `memory` is the value of gwi_python_memory_begin() for this stop. `*ret_flags` gets GW_SITE_PYTHON_* bits.
 * `*ret_is_main` is true on the interpreter's main thread. Do not keep the addresses: they are reused for other
 * code. */
size_t gwi_python_frames(gwi_python_frame *out, size_t max, gwi_python_memory *memory, unsigned *ret_flags,
                         bool *ret_is_main);

/* Return the number of a code object whose frame was just read. PYTHON_CODE and PYTHON_LINES are written when the code
 * is first seen. 0: it could not be read or written. If a code object was freed and another one has its address, they
 * get different numbers. */
uint32_t gwi_python_code(const gwi_python_frame *frame, gwi_python_memory *memory);

/* For threads that run no Python (PyTorch's backward threads). The main thread stores its site each time it has one
 * with Python frames. A thread for which gwi_python_frames() returns GW_SITE_PYTHON_BORROWED uses the last stored site,
 * which is part of its key and of its SITE record. */
void gwi_python_main_site(uint32_t site);
uint32_t gwi_python_borrowed_site(void);

void gwi_python_forked(void); /* call in a forked child before its first event */

#endif
