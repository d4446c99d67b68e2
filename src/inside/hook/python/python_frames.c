/* Reads the calling thread's Python frames without the interpreter's lock. For each frame, it computes a mark that
 * identifies the code. */
#include "gw_python_versions.h"
#include "gw_python_walk.h"
#include "gwi_hook.h"
#include "gwi_python.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

enum { INTERPRETERS_MAX = 64, THREADS_MAX = 4096, MAIN_THREAD_ID = 1 };

static _Atomic uint32_t main_site;
/* The thread state of the thread that forked this process. 0: this process is not a forked child, or that thread did
 * not run Python. */
static _Atomic uintptr_t main_thread;

/* ---- finding the thread state ---- */

/* True if the interpreter is still loaded. If the program may unload it, compare its code with the bytes stored when it
 * was found. */
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
    PRESENCE_NONE,    /* this thread does not run this interpreter */
    PRESENCE_UNKNOWN, /* this thread may run it, but its frames cannot be read */
    PRESENCE_THREAD
} presence;

static bool has_frame(const gw_python_layout *layout, uintptr_t thread)
{
    uintptr_t frame = 0;
    if (!gwi_python_read(thread + layout->thread_frame, &frame, sizeof frame))
        return true;
    return frame != 0 && layout->has_holder
               ? !gwi_python_read(frame + layout->holder_frame, &frame, sizeof frame) || frame != 0
               : frame != 0;
}

/* True if this thread may run a sub-interpreter: some thread has a frame in one, or the lists cannot be read. Before
 * 3.12, PyGILState_GetThisThreadState() does not show this, because it returns a thread's first state.
 * Other threads may change the lists, but gwi_python_read() does not crash on freed memory. */
static bool runs_subinterpreter(const gwi_python_interpreter *py, uintptr_t main)
{
    const gw_python_layout *layout = &py->layout;
    uintptr_t interpreter = (uintptr_t)py->get_last_interpreter(), thread, ident;
    if (interpreter == main) /* the newest interpreter is the main one, so there is no other */
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

/* Return the number of bytes, from the start of a thread state, that the hook reads. */
static size_t thread_bytes(const gw_python_layout *layout)
{
    uint16_t last = layout->thread_stack == 0 ? layout->thread_id : layout->thread_stack + sizeof(uintptr_t);
    return last + sizeof(uintptr_t);
}

static presence thread_of(const gwi_python_interpreter *py, bool is_only, gwi_python_memory **memory,
                          uintptr_t *ret_thread)
{
    if (!is_loaded(py))
        return PRESENCE_NONE;
    if (!py->is_readable)
        return PRESENCE_UNKNOWN;
    uintptr_t main = (uintptr_t)py->get_main_interpreter();
    if (main == 0) /* Python is not initialised yet, or already finalised */
        return PRESENCE_NONE;
    if (py->is_finalizing())
        return PRESENCE_UNKNOWN;
    /* Read the lock holder before the thread state. If both are the same, this thread still holds the lock, so the
     * interpreter cannot shut down. In the other order, the state could be freed in between, and another thread could
     * get one at the same address. */
    uintptr_t holder = *memory == NULL || py->get_lock_holder == NULL ? 0 : (uintptr_t)py->get_lock_holder();
    uintptr_t thread = (uintptr_t)py->get_thread();
    *ret_thread = thread;
    if (thread == 0)
        return PRESENCE_NONE;
    uintptr_t interpreter = 0, at = thread + py->layout.thread_interpreter;
    if (!gw_python_plausible(thread))
        return PRESENCE_UNKNOWN;
    /* With two copies of Python, a function of one may return data of the other, with another layout. So read without
     * the risk of a fault. */
    if (!is_only) {
        int error = errno;
        (void)gwi_python_read(at, &interpreter, sizeof interpreter);
        errno = error;
    } else {
        if (*memory != NULL && holder == thread) {
            (*memory)->has_lock = true;
            *memory = NULL;
        }
        if (*memory != NULL)
            gwi_python_want(*memory, thread, thread_bytes(&py->layout));
        interpreter = gwi_python_word(*memory, at);
    }
    if (interpreter != main)
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

/* Find the interpreter that runs this thread. PRESENCE_UNKNOWN if two copies of the Python library report different
 * thread states. Usually one is idle, or both use the same data. */
static presence find_thread(gwi_python_memory **memory, const gwi_python_interpreter **ret_py, uintptr_t *ret_thread)
{
    uint32_t count = atomic_load_explicit(&gwi_python_interpreter_count, memory_order_acquire);
    presence all = PRESENCE_NONE;
    *ret_thread = 0;
    for (uint32_t i = 0; i < count; i++) {
        uintptr_t thread = 0;
        presence one = thread_of(&gwi_python_interpreter_list[i], count == 1, memory, &thread);
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

/* ---- marks ---- */

enum { TEXT_COMPACT_ASCII = 3 << 5 };
#define IMPLAUSIBLE_BITS (UINT64_C(7) | ~UINT64_C(0) << GW_PYTHON_ADDRESS_BITS)

static inline __attribute__((always_inline)) uint64_t eight_bytes(gwi_python_memory *memory, uintptr_t at)
{
    uint64_t value;
    gwi_python_fetch(memory, at, &value, sizeof value);
    return value;
}

/* Return a mark (hash) of a file name, computed from its length and, if it is ASCII, its last eight bytes. */
static inline __attribute__((always_inline)) uint64_t file_mark(gwi_python_memory *memory,
                                                                const gw_python_layout *layout, uintptr_t object)
{
    uint32_t state = gwi_python_half(memory, object + GW_PYTHON_TEXT_STATE);
    uint64_t count = gwi_python_word(memory, object + GW_PYTHON_OB_SIZE), tail = 0;
    if ((state & TEXT_COMPACT_ASCII) == TEXT_COMPACT_ASCII && count >= sizeof tail)
        tail = eight_bytes(memory, object + layout->ascii_bytes + count - sizeof tail);
    return tail ^ count << 56;
}

/* Return a mark (hash) of a line table, computed from its length and its first and last eight bytes. */
static inline __attribute__((always_inline)) uint64_t table_mark(gwi_python_memory *memory, uintptr_t object)
{
    uint64_t count = gwi_python_word(memory, object + GW_PYTHON_OB_SIZE), head = 0;
    uintptr_t data = object + GW_PYTHON_BYTES_DATA;
    if (count >= sizeof head)
        return (eight_bytes(memory, data) + count) * UINT64_C(0xD6E8FEB86659FD93) ^
               eight_bytes(memory, data + count - sizeof head);
    gwi_python_fetch(memory, data, &head, count);
    return head ^ count << 56;
}

/* Return a mark (hash) of a code object, which changes if other code is placed at the same address.
 * - From 3.12: from the code object's version number, unless the interpreter ran out of numbers.
 * - Otherwise: from the contents of the name, the file and the line table. Their addresses may be reused, too.
 *
 * The interpreter rewrites the instructions while they run, so they are not used. The type was checked before, so all
 * reads are valid. The products are added, not chained, so that the processor computes them in parallel. */
static inline __attribute__((always_inline)) uint64_t mark_of(gwi_python_memory *memory, const gw_python_layout *layout,
                                                              uintptr_t code, uintptr_t *last_file,
                                                              uint64_t *last_file_mark)
{
    uint64_t first_line = gwi_python_half(memory, code + layout->code_first_line);
    uintptr_t table = gwi_python_word(memory, code + layout->code_table);
    if (layout->code_version != 0) {
        uint32_t version = gwi_python_half(memory, code + layout->code_version);
        if (version != 0) /* 0: the interpreter has no version numbers left */
            return (first_line << 32 | version) ^ table << 16;
    }
    uintptr_t name = gwi_python_word(memory, code + layout->code_name),
              file = gwi_python_word(memory, code + layout->code_file);
    if (((table | name | file) & IMPLAUSIBLE_BITS) != 0 || table == 0 || name == 0 || file == 0)
        return first_line;
    if (file != *last_file) {
        *last_file = file;
        *last_file_mark = file_mark(memory, layout, file) ^ file;
    }
    return (first_line << 32 ^ table) * UINT64_C(0x9E3779B97F4A7C15) +
           table_mark(memory, table) * UINT64_C(0x94D049BB133111EB) +
           (name ^ gwi_python_word(memory, name + GW_PYTHON_TEXT_HASH)) * UINT64_C(0xFF51AFD7ED558CCD) +
           *last_file_mark * UINT64_C(0xC4CEB9FE1A85EC53);
}

/* ---- frames ---- */

/* State while frames are read in place, without a copy. */
typedef struct in_place {
    const gw_python_layout *layout;
    uintptr_t code_type, last_file;
    uint64_t last_file_mark;
    gwi_python_frame *out;
} in_place;

static inline bool open_in_place(void *user, uintptr_t frame, size_t bytes)
{
    (void)user, (void)frame, (void)bytes;
    return true;
}

static inline void fetch_in_place(void *user, uintptr_t at, void *out, size_t bytes)
{
    (void)user;
    memcpy(out, (const void *)at, bytes);
}

static inline bool take_in_place(void *user, size_t index, const gw_python_found *found)
{
    in_place *it = user;
    if (gwi_python_word(NULL, found->code + GW_PYTHON_OB_TYPE) != it->code_type)
        return false;
    it->out[index] =
        (gwi_python_frame){.code = found->code,
                           .mark = mark_of(NULL, it->layout, found->code, &it->last_file, &it->last_file_mark),
                           .instruction = found->instruction,
                           .is_entry = found->is_entry};
    return true;
}

static inline void enter_in_place(void *user, size_t index)
{
    in_place *it = user;
    it->out[index].is_entry = true;
}

static const gw_python_reader reader_in_place = {open_in_place, fetch_in_place, take_in_place, enter_in_place};

/* Read frames directly from memory, without a copy. Returns false if the memory does not contain valid frames. */
static inline __attribute__((always_inline)) bool read_by(const gw_python_layout *layout, uintptr_t code_type,
                                                          uintptr_t frame, gwi_python_frame *out, size_t max,
                                                          size_t *ret_count, bool *ret_cut)
{
    in_place it = {.layout = layout, .code_type = code_type, .out = out};
    return gw_python_walk(layout, frame, &reader_in_place, &it, max, ret_count, ret_cut);
}

/* Each row of the layout table has its own case, so that the compiler generates a loop with constant offsets for it. */
static bool read_frames(const gwi_python_interpreter *py, uintptr_t frame, gwi_python_frame *out, size_t max,
                        size_t *ret_count, bool *ret_cut)
{
    uintptr_t type = py->code_type;
    _Static_assert(GW_PYTHON_ROWS == 6, "a case for each row");
    switch (py->row) {
    case 0:
        return read_by(&gw_python_rows[0], type, frame, out, max, ret_count, ret_cut);
    case 1:
        return read_by(&gw_python_rows[1], type, frame, out, max, ret_count, ret_cut);
    case 2:
        return read_by(&gw_python_rows[2], type, frame, out, max, ret_count, ret_cut);
    case 3:
        return read_by(&gw_python_rows[3], type, frame, out, max, ret_count, ret_cut);
    case 4:
        return read_by(&gw_python_rows[4], type, frame, out, max, ret_count, ret_cut);
    case 5:
        return read_by(&gw_python_rows[5], type, frame, out, max, ret_count, ret_cut);
    default:
        return read_by(&py->layout, type, frame, out, max, ret_count, ret_cut);
    }
}

static uintptr_t top_frame(gwi_python_memory *memory, const gw_python_layout *layout, uintptr_t thread)
{
    uintptr_t at = gwi_python_word(memory, thread + layout->thread_frame);
    if (!layout->has_holder || !gw_python_plausible(at))
        return at;
    return gwi_python_word(memory, at + layout->holder_frame);
}

/* ---- frames in memory that may be freed: request everything in as few steps as possible ---- */

enum { STACK_BYTES_AHEAD = 8 << 10 }; /* about fifty frames; further frames are requested one by one */

/* Request the most recently used STACK_BYTES_AHEAD bytes of the frame stack, in versions of Python that have one. */
static void want_stack(gwi_python_memory *memory, const gw_python_layout *layout, uintptr_t thread)
{
    uintptr_t holder = gwi_python_word(memory, thread + layout->thread_frame);
    if (layout->has_holder && gw_python_plausible(holder))
        gwi_python_want(memory, holder + layout->holder_frame, sizeof(uintptr_t));
    if (layout->thread_stack == 0)
        return;
    uintptr_t begin = gwi_python_word(memory, thread + layout->thread_stack);
    uintptr_t end = gwi_python_word(memory, thread + layout->thread_stack + sizeof(uintptr_t));
    if (!gw_python_plausible(begin) || !gw_python_plausible(end) || begin >= end)
        return;
    size_t bytes = end - begin < STACK_BYTES_AHEAD ? end - begin : STACK_BYTES_AHEAD;
    gwi_python_want(memory, end - bytes, bytes);
}

/* Request the part of a code object that mark_of() reads. */
static void want_code(gwi_python_memory *memory, const gw_python_layout *layout, uintptr_t code)
{
    gwi_python_want(memory, code + GW_PYTHON_OB_TYPE, layout->code_table + sizeof(uintptr_t) - GW_PYTHON_OB_TYPE);
}

/* Request what mark_of() reads without a version number. The sizes suffice for most file names and line tables. Longer
 * ones are copied later. */
static void want_parts(gwi_python_memory *memory, const gw_python_layout *layout, uintptr_t code, uintptr_t *last_file)
{
    enum { FILE_BYTES = 192, TABLE_BYTES = 256 };
    uintptr_t table = gwi_python_word(memory, code + layout->code_table),
              name = gwi_python_word(memory, code + layout->code_name),
              file = gwi_python_word(memory, code + layout->code_file);
    if (((table | name | file) & IMPLAUSIBLE_BITS) != 0 || table == 0 || name == 0 || file == 0)
        return;
    gwi_python_want(memory, name + GW_PYTHON_TEXT_HASH, sizeof(uint64_t));
    gwi_python_want_about(memory, table + GW_PYTHON_OB_SIZE, TABLE_BYTES);
    if (file != *last_file)
        gwi_python_want_about(memory, file + GW_PYTHON_OB_SIZE, FILE_BYTES);
    *last_file = file;
}

/* State while frames are copied. copy_marks() computes the marks of the frames later. */
typedef struct by_copy {
    gwi_python_memory *memory;
    const gw_python_layout *layout;
    gwi_python_frame *out;
} by_copy;

static bool open_copy(void *user, uintptr_t frame, size_t bytes)
{
    by_copy *it = user;
    gwi_python_want(it->memory, frame, bytes);
    return !it->memory->failed;
}

static void fetch_copy(void *user, uintptr_t at, void *out, size_t bytes)
{
    by_copy *it = user;
    gwi_python_fetch(it->memory, at, out, bytes);
}

static bool take_copy(void *user, size_t index, const gw_python_found *found)
{
    by_copy *it = user;
    it->out[index] =
        (gwi_python_frame){.code = found->code, .instruction = found->instruction, .is_entry = found->is_entry};
    want_code(it->memory, it->layout, found->code);
    return true;
}

static void enter_copy(void *user, size_t index)
{
    by_copy *it = user;
    it->out[index].is_entry = true;
}

static const gw_python_reader reader_by_copy = {open_copy, fetch_copy, take_copy, enter_copy};

static bool copy_frames(gwi_python_memory *memory, const gw_python_layout *layout, uintptr_t frame,
                        gwi_python_frame *out, size_t max, size_t *ret_count, bool *ret_cut)
{
    by_copy it = {memory, layout, out};
    return gw_python_walk(layout, frame, &reader_by_copy, &it, max, ret_count, ret_cut);
}

static bool copy_marks(gwi_python_memory *memory, const gw_python_layout *layout, uintptr_t code_type,
                       gwi_python_frame *frame, size_t count)
{
    uintptr_t last_file = 0;
    uint64_t last_file_mark = 0;
    for (size_t i = 0; i < count && !memory->failed; i++)
        if (layout->code_version == 0 || gwi_python_half(memory, frame[i].code + layout->code_version) == 0)
            want_parts(memory, layout, frame[i].code, &last_file);
    last_file = 0;
    for (size_t i = 0; i < count && !memory->failed; i++) {
        if (gwi_python_word(memory, frame[i].code + GW_PYTHON_OB_TYPE) != code_type)
            return false;
        frame[i].mark = mark_of(memory, layout, frame[i].code, &last_file, &last_file_mark);
    }
    return !memory->failed;
}

static bool read_frames_that_may_go(gwi_python_memory *memory, const gwi_python_interpreter *py, uintptr_t thread,
                                    gwi_python_frame *out, size_t max, size_t *ret_count, bool *ret_cut)
{
    want_stack(memory, &py->layout, thread);
    return copy_frames(memory, &py->layout, top_frame(memory, &py->layout, thread), out, max, ret_count, ret_cut) &&
           copy_marks(memory, &py->layout, py->code_type, out, *ret_count);
}

/* Read the frames of this thread. Returns PRESENCE_THREAD if they were read, even if the thread has no frames. */
static presence look_at_thread(gwi_python_memory *memory, gwi_python_frame *out, size_t max, size_t *ret_count,
                               bool *ret_cut, bool *ret_is_main)
{
    const gwi_python_interpreter *py = NULL;
    uintptr_t thread;
    presence here = find_thread(&memory, &py, &thread);
    if (here != PRESENCE_THREAD)
        return here;
    *ret_is_main = gwi_python_word(memory, thread + py->layout.thread_id) == MAIN_THREAD_ID ||
                   thread == atomic_load_explicit(&main_thread, memory_order_relaxed);
    if (memory == NULL)
        return read_frames(py, top_frame(NULL, &py->layout, thread), out, max, ret_count, ret_cut) ? here
                                                                                                   : PRESENCE_UNKNOWN;
    bool good = read_frames_that_may_go(memory, py, thread, out, max, ret_count, ret_cut);
    return good && gwi_python_memory_held(memory, py) && (uintptr_t)py->get_thread() == thread ? here
                                                                                               : PRESENCE_UNKNOWN;
}

static GWI_COLD presence look_at_other_thread(gwi_python_memory *memory, gwi_python_frame *out, size_t max,
                                              size_t *ret_count, bool *ret_cut, bool *ret_is_main)
{
    int error = errno;
    presence here = look_at_thread(memory, out, max, ret_count, ret_cut, ret_is_main);
    errno = error;
    return here;
}

size_t gwi_python_frames(gwi_python_frame *out, size_t max, gwi_python_memory *memory, unsigned *ret_flags,
                         bool *ret_is_main)
{
    size_t count = 0;
    bool cut = false;
    *ret_flags = 0;
    *ret_is_main = false;
    if (atomic_load_explicit(&gwi_python_interpreter_count, memory_order_relaxed) == 0)
        return 0;
    presence here = memory == NULL ? look_at_thread(NULL, out, max, &count, &cut, ret_is_main)
                                   : look_at_other_thread(memory, out, max, &count, &cut, ret_is_main);
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
    gwi_python_memory *memory = NULL;
    /* The thread that forks becomes the main thread of the child. */
    if (find_thread(&memory, &py, &thread) == PRESENCE_THREAD)
        atomic_store_explicit(&main_thread, thread, memory_order_relaxed);
    gwi_python_code_forked();
}
