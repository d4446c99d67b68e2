/* `gpuwhy jupyter`: the kernelspec, as JSON (jupyter_json.c; jupyter_json_none.c in a build without json-c). */
#ifndef GWI_JUPYTER_H
#define GWI_JUPYTER_H

#include "gw_place.h"
#include "gw_text.h"

#include <stdbool.h>

/* What a Python says about itself: the program of gwi_jupyter_question, run by it, prints one line of JSON. */
extern const char *const gwi_jupyter_question;

typedef struct gwi_kernelspec {
    const char *gpuwhy;       /* our own program */
    const char *script;       /* gpuwhy_kernel.py */
    const char *display_name; /* NULL: the standard one */
    char *const *run_options; /* for `gpuwhy run` */
    int run_option_count;
} gwi_kernelspec;

/* The sys.prefix in `answer`. GW_USAGE: it is no answer. */
GW_MUST_CHECK gw_status gwi_jupyter_prefix(const char *answer, gw_path out, gw_error *err);

/* Add kernel.json for the Python that gave `answer`. GW_MISSING: it has no ipykernel; GW_USAGE: it is no answer. */
GW_MUST_CHECK gw_status gwi_jupyter_spec(const char *answer, const gwi_kernelspec *spec, gw_text *text, gw_error *err);

/* A kernel.json that is there: whether gpuwhy wrote it, and the programs it starts. GW_MISSING: there is none;
 * GW_CORRUPT: it cannot be read as a kernelspec. */
typedef struct gwi_kernel_found {
    bool is_ours;
    gw_path gpuwhy, python;
} gwi_kernel_found;
GW_MUST_CHECK gw_status gwi_jupyter_read(const char *path, gwi_kernel_found *ret_found, gw_error *err);

#endif
