/* Find the owner of a frame. A table lists the owners of known files and functions. All other frames belong to the
 * user. */
#include "gwi_inner.h"
#include "gwi_sites.h"

#include "gw_text.h"

#include <ctype.h>
#include <fnmatch.h>
#include <string.h>

typedef enum field { MODULE, PATH, FUNCTION } field;

/* The first row with a matching pattern decides. The patterns are shell patterns whose star also matches slashes. They
 * are matched with:
 * - MODULE: last part of the mapped file's path
 * - PATH: the source file or the mapped file
 * - FUNCTION: the function's name */
static const struct {
    field field;
    gw_whose whose;
    const char *pattern[20]; /* NULL after the last one */
} rows[] = {
    {MODULE, GW_WHOSE_RUNTIME, {"libgpuwhy*"}},
    {PATH, GW_WHOSE_OWN, {"*/ipykernel_[0-9]*/[0-9]*.py"}}, /* IPython's file names of notebook cells */
    {PATH, GW_WHOSE_RUNTIME, {"\\[*"}},                     /* [vdso], [vsyscall] */
    /* the C and C++ libraries, and the loader */
    {MODULE,
     GW_WHOSE_RUNTIME,
     {"libc.so*", "libc-2.*", "libm.so*", "libpthread*", "libdl.so*", "librt.so*", "ld-*", "libstdc++*", "libc++*",
      "libgcc_s*", "libgomp*", "libomp*", "libiomp*", "libtbb*", "libffi*", "libasan*", "libtsan*", "libubsan*"}},
    {FUNCTION, GW_WHOSE_RUNTIME, {"_start", "__libc_*", "std::*", "__gnu_cxx::*"}},
    {FUNCTION, GW_WHOSE_RUNTIME, {"core::*", "alloc::*"}}, /* Rust */
    {PATH, GW_WHOSE_RUNTIME, {"/usr/include/*", "/usr/lib/gcc/*", "*/include/c++/*", "/rustc/*"}},
    /* the driver and CUDA's libraries, including statically linked ones */
    {MODULE,
     GW_WHOSE_RUNTIME,
     {"libcuda.so*", "libcudart*", "libcublas*", "libcudnn*", "libcufft*", "libcurand*", "libcusolver*", "libcusparse*",
      "libcupti*", "libnccl*", "libnvrtc*", "libnvidia*", "libnvJitLink*", "libnvToolsExt*"}},
    {FUNCTION, GW_WHOSE_RUNTIME, {"libcudart_static_*", "__cudart*", "cudart::*", "cuda[A-Z]*", "__device_stub__*"}},
    {PATH, GW_WHOSE_RUNTIME, {"/usr/local/cuda*/include/*", "/usr/local/cuda*/targets/*"}},
    /* programs of `gpuwhy lab`, wherever gpuwhy is installed */
    {PATH, GW_WHOSE_OWN, {"*/lib/gpuwhy/lab/*"}},
    /* frameworks, by package, library or function name */
    {PATH,
     GW_WHOSE_FRAMEWORK,
     {"*-packages/torch/*", "*-packages/torch[a-z_]*/*", "*-packages/functorch/*", "*-packages/triton/*",
      "*-packages/jax/*", "*-packages/jax[a-z_]*/*", "*-packages/tensorflow*/*", "*-packages/keras/*",
      "*-packages/tf_keras/*", "*-packages/flax/*", "*-packages/cupy*/*", "*-packages/numba*/*", "*-packages/numpy/*",
      "*-packages/nvidia/*", "*-packages/*lightning*/*", "*-packages/accelerate/*", "*-packages/deepspeed/*",
      "*-packages/transformers/*"}},
    /* code that torch.compile, Triton and torch.fx generated */
    {PATH, GW_WHOSE_FRAMEWORK, {"*/torchinductor_*/*.py", "*/.triton/cache/*", "<eval_with_key>*"}},
    {MODULE, GW_WHOSE_FRAMEWORK, {"libtorch*", "libc10*", "libtensorflow*", "xla_*"}},
    {FUNCTION, GW_WHOSE_FRAMEWORK, {"at::*", "c10::*", "torch::*", "thrust::*", "cub::*", "pybind11::*"}},
    /* all other installed packages */
    {PATH, GW_WHOSE_PACKAGE, {"*/site-packages/*", "*/dist-packages/*"}},
    /* the interpreter and its standard library */
    {PATH, GW_WHOSE_RUNTIME, {"*/lib/python[0-9]*", "*/lib64/python[0-9]*", "<frozen *"}},
    {MODULE, GW_WHOSE_RUNTIME, {"libpython*", "python", "python[23]*"}},
    {FUNCTION, GW_WHOSE_RUNTIME, {"_PyEval_*", "_PyObject_*", "PyObject_*"}},
    /* the system's libraries */
    {PATH, GW_WHOSE_PACKAGE, {"/usr/lib/*", "/usr/lib64/*", "/lib/*", "/lib64/*"}},
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

static bool any_fits(const char *const *pattern, const char *text)
{
    while (*pattern != NULL && !fits(*pattern, text))
        pattern++;
    return *pattern != NULL;
}

bool gwi_is_runtime(const char *module)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].field == MODULE && any_fits(rows[i].pattern, gw_path_last(module)))
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
        if (any_fits(rows[i].pattern, subject[rows[i].field]) ||
            (rows[i].field == PATH && any_fits(rows[i].pattern, frame->module)))
            return rows[i].whose;
    }
    if (!frame->python && frame->module == NULL)
        return frame->function == NULL ? GW_WHOSE_NOBODY
                                       : GW_WHOSE_FRAMEWORK; /* only a framework names frames without a module */
    return is_own(sites, frame) ? GW_WHOSE_OWN : GW_WHOSE_USER;
}
