/* The decision whether to start the program again. */
#include "gwi_restart.h"

/* Before another attempt if others hold something that is not memory. */
enum { PAUSE_MS = 30000 };

void gwi_restart_begin(gwi_restart *machine, uint32_t restart_count)
{
    *machine = (gwi_restart){.attempts_max = restart_count + 1, .is_changed = true};
}

static gwi_decision stop(const char *why)
{
    return (gwi_decision){.why = why};
}

/* Return why the attempt cannot be followed by another one, or NULL. */
static const char *why_not(const gwi_restart *machine, const gwi_attempt_end *end)
{
    bool is_same = !machine->is_changed && machine->evidence == end->evidence;
    if (!end->has_failed)
        return "the program succeeded";
    if (end->is_stopped)
        return "a signal asked the run to end";
    if (!end->has_cause)
        return "the cause is not determined";
    if (!end->can_change && end->again == GW_AGAIN_PERMANENT)
        return "the same command would fail in the same way";
    if (!end->can_change && is_same)
        return "the last two attempts failed in the same way, so this failure is not transient";
    if (machine->count >= machine->attempts_max)
        return "this was the last attempt that --restart allows";
    return NULL;
}

static const char *why_again(const gwi_attempt_end *end)
{
    if (end->can_change)
        return "the command is changed";
    return end->again == GW_AGAIN_WAIT ? "it can succeed after others have released what they hold"
                                       : "the failure may not happen again";
}

gwi_decision gwi_restart_ended(gwi_restart *machine, const gwi_attempt_end *end)
{
    machine->count++;
    const char *why = why_not(machine, end);
    if (why != NULL)
        return stop(why);
    machine->evidence = end->evidence;
    machine->is_changed = end->can_change;
    bool waits = end->again == GW_AGAIN_WAIT;
    return (gwi_decision){.again = true,
                          .waits_for_memory = waits && end->is_memory,
                          .pause_ms = waits && !end->is_memory ? PAUSE_MS : 0,
                          .why = why_again(end)};
}

gwi_decision gwi_restart_waited(gwi_restart *machine, gwi_waited waited)
{
    gwi_decision again = {.again = true};
    switch (waited) {
    case GWI_WAITED_FREE:
        machine->is_changed = true;
        again.why = "the memory is free now";
        return again;
    case GWI_WAITED_UNKNOWN:
        again.why = "it is unknown whether the memory is free now";
        return again;
    case GWI_WAITED_TIMEOUT:
        return stop("the memory did not become free in time");
    case GWI_WAITED_STOPPED:
        break;
    }
    return stop("a signal asked the run to end");
}
