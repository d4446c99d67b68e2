/* Fuzz gwi_part_owner(), which finds the function from which the compiler moved code (`f.cold`). Input: the first
 * address to look up (8 bytes), then the ELF file. Seed: any eight bytes and a program. */
#include "gwi_parts.h"
#include "inputs.h"

static volatile uint64_t sink;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    enum { ASKED = 64, STEP = 97 };
    uint64_t address;
    if (bytes <= sizeof address || elf_version(EV_CURRENT) == EV_NONE)
        return 0;
    memcpy(&address, data, sizeof address);
    char *copy = malloc(bytes - sizeof address);
    if (copy == NULL)
        return 0;
    memcpy(copy, data + sizeof address, bytes - sizeof address);
    Elf *elf = elf_memory(copy, bytes - sizeof address);
    gwi_parts *parts = elf == NULL ? NULL : gwi_parts_open(elf);
    for (unsigned i = 0; i < ASKED && parts != NULL; i++)
        sink += gwi_part_owner(parts, address + i * STEP);
    gwi_parts_close(parts);
    elf_end(elf);
    free(copy);
    return 0;
}
