/* Detects idle workers of thread pools by the frames of their stacks. In a library that is nothing but a pool, any
 * frame is enough. In others, the frame must be in the function where idle workers wait. */
#include "gwi_pools.h"

#include "gw_sites.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

typedef enum sign { MODULE, FUNCTION, PYTHON, NAME } sign;

/* What a row's pattern is compared with:
 * - MODULE: the name of the mapped file
 * - FUNCTION: a native function
 * - PYTHON: the path of a Python file, a blank, and a function
 * - NAME: a thread's name, if its stack could not be read */
static const struct {
    sign sign;
    const char *pool;
    const char *pattern;
} rows[] = {
    {MODULE, "OpenBLAS", "lib*openblas*"},
    {FUNCTION, "OpenBLAS", "blas_thread_server*"},
    {MODULE, "OpenMP", "libgomp*"},
    {MODULE, "OpenMP", "libomp.so*"},
    {MODULE, "OpenMP", "libomp-*"},
    {MODULE, "OpenMP", "libiomp5*"},
    {MODULE, "TBB", "libtbb*"},
    {MODULE, "MKL", "libmkl_*_thread*"},
    {FUNCTION, "PyTorch", "torch::autograd::ReadyQueue::pop*"},
    {FUNCTION, "PyTorch", "c10::ThreadPool::main_loop*"},
    {FUNCTION, "PyTorch", "c10::TaskThreadPool*"},
    {FUNCTION, "PyTorch", "c10d::*"},
    {PYTHON, "PyTorch", "*torch/utils/data/_utils/pin_memory.py *"},
    {FUNCTION, "XLA", "Eigen::ThreadPoolTempl*"},
    {FUNCTION, "XLA", "tsl::*"},
    {FUNCTION, "XLA", "xla::*"},
    {MODULE, "XLA", "libjax_common*"},
    {MODULE, "XLA", "xla_extension*"},
    {MODULE, "XLA", "xla_cuda_plugin*"},
    {MODULE, "TensorFlow", "libtensorflow*"},
    {MODULE, "TensorFlow", "_pywrap_tensorflow*"},
    {MODULE, "Arrow", "libarrow*"},
    {MODULE, "NCCL", "libnccl*"},
    {MODULE, "the CUDA driver", "libcuda.so*"},
    {PYTHON, "Python's executors", "*concurrent/futures/thread.py *_worker"},
    {PYTHON, "Python's executors", "*multiprocessing/pool.py *_handle_*"},
    {NAME, "the CUDA driver", "cuda-Evt*"},
    {NAME, "the CUDA driver", "cuda0000*"},
    {NAME, "PyTorch", "pt_autograd_*"},
    {NAME, "jemalloc", "jemalloc_bg_thd*"},
};

static const char *pool_of(sign by, const char *text)
{
    for (size_t i = 0; text != NULL && i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].sign == by && fnmatch(rows[i].pattern, text, 0) == 0)
            return rows[i].pool;
    return NULL;
}

static const char *pool_of_frame(const gw_frame *frame)
{
    char text[512];
    if (frame->python) {
        snprintf(text, sizeof text, "%.300s %.150s", frame->file == NULL ? "" : frame->file,
                 frame->function == NULL ? "" : frame->function);
        return pool_of(PYTHON, text);
    }
    const char *pool = frame->module == NULL ? NULL : pool_of(MODULE, gw_path_last(frame->module));
    return pool != NULL ? pool : pool_of(FUNCTION, frame->function);
}

/* True if the frame is in a file of the standard library where idle workers of Python pools wait. Any Python frame
 * outside the pool means that the worker is not idle. */
static bool may_be_inside(const gw_frame *frame)
{
    static const char *const files[] = {"threading.py", "queue.py", "queues.py", "connection.py", "selectors.py"};
    return frame->whose == GW_WHOSE_RUNTIME && frame->file != NULL && GW_IS_ONE_OF(gw_path_last(frame->file), files);
}

static const char *pool_of_stack(const gw_stack *stack)
{
    const char *pool = NULL;
    bool python = false, pool_is_python = false;
    for (size_t i = 0; i < stack->count; i++) {
        const gw_frame *frame = &stack->frame[i];
        const char *its = pool_of_frame(frame);
        if (its == NULL && frame->whose <= GW_WHOSE_USER)
            return NULL;
        python = python || (frame->python && its == NULL && !may_be_inside(frame));
        if (its == NULL || pool != NULL)
            continue;
        pool = its;
        pool_is_python = frame->python;
    }
    if (!pool_is_python) /* a native worker with Python frames runs code of the program */
        for (size_t i = 0; i < stack->count; i++)
            python = python || stack->frame[i].python;
    return python ? NULL : pool;
}

/* Find the pool from frames that were recorded as text: "blas_thread_server+0x2f1 in libopenblas.so.0". Only older
 * recordings have such frames. */
static const char *pool_of_texts(const gw_hang_thread *thread)
{
    const char *pool = NULL;
    for (size_t i = 0; i < thread->frame_count && pool == NULL; i++) {
        char function[128];
        const char *in = strstr(thread->frame[i], " in ");
        snprintf(function, sizeof function, "%.*s", (int)strcspn(thread->frame[i], "+ "), thread->frame[i]);
        pool = in == NULL ? NULL : pool_of(MODULE, gw_path_last(in + 4));
        pool = pool != NULL ? pool : pool_of(FUNCTION, function);
    }
    return pool;
}

const char *gwi_idle_worker_of(const gwi_case *c, const gw_hang_thread *thread)
{
    const gw_stack *stack = gw_sites_stack(c->model->sites, thread->site);
    if (thread->owner_tid != 0 || thread->inside_fn[0] != '\0' || thread->questions > 0 ||
        thread->tid == c->hang.hang->pid || strcmp(thread->wait, "running") == 0)
        return NULL;
    if (stack != NULL && stack->count > 0)
        return pool_of_stack(stack);
    return thread->frame_count > 0 ? pool_of_texts(thread) : pool_of(NAME, thread->name);
}

size_t gwi_count_idle_workers(const gwi_case *c, const gw_hang *hang)
{
    size_t count = 0;
    for (size_t i = 0; i < hang->thread_count; i++)
        count += gwi_idle_worker_of(c, &hang->thread[i]) != NULL;
    return count;
}

void gwi_say_idle_workers(const gwi_case *c, gwi_finding *finding, const gw_hang *hang)
{
    enum { POOLS_MAX = 16 };
    const char *pool[POOLS_MAX];
    size_t members[POOLS_MAX], count = 0, all = 0;
    for (size_t i = 0; i < hang->thread_count; i++) {
        const char *its = gwi_idle_worker_of(c, &hang->thread[i]);
        size_t k = 0;
        if (its == NULL)
            continue;
        all++;
        while (k < count && strcmp(pool[k], its) != 0)
            k++;
        if (k == POOLS_MAX)
            continue;
        if (k == count) {
            pool[count] = its;
            members[count++] = 0;
        }
        members[k]++;
    }
    if (all == 0)
        return;
    gw_text names = {0};
    for (size_t k = 0; k < count; k++)
        gw_text_addf(&names, "%s%s %zu", k == 0 ? "" : ", ", pool[k], members[k]);
    gwi_measure(finding, hang->t_ns, "host", (double)all, "count", "%zu idle worker%s of thread pools (%s)", all,
                GWI_PLURAL(all), gw_text_str(&names));
    finding->failed = finding->failed || names.failed;
    gw_text_free(&names);
}
