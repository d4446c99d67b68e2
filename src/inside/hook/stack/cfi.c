/* Parses call frame information (.eh_frame and .eh_frame_hdr), runs its programs and evaluates its expressions. */
#include "gwi_cfi.h"

#include <stddef.h>
#include <string.h>

/* A position in a region. Reading past the end returns 0 and marks the cursor bad. */
typedef struct cursor {
    uintptr_t at, end;
    bool bad;
} cursor;

static cursor cursor_at(const gwi_cfi_region *region, uintptr_t at)
{
    bool inside = at >= region->low && at <= region->high;
    return (cursor){inside ? at : region->low, inside ? region->high : region->low, !inside};
}

static uint64_t take(cursor *c, unsigned bytes)
{
    uint64_t value = 0;
    if (c->bad || c->end - c->at < bytes) {
        c->bad = true;
        return 0;
    }
    memcpy(&value, (const void *)c->at, bytes); /* both supported machines are little-endian */
    c->at += bytes;
    return value;
}

static int64_t take_signed(cursor *c, unsigned bytes)
{
    uint64_t value = take(c, bytes);
    unsigned unused = 64 - 8 * bytes;
    return (int64_t)(value << unused) >> unused;
}

static uint64_t take_uleb(cursor *c)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
        uint64_t byte = take(c, 1);
        if (shift < 64)
            value |= (byte & 0x7f) << shift;
        if ((byte & 0x80) == 0)
            return value;
    }
    c->bad = true;
    return 0;
}

static int64_t take_sleb(cursor *c)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 70;) {
        uint64_t byte = take(c, 1);
        if (shift < 64)
            value |= (byte & 0x7f) << shift;
        shift += 7;
        if ((byte & 0x80) == 0) {
            if (shift < 64 && (byte & 0x40) != 0)
                value |= ~0ull << shift;
            return (int64_t)value;
        }
    }
    c->bad = true;
    return 0;
}

/* ---- pointers ---- */

enum {
    ENC_ABSPTR = 0x00,
    ENC_ULEB = 0x01,
    ENC_UDATA2 = 0x02,
    ENC_UDATA4 = 0x03,
    ENC_UDATA8 = 0x04,
    ENC_SLEB = 0x09,
    ENC_SDATA2 = 0x0a,
    ENC_SDATA4 = 0x0b,
    ENC_SDATA8 = 0x0c,
    ENC_PCREL = 0x10,
    ENC_DATAREL = 0x30,
    ENC_OMIT = 0xff
};

/* Read a pointer. For an indirect one, returns where it is stored. Only pointers to personality routines are indirect,
 * and they are not used here. */
static uintptr_t take_pointer(cursor *c, unsigned encoding, uintptr_t data_base)
{
    uintptr_t here = c->at, value = 0;
    if (encoding == ENC_OMIT)
        return 0;
    switch (encoding & 0x0f) {
    case ENC_ABSPTR:
    case ENC_UDATA8:
    case ENC_SDATA8:
        value = take(c, 8);
        break;
    case ENC_ULEB:
        value = take_uleb(c);
        break;
    case ENC_SLEB:
        value = (uintptr_t)take_sleb(c);
        break;
    case ENC_UDATA2:
        value = take(c, 2);
        break;
    case ENC_SDATA2:
        value = (uintptr_t)take_signed(c, 2);
        break;
    case ENC_UDATA4:
        value = take(c, 4);
        break;
    case ENC_SDATA4:
        value = (uintptr_t)take_signed(c, 4);
        break;
    default:
        c->bad = true;
    }
    switch (encoding & 0x70) {
    case 0:
        return value;
    case ENC_PCREL:
        return value + here;
    case ENC_DATAREL:
        return value + data_base;
    default:
        c->bad = true;
        return 0;
    }
}

/* ---- records ---- */

/* The contents of a CIE, a record that many functions share. The record of a single function is called an FDE. */
typedef struct common {
    uint64_t code_align;
    int64_t data_align;
    uint64_t return_register;
    unsigned pointer_encoding;
    bool has_augmentation, is_signal_frame;
    cursor program;
} common;

/* Return a cursor over the content of a record, after its length field. */
static cursor open_record(const gwi_cfi_region *region, uintptr_t at)
{
    cursor c = cursor_at(region, at);
    uint64_t bytes = take(&c, 4);
    if (bytes == 0xffffffff)
        bytes = take(&c, 8);
    if (bytes == 0 || bytes > c.end - c.at)
        c.bad = true;
    if (!c.bad)
        c.end = c.at + bytes;
    return c;
}

/* Read the augmentation data of a CIE. `letters` describes the data: each letter stands for the next value, or is a
 * flag without a value. */
static void take_augmentation(cursor *c, const char *letters, common *ret)
{
    uint64_t bytes = take_uleb(c);
    if (c->bad || bytes > c->end - c->at) {
        c->bad = true;
        return;
    }
    cursor data = {c->at, c->at + bytes, false};
    for (; *letters != '\0' && !data.bad; letters++) {
        unsigned encoding;
        switch (*letters) {
        case 'R':
            ret->pointer_encoding = (unsigned)take(&data, 1);
            break;
        case 'L':
            take(&data, 1);
            break;
        case 'P':
            encoding = (unsigned)take(&data, 1);
            take_pointer(&data, encoding, 0);
            break;
        case 'S':
            ret->is_signal_frame = true;
            break;
        case 'B': /* arm64: return addresses are signed with the B key */
        case 'G':
            break;
        default: /* unknown letter: skip all remaining augmentation data */
            data.at = data.end;
        }
    }
    c->bad = data.bad;
    c->at += bytes;
}

static bool read_common(const gwi_cfi_region *region, uintptr_t at, common *ret)
{
    char letters[8];
    cursor c = open_record(region, at);
    uint64_t id = take(&c, 4), version = take(&c, 1);
    size_t n = 0;
    *ret = (common){0};
    do {
        letters[n] = (char)take(&c, 1);
    } while (letters[n] != '\0' && ++n < sizeof letters);
    if (c.bad || id != 0 || (version != 1 && version != 3 && version != 4) || n == sizeof letters)
        return false;
    if (version == 4 && (take(&c, 1) != 8 || take(&c, 1) != 0)) /* bytes of an address; bytes of a segment selector */
        return false;
    ret->code_align = take_uleb(&c);
    ret->data_align = take_sleb(&c);
    ret->return_register = version == 1 ? take(&c, 1) : take_uleb(&c);
    ret->has_augmentation = letters[0] == 'z';
    if (letters[0] == 'z')
        take_augmentation(&c, letters + 1, ret);
    else if (letters[0] != '\0')
        return false; /* the augmentation has no length, so it cannot be skipped */
    ret->program = c;
    return !c.bad && ret->return_register < GWI_REGISTER_COUNT;
}

/* Read the FDE at `at`. Returns false if `pc` is not in its function. */
static bool read_function(const gwi_cfi_region *region, uintptr_t at, uintptr_t pc, common *ret_common,
                          uintptr_t *ret_begin, cursor *ret_program)
{
    cursor c = open_record(region, at);
    uintptr_t here = c.at;
    uint64_t back = take(&c, 4); /* distance from this field back to the CIE; 0: this record is itself a CIE */
    if (c.bad || back == 0 || back > here - region->low || !read_common(region, here - back, ret_common))
        return false;
    uintptr_t begin = take_pointer(&c, ret_common->pointer_encoding, 0);
    uintptr_t bytes = take_pointer(&c, ret_common->pointer_encoding & 0x0f, 0);
    if (ret_common->has_augmentation) {
        uint64_t skipped = take_uleb(&c);
        if (c.bad || skipped > c.end - c.at)
            return false;
        c.at += skipped;
    }
    *ret_begin = begin;
    *ret_program = c;
    return !c.bad && pc >= begin && pc - begin < bytes;
}

/* Search the sorted table for the last function that starts at or before `pc`, and return the address of its FDE.
 * Returns 0 if there is none. */
static uintptr_t search_table(const gwi_cfi_region *region, uintptr_t pc)
{
    enum { SORTED_4_4 = ENC_DATAREL | ENC_SDATA4, ENTRY_BYTES = 8 };
    cursor c = cursor_at(region, region->table);
    unsigned version = (unsigned)take(&c, 1), frame_encoding = (unsigned)take(&c, 1);
    unsigned count_encoding = (unsigned)take(&c, 1), table_encoding = (unsigned)take(&c, 1);
    take_pointer(&c, frame_encoding, region->table);
    uint64_t count = take_pointer(&c, count_encoding, region->table);
    if (c.bad || version != 1 || table_encoding != SORTED_4_4 || count_encoding == ENC_OMIT || count == 0 ||
        count > (c.end - c.at) / ENTRY_BYTES)
        return 0;
    /* the functions below index `low` start at or before `pc`, those from index `high` on start after `pc` */
    uint64_t low = 0, high = count;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        cursor entry = {c.at + middle * ENTRY_BYTES, c.end, false};
        if (region->table + (uintptr_t)take_signed(&entry, 4) <= pc)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return 0;
    cursor entry = {c.at + (low - 1) * ENTRY_BYTES + 4, c.end, false};
    return region->table + (uintptr_t)take_signed(&entry, 4);
}

/* ---- programs ---- */

enum { REMEMBERED_MAX = 4 };

typedef struct machine {
    const gwi_cfi_region *region;
    const common *common;
    uintptr_t at_pc; /* first address to which the rules of the next operations apply */
    gwi_cfi_rules now, first;
    gwi_cfi_rules remembered[REMEMBERED_MAX];
    unsigned remembered_count;
} machine;

static void set_rule(machine *m, uint64_t number, gwi_cfi_how how, int64_t value)
{
    if (number < GWI_REGISTER_COUNT) { /* other registers (vector registers, for example) are not needed */
        m->now.how[number] = (uint8_t)how;
        m->now.value[number] = value;
    }
}

static void restore_rule(machine *m, uint64_t number)
{
    if (number < GWI_REGISTER_COUNT)
        set_rule(m, number, (gwi_cfi_how)m->first.how[number], m->first.value[number]);
}

static bool set_frame(machine *m, uint64_t number, int64_t offset)
{
    m->now.frame_is_expression = false;
    m->now.frame_register = (uint8_t)number;
    m->now.frame_value = offset;
    return number < GWI_REGISTER_COUNT;
}

/* Skip an expression and return its address. */
static int64_t take_expression(cursor *c)
{
    uintptr_t at = c->at;
    uint64_t bytes = take_uleb(c);
    if (c->bad || bytes > c->end - c->at)
        c->bad = true;
    else
        c->at += bytes;
    return (int64_t)at;
}

static bool remember(machine *m)
{
    if (m->remembered_count == REMEMBERED_MAX)
        return false;
    m->remembered[m->remembered_count++] = m->now;
    return true;
}

static bool recall(machine *m)
{
    if (m->remembered_count == 0)
        return false;
    m->now = m->remembered[--m->remembered_count];
    return true;
}

static int64_t scaled(const machine *m, int64_t value)
{
    return (int64_t)((uint64_t)value * (uint64_t)m->common->data_align);
}

static void advance(machine *m, uint64_t units)
{
    m->at_pc += units * m->common->code_align;
}

/* Run an operation that sets the rule of one register. The first operand is the number of the register. */
static bool run_register_op(machine *m, cursor *c, unsigned op)
{
    uint64_t number = take_uleb(c);
    switch (op) {
    case 0x05: /* offset_extended */
        set_rule(m, number, GWI_CFI_AT, scaled(m, (int64_t)take_uleb(c)));
        return true;
    case 0x06: /* restore_extended */
        restore_rule(m, number);
        return true;
    case 0x07:
        set_rule(m, number, GWI_CFI_UNDEFINED, 0);
        return true;
    case 0x08:
        set_rule(m, number, GWI_CFI_SAME, 0);
        return true;
    case 0x09:
        set_rule(m, number, GWI_CFI_REGISTER, (int64_t)take_uleb(c));
        return true;
    case 0x10:
        set_rule(m, number, GWI_CFI_AT_EXPRESSION, take_expression(c));
        return true;
    case 0x11: /* offset_extended_sf */
        set_rule(m, number, GWI_CFI_AT, scaled(m, take_sleb(c)));
        return true;
    case 0x14: /* val_offset */
        set_rule(m, number, GWI_CFI_IS, scaled(m, (int64_t)take_uleb(c)));
        return true;
    case 0x15:
        set_rule(m, number, GWI_CFI_IS, scaled(m, take_sleb(c)));
        return true;
    case 0x16:
        set_rule(m, number, GWI_CFI_IS_EXPRESSION, take_expression(c));
        return true;
    case 0x2f: /* GNU negative_offset_extended */
        set_rule(m, number, GWI_CFI_AT, (int64_t)(0 - (uint64_t)scaled(m, (int64_t)take_uleb(c))));
        return true;
    default:
        return false;
    }
}

/* Run an operation that sets the rule for the frame address (CFA). */
static bool run_frame_op(machine *m, cursor *c, unsigned op)
{
    uint64_t number;
    switch (op) {
    case 0x0c: /* def_cfa */
        number = take_uleb(c);
        return set_frame(m, number, (int64_t)take_uleb(c));
    case 0x0d: /* def_cfa_register */
        return !m->now.frame_is_expression && set_frame(m, take_uleb(c), m->now.frame_value);
    case 0x0e: /* def_cfa_offset */
        return !m->now.frame_is_expression && set_frame(m, m->now.frame_register, (int64_t)take_uleb(c));
    case 0x0f: /* def_cfa_expression */
        m->now.frame_is_expression = true;
        m->now.frame_value = take_expression(c);
        return true;
    case 0x12: /* def_cfa_sf */
        number = take_uleb(c);
        return set_frame(m, number, scaled(m, take_sleb(c)));
    case 0x13: /* def_cfa_offset_sf */
        return !m->now.frame_is_expression && set_frame(m, m->now.frame_register, scaled(m, take_sleb(c)));
    default:
        return false;
    }
}

static bool run_op(machine *m, cursor *c, unsigned op)
{
    switch (op) {
    case 0x00: /* nop */
        return true;
    case 0x01: /* set_loc */
        m->at_pc = take_pointer(c, m->common->pointer_encoding, 0);
        return true;
    case 0x02:
        advance(m, take(c, 1));
        return true;
    case 0x03:
        advance(m, take(c, 2));
        return true;
    case 0x04:
        advance(m, take(c, 4));
        return true;
    case 0x0a:
        return remember(m);
    case 0x0b:
        return recall(m);
    case 0x2d: /* GNU window_save; on arm64: switches the signing of return addresses; not used on x86-64 */
        return GWI_REGISTER_COUNT != 17;
    case 0x2e: /* GNU args_size */
        take_uleb(c);
        return true;
    case 0x0c:
    case 0x0d:
    case 0x0e:
    case 0x0f:
    case 0x12:
    case 0x13:
        return run_frame_op(m, c, op);
    default:
        return run_register_op(m, c, op);
    }
}

/* Run a call frame program until it ends or advances past `pc`. m->now then has the rules for `pc`. Returns false if
 * the program is damaged or unsupported. */
static bool run(machine *m, cursor c, uintptr_t pc)
{
    while (!c.bad && c.at < c.end && m->at_pc <= pc) {
        unsigned op = (unsigned)take(&c, 1), low = op & 0x3f;
        bool good = true;
        switch (op >> 6) {
        case 1: /* advance_loc */
            advance(m, low);
            break;
        case 2: /* offset */
            set_rule(m, low, GWI_CFI_AT, scaled(m, (int64_t)take_uleb(&c)));
            break;
        case 3: /* restore */
            restore_rule(m, low);
            break;
        default:
            good = run_op(m, &c, op);
        }
        if (!good)
            return false;
    }
    return !c.bad;
}

bool gwi_cfi_find(const gwi_cfi_region *region, uintptr_t pc, gwi_cfi_rules *ret_rules)
{
    common shared;
    cursor program;
    machine m;
    uintptr_t begin, record = region->table != 0 ? search_table(region, pc) : 0;
    if (record == 0 || !read_function(region, record, pc, &shared, &begin, &program))
        return false;
    m.region = region;
    m.common = &shared;
    m.remembered_count = 0;
    memset(&m.now, 0, sizeof m.now);
    m.at_pc = 0;
    if (!run(&m, shared.program, UINTPTR_MAX))
        return false;
    m.first = m.now;
    m.at_pc = begin;
    if (!run(&m, program, pc))
        return false;
    *ret_rules = m.now;
    ret_rules->return_register = (uint8_t)shared.return_register;
    ret_rules->is_signal_frame = shared.is_signal_frame;
    return true;
}

/* ---- expressions ---- */

enum { STACK_MAX = 16, STEPS_MAX = 256 };

typedef struct evaluation {
    const gwi_cfi_inputs *inputs;
    uint64_t stack[STACK_MAX];
    unsigned depth;
    bool bad;
} evaluation;

static void push(evaluation *e, uint64_t value)
{
    if (e->depth == STACK_MAX)
        e->bad = true;
    else
        e->stack[e->depth++] = value;
}

static uint64_t pop(evaluation *e)
{
    if (e->depth == 0) {
        e->bad = true;
        return 0;
    }
    return e->stack[--e->depth];
}

/* Return the n-th value from the top of the stack; n = 0: the top. */
static uint64_t peek(evaluation *e, uint64_t n)
{
    if (n >= e->depth) {
        e->bad = true;
        return 0;
    }
    return e->stack[e->depth - 1 - n];
}

static void push_register(evaluation *e, uint64_t number, int64_t offset)
{
    if (number >= GWI_REGISTER_COUNT || (e->inputs->known >> number & 1) == 0)
        e->bad = true;
    else
        push(e, e->inputs->reg[number] + (uint64_t)offset);
}

static void dereference(evaluation *e, uint64_t bytes)
{
    uint64_t value = 0, at = pop(e);
    if (e->bad || bytes == 0 || bytes > 8 || !e->inputs->read(e->inputs->user, at, &value))
        e->bad = true;
    else
        push(e, bytes == 8 ? value : value & ((1ull << 8 * bytes) - 1));
}

static void push_constant(evaluation *e, cursor *c, unsigned op)
{
    switch (op) {
    case 0x03: /* addr, const8u, const8s */
    case 0x0e:
    case 0x0f:
        push(e, take(c, 8));
        break;
    case 0x08:
        push(e, take(c, 1));
        break;
    case 0x09:
        push(e, (uint64_t)take_signed(c, 1));
        break;
    case 0x0a:
        push(e, take(c, 2));
        break;
    case 0x0b:
        push(e, (uint64_t)take_signed(c, 2));
        break;
    case 0x0c:
        push(e, take(c, 4));
        break;
    case 0x0d:
        push(e, (uint64_t)take_signed(c, 4));
        break;
    case 0x10:
        push(e, take_uleb(c));
        break;
    case 0x11:
        push(e, (uint64_t)take_sleb(c));
        break;
    default:
        e->bad = true;
    }
}

static uint64_t shifted_right(int64_t value, uint64_t by)
{
    return (uint64_t)(value >> (by > 63 ? 63 : by));
}

static bool compare(unsigned op, int64_t left, int64_t right)
{
    switch (op) {
    case 0x29:
        return left == right;
    case 0x2a:
        return left >= right;
    case 0x2b:
        return left > right;
    case 0x2c:
        return left <= right;
    case 0x2d:
        return left < right;
    default: /* 0x2e */
        return left != right;
    }
}

static uint64_t calculate(evaluation *e, unsigned op, uint64_t left, uint64_t right)
{
    int64_t right_signed = (int64_t)right, left_signed = (int64_t)left;
    switch (op) {
    case 0x1a:
        return left & right;
    case 0x1b:
        if (right != 0 && !(right_signed == -1 && left_signed == INT64_MIN))
            return (uint64_t)(left_signed / right_signed);
        break;
    case 0x1c:
        return left - right;
    case 0x1d:
        if (right != 0)
            return left % right;
        break;
    case 0x1e:
        return left * right;
    case 0x21:
        return left | right;
    case 0x22:
        return left + right;
    case 0x24:
        return right > 63 ? 0 : left << right;
    case 0x25:
        return right > 63 ? 0 : left >> right;
    case 0x26:
        return shifted_right(left_signed, right);
    case 0x27:
        return left ^ right;
    default:
        break;
    }
    e->bad = true;
    return 0;
}

/* Replace the top two values of the stack by the result of a binary operation. */
static void combine(evaluation *e, unsigned op)
{
    uint64_t right = pop(e), left = pop(e);
    push(e, op >= 0x29 ? compare(op, (int64_t)left, (int64_t)right) : calculate(e, op, left, right));
}

static void rearrange(evaluation *e, cursor *c, unsigned op)
{
    uint64_t a, b, third;
    switch (op) {
    case 0x12: /* dup */
        push(e, peek(e, 0));
        break;
    case 0x13: /* drop */
        pop(e);
        break;
    case 0x14: /* over */
        push(e, peek(e, 1));
        break;
    case 0x15: /* pick */
        push(e, peek(e, take(c, 1)));
        break;
    case 0x16: /* swap */
        a = pop(e), b = pop(e);
        push(e, a);
        push(e, b);
        break;
    case 0x17: /* rot */
        a = pop(e), b = pop(e), third = pop(e);
        push(e, a);
        push(e, third);
        push(e, b);
        break;
    default:
        e->bad = true;
    }
}

static void run_unary(evaluation *e, cursor *c, unsigned op)
{
    uint64_t value = pop(e);
    switch (op) {
    case 0x19: /* abs */
        push(e, (int64_t)value < 0 ? 0 - value : value);
        break;
    case 0x1f: /* neg */
        push(e, 0 - value);
        break;
    case 0x20: /* not */
        push(e, ~value);
        break;
    case 0x23: /* plus_uconst */
        push(e, value + take_uleb(c));
        break;
    default:
        e->bad = true;
    }
}

/* Read the distance of a jump, and jump if `always` is set or the popped value is not 0. A jump out of the expression,
 * which starts at `begin`, is an error. */
static void jump(evaluation *e, cursor *c, uintptr_t begin, bool always)
{
    int64_t by = take_signed(c, 2);
    if (!always && pop(e) == 0)
        return;
    uintptr_t to = c->at + (uintptr_t)by;
    if (to < begin || to > c->end)
        e->bad = true;
    else
        c->at = to;
}

static void evaluate_op(evaluation *e, cursor *c, uintptr_t begin, unsigned op)
{
    uint64_t number;
    if (op >= 0x30 && op <= 0x4f) /* lit0 to lit31 */
        push(e, op - 0x30);
    else if (op >= 0x70 && op <= 0x8f) /* breg0 to breg31 */
        push_register(e, op - 0x70, take_sleb(c));
    else if (op == 0x92) { /* bregx */
        number = take_uleb(c);
        push_register(e, number, take_sleb(c));
    } else if (op == 0x06)
        dereference(e, 8);
    else if (op == 0x94)
        dereference(e, take(c, 1));
    else if (op == 0x2f || op == 0x28)
        jump(e, c, begin, op == 0x2f);
    else if (op >= 0x12 && op <= 0x17)
        rearrange(e, c, op);
    else if (op == 0x19 || op == 0x1f || op == 0x20 || op == 0x23)
        run_unary(e, c, op);
    else if (op >= 0x1a && op <= 0x2e)
        combine(e, op);
    else if (op != 0x96) /* nop */
        push_constant(e, c, op);
}

bool gwi_cfi_evaluate(const gwi_cfi_region *region, uintptr_t at, const gwi_cfi_inputs *inputs, bool pushed,
                      uint64_t first, uint64_t *ret_value)
{
    evaluation e;
    cursor c = cursor_at(region, at);
    uint64_t bytes = take_uleb(&c);
    if (c.bad || bytes > c.end - c.at)
        return false;
    c.end = c.at + bytes;
    e.inputs = inputs;
    e.depth = 0;
    e.bad = false;
    if (pushed)
        push(&e, first);
    uintptr_t begin = c.at;
    for (unsigned step = 0; c.at < c.end; step++) {
        if (step == STEPS_MAX)
            return false;
        evaluate_op(&e, &c, begin, (unsigned)take(&c, 1));
        if (e.bad || c.bad)
            return false;
    }
    *ret_value = pop(&e);
    return !e.bad;
}
