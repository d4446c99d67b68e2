/* Extra work of some wrappers after a successful call. Rows of driver.api request it by name (after=...). */
#include "gw_hook_special.h"
#include "gwi_hook.h"

#include <errno.h>
#include <stdio.h>

/* Write a note at the first cuGetExportTable of a process. The call returns private tables, through which a program can
 * call the driver without the hook. */
void gwi_after_export_table(gwi_slot_ref *th, unsigned fn, const void **ppExportTable, const CUuuid *pExportTableId)
{
    static _Atomic uint32_t said_by_pid;
    int saved_errno = errno;
    (void)th;
    (void)ppExportTable;
    if (atomic_exchange(&said_by_pid, gwi.head->pid) != gwi.head->pid) {
        char id[33] = "";
        const unsigned char *bytes = (const unsigned char *)pExportTableId;
        for (int i = 0; bytes != NULL && i < 16; i++)
            snprintf(id + (size_t)(2 * i), 3, "%02x", bytes[i]);
        gwi_note(GW_NOTE_EXPORT_TABLE, fn, 0, 0, id);
    }
    errno = saved_errno;
}

enum { ENUMERATED_MAX = 8192 };

/* Record the names of the kernels that the program has just obtained handles for. cuModuleEnumerateFunctions and
 * cuLibraryEnumerateKernels do not return names, so query them. */
void gwi_after_module_functions(gwi_slot_ref *th, unsigned fn, CUfunction *functions, unsigned int numFunctions,
                                CUmodule mod)
{
    gw_fn_t_cuFuncGetName *get_name = GWI_REAL(cuFuncGetName);
    int saved_errno = errno;
    for (unsigned i = 0; functions != NULL && i < numFunctions && i < ENUMERATED_MAX; i++) {
        const char *name = NULL;
        if (functions[i] == NULL)
            continue;
        if (get_name == NULL || get_name(&name, functions[i]) != 0)
            name = NULL;
        gwi_event(th, fn, GW_EV_FUNCTION, 0, 0, 0, (uint64_t)(uintptr_t)functions[i], (uint64_t)(uintptr_t)mod,
                  GW_OWNER_MODULE, 0, name);
    }
    errno = saved_errno;
}

void gwi_after_library_kernels(gwi_slot_ref *th, unsigned fn, CUkernel *kernels, unsigned int numKernels, CUlibrary lib)
{
    gw_fn_t_cuKernelGetName *get_name = GWI_REAL(cuKernelGetName);
    int saved_errno = errno;
    for (unsigned i = 0; kernels != NULL && i < numKernels && i < ENUMERATED_MAX; i++) {
        const char *name = NULL;
        if (kernels[i] == NULL)
            continue;
        if (get_name == NULL || get_name(&name, kernels[i]) != 0)
            name = NULL;
        gwi_event(th, fn, GW_EV_FUNCTION, 0, 0, 0, (uint64_t)(uintptr_t)kernels[i], (uint64_t)(uintptr_t)lib,
                  GW_OWNER_LIBRARY, 0, name);
    }
    errno = saved_errno;
}

/* ---- functions of kernels ---- */

/* Hashes of the recorded pairs of kernel and function, so that each pair is recorded only once. Runtime libraries query
 * a kernel's function before each launch. */
enum { SAID_COUNT = 4096 };
static _Atomic uint64_t said_pairs[SAID_COUNT];

__attribute__((hot)) void gwi_after_kernel_function(gwi_slot_ref *th, unsigned fn, CUfunction *pFunc, CUkernel kernel)
{
    if (pFunc == NULL)
        return;
    uint64_t function = (uint64_t)(uintptr_t)*pFunc, of = (uint64_t)(uintptr_t)kernel;
    uint64_t when = (uint64_t)gwi_wipe.mark << 32 | atomic_load_explicit(&gwi.handles_made, memory_order_relaxed);
    uint64_t digest = ((of * 0x9e3779b97f4a7c15u ^ function) * 0xff51afd7ed558ccdu ^ when) * 0xc4ceb9fe1a85ec53u;
    _Atomic uint64_t *said = &said_pairs[(of * 0x9e3779b97f4a7c15u >> 40) % SAID_COUNT];
    if (gwi_likely(atomic_load_explicit(said, memory_order_relaxed) == digest))
        return;
    uint64_t lost = atomic_load_explicit(&th->slot->counter[GW_COUNT_LOST], memory_order_relaxed);
    gwi_event(th, fn, GW_EV_FUNCTION, 0, 0, 0, function, of, GW_OWNER_KERNEL, 0, NULL);
    if (atomic_load_explicit(&th->slot->counter[GW_COUNT_LOST], memory_order_relaxed) == lost)
        atomic_store_explicit(said, digest, memory_order_relaxed);
}
