/* gpuwhy.h: mark the phases of a program for gpuwhy.
 *
 *     gpuwhy_phase("load checkpoint");
 *     ...
 *     gpuwhy_phase("validation");
 *     ...
 *     gpuwhy_phase(NULL);
 *
 * Each call starts a phase of the process, which lasts until the next call. NULL or "" ends the phase. The verdict then
 * reports the phase in which the program failed, and the phase that needed the most memory.
 *
 * This is a single header for C99 or C++, without dependencies (link with -ldl if the C library has dlopen() in a
 * separate library). Without gpuwhy, gpuwhy_phase() only reads one environment variable and returns 0.
 *
 * gpuwhy_phase() returns 1 if the phase was recorded. It returns 0 if gpuwhy is not recording, or if the process has
 * not called the driver yet. Any thread may call it, but a process has only one phase. A forked child has no phase
 * until it sets one. Names are UTF-8 and are cut after 200 bytes. Mark phases, not iterations: only the first 4,096
 * calls of a process are recorded. */
#ifndef GPUWHY_H
#define GPUWHY_H

#if defined(__linux__) && (defined(__GNUC__) || defined(__clang__))

#include <dlfcn.h>
#include <stdlib.h>

#ifndef RTLD_NOLOAD /* some C libraries define it only with _GNU_SOURCE; the value is part of the Linux ABI */
#define RTLD_NOLOAD 4
#endif

static __inline__ int gpuwhy_phase(const char *name)
{
    typedef int (*gpuwhy_mark_function)(const char *);
    gpuwhy_mark_function mark;
    static void *gpuwhy_found; /* the hook's function; NULL: not found yet. All threads store the same value */
    void *found = __atomic_load_n(&gpuwhy_found, __ATOMIC_RELAXED);
    if (found == 0) {
        void *hook = 0;
        if (getenv("GPUWHY_RUN_DIR") != 0)
            hook = dlopen("libgpuwhy-hook.so", RTLD_LAZY | RTLD_NOLOAD); /* NULL if the hook is not loaded yet */
        if (hook == 0)
            return 0;
        found = dlsym(hook, "gpuwhy_phase_mark");
        if (found == 0)
            return 0;
        __atomic_store_n(&gpuwhy_found, found, __ATOMIC_RELAXED);
    }
    __builtin_memcpy(&mark, &found, sizeof mark);
    return mark(name);
}

#else

static int gpuwhy_phase(const char *name)
{
    (void)name;
    return 0;
}

#endif

#endif
