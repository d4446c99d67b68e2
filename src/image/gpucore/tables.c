/* Opens a GPU core dump with libelf. Checks that the sections are consistent with each other before any row is read. */
#define _GNU_SOURCE
#include "gw_cuda_results.h"
#include "gw_gpucore.h"
#include "gwi_core.h"

#include "gw_text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Lists the GPU exceptions (CUDBGException_t of NVIDIA's cudadebugger.h), and the result of driver calls after each.
 * The result 700 after a call stack overflow was measured on a GPU. Results that were not measured have the best
 * matching description. */

typedef struct exception {
    const char *name;
    uint16_t result;
} exception;

static const exception exceptions[] = {
    [1] = {"LANE_ILLEGAL_ADDRESS", CUDA_ERROR_ILLEGAL_ADDRESS},
    [2] = {"LANE_USER_STACK_OVERFLOW", CUDA_ERROR_ILLEGAL_ADDRESS},
    [3] = {"DEVICE_HARDWARE_STACK_OVERFLOW", CUDA_ERROR_HARDWARE_STACK_ERROR},
    [4] = {"WARP_ILLEGAL_INSTRUCTION", CUDA_ERROR_ILLEGAL_INSTRUCTION},
    [5] = {"WARP_OUT_OF_RANGE_ADDRESS", CUDA_ERROR_ILLEGAL_ADDRESS},
    [6] = {"WARP_MISALIGNED_ADDRESS", CUDA_ERROR_MISALIGNED_ADDRESS},
    [7] = {"WARP_INVALID_ADDRESS_SPACE", CUDA_ERROR_INVALID_ADDRESS_SPACE},
    [8] = {"WARP_INVALID_PC", CUDA_ERROR_INVALID_PC},
    [9] = {"WARP_HARDWARE_STACK_OVERFLOW", CUDA_ERROR_HARDWARE_STACK_ERROR},
    [10] = {"DEVICE_ILLEGAL_ADDRESS", CUDA_ERROR_ILLEGAL_ADDRESS},
    [11] = {"LANE_MISALIGNED_ADDRESS", CUDA_ERROR_MISALIGNED_ADDRESS},
    [12] = {"WARP_ASSERT", CUDA_ERROR_ASSERT},
    [13] = {"LANE_SYSCALL_ERROR", CUDA_ERROR_LAUNCH_FAILED},
    [14] = {"WARP_ILLEGAL_ADDRESS", CUDA_ERROR_ILLEGAL_ADDRESS},
    [15] = {"LANE_NONMIGRATABLE_ATOMSYS", CUDA_ERROR_LAUNCH_FAILED},
    [16] = {"LANE_INVALID_ATOMSYS", CUDA_ERROR_LAUNCH_FAILED},
    [17] = {"CLUSTER_OUT_OF_RANGE_ADDRESS", CUDA_ERROR_ILLEGAL_ADDRESS},
    [18] = {"CLUSTER_BLOCK_NOT_PRESENT", CUDA_ERROR_LAUNCH_FAILED},
    [19] = {"WARP_STACK_CANARY", CUDA_ERROR_LAUNCH_FAILED},
    [20] = {"WARP_TMEM_ACCESS_CHECK", CUDA_ERROR_LAUNCH_FAILED},
    [21] = {"WARP_TMEM_LEAK", CUDA_ERROR_TENSOR_MEMORY_LEAK},
    [22] = {"WARP_CALL_REQUIRES_NEWER_DRIVER", CUDA_ERROR_LAUNCH_FAILED},
    [23] = {"WARP_MISALIGNED_PC", CUDA_ERROR_INVALID_PC},
    [24] = {"WARP_PC_OVERFLOW", CUDA_ERROR_INVALID_PC},
    [25] = {"WARP_MISALIGNED_REG", CUDA_ERROR_ILLEGAL_INSTRUCTION},
    [26] = {"WARP_ILLEGAL_INSTR_ENCODING", CUDA_ERROR_ILLEGAL_INSTRUCTION},
    [27] = {"WARP_ILLEGAL_INSTR_PARAM", CUDA_ERROR_ILLEGAL_INSTRUCTION},
    [28] = {"WARP_OUT_OF_RANGE_REGISTER", CUDA_ERROR_ILLEGAL_INSTRUCTION},
    [29] = {"WARP_INVALID_CONST_ADDR_LDC", CUDA_ERROR_ILLEGAL_ADDRESS},
    [30] = {"WARP_MMU_FAULT", CUDA_ERROR_ILLEGAL_ADDRESS},
    [31] = {"WARP_ARRIVE", CUDA_ERROR_LAUNCH_FAILED},
    [32] = {"CLUSTER_POISON", CUDA_ERROR_LAUNCH_FAILED},
    [33] = {"WARP_API_STACK_ERROR", CUDA_ERROR_HARDWARE_STACK_ERROR},
    [34] = {"WARP_BLOCK_NOT_PRESENT", CUDA_ERROR_LAUNCH_FAILED},
    [35] = {"WARP_USER_STACK_OVERFLOW", CUDA_ERROR_ILLEGAL_ADDRESS},
    [36] = {"TMA_SYSCALL", CUDA_ERROR_LAUNCH_FAILED},
};
enum { EXCEPTION_COUNT = sizeof exceptions / sizeof exceptions[0] };

const char *gw_gpucore_exception_name(char out[GW_GPUCORE_NAME_MAX], uint32_t number)
{
    if (number < EXCEPTION_COUNT && exceptions[number].name != NULL)
        return exceptions[number].name;
    snprintf(out, GW_GPUCORE_NAME_MAX, "EXCEPTION_%u", number);
    return out;
}

uint16_t gw_gpucore_exception_result(uint32_t number)
{
    return number < EXCEPTION_COUNT && exceptions[number].name != NULL ? exceptions[number].result
                                                                       : CUDA_ERROR_LAUNCH_FAILED;
}

enum { ABI_CUDA = 0x33, MACHINE_CUDA = 190, TYPE_FIRST = 0x80000000 };

/* For each type of section: the beginning of its name, its parent's type, the oldest driver's row length in bytes (0:
 * gpuwhy does not read such rows), and the word before the last number in the names of its child tables. For example,
 * the names of tables in an SM end with ".sm" and the SM's row. NULL: they have no such number. */
static const struct table_kind {
    const char *name;
    gwi_table parent;
    uint32_t row_bytes_min;
    const char *child_key;
} kinds[GWI_TABLE_COUNT] = {
    [GWI_MANAGED_MEMORY] = {".cudbg.", 0, 0, NULL},
    [GWI_GLOBAL_MEMORY] = {".cudbg.global", 0, 0, NULL},
    [GWI_LOCAL_MEMORY] = {".cudbg.local", GWI_LANES, 0, NULL},
    [GWI_SHARED_MEMORY] = {".cudbg.shared", GWI_BLOCKS, 0, NULL},
    [GWI_REGISTERS] = {".cudbg.regs", GWI_LANES, 0, NULL},
    [GWI_IMAGE] = {".cudbg.elfimg", GWI_MODULES, 0, NULL},
    [GWI_RELOCATED_IMAGE] = {".cudbg.relfimg", GWI_MODULES, 0, NULL},
    [GWI_BACKTRACE] = {".cudbg.bt", GWI_LANES, 0, NULL},
    [GWI_DEVICES] = {".cudbg.devtbl", 0, 72, ".dev"},
    [GWI_CONTEXTS] = {".cudbg.ctxtbl", GWI_DEVICES, 40, ".ctx"},
    [GWI_SMS] = {".cudbg.smtbl", GWI_DEVICES, 8, ".sm"},
    [GWI_GRIDS] = {".cudbg.gridtbl", GWI_DEVICES, 104, ".grid"},
    [GWI_BLOCKS] = {".cudbg.ctatbl", GWI_SMS, 24, ".cta"},
    [GWI_WARPS] = {".cudbg.wptbl", GWI_BLOCKS, 32, ".wp"},
    [GWI_LANES] = {".cudbg.lntbl", GWI_WARPS, 48, ".ln"},
    [GWI_MODULES] = {".cudbg.modtbl", GWI_CONTEXTS, 8, NULL},
    [GWI_PREDICATES] = {".cudbg.pred", GWI_LANES, 0, NULL},
    [GWI_PARAMETERS] = {".cudbg.param", GWI_GRIDS, 0, NULL},
    [GWI_UNIFORM_REGISTERS] = {".cudbg.uregs", GWI_WARPS, 0, NULL},
    [GWI_UNIFORM_PREDICATES] = {".cudbg.upred", GWI_WARPS, 0, NULL},
    [GWI_CONSTANT_BANKS] = {".cudbg.cbankstbl", GWI_GRIDS, 16, NULL},
    [GWI_META] = {".cudbg.meta", 0, 0, NULL},
    [GWI_BARRIERS] = {".cudbg.cbu_bar", GWI_WARPS, 0, NULL},
};

static gw_status damaged(const gwi_core *core, size_t section, gw_error *err, const char *why)
{
    const char *name = core->section[section].name;
    return gw_fail(err, GW_CORRUPT, "%s: section %zu (%.60s): %s", core->name, section, name == NULL ? "?" : name, why);
}

/* ---- the file ---- */

static gw_status check_head(const gwi_core *core, gw_error *err)
{
    GElf_Ehdr head;
    if (elf_kind(core->elf) != ELF_K_ELF || gelf_getehdr(core->elf, &head) == NULL)
        return gw_fail(err, GW_CORRUPT, "%s: not an ELF file", core->name);
    if (head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_ident[EI_DATA] != ELFDATA2LSB || head.e_type != ET_CORE ||
        head.e_machine != MACHINE_CUDA || head.e_ident[EI_OSABI] != ABI_CUDA)
        return gw_fail(err, GW_CORRUPT, "%s: an ELF file, but not a GPU core dump (type %u, machine %u, ABI %u)",
                       core->name, head.e_type, head.e_machine, head.e_ident[EI_OSABI]);
    return GW_OK;
}

static bool name_is(const char *name, const char *prefix)
{
    size_t bytes = strlen(prefix);
    return strncmp(name, prefix, bytes) == 0 && (name[bytes] == '\0' || name[bytes] == '.' || prefix[bytes - 1] == '.');
}

/* Set the type of a section. Returns NULL, or the reason if the section is damaged, for example if its name does not
 * fit its type. */
static const char *check_kind(gwi_section *section)
{
    uint32_t type = section->header.sh_type;
    bool ours = gw_begins(section->name, ".cudbg.");
    if (type <= TYPE_FIRST || type >= TYPE_FIRST + GWI_TABLE_COUNT) {
        for (size_t i = GWI_GLOBAL_MEMORY; i < GWI_TABLE_COUNT; i++)
            if (name_is(section->name, kinds[i].name))
                return "its type does not match its name";
        return NULL; /* a section of another kind, or of a newer driver */
    }
    section->table = (gwi_table)(type - TYPE_FIRST);
    const struct table_kind *kind = &kinds[section->table];
    if (!ours || !name_is(section->name, kind->name))
        return "its name does not match its type";
    if (kind->row_bytes_min == 0)
        return NULL;
    if (section->header.sh_entsize < kind->row_bytes_min)
        return "its rows are too short";
    return section->header.sh_size % section->header.sh_entsize != 0 ? "it ends in the middle of a row" : NULL;
}

static gw_status read_sections(gwi_core *core, gw_error *err)
{
    size_t names = 0;
    if (elf_getshdrnum(core->elf, &core->count) != 0 || elf_getshdrstrndx(core->elf, &names) != 0)
        return gw_fail(err, GW_CORRUPT, "%s: section table: %s", core->name, elf_errmsg(-1));
    core->section = calloc(core->count + 1, sizeof *core->section);
    if (core->section == NULL)
        return gw_fail(err, GW_NOMEM, "%s: %zu sections", core->name, core->count);
    for (size_t i = 1; i < core->count; i++) {
        gwi_section *section = &core->section[i];
        Elf_Scn *scn = elf_getscn(core->elf, i);
        if (scn == NULL || gelf_getshdr(scn, &section->header) == NULL ||
            (section->name = elf_strptr(core->elf, names, section->header.sh_name)) == NULL)
            return damaged(core, i, err, elf_errmsg(-1));
        const char *why = check_kind(section);
        if (why != NULL)
            return damaged(core, i, err, why);
        if (strcmp(section->name, ".strtab") == 0 && section->header.sh_type == SHT_STRTAB)
            core->strings = i;
    }
    return GW_OK;
}

/* ---- consistency of the sections ---- */

typedef struct span {
    uint64_t begin, end;
    size_t section;
} span;

static int by_begin(const void *a, const void *b)
{
    const span *x = a, *y = b;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* Check that every section ends within the file and that no two sections overlap. */
static gw_status check_overlap(const gwi_core *core, uint64_t file_bytes, gw_error *err)
{
    span *spans = calloc(core->count + 2, sizeof *spans);
    gw_status st = GW_OK;
    size_t count = 0;
    GElf_Ehdr head;
    if (spans == NULL || gelf_getehdr(core->elf, &head) == NULL) {
        free(spans);
        return gw_fail(err, GW_NOMEM, "%s: %zu sections", core->name, core->count);
    }
    spans[count++] = (span){0, head.e_ehsize, 0};
    spans[count++] = (span){head.e_shoff, head.e_shoff + core->count * head.e_shentsize, 0};
    for (size_t i = 1; i < core->count && st == GW_OK; i++) {
        const GElf_Shdr *header = &core->section[i].header;
        if (header->sh_size == 0 || header->sh_type == SHT_NOBITS)
            continue;
        if (header->sh_offset > file_bytes || header->sh_size > file_bytes - header->sh_offset)
            st = damaged(core, i, err, "it extends past the end of the file");
        spans[count++] = (span){header->sh_offset, header->sh_offset + header->sh_size, i};
    }
    qsort(spans, count, sizeof *spans, by_begin);
    for (size_t i = 1; i < count && st == GW_OK; i++)
        if (spans[i].begin < spans[i - 1].end)
            st = damaged(core, spans[i].section == 0 ? spans[i - 1].section : spans[i].section, err,
                         "it overlaps another section");
    free(spans);
    return st;
}

/* Return the number that follows `key` in a section's name: 124 for ".sm" in ".cudbg.ctatbl.dev0.sm124". Returns -1 if
 * there is none. */
static int64_t number_in(const char *name, const char *key)
{
    const char *at = strstr(name, key);
    if (at == NULL)
        return -1;
    at += strlen(key);
    char *end;
    long number = strtol(at, &end, 10);
    return end == at || number < 0 ? -1 : number;
}

/* True if the child's name fits the parent's: after the type, it has the same parts, and one more that begins with
 * `key`, unless that is NULL. For example, ".cudbg.lntbl.dev0.sm1.cta2.wp3" is a child of
 * ".cudbg.wptbl.dev0.sm1.cta2". */
static bool names_agree(const char *child, const char *parent, const char *key)
{
    const char *child_part = strchr(child + 7, '.'), *parent_part = strchr(parent + 7, '.');
    size_t parent_bytes = parent_part == NULL ? 0 : strlen(parent_part);
    if (child_part == NULL || strncmp(child_part, parent_part == NULL ? "" : parent_part, parent_bytes) != 0)
        return false;
    return key == NULL ? child_part[parent_bytes] == '\0' : gw_begins(child_part + parent_bytes, key);
}

static const char *check_link(const gwi_core *core, const gwi_section *section)
{
    gwi_table wanted = kinds[section->table].parent;
    if (wanted == 0)
        return NULL;
    if (section->header.sh_link >= core->count || core->section[section->header.sh_link].table != wanted)
        return "it is linked to a section of another type";
    const gwi_section *parent = &core->section[section->header.sh_link];
    if (section->header.sh_info >= gwi_row_count(parent))
        return "it refers to a missing row";
    const char *key = kinds[wanted].child_key;
    if (!names_agree(section->name, parent->name, key))
        return "its name does not match its parent section";
    if (key != NULL && number_in(section->name, key) != (int64_t)section->header.sh_info)
        return "its name and its link refer to different rows";
    return NULL;
}

static gw_status check_links(const gwi_core *core, gw_error *err)
{
    size_t devices = 0;
    for (size_t i = 1; i < core->count; i++) {
        const char *why = core->section[i].table == 0 ? NULL : check_link(core, &core->section[i]);
        devices += core->section[i].table == GWI_DEVICES;
        if (why == NULL && devices > 1)
            why = "a second table of devices";
        if (why != NULL)
            return damaged(core, i, err, why);
    }
    if (devices == 0)
        return gw_fail(err, GW_CORRUPT, "%s: no table of devices", core->name);
    return GW_OK;
}

static gw_status check_magic(int fd, const char *name, gw_error *err)
{
    uint8_t magic[4];
    ssize_t got = pread(fd, magic, sizeof magic, 0);
    if (got < 0)
        return gw_fail(err, GW_IO, "%s: read: %s", name, strerror(errno));
    if (got >= 2 && magic[0] == 0x1f && magic[1] == 0x8b)
        return gw_fail(err, GW_UNSUPPORTED, "%s: compressed with gzip; unpack it first", name);
    if (got < 4 || memcmp(magic, ELFMAG, 4) != 0)
        return gw_fail(err, GW_CORRUPT, "%s: %s", name, got == 0 ? "empty" : "not an ELF file");
    return GW_OK;
}

gw_status gwi_core_open(gwi_core *core, int fd, const char *name, gw_error *err)
{
    *core = (gwi_core){.name = name};
    gw_status st = check_magic(fd, name, err);
    off_t file_bytes = lseek(fd, 0, SEEK_END);
    if (st == GW_OK && file_bytes < 0)
        st = gw_fail(err, GW_IO, "%s: %s", name, strerror(errno));
    if (st != GW_OK)
        return st;
    elf_version(EV_CURRENT);
    core->elf = elf_begin(fd, ELF_C_READ, NULL); /* read the file, do not map it: it may shrink */
    if (core->elf == NULL)
        return gw_fail(err, GW_CORRUPT, "%s: %s", name, elf_errmsg(-1));
    st = check_head(core, err);
    if (st == GW_OK)
        st = read_sections(core, err);
    if (st == GW_OK)
        st = check_overlap(core, (uint64_t)file_bytes, err);
    if (st == GW_OK)
        st = check_links(core, err);
    return st;
}

void gwi_core_close(gwi_core *core)
{
    free(core->section);
    elf_end(core->elf);
    *core = (gwi_core){0};
}

/* ---- rows ---- */

const uint8_t *gwi_core_bytes(const gwi_core *core, size_t section)
{
    const gwi_section *entry = &core->section[section];
    Elf_Scn *scn = elf_getscn(core->elf, section);
    Elf_Data *data = scn == NULL || entry->header.sh_size == 0 ? NULL : elf_rawdata(scn, NULL);
    return data == NULL || data->d_size < entry->header.sh_size ? NULL : data->d_buf;
}

const uint8_t *gwi_core_row(const gwi_core *core, size_t section, uint64_t row)
{
    const gwi_section *entry = &core->section[section];
    const uint8_t *bytes = row < gwi_row_count(entry) ? gwi_core_bytes(core, section) : NULL;
    return bytes == NULL ? NULL : bytes + row * entry->header.sh_entsize;
}

const char *gwi_core_string(const gwi_core *core, uint64_t offset)
{
    const uint8_t *bytes = core->strings == 0 ? NULL : gwi_core_bytes(core, core->strings);
    uint64_t count = core->section[core->strings].header.sh_size;
    if (bytes == NULL || offset == 0 || offset >= count || memchr(bytes + offset, 0, count - offset) == NULL ||
        bytes[offset] == '\0')
        return NULL;
    return (const char *)bytes + offset;
}
