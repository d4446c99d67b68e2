/* Test the hook with the driver of this machine: every export, the resolver with every name, version and flag, and one
 * context. Exits with 77 (skipped) without a driver. */
#include "gw_api.h"
#include "gw_cuda_calls.h"
#include "gw_facade.h"
#include "gwi_elf.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

#include "check.h"
#include "walk.h"

enum { SKIPPED = 77 };

#define FN(library, name) ((__typeof__(name) *)dlsym(library, #name))

static walk seen;

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void check_names(void *driver, void *facade, const char *path)
{
    gwi_elf elf;
    gw_error err;
    int names = 0;
    CHECK(gwi_elf_open(path, &elf, &err) == GW_OK, "%s", err.text);
    for (uint32_t i = 0; i < elf.symbol_count; i++) {
        const char *name = gwi_elf_symbol_name(&elf, &elf.symbol[i]);
        if (!gwi_elf_symbol_exported(&elf.symbol[i]))
            continue;
        names++;
        CHECK(dlsym(driver, name) != NULL && dlsym(facade, name) != NULL, "%s", name);
    }
    gwi_elf_close(&elf);
    for (int fn = 0; fn < GW_FN_COUNT; fn++)
        CHECK((dlsym(driver, gw_api_fns[fn].symbol) != NULL) == (dlsym(facade, gw_api_fns[fn].symbol) != NULL), "%s",
              gw_api_fns[fn].symbol);
    printf("%d exported names answer as without us\n", names);
}

static void check_resolver(void *driver, void *facade)
{
    static const int versions[] = {2000,  3020,  4000,  5050,  6050,  7000,  8000,  9000,  10000, 10020, 11000,
                                   11030, 11040, 11080, 12000, 12030, 12050, 12080, 12090, 13000, 13020};
    int wrapped = 0, passed = 0, absent = 0, unknown = 0;
    __typeof__(cuGetProcAddress_v2) *real = FN(driver, cuGetProcAddress_v2);
    __typeof__(cuGetProcAddress_v2) *ours = FN(facade, cuGetProcAddress_v2);
    if (real == NULL) {
        printf("SKIPPED the resolver's matrix: this driver has no cuGetProcAddress_v2\n");
        return;
    }
    for (int n = 0; n < GW_API_ROUTE_COUNT; n++) {
        const char *name = gw_api_routes[n].name;
        if (n > 0 && strcmp(name, gw_api_routes[n - 1].name) == 0)
            continue;
        for (size_t v = 0; v < sizeof versions / sizeof versions[0] * 3; v++) {
            void *a = NULL, *b = NULL;
            CUdriverProcAddressQueryResult status_a = 7, status_b = 7;
            CUresult result_a = real(name, &a, versions[v / 3], v % 3, &status_a);
            CUresult result_b = ours(name, &b, versions[v / 3], v % 3, &status_b);
            CHECK(result_a == result_b && status_a == status_b && (a == NULL) == (b == NULL), "%s %d", name,
                  versions[v / 3]);
            if (a == NULL || b == NULL) {
                absent++;
                continue;
            }
            wrapped += a != b;
            passed += a == b;
            Dl_info info;
            int fn = dladdr(a, &info) != 0 && info.dli_saddr == a ? gw_api_find_symbol(info.dli_sname) : -1;
            if (fn < 0)
                unknown++;
            else
                CHECK(b == dlsym(facade, info.dli_sname), "%s %d -> %s: not what its name leads to", name,
                      versions[v / 3], info.dli_sname);
        }
    }
    CHECK(wrapped > 1000, "only %d wrapped", wrapped);
    printf("resolver: %d answers wrapped, %d passed through, %d absent; %d at addresses without a known name\n",
           wrapped, passed, absent, unknown);
}

static void live(void *facade)
{
    CUcontext context = NULL;
    int device = 0;
    CUdeviceptr address = 0;
    size_t free_bytes = 0, total = 0;
    CHECK(FN(facade, cuInit)(0) == 0, "cuInit");
    CHECK(FN(facade, cuDeviceGet)(&device, 0) == 0, "cuDeviceGet");
    CHECK(FN(facade, cuDevicePrimaryCtxRetain)(&context, device) == 0, "retain");
    CHECK(FN(facade, cuCtxSetCurrent)(context) == 0, "current");
    CHECK(FN(facade, cuMemGetInfo_v2)(&free_bytes, &total) == 0, "info");
    __typeof__(cuMemAlloc_v2) *alloc = FN(facade, cuMemAlloc_v2);
    __typeof__(cuMemFree_v2) *free_block = FN(facade, cuMemFree_v2);
    CHECK(alloc(&address, 1 << 20) == 0, "alloc");
    CHECK(free_block(address) == 0, "free");
    CHECK(alloc(&address, total * 2) == 2, "too much");
    CHECK(free_block(12345) == 1, "free of nothing");
    CHECK(FN(facade, cuCtxSynchronize)() == 0, "sync");
    CHECK(FN(facade, cuDevicePrimaryCtxRelease_v2)(device) == 0, "release");
}

static void check_buffer(const char *run_dir)
{
    char path[512];
    const void *map = walk_find(run_dir, 0, path, sizeof path) ? walk_open(path) : NULL;
    if (map == NULL || !walk_map(&seen, map)) {
        CHECK(false, "buffer: %s", map != NULL ? seen.fault : "none");
        return;
    }
    CHECK(walk_event_find(&seen, GW_EV_INIT, 0) != NULL, "INIT");
    CHECK(walk_event_find(&seen, GW_EV_ALLOC, 0) != NULL, "ALLOC");
    CHECK(walk_event_find(&seen, GW_EV_ALLOC, 2) != NULL, "failed ALLOC");
    CHECK(walk_event_find(&seen, GW_EV_MEMORY_INFO, 0) != NULL, "MEMORY_INFO");
    CHECK(walk_event_find(&seen, GW_EV_FREE, 1) != NULL, "failed FREE");
    CHECK(walk_event_find(&seen, GW_EV_CTX_RELEASE, 0) != NULL, "CTX_RELEASE");
    const walk_event *device = walk_event_find(&seen, GW_EV_DEVICE, 0);
    CHECK(device != NULL && device->text[0] != '\0' && device->raw.arg[2] != UINT64_MAX, "DEVICE");
    for (int i = 0; i < seen.event_count; i++) {
        const walk_event *e = &seen.event[i];
        if (e->raw.kind == GW_EV_NOTE) {
            printf("note %llu: %s %llu\n", (unsigned long long)e->raw.arg[0], e->text,
                   (unsigned long long)e->raw.arg[1]);
            CHECK(e->raw.arg[0] != GW_NOTE_UNREACHED, "%s", e->text);
        } else if (e->raw.kind == GW_EV_DRIVER_LOG) {
            printf("driver log: %s\n", e->text);
        } else if (e->raw.kind == GW_EV_DRIVER || e->raw.kind == GW_EV_DEVICE) {
            printf("%s %llu %llu %llu %s\n", e->raw.kind == GW_EV_DRIVER ? "driver" : "device",
                   (unsigned long long)e->raw.arg[0], (unsigned long long)e->raw.arg[1],
                   (unsigned long long)e->raw.arg[2], e->text);
        }
    }
}

int main(void)
{
    char base[] = "/dev/shm/gpuwhy-real-test-XXXXXX", path[300], command[300], *driver_path = NULL;
    gw_error err;
    if (gw_driver_locate("/proc/self/exe", getenv("LD_LIBRARY_PATH"), &driver_path, &err) != GW_OK) {
        printf("SKIPPED: %s\n", err.text);
        return SKIPPED;
    }
    if (mkdtemp(base) == NULL)
        return 2;
    printf("driver %s\n", driver_path);
    setenv("GPUWHY_RUN_DIR", base, 1);
    setenv("GPUWHY_ATTACH", "0", 1);
    if (gw_facade_write(driver_path, HOOK, base, &err) != GW_OK) {
        printf("FAILED %s\n", err.text);
        return 1;
    }
    snprintf(path, sizeof path, "%s/libcuda.so.1", base);
    double t0 = now_us();
    void *facade = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    double t1 = now_us();
    void *driver = dlopen(driver_path, RTLD_NOW | RTLD_LOCAL);
    if (facade == NULL || driver == NULL) {
        printf("FAILED %s\n", dlerror());
        return 1;
    }
    printf("the facade opens in %.0f us, the driver in %.0f us\n", t1 - t0, now_us() - t1);
    check_names(driver, facade, driver_path);
    live(facade);
    check_resolver(driver, facade);
    check_buffer(base);
    snprintf(command, sizeof command, "rm -rf '%s'", base);
    if (system(command) != 0)
        printf("%s was left behind\n", base);
    free(driver_path);
    printf("%d checks, %d failed\n", checks, failed_checks);
    return failed_checks != 0;
}
