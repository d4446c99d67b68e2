/* Recognises the CUDA libraries among the files of a process or machine: kind, origin and version, and which of them
 * conflict.
 *
 * No library is loaded and none of its code runs. Each version has a source, because file names are unreliable: a file
 * called libcudnn.so.9 may be any version 9. */
#ifndef GW_LIBS_H
#define GW_LIBS_H

#include "gw_status.h"
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
    X(OTHER, "other", "a folder of its own")                                                                           \
    X(SYSTEM, "system", "the system's folders")                                                                        \
    X(TOOLKIT, "toolkit", "a CUDA toolkit")                                                                            \
    X(WHEEL, "wheel", "a Python package")                                                                              \
    X(CONDA, "conda", "a conda environment")                                                                           \
    X(STUBS, "stubs", "a toolkit's stubs, which only serve to link")                                                   \
    X(COMPAT, "compat", "a forward-compatibility package")

typedef enum gw_library_place {
#define GW_X(name, word, text) GW_PLACE_##name,
    GW_LIBRARY_PLACES(GW_X)
#undef GW_X
        GW_PLACE_COUNT
} gw_library_place;

typedef enum gw_version_from {
    GW_VERSION_UNKNOWN,
    GW_VERSION_FROM_NAME,    /* libcudart.so.12.4.127 */
    GW_VERSION_FROM_SONAME,  /* only the major version */
    GW_VERSION_FROM_PACKAGE, /* from the Python package that contains it */
    GW_VERSION_FROM_CONTENT  /* from a string inside the file */
} gw_version_from;

const char *gw_library_kind_text(gw_library_kind kind);     /* "cudnn" */
const char *gw_library_place_text(gw_library_place place);  /* "wheel" */
const char *gw_library_place_words(gw_library_place place); /* "a Python package" */
const char *gw_version_from_text(gw_version_from from);     /* "file name" */

enum { GW_LIBRARY_PART_MAX = 32 };
typedef struct gw_library {
    gw_library_kind kind;
    gw_library_place place;
    char part[GW_LIBRARY_PART_MAX]; /* sub-library of cuDNN: "cnn_infer", "graph"; "" for the library itself */
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

/* Writes "9.1.0.70", "9.x" if only the first number is known, or "?" if unknown. */
char *gw_library_version_text(char out[GW_VERSION_TEXT_MAX], const gw_library *library);

/* Fill in what the path shows. Returns false if it is none of the libraries above; *ret_library is then unchanged.
 * The path is copied; it is NULL if out of memory. */
bool gw_library_of_path(const char *path, gw_library *ret_library);
/* Read the version of the Python package that contains the file, if the path did not show all of it. `root` is
 * prefixed to the path: "" is this machine. Reads a few directories and opens no file. */
void gw_library_ask_package(const char *root, gw_library *library);
/* Read the SONAME, and the version from the content for libraries that contain it. Reads headers and some read-only
 * data. A file that is not an ELF file leaves the library unchanged. */
void gw_library_read(const char *root, gw_library *library);
void gw_library_free(gw_library *library); /* frees its strings */

/* Add a library; the list takes ownership. A path is not added twice. Returns false if it was not added (then it is
 * freed). */
bool gw_libraries_add(gw_libraries *list, gw_library *library);
/* Free all libraries. The list is empty afterwards. */
void gw_libraries_free(gw_libraries *list);
/* The first library of a kind that is not a part. NULL: none. */
const gw_library *gw_libraries_find(const gw_libraries *list, gw_library_kind kind);

/* Conflicts among the libraries of ONE process. */
typedef enum gw_clash_kind {
    GW_CLASH_CUDNN_VERSIONS, /* parts of cuDNN with different versions */
    GW_CLASH_CUDNN_FOLDERS,  /* parts of cuDNN from different folders, with equal or unknown versions */
    GW_CLASH_CUBLAS_FOLDERS, /* cuBLAS and cuBLASLt, which belong together, from different folders */
    GW_CLASH_COPIES,         /* two copies of one library with the same major version in different folders */
    GW_CLASH_STUB,           /* a stub in place of a real library (`b` is the same library) */
    GW_CLASH_DRIVERS         /* two copies of the driver */
} gw_clash_kind;
typedef struct gw_clash {
    gw_clash_kind kind;
    const gw_library *a, *b; /* borrowed from the list */
} gw_clash;
/* Find conflicts, at most one of each kind and library. Returns their number, at most `room`. */
size_t gw_libraries_clashes(const gw_libraries *list, gw_clash *clash, size_t room);

/* Convert a library to one line and back: the recording's fact "library" (docs/recording-format.md). */
enum { GW_LIBRARY_LINE_MAX = 4400 };
char *gw_library_to_line(char out[GW_LIBRARY_LINE_MAX], const gw_library *library);
bool gw_library_from_line(const char *line, gw_library *ret_library);

#endif
