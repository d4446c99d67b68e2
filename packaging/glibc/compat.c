/* Functions that the C library got after the release that a portable program is linked for (stubs.py), and that we or
 * the libraries that we link statically call. They are part of the program, and hidden. On a kernel without the system
 * call they fail with ENOSYS, as those of the C library do. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- since 2.33; earlier releases had them as inline functions. The kernel's struct stat is the C library's. ---- */

#define STAT(suffix)                                                                                                   \
    int fstatat##suffix(int fd, const char *path, struct stat##suffix *out, int flags)                                 \
    {                                                                                                                  \
        return (int)syscall(SYS_newfstatat, fd, path, out, flags);                                                     \
    }                                                                                                                  \
    int stat##suffix(const char *path, struct stat##suffix *out)                                                       \
    {                                                                                                                  \
        return (int)syscall(SYS_stat, path, out);                                                                      \
    }                                                                                                                  \
    int lstat##suffix(const char *path, struct stat##suffix *out)                                                      \
    {                                                                                                                  \
        return (int)syscall(SYS_lstat, path, out);                                                                     \
    }                                                                                                                  \
    int fstat##suffix(int fd, struct stat##suffix *out)                                                                \
    {                                                                                                                  \
        return (int)syscall(SYS_fstat, fd, out);                                                                       \
    }
STAT()
STAT(64)

/* ---- since 2.28; `long` holds both kinds of argument, an int and a pointer ---- */

int fcntl64(int fd, int command, ...)
{
    va_list args;
    va_start(args, command);
    long argument = va_arg(args, long);
    va_end(args);
    return fcntl(fd, command, argument);
}

/* ---- since 2.25, 2.26, 2.27 ---- */

ssize_t getrandom(void *out, size_t bytes, unsigned flags)
{
    return syscall(SYS_getrandom, out, bytes, flags);
}

int getentropy(void *out, size_t bytes)
{
    return getrandom(out, bytes, 0) == (ssize_t)bytes ? 0 : -1;
}

void *reallocarray(void *array, size_t count, size_t bytes)
{
    size_t total;
    if (__builtin_mul_overflow(count, bytes, &total)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(array, total);
}

int memfd_create(const char *name, unsigned flags)
{
    return (int)syscall(SYS_memfd_create, name, flags);
}

/* ---- since 2.36: std::random_device refers to it; nothing that we call uses that ---- */

uint32_t arc4random(void)
{
    uint32_t out;
    if (getentropy(&out, sizeof out) < 0)
        abort();
    return out;
}

/* ---- since 2.32: libstdc++ counts references without atomic instructions if this is true ---- */

extern char __libc_single_threaded;
char __libc_single_threaded;

/* ---- since 2.35: libgcc finds the unwind table of a function with it, for C++ exceptions ---- */

typedef struct search {
    uintptr_t pc;
    struct dl_find_object *found;
} search;

static int look(struct dl_phdr_info *object, size_t bytes, void *with)
{
    (void)bytes;
    search *wanted = with;
    uintptr_t begin = UINTPTR_MAX, end = 0;
    const ElfW(Phdr) *unwind = NULL;
    bool is_here = false;
    for (unsigned i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        uintptr_t at = object->dlpi_addr + part->p_vaddr;
        if (part->p_type == PT_GNU_EH_FRAME)
            unwind = part;
        if (part->p_type != PT_LOAD)
            continue;
        begin = at < begin ? at : begin;
        end = at + part->p_memsz > end ? at + part->p_memsz : end;
        is_here = is_here || (wanted->pc >= at && wanted->pc < at + part->p_memsz);
    }
    if (!is_here || unwind == NULL)
        return 0;
    wanted->found->dlfo_map_start = (void *)begin;
    wanted->found->dlfo_map_end = (void *)end;
    wanted->found->dlfo_eh_frame = (void *)(object->dlpi_addr + unwind->p_vaddr);
    return 1;
}

int _dl_find_object(void *pc, struct dl_find_object *out)
{
    search wanted = {(uintptr_t)pc, out};
    *out = (struct dl_find_object){0};
    return dl_iterate_phdr(look, &wanted) == 1 ? 0 : -1;
}
