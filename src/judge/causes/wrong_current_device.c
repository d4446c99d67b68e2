/* A call on one GPU used an object of another GPU, because the program had not selected that GPU first.
 *
 * Never established: the ledger shows the GPU of a handle, but result 400 has other causes, too. The arguments of
 * kernels are not recorded. */
#include "gwi_cause.h"

static const char *thing_of(const gw_elsewhere *it)
{
    if (it->cls == GW_CLASS_FUNCTION)
        return "a kernel";
    if (it->cls == GW_CLASS_EVENT)
        return "an event";
    return "memory";
}

static const char *made_of(const gw_elsewhere *it)
{
    if (it->cls == GW_CLASS_FUNCTION)
        return "its code was loaded on";
    if (it->cls == GW_CLASS_EVENT)
        return "it was created on";
    return "it was allocated on";
}

static void say_call(const gwi_case *c, gwi_finding *finding, const gw_failure *failure)
{
    const gw_elsewhere *it = &failure->elsewhere;
    char call[GWI_CALL_TEXT_MAX], at[GWI_PLACE_TEXT_MAX], made[GWI_PLACE_TEXT_MAX], stream[GWI_STREAM_TEXT_MAX];
    gwi_evidence(finding, failure->t_ns, "driver", "%s%s returned %u (%s)", gwi_call_text(call, failure->fn_name),
                 gwi_at(c, failure->site, at), failure->result, gw_result_name(failure->result));
    gwi_evidence(finding, failure->t_ns, "ledger", "it uses %s of GPU %d: %s GPU %d at %.2f s%s", thing_of(it),
                 it->device, made_of(it), it->device, (double)it->t_made_ns / 1e9, gwi_at(c, it->site, made));
    if (it->stream > 2)
        gwi_evidence(finding, failure->t_ns, "ledger", "and runs on GPU %d, to which %s belongs", it->call_device,
                     gwi_stream_text(stream, it->stream));
    else
        gwi_evidence(finding, failure->t_ns, "ledger", "and runs on GPU %d, which was that thread's current GPU",
                     it->call_device);
}

/* Judge an illegal address in a process that had memory on other GPUs. Kernel arguments are not recorded, so the
 * address may or may not be on one of them. */
static gw_certainty judge_fault(const gwi_case *c, gwi_finding *finding)
{
    enum { ILLEGAL_ADDRESS = 700 };
    const gw_failure *sticky = c->sticky;
    int others = 0;
    char gpu[GW_DEVICE_TEXT_MAX];
    if (sticky == NULL || sticky->result != ILLEGAL_ADDRESS || sticky->device < 0 || c->process == NULL)
        return GW_CERTAINTY_NONE;
    for (int device = 0; device < GW_MODEL_DEVICE_PLACES; device++)
        others += device != sticky->device && c->process->usage[device].peak_bytes > 0;
    if (others == 0)
        return GW_CERTAINTY_NONE;
    gwi_headline(finding, "a kernel on %s may have been passed memory of another GPU",
                 gw_device_text(gpu, sticky->device));
    gwi_evidence(finding, sticky->t_ns, "ledger",
                 "the process had memory on %d other GPU%s; gpuwhy does not record which memory a kernel was passed",
                 others, GWI_PLURAL(others));
    return GW_HYPOTHESIS;
}

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    const gw_failure *failure = c->root;
    char call[GWI_CALL_TEXT_MAX];
    if (failure == NULL || !failure->elsewhere.found)
        return judge_fault(c, finding);
    const gw_elsewhere *it = &failure->elsewhere;
    gwi_headline(finding, "%s on GPU %d was passed %s of GPU %d", gwi_call_text(call, failure->fn_name),
                 it->call_device, thing_of(it), it->device);
    say_call(c, finding, failure);
    gwi_where(finding, failure->site, "the call that was refused");
    gwi_say_consequences(c, finding, failure);
    return failure->kind == GW_EV_LAUNCH || failure->kind == GW_EV_EVENT_RECORD ? GW_SUPPORTED : GW_HYPOTHESIS;
}

const gw_cause gwi_cause_wrong_current_device = {
    .id = "wrong-current-device",
    .summary = "A call on one GPU used a kernel, an event or memory of another GPU.",
    .proof =
        "a launch or an event record that returned 400, and a recording that shows that the kernel or event belongs to "
        "another GPU than the stream or the current context; for memory passed to kernels never more than a hypothesis",
    .fixes = {[GW_FRAMEWORK_RAW] = "Before the call, make the GPU that owns the stream, module and memory current "
                                   "(cuCtxSetCurrent, cudaSetDevice), and again in each new thread\n"
                                   "Use one process, or one thread, per GPU",
              [GW_FRAMEWORK_TORCH] = "Make the call inside: with torch.cuda.device(tensor.device):\n"
                                     "In each rank, call torch.cuda.set_device(local_rank) first"},
    .judge = judge,
};
