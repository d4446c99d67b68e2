/* The trainer of train.py as a compiled program, with fewer faults. It declares what it needs of the driver API itself,
 * so that any C compiler can build it without headers of CUDA. See train.py for its rules. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef unsigned long long u64;
extern int cuInit(unsigned);
extern int cuDeviceGet(int *, int);
extern int cuDevicePrimaryCtxRetain(void **, int);
extern int cuCtxSetCurrent(void *);
extern int cuCtxSynchronize(void);
extern int cuModuleLoadData(void **, const void *);
extern int cuModuleGetFunction(void **, void *, const char *);
extern int cuMemAlloc_v2(u64 *, size_t);
extern int cuMemFree_v2(u64);
extern int cuMemcpyHtoD_v2(u64, const void *, size_t);
extern int cuMemcpyDtoH_v2(void *, u64, size_t);
extern int cuStreamCreate(void **, unsigned);
extern int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                          void **);
extern int cuGetErrorString(int, const char **);

static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                          ".visible .entry step(.param .u64 p)\n{\nret;\n}\n"
                          ".visible .entry address(.param .u64 p)\n{\nret;\n}\n"
                          ".visible .entry trap(.param .u64 p)\n{\nret;\n}\n"
                          ".visible .global .align 8 .u64 gpuwhy_model_address[3] = {0x4D4B594857555047, 1, 1};\n"
                          ".visible .global .align 8 .u64 gpuwhy_model_trap[3] = {0x4D4B594857555047, 1, 4};\n";

static struct {
    long long batch, accumulate, iterations, sample_mib, leak_mib, streams, every, at;
    const char *precision, *fault, *once, *checkpoint, *resume;
} set = {.batch = 8, .accumulate = 1, .iterations = 4, .sample_mib = 4, .every = 2, .at = 2, .precision = "fp32"};

static void *module;
static u64 block, state = 1;
static long long first_step;

static void check(int result, const char *name)
{
    const char *text = "unknown";
    if (result == 0)
        return;
    cuGetErrorString(result, &text);
    fprintf(stderr, "%s: CUDA error %d: %s\n", name, result, text);
    exit(1);
}

#define CHECK(call) check(call, #call)

static void record_start(int argc, char **argv)
{
    const char *path = getenv("RESCUE_STARTS");
    const char *visible = getenv("CUDA_VISIBLE_DEVICES"), *libraries = getenv("LD_LIBRARY_PATH");
    FILE *file = path == NULL ? NULL : fopen(path, "a");
    if (file == NULL)
        return;
    fprintf(file, "%s\x1f%d", getenv("GPUWHY_REHEARSE") != NULL ? "rehearsal" : "run", (int)getpid());
    if (visible != NULL)
        fprintf(file,
                "\x1f"
                "CUDA_VISIBLE_DEVICES=%s",
                visible);
    if (libraries != NULL)
        fprintf(file, "\x1fLD_LIBRARY_PATH=%s", libraries);
    fprintf(file, "\x1f--");
    for (int i = 1; i < argc; i++)
        fprintf(file, "\x1f%s", argv[i]);
    fprintf(file, "\n");
    fclose(file);
}

static void read_options(int argc, char **argv)
{
    const struct {
        const char *name;
        long long *number;
        const char **text;
    } rows[] = {{"--batch", &set.batch, NULL},
                {"--accumulate", &set.accumulate, NULL},
                {"--iterations", &set.iterations, NULL},
                {"--sample", &set.sample_mib, NULL},
                {"--leak", &set.leak_mib, NULL},
                {"--streams", &set.streams, NULL},
                {"--every", &set.every, NULL},
                {"--at", &set.at, NULL},
                {"--precision", NULL, &set.precision},
                {"--fault", NULL, &set.fault},
                {"--once", NULL, &set.once},
                {"--checkpoint", NULL, &set.checkpoint},
                {"--resume", NULL, &set.resume}};
    for (int i = 1; i + 1 < argc; i += 2)
        for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++)
            if (strcmp(argv[i], rows[row].name) == 0) {
                if (rows[row].number != NULL)
                    *rows[row].number = atoll(argv[i + 1]);
                else
                    *rows[row].text = argv[i + 1];
            }
}

static void launch(const char *name, unsigned threads)
{
    void *kernel, *arguments[] = {&block};
    CHECK(cuModuleGetFunction(&kernel, module, name));
    CHECK(cuLaunchKernel(kernel, 64, 1, 1, threads, 1, 1, 0, NULL, arguments, NULL));
}

static int is_faulty(void)
{
    if (set.once == NULL)
        return 1;
    if (access(set.once, F_OK) == 0)
        return 0;
    FILE *seen = fopen(set.once, "w");
    if (seen != NULL)
        fclose(seen);
    return 1;
}

static void fail(void)
{
    if (strcmp(set.fault, "segv") == 0)
        *(volatile int *)(size_t)set.at = 1; /* an address in the first page */
    if (strcmp(set.fault, "exit") == 0)
        exit(7);
    if (strcmp(set.fault, "threads") == 0)
        launch("step", 4096);
    launch(set.fault, 128);
    CHECK(cuCtxSynchronize());
}

static void forward(void)
{
    size_t bytes = (size_t)set.batch * (size_t)set.sample_mib << 20;
    u64 input, output;
    if (strcmp(set.precision, "bf16") == 0)
        bytes /= 2;
    CHECK(cuMemAlloc_v2(&input, bytes / 2));
    CHECK(cuMemAlloc_v2(&output, bytes - bytes / 2));
    launch("step", 128);
    CHECK(cuCtxSynchronize());
    CHECK(cuMemFree_v2(input));
    CHECK(cuMemFree_v2(output));
}

static void step(long long number)
{
    u64 total = 0, kept, back = 0;
    void *stream;
    if (set.leak_mib > 0)
        CHECK(cuMemAlloc_v2(&kept, (size_t)set.leak_mib << 20));
    for (long long i = 0; i < set.streams; i++)
        CHECK(cuStreamCreate(&stream, 1));
    for (long long part = 0; part < set.accumulate; part++) {
        forward();
        for (long long i = 0; i < set.batch; i++)
            total += (u64)((number * set.accumulate + part) * set.batch + i) * 2654435761u;
    }
    state = state * 6364136223846793005u + total + (u64)set.precision[0];
    CHECK(cuMemcpyHtoD_v2(block, &state, sizeof state));
    CHECK(cuMemcpyDtoH_v2(&back, block, sizeof back));
    state = back;
}

static void save(long long step_count)
{
    char name[512];
    snprintf(name, sizeof name, set.checkpoint, (int)step_count); /* the caller's pattern has one %d */
    FILE *file = fopen(name, "w");
    if (file == NULL || fprintf(file, "%lld %llu\n", step_count, state) < 0 || fclose(file) != 0) {
        perror(name);
        exit(1);
    }
}

static void load(void)
{
    FILE *file = fopen(set.resume, "r");
    if (file == NULL || fscanf(file, "%lld %llu", &first_step, &state) != 2) {
        perror(set.resume);
        exit(1);
    }
    fclose(file);
}

int main(int argc, char **argv)
{
    void *context;
    int device;
    record_start(argc, argv);
    read_options(argc, argv);
    if (set.resume != NULL)
        load();
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuModuleLoadData(&module, ptx));
    CHECK(cuMemAlloc_v2(&block, 512));
    for (long long number = first_step; number < set.iterations; number++) {
        if (set.fault != NULL && number == set.at && is_faulty())
            fail();
        step(number);
        if (set.checkpoint != NULL && (number + 1) % set.every == 0)
            save(number + 1);
    }
    printf("result %016llx\n", state);
    return 0;
}
