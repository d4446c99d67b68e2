/* The virtual driver's state, its lock, the table of objects, the file `notes` of the run, and the code that ends every
 * call (gwi_leave). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "gwi_virt.h"

gwi_state gwi = {.lock = PTHREAD_MUTEX_INITIALIZER};
_Thread_local gwi_thread gwi_self;

/* Text that explains the failure that the call is about to return. It is written to the driver's log after the lock is
 * released. */
static _Thread_local char said[512];

uint64_t gwi_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void gwi_lock(void)
{
    pthread_mutex_lock(&gwi.lock);
}

void gwi_unlock(void)
{
    pthread_mutex_unlock(&gwi.lock);
}

void gwi_say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(said, sizeof said, format, args);
    va_end(args);
}

int gwi_leave(int result)
{
    gwi_unlock();
    if (result != 0 && result != CUDA_ERROR_NOT_READY) {
        if (said[0] != '\0')
            gwi_log_line(said, CU_LOG_LEVEL_ERROR);
        gwi_log_result(gw_api_fns[gwi_self.fn].symbol, result);
    }
    said[0] = '\0';
    return result;
}

_Noreturn void gwi_crash(const void *handle)
{
    /* A real driver dereferences the dead handle. Crash in the same way, so that the program sees a segmentation fault,
     * not an abort or an exit. */
    (void)handle;
    volatile uintptr_t nowhere = 16;
    gwi_unlock();
    for (;;)
        *(volatile int *)nowhere = 0;
}

/* --- notes ---------------------------------------------------------------------------------------------- */

void gwi_note(const char *format, ...)
{
    char line[512];
    char path[4096];
    va_list args;
    va_start(args, format);
    int bytes = vsnprintf(line, sizeof line - 1, format, args);
    va_end(args);
    struct rlimit limit;
    /* Writing beyond the limit would raise SIGXFSZ, which ends the program. */
    bool is_limited = getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < 1 << 20;
    if (gwi.folder == NULL || bytes < 0 || is_limited)
        return;
    if (bytes > (int)sizeof line - 2)
        bytes = sizeof line - 2;
    line[bytes++] = '\n';
    snprintf(path, sizeof path, "%s/notes", gwi.folder);
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    if (write(fd, line, (size_t)bytes) != bytes)
        gwi.folder = NULL; /* disk full: stop writing notes */
    close(fd);
}

int gwi_virt_lacks(unsigned fn)
{
    static unsigned char noted[GW_FN_COUNT];
    if (!__atomic_exchange_n(&noted[fn], 1, __ATOMIC_RELAXED))
        gwi_note("lacks %s", gw_api_fns[fn].symbol);
    gwi_log_result(gw_api_fns[fn].symbol, CUDA_ERROR_NOT_SUPPORTED);
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* --- objects -------------------------------------------------------------------------------------------- */

void gwi_object_add(gwi_object *object, gwi_kind kind)
{
    object->kind = kind;
    object->range.base = (uintptr_t)object;
    object->range.bytes = 1;
    gw_ranges_add(&gwi.objects, &object->range);
}

void gwi_object_remove(gwi_object *object)
{
    gw_ranges_remove(&gwi.objects, &object->range);
}

void *gwi_object_find(const void *handle, gwi_kind kind)
{
    gwi_object *object = (gwi_object *)gw_ranges_at(&gwi.objects, (uintptr_t)handle);
    return object != NULL && object->kind == kind ? object : NULL;
}

gwi_context *gwi_current(void)
{
    return gwi_self.context_count > 0 ? gwi_self.contexts[gwi_self.context_count - 1] : NULL;
}

gwi_device *gwi_device_find(CUdevice device)
{
    return device >= 0 && (unsigned)device < gwi.spec.device_count ? &gwi.devices[device] : NULL;
}

bool gwi_context_is(const gwi_context *context, unsigned generation)
{
    return context->alive && context->generation == generation;
}

int gwi_see_fault(gwi_context *context)
{
    if (context == NULL || context->fault == 0)
        return 0;
    context->fault_seen = true;
    gwi.process_fault = context->fault;
    return context->fault;
}

/* Applies faults of the GPUs to this process. The shared state records what happened to each GPU (health.c). This file
 * makes the contexts of the process fail accordingly. */

static void contexts_ruin(const gwi_device *device, int code)
{
    for (gw_range *range = gw_ranges_from(&gwi.objects, 0); range != NULL;
         range = gw_ranges_from(&gwi.objects, range->base + 1)) {
        gwi_context *context = (gwi_context *)range;
        if (context->object.kind != GWI_CONTEXT || context->device != device || !context->alive)
            continue;
        if (context->fault == 0)
            context->fault = code;
        context->fault_seen = true;
        gwi.process_fault = context->fault;
        gwi_abandon(context);
    }
}

void gwi_cards_look(void)
{
    if (!gwi.cards_fail)
        return;
    gwi_health_look(gwi.shared, &gwi.spec);
    for (unsigned d = 0; d < gwi.spec.device_count; d++) {
        const gwi_shared_card *card = &gwi.shared->cards[d];
        uint64_t strikes = __atomic_load_n(&card->strike_count, __ATOMIC_ACQUIRE);
        if (strikes == gwi.devices[d].strikes_seen)
            continue;
        gwi.devices[d].strikes_seen = strikes;
        if (card->strike_pid == 0 || card->strike_pid == getpid())
            contexts_ruin(&gwi.devices[d], card->strike_code);
    }
}

void gwi_cards_call(unsigned fn)
{
    for (unsigned i = 0; i < gwi.spec.fault_count; i++) {
        const gw_virt_fault *fault = &gwi.spec.faults[i];
        if (fault->kind == GW_VIRT_FAULT_CARD && fault->when == GW_VIRT_WHEN_CALL &&
            strcmp(fault->name, gw_api_fns[fn].symbol) == 0 && ++gwi.fault_calls[i] == fault->count)
            gwi_health_strike(gwi.shared, &gwi.spec, i, getpid());
    }
}

bool gwi_card_is_lost(unsigned device)
{
    return gwi.shared->cards[device].is_lost;
}

uint64_t gwi_card_copy_ns(const gwi_device *device, const gwi_work *work)
{
    static const uint64_t lane_bytes_per_us[] = {0, 250, 500, 985, 1969, 3938, 7563}; /* indexed by PCIe generation */
    const gwi_shared_card *card = &gwi.shared->cards[device->index];
    if (!gwi.cards_fail || card->link_generation == 0 || !work->copy.crosses_link)
        return 0;
    uint64_t bytes = (uint64_t)work->copy.width * work->copy.height * work->copy.depth;
    return bytes * 1000 / (lane_bytes_per_us[card->link_generation] * card->link_lanes);
}

uint64_t gwi_card_slowed_ns(const gwi_device *device, uint64_t duration_ns)
{
    const gwi_shared_card *card = &gwi.shared->cards[device->index];
    if (!gwi.cards_fail || duration_ns > UINT64_MAX / 4)
        return duration_ns;
    if (card->thermal_since_ns != 0 || card->power_brake_since_ns != 0)
        return duration_ns * 2;
    return card->power_cap_since_ns != 0 ? duration_ns + duration_ns / 4 : duration_ns;
}
