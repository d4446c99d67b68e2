/* Selects old versions of C library symbols, because the hook and the virtual GPU must work in other programs with
 * glibc 2.17 and later. CMake includes this header before every file of both libraries.
 * They link to libdl.so.2 and libpthread.so.0 explicitly: these were separate libraries before 2.34. */
#ifndef GW_GLIBC_H
#define GW_GLIBC_H

/* Detect glibc by whether this header exists. Include no C library header here: the source file has not defined its
 * feature macros yet. */
#if defined(__linux__) && defined(__has_include)
#if __has_include(<gnu/libc-version.h>)
/* The symbol version of the first glibc release for this architecture, and the versions in which some functions were
 * added later. */
#if defined(__x86_64__)
#define GW_GLIBC_BASE           "GLIBC_2.2.5"
#define GW_GLIBC_CONDATTR_CLOCK "GLIBC_2.3.3"
#define GW_GLIBC_ROBUST         "GLIBC_2.12"
#elif defined(__aarch64__)
#define GW_GLIBC_BASE           "GLIBC_2.17"
#define GW_GLIBC_CONDATTR_CLOCK "GLIBC_2.17"
#define GW_GLIBC_ROBUST         "GLIBC_2.17"
#endif
#endif
#endif

#ifdef GW_GLIBC_BASE
#define GW_OLD_SYMBOL(name, version) __asm__(".symver " #name "," #name "@" version)
GW_OLD_SYMBOL(dlopen, GW_GLIBC_BASE);
GW_OLD_SYMBOL(dlsym, GW_GLIBC_BASE);
GW_OLD_SYMBOL(dlclose, GW_GLIBC_BASE);
GW_OLD_SYMBOL(dlerror, GW_GLIBC_BASE);
GW_OLD_SYMBOL(dladdr, GW_GLIBC_BASE);
GW_OLD_SYMBOL(pthread_create, GW_GLIBC_BASE);
GW_OLD_SYMBOL(pthread_detach, GW_GLIBC_BASE);
GW_OLD_SYMBOL(pthread_join, GW_GLIBC_BASE);
GW_OLD_SYMBOL(pthread_once, GW_GLIBC_BASE);
GW_OLD_SYMBOL(pthread_key_create, GW_GLIBC_BASE);
GW_OLD_SYMBOL(pthread_setspecific, GW_GLIBC_BASE);
GW_OLD_SYMBOL(pthread_sigmask, GW_GLIBC_BASE);
GW_OLD_SYMBOL(pthread_condattr_setclock, GW_GLIBC_CONDATTR_CLOCK);
GW_OLD_SYMBOL(pthread_mutexattr_init, GW_GLIBC_BASE);
GW_OLD_SYMBOL(pthread_mutexattr_destroy, GW_GLIBC_BASE);
GW_OLD_SYMBOL(pthread_mutexattr_setpshared, GW_GLIBC_BASE);
GW_OLD_SYMBOL(pthread_mutexattr_setrobust, GW_GLIBC_ROBUST);
GW_OLD_SYMBOL(pthread_mutex_consistent, GW_GLIBC_ROBUST);
/* Use the old strtol() functions. Headers since glibc 2.38 redirect to new ones, which also accept binary numbers
 * (0b1). */
__asm__(".symver __isoc23_strtol,strtol@" GW_GLIBC_BASE);
__asm__(".symver __isoc23_strtoul,strtoul@" GW_GLIBC_BASE);
__asm__(".symver __isoc23_strtoll,strtoll@" GW_GLIBC_BASE);
__asm__(".symver __isoc23_strtoull,strtoull@" GW_GLIBC_BASE);
#endif

#endif
