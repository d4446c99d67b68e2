/* Code objects get numbers, and what a reader needs of one is written when it is first seen. An address alone says
 * little: code that is compiled and dropped in a loop has the same one again and again. */
#include "gwi_hook.h"
#include "gwi_python.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

enum {
    LEVELS = 3,                /* tables, each four times as large as the one before */
    LEVEL_ENTRIES = 1 << 12,   /* of the first */
    PROBES_MAX = 16,           /* then the next table is asked */
    CODES_MAX = 1 << 16,       /* later code is not known */
    LINES_BYTES_MAX = 1 << 16, /* a longer line table is not kept */
    LINES_BYTES_A_FACT = GW_TEXT_BYTES_MAX / 2,
    NAME_BYTES_MAX = 400,
    TEXT_CHARACTERS_MAX = 1 << 20
};

/* Open addressing: once `tag` is set it stays. `id` follows it, 0: another thread is about to set it. The first table
 * is small, so that a program with a few hundred functions touches few pages. */
typedef struct code_entry {
    _Atomic uint64_t tag; /* of address and mark; 0: free */
    _Atomic uint32_t id;
} code_entry;

static code_entry *_Atomic table[LEVELS]; /* own mappings; NULL: not yet, or no memory */
static _Atomic uint32_t last_id;

static uint64_t mix(uint64_t sum, uint64_t word)
{
    sum = (sum ^ word) * UINT64_C(0x9E3779B97F4A7C15);
    return sum ^ sum >> 29;
}

/* The interpreter of a code object: its type tells. */
static const gwi_python_interpreter *interpreter_of(uintptr_t code)
{
    uint32_t count = atomic_load_explicit(&gwi_python_interpreter_count, memory_order_acquire);
    if (!gwi_python_plausible(code))
        return NULL;
    uintptr_t type = gwi_python_word(code + GWI_PYTHON_OB_TYPE);
    for (uint32_t i = 0; i < count; i++)
        if (gwi_python_interpreter_list[i].is_readable && gwi_python_interpreter_list[i].code_type == type)
            return &gwi_python_interpreter_list[i];
    return NULL;
}

static int32_t first_line_of(const gwi_python_interpreter *py, uintptr_t code)
{
    return *(const volatile int32_t *)(code + py->layout.code_first_line);
}

/* A bytes object's data; NULL: it is none. */
static const uint8_t *bytes_of(const gwi_python_interpreter *py, uintptr_t object, size_t *ret_bytes)
{
    if (!gwi_python_plausible(object) || gwi_python_word(object + GWI_PYTHON_OB_TYPE) != py->bytes_type)
        return NULL;
    *ret_bytes = gwi_python_word(object + GWI_PYTHON_OB_SIZE);
    return (const uint8_t *)(object + GWI_PYTHON_BYTES_DATA);
}

/* ---- text ---- */

enum { TEXT_COMPACT = 1 << 5, TEXT_ASCII = 1 << 6 };

typedef struct text {
    const uint8_t *data; /* NULL: not readable */
    size_t count;        /* characters */
    unsigned width;      /* bytes of one */
} text;

static text text_of(const gwi_python_interpreter *py, uintptr_t object)
{
    text none = {NULL, 0, 1};
    if (!gwi_python_plausible(object) || gwi_python_word(object + GWI_PYTHON_OB_TYPE) != py->unicode_type)
        return none;
    uint32_t state = *(const volatile uint32_t *)(object + GWI_PYTHON_TEXT_STATE);
    text t = {.count = gwi_python_word(object + GWI_PYTHON_OB_SIZE), .width = state >> 2 & 7};
    if ((state & TEXT_COMPACT) == 0 || (t.width != 1 && t.width != 2 && t.width != 4) || t.count > TEXT_CHARACTERS_MAX)
        return none;
    t.data = (const uint8_t *)object + ((state & TEXT_ASCII) != 0 ? py->layout.ascii_bytes : py->layout.compact_bytes);
    return t;
}

/* One character in UTF-8; what cannot be said in a line of text is replaced. Returns the bytes. */
static size_t encode(const text *t, size_t at, char out[4])
{
    uint32_t c = 0;
    memcpy(&c, t->data + at * t->width, t->width); /* little-endian, as the rest of this */
    if (c < 0x80) {
        out[0] = c < 0x20 || c == 0x7f ? '?' : (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) /* half a pair, or a byte of a file name that is no text */
        c = 0xfffd;
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3f));
    out[2] = (char)(0x80 | (c >> 6 & 0x3f));
    out[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

/* As much of the characters from `from` on as fits. Returns the bytes; no terminator. */
static size_t put_text(const text *t, size_t from, char *out, size_t room)
{
    size_t used = 0;
    char one[4];
    for (size_t at = from; t->data != NULL && at < t->count; at++) {
        size_t bytes = encode(t, at, one);
        if (bytes > room - used)
            break;
        memcpy(out + used, one, bytes);
        used += bytes;
    }
    return used;
}

/* Of a text that does not fit, its end says more when it is a path. */
static size_t put_text_end(const text *t, char *out, size_t room)
{
    static const char cut[] = "...";
    char one[4];
    size_t from = t->count, bytes = 0;
    while (t->data != NULL && from > 0) {
        size_t more = encode(t, from - 1, one);
        if (bytes + more > room)
            break;
        bytes += more;
        from--;
    }
    if (t->data == NULL || from == 0)
        return put_text(t, 0, out, room);
    for (size_t given = 0; given < sizeof cut - 1 && from < t->count; from++)
        given += encode(t, from, one);
    memcpy(out, cut, sizeof cut - 1);
    return sizeof cut - 1 + put_text(t, from, out + sizeof cut - 1, room - (sizeof cut - 1));
}

/* ---- writing ---- */

static bool write_code(const gwi_python_interpreter *py, uintptr_t code, uint32_t id, uint32_t table_bytes)
{
    char line[GW_TEXT_BYTES_MAX + 1];
    text name = text_of(py, gwi_python_word(code + py->layout.code_name));
    text file = text_of(py, gwi_python_word(code + py->layout.code_file));
    size_t used = put_text(&name, 0, line, NAME_BYTES_MAX);
    line[used++] = '\n';
    used += put_text_end(&file, line + used, GW_TEXT_BYTES_MAX - used);
    line[used] = '\0';
    return gwi_fact(GW_EV_PYTHON_CODE, id, (uint64_t)(int64_t)first_line_of(py, code), py->layout.version, table_bytes,
                    line);
}

static bool write_lines(const uint8_t *data, size_t bytes, uint32_t id)
{
    static const char digit[] = "0123456789abcdef";
    char hex[LINES_BYTES_A_FACT * 2 + 1];
    for (size_t at = 0; at < bytes;) {
        size_t count = bytes - at < LINES_BYTES_A_FACT ? bytes - at : LINES_BYTES_A_FACT;
        for (size_t i = 0; i < count; i++) {
            hex[2 * i] = digit[data[at + i] >> 4];
            hex[2 * i + 1] = digit[data[at + i] & 15];
        }
        hex[2 * count] = '\0';
        if (!gwi_fact(GW_EV_PYTHON_LINES, id, at, count, 0, hex))
            return false;
        at += count;
    }
    return true;
}

/* All that is written about a code object; 0: not all of it could be. */
static uint32_t introduce(const gwi_python_interpreter *py, uintptr_t code)
{
    size_t bytes = 0;
    const uint8_t *data = bytes_of(py, gwi_python_word(code + py->layout.code_table), &bytes);
    if (data != NULL && bytes > LINES_BYTES_MAX)
        data = NULL;
    uint32_t id = atomic_fetch_add_explicit(&last_id, 1, memory_order_relaxed) + 1;
    if (id > CODES_MAX) {
        atomic_store_explicit(&last_id, CODES_MAX, memory_order_relaxed);
        return 0;
    }
    if (!write_code(py, code, id, data != NULL ? (uint32_t)bytes : GW_PYTHON_TABLE_NOT_KEPT))
        return 0;
    return data == NULL || write_lines(data, bytes, id) ? id : 0;
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

/* The entry of `tag`, or the free one where it belongs; NULL: all tables are full there, or no memory. */
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

/* Two threads that see the same new code at once give it two numbers: each has written what its own stands for. */
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

uint32_t gwi_python_code(const gwi_python_frame *frame)
{
    const gwi_python_interpreter *py = interpreter_of(frame->code);
    uint64_t tag = mix(frame->code, frame->mark) | 1;
    code_entry *entry = entry_of(tag);
    if (py == NULL || entry == NULL)
        return 0;
    if (atomic_load_explicit(&entry->tag, memory_order_relaxed) == tag) {
        uint32_t id = atomic_load_explicit(&entry->id, memory_order_acquire);
        if (id != 0)
            return id;
    }
    uint32_t id = introduce(py, frame->code);
    if (id != 0)
        remember(tag, id);
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
