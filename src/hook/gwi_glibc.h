/* The hook must load into programs with C libraries back to glibc 2.17. What newer ones have moved to newer symbol
 * versions is asked for by its old one. CMake includes it before every file of the hook. */
#ifndef GWI_GLIBC_H
#define GWI_GLIBC_H

#include <features.h>

#ifdef __GLIBC__
#if defined(__x86_64__)
#define GWI_GLIBC_BASE "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define GWI_GLIBC_BASE "GLIBC_2.17"
#endif
#endif

#ifdef GWI_GLIBC_BASE
#define GWI_OLD_SYMBOL(name) __asm__(".symver " #name "," #name "@" GWI_GLIBC_BASE)
GWI_OLD_SYMBOL(dlopen);
GWI_OLD_SYMBOL(dlsym);
GWI_OLD_SYMBOL(dlclose);
GWI_OLD_SYMBOL(dladdr);
GWI_OLD_SYMBOL(pthread_key_create);
GWI_OLD_SYMBOL(pthread_setspecific);
/* Headers from 2.38 on lead number parsing to names of their own; the old ones do the same for what we parse. */
__asm__(".symver __isoc23_strtol,strtol@" GWI_GLIBC_BASE);
__asm__(".symver __isoc23_strtoul,strtoul@" GWI_GLIBC_BASE);
__asm__(".symver __isoc23_strtoll,strtoll@" GWI_GLIBC_BASE);
__asm__(".symver __isoc23_strtoull,strtoull@" GWI_GLIBC_BASE);
#endif

#endif
