/* Test the exported functions of the virtual card: those that it implements work, and all others return
 * CUDA_ERROR_NOT_SUPPORTED. */
#include "gw_cuda_calls.h"
#include "gw_unit_test.h"
#include "gw_virt_calls.h"

static int enter_answer, lacks_count, leave_count;
static unsigned entered_fn, lacking_fn;

int gwi_virt_enter(unsigned fn)
{
    entered_fn = fn;
    return enter_answer;
}

int gwi_virt_leave(unsigned fn, int result)
{
    assert_int_equal(fn, entered_fn);
    leave_count++;
    return result;
}

int gwi_virt_lacks(unsigned fn)
{
    lacking_fn = fn;
    lacks_count++;
    return CUDA_ERROR_NOT_SUPPORTED;
}

int gwi_virt_cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
    *dptr = 0x1000 + bytesize;
    return CUDA_SUCCESS;
}

int gwi_virt_cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount)
{
    return dst == 1 && src == 2 && ByteCount == 3 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static int begin(void **state)
{
    enter_answer = lacks_count = leave_count = 0;
    return 0;
}

GW_TEST_WITH(what_is_there_is_called, begin, NULL)
{
    CUdeviceptr at = 0;
    assert_int_equal(cuMemAlloc(&at, 16), CUDA_SUCCESS); /* a macro: calls cuMemAlloc_v2 */
    assert_int_equal(at, 0x1010);
    assert_int_equal(entered_fn, GW_FN_cuMemAlloc_v2);
    assert_int_equal(lacks_count, 0);
    assert_int_equal(leave_count, 1);
}

GW_TEST_WITH(a_per_thread_variant_calls_the_plain_one, begin, NULL)
{
    assert_int_equal(cuMemcpy_ptds(1, 2, 3), CUDA_SUCCESS);
    assert_int_equal(entered_fn, GW_FN_cuMemcpy_ptds);
    assert_true(gw_api_fns[entered_fn].flags & GW_API_PER_THREAD);
}

#undef cuMemAlloc /* from here on, this name is the exported symbol: the old function with 32-bit sizes */

GW_TEST_WITH(what_is_not_there_says_so, begin, NULL)
{
    CUdeviceptr_v1 at = 7;
    assert_int_equal(cuMemAlloc(&at, 1), CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(lacking_fn, GW_FN_cuMemAlloc);
    assert_int_equal(cuMemGetAddressRange_v2(NULL, NULL, at), CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(lacks_count, 2);
    assert_int_equal(leave_count, 2);
}

GW_TEST_WITH(the_door_may_answer, begin, NULL)
{
    CUdeviceptr at = 7;
    enter_answer = CUDA_ERROR_NOT_INITIALIZED;
    assert_int_equal(cuMemAlloc_v2(&at, 16), CUDA_ERROR_NOT_INITIALIZED);
    assert_int_equal(at, 7);
    assert_int_equal(cuMemFree(at), CUDA_ERROR_NOT_INITIALIZED);
    assert_int_equal(lacks_count + leave_count, 0);
}

GW_TEST_MAIN(NULL, NULL)
