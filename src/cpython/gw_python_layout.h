/* Where CPython keeps what we read of it: the same for the hook, which reads its own process, and for who reads another
 * one. Nothing of Python is linked or included; a row a version (gw_python_rows.h). Pure functions, the C library
 * alone: any thread. */
#ifndef GW_PYTHON_LAYOUT_H
#define GW_PYTHON_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How frames say that the evaluation loop was entered with them. */
typedef enum gw_python_entry {
    GW_PYTHON_ENTRY_ALL,  /* 3.9, 3.10: each frame is run by a loop of its own */
    GW_PYTHON_ENTRY_FLAG, /* 3.11: a flag in the frame */
    GW_PYTHON_ENTRY_SHIM  /* from 3.12 on: a frame without Python code stands behind it */
} gw_python_entry;

/* Offsets in bytes. */
typedef struct gw_python_layout {
    unsigned version; /* 0x030B: 3.11 */
    gw_python_entry entry;
    /* what a type object says of the size of its objects: the check that this row is right for this build */
    uint16_t code_bytes, frame_bytes, unicode_bytes;
    /* thread state; with a holder, thread_frame leads to a structure that has the frame's address at holder_frame */
    uint16_t thread_next, thread_interpreter, thread_frame, thread_ident, thread_id;
    bool has_holder;
    uint16_t holder_frame;
    uint16_t thread_stack; /* the piece of memory that frames lie in, and in the next word where it is free; 0: none */
    /* interpreter state */
    bool hides_subinterpreters;                     /* PyGILState_GetThisThreadState() does not tell them */
    uint16_t interpreter_next, interpreter_threads; /* of versions that publish nothing */
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
} gw_python_layout;

/* The row of a version; NULL: none. */
const gw_python_layout *gw_python_layout_of(unsigned version);

/* Versions from 3.13 on publish offsets at the start of _PyRuntime. True: they are there, for this very build
 * (`version_hex`), and plausible, and the interpreter has its lock: `*layout` holds them instead of the row's. */
enum { GW_PYTHON_PUBLISHED_SINCE = 0x030D, GW_PYTHON_PUBLISHED_WORDS = 84 };
bool gw_python_layout_publish(gw_python_layout *layout, const uint64_t published[GW_PYTHON_PUBLISHED_WORDS],
                              unsigned long version_hex);

/* How to come from _PyRuntime to the thread states of all interpreters, for who cannot ask the interpreter. */
typedef struct gw_python_lists {
    uint32_t runtime_interpreters; /* the first interpreter; 0: among the first words of _PyRuntime, to be looked for */
    uint32_t interpreter_next, interpreter_threads, thread_next;
    uint32_t thread_native_id; /* the kernel's thread id; 0: not kept */
} gw_python_lists;

/* `published`: as above, of versions that publish, after gw_python_layout_publish() was true of it; else NULL. False:
 * what is published is not plausible. */
bool gw_python_lists_of(const gw_python_layout *layout, const uint64_t *published, gw_python_lists *ret_lists);

/* An address as objects and frames have it. */
#if defined(__x86_64__)
#define GW_PYTHON_ADDRESS_BITS 47
#else
#define GW_PYTHON_ADDRESS_BITS 48
#endif
static inline bool gw_python_plausible(uintptr_t at)
{
    return (at & 7) == 0 && at >= 4096 && at >> GW_PYTHON_ADDRESS_BITS == 0;
}

/* Objects, the same in all versions with the lock. */
enum {
    GW_PYTHON_OB_TYPE = 8,
    GW_PYTHON_OB_SIZE = 16,
    GW_PYTHON_BYTES_DATA = 32,
    GW_PYTHON_TEXT_HASH = 24,
    GW_PYTHON_TEXT_STATE = 32
};

/* Text: bits of its state, and its characters where they lie. */
enum { GW_PYTHON_TEXT_COMPACT = 1 << 5, GW_PYTHON_TEXT_ASCII = 1 << 6 };
typedef struct gw_python_text {
    uintptr_t data;                                                   /* where the characters lie; 0: not readable */
    size_t count;                                                     /* characters */
    unsigned width;                                                   /* bytes of one: 1, 2 or 4 */
    void (*fetch)(void *user, uintptr_t at, void *out, size_t bytes); /* copies them */
    void *user;
} gw_python_text;

/* As many of the characters from `from` on as fit, in UTF-8, as one line: what cannot be said in a line is replaced.
 * Returns the bytes; no terminator. */
size_t gw_python_text_put(const gw_python_text *text, size_t from, char *out, size_t room);
/* The same; of a text that does not fit "..." and its end, which says more when it is a path. `room` >= 16. */
size_t gw_python_text_put_end(const gw_python_text *text, char *out, size_t room);

#endif
