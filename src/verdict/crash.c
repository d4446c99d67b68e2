#include "crash.h"

#include <inttypes.h>

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

bool gwi_is_null_of_root(const gwi_case *c, const gw_crash *crash)
{
    enum { NULL_ENDS = 64 << 10 }; /* where nothing is ever mapped */
    return crash->has_address && !crash->in_block && crash->address < NULL_ENDS && c->root != NULL &&
           is_refused_memory(c->root) && c->root->t_ns <= crash->t_ns;
}

const char *gwi_crash_source(const gw_crash *crash)
{
    return crash->by_handler ? "observer" : crash->by_core ? "core dump" : "kernel log";
}

void gwi_say_null_used(const gwi_case *c, gwi_finding *finding)
{
    char call[GWI_CALL_TEXT_MAX], at[GWI_PLACE_TEXT_MAX];
    const gw_crash *crash = gwi_crash_of(c);
    if (crash != NULL && gwi_is_null_of_root(c, crash))
        gwi_consequence(finding, "%.3f s: signal %d at address 0x%" PRIx64 "%s: the host used the NULL that %s left",
                        (double)crash->t_ns / 1e9, crash->signal, crash->address, gwi_at(c, crash->site, at),
                        gwi_call_text(call, c->root->fn_name));
}
