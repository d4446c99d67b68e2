/* Python frames of another process's threads, read from its memory.
 *
 * Everything comes through one reading function, so that the same code reads a process, a damaged copy of one in a test
 * and a fuzzer's bytes. Nothing that is read is trusted: each object's type is compared with the interpreter's own,
 * each list is bounded, and a thread state counts only while it says itself that it is that thread's. What does not fit
 * is "unknown". The process may run meanwhile: only of a thread that stands still are the frames what they were.
 *
 * One thread. */
#ifndef GWI_STACKS_PYTHON_H
#define GWI_STACKS_PYTHON_H

#include "gw_image.h"
#include "gw_python_layout.h"
#include "gw_stacks.h"

enum { GWI_INTERPRETERS_MAX = 4, GWI_STATES_MAX = 1024 };

typedef struct gwi_interpreter { /* one copy of Python */
    gw_python_layout layout;
    gw_python_lists lists;
    uint64_t runtime, code_type, unicode_type, bytes_type;
} gwi_interpreter;

typedef struct gwi_state { /* of a thread that runs Python, when the lists were read */
    uint64_t address, interpreter;
    uint32_t tid;
    uint8_t copy; /* index of the interpreter */
} gwi_state;

typedef struct gwi_python {
    gw_memory_read *read;
    void *user;
    gwi_interpreter copy[GWI_INTERPRETERS_MAX];
    size_t copy_count;
    gwi_state state[GWI_STATES_MAX];
    size_t state_count;
    bool incomplete; /* there are interpreters, or states, that could not be read */
    char why[160];   /* "": nothing is missing */
} gwi_python;

/* Look whether the file whose first mapping is at `base` is an interpreter, and take it if it is. */
void gwi_python_try(gwi_python *python, uint64_t base);
/* Read the lists of thread states of all interpreters that were taken. */
void gwi_python_list(gwi_python *python);
/* Append the frames of `thread->tid` to `thread`, their code to `process`; flags of gw_site.h say what is missing. */
void gwi_python_frames(gwi_python *python, gw_stack_process *process, gw_stack_thread *thread);

#endif
