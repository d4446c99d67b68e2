/* S26: the software of a program does not match the GPU or the driver, because of the virtual GPU's specification
 * (fault=CODE@FUNCTION, driver=VERSION).
 * The program loads a library, looks up an optional newer function, and works. A missing optional function alone is no
 * fault.
 * --without: without CUDA, the program continues, prints nothing, and fails for an unrelated reason.
 * --kernel NAME: its kernel has this name. --bytes N: it also requests so much memory; with --convolves, in a function
 * that has the name of one of PyTorch's. Names of kernels and functions show which part of a library a program used. */
#include "scenario.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Return the kernel `store` under another name. */
static CUfunction kernel_named(const char *name)
{
    static const char store[] = "store";
    char ptx[4096];
    size_t used = 0;
    for (const char *at = scenario_ptx; *at != '\0' && used + strlen(name) + 1 < sizeof ptx;) {
        bool is_name = strncmp(at, store, sizeof store - 1) == 0;
        used += (size_t)snprintf(ptx + used, sizeof ptx - used, "%.*s", is_name ? 64 : 1, is_name ? name : at);
        at += is_name ? sizeof store - 1 : 1;
    }
    return gpu_kernel(gpu_load(ptx), name);
}

/* Named like a function of PyTorch. The result is stored, so that the call is no jump and the frame stays. */
static volatile CUdeviceptr columns;
__attribute__((noinline)) static void slow_conv_dilated3d(size_t bytes)
{
    columns = scenario_take(bytes);
}

int main(int argc, char **argv)
{
    const char *truth_path = NULL, *library = NULL, *second = NULL, *status = NULL, *kernel = "store";
    int without = 0, convolves = 0;
    long long bytes = 0;
    const struct option_row rows[] = {
        {"truth", OPTION_TEXT, &truth_path, "file for what the program knows"},
        {"library", OPTION_TEXT, &library, "a library to load first"},
        {"second", OPTION_TEXT, &second, "another one"},
        {"status", OPTION_TEXT, &status, "what a library answers: the program ends of it"},
        {"without", OPTION_FLAG, &without, "do without a GPU where there is none, and fail later in silence"},
        {"kernel", OPTION_TEXT, &kernel, "name of the kernel"},
        {"bytes", OPTION_NUMBER, &bytes, "memory to request at the end"},
        {"convolves", OPTION_FLAG, &convolves, "request it in a function of PyTorch"},
        {NULL, OPTION_FLAG, NULL, NULL}};
    options_parse(argc, argv, rows, "Works with a driver that may be older than what it was built for.");
    truth_open(truth_path);
    if (library != NULL && dlopen(library, RTLD_NOW) == NULL)
        scenario_fail("%s", dlerror());
    if (second != NULL && dlopen(second, RTLD_NOW) == NULL)
        scenario_fail("%s", dlerror());
    struct gpu gpu;
    CUdeviceptr block;
    void *optional = NULL;
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SUCCESS;
    const struct timespec a_while = {.tv_nsec = 400000000};
    if (without && cuInit(0) != CUDA_SUCCESS) {
        nanosleep(&a_while, NULL);
        _exit(1);
    }
    gpu_open(&gpu, 0);
    (void)cuGetProcAddress_v2("cuLogsRegisterCallback", &optional, 12090, 0, &found);
    truth("optional", "%d", (int)found);
    nanosleep(&a_while, NULL); /* run for a while, like a real training run */
    CHECK(cuMemAlloc(&block, 4096));
    CHECK(scenario_store(kernel_named(kernel), block, NULL));
    CHECK(cuCtxSynchronize());
    CHECK(cuMemFree(block));
    if (convolves)
        slow_conv_dilated3d((size_t)bytes);
    else if (bytes != 0)
        (void)scenario_take((size_t)bytes);
    gpu_close(&gpu);
    if (status != NULL)
        scenario_fail("cuDNN error: %s", status);
    printf("worked\n");
    return 0;
}
