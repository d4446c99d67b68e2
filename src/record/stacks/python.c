/* Reads Python frames from another process's memory. It follows pointers from the symbol _PyRuntime to the
 * interpreters, thread states, frames and code objects. */
#include "gwi_stacks.h"

#include "gw_array.h"
#include "gw_event.h"
#include "gw_python_walk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    INTERPRETERS_MAX = 64, /* per copy of Python: the main interpreter and its sub-interpreters */
    CODES_MAX = 4096,
    TABLE_BYTES_MAX = 1 << 16, /* longer line tables are not stored */
    NAME_BYTES_MAX = 400,
    TEXT_CHARACTERS_MAX = 4096, /* longer than any path */
    TEXT_BYTES_MAX = GW_TEXT_BYTES_MAX
};

static bool read_at(const gwi_python *python, uint64_t at, void *out, size_t bytes)
{
    return python->read(python->user, at, out, bytes);
}

static bool read_word(const gwi_python *python, uint64_t at, uint64_t *ret_word)
{
    return read_at(python, at, ret_word, sizeof *ret_word);
}

/* Return the 8-byte field at offset `at` of a structure that was copied into `bytes`. */
static uint64_t word_in(const uint8_t *bytes, size_t at)
{
    uint64_t word;
    memcpy(&word, bytes + at, sizeof word);
    return word;
}

static int32_t number_in(const uint8_t *bytes, size_t at)
{
    int32_t number;
    memcpy(&number, bytes + at, sizeof number);
    return number;
}

static size_t furthest(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* ---- an interpreter ---- */

/* Return the Python version (0x030B for 3.11), 0 if unknown. Before 3.11, Python exports no version number: derive it
 * from the functions that exist. */
static unsigned version_of(const gwi_python *python, const gw_image *image, unsigned long *ret_hex)
{
    uint64_t at;
    *ret_hex = 0;
    if (gw_image_find(image, "Py_Version", &at))
        return read_at(python, at, ret_hex, sizeof *ret_hex) ? (unsigned)(*ret_hex >> 16) : 0;
    if (gw_image_find(image, "Py_NewRef", &at))
        return 0x030A;
    return gw_image_find(image, "PyThreadState_GetFrame", &at) ? 0x0309 : 0;
}

/* Return true if objects of the type have the size that our layout expects. In a Python build with other structures,
 * the size differs. */
static bool type_fits(const gwi_python *python, uint64_t type, uint16_t bytes)
{
    enum { TYPE_OBJECT_BYTES = 32 };
    uint64_t size;
    return read_word(python, type + TYPE_OBJECT_BYTES, &size) && size == bytes;
}

static bool fits(const gwi_python *python, const gw_image *image, gwi_interpreter *copy)
{
    uint64_t frame_type;
    unsigned long hex;
    uint64_t published[GW_PYTHON_PUBLISHED_WORDS];
    const gw_python_layout *row = gw_python_layout_of(version_of(python, image, &hex));
    if (row == NULL || !gw_image_find(image, "PyCode_Type", &copy->code_type) ||
        !gw_image_find(image, "PyUnicode_Type", &copy->unicode_type) ||
        !gw_image_find(image, "PyBytes_Type", &copy->bytes_type) ||
        !gw_image_find(image, "PyFrame_Type", &frame_type) || !type_fits(python, copy->code_type, row->code_bytes) ||
        !type_fits(python, frame_type, row->frame_bytes) || !type_fits(python, copy->unicode_type, row->unicode_bytes))
        return false;
    copy->layout = *row;
    bool publishes = row->version >= GW_PYTHON_PUBLISHED_SINCE;
    if (publishes && (!read_at(python, copy->runtime, published, sizeof published) ||
                      !gw_python_layout_publish(&copy->layout, published, hex)))
        return false;
    return gw_python_lists_of(&copy->layout, publishes ? published : NULL, &copy->lists);
}

static void miss(gwi_python *python, const char *why)
{
    python->incomplete = true;
    if (python->why[0] == '\0')
        snprintf(python->why, sizeof python->why, "%s", why);
}

void gwi_python_try(gwi_python *python, uint64_t base)
{
    gw_image image;
    gw_image_room room;
    gwi_interpreter copy = {0};
    if (!gw_image_open(&image, python->read, python->user, base, &room) ||
        !gw_image_find(&image, "_PyRuntime", &copy.runtime))
        return;
    if (!fits(python, &image, &copy))
        miss(python, "the memory layout of this version or build of Python is unknown");
    else if (python->copy_count == GWI_INTERPRETERS_MAX)
        miss(python, "the process has more copies of Python than gpuwhy reads");
    else
        python->copy[python->copy_count++] = copy;
}

/* ---- thread states ---- */

/* Return the kernel's thread id for a thread state, 0 if unknown:
 * - `native_id` is the id, but after a fork it may be the parent's.
 * - `ident` is the address of glibc's thread structure, which has the id. */
static uint32_t tid_of(const gwi_python *python, uint64_t ident, uint64_t native_id)
{
#if defined(__x86_64__)
    enum { GLIBC_TID = 720 };
#else
    enum { GLIBC_TID = 208 };
#endif
    uint32_t tid = 0;
    if (ident == 0)
        return 0; /* the thread has not started, or has ended */
    if (gw_python_plausible(ident) && read_at(python, ident + GLIBC_TID, &tid, sizeof tid) && tid != 0 &&
        (native_id == tid || native_id == 0))
        return tid;
    return native_id <= UINT32_MAX && native_id != 0 ? (uint32_t)native_id : tid;
}

/* The fields of a thread state that are needed here. */
typedef struct state_fields {
    uint64_t next, interpreter, frame;
    uint32_t tid;
} state_fields;

static bool read_state(const gwi_python *python, const gwi_interpreter *copy, uint64_t address, state_fields *ret)
{
    uint8_t bytes[1024];
    const gw_python_layout *layout = &copy->layout;
    const gw_python_lists *lists = &copy->lists;
    size_t end = furthest(furthest(layout->thread_interpreter, layout->thread_frame),
                          furthest(furthest(layout->thread_ident, lists->thread_next), lists->thread_native_id)) +
                 8;
    if (!gw_python_plausible(address) || end > sizeof bytes || !read_at(python, address, bytes, end))
        return false;
    ret->next = word_in(bytes, lists->thread_next);
    ret->interpreter = word_in(bytes, layout->thread_interpreter);
    ret->frame = word_in(bytes, layout->thread_frame);
    ret->tid = tid_of(python, word_in(bytes, layout->thread_ident),
                      lists->thread_native_id == 0 ? 0 : word_in(bytes, lists->thread_native_id));
    return true;
}

/* Return true if there is an interpreter at this address, that is, if its first thread state points back to it. */
static bool is_interpreter(const gwi_python *python, const gwi_interpreter *copy, uint64_t address)
{
    uint64_t thread, interpreter;
    return gw_python_plausible(address) && read_word(python, address + copy->lists.interpreter_threads, &thread) &&
           gw_python_plausible(thread) && read_word(python, thread + copy->layout.thread_interpreter, &interpreter) &&
           interpreter == address;
}

/* Find the newest interpreter, which links to the older ones. *ret_interpreter is 0 if Python is not initialised or has
 * been finalised. Returns false if it is not found.
 *
 * Some versions of Python do not publish where this pointer is. For these, search the start of _PyRuntime for two
 * adjacent pointers, to the newest and to the main interpreter. Both may be the same. */
static bool first_interpreter(const gwi_python *python, const gwi_interpreter *copy, uint64_t *ret_interpreter)
{
    enum { WORDS = 16 };
    uint64_t word[WORDS], at = copy->lists.runtime_interpreters;
    *ret_interpreter = 0;
    if (at != 0)
        return read_word(python, copy->runtime + at, ret_interpreter) &&
               (*ret_interpreter == 0 || is_interpreter(python, copy, *ret_interpreter));
    if (!read_at(python, copy->runtime, word, sizeof word))
        return false;
    for (size_t i = 0; i + 1 < WORDS; i++) {
        if (is_interpreter(python, copy, word[i]) && is_interpreter(python, copy, word[i + 1])) {
            *ret_interpreter = word[i];
            return true;
        }
    }
    return word[0] == 0 && word[1] == 0; /* true if Python is not initialised yet */
}

/* Read the list of an interpreter's threads. Returns false if the list changed during the read or is too long. */
static bool list_threads(gwi_python *python, size_t index, uint64_t interpreter)
{
    const gwi_interpreter *copy = &python->copy[index];
    uint64_t thread;
    if (!read_word(python, interpreter + copy->lists.interpreter_threads, &thread))
        return false;
    while (thread != 0) {
        state_fields fields;
        if (python->state_count == GWI_STATES_MAX || !read_state(python, copy, thread, &fields) ||
            fields.interpreter != interpreter)
            return false;
        python->state[python->state_count++] = (gwi_state){thread, interpreter, fields.tid, (uint8_t)index};
        thread = fields.next;
    }
    return true;
}

static bool list_copy(gwi_python *python, size_t index)
{
    const gwi_interpreter *copy = &python->copy[index];
    uint64_t interpreter;
    if (!first_interpreter(python, copy, &interpreter))
        return false;
    for (unsigned i = 0; i < INTERPRETERS_MAX && interpreter != 0; i++) {
        if (!list_threads(python, index, interpreter) ||
            !read_word(python, interpreter + copy->lists.interpreter_next, &interpreter))
            return false;
    }
    return interpreter == 0;
}

void gwi_python_list(gwi_python *python)
{
    enum { TRIES = 3 }; /* the list may change while it is read, because threads start and end */
    python->state_count = 0;
    for (size_t i = 0; i < python->copy_count; i++) {
        size_t before = python->state_count;
        bool whole = false;
        for (int tries = 0; tries < TRIES && !whole; tries++) {
            python->state_count = before;
            whole = list_copy(python, i);
        }
        if (!whole)
            miss(python, "the list of Python's threads could not be read to its end");
    }
}

/* ---- code ---- */

/* Copy from a string that take_text() has already read from the process. */
static void fetch_own(void *user, uintptr_t at, void *out, size_t bytes)
{
    (void)user;
    memcpy(out, (const void *)at, bytes);
}

/* Append a Python string to `out` as one line. Returns the number of bytes, or 0 if this is not a string or it is too
 * long. */
static size_t take_text(const gwi_python *python, const gwi_interpreter *copy, uint64_t address, bool is_path,
                        char *out, size_t room)
{
    uint8_t head[GW_PYTHON_TEXT_STATE + 4];
    uint8_t data[TEXT_CHARACTERS_MAX];
    if (!gw_python_plausible(address) || !read_at(python, address, head, sizeof head) ||
        word_in(head, GW_PYTHON_OB_TYPE) != copy->unicode_type)
        return 0;
    uint32_t state = (uint32_t)number_in(head, GW_PYTHON_TEXT_STATE);
    gw_python_text text = {.data = (uintptr_t)data,
                           .count = word_in(head, GW_PYTHON_OB_SIZE),
                           .width = state >> 2 & 7,
                           .fetch = fetch_own};
    bool is_ascii = (state & GW_PYTHON_TEXT_ASCII) != 0;
    if ((state & GW_PYTHON_TEXT_COMPACT) == 0 || (text.width != 1 && text.width != 2 && text.width != 4) ||
        text.count > sizeof data / text.width ||
        !read_at(python, address + (is_ascii ? copy->layout.ascii_bytes : copy->layout.compact_bytes), data,
                 text.count * text.width))
        return 0;
    return is_path ? gw_python_text_put_end(&text, out, room) : gw_python_text_put(&text, 0, out, room);
}

/* Copy the line table of a code object. The caller owns the result. Returns NULL if the table is too long or cannot be
 * read. */
static uint8_t *take_table(const gwi_python *python, const gwi_interpreter *copy, uint64_t address, uint32_t *ret_bytes)
{
    uint8_t head[GW_PYTHON_OB_SIZE + 8];
    *ret_bytes = GW_PYTHON_TABLE_NOT_KEPT;
    if (!gw_python_plausible(address) || !read_at(python, address, head, sizeof head) ||
        word_in(head, GW_PYTHON_OB_TYPE) != copy->bytes_type)
        return NULL;
    uint64_t bytes = word_in(head, GW_PYTHON_OB_SIZE);
    uint8_t *table = bytes > TABLE_BYTES_MAX ? NULL : malloc(bytes + 1);
    if (table == NULL || !read_at(python, address + GW_PYTHON_BYTES_DATA, table, bytes)) {
        free(table);
        return NULL;
    }
    *ret_bytes = (uint32_t)bytes;
    return table;
}

static bool same_code(const gw_stack_code *a, const gw_stack_code *b)
{
    return a->address == b->address && a->first_line == b->first_line && a->table_bytes == b->table_bytes &&
           a->version == b->version && strcmp(a->text, b->text) == 0 &&
           (a->table == NULL || memcmp(a->table, b->table, a->table_bytes) == 0);
}

/* Return the index of a code object in the process's list. If no entry is equal, add one. All fields are compared,
 * because the address may be reused. Takes ownership of the members of `code`. Returns -1 if out of memory or if the
 * list is full. */
static int keep_code(gw_stack_process *process, gw_stack_code *code)
{
    size_t count = process->code_count;
    for (size_t i = 0; i < count; i++) {
        if (same_code(&process->code[i], code)) {
            free(code->text);
            free(code->table);
            return (int)i;
        }
    }
    if (count >= CODES_MAX || !gw_array_more(&process->code, count, sizeof *process->code)) {
        free(code->text);
        free(code->table);
        return -1;
    }
    process->code[count] = *code;
    return (int)process->code_count++;
}

static bool read_code(const gwi_python *python, const gwi_interpreter *copy, uint64_t address, gwi_code_fields *ret)
{
    const gw_python_layout *layout = &copy->layout;
    uint8_t bytes[1024];
    size_t end = furthest(furthest(layout->code_file, layout->code_name),
                          furthest(layout->code_table, layout->code_first_line)) +
                 8;
    if (!gw_python_plausible(address) || end > sizeof bytes || !read_at(python, address, bytes, end) ||
        word_in(bytes, GW_PYTHON_OB_TYPE) != copy->code_type)
        return false;
    *ret = (gwi_code_fields){.address = address,
                             .name = word_in(bytes, layout->code_name),
                             .file = word_in(bytes, layout->code_file),
                             .table = word_in(bytes, layout->code_table),
                             .first_line = number_in(bytes, layout->code_first_line)};
    return true;
}

static bool same_fields(const gwi_code_fields *a, const gwi_code_fields *b)
{
    return a->address == b->address && a->name == b->name && a->file == b->file && a->table == b->table &&
           a->first_line == b->first_line;
}

/* Read what a code object points to. If the object itself has changed since its fields were read, it was freed, and
 * its texts may be those of another: return -1. */
static int take_code(const gwi_python *python, const gwi_interpreter *copy, const gwi_code_fields *fields,
                     gw_stack_process *process)
{
    char text[TEXT_BYTES_MAX + 1];
    gwi_code_fields after;
    size_t used = take_text(python, copy, fields->name, false, text, NAME_BYTES_MAX);
    text[used++] = '\n';
    used += take_text(python, copy, fields->file, true, text + used, TEXT_BYTES_MAX - used);
    text[used] = '\0';
    gw_stack_code code = {
        .address = fields->address, .first_line = fields->first_line, .version = (uint16_t)copy->layout.version};
    code.table = take_table(python, copy, fields->table, &code.table_bytes);
    bool is_same = read_code(python, copy, fields->address, &after) && same_fields(fields, &after);
    code.text = is_same ? strdup(text) : NULL;
    if (code.text == NULL) {
        free(code.table);
        return -1;
    }
    return keep_code(process, &code);
}

/* ---- frames ---- */

/* State of copying the frames of one thread. */
typedef struct walk {
    const gwi_python *python;
    const gwi_interpreter *copy;
    gwi_python_stack *to;
    unsigned reads;
    uint64_t at; /* address of the frame in `bytes` */
    uint8_t bytes[1024];
} walk;

static bool open_frame(void *user, uintptr_t frame, size_t bytes)
{
    enum { READS_MAX = 2 * GW_SITE_PYTHON_MAX }; /* frames, and what stands between them */
    walk *it = user;
    it->at = frame;
    return it->reads++ < READS_MAX && bytes <= sizeof it->bytes && read_at(it->python, frame, it->bytes, bytes);
}

static void fetch_field(void *user, uintptr_t at, void *out, size_t bytes)
{
    walk *it = user;
    memcpy(out, it->bytes + (at - it->at), bytes);
}

/* Find the code object among those that were copied, or copy it. Returns -1 if it is none. */
static int copy_code(walk *it, uint64_t address)
{
    size_t at = 0;
    while (at < it->to->code_count && it->to->code[at].address != address)
        at++;
    if (at == it->to->code_count && !read_code(it->python, it->copy, address, &it->to->code[it->to->code_count++]))
        return -1;
    return (int)at;
}

static bool take_frame(void *user, size_t index, const gw_python_found *found)
{
    walk *it = user;
    int code = copy_code(it, found->code);
    if (code < 0)
        return false;
    it->to->frame[index] =
        GW_FRAME_OF_CODE((uint32_t)code, found->instruction) | (found->is_entry ? GW_FRAME_ENTRY : 0);
    return true;
}

static void enter_frame(void *user, size_t index)
{
    walk *it = user;
    it->to->frame[index] |= GW_FRAME_ENTRY;
}

/* Copy the frames of a thread, starting with the innermost one at `at`. Returns false if the memory there does not look
 * like frames. */
static bool copy_frames(const gwi_python *python, const gwi_interpreter *copy, uint64_t at, gwi_python_stack *to)
{
    static const gw_python_reader reader = {open_frame, fetch_field, take_frame, enter_frame};
    walk it = {.python = python, .copy = copy, .to = to};
    return gw_python_walk(&copy->layout, at, &reader, &it, GW_SITE_PYTHON_MAX, &to->frame_count, &to->is_cut);
}

/* Find the innermost frame of a thread. *ret_frame is 0 if the thread runs no Python code. Returns false if the frame
 * is unknown. */
static bool top_frame(const gwi_python *python, const gwi_state *state, uint32_t tid, uint64_t *ret_frame)
{
    const gwi_interpreter *copy = &python->copy[state->copy];
    state_fields fields;
    /* since the list was read, the memory of the thread state may have been reused for another thread */
    if (!read_state(python, copy, state->address, &fields) || fields.tid != tid ||
        fields.interpreter != state->interpreter)
        return false;
    *ret_frame = fields.frame;
    return fields.frame == 0 || !copy->layout.has_holder ||
           (gw_python_plausible(fields.frame) &&
            read_word(python, fields.frame + copy->layout.holder_frame, ret_frame));
}

void gwi_python_copy(const gwi_python *python, uint32_t inner_tid, gwi_python_stack *ret)
{
    const gwi_state *found = NULL;
    uint64_t frame = 0;
    unsigned claims = 0;
    bool torn = false;
    ret->frame_count = ret->code_count = 0;
    ret->is_cut = false;
    for (size_t i = 0; i < python->state_count && !torn; i++) {
        uint64_t top = 0;
        if (python->state[i].tid != inner_tid)
            continue;
        torn = !top_frame(python, &python->state[i], inner_tid, &top);
        if (!torn && top != 0) {
            claims++;
            found = &python->state[i];
            frame = top;
        }
    }
    ret->is_unknown = claims > 0 || torn || python->incomplete; /* otherwise no Python runs in this thread */
    /* if two interpreters have frames of this thread, their order is unknown: report no frames */
    if (claims == 1 && !torn && copy_frames(python, &python->copy[found->copy], frame, ret)) {
        ret->copy = found->copy;
        ret->is_unknown = false;
    }
}

void gwi_python_decode(const gwi_python *python, const gwi_python_stack *stack, gw_stack_process *process,
                       gw_stack_thread *thread)
{
    int code[GW_SITE_PYTHON_MAX];
    bool is_known = !stack->is_unknown;
    for (size_t i = 0; i < stack->code_count && is_known; i++) {
        code[i] = take_code(python, &python->copy[stack->copy], &stack->code[i], process);
        is_known = code[i] >= 0;
    }
    if (!is_known) {
        thread->flags |= GW_SITE_PYTHON_UNKNOWN;
        return;
    }
    thread->flags |= stack->is_cut ? GW_SITE_PYTHON_CUT : 0;
    for (size_t i = 0; i < stack->frame_count; i++) {
        uint64_t frame = stack->frame[i];
        thread->frame[thread->frame_count++] =
            GW_FRAME_OF_CODE((uint32_t)code[GW_FRAME_CODE(frame)], GW_FRAME_INSTRUCTION(frame)) |
            (frame & GW_FRAME_ENTRY);
    }
}

void gwi_python_frames(const gwi_python *python, gw_stack_process *process, gw_stack_thread *thread)
{
    gwi_python_stack stack;
    gwi_python_copy(python, gwi_inner_tid(thread), &stack);
    gwi_python_decode(python, &stack, process, thread);
}
