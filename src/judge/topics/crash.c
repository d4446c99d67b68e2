/* Checks whether the recorded fault of host code ended the judged process, and finds the reason for a SIGBUS. */
#include "gwi_crash.h"

#include "gw_text.h"

#include <inttypes.h>
#include <string.h>

enum { STATUS_OF_SIGNAL = 128 };

bool gwi_died_of(const gwi_case *c, const gw_crash *crash)
{
    return c->signal == crash->signal || c->exit_code == STATUS_OF_SIGNAL + crash->signal;
}

const gw_crash *gwi_crash_of(const gwi_case *c)
{
    if (c->process == NULL || !c->ended || !c->process->crash.seen)
        return NULL;
    const gw_crash *crash = &c->process->crash;
    return gwi_died_of(c, crash) || (c->bad_end && c->process->t_last_event_ns <= crash->t_ns) ? crash : NULL;
}

static bool is_refused_memory(const gw_failure *failure)
{
    return failure->is_allocation || failure->kind == GW_EV_HOST_ALLOC;
}

bool gwi_is_at_null(const gw_crash *crash)
{
    enum { NULL_ENDS = 64 << 10 }; /* no memory is mapped below this address */
    return crash->has_address && !crash->in_block && crash->address < NULL_ENDS;
}

bool gwi_is_null_of_root(const gwi_case *c, const gw_crash *crash)
{
    return gwi_is_at_null(crash) && c->root != NULL && is_refused_memory(c->root) && c->root->t_ns <= crash->t_ns;
}

bool gwi_may_be_in_block(const gwi_case *c)
{
    enum { BUS = 7, SEGV = 11 }; /* SIGBUS and SIGSEGV on Linux */
    const gw_crash *crash = gwi_crash_of(c);
    bool is_unknown = crash == NULL || (!crash->has_address && !crash->was_sent);
    if (!c->ended || (c->signal != SEGV && c->signal != BUS) || c->process == NULL || !is_unknown)
        return false;
    for (int device = 0; device < GW_MODEL_DEVICE_PLACES; device++)
        if (c->process->usage[device].live_count > 0)
            return true;
    return false;
}

gwi_bus gwi_bus_of(const gwi_case *c)
{
    enum { BUS = 7, ADRALN = 1, ADRERR = 2, MCEERR_AR = 4, MCEERR_AO = 5 }; /* SIGBUS and its si_code values on Linux */
    static const char shm[] = "/dev/shm/";
    const gw_crash *crash = gwi_crash_of(c);
    if (crash == NULL || crash->signal != BUS)
        return GWI_BUS_UNKNOWN;
    if (crash->was_sent || (crash->has_code && crash->code == ADRALN))
        return GWI_BUS_OTHER;
    if (crash->has_code && (crash->code == MCEERR_AR || crash->code == MCEERR_AO))
        return GWI_BUS_MEMORY;
    if (!crash->has_code || crash->code != ADRERR || !crash->has_file || crash->file[0] == '\0')
        return GWI_BUS_UNKNOWN;
    return gw_begins(crash->file, shm) ? GWI_BUS_SHM : GWI_BUS_FILE;
}

void gwi_say_bus(const gwi_case *c, gwi_finding *finding)
{
    const gw_crash *crash = gwi_crash_of(c);
    switch (gwi_bus_of(c)) {
    case GWI_BUS_SHM:
    case GWI_BUS_FILE:
        gwi_evidence(finding, crash->t_ns, gwi_crash_source(crash),
                     "the fault was at address 0x%" PRIx64
                     ", in a page of the mapped file %s that the kernel could not provide",
                     crash->address, crash->file);
        return;
    case GWI_BUS_MEMORY:
        gwi_evidence(finding, crash->t_ns, gwi_crash_source(crash),
                     "the Linux kernel reported that the machine's memory failed at address 0x%" PRIx64,
                     crash->address);
        return;
    case GWI_BUS_UNKNOWN:
    case GWI_BUS_OTHER:
        return;
    }
}

const char *gwi_crash_source(const gw_crash *crash)
{
    if (crash->by_handler)
        return "observer";
    if (crash->by_core)
        return "core dump";
    return "kernel log";
}

void gwi_say_null_used(const gwi_case *c, gwi_finding *finding)
{
    char call[GWI_CALL_TEXT_MAX], at[GWI_PLACE_TEXT_MAX];
    const gw_crash *crash = gwi_crash_of(c);
    if (crash != NULL && gwi_is_null_of_root(c, crash))
        gwi_consequence(
            finding, "%.3f s: signal %d at address 0x%" PRIx64 "%s: host code used the NULL pointer of the failed %s",
            (double)crash->t_ns / 1e9, crash->signal, crash->address, gwi_at(c, crash->site, at),
            gwi_call_text(call, c->root->fn_name));
}
