/* `gpuwhy jupyter`: the kernelspec as JSON (jupyter_json.c). */
#ifndef GWI_JUPYTER_H
#define GWI_JUPYTER_H

#include "gw_place.h"
#include "gw_text.h"

#include <stdbool.h>

/* A Python program that prints one line of JSON about its interpreter. */
extern const char *const gwi_jupyter_question;

typedef struct gwi_kernelspec {
    const char *gpuwhy;       /* our own program */
    const char *script;       /* gpuwhy_kernel.py */
    const char *display_name; /* NULL: the default name */
    char *const *run_options; /* options for `gpuwhy run` */
    int run_option_count;
} gwi_kernelspec;

/* Find sys.prefix in `answer`. GW_USAGE: it is not an answer to the question. */
GW_MUST_CHECK gw_status gwi_jupyter_prefix(const char *answer, gw_path out, gw_error *err);

/* Add kernel.json for the Python that gave `answer`. GW_MISSING: it has no ipykernel. GW_USAGE: it is not an answer. */
GW_MUST_CHECK gw_status gwi_jupyter_spec(const char *answer, const gwi_kernelspec *spec, gw_text *text, gw_error *err);

/* An existing kernel.json: whether gpuwhy wrote it, and which programs it starts. GW_MISSING: there is none.
 * GW_CORRUPT: it is not a kernelspec. */
typedef struct gwi_kernel_found {
    bool is_ours;
    gw_path gpuwhy, python;
} gwi_kernel_found;
GW_MUST_CHECK gw_status gwi_jupyter_read(const char *path, gwi_kernel_found *ret_found, gw_error *err);

#endif
