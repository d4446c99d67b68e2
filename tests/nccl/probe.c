/* Prints how a program finds functions of NCCL: by weak references, and by dlsym() in all its forms. The output must be
 * the same with and without gpuwhy, whether NCCL is loaded, lacks functions, or is not there. With an argument, opens
 * that library first. */
#define _GNU_SOURCE
#include "gpu.h"
#include "gw_nccl_abi.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int ncclAllReduce(const void *, void *, size_t, int, int, ncclComm_t, CUstream) __attribute__((weak));
int ncclAlltoAll(const void *, void *, size_t, int, ncclComm_t, CUstream) __attribute__((weak));

static const char *found(const void *address)
{
    return address == NULL ? "absent" : "found";
}

/* dlerror() must say what it says without gpuwhy, and nothing after a success. */
static void look_up(const char *how, void *handle, const char *name)
{
    const void *address = dlsym(handle, name);
    const char *error = dlerror();
    printf("%s %s: %s, %s\n", how, name, found(address), error == NULL ? "no error" : strrchr(error, ':'));
}

int main(int argc, char **argv)
{
    struct gpu gpu;
    gpu_open(&gpu, 0);
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    printf("weak: %s %s\n", found((void *)ncclAllReduce), found((void *)ncclAlltoAll));
    for (int round = 0; round < 2; round++) {
        look_up("default", RTLD_DEFAULT, "ncclAllReduce");
        look_up("next", RTLD_NEXT, "ncclAllReduce");
        look_up("next", RTLD_NEXT, "strlen");
        if (library != NULL) {
            look_up("library", library, "ncclAllReduce");
            look_up("library", library, "pncclAllReduce");
            look_up("library", library, "ncclAlltoAll");
            look_up("library", library, "ncclNothing");
        }
    }
    gpu_close(&gpu);
    return 0;
}
