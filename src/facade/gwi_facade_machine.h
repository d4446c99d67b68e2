/* The machine-specific part of a facade: its code. One implementation a machine. */
#ifndef GWI_FACADE_MACHINE_H
#define GWI_FACADE_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

/* False: facades cannot be written for this machine. */
bool gwi_facade_code_supported(void);

/* Where the parts of a facade lie. The first `read_count` of `count` names are reads: read_count words at `reads_at`
 * say where they lead; 0: to the table, as all others. */
typedef struct gwi_facade_places {
    uint64_t code_at, head_at, table_at, reads_at;
    uint32_t count, read_count;
} gwi_facade_places;

enum { GWI_FACADE_READS_MAX = 7 };

/* Bytes of the code for so many names. */
uint64_t gwi_facade_code_bytes(uint32_t count);

/* Write the code. */
void gwi_facade_code_write(uint8_t *code, const gwi_facade_places *places);

/* Where the i-th name's symbol points when it is a read, when it is none, and what its table entry holds before the
 * hook is there. */
uint64_t gwi_facade_read_at(uint64_t code_at, uint32_t i);
uint64_t gwi_facade_stub_at(uint64_t code_at, uint32_t i);
uint64_t gwi_facade_lazy_at(uint64_t code_at, uint32_t count, uint32_t i);

#endif
