/* Walks along the frames of one Python thread, innermost first. The hook reads its own process with it, other readers
 * another process or copied memory.
 *
 * A reader supplies functions that read memory and receive frames. All functions here are inlined. If the reader is a
 * constant, the compiler generates no indirect calls. */
#ifndef GW_PYTHON_WALK_H
#define GW_PYTHON_WALK_H

#include "gw_python_layout.h"

#include <string.h>

typedef struct gw_python_found {
    uintptr_t code; /* address of the code object; the address is plausible, but the object's type was not checked */
    int32_t instruction; /* offset from the start of the code, in bytes; -1: unknown */
    bool is_entry; /* the frame is marked as the first one of an evaluation loop; always false since 3.12, where enter()
                      reports these frames instead */
} gw_python_found;

typedef struct gw_python_reader {
    /* Prepare to read `bytes` bytes of a frame. Returns false if they cannot be read. */
    bool (*open)(void *user, uintptr_t frame, size_t bytes);
    /* Copy `bytes` bytes at address `at`, which is inside the frame that was opened last. */
    void (*fetch)(void *user, uintptr_t at, void *out, size_t bytes);
    /* Receive frame number `index`, counted from 0. Returns false if this is not a frame; the walk then stops. */
    bool (*take)(void *user, size_t index, const gw_python_found *found);
    /* Called if frame number `index`, which take() has received, is the first one of an evaluation loop. */
    void (*enter)(void *user, size_t index);
} gw_python_reader;

/* Return the size of the part of a frame that is read, in bytes. */
static inline size_t gw_python_frame_bytes(const gw_python_layout *layout)
{
    uint16_t last = layout->frame_code;
    last = layout->frame_previous > last ? layout->frame_previous : last;
    last = layout->frame_instruction > last ? layout->frame_instruction : last;
    last = layout->frame_mark > last ? layout->frame_mark : last;
    return last + sizeof(uintptr_t);
}

#define GW_PYTHON_INLINE static inline __attribute__((always_inline))

/* Return the word at address `at`, which is inside the frame that was opened last. */
GW_PYTHON_INLINE uintptr_t gw_python_field(const gw_python_reader *reader, void *user, uintptr_t at)
{
    uintptr_t word = 0;
    reader->fetch(user, at, &word, sizeof word);
    return word;
}

/* Return the offset of a frame's current instruction from its first instruction, in bytes. Returns -1 if unknown. */
GW_PYTHON_INLINE int32_t gw_python_instruction(const gw_python_reader *reader, void *user,
                                               const gw_python_layout *layout, uintptr_t frame, uintptr_t code)
{
    if (layout->instruction_bytes != 0) {
        int32_t last = -1;
        reader->fetch(user, frame + layout->frame_instruction, &last, sizeof last);
        return last < 0 || last > INT32_MAX / 2 ? -1 : last * layout->instruction_bytes;
    }
    uintptr_t bytes = gw_python_field(reader, user, frame + layout->frame_instruction) - code - layout->code_start;
    return bytes < INT32_MAX
               ? (int32_t)bytes
               : -1; /* before the first instruction, `bytes` wraps around: the frame is not complete yet */
}

/* Read at most `max` frames, starting at `frame`. *ret_cut becomes true if there are more. Returns false if the memory
 * does not look like frames, or if take() or open() returned false. */
GW_PYTHON_INLINE bool gw_python_walk(const gw_python_layout *layout, uintptr_t frame, const gw_python_reader *reader,
                                     void *user, size_t max, size_t *ret_count, bool *ret_cut)
{
    enum { STEPS_MAX = 1024 }; /* maximum number of frames and shims of one thread */
    size_t count = 0;
    for (unsigned steps = 0; frame != 0; steps++) {
        uint8_t mark = 1;
        if (!gw_python_plausible(frame) || steps == STEPS_MAX ||
            !reader->open(user, frame, gw_python_frame_bytes(layout)))
            return false;
        if (layout->entry != GW_PYTHON_ENTRY_ALL)
            reader->fetch(user, frame + layout->frame_mark, &mark, sizeof mark);
        if (layout->entry == GW_PYTHON_ENTRY_SHIM && mark >= layout->shim_owner) {
            if (count != 0)
                reader->enter(user, count - 1);
        } else if (count == max) { /* checked only here, so that a shim after the last frame is still reported */
            *ret_cut = true;
            break;
        } else {
            /* In 3.14 the lowest bits of a reference are flags for reference counting. */
            uintptr_t code = gw_python_field(reader, user, frame + layout->frame_code) & ~(uintptr_t)7;
            if (!gw_python_plausible(code))
                return false;
            gw_python_found found = {code, gw_python_instruction(reader, user, layout, frame, code),
                                     layout->entry != GW_PYTHON_ENTRY_SHIM && mark != 0};
            if (!reader->take(user, count, &found))
                return false;
            count++;
        }
        frame = gw_python_field(reader, user, frame + layout->frame_previous);
    }
    *ret_count = count;
    return true;
}

#endif
