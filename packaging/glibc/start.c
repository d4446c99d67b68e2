/* Before glibc 2.34, a program brought the function that calls its constructors, and gave it to __libc_start_main. The
 * start files of newer releases give none. This gives one again (the linker option --wrap=__libc_start_main). Newer
 * releases call it, too: to them it looks like an older program. */
#include <stddef.h>

typedef void constructor(int argc, char **argv, char **envp);

/* Made by the linker. */
extern constructor *const __init_array_start[] __attribute__((visibility("hidden")));
extern constructor *const __init_array_end[] __attribute__((visibility("hidden")));
extern void _init(void);

int __real___libc_start_main(int (*main)(int, char **, char **), int argc, char **argv, constructor *construct,
                             void (*destruct)(void), void (*loader_end)(void), void *stack_end);
int __wrap___libc_start_main(int (*main)(int, char **, char **), int argc, char **argv, constructor *construct,
                             void (*destruct)(void), void (*loader_end)(void), void *stack_end);

static void call_constructors(int argc, char **argv, char **envp)
{
    _init();
    for (constructor *const *it = __init_array_start; it < __init_array_end; it++)
        (*it)(argc, argv, envp);
}

int __wrap___libc_start_main(int (*main)(int, char **, char **), int argc, char **argv, constructor *construct,
                             void (*destruct)(void), void (*loader_end)(void), void *stack_end)
{
    return __real___libc_start_main(main, argc, argv, construct != NULL ? construct : call_constructors, destruct,
                                    loader_end, stack_end);
}
