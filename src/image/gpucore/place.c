/* Finds the loaded image, the function and the source line of a program counter.
 *
 * The driver loads functions one by one. A function that was not loaded has address 0 in the image, as has its section;
 * both are skipped.
 *
 * A called function that was not inlined is a local symbol in the kernel's section ".text.<kernel>". If it was compiled
 * separately, its own section does not show the kernel. The kernel's name is then from the table of grids. */
#define _GNU_SOURCE
#include "gwi_core.h"

#include "gw_text.h"

#include <elfutils/libdw.h>
#include <stdlib.h>
#include <string.h>

enum { SYMBOL_IS_ENTRY = 0x10 }; /* flag in st_other of a kernel's symbol */

typedef struct image {
    Elf *elf; /* owned */
    size_t names;
} image;

static bool image_open(const gwi_core *core, size_t section, image *ret_image)
{
    const uint8_t *bytes = gwi_core_bytes(core, section);
    GElf_Ehdr head;
    if (bytes == NULL)
        return false;
    /* elf_memory() does not write to these bytes, although its parameter is not const. */
    Elf *elf = elf_memory((char *)(uintptr_t)bytes, core->section[section].header.sh_size);
    if (elf == NULL)
        return false;
    if (elf_kind(elf) != ELF_K_ELF || gelf_getehdr(elf, &head) == NULL || head.e_ident[EI_CLASS] != ELFCLASS64 ||
        elf_getshdrstrndx(elf, &ret_image->names) != 0) {
        elf_end(elf);
        return false;
    }
    ret_image->elf = elf;
    return true;
}

/* ---- functions ---- */

typedef struct function {
    const char *name;   /* borrowed from the image; NULL if no function was found */
    const char *kernel; /* borrowed from the image; the kernel that contains this function; NULL: unknown */
    uint64_t begin;
} function;

/* Return "_Z3foov" for a section ".text._Z3foov". Returns NULL if the section is not loaded or does not contain
 * `address`. */
static const char *text_section(const image *in, size_t index, uint64_t address)
{
    GElf_Shdr header;
    Elf_Scn *scn = index == 0 ? NULL : elf_getscn(in->elf, index);
    if (scn == NULL || gelf_getshdr(scn, &header) == NULL || header.sh_addr == 0 || address < header.sh_addr ||
        address - header.sh_addr >= header.sh_size)
        return NULL;
    const char *name = elf_strptr(in->elf, in->names, header.sh_name);
    return name != NULL && gw_begins(name, ".text.") && name[6] != '\0' ? name + 6 : NULL;
}

/* Find the innermost function that contains `address`, and the kernel whose section contains the function. */
static void look_at_symbols(const image *in, Elf_Scn *table, const GElf_Shdr *header, uint64_t address, function *found)
{
    Elf_Data *data = elf_getdata(table, NULL);
    uint64_t count = data == NULL || header->sh_entsize == 0 ? 0 : data->d_size / header->sh_entsize;
    uint64_t smallest = UINT64_MAX;
    for (uint64_t i = 0; i < count && i < INT32_MAX; i++) {
        GElf_Sym symbol;
        if (gelf_getsym(data, (int)i, &symbol) == NULL || GELF_ST_TYPE(symbol.st_info) != STT_FUNC)
            continue;
        if (address < symbol.st_value || address - symbol.st_value >= symbol.st_size)
            continue;
        const char *section = text_section(in, symbol.st_shndx, address);
        const char *name = elf_strptr(in->elf, header->sh_link, symbol.st_name);
        if (section == NULL || name == NULL || name[0] == '\0')
            continue;
        bool is_global = GELF_ST_BIND(symbol.st_info) != STB_LOCAL;
        if (is_global && strcmp(name, section) != 0)
            continue; /* the names of symbol and section differ, so one of them is damaged */
        if (is_global && (symbol.st_other & SYMBOL_IS_ENTRY))
            found->kernel = section;
        if (symbol.st_size < smallest) {
            smallest = symbol.st_size;
            found->name = name;
            found->begin = symbol.st_value;
        }
    }
}

static function find_function(const image *in, uint64_t address)
{
    function found = {0};
    GElf_Shdr header;
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(in->elf, scn)) != NULL;)
        if (gelf_getshdr(scn, &header) != NULL && header.sh_type == SHT_SYMTAB)
            look_at_symbols(in, scn, &header, address, &found);
    return found;
}

/* Return the name of a function without the prefix of a local symbol. The local symbol of a called function is
 * "$<kernel>$<function>". */
static const char *plain_name(const char *name)
{
    const char *last = name[0] == '$' ? strrchr(name, '$') : NULL;
    return last != NULL && last[1] != '\0' ? last + 1 : name;
}

/* ---- lines ---- */

static gw_status take_line(Dwarf_Line *line, gw_gpucore_fault *fault, gw_error *err)
{
    int number = 0;
    const char *file = dwarf_linesrc(line, NULL, NULL);
    if (file == NULL || dwarf_lineno(line, &number) != 0 || number <= 0)
        return GW_OK;
    fault->file = strdup(file);
    fault->line = (uint32_t)number;
    return fault->file == NULL ? gw_fail(err, GW_NOMEM, "a source line") : GW_OK;
}

/* Return the row of the line table whose address range contains `address`. Returns NULL if there is none. */
static Dwarf_Line *line_at(Dwarf_Lines *lines, size_t count, uint64_t address)
{
    for (size_t i = 0; i + 1 < count; i++) {
        Dwarf_Line *line = dwarf_onesrcline(lines, i), *next = dwarf_onesrcline(lines, i + 1);
        Dwarf_Addr begin, end;
        bool is_end = true;
        if (line == NULL || next == NULL || dwarf_lineaddr(line, &begin) != 0 || dwarf_lineaddr(next, &end) != 0 ||
            dwarf_lineendsequence(line, &is_end) != 0)
            continue;
        if (!is_end && begin != 0 && address >= begin && address < end)
            return line;
    }
    return NULL;
}

static gw_status find_line(const image *in, uint64_t address, gw_gpucore_fault *fault, gw_error *err)
{
    Dwarf *dwarf = dwarf_begin_elf(in->elf, DWARF_C_READ, NULL);
    Dwarf_Off offset = 0, next;
    Dwarf_CU *unit = NULL;
    Dwarf_Files *files;
    Dwarf_Lines *lines;
    size_t file_count, line_count;
    gw_status st = GW_OK;
    while (dwarf != NULL && st == GW_OK && fault->file == NULL &&
           dwarf_next_lines(dwarf, offset, &next, &unit, &files, &file_count, &lines, &line_count) == 0) {
        Dwarf_Line *line = line_at(lines, line_count, address);
        if (line != NULL)
            st = take_line(line, fault, err);
        if (next <= offset)
            break;
        offset = next;
    }
    dwarf_end(dwarf);
    return st;
}

/* ---- images ---- */

/* Return an address inside the faulting instruction, usually the PC. A failed assertion is a call that does not return.
 * Its PC is the address after the call, which may belong to the next line or function (0x1c0 in a dump of driver
 * 580). */
static uint64_t instruction_of(const gw_gpucore_fault *fault)
{
    enum { WARP_ASSERT = 12 };
    return fault->exception == WARP_ASSERT ? fault->pc - 1 : fault->pc;
}

static gw_status keep_name(char **field, const char *name, gw_error *err)
{
    if (*field != NULL || name == NULL)
        return GW_OK;
    *field = strdup(name);
    return *field == NULL ? gw_fail(err, GW_NOMEM, "a function's name") : GW_OK;
}

static gw_status look_at_image(const image *in, uint64_t kernel_entry, gw_gpucore_fault *fault, gw_error *err)
{
    gw_status st = GW_OK;
    if (kernel_entry != 0 && fault->kernel == NULL) {
        function entry = find_function(in, kernel_entry);
        if (entry.name != NULL && entry.begin == kernel_entry)
            st = keep_name(&fault->kernel, entry.name, err);
    }
    if (st != GW_OK || !fault->has_pc || fault->function != NULL)
        return st;
    uint64_t at = instruction_of(fault);
    function found = find_function(in, at);
    if (found.name == NULL)
        return GW_OK;
    fault->offset = fault->pc - found.begin;
    st = keep_name(&fault->function, plain_name(found.name), err);
    if (st == GW_OK)
        st = keep_name(&fault->kernel, found.kernel, err);
    return st == GW_OK ? find_line(in, at, fault, err) : st;
}

gw_status gwi_place_find(const gwi_core *core, uint64_t kernel_entry, gw_gpucore_fault *fault, gw_error *err)
{
    gw_status st = GW_OK;
    for (size_t i = 1; i < core->count && st == GW_OK; i++) {
        image in;
        if (core->section[i].table != GWI_RELOCATED_IMAGE || !image_open(core, i, &in))
            continue;
        st = look_at_image(&in, kernel_entry, fault, err);
        elf_end(in.elf);
        if (fault->function != NULL && (fault->kernel != NULL || kernel_entry == 0))
            break;
    }
    return st;
}
