/* Writes a facade.
 *
 *  segment 1, read and execute: ELF head | GNU hash | symbols | strings | relocations | names | code
 *  segment 2, read and write:   dynamic section | gw_facade_head | table | room for the driver's data objects | reads
 *
 * "reads" is the page with the targets of the functions that only read a value (gwi_facade_machine.h).
 *
 * At start, the loader maps the two segments and applies one relative relocation per name. Each exported function is a
 * stub. None of our code runs before the program calls the first one.
 *
 * References to C library functions are weak and without versions, so one facade works with every C library. Where
 * libc.so.6 lacks dlopen, it has __libc_dlopen_mode. */
#include "gw_api.h"
#include "gw_array.h"
#include "gw_facade.h"
#include "gw_own.h"
#include "gwi_elf.h"
#include "gwi_facade_machine.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    LINE_BYTES = 64,
    NAMES_MAX = 1 << 16,
    NAME_BYTES_MAX = 1024,
    OBJECT_BYTES_MAX = 1 << 20,
    PAGE_BYTES = 4096,
    BLOOM_SHIFT = 11
};

#if defined(__aarch64__)
enum { RELOC_RELATIVE = R_AARCH64_RELATIVE, RELOC_GLOB_DAT = R_AARCH64_GLOB_DAT };
#else
enum { RELOC_RELATIVE = R_X86_64_RELATIVE, RELOC_GLOB_DAT = R_X86_64_GLOB_DAT };
#endif

/* The C library functions that a facade calls, and the offset in gw_facade_head where the loader stores the address of
 * each. */
static const struct {
    const char *name;
    size_t head_offset;
} wanted[] = {
    {"dlopen", offsetof(gw_facade_head, dl_open)},
    {"dlsym", offsetof(gw_facade_head, dl_sym)},
    {"__libc_dlopen_mode", offsetof(gw_facade_head, dl_open_old)},
    {"__libc_dlsym", offsetof(gw_facade_head, dl_sym_old)},
    {"__errno_location", offsetof(gw_facade_head, errno_location)},
};
enum { WANTED_COUNT = sizeof wanted / sizeof wanted[0] };

typedef struct export_row {
    const char *name; /* borrowed from the driver's file */
    uint64_t object_bytes;
    uint64_t value; /* used only if `is_absolute` */
    uint32_t hash;
    uint32_t string; /* offset of the name in our string table */
    uint32_t rank;   /* first sort key; the second is the name */
    uint8_t bind;
    bool is_object;
    bool is_absolute;
    bool is_read;
} export_row;

typedef struct image {
    export_row *row; /* owned; stub i and table entry i belong to row i */
    uint32_t count, read_count;
    uint32_t *by_bucket; /* owned: row indices in the order of the symbol table */
    uint32_t bucket_count;
    uint32_t bloom_words;
    char *strings; /* owned */
    size_t string_bytes, string_capacity;
    uint32_t soname, libc, attach, hook_path, driver_path, driver_soname, driver_build_id, wanted[WANTED_COUNT];
    uint64_t hash_at, symbols_at, strings_at, rela_at, names_at, code_at, text_end;
    uint64_t data_at, head_at, table_at, data_file_end, reads_at, data_end;
    uint8_t *file; /* owned */
} image;

static void image_free(image *im)
{
    free(im->row);
    free(im->by_bucket);
    free(im->strings);
    free(im->file);
}

static int row_by_name(const void *a, const void *b)
{
    return strcmp(((const export_row *)a)->name, ((const export_row *)b)->name);
}

/* Functions that frameworks call for each launch. They come first in their group (rank_of()), so that they share few
 * cache lines. */
static const char *const frequent[] = {"cuCtxGetDevice_v2",    "cuDevicePrimaryCtxGetState",
                                       "cuCtxGetCurrent",      "cuCtxGetDevice",
                                       "cuDeviceGetAttribute", "cuLaunchKernel",
                                       "cuLaunchKernelEx",     "cuKernelGetFunction",
                                       "cuKernelGetAttribute", "cuStreamIsCapturing",
                                       "cuMemsetD8Async",      "cuMemcpyHtoDAsync_v2",
                                       "cuMemcpyDtoHAsync_v2", "cuEventRecord",
                                       "cuStreamWaitEvent",    "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags"};
enum { FREQUENT_COUNT = sizeof frequent / sizeof frequent[0] };

static bool is_read(const char *name)
{
    int fn = gw_api_find_symbol(name);
    return fn >= 0 && (gw_api_fns[fn].flags & GW_API_READ) != 0;
}

/* Return the sort key of a name. Reads (GW_API_READ) come before other functions. In both groups, the frequent
 * functions above come first, in that order. */
static uint32_t rank_of(const char *name, bool read)
{
    uint32_t rank = 0;
    while (rank < FREQUENT_COUNT && strcmp(frequent[rank], name) != 0)
        rank++;
    return read ? rank : FREQUENT_COUNT + 1 + rank;
}

static int row_by_rank(const void *a, const void *b)
{
    const export_row *x = a, *y = b;
    return x->rank != y->rank ? (x->rank > y->rank) - (x->rank < y->rank) : row_by_name(a, b);
}

static uint32_t gnu_hash(const char *name)
{
    uint32_t h = 5381;
    for (; *name != '\0'; name++)
        h = h * 33 + (uint8_t)*name;
    return h;
}

/* Collect the driver's exported names into `im`, each once, sorted by rank. Count the reads among them. */
static gw_status collect_exports(const gwi_elf *driver, image *im, gw_error *err)
{
    im->row = calloc(driver->symbol_count + 1, sizeof *im->row);
    if (im->row == NULL)
        return gw_fail(err, GW_NOMEM, "facade of %s", driver->path);
    uint32_t n = 0;
    for (uint32_t i = 1; i < driver->symbol_count; i++) {
        const Elf64_Sym *sym = &driver->symbol[i];
        if (!gwi_elf_symbol_exported(sym))
            continue;
        const char *name = gwi_elf_symbol_name(driver, sym);
        if (name == NULL || strlen(name) > NAME_BYTES_MAX)
            return gw_fail(err, GW_CORRUPT, "%s: symbol %u has a damaged name", driver->path, i);
        unsigned type = ELF64_ST_TYPE(sym->st_info);
        im->row[n++] = (export_row){.name = name,
                                    .object_bytes = sym->st_size,
                                    .value = sym->st_value,
                                    .hash = gnu_hash(name),
                                    .bind = ELF64_ST_BIND(sym->st_info) == STB_WEAK ? STB_WEAK : STB_GLOBAL,
                                    .is_object = type == STT_OBJECT || type == STT_COMMON || type == STT_TLS,
                                    .is_absolute = sym->st_shndx == SHN_ABS};
    }
    if (n == 0)
        return gw_fail(err, GW_MISSING, "%s: exports no symbols", driver->path);
    if (n > NAMES_MAX)
        return gw_fail(err, GW_UNSUPPORTED, "%s: too many exported symbols (%u)", driver->path, n);
    qsort(im->row, n, sizeof *im->row, row_by_name);
    for (uint32_t i = 0; i < n; i++) { /* a name with several versions occurs several times: keep one */
        if (im->count == 0 || strcmp(im->row[im->count - 1].name, im->row[i].name) != 0)
            im->row[im->count++] = im->row[i];
    }
    for (uint32_t i = 0; i < im->count; i++) {
        export_row *row = &im->row[i];
        row->is_read = !row->is_object && is_read(row->name);
        row->rank = rank_of(row->name, row->is_read);
    }
    qsort(im->row, im->count, sizeof *im->row, row_by_rank);
    while (im->read_count < im->count && im->read_count < GWI_FACADE_READS_MAX && im->row[im->read_count].is_read)
        im->read_count++;
    return GW_OK;
}

static bool add_string(image *im, const char *text, uint32_t *ret_offset)
{
    size_t bytes = strlen(text) + 1;
    if (!gw_array_reach(&im->strings, im->string_bytes + bytes, &im->string_capacity, 1))
        return false;
    memcpy(im->strings + im->string_bytes, text, bytes);
    *ret_offset = (uint32_t)im->string_bytes;
    im->string_bytes += bytes;
    return true;
}

static bool add_strings(image *im, const char *hook_path, const char *driver_path, const char *soname,
                        const char *build_id)
{
    uint32_t empty;
    bool ok = add_string(im, "", &empty) && add_string(im, "libcuda.so.1", &im->soname) &&
              add_string(im, "libc.so.6", &im->libc) && add_string(im, "gw_hook_attach", &im->attach) &&
              add_string(im, hook_path, &im->hook_path) && add_string(im, driver_path, &im->driver_path) &&
              add_string(im, soname, &im->driver_soname) && add_string(im, build_id, &im->driver_build_id);
    for (uint32_t i = 0; ok && i < WANTED_COUNT; i++)
        ok = add_string(im, wanted[i].name, &im->wanted[i]);
    for (uint32_t i = 0; ok && i < im->count; i++)
        ok = add_string(im, im->row[i].name, &im->row[i].string);
    return ok;
}

/* Sort the symbols by hash bucket, because a GNU hash table requires this order in the symbol table. */
static bool order_by_bucket(image *im)
{
    im->bucket_count = im->count / 2 + 1;
    im->bloom_words = 1;
    while (im->bloom_words < im->count / 5 + 1)
        im->bloom_words *= 2;
    im->by_bucket = malloc(im->count * sizeof *im->by_bucket);
    uint32_t *next = calloc((size_t)im->bucket_count + 1, sizeof *next);
    if (im->by_bucket == NULL || next == NULL) {
        free(next);
        return false;
    }
    for (uint32_t i = 0; i < im->count; i++)
        next[im->row[i].hash % im->bucket_count + 1]++;
    for (uint32_t b = 0; b < im->bucket_count; b++)
        next[b + 1] += next[b];
    for (uint32_t i = 0; i < im->count; i++)
        im->by_bucket[next[im->row[i].hash % im->bucket_count]++] = i;
    free(next);
    return true;
}

static uint64_t align_up(uint64_t value, uint64_t to)
{
    return (value + to - 1) & ~(to - 1);
}

enum { SYMBOLS_FIRST = 1 + WANTED_COUNT, POINTER_COUNT = 11, DYN_COUNT = 14, PHDR_COUNT = 4 };

static void lay_out(image *im)
{
    uint64_t at = sizeof(Elf64_Ehdr) + PHDR_COUNT * sizeof(Elf64_Phdr);
    im->hash_at = align_up(at, 8);
    at = im->hash_at + 16 + (uint64_t)im->bloom_words * 8 + (uint64_t)im->bucket_count * 4 + (uint64_t)im->count * 4;
    im->symbols_at = align_up(at, 8);
    at = im->symbols_at + ((uint64_t)SYMBOLS_FIRST + im->count) * sizeof(Elf64_Sym);
    im->strings_at = at;
    im->rela_at = align_up(at + im->string_bytes, 8);
    im->names_at = im->rela_at + ((uint64_t)POINTER_COUNT + im->count + WANTED_COUNT) * sizeof(Elf64_Rela);
    im->code_at = align_up(im->names_at + (uint64_t)im->count * 4, LINE_BYTES);
    im->text_end = im->code_at + gwi_facade_code_bytes(im->count);
    im->data_at = align_up(im->text_end, PAGE_BYTES);
    im->head_at = im->data_at + DYN_COUNT * sizeof(Elf64_Dyn);
    im->table_at = align_up(im->head_at + sizeof(gw_facade_head), LINE_BYTES);
    im->data_file_end = im->table_at + (uint64_t)im->count * 8;
    im->data_end = align_up(im->data_file_end, LINE_BYTES);
}

static void put_heads(const image *im)
{
    Elf64_Ehdr *eh = (Elf64_Ehdr *)im->file;
    memcpy(eh->e_ident, ELFMAG, SELFMAG);
    eh->e_ident[EI_CLASS] = ELFCLASS64;
    eh->e_ident[EI_DATA] = ELFDATA2LSB;
    eh->e_ident[EI_VERSION] = EV_CURRENT;
    eh->e_type = ET_DYN;
    eh->e_machine = GWI_ELF_MACHINE;
    eh->e_version = EV_CURRENT;
    eh->e_phoff = sizeof *eh;
    eh->e_ehsize = sizeof *eh;
    eh->e_phentsize = sizeof(Elf64_Phdr);
    eh->e_phnum = PHDR_COUNT;
    eh->e_shentsize = sizeof(Elf64_Shdr);
    uint64_t dyn_bytes = DYN_COUNT * sizeof(Elf64_Dyn);
    const Elf64_Phdr heads[PHDR_COUNT] = {
        {PT_LOAD, PF_R | PF_X, 0, 0, 0, im->text_end, im->text_end, PAGE_BYTES},
        {PT_LOAD, PF_R | PF_W, im->data_at, im->data_at, im->data_at, im->data_file_end - im->data_at,
         im->data_end - im->data_at, PAGE_BYTES},
        {PT_DYNAMIC, PF_R | PF_W, im->data_at, im->data_at, im->data_at, dyn_bytes, dyn_bytes, 8},
        {PT_GNU_STACK, PF_R | PF_W, 0, 0, 0, 0, 0, 16},
    };
    memcpy(im->file + sizeof *eh, heads, sizeof heads);
}

static void put_hash(const image *im)
{
    uint32_t *head = (uint32_t *)(im->file + im->hash_at);
    uint64_t *bloom = (uint64_t *)(head + 4);
    uint32_t *bucket = (uint32_t *)(bloom + im->bloom_words);
    uint32_t *chain = bucket + im->bucket_count;
    head[0] = im->bucket_count;
    head[1] = SYMBOLS_FIRST;
    head[2] = im->bloom_words;
    head[3] = BLOOM_SHIFT;
    for (uint32_t i = 0; i < im->count; i++) {
        uint32_t h = im->row[im->by_bucket[i]].hash, b = h % im->bucket_count;
        bool last = i + 1 == im->count || im->row[im->by_bucket[i + 1]].hash % im->bucket_count != b;
        bloom[h / 64 % im->bloom_words] |= (uint64_t)1 << h % 64 | (uint64_t)1 << (h >> BLOOM_SHIFT) % 64;
        if (bucket[b] == 0)
            bucket[b] = SYMBOLS_FIRST + i;
        chain[i] = (h & ~1u) | (last ? 1 : 0);
    }
}

/* A driver's data objects cannot be forwarded: their names point to zeroed memory of the same size (at most 1 MiB).
 * Without section headers, any section index except "undefined" is right for a defined symbol. */
static void put_symbols(image *im)
{
    Elf64_Sym *sym = (Elf64_Sym *)(im->file + im->symbols_at);
    for (uint32_t i = 0; i < WANTED_COUNT; i++)
        sym[1 + i] = (Elf64_Sym){.st_name = im->wanted[i], .st_info = ELF64_ST_INFO(STB_WEAK, STT_FUNC)};
    for (uint32_t i = 0; i < im->count; i++) {
        uint32_t index = im->by_bucket[i];
        const export_row *row = &im->row[index];
        Elf64_Sym *out = &sym[SYMBOLS_FIRST + i];
        out->st_name = row->string;
        out->st_shndx = row->is_absolute ? SHN_ABS : 1;
        out->st_info = ELF64_ST_INFO(row->bind, row->is_object ? STT_OBJECT : STT_FUNC);
        if (row->is_absolute) {
            out->st_value = row->value;
        } else if (row->is_object) {
            uint64_t bytes = row->object_bytes < OBJECT_BYTES_MAX ? row->object_bytes : OBJECT_BYTES_MAX;
            out->st_value = im->data_end;
            out->st_size = bytes;
            im->data_end = align_up(im->data_end + bytes, LINE_BYTES);
        } else {
            out->st_value = index < im->read_count ? gwi_facade_read_at(im->code_at, index)
                                                   : gwi_facade_stub_at(im->code_at, index);
        }
    }
    im->reads_at = align_up(im->data_end, PAGE_BYTES);
    im->data_end = im->reads_at + PAGE_BYTES;
}

static Elf64_Rela *put_pointer(const image *im, Elf64_Rela *rela, size_t head_offset, uint64_t target)
{
    *rela = (Elf64_Rela){im->head_at + head_offset, ELF64_R_INFO(0, RELOC_RELATIVE), (int64_t)target};
    return rela + 1;
}

static void put_relocations(const image *im)
{
    Elf64_Rela *rela = (Elf64_Rela *)(im->file + im->rela_at);
    rela = put_pointer(im, rela, offsetof(gw_facade_head, hook_path), im->strings_at + im->hook_path);
    rela = put_pointer(im, rela, offsetof(gw_facade_head, driver_path), im->strings_at + im->driver_path);
    rela = put_pointer(im, rela, offsetof(gw_facade_head, attach_name), im->strings_at + im->attach);
    rela = put_pointer(im, rela, offsetof(gw_facade_head, names), im->names_at);
    rela = put_pointer(im, rela, offsetof(gw_facade_head, strings), im->strings_at);
    rela = put_pointer(im, rela, offsetof(gw_facade_head, table), im->table_at);
    rela = put_pointer(im, rela, offsetof(gw_facade_head, driver_soname), im->strings_at + im->driver_soname);
    rela = put_pointer(im, rela, offsetof(gw_facade_head, driver_build_id), im->strings_at + im->driver_build_id);
    rela = put_pointer(im, rela, offsetof(gw_facade_head, stubs), gwi_facade_stub_at(im->code_at, 0));
    rela = put_pointer(im, rela, offsetof(gw_facade_head, read_stubs), gwi_facade_read_at(im->code_at, 0));
    rela = put_pointer(im, rela, offsetof(gw_facade_head, reads), im->reads_at);
    for (uint32_t i = 0; i < im->count; i++)
        *rela++ = (Elf64_Rela){im->table_at + (uint64_t)i * 8, ELF64_R_INFO(0, RELOC_RELATIVE),
                               (int64_t)gwi_facade_lazy_at(im->code_at, im->count, i)};
    for (uint32_t i = 0; i < WANTED_COUNT; i++)
        *rela++ = (Elf64_Rela){im->head_at + wanted[i].head_offset, ELF64_R_INFO(1 + i, RELOC_GLOB_DAT), 0};
}

static void put_dynamic(const image *im)
{
    uint64_t rela_count = (uint64_t)POINTER_COUNT + im->count + WANTED_COUNT;
    const Elf64_Dyn dyn[DYN_COUNT] = {
        {DT_NEEDED, {im->libc}},
        {DT_SONAME, {im->soname}},
        {DT_GNU_HASH, {im->hash_at}},
        {DT_STRTAB, {im->strings_at}},
        {DT_SYMTAB, {im->symbols_at}},
        {DT_STRSZ, {im->string_bytes}},
        {DT_SYMENT, {sizeof(Elf64_Sym)}},
        {DT_RELA, {im->rela_at}},
        {DT_RELASZ, {rela_count * sizeof(Elf64_Rela)}},
        {DT_RELAENT, {sizeof(Elf64_Rela)}},
        {DT_RELACOUNT, {(uint64_t)POINTER_COUNT + im->count}},
        {DT_FLAGS_1, {DF_1_NODELETE}}, /* never unload the facade: the program may still have pointers to stubs */
        {DT_NULL, {0}},
        {DT_NULL, {0}},
    };
    memcpy(im->file + im->data_at, dyn, sizeof dyn);
    gw_facade_head *head = (gw_facade_head *)(im->file + im->head_at);
    memcpy(head->magic, GW_FACADE_MAGIC, sizeof head->magic);
    head->version = GW_FACADE_VERSION;
    head->name_count = im->count;
    head->stub_bytes = (uint32_t)(gwi_facade_stub_at(im->code_at, 1) - gwi_facade_stub_at(im->code_at, 0));
    head->read_count = im->read_count;
    head->read_stub_bytes = (uint32_t)(gwi_facade_read_at(im->code_at, 1) - gwi_facade_read_at(im->code_at, 0));
}

static bool build_file(image *im)
{
    lay_out(im);
    im->file = calloc(1, im->data_file_end);
    if (im->file == NULL)
        return false;
    put_hash(im);
    put_symbols(im);
    put_relocations(im);
    put_dynamic(im);
    memcpy(im->file + im->strings_at, im->strings, im->string_bytes);
    uint32_t *names = (uint32_t *)(im->file + im->names_at);
    for (uint32_t i = 0; i < im->count; i++)
        names[i] = im->row[i].string;
    gwi_facade_code_write(im->file + im->code_at, &(gwi_facade_places){.code_at = im->code_at,
                                                                       .head_at = im->head_at,
                                                                       .table_at = im->table_at,
                                                                       .reads_at = im->reads_at,
                                                                       .count = im->count,
                                                                       .read_count = im->read_count});
    put_heads(im); /* last: they contain the size of the data segment, which put_symbols() increases */
    return true;
}

static gw_status make_folder(const char *path, gw_error *err)
{
    char part[PATH_MAX];
    if (strlen(path) >= sizeof part)
        return gw_fail(err, GW_USAGE, "%s: the path is too long", path);
    strcpy(part, path);
    for (char *slash = part + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        (void)mkdir(part, 0700); /* ignore errors: if a parent folder cannot be made, the mkdir below fails */
        *slash = '/';
    }
    if (mkdir(part, 0755) == 0)
        (void)chmod(part, 0755); /* despite the umask: another user may have to read the folder */
    else if (errno != EEXIST)
        return gw_fail(err, GW_IO, "make folder %s: %s", path, strerror(errno));
    return GW_OK;
}

static gw_status link_file(const char *dir, gw_error *err)
{
    char path[PATH_MAX], temporary[PATH_MAX], target[sizeof "libcuda.so.1"];
    if ((size_t)snprintf(path, sizeof path, "%s/libcuda.so", dir) >= sizeof path ||
        (size_t)snprintf(temporary, sizeof temporary, "%s/.libcuda.so.%ld", dir, (long)getpid()) >= sizeof temporary)
        return gw_fail(err, GW_USAGE, "%s: the path is too long", dir);
    ssize_t bytes = readlink(path, target, sizeof target);
    if (bytes == (ssize_t)strlen("libcuda.so.1") && memcmp(target, "libcuda.so.1", (size_t)bytes) == 0)
        return GW_OK;
    unlink(temporary);
    if (symlink("libcuda.so.1", temporary) != 0 || rename(temporary, path) != 0)
        return gw_fail(err, GW_IO, "link %s: %s", path, strerror(errno));
    return GW_OK;
}

static gw_status open_driver(const char *path, gwi_elf *driver, gw_error *err)
{
    gw_status st = gwi_elf_open(path, driver, err);
    if (st != GW_OK)
        return st;
    if (driver->machine == GWI_ELF_MACHINE && driver->type == ET_DYN)
        return GW_OK;
    gwi_elf_close(driver);
    return gw_fail(err, GW_UNSUPPORTED, "%s: not a shared library for this machine", path);
}

gw_status gw_facade_driver_info(const char *path, gw_facade_info *ret_info, gw_error *err)
{
    gwi_elf driver;
    gw_facade_info info = {0};
    image im = {0};
    gw_status st = open_driver(path, &driver, err);
    if (st != GW_OK)
        return st;
    st = collect_exports(&driver, &im, err);
    if (st == GW_MISSING)
        st = GW_OK;
    if (st == GW_OK) {
        const char *soname = gwi_elf_dyn_string(&driver, DT_SONAME, 0);
        snprintf(info.soname, sizeof info.soname, "%s", soname != NULL ? soname : "");
        gwi_elf_build_id(&driver, info.build_id, sizeof info.build_id);
        info.export_count = im.count;
        *ret_info = info;
    }
    image_free(&im);
    gwi_elf_close(&driver);
    return st;
}

gw_status gw_facade_write(const char *driver_path, const char *hook_path, const char *out_dir, gw_error *err)
{
    gwi_elf driver;
    image im = {0};
    char build_id[GW_FACADE_BUILD_ID_TEXT];
    if (driver_path[0] != '/' || hook_path[0] != '/')
        return gw_fail(err, GW_USAGE, "facade: the paths of driver and hook must be absolute: %s, %s", driver_path,
                       hook_path);
    if (!gwi_facade_code_supported())
        return gw_fail(err, GW_UNSUPPORTED, "facade: this processor architecture is not supported");
    if (access(hook_path, R_OK) != 0)
        return gw_fail(err, GW_MISSING, "hook %s: %s", hook_path, strerror(errno));
    gw_status st = open_driver(driver_path, &driver, err);
    if (st != GW_OK)
        return st;
    st = collect_exports(&driver, &im, err);
    if (st != GW_OK)
        goto out;
    const char *soname = gwi_elf_dyn_string(&driver, DT_SONAME, 0);
    gwi_elf_build_id(&driver, build_id, sizeof build_id);
    if (!add_strings(&im, hook_path, driver_path, soname != NULL ? soname : "", build_id) || !order_by_bucket(&im) ||
        !build_file(&im)) {
        st = gw_fail(err, GW_NOMEM, "facade of %s", driver_path);
        goto out;
    }
    st = make_folder(out_dir, err);
    if (st == GW_OK)
        st = gw_own_file_put(out_dir, "libcuda.so.1", im.file, im.data_file_end, err);
    if (st == GW_OK)
        st = link_file(out_dir, err);
out:
    image_free(&im);
    gwi_elf_close(&driver);
    return st;
}
