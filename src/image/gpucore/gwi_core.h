/* Functions shared by the GPU core dump reader. tables.c reads sections and rows; place.c finds the function and
 * source line of an address. */
#ifndef GWI_CORE_H
#define GWI_CORE_H

#include "gw_gpucore.h"

#include <gelf.h>
#include <libelf.h>

/* Types of sections. sh_type in the file is this number plus 0x80000000. */
typedef enum gwi_table {
    GWI_MANAGED_MEMORY = 1,
    GWI_GLOBAL_MEMORY,
    GWI_LOCAL_MEMORY,
    GWI_SHARED_MEMORY,
    GWI_REGISTERS,
    GWI_IMAGE,           /* an image before it was loaded */
    GWI_RELOCATED_IMAGE, /* an image with device addresses */
    GWI_BACKTRACE,
    GWI_DEVICES,
    GWI_CONTEXTS,
    GWI_SMS,
    GWI_GRIDS,
    GWI_BLOCKS,
    GWI_WARPS,
    GWI_LANES,
    GWI_MODULES,
    GWI_PREDICATES,
    GWI_PARAMETERS,
    GWI_UNIFORM_REGISTERS,
    GWI_UNIFORM_PREDICATES,
    GWI_CONSTANT_BANKS,
    GWI_META,
    GWI_BARRIERS,
    GWI_TABLE_COUNT
} gwi_table;

typedef struct gwi_section {
    GElf_Shdr header;
    const char *name; /* borrowed from the ELF file */
    gwi_table table;  /* 0: the section has none of these types */
} gwi_section;

typedef struct gwi_core {
    Elf *elf;             /* owned */
    const char *name;     /* borrowed; name of the dump in error texts */
    gwi_section *section; /* owned */
    size_t count;
    size_t strings; /* index of the section with the device names; 0: none */
} gwi_core;

/* Open the dump and check its sections. The contents of the tables are not checked. After a failure, call
 * gwi_core_close() as well. */
GW_MUST_CHECK gw_status gwi_core_open(gwi_core *core, int fd, const char *name, gw_error *err);
void gwi_core_close(gwi_core *core);

/* Return the bytes of a section, or NULL if they cannot be read. They are valid until gwi_core_close(). */
const uint8_t *gwi_core_bytes(const gwi_core *core, size_t section);
/* Return the number of rows in a table. Only types with a minimum row length in tables.c are safe: others may have
 * a sh_entsize of 0. */
static inline uint64_t gwi_row_count(const gwi_section *section)
{
    return section->header.sh_size / section->header.sh_entsize;
}
const uint8_t *gwi_core_row(const gwi_core *core, size_t section, uint64_t row);
/* Return the string at `offset` among the device names (borrowed), or NULL if there is none. */
const char *gwi_core_string(const gwi_core *core, uint64_t offset);

/* Read a number from a dump. Dumps are always little-endian. */
static inline uint32_t gwi_u32(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static inline uint64_t gwi_u64(const uint8_t *at)
{
    return gwi_u32(at) | (uint64_t)gwi_u32(at + 4) << 32;
}

/* Look up fault->pc, and set the fault's function, offset, file and line, and its kernel if unknown. Values that
 * are not found stay unset. After a failed assertion the PC is a return address, so the instruction before it is
 * looked up. `kernel_entry` is the start of the grid's kernel; 0: unknown. Returns GW_OK or GW_NOMEM. */
GW_MUST_CHECK gw_status gwi_place_find(const gwi_core *core, uint64_t kernel_entry, gw_gpucore_fault *fault,
                                       gw_error *err);

#endif
