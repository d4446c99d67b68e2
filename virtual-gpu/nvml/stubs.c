/* A stub for every name that a real library exports; it returns "not supported". Stubs are weak and without parameters,
 * so real implementations override them. */
__attribute__((visibility("hidden"))) int gwi_nvml_lacks(void);

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

#define STUB(symbol)                                                                                                   \
    __attribute__((weak, visibility("default"))) int symbol(void)                                                      \
    {                                                                                                                  \
        return gwi_nvml_lacks();                                                                                       \
    }
#include "nvml_stubs.inc"
