/* Takes away what gpuwhy needs: the clock, system calls, descriptors, address space, rights or files, or locks its
 * memory. It prints what still works, and ends with 7. It uses no code of the other scenarios, because they allocate
 * and open files. */
#include "gw_cuda_calls.h"

#include <linux/seccomp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The virtual card reads the clock, too, so without the clock only its version is read. */
static bool start(bool has_clock)
{
    CUdevice device;
    CUcontext context;
    int version;
    if (!has_clock)
        return cuDriverGetVersion(&version) == 0;
    return cuInit(0) == 0 && cuDeviceGet(&device, 0) == 0 && cuCtxCreate(&context, 0, device) == 0;
}

static void limit(int resource, rlim_t value)
{
    struct rlimit both = {value, value};
    if (setrlimit((__rlimit_resource_t)resource, &both) != 0)
        perror("setrlimit");
}

static rlim_t address_space(void)
{
    char text[200] = "";
    FILE *file = fopen("/proc/self/statm", "r");
    if (file != NULL && fgets(text, sizeof text, file) != NULL)
        fclose(file);
    return (rlim_t)atol(text) * (rlim_t)sysconf(_SC_PAGESIZE);
}

static void say(const char *words)
{
    ssize_t ignored = write(STDOUT_FILENO, words, strlen(words)); /* stdio would make other system calls */
    (void)ignored;
}

/* Print how much memory the process has had at once. */
static void say_resident(void)
{
    struct rusage used;
    char text[64];
    getrusage(RUSAGE_SELF, &used);
    snprintf(text, sizeof text, "%ld KiB resident\n", used.ru_maxrss);
    say(text);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    CUdeviceptr block;
    bool has_clock = strcmp(what, "clock-first") != 0;
    if (!has_clock)
        prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
    if (strcmp(what, "descriptors") == 0)
        limit(RLIMIT_NOFILE, 3);
    if (strcmp(what, "address-space") == 0)
        limit(RLIMIT_AS, address_space() + (64 << 20));
    if (strcmp(what, "lock") == 0) {
        limit(RLIMIT_AS, (rlim_t)6 << 30); /* so that a mistake does not fill this machine */
        if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0)
            return 1;
    }
    if (strcmp(what, "user") == 0 && setuid(65534) != 0)
        return 1;
    if (strcmp(what, "root") == 0 && chroot(".") != 0)
        return 1;
    say(start(has_clock) ? "started\n" : "not started\n");
    if (strcmp(what, "clock") == 0)
        prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
    if (strcmp(what, "calls") == 0)
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
    for (int i = 0; has_clock && i < 20; i++)
        if (cuMemAlloc(&block, 1 << 20) != 0)
            say("refused\n");
    if (strcmp(what, "address-space") == 0)
        say(malloc(50 << 20) != NULL ? "50 MiB\n" : "no 50 MiB\n");
    if (strcmp(what, "lock") == 0)
        say_resident();
    say("alive\n");
    return (int)syscall(SYS_exit, 7); /* the only way to end that strict seccomp allows */
}
