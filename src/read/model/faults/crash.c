/* Collect crashes of host code (SIGSEGV and similar signals), and find out whether the faulting address lies in a
 * block of GPU memory. */
#include "gwi_inner.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SENT_BY_KERNEL = 0x80 }; /* si_code SI_KERNEL: the Linux kernel sent the signal and gives no faulting address */

void gwi_crash_event(gw_model *model, gwi_process *process, const gw_event *event)
{
    gw_crash *crash = &model->process[process->index].crash;
    int64_t code = (int64_t)event->arg[2];
    *crash = (gw_crash){.seen = true,
                        .by_handler = true,
                        .was_sent = code <= 0,
                        .has_address = code > 0 && code != SENT_BY_KERNEL,
                        .has_code = true,
                        .code = (int)code,
                        .signal = (int)event->arg[0],
                        .address = event->arg[1],
                        .instruction = event->arg[3],
                        .t_ns = event->t_ns,
                        .tid = event->tid,
                        .site = model->inner->event_site};
}

static bool is_fault(int signal)
{
    return signal == SIGSEGV || signal == SIGBUS || signal == SIGILL || signal == SIGFPE;
}

static void take_file(gw_crash *crash, gw_fact_text file)
{
    crash->has_file = true;
    gw_fact_text_copy(crash->file, sizeof crash->file, file);
}

/* Store a crash from a core dump that the supervisor read. If gpuwhy's signal handler recorded the same crash, add only
 * the mapped file's name, because the handler's record has the stack. */
static void take_core(gw_model *model, const gw_fact_core *core, const gw_pair *fact)
{
    bool has_code = core->has_code && core->code >= 0; /* negative: a process sent the signal */
    bool has_address = has_code && core->code > 0 && core->code != SENT_BY_KERNEL && core->has_address;
    for (size_t i = 0; i < model->process_count; i++) {
        gw_process *process = &model->process[i];
        if (process->pid != fact->pid)
            continue;
        if (process->crash.seen) {
            bool is_same = has_address && process->crash.has_address && process->crash.address == core->address;
            if (is_same && core->has_file && !process->crash.has_file)
                take_file(&process->crash, core->file);
            continue;
        }
        process->crash = (gw_crash){.seen = true,
                                    .by_core = true,
                                    .was_sent = core->has_code && core->code <= 0,
                                    .has_address = has_address,
                                    .has_code = has_code,
                                    .code = has_code ? core->code : 0,
                                    .signal = core->signal,
                                    .address = has_address ? core->address : 0,
                                    .instruction = core->instruction,
                                    .t_ns = fact->t_ns,
                                    .tid = core->tid};
        if (core->has_file)
            take_file(&process->crash, core->file);
    }
}

static void take_cores(gw_model *model)
{
    for (size_t i = 0; i < model->fact_count; i++) {
        gw_fact_core core;
        if (model->fact[i].what != GW_FACT_HOST_CORE)
            continue;
        gw_fact_core_read(gw_fact_text_of(model->fact[i].value), &core);
        if (core.has_signal && is_fault(core.signal))
            take_core(model, &core, &model->fact[i]);
    }
}

/* Store crashes that the Linux kernel logged with process and address, such as "python3[123]: segfault at 7f..". */
static void take_lines(gw_model *model)
{
    for (size_t i = 0; i < model->machine.event_count; i++) {
        const gw_machine_event *event = &model->machine.event[i];
        for (size_t k = 0; event->kind == GW_MACHINE_CRASH && event->pid != 0 && k < model->process_count; k++) {
            gw_process *process = &model->process[k];
            if (process->pid != event->pid || process->crash.seen)
                continue;
            process->crash = (gw_crash){.seen = true,
                                        .has_address = strstr(event->text, "segfault at ") != NULL ||
                                                       strstr(event->text, " at 0x") != NULL,
                                        .signal = (int)event->code,
                                        .address = event->value,
                                        .t_ns = event->t_ns};
        }
    }
}

static void find_block(const gw_model *model, const gwi_process *process, gw_crash *crash)
{
    for (uint32_t i = 0; i < process->object_count; i++) {
        const gwi_object *object = &process->object[i];
        if (!gwi_is_alive(object) || !gw_class_has_addresses(object->cls) || object->cls == GW_CLASS_MANAGED ||
            crash->address < object->key || crash->address - object->key >= object->bytes)
            continue;
        crash->in_block = true;
        crash->block = (gw_live){.address = object->key,
                                 .bytes = object->bytes,
                                 .t_ns = object->t_ns,
                                 .has_time = true,
                                 .group = object->group,
                                 .site = model->group[object->group].site,
                                 .cls = object->cls,
                                 .device = object->device};
        return;
    }
}

void gwi_crash_finish(gw_model *model)
{
    take_cores(model);
    take_lines(model);
    for (size_t i = 0; i < model->process_count; i++)
        if (model->process[i].crash.has_address)
            find_block(model, model->inner->process[i], &model->process[i].crash);
}
