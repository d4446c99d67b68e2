/* Shared by the parts of the reader: sections and rows (tables.c), names and lines by address (place.c). */
#ifndef GWI_CORE_H
#define GWI_CORE_H

#include "gw_gpucore.h"

#include <gelf.h>
#include <libelf.h>

/* Section types, starting at 0x80000001. */
typedef enum gwi_table {
    GWI_MANAGED_MEMORY = 1,
    GWI_GLOBAL_MEMORY,
    GWI_LOCAL_MEMORY,
    GWI_SHARED_MEMORY,
    GWI_REGISTERS,
    GWI_IMAGE,           /* as it was in the file that was loaded */
    GWI_RELOCATED_IMAGE, /* with its addresses on the device */
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
    gwi_table table;  /* 0: not one of these tables */
} gwi_section;

typedef struct gwi_core {
    Elf *elf;             /* owned */
    const char *name;     /* name of the file, for errors; borrowed */
    gwi_section *section; /* owned */
    size_t count;
    size_t strings; /* index of the section with the device names; 0: none */
} gwi_core;

/* Open the file and check everything except the contents of the tables. */
GW_MUST_CHECK gw_status gwi_core_open(gwi_core *core, int fd, const char *name, gw_error *err);
void gwi_core_close(gwi_core *core);

/* The bytes of a section, or NULL if they cannot be read. They are valid as long as the core. */
const uint8_t *gwi_core_bytes(const gwi_core *core, size_t section);
/* Number of rows in a table. Their length was checked to be at least that of the oldest driver. */
static inline uint64_t gwi_row_count(const gwi_section *section)
{
    return section->header.sh_size / section->header.sh_entsize;
}
const uint8_t *gwi_core_row(const gwi_core *core, size_t section, uint64_t row);
/* The string at `offset` in the device names, or NULL. Borrowed. */
const char *gwi_core_string(const gwi_core *core, uint64_t offset);

/* The files are little-endian on every machine. */
static inline uint32_t gwi_u32(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static inline uint64_t gwi_u64(const uint8_t *at)
{
    return gwi_u32(at) | (uint64_t)gwi_u32(at + 4) << 32;
}

/* Fill function, offset, file and line from fault->pc, and the kernel if it is not known yet (place.c). If the PC is
 * a return address, as for an assertion, the instruction before it is looked up. `kernel_entry` is the start address
 * of the grid's kernel, 0: unknown. Values that are not found stay unknown. The only failure is GW_NOMEM. */
GW_MUST_CHECK gw_status gwi_place_find(const gwi_core *core, uint64_t kernel_entry, gw_gpucore_fault *fault,
                                       gw_error *err);

#endif
