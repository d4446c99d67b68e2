/* Finds the file that is mapped at an address, through the loader or /proc/self/maps, and keeps a table of the files
 * found. */
#include "gwi_modules.h"

#include "gwi_hook.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <link.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The result of _dl_find_object, as glibc defines it in <dlfcn.h> (2.35). The layout is stable; later versions may
 * append fields. */
typedef struct found_object {
    unsigned long long flags;
    void *map_start, *map_end;
    struct link_map *link_map;
    void *eh_frame; /* actually the address of .eh_frame_hdr */
    unsigned long long reserved[8];
} found_object;

typedef int find_object_function(void *pc, found_object *ret);

static find_object_function *_Atomic find_object; /* NULL: read /proc/self/maps instead */
static gwi_module *modules;                       /* [0] is unused */
static _Atomic uint32_t module_count;             /* number of modules in the table; changed with our lock held */
static char *text;                                /* end of the paths stored so far; used with our lock held */

/* ---- is memory readable? ---- */

/* Check the eight bytes by passing them to rt_sigprocmask as a signal mask. The kernel fails with EFAULT if they
 * are unreadable, otherwise with another error, because the operation -1 is invalid. It changes nothing. */
bool gwi_may_read(uintptr_t at)
{
    enum { MASK_BYTES = 8 };
    return syscall(SYS_rt_sigprocmask, -1, at, NULL, MASK_BYTES) != 0 && errno != EFAULT;
}

/* ---- /proc/self/maps ---- */

/* One line of /proc/self/maps. */
typedef struct mapping {
    uintptr_t low, high;
    uint64_t offset, inode;
    bool is_readable;
    char path[1024];
} mapping;

/* Reads /proc/self/maps in pieces, with raw system calls, because the C library's wrappers are cancellation points. */
typedef struct maps_reader {
    int fd;
    size_t used, at;
    char piece[4096];
} maps_reader;

static int next_char(maps_reader *in)
{
    if (in->at == in->used) {
        long n = syscall(SYS_read, in->fd, in->piece, sizeof in->piece);
        if (n <= 0)
            return -1;
        in->used = (size_t)n;
        in->at = 0;
    }
    return (unsigned char)in->piece[in->at++];
}

static int hex_digit(int c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Read a number and the character after it. Returns the character. */
static int next_number(maps_reader *in, unsigned base, uint64_t *ret)
{
    int c;
    *ret = 0;
    while (hex_digit(c = next_char(in)) >= 0)
        *ret = *ret * base + (uint64_t)hex_digit(c);
    return c;
}

/* Parse a line: low-high perms offset major:minor inode path */
static bool next_mapping(maps_reader *in, mapping *ret)
{
    uint64_t low, high, ignored;
    size_t n = 0;
    if (next_number(in, 16, &low) != '-' || next_number(in, 16, &high) != ' ')
        return false;
    ret->low = low;
    ret->high = high;
    ret->is_readable = next_char(in) == 'r';
    for (int i = 0; i < 4; i++) /* skip "wxp" and a space */
        next_char(in);
    next_number(in, 16, &ret->offset);
    next_number(in, 16, &ignored);
    next_number(in, 16, &ignored);
    int c = next_number(in, 10, &ret->inode);
    while (c == ' ')
        c = next_char(in);
    for (; c != '\n' && c != -1; c = next_char(in))
        if (n < sizeof ret->path - 1)
            ret->path[n++] = (char)c;
    ret->path[n] = '\0';
    return true;
}

/* Find the mapping that contains the address `at`, and the start of its file. The results are static, so call this
 * with our lock held. */
static bool look_up(uintptr_t at, const mapping **ret_found, uintptr_t *ret_file_start)
{
    static maps_reader in;
    static mapping now;
    uintptr_t file_start = 0;
    uint64_t file_inode = 0;
    bool found = false;
    in.fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC);
    in.used = in.at = 0;
    while (in.fd >= 0 && !found && next_mapping(&in, &now) && now.low <= at) {
        if (now.inode != 0 && now.offset == 0) {
            file_start = now.low;
            file_inode = now.inode;
        }
        found = at < now.high;
    }
    if (in.fd >= 0)
        syscall(SYS_close, in.fd);
    *ret_found = &now;
    *ret_file_start = found && now.inode != 0 && now.inode == file_inode ? file_start : 0;
    return found;
}

bool gwi_mapping_find(uintptr_t at, gwi_mapping *ret_found)
{
    const mapping *found;
    uintptr_t file_start;
    if (!gwi_lock())
        return false;
    bool is_found = look_up(at, &found, &file_start);
    if (is_found)
        *ret_found = (gwi_mapping){found->low, found->high, found->is_readable, strcmp(found->path, "[stack]") == 0};
    gwi_unlock();
    return is_found;
}

/* ---- a mapped file ---- */

/* Return the program headers; NULL if this is not an ELF file or they are not in its first page. */
static const ElfW(Phdr) * headers_of(uintptr_t start, unsigned *ret_count)
{
    const ElfW(Ehdr) *head = (const ElfW(Ehdr) *)start;
    enum { FIRST_PAGE = 4096 };
    if (memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 || head->e_phentsize != sizeof(ElfW(Phdr)) ||
        head->e_phoff > FIRST_PAGE || head->e_phnum > (FIRST_PAGE - head->e_phoff) / sizeof(ElfW(Phdr)))
        return NULL;
    *ret_count = head->e_phnum;
    return (const ElfW(Phdr) *)(start + head->e_phoff);
}

/* Set the start, the end and the bias of the module. Returns false if the file has no loaded segment. */
static bool measure(const ElfW(Phdr) * header, unsigned count, uintptr_t start, gwi_module *m)
{
    uintptr_t low = UINTPTR_MAX, high = 0;
    for (unsigned i = 0; i < count; i++) {
        if (header[i].p_type != PT_LOAD)
            continue;
        low = header[i].p_vaddr < low ? header[i].p_vaddr : low;
        high = header[i].p_vaddr + header[i].p_memsz > high ? header[i].p_vaddr + header[i].p_memsz : high;
    }
    if (low >= high)
        return false;
    m->start = start;
    m->bias = start - (low & ~(uintptr_t)4095);
    m->end = m->bias + high;
    return true;
}

/* Find the readable loaded segment that contains `inner`, and the limits of its part from the file. False if there
 * is none inside the module. */
static bool segment_around(const ElfW(Phdr) * header, unsigned count, const gwi_module *m, const ElfW(Phdr) * inner,
                           uintptr_t *ret_low, uintptr_t *ret_high)
{
    for (unsigned i = 0; i < count; i++) {
        const ElfW(Phdr) *h = &header[i];
        if (h->p_type != PT_LOAD || (h->p_flags & PF_R) == 0 || inner->p_vaddr < h->p_vaddr ||
            inner->p_filesz > h->p_filesz || inner->p_vaddr - h->p_vaddr > h->p_filesz - inner->p_filesz)
            continue;
        *ret_low = m->bias + h->p_vaddr;
        *ret_high = m->bias + h->p_vaddr + h->p_filesz;
        return *ret_low >= m->start && *ret_high <= m->end;
    }
    return false;
}

static size_t padded(size_t bytes)
{
    return (bytes + 3) & ~(size_t)3;
}

/* Find the build id in a note segment. Returns its address, or 0 if there is none. */
static uintptr_t build_id_in(uintptr_t at, uintptr_t end)
{
    while (end - at >= sizeof(ElfW(Nhdr))) {
        const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)at;
        uintptr_t name = at + sizeof *note;
        size_t name_bytes = padded(note->n_namesz), id_bytes = padded(note->n_descsz);
        if (name_bytes > end - name || id_bytes > end - name - name_bytes)
            return 0;
        if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && memcmp((const void *)name, "GNU", 4) == 0)
            return note->n_descsz >= sizeof(uint64_t) ? name + name_bytes : 0;
        at = name + name_bytes + id_bytes;
    }
    return 0;
}

static uint64_t word_at(uintptr_t at)
{
    uint64_t word;
    memcpy(&word, (const void *)at, sizeof word);
    return word;
}

/* Choose words by which this file differs from one that is mapped here later: one of the build id, one near the
 * start of the function table. Without a build id, the path is compared, too. */
static void choose_marks(gwi_module *m, uintptr_t build_id_at)
{
    enum { TABLE_HEAD_BYTES = 4, TABLE_BYTES_MIN = 20 };
    unsigned n = 0;
    if (build_id_at != 0) {
        m->build_id = word_at(build_id_at);
        m->mark_at[n++] = build_id_at;
    }
    if (m->cfi.table != 0 && m->cfi.high - m->cfi.table >= TABLE_BYTES_MIN)
        m->mark_at[n++] = m->cfi.table + TABLE_HEAD_BYTES; /* address of .eh_frame and number of functions */
    for (unsigned i = 0; i < n; i++)
        m->mark[i] = word_at(m->mark_at[i]);
    m->by_path = build_id_at == 0;
}

static bool read_file_in_memory(uintptr_t start, gwi_module *m)
{
    unsigned count = 0;
    uintptr_t low, high, build_id_at = 0;
    const ElfW(Phdr) *header = headers_of(start, &count);
    if (header == NULL || !measure(header, count, start, m))
        return false;
    for (unsigned i = 0; i < count; i++) {
        if (header[i].p_type == PT_GNU_EH_FRAME && segment_around(header, count, m, &header[i], &low, &high))
            m->cfi = (gwi_cfi_region){low, high, m->bias + header[i].p_vaddr};
        if (header[i].p_type == PT_NOTE && build_id_at == 0 && header[i].p_align <= 8 &&
            segment_around(header, count, m, &header[i], &low, &high))
            build_id_at = build_id_in(m->bias + header[i].p_vaddr, m->bias + header[i].p_vaddr + header[i].p_filesz);
    }
    choose_marks(m, build_id_at);
    return true;
}

/* ---- the table ---- */

void gwi_modules_begin(bool without_loader)
{
    /* Call dlsym() only if this glibc has the function. A failed lookup would leave an error message, which the program
     * could get from dlerror(). */
    const char *version = gnu_get_libc_version();
    bool has_it = version[0] == '2' && version[1] == '.' && strlen(version) == 4 &&
                  (version[2] - '0') * 10 + (version[3] - '0') >= 35;
    void *found = has_it && !without_loader ? dlsym(RTLD_DEFAULT, "_dl_find_object") : NULL;
    find_object_function *function;
    memcpy(&function, &found, sizeof found);
    atomic_store(&find_object, function);
}

void gwi_modules_place(void *memory)
{
    _Static_assert(sizeof(gwi_module) <= 128, "fits into its memory");
    modules = memory;
    text = (char *)memory + GWI_MODULES_MAX * sizeof(gwi_module);
    atomic_store(&module_count, 0);
}

void gwi_modules_forked(void)
{
    uint32_t count = atomic_load(&module_count);
    for (uint32_t i = 1; i <= count; i++)
        atomic_store_explicit(&modules[i].is_announced, 0, memory_order_relaxed);
}

/* Copy a path into the table's memory. Returns "" if there is no room left. */
static const char *keep_path(const char *path)
{
    static const char unknown[] = "";
    size_t bytes = strlen(path) + 1;
    char *end = (char *)modules + GWI_MODULES_BYTES;
    char *at = text;
    if (bytes > (size_t)(end - at))
        return unknown;
    memcpy(at, path, bytes);
    text += bytes;
    return at;
}

/* Return the path of a module, valid until the next look_up(). Call this with our lock held. The loader has no name
 * for the program itself, so /proc/self/maps is read. /proc/self/exe may be the loader (`ld-linux.so program`). */
static const char *path_of(const struct link_map *map, uintptr_t pc)
{
    const mapping *found;
    uintptr_t file_start;
    if (map->l_name != NULL && map->l_name[0] != '\0')
        return map->l_name;
    return look_up(pc, &found, &file_start) ? found->path : "";
}

/* True if the module cannot be unloaded: it is the program itself, the hook, or the C library that the hook calls. */
static bool cannot_go(const gwi_module *m, const struct link_map *map)
{
    const uintptr_t needed[] = {(uintptr_t)gwi_modules_begin, (uintptr_t)syscall};
    bool is_needed = map != NULL && map->l_name != NULL && map->l_name[0] == '\0';
    for (unsigned i = 0; i < sizeof needed / sizeof needed[0]; i++)
        is_needed = is_needed || (needed[i] >= m->start && needed[i] < m->end);
    return is_needed;
}

/* Fill in a new module. Returns false if no usable file is mapped at `pc`. Call with our lock held. */
static bool learn(uintptr_t pc, gwi_module *m)
{
    find_object_function *ask = atomic_load_explicit(&find_object, memory_order_relaxed);
    found_object object;
    const struct link_map *map = NULL;
    const mapping *found;
    uintptr_t file_start;
    memset(m, 0, sizeof *m);
    if (ask != NULL) {
        if (ask((void *)pc, &object) != 0 || !read_file_in_memory((uintptr_t)object.map_start, m))
            return false;
        map = object.link_map;
        m->path = keep_path(path_of(object.link_map, pc));
    } else {
        if (!look_up(pc, &found, &file_start) || file_start == 0 || !gwi_may_read(file_start) ||
            !read_file_in_memory(file_start, m))
            return false;
        m->path = keep_path(found->path);
    }
    m->stays = cannot_go(m, map);
    return pc >= m->start && pc < m->end;
}

static uint32_t find_known(uintptr_t pc)
{
    uint32_t count = atomic_load_explicit(&module_count, memory_order_acquire);
    for (uint32_t i = 1; i <= count; i++)
        if (pc >= modules[i].start && pc < modules[i].end && atomic_load(&modules[i].is_gone) == 0) {
            if (gwi_module_is_there(i, pc))
                return i;
            atomic_store(&modules[i].is_gone, 1);
        }
    return 0;
}

/* True if the loader has mapped no file at `pc`; false if only a slow search could tell. Generated code is in no
 * file, and often on the stack. */
static bool is_in_no_file(uintptr_t pc)
{
    find_object_function *ask = atomic_load_explicit(&find_object, memory_order_relaxed);
    found_object object;
    return ask != NULL && ask((void *)pc, &object) != 0;
}

uint32_t gwi_module_find(uintptr_t pc)
{
    if (is_in_no_file(pc))
        return 0;
    uint32_t number = find_known(pc);
    if (number != 0 || modules == NULL || !gwi_lock())
        return number;
    number = find_known(pc); /* another thread may have added the module meanwhile */
    uint32_t next = atomic_load(&module_count) + 1;
    if (number == 0 && next < GWI_MODULES_MAX && learn(pc, &modules[next])) {
        atomic_store_explicit(&module_count, next, memory_order_release);
        number = next;
    }
    gwi_unlock();
    return number;
}

uint32_t gwi_modules_count(void)
{
    return atomic_load_explicit(&module_count, memory_order_relaxed);
}

const gwi_module *gwi_module_at(uint32_t number)
{
    return &modules[number];
}

bool gwi_module_announce(uint32_t number, bool (*say)(void *user, const gwi_module *module), void *user)
{
    gwi_module *m = &modules[number];
    if (atomic_load_explicit(&m->is_announced, memory_order_acquire) != 0)
        return true;
    /* if two threads call this at once, the same record is written twice */
    if (!say(user, m))
        return false;
    atomic_store_explicit(&m->is_announced, 1, memory_order_release);
    return true;
}

static bool marks_agree(const gwi_module *m)
{
    for (unsigned i = 0; i < 2; i++)
        if (m->mark_at[i] != 0 && word_at(m->mark_at[i]) != m->mark[i])
            return false;
    return true;
}

bool gwi_module_is_there(uint32_t number, uintptr_t pc)
{
    const gwi_module *m = &modules[number];
    find_object_function *ask = atomic_load_explicit(&find_object, memory_order_relaxed);
    found_object object;
    if (m->stays)
        return true;
    if (gwi_unlikely(atomic_load_explicit(&m->is_gone, memory_order_relaxed) != 0))
        return false;
    if (ask == NULL) {
        for (unsigned i = 0; i < 2; i++)
            if (m->mark_at[i] != 0 && !gwi_may_read(m->mark_at[i] & ~(uintptr_t)7))
                return false;
        return marks_agree(m);
    }
    /* Compare the table's address before reading the marks. If another file is mapped here now, the marks may be
     * unreadable. */
    if (ask((void *)pc, &object) != 0 || (uintptr_t)object.map_start != m->start ||
        (m->cfi.table != 0 && (uintptr_t)object.eh_frame != m->cfi.table) || !marks_agree(m))
        return false;
    return gwi_likely(!m->by_path) || object.link_map->l_name == NULL || object.link_map->l_name[0] == '\0' ||
           strcmp(object.link_map->l_name, m->path) == 0;
}
