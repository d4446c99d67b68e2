/* Call sites: the stack from which a driver call was made, as the hook writes it and the model reads it.
 *
 * A site is one distinct stack of one process; its id is what gw_event.site holds (0: not known). The hook writes a
 * site once, before the first event that names it: one SITE, then SITE_FRAMES with three frames each, all by the same
 * thread. Ids are never used again in the process; a child made by fork begins anew at its own first site.
 *
 * The time of SITE is that of the event it was written for; another thread that found the same site meanwhile may name
 * it in an event that bears an earlier time, so sites are resolved when all is read. Where the buffer had no room,
 * a site may lack frames, and then no event names it. Now and then one stack has two sites (two threads came upon it
 * at once).
 *
 * Frames stand innermost first. Native frames come as return addresses (of a frame that a signal interrupted: the
 * address of its instruction plus one, so that one byte before the address always lies in the code that ran), Python
 * frames as code and instruction; a native frame and the Python frames that its evaluation loop runs are put together
 * after the run: each native frame of the evaluation loop stands for the Python frames from the next one that is left
 * up to and including one marked GW_FRAME_ENTRY. In the list all native frames come first, then all Python frames.
 *
 * MAPPED says where a file lies in the process, PYTHON_CODE what a Python frame's code is. Both come before the
 * first site that needs them. A file that was unmapped and another one mapped there: a further MAPPED, which counts for
 * the sites after it. A code id is given once; code that was freed and other code at its address get different ids.
 *
 * SITE         site, number of frames, gw_site_flag bits, with PYTHON_BORROWED the site whose Python frames stand for
 *              those that this thread lacks (else 0): an earlier site of the same process
 * SITE_FRAMES  site | index of the first of the three << 32, three frames (0 beyond the last)
 * MAPPED       first address, bytes, bias (address in the process less address in the file's symbol table), the first
 *              eight bytes of the build id as they stand in the file (little-endian; 0: none); text: the path
 * PYTHON_CODE  code id, co_firstlineno, version (0x030B for 3.11), bytes of the line table (GW_PYTHON_TABLE_NOT_KEPT:
 *              it was too long or not readable; no PYTHON_LINES follow and no line can be told);
 *              text: qualified name (name before 3.11), newline, file name
 * PYTHON_LINES code id, offset, bytes; text: that part of the line table as it lies in the interpreter (co_lnotab
 * before 3.10, co_linetable from then on), in hexadecimal
 *
 * Stacks that PyTorch recorded in its memory history (ALLOCATOR_BLOCK, ALLOCATOR_HELD) come with their lines known and
 * without code objects. They are written as sites of Python frames alone, under numbers of their own so that both
 * writers need not know each other: sites from GW_SITE_FRAMEWORK_FIRST on, codes from GW_SITE_FRAMEWORK_CODE_FIRST on.
 * Each of their codes has version 0 and no line table (table_bytes 0): then the instruction of a frame *is* its line,
 * whatever co_firstlineno says (it is 0); -1: not known. No frame of them is marked GW_FRAME_ENTRY. A frame of native
 * code that PyTorch named itself is such a frame, too.
 *
 * Stacks that were read from outside, of threads of a process that hangs, are sites with numbers of their own, too:
 * sites from GW_SITE_OUTSIDE_FIRST on, codes from GW_SITE_OUTSIDE_CODE_FIRST on, otherwise as the hook's. */
#ifndef GW_SITE_H
#define GW_SITE_H

#include <stdint.h>

/* A frame. Native: the return address (user-space addresses fit 48 bits). Python: GW_FRAME_PYTHON, perhaps
 * GW_FRAME_ENTRY, the code id, and the instruction in bytes from the start of the code, -1 (all ones) where it is not
 * known. */
#define GW_FRAME_PYTHON             (1ull << 63)
#define GW_FRAME_ENTRY              (1ull << 62) /* the evaluation loop was entered with this frame */
#define GW_FRAME_CODE(frame)        ((uint32_t)(((frame) >> 32) & 0x3fffffff))
#define GW_FRAME_INSTRUCTION(frame) ((int32_t)(uint32_t)(frame))
#define GW_FRAME_OF_CODE(code, at)  (GW_FRAME_PYTHON | (uint64_t)(code) << 32 | (uint32_t)(int32_t)(at))

#define GW_SITE_FRAMEWORK_FIRST      UINT32_C(0x80000000)
#define GW_SITE_FRAMEWORK_CODE_FIRST UINT32_C(0x20000000)
#define GW_SITE_OUTSIDE_FIRST        UINT32_C(0xC0000000)
#define GW_SITE_OUTSIDE_CODE_FIRST   UINT32_C(0x30000000)

enum { GW_SITE_FRAMES_MAX = 192, GW_SITE_NATIVE_MAX = 96, GW_SITE_PYTHON_MAX = 96 };

#define GW_PYTHON_TABLE_NOT_KEPT UINT32_MAX

/* X(name, value, what a reader is told) */
#define GW_SITE_FLAGS(X)                                                                                               \
    X(NATIVE_CUT, 1, "the native stack is longer than what is kept")                                                   \
    X(NATIVE_LOST, 2, "the native stack could not be followed to its end")                                             \
    X(PYTHON_CUT, 4, "the Python stack is longer than what is kept")                                                   \
    X(PYTHON_UNKNOWN, 8, "there is a Python interpreter whose frames could not be read")                               \
    X(PYTHON_BORROWED, 16, "this thread runs no Python: the frames are the last ones seen on the main thread")

typedef enum gw_site_flag {
#define GW_X(name, value, text) GW_SITE_##name = value,
    GW_SITE_FLAGS(GW_X)
#undef GW_X
} gw_site_flag;

/* What became of the name of a native address, as SYMBOL items of the recording say it. Values stay for ever.
 * X(name, value, what a reader is told about the file) */
#define GW_SYMBOL_STATES(X)                                                                                            \
    X(NOT_ASKED, 0, "was not looked at")                                                                               \
    X(LINE, 1, "has lines")                                                                                            \
    X(FUNCTION, 2, "tells no lines there")                                                                             \
    X(NONE, 3, "has no symbol there")                                                                                  \
    X(MISSING, 4, "is not there any more")                                                                             \
    X(CHANGED, 5, "is not the one that ran")                                                                           \
    X(DAMAGED, 6, "cannot be read")                                                                                    \
    X(UNSUPPORTED, 7, "was not read: this build lacks elfutils")                                                       \
    X(LATE, 8, "took too long to read")

typedef enum gw_symbol_state {
#define GW_X(name, value, text) GW_SYMBOL_##name = value,
    GW_SYMBOL_STATES(GW_X)
#undef GW_X
        GW_SYMBOL_STATE_COUNT
} gw_symbol_state;

/* One function at a native address. Several at one address: each was inlined into the next. */
typedef struct gw_symbol_frame {
    const char *function; /* demangled, without parameters; NULL: not known */
    const char *file;     /* source file; NULL: not known */
    uint32_t line;        /* 0: not known */
} gw_symbol_frame;
enum { GW_SYMBOL_FRAMES_MAX = 64 };

#endif
