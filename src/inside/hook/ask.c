/* Functions that query the driver. They neither wait for the device nor touch a stream. While a stream capture is open,
 * they do not query memory. */
#include "gwi_hook.h"

bool gwi_may_ask(int result)
{
    return result != 3 && result != 4 && result != 800;
}

uint64_t gwi_current_context(void)
{
    CUcontext context = NULL;
    gw_fn_t_cuCtxGetCurrent *get = GWI_REAL(cuCtxGetCurrent);
    if (get == NULL || !atomic_load_explicit(&gwi.head->initialised, memory_order_relaxed) || get(&context) != 0)
        return 0;
    return (uint64_t)(uintptr_t)context;
}

bool gwi_capture_is_open(void)
{
    return atomic_load_explicit(&gwi.head->captures_open, memory_order_relaxed) != 0;
}

bool gwi_turn(_Atomic uint64_t *last_ns)
{
    uint64_t now = gw_monotonic_ns(), last = atomic_load(last_ns);
    return (last == 0 || now - last >= 100000000) && atomic_compare_exchange_strong(last_ns, &last, now);
}

bool gwi_current_device(int *ret_device)
{
    gw_fn_t_cuCtxGetDevice *get = GWI_REAL(cuCtxGetDevice);
    CUdevice device = 0;
    if (get == NULL || get(&device) != 0)
        return false;
    *ret_device = (int)device;
    return true;
}

bool gwi_memory_info(size_t *ret_free, size_t *ret_total)
{
    gw_fn_t_cuMemGetInfo_v2 *get = GWI_REAL(cuMemGetInfo_v2);
    return get != NULL && !gwi_capture_is_open() && get(ret_free, ret_total) == 0;
}

bool gwi_device_memory(int device, uint64_t context, size_t *ret_free, size_t *ret_total)
{
    gw_fn_t_cuCtxPushCurrent_v2 *push = GWI_REAL(cuCtxPushCurrent_v2);
    gw_fn_t_cuCtxPopCurrent_v2 *pop = GWI_REAL(cuCtxPopCurrent_v2);
    CUcontext popped;
    int current;
    if (gwi_current_context() != 0 && gwi_current_device(&current) && current == device)
        return gwi_memory_info(ret_free, ret_total);
    if (push == NULL || pop == NULL || context == 0 || push((CUcontext)(uintptr_t)context) != 0)
        return false;
    bool known = gwi_memory_info(ret_free, ret_total);
    (void)pop(&popped);
    return known;
}
