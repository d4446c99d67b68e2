/* Find the function from which the compiler moved a piece of code that has no symbol. Each gwi_parts belongs to one
 * Elf and one thread. */
#ifndef GWI_SYMBOLS_PARTS_H
#define GWI_SYMBOLS_PARTS_H

#include <gelf.h>
#include <stdint.h>

typedef struct gwi_parts gwi_parts;

/* Prepare a file. `elf` must stay open until gwi_parts_close(). Returns NULL if memory runs out, if the file is not
 * for x86-64, or if its call frame information cannot be read. */
gwi_parts *gwi_parts_open(Elf *elf);
void gwi_parts_close(gwi_parts *parts); /* takes NULL */
/* Return the start of the function that owns the code at this address. Returns 0 if the code is not a moved part,
 * or if its function is unknown. */
uint64_t gwi_part_owner(gwi_parts *parts, uint64_t address);

#endif
