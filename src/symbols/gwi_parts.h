/* Parts of functions that compilers moved away and that have no symbol. One Elf, one thread. */
#ifndef GWI_SYMBOLS_PARTS_H
#define GWI_SYMBOLS_PARTS_H

#include <gelf.h>
#include <stdint.h>

typedef struct gwi_parts gwi_parts;

/* `elf` must stay open until gwi_parts_close(). NULL: the file has no data about its parts, or no memory. */
gwi_parts *gwi_parts_open(Elf *elf);
void gwi_parts_close(gwi_parts *parts); /* takes NULL */
/* Return the start of the function to which the code at this address belongs; 0: it is not a part, or its function is
 * not known. */
uint64_t gwi_part_owner(gwi_parts *parts, uint64_t address);

#endif
