/* The hook's entry point for facades: it opens the driver, fills the facade's table, and starts the other parts. */
#include "gw_text.h"
#include "gwi_course.h"
#include "gwi_gate.h"
#include "gwi_hook.h"
#include "gwi_modules.h"
#include "gwi_nccl.h"
#include "gwi_rehearse.h"
#include "gwi_site.h"
#include "gwi_unwind.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- start of a process ---- */

static void begin_process(bool has_buffer)
{
    if (has_buffer)
        gwi_site_begin();
    gwi_launch_forget();
}

/* ---- attach ---- */

static bool is_on(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && strcmp(value, "1") == 0;
}

static void read_settings(void)
{
    const char *dir = getenv("GPUWHY_RUN_DIR");
    const char *attach = getenv("GPUWHY_ATTACH");
    const char *sites = getenv("GPUWHY_SITES");
    if (dir != NULL && dir[0] == '/' && strlen(dir) < sizeof gwi.run_dir)
        strcpy(gwi.run_dir, dir);
    gwi.attach_observer = attach == NULL || strcmp(attach, "0") != 0;
    gwi.records_sites = sites == NULL || strcmp(sites, "0") != 0;
    gwi_quiet_watch();
    gwi_guard_begin();
    gwi_rehearse_begin();
    if (!gwi.is_quiet)
        gwi_gate_begin();
    gwi.inert = is_on("GPUWHY_OFF") || (gwi.run_dir[0] == '\0' && !gwi_guard_on);
}

static int name_unreachable(void)
{
    return 34; /* CUDA_ERROR_STUB_LIBRARY, because dlsym() did not find this name in the driver */
}

/* Open the driver and look up all its names. Returns NULL if it cannot be opened.
 * Call this without our lock. The loader holds its own lock while constructors of libraries run, and these may wait for
 * ours in a driver call. */
static void *open_driver(const gw_facade_head *head, void **ret_found)
{
    void *driver = dlopen(head->driver_path, RTLD_NOW | RTLD_LOCAL);
    for (uint32_t i = 0; driver != NULL && i < head->name_count; i++)
        ret_found[i] = dlsym(driver, head->strings + head->names[i]);
    gwi_modules_begin(false);
    return driver;
}

/* Make `driver` the process's only driver. Call with the lock held. Returns false if it could not be opened, or if an
 * earlier attach opened another one. */
static bool adopt_driver(const gw_facade_head *head, void *driver, void *const *found)
{
    if (gwi.driver != NULL)
        return driver != NULL && strcmp(gwi.driver_path, head->driver_path) == 0;
    if (strlen(head->driver_path) >= sizeof gwi.driver_path)
        return false;
    if (gwi.driver_path[0] == '\0')
        read_settings();
    strcpy(gwi.driver_path, head->driver_path);
    if (driver == NULL)
        return false;
    strncpy(gwi.driver_build_id, head->driver_build_id, sizeof gwi.driver_build_id - 1);
    gwi.name_count = head->name_count;
    for (uint32_t i = 0; i < head->name_count; i++) {
        int fn = gw_api_find_symbol(head->strings + head->names[i]);
        if (fn >= 0)
            gwi_driver_found((unsigned)fn, found[i]);
    }
    gwi.driver = driver;
    return true;
}

static const uint8_t *stub_of(const gw_facade_head *head, uint32_t i)
{
    return i < head->read_count ? head->read_stubs + (size_t)i * head->read_stub_bytes
                                : head->stubs + (size_t)i * head->stub_bytes;
}

static void fill_table(gw_facade_head *head, void *const *found)
{
    for (uint32_t i = 0; i < head->name_count; i++) {
        int fn = gw_api_find_symbol(head->strings + head->names[i]);
        void *target = found[i];
        if (target == NULL)
            target = (void *)(uintptr_t)name_unreachable;
        else if (fn >= 0 && !gwi.inert && gwi_wrappers[fn] != NULL)
            target = gwi_wrappers[fn];
        __atomic_store_n(&head->table[i], target, __ATOMIC_RELEASE);
        if (fn >= 0 && !gwi.inert)
            gwi_stub[fn] = (void *)(uintptr_t)stub_of(head, i);
    }
    if (!gwi.inert)
        gwi_facade_attached(head);
    __atomic_store_n(&head->attached, 1, __ATOMIC_RELEASE);
}

/* Open the driver and fill the facade's table. Returns 0 if the table is filled. */
static int attach(gw_facade_head *head, void **found)
{
    int status = 1;
    void *driver = open_driver(head, found);
    if (!gwi_lock())
        return status;
    gwi_at_start = (gwi_start){begin_process, gwi_fork_take};
    if (__atomic_load_n(&head->attached, __ATOMIC_ACQUIRE)) { /* another thread attached it meanwhile */
        status = 0;
    } else if (gwi_tell_children() && adopt_driver(head, driver, found)) {
        fill_table(head, found);
        status = 0;
    }
    gwi_unlock();
    if (status == 0) {
        gwi_forks_watch();
        gwi_crash_watch();
        if (!gwi.is_quiet) {
            gwi_course_attach(gwi_course_refused);
            gwi_nccl_begin();
        }
    }
    return status;
}

int gw_hook_attach(gw_facade_head *head) __attribute__((visibility("default")));

/* Called by a facade at the first call into any of its stubs. Several threads may call this at once. */
int gw_hook_attach(gw_facade_head *head)
{
    static bool said;
    int saved_errno = errno, status = 1;
    if (memcmp(head->magic, GW_FACADE_MAGIC, sizeof head->magic) != 0 || head->version != GW_FACADE_VERSION)
        return 1;
    size_t bytes = (size_t)head->name_count * sizeof(void *) + 1;
    void *found = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (found != MAP_FAILED) {
        status = __atomic_load_n(&head->attached, __ATOMIC_ACQUIRE) ? 0 : attach(head, found);
        munmap(found, bytes);
    }
    if (status != 0 && gwi.driver == NULL && !gwi.inert && gwi.driver_path[0] != '\0' && !said) {
        said = true;
        gwi_note(GW_NOTE_DRIVER_MISSING, 0, 0, 0, gwi.driver_path);
    }
    errno = saved_errno;
    return status;
}

/* Records where the process forks. A child has already left the line of the fork() when it makes its first driver call.
 * So the parent reads its own stack before the fork, in a pthread_atfork handler. This costs as much as recording one
 * call site. vfork, posix_spawn and a plain clone do not run the handler.
 *
 * The handler must not disturb the program:
 * - It allocates nothing, and records nothing except a new site.
 * - It takes only the hook's own lock, briefly, for a new file or a new stack. No thread waits for a fork while it
 *   holds this lock.
 * - It does nothing if the thread has no slot yet, or is inside a driver call (fork in a signal handler).
 * Several threads may fork at once, so each slot has its own result. The child gets a copy of it.
 *
 * Registering the handler may block. glibc 2.28 to 2.35 hold the handler lock while handlers run. A handler may
 * wait for a lock that our caller holds, such as Python's lock, or may itself call us. So on these versions we
 * register only while the process has one thread: glibc then takes no lock. Without the handler, the place of the
 * fork must be found in the child's own stack. */

/* A fork's call site, and the limits of the thread's stack. The child reuses the limits: with many mappings,
 * finding them takes milliseconds. */
typedef struct fork_note {
    uint32_t site; /* 0: unknown */
    gwi_stack_known stack;
} fork_note;

static fork_note note_of_slot[GW_SLOT_COUNT]; /* by slot: the current fork of the slot's thread */
static fork_note note_of_this;                /* the fork that created this process */

static void before_fork(void)
{
    int saved_errno = errno;
    gw_slot *slot = gwi_slot;
    gwi_nccl_before_fork();
    if (slot != NULL && gwi_slot_is_ours(slot) && gwi_slot_is_shared(slot)) {
        fork_note *note = &note_of_slot[gwi_slot_index(slot)];
        *note = (fork_note){0};
        if (atomic_load_explicit(&slot->inside_fn, memory_order_relaxed) == 0) {
            atomic_store_explicit(&slot->inside_fn, UINT32_MAX, memory_order_relaxed);
            note->site = gwi_site(slot, GW_FN_COUNT, gwi_ticks(), false);
            note->stack = *gwi_slot_stack(slot);
            atomic_store_explicit(&slot->inside_fn, 0, memory_order_release);
        }
    }
    errno = saved_errno;
}

/* Keep the note of this fork for the child's first driver call. gwi_slot belongs to the last ancestor with a driver
 * call. So a child that forks again without one passes on this note. */
static void in_child(void)
{
    const gw_slot *slot = gwi_slot;
    if (slot != NULL && gwi_slot_is_shared(slot))
        note_of_this = note_of_slot[gwi_slot_index(slot)];
}

uint32_t gwi_fork_take(gw_slot *slot)
{
    fork_note note = note_of_this;
    note_of_this = (fork_note){0};
    uintptr_t here = (uintptr_t)&note;
    bool is_its_stack =
        here >= note.stack.low && here < note.stack.high; /* false if this thread was created after the fork */
    if (slot != NULL && gwi_slot_is_shared(slot) && is_its_stack)
        *gwi_slot_stack(slot) = note.stack;
    return note.site;
}

/* Return 31 for glibc 2.31, and 0 for a version that is not 2.x. */
static unsigned long minor_version(void)
{
    const char *version = gnu_get_libc_version();
    return gw_begins(version, "2.") ? strtoul(version + 2, NULL, 10) : 0;
}

/* True if the process has exactly one thread. The link count of /proc/self/task is 2 plus one for each thread. */
static bool has_one_thread(void)
{
    struct stat info;
    return syscall(SYS_newfstatat, AT_FDCWD, "/proc/self/task", &info, 0) == 0 && info.st_nlink == 3;
}

void gwi_forks_watch(void)
{
    enum { LOCKED_FIRST = 28, LOCKED_LAST = 35 };
    static _Atomic bool asked;
    unsigned long minor = minor_version();
    bool waits = minor == 0 || (minor >= LOCKED_FIRST && minor <= LOCKED_LAST);
    if (!gwi.inert && gwi.records_sites && (!waits || has_one_thread()) && !atomic_exchange(&asked, true))
        (void)pthread_atfork(before_fork, gwi_nccl_after_fork, in_child);
}
