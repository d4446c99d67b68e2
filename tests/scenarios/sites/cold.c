/* Makes driver calls on a rare path, which compilers move out of the function into "keep.cold". In a stripped program,
 * no symbol names this code. */
#include <stdio.h>
#include <stdlib.h>

int cuInit(unsigned);
int cuDeviceGet(int *, int);
int cuDevicePrimaryCtxRetain(void **, int);
int cuCtxSetCurrent(void *);
int cuMemAlloc_v2(unsigned long long *, unsigned long);
int cuMemFree_v2(unsigned long long);

__attribute__((cold, noinline)) static void refused(int result)
{
    fprintf(stderr, "no room: %d\n", result);
    exit(1);
}

__attribute__((cold, noinline)) static int allocate(unsigned long long *ret_block)
{
    int result = cuMemAlloc_v2(ret_block, 64 << 20);
    __asm__ volatile("" : "+r"(result)); /* prevents a tail call */
    return result;
}

__attribute__((noinline)) unsigned long keep(volatile const unsigned *wanted, unsigned count)
{
    unsigned long sum = 0;
    for (unsigned i = 0; i < count; i++) {
        if (wanted[i] != 0) {
            unsigned long long block, scratch; /* block is kept, scratch is freed */
            int result = allocate(&block);
            result = result != 0 ? result : allocate(&scratch);
            if (result != 0)
                refused(result);
            sum += (unsigned long)block;
            cuMemFree_v2(scratch);
        }
        sum += i;
    }
    return sum;
}

int main(void)
{
    enum { BLOCKS = 1000 };
    static volatile unsigned wanted[BLOCKS];
    int device;
    void *context;
    if (cuInit(0) != 0 || cuDeviceGet(&device, 0) != 0 || cuDevicePrimaryCtxRetain(&context, device) != 0 ||
        cuCtxSetCurrent(context) != 0)
        return 2;
    for (unsigned i = 0; i < BLOCKS; i++)
        wanted[i] = 1;
    return keep(wanted, BLOCKS) == 0;
}
