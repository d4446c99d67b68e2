/* S10: a server creates a stream for each request and never destroys it, until the device memory is used up. S10b
 * does this with contexts. Repaired: each one is destroyed after its request. */
#include "scenario.h"

#include <stdio.h>
#include <string.h>

struct server {
    struct gpu gpu;
    int contexts, repaired;
    long long made;
};

__attribute__((noreturn)) static void give_up(const struct server *s, CUresult result)
{
    truth(s->contexts ? "contexts" : "streams", "%lld", s->made);
    scenario_fail("request %lld: no %s: %d", s->made + 1, s->contexts ? "context" : "stream", (int)result);
}

static void request_with_stream(struct server *s)
{
    CUstream stream;
    CUresult result = cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    if (result != CUDA_SUCCESS)
        give_up(s, result);
    s->made++;
    CHECK(cuStreamSynchronize(stream));
    if (s->repaired)
        CHECK(cuStreamDestroy(stream));
}

static void request_with_context(struct server *s)
{
    CUcontext context;
    CUresult result = cuCtxCreate(&context, 0, s->gpu.device);
    if (result != CUDA_SUCCESS)
        give_up(s, result);
    s->made++;
    CHECK(cuCtxSynchronize());
    if (s->repaired)
        CHECK(cuCtxDestroy(context));
    CHECK(cuCtxSetCurrent(s->gpu.context));
}

int main(int argc, char **argv)
{
    const char *kind = "stream";
    struct server s = {.made = 0};
    long long requests = 0;
    const struct option_row rows[] = {{"kind", OPTION_TEXT, &kind, "stream or context"},
                                      {"requests", OPTION_NUMBER, &requests, "how many (20,000 or 400)"},
                                      {NULL, OPTION_FLAG, NULL, NULL}};
    s.repaired = scenario_begin(argc, argv, rows, "Makes a stream or a context for each request.");
    s.contexts = strcmp(kind, "context") == 0;
    if (requests == 0)
        requests = s.contexts ? 400 : 20000;
    gpu_open(&s.gpu, 0);
    for (long long request = 0; request < requests; request++)
        s.contexts ? request_with_context(&s) : request_with_stream(&s);
    gpu_close(&s.gpu);
    printf("%lld requests served\n", requests);
    return 0;
}
