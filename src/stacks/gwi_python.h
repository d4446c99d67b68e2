/* Python frames of another process's threads, read from its memory.
 *
 * All reads go through one function, so that the same code reads a process, a damaged copy in a test, and a fuzzer's
 * bytes. The data is not trusted: each object's type is compared with the interpreter's own, each list is bounded, and
 * a thread state is used only if its own fields name the thread. Data that does not fit is reported as "unknown". The
 * process may be running meanwhile: only the frames of a stopped thread are reliable.
 *
 * Use from one thread. */
#ifndef GWI_STACKS_PYTHON_H
#define GWI_STACKS_PYTHON_H

#include "gw_image.h"
#include "gw_python_layout.h"
#include "gw_stacks.h"

enum { GWI_INTERPRETERS_MAX = 4, GWI_STATES_MAX = 1024 };

typedef struct gwi_interpreter { /* one copy of Python in the process */
    gw_python_layout layout;
    gw_python_lists lists;
    uint64_t runtime, code_type, unicode_type, bytes_type;
} gwi_interpreter;

typedef struct gwi_state { /* state of a thread that runs Python, at the time the lists were read */
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
    bool incomplete; /* some interpreters or states could not be read */
    char why[160];   /* "": nothing is missing */
} gwi_python;

/* If the file whose first mapping is at `base` is an interpreter, add it. */
void gwi_python_try(gwi_python *python, uint64_t base);
/* Read the lists of thread states of all interpreters added so far. */
void gwi_python_list(gwi_python *python);
/* Append the frames of `thread->tid` to `thread`, and their code to `process`. Flags of gw_site.h mark missing
 * frames. */
void gwi_python_frames(gwi_python *python, gw_stack_process *process, gw_stack_thread *thread);

#endif
