/* Makes two calls in one line. The second one is refused on every card. */
#include <dlfcn.h>
#include <stddef.h>

typedef int alloc_fn(unsigned long long *, size_t);

int main(void)
{
    void *cu = dlopen("libcuda.so.1", RTLD_NOW), *context;
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(cu, "cuInit");
    int (*create)(void **, unsigned, int) = (int (*)(void **, unsigned, int))dlsym(cu, "cuCtxCreate_v2");
    alloc_fn *alloc = (alloc_fn *)dlsym(cu, "cuMemAlloc_v2");
    unsigned long long a, b;
    if (init(0) != 0 || create(&context, 0, 0) != 0)
        return 9;
    return alloc(&a, 1 << 20) != 0 || /* mark: refused */ alloc(&b, (size_t)1 << 45) != 0;
}
