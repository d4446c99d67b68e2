/* Loads modules and libraries, and answers queries about the kernels and variables in them. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gw_array.h"
#include "gwi_virt.h"

/* Return the newest PTX version that a driver accepts, such as 90 (9.0) for driver 13.0. */
static int ptx_version_max(int driver)
{
    static const struct {
        int driver, ptx;
    } versions[] = {{13000, 90}, {12090, 88}, {12080, 87}, {12070, 86}, {12050, 85}, {12040, 84}, {12030, 83},
                    {12020, 82}, {12010, 81}, {12000, 80}, {11080, 78}, {11070, 77}, {11060, 76}, {11050, 75}};
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++)
        if (driver >= versions[i].driver)
            return versions[i].ptx;
    return 74;
}

static int module_make(gwi_context *context, const void *image, size_t bytes, gwi_module **ret_module)
{
    char reason[300];
    gwi_image_wants wants = {
        .compute_capability = gwi.spec.card.attributes[75] * 10 + gwi.spec.card.attributes[76],
        .ptx_version_max = ptx_version_max(gwi.spec.driver_version),
    };
    gwi_module *module = calloc(1, sizeof *module);
    if (module == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    int result = gwi_image_read(image, bytes, &wants, &module->image, reason, sizeof reason);
    if (result == 0) {
        module->functions = calloc(module->image.kernel_count + 1, sizeof(gwi_function *));
        module->globals = calloc(module->image.global_count + 1, sizeof(gwi_block *));
        if (module->functions == NULL || module->globals == NULL)
            result = CUDA_ERROR_OUT_OF_MEMORY;
    } else {
        gwi_say("%s", reason);
        if (result == CUDA_ERROR_NOT_SUPPORTED)
            gwi_note("module %s", reason);
    }
    if (result != 0) {
        gwi_image_free(&module->image);
        free(module->functions);
        free(module->globals);
        free(module);
        return result;
    }
    module->context = context;
    module->generation = context != NULL ? context->generation : 0;
    module->next = gwi.modules;
    gwi.modules = module;
    *ret_module = module;
    return 0;
}

static void module_free(gwi_module *module)
{
    gwi_module **link = &gwi.modules;
    while (*link != NULL && *link != module)
        link = &(*link)->next;
    if (*link != NULL)
        *link = module->next;
    for (size_t i = 0; i < module->image.kernel_count; i++)
        if (module->functions[i] != NULL) {
            gwi_object_remove(&module->functions[i]->object);
            free(module->functions[i]);
        }
    for (size_t i = 0; i < module->image.global_count; i++)
        if (module->globals[i] != NULL)
            gwi_block_free(module->globals[i]);
    if (gwi_object_find(module, GWI_MODULE) != NULL)
        gwi_object_remove(&module->object);
    gwi_image_free(&module->image);
    free(module->functions);
    free(module->globals);
    free(module);
}

void gwi_modules_end(gwi_context *context)
{
    gwi_module *next = NULL;
    for (gwi_module *module = gwi.modules; module != NULL; module = next) {
        next = module->next;
        if (module->context != context)
            continue;
        gwi_library *library = module->library;
        if (library != NULL)
            for (size_t i = 0; i < library->instance_count; i++)
                if (library->instances[i].module == module)
                    library->instances[i] = library->instances[--library->instance_count];
        module_free(module);
    }
}

static gwi_function *module_function(gwi_module *module, const char *name, gwi_kind kind)
{
    const gwi_kernel_info *info = gwi_image_kernel(&module->image, name);
    if (info == NULL)
        return NULL;
    size_t index = (size_t)(info - module->image.kernels);
    if (module->functions[index] == NULL) {
        gwi_function *function = calloc(1, sizeof *function);
        if (function == NULL)
            return NULL;
        function->module = module;
        function->info = &module->image.kernels[index];
        gwi_object_add(&function->object, kind);
        module->functions[index] = function;
    }
    return module->functions[index];
}

static int module_global(gwi_module *module, const char *name, gwi_block **ret_block)
{
    for (size_t i = 0; i < module->image.global_count; i++) {
        const gwi_global_info *info = &module->image.globals[i];
        if (strcmp(info->name, name) != 0)
            continue;
        if (module->globals[i] == NULL) {
            gwi_block *block = gwi_block_alloc(module->context, info->bytes != 0 ? info->bytes : 1, GWI_BLOCK_GLOBAL);
            if (block == NULL)
                return CUDA_ERROR_OUT_OF_MEMORY;
            /* No context: a variable is freed with its module, not with the context's blocks. */
            block->context = NULL;
            if (info->initial != NULL)
                memcpy(block->storage, info->initial, (size_t)info->bytes);
            else
                memset(block->storage, 0, (size_t)info->bytes);
            module->globals[i] = block;
        }
        *ret_block = module->globals[i];
        return 0;
    }
    return CUDA_ERROR_NOT_FOUND;
}

static gwi_module *module_find(CUmodule handle)
{
    gwi_module *module = gwi_object_find(handle, GWI_MODULE);
    return module != NULL && gwi_context_is(module->context, module->generation) ? module : NULL;
}

/* --- entry points: modules ------------------------------------------------------------------------------ */

static int load(CUmodule *ret_module, const void *image, size_t bytes)
{
    gwi_module *module = NULL;
    int result = module_make(gwi_current(), image, bytes, &module);
    if (result != 0)
        return result;
    gwi_object_add(&module->object, GWI_MODULE);
    *ret_module = (CUmodule)module;
    return 0;
}

GWI_API(cuModuleLoadData)(CUmodule *module, const void *image)
{
    if (module == NULL || image == NULL) {
        gwi_say("image cannot be NULL");
        return CUDA_ERROR_INVALID_VALUE;
    }
    return load(module, image, gwi_image_bytes(image));
}

GWI_API(cuModuleLoadDataEx)
(CUmodule *module, const void *image, unsigned int numOptions, CUjit_option *options, void **optionValues)
{
    if (numOptions > 0 && (options == NULL || optionValues == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    return gwi_virt_cuModuleLoadData(module, image);
}

/* Read a file and add a terminating zero. The caller owns the result. Returns NULL on failure; errno has the reason. */
static char *file_read(const char *path, size_t *ret_bytes)
{
    enum { PART_BYTES = 65536 };
    FILE *file = fopen(path, "rbe");
    char *data = NULL;
    size_t bytes = 0;
    size_t capacity = 0;
    if (file == NULL)
        return NULL;
    for (;;) {
        if (!gw_array_reach(&data, bytes + PART_BYTES + 1, &capacity, 1))
            break;
        size_t got = fread(data + bytes, 1, PART_BYTES, file);
        bytes += got;
        if (got == 0)
            break;
    }
    fclose(file);
    if (data != NULL)
        data[bytes] = '\0';
    *ret_bytes = bytes;
    return data;
}

GWI_API(cuModuleLoad)(CUmodule *module, const char *fname)
{
    size_t bytes = 0;
    if (module == NULL || fname == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    char *data = file_read(fname, &bytes);
    if (data == NULL)
        return CUDA_ERROR_FILE_NOT_FOUND;
    int result = load(module, data, bytes);
    free(data);
    return result;
}

/* Return the fat binary inside the wrapper that nvcc puts around it; other images are returned unchanged. */
static const void *unwrap(const void *image)
{
    struct {
        uint32_t magic, version;
        const void *data;
    } wrapper;
    memcpy(&wrapper, image, sizeof wrapper.magic);
    if (wrapper.magic != 0x466243B1)
        return image;
    memcpy(&wrapper, image, sizeof wrapper);
    return wrapper.data;
}

GWI_RETURN(cuModuleLoadFatBinary, (CUmodule * module, const void *fatCubin),
           gwi_virt_cuModuleLoadData(module, fatCubin != NULL ? unwrap(fatCubin) : NULL))

GWI_API(cuModuleUnload)(CUmodule hmod)
{
    if (module_find(hmod) == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    gwi_wait_context(gwi_current());
    gwi_module *module = module_find(hmod);
    int result = gwi_see_fault(gwi_current());
    if (result == 0 && module != NULL)
        module_free(module);
    return result;
}

GWI_API(cuModuleGetFunction)(CUfunction *hfunc, CUmodule hmod, const char *name)
{
    gwi_module *module = module_find(hmod);
    if (hfunc == NULL || name == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (module == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    gwi_function *function = module_function(module, name, GWI_FUNCTION);
    if (function == NULL)
        return CUDA_ERROR_NOT_FOUND;
    *hfunc = (CUfunction)function;
    return 0;
}

GWI_ANSWER_OF(cuModuleGetFunctionCount, (unsigned int *count, CUmodule mod), count, gwi_module, module_find(mod),
              CUDA_ERROR_INVALID_HANDLE, (unsigned)found->image.kernel_count)

GWI_API(cuModuleEnumerateFunctions)(CUfunction *functions, unsigned int numFunctions, CUmodule mod)
{
    gwi_module *module = module_find(mod);
    if (functions == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (module == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    for (unsigned i = 0; i < numFunctions && i < module->image.kernel_count; i++)
        functions[i] = (CUfunction)module_function(module, module->image.kernels[i].name, GWI_FUNCTION);
    return 0;
}

static int get_global(CUdeviceptr *address, size_t *bytes, gwi_module *module, const char *name)
{
    gwi_block *block = NULL;
    if (name == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (module == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    int result = module_global(module, name, &block);
    if (result != 0)
        return result;
    if (address != NULL)
        *address = block->range.base;
    if (bytes != NULL)
        *bytes = (size_t)block->range.bytes;
    return 0;
}

GWI_RETURN(cuModuleGetGlobal_v2, (CUdeviceptr * dptr, size_t *bytes, CUmodule hmod, const char *name),
           get_global(dptr, bytes, module_find(hmod), name))

/* 2: CU_MODULE_LAZY_LOADING */
GWI_ANSWER(cuModuleGetLoadingMode, (CUmoduleLoadingMode * mode), mode, (CUmoduleLoadingMode)2)

/* --- entry points: libraries ---------------------------------------------------------------------------- */

static void library_free(gwi_library *library)
{
    while (library->instance_count > 0)
        module_free(library->instances[--library->instance_count].module);
    if (library->module != NULL)
        module_free(library->module);
    free(library->instances);
    free(library->source);
    free(library);
}

static int library_load(CUlibrary *ret_library, const void *image, size_t bytes)
{
    gwi_library *library = calloc(1, sizeof *library);
    if (library == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    int result = module_make(NULL, image, bytes, &library->module);
    library->source = result == 0 ? malloc(bytes + 1) : NULL;
    if (result == 0 && library->source == NULL)
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (result != 0) {
        library_free(library);
        return result;
    }
    memcpy(library->source, image, bytes);
    library->source_bytes = bytes;
    library->module->library = library;
    gwi_object_add(&library->object, GWI_LIBRARY);
    *ret_library = (CUlibrary)library;
    return 0;
}

GWI_API(cuLibraryLoadData)
(CUlibrary *library, const void *code, CUjit_option *jitOptions, void **jitOptionsValues, unsigned int numJitOptions,
 CUlibraryOption *libraryOptions, void **libraryOptionValues, unsigned int numLibraryOptions)
{
    if (library == NULL || code == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    const void *image = unwrap(code);
    return library_load(library, image, gwi_image_bytes(image));
}

GWI_API(cuLibraryLoadFromFile)
(CUlibrary *library, const char *fileName, CUjit_option *jitOptions, void **jitOptionsValues,
 unsigned int numJitOptions, CUlibraryOption *libraryOptions, void **libraryOptionValues,
 unsigned int numLibraryOptions)
{
    size_t bytes = 0;
    if (library == NULL || fileName == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    char *data = file_read(fileName, &bytes);
    if (data == NULL)
        return CUDA_ERROR_FILE_NOT_FOUND;
    int result = library_load(library, data, bytes);
    free(data);
    return result;
}

GWI_API(cuLibraryUnload)(CUlibrary library)
{
    gwi_library *found = gwi_object_find(library, GWI_LIBRARY);
    if (found == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    gwi_object_remove(&found->object);
    for (size_t i = 0; i < found->instance_count; i++)
        gwi_wait_context(found->instances[i].context);
    library_free(found);
    return 0;
}

GWI_API(cuLibraryGetKernel)(CUkernel *pKernel, CUlibrary library, const char *name)
{
    gwi_library *found = gwi_object_find(library, GWI_LIBRARY);
    if (pKernel == NULL || name == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (found == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    gwi_function *kernel = module_function(found->module, name, GWI_KERNEL);
    if (kernel == NULL) {
        gwi_say("Kernel (%.100s) cannot be found in library", name);
        return CUDA_ERROR_NOT_FOUND;
    }
    *pKernel = (CUkernel)kernel;
    return 0;
}

GWI_ANSWER_OF(cuLibraryGetKernelCount, (unsigned int *count, CUlibrary lib), count, gwi_library,
              gwi_object_find(lib, GWI_LIBRARY), CUDA_ERROR_INVALID_HANDLE, (unsigned)found->module->image.kernel_count)

GWI_API(cuLibraryEnumerateKernels)(CUkernel *kernels, unsigned int numKernels, CUlibrary lib)
{
    const gwi_library *found = gwi_object_find(lib, GWI_LIBRARY);
    if (kernels == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (found == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    for (unsigned i = 0; i < numKernels && i < found->module->image.kernel_count; i++)
        kernels[i] = (CUkernel)module_function(found->module, found->module->image.kernels[i].name, GWI_KERNEL);
    return 0;
}

/* Return the library's module for the current context. The first call in a context loads the library's image into
 * it. */
static int instance_find(gwi_library *library, gwi_module **ret_module)
{
    gwi_context *context = gwi_current();
    if (context == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    for (size_t i = 0; i < library->instance_count; i++)
        if (library->instances[i].context == context && library->instances[i].generation == context->generation) {
            *ret_module = library->instances[i].module;
            return 0;
        }
    if (!gw_array_more(&library->instances, library->instance_count, sizeof *library->instances))
        return CUDA_ERROR_OUT_OF_MEMORY;
    gwi_module *module = NULL;
    int result = module_make(context, library->source, library->source_bytes, &module);
    if (result != 0)
        return result;
    module->library = library;
    gwi_object_add(&module->object, GWI_MODULE);
    library->instances[library->instance_count].context = context;
    library->instances[library->instance_count].generation = context->generation;
    library->instances[library->instance_count++].module = module;
    *ret_module = module;
    return 0;
}

static int kernel_function(gwi_function *kernel, gwi_function **ret_function)
{
    gwi_module *module = NULL;
    int result = instance_find(kernel->module->library, &module);
    if (result != 0)
        return result;
    *ret_function = module_function(module, kernel->info->name, GWI_FUNCTION);
    if (*ret_function == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if ((*ret_function)->kernel == NULL) {
        (*ret_function)->kernel = kernel;
        (*ret_function)->shared_dynamic_max = kernel->shared_dynamic_max;
    }
    return 0;
}

/* Launches also accept a CUkernel instead of a function. */
gwi_function *gwi_function_find(CUfunction handle)
{
    gwi_function *function = gwi_object_find(handle, GWI_FUNCTION);
    gwi_function *kernel = function == NULL ? gwi_object_find(handle, GWI_KERNEL) : NULL;
    if (kernel != NULL && kernel_function(kernel, &function) != 0)
        return NULL;
    if (function == NULL || !gwi_context_is(function->module->context, function->module->generation))
        return NULL;
    return function;
}

GWI_API(cuKernelGetFunction)(CUfunction *pFunc, CUkernel kernel)
{
    gwi_function *found = gwi_object_find(kernel, GWI_KERNEL);
    gwi_function *function = NULL;
    if (pFunc == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (found == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    int result = kernel_function(found, &function);
    if (result == 0)
        *pFunc = (CUfunction)function;
    return result;
}

GWI_API(cuLibraryGetModule)(CUmodule *pMod, CUlibrary library)
{
    gwi_library *found = gwi_object_find(library, GWI_LIBRARY);
    gwi_module *module = NULL;
    if (pMod == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (found == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    int result = instance_find(found, &module);
    if (result == 0)
        *pMod = (CUmodule)module;
    return result;
}

GWI_API(cuLibraryGetGlobal)(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
    gwi_library *found = gwi_object_find(library, GWI_LIBRARY);
    gwi_module *module = NULL;
    if (found == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    int result = instance_find(found, &module);
    return result != 0 ? result : get_global(dptr, bytes, module, name);
}

/* --- entry points: functions and kernels ---------------------------------------------------------------- */

static int attribute(const gwi_function *function, int what, int *ret_value)
{
    const gwi_kernel_info *info = function->info;
    const gwi_image *image = &function->module->image;
    const int *card = gwi.spec.card.attributes;
    const int values[] = {
        [CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK] = info->threads_max != 0 ? (int)info->threads_max : card[1],
        [CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES] = (int)info->shared_bytes,
        [CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES] = (int)image->constant_bytes,
        [CU_FUNC_ATTRIBUTE_NUM_REGS] = 4, /* not known, so use that of an empty kernel */
        [CU_FUNC_ATTRIBUTE_PTX_VERSION] = image->ptx_version != 0 ? 75 : card[75] * 10 + card[76],
        [CU_FUNC_ATTRIBUTE_BINARY_VERSION] = image->binary_version,
        [CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES] =
            function->shared_dynamic_max != 0 ? function->shared_dynamic_max : card[8] - (int)info->shared_bytes,
        [CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT] = function->carveout != 0 ? function->carveout - 1 : -1,
        [CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE] = 0};
    if (what < 0 || what >= (int)(sizeof values / sizeof *values)) {
        gwi_say("Invalid CUfunction_attribute value %d", what);
        return CUDA_ERROR_INVALID_VALUE;
    }
    *ret_value = values[what];
    return 0;
}

static int attribute_set(gwi_function *function, int what, int value)
{
    if (what == 8) {
        if (value < 0 || value > gwi.spec.card.attributes[97] - (int)function->info->shared_bytes) {
            gwi_say("Requested dynamic shared memory size is larger than limit");
            return CUDA_ERROR_INVALID_VALUE;
        }
        function->shared_dynamic_max = value;
        return 0;
    }
    if (what == 9) {
        if (value < -1 || value > 100)
            return CUDA_ERROR_INVALID_VALUE;
        function->carveout = value + 1;
        return 0;
    }
    return what >= 10 && what <= 15 ? 0 : CUDA_ERROR_INVALID_VALUE;
}

GWI_API(cuFuncGetAttribute)(int *pi, CUfunction_attribute attrib, CUfunction hfunc)
{
    const gwi_function *function = gwi_function_find(hfunc);
    if (pi == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    return function == NULL ? CUDA_ERROR_INVALID_HANDLE : attribute(function, (int)attrib, pi);
}

/* Code takes no memory here, so there is nothing to load. */
GWI_RETURN(cuFuncLoad, (CUfunction function), gwi_function_find(function) == NULL ? CUDA_ERROR_INVALID_HANDLE : 0)

GWI_API(cuFuncSetAttribute)(CUfunction hfunc, CUfunction_attribute attrib, int value)
{
    gwi_function *function = gwi_function_find(hfunc);
    return function == NULL ? CUDA_ERROR_INVALID_HANDLE : attribute_set(function, (int)attrib, value);
}

GWI_RETURN(cuFuncSetCacheConfig, (CUfunction hfunc, CUfunc_cache config),
           gwi_function_find(hfunc) == NULL ? CUDA_ERROR_INVALID_HANDLE : 0)

GWI_ANSWER_OF(cuFuncGetModule, (CUmodule * hmod, CUfunction hfunc), hmod, gwi_function, gwi_function_find(hfunc),
              CUDA_ERROR_INVALID_HANDLE, (CUmodule)found->module)

static int param_info(const gwi_function *function, size_t index, size_t *offset, size_t *bytes)
{
    if (function == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (offset == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (index >= function->info->param_count) {
        gwi_say("paramIndex %zu outside of kernel parameter count %u", index, function->info->param_count);
        return CUDA_ERROR_INVALID_VALUE;
    }
    *offset = function->info->params[index].offset;
    if (bytes != NULL)
        *bytes = function->info->params[index].bytes;
    return 0;
}

GWI_RETURN(cuFuncGetParamInfo, (CUfunction func, size_t paramIndex, size_t *paramOffset, size_t *paramSize),
           param_info(gwi_function_find(func), paramIndex, paramOffset, paramSize))
GWI_RETURN(cuKernelGetParamInfo, (CUkernel kernel, size_t paramIndex, size_t *paramOffset, size_t *paramSize),
           param_info(gwi_object_find(kernel, GWI_KERNEL), paramIndex, paramOffset, paramSize))

GWI_ANSWER_OF(cuFuncGetName, (const char **name, CUfunction hfunc), name, gwi_function, gwi_function_find(hfunc),
              CUDA_ERROR_INVALID_HANDLE, found->info->name)
GWI_ANSWER_OF(cuKernelGetName, (const char **name, CUkernel hfunc), name, gwi_function,
              gwi_object_find(hfunc, GWI_KERNEL), CUDA_ERROR_INVALID_HANDLE, found->info->name)
GWI_ANSWER_OF(cuKernelGetLibrary, (CUlibrary * pLib, CUkernel kernel), pLib, gwi_function,
              gwi_object_find(kernel, GWI_KERNEL), CUDA_ERROR_INVALID_HANDLE, (CUlibrary)found->module->library)

GWI_API(cuKernelGetAttribute)(int *pi, CUfunction_attribute attrib, CUkernel kernel, CUdevice dev)
{
    const gwi_function *found = gwi_object_find(kernel, GWI_KERNEL);
    if (pi == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (gwi_device_find(dev) == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    return found == NULL ? CUDA_ERROR_INVALID_HANDLE : attribute(found, (int)attrib, pi);
}

GWI_API(cuKernelSetAttribute)(CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice dev)
{
    gwi_function *found = gwi_object_find(kernel, GWI_KERNEL);
    gwi_function *function = NULL;
    if (gwi_device_find(dev) == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    if (found == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    int result = attribute_set(found, (int)attrib, val);
    if (result == 0 && gwi_current() != NULL && kernel_function(found, &function) == 0)
        result = attribute_set(function, (int)attrib, val);
    return result;
}

GWI_API(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)
(int *numBlocks, CUfunction func, int blockSize, size_t dynamicSMemSize, unsigned int flags)
{
    const gwi_function *function = gwi_function_find(func);
    const int *a = gwi.spec.card.attributes;
    if (numBlocks == NULL || blockSize <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (function == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    uint64_t shared = function->info->shared_bytes + dynamicSMemSize + (unsigned)a[111];
    int blocks = a[39] / ((blockSize + 31) / 32 * 32);
    if (blocks > a[106])
        blocks = a[106];
    if (shared > 0 && (uint64_t)a[81] / shared < (uint64_t)blocks)
        blocks = (int)((uint64_t)a[81] / shared);
    *numBlocks = blockSize > a[1] ? 0 : blocks;
    return 0;
}

GWI_RETURN(cuOccupancyMaxActiveBlocksPerMultiprocessor,
           (int *numBlocks, CUfunction func, int blockSize, size_t dynamicSMemSize),
           gwi_virt_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(numBlocks, func, blockSize, dynamicSMemSize,
                                                                         0))
