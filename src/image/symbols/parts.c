/* Finds the function that code without a symbol belongs to. Compilers move rarely executed code out of a function
 * ("f.cold"), and a stripped file has no name for this part. In Debian's CPython 3.14, this is most of the evaluation
 * loop.
 *
 * At the start of a part, more than the return address is on the stack, unlike at the start of a function. The jumps in
 * a part lead into the middle of its function. Any bytes that look like such a jump are used, because random bytes
 * rarely do. x86-64 only. */
#include "gwi_parts.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <stdlib.h>
#include <string.h>

/* Layout of .eh_frame_hdr: version, three encodings, address of .eh_frame, count, sorted pairs of 32-bit offsets. */
enum { HEADER_BYTES = 12, ROW_BYTES = 8, TABLE_VERSION = 1 };

struct gwi_parts {
    Elf *elf;       /* borrowed */
    Dwarf_CFI *cfi; /* owned */
    const uint8_t *row;
    uint32_t count;
    uint64_t base;                                /* address that the offsets are relative to */
    uint64_t code_end;                            /* end of the file's code */
    uint64_t known_begin, known_end, known_owner; /* range of addresses and result of the last gwi_part_owner() */
};

static int32_t offset_at(const uint8_t *at)
{
    int32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static uint64_t begin_of(const gwi_parts *it, uint32_t row)
{
    return it->base + (uint64_t)(int64_t)offset_at(it->row + (size_t)row * ROW_BYTES);
}

static uint64_t end_of(const gwi_parts *it, uint32_t row)
{
    return row + 1 == it->count ? it->code_end : begin_of(it, row + 1);
}

/* Find the row whose code contains the address. Returns false if there is none. */
static bool row_around(const gwi_parts *it, uint64_t address, uint32_t *ret_row)
{
    uint32_t low = 0, count = it->count;
    while (low < count) {
        uint32_t middle = low + (count - low) / 2;
        if (begin_of(it, middle) <= address)
            low = middle + 1;
        else
            count = middle;
    }
    *ret_row = low - 1;
    return low > 0 && address < end_of(it, low - 1);
}

static bool take_table(gwi_parts *it, Elf_Scn *section, const GElf_Shdr *head)
{
    Elf_Data *data = elf_rawdata(section, NULL);
    const uint8_t *bytes = data == NULL ? NULL : data->d_buf;
    if (bytes == NULL || data->d_size < HEADER_BYTES || bytes[0] != TABLE_VERSION ||
        bytes[1] != (DW_EH_PE_pcrel | DW_EH_PE_sdata4) || bytes[2] != DW_EH_PE_udata4 ||
        bytes[3] != (DW_EH_PE_datarel | DW_EH_PE_sdata4))
        return false;
    it->count = (uint32_t)offset_at(bytes + 8);
    it->row = bytes + HEADER_BYTES;
    it->base = head->sh_addr;
    return it->count <= (data->d_size - HEADER_BYTES) / ROW_BYTES;
}

static bool find_table(gwi_parts *it)
{
    Elf_Scn *section = NULL;
    size_t names;
    bool found = false;
    if (elf_getshdrstrndx(it->elf, &names) != 0)
        return false;
    while ((section = elf_nextscn(it->elf, section)) != NULL) {
        GElf_Shdr head;
        const char *name = gelf_getshdr(section, &head) == NULL ? NULL : elf_strptr(it->elf, names, head.sh_name);
        if (name != NULL && strcmp(name, ".eh_frame_hdr") == 0)
            found = take_table(it, section, &head);
        if (name != NULL && (head.sh_flags & SHF_EXECINSTR) != 0 && head.sh_addr + head.sh_size > it->code_end)
            it->code_end = head.sh_addr + head.sh_size;
    }
    return found;
}

gwi_parts *gwi_parts_open(Elf *elf)
{
    GElf_Ehdr head;
    gwi_parts *it = calloc(1, sizeof *it);
    if (it == NULL)
        return NULL;
    it->elf = elf;
    if (gelf_getehdr(elf, &head) != NULL && head.e_machine == EM_X86_64 && find_table(it))
        it->cfi = dwarf_getcfi_elf(elf);
    if (it->cfi != NULL)
        return it;
    gwi_parts_close(it);
    return NULL;
}

void gwi_parts_close(gwi_parts *it)
{
    if (it != NULL && it->cfi != NULL)
        dwarf_cfi_end(it->cfi);
    free(it);
}

/* True if more than the return address is on the stack at the start of this code. */
static bool is_part(const gwi_parts *it, uint64_t begin)
{
    enum { STACK_POINTER = 7, RETURN_ADDRESS_BYTES = 8 };
    Dwarf_Frame *frame = NULL;
    Dwarf_Op *rule = NULL;
    size_t count = 0;
    bool part = false;
    if (dwarf_cfi_addrframe(it->cfi, begin, &frame) == 0 && dwarf_frame_cfa(frame, &rule, &count) == 0 && count == 1)
        part = rule->atom != DW_OP_bregx || rule->number != STACK_POINTER || rule->number2 != RETURN_ADDRESS_BYTES;
    free(frame);
    return part;
}

static Elf_Data *code_around(Elf *elf, uint64_t begin, uint64_t *ret_section)
{
    Elf_Scn *section = NULL;
    while ((section = elf_nextscn(elf, section)) != NULL) {
        GElf_Shdr head;
        if (gelf_getshdr(section, &head) == NULL || (head.sh_flags & SHF_EXECINSTR) == 0 || begin < head.sh_addr ||
            begin - head.sh_addr >= head.sh_size)
            continue;
        *ret_section = head.sh_addr;
        return elf_rawdata(section, NULL);
    }
    return NULL;
}

/* Return the length of a direct jump with a 32-bit distance. Returns 0 if the bytes are not such a jump. */
static unsigned jump_bytes(const uint8_t *at, uint64_t left)
{
    if (left >= 5 && at[0] == 0xe9)
        return 5;
    if (left >= 6 && at[0] == 0x0f && (at[1] & 0xf0) == 0x80)
        return 6;
    return 0;
}

/* Find the function that the code jumps into. Of all its jumps into the middle of other functions, at least nine tenths
 * must lead into this one. Returns the function's start, otherwise 0. */
static uint64_t jumped_into(const gwi_parts *it, const uint8_t *code, uint64_t begin, uint64_t bytes)
{
    uint64_t owner = 0, lead = 0, all = 0, hits = 0;
    for (unsigned pass = 0; pass < 2;
         pass++) { /* pass 0 finds the only function that can have the majority, pass 1 counts the jumps into it */
        for (uint64_t at = 0; at < bytes; at++) {
            unsigned jump = jump_bytes(code + at, bytes - at);
            uint64_t to = begin + at + jump + (uint64_t)(int64_t)(jump == 0 ? 0 : offset_at(code + at + jump - 4));
            uint32_t row;
            if (jump == 0 || to - begin < bytes || !row_around(it, to, &row))
                continue;
            uint64_t target = begin_of(it, row);
            if (target == to)
                continue;
            if (pass == 1) {
                all++;
                hits += target == owner;
            } else if (target == owner || lead == 0) {
                owner = target;
                lead++;
            } else {
                lead--;
            }
        }
    }
    return hits > 0 && hits * 10 >= all * 9 ? owner : 0;
}

uint64_t gwi_part_owner(gwi_parts *it, uint64_t address)
{
    uint32_t row;
    uint64_t section = 0;
    if (address >= it->known_begin && address < it->known_end)
        return it->known_owner;
    if (!row_around(it, address, &row))
        return 0;
    uint64_t begin = begin_of(it, row), end = end_of(it, row);
    Elf_Data *code = is_part(it, begin) ? code_around(it->elf, begin, &section) : NULL;
    it->known_begin = begin;
    it->known_end = end;
    it->known_owner = 0;
    if (code != NULL && code->d_buf != NULL && begin - section < code->d_size) {
        uint64_t left = code->d_size - (begin - section);
        it->known_owner = jumped_into(it, (const uint8_t *)code->d_buf + (begin - section), begin,
                                      end - begin < left ? end - begin : left);
    }
    return it->known_owner;
}
