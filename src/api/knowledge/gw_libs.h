/* Recognises CUDA libraries among the files of a process or machine: kind, origin and version. Finds libraries that
 * conflict. No library is loaded. The source of each version is recorded, because a file name is not reliable:
 * libcudnn.so.9 may be any version 9.x. */
#ifndef GW_LIBS_H
#define GW_LIBS_H

#include "gw_status.h"
#include "gw_text.h"
#include "gw_version.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(name, word, prefix of the file name, prefix of the Python package's name) */
#define GW_LIBRARIES(X)                                                                                                \
    X(DRIVER, "driver", "libcuda", NULL)                                                                               \
    X(NVML, "nvml", "libnvidia-ml", NULL)                                                                              \
    X(PTX_COMPILER, "ptx-compiler", "libnvidia-ptxjitcompiler", NULL)                                                  \
    X(CUDART, "cudart", "libcudart", "nvidia_cuda_runtime")                                                            \
    X(CUDNN, "cudnn", "libcudnn", "nvidia_cudnn")                                                                      \
    X(CUBLASLT, "cublasLt", "libcublasLt", "nvidia_cublas")                                                            \
    X(CUBLAS, "cublas", "libcublas", "nvidia_cublas")                                                                  \
    X(NCCL, "nccl", "libnccl", "nvidia_nccl")                                                                          \
    X(NVRTC, "nvrtc", "libnvrtc", "nvidia_cuda_nvrtc")

typedef enum gw_library_kind {
#define GW_X(name, word, file, package) GW_LIBRARY_##name,
    GW_LIBRARIES(GW_X)
#undef GW_X
        GW_LIBRARY_KIND_COUNT
} gw_library_kind;

/* X(name, word, words for a sentence) */
#define GW_LIBRARY_PLACES(X)                                                                                           \
    X(OTHER, "other", "a separate folder")                                                                             \
    X(SYSTEM, "system", "a system folder")                                                                             \
    X(TOOLKIT, "toolkit", "a CUDA toolkit")                                                                            \
    X(WHEEL, "wheel", "a Python package")                                                                              \
    X(CONDA, "conda", "a conda environment")                                                                           \
    X(STUBS, "stubs", "a toolkit's stubs folder (only for linking)")                                                   \
    X(COMPAT, "compat", "a forward-compatibility package")

typedef enum gw_library_place {
#define GW_X(name, word, text) GW_PLACE_##name,
    GW_LIBRARY_PLACES(GW_X)
#undef GW_X
        GW_PLACE_COUNT
} gw_library_place;

typedef enum gw_version_from {
    GW_VERSION_UNKNOWN,
    GW_VERSION_FROM_NAME,    /* from a file name such as libcudart.so.12.4.127 */
    GW_VERSION_FROM_SONAME,  /* from a SONAME, which has only the major version */
    GW_VERSION_FROM_PACKAGE, /* from the name of the Python package that contains the file */
    GW_VERSION_FROM_CONTENT  /* from a string in the file's data */
} gw_version_from;

const char *gw_library_kind_text(gw_library_kind kind);     /* such as "cudnn" */
const char *gw_library_place_text(gw_library_place place);  /* such as "wheel" */
const char *gw_library_place_words(gw_library_place place); /* such as "a Python package" */
const char *gw_version_from_text(gw_version_from from);     /* such as "file name" */

enum { GW_LIBRARY_PART_MAX = 32 };
typedef struct gw_library {
    gw_library_kind kind;
    gw_library_place place;
    char part[GW_LIBRARY_PART_MAX]; /* cuDNN sub-library, such as "cnn_infer" or "graph"; "" for the library itself */
    gw_version version;             /* 0: unknown */
    gw_version_from from;
    bool is_major_only; /* only the first number of the version is known */
    char *path;         /* owned */
    char *soname;       /* owned; NULL: not read */
} gw_library;

typedef struct gw_libraries {
    gw_library *item; /* owned */
    size_t count, capacity;
} gw_libraries;

/* Write "9.1.0.70", or "9.x" if only the first number is known, or "?" if the version is unknown. Returns `out`. */
char *gw_library_version_text(char out[GW_VERSION_TEXT_MAX], const gw_library *library);

/* Recognise a library by its path. Returns false and leaves *ret_library unchanged if the path is not one of the
 * libraries above. The path is copied; ret_library->path is NULL if out of memory. */
bool gw_library_of_path(const char *path, gw_library *ret_library);
/* Read the full version, if unknown, from the directory name of the Python package that contains the file. No file is
 * opened. `root` is prepended to the path; "" means this machine. */
void gw_library_ask_package(const char *root, gw_library *library);
/* Return how many bytes of a path decide to which Python package the file belongs: up to the first folder below
 * site-packages or dist-packages. Returns 0 for other files, and for those of NVIDIA's packages, which are libraries.
 */
size_t gw_package_bytes(const char *path);
/* Append name and version of the Python package to which a file belongs: "torch 2.9.0+cu128". The names of its folders
 * decide, or else the package's own list of its modules. Appends nothing if it is unknown. `root` is prepended to the
 * path. */
void gw_package_of_path(const char *root, const char *path, gw_text *ret_package);
/* Read the SONAME from the library's file, and NCCL's full version from a string in it if still unknown. `root` is
 * prepended to the path. If the file is not an ELF file, the library is left unchanged. */
void gw_library_read(const char *root, gw_library *library);
void gw_library_free(gw_library *library); /* frees the library's strings */

/* Add a library to the list and take ownership. Returns false and frees the library if its path is in the list, if the
 * list is full, or if out of memory. A process usually loads a few dozen libraries. */
enum { GW_LIBRARIES_MAX = 1024 };
bool gw_libraries_add(gw_libraries *list, gw_library *library);
/* Free all libraries and empty the list. */
void gw_libraries_free(gw_libraries *list);
/* Return the first library of a kind, ignoring sub-libraries. Returns NULL if there is none. */
const gw_library *gw_libraries_find(const gw_libraries *list, gw_library_kind kind);

/* Conflicts between the libraries of one process. */
typedef enum gw_clash_kind {
    GW_CLASH_CUDNN_VERSIONS, /* sub-libraries of cuDNN have different versions */
    GW_CLASH_CUDNN_FOLDERS,  /* sub-libraries of cuDNN are in different folders; their versions are equal or unknown */
    GW_CLASH_CUBLAS_FOLDERS, /* cuBLAS and cuBLASLt, which belong together, are in different folders */
    GW_CLASH_COPIES,         /* two copies of a library with the same major version are in different folders */
    GW_CLASH_STUB,           /* a stub was loaded in place of the real library; `a` and `b` are both the stub */
    GW_CLASH_DRIVERS         /* two copies of the driver */
} gw_clash_kind;
typedef struct gw_clash {
    gw_clash_kind kind;
    const gw_library *a, *b; /* borrowed from the list */
} gw_clash;
/* Find conflicts between libraries in the list. Each kind of conflict is reported at most once for each kind of
 * library. Returns the number of conflicts, at most `room`. */
size_t gw_libraries_clashes(const gw_libraries *list, gw_clash *clash, size_t room);

/* Append a library to `line` as the text of a fact (gw_fact_library in gw_fact.h). */
void gw_library_to_line(const gw_library *library, gw_text *line);
/* Read a text that gw_library_to_line() wrote. Returns false unless the text has the path of a known library. Release
 * the library with gw_library_free(). */
bool gw_library_from_line(const char *line, gw_library *ret_library);

#endif
