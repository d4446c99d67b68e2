/* Lists the GPU exceptions (CUDBGException_t of NVIDIA's cudadebugger.h), and the result of driver calls after each.
 * The result 700 after a call stack overflow was measured on a GPU. Results that were not measured have the best
 * matching description. */
#include "gw_gpucore.h"

#include "gw_cuda_results.h"

#include <stdio.h>

typedef struct exception {
    const char *name;
    uint16_t result;
} exception;

static const exception exceptions[] = {
    [1] = {"LANE_ILLEGAL_ADDRESS", CUDA_ERROR_ILLEGAL_ADDRESS},
    [2] = {"LANE_USER_STACK_OVERFLOW", CUDA_ERROR_ILLEGAL_ADDRESS},
    [3] = {"DEVICE_HARDWARE_STACK_OVERFLOW", CUDA_ERROR_HARDWARE_STACK_ERROR},
    [4] = {"WARP_ILLEGAL_INSTRUCTION", CUDA_ERROR_ILLEGAL_INSTRUCTION},
    [5] = {"WARP_OUT_OF_RANGE_ADDRESS", CUDA_ERROR_ILLEGAL_ADDRESS},
    [6] = {"WARP_MISALIGNED_ADDRESS", CUDA_ERROR_MISALIGNED_ADDRESS},
    [7] = {"WARP_INVALID_ADDRESS_SPACE", CUDA_ERROR_INVALID_ADDRESS_SPACE},
    [8] = {"WARP_INVALID_PC", CUDA_ERROR_INVALID_PC},
    [9] = {"WARP_HARDWARE_STACK_OVERFLOW", CUDA_ERROR_HARDWARE_STACK_ERROR},
    [10] = {"DEVICE_ILLEGAL_ADDRESS", CUDA_ERROR_ILLEGAL_ADDRESS},
    [11] = {"LANE_MISALIGNED_ADDRESS", CUDA_ERROR_MISALIGNED_ADDRESS},
    [12] = {"WARP_ASSERT", CUDA_ERROR_ASSERT},
    [13] = {"LANE_SYSCALL_ERROR", CUDA_ERROR_LAUNCH_FAILED},
    [14] = {"WARP_ILLEGAL_ADDRESS", CUDA_ERROR_ILLEGAL_ADDRESS},
    [15] = {"LANE_NONMIGRATABLE_ATOMSYS", CUDA_ERROR_LAUNCH_FAILED},
    [16] = {"LANE_INVALID_ATOMSYS", CUDA_ERROR_LAUNCH_FAILED},
    [17] = {"CLUSTER_OUT_OF_RANGE_ADDRESS", CUDA_ERROR_ILLEGAL_ADDRESS},
    [18] = {"CLUSTER_BLOCK_NOT_PRESENT", CUDA_ERROR_LAUNCH_FAILED},
    [19] = {"WARP_STACK_CANARY", CUDA_ERROR_LAUNCH_FAILED},
    [20] = {"WARP_TMEM_ACCESS_CHECK", CUDA_ERROR_LAUNCH_FAILED},
    [21] = {"WARP_TMEM_LEAK", CUDA_ERROR_TENSOR_MEMORY_LEAK},
    [22] = {"WARP_CALL_REQUIRES_NEWER_DRIVER", CUDA_ERROR_LAUNCH_FAILED},
    [23] = {"WARP_MISALIGNED_PC", CUDA_ERROR_INVALID_PC},
    [24] = {"WARP_PC_OVERFLOW", CUDA_ERROR_INVALID_PC},
    [25] = {"WARP_MISALIGNED_REG", CUDA_ERROR_ILLEGAL_INSTRUCTION},
    [26] = {"WARP_ILLEGAL_INSTR_ENCODING", CUDA_ERROR_ILLEGAL_INSTRUCTION},
    [27] = {"WARP_ILLEGAL_INSTR_PARAM", CUDA_ERROR_ILLEGAL_INSTRUCTION},
    [28] = {"WARP_OUT_OF_RANGE_REGISTER", CUDA_ERROR_ILLEGAL_INSTRUCTION},
    [29] = {"WARP_INVALID_CONST_ADDR_LDC", CUDA_ERROR_ILLEGAL_ADDRESS},
    [30] = {"WARP_MMU_FAULT", CUDA_ERROR_ILLEGAL_ADDRESS},
    [31] = {"WARP_ARRIVE", CUDA_ERROR_LAUNCH_FAILED},
    [32] = {"CLUSTER_POISON", CUDA_ERROR_LAUNCH_FAILED},
    [33] = {"WARP_API_STACK_ERROR", CUDA_ERROR_HARDWARE_STACK_ERROR},
    [34] = {"WARP_BLOCK_NOT_PRESENT", CUDA_ERROR_LAUNCH_FAILED},
    [35] = {"WARP_USER_STACK_OVERFLOW", CUDA_ERROR_ILLEGAL_ADDRESS},
    [36] = {"TMA_SYSCALL", CUDA_ERROR_LAUNCH_FAILED},
};
enum { EXCEPTION_COUNT = sizeof exceptions / sizeof exceptions[0] };

const char *gw_gpucore_exception_name(char out[GW_GPUCORE_NAME_MAX], uint32_t number)
{
    if (number < EXCEPTION_COUNT && exceptions[number].name != NULL)
        return exceptions[number].name;
    snprintf(out, GW_GPUCORE_NAME_MAX, "EXCEPTION_%u", number);
    return out;
}

uint16_t gw_gpucore_exception_result(uint32_t number)
{
    return number < EXCEPTION_COUNT && exceptions[number].name != NULL ? exceptions[number].result
                                                                       : CUDA_ERROR_LAUNCH_FAILED;
}
