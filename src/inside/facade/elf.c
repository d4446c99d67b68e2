/* Map a dynamic ELF file and read its symbols, dynamic entries and build id, with every offset checked. */
#include "gw_own.h"
#include "gwi_elf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SYMBOLS_MAX = 1 << 20 };

static bool in_file(const gwi_elf *elf, uint64_t offset, uint64_t bytes)
{
    return offset <= elf->bytes && bytes <= elf->bytes - offset;
}

/* Return a pointer to `bytes` bytes at a virtual address, NULL if the file lacks them. *ret_available (may be NULL):
 * bytes up to the end of the segment. */
static const void *at_address(const gwi_elf *elf, uint64_t address, uint64_t bytes, uint64_t *ret_available)
{
    for (uint32_t i = 0; i < elf->phdr_count; i++) {
        const Elf64_Phdr *ph = &elf->phdr[i];
        if (ph->p_type != PT_LOAD || address < ph->p_vaddr || address - ph->p_vaddr >= ph->p_filesz)
            continue;
        uint64_t inside = address - ph->p_vaddr;
        uint64_t available = ph->p_filesz - inside;
        if (!in_file(elf, ph->p_offset, ph->p_filesz) || available < bytes)
            return NULL;
        if (ret_available != NULL)
            *ret_available = available;
        return elf->data + ph->p_offset + inside;
    }
    return NULL;
}

static bool dyn_value(const gwi_elf *elf, int64_t tag, unsigned n, uint64_t *ret_value)
{
    for (uint32_t i = 0; i < elf->dyn_count && elf->dyn[i].d_tag != DT_NULL; i++) {
        if (elf->dyn[i].d_tag == tag && n-- == 0) {
            *ret_value = elf->dyn[i].d_un.d_val;
            return true;
        }
    }
    return false;
}

/* Count the symbols of a GNU hash table, which does not store their number. The chain of the last bucket ends with the
 * last symbol. */
static bool count_by_gnu_hash(const gwi_elf *elf, uint64_t address, uint32_t *ret_count)
{
    uint64_t available = 0;
    const uint32_t *head = at_address(elf, address, 16, &available);
    if (head == NULL || (uintptr_t)head % 4 != 0)
        return false;
    uint32_t bucket_count = head[0], first = head[1], bloom_count = head[2];
    uint64_t buckets_at = 16 + (uint64_t)bloom_count * 8;
    uint64_t chains_at = buckets_at + (uint64_t)bucket_count * 4;
    if (chains_at > available)
        return false;
    const uint32_t *bucket = (const uint32_t *)((const uint8_t *)head + buckets_at);
    uint32_t last = 0;
    for (uint32_t i = 0; i < bucket_count; i++)
        last = bucket[i] > last ? bucket[i] : last;
    if (last < first) { /* all buckets are empty: no symbol is exported */
        *ret_count = first;
        return true;
    }
    const uint32_t *chain = (const uint32_t *)((const uint8_t *)head + chains_at);
    uint64_t chain_count = (available - chains_at) / 4;
    for (uint64_t i = last - first; i < chain_count; i++) {
        if (chain[i] & 1) {
            *ret_count = (uint32_t)(first + i + 1);
            return true;
        }
    }
    return false;
}

static bool count_symbols(const gwi_elf *elf, uint32_t *ret_count)
{
    uint64_t address;
    if (dyn_value(elf, DT_HASH, 0, &address)) {
        const uint32_t *head = at_address(elf, address, 8, NULL);
        if (head == NULL || (uintptr_t)head % 4 != 0)
            return false;
        *ret_count = head[1];
        return true;
    }
    return dyn_value(elf, DT_GNU_HASH, 0, &address) && count_by_gnu_hash(elf, address, ret_count);
}

static gw_status read_dynamic(gwi_elf *elf, gw_error *err)
{
    for (uint32_t i = 0; i < elf->phdr_count; i++) {
        const Elf64_Phdr *ph = &elf->phdr[i];
        if (ph->p_type != PT_DYNAMIC)
            continue;
        if (!in_file(elf, ph->p_offset, ph->p_filesz) || ph->p_offset % 8 != 0)
            return gw_fail(err, GW_CORRUPT, "%s: offset %llu: the dynamic segment is outside the file", elf->path,
                           (unsigned long long)ph->p_offset);
        elf->dyn = (const Elf64_Dyn *)(elf->data + ph->p_offset);
        elf->dyn_count = (uint32_t)(ph->p_filesz / sizeof *elf->dyn);
    }
    uint64_t strings_at, string_bytes, symbols_at;
    if (elf->dyn == NULL || !dyn_value(elf, DT_STRTAB, 0, &strings_at) || !dyn_value(elf, DT_STRSZ, 0, &string_bytes))
        return GW_OK; /* not an error: a static file has no dynamic symbols */
    elf->strings = at_address(elf, strings_at, string_bytes, NULL);
    if (elf->strings == NULL || string_bytes == 0 || elf->strings[string_bytes - 1] != '\0')
        return gw_fail(err, GW_CORRUPT, "%s: the dynamic string table is damaged", elf->path);
    elf->string_bytes = string_bytes;
    if (!dyn_value(elf, DT_SYMTAB, 0, &symbols_at) || !count_symbols(elf, &elf->symbol_count))
        return GW_OK;
    if (elf->symbol_count > SYMBOLS_MAX)
        return gw_fail(err, GW_CORRUPT, "%s: too many dynamic symbols (%u)", elf->path, elf->symbol_count);
    elf->symbol = at_address(elf, symbols_at, (uint64_t)elf->symbol_count * sizeof *elf->symbol, NULL);
    if (elf->symbol_count != 0 && (elf->symbol == NULL || (uintptr_t)elf->symbol % 8 != 0))
        return gw_fail(err, GW_CORRUPT, "%s: the dynamic symbol table is outside the file", elf->path);
    return GW_OK;
}

static gw_status check_head(gwi_elf *elf, gw_error *err)
{
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)elf->data;
    if (elf->bytes < sizeof *head || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0)
        return gw_fail(err, GW_CORRUPT, "%s: not an ELF file", elf->path);
    if (head->e_ident[EI_CLASS] != ELFCLASS64 || head->e_ident[EI_DATA] != ELFDATA2LSB)
        return gw_fail(err, GW_UNSUPPORTED, "%s: not a 64-bit little-endian ELF file", elf->path);
    elf->type = head->e_type;
    elf->machine = head->e_machine;
    if (head->e_phentsize != sizeof(Elf64_Phdr) || head->e_phoff % 8 != 0 ||
        !in_file(elf, head->e_phoff, (uint64_t)head->e_phnum * sizeof(Elf64_Phdr)))
        return gw_fail(err, GW_CORRUPT, "%s: offset %llu: the program headers are outside the file", elf->path,
                       (unsigned long long)head->e_phoff);
    elf->phdr = (const Elf64_Phdr *)(elf->data + head->e_phoff);
    elf->phdr_count = head->e_phnum;
    return GW_OK;
}

gw_status gwi_elf_open(const char *path, gwi_elf *elf, gw_error *err)
{
    gw_status st = GW_OK;
    struct stat info;
    memset(elf, 0, sizeof *elf);
    elf->path = path;
    int fd;
    st = gw_plain_open(path, true, &fd, err);
    if (st != GW_OK) {
        gw_wrap(err, "open %s", path);
        return st;
    }
    if (fstat(fd, &info) != 0) {
        st = gw_fail(err, GW_IO, "%s: %s", path, strerror(errno));
        goto out;
    }
    if ((uint64_t)info.st_size < sizeof(Elf64_Ehdr)) {
        st = gw_fail(err, GW_CORRUPT, "%s: not an ELF file (%lld bytes)", path, (long long)info.st_size);
        goto out;
    }
    void *data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
        st = gw_fail(err, GW_IO, "map %s: %s", path, strerror(errno));
        goto out;
    }
    elf->data = data;
    elf->bytes = (size_t)info.st_size;
    st = check_head(elf, err);
    if (st == GW_OK)
        st = read_dynamic(elf, err);
out:
    close(fd);
    if (st != GW_OK)
        gwi_elf_close(elf);
    return st;
}

void gwi_elf_close(gwi_elf *elf)
{
    if (elf->data != NULL)
        munmap((void *)(uintptr_t)elf->data, elf->bytes);
    memset(elf, 0, sizeof *elf);
}

const char *gwi_elf_dyn_string(const gwi_elf *elf, int64_t tag, unsigned n)
{
    uint64_t offset;
    if (!dyn_value(elf, tag, n, &offset) || offset >= elf->string_bytes)
        return NULL;
    return elf->strings + offset;
}

const char *gwi_elf_symbol_name(const gwi_elf *elf, const Elf64_Sym *symbol)
{
    return symbol->st_name < elf->string_bytes ? elf->strings + symbol->st_name : NULL;
}

bool gwi_elf_symbol_exported(const Elf64_Sym *symbol)
{
    unsigned bind = ELF64_ST_BIND(symbol->st_info);
    unsigned visibility = ELF64_ST_VISIBILITY(symbol->st_other);
    unsigned type = ELF64_ST_TYPE(symbol->st_info);
    return symbol->st_shndx != SHN_UNDEF && symbol->st_name != 0 &&
           (bind == STB_GLOBAL || bind == STB_WEAK || bind == STB_GNU_UNIQUE) &&
           (visibility == STV_DEFAULT || visibility == STV_PROTECTED) && type != STT_SECTION && type != STT_FILE;
}

static bool build_id_of_note(const uint8_t *note, uint64_t bytes, char *out, size_t out_bytes)
{
    while (bytes >= 12) {
        uint32_t name_bytes, id_bytes, type;
        memcpy(&name_bytes, note, 4);
        memcpy(&id_bytes, note + 4, 4);
        memcpy(&type, note + 8, 4);
        uint64_t id_at = 12 + (((uint64_t)name_bytes + 3) & ~(uint64_t)3);
        uint64_t all = id_at + (((uint64_t)id_bytes + 3) & ~(uint64_t)3);
        if (all > bytes || id_at + id_bytes > bytes)
            return false;
        if (type == NT_GNU_BUILD_ID && name_bytes == 4 && memcmp(note + 12, "GNU", 4) == 0) {
            for (uint32_t i = 0; i < id_bytes && (size_t)i * 2 + 2 < out_bytes; i++)
                snprintf(out + (size_t)i * 2, 3, "%02x", note[id_at + i]);
            return true;
        }
        note += all;
        bytes -= all;
    }
    return false;
}

void gwi_elf_build_id(const gwi_elf *elf, char *out, size_t out_bytes)
{
    out[0] = '\0';
    for (uint32_t i = 0; i < elf->phdr_count; i++) {
        const Elf64_Phdr *ph = &elf->phdr[i];
        if (ph->p_type == PT_NOTE && in_file(elf, ph->p_offset, ph->p_filesz) &&
            build_id_of_note(elf->data + ph->p_offset, ph->p_filesz, out, out_bytes))
            return;
    }
}
