/* The parts of the Python half.
 *
 *   python_find.c    interpreters among the mapped files
 *   gwi_python_rows.h, python_layout.c  where a version keeps what we read
 *   python.c         a thread's frames
 *   python_code.c    numbers for code objects, and what is written about a new one
 *
 * Nothing of Python is linked or included. Functions of the interpreter that are called take no lock, allocate nothing
 * and raise nothing. */
#ifndef GWI_PYTHON_H
#define GWI_PYTHON_H

#include "gwi_site.h"

#include <stdatomic.h>

/* ---- python_layout.c ---- */

/* How frames say that the evaluation loop was entered with them. */
typedef enum gwi_python_entry {
    GWI_PYTHON_ENTRY_ALL,  /* 3.9, 3.10: each frame is run by a loop of its own */
    GWI_PYTHON_ENTRY_FLAG, /* 3.11: a flag in the frame */
    GWI_PYTHON_ENTRY_SHIM  /* from 3.12 on: a frame without Python code stands behind it */
} gwi_python_entry;

/* Offsets in bytes. */
typedef struct gwi_python_layout {
    unsigned version; /* 0x030B: 3.11 */
    gwi_python_entry entry;
    /* what a type object says of the size of its objects: the check that this row is right for this build */
    uint16_t code_bytes, frame_bytes, unicode_bytes;
    /* thread state; with a holder, thread_frame leads to a structure that has the frame's address at holder_frame */
    uint16_t thread_next, thread_interpreter, thread_frame, thread_ident, thread_id;
    bool has_holder;
    uint16_t holder_frame;
    /* interpreter state, for versions whose thread states do not tell sub-interpreters */
    bool hides_subinterpreters;
    uint16_t interpreter_next, interpreter_threads;
    /* frame */
    uint16_t frame_code, frame_previous, frame_instruction, frame_mark; /* mark: is_entry or owner */
    uint8_t shim_owner;                                                 /* owners from here on are shims */
    uint8_t instruction_bytes; /* f_lasti counts so many bytes; 0: the frame holds an address */
    /* code */
    uint16_t code_version; /* a number that no other code object has had; 0: none */
    uint16_t code_first_line, code_file, code_name, code_table,
        code_start; /* start: of the instructions, or their object */
    /* text */
    uint16_t ascii_bytes, compact_bytes;
} gwi_python_layout;

/* The row of a version; NULL: none. */
const gwi_python_layout *gwi_python_layout_of(unsigned version);

/* Versions from 3.13 on publish offsets at the start of _PyRuntime. True: they are there, for this very build
 * (`version_hex`), and plausible, and the interpreter has its lock: `*layout` holds them instead of the row's. */
enum { GWI_PYTHON_PUBLISHED_SINCE = 0x030D, GWI_PYTHON_PUBLISHED_WORDS = 84 };
bool gwi_python_layout_publish(gwi_python_layout *layout, const uint64_t published[GWI_PYTHON_PUBLISHED_WORDS],
                               unsigned long version_hex);

/* ---- python_find.c ---- */

typedef struct gwi_python_interpreter {
    uintptr_t base;    /* where its file begins */
    bool stays;        /* the program cannot unload it */
    bool is_readable;  /* its layout is known */
    uint8_t probe[16]; /* of the code of get_thread: what must still be there while `stays` is false */
    gwi_python_layout layout;
    int row;                             /* the layout is this row of gwi_python_rows; -1: it differs */
    void *(*get_thread)(void);           /* PyGILState_GetThisThreadState */
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

/* ---- python.c ---- */

static inline uintptr_t gwi_python_word(uintptr_t at)
{
    return *(const volatile uintptr_t *)at;
}

/* An address as objects and frames have it. */
#if defined(__x86_64__)
#define GWI_PYTHON_ADDRESS_BITS 47
#else
#define GWI_PYTHON_ADDRESS_BITS 48
#endif
static inline bool gwi_python_plausible(uintptr_t at)
{
    return (at & 7) == 0 && at >= 4096 && at >> GWI_PYTHON_ADDRESS_BITS == 0;
}

/* Objects, the same in all versions with the lock. */
enum {
    GWI_PYTHON_OB_TYPE = 8,
    GWI_PYTHON_OB_SIZE = 16,
    GWI_PYTHON_BYTES_DATA = 32,
    GWI_PYTHON_TEXT_HASH = 24,
    GWI_PYTHON_TEXT_STATE = 32
};

/* ---- python_code.c ---- */
void gwi_python_code_forked(void);

#endif
