/* Runs the opcodes of a pickle. They work on a stack of values with marks, and on a memo, a table of values for
 * later use. */
#include "gwi_store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    OP_PROTO = 0x80,
    PROTOCOL_MIN = 2,
    PROTOCOL_MAX = 5,
    BATCH = 1000, /* picklers add items to containers in batches of this size */
    TEXT_BYTES_MAX = 1 << 24,
    LONG_BYTES_MAX = 255,
    VALUE_ABSENT = 0xff /* type of a memo entry without a value */
};

typedef struct machine {
    gwi_window window;
    gw_pickle *store;
    gw_pickle_options options;
    gw_pickle_value *stack; /* owned */
    uint64_t stack_count, stack_capacity;
    uint64_t *mark; /* stack_count at the time of each MARK; owned */
    uint64_t mark_count, mark_capacity;
    gw_pickle_value *memo; /* owned */
    uint64_t memo_count, memo_capacity;
    bool stopped;
} machine;

/* ---- reading ---- */

static gw_status take_number(machine *m, size_t bytes, uint64_t *ret_number, gw_error *err)
{
    unsigned char raw[8];
    gw_status st = gwi_window_take(&m->window, raw, bytes, err);
    *ret_number = 0;
    for (size_t i = bytes; st == GW_OK && i-- > 0;)
        *ret_number = *ret_number << 8 | raw[i];
    return st;
}

/* ---- the stack ---- */

static gw_status push(machine *m, gw_pickle_value value, gw_error *err)
{
    gw_status st = gwi_store_room(m->store, &m->stack, m->stack_count + 1, &m->stack_capacity, sizeof *m->stack, err);
    if (st == GW_OK)
        m->stack[m->stack_count++] = value;
    return st;
}

static gw_status push_number(machine *m, gw_pickle_type type, uint64_t number, gw_error *err)
{
    return push(m, (gw_pickle_value){.type = (uint8_t)type, .number = number}, err);
}

/* Return the index of the lowest value that an opcode may take. Values below the last mark belong to containers
 * that are not complete. */
static uint64_t floor_of(const machine *m)
{
    return m->mark_count == 0 ? 0 : m->mark[m->mark_count - 1];
}

static gw_status need(const machine *m, uint64_t count, gw_error *err)
{
    return m->stack_count - floor_of(m) >= count ? GW_OK : gw_fail(err, GW_CORRUPT, "too few values on the stack");
}

static gw_status pop_mark(machine *m, uint64_t *ret_height, gw_error *err)
{
    if (m->mark_count == 0)
        return gw_fail(err, GW_CORRUPT, "no mark on the stack");
    *ret_height = m->mark[--m->mark_count];
    return GW_OK;
}

/* ---- containers ---- */

/* If the value is a container, mark it as complete. If `fold` replaced the container, set *value to the replacement. */
static gw_status settle(machine *m, gw_pickle_value *value, gw_error *err)
{
    if (!gwi_is_container(*value))
        return GW_OK;
    uint32_t index = (uint32_t)value->number;
    gw_status st = gwi_store_complete(m->store, index, &m->options, err);
    *value = gwi_store_value(m->store, index);
    return st;
}

/* Move the values on the stack, from index `height` to the top, into the container just below them. This container must
 * have the given type. */
static gw_status fill(machine *m, uint64_t height, gw_pickle_type type, gw_error *err)
{
    uint64_t count = m->stack_count - height;
    if (height == 0 || height - 1 < floor_of(m))
        return gw_fail(err, GW_CORRUPT, "nothing to put values into");
    gw_pickle_value to = m->stack[height - 1];
    if (to.type != type)
        return gw_fail(err, GW_CORRUPT, "values for something that is not a %s",
                       type == GW_PICKLE_DICT ? "dict" : "list");
    if (type == GW_PICKLE_DICT && count % 2 != 0)
        return gw_fail(err, GW_CORRUPT, "a key without a value");
    gw_status st = GW_OK;
    for (uint64_t i = height; st == GW_OK && i < m->stack_count; i++)
        st = settle(m, &m->stack[i], err);
    uint32_t index = (uint32_t)to.number;
    /* A container must not change after it was put into another one or into itself. */
    if (st == GW_OK && m->store->node[index].state != GWI_NODE_OPEN)
        return gw_fail(err, GW_UNSUPPORTED, "a container is changed after its use: not plain data");
    if (st == GW_OK)
        st = gwi_store_append(m->store, index, m->stack + height, count, err);
    m->stack_count = height;
    uint64_t held = m->store->node[index].count / (type == GW_PICKLE_DICT ? 2 : 1);
    if (st == GW_OK && held > 0 && held < BATCH) {
        st = gwi_store_complete(m->store, index, &m->options, err);
        m->stack[height - 1] = gwi_store_value(m->store, index);
    }
    return st;
}

static gw_status do_fill_marked(machine *m, unsigned type, gw_error *err)
{
    uint64_t height = 0;
    gw_status st = pop_mark(m, &height, err);
    return st == GW_OK ? fill(m, height, (gw_pickle_type)type, err) : st;
}

/* Add one value to a list, or a key and a value to a dict. */
static gw_status do_fill_one(machine *m, unsigned type, gw_error *err)
{
    uint64_t count = type == GW_PICKLE_DICT ? 2 : 1;
    gw_status st = need(m, count + 1, err);
    return st == GW_OK ? fill(m, m->stack_count - count, (gw_pickle_type)type, err) : st;
}

static gw_status do_empty(machine *m, unsigned type, gw_error *err)
{
    uint32_t index;
    gw_status st = gwi_store_node(m->store, (gw_pickle_type)type, &index, err);
    return st == GW_OK ? push_number(m, (gw_pickle_type)type, index, err) : st;
}

/* Replace the values on the stack from index `height` on by a tuple of them. */
static gw_status make_tuple(machine *m, uint64_t height, gw_error *err)
{
    uint32_t index;
    gw_status st = gwi_store_node(m->store, GW_PICKLE_LIST, &index, err);
    for (uint64_t i = height; st == GW_OK && i < m->stack_count; i++)
        st = settle(m, &m->stack[i], err);
    if (st == GW_OK)
        st = gwi_store_append(m->store, index, m->stack == NULL ? NULL : m->stack + height, m->stack_count - height,
                              err);
    if (st == GW_OK)
        st = gwi_store_complete(m->store, index, &m->options, err);
    if (st != GW_OK)
        return st;
    m->stack_count = height;
    return push(m, gwi_store_value(m->store, index), err);
}

static gw_status do_tuple(machine *m, unsigned count, gw_error *err)
{
    gw_status st = need(m, count, err);
    return st == GW_OK ? make_tuple(m, m->stack_count - count, err) : st;
}

static gw_status do_tuple_marked(machine *m, unsigned none, gw_error *err)
{
    (void)none;
    uint64_t height = 0;
    gw_status st = pop_mark(m, &height, err);
    return st == GW_OK ? make_tuple(m, height, err) : st;
}

/* ---- the memo ---- */

static gw_status memo_put(machine *m, uint64_t number, gw_error *err)
{
    gw_status st = need(m, 1, err);
    if (st != GW_OK)
        return st;
    /* Picklers number the memo entries from 0, so a number far beyond the last entry means that the file is damaged. */
    if (number > m->memo_count + 65536)
        return gw_fail(err, GW_CORRUPT, "memo entry %" PRIu64 " after %" PRIu64, number, m->memo_count);
    st = gwi_store_room(m->store, &m->memo, number + 1, &m->memo_capacity, sizeof *m->memo, err);
    for (; st == GW_OK && m->memo_count <= number; m->memo_count++)
        m->memo[m->memo_count] = (gw_pickle_value){.type = VALUE_ABSENT};
    if (st == GW_OK)
        m->memo[number] = m->stack[m->stack_count - 1];
    return st;
}

static gw_status do_memo_put(machine *m, unsigned bytes, gw_error *err)
{
    uint64_t number;
    gw_status st = take_number(m, bytes, &number, err);
    return st == GW_OK ? memo_put(m, number, err) : st;
}

static gw_status do_memoize(machine *m, unsigned none, gw_error *err)
{
    (void)none;
    return memo_put(m, m->memo_count, err);
}

static gw_status do_memo_get(machine *m, unsigned bytes, gw_error *err)
{
    uint64_t number;
    gw_status st = take_number(m, bytes, &number, err);
    if (st != GW_OK)
        return st;
    if (number >= m->memo_count || m->memo[number].type == VALUE_ABSENT)
        return gw_fail(err, GW_CORRUPT, "memo entry %" PRIu64 " was never written", number);
    gw_pickle_value value = m->memo[number];
    return push(m, gwi_is_container(value) ? gwi_store_value(m->store, (uint32_t)value.number) : value, err);
}

/* ---- values ---- */

static gw_status do_text(machine *m, unsigned length_bytes, gw_error *err)
{
    uint64_t bytes;
    uint32_t id;
    char *room;
    gw_status st = take_number(m, length_bytes, &bytes, err);
    if (st == GW_OK && bytes > TEXT_BYTES_MAX)
        st = gw_fail(err, GW_UNSUPPORTED, "a text of %" PRIu64 " bytes", bytes);
    if (st == GW_OK)
        st = gwi_store_text_room(m->store, (uint32_t)bytes, &room, err);
    if (st == GW_OK)
        st = gwi_window_take(&m->window, room, bytes, err);
    if (st == GW_OK)
        st = gwi_store_text(m->store, (uint32_t)bytes, &id, err);
    return st == GW_OK ? push_number(m, GW_PICKLE_TEXT, id, err) : st;
}

/* Read an integer. Its length comes first, as a number of `length_bytes` bytes. Then come its bytes, in little-endian
 * two's complement. */
static gw_status do_long(machine *m, unsigned length_bytes, gw_error *err)
{
    unsigned char raw[LONG_BYTES_MAX];
    uint64_t bytes, number = 0;
    gw_status st = take_number(m, length_bytes, &bytes, err);
    if (st == GW_OK && bytes > sizeof raw)
        st = gw_fail(err, GW_UNSUPPORTED, "an integer of %" PRIu64 " bytes", bytes);
    if (st == GW_OK)
        st = gwi_window_take(&m->window, raw, bytes, err);
    if (st != GW_OK)
        return st;
    bool negative = bytes > 0 && (raw[bytes - 1] & 0x80) != 0, huge = false;
    for (size_t i = bytes; i-- > 0;) {
        if (i >= 8)
            huge = huge || raw[i] != (negative ? 0xff : 0);
        else
            number |= (uint64_t)raw[i] << 8 * i;
    }
    if (negative && bytes < 8)
        number |= UINT64_MAX << 8 * bytes;
    huge = huge || (bytes > 8 && (number >> 63 != 0) != negative);
    return push_number(m, huge ? GW_PICKLE_HUGE : GW_PICKLE_INT, huge ? 0 : number, err);
}

static gw_status do_int(machine *m, unsigned bytes, gw_error *err)
{
    uint64_t number;
    gw_status st = take_number(m, bytes, &number, err);
    if (st == GW_OK && bytes == 4)
        number = (uint64_t)(int64_t)(int32_t)(uint32_t)number;
    return st == GW_OK ? push_number(m, GW_PICKLE_INT, number, err) : st;
}

static gw_status do_float(machine *m, unsigned none, gw_error *err)
{
    (void)none;
    unsigned char raw[8];
    uint64_t bits = 0;
    gw_status st = gwi_window_take(&m->window, raw, sizeof raw, err);
    for (size_t i = 0; i < sizeof raw; i++) /* unlike integers, floats are big-endian */
        bits = bits << 8 | raw[i];
    return st == GW_OK ? push_number(m, GW_PICKLE_FLOAT, bits, err) : st;
}

static gw_status do_none(machine *m, unsigned none, gw_error *err)
{
    (void)none;
    return push_number(m, GW_PICKLE_NONE, 0, err);
}

static gw_status do_bool(machine *m, unsigned value, gw_error *err)
{
    return push_number(m, GW_PICKLE_BOOL, value, err);
}

static gw_status do_mark(machine *m, unsigned none, gw_error *err)
{
    (void)none;
    gw_status st = gwi_store_room(m->store, &m->mark, m->mark_count + 1, &m->mark_capacity, sizeof *m->mark, err);
    if (st == GW_OK)
        m->mark[m->mark_count++] = m->stack_count;
    return st;
}

/* Read the length of a frame and ignore it, because it only helps a reader to read the frame as a whole. */
static gw_status do_frame(machine *m, unsigned length_bytes, gw_error *err)
{
    uint64_t bytes;
    return take_number(m, length_bytes, &bytes, err);
}

static gw_status do_stop(machine *m, unsigned none, gw_error *err)
{
    (void)none;
    if (m->stack_count != 1 || m->mark_count != 0)
        return gw_fail(err, GW_CORRUPT, "the pickle ends with %" PRIu64 " values instead of one", m->stack_count);
    m->stopped = true;
    return settle(m, &m->stack[0], err);
}

/* ---- the whole file ---- */

/* All opcodes. For those for plain data: the function that runs the opcode, and its argument. This is a type, a count,
 * a truth value, or a number of bytes. `run` is NULL for the others, which are listed so that errors can name them. */
static const struct {
    const char *name;
    gw_status (*run)(machine *m, unsigned argument, gw_error *err);
    unsigned argument;
} opcodes[UINT8_MAX + 1] = {
    ['('] = {"MARK", do_mark, 0},
    ['.'] = {"STOP", do_stop, 0},
    ['J'] = {"BININT", do_int, 4},
    ['K'] = {"BININT1", do_int, 1},
    ['M'] = {"BININT2", do_int, 2},
    ['N'] = {"NONE", do_none, 0},
    ['X'] = {"BINUNICODE", do_text, 4},
    ['a'] = {"APPEND", do_fill_one, GW_PICKLE_LIST},
    ['}'] = {"EMPTY_DICT", do_empty, GW_PICKLE_DICT},
    ['e'] = {"APPENDS", do_fill_marked, GW_PICKLE_LIST},
    ['h'] = {"BINGET", do_memo_get, 1},
    ['j'] = {"LONG_BINGET", do_memo_get, 4},
    [']'] = {"EMPTY_LIST", do_empty, GW_PICKLE_LIST},
    ['q'] = {"BINPUT", do_memo_put, 1},
    ['r'] = {"LONG_BINPUT", do_memo_put, 4},
    ['s'] = {"SETITEM", do_fill_one, GW_PICKLE_DICT},
    ['t'] = {"TUPLE", do_tuple_marked, 0},
    [')'] = {"EMPTY_TUPLE", do_tuple, 0},
    ['u'] = {"SETITEMS", do_fill_marked, GW_PICKLE_DICT},
    ['G'] = {"BINFLOAT", do_float, 0},
    [0x85] = {"TUPLE1", do_tuple, 1},
    [0x86] = {"TUPLE2", do_tuple, 2},
    [0x87] = {"TUPLE3", do_tuple, 3},
    [0x88] = {"NEWTRUE", do_bool, true},
    [0x89] = {"NEWFALSE", do_bool, false},
    [0x8a] = {"LONG1", do_long, 1},
    [0x8b] = {"LONG4", do_long, 4},
    [0x8c] = {"SHORT_BINUNICODE", do_text, 1},
    [0x8d] = {"BINUNICODE8", do_text, 8},
    [0x94] = {"MEMOIZE", do_memoize, 0},
    [0x95] = {"FRAME", do_frame, 8},
    ['0'] = {.name = "POP"},
    ['1'] = {.name = "POP_MARK"},
    ['2'] = {.name = "DUP"},
    ['F'] = {.name = "FLOAT"},
    ['I'] = {.name = "INT"},
    ['L'] = {.name = "LONG"},
    ['P'] = {.name = "PERSID"},
    ['Q'] = {.name = "BINPERSID"},
    ['R'] = {.name = "REDUCE"},
    ['S'] = {.name = "STRING"},
    ['T'] = {.name = "BINSTRING"},
    ['U'] = {.name = "SHORT_BINSTRING"},
    ['V'] = {.name = "UNICODE"},
    ['b'] = {.name = "BUILD"},
    ['c'] = {.name = "GLOBAL"},
    ['d'] = {.name = "DICT"},
    ['g'] = {.name = "GET"},
    ['i'] = {.name = "INST"},
    ['l'] = {.name = "LIST"},
    ['o'] = {.name = "OBJ"},
    ['p'] = {.name = "PUT"},
    [0x80] = {.name = "PROTO"},
    [0x81] = {.name = "NEWOBJ"},
    [0x82] = {.name = "EXT1"},
    [0x83] = {.name = "EXT2"},
    [0x84] = {.name = "EXT4"},
    ['B'] = {.name = "BINBYTES"},
    ['C'] = {.name = "SHORT_BINBYTES"},
    [0x8e] = {.name = "BINBYTES8"},
    [0x8f] = {.name = "EMPTY_SET"},
    [0x90] = {.name = "ADDITEMS"},
    [0x91] = {.name = "FROZENSET"},
    [0x92] = {.name = "NEWOBJ_EX"},
    [0x93] = {.name = "STACK_GLOBAL"},
    [0x96] = {.name = "BYTEARRAY8"},
    [0x97] = {.name = "NEXT_BUFFER"},
    [0x98] = {.name = "READONLY_BUFFER"},
};

static gw_status step(machine *m, unsigned char opcode, gw_error *err)
{
    if (opcodes[opcode].name == NULL)
        return gw_fail(err, GW_CORRUPT, "unknown opcode 0x%02x", opcode);
    if (opcodes[opcode].run == NULL)
        return gw_fail(err, GW_UNSUPPORTED,
                       "opcode %s is not supported: gpuwhy reads only plain data, not calls and objects",
                       opcodes[opcode].name);
    return opcodes[opcode].run(m, opcodes[opcode].argument, err);
}

static gw_status read_protocol(gwi_window *window, gw_error *err)
{
    unsigned char begin[2];
    gw_status st = gwi_window_take(window, begin, sizeof begin, err);
    if (st == GW_OK && (begin[0] != OP_PROTO || begin[1] < PROTOCOL_MIN || begin[1] > PROTOCOL_MAX))
        st = gw_fail(err, GW_UNSUPPORTED, "not a pickle of protocol %d to %d", PROTOCOL_MIN, PROTOCOL_MAX);
    return st;
}

/* Read the whole file. If an opcode fails, *ret_offset is its offset in the file. */
static gw_status run(machine *m, uint64_t *ret_offset, gw_error *err)
{
    *ret_offset = 0;
    gw_status st = read_protocol(&m->window, err);
    while (st == GW_OK && !m->stopped) {
        unsigned char opcode;
        *ret_offset = gwi_window_offset(&m->window);
        st = gwi_window_take(&m->window, &opcode, 1, err);
        if (st == GW_OK)
            st = step(m, opcode, err);
    }
    return st;
}

gw_status gw_pickle_read(const char *path, const gw_pickle_options *options, gw_pickle **ret_pickle,
                         gw_pickle_value *ret_root, gw_error *err)
{
    machine *m = calloc(1, sizeof *m);
    gw_status st = GW_OK;
    if (m == NULL)
        return gw_fail(err, GW_NOMEM, "%s: out of memory", path);
    m->window.fd = -1;
    m->options = *options;
    st = gw_pickle_new(options, &m->store, err);
    if (st == GW_OK)
        st = gwi_window_open(&m->window, path, err);
    if (st != GW_OK) {
        gw_wrap(err, "%s", path);
        goto out;
    }
    uint64_t offset;
    st = run(m, &offset, err);
    if (st != GW_OK) {
        gw_wrap(err, "%s: at byte %" PRIu64, path, offset);
        goto out;
    }
    *ret_root = m->stack[0];
    *ret_pickle = m->store;
    m->store = NULL;
out:
    gwi_window_close(&m->window);
    gw_pickle_free(m->store);
    free(m->stack);
    free(m->mark);
    free(m->memo);
    free(m);
    return st;
}

bool gw_pickle_is(const char *path)
{
    gwi_window *window = calloc(1, sizeof *window);
    unsigned char opcode;
    if (window == NULL)
        return false;
    bool is = gwi_window_open(window, path, NULL) == GW_OK && read_protocol(window, NULL) == GW_OK &&
              gwi_window_take(window, &opcode, 1, NULL) == GW_OK;
    gwi_window_close(window);
    free(window);
    return is;
}
