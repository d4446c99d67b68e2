/* prctl() for programs that are started with our preloaded libraries (gw_quiet_door.h). */
#include "gw_c10_door.h"
#include "gw_quiet_door.h"

#include <linux/seccomp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

gw_quiet_door gw_the_quiet_door;

/* only in libgpuwhy-c10.so */
extern gw_c10_door gw_the_c10_door __attribute__((weak, visibility("default")));

static void begin_quiet(const char *what)
{
    if (&gw_the_c10_door != NULL) { /* the hook's functions read the clock */
        __atomic_store_n(&gw_the_c10_door.usage, gw_the_c10_door.usage_alone, __ATOMIC_RELEASE);
        __atomic_store_n(&gw_the_c10_door.oom, gw_the_c10_door.oom_alone, __ATOMIC_RELEASE);
    }
    void (*begin)(const char *) = gw_the_quiet_door.begin;
    if (begin != NULL)
        begin(what);
    gw_the_quiet_door.is_quiet = 1;
}

__attribute__((visibility("default"))) int prctl(int option, ...)
{
    unsigned long argument[4];
    va_list arguments;
    va_start(arguments, option);
    for (size_t i = 0; i < sizeof argument / sizeof argument[0]; i++)
        argument[i] = va_arg(arguments, unsigned long);
    va_end(arguments);
    if (option == PR_SET_TSC && argument[0] == PR_TSC_SIGSEGV)
        begin_quiet("reading the time stamp counter (prctl PR_SET_TSC)");
    if (option == PR_SET_SECCOMP && argument[0] == SECCOMP_MODE_STRICT)
        begin_quiet("nearly all system calls (prctl PR_SET_SECCOMP, strict mode)");
    return (int)syscall(SYS_prctl, option, argument[0], argument[1], argument[2], argument[3]);
}
