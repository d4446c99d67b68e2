/* Submit work in the thread's innermost scope. */
#include "gwi_scope.h"

#include "gwi_driver.h"
#include "gwi_libraries.h"

/* Find the thread's innermost scope. Returns GS_MISUSE if there is none (*ret_scope is then NULL), and GS_DEAD if the
 * scope is dead. */
static gs_status working(const char *call, const char *file, int line, gs_scope **ret_scope)
{
    gs_scope *scope = gwi_current();
    *ret_scope = scope;
    if (scope == NULL)
        return gwi_refuse(NULL, GS_MISUSE, call, file, line, "this thread has not entered a scope: call gs_enter()");
    return gwi_is_dead(scope) ? GS_DEAD : GS_OK;
}

#define WORK(name, driver_call, arguments)                                                                             \
    do {                                                                                                               \
        gs_scope *scope;                                                                                               \
        gs_status status = working(name, file, line, &scope);                                                          \
        if (status != GS_OK)                                                                                           \
            return status;                                                                                             \
        int code = gwi_cuda.driver_call arguments;                                                                     \
        return code == 0 ? GS_OK : gwi_failed(scope, GS_FROM_DRIVER, code, #driver_call, NULL, file, line);            \
    } while (0)

gs_status gs_copy_in_at(CUdeviceptr to, const void *from, size_t bytes, CUstream stream, const char *file, int line)
{
    WORK("gs_copy_in", cuMemcpyHtoDAsync_v2, (to, from, bytes, stream));
}

gs_status gs_copy_out_at(void *to, CUdeviceptr from, size_t bytes, CUstream stream, const char *file, int line)
{
    WORK("gs_copy_out", cuMemcpyDtoHAsync_v2, (to, from, bytes, stream));
}

gs_status gs_copy_at(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream, const char *file, int line)
{
    WORK("gs_copy", cuMemcpyDtoDAsync_v2, (to, from, bytes, stream));
}

gs_status gs_fill_at(CUdeviceptr to, unsigned char byte, size_t bytes, CUstream stream, const char *file, int line)
{
    WORK("gs_fill", cuMemsetD8Async, (to, byte, bytes, stream));
}

gs_status gs_record_at(CUevent event, CUstream stream, const char *file, int line)
{
    WORK("gs_record", cuEventRecord, (event, stream));
}

gs_status gs_follow_at(CUstream stream, CUevent event, const char *file, int line)
{
    WORK("gs_follow", cuStreamWaitEvent, (stream, event, 0));
}

gs_status gs_wait_at(CUstream stream, const char *file, int line)
{
    WORK("gs_wait", cuStreamSynchronize, (stream));
}

gs_status gs_wait_event_at(CUevent event, const char *file, int line)
{
    WORK("gs_wait_event", cuEventSynchronize, (event));
}

gs_status gs_wait_all_at(const char *file, int line)
{
    WORK("gs_wait_all", cuCtxSynchronize, ());
}

gs_status gs_elapsed_at(CUevent begin, CUevent end, float *ret_ms, const char *file, int line)
{
    WORK("gs_elapsed", cuEventElapsedTime, (ret_ms, begin, end));
}

gs_status gs_launch(CUfunction kernel, gs_dims grid, gs_dims block, unsigned shared_bytes, CUstream stream,
                    void **arguments, const char *call, const char *file, int line)
{
    gs_scope *scope;
    gs_status status = working("gs_launch", file, line, &scope);
    if (status != GS_OK)
        return status;
    gwi_launched = (gwi_last_launch){.call = call, .file = file, .line = line};
    int code = gwi_cuda.cuLaunchKernel(kernel, grid.x, grid.y, grid.z, block.x, block.y, block.z, shared_bytes, stream,
                                       arguments, NULL);
    const char *driver_call = "cuLaunchKernel";
    if (code == 0 && (scope->flags & GS_WAIT_FOR_LAUNCHES)) {
        driver_call = "cuStreamSynchronize";
        code = gwi_cuda.cuStreamSynchronize(stream);
    }
    return code == 0 ? GS_OK : gwi_failed(scope, GS_FROM_DRIVER, code, driver_call, call, file, line);
}

void *gs_symbol(gs_source source, const char *name)
{
    return source == GS_FROM_DRIVER ? gwi_driver_symbol(name) : gwi_library_symbol(source, name);
}
