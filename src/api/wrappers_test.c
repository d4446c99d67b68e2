/* Call each generated wrapper with a fake driver, whose results the test chooses, and check what the wrapper
 * records. */
#include "gw_unit_test.h"
#include "gwi_hook.h"

#include "gw_hook_special.h"

#include <string.h>

said gwi_said;
void *gwi_real[GW_FN_COUNT];
bool gwi_guard_on;

static int driver_answer;
static int driver_calls;
static bool may_enter = true;
static int refuse_device;
static uint64_t refuse_bytes;

bool gwi_enter(gwi_slot_ref *th, unsigned fn)
{
    th->fn = fn;
    return may_enter;
}

bool gwi_enter_quick(gwi_slot_ref *th, unsigned fn)
{
    return gwi_enter(th, fn);
}

void gwi_leave(gwi_slot_ref *th)
{
    assert_true(th->fn < GW_FN_COUNT);
    gwi_said.leave_count++;
}

void gwi_hot(gwi_slot_ref *th, unsigned fn, unsigned counter, uint64_t what, uint64_t stream, uint64_t bytes)
{
    assert_int_equal(th->fn, fn);
    gwi_said.hot_count++;
    gwi_said.fn = fn;
    gwi_said.counter = counter;
    gwi_said.what = what;
    gwi_said.stream = stream;
    gwi_said.bytes = bytes;
}

void gwi_hot_read(gwi_slot_ref *th)
{
    assert_true(th->fn < GW_FN_COUNT);
    gwi_said.read_count++;
}

bool gwi_orders(void)
{
    return true;
}

bool gwi_orders_fills(void)
{
    return gwi_orders();
}

void gwi_order(gwi_slot_ref *th, unsigned fn, unsigned step, unsigned flags, uint64_t object, uint64_t source,
               uint64_t bytes, uint64_t stream)
{
    assert_int_equal(th->fn, fn);
    gwi_said.fn = fn;
    gwi_said.flags = flags;
    gwi_said.step = step;
    gwi_said.order_count++;
    memcpy(gwi_said.order, (uint64_t[4]){object, source, bytes, stream}, sizeof gwi_said.order);
}

static void note_event(gwi_slot_ref *th, unsigned fn, unsigned kind, int result, unsigned flags, uint32_t extra)
{
    assert_int_equal(th->fn, fn);
    gwi_said.fn = fn;
    gwi_said.kind = kind;
    gwi_said.result = result;
    gwi_said.flags = flags;
    gwi_said.extra = extra;
}

void gwi_event(gwi_slot_ref *th, unsigned fn, unsigned kind, int result, unsigned flags, uint32_t extra, uint64_t a0,
               uint64_t a1, uint64_t a2, uint64_t a3, const char *text)
{
    note_event(th, fn, kind, result, flags, extra);
    gwi_said.event_count++;
    memcpy(gwi_said.arg, (uint64_t[4]){a0, a1, a2, a3}, sizeof gwi_said.arg);
    gwi_said.text = text;
}

void gwi_failed(gwi_slot_ref *th, unsigned fn, unsigned kind, int result, unsigned flags, uint32_t extra, uint64_t a0,
                uint64_t a1, uint64_t a2, uint64_t a3, const char *text)
{
    note_event(th, fn, kind, result, flags, extra);
    gwi_said.failed_count++;
    memcpy(gwi_said.arg, (uint64_t[4]){a0, a1, a2, a3}, sizeof gwi_said.arg);
    gwi_said.text = text;
}

void gwi_get_failed(unsigned fn, int result, unsigned flags, uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3)
{
    gwi_slot_ref th;
    if (!gwi_enter_quick(&th, fn))
        return;
    gwi_failed(&th, fn, GW_EV_CALL, result, flags, 0, a0, a1, a2, a3, NULL);
    gwi_leave(&th);
}

bool gwi_refuse(struct gwi_slot_ref *th, unsigned fn, int device, uint64_t bytes, uint64_t what)
{
    assert_int_equal(th->fn, fn);
    refuse_device = device;
    refuse_bytes = bytes;
    return bytes > 1000;
}

/* Fake versions of functions that the hook has in other files. Most only record that they were called.
 * - gwi_after_...(): called by a wrapper after success, instead of gwi_event()
 * - gwi_instead_...(): does all the work of its wrapper */
static void note_after(struct gwi_slot_ref *th, unsigned fn)
{
    assert_int_equal(th->fn, fn);
    gwi_said.fn = fn;
    gwi_said.after_count++;
}

#define AFTER(name, ...)                                                                                               \
    void gwi_after_##name(struct gwi_slot_ref *th, unsigned fn, __VA_ARGS__)                                           \
    {                                                                                                                  \
        note_after(th, fn);                                                                                            \
    }
AFTER(memory_info, size_t *free, size_t *total)
AFTER(memory_info_v1, unsigned int *free, unsigned int *total)
AFTER(device_pool, CUdevice dev, CUmemoryPool pool)
AFTER(total_memory, size_t *bytes, CUdevice dev)
AFTER(total_memory_v1, unsigned int *bytes, CUdevice dev)
AFTER(export_table, const void **table, const CUuuid *id)
AFTER(module_functions, CUfunction *functions, unsigned int count, CUmodule mod)
AFTER(library_kernels, CUkernel *kernels, unsigned int count, CUlibrary lib)

void gwi_after_kernel_function(struct gwi_slot_ref *th, unsigned fn, CUfunction *function, CUkernel kernel)
{
    gwi_event(th, fn, GW_EV_FUNCTION, 0, 0, 0, 0, (uint64_t)(uintptr_t)kernel, GW_OWNER_KERNEL, 0, NULL);
}

int gwi_instead_get_proc_address(unsigned fn, const char *symbol, void **pfn, int version, cuuint64_t flags)
{
    gwi_said.fn = fn;
    return driver_answer;
}

int gwi_instead_get_proc_address_v2(unsigned fn, const char *symbol, void **pfn, int version, cuuint64_t flags,
                                    CUdriverProcAddressQueryResult *status)
{
    gwi_said.fn = fn;
    return driver_answer;
}

/* --- the tests ------------------------------------------------------------------------------------------- */

/* The tests call every wrapper through this type, with 16 arguments. On both supported architectures, a caller may pass
 * more arguments than the function takes. */
typedef int any_function(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t,
                         uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);

#define WRAPPER(name) ((gw_fn_t_##name *)gwi_wrappers[GW_FN_##name])

static int answering_driver(void)
{
    driver_calls++;
    return driver_answer;
}

static int begin(void **state)
{
    for (int fn = 0; fn < GW_FN_COUNT; fn++)
        gwi_real[fn] = (void *)answering_driver;
    memset(&gwi_said, 0, sizeof gwi_said);
    driver_answer = driver_calls = 0;
    gwi_guard_on = false;
    may_enter = true;
    refuse_bytes = 0;
    return 0;
}

/* Call every wrapper with 0 for all arguments. It must call the driver once, and report success and failure as its row
 * in api/driver.api requires. */
static void call_all(void)
{
    for (int fn = 0; fn < GW_FN_COUNT; fn++) {
        any_function *wrapper = (any_function *)gwi_wrappers[fn];
        if (wrapper == NULL)
            continue;
        memset(&gwi_said, 0, sizeof gwi_said);
        driver_calls = 0;
        assert_int_equal(wrapper(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), driver_answer);
        if (gw_api_fns[fn].flags & GW_API_INSTEAD)
            continue;
        assert_int_equal(driver_calls, 1);
        bool is_unseen = (gw_api_fns[fn].flags & GW_API_GET) && driver_answer == 0;
        assert_int_equal(gwi_said.leave_count, may_enter && !is_unseen);
        int said_count = gwi_said.hot_count + gwi_said.event_count + gwi_said.failed_count + gwi_said.after_count;
        if (!may_enter)
            assert_int_equal(said_count, 0);
        else if (driver_answer != 0) {
            assert_int_equal(gwi_said.failed_count, 1);
            assert_int_equal(gwi_said.kind, gw_api_fns[fn].kind);
            assert_int_equal(gwi_said.flags, gw_api_fns[fn].flags & GW_API_PER_THREAD ? GW_EVF_PER_THREAD : 0);
        } else if (gw_api_fns[fn].price == GW_PRICE_HOT)
            assert_int_equal(gwi_said.hot_count, 1);
        else if (gw_api_fns[fn].price == GW_PRICE_RARE)
            assert_int_equal(gwi_said.event_count, 1);
        assert_in_range(said_count, 0, 1);
    }
}

GW_TEST_WITH(null_arguments_hurt_nobody, begin, NULL)
{
    driver_answer = 1;
    call_all();
    driver_answer = 0;
    call_all();
    may_enter = false;
    call_all();
    may_enter = true;
    gwi_guard_on = true;
    call_all();
}

static int allocating_driver(CUdeviceptr *dptr, size_t bytes)
{
    *dptr = 0x7000;
    return driver_answer;
}

GW_TEST_WITH(an_allocation_says_address_and_bytes, begin, NULL)
{
    CUdeviceptr at = 0;
    gwi_real[GW_FN_cuMemAlloc_v2] = (void *)allocating_driver;
    assert_int_equal(WRAPPER(cuMemAlloc_v2)(&at, 512), 0);
    assert_int_equal(gwi_said.kind, GW_EV_ALLOC);
    assert_int_equal(gwi_said.arg[0], 0x7000);
    assert_int_equal(gwi_said.arg[1], 512);

    driver_answer = CUDA_ERROR_OUT_OF_MEMORY;
    assert_int_equal(WRAPPER(cuMemAlloc_v2)(&at, 513), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(gwi_said.arg[0], 0);
    assert_int_equal(gwi_said.arg[1], 513);
}

GW_TEST_WITH(the_guard_is_asked_first, begin, NULL)
{
    CUdeviceptr at = 0;
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp prop = {.location = {CU_MEM_LOCATION_TYPE_DEVICE, 3}};
    gwi_guard_on = true;
    assert_int_equal(WRAPPER(cuMemAlloc_v2)(&at, 1001), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(driver_calls, 0);
    assert_int_equal(gwi_said.failed_count, 1);
    assert_int_equal(refuse_device, -1);

    assert_int_equal(WRAPPER(cuMemCreate)(&handle, 1000, &prop, 0), 0);
    assert_int_equal(driver_calls, 1);
    assert_int_equal(refuse_device, 3);
    assert_int_equal(refuse_bytes, 1000);
    prop.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
    /* the guard does not limit host memory, so its size is passed as 0 */
    assert_int_equal(WRAPPER(cuMemCreate)(&handle, 1 << 20, &prop, 0), 0);
    assert_int_equal(refuse_bytes, 0);
}

GW_TEST_WITH(a_launch_keeps_its_shape, begin, NULL)
{
    CUfunction f = (CUfunction)(uintptr_t)0x99;
    CUlaunchConfig config = {2, 3, 4, 5, 6, 7, 8, CU_STREAM_PER_THREAD, NULL, 0};
    assert_int_equal(WRAPPER(cuLaunchKernel_ptsz)(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), 0);
    assert_int_equal(gwi_said.counter, GW_COUNT_LAUNCH);
    assert_int_equal(gwi_said.what, 0x99);

    driver_answer = CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    assert_int_equal(WRAPPER(cuLaunchKernelEx)(&config, f, NULL, NULL), driver_answer);
    assert_int_equal(gwi_said.arg[0], 0x99);
    assert_int_equal(gwi_said.arg[1], 2ull | 3ull << 32 | 4ull << 48);
    assert_int_equal(gwi_said.arg[2], 5ull | 6ull << 21 | 7ull << 42);
    assert_int_equal(gwi_said.arg[3], 2);
    assert_int_equal(gwi_said.extra, 8);
    assert_int_equal(WRAPPER(cuLaunchKernel_ptsz)(f, 0x10000, 0x10000, 0x10001, 1, 1, 1, 0, NULL, NULL, NULL),
                     driver_answer);
    assert_int_equal(gwi_said.arg[1], 0xffffffff00010000);
    assert_int_equal(gwi_said.flags, GW_EVF_PER_THREAD);
}

static int lacking_driver(CUfunction *function, CUmodule module, const char *name)
{
    return CUDA_ERROR_NOT_FOUND;
}

GW_TEST_WITH(a_failure_says_the_name_asked_for, begin, NULL)
{
    static const char name[] = "no_such_kernel";
    CUfunction f;
    gwi_real[GW_FN_cuModuleGetFunction] = (void *)lacking_driver;
    assert_int_equal(WRAPPER(cuModuleGetFunction)(&f, NULL, name), CUDA_ERROR_NOT_FOUND);
    assert_int_equal(gwi_said.failed_count, 1);
    assert_ptr_equal(gwi_said.text, name);
    driver_answer = CUDA_ERROR_OUT_OF_MEMORY;
    assert_int_equal(WRAPPER(cuMemAlloc_v2)(NULL, 1), CUDA_ERROR_OUT_OF_MEMORY);
    assert_null(gwi_said.text);
}

GW_TEST_WITH(copies_and_fills_count_bytes, begin, NULL)
{
    CUstream stream = (CUstream)(uintptr_t)0x55;
    CUDA_MEMCPY2D rectangle = {.WidthInBytes = 100, .Height = 7};
    CUdeviceptr two[2] = {0x10, 0x20};
    size_t sizes[2] = {30, 12};
    WRAPPER(cuMemcpyHtoDAsync_v2)(0x1000, sizes, 64, stream);
    assert_int_equal(gwi_said.bytes, 64);
    assert_int_equal(gwi_said.stream, 0x55);
    WRAPPER(cuMemcpy2D_v2)(&rectangle);
    assert_int_equal(gwi_said.bytes, 700);
    WRAPPER(cuMemcpyBatchAsync_v2)(two, two, sizes, 2, NULL, NULL, 0, stream);
    assert_int_equal(gwi_said.bytes, 42);
    WRAPPER(cuMemsetD2D32Async)(0x1000, 4096, 1, 10, 3, stream);
    assert_int_equal(gwi_said.counter, GW_COUNT_FILL);
    assert_int_equal(gwi_said.bytes, 120);
    WRAPPER(cuMemsetD16_v2)(0x1000, 1, 5);
    assert_int_equal(gwi_said.bytes, 10);
    assert_int_equal(gwi_said.read_count, 0);
    WRAPPER(cuMemcpyDtoHAsync_v2)(sizes, 0x1000, 8, stream);
    assert_int_equal(gwi_said.read_count, 1);
}

GW_TEST_WITH(what_orders_work_is_told, begin, NULL)
{
    CUstream stream = (CUstream)(uintptr_t)0x50;
    CUevent event = (CUevent)(uintptr_t)0x60;
    CUdeviceptr two[2] = {0x10, 0x20};
    size_t sizes[2] = {30, 12};
    WRAPPER(cuMemcpyDtoDAsync_v2)(0x1000, 0x2000, 64, stream);
    assert_int_equal(gwi_said.step, GW_ORDER_COPY);
    assert_memory_equal(gwi_said.order, ((uint64_t[4]){0x1000, 0x2000, 64, 0x50}), 32);
    WRAPPER(cuMemcpyDtoD_v2)(0x1000, 0x2000, 64);
    assert_int_equal(gwi_said.step, GW_ORDER_COPY_WAITED);
    WRAPPER(cuMemcpyBatchAsync_v2)(two, two, sizes, 2, NULL, NULL, 0, stream);
    assert_int_equal(gwi_said.step, GW_ORDER_COPY);
    assert_int_equal(gwi_said.order[2], 0); /* a batch of copies has no single address range, so no size is recorded */
    WRAPPER(cuStreamWaitEvent)(stream, event, 0);
    assert_int_equal(gwi_said.step, GW_ORDER_WAIT);
    assert_memory_equal(gwi_said.order, ((uint64_t[4]){0x60, 0, 0, 0x50}), 32);

    static const struct {
        gw_fn fn;
        gw_order_step step;
    } questions[] = {
        {GW_FN_cuStreamQuery, GW_ORDER_STREAM_DONE},       {GW_FN_cuEventQuery, GW_ORDER_EVENT_DONE},
        {GW_FN_cuStreamSynchronize, GW_ORDER_STREAM_DONE}, {GW_FN_cuEventSynchronize, GW_ORDER_EVENT_DONE},
        {GW_FN_cuCtxSynchronize, GW_ORDER_CONTEXT_DONE},   {GW_FN_cuCtxSynchronize_v2, GW_ORDER_CONTEXT_DONE},
        {GW_FN_cuStreamWaitValue32_v2, GW_ORDER_UNKNOWN},  {GW_FN_cuStreamBatchMemOp_v2, GW_ORDER_UNKNOWN},
        {GW_FN_cuLaunchHostFunc, GW_ORDER_HOST_FUNC},      {GW_FN_cuStreamAddCallback, GW_ORDER_HOST_FUNC}};
    for (size_t i = 0; i < sizeof questions / sizeof questions[0]; i++) {
        memset(&gwi_said, 0, sizeof gwi_said);
        ((any_function *)gwi_wrappers[questions[i].fn])(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
        assert_int_equal(gwi_said.order_count, 1);
        assert_int_equal(gwi_said.step, questions[i].step);
        driver_answer = 600;
        ((any_function *)gwi_wrappers[questions[i].fn])(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
        driver_answer = 0;
        assert_int_equal(gwi_said.order_count, 1);
    }
}

/* A launch must not call gwi_order(), because launches must not be slowed down. */
GW_TEST_WITH(a_launch_tells_nothing_of_order, begin, NULL)
{
    for (int fn = 0; fn < GW_FN_COUNT; fn++) {
        int kind = gw_api_fns[fn].kind;
        if (gwi_wrappers[fn] == NULL || (kind != GW_EV_LAUNCH && kind != GW_EV_GRAPH_LAUNCH))
            continue;
        ((any_function *)gwi_wrappers[fn])(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
        assert_int_equal(gwi_said.order_count, 0);
    }
}

static int mapping_driver(CUdeviceptr *dptr, size_t *pitch, size_t width, size_t height, unsigned element)
{
    *dptr = 0x8000;
    *pitch = 512;
    return 0;
}

GW_TEST_WITH(a_pitched_allocation_counts_its_pitch, begin, NULL)
{
    CUdeviceptr at;
    size_t pitch = 77;
    driver_answer = 2;
    WRAPPER(cuMemAllocPitch_v2)(&at, &pitch, 100, 4, 4);
    assert_int_equal(gwi_said.arg[1], 400);
    gwi_real[GW_FN_cuMemAllocPitch_v2] = (void *)mapping_driver;
    WRAPPER(cuMemAllocPitch_v2)(&at, &pitch, 100, 4, 4);
    assert_int_equal(gwi_said.arg[1], 2048);
    assert_int_equal(gwi_said.arg[3], 512);
}

GW_TEST_WITH(a_function_has_its_name, begin, NULL)
{
    CUfunction f = NULL;
    WRAPPER(cuModuleGetFunction)(&f, NULL, "saxpy");
    assert_string_equal(gwi_said.text, "saxpy");
}

GW_TEST_WITH(undocumented_ones_have_no_wrapper, begin, NULL)
{
    for (int fn = 0; fn < GW_FN_COUNT; fn++)
        assert_int_equal(gwi_wrappers[fn] != NULL, (gw_api_fns[fn].flags & GW_API_PUBLIC) != 0);
}

GW_TEST_MAIN(NULL, NULL)
