/* Reports a kernel's fault. The call that returns the error is usually not at fault. The kernel at fault is known from
 * a GPU core dump or from a run that waits for each launch.
 *
 * Two things name it: the driver's core dump (`run --core`; the driver aborts the process, so no call reports the
 * error, and in the model the dump's first exception becomes the failure that destroyed the context), and a second run
 * with synchronous launches (`run --blame`), in which the launch that reports a fault is the one at fault. Without
 * them, suspects.c sorts the kernels of the window by the places of their launches (src/inside/hook/launch_sites.c). */
#include "gwi_fault.h"
#include "gwi_request.h"
#include "gwi_suspects.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- parts of headlines ---- */

char *gwi_culprit_text(char out[GWI_CULPRIT_MAX], const gwi_case *c, const gw_failure *sticky)
{
    char kernel[GWI_KERNEL_TEXT_MAX];
    const char *name = gwi_kernel_at_fault(c, sticky);
    if (name == NULL)
        snprintf(out, GWI_CULPRIT_MAX, "a kernel");
    else
        snprintf(out, GWI_CULPRIT_MAX, "kernel %s", gwi_kernel_text(kernel, name));
    return out;
}

char *gwi_surfaced_text(char out[GWI_SURFACED_MAX], const gwi_case *c, const gw_failure *sticky)
{
    const gw_gpu_fault *fault = gwi_gpu_fault(c);
    size_t used = 0;
    out[0] = '\0';
    if (fault != NULL && fault->file != NULL && fault->result == sticky->result)
        used = (size_t)snprintf(out, GWI_SURFACED_MAX, " at %.200s:%u", gw_path_last(fault->file), fault->line);
    const double t_s = (double)sticky->t_ns / 1e9;
    if (sticky->by_dump)
        snprintf(out + used, GWI_SURFACED_MAX - used, "; the driver detected it at %.2f s and ended the process", t_s);
    else if (gwi_is_own_report(c, sticky))
        snprintf(out + used, GWI_SURFACED_MAX - used, "; its own launch reported it at %.2f s", t_s);
    else if (gwi_is_launch_failure(sticky))
        /* it is unclear whether this launch is at fault: the program may have set CUDA_LAUNCH_BLOCKING itself */
        snprintf(out + used, GWI_SURFACED_MAX - used, "; the error surfaced at %.2f s in a launch", t_s);
    else
        snprintf(out + used, GWI_SURFACED_MAX - used,
                 "; the error surfaced at %.2f s in a later call that is not at fault", t_s);
    return out;
}

static const char *three_text(char out[48], const uint32_t value[3])
{
    snprintf(out, 48, "(%u,%u,%u)", value[0], value[1], value[2]);
    return out;
}

/* ---- the report ---- */

static void say_own_report(const gwi_case *c, gwi_finding *finding, const gw_failure *sticky)
{
    char kernel[GWI_KERNEL_TEXT_MAX], stream[GWI_STREAM_TEXT_MAX];
    uint64_t launches = 0;
    for (size_t i = 0; i < c->model->thread_count; i++)
        if (c->model->thread[i].pid == sticky->pid && c->model->thread[i].tid == sticky->tid)
            launches = gw_launches(c->model->thread[i].counter);
    gwi_measure(finding, sticky->t_ns, "driver", (double)launches, "count",
                "the program waited for every launch (CUDA_LAUNCH_BLOCKING=1), so the error belongs to this launch: %s "
                "on %s, after %" PRIu64 " launch%s of thread %u",
                sticky->kernel == NULL ? "an unnamed kernel" : gwi_kernel_text(kernel, sticky->kernel),
                gwi_stream_text(stream, sticky->arg[3]), launches, launches == 1 ? "" : "es", sticky->tid);
}

/* Use the suspected launch as the verdict's place, because it is closer to the fault than the reporting call. Returns
 * false unless there is one suspected kernel, launched from one place. */
static bool suspect_where(const gwi_case *c, gwi_finding *finding, const gw_failure *sticky)
{
    uint32_t site[GWI_LAUNCH_PLACES_MAX];
    const char *why, *kernel = gwi_suspect_kernel(c, sticky, &why);
    if (kernel == NULL || gwi_launch_places(c, sticky->pid, kernel, site) != 1)
        return false;
    gwi_where(finding, site[0], why);
    return true;
}

/* Set the verdict's place. The call that reported the fault is only used if no launch is known. */
static void say_where(const gwi_case *c, gwi_finding *finding, const gw_failure *sticky)
{
    const gw_blame *blame = gwi_blamed_launch(c, sticky);
    if (gwi_is_own_report(c, sticky))
        gwi_where(finding, sticky->site, "the launch at fault");
    else if (blame != NULL && blame->stack_count > 0)
        gwi_where_in_second(finding, "the launch at fault, found by the second run (--blame)");
    else if (!suspect_where(c, finding, sticky))
        gwi_where(finding, sticky->site, "the call that reported the fault; the kernel at fault was launched earlier");
}

void gwi_say_report(const gwi_case *c, gwi_finding *finding, const gw_failure *sticky, const char *what)
{
    char call[GWI_CALL_TEXT_MAX], at[GWI_PLACE_TEXT_MAX], gpu[GWI_GPU_TEXT_MAX];
    gwi_call_text(call, sticky->fn_name);
    gwi_on_gpu(c, sticky->device, gpu);
    say_where(c, finding, sticky);
    if (!sticky->by_dump) {
        gwi_evidence(finding, sticky->t_ns, "driver", "%s%s returned %u (%s)%s: %s", call, gwi_at(c, sticky->site, at),
                     sticky->result, gw_result_name(sticky->result), gpu, what);
        if (gwi_is_own_report(c, sticky))
            say_own_report(c, finding, sticky);
        return;
    }
    gwi_evidence(finding, sticky->t_ns, "driver", "the driver detected the fault itself: %s", what);
    if (gwi_ended_by_dump(c))
        gwi_evidence(finding, c->model->t_end_ns, "exit",
                     "the driver wrote a GPU core dump and ended the process with SIGABRT, as it does with --core: no "
                     "call could report the error");
    if (sticky->tid != 0)
        gwi_evidence(finding, GWI_NO_TIME, "driver", "at that time, thread %u was inside %s", sticky->tid, call);
}

/* ---- GPU core dumps ---- */

static void say_place(gwi_finding *finding, const gw_gpu_fault *fault)
{
    char kernel[GWI_KERNEL_TEXT_MAX], function[GWI_KERNEL_TEXT_MAX];
    gw_text where = {0};
    if (fault->kernel != NULL)
        gw_text_addf(&where, " in kernel %s", gwi_kernel_text(kernel, fault->kernel));
    else
        gw_text_add_str(&where, " in a kernel that the dump does not name");
    if (fault->function != NULL && (fault->kernel == NULL || strcmp(fault->function, fault->kernel) != 0))
        gw_text_addf(&where, ", in its function %s", gwi_kernel_text(function, fault->function));
    if (fault->function != NULL)
        gw_text_addf(&where, ", 0x%" PRIx64 " bytes after its start", fault->offset);
    if (fault->file != NULL)
        gw_text_addf(&where, ", %.200s:%u", fault->file, fault->line);
    else if (fault->function != NULL)
        gw_text_add_str(&where, " (its code has no line information)");
    if (fault->has_pc)
        gw_text_addf(&where, ", PC 0x%" PRIx64, fault->pc);
    gwi_evidence(finding, fault->t_ns, "core dump", "%s%s, on GPU %u, SM %u", fault->name == NULL ? "?" : fault->name,
                 gw_text_str(&where), fault->device, fault->sm);
    finding->failed = finding->failed || where.failed;
    gw_text_free(&where);
}

static void say_threads(gwi_finding *finding, const gw_gpu_fault *fault)
{
    char block[48], thread[48], grid[48], block_dim[48];
    if (!fault->has_thread) {
        gwi_evidence(finding, fault->t_ns, "core dump",
                     "block unknown: the fault was detected after the threads had left the SM");
        return;
    }
    three_text(block, fault->block);
    three_text(thread, fault->thread);
    if (fault->has_grid)
        gwi_measure(finding, fault->t_ns, "core dump", (double)fault->count, "count",
                    "block %s, thread %s of a grid of %s blocks of %s threads; %" PRIu64 " thread%s faulted there",
                    block, thread, three_text(grid, fault->grid_dim), three_text(block_dim, fault->block_dim),
                    fault->count, GWI_PLURAL(fault->count));
    else
        gwi_measure(finding, fault->t_ns, "core dump", (double)fault->count, "count",
                    "block %s, thread %s; %" PRIu64 " thread%s faulted there", block, thread, fault->count,
                    GWI_PLURAL(fault->count));
}

/* List the other places at which GPU threads stopped, according to the dump. Not all threads of a faulty kernel stop at
 * the same place. */
static void say_other_places(const gwi_case *c, gwi_finding *finding, const gw_gpu_fault *fault)
{
    const gw_fault_facts *facts = &c->model->faults;
    enum { SHOWN_MAX = 2 };
    size_t shown = 0, more = 0;
    for (size_t i = 0; i < facts->fault_count; i++) {
        const gw_gpu_fault *other = &facts->fault[i];
        if (other == fault || other->pid != fault->pid)
            continue;
        if (shown == SHOWN_MAX) {
            more++;
            continue;
        }
        say_place(finding, other);
        shown++;
    }
    if (more > 0)
        gwi_measure(finding, fault->t_ns, "core dump", (double)more, "count", "%zu more place%s in the dump", more,
                    GWI_PLURAL(more));
}

static void say_files(const gwi_case *c, gwi_finding *finding)
{
    const gw_fault_facts *facts = &c->model->faults;
    for (size_t i = 0; i < facts->dump_count; i++) {
        const gw_gpu_dump *dump = &facts->dump[i];
        char bytes[GW_BYTES_TEXT_MAX];
        gw_bytes_text(bytes, dump->bytes);
        if (dump->refused != NULL)
            gwi_evidence(finding, dump->t_ns, "core dump", "a GPU core dump of %s could not be read: %s", bytes,
                         dump->refused);
        else if (dump->kept && dump->path != NULL)
            gwi_measure(finding, dump->t_ns, "core dump", (double)dump->bytes, "bytes", "the GPU core dump (%s): %s",
                        bytes, dump->path);
        if (dump->skip_abort)
            gwi_evidence(finding, dump->t_ns, "core dump",
                         "skip_abort was set: do not trust what the program did after the fault");
    }
    if (facts->dump_count == 0 && gw_model_meta(c->model, "option.core") != NULL)
        gwi_evidence(finding, GWI_NO_TIME, "core dump",
                     "the driver wrote no GPU core dump, although --core asked for it");
}

/* ---- launches of the kernel ---- */

static bool same_kernel(const char *a, const char *b)
{
    return a != NULL && b != NULL && strcmp(a, b) == 0;
}

/* Report the kernel's launches whose work the program had not waited for before the fault. One of these launches is at
 * fault. */
static void say_its_launches(const gwi_case *c, gwi_finding *finding, const gw_failure *sticky, const char *kernel)
{
    const gw_ring_call *last = NULL;
    uint64_t count = 0, others = 0;
    bool before = false; /* a launch is older than the last good synchronisation, which did not wait for it */
    for (size_t i = 0; i < c->model->thread_count; i++) {
        const gw_thread *thread = &c->model->thread[i];
        for (size_t k = 0; thread->pid == sticky->pid && k < thread->ring_count; k++) {
            const gw_ring_call *call = &thread->ring[k];
            if (!call->is_launch || !gwi_is_open_launch(call, sticky->t_ns))
                continue;
            if (!same_kernel(call->kernel, kernel)) {
                others++;
                continue;
            }
            count++;
            before = before || call->t_ns <= c->process->synced_at_ns;
            last = last == NULL || call->t_ns > last->t_ns ? call : last;
        }
    }
    char name[GWI_KERNEL_TEXT_MAX];
    gwi_kernel_text(name, kernel);
    const char *span = before ? "and never waited for" : "since the last good synchronisation";
    if (count == 1)
        gwi_evidence(finding, last->t_ns, "driver", "%s was launched once %s: this launch is at fault", name, span);
    else if (count > 1)
        gwi_measure(finding, last->t_ns, "driver", (double)count, "count",
                    "%s was launched %" PRIu64 " times %s, last at %.2f s", name, count, span,
                    (double)last->t_ns / 1e9);
    if (count > 0 && others > 0)
        gwi_rule_out(c, finding, GWI_OF_PROCESS,
                     "the %" PRIu64 " other launch%s in that time (the dump names the kernel)", others,
                     others == 1 ? "" : "es");
}

/* ---- the second run ---- */

static void say_blame_launch(gwi_finding *finding, const gw_blame *blame)
{
    char call[GWI_CALL_TEXT_MAX], kernel[GWI_KERNEL_TEXT_MAX], stream[GWI_STREAM_TEXT_MAX];
    gw_text order = {0};
    if (blame->has_order)
        gw_text_addf(&order, ", after %" PRIu64 " launch%s of thread %u%s%s%s", blame->order,
                     blame->order == 1 ? "" : "es", blame->tid, blame->thread == NULL ? "" : " (",
                     blame->thread == NULL ? "" : blame->thread, blame->thread == NULL ? "" : ")");
    gwi_evidence(finding, GWI_NO_TIME, "second run",
                 "in the second run (--blame), which waits for each launch, %s of %s on %s returned %u (%s) itself, "
                 "%.2f s after the start%s: this launch is at fault",
                 gwi_call_text(call, blame->call),
                 blame->kernel == NULL ? "an unnamed kernel" : gwi_kernel_text(kernel, blame->kernel),
                 gwi_stream_text(stream, blame->stream), blame->result, gw_result_name(blame->result),
                 (double)blame->t_ns / 1e9, gw_text_str(&order));
    finding->failed = finding->failed || order.failed;
    gw_text_free(&order);
}

/* Report a second run in which a call other than a launch returned the fault. The driver may not have waited for each
 * launch. For example, it may not wait for a graph. */
static void say_blame_elsewhere(gwi_finding *finding, const gw_blame *blame)
{
    char call[GWI_CALL_TEXT_MAX], kernel[GWI_KERNEL_TEXT_MAX], stream[GWI_STREAM_TEXT_MAX];
    gwi_evidence(finding, GWI_NO_TIME, "second run",
                 "in the second run (--blame), with CUDA_LAUNCH_BLOCKING=1, %s reported %u (%s), %.2f s after the "
                 "start: no launch reported an error itself",
                 gwi_call_text(call, blame->call), blame->result, gw_result_name(blame->result),
                 (double)blame->t_ns / 1e9);
    if (blame->kernel != NULL)
        gwi_evidence(finding, GWI_NO_TIME, "second run",
                     "the last launch before that, of %s on %s, is probably at fault, because this run should wait for "
                     "each launch",
                     gwi_kernel_text(kernel, blame->kernel), gwi_stream_text(stream, blame->stream));
}

static void say_blame(const gwi_case *c, gwi_finding *finding, const gw_failure *sticky)
{
    const gw_blame *blame = &c->model->faults.blame;
    const char *ended = blame->ended == NULL ? "an unknown end" : blame->ended;
    if (!blame->known)
        return;
    switch (blame->end) {
    case GW_BLAME_IN_LAUNCH:
        say_blame_launch(finding, blame);
        if (blame->result != sticky->result)
            gwi_evidence(finding, GWI_NO_TIME, "second run",
                         "the first run failed with %u (%s): either two faults, or one that varies between runs",
                         sticky->result, gw_result_name(sticky->result));
        break;
    case GW_BLAME_ELSEWHERE:
        say_blame_elsewhere(finding, blame);
        break;
    case GW_BLAME_NO_FAULT:
        gwi_evidence(finding, GWI_NO_TIME, "second run",
                     "in the second run (--blame), which waits for each launch, the fault did not occur again (%s): "
                     "the reason may be a race between streams, or chance; this is a hypothesis",
                     ended);
        break;
    case GW_BLAME_OTHER:
        gwi_evidence(finding, GWI_NO_TIME, "second run",
                     "the second run (--blame) ended differently, without a GPU fault: %s", ended);
        break;
    case GW_BLAME_NOT_RUN:
        gwi_evidence(finding, GWI_NO_TIME, "second run", "there was no second run (--blame): %s", ended);
        break;
    }
    if (blame->where != NULL)
        gwi_evidence(finding, GWI_NO_TIME, "second run", "the place of that launch in the program: %s", blame->where);
    else if (blame->frame != NULL && blame->end == GW_BLAME_IN_LAUNCH)
        gwi_evidence(finding, GWI_NO_TIME, "second run", "the traceback of the second run ends at: %s", blame->frame);
    if (blame->recording != NULL)
        gwi_evidence(finding, GWI_NO_TIME, "second run", "the recording of the second run: %s", blame->recording);
}

/* ---- the driver's log and the next steps ---- */

static void say_log(const gwi_case *c, gwi_finding *finding, const gw_failure *sticky)
{
    const gw_fault_facts *facts = &c->model->faults;
    enum { SHOWN_MAX = 2 };
    for (size_t i = 0, shown = 0; i < facts->log_count && shown < SHOWN_MAX; i++) {
        if (facts->log[i].pid != sticky->pid)
            continue;
        {
            gwi_evidence(finding, facts->log[i].t_ns, "driver log", "%s", facts->log[i].text);
            gwi_weigh(finding, GW_WEIGHT_ASIDE);
        }
        shown++;
    }
}

/* Add the next steps: check the kernel if it is known, otherwise run again to find it. */
static void say_next(const gwi_case *c, gwi_finding *finding, const gw_failure *sticky, const char *kernel)
{
    const gw_gpu_fault *fault = gwi_gpu_fault(c);
    char name[GWI_KERNEL_TEXT_MAX], launched[GWI_LAUNCHED_TEXT_MAX];
    const char *why, *suspect = kernel == NULL ? gwi_suspect_kernel(c, sticky, &why) : kernel;
    gwi_launched_text(launched, c, sticky->pid, suspect);
    if (kernel != NULL && fault != NULL && fault->file != NULL && kernel == fault->kernel)
        gwi_next(finding, "Check kernel %s, %.200s:%u", gwi_kernel_text(name, kernel), fault->file, fault->line);
    else if (suspect != NULL)
        gwi_next(finding, "Check kernel %s and the arguments of its launch%s%s", gwi_kernel_text(name, suspect),
                 launched[0] == '\0' ? "" : ": ", launched);
    if (kernel == NULL && gw_model_meta(c->model, "option.core") == NULL)
        gwi_next(finding, "Run it with gpuwhy run --core: a GPU core dump then names the kernel and the line");
    if (!gwi_is_own_report(c, sticky) && !c->model->faults.blame.known)
        gwi_next(finding,
                 "Run it with gpuwhy run --blame: a second run then waits for each launch, to find the one at fault");
}

void gwi_say_fault_details(const gwi_case *c, gwi_finding *finding, const gw_failure *sticky)
{
    const gw_gpu_fault *fault = gwi_gpu_fault(c);
    const char *kernel = gwi_kernel_at_fault(c, sticky);
    if (fault != NULL) {
        if (fault->result != sticky->result)
            gwi_evidence(finding, fault->t_ns, "core dump", "the dump shows another exception (%u, %s)", fault->result,
                         gw_result_name(fault->result));
        say_place(finding, fault);
        say_threads(finding, fault);
        say_other_places(c, finding, fault);
        if (kernel != NULL && kernel == fault->kernel)
            say_its_launches(c, finding, sticky, kernel);
    }
    say_files(c, finding);
    say_log(c, finding, sticky);
    say_blame(c, finding, sticky);
    say_next(c, finding, sticky, kernel);
}
