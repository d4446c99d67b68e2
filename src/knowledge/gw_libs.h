/* The CUDA libraries among the files of a process or of a machine: what each is, where it comes from, which version,
 * and which of them do not go together.
 *
 * Nothing is loaded and no code of the libraries runs. A version says where it was found, because names lie: a file
 * called libcudnn.so.9 may be any 9. */
#ifndef GW_LIBS_H
#define GW_LIBS_H

#include "gw_status.h"
#include "gw_version.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(name, word, beginning of the file name, beginning of the package's name in Python) */
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

/* X(name, word, in a sentence) */
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
    GW_VERSION_FROM_SONAME,  /* the major version alone */
    GW_VERSION_FROM_PACKAGE, /* the package that it lies in */
    GW_VERSION_FROM_CONTENT  /* a text inside the file */
} gw_version_from;

const char *gw_library_kind_text(gw_library_kind kind);     /* "cudnn" */
const char *gw_library_place_text(gw_library_place place);  /* "wheel" */
const char *gw_library_place_words(gw_library_place place); /* "a Python package" */
const char *gw_version_from_text(gw_version_from from);     /* "file name" */

enum { GW_LIBRARY_PART_MAX = 32 };
typedef struct gw_library {
    gw_library_kind kind;
    gw_library_place place;
    char part[GW_LIBRARY_PART_MAX]; /* cuDNN's sub-library: "cnn_infer", "graph"; "" the library itself */
    gw_version version;             /* 0: not known */
    gw_version_from from;
    bool is_major_only; /* of the version no more than the first number is known */
    char *path;         /* owned */
    char *soname;       /* owned; NULL: not read */
} gw_library;

typedef struct gw_libraries {
    gw_library *item; /* owned */
    size_t count, capacity;
} gw_libraries;

/* "9.1.0.70"; "9.x" where only the first number is known; "?" where none is. */
char *gw_library_version_text(char out[GW_VERSION_TEXT_MAX], const gw_library *library);

/* What the path alone says. False: none of the libraries above; *ret is then untouched. The path is copied: NULL
 * without memory. */
bool gw_library_of_path(const char *path, gw_library *ret_library);
/* The version of the Python package that the file lies in, where the path did not say all of it. `root` stands before
 * the path: "" is this machine. A few directory reads, no file is opened. */
void gw_library_ask_package(const char *root, gw_library *library);
/* SONAME, and a version out of the content where one is kept there. Reads headers and some read-only data; a file that
 * is no ELF file leaves the library as it is. Without elfutils nothing is read. */
void gw_library_read(const char *root, gw_library *library);
void gw_library_free(gw_library *library); /* its strings */

/* Takes the library over; one with the same path is not added twice. False: it was not (then it is freed). */
bool gw_libraries_add(gw_libraries *list, gw_library *library);
void gw_libraries_free(gw_libraries *list);
/* The first of a kind with no part; NULL: none. */
const gw_library *gw_libraries_find(const gw_libraries *list, gw_library_kind kind);

/* What does not go together among libraries of ONE process. */
typedef enum gw_clash_kind {
    GW_CLASH_CUDNN_VERSIONS, /* parts of cuDNN with different versions */
    GW_CLASH_CUDNN_FOLDERS,  /* parts of cuDNN out of different folders, versions equal or not known */
    GW_CLASH_CUBLAS_FOLDERS, /* cuBLAS and its other half, cuBLASLt, out of different folders */
    GW_CLASH_COPIES,         /* one library twice: other folders, same major version */
    GW_CLASH_STUB,           /* a stub that stands where a real library should (b is that same one) */
    GW_CLASH_DRIVERS         /* two drivers */
} gw_clash_kind;
typedef struct gw_clash {
    gw_clash_kind kind;
    const gw_library *a, *b; /* borrowed from the list */
} gw_clash;
/* At most one of each kind and library. Returns how many; never more than `room`. */
size_t gw_libraries_clashes(const gw_libraries *list, gw_clash *clash, size_t room);

/* One line that holds a library: the recording's fact "library" (docs/recording-format.md), and back. */
enum { GW_LIBRARY_LINE_MAX = 4400 };
char *gw_library_to_line(char out[GW_LIBRARY_LINE_MAX], const gw_library *library);
bool gw_library_from_line(const char *line, gw_library *ret_library);

#endif
