/* S09: a library call fails, and only the library's own log shows the status. Either the program has used up the
 * memory for the library's handle, or it passes a wrong argument. Repaired: neither. */
#include "scenario.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* take_nearly_all() leaves at most ROOM_BYTES + BLOCK_BYTES free: less than a library handle needs (64 MiB). */
enum { ROOM_BYTES = 32 << 20, BLOCK_BYTES = 16 << 20 };

static void *symbol(void *library, const char *name)
{
    void *found = dlsym(library, name);
    if (found == NULL)
        scenario_fail("%s", dlerror());
    return found;
}

static void take_nearly_all(void)
{
    size_t free_bytes, total_bytes;
    CUdeviceptr block;
    for (scenario_memory(&free_bytes, &total_bytes); free_bytes > ROOM_BYTES + BLOCK_BYTES;
         scenario_memory(&free_bytes, &total_bytes))
        CHECK(cuMemAlloc(&block, free_bytes > 8 * (size_t)BLOCK_BYTES ? free_bytes / 2 : BLOCK_BYTES));
}

int main(int argc, char **argv)
{
    const char *path = NULL, *what = "handle", *until = NULL;
    long long warnings = 0;
    const struct option_row rows[] = {{"library", OPTION_TEXT, &path, "the library"},
                                      {"what", OPTION_TEXT, &what, "handle or argument"},
                                      {"warnings", OPTION_NUMBER, &warnings, "how often the library warns before"},
                                      {"until", OPTION_TEXT, &until, "a file to wait for before the end"},
                                      {NULL, OPTION_FLAG, NULL, NULL}};
    const struct timespec a_while = {.tv_nsec = 400000000}, moment = {.tv_nsec = 10000000};
    bool repaired = scenario_begin(argc, argv, rows, "Uses a library whose status it does not print.");
    void *library = path == NULL ? NULL : dlopen(path, RTLD_NOW), *handle = NULL;
    if (library == NULL)
        scenario_fail("%s", path == NULL ? "no --library" : dlerror());
    int (*create)(void **) = (int (*)(void **))symbol(library, "cudnnCreate");
    int (*finalize)(int, int) = (int (*)(int, int))symbol(library, "cudnnBackendFinalize");
    struct gpu gpu;
    gpu_open(&gpu, 0);
    nanosleep(&a_while, NULL); /* run for a while, like a real training run */
    if (strcmp(what, "handle") == 0 && !repaired)
        take_nearly_all();
    int status = create(&handle);
    if (status == 0)
        status = finalize(strcmp(what, "argument") != 0 || repaired, (int)warnings);
    truth("status", "%d", status);
    while (until != NULL && access(until, F_OK) != 0)
        nanosleep(&moment, NULL);
    if (status != 0)
        scenario_fail("the convolution could not be set up");
    gpu_close(&gpu);
    printf("worked\n");
    return 0;
}
