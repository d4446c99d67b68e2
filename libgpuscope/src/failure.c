/* Record the first failure of a scope and of the process, and find out whether the context is still usable. */
#include "gwi_scope.h"

#include "gwi_driver.h"

#include <stdarg.h>
#include <string.h>

static pthread_mutex_t process_lock = PTHREAD_MUTEX_INITIALIZER;
static gs_failure process_failure;
static bool has_process_failure;

void gwi_keep(gs_scope *scope, const gs_failure *failure)
{
    if (gwi_is_trial && failure->status == GS_NO_MEMORY)
        return;
    pthread_mutex_lock(&process_lock);
    if (!has_process_failure) {
        process_failure = *failure;
        has_process_failure = true;
    }
    pthread_mutex_unlock(&process_lock);
    if (scope == NULL)
        return;
    pthread_mutex_lock(&gwi_lock);
    if (!scope->has_failure) {
        scope->failure = *failure;
        scope->has_failure = true;
    }
    if (failure->status == GS_DEAD && atomic_load_explicit(&scope->device->is_dead, memory_order_relaxed) == 0) {
        scope->device->death = *failure;
        atomic_store_explicit(&scope->device->is_dead, 1, memory_order_release);
    }
    pthread_mutex_unlock(&gwi_lock);
}

bool gwi_is_dead(const gs_scope *scope)
{
    return gwi_driver_is_forked() || atomic_load_explicit(&scope->device->is_dead, memory_order_acquire) != 0;
}

bool gwi_process_failure(gs_failure *ret_failure)
{
    pthread_mutex_lock(&process_lock);
    bool has = has_process_failure;
    if (has)
        *ret_failure = process_failure;
    pthread_mutex_unlock(&process_lock);
    return has;
}

/* If the error number does not show whether the context is usable, make a harmless driver call. If this call shows that
 * it is not, set failure->is_sticky. */
static void ask_driver(gs_failure *failure)
{
    size_t free_bytes, total_bytes;
    bool is_library =
        failure->source != GS_FROM_DRIVER && failure->source != GS_FROM_CUDART && failure->source != GS_FROM_SCOPE;
    if (!gwi_driver_is_loaded() || (!is_library && gwi_sticks_by_table(failure->source, failure->code) != -1))
        return;
    int code = gwi_cuda.cuMemGetInfo_v2(&free_bytes, &total_bytes);
    if (code == 0)
        return;
    failure->is_sticky = gwi_sticks_by_table(GS_FROM_DRIVER, code) == 1 || (!is_library && code == failure->code);
    if (!is_library || !failure->is_sticky)
        return;
    gs_failure beneath;
    gwi_describe(&beneath, GS_FROM_DRIVER, code, "cuMemGetInfo_v2", "", 0);
    size_t used = strlen(failure->text);
    snprintf(failure->text + used, sizeof failure->text - used, "; caused by: %s", beneath.text);
}

gs_status gwi_failed(gs_scope *scope, gs_source source, int code, const char *call, const char *note, const char *file,
                     int line)
{
    gs_failure failure;
    gwi_describe(&failure, source, code, call, file, line);
    if (note != NULL && note[0] != '\0') {
        size_t used = strlen(failure.text);
        snprintf(failure.text + used, sizeof failure.text - used, ": %s", note);
    }
    ask_driver(&failure);
    failure.status = GS_FAILED;
    if (failure.is_sticky)
        failure.status = GS_DEAD;
    else if ((source == GS_FROM_DRIVER || source == GS_FROM_CUDART) && code == CUDA_ERROR_OUT_OF_MEMORY)
        failure.status = GS_NO_MEMORY;
    gwi_keep(scope, &failure);
    return failure.status;
}

gs_status gwi_refuse(gs_scope *scope, gs_status status, const char *call, const char *file, int line,
                     const char *format, ...)
{
    gs_failure failure;
    va_list arguments;
    va_start(arguments, format);
    gwi_describe_refusal(&failure, status, call, file, line, format, arguments);
    va_end(arguments);
    gwi_keep(scope, &failure);
    return status;
}

/* ---- public functions ---- */

int gs_death(const gs_scope *scope, gs_failure *ret_failure)
{
    if (scope == NULL || !gwi_is_dead(scope))
        return 0;
    if (gwi_driver_is_forked())
        gwi_driver_load(ret_failure); /* always fails after a fork, and stores the reason */
    else
        *ret_failure = scope->device->death;
    return 1;
}

int gs_first_failure(const gs_scope *scope, gs_failure *ret_failure)
{
    if (scope == NULL)
        return gwi_process_failure(ret_failure);
    pthread_mutex_lock(&gwi_lock);
    bool has = scope->has_failure;
    if (has)
        *ret_failure = scope->failure;
    pthread_mutex_unlock(&gwi_lock);
    return has ? 1 : gs_death(scope, ret_failure);
}

void gs_forgive(gs_scope *scope)
{
    if (scope == NULL)
        return;
    pthread_mutex_lock(&gwi_lock);
    scope->has_failure = false;
    pthread_mutex_unlock(&gwi_lock);
}
