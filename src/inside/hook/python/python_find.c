/* Finds Python interpreters among the mapped files: in the program's own file, or in a library, even without global
 * names.
 *
 * The mappings and symbol tables are read as data. The loader's functions take the loader's lock. Another thread may
 * hold this lock while it waits for a lock of the hook's caller. */
#include "gw_hash.h"
#include "gw_image.h"
#include "gw_python_versions.h"
#include "gwi_hook.h"
#include "gwi_python.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

gwi_python_interpreter gwi_python_interpreter_list[GWI_PYTHON_INTERPRETERS_MAX];
_Atomic uint32_t gwi_python_interpreter_count;

/* ---- memory that may be unmapped ---- */

/* Open a file for reading, with raw system calls. The C library's wrappers are cancellation points: the program could
 * end this thread there. */
static int open_plainly(const char *path)
{
    return (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
}

bool gwi_python_may_copy(void)
{
    static const uint64_t look_every_ns = 50000000;
    static _Atomic uint64_t looked_at_ns;
    static _Atomic bool may;
    uint64_t now = gw_monotonic_ns();
    if (looked_at_ns == 0 || now - looked_at_ns > look_every_ns) {
        may = !gwi_calls_are_filtered();
        looked_at_ns = now;
    }
    return may;
}

bool gwi_python_read(uintptr_t at, void *out, size_t bytes)
{
    struct iovec to = {out, bytes}, from = {(void *)at, bytes};
    ssize_t got = -1;
    if (gwi_python_may_copy()) {
        got = process_vm_readv(getpid(), &to, 1, &from, 1, 0);
        if (got >= 0 || (errno != EPERM && errno != ENOSYS))
            return got == (ssize_t)bytes;
    }
    int fd = open_plainly("/proc/self/mem"); /* process_vm_readv is forbidden, as in some containers */
    if (fd < 0)
        return false;
    got = syscall(SYS_pread64, fd, out, bytes, at);
    syscall(SYS_close, fd);
    return got == (ssize_t)bytes;
}

/* ---- a mapped file's symbols ---- */

enum { NAME_MAX_BYTES = 256 };

static bool read_own(void *user, uint64_t at, void *out, size_t bytes)
{
    (void)user;
    return gwi_python_read(at, out, bytes);
}

static bool open_image(uintptr_t base, gw_image *file)
{
    static gw_image_room room; /* static because the stack may be small; only one thread at a time uses it */
    return gw_image_open(file, read_own, NULL, base, &room);
}

static bool find_symbol(const gw_image *file, const char *name, uintptr_t *ret_address)
{
    uint64_t address;
    if (!gw_image_find(file, name, &address))
        return false;
    *ret_address = (uintptr_t)address;
    return true;
}

/* ---- an interpreter ---- */

/* Return the version of Python, for example 0x030B for 3.11, or 0 if it is not available. *ret_hex is Py_Version, or 0
 * before 3.11, which does not publish it. */
static unsigned version_of(const gw_image *file, unsigned long *ret_hex)
{
    uintptr_t at;
    unsigned long hex = 0;
    *ret_hex = 0;
    if (find_symbol(file, "Py_Version", &at) && gwi_python_read(at, &hex, sizeof hex)) {
        *ret_hex = hex;
        return (unsigned)(hex >> 16);
    }
    if (!find_symbol(file, "Py_GetVersion", &at)) /* Python before 3.11 */
        return 0;
    const char *(*get)(void);
    memcpy(&get, &at, sizeof get);
    char *rest;
    unsigned long major = strtoul(get(), &rest, 10);
    unsigned long minor = *rest == '.' ? strtoul(rest + 1, NULL, 10) : 0;
    return major == 3 && minor < 0x100 ? (unsigned)(major << 8 | minor) : 0;
}

/* True if objects of this type have the size that the layout expects. If not, this build of Python uses different
 * structures. */
static bool type_fits(const gw_image *file, const char *name, uint16_t bytes)
{
    uintptr_t at;
    uint64_t size;
    enum { TYPE_OBJECT_BYTES = 32 };
    return find_symbol(file, name, &at) && gwi_python_read(at + TYPE_OBJECT_BYTES, &size, sizeof size) && size == bytes;
}

static bool read_layout(const gw_image *file, uintptr_t runtime, gw_python_layout *layout, int *ret_row)
{
    unsigned long hex;
    uint64_t published[GW_PYTHON_PUBLISHED_WORDS];
    unsigned version = version_of(file, &hex);
    const gw_python_layout *row = gw_python_layout_of(version);
    if (row == NULL || !type_fits(file, "PyCode_Type", row->code_bytes) ||
        !type_fits(file, "PyFrame_Type", row->frame_bytes) || !type_fits(file, "PyUnicode_Type", row->unicode_bytes))
        return false;
    *layout = *row;
    if (version >= GW_PYTHON_PUBLISHED_SINCE &&
        (!gwi_python_read(runtime, published, sizeof published) || !gw_python_layout_publish(layout, published, hex)))
        return false;
    *ret_row = memcmp(layout, row, sizeof *row) == 0 ? (int)(row - gw_python_rows) : -1;
    return true;
}

static bool function_of(const gw_image *file, const char *name,
                        void *function) /* `function` points to a function pointer of any type */
{
    uintptr_t at;
    if (!find_symbol(file, name, &at))
        return false;
    memcpy(function, &at, sizeof at);
    return true;
}

/* True if the file stays loaded until the program ends, because it is the program itself or one of its direct
 * dependencies. */
static bool stays(const gw_image *file)
{
    gw_image program;
    char name[NAME_MAX_BYTES] = "";
    uintptr_t headers = (uintptr_t)getauxval(AT_PHDR);
    if (headers >= file->base && headers < file->end)
        return true;
    if (headers == 0 || file->so_name == 0 || !open_image(headers & ~(uintptr_t)4095, &program))
        return false;
    for (size_t i = 0; i < sizeof name - 1; i++) {
        if (!gwi_python_read(file->strings + file->so_name + i, &name[i], 1))
            return false;
        if (name[i] == '\0')
            break;
    }
    for (uint32_t i = 0; i < program.needed_count; i++)
        if (gw_image_text_is(&program, program.needed[i], name))
            return true;
    return false;
}

/* Fill in *py. Returns false if the file at `base` is not an interpreter. */
static bool recognise(uintptr_t base, gwi_python_interpreter *py)
{
    gw_image file;
    uintptr_t runtime;
    if (!open_image(base, &file) || !find_symbol(&file, "_PyRuntime", &runtime))
        return false;
    memset(py, 0, sizeof *py);
    py->base = base;
    if (!function_of(&file, "PyGILState_GetThisThreadState", &py->get_thread) ||
        !gwi_python_read((uintptr_t)py->get_thread, py->probe, sizeof py->probe))
        return false;
    py->stays = stays(&file);
    if (!function_of(&file, "PyThreadState_GetUnchecked", &py->get_lock_holder))
        (void)function_of(&file, "_PyThreadState_UncheckedGet", &py->get_lock_holder);
    py->is_readable =
        function_of(&file, "PyInterpreterState_Main", &py->get_main_interpreter) &&
        function_of(&file, "PyInterpreterState_Head", &py->get_last_interpreter) &&
        (function_of(&file, "Py_IsFinalizing", &py->is_finalizing) ||
         function_of(&file, "_Py_IsFinalizing", &py->is_finalizing)) &&
        find_symbol(&file, "PyCode_Type", &py->code_type) && find_symbol(&file, "PyUnicode_Type", &py->unicode_type) &&
        find_symbol(&file, "PyBytes_Type", &py->bytes_type) && read_layout(&file, runtime, &py->layout, &py->row);
    return true;
}

/* ---- the list of mappings ---- */

enum { MAPS_BYTES = 1 << 16, SEEN_MAX = 4096 };

typedef struct scan {
    uintptr_t base; /* address of the first mapping of the current file */
    char file[64];  /* device and inode of the current file */
    bool tried;
    bool found;
} scan;

/* Hashes of the files that were already examined. Only one thread at a time uses them. */
static uint64_t seen[SEEN_MAX];

static bool was_seen(const scan *s)
{
    uint64_t key = gw_hash_bytes(s->base, s->file, strlen(s->file));
    for (unsigned probe = 0; probe < 16; probe++) {
        uint64_t *entry = &seen[((key >> 32) + probe) % SEEN_MAX];
        if (*entry == key)
            return true;
        if (*entry == 0) {
            *entry = key;
            return false;
        }
    }
    return false; /* no free entry: this file will be examined every time */
}

static void try_file(scan *s)
{
    uint32_t count = atomic_load_explicit(&gwi_python_interpreter_count, memory_order_relaxed);
    s->tried = true;
    if (was_seen(s))
        return;
    for (uint32_t i = 0; i < count; i++)
        if (gwi_python_interpreter_list[i].base == s->base)
            return;
    if (count == GWI_PYTHON_INTERPRETERS_MAX || !recognise(s->base, &gwi_python_interpreter_list[count]))
        return;
    atomic_store_explicit(&gwi_python_interpreter_count, count + 1, memory_order_release);
    s->found = true;
}

/* Parse a line "start-end rights offset device inode path" of /proc/self/maps. Files without code are skipped, because
 * reading a data file may need a slow disk. */
static void see_mapping(scan *s, const char *line)
{
    char *rest;
    uintptr_t start = strtoul(line, &rest, 16);
    if (*rest != '-')
        return;
    (void)strtoul(rest + 1, &rest, 16);
    if (strlen(rest) < 6 || strchr(rest, '/') == NULL)
        return;
    bool has_code = rest[3] == 'x';
    unsigned long offset = strtoul(rest + 6, &rest, 16);
    size_t bytes = strcspn(rest, "/");
    if (bytes >= sizeof s->file)
        return;
    if (offset == 0) {
        s->base = start;
        memcpy(s->file, rest, bytes);
        s->file[bytes] = '\0';
        s->tried = false;
    }
    if (has_code && !s->tried && strncmp(s->file, rest, bytes) == 0 && s->file[bytes] == '\0')
        try_file(s);
}

/* Pass every complete line of `text` to see_mapping(), and move the incomplete last line to the front. Returns its
 * length. */
static size_t see_lines(scan *s, char *text, size_t bytes)
{
    char *line = text, *end;
    text[bytes] = '\0';
    while ((end = strchr(line, '\n')) != NULL) {
        *end = '\0';
        see_mapping(s, line);
        line = end + 1;
    }
    size_t left = bytes - (size_t)(line - text);
    memmove(text, line, left);
    return left;
}

static bool look(void)
{
    scan s = {.tried = true};
    char *text = mmap(NULL, MAPS_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int fd = text == MAP_FAILED ? -1 : open_plainly("/proc/self/maps");
    if (fd >= 0) {
        size_t used = 0;
        long got;
        while ((got = syscall(SYS_read, fd, text + used, MAPS_BYTES - 1 - used)) > 0) {
            used = see_lines(&s, text, used + (size_t)got);
            if (used == MAPS_BYTES - 1) /* the line is longer than the buffer, which never happens */
                break;
        }
        syscall(SYS_close, fd);
    }
    if (text != MAP_FAILED)
        munmap(text, MAPS_BYTES);
    return s.found;
}

/* Pid of the process that is searching; 0: none. A forked child may find the pid of its parent here, and ignores it. */
static _Atomic uint32_t looking_pid;

bool gwi_python_look_forked(void)
{
    if (atomic_exchange(&looking_pid, 0) == 0)
        return false;
    memset(seen, 0, sizeof seen);
    return true;
}

bool gwi_python_look(void)
{
    int error = errno;
    uint32_t pid = (uint32_t)getpid(), holder = atomic_load(&looking_pid);
    bool found = false;
    if (holder != pid && atomic_compare_exchange_strong(&looking_pid, &holder, pid)) {
        found = look();
        atomic_store(&looking_pid, 0);
    }
    errno = error;
    return found;
}
