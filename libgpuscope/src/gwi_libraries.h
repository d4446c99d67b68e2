/* The libraries whose handles a scope owns. */
#ifndef GWI_LIBRARIES_H
#define GWI_LIBRARIES_H

#include "gwi_scope.h"

typedef int gwi_create_function(void **ret);
typedef int gwi_destroy_function(void *handle);
typedef int gwi_set_stream_function(void *handle, CUstream stream);
typedef const char *gwi_error_function(int code);

/* A library whose handles scopes create and own. Its fields do not change after it was loaded. */
typedef struct gwi_library {
    gs_source source;
    gs_kind kind;
    const char *variable; /* environment variable that can name another library file */
    const char *files[4]; /* file names for the dynamic loader, newest version first */
    const char *create, *destroy, *set_stream, *error;
    void *handle; /* from dlopen(), never closed */
    gwi_create_function *do_create;
    gwi_destroy_function *do_destroy;
    gwi_set_stream_function *do_set_stream;
    gwi_error_function *do_error;
} gwi_library;

/* Return the library that creates handles of this kind. Returns NULL if `kind` is not a library handle. */
const gwi_library *gwi_library_for(gs_kind kind);
/* Load a library. Returns GS_OK, or GS_NO_LIBRARY with the reason in `why`. */
gs_status gwi_library_load(gs_source source, const gwi_library **ret_library, char *why, size_t why_bytes);
/* Find the function `name` of a library, and store it in the function pointer at `ret_function`. If `name` is NULL,
 * store NULL. Returns false if the library has no such function. */
bool gwi_library_find(void *handle, const char *name, void *ret_function);
/* Return a function of a library. Returns NULL if the library is not loaded or has no such function. */
void *gwi_library_symbol(gs_source source, const char *name);
/* Find the function that releases handles of this kind: in the libraries that the program is linked to, or else in the
 * library of gwi_library_load(). *ret_call is its name. Returns GS_OK, or GS_NO_LIBRARY with the reason in `why`. */
gs_status gwi_library_release(gs_kind kind, gs_release **ret_release, const char **ret_call, char *why,
                              size_t why_bytes);
/* Return the library's text for an error number, as a static string. Returns NULL if the library is not loaded or does
 * not know the number. */
const char *gwi_library_error(gs_source source, int code);
/* Destroy a handle with its library's function, and set *ret_call to the name of this function. Returns the library's
 * error number; 0: success. */
int gwi_library_destroy(gs_kind kind, void *handle, gs_source *ret_source, const char **ret_call);

#endif
