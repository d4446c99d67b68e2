/* Describe a failure: which call failed, where, and what the error means. */
#include "gwi_scope.h"

#include "gwi_driver.h"
#include "gwi_libraries.h"

#include <stdarg.h>
#include <string.h>

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

/* CUDA's results: names, texts, and whether the process must end after one (GW_CUDA_ERRORS). Names and texts may be
 * NULL. */
typedef struct cuda_error {
    unsigned code;
    const char *driver_name, *runtime_name, *text, *meaning;
    int sticks;
} cuda_error;

static const cuda_error *cuda_error_of(int code)
{
    static const cuda_error errors[] = {
#define GS_X(...) {__VA_ARGS__},
        GW_CUDA_ERRORS(GS_X)
#undef GS_X
    };
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == (unsigned)code)
            return &errors[i];
    return NULL;
}

/* Copy a string. If it is too long, copy its end, which is the useful part of a path. */
static void copy_end(char *to, size_t to_bytes, const char *from)
{
    size_t bytes = from == NULL ? 0 : strlen(from);
    if (bytes >= to_bytes)
        from += bytes - to_bytes + 1;
    snprintf(to, to_bytes, "%s", from == NULL ? "" : from);
}

/* The runtime's numbers are those of the driver, and a few more. */
static void describe_runtime_code(gs_failure *failure)
{
    const cuda_error *error = cuda_error_of(failure->code);
    const char *name = error == NULL ? NULL : error->runtime_name, *text = NULL;
    if (name == NULL)
        name = error == NULL ? "unknown error" : error->driver_name;
    if (error != NULL)
        text = error->text == NULL ? error->meaning : error->text;
    snprintf(failure->text, sizeof failure->text, "%s (%d)%s%s", name, failure->code, text == NULL ? "" : ": ",
             text == NULL ? "" : text);
}

static void describe_code(gs_failure *failure)
{
    char *out = failure->text;
    size_t bytes = sizeof failure->text;
    if (failure->source == GS_FROM_CUDART) {
        describe_runtime_code(failure);
        return;
    }
    if (failure->source != GS_FROM_DRIVER) {
        const char *text = gwi_library_error(failure->source, failure->code);
        snprintf(out, bytes, "%d%s%s", failure->code, text == NULL ? "" : ": ", text == NULL ? "" : text);
        return;
    }
    const cuda_error *error = cuda_error_of(failure->code);
    const char *name = NULL, *text = NULL;
    if (error != NULL) {
        name = error->driver_name != NULL ? error->driver_name : error->runtime_name;
        text = error->meaning;
    }
    if (gwi_driver_is_loaded()) { /* prefer the driver's name and text to those of our table */
        const char *own_name = NULL, *own_text = NULL;
        if (gwi_cuda.cuGetErrorName(failure->code, &own_name) == 0 && own_name != NULL)
            name = own_name;
        if (gwi_cuda.cuGetErrorString(failure->code, &own_text) == 0 && own_text != NULL)
            text = own_text;
    }
    snprintf(out, bytes, "%s (%d)%s%s", name == NULL ? "unknown error" : name, failure->code, text == NULL ? "" : ": ",
             text == NULL ? "" : text);
}

int gwi_sticks_by_table(gs_source source, int code)
{
    bool has_numbers = source == GS_FROM_DRIVER || source == GS_FROM_CUDART;
    const cuda_error *error = has_numbers ? cuda_error_of(code) : NULL;
    if (!has_numbers)
        return 0;
    return error == NULL ? -1 : error->sticks;
}

void gwi_describe(gs_failure *failure, gs_source source, int code, const char *call, const char *file, int line)
{
    memset(failure, 0, sizeof *failure);
    failure->status = GS_FAILED;
    failure->source = source;
    failure->code = code;
    failure->line = line;
    failure->is_sticky = gwi_sticks_by_table(source, code) == 1;
    snprintf(failure->call, sizeof failure->call, "%s", call);
    copy_end(failure->file, sizeof failure->file, file);
    describe_code(failure);
    if (gwi_launched.call != NULL) {
        snprintf(failure->launch_call, sizeof failure->launch_call, "%s", gwi_launched.call);
        copy_end(failure->launch_file, sizeof failure->launch_file, gwi_launched.file);
        failure->launch_line = gwi_launched.line;
    }
}

void gwi_describe_refusal(gs_failure *failure, gs_status status, const char *call, const char *file, int line,
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
    gwi_describe_refusal(failure, status, call, "", 0, format, arguments);
    va_end(arguments);
    return status;
}

gs_status gwi_driver_load(gs_failure *ret_failure)
{
    gwi_driver_trouble trouble;
    gs_status status = gwi_driver_open(&trouble);
    if (status == GS_OK)
        return status;
    if (trouble.code == 0)
        return gwi_refusal(ret_failure, status, trouble.call, "%s", trouble.text);
    gwi_describe(ret_failure, GS_FROM_DRIVER, trouble.code, trouble.call, "", 0);
    return ret_failure->status = status;
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
