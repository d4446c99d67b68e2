/* What stands in for elf.c in a build without elfutils. */
#include "gwi_inner.h"

bool gw_symbols_supported(void)
{
    return false;
}

void gwi_symbols_read(const gw_symbol *symbols, size_t count, const uint8_t *avoid, uint64_t begun_realtime_ns,
                      uint64_t deadline_ns, const gwi_listener *listener)
{
    (void)symbols;
    (void)avoid;
    (void)begun_realtime_ns;
    (void)deadline_ns;
    for (size_t i = 0; i < count; i++)
        listener->found(listener->user, i, GW_SYMBOL_UNSUPPORTED, NULL, 0);
}
