/* Loads the driver when the process starts, if a file of the program is linked to it, as it would be without gpuwhy.
 *
 * The facade stands in front of the driver, and loads it at the first call. By then the program may have no free
 * descriptor or little address space left. The hook is still loaded at the first call: if that fails, the facade finds
 * the driver by its name, which needs no descriptor, and the calls are not recorded. */
#include "gw_facade.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>

#pragma weak dlerror

typedef struct search {
    const gw_facade_head *facade; /* NULL: not found */
    bool is_linked;
} search;

/* Return the facade's head, which follows the dynamic section and its two ends; NULL for another file. */
static const gw_facade_head *head_after(const ElfW(Dyn) * end)
{
    const gw_facade_head *head = (const void *)(end + 2);
    return memcmp(head->magic, GW_FACADE_MAGIC, sizeof head->magic) == 0 && head->version == GW_FACADE_VERSION ? head
                                                                                                               : NULL;
}

static int look_at_file(struct dl_phdr_info *info, size_t size, void *user)
{
    (void)size;
    search *found = user;
    const ElfW(Dyn) *dyn = NULL;
    uintptr_t strings = 0;
    for (size_t i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            dyn = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    const ElfW(Dyn) *at = dyn;
    for (; at != NULL && at->d_tag != DT_NULL; at++)
        if (at->d_tag == DT_STRTAB)
            strings = at->d_un.d_ptr;
    if (strings == 0 || strings < info->dlpi_addr) /* the kernel's own file (vDSO), whose addresses are not adjusted */
        return 0;
    const char *slash = info->dlpi_name == NULL ? NULL : strrchr(info->dlpi_name, '/');
    if (slash != NULL && strcmp(slash + 1, "libcuda.so.1") == 0 && at[1].d_tag == DT_NULL && found->facade == NULL)
        found->facade = head_after(at);
    for (at = dyn; at->d_tag != DT_NULL; at++)
        if (at->d_tag == DT_NEEDED && strcmp((const char *)strings + at->d_un.d_val, "libcuda.so.1") == 0)
            found->is_linked = true;
    return 0;
}

__attribute__((constructor)) static void load_early(void)
{
    search found = {0};
    int saved_errno = errno;
    dl_iterate_phdr(look_at_file, &found);
    if (found.is_linked && found.facade != NULL && found.facade->dl_open != NULL) {
        void *(*open)(const char *, int) = (void *(*)(const char *, int))(uintptr_t)found.facade->dl_open;
        if (open(found.facade->driver_path, RTLD_NOW | RTLD_LOCAL) == NULL && dlerror != NULL)
            (void)dlerror(); /* the program must not find our failure there */
    }
    errno = saved_errno;
}
