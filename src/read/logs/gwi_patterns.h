/* Part of the matcher, only for builds with Hyperscan. */
#ifndef GWI_PATTERNS_H
#define GWI_PATTERNS_H

#include "gw_status.h"

#include <hs/hs.h>

/* Compile the literals of all signs, for this processor if `platform` is NULL. Errors: GW_NOMEM, GW_UNSUPPORTED. */
GW_MUST_CHECK gw_status gwi_patterns_compile(const hs_platform_info_t *platform, hs_database_t **ret_database,
                                             gw_error *err);

#endif
