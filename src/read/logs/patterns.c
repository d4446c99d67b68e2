/* The table of signs, and the literals of their patterns as a database of Hyperscan. */
#include "gw_cuda_results.h"
#include "gw_regression_words.h"
#include "gwi_logs.h"

const gwi_sign gwi_signs[GW_SIGN_COUNT] = {
#define GWI_SIGN(name, kind, pattern) {GW_SIGN_##kind, pattern},
#include "signs.def"
#undef GWI_SIGN
};

#if GW_HAVE_MATCHER

#include <hs/hs.h>
#include <stdlib.h>
#include <string.h>

typedef struct literal_list {
    gwi_literals *of; /* indexed by sign */
    const char *text[GW_SIGN_COUNT * GWI_LITERALS_MAX];
    size_t bytes[GW_SIGN_COUNT * GWI_LITERALS_MAX];
    unsigned flags[GW_SIGN_COUNT * GWI_LITERALS_MAX], id[GW_SIGN_COUNT * GWI_LITERALS_MAX];
    unsigned count;
} literal_list;

static void list_literals(literal_list *list)
{
    for (gw_sign sign = 0; sign < GW_SIGN_COUNT; sign++) {
        if (gwi_signs[sign].kind == GW_SIGN_NEAR)
            continue;
        gwi_literals_find(gwi_signs[sign].pattern, &list->of[sign]);
        for (size_t i = 0; i < list->of[sign].count; i++) {
            list->text[list->count] = list->of[sign].text[i];
            list->bytes[list->count] = strlen(list->of[sign].text[i]);
            list->id[list->count++] = (unsigned)sign;
        }
    }
}

gw_status gwi_patterns_compile(const hs_platform_info_t *platform, hs_database_t **ret_database, gw_error *err)
{
    gw_status st = GW_OK;
    hs_compile_error_t *wrong = NULL;
    literal_list *list = calloc(1, sizeof *list);
    if (list == NULL || (list->of = calloc(GW_SIGN_COUNT, sizeof *list->of)) == NULL) {
        free(list);
        return gw_fail(err, GW_NOMEM, "read logs");
    }
    list_literals(list);
    if (hs_compile_lit_multi(list->text, list->flags, list->id, list->bytes, list->count, HS_MODE_BLOCK, platform,
                             ret_database, &wrong) != HS_SUCCESS) {
        st = gw_fail(err, GW_UNSUPPORTED, "the matcher refuses its table: %s", wrong->message);
        hs_free_compile_error(wrong);
    }
    free(list->of);
    free(list);
    return st;
}

#endif
