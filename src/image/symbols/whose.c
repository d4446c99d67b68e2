/* Find the owner of a frame. A table lists the owners of known files and functions. All other frames belong to the
 * user. */
#include "gwi_inner.h"
#include "gwi_sites.h"

#include "gw_text.h"

#include <ctype.h>
#include <fnmatch.h>
#include <string.h>

typedef enum field { MODULE, PATH, FUNCTION } field;

/* The first matching row decides. The patterns are shell patterns whose star also matches slashes. They are matched
 * with:
 * - MODULE: last part of the mapped file's path
 * - PATH: the source file or the mapped file
 * - FUNCTION: the function's name */
static const struct {
    field field;
    gw_whose whose;
    const char *pattern;
} rows[] = {
    {MODULE, GW_WHOSE_RUNTIME, "libgpuwhy*"},
    {PATH, GW_WHOSE_OWN, "*/ipykernel_[0-9]*/[0-9]*.py"}, /* IPython's file names of notebook cells */
    {PATH, GW_WHOSE_RUNTIME, "\\[*"},                     /* [vdso], [vsyscall] */
    /* the C and C++ libraries, and the loader */
    {MODULE, GW_WHOSE_RUNTIME, "libc.so*"},
    {MODULE, GW_WHOSE_RUNTIME, "libc-2.*"},
    {MODULE, GW_WHOSE_RUNTIME, "libm.so*"},
    {MODULE, GW_WHOSE_RUNTIME, "libpthread*"},
    {MODULE, GW_WHOSE_RUNTIME, "libdl.so*"},
    {MODULE, GW_WHOSE_RUNTIME, "librt.so*"},
    {MODULE, GW_WHOSE_RUNTIME, "ld-*"},
    {MODULE, GW_WHOSE_RUNTIME, "libstdc++*"},
    {MODULE, GW_WHOSE_RUNTIME, "libc++*"},
    {MODULE, GW_WHOSE_RUNTIME, "libgcc_s*"},
    {MODULE, GW_WHOSE_RUNTIME, "libgomp*"},
    {MODULE, GW_WHOSE_RUNTIME, "libomp*"},
    {MODULE, GW_WHOSE_RUNTIME, "libiomp*"},
    {MODULE, GW_WHOSE_RUNTIME, "libtbb*"},
    {MODULE, GW_WHOSE_RUNTIME, "libffi*"},
    {MODULE, GW_WHOSE_RUNTIME, "libasan*"},
    {MODULE, GW_WHOSE_RUNTIME, "libtsan*"},
    {MODULE, GW_WHOSE_RUNTIME, "libubsan*"},
    {FUNCTION, GW_WHOSE_RUNTIME, "_start"},
    {FUNCTION, GW_WHOSE_RUNTIME, "__libc_*"},
    {FUNCTION, GW_WHOSE_RUNTIME, "std::*"},
    {FUNCTION, GW_WHOSE_RUNTIME, "__gnu_cxx::*"},
    {FUNCTION, GW_WHOSE_RUNTIME, "core::*"}, /* Rust */
    {FUNCTION, GW_WHOSE_RUNTIME, "alloc::*"},
    {PATH, GW_WHOSE_RUNTIME, "/usr/include/*"},
    {PATH, GW_WHOSE_RUNTIME, "/usr/lib/gcc/*"},
    {PATH, GW_WHOSE_RUNTIME, "*/include/c++/*"},
    {PATH, GW_WHOSE_RUNTIME, "/rustc/*"},
    /* the driver and CUDA's libraries, including statically linked ones */
    {MODULE, GW_WHOSE_RUNTIME, "libcuda.so*"},
    {MODULE, GW_WHOSE_RUNTIME, "libcudart*"},
    {MODULE, GW_WHOSE_RUNTIME, "libcublas*"},
    {MODULE, GW_WHOSE_RUNTIME, "libcudnn*"},
    {MODULE, GW_WHOSE_RUNTIME, "libcufft*"},
    {MODULE, GW_WHOSE_RUNTIME, "libcurand*"},
    {MODULE, GW_WHOSE_RUNTIME, "libcusolver*"},
    {MODULE, GW_WHOSE_RUNTIME, "libcusparse*"},
    {MODULE, GW_WHOSE_RUNTIME, "libcupti*"},
    {MODULE, GW_WHOSE_RUNTIME, "libnccl*"},
    {MODULE, GW_WHOSE_RUNTIME, "libnvrtc*"},
    {MODULE, GW_WHOSE_RUNTIME, "libnvidia*"},
    {MODULE, GW_WHOSE_RUNTIME, "libnvJitLink*"},
    {MODULE, GW_WHOSE_RUNTIME, "libnvToolsExt*"},
    {FUNCTION, GW_WHOSE_RUNTIME, "libcudart_static_*"},
    {FUNCTION, GW_WHOSE_RUNTIME, "__cudart*"},
    {FUNCTION, GW_WHOSE_RUNTIME, "cudart::*"},
    {FUNCTION, GW_WHOSE_RUNTIME, "cuda[A-Z]*"},
    {FUNCTION, GW_WHOSE_RUNTIME, "__device_stub__*"},
    {PATH, GW_WHOSE_RUNTIME, "/usr/local/cuda*/include/*"},
    {PATH, GW_WHOSE_RUNTIME, "/usr/local/cuda*/targets/*"},
    /* programs of `gpuwhy lab`, wherever gpuwhy is installed */
    {PATH, GW_WHOSE_OWN, "*/lib/gpuwhy/lab/*"},
    /* frameworks, by package, library or function name */
    {PATH, GW_WHOSE_FRAMEWORK, "*-packages/torch/*"},
    {PATH, GW_WHOSE_FRAMEWORK, "*-packages/torch[a-z_]*/*"},
    {PATH, GW_WHOSE_FRAMEWORK, "*-packages/functorch/*"},
    {PATH, GW_WHOSE_FRAMEWORK, "*-packages/triton/*"},
    {PATH, GW_WHOSE_FRAMEWORK, "*-packages/jax/*"},
    {PATH, GW_WHOSE_FRAMEWORK, "*-packages/jax[a-z_]*/*"},
    {PATH, GW_WHOSE_FRAMEWORK, "*-packages/tensorflow*/*"},
    {PATH, GW_WHOSE_FRAMEWORK, "*-packages/keras/*"},
    {PATH, GW_WHOSE_FRAMEWORK, "*-packages/tf_keras/*"},
    {PATH, GW_WHOSE_FRAMEWORK, "*-packages/flax/*"},
    {PATH, GW_WHOSE_FRAMEWORK, "*-packages/cupy*/*"},
    {PATH, GW_WHOSE_FRAMEWORK, "*-packages/numba*/*"},
    {PATH, GW_WHOSE_FRAMEWORK, "*-packages/numpy/*"},
    {PATH, GW_WHOSE_FRAMEWORK, "*-packages/nvidia/*"},
    {PATH, GW_WHOSE_FRAMEWORK, "*-packages/*lightning*/*"},
    {PATH, GW_WHOSE_FRAMEWORK, "*-packages/accelerate/*"},
    {PATH, GW_WHOSE_FRAMEWORK, "*-packages/deepspeed/*"},
    {PATH, GW_WHOSE_FRAMEWORK, "*-packages/transformers/*"},
    {PATH, GW_WHOSE_FRAMEWORK, "*/torchinductor_*/*.py"}, /* code that torch.compile generated */
    {PATH, GW_WHOSE_FRAMEWORK, "*/.triton/cache/*"},
    {PATH, GW_WHOSE_FRAMEWORK, "<eval_with_key>*"}, /* code of torch.fx */
    {MODULE, GW_WHOSE_FRAMEWORK, "libtorch*"},
    {MODULE, GW_WHOSE_FRAMEWORK, "libc10*"},
    {MODULE, GW_WHOSE_FRAMEWORK, "libtensorflow*"},
    {MODULE, GW_WHOSE_FRAMEWORK, "xla_*"},
    {FUNCTION, GW_WHOSE_FRAMEWORK, "at::*"},
    {FUNCTION, GW_WHOSE_FRAMEWORK, "c10::*"},
    {FUNCTION, GW_WHOSE_FRAMEWORK, "torch::*"},
    {FUNCTION, GW_WHOSE_FRAMEWORK, "thrust::*"},
    {FUNCTION, GW_WHOSE_FRAMEWORK, "cub::*"},
    {FUNCTION, GW_WHOSE_FRAMEWORK, "pybind11::*"},
    /* all other installed packages */
    {PATH, GW_WHOSE_PACKAGE, "*/site-packages/*"},
    {PATH, GW_WHOSE_PACKAGE, "*/dist-packages/*"},
    /* the interpreter and its standard library */
    {PATH, GW_WHOSE_RUNTIME, "*/lib/python[0-9]*"},
    {PATH, GW_WHOSE_RUNTIME, "*/lib64/python[0-9]*"},
    {PATH, GW_WHOSE_RUNTIME, "<frozen *"},
    {MODULE, GW_WHOSE_RUNTIME, "libpython*"},
    {MODULE, GW_WHOSE_RUNTIME, "python"},
    {MODULE, GW_WHOSE_RUNTIME, "python[23]*"},
    {FUNCTION, GW_WHOSE_RUNTIME, "_PyEval_*"},
    {FUNCTION, GW_WHOSE_RUNTIME, "_PyObject_*"},
    {FUNCTION, GW_WHOSE_RUNTIME, "PyObject_*"},
    /* the system's libraries */
    {PATH, GW_WHOSE_PACKAGE, "/usr/lib/*"},
    {PATH, GW_WHOSE_PACKAGE, "/usr/lib64/*"},
    {PATH, GW_WHOSE_PACKAGE, "/lib/*"},
    {PATH, GW_WHOSE_PACKAGE, "/lib64/*"},
};

/* Like fnmatch(), but faster: nearly always, the text lacks the characters that the pattern begins with, after a star.
 */
static bool fits(const char *pattern, const char *text)
{
    if (text == NULL || (isalnum((unsigned char)pattern[0]) && pattern[0] != text[0]))
        return false;
    bool anywhere = pattern[0] == '*';
    const char *literal = pattern + anywhere;
    size_t bytes = strcspn(literal, "*?[\\");
    bool may = anywhere ? memmem(text, strlen(text), literal, bytes) != NULL : strncmp(text, literal, bytes) == 0;
    return may && fnmatch(pattern, text, 0) == 0;
}

bool gwi_is_runtime(const char *module)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].field == MODULE && fits(rows[i].pattern, gw_path_last(module)))
            return rows[i].whose == GW_WHOSE_RUNTIME;
    return false;
}

bool gwi_is_interpreter(const char *module)
{
    const char *name = gw_path_last(module);
    return name != NULL &&
           (gw_begins(name, "libpython") || strcmp(name, "python") == 0 || fnmatch("python[23]*", name, 0) == 0);
}

static bool lies_in(const char *file, const char *folder)
{
    size_t bytes = folder == NULL ? 0 : strlen(folder);
    return bytes > 1 && strncmp(file, folder, bytes) == 0 && file[bytes] == '/';
}

static bool is_own(const gw_sites *sites, const gw_frame *frame)
{
    if (frame->module != NULL && sites->executable != NULL && strcmp(frame->module, sites->executable) == 0)
        return true;
    const char *file = frame->file != NULL ? frame->file : frame->module;
    if (file == NULL)
        return false;
    /* a relative path is in the working folder; any other such name is code without a file */
    if (frame->python && file[0] != '/')
        return true;
    return lies_in(file, sites->cwd) || lies_in(file, sites->script_folder);
}

gw_whose gwi_whose(const gw_sites *sites, const gw_frame *frame)
{
    if (frame->function == NULL && frame->file == NULL && frame->module == NULL)
        return GW_WHOSE_NOBODY;
    if (fits("*/lib/gpuwhy/python/gpuwhy*.py", frame->file))
        return GW_WHOSE_RUNTIME; /* gpuwhy's script that starts a notebook kernel */
    if (frame->python && frame->file != NULL && sites->script != NULL && strcmp(frame->file, sites->script) == 0)
        return GW_WHOSE_OWN; /* even if the script is in a package folder */
    const char *subject[] = {[MODULE] = gw_path_last(frame->module),
                             [PATH] = frame->file,
                             [FUNCTION] = frame->python ? NULL : frame->function};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (fits(rows[i].pattern, subject[rows[i].field]) ||
            (rows[i].field == PATH && fits(rows[i].pattern, frame->module)))
            return rows[i].whose;
    }
    if (!frame->python && frame->module == NULL)
        return frame->function == NULL ? GW_WHOSE_NOBODY
                                       : GW_WHOSE_FRAMEWORK; /* only a framework names frames without a module */
    return is_own(sites, frame) ? GW_WHOSE_OWN : GW_WHOSE_USER;
}
