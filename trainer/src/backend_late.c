/* List the back ends of the program: backend_find() as in backend.c, which the tests use. The back end `cpu` is in the
 * module trainer-cpu.so beside the program and is loaded only on request: oneDNN loads more libraries, an OpenCL loader
 * among them, which have no place in a process that uses CUDA. */
#include "backend.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifdef TRAINER_CPU
enum { PATH_BYTES = 4096 };

/* Write the path of the module to `path`. Returns false if it is too long. */
static bool find_module(char path[PATH_BYTES])
{
    static const char name[] = "trainer-cpu.so";
    ssize_t length = readlink("/proc/self/exe", path, PATH_BYTES - 1);
    if (length <= 0)
        return false;
    path[length] = '\0';
    char *base = strrchr(path, '/') + 1;
    if (sizeof name > (size_t)(path + PATH_BYTES - base))
        return false;
    memcpy(base, name, sizeof name);
    return true;
}

/* The module stays loaded until the process ends. */
static const struct backend *load_cpu(void)
{
    char path[PATH_BYTES];
    if (!find_module(path))
        return NULL;
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (module == NULL) {
        fprintf(stderr, "trainer: %s\n", dlerror());
        return NULL;
    }
    return dlsym(module, "backend_cpu");
}
#endif

const struct backend *backend_find(const char *name)
{
#ifdef TRAINER_CPU
    if (strcmp(name, "cpu") == 0)
        return load_cpu();
#endif
    if (strcmp(name, backend_cuda.name) == 0)
        return &backend_cuda;
    return strcmp(name, backend_dry.name) == 0 ? &backend_dry : NULL;
}
