/* The program for the single-step test of hook_test.c. Between two SIGSTOPs to itself, it calls functions that record
 * every kind of event. */
#include "gw_api.h"
#include "gw_cuda_calls.h"
#include "gw_event.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef int any_fn(long, long, long, long, long, long, long, long, long, long, long, long);
typedef void set_result_fn(const char *, int);
#define FN(name) ((__typeof__(name) *)fn[GW_FN_##name])

enum { A_KIND_MAX = 2 };

static void mark(void)
{
    syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGSTOP);
}

/* Usage: stepper [FUNCTIONS]. Calls at most FUNCTIONS functions, and at most two for each kind of event. */
int main(int argc, char **argv)
{
    int left = argc > 1 ? atoi(argv[1]) : GW_FN_COUNT;
    CUcontext context = NULL;
    CUfunction function;
    int calls[GW_EV_COUNT] = {0};
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (driver == NULL)
        return 2;
    void *fn[GW_FN_COUNT];
    for (int i = 0; i < GW_FN_COUNT; i++)
        fn[i] = dlsym(driver, gw_api_fns[i].symbol);
    set_result_fn *set_result = (set_result_fn *)dlsym(driver, "fake_set_result");
    FN(cuInit)(0);
    mark();
    FN(cuDevicePrimaryCtxRetain)(&context, 0);
    FN(cuCtxSetCurrent)(context);
    FN(cuModuleGetFunction)(&function, NULL, "a_kernel_with_a_name_longer_than_one_record");
    for (int i = 0; i < GW_FN_COUNT; i++) {
        int kind = gw_api_fns[i].kind;
        if (fn[i] == NULL || !(gw_api_fns[i].flags & GW_API_PUBLIC) || (gw_api_fns[i].flags & GW_API_INSTEAD) ||
            calls[kind]++ >= A_KIND_MAX || left-- <= 0)
            continue;
        ((any_fn *)fn[i])(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0); /* the call succeeds */
        set_result(gw_api_fns[i].symbol, calls[kind] == 1 ? 700 : 2);
        ((any_fn *)fn[i])(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0); /* the call fails */
        set_result(NULL, 0);
    }
    mark();
    return 0;
}
