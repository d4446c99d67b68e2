/* The library libgpuwhy-stderr.so and the memory that it shares with the supervisor. It is preloaded only if our stderr
 * is a terminal.
 *
 * The program keeps the terminal itself, so what it sees there, and the order of its output, are as without gpuwhy. The
 * library defines the C library's functions that write to stderr: each calls the next library's function, and copies
 * the text into a ring. Text that a program writes without these functions (system calls, a static program, the C
 * library's own messages, a shell's `echo >&2`, which writes to a copy of the descriptor) is not copied.
 *
 * The ring is a file in the run folder. GW_STDERR_VARIABLE has its path. Only processes of the same user can open it.
 * The library opens it when a process starts, and makes no other system call, except to look at descriptor 2 again
 * after the process has replaced it. Without the file, it copies nothing. */
#ifndef GW_STDERR_DOOR_H
#define GW_STDERR_DOOR_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define GW_STDERR_DOOR_FILE "libgpuwhy-stderr.so"
#define GW_STDERR_VARIABLE  "GPUWHY_STDERR"

enum { GW_STDERR_BYTES_MAX = 256 << 10 };

/* The last bytes of a text. Any thread of any process may append to it: it adds to `total`, stores its bytes from there
 * on, and then adds to `stored`. So while the two differ, some of the bytes are not there yet; if a process is killed
 * in between, they differ for ever. */
typedef struct gw_stderr_ring {
    uint64_t terminal;      /* st_rdev of the terminal; 0: not used by the library */
    _Atomic uint64_t total; /* number of bytes so far; the next byte is stored in bytes[total % sizeof bytes] */
    _Atomic uint64_t stored;
    char bytes[GW_STDERR_BYTES_MAX];
} gw_stderr_ring;

/* Append `count` bytes: all, or the last quarter of the ring's size, so that two processes hardly ever write to the
 * same bytes. Async-signal-safe. */
static inline void gw_stderr_ring_add(gw_stderr_ring *ring, const char *bytes, size_t count)
{
    enum { COUNT_MAX = GW_STDERR_BYTES_MAX / 4 };
    if (count > COUNT_MAX) {
        bytes += count - COUNT_MAX;
        count = COUNT_MAX;
    }
    uint64_t total = atomic_fetch_add_explicit(&ring->total, count, memory_order_relaxed);
    size_t at = (size_t)(total % sizeof ring->bytes), first = sizeof ring->bytes - at;
    memcpy(ring->bytes + at, bytes, count < first ? count : first);
    if (count > first)
        memcpy(ring->bytes, bytes + first, count - first);
    atomic_fetch_add_explicit(&ring->stored, count, memory_order_release);
}

#endif
