/* Render comparisons of runs as text for people and as JSON for programs. The rules of gw_render.h apply. */
#ifndef GW_RENDER_COMPARE_H
#define GW_RENDER_COMPARE_H

#include "gw_compare.h"
#include "gw_text.h"

/* Add the comparison of `good` and `bad` to `text`, for people. Long lists of differences are cut. */
void gw_render_comparison_text(const gw_comparison *comparison, gw_portrait *good, gw_portrait *bad, bool colour,
                               gw_text *text);

/* Add the comparison to `text` as one JSON object and a newline (docs/json-schema.md). Returns GW_OK, or GW_NOMEM
 * with `text` unchanged. */
GW_MUST_CHECK gw_status gw_render_comparison_json(const gw_comparison *comparison, gw_portrait *good, gw_portrait *bad,
                                                  gw_text *text, gw_error *err);

#endif
