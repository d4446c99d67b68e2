/* Gives each Python code object a number, and records the name, the file and the line table of each new one. Its
 * address is not enough: a program that compiles code in a loop gets the same address repeatedly. */
#include "gw_hash.h"
#include "gwi_hook.h"
#include "gwi_python.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

enum {
    LEVELS = 3,                /* number of tables; each is four times as large as the previous one */
    LEVEL_ENTRIES = 1 << 12,   /* number of entries in the first table */
    PROBES_MAX = 16,           /* maximum number of entries tried in one table before the next table */
    CODES_MAX = 1 << 16,       /* at most this many code objects get a number */
    LINES_BYTES_MAX = 1 << 16, /* longer line tables (in bytes) are not recorded */
    LINES_BYTES_A_FACT = GW_TEXT_BYTES_MAX / 2,
    NAME_BYTES_MAX = 400,
    TEXT_CHARACTERS_MAX = 1 << 20
};

/* An entry of an open-addressing hash table. `tag` never changes once it is set. `id`, the number of the code object,
 * is 0 until the thread that set the tag stores it. The first table is small: a few hundred functions then need few
 * pages. */
typedef struct code_entry {
    _Atomic uint64_t tag; /* hash of address and mark; 0: free */
    _Atomic uint32_t id;
} code_entry;

static code_entry *_Atomic table[LEVELS]; /* memory mappings; NULL: not created yet, or out of memory */
static _Atomic uint32_t last_id;

/* Find the interpreter whose code type is the type of the code object. Returns NULL if there is none. */
static const gwi_python_interpreter *interpreter_of(gwi_python_memory *memory, uintptr_t code)
{
    uint32_t count = atomic_load_explicit(&gwi_python_interpreter_count, memory_order_acquire);
    if (!gw_python_plausible(code))
        return NULL;
    uintptr_t type = gwi_python_word(memory, code + GW_PYTHON_OB_TYPE);
    for (uint32_t i = 0; i < count; i++)
        if (gwi_python_interpreter_list[i].is_readable && gwi_python_interpreter_list[i].code_type == type)
            return &gwi_python_interpreter_list[i];
    return NULL;
}

static int32_t first_line_of(const gwi_python_interpreter *py, gwi_python_memory *memory, uintptr_t code)
{
    return (int32_t)gwi_python_half(memory, code + py->layout.code_first_line);
}

/* Return the address of the data of a bytes object. Returns 0 if the object has another type. */
static uintptr_t bytes_of(const gwi_python_interpreter *py, gwi_python_memory *memory, uintptr_t object,
                          size_t *ret_bytes)
{
    if (!gw_python_plausible(object) || gwi_python_word(memory, object + GW_PYTHON_OB_TYPE) != py->bytes_type)
        return 0;
    *ret_bytes = gwi_python_word(memory, object + GW_PYTHON_OB_SIZE);
    return object + GW_PYTHON_BYTES_DATA;
}

/* ---- text ---- */

static void fetch_text(void *memory, uintptr_t at, void *out, size_t bytes)
{
    gwi_python_fetch(memory, at, out, bytes);
}

static gw_python_text text_of(const gwi_python_interpreter *py, gwi_python_memory *memory, uintptr_t object)
{
    gw_python_text none = {.width = 1};
    if (!gw_python_plausible(object) || gwi_python_word(memory, object + GW_PYTHON_OB_TYPE) != py->unicode_type)
        return none;
    uint32_t state = gwi_python_half(memory, object + GW_PYTHON_TEXT_STATE);
    gw_python_text t = {.count = gwi_python_word(memory, object + GW_PYTHON_OB_SIZE),
                        .width = state >> 2 & 7,
                        .fetch = fetch_text,
                        .user = memory};
    if ((state & GW_PYTHON_TEXT_COMPACT) == 0 || (t.width != 1 && t.width != 2 && t.width != 4) ||
        t.count > TEXT_CHARACTERS_MAX)
        return none;
    t.data = object + ((state & GW_PYTHON_TEXT_ASCII) != 0 ? py->layout.ascii_bytes : py->layout.compact_bytes);
    return t;
}

/* ---- writing ---- */

static bool write_code(const gwi_python_interpreter *py, gwi_python_memory *memory, uintptr_t code, uint32_t id,
                       uint32_t table_bytes)
{
    char line[GW_TEXT_BYTES_MAX + 1];
    gw_python_text name = text_of(py, memory, gwi_python_word(memory, code + py->layout.code_name));
    gw_python_text file = text_of(py, memory, gwi_python_word(memory, code + py->layout.code_file));
    size_t used = gw_python_text_put(&name, 0, line, NAME_BYTES_MAX);
    line[used++] = '\n';
    used += gw_python_text_put_end(&file, line + used, GW_TEXT_BYTES_MAX - used);
    line[used] = '\0';
    return gwi_fact(GW_EV_PYTHON_CODE, id, (uint64_t)(int64_t)first_line_of(py, memory, code), py->layout.version,
                    table_bytes, line);
}

static bool write_lines(gwi_python_memory *memory, uintptr_t data, size_t bytes, uint32_t id)
{
    static const char digit[] = "0123456789abcdef";
    char hex[LINES_BYTES_A_FACT * 2 + 1];
    uint8_t piece[LINES_BYTES_A_FACT];
    for (size_t at = 0; at < bytes;) {
        size_t count = bytes - at < LINES_BYTES_A_FACT ? bytes - at : LINES_BYTES_A_FACT;
        gwi_python_fetch(memory, data + at, piece, count);
        for (size_t i = 0; i < count; i++) {
            hex[2 * i] = digit[piece[i] >> 4];
            hex[2 * i + 1] = digit[piece[i] & 15];
        }
        hex[2 * count] = '\0';
        if (!gwi_fact(GW_EV_PYTHON_LINES, id, at, count, 0, hex))
            return false;
        at += count;
    }
    return true;
}

/* Give a new code object a number and write all records about it. Returns the number; 0: no number is left, or not
 * all records were written. */
static uint32_t introduce(const gwi_python_interpreter *py, gwi_python_memory *memory, uintptr_t code)
{
    size_t bytes = 0;
    uintptr_t data = bytes_of(py, memory, gwi_python_word(memory, code + py->layout.code_table), &bytes);
    if (bytes > LINES_BYTES_MAX)
        data = 0;
    uint32_t id = atomic_fetch_add_explicit(&last_id, 1, memory_order_relaxed) + 1;
    if (id > CODES_MAX) {
        atomic_store_explicit(&last_id, CODES_MAX, memory_order_relaxed);
        return 0;
    }
    if (!write_code(py, memory, code, id, data != 0 ? (uint32_t)bytes : GW_PYTHON_TABLE_NOT_KEPT))
        return 0;
    return (data == 0 || write_lines(memory, data, bytes, id)) && gwi_python_memory_held(memory, py) ? id : 0;
}

/* ---- the table ---- */

static size_t level_entries(unsigned level)
{
    return (size_t)LEVEL_ENTRIES << 2 * level;
}

static code_entry *table_of(unsigned level)
{
    code_entry *t = atomic_load_explicit(&table[level], memory_order_acquire), *expected = NULL;
    if (t != NULL)
        return t;
    int error = errno, populate = level == 0 ? MAP_POPULATE : 0;
    size_t bytes = level_entries(level) * sizeof *t;
    t = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | populate, -1, 0);
    if (t == MAP_FAILED) {
        t = NULL;
    } else if (!atomic_compare_exchange_strong(&table[level], &expected, t)) {
        munmap(t, bytes);
        t = expected;
    }
    errno = error;
    return t;
}

/* Return the entry that has the tag, or a free entry for it. Returns NULL if other tags use all possible entries, or if
 * there is no memory for another table. */
static code_entry *entry_of(uint64_t tag)
{
    for (unsigned level = 0; level < LEVELS; level++) {
        code_entry *t = table_of(level);
        for (uint64_t probe = 0; t != NULL && probe < PROBES_MAX; probe++) {
            code_entry *entry = &t[((tag >> 32) + probe) % level_entries(level)];
            uint64_t there = atomic_load_explicit(&entry->tag, memory_order_relaxed);
            if (there == 0 || there == tag)
                return entry;
        }
    }
    return NULL;
}

/* Store the number of a new code object. Two threads that see it at once both give it a number and write its records.
 * Only one number is stored here, but both are valid. */
static void remember(uint64_t tag, uint32_t id)
{
    for (unsigned tries = 0; tries < PROBES_MAX; tries++) {
        code_entry *entry = entry_of(tag);
        uint64_t there = 0;
        if (entry == NULL)
            return;
        if (atomic_compare_exchange_strong_explicit(&entry->tag, &there, tag, memory_order_relaxed,
                                                    memory_order_relaxed)) {
            atomic_store_explicit(&entry->id, id, memory_order_release);
            return;
        }
        if (there == tag)
            return;
    }
}

/* Return the number of a frame's code object. The interpreter's memory is read only if the code object is new. */
static uint32_t id_of(const gwi_python_frame *frame, gwi_python_memory *memory)
{
    uint64_t tag = gw_hash_mix(frame->code, frame->mark) | 1;
    code_entry *entry = entry_of(tag);
    if (entry == NULL)
        return 0;
    if (atomic_load_explicit(&entry->tag, memory_order_relaxed) == tag) {
        uint32_t id = atomic_load_explicit(&entry->id, memory_order_acquire);
        if (id != 0)
            return id;
    }
    const gwi_python_interpreter *py = interpreter_of(memory, frame->code);
    uint32_t id = py == NULL ? 0 : introduce(py, memory, frame->code);
    if (id != 0)
        remember(tag, id);
    return id;
}

uint32_t gwi_python_code(const gwi_python_frame *frame, gwi_python_memory *memory)
{
    int error = errno;
    uint32_t id = id_of(frame, memory != NULL && memory->has_lock ? NULL : memory);
    errno = error;
    return id;
}

void gwi_python_code_forked(void)
{
    for (unsigned level = 0; level < LEVELS; level++) {
        code_entry *t = atomic_load_explicit(&table[level], memory_order_relaxed);
        size_t bytes = level_entries(level) * sizeof *t;
        if (t != NULL && (level == 0 || madvise(t, bytes, MADV_DONTNEED) != 0))
            memset(t, 0, bytes);
    }
    atomic_store_explicit(&last_id, 0, memory_order_relaxed);
}
