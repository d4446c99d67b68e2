/* Call frame information: how a function's caller is found from its own registers and stack, as compilers write it
 * into .eh_frame of every program and library (DWARF 5, 6.4; Linux Standard Base, "Exception Frames").
 *
 * Pure functions over bytes in memory: nothing outside a region is read but through the caller's own reader, whatever
 * the bytes hold; nothing is kept, locked or allocated. */
#ifndef GWI_CFI_H
#define GWI_CFI_H

#include "gwi_machine.h"

#include <stdbool.h>
#include <stdint.h>

/* A file's call frame information where it lies in this process. Bytes from `low` to `high` may be read. */
typedef struct gwi_cfi_region {
    uintptr_t low, high;
    uintptr_t table; /* .eh_frame_hdr: the sorted table of functions; 0: none */
} gwi_cfi_region;

/* Where a caller's register is found. */
typedef enum gwi_cfi_how {
    GWI_CFI_SAME,      /* it was not changed, or nothing is said */
    GWI_CFI_UNDEFINED, /* it is lost; of the return address: there is no caller */
    GWI_CFI_AT,        /* in memory at frame address + value */
    GWI_CFI_IS,        /* it is frame address + value */
    GWI_CFI_REGISTER,  /* in register number value */
    GWI_CFI_AT_EXPRESSION,
    GWI_CFI_IS_EXPRESSION /* value: address of the expression, its length first */
} gwi_cfi_how;

/* The rules at one instruction. The frame address is register + offset, or an expression. */
typedef struct gwi_cfi_rules {
    int64_t value[GWI_REGISTER_COUNT];
    uint8_t how[GWI_REGISTER_COUNT];
    bool frame_is_expression;
    uint8_t frame_register;
    int64_t frame_value; /* offset, or address of the expression */
    uint8_t return_register;
    bool is_signal_frame; /* the kernel made it: the caller was interrupted, it did not call */
} gwi_cfi_rules;

/* The rules at `pc`. False: the file says nothing about it, or what it says is damaged or not understood. */
bool gwi_cfi_find(const gwi_cfi_region *region, uintptr_t pc, gwi_cfi_rules *ret_rules);

/* What an expression may use. */
typedef struct gwi_cfi_inputs {
    const uint64_t *reg;
    uint32_t known;                                              /* bit n: reg[n] holds register n */
    bool (*read)(void *user, uintptr_t at, uint64_t *ret_value); /* eight bytes of memory; false: not there */
    void *user;
} gwi_cfi_inputs;

/* Evaluate the expression at `at`; with `pushed`, it begins with `first` on its stack. False: damaged, not understood,
 * without end, or it needs what is not known. */
bool gwi_cfi_evaluate(const gwi_cfi_region *region, uintptr_t at, const gwi_cfi_inputs *inputs, bool pushed,
                      uint64_t first, uint64_t *ret_value);

#endif
