/* The parts of CPython's memory layout that we read, in our own process (the hook) or in another one. We neither link
 * to Python nor include its headers. The functions need only the C library, and any thread may call them. */
#ifndef GW_PYTHON_LAYOUT_H
#define GW_PYTHON_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How to recognise the first frame of an evaluation loop. */
typedef enum gw_python_entry {
    GW_PYTHON_ENTRY_ALL,  /* 3.9, 3.10: each frame has its own loop */
    GW_PYTHON_ENTRY_FLAG, /* 3.11: by a flag in the frame */
    GW_PYTHON_ENTRY_SHIM  /* since 3.12: its caller is a shim, a frame without Python code */
} gw_python_entry;

/* Offsets in bytes. */
typedef struct gw_python_layout {
    unsigned version; /* 0x030B: 3.11 */
    gw_python_entry entry;
    /* sizes of the objects, as stored in their type objects; used to check that this row matches the build */
    uint16_t code_bytes, frame_bytes, unicode_bytes;
    /* thread state; if has_holder is set, the pointer at thread_frame leads to a structure with the frame's address at
     * offset holder_frame */
    uint16_t thread_next, thread_interpreter, thread_frame, thread_ident, thread_id;
    bool has_holder;
    uint16_t holder_frame;
    /* pointer to the start of the thread's memory for frames; the next word points to the free part; 0: this version
     * has no such field */
    uint16_t thread_stack;
    /* interpreter state */
    bool hides_subinterpreters; /* PyGILState_GetThisThreadState() does not distinguish subinterpreters */
    uint16_t interpreter_next, interpreter_threads; /* only for versions that publish no offsets */
    /* frame */
    uint16_t frame_code, frame_previous, frame_instruction,
        frame_mark;            /* frame_mark: the field `is_entry` (3.11) or `owner` (since 3.12) */
    uint8_t shim_owner;        /* frames with this owner or a higher one are shims */
    uint8_t instruction_bytes; /* unit of f_lasti in bytes; 0: the frame stores an address instead */
    /* code object */
    uint16_t code_version; /* a number that is unique among all code objects; 0: this version has no such field */
    uint16_t code_first_line, code_file, code_name, code_table,
        code_start; /* code_start: the instructions; before 3.11: the pointer to their bytes object */
    /* str object */
    uint16_t ascii_bytes, compact_bytes;
} gw_python_layout;

/* Return the row of a version (static), or NULL if the version is not supported. */
const gw_python_layout *gw_python_layout_of(unsigned version);

/* Replace the offsets in `*layout` with those that the interpreter publishes at the start of _PyRuntime, since 3.13.
 * Returns false, and leaves `*layout` unusable, if:
 * - the offsets are not plausible;
 * - they are for another version than `version_hex`;
 * - they are for a build without the GIL. */
enum { GW_PYTHON_PUBLISHED_SINCE = 0x030D, GW_PYTHON_PUBLISHED_WORDS = 84 };
bool gw_python_layout_publish(gw_python_layout *layout, const uint64_t published[GW_PYTHON_PUBLISHED_WORDS],
                              unsigned long version_hex);

/* Offsets that lead from _PyRuntime to the thread states of all interpreters, for readers that cannot call functions of
 * the interpreter. */
typedef struct gw_python_lists {
    uint32_t
        runtime_interpreters; /* the first interpreter; 0: not published, so search the first words of _PyRuntime */
    uint32_t interpreter_next, interpreter_threads, thread_next;
    uint32_t thread_native_id; /* the kernel's thread id; 0: not stored */
} gw_python_lists;

/* Fill in the offsets. `published` points to the published words, after gw_python_layout_publish() has accepted them.
 * NULL: the version publishes none. Returns false if the offsets are not plausible. */
bool gw_python_lists_of(const gw_python_layout *layout, const uint64_t *published, gw_python_lists *ret_lists);

/* True if the value may be the address of an object or a frame. */
#if defined(__x86_64__)
#define GW_PYTHON_ADDRESS_BITS 47
#else
#define GW_PYTHON_ADDRESS_BITS 48
#endif
static inline bool gw_python_plausible(uintptr_t at)
{
    return (at & 7) == 0 && at >= 4096 && at >> GW_PYTHON_ADDRESS_BITS == 0;
}

/* Offsets in objects. They are the same in all versions with the GIL. */
enum {
    GW_PYTHON_OB_TYPE = 8,
    GW_PYTHON_OB_SIZE = 16,
    GW_PYTHON_BYTES_DATA = 32,
    GW_PYTHON_TEXT_HASH = 24,
    GW_PYTHON_TEXT_STATE = 32
};

/* Bits of a string's state, and the position of its characters. */
enum { GW_PYTHON_TEXT_COMPACT = 1 << 5, GW_PYTHON_TEXT_ASCII = 1 << 6 };
typedef struct gw_python_text {
    uintptr_t data; /* address of the characters; 0: the string cannot be read */
    size_t count;   /* number of characters */
    unsigned width; /* bytes per character: 1, 2 or 4 */
    void (*fetch)(void *user, uintptr_t at, void *out, size_t bytes); /* copies memory at `at` */
    void *user;
} gw_python_text;

/* Write the characters from index `from` as UTF-8, as many as fit into `room` bytes, without a terminator. ASCII
 * control characters become '?', and invalid characters become U+FFFD. Returns the number of bytes written. */
size_t gw_python_text_put(const gw_python_text *text, size_t from, char *out, size_t room);
/* Like gw_python_text_put(), for all characters. If they do not fit, writes "..." and the last ones, because the end of
 * a path is more useful. `room` must be at least 16. */
size_t gw_python_text_put_end(const gw_python_text *text, char *out, size_t room);

#endif
