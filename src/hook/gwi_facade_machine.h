/* The machine-specific part of a facade: its code. One implementation a machine. */
#ifndef GWI_FACADE_MACHINE_H
#define GWI_FACADE_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

/* False: facades cannot be written for this machine. */
bool gwi_facade_code_supported(void);

/* Bytes of the code for `count` names. */
uint64_t gwi_facade_code_bytes(uint32_t count);

/* Write the code that will run at address `code_at`, with the head at `head_at` and the table at `table_at`. */
void gwi_facade_code_write(uint8_t *code, uint64_t code_at, uint64_t head_at, uint64_t table_at, uint32_t count);

/* Where the i-th name's symbol points, and what its table entry holds before the hook is there. */
uint64_t gwi_facade_stub_at(uint64_t code_at, uint32_t i);
uint64_t gwi_facade_lazy_at(uint64_t code_at, uint32_t count, uint32_t i);

#endif
