/* Reads and writes kernelspecs as JSON, for `gpuwhy jupyter` (jupyter_json.c). */
#ifndef GWI_JUPYTER_H
#define GWI_JUPYTER_H

#include "gw_place.h"
#include "gw_text.h"

#include <stdbool.h>

/* A Python program that prints one line of JSON about its interpreter: the parameter `answer` of the functions
 * below. */
extern const char *const gwi_jupyter_question;

typedef struct gwi_kernelspec {
    const char *gpuwhy;       /* path of the gpuwhy program */
    const char *script;       /* path of gpuwhy_kernel.py */
    const char *display_name; /* NULL: the default name */
    const char *folder;       /* of --folder, for `gpuwhy run`; NULL: none */
    char *const *run_options; /* further options for `gpuwhy run` */
    int run_option_count;
} gwi_kernelspec;

/* Return the interpreter's sys.prefix in `out`. GW_USAGE: `answer` is not the output of gwi_jupyter_question. */
GW_MUST_CHECK gw_status gwi_jupyter_prefix(const char *answer, gw_path out, gw_error *err);

/* Write a kernel.json for the interpreter that printed `answer`. GW_MISSING: it cannot import ipykernel. GW_USAGE:
 * `answer` is invalid. */
GW_MUST_CHECK gw_status gwi_jupyter_spec(const char *answer, const gwi_kernelspec *spec, gw_text *text, gw_error *err);

/* Contents of an existing kernel.json: whether gpuwhy wrote the file, and which programs it starts. */
typedef struct gwi_kernel_found {
    bool is_ours;
    gw_path gpuwhy, python;
} gwi_kernel_found;
/* Read the kernel.json at `path`. GW_MISSING: the file does not exist. GW_CORRUPT: it is not a kernelspec. */
GW_MUST_CHECK gw_status gwi_jupyter_read(const char *path, gwi_kernel_found *ret_found, gw_error *err);

#endif
