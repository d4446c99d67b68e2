/* The memory layout of CPython, limited to the parts that we read: for the hook, which reads its own process, and
 * for readers of another process. We do not link Python or include its headers; gw_python_versions.h has one row per
 * version. Pure functions that need only the C library. Any thread. */
#ifndef GW_PYTHON_LAYOUT_H
#define GW_PYTHON_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How the first frame of an evaluation loop is marked. */
typedef enum gw_python_entry {
    GW_PYTHON_ENTRY_ALL,  /* 3.9, 3.10: each frame runs in its own loop */
    GW_PYTHON_ENTRY_FLAG, /* 3.11: a flag in the frame */
    GW_PYTHON_ENTRY_SHIM  /* since 3.12: the next frame is a shim without Python code */
} gw_python_entry;

/* Offsets in bytes. */
typedef struct gw_python_layout {
    unsigned version; /* 0x030B: 3.11 */
    gw_python_entry entry;
    /* size of the objects, as stored in their type objects; used to check that this row matches the build */
    uint16_t code_bytes, frame_bytes, unicode_bytes;
    /* thread state; if has_holder, thread_frame points to a structure that has the frame's address at holder_frame */
    uint16_t thread_next, thread_interpreter, thread_frame, thread_ident, thread_id;
    bool has_holder;
    uint16_t holder_frame;
    /* start of the memory for frames; the next word is the start of its free part; 0: none */
    uint16_t thread_stack;
    /* interpreter state */
    bool hides_subinterpreters;                     /* PyGILState_GetThisThreadState() does not distinguish them */
    uint16_t interpreter_next, interpreter_threads; /* only for versions that publish no offsets */
    /* frame */
    uint16_t frame_code, frame_previous, frame_instruction, frame_mark; /* mark: is_entry or owner */
    uint8_t shim_owner;                                                 /* owners from this value on are shims */
    uint8_t instruction_bytes; /* unit of f_lasti in bytes; 0: the frame has an address instead */
    /* code */
    uint16_t code_version; /* a number that is unique among all code objects; 0: none */
    uint16_t code_first_line, code_file, code_name, code_table,
        code_start; /* start: of the instructions, or of their object */
    /* str */
    uint16_t ascii_bytes, compact_bytes;
} gw_python_layout;

/* Return the row of a version, a static object. NULL: there is none. */
const gw_python_layout *gw_python_layout_of(unsigned version);

/* Since 3.13 the interpreter publishes offsets at the start of _PyRuntime. If they are for this exact build
 * (`version_hex`) and plausible, and the build has the GIL, store them in `*layout` in place of the row's offsets and
 * return true. */
enum { GW_PYTHON_PUBLISHED_SINCE = 0x030D, GW_PYTHON_PUBLISHED_WORDS = 84 };
bool gw_python_layout_publish(gw_python_layout *layout, const uint64_t published[GW_PYTHON_PUBLISHED_WORDS],
                              unsigned long version_hex);

/* Offsets for the path from _PyRuntime to the thread states of all interpreters, for readers that cannot call the
 * interpreter. */
typedef struct gw_python_lists {
    uint32_t runtime_interpreters; /* the first interpreter; 0: not published, search _PyRuntime's first words */
    uint32_t interpreter_next, interpreter_threads, thread_next;
    uint32_t thread_native_id; /* the kernel's thread id; 0: not stored */
} gw_python_lists;

/* Fill in the offsets. If the version publishes them, `published` is the words that it publishes, and
 * gw_python_layout_publish() has returned true for them; otherwise it is NULL. False: the published offsets are not
 * plausible. */
bool gw_python_lists_of(const gw_python_layout *layout, const uint64_t *published, gw_python_lists *ret_lists);

/* Return whether this value may be the address of an object or a frame. */
#if defined(__x86_64__)
#define GW_PYTHON_ADDRESS_BITS 47
#else
#define GW_PYTHON_ADDRESS_BITS 48
#endif
static inline bool gw_python_plausible(uintptr_t at)
{
    return (at & 7) == 0 && at >= 4096 && at >> GW_PYTHON_ADDRESS_BITS == 0;
}

/* Offsets in objects, the same in all versions with the GIL. */
enum {
    GW_PYTHON_OB_TYPE = 8,
    GW_PYTHON_OB_SIZE = 16,
    GW_PYTHON_BYTES_DATA = 32,
    GW_PYTHON_TEXT_HASH = 24,
    GW_PYTHON_TEXT_STATE = 32
};

/* Strings: bits of their state, and the place of their characters. */
enum { GW_PYTHON_TEXT_COMPACT = 1 << 5, GW_PYTHON_TEXT_ASCII = 1 << 6 };
typedef struct gw_python_text {
    uintptr_t data;                                                   /* address of the characters; 0: not readable */
    size_t count;                                                     /* characters */
    unsigned width;                                                   /* bytes per character: 1, 2 or 4 */
    void (*fetch)(void *user, uintptr_t at, void *out, size_t bytes); /* copies memory at `at` */
    void *user;
} gw_python_text;

/* Write the characters from index `from` on, as many as fit, in UTF-8 and as one line; characters that cannot be
 * part of a line are replaced. Returns the number of bytes; writes no terminator. */
size_t gw_python_text_put(const gw_python_text *text, size_t from, char *out, size_t room);
/* The same for all characters. If they do not fit, write "..." and the last ones that do, because the end is the
 * more useful part of a path. `room` >= 16. */
size_t gw_python_text_put_end(const gw_python_text *text, char *out, size_t room);

#endif
