/* Shared declarations of the Python part of the hook:
 *
 *   python_find.c    find interpreters among the mapped files
 *   python_frames.c  read a thread's frames
 *   python_memory.c  copy interpreter memory that may be freed while it is read
 *   python_code.c    number code objects and record each new one
 *
 * We do not link Python or include its headers (see cpython/gw_python_layout.h). The interpreter functions that we call
 * take no lock, allocate nothing and raise nothing. */
#ifndef GWI_PYTHON_H
#define GWI_PYTHON_H

#include "gw_python_layout.h"
#include "gw_site.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/uio.h>

/* ---- for call sites ----
 *
 * Supports CPython 3.9 to 3.14 with the GIL, found among the mapped files. A thread's frames are read without the GIL.
 * They cannot change, because the thread is inside our code. No frames are returned, and GW_SITE_PYTHON_UNKNOWN is set,
 * for any other version, a thread of a sub-interpreter, an interpreter that is shutting down, and memory whose contents
 * are implausible. */

/* Look for an interpreter among the mapped files. Returns true if it found a new one. Takes no loader lock. Call it
 * rarely, at the first call into the hook and after each new mapped file: 1000 files take a millisecond. */
bool gwi_python_look(void);

/* Call in a forked child. If it returns true, a thread of the parent was inside gwi_python_look(), and the child must
 * call that function again. */
bool gwi_python_look_forked(void);

typedef struct gwi_python_frame {
    uintptr_t code; /* address of the code object */
    /* hash that identifies the code; part of the site's key, because other code may get the same address later */
    uint64_t mark;
    int32_t instruction; /* offset of the current instruction in the code, in bytes; -1: not known */
    bool is_entry;
} gwi_python_frame;

/* Begin a stop: one reading of a thread's frames inside the hook. Choose how it reads the interpreter's memory:
 * - The first thread of the process gets NULL and reads in place. The interpreter cannot shut down while this thread is
 *   inside the hook.
 * - Any other thread gets `space`, cleared, and reads through the kernel. The interpreter may shut down during the stop
 *   unless the thread holds its lock. */
typedef struct gwi_python_memory gwi_python_memory;
gwi_python_memory *gwi_python_memory_begin(gwi_python_memory *space, bool is_first_thread);

/* Read the Python frames of this thread, innermost first. Stores at most `max` frames in `out` and returns their
 * number. 0 means that there are none, or that they could not be read.
 * - `memory` is the result of gwi_python_memory_begin() for this stop.
 * - `*ret_flags` gets GW_SITE_PYTHON_* bits.
 * - `*ret_is_main` is true on the interpreter's main thread.
 * Do not keep addresses of code objects after the stop, because the interpreter reuses them. */
size_t gwi_python_frames(gwi_python_frame *out, size_t max, gwi_python_memory *memory, unsigned *ret_flags,
                         bool *ret_is_main);

/* Return the number of a frame's code object, or 0 if it could not be read or recorded. Call this in the stop that read
 * the frame. A new code object is recorded first, even if it has the address of a freed one. */
uint32_t gwi_python_code(const gwi_python_frame *frame, gwi_python_memory *memory);

/* For threads that run no Python, such as PyTorch's backward threads. The main thread stores its latest site with
 * Python frames. If gwi_python_frames() sets GW_SITE_PYTHON_BORROWED, the thread adds this site to its own key and SITE
 * record. */
void gwi_python_main_site(uint32_t site);
uint32_t gwi_python_borrowed_site(void);

void gwi_python_forked(void); /* call in a forked child before its first event */

/* ---- python_find.c ---- */

typedef struct gwi_python_interpreter {
    uintptr_t base;    /* start address of the interpreter's file */
    bool stays;        /* the program cannot unload this file */
    bool is_readable;  /* its layout is known, so frames can be read */
    uint8_t probe[16]; /* first bytes of get_thread's code; unless `stays` is set, they are compared to check that the
                          file is still loaded */
    gw_python_layout layout;
    int row;                   /* the row of gw_python_rows with this layout; -1: no row matches */
    void *(*get_thread)(void); /* PyGILState_GetThisThreadState */
    /* PyThreadState_GetUnchecked or _PyThreadState_UncheckedGet; NULL: neither exists */
    void *(*get_lock_holder)(void);
    void *(*get_main_interpreter)(void); /* PyInterpreterState_Main */
    void *(*get_last_interpreter)(void); /* PyInterpreterState_Head */
    int (*is_finalizing)(void);          /* Py_IsFinalizing or _Py_IsFinalizing */
    uintptr_t code_type, unicode_type, bytes_type;
} gwi_python_interpreter;

enum { GWI_PYTHON_INTERPRETERS_MAX = 4 };

/* The interpreters found. Entries are only appended: those below the count never change. */
extern gwi_python_interpreter gwi_python_interpreter_list[GWI_PYTHON_INTERPRETERS_MAX];
extern _Atomic uint32_t gwi_python_interpreter_count;

/* True if no seccomp filter may kill the process for process_vm_readv() or process_vm_writev(). The answer may be up to
 * 50 ms old, and that of another thread. */
bool gwi_python_may_copy(void);
/* Copy memory that may be unmapped before or while we read. Returns false if not all of it was mapped. Costs two system
 * calls; for rare use. */
bool gwi_python_read(uintptr_t at, void *out, size_t bytes);

/* ---- python_memory.c ---- */

/* Copies of interpreter memory, for a thread that cannot prevent the interpreter's shutdown. An example is a daemon
 * thread inside a driver call. The memory may be freed between two instructions, so the kernel copies it. Freed memory
 * reads as 0. Two kinds of threads need no copies (NULL) and read in place:
 * - the first thread of the process, which itself shuts the interpreter down;
 * - a thread that holds the interpreter's lock, which the shutdown needs.
 *
 * Memory is copied in lines of 128 bytes; consecutive lines form a run. One system call copies all requested lines. The
 * struct belongs to the calling thread and is valid for one stop. */
enum { GWI_PYTHON_LINE_BYTES = 128, GWI_PYTHON_LINES = 1024, GWI_PYTHON_PLACES = 2048, GWI_PYTHON_VIEWS = 2 };
struct gwi_python_memory {
    bool failed;   /* some of the requested memory was not mapped */
    bool has_lock; /* the thread holds the interpreter's lock and needs no copies */
    int32_t pid;   /* this process; 0: not read yet */
    uint32_t line_count;
    uint32_t run_count, copied_runs; /* runs from index copied_runs on are requested but not copied yet */
    uint32_t views;                  /* how often an entry of `view` was replaced */
    struct {
        uintptr_t at;
        size_t bytes;
        const uint8_t *copy;
    } view[GWI_PYTHON_VIEWS];            /* the two runs used last; usually one has frames, the other objects */
    struct iovec run[GWI_PYTHON_LINES];  /* address and length of a run */
    uint16_t run_line[GWI_PYTHON_LINES]; /* for each run: number of its first line */
    uint16_t run_of[GWI_PYTHON_LINES];   /* for each line: number of its run */
    uint16_t place[GWI_PYTHON_PLACES];   /* hash table by address: line number + 1; 0: free */
    uintptr_t at[GWI_PYTHON_LINES];      /* for each line: its address */
    uint8_t line[GWI_PYTHON_LINES][GWI_PYTHON_LINE_BYTES];
};

/* Return whether the copies are valid: all the memory was mapped when it was read, and the interpreter has not started
 * to shut down since then. */
bool gwi_python_memory_held(const gwi_python_memory *memory, const gwi_python_interpreter *py);
void gwi_python_copy(gwi_python_memory *memory, uintptr_t at, void *out, size_t bytes);
/* Request memory that will be read, at most a few kilobytes. The next read copies all requested memory at once. The
 * memory must be mapped, unless the interpreter is shutting down. */
void gwi_python_want(gwi_python_memory *memory, uintptr_t at, size_t bytes);
/* Like gwi_python_want(), for an object that may be shorter than `bytes`. Requests nothing beyond the end of the page
 * in which the object starts. */
void gwi_python_want_about(gwi_python_memory *memory, uintptr_t at, size_t bytes);

static inline __attribute__((always_inline)) void gwi_python_fetch(gwi_python_memory *memory, uintptr_t at, void *out,
                                                                   size_t bytes)
{
    if (memory == NULL) {
        memcpy(out, (const void *)at, bytes);
        return;
    }
    for (unsigned i = 0; i < GWI_PYTHON_VIEWS; i++)
        if (bytes <= memory->view[i].bytes && at - memory->view[i].at <= memory->view[i].bytes - bytes) {
            memcpy(out, memory->view[i].copy + (at - memory->view[i].at), bytes);
            return;
        }
    gwi_python_copy(memory, at, out, bytes);
}

static inline __attribute__((always_inline)) uintptr_t gwi_python_word(gwi_python_memory *memory, uintptr_t at)
{
    uintptr_t word;
    if (memory == NULL)
        return *(const volatile uintptr_t *)at;
    gwi_python_fetch(memory, at, &word, sizeof word);
    return word;
}

static inline __attribute__((always_inline)) uint32_t gwi_python_half(gwi_python_memory *memory, uintptr_t at)
{
    uint32_t half;
    if (memory == NULL)
        return *(const volatile uint32_t *)at;
    gwi_python_fetch(memory, at, &half, sizeof half);
    return half;
}

/* ---- python_code.c ---- */
void gwi_python_code_forked(void);

#endif
