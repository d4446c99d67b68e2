/* The hook's entry point for facades: it opens the driver, fills the facade's table, and starts the other parts. */
#include "gwi_course.h"
#include "gwi_gate.h"
#include "gwi_hook.h"
#include "gwi_modules.h"
#include "gwi_rehearse.h"
#include "gwi_site.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

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
    gwi_guard_begin();
    gwi_rehearse_begin();
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
        gwi_course_attach(gwi_course_refused);
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
