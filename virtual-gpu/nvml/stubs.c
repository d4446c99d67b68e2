/* A stub for every name that a real library exports. A stub returns "not supported". It is weak, so that a real
 * implementation overrides it. Its declaration has no parameters. */
__attribute__((visibility("hidden"))) int gwi_nvml_lacks(void);

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

#define STUB(symbol)                                                                                                   \
    __attribute__((weak, visibility("default"))) int symbol(void)                                                      \
    {                                                                                                                  \
        return gwi_nvml_lacks();                                                                                       \
    }
#include "nvml_stubs.inc"
