/* Write the tables of a GPU core dump and the ELF file around them. src/image/gpucore/ reads both these dumps and real
 * ones. */
#define _GNU_SOURCE
#include "gw_array.h"
#include "gwi_dump.h"

#include "gw_cuda_results.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- the environment ---- */

static bool is_on(const char *value)
{
    return value != NULL && value[0] != '\0' && strcmp(value, "0") != 0;
}

bool gwi_dump_wanted(unsigned *ret_flags)
{
    static const char *const names[] = {
        "skip_nonrelocated_elf_images", "skip_global_memory", "skip_shared_memory", "skip_local_memory", "skip_abort",
        "skip_constbank_memory"};
    const char *flags = getenv("CUDA_COREDUMP_GENERATION_FLAGS");
    *ret_flags = 0;
    for (unsigned i = 0; flags != NULL && i < sizeof names / sizeof *names; i++)
        if (strstr(flags, names[i]) != NULL)
            *ret_flags |= 1u << i;
    return is_on(getenv("CUDA_ENABLE_COREDUMP_ON_EXCEPTION"));
}

unsigned gwi_dump_exception(int result)
{
    switch (result) {
    case CUDA_ERROR_ILLEGAL_ADDRESS:
        return 14;
    case CUDA_ERROR_ASSERT:
        return 12;
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
        return 4;
    case CUDA_ERROR_MISALIGNED_ADDRESS:
        return 6;
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
        return 7;
    case CUDA_ERROR_INVALID_PC:
        return 8;
    default:
        return 0;
    }
}

bool gwi_dump_path(char *out, size_t bytes_max)
{
    const char *from = getenv("CUDA_COREDUMP_FILE");
    size_t used = 0;
    char part[256];
    if (from == NULL || from[0] == '\0')
        from = "core_%t_%h_%p.nvcudmp";
    for (; *from != '\0'; from++) {
        snprintf(part, sizeof part, "%c", *from);
        if (*from == '%' && from[1] == 'p')
            snprintf(part, sizeof part, "%d", (int)getpid());
        else if (*from == '%' && from[1] == 't')
            snprintf(part, sizeof part, "%lld", (long long)time(NULL));
        else if (*from == '%' && from[1] == 'h' && gethostname(part, sizeof part) != 0)
            snprintf(part, sizeof part, "host");
        if (*from == '%' && from[1] != '\0' && strchr("pth", from[1]) != NULL)
            from++;
        size_t bytes = strlen(part);
        if (used + bytes + 1 > bytes_max)
            return false;
        memcpy(out + used, part, bytes + 1);
        used += bytes;
    }
    return true;
}

/* ---- a growing ELF file ---- */

enum { SECTIONS_MAX = 512, ABI_CUDA = 0x33, ABI_CUBIN = 0x41, MACHINE_CUDA = 190, TYPE_FIRST = 0x80000000 };

typedef struct bytes {
    unsigned char *data; /* owned */
    size_t count, room;
    bool failed; /* out of memory: later additions are ignored */
} bytes;

typedef struct elf_file {
    bytes body, names;
    Elf64_Shdr *section; /* owned; allocated for SECTIONS_MAX sections */
    unsigned section_count;
} elf_file;

static size_t add(bytes *to, const void *data, size_t count)
{
    size_t at = to->count;
    to->failed = to->failed || !gw_array_reach(&to->data, to->count + count, &to->room, 1);
    if (to->failed)
        return 0;
    if (count > 0 && data != NULL)
        memcpy(to->data + to->count, data, count);
    to->count += count;
    return at;
}

static uint32_t add_string(bytes *to, const char *text)
{
    return (uint32_t)add(to, text, strlen(text) + 1);
}

static bool elf_begin(elf_file *file)
{
    static const Elf64_Ehdr none;
    *file = (elf_file){.section = calloc(SECTIONS_MAX, sizeof *file->section), .section_count = 1};
    add(&file->body, &none, sizeof none);
    add_string(&file->names, "");
    return file->section != NULL;
}

/* Add a section and return its index. */
static unsigned add_section(elf_file *file, const char *name, Elf64_Shdr header, const void *data)
{
    if (file->section_count == SECTIONS_MAX) {
        file->body.failed = true;
        return 0;
    }
    header.sh_name = add_string(&file->names, name);
    header.sh_offset = header.sh_type == SHT_NOBITS ? file->body.count : add(&file->body, data, header.sh_size);
    file->section[file->section_count] = header;
    return file->section_count++;
}

/* Finish the file: section names, section headers, ELF header. The caller owns the result. Returns NULL if out of
 * memory. */
static unsigned char *elf_finish(elf_file *file, Elf64_Ehdr head, size_t *ret_bytes)
{
    unsigned names = add_section(file, ".shstrtab", (Elf64_Shdr){.sh_type = SHT_STRTAB}, NULL);
    file->section[names].sh_size = file->names.count;
    file->section[names].sh_offset = add(&file->body, file->names.data, file->names.count);
    static const unsigned char zeros[8];
    add(&file->body, zeros, (8 - file->body.count % 8) % 8);
    memcpy(head.e_ident, ELFMAG, SELFMAG);
    head.e_ident[EI_CLASS] = ELFCLASS64;
    head.e_ident[EI_DATA] = ELFDATA2LSB;
    head.e_ident[EI_VERSION] = EV_CURRENT;
    head.e_machine = MACHINE_CUDA;
    head.e_version = EV_CURRENT;
    head.e_ehsize = sizeof head;
    head.e_shentsize = sizeof(Elf64_Shdr);
    head.e_shnum = (Elf64_Half)file->section_count;
    head.e_shstrndx = (Elf64_Half)names;
    head.e_shoff = add(&file->body, file->section, file->section_count * sizeof(Elf64_Shdr));
    bool failed = file->body.failed || file->names.failed;
    free(file->section);
    free(file->names.data);
    if (failed) {
        free(file->body.data);
        return NULL;
    }
    memcpy(file->body.data, &head, sizeof head);
    *ret_bytes = file->body.count;
    return file->body.data;
}

/* ---- the code ---- */

enum { KERNEL_BYTES = 0x180, KERNEL_STRIDE = 0x1000, FAULT_OFFSET = 0x90, SYMBOL_IS_ENTRY = 0x10 };
static const uint64_t code_base = 0x7f5000000000u;

static uint64_t kernel_address(size_t index)
{
    return code_base + index * KERNEL_STRIDE;
}

/* Write a DWARF 2 line program of one sequence, as the CUDA tools do. It maps the whole kernel to one line. */
static void add_lines(elf_file *file, const gwi_dump *dump)
{
    bytes table = {0};
    static const unsigned char standard[] = {1, 1, (unsigned char)-5, 14, 10, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0};
    uint64_t address = kernel_address(dump->faulty);
    uint32_t zero = 0;
    uint16_t version = 2;
    add(&table, &zero, 4); /* the length, filled in below */
    add(&table, &version, 2);
    size_t head_at = add(&table, &zero, 4);
    add(&table, standard, sizeof standard); /* line settings and opcode lengths; ends with an empty list of folders */
    add_string(&table, dump->file);
    add(&table, "\0\0\0", 4); /* folder 0, no time, no size; end of the file list */
    uint32_t head_bytes = (uint32_t)(table.count - head_at - 4);
    add(&table, "\0\x09\x02", 3); /* set the address, which follows */
    add(&table, &address, 8);
    unsigned char advance[8] = {3}; /* advance the line by a signed LEB128; lines below 2^20 need three bytes */
    uint32_t delta = dump->line > 0 && dump->line < 1 << 20 ? dump->line - 1 : 0;
    advance[1] = (unsigned char)(0x80 | (delta & 0x7f));
    advance[2] = (unsigned char)(0x80 | (delta >> 7 & 0x7f));
    advance[3] = (unsigned char)(delta >> 14 & 0x3f);
    advance[4] = 1; /* append a row */
    add(&table, advance, 5);
    add(&table, "\x02\x80\x03", 3); /* advance the address by 0x180, the size of the kernel's code */
    add(&table, "\0\x01\x01", 3);   /* end of the sequence */
    if (!table.failed) {
        uint32_t length = (uint32_t)table.count - 4;
        memcpy(table.data, &length, 4);
        memcpy(table.data + head_at, &head_bytes, 4);
        add_section(file, ".debug_line", (Elf64_Shdr){.sh_type = SHT_PROGBITS, .sh_size = table.count}, table.data);
    }
    file->body.failed = file->body.failed || table.failed;
    free(table.data);
}

static unsigned char *make_image(const gwi_dump *dump, size_t *ret_bytes)
{
    elf_file file;
    bytes strings = {0}, symbols = {0};
    if (!elf_begin(&file))
        return NULL;
    static const Elf64_Sym none;
    add_string(&strings, "");
    add(&symbols, &none, sizeof none);
    for (size_t i = 0; i < dump->kernel_count && i < SECTIONS_MAX - 8; i++) {
        char name[1024];
        snprintf(name, sizeof name, ".text.%s", dump->kernels[i]);
        Elf64_Shdr text = {.sh_type = SHT_NOBITS, .sh_addr = kernel_address(i), .sh_size = KERNEL_BYTES};
        Elf64_Sym symbol = {.st_name = add_string(&strings, dump->kernels[i]),
                            .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
                            .st_other = SYMBOL_IS_ENTRY,
                            .st_shndx = (Elf64_Section)add_section(&file, name, text, NULL),
                            .st_value = kernel_address(i),
                            .st_size = KERNEL_BYTES};
        add(&symbols, &symbol, sizeof symbol);
    }
    unsigned link =
        add_section(&file, ".strtab", (Elf64_Shdr){.sh_type = SHT_STRTAB, .sh_size = strings.count}, strings.data);
    add_section(
        &file, ".symtab",
        (Elf64_Shdr){
            .sh_type = SHT_SYMTAB, .sh_size = symbols.count, .sh_entsize = sizeof none, .sh_link = link, .sh_info = 1},
        symbols.data);
    if (dump->file != NULL)
        add_lines(&file, dump);
    file.body.failed = file.body.failed || strings.failed || symbols.failed;
    free(strings.data);
    free(symbols.data);
    Elf64_Ehdr head = {.e_type = ET_EXEC};
    head.e_ident[EI_OSABI] = ABI_CUBIN;
    return elf_finish(&file, head, ret_bytes);
}

/* ---- the tables, as driver 580 lays out their rows ---- */

enum { STRUCK_SM = 0, REGISTERS = 255, WARPS = 64, LANES = 32 };

typedef struct device_row {
    uint64_t name, type, sm_type;
    uint32_t id, bus, pci_device, sm_count, warps, lanes, registers, predicates, major, minor, instruction_bytes,
        status, uniform_registers, uniform_predicates, barriers, padding;
} device_row;
typedef struct context_row {
    uint64_t id, shared_base, local_base, global_base;
    uint32_t device, tid;
} context_row;
typedef struct grid_row {
    uint64_t id, context, function, entry, module, parent, parameters_at;
    uint32_t kernel_type, origin, status, registers, grid[3], block[3], blocking, tid, cluster[4], preferred[4];
} grid_row;
typedef struct sm_row {
    uint32_t id, padding, exception, has_pc;
    uint64_t pc;
    uint32_t has_target, target[3], padding_end[2];
} sm_row;
typedef struct block_row {
    uint64_t grid;
    uint32_t index[3], padding, cluster[4], cluster_dim[4];
} block_row;
typedef struct warp_row {
    uint64_t pc;
    uint32_t id, valid, active, is_broken, has_pc, padding, registers, padding_1, shared_bytes, padding_2, in_syscall,
        running, exited, collective;
} warp_row;
typedef struct lane_row {
    uint64_t pc, offset;
    uint32_t lane, thread[3], exception, depth, depth_syscall, cc, state, padding;
} lane_row;
typedef struct meta_row {
    uint64_t generator;
    uint32_t driver[2], cuda[2], flags, time_s;
} meta_row;
_Static_assert(sizeof(device_row) == 88 && sizeof(context_row) == 40 && sizeof(grid_row) == 136 &&
                   sizeof(sm_row) == 48 && sizeof(block_row) == 56 && sizeof(warp_row) == 64 &&
                   sizeof(lane_row) == 56 && sizeof(meta_row) == 32,
               "rows as long as the real ones");

static unsigned add_table(elf_file *file, const char *name, unsigned type, unsigned link, size_t row_bytes,
                          size_t row_count, const void *rows)
{
    return add_section(file, name,
                       (Elf64_Shdr){.sh_type = TYPE_FIRST + type,
                                    .sh_flags = SHF_ALLOC,
                                    .sh_link = link,
                                    .sh_size = row_bytes * row_count,
                                    .sh_entsize = row_bytes},
                       rows);
}

static void add_code(elf_file *file, const gwi_dump *dump, unsigned devices)
{
    size_t bytes_count = 0;
    context_row context = {.id = dump->context};
    unsigned contexts = add_table(file, ".cudbg.ctxtbl.dev0", 10, devices, sizeof context, 1, &context);
    unsigned modules = add_table(file, ".cudbg.modtbl.dev0.ctx0", 16, contexts, sizeof dump->module, 1, &dump->module);
    unsigned char *image = make_image(dump, &bytes_count);
    if (image == NULL)
        file->body.failed = true;
    else
        add_table(file, ".cudbg.relfimg.dev0.ctx0", 7, modules, 0, 0, NULL);
    Elf64_Shdr *section = &file->section[file->section_count - 1];
    if (image != NULL) {
        section->sh_size = bytes_count;
        section->sh_offset = add(&file->body, image, bytes_count);
    }
    free(image);
}

/* Add the warp that stopped in a failed assertion. */
static void add_warp(elf_file *file, const gwi_dump *dump, unsigned sms)
{
    enum { GRID = 1 };
    uint64_t pc = kernel_address(dump->faulty) + FAULT_OFFSET;
    block_row block = {.grid = GRID};
    warp_row warp = {.valid = 1, .active = 1, .registers = 32, .in_syscall = 1, .running = 1};
    lane_row lane = {.pc = pc, .offset = FAULT_OFFSET, .exception = gwi_dump_exception(dump->result), .state = 1};
    unsigned blocks = add_table(file, ".cudbg.ctatbl.dev0.sm0", 13, sms, sizeof block, 1, &block);
    unsigned warps = add_table(file, ".cudbg.wptbl.dev0.sm0.cta0", 14, blocks, sizeof warp, 1, &warp);
    add_table(file, ".cudbg.lntbl.dev0.sm0.cta0.wp0", 15, warps, sizeof lane, 1, &lane);
}

static void add_struck(elf_file *file, const gwi_dump *dump, unsigned devices)
{
    enum { GRID = 1, REGISTERS_USED = 32 };
    bool waits = dump->result == CUDA_ERROR_ASSERT;
    grid_row grid = {.id = GRID,
                     .context = dump->context,
                     .function = dump->function,
                     .entry = kernel_address(dump->faulty),
                     .module = dump->module,
                     .status = 2,
                     .registers = REGISTERS_USED};
    memcpy(grid.grid, dump->grid, sizeof grid.grid);
    memcpy(grid.block, dump->block, sizeof grid.block);
    add_table(file, ".cudbg.gridtbl.dev0", 12, devices, sizeof grid, waits, &grid);
    sm_row *rows = calloc(dump->sm_count + 1u, sizeof *rows);
    if (rows == NULL) {
        file->body.failed = true;
        return;
    }
    for (unsigned i = 0; i < dump->sm_count; i++)
        rows[i].id = i;
    rows[STRUCK_SM].exception = gwi_dump_exception(dump->result);
    rows[STRUCK_SM].has_pc = !waits;
    rows[STRUCK_SM].pc = waits ? 0 : kernel_address(dump->faulty) + FAULT_OFFSET;
    unsigned sms = add_table(file, ".cudbg.smtbl.dev0", 11, devices, sizeof *rows, dump->sm_count, rows);
    free(rows);
    if (waits)
        add_warp(file, dump, sms);
}

static unsigned char *make_dump(const gwi_dump *dump, size_t *ret_bytes)
{
    elf_file file;
    bytes strings = {0};
    char sm_type[24];
    if (!elf_begin(&file))
        return NULL;
    snprintf(sm_type, sizeof sm_type, "sm_%u%u", dump->capability[0], dump->capability[1]);
    add_string(&strings, "");
    device_row device = {.name = add_string(&strings, dump->device_name),
                         .type = add_string(&strings, "virtual"),
                         .sm_type = add_string(&strings, sm_type),
                         .sm_count = dump->sm_count,
                         .warps = WARPS,
                         .lanes = LANES,
                         .registers = REGISTERS,
                         .predicates = 8,
                         .major = dump->capability[0],
                         .minor = dump->capability[1],
                         .instruction_bytes = 16};
    meta_row meta = {.generator = add_string(&strings, "gpuwhy's virtual card"),
                     .driver = {dump->driver[0], dump->driver[1]},
                     .cuda = {dump->cuda[0], dump->cuda[1]},
                     .flags = dump->flags,
                     .time_s = dump->time_s};
    unsigned devices = add_table(&file, ".cudbg.devtbl", 9, 0, sizeof device, 1, &device);
    add_code(&file, dump, devices);
    add_struck(&file, dump, devices);
    add_section(&file, ".cudbg.meta",
                (Elf64_Shdr){.sh_type = TYPE_FIRST + 22, .sh_flags = SHF_ALLOC, .sh_size = sizeof meta}, &meta);
    add_section(&file, ".strtab", (Elf64_Shdr){.sh_type = SHT_STRTAB, .sh_size = strings.count}, strings.data);
    file.body.failed = file.body.failed || strings.failed;
    free(strings.data);
    Elf64_Ehdr head = {.e_type = ET_CORE};
    head.e_ident[EI_OSABI] = ABI_CUDA;
    return elf_finish(&file, head, ret_bytes);
}

bool gwi_dump_write(const char *path, const gwi_dump *dump)
{
    size_t count = 0, at = 0;
    unsigned char *data = make_dump(dump, &count);
    int fd = data == NULL ? -1 : open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    while (fd >= 0 && at < count) {
        ssize_t written = write(fd, data + at, count - at);
        if (written <= 0)
            break;
        at += (size_t)written;
    }
    free(data);
    if (fd < 0)
        return false;
    if (close(fd) != 0 || at < count) {
        unlink(path);
        return false;
    }
    return true;
}
