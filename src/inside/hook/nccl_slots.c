/* Leads the program's calls of NCCL to our wrappers.
 *
 * A file that is linked to NCCL (PyTorch, CuPy) calls it through slots that the loader has filled with the addresses of
 * NCCL's functions. Such a slot gets the address of the wrapper instead. A slot without such an address, such as that
 * of a weak reference to a function that this NCCL lacks, is left alone. So are the slots of NCCL itself.
 *
 * A program that opens NCCL itself (JAX, vLLM, ctypes) looks the functions up with dlsym(). The slots of dlsym() lead
 * to a function that calls the real one, and replaces its result if that is a function of NCCL. This is also when files
 * that were loaded meanwhile are found: Python looks up the entry point of every module that it loads.
 *
 * All this begins with the program's first driver call, so a program that never uses the driver is not touched. Lookups
 * with dlsym() before are missed. The loader's lock protects what is stored here: dl_iterate_phdr() holds it, and it is
 * called only where the loader was called anyway, in an attach or in dlsym(). No constructor runs under this lock. */
#include "gwi_nccl.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

gwi_nccl_library gwi_nccl[GWI_NCCL_LIBRARIES];
static const gwi_nccl_table *_Atomic all_wrappers; /* set before the first look */

static const char *const names[GWI_NCCL_FN_COUNT] = {
#define GW_X(name, ...) [GWI_##name] = #name,
    GW_NCCL_WORK(GW_X) GW_NCCL_OTHER_WORK(GW_X) GW_NCCL_CONTROL(GW_X) GW_NCCL_QUERIES(GW_X)
#undef GW_X
};

enum { NOT_OURS = -1, IS_DLSYM = -2 };

/* ---- one loaded file ---- */

typedef struct file {
    uintptr_t base, low, high;               /* low, high: its first mapped byte, and one past the last */
    uintptr_t read_only_low, read_only_high; /* whole pages that the loader has made read-only after it filled them */
    const char *path, *strings;
    const Elf64_Sym *symbol;
    const uint32_t *gnu_hash;
    const Elf64_Rela *rela[2]; /* of data, and of the procedure linkage table */
    size_t rela_count[2];
    size_t relative_count; /* the first relocations of data, which name no symbol */
} file;

/* The loader replaces the offsets in a dynamic section by addresses, except in the vDSO. */
static const void *at(const file *f, Elf64_Addr value)
{
    return (const void *)(value < f->base ? f->base + value : value);
}

static void read_dynamic(file *f, const Elf64_Dyn *dyn)
{
    for (; dyn->d_tag != DT_NULL; dyn++) {
        switch (dyn->d_tag) {
        case DT_STRTAB:
            f->strings = at(f, dyn->d_un.d_ptr);
            break;
        case DT_SYMTAB:
            f->symbol = at(f, dyn->d_un.d_ptr);
            break;
        case DT_GNU_HASH:
            f->gnu_hash = at(f, dyn->d_un.d_ptr);
            break;
        case DT_RELA:
            f->rela[0] = at(f, dyn->d_un.d_ptr);
            break;
        case DT_RELASZ:
            f->rela_count[0] = dyn->d_un.d_val / sizeof(Elf64_Rela);
            break;
        case DT_RELACOUNT:
            f->relative_count = dyn->d_un.d_val;
            break;
        case DT_JMPREL:
            f->rela[1] = at(f, dyn->d_un.d_ptr);
            break;
        case DT_PLTRELSZ:
            f->rela_count[1] = dyn->d_un.d_val / sizeof(Elf64_Rela);
            break;
        default:
            break;
        }
    }
}

/* Read what is needed of a file. Returns false for a file without dynamic symbols. */
static bool read_file(const struct dl_phdr_info *info, file *f)
{
    *f = (file){.base = info->dlpi_addr, .low = UINTPTR_MAX, .path = info->dlpi_name == NULL ? "" : info->dlpi_name};
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const Elf64_Dyn *dyn = NULL;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const Elf64_Phdr *head = &info->dlpi_phdr[i];
        uintptr_t start = f->base + head->p_vaddr, end = start + head->p_memsz;
        if (head->p_type == PT_LOAD) {
            f->low = start < f->low ? start : f->low;
            f->high = end > f->high ? end : f->high;
        } else if (head->p_type == PT_DYNAMIC) {
            dyn = (const Elf64_Dyn *)start;
        } else if (head->p_type == PT_GNU_RELRO) {
            f->read_only_low = start / page * page;
            f->read_only_high = end / page * page;
        }
    }
    if (dyn != NULL)
        read_dynamic(f, dyn);
    return f->strings != NULL && f->symbol != NULL;
}

static uint32_t hash_of(const char *name)
{
    uint32_t h = 5381;
    for (; *name != '\0'; name++)
        h = h * 33 + (uint8_t)*name;
    return h;
}

/* Return the address of a function that the file defines; NULL: it does not define it, or it has an old hash table
 * only. */
static void *defined(const file *f, const char *name)
{
    if (f->gnu_hash == NULL)
        return NULL;
    uint32_t bucket_count = f->gnu_hash[0], first = f->gnu_hash[1], bloom_words = f->gnu_hash[2];
    const uint32_t *bucket = f->gnu_hash + 4 + bloom_words * 2, *chain = bucket + bucket_count;
    uint32_t hash = hash_of(name);
    uint32_t i = bucket_count == 0 ? 0 : bucket[hash % bucket_count];
    if (i < first)
        return NULL;
    for (;; i++) {
        const Elf64_Sym *symbol = &f->symbol[i];
        uint32_t found = chain[i - first];
        if ((found | 1) == (hash | 1) && ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && symbol->st_shndx != SHN_UNDEF &&
            strcmp(f->strings + symbol->st_name, name) == 0)
            return (void *)(f->base + symbol->st_value);
        if ((found & 1) != 0)
            return NULL;
    }
}

/* ---- NCCL's libraries ---- */

static bool contains(const gwi_nccl_library *library, const void *address)
{
    uintptr_t high = __atomic_load_n(&library->high, __ATOMIC_ACQUIRE); /* 0: there is none at this place */
    return (uintptr_t)address < high && (uintptr_t)address >= library->low;
}

/* Return the place of the library; GWI_NCCL_LIBRARIES: it has none. */
static uint32_t place_of(const file *f)
{
    uint32_t i = 0;
    while (i < GWI_NCCL_LIBRARIES && !(gwi_nccl[i].high == f->high && gwi_nccl[i].base == f->base &&
                                       gwi_nccl[i].fn[GWI_ncclAllReduce] == defined(f, "ncclAllReduce")))
        i++;
    return i;
}

/* True if the file is NCCL, or a program that contains it. Others define functions with the same names that call NCCL,
 * but none with the names of NCCL's profiling interface. */
static bool is_nccl(const file *f)
{
    return defined(f, "ncclAllReduce") != NULL && defined(f, "pncclAllReduce") != NULL;
}

typedef struct libraries {
    bool is_loaded[GWI_NCCL_LIBRARIES], any_new;
} libraries;

static int note_loaded(struct dl_phdr_info *info, size_t size, void *user)
{
    file f;
    (void)size;
    uint32_t place = read_file(info, &f) && is_nccl(&f) ? place_of(&f) : GWI_NCCL_LIBRARIES;
    if (place < GWI_NCCL_LIBRARIES)
        ((libraries *)user)->is_loaded[place] = true;
    return 0;
}

/* Give up the places of libraries that were unloaded. Other files may be at their addresses now. A program that still
 * has a function of such a library cannot call it without gpuwhy either. */
static void forget_unloaded(libraries *found)
{
    (void)dl_iterate_phdr(note_loaded, found);
    for (uint32_t i = 0; i < GWI_NCCL_LIBRARIES; i++)
        if (!found->is_loaded[i])
            __atomic_store_n(&gwi_nccl[i].high, 0, __ATOMIC_RELEASE);
}

static int find_library(struct dl_phdr_info *info, size_t size, void *user)
{
    file f;
    uint32_t place = 0;
    (void)size;
    while (place < GWI_NCCL_LIBRARIES && gwi_nccl[place].high != 0)
        place++;
    if (place == GWI_NCCL_LIBRARIES || !read_file(info, &f) || !is_nccl(&f) || place_of(&f) < GWI_NCCL_LIBRARIES)
        return 0;
    gwi_nccl_library *library = &gwi_nccl[place];
    for (int i = 0; i < GWI_NCCL_FN_COUNT; i++)
        library->fn[i] = defined(&f, names[i]);
    library->base = f.base;
    library->low = f.low;
    __atomic_store_n(&library->high, f.high, __ATOMIC_RELEASE);
    ((libraries *)user)->any_new = true;
    return 0;
}

/* Return the wrapper of a function of NCCL at this address; NULL: it is none. */
static void *wrapper_at(const void *address, int fn)
{
    for (uint32_t i = 0; i < GWI_NCCL_LIBRARIES; i++)
        if (contains(&gwi_nccl[i], address) && gwi_nccl[i].fn[fn] == address)
            return (*all_wrappers)[i][fn];
    return NULL;
}

static int fn_of(const char *name)
{
    if (strncmp(name, "nccl", 4) != 0)
        return strcmp(name, "dlsym") == 0 ? IS_DLSYM : NOT_OURS;
    for (int i = 0; i < GWI_NCCL_WRAPPED; i++)
        if (strcmp(name, names[i]) == 0)
            return i;
    return NOT_OURS;
}

typedef struct definitions {
    const char *name;
    void *address;
    uint32_t count;
} definitions;

static int note_definition(struct dl_phdr_info *info, size_t size, void *user)
{
    file f;
    definitions *all = user;
    (void)size;
    void *address = read_file(info, &f) ? defined(&f, all->name) : NULL;
    all->count += address != NULL;
    all->address = address != NULL ? address : all->address;
    return 0;
}

/* Return the wrapper of the function that the loader finds by this name in any file that finds one at all; NULL: there
 * is no wrapper, or several files define such a function, so it depends on their scopes which one is found. */
static void *wrapper_of_only(const char *name)
{
    int fn = fn_of(name);
    definitions all = {.name = name};
    if (fn < 0)
        return NULL;
    (void)dl_iterate_phdr(note_definition, &all);
    return all.count == 1 ? wrapper_at(all.address, fn) : NULL;
}

/* ---- dlsym ---- */

void *gwi_nccl_dlsym(void *handle, const char *name) GWI_HIDDEN;
void *gwi_nccl_default(const char *name) GWI_HIDDEN;

#if defined(__x86_64__)
enum { RELOC_SLOT = R_X86_64_JUMP_SLOT, RELOC_DATA = R_X86_64_GLOB_DAT, RELOC_WORD = R_X86_64_64 };

extern GWI_HIDDEN void *gwi_real_dlsym;
void *gwi_real_dlsym;

/* RTLD_DEFAULT (0) and RTLD_NEXT (-1) depend on who calls, so the real function must be called by a jump. Only a
 * function of NCCL that every caller finds by RTLD_DEFAULT is replaced. */
__asm__(".pushsection .text\n"
        ".type gwi_dlsym_door, @function\n"
        "gwi_dlsym_door:\n"
        "  .cfi_startproc\n"
        "  endbr64\n"
        "  lea 1(%rdi), %rax\n"
        "  cmp $1, %rax\n"
        "  jbe 1f\n"
        "  jmp gwi_nccl_dlsym\n"
        "1:\n"
        "  test %rdi, %rdi\n"
        "  jne 2f\n"
        "  push %rdi\n"
        "  .cfi_adjust_cfa_offset 8\n"
        "  push %rsi\n"
        "  .cfi_adjust_cfa_offset 8\n"
        "  sub $8, %rsp\n"
        "  .cfi_adjust_cfa_offset 8\n"
        "  mov %rsi, %rdi\n"
        "  call gwi_nccl_default\n"
        "  add $8, %rsp\n"
        "  .cfi_adjust_cfa_offset -8\n"
        "  pop %rsi\n"
        "  .cfi_adjust_cfa_offset -8\n"
        "  pop %rdi\n"
        "  .cfi_adjust_cfa_offset -8\n"
        "  test %rax, %rax\n"
        "  je 2f\n"
        "  ret\n"
        "2:\n"
        "  jmp *gwi_real_dlsym(%rip)\n"
        "  .cfi_endproc\n"
        ".size gwi_dlsym_door, .-gwi_dlsym_door\n"
        ".popsection\n");
extern char gwi_dlsym_door[] GWI_HIDDEN;
static void *const dlsym_door = gwi_dlsym_door;
#else
enum { RELOC_SLOT = R_AARCH64_JUMP_SLOT, RELOC_DATA = R_AARCH64_GLOB_DAT, RELOC_WORD = R_AARCH64_ABS64 };
static void *gwi_real_dlsym, *const dlsym_door = NULL;
#endif

/* ---- slots ---- */

/* Store an address in a slot, which the loader may have made read-only. */
static void fill(const file *f, void **slot, void *value)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = (uintptr_t)slot / page * page;
    bool is_read_only = start >= f->read_only_low && start < f->read_only_high;
    if (is_read_only && mprotect((void *)start, page, PROT_READ | PROT_WRITE) != 0)
        return;
    __atomic_store_n(slot, value, __ATOMIC_RELEASE);
    if (is_read_only)
        (void)mprotect((void *)start, page, PROT_READ);
}

/* Return the wrapper of the function of NCCL at this address, whichever it is; NULL: it is none. */
static void *wrapper_of(const void *address)
{
    for (uint32_t i = 0; i < GWI_NCCL_LIBRARIES; i++) {
        if (!contains(&gwi_nccl[i], address))
            continue;
        for (int fn = 0; fn < GWI_NCCL_WRAPPED; fn++)
            if (gwi_nccl[i].fn[fn] == address)
                return (*all_wrappers)[i][fn];
    }
    return NULL;
}

/* Return what a slot should contain that the loader has not filled yet: it does that at the first call. */
static void *instead_of_loader(const file *f, const Elf64_Rela *rela)
{
    const Elf64_Sym *symbol = &f->symbol[ELF64_R_SYM(rela->r_info)];
    const char *name = symbol->st_shndx == SHN_UNDEF ? f->strings + symbol->st_name : "";
    return fn_of(name) == IS_DLSYM ? dlsym_door : wrapper_of_only(name);
}

/* Slots are recognised by their contents, because there are many, and reading their names would take milliseconds. */
static void lead_slots(const file *f, bool is_of_nccl, const Elf64_Rela *rela, size_t count)
{
    bool is_any = gwi_nccl[0].high != 0 || gwi_nccl[1].high != 0;
    for (size_t i = 0; i < count; i++) {
        unsigned type = ELF64_R_TYPE(rela[i].r_info);
        if (type != RELOC_SLOT && type != RELOC_DATA && (type != RELOC_WORD || !is_any))
            continue;
        void **slot = (void **)(f->base + rela[i].r_offset);
        void *now = __atomic_load_n(slot, __ATOMIC_RELAXED), *value = NULL;
        /* The slot still leads to the loader, through the file's own code. */
        bool is_unbound = type == RELOC_SLOT && (uintptr_t)now >= f->low && (uintptr_t)now < f->high;
        if (now == gwi_real_dlsym && type != RELOC_WORD)
            value = dlsym_door;
        else if (is_unbound && !is_of_nccl)
            value = instead_of_loader(f, &rela[i]);
        else if (!is_of_nccl && rela[i].r_addend == 0)
            value = wrapper_of(now);
        if (value != NULL)
            fill(f, slot, value);
    }
}

/* Files that are left alone: the C library, our own libraries, the driver, and sanitizers. */
static bool is_left_alone(const file *f)
{
    static const char *const left[] = {"libc.so", "libdl.so", "libpthread", "ld-linux", "libcuda.so", "libgpuwhy"};
    const char *slash = strrchr(f->path, '/'), *name = slash == NULL ? f->path : slash + 1;
    for (size_t i = 0; i < sizeof left / sizeof left[0]; i++)
        if (strncmp(name, left[i], strlen(left[i])) == 0)
            return true;
    return strstr(name, "san.so") != NULL;
}

static int lead_file(struct dl_phdr_info *info, size_t size, void *user)
{
    file f;
    uint32_t *skip = user;
    (void)size;
    if (*skip > 0) {
        (*skip)--;
        return 0;
    }
    if (!read_file(info, &f) || is_left_alone(&f))
        return 0;
    size_t relative = f.relative_count < f.rela_count[0] ? f.relative_count : f.rela_count[0];
    bool is_of_nccl = is_nccl(&f);
    lead_slots(&f, is_of_nccl, f.rela[0] + relative, f.rela_count[0] - relative);
    lead_slots(&f, is_of_nccl, f.rela[1], f.rela_count[1]);
    return 0;
}

/* ---- looking ---- */

/* How many files were loaded and unloaded so far, and how many of them were seen in the last look. */
static unsigned long long added, removed;
static uint32_t seen;

static _Atomic uint32_t looking; /* 1: a thread looks, or forks */
static __thread bool is_looking __attribute__((tls_model("initial-exec")));
static __thread bool is_forking __attribute__((tls_model("initial-exec"))); /* and holds `looking` */

typedef struct changes {
    bool any, removed_any;
    uint32_t file_count;
} changes;

static int note_changes(struct dl_phdr_info *info, size_t size, void *user)
{
    changes *c = user;
    (void)size;
    c->any = info->dlpi_adds != added || info->dlpi_subs != removed;
    c->removed_any = info->dlpi_subs != removed;
    c->file_count = (uint32_t)(info->dlpi_adds - info->dlpi_subs);
    added = info->dlpi_adds;
    removed = info->dlpi_subs;
    return 1; /* the numbers are the same for every file */
}

/* Files are listed in the order in which they were loaded. Those that were seen before are looked at again only if one
 * was unloaded, or NCCL is new. */
static void look(void)
{
    changes c = {false, false, 0};
    libraries found = {{false}, false};
    (void)dl_iterate_phdr(note_changes, &c);
    if (!c.any)
        return;
    if (c.removed_any)
        forget_unloaded(&found);
    (void)dl_iterate_phdr(find_library, &found);
    uint32_t skip = c.removed_any || found.any_new ? 0 : seen;
    seen = c.file_count;
    (void)dl_iterate_phdr(lead_file, &skip);
}

void gwi_nccl_look(const gwi_nccl_table *wrappers)
{
    uint32_t is_free = 0;
    int saved_errno = errno;
    if (gwi.inert || !gwi_wipe.looks_for_nccl || !atomic_compare_exchange_strong(&looking, &is_free, 1))
        return;
    is_looking = true;
    all_wrappers = wrappers;
    if (gwi_real_dlsym == NULL)
        gwi_real_dlsym = (void *)(uintptr_t)dlsym;
    look();
    is_looking = false;
    atomic_store(&looking, 0);
    errno = saved_errno;
}

/* The child of a fork has no other threads. If one of them held the loader's lock, because it was looking, the child
 * could never load a file. So a fork waits for the look of another thread, but not long: the forking thread itself may
 * hold the lock. The child does not look, because the lock may be held even so. It can use neither the driver nor NCCL.
 */
void gwi_nccl_before_fork(void)
{
    enum { ATTEMPTS_MAX = 1000 };
    uint32_t is_free = 0;
    for (int i = 0; i < ATTEMPTS_MAX && !is_looking && !is_forking; i++, is_free = 0) {
        is_forking = atomic_compare_exchange_strong(&looking, &is_free, 1);
        if (!is_forking)
            (void)usleep(100);
    }
}

void gwi_nccl_after_fork(void)
{
    if (is_forking)
        atomic_store(&looking, 0);
    is_forking = false;
}

/* Return the wrapper that dlsym(RTLD_DEFAULT, name) finds; NULL: none, so call the real one. */
void *gwi_nccl_default(const char *name)
{
    int saved_errno = errno;
    int fn = name != NULL && strncmp(name, "nccl", 4) == 0 ? fn_of(name) : NOT_OURS;
    void *wrapper = NULL;
    if (fn >= 0 && gwi_wipe.looks_for_nccl) {
        gwi_nccl_look(all_wrappers);
        wrapper = wrapper_of_only(name);
        if (wrapper != NULL && ((__typeof__(dlsym) *)(uintptr_t)gwi_real_dlsym)(RTLD_DEFAULT, name) == NULL)
            wrapper = NULL; /* not in the global scope, so only some callers find it */
    }
    errno = saved_errno;
    return wrapper;
}

void *gwi_nccl_dlsym(void *handle, const char *name)
{
    void *found = ((__typeof__(dlsym) *)(uintptr_t)gwi_real_dlsym)(handle, name);
    if (found == NULL)
        return NULL;
    gwi_nccl_look(all_wrappers);
    int fn = strncmp(name, "nccl", 4) == 0 ? fn_of(name) : NOT_OURS;
    void *wrapper = fn < 0 ? NULL : wrapper_at(found, fn);
    return wrapper == NULL ? found : wrapper;
}
