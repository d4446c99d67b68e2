/* Finds the call of a framework in which memory was requested: one call of a model, one backward pass, one step of an
 * optimizer. What repeats within such a call are layers or parameters, and no iterations of a training. */
#include "gw_hash.h"
#include "gwi_inner.h"

#include <stdlib.h>
#include <string.h>

typedef struct call_row {
    gwi_call_kind kind;
    const char *function;
    const char *file; /* part of its path */
} call_row;

static const call_row rows[] = {
    {GWI_CALL_MODEL, "_wrapped_call_impl", "torch/nn/modules/module.py"},
    {GWI_CALL_MODEL, "_call_impl", "torch/nn/modules/module.py"},
    {GWI_CALL_MODEL, "__call__", "keras/src/layers/layer.py"},
    {GWI_CALL_MODEL, "__call__", "keras/src/ops/operation.py"},
    {GWI_CALL_CONVERSION, "_apply", "torch/nn/modules/module.py"},
    {GWI_CALL_BACKWARD, "_engine_run_backward", "torch/autograd/graph.py"},
    {GWI_CALL_BACKWARD, "backward", "torch/autograd/__init__.py"},
    {GWI_CALL_BACKWARD, "grad", "torch/autograd/__init__.py"},
    {GWI_CALL_BACKWARD, "backward", "torch/_tensor.py"},
    {GWI_CALL_OPTIMIZER, "__init__", "torch/optim/"},
    {GWI_CALL_OPTIMIZER, "step", "torch/optim/"},
    {GWI_CALL_OPTIMIZER, "wrapper", "torch/optim/optimizer.py"}, /* step() of any optimizer */
    {GWI_CALL_OPTIMIZER, "_use_grad", "torch/optim/optimizer.py"},
};

static gwi_call_kind kind_of(const gw_frame *frame)
{
    if (!frame->python || frame->function == NULL || frame->file == NULL)
        return GWI_CALL_NONE;
    const char *dot = strrchr(frame->function, '.'); /* the name may begin with that of its class */
    const char *name = dot == NULL ? frame->function : dot + 1;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(name, rows[i].function) == 0 && strstr(frame->file, rows[i].file) != NULL)
            return rows[i].kind;
    return GWI_CALL_NONE;
}

static uint64_t mix_text(uint64_t hash, const char *text)
{
    return text == NULL ? hash : gw_hash_bytes(hash, text, strlen(text) + 1);
}

/* Find the outermost call of a framework on a stack. Its number is that of the Python frames down to it.
 *
 * An optimizer's step may run a closure with the model and the backward pass in it. So its number counts only if no
 * other call follows. A thread without Python, such as autograd's, has the frames of the main thread, which waits for
 * it in the backward pass. Elsewhere, these frames say nothing about the thread. */
static gwi_call call_of(const gw_stack *stack)
{
    gwi_call found = {0, GWI_CALL_NONE};
    uint64_t hash = GW_HASH_START;
    for (size_t i = stack == NULL ? 0 : stack->count; i-- > 0;) {
        const gw_frame *frame = &stack->frame[i];
        if (!frame->python)
            continue;
        hash = mix_text(mix_text(hash, frame->file), frame->function);
        gwi_call_kind kind = kind_of(frame);
        bool is_final = found.kind != GWI_CALL_NONE && found.kind != GWI_CALL_OPTIMIZER;
        if (kind != GWI_CALL_NONE && kind != found.kind && !is_final)
            found = (gwi_call){hash | 1, kind};
        hash = gw_hash_bytes(hash, &frame->line, sizeof frame->line);
    }
    bool is_borrowed = stack != NULL && (stack->flags & GW_SITE_PYTHON_BORROWED) != 0;
    return is_borrowed && found.kind != GWI_CALL_BACKWARD ? (gwi_call){0, GWI_CALL_NONE} : found;
}

/* Small requests may have no call site. Those between two requests of one call belong to it, too. */
static void fill_gaps(const uint32_t *site, size_t count, gwi_call *call)
{
    size_t before = SIZE_MAX; /* the last request with a call site */
    for (size_t i = 0; i < count; i++) {
        if (site[i] == 0)
            continue;
        if (before != SIZE_MAX && call[before].number == call[i].number)
            for (size_t k = before + 1; k < i; k++)
                call[k] = call[i];
        before = i;
    }
}

gwi_call *gwi_calls_at(const gw_model *model, const uint32_t *site, size_t count)
{
    typedef struct known {
        bool done;
        gwi_call call;
    } known;
    size_t sites = gw_sites_count(model->sites) + (size_t)1;
    known *of = calloc(sites, sizeof *of);
    gwi_call *call = calloc(count + 1, sizeof *call);
    for (size_t i = 0; of != NULL && call != NULL && i < count; i++) {
        if (site[i] == 0 || site[i] >= sites)
            continue;
        if (!of[site[i]].done)
            of[site[i]] = (known){true, call_of(gw_sites_stack(model->sites, site[i]))};
        call[i] = of[site[i]].call;
    }
    free(of);
    if (call != NULL)
        fill_gaps(site, count, call);
    return call;
}

void gwi_requests_calls(const gw_model *model, gw_request *request, size_t count)
{
    uint32_t *site = calloc(count + 1, sizeof *site);
    for (size_t i = 0; site != NULL && i < count; i++)
        site[i] = request[i].site;
    gwi_call *call = site == NULL ? NULL : gwi_calls_at(model, site, count);
    for (size_t i = 0; call != NULL && i < count; i++) {
        request[i].call = call[i].number;
        request[i].moves_weights = call[i].kind == GWI_CALL_CONVERSION;
    }
    free(call);
    free(site);
}
