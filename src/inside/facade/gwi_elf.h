/* A dynamic ELF file, read as data. Every offset is checked against the file's size before it is used. */
#ifndef GWI_ELF_H
#define GWI_ELF_H

#include "gw_status.h"

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gwi_elf {
    const char *path;    /* borrowed from the caller of gwi_elf_open() */
    const uint8_t *data; /* owned: the mapped file */
    size_t bytes;
    uint16_t type;
    uint16_t machine;
    const Elf64_Phdr *phdr; /* borrowed from `data`, like all pointers below */
    uint32_t phdr_count;
    const Elf64_Dyn *dyn; /* NULL: no dynamic segment */
    uint32_t dyn_count;
    const char *strings; /* the dynamic string table; ends with a zero byte */
    size_t string_bytes;
    const Elf64_Sym *symbol;
    uint32_t symbol_count;
} gwi_elf;

/* Map and check a file. Returns GW_OK, GW_IO, GW_CORRUPT or GW_UNSUPPORTED (not a 64-bit little-endian file). After an
 * error, nothing stays mapped. */
GW_MUST_CHECK gw_status gwi_elf_open(const char *path, gwi_elf *elf, gw_error *err);
void gwi_elf_close(gwi_elf *elf);

/* Return the string of the `n`-th dynamic entry with this tag, counted from 0. Returns NULL if there is none, or if its
 * string is out of range. */
const char *gwi_elf_dyn_string(const gwi_elf *elf, int64_t tag, unsigned n);

/* Return the name of a symbol; NULL if the offset of the name is out of range. */
const char *gwi_elf_symbol_name(const gwi_elf *elf, const Elf64_Sym *symbol);

/* True if other libraries can find the symbol by name: the symbol is defined, not local and not hidden. */
bool gwi_elf_symbol_exported(const Elf64_Sym *symbol);

/* Write the build id in hex, or "" if there is none. */
void gwi_elf_build_id(const gwi_elf *elf, char *out, size_t out_bytes);

/* The machine type that this program was built for. */
#if defined(__x86_64__)
enum { GWI_ELF_MACHINE = EM_X86_64 };
#elif defined(__aarch64__)
enum { GWI_ELF_MACHINE = EM_AARCH64 };
#endif

#endif
