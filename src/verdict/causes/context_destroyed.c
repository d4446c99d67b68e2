/* Somebody reset the device or destroyed the context, and things made in it were used afterwards. */
#include "cause.h"

#include <inttypes.h>
#include <string.h>

static const char *verb_of(gw_teardown_kind kind)
{
    static const char *const verbs[] = {"the context was destroyed",
                                        "the primary context was released for the last time", "the device was reset"};
    return verbs[kind];
}

static const gw_buried *find_buried(const gw_teardown *teardown, const gw_failure *failure)
{
    for (size_t i = 0; i < teardown->buried_count; i++) {
        const gw_buried *buried = &teardown->buried[i];
        for (int k = 0; k < 4; k++) {
            if (buried->key > 0xffff && failure->arg[k] == buried->key)
                return buried;
        }
    }
    return NULL;
}

/* Is it alive again under the same number, made anew after the teardown? Then the failure is not about the old one. */
static bool is_likely_new(const gwi_case *c, const gw_teardown *teardown, const gw_failure *failure)
{
    (void)c;
    return failure->t_ns <= teardown->t_ns;
}

static void say_teardown(const gwi_case *c, gwi_finding *finding, const gw_teardown *teardown)
{
    char bytes[GW_BYTES_TEXT_MAX], at[GWI_PLACE_TEXT_MAX];
    uint64_t blocks = teardown->count[GW_CLASS_PLAIN] + teardown->count[GW_CLASS_POOL] +
                      teardown->count[GW_CLASS_PITCHED] + teardown->count[GW_CLASS_MANAGED];
    uint64_t streams = teardown->count[GW_CLASS_STREAM], events = teardown->count[GW_CLASS_EVENT];
    gwi_measure(finding, teardown->t_ns, "ledger", (double)teardown->bytes, "bytes",
                "%s%s; it destroyed %s in %" PRIu64 " block%s, %" PRIu64 " stream%s and %" PRIu64
                " event%s that had not been given back",
                verb_of(teardown->kind), gwi_at(c, teardown->site, at), gw_bytes_text(bytes, teardown->bytes), blocks,
                GWI_PLURAL(blocks), streams, GWI_PLURAL(streams), events, GWI_PLURAL(events));
}

static uint64_t kept_by(const gw_teardown *teardown)
{
    return teardown->count[GW_CLASS_STREAM] + teardown->count[GW_CLASS_EVENT] + teardown->count[GW_CLASS_PLAIN] +
           teardown->count[GW_CLASS_POOL] + teardown->count[GW_CLASS_PITCHED] + teardown->count[GW_CLASS_MODULE];
}

/* A call that failed names what the teardown destroyed. */
static gw_certainty judge_named(const gwi_case *c, gwi_finding *finding, const gw_teardown *teardown)
{
    const gw_failure *use = c->root;
    if (use == NULL || use->is_sticky || use->is_allocation || is_likely_new(c, teardown, use))
        return GW_CERTAINTY_NONE;
    const gw_buried *buried = find_buried(teardown, use);
    bool context_gone = use->result == 709 || (use->result == 201 && use->context == teardown->context);
    char call[GWI_CALL_TEXT_MAX], bytes[GW_BYTES_TEXT_MAX], used[GWI_PLACE_TEXT_MAX], made[GWI_PLACE_TEXT_MAX];
    if (buried == NULL && !context_gone)
        return GW_CERTAINTY_NONE;
    gwi_call_text(call, use->fn_name);
    gwi_at(c, use->site, used);
    gwi_at(c, buried == NULL ? 0 : buried->site, made);
    gwi_headline(finding, "%s at %.2f s, and %s from before it was used afterwards", verb_of(teardown->kind),
                 (double)teardown->t_ns / 1e9,
                 buried == NULL                    ? "the context"
                 : buried->cls <= GW_CLASS_MANAGED ? "memory"
                 : buried->cls == GW_CLASS_STREAM  ? "a stream"
                 : buried->cls == GW_CLASS_EVENT   ? "an event"
                 : buried->cls == GW_CLASS_MODULE  ? "a module"
                                                   : "an object");
    say_teardown(c, finding, teardown);
    if (buried != NULL && buried->bytes > 0)
        gwi_measure(finding, use->t_ns, "driver", (double)buried->bytes, "bytes",
                    "%s%s returned %u (%s): it names the block of %s made at %.2f s%s, which went with it", call, used,
                    use->result, gw_result_name(use->result), gw_bytes_text(bytes, buried->bytes),
                    (double)buried->t_made_ns / 1e9, made);
    else if (buried != NULL)
        gwi_evidence(finding, use->t_ns, "driver",
                     "%s%s returned %u (%s): it names the %s made at %.2f s%s, which went with it", call, used,
                     use->result, gw_result_name(use->result), gw_class_text((gw_class)buried->cls),
                     (double)buried->t_made_ns / 1e9, made);
    else
        gwi_evidence(finding, use->t_ns, "driver", "%s%s returned %u (%s)", call, used, use->result,
                     gw_result_name(use->result));
    gwi_where(finding, teardown->site, verb_of(teardown->kind));
    gwi_say_consequences(c, finding, use);
    return GW_ESTABLISHED;
}

/* A kernel faulted after a reset that took memory which the program had kept. */
static gw_certainty judge_fault(const gwi_case *c, gwi_finding *finding, const gw_teardown *teardown)
{
    enum { ILLEGAL_ADDRESS = 700 };
    const gw_failure *sticky = c->sticky;
    if (sticky == NULL || sticky->result != ILLEGAL_ADDRESS || sticky->t_ns < teardown->t_ns || teardown->bytes == 0 ||
        (c->oom != NULL && c->oom->t_ns < sticky->t_ns))
        return GW_CERTAINTY_NONE;
    gwi_headline(finding,
                 "%s at %.2f s, and a kernel after it used an address that is not mapped: memory from before it",
                 verb_of(teardown->kind), (double)teardown->t_ns / 1e9);
    say_teardown(c, finding, teardown);
    for (size_t i = 0; i < teardown->buried_count && i < 3; i++) {
        const gw_buried *buried = &teardown->buried[i];
        char bytes[GW_BYTES_TEXT_MAX], at[GWI_PLACE_TEXT_MAX];
        if (buried->bytes > 0)
            gwi_evidence(finding, buried->t_made_ns, "ledger", "kept: the block of %s at address 0x%" PRIx64 "%s%s",
                         gw_bytes_text(bytes, buried->bytes), buried->key,
                         gwi_at(c, buried->site, at)[0] == '\0' ? "" : ", made", at);
    }
    gwi_say_sticky(c, finding, sticky, "a kernel used an address that is not mapped any more");
    gwi_where(finding, teardown->site, verb_of(teardown->kind));
    gwi_say_consequences(c, finding, sticky);
    return GW_SUPPORTED;
}

/* Streams and events that went with it, and where they had been made: which one was used afterwards is not known. */
static void say_kept(const gwi_case *c, gwi_finding *finding, const gw_teardown *teardown)
{
    enum { SHOWN_MAX = 4 };
    size_t shown = 0;
    for (size_t i = 0; i < teardown->buried_count && shown < SHOWN_MAX; i++) {
        const gw_buried *buried = &teardown->buried[i];
        char place[GWI_PLACE_TEXT_MAX];
        if ((buried->cls != GW_CLASS_STREAM && buried->cls != GW_CLASS_EVENT) ||
            gwi_place(c, buried->site, place)[0] == '\0')
            continue;
        gwi_evidence(finding, buried->t_made_ns, "ledger", "gone with it: the %s made at %s",
                     gw_class_text((gw_class)buried->cls), place);
        shown++;
    }
}

/* The driver crashed on a handle that it no longer knew. */
static gw_certainty judge_crash(const gwi_case *c, gwi_finding *finding, const gw_teardown *teardown)
{
    if (!c->ended || c->signal != 11 || c->root != NULL || kept_by(teardown) == 0)
        return GW_CERTAINTY_NONE;
    const gw_thread *inside = NULL;
    for (size_t i = 0; i < c->model->thread_count; i++) {
        if (c->process != NULL && c->model->thread[i].pid == c->process->pid && c->model->thread[i].inside_fn != NULL)
            inside = &c->model->thread[i];
    }
    char call[GWI_CALL_TEXT_MAX];
    if (inside == NULL)
        return GW_CERTAINTY_NONE;
    gwi_headline(finding, "%s at %.2f s, and the driver crashed, most likely on something from before it",
                 verb_of(teardown->kind), (double)teardown->t_ns / 1e9);
    say_teardown(c, finding, teardown);
    gwi_evidence(finding, c->model->t_end_ns, "exit",
                 "the process died of SIGSEGV inside %s, as the driver does when it is handed a stream that a reset "
                 "destroyed",
                 gwi_call_text(call, inside->inside_fn));
    say_kept(c, finding, teardown);
    gwi_where(finding, teardown->site, verb_of(teardown->kind));
    return GW_SUPPORTED;
}

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    if (c->process == NULL)
        return GW_CERTAINTY_NONE;
    for (size_t i = c->model->teardown_count; i-- > 0;) {
        const gw_teardown *teardown = &c->model->teardown[i];
        if (teardown->pid != c->process->pid || (c->root != NULL && teardown->t_ns >= c->root->t_ns))
            continue;
        gw_certainty certainty = judge_named(c, finding, teardown);
        if (certainty == GW_CERTAINTY_NONE && teardown->kind != GW_TEARDOWN_RELEASE)
            certainty = judge_fault(c, finding, teardown);
        if (certainty == GW_CERTAINTY_NONE && teardown->kind != GW_TEARDOWN_RELEASE)
            certainty = judge_crash(c, finding, teardown);
        if (certainty != GW_CERTAINTY_NONE)
            return certainty;
    }
    return GW_CERTAINTY_NONE;
}

const gw_cause gwi_cause_context_destroyed = {
    .id = "context-destroyed",
    .summary = "The device was reset or its context destroyed, and things made in it were used afterwards.",
    .proof = "a reset or destroy that took live memory, streams or events along, and a later failure that names one of "
             "them",
    .fixes = {[GW_FRAMEWORK_RAW] =
                  "Remove the reset (cuDevicePrimaryCtxReset, cudaDeviceReset): with nothing kept it changes nothing\n"
                  "Or make everything anew after it: memory, streams, events, modules\n"
                  "Retain and release primary contexts in pairs",
              [GW_FRAMEWORK_TORCH] =
                  "Remove cudaDeviceReset and numba's cuda.close() from the process: PyTorch keeps its "
                  "memory and streams over them"},
    .judge = judge,
};
