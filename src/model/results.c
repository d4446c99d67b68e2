/* The driver's results by name, as far as a verdict may have to speak of them. */
#include "gw_model_facts.h"

static const struct {
    uint16_t result;
    const char *name;
} results[] = {{0, "CUDA_SUCCESS"},
               {1, "CUDA_ERROR_INVALID_VALUE"},
               {2, "CUDA_ERROR_OUT_OF_MEMORY"},
               {3, "CUDA_ERROR_NOT_INITIALIZED"},
               {4, "CUDA_ERROR_DEINITIALIZED"},
               {34, "CUDA_ERROR_STUB_LIBRARY"},
               {46, "CUDA_ERROR_DEVICE_UNAVAILABLE"},
               {100, "CUDA_ERROR_NO_DEVICE"},
               {101, "CUDA_ERROR_INVALID_DEVICE"},
               {200, "CUDA_ERROR_INVALID_IMAGE"},
               {201, "CUDA_ERROR_INVALID_CONTEXT"},
               {205, "CUDA_ERROR_MAP_FAILED"},
               {206, "CUDA_ERROR_UNMAP_FAILED"},
               {209, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
               {214, "CUDA_ERROR_ECC_UNCORRECTABLE"},
               {217, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED"},
               {218, "CUDA_ERROR_INVALID_PTX"},
               {220, "CUDA_ERROR_NVLINK_UNCORRECTABLE"},
               {221, "CUDA_ERROR_JIT_COMPILER_NOT_FOUND"},
               {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"},
               {226, "CUDA_ERROR_CONTAINED"},
               {304, "CUDA_ERROR_OPERATING_SYSTEM"},
               {400, "CUDA_ERROR_INVALID_HANDLE"},
               {500, "CUDA_ERROR_NOT_FOUND"},
               {600, "CUDA_ERROR_NOT_READY"},
               {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
               {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"},
               {702, "CUDA_ERROR_LAUNCH_TIMEOUT"},
               {704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED"},
               {705, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED"},
               {708, "CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE"},
               {709, "CUDA_ERROR_CONTEXT_IS_DESTROYED"},
               {710, "CUDA_ERROR_ASSERT"},
               {712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"},
               {713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED"},
               {714, "CUDA_ERROR_HARDWARE_STACK_ERROR"},
               {715, "CUDA_ERROR_ILLEGAL_INSTRUCTION"},
               {716, "CUDA_ERROR_MISALIGNED_ADDRESS"},
               {717, "CUDA_ERROR_INVALID_ADDRESS_SPACE"},
               {718, "CUDA_ERROR_INVALID_PC"},
               {719, "CUDA_ERROR_LAUNCH_FAILED"},
               {720, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE"},
               {721, "CUDA_ERROR_TENSOR_MEMORY_LEAK"},
               {801, "CUDA_ERROR_NOT_SUPPORTED"},
               {802, "CUDA_ERROR_SYSTEM_NOT_READY"},
               {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"},
               {804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE"},
               {810, "CUDA_ERROR_MPS_CLIENT_TERMINATED"},
               {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
               {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
               {999, "CUDA_ERROR_UNKNOWN"}};

const char *gw_result_name(uint16_t result)
{
    for (unsigned i = 0; i < sizeof results / sizeof results[0]; i++) {
        if (results[i].result == result)
            return results[i].name;
    }
    return "CUDA_ERROR_?";
}
