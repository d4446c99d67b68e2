/* Fuzz the evaluation of call frame information (CFI). The input is XORed into a valid region with the CFI of one
 * function. The region's first four bytes select the table and the instruction to look up. The region is then evaluated
 * as an expression, from each of its first 64 bytes. */
#include "gwi_cfi.h"
#include "inputs.h"

/* A valid region. It contains:
 * - the position of the table (u16: 4);
 * - the position of the instruction to look up (u16: 4108, the second of the function);
 * - the table's header, the common information entry, and the function's entry. */
static const uint8_t whole[] = {
    0x04, 0x00, 0x0c, 0x10, 0x01, 0x1b, 0x03, 0x3b, 0x10, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x10,
    0x00, 0x00, 0x2c, 0x00, 0x00, 0x00, 0x14, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x7a, 0x52, 0x00,
    0x01, 0x78, 0x10, 0x01, 0x1b, 0x0c, 0x07, 0x08, 0x90, 0x01, 0x00, 0x00, 0x24, 0x00, 0x00, 0x00, 0x1c, 0x00,
    0x00, 0x00, 0xcc, 0x0f, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x41, 0x0e, 0x10, 0x86, 0x02, 0x43, 0x0d,
    0x06, 0x02, 0x10, 0x0a, 0xc6, 0x0c, 0x07, 0x08, 0x41, 0x0b, 0x41, 0x0f, 0x03, 0x76, 0x78, 0x06,
};

static bool read_something(void *user, uintptr_t at, uint64_t *ret_value)
{
    (void)user;
    *ret_value = at * 3;
    return at % 5 != 0;
}

static void use_rules(const gwi_cfi_region *region, const gwi_cfi_inputs *inputs, const gwi_cfi_rules *rules)
{
    uint64_t value;
    if (rules->return_register >= GWI_REGISTER_COUNT)
        abort();
    if (rules->frame_is_expression)
        (void)gwi_cfi_evaluate(region, (uintptr_t)rules->frame_value, inputs, false, 0, &value);
    else if (rules->frame_register >= GWI_REGISTER_COUNT)
        abort();
    for (int i = 0; i < GWI_REGISTER_COUNT; i++)
        if (rules->how[i] >= GWI_CFI_AT_EXPRESSION)
            (void)gwi_cfi_evaluate(region, (uintptr_t)rules->value[i], inputs, true, 1, &value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const size_t input_bytes = size;
    uint64_t reg[GWI_REGISTER_COUNT] = {0}, value;
    gwi_cfi_inputs inputs = {reg, 0xfff, read_something, NULL};
    gwi_cfi_rules rules;
    uint16_t table, pc;
    size = size < sizeof whole ? sizeof whole : size;
    uint8_t *copy = calloc(1, size); /* has the exact size, so that the sanitizer detects reads beyond its end */
    if (copy == NULL)
        return 0;
    memcpy(copy, whole, sizeof whole);
    for (size_t i = 0; i < input_bytes; i++)
        copy[i] ^= data[i];
    memcpy(&table, copy, sizeof table);
    memcpy(&pc, copy + sizeof table, sizeof pc);
    gwi_cfi_region region = {(uintptr_t)copy, (uintptr_t)copy + size, (uintptr_t)copy + table % size};
    for (int back = 0; back < 2; back++) { /* look for the instruction after the tables, then before them */
        uintptr_t at = back ? (uintptr_t)copy - pc : (uintptr_t)copy + pc;
        if (gwi_cfi_find(&region, at, &rules))
            use_rules(&region, &inputs, &rules);
    }
    for (size_t i = 0; i < size && i < 64; i++)
        (void)gwi_cfi_evaluate(&region, (uintptr_t)copy + i, &inputs, false, 0, &value);
    free(copy);
    return 0;
}
