/* S26: the software of a program does not match the GPU or the driver, because of the virtual GPU's specification
 * (fault=CODE@FUNCTION, driver=VERSION).
 * The program loads a library, looks up an optional newer function, and works. A missing optional function alone is no
 * fault.
 * --without: without CUDA, the program continues, prints nothing, and fails for an unrelated reason. */
#include "scenario.h"

#include <dlfcn.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    const char *truth_path = NULL, *library = NULL, *second = NULL, *status = NULL;
    int without = 0;
    const struct option_row rows[] = {
        {"truth", OPTION_TEXT, &truth_path, "file for what the program knows"},
        {"library", OPTION_TEXT, &library, "a library to load first"},
        {"second", OPTION_TEXT, &second, "another one"},
        {"status", OPTION_TEXT, &status, "what a library answers: the program ends of it"},
        {"without", OPTION_FLAG, &without, "do without a GPU where there is none, and fail later in silence"},
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
    CUfunction store = gpu_kernel(gpu_load(scenario_ptx), "store");
    CHECK(cuMemAlloc(&block, 4096));
    CHECK(scenario_store(store, block, NULL));
    CHECK(cuCtxSynchronize());
    CHECK(cuMemFree(block));
    gpu_close(&gpu);
    if (status != NULL)
        scenario_fail("cuDNN error: %s", status);
    printf("worked\n");
    return 0;
}
