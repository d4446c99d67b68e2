/* Find the libraries' functions and compile the kernels. NVRTC compiles them for this GPU once per process and
 * precision. */
#include "cuda_state.h"

#include "cuda_source.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- functions by name ---- */

static bool find(gs_source source, const char *name, void *ret_function, struct reason *reason)
{
    void *found = gs_symbol(source, name);
    memcpy(ret_function, &found, sizeof found);
    return found != NULL || because(reason, "the library has no %s", name);
}

bool cuda_find(struct cuda *cuda, struct reason *reason)
{
    bool is_whole = true;
#define X(name, parameters) is_whole = is_whole && find(GS_FROM_CUDNN, #name, &cuda->api.name, reason);
    CUDNN_CALLS(X)
#undef X
#define X(name, parameters) is_whole = is_whole && find(GS_FROM_CUBLAS, #name, &cuda->api.name, reason);
    CUBLAS_CALLS(X)
#undef X
#define X(name, parameters) is_whole = is_whole && find(GS_FROM_DRIVER, #name, &cuda->api.name, reason);
    DRIVER_CALLS(X)
#undef X
    return is_whole;
}

bool cuda_find_nccl(struct cuda *cuda, struct reason *reason)
{
    bool is_whole = true;
#define X(name, parameters) is_whole = is_whole && find(GS_FROM_NCCL, #name, &cuda->api.name, reason);
    NCCL_CALLS(X)
#undef X
    return is_whole;
}

/* ---- NVRTC ---- */

enum { ARCHITECTURES_MAX = 64, PROGRAMS_MAX = 16 };

struct compiler {
    void *library;
#define X(name, parameters) int(*name) parameters;
    NVRTC_CALLS(X)
#undef X
};

struct program {
    int architecture;
    enum precision precision;
    char *image; /* owned; valid until the process ends */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects the variables below */
static struct compiler compiler;
static struct program programs[PROGRAMS_MAX];
static size_t program_count;

static bool load_compiler(struct reason *reason)
{
    const char *names[] = {getenv("TRAINER_NVRTC"), "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2"};
    bool is_whole = true;
    if (compiler.library != NULL)
        return true;
    for (size_t i = 0; compiler.library == NULL && i < sizeof names / sizeof *names; i++)
        if (names[i] != NULL && names[i][0] != '\0')
            compiler.library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (compiler.library == NULL)
        return because(reason, "cannot load NVRTC, which compiles the kernels: %s", dlerror());
#define X(name, parameters)                                                                                            \
    {                                                                                                                  \
        void *found = dlsym(compiler.library, #name);                                                                  \
        memcpy(&compiler.name, &found, sizeof found);                                                                  \
        is_whole = is_whole && (found != NULL || because(reason, "NVRTC has no %s", #name));                           \
    }
    NVRTC_CALLS(X)
#undef X
    if (!is_whole) {
        dlclose(compiler.library);
        compiler.library = NULL;
    }
    return is_whole;
}

/* Return the newest architecture of the GPU's own family that the compiler can compile for and the GPU can run. Returns
 * 0 if there is none. */
static int choose_architecture(int card)
{
    int known[ARCHITECTURES_MAX], count = 0, best = 0;
    if (compiler.nvrtcGetNumSupportedArchs(&count) != 0 || count > ARCHITECTURES_MAX ||
        compiler.nvrtcGetSupportedArchs(known) != 0)
        return 0;
    for (int i = 0; i < count; i++)
        if (known[i] / 10 == card / 10 && known[i] <= card && known[i] > best)
            best = known[i];
    return best;
}

static bool tell_log(void *program, int code, struct reason *reason)
{
    size_t bytes = 0;
    char *log = compiler.nvrtcGetProgramLogSize(program, &bytes) == 0 ? calloc(1, bytes + 1) : NULL;
    if (log != NULL && compiler.nvrtcGetProgramLog(program, log) != 0)
        log[0] = '\0';
    because(reason, "NVRTC cannot compile the kernels (%d): %.400s", code, log == NULL ? "" : log);
    free(log);
    return false;
}

static bool take_image(void *program, char **ret_image, struct reason *reason)
{
    size_t bytes = 0;
    int code = compiler.nvrtcGetCUBINSize(program, &bytes);
    if (code != 0)
        return because(reason, "nvrtcGetCUBINSize returned %d", code);
    char *image = calloc(1, bytes + 1);
    if (image == NULL)
        return because(reason, "the host has no memory for the kernels");
    code = compiler.nvrtcGetCUBIN(program, image);
    if (code != 0) {
        free(image);
        return because(reason, "nvrtcGetCUBIN returned %d", code);
    }
    *ret_image = image;
    return true;
}

static bool compile(int architecture, enum precision precision, char **ret_image, struct reason *reason)
{
    char target[48], element[24];
    const char *options[] = {target, element};
    void *program = NULL;
    snprintf(target, sizeof target, "--gpu-architecture=sm_%d", architecture);
    /* cuda_kernels.cu uses the numbers of enum precision */
    snprintf(element, sizeof element, "-DELEMENT=%d", (int)precision);
    int code = compiler.nvrtcCreateProgram(&program, cuda_kernels_source, "cuda_kernels.cu", 0, NULL, NULL);
    if (code != 0)
        return because(reason, "nvrtcCreateProgram returned %d", code);
    code = compiler.nvrtcCompileProgram(program, 2, options);
    bool is_done = code == 0 ? take_image(program, ret_image, reason) : tell_log(program, code, reason);
    compiler.nvrtcDestroyProgram(&program);
    return is_done;
}

static bool image_locked(int card, enum precision precision, const char **ret_image, struct reason *reason)
{
    struct program program = {.architecture = card, .precision = precision};
    for (size_t i = 0; i < program_count; i++)
        if (programs[i].architecture == card && programs[i].precision == precision) {
            *ret_image = programs[i].image;
            return true;
        }
    if (program_count == PROGRAMS_MAX)
        return because(reason, "kernels for more than %d kinds of GPU", PROGRAMS_MAX);
    if (!load_compiler(reason))
        return false;
    int architecture = choose_architecture(card);
    if (architecture == 0)
        return because(reason, "NVRTC does not support GPUs of compute capability %d.%d", card / 10, card % 10);
    if (!compile(architecture, precision, &program.image, reason))
        return false;
    *ret_image = program.image;
    programs[program_count++] = program;
    return true;
}

/* ---- the kernels ---- */

static gs_status find_kernels(struct cuda *cuda)
{
    gs_scope *scope = cuda->card.scope;
    gs_status status = GS_OK;
#define X(name)                                                                                                        \
    if (status == GS_OK)                                                                                               \
        status = gs_kernel(scope, cuda->module, #name, &cuda->kernels.name);
    CUDA_KERNELS(X)
#undef X
#define X(name)                                                                                                        \
    if (status == GS_OK)                                                                                               \
        status = gs_kernel(scope, cuda->module, #name "_1", &cuda->kernels.name[0]);                                   \
    if (status == GS_OK)                                                                                               \
        status = gs_kernel(scope, cuda->module, #name "_8", &cuda->kernels.name[1]);
    CUDA_KERNEL_PAIRS(X)
#undef X
    return status;
}

bool cuda_kernels_load(struct cuda *cuda, enum precision precision, struct reason *reason)
{
    const char *image = NULL;
    if (cuda->module != NULL && cuda->module_precision == precision)
        return true;
    pthread_mutex_lock(&lock);
    bool is_there = image_locked(cuda->architecture, precision, &image, reason);
    pthread_mutex_unlock(&lock);
    if (!is_there)
        return false;
    gs_status status = GS_OK;
    if (cuda->module != NULL)
        status = gs_module_close(cuda->card.scope, cuda->module);
    cuda->module = NULL;
    if (status == GS_OK)
        status = gs_module(cuda->card.scope, image, &cuda->module);
    if (status == GS_OK)
        status = find_kernels(cuda);
    cuda->module_precision = precision;
    if (status != GS_OK && cuda->module != NULL) {
        gs_module_close(cuda->card.scope, cuda->module);
        cuda->module = NULL;
    }
    return card_well(&cuda->card, status, "the kernels", reason);
}
