// Everything is inlined into one function: templates, a lambda, a method. Each round keeps a block until the GPU is
// full. The lines that a report must show have a mark.
#include <cstdio>
#include <vector>

extern "C" {
int cuInit(unsigned);
int cuDeviceGet(int *, int);
int cuDevicePrimaryCtxRetain(void **, int);
int cuCtxSetCurrent(void *);
int cuMemAlloc_v2(unsigned long long *, unsigned long);
int cuMemFree_v2(unsigned long long);
}

namespace data
{
template <typename Element> class Loader
{
  public:
    __attribute__((always_inline)) inline bool next(unsigned long count)
    {
        unsigned long long address = 0;
        if (cuMemAlloc_v2(&address, count * sizeof(Element)) != 0) // mark: allocated
            return false;
        kept.push_back(address);
        return true;
    }

  private:
    std::vector<unsigned long long> kept;
};
} // namespace data

namespace
{
template <typename Work> __attribute__((always_inline)) inline void each_epoch(int epochs, Work &&work)
{
    for (int epoch = 0; epoch < epochs; epoch++)
        if (!work(epoch)) // mark: epoch
            return;
}
} // namespace

__attribute__((noinline)) static int train(data::Loader<float> &loader)
{
    int done = 0;
    each_epoch(1000, [&](int) __attribute__((always_inline)) {
        unsigned long long scratch = 0;
        if (cuMemAlloc_v2(&scratch, 8 << 20) != 0)
            return false;
        cuMemFree_v2(scratch);
        if (!loader.next(16 << 20)) // mark: batch
            return false;
        done++;
        return true;
    });
    return done; // prevents a tail call
}

int main()
{
    int device = 0;
    void *context = nullptr;
    data::Loader<float> loader;
    if (cuInit(0) != 0 || cuDeviceGet(&device, 0) != 0 || cuDevicePrimaryCtxRetain(&context, device) != 0 ||
        cuCtxSetCurrent(context) != 0)
        return 2;
    std::printf("%d batches\n", train(loader)); // mark: train
    return 1;
}
