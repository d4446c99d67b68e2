/* Parts of functions that compilers moved away, and that no symbol names. One Elf, one thread. */
#ifndef GWI_SYMBOLS_PARTS_H
#define GWI_SYMBOLS_PARTS_H

#include <gelf.h>
#include <stdint.h>

typedef struct gwi_parts gwi_parts;

/* `elf` must stay open until gwi_parts_close(). NULL: this file tells nothing of its parts, or no memory. */
gwi_parts *gwi_parts_open(Elf *elf);
void gwi_parts_close(gwi_parts *parts); /* takes NULL */
/* Where the function begins that the code at the address is a part of; 0: it is no part, or whose is not known. */
uint64_t gwi_part_owner(gwi_parts *parts, uint64_t address);

#endif
