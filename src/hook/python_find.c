/* Interpreters among the mapped files: linked to the program, loaded with or without their names for all, or part of
 * another program. The list of mappings and the files' symbol tables are read as data, because every question to the
 * loader takes its lock, and another thread may hold that and wait for one that our caller holds. */
#include "gwi_python_rows.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

gwi_python_interpreter gwi_python_interpreter_list[GWI_PYTHON_INTERPRETERS_MAX];
_Atomic uint32_t gwi_python_interpreter_count;

/* ---- memory that may not be there ---- */

/* Plain system calls, here and below: the C library's are places where a thread may be cancelled. */
static int open_plainly(const char *path)
{
    return (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
}

bool gwi_python_read(uintptr_t at, void *out, size_t bytes)
{
    struct iovec to = {out, bytes}, from = {(void *)at, bytes};
    ssize_t got = process_vm_readv(getpid(), &to, 1, &from, 1, 0);
    if (got >= 0 || (errno != EPERM && errno != ENOSYS))
        return got == (ssize_t)bytes;
    int fd = open_plainly("/proc/self/mem"); /* where the call is forbidden, as in some containers */
    if (fd < 0)
        return false;
    got = syscall(SYS_pread64, fd, out, bytes, at);
    syscall(SYS_close, fd);
    return got == (ssize_t)bytes;
}

/* ---- a mapped file's symbols ---- */

enum { DYNAMIC_MAX = 128, HEAD_BYTES = 4096, CHAIN_MAX = 4096, NAME_MAX_BYTES = 256 };

typedef struct image {
    uintptr_t base, end; /* its first mapping, and beyond its last segment */
    uintptr_t bias;
    uintptr_t symbols, strings, gnu_hash, old_hash, so_name; /* so_name: offset in strings; 0: none */
    uint32_t needed[DYNAMIC_MAX];                            /* offsets in strings */
    uint32_t needed_count;
} image;

/* The C library puts addresses into the dynamic section where the file has offsets; another one may not. */
static uintptr_t absolute(const image *file, uint64_t value)
{
    return value >= file->base ? (uintptr_t)value : (uintptr_t)value + file->bias;
}

static bool read_dynamic(image *file, const Elf64_Phdr *dynamic)
{
    static Elf64_Dyn entry[DYNAMIC_MAX]; /* only one thread looks at a time, and its stack may be small */
    size_t count = dynamic->p_memsz / sizeof entry[0];
    if (count > DYNAMIC_MAX)
        count = DYNAMIC_MAX;
    if (!gwi_python_read(file->bias + dynamic->p_vaddr, entry, count * sizeof entry[0]))
        return false;
    for (size_t i = 0; i < count && entry[i].d_tag != DT_NULL; i++) {
        uint64_t value = entry[i].d_un.d_val;
        switch (entry[i].d_tag) {
        case DT_SYMTAB:
            file->symbols = absolute(file, value);
            break;
        case DT_STRTAB:
            file->strings = absolute(file, value);
            break;
        case DT_GNU_HASH:
            file->gnu_hash = absolute(file, value);
            break;
        case DT_HASH:
            file->old_hash = absolute(file, value);
            break;
        case DT_SONAME:
            file->so_name = value;
            break;
        case DT_NEEDED:
            file->needed[file->needed_count++] = (uint32_t)value;
            break;
        default:
            break;
        }
    }
    return file->symbols != 0 && file->strings != 0 && (file->gnu_hash != 0 || file->old_hash != 0);
}

/* False: no program or library of this machine's kind is mapped there, or it has no names. */
static bool open_image(uintptr_t base, image *file)
{
    static union {
        Elf64_Ehdr elf;
        uint8_t bytes[HEAD_BYTES];
    } head; /* as above */
    const Elf64_Phdr *dynamic = NULL;
    uint64_t first = UINT64_MAX, last = 0;
    memset(file, 0, sizeof *file);
    file->base = base;
    if (!gwi_python_read(base, &head, sizeof head) || memcmp(head.elf.e_ident, ELFMAG, SELFMAG) != 0 ||
        head.elf.e_ident[EI_CLASS] != ELFCLASS64 || head.elf.e_phentsize != sizeof(Elf64_Phdr) ||
        head.elf.e_phoff > HEAD_BYTES || head.elf.e_phoff % 8 != 0 ||
        head.elf.e_phnum > (HEAD_BYTES - head.elf.e_phoff) / sizeof(Elf64_Phdr))
        return false;
    const Elf64_Phdr *segment = (const Elf64_Phdr *)(head.bytes + head.elf.e_phoff);
    for (unsigned i = 0; i < head.elf.e_phnum; i++) {
        if (segment[i].p_type == PT_DYNAMIC)
            dynamic = &segment[i];
        if (segment[i].p_type != PT_LOAD)
            continue;
        if (first == UINT64_MAX)
            first = segment[i].p_vaddr & ~(uint64_t)4095;
        last = segment[i].p_vaddr + segment[i].p_memsz;
    }
    if (dynamic == NULL || first == UINT64_MAX || last <= first)
        return false;
    file->bias = base - (uintptr_t)first;
    file->end = file->bias + (uintptr_t)last;
    return read_dynamic(file, dynamic);
}

static bool name_is(const image *file, uint32_t at, const char *name)
{
    char text[NAME_MAX_BYTES];
    size_t bytes = strlen(name) + 1;
    return bytes <= sizeof text && gwi_python_read(file->strings + at, text, bytes) && memcmp(text, name, bytes) == 0;
}

/* Whether symbol `index` is this name and defined here. */
static bool symbol_is(const image *file, uint32_t index, const char *name, uintptr_t *ret_address)
{
    Elf64_Sym symbol;
    if (!gwi_python_read(file->symbols + (uintptr_t)index * sizeof symbol, &symbol, sizeof symbol) ||
        symbol.st_shndx == SHN_UNDEF || !name_is(file, symbol.st_name, name))
        return false;
    unsigned type = ELF64_ST_TYPE(symbol.st_info);
    if (type != STT_FUNC && type != STT_OBJECT)
        return false;
    *ret_address = symbol.st_shndx == SHN_ABS ? (uintptr_t)symbol.st_value : file->bias + (uintptr_t)symbol.st_value;
    return *ret_address >= file->base && *ret_address < file->end;
}

static bool find_by_gnu_hash(const image *file, const char *name, uintptr_t *ret_address)
{
    struct {
        uint32_t buckets, first, bloom_words, bloom_shift;
    } head;
    uint32_t hash = 5381, index, chain;
    uint64_t bloom;
    for (const char *c = name; *c != '\0'; c++)
        hash = hash * 33 + (uint8_t)*c;
    if (!gwi_python_read(file->gnu_hash, &head, sizeof head) || head.buckets == 0 || head.bloom_words == 0)
        return false;
    uintptr_t blooms = file->gnu_hash + sizeof head, buckets = blooms + (uintptr_t)head.bloom_words * 8;
    uintptr_t chains = buckets + (uintptr_t)head.buckets * 4;
    if (!gwi_python_read(blooms + (uintptr_t)(hash / 64 % head.bloom_words) * 8, &bloom, sizeof bloom) ||
        ((bloom >> hash % 64) & (bloom >> (hash >> (head.bloom_shift & 31)) % 64) & 1) == 0 ||
        !gwi_python_read(buckets + (uintptr_t)(hash % head.buckets) * 4, &index, sizeof index) || index < head.first)
        return false;
    for (unsigned steps = 0; steps < CHAIN_MAX; steps++, index++) {
        if (!gwi_python_read(chains + (uintptr_t)(index - head.first) * 4, &chain, sizeof chain))
            return false;
        if ((chain | 1) == (hash | 1) && symbol_is(file, index, name, ret_address))
            return true;
        if ((chain & 1) != 0)
            return false;
    }
    return false;
}

static bool find_by_old_hash(const image *file, const char *name, uintptr_t *ret_address)
{
    uint32_t head[2], hash = 0, index;
    for (const char *c = name; *c != '\0'; c++) {
        hash = (hash << 4) + (uint8_t)*c;
        uint32_t high = hash & 0xf0000000;
        hash = (hash ^ high >> 24) & ~high;
    }
    if (!gwi_python_read(file->old_hash, head, sizeof head) || head[0] == 0 ||
        !gwi_python_read(file->old_hash + 8 + (uintptr_t)(hash % head[0]) * 4, &index, sizeof index))
        return false;
    for (unsigned steps = 0; steps < CHAIN_MAX && index != 0 && index < head[1]; steps++) {
        if (symbol_is(file, index, name, ret_address))
            return true;
        if (!gwi_python_read(file->old_hash + 8 + ((uintptr_t)head[0] + index) * 4, &index, sizeof index))
            return false;
    }
    return false;
}

static bool find_symbol(const image *file, const char *name, uintptr_t *ret_address)
{
    return file->gnu_hash != 0 ? find_by_gnu_hash(file, name, ret_address) : find_by_old_hash(file, name, ret_address);
}

/* ---- an interpreter ---- */

/* 0x030B for 3.11; 0: not to be had. `*ret_hex` is all that the version says, where it is published as a number. */
static unsigned version_of(const image *file, unsigned long *ret_hex)
{
    uintptr_t at;
    unsigned long hex = 0;
    *ret_hex = 0;
    if (find_symbol(file, "Py_Version", &at) && gwi_python_read(at, &hex, sizeof hex)) {
        *ret_hex = hex;
        return (unsigned)(hex >> 16);
    }
    if (!find_symbol(file, "Py_GetVersion", &at)) /* before 3.11 */
        return 0;
    const char *(*get)(void);
    memcpy(&get, &at, sizeof get);
    char *rest;
    unsigned long major = strtoul(get(), &rest, 10);
    unsigned long minor = *rest == '.' ? strtoul(rest + 1, NULL, 10) : 0;
    return major == 3 && minor < 0x100 ? (unsigned)(major << 8 | minor) : 0;
}

/* Types say how large their objects are: a build whose structures differ from the row's shows here. */
static bool type_fits(const image *file, const char *name, uint16_t bytes)
{
    uintptr_t at;
    uint64_t size;
    enum { TYPE_OBJECT_BYTES = 32 };
    return find_symbol(file, name, &at) && gwi_python_read(at + TYPE_OBJECT_BYTES, &size, sizeof size) && size == bytes;
}

static bool read_layout(const image *file, uintptr_t runtime, gwi_python_layout *layout, int *ret_row)
{
    unsigned long hex;
    uint64_t published[GWI_PYTHON_PUBLISHED_WORDS];
    unsigned version = version_of(file, &hex);
    const gwi_python_layout *row = gwi_python_layout_of(version);
    if (row == NULL || !type_fits(file, "PyCode_Type", row->code_bytes) ||
        !type_fits(file, "PyFrame_Type", row->frame_bytes) || !type_fits(file, "PyUnicode_Type", row->unicode_bytes))
        return false;
    *layout = *row;
    if (version >= GWI_PYTHON_PUBLISHED_SINCE &&
        (!gwi_python_read(runtime, published, sizeof published) || !gwi_python_layout_publish(layout, published, hex)))
        return false;
    *ret_row = memcmp(layout, row, sizeof *row) == 0 ? (int)(row - gwi_python_rows) : -1;
    return true;
}

static bool function_of(const image *file, const char *name, void *function) /* of any function type */
{
    uintptr_t at;
    if (!find_symbol(file, name, &at))
        return false;
    memcpy(function, &at, sizeof at);
    return true;
}

/* The program's own file, and those that it names, stay as long as it runs. */
static bool stays(const image *file)
{
    image program;
    char name[NAME_MAX_BYTES] = "";
    uintptr_t headers = (uintptr_t)getauxval(AT_PHDR);
    if (headers >= file->base && headers < file->end)
        return true;
    if (headers == 0 || file->so_name == 0 || !open_image(headers & ~(uintptr_t)4095, &program))
        return false;
    for (size_t i = 0; i < sizeof name - 1; i++) {
        if (!gwi_python_read(file->strings + file->so_name + i, &name[i], 1))
            return false;
        if (name[i] == '\0')
            break;
    }
    for (uint32_t i = 0; i < program.needed_count; i++)
        if (name_is(&program, program.needed[i], name))
            return true;
    return false;
}

/* False: the file at `base` is no interpreter. */
static bool recognise(uintptr_t base, gwi_python_interpreter *py)
{
    image file;
    uintptr_t runtime;
    if (!open_image(base, &file) || !find_symbol(&file, "_PyRuntime", &runtime))
        return false;
    memset(py, 0, sizeof *py);
    py->base = base;
    if (!function_of(&file, "PyGILState_GetThisThreadState", &py->get_thread) ||
        !gwi_python_read((uintptr_t)py->get_thread, py->probe, sizeof py->probe))
        return false;
    py->stays = stays(&file);
    py->is_readable =
        function_of(&file, "PyInterpreterState_Main", &py->get_main_interpreter) &&
        function_of(&file, "PyInterpreterState_Head", &py->get_last_interpreter) &&
        (function_of(&file, "Py_IsFinalizing", &py->is_finalizing) ||
         function_of(&file, "_Py_IsFinalizing", &py->is_finalizing)) &&
        find_symbol(&file, "PyCode_Type", &py->code_type) && find_symbol(&file, "PyUnicode_Type", &py->unicode_type) &&
        find_symbol(&file, "PyBytes_Type", &py->bytes_type) && read_layout(&file, runtime, &py->layout, &py->row);
    return true;
}

/* ---- the list of mappings ---- */

enum { MAPS_BYTES = 1 << 16, SEEN_MAX = 4096 };

typedef struct scan {
    uintptr_t base; /* of the file whose first mapping was seen last */
    char file[64];  /* device and inode of it */
    bool tried;
    bool found;
} scan;

/* Files that were looked into before; only one thread looks at a time. */
static uint64_t seen[SEEN_MAX];

static bool was_seen(const scan *s)
{
    uint64_t key = s->base;
    for (const char *c = s->file; *c != '\0'; c++)
        key = (key ^ (uint8_t)*c) * UINT64_C(0x100000001b3);
    for (unsigned probe = 0; probe < 16; probe++) {
        uint64_t *entry = &seen[((key >> 32) + probe) % SEEN_MAX];
        if (*entry == key)
            return true;
        if (*entry == 0) {
            *entry = key;
            return false;
        }
    }
    return false; /* it is looked into again each time */
}

static void try_file(scan *s)
{
    uint32_t count = atomic_load_explicit(&gwi_python_interpreter_count, memory_order_relaxed);
    s->tried = true;
    if (was_seen(s))
        return;
    for (uint32_t i = 0; i < count; i++)
        if (gwi_python_interpreter_list[i].base == s->base)
            return;
    if (count == GWI_PYTHON_INTERPRETERS_MAX || !recognise(s->base, &gwi_python_interpreter_list[count]))
        return;
    atomic_store_explicit(&gwi_python_interpreter_count, count + 1, memory_order_release);
    s->found = true;
}

/* "start-end rights offset device inode path". Only files with code are looked into: touching the first page of a data
 * file could wait for its disk. */
static void see_mapping(scan *s, const char *line)
{
    char *rest;
    uintptr_t start = strtoul(line, &rest, 16);
    if (*rest != '-')
        return;
    (void)strtoul(rest + 1, &rest, 16);
    if (strlen(rest) < 6 || strchr(rest, '/') == NULL)
        return;
    bool has_code = rest[3] == 'x';
    unsigned long offset = strtoul(rest + 6, &rest, 16);
    size_t bytes = strcspn(rest, "/");
    if (bytes >= sizeof s->file)
        return;
    if (offset == 0) {
        s->base = start;
        memcpy(s->file, rest, bytes);
        s->file[bytes] = '\0';
        s->tried = false;
    }
    if (has_code && !s->tried && strncmp(s->file, rest, bytes) == 0 && s->file[bytes] == '\0')
        try_file(s);
}

/* Give every whole line of `text` to see_mapping(); the bytes of the rest, which is moved to the front. */
static size_t see_lines(scan *s, char *text, size_t bytes)
{
    char *line = text, *end;
    text[bytes] = '\0';
    while ((end = strchr(line, '\n')) != NULL) {
        *end = '\0';
        see_mapping(s, line);
        line = end + 1;
    }
    size_t left = bytes - (size_t)(line - text);
    memmove(text, line, left);
    return left;
}

static bool look(void)
{
    scan s = {.tried = true};
    char *text = mmap(NULL, MAPS_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int fd = text == MAP_FAILED ? -1 : open_plainly("/proc/self/maps");
    if (fd >= 0) {
        size_t used = 0;
        long got;
        while ((got = syscall(SYS_read, fd, text + used, MAPS_BYTES - 1 - used)) > 0) {
            used = see_lines(&s, text, used + (size_t)got);
            if (used == MAPS_BYTES - 1) /* no line is so long */
                break;
        }
        syscall(SYS_close, fd);
    }
    if (text != MAP_FAILED)
        munmap(text, MAPS_BYTES);
    return s.found;
}

bool gwi_python_look(void)
{
    static _Atomic uint32_t looking_pid; /* a fork may leave it held: by a process that is not the child */
    int error = errno;
    uint32_t pid = (uint32_t)getpid(), holder = atomic_load(&looking_pid);
    bool found = false;
    if (holder != pid && atomic_compare_exchange_strong(&looking_pid, &holder, pid)) {
        found = look();
        atomic_store(&looking_pid, 0);
    }
    errno = error;
    return found;
}
