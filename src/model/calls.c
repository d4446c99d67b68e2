/* Finds the call of a framework in which memory was requested: one call of a model, one backward pass, one step of an
 * optimizer. What repeats within such a call are layers or parameters, and no iterations of a training. */
#include "gwi_inner.h"

#include <stdlib.h>
#include <string.h>

typedef struct call_row {
    const char *function;
    const char *file; /* part of its path */
} call_row;

static const call_row rows[] = {
    {"_wrapped_call_impl", "torch/nn/modules/module.py"},
    {"_call_impl", "torch/nn/modules/module.py"},
    {"_apply", "torch/nn/modules/module.py"}, /* moves or converts weights */
    {"_engine_run_backward", "torch/autograd/graph.py"},
    {"backward", "torch/autograd/__init__.py"},
    {"grad", "torch/autograd/__init__.py"},
    {"backward", "torch/_tensor.py"},
    {"step", "torch/optim/"},
    {"wrapper", "torch/optim/optimizer.py"}, /* step() of any optimizer */
    {"_use_grad", "torch/optim/optimizer.py"},
    {"__call__", "keras/src/layers/layer.py"},
    {"__call__", "keras/src/ops/operation.py"},
};

static bool is_call(const gw_frame *frame)
{
    if (!frame->python || frame->function == NULL || frame->file == NULL)
        return false;
    const char *dot = strrchr(frame->function, '.'); /* the name may begin with that of its class */
    const char *name = dot == NULL ? frame->function : dot + 1;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(name, rows[i].function) == 0 && strstr(frame->file, rows[i].file) != NULL)
            return true;
    return false;
}

/* FNV-1a */
static uint64_t mix(uint64_t hash, const void *data, size_t bytes)
{
    const unsigned char *byte = data;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ byte[i]) * 0x100000001b3u;
    return hash;
}

static uint64_t mix_text(uint64_t hash, const char *text)
{
    return text == NULL ? hash : mix(hash, text, strlen(text) + 1);
}

/* Return a number of the Python frames down to the outermost call of a framework, 0 if there is none. */
static uint64_t call_of(const gw_stack *stack)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = stack == NULL ? 0 : stack->count; i-- > 0;) {
        const gw_frame *frame = &stack->frame[i];
        if (!frame->python)
            continue;
        hash = mix_text(mix_text(hash, frame->file), frame->function);
        if (is_call(frame))
            return hash | 1;
        hash = mix(hash, &frame->line, sizeof frame->line);
    }
    return 0;
}

/* Small requests may have no call site. Those between two requests of one call belong to it, too. */
static void fill_gaps(gw_request *request, size_t count)
{
    size_t before = SIZE_MAX; /* the last request with a call site */
    for (size_t i = 0; i < count; i++) {
        if (request[i].site == 0)
            continue;
        for (size_t k = before == SIZE_MAX ? i : before + 1; k < i && request[before].call == request[i].call; k++)
            request[k].call = request[i].call;
        before = i;
    }
}

void gwi_requests_calls(const gw_model *model, gw_request *request, size_t count)
{
    typedef struct known {
        bool done;
        uint64_t call;
    } known;
    size_t sites = gw_sites_count(model->sites) + (size_t)1;
    known *of = calloc(sites, sizeof *of);
    for (size_t i = 0; of != NULL && i < count; i++) {
        uint32_t site = request[i].site;
        if (site == 0 || site >= sites)
            continue;
        if (!of[site].done)
            of[site] = (known){true, call_of(gw_sites_stack(model->sites, site))};
        request[i].call = of[site].call;
    }
    fill_gaps(request, count);
    free(of);
}
