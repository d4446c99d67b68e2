/* The behaviour of a simulated kernel, as its model describes it: the fault, the duration, and what the driver
 * prints. */
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

/* Get the value of a parameter. Returns false if the kernel has no such parameter. */
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

/* Report the Xids that a real driver was seen to report for this fault. */
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
        /* Only record a fault of the GPU itself in the shared state. gwi_cards_look() then makes the contexts
         * unusable. */
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

struct gw_kernel_meeting *gwi_kernel_meeting(const gwi_work *work)
{
    const gwi_kernel_info *info = work->kernel.function->info;
    uint64_t address = 0;
    if (!info->has_model || info->model.meeting_parameter == 0 ||
        !param_value(work, info->model.meeting_parameter - 1, &address))
        return NULL;
    return (struct gw_kernel_meeting *)(uintptr_t)address;
}

bool gwi_kernel_met(const struct gw_kernel_meeting *meeting)
{
    for (uint64_t i = 0; i < meeting->count; i++)
        if (__atomic_load_n(&meeting->cell[i]->arrived, __ATOMIC_ACQUIRE) < meeting->cell[i]->needed)
            return false;
    return true;
}

/* Print the line about a failed assertion that a real driver prints on the program's stderr. */
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
        gwi_note("assert %s", line); /* stderr is closed */
}

/* If the environment requests it, write a GPU core dump and end the process, as a real driver does. */
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
