/* gpuwhy.h: tell gpuwhy what the program is doing.
 *
 *     gpuwhy_phase("load checkpoint");
 *     ...
 *     gpuwhy_phase("validation");
 *     ...
 *     gpuwhy_phase(NULL);
 *
 * From each call on the process is in that phase, until the next one; NULL or "": in none. A verdict then says in which
 * phase a failure came, and which phase needs most memory.
 *
 * One header, C99 or C++, no dependency (where the C library keeps dlopen in a library of its own: -ldl). Without
 * gpuwhy it does nothing: it looks at one environment variable and returns. It returns 1 where the mark was recorded, 0
 * where it was not: gpuwhy does not run, records nothing, or the process has not called the driver yet. Any thread. A
 * process has one phase at a time, whichever of its threads names it; its forked children have none until they name
 * one. Names are UTF-8; what is beyond 200 bytes is cut off. Meant for phases, not for iterations: after 4,096 marks of
 * a process no more are recorded. */
#ifndef GPUWHY_H
#define GPUWHY_H

#if defined(__linux__) && (defined(__GNUC__) || defined(__clang__))

#include <dlfcn.h>
#include <stdlib.h>

#ifndef RTLD_NOLOAD /* hidden without _GNU_SOURCE by some C libraries; part of Linux's ABI */
#define RTLD_NOLOAD 4
#endif

static __inline__ int gpuwhy_phase(const char *name)
{
    typedef int (*gpuwhy_mark_function)(const char *);
    gpuwhy_mark_function mark;
    static void *gpuwhy_found; /* the same for every thread that writes it */
    void *found = __atomic_load_n(&gpuwhy_found, __ATOMIC_RELAXED);
    if (found == 0) {
        void *hook = 0;
        if (getenv("GPUWHY_RUN_DIR") != 0)
            hook = dlopen("libgpuwhy-hook.so", RTLD_LAZY | RTLD_NOLOAD); /* only if it is there already */
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
