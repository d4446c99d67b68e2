/* Find the function that owns code without a symbol, if the code is a part that the compiler moved out of the function.
 * Each gwi_parts belongs to one Elf and one thread. */
#ifndef GWI_SYMBOLS_PARTS_H
#define GWI_SYMBOLS_PARTS_H

#include <gelf.h>
#include <stdint.h>

typedef struct gwi_parts gwi_parts;

/* Prepare a file. `elf` must stay open until gwi_parts_close(). Returns NULL if there is no memory, or if the file is
 * not for x86-64 or has no call frame information that we can read. */
gwi_parts *gwi_parts_open(Elf *elf);
void gwi_parts_close(gwi_parts *parts); /* takes NULL */
/* Return the start of the function to which the code at this address belongs. Returns 0 if the code is not a moved
 * part, or if its function is not known. */
uint64_t gwi_part_owner(gwi_parts *parts, uint64_t address);

#endif
