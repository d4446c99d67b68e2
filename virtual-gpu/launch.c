/* Launches: what a real card checks before it takes one, and what the kernel's model says happens then. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "gwi_dump.h"
#include "gwi_virt.h"

int gwi_fault_code(uint64_t fault)
{
    static const int codes[] = {
        [GW_KERNEL_FAULT_NONE] = 0,
        [GW_KERNEL_FAULT_ILLEGAL_ADDRESS] = CUDA_ERROR_ILLEGAL_ADDRESS,
        [GW_KERNEL_FAULT_MISALIGNED] = CUDA_ERROR_MISALIGNED_ADDRESS,
        [GW_KERNEL_FAULT_ASSERT] = CUDA_ERROR_ASSERT,
        [GW_KERNEL_FAULT_TRAP] = CUDA_ERROR_LAUNCH_FAILED,
        [GW_KERNEL_FAULT_STACK_OVERFLOW] = CUDA_ERROR_ILLEGAL_ADDRESS,
        [GW_KERNEL_FAULT_ILLEGAL_INSTRUCTION] = CUDA_ERROR_ILLEGAL_INSTRUCTION,
        [GW_KERNEL_FAULT_ADDRESS_SPACE] = CUDA_ERROR_INVALID_ADDRESS_SPACE,
        [GW_KERNEL_FAULT_INVALID_PC] = CUDA_ERROR_INVALID_PC,
    };
    _Static_assert(sizeof codes / sizeof *codes == GW_KERNEL_FAULT_COUNT, "one code a fault");
    return fault < GW_KERNEL_FAULT_COUNT ? codes[fault] : 0;
}

/* False where the kernel has no such parameter. */
static bool param_value(const gwi_work *work, uint64_t index, uint64_t *ret_value)
{
    const gwi_kernel_info *info = work->kernel.function->info;
    if (index >= info->param_count || work->kernel.params == NULL)
        return false;
    uint32_t bytes = info->params[index].bytes < 8 ? info->params[index].bytes : 8;
    *ret_value = 0;
    memcpy(ret_value, work->kernel.params + info->params[index].offset, bytes);
    return true;
}

static bool model_strikes(const gwi_work *work, const struct gw_kernel_model *model)
{
    uint64_t value = 0;
    uint64_t other = 0;
    if (model->when == GW_KERNEL_WHEN_ALWAYS)
        return true;
    if (!param_value(work, model->parameter, &value))
        return false;
    switch (model->when) {
    case GW_KERNEL_WHEN_UNMAPPED:
        return !gwi_mapped(value);
    case GW_KERNEL_WHEN_NULL:
        return value == 0;
    case GW_KERNEL_WHEN_AT_LEAST:
        return value >= model->operand;
    case GW_KERNEL_WHEN_AT_LEAST_PARAM:
        return param_value(work, model->operand, &other) && value >= other;
    default:
        return false;
    }
}

/* What the driver tells its listeners about the fault, as seen on a real card. */
void gwi_fault_tell(uint64_t fault, const gwi_context *context)
{
    static const unsigned char xids[][2] = {
        [GW_KERNEL_FAULT_NONE] = {0},
        [GW_KERNEL_FAULT_ILLEGAL_ADDRESS] = {31},
        [GW_KERNEL_FAULT_MISALIGNED] = {13},
        [GW_KERNEL_FAULT_ASSERT] = {43},
        [GW_KERNEL_FAULT_TRAP] = {43},
        [GW_KERNEL_FAULT_STACK_OVERFLOW] = {13, 43},
        [GW_KERNEL_FAULT_ILLEGAL_INSTRUCTION] = {13},
        [GW_KERNEL_FAULT_ADDRESS_SPACE] = {13},
        [GW_KERNEL_FAULT_INVALID_PC] = {13},
    };
    _Static_assert(sizeof xids / sizeof *xids == GW_KERNEL_FAULT_COUNT, "one row a fault");
    for (unsigned i = 0; i < 2 && fault < GW_KERNEL_FAULT_COUNT; i++)
        if (xids[fault][i] != 0)
            gwi_health_xid(gwi.shared, context->device->index, xids[fault][i], getpid());
}

static uint64_t fault_by_option(const gwi_work *work)
{
    for (unsigned i = 0; i < gwi.spec.fault_count; i++) {
        const gw_virt_fault *fault = &gwi.spec.faults[i];
        if ((fault->kind == GW_VIRT_FAULT_KERNEL && strcmp(fault->name, work->kernel.function->info->name) == 0) ||
            (fault->kind == GW_VIRT_FAULT_LAUNCH && fault->count == work->kernel.launch_number))
            return (uint64_t)fault->code;
        /* The card's own: whoever looks at the cards next finds it. */
        if (fault->kind == GW_VIRT_FAULT_CARD && fault->when == GW_VIRT_WHEN_LAUNCH &&
            fault->count == work->kernel.launch_number)
            gwi_health_strike(gwi.shared, &gwi.spec, i, getpid());
    }
    return 0;
}

uint64_t gwi_kernel_fault(const gwi_work *work)
{
    const gwi_kernel_info *info = work->kernel.function->info;
    uint64_t fault = gwi.spec.fault_count > 0 ? fault_by_option(work) : 0;
    if (fault == 0 && info->has_model && info->model.fault < GW_KERNEL_FAULT_COUNT && info->model.fault != 0 &&
        model_strikes(work, &info->model))
        fault = info->model.fault;
    return fault;
}

uint64_t gwi_kernel_duration_ns(const gwi_work *work)
{
    const struct gw_kernel_model *model = &work->kernel.function->info->model;
    uint64_t value = 0;
    if (!work->kernel.function->info->has_model)
        return 0;
    if (model->duration_parameter != 0 && param_value(work, model->duration_parameter - 1, &value))
        return value;
    return model->duration_us > UINT64_MAX / 1000 ? UINT64_MAX : model->duration_us * 1000;
}

/* The line a real driver writes to the program's stderr. */
void gwi_kernel_print_assert(const gwi_work *work)
{
    const gwi_kernel_info *info = work->kernel.function->info;
    const char *file = info->text;
    const char *function = file + strlen(file) + 1;
    const char *message = function + strlen(function) + 1;
    char line[GWI_MODEL_TEXT_MAX + 200];
    if (message >= info->text + sizeof info->text)
        message = "";
    int bytes = snprintf(line, sizeof line, "%s:%llu: %s: block: [0,0,0], thread: [0,0,0] Assertion `%s` failed.\n",
                         file[0] != '\0' ? file : "unknown", (unsigned long long)info->model.line,
                         file[0] != '\0' ? function : info->name, message);
    if (bytes > 0 && write(STDERR_FILENO, line, (size_t)bytes) < 0)
        gwi_note("assert %s", line); /* nobody listens on stderr */
}

/* When the environment asks for it: a GPU core dump, and the end of the process, as a real driver does it. */
void gwi_kernel_dump(const gwi_work *work, const gwi_context *context, int code)
{
    const gwi_module *module = work->kernel.function->module;
    const gwi_image *image = &module->image;
    const int *a = gwi.spec.card.attributes;
    const gwi_kernel_info *info = work->kernel.function->info;
    unsigned flags;
    char path[1024];
    if (!gwi_dump_wanted(&flags) || gwi_dump_exception(code) == 0 || !gwi_dump_path(path, sizeof path))
        return;
    const char **names = calloc(image->kernel_count + 1, sizeof *names);
    gwi_dump dump = {.device_name = gwi.spec.card.name,
                     .sm_count = (unsigned)a[16],
                     .capability = {(unsigned)a[75], (unsigned)a[76]},
                     .driver = {580, 0},
                     .cuda = {(unsigned)gwi.spec.driver_version / 1000, (unsigned)gwi.spec.driver_version % 1000 / 10},
                     .result = code,
                     .kernels = names,
                     .kernel_count = image->kernel_count,
                     .faulty = image->kernel_count,
                     .file = info->text[0] != '\0' ? info->text : NULL,
                     .line = (unsigned)info->model.line,
                     .context = (uint64_t)(uintptr_t)context,
                     .function = (uint64_t)(uintptr_t)work->kernel.function,
                     .module = (uint64_t)(uintptr_t)module,
                     .flags = flags,
                     .time_s = (uint32_t)time(NULL)};
    memcpy(dump.grid, work->kernel.grid, sizeof dump.grid);
    memcpy(dump.block, work->kernel.block, sizeof dump.block);
    for (size_t i = 0; names != NULL && i < image->kernel_count; i++) {
        names[i] = image->kernels[i].name;
        if (strcmp(names[i], info->name) == 0)
            dump.faulty = i;
    }
    bool written = names != NULL && dump.faulty < dump.kernel_count && gwi_dump_write(path, &dump);
    free(names);
    if (!written)
        gwi_note("no GPU core dump could be written to %s", path);
    else if (!(flags & GWI_DUMP_SKIP_ABORT))
        abort();
}

/* --- the checks ----------------------------------------------------------------------------------------- */

static int check_shape(const gwi_function *function, const unsigned grid[3], const unsigned block[3], unsigned shared)
{
    static const char axes[] = "XYZ";
    const int *a = gwi.spec.card.attributes;
    uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
    for (int i = 0; i < 3; i++) {
        if (grid[i] == 0 || block[i] == 0) {
            gwi_say("%s Dimension %c must be nonzero", grid[i] == 0 ? "Grid" : "Block", axes[i]);
            return CUDA_ERROR_INVALID_VALUE;
        }
        if (grid[i] > (unsigned)a[5 + i]) {
            gwi_say("Grid Dimension %c of %u exceeds maximum value of %d", axes[i], grid[i], a[5 + i]);
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    if (block[0] > (unsigned)a[2] || block[1] > (unsigned)a[3] || block[2] > (unsigned)a[4]) {
        gwi_say("One or more of block dimensions of (%u,%u,%u) exceeds the maximum value of (%d,%d,%d)", block[0],
                block[1], block[2], a[2], a[3], a[4]);
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (threads > (unsigned)a[1]) {
        gwi_say("A block of %llu threads exceeds the maximum of %d", (unsigned long long)threads, a[1]);
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (function->info->threads_max != 0 && threads > function->info->threads_max) {
        gwi_say("A block of %llu threads exceeds the kernel's own maximum of %u", (unsigned long long)threads,
                function->info->threads_max);
        return CUDA_ERROR_INVALID_VALUE;
    }
    int shared_max =
        function->shared_dynamic_max != 0 ? function->shared_dynamic_max : a[8] - (int)function->info->shared_bytes;
    if (shared > (unsigned)(shared_max > 0 ? shared_max : 0)) {
        gwi_say("Requested dynamic shared memory size of %u bytes exceeds maximum dynamic shared memory size of %d "
                "bytes",
                shared, shared_max);
        return CUDA_ERROR_INVALID_VALUE;
    }
    return 0;
}

/* One buffer that holds all parameters, from either way of passing them. */
static int take_params(const gwi_function *function, void **params, void **extra, unsigned char **ret_params)
{
    const gwi_kernel_info *info = function->info;
    if (params != NULL && extra != NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (info->param_count == 0)
        return 0;
    if (params == NULL && extra == NULL) {
        gwi_say("CUDA kernel %.100s has %u parameters but none provided at launch", info->name, info->param_count);
        return CUDA_ERROR_INVALID_VALUE;
    }
    unsigned char *buffer = calloc(1, info->param_bytes);
    if (buffer == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (params != NULL) {
        for (uint32_t i = 0; i < info->param_count; i++)
            memcpy(buffer + info->params[i].offset, params[i], info->params[i].bytes);
    } else {
        const void *from = NULL;
        size_t bytes = 0;
        for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
            if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
                from = extra[1];
            else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE)
                bytes = *(size_t *)extra[1];
        }
        if (from == NULL || bytes > info->param_bytes) {
            free(buffer);
            return from == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
        }
        memcpy(buffer, from, bytes);
    }
    *ret_params = buffer;
    return 0;
}

/* Not static: nodes of graphs are launches, too. */
int gwi_kernel_work(CUfunction handle, const unsigned grid[3], const unsigned block[3], unsigned shared, void **params,
                    void **extra, gwi_work *ret_work)
{
    gwi_function *function = gwi_function_find(handle);
    if (function == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    int result = check_shape(function, grid, block, shared);
    unsigned char *buffer = NULL;
    if (result == 0)
        result = take_params(function, params, extra, &buffer);
    if (result != 0)
        return result;
    memset(ret_work, 0, sizeof *ret_work);
    ret_work->kind = GWI_WORK_KERNEL;
    ret_work->kernel.function = function;
    memcpy(ret_work->kernel.grid, grid, sizeof ret_work->kernel.grid);
    memcpy(ret_work->kernel.block, block, sizeof ret_work->kernel.block);
    ret_work->kernel.shared_bytes = shared;
    ret_work->kernel.params = buffer;
    return 0;
}

static int launch(CUfunction handle, const unsigned grid[3], const unsigned block[3], unsigned shared,
                  CUstream stream_handle, void **params, void **extra)
{
    gwi_work work;
    int result = gwi_kernel_work(handle, grid, block, shared, params, extra, &work);
    if (result != 0)
        return result;
    gwi_stream *stream = gwi_stream_find(stream_handle);
    if (stream->context != work.kernel.function->module->context) {
        gwi_work_free(&work);
        return CUDA_ERROR_INVALID_HANDLE;
    }
    work.kernel.launch_number = ++gwi.launch_count;
    result = gwi_submit(stream, &work, NULL, NULL);
    if (result != 0)
        gwi_work_free(&work);
    else
        result = gwi_block_after_launch(stream);
    return result;
}

GWI_API(cuLaunchKernel)
(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ, unsigned int blockDimX,
 unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream, void **kernelParams,
 void **extra)
{
    GWI_ENTER;
    const unsigned grid[3] = {gridDimX, gridDimY, gridDimZ};
    const unsigned block[3] = {blockDimX, blockDimY, blockDimZ};
    return gwi_leave(launch(f, grid, block, sharedMemBytes, hStream, kernelParams, extra));
}

GWI_API(cuLaunchKernelEx)(const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra)
{
    GWI_ENTER;
    if (config == NULL)
        return gwi_leave(CUDA_ERROR_INVALID_VALUE);
    const unsigned grid[3] = {config->gridDimX, config->gridDimY, config->gridDimZ};
    const unsigned block[3] = {config->blockDimX, config->blockDimY, config->blockDimZ};
    return gwi_leave(launch(f, grid, block, config->sharedMemBytes, config->hStream, kernelParams, extra));
}

GWI_API(cuLaunchCooperativeKernel)
(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ, unsigned int blockDimX,
 unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream, void **kernelParams)
{
    GWI_ENTER;
    const unsigned grid[3] = {gridDimX, gridDimY, gridDimZ};
    const unsigned block[3] = {blockDimX, blockDimY, blockDimZ};
    const int *a = gwi.spec.card.attributes;
    uint64_t threads = (uint64_t)blockDimX * blockDimY * blockDimZ;
    uint64_t resident = threads > 0 && threads <= (unsigned)a[39] ? (uint64_t)a[16] * ((unsigned)a[39] / threads) : 0;
    if ((uint64_t)gridDimX * gridDimY * gridDimZ > resident && threads <= (unsigned)a[1] && resident > 0)
        return gwi_leave(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
    return gwi_leave(launch(f, grid, block, sharedMemBytes, hStream, kernelParams, NULL));
}
