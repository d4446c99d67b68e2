/* Reads cubins, which are ELF files with the GPU's machine code:
 * - `.text.NAME` has the code of the kernel NAME
 * - `.nv.info.NAME` lists its parameters
 * - symbols in `.nv.global*` and `.nv.constant3` are data objects */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gwi_image.h"

#include "gw_text.h"

enum {
    EM_GPU = 190,
    ABI_SM_IN_BYTE_1 = 8, /* from this ABI version on, the second byte of e_flags is the SM version */
    INFO_VALUE_16 = 3,
    INFO_SIZED = 4,
    INFO_THREADS_MAX = 0x05,
    INFO_PARAM = 0x17,
    INFO_PARAM_BYTES = 0x19,
    INFO_PARAM_V2 = 0x45
};

typedef struct elf {
    const unsigned char *data; /* borrowed */
    size_t bytes;
    Elf64_Ehdr head;
    gwi_image *image;
} elf;

static bool section_at(const elf *file, unsigned index, Elf64_Shdr *section)
{
    if (index >= file->head.e_shnum)
        return false;
    memcpy(section, file->data + file->head.e_shoff + (size_t)index * sizeof *section, sizeof *section);
    if (section->sh_type == SHT_NOBITS)
        return true;
    return section->sh_offset <= file->bytes && section->sh_size <= file->bytes - section->sh_offset;
}

/* Return a string of a string section. Returns "" if the offset is out of bounds. */
static const char *string_at(const elf *file, const Elf64_Shdr *strings, uint64_t offset)
{
    if (strings->sh_type == SHT_NOBITS || offset >= strings->sh_size)
        return "";
    const char *text = (const char *)file->data + strings->sh_offset + offset;
    return memchr(text, '\0', (size_t)(strings->sh_size - offset)) != NULL ? text : "";
}

static const char *section_name(const elf *file, const Elf64_Shdr *section)
{
    Elf64_Shdr names;
    if (!section_at(file, file->head.e_shstrndx, &names))
        return "";
    return string_at(file, &names, section->sh_name);
}

/* Parameters are stored from the last to the first; `slots` sorts them by ordinal. */
static void read_info(const elf *file, const Elf64_Shdr *section, gwi_kernel_info *kernel)
{
    const unsigned char *at = file->data + section->sh_offset;
    const unsigned char *end = at + section->sh_size;
    gwi_param slots[GWI_PARAMS_MAX];
    unsigned count = 0;
    memset(slots, 0, sizeof slots);
    while (end - at >= 4) {
        unsigned format = at[0];
        unsigned attribute = at[1];
        unsigned size = at[2] | (unsigned)at[3] << 8;
        const unsigned char *body = at + 4;
        at = body;
        if (format != INFO_SIZED)
            continue;
        if (size > (size_t)(end - body))
            break;
        at = body + size;
        if ((attribute == INFO_PARAM || attribute == INFO_PARAM_V2) && size >= 12) {
            unsigned ordinal = body[4] | (unsigned)body[5] << 8;
            unsigned packed = body[8] | body[9] << 8 | body[10] << 16 | (unsigned)body[11] << 24;
            if (ordinal >= GWI_PARAMS_MAX)
                continue;
            slots[ordinal].offset = body[6] | (unsigned)body[7] << 8;
            slots[ordinal].bytes = attribute == INFO_PARAM ? packed >> 18 : packed >> 16;
            count = ordinal + 1 > count ? ordinal + 1 : count;
        } else if (attribute == INFO_THREADS_MAX && size >= 12) {
            uint64_t threads = 1;
            for (int i = 0; i < 3; i++) {
                unsigned n = body[4 * i] | (unsigned)body[4 * i + 1] << 8;
                threads *= n > 0 && n <= 1024 ? n : 1;
            }
            kernel->threads_max = threads <= 1024 ? (uint32_t)threads : 1024;
        }
    }
    for (unsigned i = 0; i < count; i++)
        gwi_kernel_add_param(kernel, slots[i].offset, slots[i].bytes);
}

/* Return how many bytes at the start of a kernel's .nv.shared section the system reserves: 1024 for sm_90 and later, 0
 * for older architectures and for smaller sections. */
static uint64_t reserved_shared(const elf *file, uint64_t bytes)
{
    return file->image->binary_version >= 90 && bytes >= 1024 ? 1024 : 0;
}

static int read_kernels(const elf *file)
{
    Elf64_Shdr section;
    for (unsigned i = 0; i < file->head.e_shnum; i++) {
        if (!section_at(file, i, &section))
            return 200;
        const char *name = section_name(file, &section);
        if (gw_begins(name, ".text.") && name[6] != '\0' &&
            gwi_image_add_kernel(file->image, name + 6, strlen(name + 6)) == NULL)
            return 2;
    }
    for (unsigned i = 0; i < file->head.e_shnum; i++) {
        section_at(file, i, &section);
        const char *name = section_name(file, &section);
        gwi_kernel_info *kernel = NULL;
        if (gw_begins(name, ".nv.info.") && section.sh_type != SHT_NOBITS &&
            (kernel = gwi_image_kernel(file->image, name + 9)) != NULL && kernel->param_count == 0)
            read_info(file, &section, kernel);
        else if (gw_begins(name, ".nv.shared.") && section.sh_size < UINT32_MAX &&
                 (kernel = gwi_image_kernel(file->image, name + 11)) != NULL)
            kernel->shared_bytes = (uint32_t)(section.sh_size - reserved_shared(file, section.sh_size));
        else if (strcmp(name, ".nv.constant3") == 0 && section.sh_size < UINT32_MAX)
            file->image->constant_bytes = (uint32_t)section.sh_size;
    }
    return 0;
}

static int read_symbol(const elf *file, const Elf64_Sym *symbol, const char *name)
{
    Elf64_Shdr home;
    if (ELF64_ST_TYPE(symbol->st_info) != STT_OBJECT || name[0] == '\0' || !section_at(file, symbol->st_shndx, &home))
        return 0;
    const char *home_name = section_name(file, &home);
    bool constant = strcmp(home_name, ".nv.constant3") == 0;
    if (!constant && !gw_begins(home_name, ".nv.global"))
        return 0;
    gwi_global_info *global = gwi_image_add_global(file->image, name, strlen(name), symbol->st_size);
    if (global == NULL)
        return 2;
    global->constant = constant;
    if (home.sh_type == SHT_NOBITS || symbol->st_size == 0 || symbol->st_value > home.sh_size ||
        symbol->st_size > home.sh_size - symbol->st_value)
        return 0;
    global->initial = malloc((size_t)symbol->st_size);
    if (global->initial == NULL)
        return 2;
    memcpy(global->initial, file->data + home.sh_offset + symbol->st_value, (size_t)symbol->st_size);
    return 0;
}

static int read_globals(const elf *file)
{
    for (unsigned i = 0; i < file->head.e_shnum; i++) {
        Elf64_Shdr section;
        Elf64_Shdr strings;
        if (!section_at(file, i, &section) || section.sh_type != SHT_SYMTAB ||
            !section_at(file, section.sh_link, &strings))
            continue;
        for (uint64_t at = 0; section.sh_size - at >= sizeof(Elf64_Sym); at += sizeof(Elf64_Sym)) {
            Elf64_Sym symbol;
            memcpy(&symbol, file->data + section.sh_offset + at, sizeof symbol);
            int code = read_symbol(file, &symbol, string_at(file, &strings, symbol.st_name));
            if (code != 0)
                return code;
        }
    }
    return 0;
}

int gwi_image_read_elf(const unsigned char *data, size_t bytes, const gwi_image_wants *wants, gwi_image *image,
                       char *reason, size_t reason_bytes)
{
    elf file = {.data = data, .bytes = bytes, .image = image};
    if (bytes < sizeof file.head) {
        snprintf(reason, reason_bytes, "cubin: truncated in its header");
        return 200;
    }
    memcpy(&file.head, data, sizeof file.head);
    if (file.head.e_ident[EI_CLASS] != ELFCLASS64 || file.head.e_machine != EM_GPU) {
        snprintf(reason, reason_bytes, "cubin: an ELF file, but not for a GPU");
        return 200;
    }
    if (file.head.e_shentsize != sizeof(Elf64_Shdr) || file.head.e_shoff > bytes ||
        (bytes - file.head.e_shoff) / sizeof(Elf64_Shdr) < file.head.e_shnum) {
        snprintf(reason, reason_bytes, "cubin: the section table extends past the end");
        return 200;
    }
    unsigned flags = file.head.e_flags;
    int arch = file.head.e_ident[EI_ABIVERSION] >= ABI_SM_IN_BYTE_1 ? (int)(flags >> 8 & 0xff) : (int)(flags & 0xff);
    if (arch / 10 != wants->compute_capability / 10 || arch > wants->compute_capability) {
        snprintf(reason, reason_bytes, "cubin: made for sm_%d, this card is sm_%d", arch, wants->compute_capability);
        return 209;
    }
    image->binary_version = arch;
    int code = read_kernels(&file);
    if (code == 0)
        code = read_globals(&file);
    if (code != 0)
        snprintf(reason, reason_bytes, code == 2 ? "out of host memory" : "cubin: a section extends past the end");
    return code;
}
