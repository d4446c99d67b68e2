/* Reads the Python frames of another process's threads from its memory. Use from one thread.
 *
 * All reads go through one callback, so the source can be a process, a damaged copy in a test, or a fuzzer's input. The
 * data is not trusted:
 * - The type of each object is compared with the interpreter's own types.
 * - The length of each list is limited.
 * - A thread state must contain the thread's id.
 *
 * Frames that fail these checks are reported as unknown. Only the frames of a stopped thread are reliable. */
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

typedef struct gwi_state { /* a Python thread state, as it was when the lists were read */
    uint64_t address, interpreter;
    uint32_t tid;
    uint8_t copy; /* index into gwi_python.copy */
} gwi_state;

typedef struct gwi_python {
    gw_memory_read *read;
    void *user;
    gwi_interpreter copy[GWI_INTERPRETERS_MAX];
    size_t copy_count;
    gwi_state state[GWI_STATES_MAX];
    size_t state_count;
    bool incomplete; /* some interpreters or thread states could not be read */
    char why[160];   /* why `incomplete` is set; "" if it is not */
} gwi_python;

/* `base` is the address of a file's first mapping. If this file contains a Python interpreter, add it to
 * python->copy. */
void gwi_python_try(gwi_python *python, uint64_t base);
/* List the thread states of all copies of Python that were added. */
void gwi_python_list(gwi_python *python);

/* ---- the frames of one thread ---- */

/* The fields of a code object that are needed here; `name`, `file` and `table` are addresses. */
typedef struct gwi_code_fields {
    uint64_t address, name, file, table;
    int32_t first_line;
} gwi_code_fields;

/* Copied frames, as numbers: they are all that must be read while the thread is stopped. */
typedef struct gwi_python_stack {
    bool is_unknown; /* the frames could not be copied */
    bool is_cut;
    uint8_t copy;                       /* index into gwi_python.copy */
    uint64_t frame[GW_SITE_PYTHON_MAX]; /* as in event SITE_FRAMES, with an index into `code` */
    size_t frame_count;
    gwi_code_fields code[GW_SITE_PYTHON_MAX];
    size_t code_count;
} gwi_python_stack;

/* Copy the Python frames of a thread, with at most three reads for each frame. */
void gwi_python_copy(const gwi_python *python, uint32_t inner_tid, gwi_python_stack *ret);
/* Read the names and lines of copied frames. Appends the frames to `thread`, and their code objects to `process`.
 * Missing frames set flags in thread->flags (gw_site.h). The thread may run meanwhile: a frame of it keeps its code
 * object alive, and if one was freed since, all frames are missing. */
void gwi_python_decode(const gwi_python *python, const gwi_python_stack *stack, gw_stack_process *process,
                       gw_stack_thread *thread);
/* Copy and decode. */
void gwi_python_frames(const gwi_python *python, gw_stack_process *process, gw_stack_thread *thread);

#endif
