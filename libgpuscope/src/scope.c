/* Open scopes, and keep track of the threads inside them. */
#include "gwi_scope.h"

#include "gwi_driver.h"

#include <gpuwhy.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* protected by gwi_lock; a row is never removed, so pointers to rows stay valid */
static gwi_device devices[GWI_DEVICES_MAX];
static size_t device_count;

static _Thread_local gwi_entry *innermost;
static pthread_key_t thread_end;
static pthread_once_t thread_end_once = PTHREAD_ONCE_INIT;
static int thread_end_error;

gs_scope *gwi_current(void)
{
    return innermost == NULL ? NULL : innermost->scope;
}

void gwi_log(gs_scope *scope, const char *format, ...)
{
    char line[512];
    if (scope->log == NULL)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    scope->log(scope->log_user, line);
}

void gs_phase(const char *name)
{
    gpuwhy_phase(name);
}

/* ---- entries ---- */

static void unlink_entry_locked(gwi_entry *entry)
{
    gwi_entry **at = &entry->scope->entries;
    while (*at != entry)
        at = &(*at)->next;
    *at = entry->next;
}

/* Remove a thread's entries when the thread ends. Its current context need not be restored. */
static void leave_all(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&gwi_lock);
    while (innermost != NULL) {
        gwi_entry *entry = innermost;
        innermost = entry->outer;
        unlink_entry_locked(entry);
        free(entry);
    }
    pthread_mutex_unlock(&gwi_lock);
}

static void make_thread_end(void)
{
    thread_end_error = pthread_key_create(&thread_end, leave_all);
}

/* Create the calling thread's entry for a scope, but do not add it to a list yet. After this, entering the scope cannot
 * run out of host memory. */
static gs_status new_entry(gs_scope *scope, const char *file, int line, gwi_entry **ret_entry)
{
    pthread_once(&thread_end_once, make_thread_end);
    gwi_entry *entry = calloc(1, sizeof *entry);
    if (entry == NULL || thread_end_error != 0 || pthread_setspecific(thread_end, &innermost) != 0) {
        free(entry);
        return GS_NO_HOST_MEMORY;
    }
    entry->scope = scope;
    entry->thread = syscall(SYS_gettid);
    entry->file = file;
    entry->line = line;
    *ret_entry = entry;
    return GS_OK;
}

static void add_entry_locked(gwi_entry *entry)
{
    entry->next = entry->scope->entries;
    entry->scope->entries = entry;
    entry->outer = innermost;
    innermost = entry;
}

static bool is_within(const gs_scope *scope, const gs_scope *outer)
{
    while (scope != NULL && scope != outer)
        scope = scope->parent;
    return scope != NULL;
}

bool gwi_entries_leave(gs_scope *scope, CUcontext *ret_before)
{
    bool found = false;
    pthread_mutex_lock(&gwi_lock);
    for (gwi_entry **at = &innermost, *inner = NULL; *at != NULL;) {
        gwi_entry *entry = *at;
        if (!is_within(entry->scope, scope)) {
            inner = entry;
            at = &entry->outer;
            continue;
        }
        if (inner == NULL) {
            *ret_before = entry->before;
            found = true;
        } else if (inner->before == scope->device->context) {
            inner->before = entry->before; /* leaving the inner scope must not bring back the ended scope's context */
        }
        *at = entry->outer;
        unlink_entry_locked(entry);
        free(entry);
    }
    pthread_mutex_unlock(&gwi_lock);
    return found;
}

/* Make the scope's context current in this thread. Returns the driver's error, or 0 for success. *ret_call is the call
 * that failed. */
static int make_current(gs_scope *scope, CUcontext *ret_before, const char **ret_call)
{
    *ret_call = "cuCtxGetCurrent";
    int code = gwi_cuda.cuCtxGetCurrent(ret_before);
    if (code != 0 || *ret_before == scope->device->context)
        return code;
    *ret_call = "cuCtxSetCurrent";
    return gwi_cuda.cuCtxSetCurrent(scope->device->context);
}

gs_status gwi_usable(gs_scope *scope, const char *call, const char *file, int line)
{
    if (scope == NULL)
        return gwi_refuse(NULL, GS_MISUSE, call, file, line, "no scope was given");
    if (gwi_is_dead(scope))
        return GS_DEAD;
    if (innermost == NULL)
        return gwi_refuse(scope, GS_MISUSE, call, file, line, "this thread has not entered the scope: call gs_enter()");
    if (innermost->scope->device != scope->device)
        return gwi_refuse(scope, GS_MISUSE, call, file, line,
                          "this thread's innermost scope is on device %d, not on %d", innermost->scope->device->ordinal,
                          scope->device->ordinal);
    return GS_OK;
}

int gs_alive(void)
{
    gs_scope *scope = gwi_current();
    return scope == NULL || !gwi_is_dead(scope);
}

gs_status gs_check(gs_source source, int code, const char *call, const char *file, int line)
{
    if ((source == GS_FROM_DRIVER || source == GS_FROM_CUDART) && code == CUDA_ERROR_NOT_READY)
        return GS_NOT_READY;
    return code == 0 ? GS_OK : gwi_failed(gwi_current(), source, code, call, NULL, file, line);
}

gs_status gs_enter_at(gs_scope *scope, const char *file, int line)
{
    gwi_entry *entry;
    const char *call;
    if (scope == NULL)
        return gwi_refuse(NULL, GS_MISUSE, "gs_enter", file, line, "no scope was given");
    if (gwi_is_dead(scope))
        return GS_DEAD;
    gs_status status = new_entry(scope, file, line, &entry);
    if (status != GS_OK)
        return gwi_refuse(scope, status, "gs_enter", file, line, "no host memory for an entry");
    int code = make_current(scope, &entry->before, &call);
    if (code != 0) {
        free(entry);
        return gwi_failed(scope, GS_FROM_DRIVER, code, call, NULL, file, line);
    }
    pthread_mutex_lock(&gwi_lock);
    bool is_ending = scope->is_ending;
    if (!is_ending)
        add_entry_locked(entry);
    pthread_mutex_unlock(&gwi_lock);
    if (!is_ending)
        return GS_OK;
    if (entry->before != scope->device->context)
        gwi_cuda.cuCtxSetCurrent(entry->before);
    free(entry);
    return gwi_refuse(scope, GS_MISUSE, "gs_enter", file, line, "the scope is being ended");
}

gs_status gs_leave_at(gs_scope *scope, const char *file, int line)
{
    if (scope == NULL || innermost == NULL || innermost->scope != scope)
        return gwi_refuse(scope, GS_MISUSE, "gs_leave", file, line, "this is not the innermost scope of this thread");
    gwi_entry *entry = innermost;
    pthread_mutex_lock(&gwi_lock);
    innermost = entry->outer;
    unlink_entry_locked(entry);
    pthread_mutex_unlock(&gwi_lock);
    int code = 0;
    if (!gwi_is_dead(scope) && entry->before != scope->device->context)
        code = gwi_cuda.cuCtxSetCurrent(entry->before);
    free(entry);
    return code == 0 ? GS_OK : gwi_failed(scope, GS_FROM_DRIVER, code, "cuCtxSetCurrent", NULL, file, line);
}

/* ---- opening ---- */

static gs_status device_row(int ordinal, int device, gwi_device **ret_device)
{
    gs_status status = GS_OK;
    pthread_mutex_lock(&gwi_lock);
    gwi_device *row = devices;
    while (row < devices + device_count && row->device != device)
        row++;
    if (row == devices + GWI_DEVICES_MAX) {
        status = GS_UNSUPPORTED;
    } else if (row == devices + device_count) {
        row->ordinal = ordinal;
        row->device = device;
        device_count++;
    }
    pthread_mutex_unlock(&gwi_lock);
    *ret_device = row;
    return status;
}

static gs_scope *new_scope(gs_scope *parent, const gs_options *options, const char *file, int line)
{
    gs_scope *scope = calloc(1, sizeof *scope);
    if (scope == NULL)
        return NULL;
    if (parent != NULL) {
        scope->parent = parent;
        scope->device = parent->device;
        scope->flags = parent->flags;
        scope->log = parent->log;
        scope->log_user = parent->log_user;
    }
    scope->file = file;
    scope->line = line;
    if (options == NULL)
        return scope;
    snprintf(scope->name, sizeof scope->name, "%s", options->name == NULL ? "" : options->name);
    scope->flags |= options->flags;
    scope->limit_bytes = options->memory_bytes;
    if (options->log != NULL) {
        scope->log = options->log;
        scope->log_user = options->log_user;
    }
    return scope;
}

static int look_at_memory(gs_scope *scope)
{
    size_t free_bytes, total_bytes;
    int code = gwi_cuda.cuMemGetInfo_v2(&free_bytes, &total_bytes);
    if (code != 0)
        return code;
    pthread_mutex_lock(&gwi_lock);
    scope->has_memory = true;
    scope->free_begin_bytes = free_bytes;
    scope->device_begin_bytes = scope->device->taken_bytes;
    pthread_mutex_unlock(&gwi_lock);
    return 0;
}

/* Finish opening a scope that has a device and a retained context, and add it to its parent. Returns the driver's
 * error, or 0 for success. Frees `entry` on failure. */
static int begin(gs_scope *scope, gwi_entry *entry, const char **ret_call)
{
    int code = make_current(scope, &entry->before, ret_call);
    if (code != 0) {
        free(entry);
        return code;
    }
    *ret_call = "cuMemGetInfo_v2";
    code = look_at_memory(scope);
    if (code != 0) {
        if (entry->before != scope->device->context)
            gwi_cuda.cuCtxSetCurrent(entry->before);
        free(entry);
        return code;
    }
    pthread_mutex_lock(&gwi_lock);
    add_entry_locked(entry);
    if (scope->parent != NULL) {
        scope->sibling = scope->parent->children;
        scope->parent->children = scope;
    }
    pthread_mutex_unlock(&gwi_lock);
    if (scope->name[0] != '\0')
        gpuwhy_phase(scope->name);
    return 0;
}

/* Report the failure to open a scope in `failure`, because there is no scope that could store it. */
static gs_status not_opened(gwi_device *device, int code, const char *call, gs_failure *failure, const char *file,
                            int line)
{
    gs_scope stand_in = {.device = device};
    gs_status status = gwi_failed(&stand_in, GS_FROM_DRIVER, code, call, NULL, file, line);
    *failure = stand_in.failure;
    return status;
}

static gs_status open_on(gwi_device *device, const gs_options *options, gs_scope **ret_scope, gs_failure *failure,
                         const char *file, int line)
{
    gwi_entry *entry;
    CUcontext context;
    const char *call = "cuDevicePrimaryCtxRetain";
    gs_scope *scope = new_scope(NULL, options, file, line);
    if (scope == NULL || new_entry(scope, file, line, &entry) != GS_OK) {
        free(scope);
        return gwi_refusal(failure, GS_NO_HOST_MEMORY, "gs_open", "no host memory for a scope");
    }
    scope->device = device;
    int code = gwi_cuda.cuDevicePrimaryCtxRetain(&context, device->device);
    if (code != 0) {
        free(entry);
        free(scope);
        return not_opened(device, code, call, failure, file, line);
    }
    pthread_mutex_lock(&gwi_lock);
    if (device->context != context) /* do not write the same value again: other threads read it without the lock */
        device->context = context;
    pthread_mutex_unlock(&gwi_lock);
    code = begin(scope, entry, &call);
    if (code != 0) {
        free(scope);
        gs_status status = not_opened(device, code, call, failure, file, line);
        gwi_cuda.cuDevicePrimaryCtxRelease_v2(device->device);
        return status;
    }
    *ret_scope = scope;
    return GS_OK;
}

gs_status gs_open_at(const gs_options *options, gs_scope **ret_scope, gs_failure *ret_failure, const char *file,
                     int line)
{
    gs_failure failure;
    gwi_device *row;
    int device, ordinal = options == NULL ? 0 : options->device;
    gs_status status = gwi_driver_load(&failure);
    if (status != GS_OK)
        goto out;
    int code = gwi_cuda.cuDeviceGet(&device, ordinal);
    if (code != 0) {
        gwi_describe(&failure, GS_FROM_DRIVER, code, "cuDeviceGet", file, line);
        status = failure.status = code == CUDA_ERROR_INVALID_DEVICE ? GS_NO_DEVICE : GS_FAILED;
        goto out;
    }
    status = device_row(ordinal, device, &row);
    if (status != GS_OK) {
        gwi_refusal(&failure, status, "gs_open", "more than %d devices", GWI_DEVICES_MAX);
        goto out;
    }
    if (atomic_load_explicit(&row->is_dead, memory_order_acquire) != 0) {
        failure = row->death;
        status = GS_DEAD;
        goto out;
    }
    status = open_on(row, options, ret_scope, &failure, file, line);
out:
    if (status == GS_OK)
        return status;
    gwi_keep(NULL, &failure);
    if (ret_failure != NULL)
        *ret_failure = failure;
    return status;
}

gs_status gs_begin_at(gs_scope *parent, const gs_options *options, gs_scope **ret_scope, const char *file, int line)
{
    gwi_entry *entry;
    const char *call;
    gs_status status = gwi_usable(parent, "gs_begin", file, line);
    if (status != GS_OK)
        return status;
    gs_scope *scope = new_scope(parent, options, file, line);
    if (scope == NULL || new_entry(scope, file, line, &entry) != GS_OK) {
        free(scope);
        return gwi_refuse(parent, GS_NO_HOST_MEMORY, "gs_begin", file, line, "no host memory for a scope");
    }
    int code = begin(scope, entry, &call);
    if (code != 0) {
        free(scope);
        return gwi_failed(parent, GS_FROM_DRIVER, code, call, NULL, file, line);
    }
    *ret_scope = scope;
    return GS_OK;
}
