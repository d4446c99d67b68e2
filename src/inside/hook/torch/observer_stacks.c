/* Writes the stacks of PyTorch's memory history as call sites.
 *
 * Each history entry has a list of frames (dicts with file, function and line). Most stacks are equal, so a hash of the
 * frames identifies a stack. Within one snapshot, equal frames share one dict, so a frame's hash is looked up by the
 * dict's address.
 * Stacks with the same 64-bit hash are assumed to be equal. With ten thousand stacks, the chance of an error is below 1
 * in 10^11.
 * Site and code numbers start above those of the hook's own stacks (gw_site.h). */
#include "gwi_observer_inside.h"

#include "gw_hash.h"
#include "gw_site.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum {
    FRAMES_MAX = 48,      /* write at most this many frames of a stack, starting at the innermost */
    STACKS_MAX = 1 << 14, /* distinguish at most this many stacks */
    SITES_MAX = 2048,     /* write at most this many sites */
    CODES_MAX = 4096,     /* write at most this many code objects */
    DICTS_MAX = 1 << 15,  /* size of the hash table of frame dicts */
    NAME_BYTES = 200,
    FILE_BYTES = 700
};

/* A frame dict and its hash. */
typedef struct frame_dict {
    const py_object *dict; /* NULL: empty entry */
    uint64_t hash;         /* hash of file, function and line; 0: the dict is not a frame */
} frame_dict;

typedef struct stack {
    uint64_t hash;
    py_object *frames; /* borrowed; valid only in the snapshot with number `reading` */
    uint32_t reading;  /* number of the last snapshot that had this stack */
    uint32_t site;     /* 0: not written */
    bool refused;      /* do not try to write the site again: SITES_MAX or CODES_MAX was reached */
} stack;

typedef struct code {
    uint64_t hash; /* hash of file and function; 0: empty entry */
    uint32_t id;
} code;

/* All tables. gwi_stacks_begin() creates them in one mapping. */
typedef struct workspace {
    frame_dict dict[DICTS_MAX];
    stack stack[STACKS_MAX];       /* entry 0 is the unknown stack */
    uint32_t slot[2 * STACKS_MAX]; /* hash table of stack numbers; 0: empty entry */
    code code[2 * CODES_MAX];      /* hash table of code objects */
} workspace;

static struct {
    workspace *space; /* owned; lives as long as the process */
    uint32_t dict_count, stack_count, site_count, code_count;
    uint32_t reading; /* number of the current snapshot */
} st;

bool gwi_stacks_begin(void)
{
    if (st.space == NULL) {
        void *mapping = mmap(NULL, sizeof *st.space, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (mapping == MAP_FAILED)
            return false;
        st.space = mapping;
        st.stack_count = 1;
    }
    memset(st.space->dict, 0, sizeof st.space->dict);
    st.dict_count = 0;
    st.reading++;
    return true;
}

uint32_t gwi_stacks_count(void)
{
    return st.space == NULL ? 1 : st.stack_count;
}

/* ---- hashes ---- */

static uint64_t hash_text(uint64_t hash, const char *text, size_t bytes)
{
    uint64_t word;
    for (; bytes >= sizeof word; bytes -= sizeof word, text += sizeof word) {
        memcpy(&word, text, sizeof word);
        hash = gw_hash_mix(hash, word);
    }
    word = bytes;
    for (size_t i = 0; i < bytes; i++)
        word = word << 8 | (unsigned char)text[i];
    return gw_hash_mix(hash, word);
}

/* File, function and line of a frame. The strings belong to the frame's dict. */
typedef struct frame_text {
    const char *name, *file;
    ptrdiff_t name_bytes, file_bytes;
    int32_t line; /* -1: unknown */
} frame_text;

static bool text_at(py_object *dict, py_object *key, const char **ret_text, ptrdiff_t *ret_bytes)
{
    py_object *text = gwi_obs.py.PyDict_GetItem(dict, key);
    *ret_text = text == NULL ? NULL : gwi_obs.py.PyUnicode_AsUTF8AndSize(text, ret_bytes);
    if (*ret_text == NULL)
        gwi_obs.py.PyErr_Clear();
    return *ret_text != NULL;
}

static bool read_frame(py_object *dict, frame_text *ret_text)
{
    bool known;
    if (!text_at(dict, gwi_obs.key.filename, &ret_text->file, &ret_text->file_bytes) ||
        !text_at(dict, gwi_obs.key.name, &ret_text->name, &ret_text->name_bytes))
        return false;
    uint64_t line = gwi_py_number(gwi_obs.py.PyDict_GetItem(dict, gwi_obs.key.line), &known);
    ret_text->line = known && line <= INT32_MAX ? (int32_t)line : -1;
    return true;
}

static uint64_t hash_of_code(const frame_text *text)
{
    uint64_t hash = hash_text(1, text->file, (size_t)text->file_bytes);
    return hash_text(hash, text->name, (size_t)text->name_bytes) | 1;
}

/* Return the hash of a frame dict. Returns 0 if the object is not a frame. */
static uint64_t hash_of_frame(py_object *dict)
{
    size_t at = ((uintptr_t)dict >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 40 & (DICTS_MAX - 1);
    while (st.space->dict[at].dict != NULL && st.space->dict[at].dict != dict)
        at = (at + 1) & (DICTS_MAX - 1);
    if (st.space->dict[at].dict == dict)
        return st.space->dict[at].hash;
    frame_text text;
    uint64_t hash = read_frame(dict, &text) ? gw_hash_mix(hash_of_code(&text), (uint32_t)text.line) | 1 : 0;
    if (2 * st.dict_count < DICTS_MAX) {
        st.space->dict[at] = (frame_dict){dict, hash};
        st.dict_count++;
    }
    return hash;
}

/* ---- stacks ---- */

uint32_t gwi_stacks_number(py_object *frames)
{
    ptrdiff_t count = st.space == NULL ? 0 : gwi_py_list_size(frames);
    uint64_t hash = (uint64_t)count;
    if (count == 0)
        return 0;
    for (ptrdiff_t i = 0; i < count && i < FRAMES_MAX; i++) {
        py_object *dict = gwi_obs.py.PyList_GetItem(frames, i);
        uint64_t one = dict == NULL ? 0 : hash_of_frame(dict);
        if (one == 0)
            return 0;
        hash = gw_hash_mix(hash, one);
    }
    size_t at = hash & (2 * STACKS_MAX - 1);
    for (; st.space->slot[at] != 0; at = (at + 1) & (2 * STACKS_MAX - 1)) {
        stack *known = &st.space->stack[st.space->slot[at]];
        if (known->hash != hash)
            continue;
        known->frames = frames;
        known->reading = st.reading;
        return st.space->slot[at];
    }
    if (st.stack_count == STACKS_MAX)
        return 0;
    st.space->stack[st.stack_count] = (stack){.hash = hash, .frames = frames, .reading = st.reading};
    st.space->slot[at] = st.stack_count;
    return st.stack_count++;
}

/* ---- writing ---- */

/* Return the id of a code object, and write the object first if it is new. Returns 0 if CODES_MAX is reached or the
 * buffer is full. */
static uint32_t code_of(const frame_text *text)
{
    uint64_t hash = hash_of_code(text);
    size_t at = hash & (2 * CODES_MAX - 1);
    for (; st.space->code[at].hash != 0; at = (at + 1) & (2 * CODES_MAX - 1)) {
        if (st.space->code[at].hash == hash)
            return st.space->code[at].id;
    }
    if (st.code_count == CODES_MAX)
        return 0;
    char words[NAME_BYTES + FILE_BYTES + 2];
    snprintf(words, sizeof words, "%.*s\n%.*s", NAME_BYTES, text->name, FILE_BYTES, text->file);
    uint32_t id = GW_SITE_FRAMEWORK_CODE_FIRST + st.code_count + 1;
    if (!gwi_obs.port->fact(GW_EV_PYTHON_CODE, id, 0, 0, 0, words))
        return 0;
    st.code_count++;
    st.space->code[at] = (code){hash, id};
    return id;
}

/* Convert a frame to the format in which a site stores it. Returns false if the frame cannot be read, or if its code
 * cannot be written. */
static bool frame_of(py_object *dict, uint64_t *ret_frame)
{
    frame_text text;
    uint32_t id = dict != NULL && read_frame(dict, &text) ? code_of(&text) : 0;
    if (id != 0)
        *ret_frame = GW_FRAME_OF_CODE(id, text.line);
    return id != 0;
}

/* Write a site with these frames and return its number. Returns 0 if the buffer is full. The number of a partly
 * written site is not reused. */
static uint32_t write_site(const uint64_t *frame, uint32_t count, bool cut)
{
    uint32_t site = GW_SITE_FRAMEWORK_FIRST + st.site_count + 1;
    bool good = gwi_obs.port->fact(GW_EV_SITE, site, count, cut ? GW_SITE_PYTHON_CUT : 0, 0, NULL);
    st.site_count += good;
    for (uint32_t i = 0; i < count && good; i += 3)
        good =
            gwi_obs.port->fact(GW_EV_SITE_FRAMES, site | (uint64_t)i << 32, frame[i], frame[i + 1], frame[i + 2], NULL);
    return good ? site : 0;
}

uint32_t gwi_stacks_site(uint32_t number)
{
    uint64_t frame[FRAMES_MAX + 2] = {0};
    if (number == 0 || st.space == NULL || number >= st.stack_count)
        return 0;
    stack *it = &st.space->stack[number];
    if (it->site != 0 || it->refused || it->reading != st.reading)
        return it->site;
    ptrdiff_t count = gwi_py_list_size(it->frames);
    uint32_t kept = (uint32_t)(count < FRAMES_MAX ? count : FRAMES_MAX);
    bool good = st.site_count < SITES_MAX;
    for (uint32_t i = 0; i < kept && good; i++)
        good = frame_of(gwi_obs.py.PyList_GetItem(it->frames, (ptrdiff_t)i), &frame[i]);
    /* if the buffer is full, `site` stays 0 and the next report tries again */
    if (good)
        it->site = write_site(frame, kept, count > FRAMES_MAX);
    else
        it->refused = st.site_count == SITES_MAX || st.code_count == CODES_MAX;
    return it->site;
}
