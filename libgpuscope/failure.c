/* Record the first failure of a scope and of the process: which call failed, where, and whether the context is still
 * usable. */
#include "gwi_scope.h"

#include "gw_data.h"
#include "gwi_driver.h"

#include <stdarg.h>
#include <string.h>

static pthread_mutex_t process_lock = PTHREAD_MUTEX_INITIALIZER;
static gs_failure process_failure;
static bool has_process_failure;

const char *gs_status_text(int status)
{
    static const char *const texts[] = {
#define GS_X(name, text) text,
        GS_STATUSES(GS_X)
#undef GS_X
    };
    _Static_assert(sizeof texts / sizeof *texts == GS_STATUS_COUNT, "a text for each status");
    return status >= 0 && status < GS_STATUS_COUNT ? texts[status] : "not a status";
}

/* Copy a string. If it is too long, copy its end, which is the useful part of a path. */
static void copy_end(char *to, size_t to_bytes, const char *from)
{
    size_t bytes = from == NULL ? 0 : strlen(from);
    if (bytes >= to_bytes)
        from += bytes - to_bytes + 1;
    snprintf(to, to_bytes, "%s", from == NULL ? "" : from);
}

static void describe_code(gs_failure *failure)
{
    char *out = failure->text;
    size_t bytes = sizeof failure->text;
    if (failure->source != GS_FROM_DRIVER) {
        const char *text = gwi_library_error(failure->source, failure->code);
        snprintf(out, bytes, "%d%s%s", failure->code, text == NULL ? "" : ": ", text == NULL ? "" : text);
        return;
    }
    const gw_cuda_error *error = gw_data_cuda_error((unsigned)failure->code);
    const char *name = NULL, *text = NULL;
    if (error != NULL) {
        name = error->driver_name != NULL ? error->driver_name : error->runtime_name;
        text = error->meaning;
    }
    if (gwi_driver_is_loaded()) { /* prefer the driver's own name and text */
        const char *own_name = NULL, *own_text = NULL;
        if (gwi_cuda.cuGetErrorName(failure->code, &own_name) == 0 && own_name != NULL)
            name = own_name;
        if (gwi_cuda.cuGetErrorString(failure->code, &own_text) == 0 && own_text != NULL)
            text = own_text;
    }
    snprintf(out, bytes, "%s (%d)%s%s", name == NULL ? "unknown error" : name, failure->code, text == NULL ? "" : ": ",
             text == NULL ? "" : text);
}

/* Look up whether an error is sticky. Returns 1 if it is, 0 if it is not, and -1 if the error number alone does not
 * show it. */
static int sticks_by_table(gs_source source, int code)
{
    const gw_cuda_error *error = source == GS_FROM_DRIVER ? gw_data_cuda_error((unsigned)code) : NULL;
    if (source != GS_FROM_DRIVER)
        return 0;
    if (error == NULL)
        return -1;
    switch (error->sticky) {
    case GW_STICKY_YES:
    case GW_STICKY_PRACTICE:
        return 1;
    case GW_STICKY_NO:
        return error->usable == GW_USABLE_NO; /* not sticky, but the context is just as unusable */
    default:
        return -1;
    }
}

void gwi_describe(gs_failure *failure, gs_source source, int code, const char *call, const char *file, int line)
{
    memset(failure, 0, sizeof *failure);
    failure->status = GS_FAILED;
    failure->source = source;
    failure->code = code;
    failure->line = line;
    failure->is_sticky = sticks_by_table(source, code) == 1;
    snprintf(failure->call, sizeof failure->call, "%s", call);
    copy_end(failure->file, sizeof failure->file, file);
    describe_code(failure);
    if (gwi_launched.call != NULL) {
        snprintf(failure->launch_call, sizeof failure->launch_call, "%s", gwi_launched.call);
        copy_end(failure->launch_file, sizeof failure->launch_file, gwi_launched.file);
        failure->launch_line = gwi_launched.line;
    }
}

static void describe_refusal(gs_failure *failure, gs_status status, const char *call, const char *file, int line,
                             const char *format, va_list arguments)
{
    memset(failure, 0, sizeof *failure);
    failure->status = status;
    failure->source = GS_FROM_SCOPE;
    failure->line = line;
    snprintf(failure->call, sizeof failure->call, "%s", call);
    copy_end(failure->file, sizeof failure->file, file);
    vsnprintf(failure->text, sizeof failure->text, format, arguments);
}

gs_status gwi_refusal(gs_failure *failure, gs_status status, const char *call, const char *format, ...)
{
    if (failure == NULL)
        return status;
    va_list arguments;
    va_start(arguments, format);
    describe_refusal(failure, status, call, "", 0, format, arguments);
    va_end(arguments);
    return status;
}

/* ---- storing failures ---- */

_Thread_local bool gwi_is_trial;

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

/* If the error number does not show whether the context is still usable, make a harmless driver call to find out. */
static void ask_driver(gs_failure *failure)
{
    size_t free_bytes, total_bytes;
    bool is_library = failure->source != GS_FROM_DRIVER && failure->source != GS_FROM_SCOPE;
    if (!gwi_driver_is_loaded() || (!is_library && sticks_by_table(failure->source, failure->code) != -1))
        return;
    int code = gwi_cuda.cuMemGetInfo_v2(&free_bytes, &total_bytes);
    if (code == 0)
        return;
    failure->is_sticky = sticks_by_table(GS_FROM_DRIVER, code) == 1 || (!is_library && code == failure->code);
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
    else if (source == GS_FROM_DRIVER && code == CUDA_ERROR_OUT_OF_MEMORY)
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
    describe_refusal(&failure, status, call, file, line, format, arguments);
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

char *gs_failure_text(const gs_failure *failure, char *out, size_t out_bytes)
{
    char place[160] = "", launch[260] = "";
    if (failure->file[0] != '\0')
        snprintf(place, sizeof place, "%s:%d: ", failure->file, failure->line);
    if (failure->is_sticky && failure->launch_call[0] != '\0')
        snprintf(launch, sizeof launch, "\nthis thread's newest launch before it: %s at %s:%d", failure->launch_call,
                 failure->launch_file, failure->launch_line);
    snprintf(out, out_bytes, "%s%s: %s%s%s", place, failure->call, failure->text,
             failure->is_sticky ? " (sticky: restart the process)" : "", launch);
    return out;
}

int gs_alive(void)
{
    gs_scope *scope = gwi_current();
    return scope == NULL || !gwi_is_dead(scope);
}

gs_status gs_check(gs_source source, int code, const char *call, const char *file, int line)
{
    if (source == GS_FROM_DRIVER && code == CUDA_ERROR_NOT_READY)
        return GS_NOT_READY;
    return code == 0 ? GS_OK : gwi_failed(gwi_current(), source, code, call, NULL, file, line);
}
