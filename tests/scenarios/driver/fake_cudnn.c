/* Imitate the part of cuDNN that writes a log, as version 9 or 8. The versions differ in the variables that enable the
 * log, in the status codes, and slightly in the text (src/record/sense/gw_cudnn_log.h). */
#include "gw_cuda_calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum { ERROR = 1, WARNING = 2, HANDLE_BYTES = 64 << 20 };
#if FAKE_CUDNN_MAJOR >= 9
enum { NOT_INITIALIZED = 1001, BAD_PARAM = 2000 };
#define VERSION "v90300 75"
#define MODE    "w"
#else
enum { NOT_INITIALIZED = 1, BAD_PARAM = 3 };
#define VERSION "v8700"
#define MODE    "a"
#endif

EXPORT int cudnnCreate(void **ret_handle);
EXPORT int cudnnBackendFinalize(int is_good, int warning_count);

static int number_of(const char *variable)
{
    const char *value = getenv(variable);
    return value == NULL ? 0 : atoi(value);
}

static int is_wanted(int severity)
{
#if FAKE_CUDNN_MAJOR >= 9
    if (number_of("CUDNN_LOGLEVEL_DBG") >= severity)
        return 1;
#endif
    return number_of(severity == ERROR ? "CUDNN_LOGERR_DBG" : "CUDNN_LOGWARN_DBG") != 0;
}

static FILE *log_file(void)
{
    static FILE *file;
    const char *destination = getenv("CUDNN_LOGDEST_DBG");
    if (file == NULL && destination != NULL)
        file = strcmp(destination, "stderr") == 0 ? stderr : fopen(destination, MODE);
    return file;
}

static void say(int severity, const char *function, const char *status, const char *reason)
{
    char now[32];
    time_t seconds = time(NULL);
    struct tm parts;
    FILE *file = is_wanted(severity) ? log_file() : NULL;
    char head = severity == ERROR ? 'E' : 'W', line = severity == ERROR ? 'e' : 'w';
    if (file == NULL)
        return;
    strftime(now, sizeof now, "%Y-%m-%dT%H:%M:%S", gmtime_r(&seconds, &parts));
    fprintf(file, "%c! CuDNN (" VERSION ") function %s() called:\n", head, function);
#if FAKE_CUDNN_MAJOR < 9
    fprintf(file, "%c!     Info: Traceback contains 2 message(s)\n", line);
#endif
    fprintf(file, "%c!         %s: %s; Reason: %s\n", line, severity == ERROR ? "Error" : "Warning", status, reason);
    fprintf(file, "%c!         %s: %s; Reason: finalize_internal()\n", line, severity == ERROR ? "Error" : "Warning",
            status);
    fprintf(file, "%c! Time: %s.000000 (0d+0h+0m+0s since start)\n", line, now);
    fprintf(file, "%c! Process=%d; Thread=%d; GPU=NULL; Handle=NULL; StreamId=NULL.\n\n", line, getpid(), getpid());
    fflush(file);
}

int cudnnCreate(void **ret_handle)
{
    CUdeviceptr memory;
    if (cuMemAlloc(&memory, HANDLE_BYTES) != CUDA_SUCCESS) {
        say(ERROR, "cudnnCreate", "CUDNN_STATUS_NOT_INITIALIZED", "cudaMalloc(&workspace) != cudaSuccess");
        return NOT_INITIALIZED;
    }
    *ret_handle = (void *)(size_t)memory;
    return 0;
}

/* Log `warning_count` warnings, and then an error unless `is_good`. */
int cudnnBackendFinalize(int is_good, int warning_count)
{
    for (int i = 0; i < warning_count; i++)
        say(WARNING, "cudnnBackendFinalize", "CUDNN_STATUS_NOT_SUPPORTED", "numUserNodes != 5 && numUserNodes != 6");
    if (is_good)
        return 0;
    say(ERROR, "cudnnBackendFinalize", "CUDNN_STATUS_BAD_PARAM", "xDesc.strideA[1] < 1");
    return BAD_PARAM;
}
