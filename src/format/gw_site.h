/* Call sites: the stacks from which driver calls were made, as the hook writes them and the model reads them.
 *
 * A site is one distinct stack of one process. gw_event.site is its id (0: unknown). The hook writes each site once,
 * before the first event that uses it: one SITE record, then SITE_FRAMES records with three frames each, all from the
 * same thread. Ids are never reused within a process. A forked child starts again with its own sites.
 *
 * A SITE record has the time of its event. An earlier event of another thread may use the same site, so sites are
 * resolved only after the whole recording was read. If the buffer is full, frames of a site may be missing; no event
 * uses such a site. Two threads that find one stack at the same time may give it two sites.
 *
 * Order of frames:
 * - The innermost frame is first. All native frames come first, then all Python frames.
 * - A native frame is a return address. If a signal interrupted the frame, it is the interrupted instruction's address
 *   plus one. So the byte before it is always in the code that ran.
 * - A Python frame is a code id and an instruction.
 * - They are merged after the run. Each native frame of the Python evaluation loop is replaced by the next Python
 *   frames, up to and including one marked GW_FRAME_ENTRY.
 *
 * MAPPED describes where a file is mapped in the process, PYTHON_CODE the code of a Python frame. Both come before the
 * first site that needs them. If another file is mapped at the same place, a new MAPPED record applies to later sites.
 * Code ids are never reused, even if other code gets the same address.
 *
 * The contents of these records:
 *   SITE         site, number of frames, gw_site_flag bits; with PYTHON_BORROWED, an earlier site of the same process
 *                whose Python frames replace those that this thread lacks (else 0)
 *   SITE_FRAMES  site | (index of the first of these frames << 32), three frames (0: beyond the last frame of the site)
 *   MAPPED       first address, bytes, bias (address in the process minus address in the file's symbol table), the
 *                first eight bytes of the build id as stored in the file (little-endian; 0: none); text: the path
 *   PYTHON_CODE  code id, co_firstlineno, version (0x030B for 3.11), bytes of the line table (GW_PYTHON_TABLE_NOT_KEPT:
 *                it was too long or not readable; no PYTHON_LINES follow and lines are unknown);
 *                text: qualified name (name before 3.11), newline, file name
 *   PYTHON_LINES code id, offset, bytes; text: that part of the interpreter's line table (co_lnotab before 3.10,
 *                co_linetable since), in hexadecimal
 *
 * Stacks from PyTorch's memory history (ALLOCATOR_BLOCK, ALLOCATOR_HELD) have line numbers but no code objects. They
 * are sites with only Python frames, even for native frames that PyTorch resolved:
 * - Their ids are separate, so that the two writers need no coordination. Sites start at GW_SITE_FRAMEWORK_FIRST, codes
 *   at GW_SITE_FRAMEWORK_CODE_FIRST.
 * - Each code has version 0, no line table (table_bytes 0), and co_firstlineno 0.
 * - The instruction of a frame is the line number itself (-1: unknown).
 * - No frame is marked GW_FRAME_ENTRY.
 *
 * If a process hangs, the stacks of its threads are read from outside. Their ids are separate, too: sites start at
 * GW_SITE_OUTSIDE_FIRST, codes at GW_SITE_OUTSIDE_CODE_FIRST. Otherwise they are like the hook's. */
#ifndef GW_SITE_H
#define GW_SITE_H

#include <stdint.h>

/* A frame is one of:
 * - native: the return address (user-space addresses fit in 48 bits)
 * - Python: GW_FRAME_PYTHON, optionally GW_FRAME_ENTRY, the code id, and the offset of the instruction in the code, in
 *   bytes (-1, all ones: unknown) */
#define GW_FRAME_PYTHON             (1ull << 63)
#define GW_FRAME_ENTRY              (1ull << 62) /* the interpreter's evaluation loop was called to run this frame */
#define GW_FRAME_CODE(frame)        ((uint32_t)(((frame) >> 32) & 0x3fffffff))
#define GW_FRAME_INSTRUCTION(frame) ((int32_t)(uint32_t)(frame))
#define GW_FRAME_OF_CODE(code, at)  (GW_FRAME_PYTHON | (uint64_t)(code) << 32 | (uint32_t)(int32_t)(at))

#define GW_SITE_FRAMEWORK_FIRST      UINT32_C(0x80000000)
#define GW_SITE_FRAMEWORK_CODE_FIRST UINT32_C(0x20000000)
#define GW_SITE_OUTSIDE_FIRST        UINT32_C(0xC0000000)
#define GW_SITE_OUTSIDE_CODE_FIRST   UINT32_C(0x30000000)

enum { GW_SITE_FRAMES_MAX = 192, GW_SITE_NATIVE_MAX = 96, GW_SITE_PYTHON_MAX = 96 };

#define GW_PYTHON_TABLE_NOT_KEPT UINT32_MAX

/* X(name, value, text for the user) */
#define GW_SITE_FLAGS(X)                                                                                               \
    X(NATIVE_CUT, 1, "the native stack is too deep to be recorded in full")                                            \
    X(NATIVE_LOST, 2, "the native stack could not be unwound to its end")                                              \
    X(PYTHON_CUT, 4, "the Python stack is too deep to be recorded in full")                                            \
    X(PYTHON_UNKNOWN, 8, "the frames of a Python interpreter could not be read")                                       \
    X(PYTHON_BORROWED, 16, "this thread runs no Python: the frames are the last ones seen on the main thread")

typedef enum gw_site_flag {
#define GW_X(name, value, text) GW_SITE_##name = value,
    GW_SITE_FLAGS(GW_X)
#undef GW_X
} gw_site_flag;

/* The result of looking up the name of a native address, as stored in SYMBOL items. Values never change. X(name, value,
 * text for the user about the file that contains the address) */
#define GW_SYMBOL_STATES(X)                                                                                            \
    X(NOT_ASKED, 0, "was not examined")                                                                                \
    X(LINE, 1, "has line information")                                                                                 \
    X(FUNCTION, 2, "has no line information there")                                                                    \
    X(NONE, 3, "has no symbol there")                                                                                  \
    X(MISSING, 4, "no longer exists")                                                                                  \
    X(CHANGED, 5, "differs from the file that ran")                                                                    \
    X(DAMAGED, 6, "cannot be read")                                                                                    \
    X(UNSUPPORTED, 7, "was not read: gpuwhy was built without elfutils")                                               \
    X(LATE, 8, "took too long to read")

typedef enum gw_symbol_state {
#define GW_X(name, value, text) GW_SYMBOL_##name = value,
    GW_SYMBOL_STATES(GW_X)
#undef GW_X
        GW_SYMBOL_STATE_COUNT
} gw_symbol_state;

/* One function at a native address. If an address has several functions, each was inlined into the next one. */
typedef struct gw_symbol_frame {
    const char *function; /* demangled, without parameters; NULL: unknown */
    const char *file;     /* source file; NULL: unknown */
    uint32_t line;        /* 0: unknown */
    uint32_t column;      /* where the call begins in the line, in bytes from 1; 0: unknown */
} gw_symbol_frame;
enum { GW_SYMBOL_FRAMES_MAX = 64 };

#endif
