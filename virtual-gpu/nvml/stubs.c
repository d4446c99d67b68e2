/* Every name that a real library exports; those without a function of their own answer that the card lacks it. These
 * are weak, and know nothing of each other's parameters. */
__attribute__((visibility("hidden"))) int gwi_nvml_lacks(void);

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

#define STUB(symbol)                                                                                                   \
    __attribute__((weak, visibility("default"))) int symbol(void)                                                      \
    {                                                                                                                  \
        return gwi_nvml_lacks();                                                                                       \
    }
#include "nvml_stubs.inc"
