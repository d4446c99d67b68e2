/* Tests the parser of call frame information with hand-made tables, real tables, and damaged copies of real tables. */
#include "gw_test_random.h"
#include "gw_unit_test.h"
#include "gwi_cfi.h"

#include <link.h>
#include <string.h>

/* ---- a hand-made table with one function ---- */

enum { FUNCTION_BYTES = 0x100, MADE_BYTES = 512 };

typedef struct made {
    uint8_t bytes[MADE_BYTES];
    size_t used;
    gwi_cfi_region region;
    uintptr_t function; /* start address of the function, which has no code */
} made;

static void put(made *m, const void *data, size_t bytes)
{
    memcpy(m->bytes + m->used, data, bytes);
    m->used += bytes;
}

static void put_u32(made *m, uint32_t value)
{
    put(m, &value, sizeof value);
}

static void end_record(made *m, size_t length_at)
{
    while ((m->used - length_at) % 4 != 0)
        m->bytes[m->used++] = 0;
    uint32_t bytes = (uint32_t)(m->used - length_at - 4);
    memcpy(m->bytes + length_at, &bytes, sizeof bytes);
}

/* Build the table header with one entry, then the CIE, then the FDE of a function with `program`. */
static void make(made *m, const uint8_t *program, size_t program_bytes)
{
    static const uint8_t header[4] = {1, 0x1b, 0x03, 0x3b};
    /* initial rules: frame is r7 + 8, r16 is stored at frame - 8 */
    static const uint8_t common[] = {0x0c, 7, 8, 0x80 | 16, 1};
    static const uint8_t common_head[] = {1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b};
    memset(m, 0, sizeof *m);
    m->function = (uintptr_t)m->bytes + 0x1000;
    put(m, header, sizeof header);
    put_u32(m, 16); /* offset of .eh_frame from here */
    put_u32(m, 1);  /* number of functions */
    put_u32(m, 0x1000);
    put_u32(m, 0); /* offset of the function's FDE, filled in below */
    size_t common_at = m->used;
    put_u32(m, 0);
    put_u32(m, 0);
    put(m, common_head, sizeof common_head);
    put(m, common, sizeof common);
    end_record(m, common_at);
    size_t function_at = m->used;
    put_u32(m, 0);
    put_u32(m, (uint32_t)(m->used - common_at));
    put_u32(m, (uint32_t)(m->function - (uintptr_t)(m->bytes + m->used)));
    put_u32(m, FUNCTION_BYTES);
    put(m, "", 1); /* no augmentation data */
    put(m, program, program_bytes);
    end_record(m, function_at);
    uint32_t where = (uint32_t)function_at;
    memcpy(m->bytes + 16, &where, sizeof where);
    m->region = (gwi_cfi_region){(uintptr_t)m->bytes, (uintptr_t)m->bytes + m->used, (uintptr_t)m->bytes};
}

GW_TEST(the_rules_of_each_instruction)
{
    static const uint8_t program[] = {
        0x41, 0x0e, 16,   0x86, 2,                  /* function + 1: frame is r7 + 16, r6 is stored at frame - 16 */
        0x43, 0x0d, 6,                              /* + 4: frame is r6 + 16 */
        0x02, 0x10, 0x0a, 0xc6, 0x0c, 7,    8,      /* + 20: remember the rules; r6 as at the start; frame is r7 + 8 */
        0x41, 0x0b,                                 /* + 21: recall the remembered rules */
        0x41, 0x0f, 3,    0x76, 0x78, 0x06,         /* + 22: frame is the value stored at r6 - 8 */
        0x41, 0x10, 3,    2,    0x76, 0x00,         /* + 23: r3 is stored at r6 + 0 */
        0x41, 0x07, 16,                             /* + 24: there is no caller */
        0x41, 0x15, 12,   0x7f, 0x16, 13,   1, 0x31 /* + 25: r12 is frame + 8 (-1 * -8), r13 is 1 */
    };
    made m;
    gwi_cfi_rules r;
    make(&m, program, sizeof program);
    assert_false(gwi_cfi_find(&m.region, m.function - 1, &r));
    assert_false(gwi_cfi_find(&m.region, m.function + FUNCTION_BYTES, &r));
    assert_true(gwi_cfi_find(&m.region, m.function, &r));
    assert_int_equal(r.frame_register, 7);
    assert_int_equal(r.frame_value, 8);
    assert_int_equal(r.how[16], GWI_CFI_AT);
    assert_int_equal(r.value[16], -8);
    assert_int_equal(r.return_register, 16);
    assert_false(r.is_signal_frame);
    assert_true(gwi_cfi_find(&m.region, m.function + 1, &r));
    assert_int_equal(r.frame_value, 16);
    assert_int_equal(r.how[6], GWI_CFI_AT);
    assert_int_equal(r.value[6], -16);
    for (unsigned at = 4; at < 20; at++) {
        assert_true(gwi_cfi_find(&m.region, m.function + at, &r));
        assert_int_equal(r.frame_register, 6);
        assert_int_equal(r.frame_value, 16);
    }
    assert_true(gwi_cfi_find(&m.region, m.function + 20, &r));
    assert_int_equal(r.frame_register, 7);
    assert_int_equal(r.how[6], GWI_CFI_SAME);
    assert_true(gwi_cfi_find(&m.region, m.function + 21, &r));
    assert_int_equal(r.frame_register, 6);
    assert_int_equal(r.how[6], GWI_CFI_AT);
    assert_true(gwi_cfi_find(&m.region, m.function + 22, &r));
    assert_true(r.frame_is_expression);
    assert_true(gwi_cfi_find(&m.region, m.function + 23, &r));
    assert_int_equal(r.how[3], GWI_CFI_AT_EXPRESSION);
    assert_true(gwi_cfi_find(&m.region, m.function + 24, &r));
    assert_int_equal(r.how[16], GWI_CFI_UNDEFINED);
    assert_true(gwi_cfi_find(&m.region, m.function + 25, &r));
    assert_int_equal(r.how[12], GWI_CFI_IS);
    assert_int_equal(r.value[12], 8);
    assert_int_equal(r.how[13], GWI_CFI_IS_EXPRESSION);
}

GW_TEST(what_is_not_understood_is_refused)
{
    static const struct {
        uint8_t bytes[8];
        size_t count;
    } bad[] = {
        {{0x3f}, 1},                         /* unknown operation */
        {{0x0b}, 1},                         /* recall without remember */
        {{0x0a, 0x0a, 0x0a, 0x0a, 0x0a}, 5}, /* too many remembered rules */
        {{0x0f, 0x7f}, 2},                   /* an expression that goes past the end */
        {{0x0d, 0x63}, 2},                   /* the frame address is in a register that is not supported */
        {{0x0f, 1, 0x30, 0x0e, 8}, 5},       /* a new offset while the frame address is an expression */
        {{0x0c, 0xff, 0xff, 0xff, 0xff}, 5}, /* a number that never ends */
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        made m;
        gwi_cfi_rules r;
        make(&m, bad[i].bytes, bad[i].count);
        if (i == 3 || i == 6)
            m.region.high = (uintptr_t)m.bytes + m.used;
        assert_false(gwi_cfi_find(&m.region, m.function, &r));
    }
}

/* ---- expressions ---- */

static bool read_double(void *user, uintptr_t at, uint64_t *ret_value)
{
    *ret_value = 2 * at;
    return at < 1000;
}

GW_TEST(expressions)
{
    static const struct {
        uint8_t bytes[24]; /* the first byte is the length */
        bool good;
        uint64_t value;
    } sample[] = {
        {{2, 0x77, 0x08}, true, 108},                                                  /* r7 + 8 */
        {{3, 0x77, 0x78, 0x06}, true, 184},                                            /* the eight bytes at r7 - 8 */
        {{4, 0x77, 0x78, 0x94, 1}, true, 184},                                         /* one byte at r7 - 8 */
        {{11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22}, true, 116}, /* as linkers write for PLTs */
        {{3, 0x35, 0x12, 0x1e}, true, 25},                                             /* 5, dup, times */
        {{4, 0x31, 0x33, 0x16, 0x1c}, true, 2},                                        /* 1, 3, swap, minus */
        {{5, 0x31, 0x32, 0x33, 0x17, 0x1c}, true, UINT64_MAX}, /* 1, 2, 3, rot: 3, 1, 2; minus: -1 */
        {{4, 0x09, 0x80, 0x1f, 0x96}, true, 128},              /* -(-128), nop */
        {{3, 0x09, 0xfb, 0x19}, true, 5},                      /* |-5| */
        {{5, 0x09, 0xf8, 0x31, 0x26, 0x20}, true, 3},          /* ~(-8 >> 1) */
        {{6, 0x3f, 0x15, 0, 0x1e, 0x23, 2}, true, 227},        /* 15, pick 0, times, + 2 */
        {{7, 0x31, 0x28, 1, 0, 0x3f, 0x35, 0x96}, true, 5},    /* a jump over one operation */
        {{5, 0x31, 0x2f, 0xfc, 0xff, 0x30}, false, 0},         /* an endless loop */
        {{4, 0x2f, 0xf0, 0xff, 0x30}, false, 0},               /* a jump out of the expression */
        {{3, 0x31, 0x30, 0x1b}, false, 0},                     /* division by zero */
        {{1, 0x22}, false, 0},                                 /* operation on an empty stack */
        {{2, 0x70, 0}, false, 0},                              /* r0, whose value is not known */
        {{3, 0x0a, 0xff, 0x7f, 0x06}, true, 0x7fff},           /* the last byte is not part of the expression */
        {{4, 0x0a, 0xff, 0x7f, 0x06}, false, 0},               /* memory that is not mapped */
        {{1, 0xf0}, false, 0},                                 /* unknown operation */
        {{0}, false, 0},
    };
    uint64_t reg[GWI_REGISTER_COUNT] = {[7] = 100, [16] = 15};
    gwi_cfi_inputs inputs = {reg, 1u << 7 | 1u << 16, read_double, NULL};
    for (size_t i = 0; i < sizeof sample / sizeof sample[0]; i++) {
        gwi_cfi_region region = {(uintptr_t)sample[i].bytes, (uintptr_t)(sample[i].bytes + sizeof sample[i].bytes), 0};
        uint64_t value = 0;
        bool good = gwi_cfi_evaluate(&region, region.low, &inputs, false, 0, &value);
        if (good != sample[i].good || (good && value != sample[i].value))
            fail_msg("expression %zu: %d, %llu", i, good, (unsigned long long)value);
    }
}

/* ---- real tables, and damaged copies ---- */

typedef struct found {
    uintptr_t low, high, table, bias;
} found;

/* Find the C library's table, which includes hand-written assembly and signal frames. */
static int find_table(struct dl_phdr_info *info, size_t bytes, void *user)
{
    found *f = user;
    if (strstr(info->dlpi_name, "libc.so") == NULL)
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_GNU_EH_FRAME)
            f->table = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        uintptr_t low = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        if (info->dlpi_phdr[i].p_type == PT_LOAD && f->table >= low && f->table < low + info->dlpi_phdr[i].p_filesz) {
            f->low = low;
            f->high = low + info->dlpi_phdr[i].p_filesz;
        }
    }
    return f->low != 0;
}

static bool read_nothing(void *user, uintptr_t at, uint64_t *ret_value)
{
    *ret_value = at * 3;
    return at % 2 == 0;
}

/* Check that rules found in a damaged table are safe to use. */
static void use_rules(const gwi_cfi_region *region, const gwi_cfi_rules *rules)
{
    uint64_t reg[GWI_REGISTER_COUNT] = {0}, value;
    gwi_cfi_inputs inputs = {reg, UINT32_MAX, read_nothing, NULL};
    assert_true(rules->return_register < GWI_REGISTER_COUNT);
    if (rules->frame_is_expression)
        (void)gwi_cfi_evaluate(region, (uintptr_t)rules->frame_value, &inputs, false, 0, &value);
    else
        assert_true(rules->frame_register < GWI_REGISTER_COUNT);
    for (int i = 0; i < GWI_REGISTER_COUNT; i++) {
        assert_true(rules->how[i] <= GWI_CFI_IS_EXPRESSION);
        if (rules->how[i] >= GWI_CFI_AT_EXPRESSION)
            (void)gwi_cfi_evaluate(region, (uintptr_t)rules->value[i], &inputs, true, 1, &value);
    }
}

static void damage(uint8_t *copy, size_t bytes, unsigned places)
{
    for (unsigned i = 0; i < places; i++) {
        size_t at = gw_test_random() % bytes;
        copy[at] = (uint8_t)(gw_test_random() % 3 ? gw_test_random() : copy[at] ^ 1u << gw_test_random() % 8);
    }
}

/* Look up addresses in damaged copies of the table. Each copy ends at the end of its allocation, so
 * AddressSanitizer detects reads past it. */
GW_TEST(damaged_copies)
{
    enum { COPIES = 300, LOOKS = 200, HEAD_BYTES = 12 };
    found f = {0};
    unsigned long good = 0, refused = 0;
    dl_iterate_phdr(find_table, &f);
    assert_true(f.table != 0);
    size_t whole = f.high - f.low, table_at = f.table - f.low;
    for (unsigned n = 0; n < COPIES; n++) {
        size_t bytes = n % 4 == 0 ? table_at + gw_test_random() % (whole - table_at) : whole;
        uint8_t *copy = malloc(bytes);
        memcpy(copy, (void *)f.low, bytes);
        if (n > 0)
            damage(copy + table_at, bytes - table_at, (unsigned)(gw_test_random() % 4000));
        if (n % 8 == 1)
            damage(copy + table_at, HEAD_BYTES, 1);
        gwi_cfi_region region = {(uintptr_t)copy, (uintptr_t)copy + bytes, (uintptr_t)copy + table_at};
        for (unsigned i = 0; i < LOOKS; i++) {
            gwi_cfi_rules rules;
            /* Look up addresses in the 2 MiB before the copy. The C library's code is before its table, and the
             * table's offsets are relative. So the functions seem to be there. */
            uintptr_t pc = (uintptr_t)copy - gw_test_random() % (1 << 21);
            bool found_rules = gwi_cfi_find(&region, pc, &rules);
            if (found_rules)
                use_rules(&region, &rules);
            good += found_rules;
            refused += !found_rules;
        }
        free(copy);
    }
    assert_true(good > COPIES && refused > COPIES);
}

GW_TEST_MAIN(NULL, NULL)
