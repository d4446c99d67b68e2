/* Call frame information: rules that find a function's caller from the registers and the stack. Compilers write it into
 * .eh_frame of every program and library (DWARF 5, 6.4; Linux Standard Base, "Exception Frames").
 *
 * The functions keep no state, take no lock and allocate nothing. The information may be damaged, so they never
 * read outside its region. They read other memory only through the caller's read function. */
#ifndef GWI_CFI_H
#define GWI_CFI_H

#include "gwi_machine.h"

#include <stdbool.h>
#include <stdint.h>

/* Where a file's call frame information is mapped in this process. The bytes from `low` up to, but not including,
 * `high` may be read. */
typedef struct gwi_cfi_region {
    uintptr_t low, high;
    uintptr_t table; /* .eh_frame_hdr: the sorted table of functions; 0: none */
} gwi_cfi_region;

/* How a caller's register is restored. */
typedef enum gwi_cfi_how {
    GWI_CFI_SAME,      /* unchanged, or has no rule */
    GWI_CFI_UNDEFINED, /* lost; if this is the return address, there is no caller */
    GWI_CFI_AT,        /* in memory at frame address + value */
    GWI_CFI_IS,        /* equal to frame address + value */
    GWI_CFI_REGISTER,  /* in the register with the number `value` */
    /* `value` is the address of an expression, which begins with its length. It computes the register (IS), or the
     * address where it is stored (AT). */
    GWI_CFI_AT_EXPRESSION,
    GWI_CFI_IS_EXPRESSION
} gwi_cfi_how;

/* The rules at one instruction. The frame address is a register plus an offset, or the value of an expression. */
typedef struct gwi_cfi_rules {
    int64_t value[GWI_REGISTER_COUNT];
    uint8_t how[GWI_REGISTER_COUNT];
    bool frame_is_expression;
    uint8_t frame_register;
    int64_t frame_value; /* offset from the register, or address of the expression */
    uint8_t return_register;
    bool is_signal_frame; /* the kernel made this frame for a signal: the caller was interrupted and made no call */
} gwi_cfi_rules;

/* Find the rules at `pc`. Returns false if the file has no rules for `pc`, or if they are damaged or not supported. */
bool gwi_cfi_find(const gwi_cfi_region *region, uintptr_t pc, gwi_cfi_rules *ret_rules);

/* The registers and the memory that an expression may use. */
typedef struct gwi_cfi_inputs {
    const uint64_t *reg;
    uint32_t known;                                              /* bit n: reg[n] holds register n */
    bool (*read)(void *user, uintptr_t at, uint64_t *ret_value); /* read eight bytes of memory; false: not mapped */
    void *user;
} gwi_cfi_inputs;

/* Evaluate the expression at `at`, and set *ret_value to its result. If `pushed`, its stack begins with `first`.
 * Returns false if the expression is damaged or unsupported, does not end, or needs an unknown input. */
bool gwi_cfi_evaluate(const gwi_cfi_region *region, uintptr_t at, const gwi_cfi_inputs *inputs, bool pushed,
                      uint64_t first, uint64_t *ret_value);

#endif
