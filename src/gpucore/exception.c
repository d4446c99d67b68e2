/* The exceptions by number: CUDBGException_t of NVIDIA's cudadebugger.h, and what the driver answers after each. 700
 * for an overflown stack of calls was measured; where nothing was, the result is the one whose description fits. */
#include "gw_gpucore.h"

#include <stdio.h>

typedef struct exception {
    const char *name;
    uint16_t result;
} exception;

enum {
    ILLEGAL_ADDRESS = 700,
    ASSERT = 710,
    STACK = 714,
    ILLEGAL_INSTRUCTION = 715,
    MISALIGNED = 716,
    ADDRESS_SPACE = 717,
    INVALID_PC = 718,
    UNSPECIFIED = 719,
    TENSOR_LEAK = 721
};

static const exception exceptions[] = {
    [1] = {"LANE_ILLEGAL_ADDRESS", ILLEGAL_ADDRESS},
    [2] = {"LANE_USER_STACK_OVERFLOW", ILLEGAL_ADDRESS},
    [3] = {"DEVICE_HARDWARE_STACK_OVERFLOW", STACK},
    [4] = {"WARP_ILLEGAL_INSTRUCTION", ILLEGAL_INSTRUCTION},
    [5] = {"WARP_OUT_OF_RANGE_ADDRESS", ILLEGAL_ADDRESS},
    [6] = {"WARP_MISALIGNED_ADDRESS", MISALIGNED},
    [7] = {"WARP_INVALID_ADDRESS_SPACE", ADDRESS_SPACE},
    [8] = {"WARP_INVALID_PC", INVALID_PC},
    [9] = {"WARP_HARDWARE_STACK_OVERFLOW", STACK},
    [10] = {"DEVICE_ILLEGAL_ADDRESS", ILLEGAL_ADDRESS},
    [11] = {"LANE_MISALIGNED_ADDRESS", MISALIGNED},
    [12] = {"WARP_ASSERT", ASSERT},
    [13] = {"LANE_SYSCALL_ERROR", UNSPECIFIED},
    [14] = {"WARP_ILLEGAL_ADDRESS", ILLEGAL_ADDRESS},
    [15] = {"LANE_NONMIGRATABLE_ATOMSYS", UNSPECIFIED},
    [16] = {"LANE_INVALID_ATOMSYS", UNSPECIFIED},
    [17] = {"CLUSTER_OUT_OF_RANGE_ADDRESS", ILLEGAL_ADDRESS},
    [18] = {"CLUSTER_BLOCK_NOT_PRESENT", UNSPECIFIED},
    [19] = {"WARP_STACK_CANARY", UNSPECIFIED},
    [20] = {"WARP_TMEM_ACCESS_CHECK", UNSPECIFIED},
    [21] = {"WARP_TMEM_LEAK", TENSOR_LEAK},
    [22] = {"WARP_CALL_REQUIRES_NEWER_DRIVER", UNSPECIFIED},
    [23] = {"WARP_MISALIGNED_PC", INVALID_PC},
    [24] = {"WARP_PC_OVERFLOW", INVALID_PC},
    [25] = {"WARP_MISALIGNED_REG", ILLEGAL_INSTRUCTION},
    [26] = {"WARP_ILLEGAL_INSTR_ENCODING", ILLEGAL_INSTRUCTION},
    [27] = {"WARP_ILLEGAL_INSTR_PARAM", ILLEGAL_INSTRUCTION},
    [28] = {"WARP_OUT_OF_RANGE_REGISTER", ILLEGAL_INSTRUCTION},
    [29] = {"WARP_INVALID_CONST_ADDR_LDC", ILLEGAL_ADDRESS},
    [30] = {"WARP_MMU_FAULT", ILLEGAL_ADDRESS},
    [31] = {"WARP_ARRIVE", UNSPECIFIED},
    [32] = {"CLUSTER_POISON", UNSPECIFIED},
    [33] = {"WARP_API_STACK_ERROR", STACK},
    [34] = {"WARP_BLOCK_NOT_PRESENT", UNSPECIFIED},
    [35] = {"WARP_USER_STACK_OVERFLOW", ILLEGAL_ADDRESS},
    [36] = {"TMA_SYSCALL", UNSPECIFIED},
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
    return number < EXCEPTION_COUNT && exceptions[number].name != NULL ? exceptions[number].result : UNSPECIFIED;
}
