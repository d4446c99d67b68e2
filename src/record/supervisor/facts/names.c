/* Resolves the addresses of call sites to names, and identifies the source files, while these files still exist. */
#include "gwi_run.h"

#include "gw_fact.h"
#include "gw_sites.h"

#include <inttypes.h>

static void record_source(void *user, const char *file, const char *sha256)
{
    gwi_record_fact(user, gw_fact_key_text(GW_FACT_SOURCE), "sha256=%s path=%s", sha256, file);
}

void gwi_record_names(gwi_record *record)
{
    gw_error err;
    size_t count, named = 0;
    if (record->writer == NULL || record->sites == NULL || gw_sites_count(record->sites) == 0)
        return;
    uint64_t begun_ns = gwi_record_now_ns(record);
    if (gw_sites_resolve(record->sites, GW_NAMES_SOFT_MS, GW_NAMES_HARD_MS, &err) != GW_OK)
        gwi_record_fact(record, "names.failed", "%s", err.text);
    const gw_symbol *symbols = gw_sites_symbols(record->sites, &count);
    uint64_t took_ns = gwi_record_now_ns(record) - begun_ns;
    for (size_t i = 0; i < count; i++) {
        gw_item item = {.kind = GW_ITEM_SYMBOL, .t_ns = begun_ns + took_ns};
        item.symbol.path = symbols[i].path;
        item.symbol.build_id = symbols[i].build_id;
        item.symbol.address = symbols[i].address;
        item.symbol.state = symbols[i].state;
        item.symbol.frame = symbols[i].frame;
        item.symbol.count = symbols[i].count;
        gwi_record_put(record, &item);
        named += symbols[i].count > 0;
    }
    gwi_record_fact(record, "names", "%" PRIu32 " call sites, %zu addresses, %zu of them named, in %.1f ms",
                    gw_sites_count(record->sites), count, named, (double)took_ns / 1e6);
    gw_sites_sources(record->sites, record_source, record);
}
