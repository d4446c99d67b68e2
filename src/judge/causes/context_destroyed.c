/* The device was reset or the context was destroyed, and the program later used objects of that device or context.
 *
 * Established only by: one of these failures, if it ended the run (gwi_sure_of_end()):
 * - a call with the handle or address of an object that a teardown destroyed, unless it was created again;
 * - the result 709;
 * - the result 201 while the destroyed context is still current.
 * Only supported if the failed call is a release that the program's last output does not name. At the end, destructors
 * often free what a reset has already freed, which does no harm.
 * Supported by: one of these:
 * - a crash inside the driver;
 * - the result 700 after a reset that destroyed memory, because a kernel's pointers are not recorded. */
#include "gwi_start.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *verb_of(gw_teardown_kind kind)
{
    static const char *const verbs[] = {"the context was destroyed",
                                        "the primary context was released for the last time", "the device was reset"};
    return verbs[kind];
}

/* Return the classes that count as the same class as `cls`, as a bit set. All classes of memory count as one class. */
static uint32_t classes_like(uint8_t cls)
{
    const uint32_t memory = (2u << GW_CLASS_MAPPING) - 1;
    return (memory >> cls & 1) != 0 ? memory : 1u << cls;
}

/* Return the destroyed object that the failed call uses: an argument is its handle or an address in its memory. Objects
 * created again with that handle or address are ignored. Returns NULL if there is none. */
static const gw_buried *find_buried(const gw_teardown *teardown, const gw_failure *failure)
{
    if (!failure->named.known)
        return NULL;
    for (size_t i = 0; i < teardown->buried_count; i++) {
        const gw_buried *buried = &teardown->buried[i];
        uint64_t bytes = gw_class_has_addresses((gw_class)buried->cls) ? buried->bytes : 0;
        for (int k = 0; k < 4; k++) {
            bool named = failure->arg[k] == buried->key || failure->arg[k] - buried->key < bytes;
            if (buried->key > 0xffff && named && (failure->named.classes[k] & classes_like(buried->cls)) == 0)
                return buried;
        }
    }
    return NULL;
}

/* Return a noun for the object's class, with its article if it needs one: "an event", "memory". Returns "the context"
 * if `buried` is NULL. */
static const char *name_of(const gw_buried *buried)
{
    if (buried == NULL)
        return "the context";
    if (buried->cls <= GW_CLASS_IMPORT)
        return "memory";
    switch ((gw_class)buried->cls) {
    case GW_CLASS_STREAM:
        return "a stream";
    case GW_CLASS_EVENT:
        return "an event";
    case GW_CLASS_MODULE:
        return "a module";
    case GW_CLASS_FUNCTION:
        return "a function of a module";
    case GW_CLASS_GRAPH_EXEC:
        return "an executable graph";
    default:
        return "an object";
    }
}

enum { THINGS_TEXT_MAX = 256 }; /* room for five numbers of 20 digits and the text between them */

/* Format a list of the objects that had not been freed: "4.00 MiB in 1 block, 2 events and 1 module". */
static void count_things(const gw_teardown *teardown, uint64_t blocks, char out[THINGS_TEXT_MAX])
{
    static const gw_class classes[] = {GW_CLASS_STREAM, GW_CLASS_EVENT, GW_CLASS_MODULE, GW_CLASS_GRAPH_EXEC};
    char bytes[GW_BYTES_TEXT_MAX];
    size_t left = 0, used = (size_t)snprintf(out, THINGS_TEXT_MAX, "%s in %" PRIu64 " block%s",
                                             gw_bytes_text(bytes, teardown->bytes), blocks, GWI_PLURAL(blocks));
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++)
        left += teardown->count[classes[i]] > 0;
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++) {
        uint64_t count = teardown->count[classes[i]];
        if (count == 0)
            continue;
        left--;
        used += (size_t)snprintf(out + used, THINGS_TEXT_MAX - used, "%s%" PRIu64 " %s%s", left == 0 ? " and " : ", ",
                                 count, gw_class_text(classes[i]), GWI_PLURAL(count));
    }
}

/* Report the teardown and what it destroyed. `user_tid` is the thread that used a destroyed object afterwards. */
static void say_teardown(const gwi_case *c, gwi_finding *finding, const gw_teardown *teardown, uint32_t user_tid)
{
    char things[THINGS_TEXT_MAX], at[GWI_PLACE_TEXT_MAX], on[80] = "";
    uint64_t blocks = 0;
    for (int cls = 0; cls <= GW_CLASS_MANAGED; cls++)
        blocks += teardown->count[cls];
    count_things(teardown, blocks, things);
    if (user_tid != teardown->tid)
        snprintf(on, sizeof on, " by thread %" PRIu32 ", while thread %" PRIu32 " still used it", teardown->tid,
                 user_tid);
    gwi_measure(finding, teardown->t_ns, "ledger", (double)teardown->bytes, "bytes",
                "%s%s%s; this destroyed %s that had not been freed", verb_of(teardown->kind),
                gwi_at(c, teardown->site, at), on, things);
}

static uint64_t kept_by(const gw_teardown *teardown)
{
    return teardown->count[GW_CLASS_STREAM] + teardown->count[GW_CLASS_EVENT] + teardown->count[GW_CLASS_PLAIN] +
           teardown->count[GW_CLASS_POOL] + teardown->count[GW_CLASS_PITCHED] + teardown->count[GW_CLASS_MODULE] +
           teardown->count[GW_CLASS_GRAPH_EXEC];
}

/* Report the failed call and the object that it uses. */
static void say_use(const gwi_case *c, gwi_finding *finding, const gw_teardown *teardown, const gw_buried *buried)
{
    const gw_failure *use = c->root;
    char call[GWI_CALL_TEXT_MAX], bytes[GW_BYTES_TEXT_MAX], used[GWI_PLACE_TEXT_MAX], made[GWI_PLACE_TEXT_MAX];
    const char *result = gw_result_name(use->result);
    gwi_call_text(call, use->fn_name);
    gwi_at(c, use->site, used);
    gwi_at(c, buried == NULL ? teardown->made_site : buried->site, made);
    if (buried == NULL && teardown->t_made_ns == 0)
        gwi_evidence(finding, use->t_ns, "driver", "%s%s returned %u (%s)", call, used, use->result, result);
    else if (buried == NULL)
        gwi_evidence(finding, use->t_ns, "driver",
                     "%s%s returned %u (%s): the context created at %.2f s%s is still current there", call, used,
                     use->result, result, (double)teardown->t_made_ns / 1e9, made);
    else if (buried->bytes > 0)
        gwi_measure(finding, use->t_ns, "driver", (double)buried->bytes, "bytes",
                    "%s%s returned %u (%s): the call uses the block of %s allocated at %.2f s%s, which was destroyed "
                    "with the context",
                    call, used, use->result, result, gw_bytes_text(bytes, buried->bytes),
                    (double)buried->t_made_ns / 1e9, made);
    else
        gwi_evidence(
            finding, use->t_ns, "driver",
            "%s%s returned %u (%s): the call uses the %s created at %.2f s%s, which was destroyed with the context",
            call, used, use->result, result, gw_class_text((gw_class)buried->cls), (double)buried->t_made_ns / 1e9,
            made);
}

/* True if the failed call frees or destroys an object. At the end, destructors often free what a reset has already
 * freed, which does no harm. */
static bool is_release(const gw_failure *use)
{
    static const char *const words[] = {"Free", "Destroy", "Unload", "Release"};
    return GW_HAS_ONE_OF(use->fn_name, words);
}

/* Judge a failed call that uses an object which the teardown destroyed. */
static gw_certainty judge_named(const gwi_case *c, gwi_finding *finding, const gw_teardown *teardown)
{
    enum { INVALID_CONTEXT = 201, CONTEXT_IS_DESTROYED = 709 };
    const gw_failure *use = c->root;
    if (use == NULL || use->is_sticky || use->is_allocation || use->t_ns <= teardown->t_ns)
        return GW_CERTAINTY_NONE;
    const gw_buried *buried = find_buried(teardown, use);
    bool context_gone =
        use->result == CONTEXT_IS_DESTROYED || (use->result == INVALID_CONTEXT && use->context == teardown->context &&
                                                use->named.known && !use->named.context_lives);
    if (buried == NULL && !context_gone)
        return GW_CERTAINTY_NONE;
    gwi_headline(finding, "%s at %.2f s, and %s created before that was used afterwards", verb_of(teardown->kind),
                 (double)teardown->t_ns / 1e9, name_of(buried));
    say_teardown(c, finding, teardown, use->tid);
    say_use(c, finding, teardown, buried);
    gwi_where(finding, teardown->site, verb_of(teardown->kind));
    gwi_say_consequences(c, finding, use);
    bool is_silent = !c->model->stderr_facts.last.seen;
    return gwi_sure_of_end(c, use, is_release(use) && is_silent ? GW_SUPPORTED : GW_ESTABLISHED);
}

/* Find the last launch of an executable graph that the teardown had destroyed. The launch must be before the fault was
 * reported. Returns the graph, and the launch in *ret_launch. Returns NULL if the rings contain no such launch. */
static const gw_buried *find_old_graph(const gwi_case *c, const gw_teardown *teardown, const gw_ring_call **ret_launch)
{
    const gw_buried *found = NULL;
    for (size_t i = 0; i < c->model->thread_count; i++) {
        const gw_thread *thread = &c->model->thread[i];
        for (size_t k = thread->pid == teardown->pid ? thread->ring_count : 0; k-- > 0;) {
            const gw_ring_call *call = &thread->ring[k];
            if (!call->is_graph_launch || call->t_ns <= teardown->t_ns || call->t_ns > c->sticky->t_ns ||
                (found != NULL && call->t_ns <= (*ret_launch)->t_ns))
                continue;
            for (size_t n = 0; n < teardown->buried_count; n++) {
                if (teardown->buried[n].cls == GW_CLASS_GRAPH_EXEC && teardown->buried[n].key == call->what) {
                    found = &teardown->buried[n];
                    *ret_launch = call;
                }
            }
        }
    }
    return found;
}

/* Judge a kernel fault after a reset that destroyed memory which the program had not freed. */
static gw_certainty judge_fault(const gwi_case *c, gwi_finding *finding, const gw_teardown *teardown)
{
    enum { ILLEGAL_ADDRESS = 700 };
    const gw_failure *sticky = c->sticky;
    if (sticky == NULL || sticky->result != ILLEGAL_ADDRESS || sticky->t_ns < teardown->t_ns || teardown->bytes == 0 ||
        (c->oom != NULL && c->oom->t_ns < sticky->t_ns))
        return GW_CERTAINTY_NONE;
    gwi_headline(finding,
                 "%s at %.2f s, and a later kernel used memory allocated before that, which is no longer mapped",
                 verb_of(teardown->kind), (double)teardown->t_ns / 1e9);
    say_teardown(c, finding, teardown, sticky->tid);
    const gw_ring_call *launch = NULL;
    const gw_buried *graph = find_old_graph(c, teardown, &launch);
    char made[GWI_PLACE_TEXT_MAX];
    if (graph != NULL)
        gwi_evidence(finding, launch->t_ns, "driver",
                     "the executable graph created at %.2f s%s was launched afterwards", (double)graph->t_made_ns / 1e9,
                     gwi_at(c, graph->site, made));
    for (size_t i = 0; i < teardown->buried_count && i < 3; i++) {
        const gw_buried *buried = &teardown->buried[i];
        char bytes[GW_BYTES_TEXT_MAX], at[GWI_PLACE_TEXT_MAX];
        if (buried->bytes > 0)
            gwi_evidence(finding, buried->t_made_ns, "ledger",
                         "still held by the program: the block of %s at address 0x%" PRIx64 "%s%s",
                         gw_bytes_text(bytes, buried->bytes), buried->key,
                         gwi_at(c, buried->site, at)[0] == '\0' ? "" : ", allocated", at);
    }
    gwi_say_sticky(c, finding, sticky, "a kernel used an address that is no longer mapped");
    gwi_where(finding, teardown->site, verb_of(teardown->kind));
    gwi_say_consequences(c, finding, sticky);
    return GW_SUPPORTED;
}

/* List some of the streams, events, modules and graphs that the teardown destroyed, and where they were created. It is
 * not recorded which of them the crashing call used. */
static void say_kept(const gwi_case *c, gwi_finding *finding, const gw_teardown *teardown)
{
    enum { SHOWN_MAX = 4 };
    size_t shown = 0;
    for (size_t i = 0; i < teardown->buried_count && shown < SHOWN_MAX; i++) {
        const gw_buried *buried = &teardown->buried[i];
        char place[GWI_PLACE_TEXT_MAX];
        if ((buried->cls != GW_CLASS_STREAM && buried->cls != GW_CLASS_EVENT && buried->cls != GW_CLASS_MODULE &&
             buried->cls != GW_CLASS_GRAPH_EXEC) ||
            gwi_place(c, buried->site, place)[0] == '\0')
            continue;
        gwi_evidence(finding, buried->t_made_ns, "ledger", "destroyed with it: the %s created at %s",
                     gw_class_text((gw_class)buried->cls), place);
        shown++;
    }
}

/* Judge a SIGSEGV inside a driver call after the teardown. The teardown may have destroyed the object whose handle was
 * passed to the call. */
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
    gwi_headline(finding, "%s at %.2f s, and the driver then crashed, most likely on an object created before that",
                 verb_of(teardown->kind), (double)teardown->t_ns / 1e9);
    say_teardown(c, finding, teardown, inside->tid);
    gwi_evidence(finding, c->model->t_end_ns, "exit",
                 "the process died of SIGSEGV inside %s; the driver crashes like this when it is passed a stream that "
                 "a reset destroyed",
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
    .summary = "The device was reset or its context destroyed, and objects created in it were used afterwards.",
    .proof = "a reset or destroy that freed memory, streams, events, modules or graphs still held by the program, and "
             "a later failing call that uses one of them",
    .fixes = {[GW_FRAMEWORK_RAW] =
                  "Remove the reset (cuDevicePrimaryCtxReset, cudaDeviceReset): if nothing is held, it has no effect\n"
                  "Do not destroy a context (cuCtxDestroy) while anything created in it is still in use\n"
                  "Or recreate everything afterwards: memory, streams, events, modules, graphs\n"
                  "Retain and release primary contexts in pairs",
              [GW_FRAMEWORK_TORCH] =
                  "Remove cudaDeviceReset and numba's cuda.close() from the process: PyTorch continues to use the "
                  "memory and streams that they destroy\n"
                  "Leave PyTorch's context alone: libraries and extensions must not destroy or release it"},
    .excludes = "illegal-address", /* the kernel used memory that the reset had freed */
    .judge = judge,
};
