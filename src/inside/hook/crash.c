/* --catch-crash: record the address and the stack of a thread that gets a fault signal.
 *
 * The handler is installed at the first call into the hook, and removes itself at the first fault: it restores the
 * previous handler, and the faulting instruction runs again. So the program's own handler, or the default action, gets
 * the same signal, the same address and the same core dump as without gpuwhy. A handler that the program installs
 * later replaces ours. The handler does not allocate, lock or call the driver. */
#include "gwi_hook.h"
#include "gwi_site.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
enum { SIGNAL_COUNT = sizeof signals / sizeof signals[0] };

static struct sigaction before[SIGNAL_COUNT];
static _Atomic int state; /* 0: no crash yet; 1: being written; 2: written */

/* Start of the hook's own code, and one byte past its end. The linker defines both symbols. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char etext[] __attribute__((visibility("hidden")));

static uintptr_t instruction_of(const void *context)
{
    const ucontext_t *registers = context;
#if defined(__x86_64__)
    return (uintptr_t)registers->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    return (uintptr_t)registers->uc_mcontext.pc;
#else
    (void)registers;
    return 0;
#endif
}

/* True if it is safe to write a record. It is not safe:
 * - in a child that has not called the driver yet or shares its parent's memory: the buffer is another process's;
 * - after a fault in the hook or the buffer's memory, which may have interrupted the writing of a record. */
static bool may_write(uintptr_t instruction, uintptr_t address)
{
    uintptr_t buffer = (uintptr_t)gwi.head;
    bool is_inside = instruction >= (uintptr_t)__ehdr_start && instruction < (uintptr_t)etext;
    bool is_buffers = address >= buffer && address - buffer < GW_BUFFER_BYTES;
    return atomic_load(&gwi_wipe.mark) != 0 && gwi.head != NULL && (pid_t)gwi.head->pid == getpid() && !is_inside &&
           !is_buffers;
}

/* Write the crash without the stack first, and then again with the stack if it could be read. */
static void write_crash(int signal, const siginfo_t *info, const void *context)
{
    uintptr_t instruction = instruction_of(context);
    bool by_fault = info->si_code > 0; /* false: the signal was sent, for example by kill() */
    uintptr_t address = by_fault ? (uintptr_t)info->si_addr : 0;
    if (!may_write(instruction, address))
        return;
    gw_slot *slot = gwi_slot_usable();
    if (slot == NULL || !gwi_slot_is_shared(slot))
        return;
    uint64_t ticks = gwi_ticks(), code = (uint64_t)(int64_t)info->si_code;
    gwi_slot_facts_begin(slot, ticks, true);
    gwi_fact(GW_EV_CRASH, (uint64_t)signal, address, code, instruction, NULL);
    gwi_slot_facts_end(slot);
    uint32_t site = gwi_site(slot, 0, ticks, true);
    gwi_slot_facts_begin(slot, ticks, true);
    if (site != 0)
        gwi_fact_at(GW_EV_CRASH, site, (uint64_t)signal, address, code, instruction);
    gwi_slot_facts_end(slot);
}

static void on_crash(int signal, siginfo_t *info, void *context)
{
    enum { PATIENCE_MS = 100 };
    int saved_errno = errno, none = 0;
    if (atomic_compare_exchange_strong(&state, &none, 1)) {
        write_crash(signal, info, context);
        atomic_store(&state, 2);
    }
    for (int ms = 0; ms < PATIENCE_MS && atomic_load(&state) == 1; ms++) /* another thread is writing the crash */
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    for (int i = 0; i < SIGNAL_COUNT; i++)
        if (signals[i] == signal)
            sigaction(signal, &before[i], NULL);
    if (info->si_code <= 0) /* sent by kill(), not raised by a fault: send it again */
        syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), signal, info);
    errno = saved_errno;
}

void gwi_crash_watch(void)
{
    static _Atomic bool begun;
    const char *wanted = getenv("GPUWHY_CATCH_CRASH");
    if (wanted == NULL || strcmp(wanted, "1") != 0 || gwi.inert || atomic_exchange(&begun, true))
        return;
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
    action.sa_sigaction = on_crash;
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < SIGNAL_COUNT; i++)
        if (sigaction(signals[i], NULL, &before[i]) == 0)
            sigaction(signals[i], &action, NULL);
}
