/* The parts of the Python half. Where a version keeps what we read: cpython/gw_python_layout.h.
 *
 *   python_find.c    interpreters among the mapped files
 *   python.c         a thread's frames
 *   python_memory.c  memory of the interpreter that may go while it is read
 *   python_code.c    numbers for code objects, and what is written about a new one
 *
 * Nothing of Python is linked or included. Functions of the interpreter that are called take no lock, allocate nothing
 * and raise nothing. */
#ifndef GWI_PYTHON_H
#define GWI_PYTHON_H

#include "gw_python_layout.h"
#include "gwi_site.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/uio.h>

/* ---- python_find.c ---- */

typedef struct gwi_python_interpreter {
    uintptr_t base;    /* where its file begins */
    bool stays;        /* the program cannot unload it */
    bool is_readable;  /* its layout is known */
    uint8_t probe[16]; /* of the code of get_thread: what must still be there while `stays` is false */
    gw_python_layout layout;
    int row;                             /* the layout is this row of gw_python_rows; -1: it differs */
    void *(*get_thread)(void);           /* PyGILState_GetThisThreadState */
    void *(*get_lock_holder)(void);      /* PyThreadState_GetUnchecked, _PyThreadState_UncheckedGet; NULL: has none */
    void *(*get_main_interpreter)(void); /* PyInterpreterState_Main */
    void *(*get_last_interpreter)(void); /* PyInterpreterState_Head */
    int (*is_finalizing)(void);          /* _Py_IsFinalizing, Py_IsFinalizing */
    uintptr_t code_type, unicode_type, bytes_type;
} gwi_python_interpreter;

enum { GWI_PYTHON_INTERPRETERS_MAX = 4 };

/* Append-only: those below the count never change. */
extern gwi_python_interpreter gwi_python_interpreter_list[GWI_PYTHON_INTERPRETERS_MAX];
extern _Atomic uint32_t gwi_python_interpreter_count;

/* Copy memory that may not be there, or may go while we read. Two system calls; for rare use. */
bool gwi_python_read(uintptr_t at, void *out, size_t bytes);

/* ---- python_memory.c ---- */

/* An interpreter's memory as a thread reads it that another thread's end of the interpreter does not wait for: a daemon
 * thread inside a driver call. All that belongs to it may go between two instructions, so the kernel copies it, and
 * what it did not find is 0. Two threads read it where it lies, and have none of these (NULL): the process's first, as
 * it ends the interpreter itself, and one that holds the interpreter's lock, without which nobody ends it.
 *
 * Copied in lines, all that is asked for by one call of the kernel. Lines that follow each other are one run. Of the
 * thread that uses it, for one stop. */
enum { GWI_PYTHON_LINE_BYTES = 128, GWI_PYTHON_LINES = 1024, GWI_PYTHON_PLACES = 2048, GWI_PYTHON_VIEWS = 2 };
struct gwi_python_memory {
    bool failed;   /* something was not there */
    bool has_lock; /* found on the way: the thread needs none of this */
    int32_t pid;   /* 0: not needed yet */
    uint32_t line_count;
    uint32_t run_count, copied_runs; /* runs from the second on are asked for */
    uint32_t views;                  /* how often one was chosen */
    struct {
        uintptr_t at;
        size_t bytes;
        const uint8_t *copy;
    } view[GWI_PYTHON_VIEWS];            /* runs that were read last: one of frames, one of objects */
    struct iovec run[GWI_PYTHON_LINES];  /* where a run lies */
    uint16_t run_line[GWI_PYTHON_LINES]; /* its first line */
    uint16_t run_of[GWI_PYTHON_LINES];   /* of a line */
    uint16_t place[GWI_PYTHON_PLACES];   /* by address: a line's number and one; 0: free */
    uintptr_t at[GWI_PYTHON_LINES];      /* of a line */
    uint8_t line[GWI_PYTHON_LINES][GWI_PYTHON_LINE_BYTES];
};

/* Whether all that was read was there, and the interpreter has not come near its end meanwhile. */
bool gwi_python_memory_held(const gwi_python_memory *memory, const gwi_python_interpreter *py);
void gwi_python_copy(gwi_python_memory *memory, uintptr_t at, void *out, size_t bytes);
/* This will be needed, and is there unless the interpreter ends. When the first of it is read, all that is asked for is
 * brought at once. Some kilobytes at most. */
void gwi_python_want(gwi_python_memory *memory, uintptr_t at, size_t bytes);
/* The same of what may be shorter than that: only as far as the page reaches. */
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
