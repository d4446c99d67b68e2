/* A preloaded library that receives PyTorch's calls to two functions of libc10.so (gw_c10_door.h).
 *
 * It links only to the C library. Python loads libc10.so without RTLD_GLOBAL, so dlsym(RTLD_NEXT) does not find
 * PyTorch's own functions. Instead, this library looks for the file name libc10.so among the loaded libraries. */
#include "gw_c10_door.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))

void gwi_c10_usage(void *block, int64_t bytes, size_t allocated_bytes, size_t reserved_bytes,
                   gw_c10_device device) __asm__(GW_C10_USAGE) EXPORTED;
void gwi_c10_oom(int64_t bytes, size_t allocated_bytes, size_t reserved_bytes,
                 gw_c10_device device) __asm__(GW_C10_OOM) EXPORTED;
extern gw_c10_door gw_the_c10_door EXPORTED;
/* a hidden alias, so that our own accesses need no symbol lookup */
extern gw_c10_door the_door __attribute__((alias("gw_the_c10_door"), visibility("hidden")));

/* Before glibc 2.34 these functions are in libdl, which a program may not load. Without them, no call is passed on to
 * PyTorch, but PyTorch loads libdl. */
#pragma weak dlopen
#pragma weak dlsym

enum { PATH_BYTES = 4096 };

static int note_libc10(struct dl_phdr_info *info, size_t size, void *path)
{
    (void)size;
    const char *slash = info->dlpi_name == NULL ? NULL : strrchr(info->dlpi_name, '/');
    const char *file = slash == NULL ? info->dlpi_name : slash + 1;
    if (file == NULL || strncmp(file, "libc10.so", sizeof "libc10.so" - 1) != 0 ||
        strlen(info->dlpi_name) >= PATH_BYTES)
        return 0;
    strcpy(path, info->dlpi_name);
    return 1;
}

/* Find PyTorch's functions in libc10.so. Returns false if it is not loaded. `library` is never closed, so the functions
 * stay mapped. */
static bool resolve_in_file(void)
{
    char path[PATH_BYTES];
    if (dlopen == NULL || dlsym == NULL)
        return false;
    void *library = dl_iterate_phdr(note_libc10, path) != 0 ? dlopen(path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    if (library == NULL)
        return false;
    gw_c10_oom_fn *oom = (gw_c10_oom_fn *)(uintptr_t)dlsym(library, GW_C10_OOM);
    gw_c10_usage_fn *usage = (gw_c10_usage_fn *)(uintptr_t)dlsym(library, GW_C10_USAGE);
    if (oom != gwi_c10_oom)
        __atomic_store_n(&gw_the_c10_door.next_oom, oom, __ATOMIC_RELEASE);
    if (usage != gwi_c10_usage)
        __atomic_store_n(&gw_the_c10_door.next_usage, usage, __ATOMIC_RELEASE);
    return true;
}

/* Find PyTorch's functions, but only if libc10.so is loaded: a failed lookup would leave an error that the program sees
 * in dlerror(). */
static void resolve(void)
{
    int saved_errno = errno;
    if (__atomic_load_n(&gw_the_c10_door.next_usage, __ATOMIC_ACQUIRE) == NULL)
        (void)resolve_in_file();
    errno = saved_errno;
}

/* Find PyTorch's functions during a call, when PyTorch is certainly loaded. If libc10.so has another file name, use the
 * global scope. A failed lookup is slow, so the number of attempts is limited. */
static void resolve_for_call(void)
{
    enum { LOOKS_MAX = 16 };
    static uint32_t looks;
    int saved_errno = errno;
    if (__atomic_fetch_add(&looks, 1, __ATOMIC_RELAXED) < LOOKS_MAX && !resolve_in_file() && dlsym != NULL) {
        __atomic_store_n(&gw_the_c10_door.next_oom, (gw_c10_oom_fn *)(uintptr_t)dlsym(RTLD_NEXT, GW_C10_OOM),
                         __ATOMIC_RELEASE);
        __atomic_store_n(&gw_the_c10_door.next_usage, (gw_c10_usage_fn *)(uintptr_t)dlsym(RTLD_NEXT, GW_C10_USAGE),
                         __ATOMIC_RELEASE);
    }
    errno = saved_errno;
}

static void usage_alone(void *block, int64_t bytes, size_t allocated_bytes, size_t reserved_bytes, gw_c10_device device)
{
    gw_c10_usage_fn *next = __atomic_load_n(&gw_the_c10_door.next_usage, __ATOMIC_ACQUIRE);
    if (next == NULL) {
        resolve_for_call();
        next = __atomic_load_n(&gw_the_c10_door.next_usage, __ATOMIC_ACQUIRE);
    }
    if (next != NULL)
        next(block, bytes, allocated_bytes, reserved_bytes, device);
}

static void oom_alone(int64_t bytes, size_t allocated_bytes, size_t reserved_bytes, gw_c10_device device)
{
    gw_c10_oom_fn *next = __atomic_load_n(&gw_the_c10_door.next_oom, __ATOMIC_ACQUIRE);
    if (next == NULL) {
        resolve_for_call();
        next = __atomic_load_n(&gw_the_c10_door.next_oom, __ATOMIC_ACQUIRE);
    }
    if (next != NULL)
        next(bytes, allocated_bytes, reserved_bytes, device);
}

/* aligned to its size, so that it occupies a single cache line */
_Alignas(64) gw_c10_door gw_the_c10_door = {.version = GW_C10_DOOR_VERSION,
                                            .usage = usage_alone,
                                            .oom = oom_alone,
                                            .resolve = resolve,
                                            .usage_alone = usage_alone,
                                            .oom_alone = oom_alone};

/* These functions are compiled with -O2, so that their calls are tail calls. Otherwise a stack frame of ours would be
 * between PyTorch and the called function. */
void gwi_c10_usage(void *block, int64_t bytes, size_t allocated_bytes, size_t reserved_bytes, gw_c10_device device)
{
    gw_c10_usage_fn *to = __atomic_load_n(&the_door.usage, __ATOMIC_ACQUIRE);
    to(block, bytes, allocated_bytes, reserved_bytes, device);
}

void gwi_c10_oom(int64_t bytes, size_t allocated_bytes, size_t reserved_bytes, gw_c10_device device)
{
    gw_c10_oom_fn *to = __atomic_load_n(&the_door.oom, __ATOMIC_ACQUIRE);
    to(bytes, allocated_bytes, reserved_bytes, device);
}
