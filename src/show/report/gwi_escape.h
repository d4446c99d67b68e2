/* Writes text and numbers from recordings into a page. Everything that a recording contains may be hostile. */
#ifndef GWI_ESCAPE_H
#define GWI_ESCAPE_H

#include "gw_text.h"

#include <stdint.h>

/* The largest whole number that JavaScript stores exactly. */
#define GWI_JS_MAX ((uint64_t)1 << 53)

/* Append `string` as HTML text or as the value of a quoted attribute. Control characters and invalid UTF-8 become '?'.
 * NULL: append nothing. */
void gwi_html(gw_text *page, const char *string);
/* Like gwi_html(), but if the string has more than `chars_max` characters, cut out the middle: "at::nat…(float*)". The
 * whole string is then in the tooltip (`title`) of a <span>. */
void gwi_html_cut(gw_text *page, const char *string, unsigned chars_max);
/* Append `string` as plain text, cut like gwi_html_cut() but without the <span>. */
void gwi_cut(gw_text *text, const char *string, unsigned chars_max);
/* Append JSON that goes into a <script> element. '<' becomes \u003c, so that no string can end the element. */
void gwi_script_json(gw_text *page, const char *json);

/* Append a size: "2.39 GiB". */
void gwi_bytes(gw_text *page, uint64_t bytes);
/* Append a time since the run began, or a duration: "0.118 s", "7.02 s", "41.2 s", "12 min 05 s", "3 h 02 min". */
void gwi_time(gw_text *page, uint64_t ns);

/* Return a + b, or UINT64_MAX if the sum is larger. */
static inline uint64_t gwi_sum(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* Return a * b, or UINT64_MAX if the product is larger. */
static inline uint64_t gwi_product(uint64_t a, uint64_t b)
{
    return b != 0 && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

/* Return a number that JavaScript can store exactly. */
static inline uint64_t gwi_js(uint64_t number)
{
    return number < GWI_JS_MAX ? number : GWI_JS_MAX;
}

#endif
