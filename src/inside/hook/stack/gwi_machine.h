/* The machine-dependent parts of the native stack walk. Register numbers are those of DWARF. */
#ifndef GWI_MACHINE_H
#define GWI_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__x86_64__)

/* In DWARF's tables, the return address is a register of its own, number 16. A call stores it directly below the frame
 * address. */
enum { GWI_REGISTER_COUNT = 17, GWI_REG_BP = 6, GWI_REG_SP = 7, GWI_REG_PC = 16 };
enum { GWI_CAN_UNWIND = 1 };

/* Store the current registers in `reg`. The calling function must not return while they are used. Returns a bit mask of
 * the known ones: the callee-saved registers and the PC. */
static inline __attribute__((always_inline)) uint32_t gwi_registers_here(uint64_t reg[GWI_REGISTER_COUNT])
{
    __asm__ volatile("movq %%rbx, 3*8(%0)\n\t"
                     "movq %%rbp, 6*8(%0)\n\t"
                     "movq %%rsp, 7*8(%0)\n\t"
                     "movq %%r12, 12*8(%0)\n\t"
                     "movq %%r13, 13*8(%0)\n\t"
                     "movq %%r14, 14*8(%0)\n\t"
                     "movq %%r15, 15*8(%0)\n\t"
                     "leaq 0(%%rip), %%rax\n\t"
                     "movq %%rax, 16*8(%0)"
                     :
                     : "r"(reg)
                     : "rax", "memory");
    return 1u << 3 | 1u << 6 | 1u << 7 | 0xfu << 12 | 1u << 16;
}

/* Read a word without the sanitizers' checks, which would report reads in another function's frame. */
static inline uint64_t gwi_peek(uintptr_t at)
{
    uint64_t value;
    __asm__ volatile("movq (%1), %0" : "=r"(value) : "r"(at) : "memory");
    return value;
}

/* Guess whether the instruction before `pc` is a call, so that `pc` may be a return address. */
static inline bool gwi_follows_call(uintptr_t pc)
{
    uint64_t before = gwi_peek(pc - 8); /* the highest byte is the one right before `pc` */
    if ((before >> 24 & 0xff) == 0xe8)  /* call rel32 */
        return true;
    /* call through a register or memory, ff /2: two to seven bytes long */
    for (unsigned bytes = 2; bytes <= 7; bytes++) {
        unsigned at = (8 - bytes) * 8;
        if ((before >> at & 0xff) == 0xff && (before >> (at + 8) & 0x38) == 0x10)
            return true;
    }
    return false;
}

#else

/* On this machine, native stacks cannot be walked yet. A site has only its Python frames and the flag NATIVE_LOST. */
enum { GWI_REGISTER_COUNT = 33, GWI_REG_BP = 29, GWI_REG_SP = 31, GWI_REG_PC = 32 };
enum { GWI_CAN_UNWIND = 0 };

static inline uint32_t gwi_registers_here(uint64_t reg[GWI_REGISTER_COUNT])
{
    (void)reg;
    return 0;
}

static inline uint64_t gwi_peek(uintptr_t at)
{
    return *(volatile uint64_t *)at;
}

static inline bool gwi_follows_call(uintptr_t pc)
{
    (void)pc;
    return false;
}

#endif
#endif
