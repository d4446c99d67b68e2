/* Copies memory of a Python interpreter that another thread may free at any time.
 *
 * A system call costs as much as copying ten objects, so one process_vm_writev() from this process to itself copies all
 * requested pieces.
 * The pieces are the local side of the call, because each remote piece needs a slow lookup. The remote side is the
 * destination.
 * If a piece is not mapped, the copy ends there without a fault. */
#include "gwi_hook.h"
#include "gwi_python.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* Reads larger than LARGE_BYTES go directly to the caller; no object header is that large. A read that was not
 * requested also copies the next AHEAD_BYTES. */
enum { LARGE_BYTES = 256, AHEAD_BYTES = 256, PAGE_BYTES = 4096 };

static uintptr_t line_of(uintptr_t at)
{
    return at & ~(uintptr_t)(GWI_PYTHON_LINE_BYTES - 1);
}

/* Discard all copied lines. The next added line clears the hash table: most threads run no Python and never add one. */
static void forget(gwi_python_memory *memory)
{
    memory->line_count = memory->run_count = memory->copied_runs = memory->views = 0;
    for (unsigned i = 0; i < GWI_PYTHON_VIEWS; i++)
        memory->view[i].bytes = 0;
}

gwi_python_memory *gwi_python_memory_begin(gwi_python_memory *space, bool is_first_thread)
{
    if (is_first_thread)
        return NULL;
    space->failed = space->has_lock = false;
    space->pid = 0;
    forget(space);
    return space;
}

/* True if all reads were valid. Call this after the reads: the interpreter sets is_finalizing before it frees anything,
 * and has no main interpreter afterwards. */
bool gwi_python_memory_held(const gwi_python_memory *memory, const gwi_python_interpreter *py)
{
    return memory == NULL || (!memory->failed && !py->is_finalizing() && py->get_main_interpreter() != NULL);
}

/* Return the hash table's entry of a line, or a free entry for it. The table is twice as large as the number of
 * lines. */
static inline uint16_t *place_of(gwi_python_memory *memory, uintptr_t line)
{
    if (gwi_unlikely(memory->line_count == 0))
        memset(memory->place, 0, sizeof memory->place);
    uint32_t at = (uint32_t)((line / GWI_PYTHON_LINE_BYTES * UINT64_C(0x9E3779B97F4A7C15)) >> 32);
    for (;; at++) {
        uint16_t *place = &memory->place[at % GWI_PYTHON_PLACES];
        if (*place == 0 || memory->at[*place - 1] == line)
            return place;
    }
}

/* Copy the requested runs of lines one by one. Used if process_vm_writev() is forbidden. Returns false if a run is not
 * mapped. */
static GWI_COLD bool bring_one_by_one(gwi_python_memory *memory)
{
    for (uint32_t i = memory->copied_runs; i < memory->run_count; i++)
        if (!gwi_python_read((uintptr_t)memory->run[i].iov_base, memory->line[memory->run_line[i]],
                             memory->run[i].iov_len))
            return false;
    return true;
}

static void bring(gwi_python_memory *memory)
{
    uint32_t first = memory->copied_runs, first_line = memory->run_line[first];
    size_t bytes = (size_t)(memory->line_count - first_line) * GWI_PYTHON_LINE_BYTES;
    struct iovec to = {memory->line[first_line], bytes};
    if (memory->pid == 0)
        memory->pid = getpid();
    bool may = gwi_python_may_copy();
    ssize_t got = may ? process_vm_writev(memory->pid, memory->run + first, memory->run_count - first, &to, 1, 0) : -1;
    bool good = got == (ssize_t)bytes;
    if (!may)
        errno = EPERM;
    if (got < 0 && (errno == EPERM || errno == ENOSYS))
        good = bring_one_by_one(memory);
    memory->failed = memory->failed || !good;
    memory->copied_runs = memory->run_count;
}
_Static_assert(GWI_PYTHON_LINES <= 1024, "so many pieces the kernel takes at once");

static void want_line(gwi_python_memory *memory, uintptr_t line)
{
    uint16_t *place = place_of(memory, line);
    if (*place != 0)
        return;
    uint32_t number = memory->line_count, last = memory->run_count - 1;
    if (memory->run_count > memory->copied_runs &&
        (uintptr_t)memory->run[last].iov_base + memory->run[last].iov_len == line) {
        memory->run[last].iov_len += GWI_PYTHON_LINE_BYTES;
    } else {
        last = memory->run_count++;
        memory->run[last] = (struct iovec){(void *)line, GWI_PYTHON_LINE_BYTES};
        memory->run_line[last] = (uint16_t)number;
    }
    memory->at[number] = line;
    memory->run_of[number] = (uint16_t)last;
    *place = (uint16_t)(number + 1);
    memory->line_count = number + 1;
}

void gwi_python_want(gwi_python_memory *memory, uintptr_t at, size_t bytes)
{
    size_t lines_max = bytes / GWI_PYTHON_LINE_BYTES + 2;
    if (gwi_unlikely(memory->line_count + lines_max > GWI_PYTHON_LINES))
        forget(memory); /* lines that are still needed will be copied again */
    for (uintptr_t line = line_of(at); line < at + bytes; line += GWI_PYTHON_LINE_BYTES)
        want_line(memory, line);
}

void gwi_python_want_about(gwi_python_memory *memory, uintptr_t at, size_t bytes)
{
    size_t page = PAGE_BYTES - at % PAGE_BYTES;
    gwi_python_want(memory, at, bytes < page ? bytes : page);
}

/* Return the copy of a line, NULL if some requested memory was not mapped. The next lines of its page are mapped, too,
 * so an unrequested line is copied with them. */
static const uint8_t *choose_view(gwi_python_memory *memory, uintptr_t line)
{
    uint16_t number = *place_of(memory, line);
    if (gwi_unlikely(number == 0)) {
        gwi_python_want_about(memory, line, AHEAD_BYTES);
        number = *place_of(memory, line);
    }
    uint16_t run = memory->run_of[number - 1];
    if (run >= memory->copied_runs)
        bring(memory);
    if (memory->failed)
        return NULL;
    unsigned i = memory->views++ % GWI_PYTHON_VIEWS;
    memory->view[i].at = (uintptr_t)memory->run[run].iov_base;
    memory->view[i].bytes = memory->run[run].iov_len;
    memory->view[i].copy = memory->line[memory->run_line[run]];
    return memory->line[number - 1];
}

void gwi_python_copy(gwi_python_memory *memory, uintptr_t at, void *out, size_t bytes)
{
    uint8_t *to = out;
    if (bytes > LARGE_BYTES && !memory->failed) {
        memory->failed = !gwi_python_read(at, out, bytes);
        if (!memory->failed)
            return;
    }
    while (bytes > 0) {
        size_t offset = at % GWI_PYTHON_LINE_BYTES, part = GWI_PYTHON_LINE_BYTES - offset;
        const uint8_t *line = memory->failed ? NULL : choose_view(memory, at - offset);
        part = part < bytes ? part : bytes;
        if (line != NULL)
            memcpy(to, line + offset, part);
        else
            memset(to, 0, part);
        to += part;
        at += part;
        bytes -= part;
    }
}
