#include "gwi_python.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

enum { INTERPRETERS_MAX = 64, THREADS_MAX = 4096, MAIN_THREAD_ID = 1, STEPS_MAX = 1024 };

static _Atomic uint32_t main_site;
static _Atomic uintptr_t main_thread; /* of a child: the thread state of the thread that forked; 0: not a child */

/* ---- which thread state ---- */

/* Still there? Only of one that the program may unload. */
static bool is_loaded(const gwi_python_interpreter *py)
{
    uint8_t code[sizeof py->probe];
    if (py->stays)
        return true;
    int error = errno;
    bool there = gwi_python_read((uintptr_t)py->get_thread, code, sizeof code);
    errno = error;
    return there && memcmp(code, py->probe, sizeof code) == 0;
}

typedef enum presence {
    PRESENCE_NONE,    /* this thread has nothing to do with this interpreter */
    PRESENCE_UNKNOWN, /* it may, and cannot be read */
    PRESENCE_THREAD
} presence;

static bool has_frame(const gwi_python_layout *layout, uintptr_t thread)
{
    uintptr_t frame = 0;
    if (!gwi_python_read(thread + layout->thread_frame, &frame, sizeof frame))
        return true;
    return frame != 0 && layout->has_holder
               ? !gwi_python_read(frame + layout->holder_frame, &frame, sizeof frame) || frame != 0
               : frame != 0;
}

/* Before 3.12 a thread keeps its first thread state for this question, also while it runs a sub-interpreter under
 * another one. Other threads may change the lists meanwhile: they are read as memory that may go. */
static bool runs_subinterpreter(const gwi_python_interpreter *py, uintptr_t main)
{
    const gwi_python_layout *layout = &py->layout;
    uintptr_t interpreter = (uintptr_t)py->get_last_interpreter(), thread, ident;
    if (interpreter == main) /* the newest is the only one */
        return false;
    for (unsigned i = 0; i < INTERPRETERS_MAX && interpreter != 0; i++) {
        if (interpreter != main) {
            if (!gwi_python_read(interpreter + layout->interpreter_threads, &thread, sizeof thread))
                return true;
            for (unsigned t = 0; t < THREADS_MAX && thread != 0; t++) {
                if (!gwi_python_read(thread + layout->thread_ident, &ident, sizeof ident))
                    return true;
                if (has_frame(layout, thread))
                    return true;
                if (!gwi_python_read(thread + layout->thread_next, &thread, sizeof thread))
                    return true;
            }
        }
        if (!gwi_python_read(interpreter + layout->interpreter_next, &interpreter, sizeof interpreter))
            return true;
    }
    return false;
}

static presence thread_of(const gwi_python_interpreter *py, uintptr_t *ret_thread)
{
    if (!is_loaded(py))
        return PRESENCE_NONE;
    if (!py->is_readable)
        return PRESENCE_UNKNOWN;
    uintptr_t main = (uintptr_t)py->get_main_interpreter();
    if (main == 0) /* it has not begun, or is over */
        return PRESENCE_NONE;
    if (py->is_finalizing())
        return PRESENCE_UNKNOWN;
    uintptr_t thread = (uintptr_t)py->get_thread();
    *ret_thread = thread;
    if (thread == 0)
        return PRESENCE_NONE;
    if (!gwi_python_plausible(thread) || gwi_python_word(thread + py->layout.thread_interpreter) != main)
        return PRESENCE_UNKNOWN;
    if (py->layout.hides_subinterpreters) {
        int error = errno;
        bool hidden = runs_subinterpreter(py, main);
        errno = error;
        if (hidden)
            return PRESENCE_UNKNOWN;
    }
    return PRESENCE_THREAD;
}

/* The interpreter that this thread belongs to. Two copies of one library may be there, of which one lies idle or both
 * are the same to the program; two that both claim the thread are not understood. */
static presence find_thread(const gwi_python_interpreter **ret_py, uintptr_t *ret_thread)
{
    uint32_t count = atomic_load_explicit(&gwi_python_interpreter_count, memory_order_acquire);
    presence all = PRESENCE_NONE;
    *ret_thread = 0;
    for (uint32_t i = 0; i < count; i++) {
        uintptr_t thread = 0;
        presence one = thread_of(&gwi_python_interpreter_list[i], &thread);
        if (one == PRESENCE_UNKNOWN || (one == PRESENCE_THREAD && all == PRESENCE_THREAD && thread != *ret_thread))
            return PRESENCE_UNKNOWN;
        if (one == PRESENCE_THREAD && all == PRESENCE_NONE) {
            all = PRESENCE_THREAD;
            *ret_py = &gwi_python_interpreter_list[i];
            *ret_thread = thread;
        }
    }
    return all;
}

/* ---- frames ---- */

static int32_t instruction_of(const gwi_python_layout *layout, uintptr_t frame, uintptr_t code)
{
    if (layout->instruction_bytes != 0) {
        int32_t last = *(const volatile int32_t *)(frame + layout->frame_instruction);
        return last < 0 ? -1 : last * layout->instruction_bytes;
    }
    uintptr_t bytes = gwi_python_word(frame + layout->frame_instruction) - code - layout->code_start;
    return bytes < INT32_MAX ? (int32_t)bytes : -1; /* before the first: the frame is still being made */
}

/* False: what is there does not look like frames. */
static bool read_frames(const gwi_python_interpreter *py, uintptr_t frame, gwi_python_frame *out, size_t max,
                        size_t *ret_count, bool *ret_cut)
{
    const gwi_python_layout *layout = &py->layout;
    size_t count = 0;
    for (unsigned steps = 0; frame != 0; steps++) {
        if (!gwi_python_plausible(frame) || steps == STEPS_MAX)
            return false;
        uint8_t mark =
            layout->entry != GWI_PYTHON_ENTRY_ALL ? *(const volatile uint8_t *)(frame + layout->frame_mark) : 1;
        if (layout->entry == GWI_PYTHON_ENTRY_SHIM && mark >= layout->shim_owner) {
            if (count != 0)
                out[count - 1].is_entry = true;
            frame = gwi_python_word(frame + layout->frame_previous);
            continue;
        }
        if (count == max) { /* a shim right behind the last one was still seen */
            *ret_cut = true;
            break;
        }
        /* The lowest bits of 3.14's references say who counts them. */
        uintptr_t code = gwi_python_word(frame + layout->frame_code) & ~(uintptr_t)7;
        if (!gwi_python_plausible(code) || gwi_python_word(code + GWI_PYTHON_OB_TYPE) != py->code_type)
            return false;
        out[count++] = (gwi_python_frame){.code = code,
                                          .instruction = instruction_of(layout, frame, code),
                                          .is_entry = layout->entry != GWI_PYTHON_ENTRY_SHIM && mark != 0};
        frame = gwi_python_word(frame + layout->frame_previous);
    }
    *ret_count = count;
    return true;
}

static uintptr_t top_frame(const gwi_python_layout *layout, uintptr_t thread)
{
    uintptr_t at = gwi_python_word(thread + layout->thread_frame);
    if (!layout->has_holder || !gwi_python_plausible(at))
        return at;
    return gwi_python_word(at + layout->holder_frame);
}

size_t gwi_python_frames(gwi_python_frame *out, size_t max, unsigned *ret_flags, bool *ret_is_main)
{
    const gwi_python_interpreter *py = NULL;
    uintptr_t thread;
    size_t count = 0;
    bool cut = false;
    *ret_flags = 0;
    *ret_is_main = false;
    if (atomic_load_explicit(&gwi_python_interpreter_count, memory_order_relaxed) == 0)
        return 0;
    presence here = find_thread(&py, &thread);
    if (here == PRESENCE_THREAD) {
        *ret_is_main = gwi_python_word(thread + py->layout.thread_id) == MAIN_THREAD_ID ||
                       thread == atomic_load_explicit(&main_thread, memory_order_relaxed);
        if (!read_frames(py, top_frame(&py->layout, thread), out, max, &count, &cut))
            here = PRESENCE_UNKNOWN;
    }
    if (here == PRESENCE_UNKNOWN) {
        *ret_flags = GW_SITE_PYTHON_UNKNOWN;
        return 0;
    }
    if (cut)
        *ret_flags = GW_SITE_PYTHON_CUT;
    else if (count == 0 && !*ret_is_main && gwi_python_borrowed_site() != 0)
        *ret_flags = GW_SITE_PYTHON_BORROWED;
    return count;
}

/* ---- threads without Python, children ---- */

void gwi_python_main_site(uint32_t site)
{
    atomic_store_explicit(&main_site, site, memory_order_relaxed);
}

uint32_t gwi_python_borrowed_site(void)
{
    return atomic_load_explicit(&main_site, memory_order_relaxed);
}

void gwi_python_forked(void)
{
    const gwi_python_interpreter *py = NULL;
    uintptr_t thread;
    atomic_store_explicit(&main_site, 0, memory_order_relaxed);
    if (find_thread(&py, &thread) == PRESENCE_THREAD) /* whoever forks is the main thread of the child */
        atomic_store_explicit(&main_thread, thread, memory_order_relaxed);
    gwi_python_code_forked();
}
