/* Unwinds native stacks of another process with elfutils, from copies of its threads' registers and stacks (hold.c). */
#define _GNU_SOURCE
#include "gwi_stacks.h"

#include "gw_array.h"

#include <elfutils/libdwfl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Do not search for separate debug files: the search could contact servers on the network. */
static int no_debug_files(Dwfl_Module *module, void **user, const char *name, Dwarf_Addr base, const char *file,
                          const char *link, GElf_Word crc, char **ret_file)
{
    (void)module, (void)user, (void)name, (void)base, (void)file, (void)link, (void)crc, (void)ret_file;
    return -1;
}

static const Dwfl_Callbacks callbacks = {.find_elf = dwfl_linux_proc_find_elf, .find_debuginfo = no_debug_files};

/* Add the file that a module was loaded from to the process's mappings. */
static void take_module(Dwfl_Module *module, gw_stack_process *process)
{
    enum { MODULES_MAX = 4096 };
    Dwarf_Addr start, end, bias, id_address;
    const unsigned char *id;
    const char *path = dwfl_module_info(module, NULL, &start, &end, NULL, NULL, NULL, NULL);
    size_t count = process->mapping_count;
    for (size_t i = 0; i < count; i++)
        if (process->mapping[i].start == start)
            return;
    if (path == NULL || count == MODULES_MAX || dwfl_module_getelf(module, &bias) == NULL)
        return; /* without its symbols, addresses in this module get no names */
    char *copy = gw_array_more(&process->mapping, count, sizeof *process->mapping) ? strdup(path) : NULL;
    if (copy == NULL)
        return;
    gw_stack_mapping *mapping = &process->mapping[count];
    *mapping = (gw_stack_mapping){.start = start, .bytes = end - start, .bias = bias, .path = copy};
    int bytes = dwfl_module_build_id(module, &id, &id_address);
    if (bytes > 0)
        memcpy(&mapping->build_id, id, (size_t)bytes < sizeof(uint64_t) ? (size_t)bytes : sizeof(uint64_t));
    process->mapping_count++;
}

typedef struct walking {
    gw_stack_process *process;
    gw_stack_thread *thread;
} walking;

static int take_frame(Dwfl_Frame *frame, void *user)
{
    const walking *it = user;
    Dwarf_Addr pc;
    bool is_activation;
    if (it->thread->frame_count == GW_SITE_NATIVE_MAX) {
        it->thread->flags |= GW_SITE_NATIVE_CUT;
        return DWARF_CB_ABORT;
    }
    if (!dwfl_frame_pc(frame, &pc, &is_activation))
        return DWARF_CB_ABORT;
    /* as in gw_site.h: the byte before `address` belongs to the instruction that ran */
    uint64_t address = is_activation ? pc + 1 : pc;
    Dwfl_Module *module = dwfl_addrmodule(dwfl_thread_dwfl(dwfl_frame_thread(frame)), address - 1);
    if (module != NULL)
        take_module(module, it->process);
    it->thread->frame[it->thread->frame_count++] = address & ~(GW_FRAME_PYTHON | GW_FRAME_ENTRY);
    return DWARF_CB_OK;
}

/* ---- elfutils reads from the copy ---- */

static pid_t next_thread(Dwfl *dwfl, void *user, void **ret_thread)
{
    (void)dwfl, (void)user, (void)ret_thread;
    return 0; /* threads are only read by their ids */
}

static bool get_thread(Dwfl *dwfl, pid_t tid, void *user, void **ret_thread)
{
    (void)dwfl, (void)tid;
    *ret_thread = user;
    return true;
}

static bool read_copy(Dwfl *dwfl, Dwarf_Addr at, Dwarf_Word *ret_word, void *user)
{
    (void)dwfl;
    const gwi_stack_copy *copy = user;
    if (at < copy->start || copy->bytes < sizeof *ret_word || at - copy->start > copy->bytes - sizeof *ret_word)
        return false;
    memcpy(ret_word, (const char *)copy->stack + (at - copy->start), sizeof *ret_word);
    return true;
}

/* Set the registers that are known, by their DWARF numbers. If a sleeping thread was not stopped, these are only the
 * stack pointer and the instruction. */
static bool set_registers(Dwfl_Thread *thread, void *user)
{
    const gwi_stack_copy *copy = user;
#if defined(__x86_64__)
    enum { STACK_POINTER = 7, INSTRUCTION = 16 };
    if (!copy->is_whole)
        return dwfl_thread_state_registers(thread, STACK_POINTER, 1, &copy->start) &&
               dwfl_thread_state_registers(thread, INSTRUCTION, 1, &copy->pc);
#else
    enum { STACK_POINTER = 31 };
    dwfl_thread_state_register_pc(thread, copy->pc);
    if (!copy->is_whole)
        return dwfl_thread_state_registers(thread, STACK_POINTER, 1, &copy->start);
#endif
    return dwfl_thread_state_registers(thread, 0, GWI_REGISTERS, copy->value);
}

static const Dwfl_Thread_Callbacks from_copy = {.next_thread = next_thread,
                                                .get_thread = get_thread,
                                                .memory_read = read_copy,
                                                .set_initial_registers = set_registers};

/* ---- threads ---- */

typedef struct walker {
    uint32_t pid;
    gw_stack_process *process;
    gwi_python *python;
    Dwfl *dwfl; /* NULL: native stacks cannot be read */
    gwi_stack_copy *copy;
} walker;

static void unwind(const walker *it, gw_stack_thread *thread)
{
    walking to = {it->process, thread};
    if (it->dwfl == NULL || dwfl_getthread_frames(it->dwfl, (pid_t)thread->tid, take_frame, &to) >= 0)
        return;
    thread->flags |= GW_SITE_NATIVE_LOST;
    if (thread->frame_count == 0)
        snprintf(it->process->no_stacks, sizeof it->process->no_stacks, "tid %u: %s", thread->tid, dwfl_errmsg(-1));
}

/* Put the native frames, which were found last, before the Python frames. */
static void native_first(gw_stack_thread *thread, size_t python_count)
{
    uint64_t python[GW_SITE_FRAMES_MAX];
    size_t native_count = thread->frame_count - python_count;
    memcpy(python, thread->frame, python_count * sizeof python[0]);
    memmove(thread->frame, thread->frame + python_count, native_count * sizeof python[0]);
    memcpy(thread->frame + native_count, python, python_count * sizeof python[0]);
}

/* Copy the stack of a thread that sleeps, and read its Python frames. Returns false if the thread ran meanwhile. */
static bool copy_asleep(const walker *it, gw_stack_thread *thread)
{
    gwi_asleep before, after;
    bool asleep = gwi_asleep_read(it->pid, thread, &before) && gwi_copy_asleep(it->pid, thread->tid, it->copy);
    gwi_stacks_unheld(it->pid, it->process, thread, it->python);
    return asleep && gwi_asleep_read(it->pid, thread, &after) && strcmp(before.text, after.text) == 0;
}

/* Read the stack of a thread that sleeps. It counts only if the thread did not run meanwhile; one that polls is looked
 * at several times. Functions that use the frame pointer end the walk early, because no other register is known. */
static void walk_asleep(const walker *it, gw_stack_thread *thread)
{
    enum { LOOKS_MAX = 5 };
    const struct timespec pause_time = {.tv_nsec = 1000000};
    char no_python[sizeof it->process->no_python];
    unsigned flags = thread->flags;
    memcpy(no_python, it->process->no_python, sizeof no_python);
    bool asleep = copy_asleep(it, thread);
    for (int i = 1; i < LOOKS_MAX && !asleep && thread->frame_count == 0 && thread->state == 'S'; i++) {
        nanosleep(&pause_time, NULL);
        memcpy(it->process->no_python, no_python, sizeof no_python); /* why the look before gave nothing */
        thread->flags = flags;
        asleep = copy_asleep(it, thread);
    }
    size_t python_count = thread->frame_count;
    if (asleep) {
        unwind(it, thread);
        native_first(thread, python_count);
    } else if (thread->state != 'Z') {
        snprintf(it->process->no_stacks, sizeof it->process->no_stacks,
                 "threads whose system call would be interrupted by a stop (such as tid %u) were skipped", thread->tid);
    }
}

/* Read the frames of one thread. If the thread may be stopped, stop it while its registers, its stack and its Python
 * frames are copied. All else is read before and after the stop. */
static void walk_thread(const walker *it, gw_stack_thread *thread)
{
    gwi_held held;
    gwi_python_stack python;
    gw_stack_process *process = it->process;
    if (!gwi_may_be_stopped(thread)) {
        walk_asleep(it, thread);
        return;
    }
    errno = 0;
    if (!gwi_hold(&held, thread->tid)) {
        snprintf(process->no_stacks, sizeof process->no_stacks, "tid %u cannot be stopped: %s", thread->tid,
                 errno == EPERM ? "no permission to trace it" : strerror(errno));
        gwi_stacks_unheld(it->pid, process, thread, it->python);
        return;
    }
    bool copied = gwi_copy_held(it->pid, &held, it->copy);
    gwi_python_copy(it->python, gwi_inner_tid(thread), &python);
    uint64_t stop_ns = gwi_let_go(&held);
    gwi_python_decode(it->python, &python, process, thread);
    process->stops++;
    process->stop_ns_max = stop_ns > process->stop_ns_max ? stop_ns : process->stop_ns_max;
    size_t python_count = thread->frame_count;
    if (copied)
        unwind(it, thread);
    else
        thread->flags |= GW_SITE_NATIVE_LOST;
    native_first(thread, python_count);
}

void gwi_stacks_walk(uint32_t pid, gw_stack_process *process, gwi_python *python)
{
    walker it = {pid, process, python, NULL, calloc(1, sizeof *it.copy)};
    Dwfl *dwfl = dwfl_begin(&callbacks);
    bool attached = it.copy != NULL && dwfl != NULL && dwfl_linux_proc_report(dwfl, (pid_t)pid) == 0 &&
                    dwfl_report_end(dwfl, NULL, NULL) == 0 &&
                    dwfl_attach_state(dwfl, NULL, (pid_t)pid, &from_copy, it.copy);
    if (!attached)
        snprintf(process->no_stacks, sizeof process->no_stacks, "pid %u: %s", pid, dwfl_errmsg(-1));
    it.dwfl = attached ? dwfl : NULL;
    for (size_t i = 0; it.copy != NULL && i < process->thread_count; i++)
        walk_thread(&it, &process->thread[i]);
    dwfl_end(dwfl);
    free(it.copy);
}
