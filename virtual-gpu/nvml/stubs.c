/* A stub for every name that a real library exports. A stub returns "not supported". It is weak, so a real
 * implementation overrides it, and it does not declare the function's parameters. */
__attribute__((visibility("hidden"))) int gwi_nvml_lacks(void);

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

#define STUB(symbol)                                                                                                   \
    __attribute__((weak, visibility("default"))) int symbol(void)                                                      \
    {                                                                                                                  \
        return gwi_nvml_lacks();                                                                                       \
    }
#include "nvml_stubs.inc"
