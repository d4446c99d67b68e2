/* Rules out explanations that several causes share: a failed driver call, and explanations for a refused request that
 * the numbers of the request contradict. */
#include "gwi_cause.h"

#include <inttypes.h>

void gwi_rule_out_failed_call(const gwi_case *c, gwi_finding *finding)
{
    gwi_rule_out(c, finding, GWI_OF_RUN, "a failed driver call (%s)",
                 c->model->failure_count == 0 ? "none failed" : "the program recovered from every failure");
}

static void rule_out_foreign(const gwi_case *c, gwi_finding *finding)
{
    const gwi_memory *memory = &c->memory;
    char bytes[GW_BYTES_TEXT_MAX];
    if (memory->limit_is_guard && !memory->foreign_recorded)
        gwi_rule_out(c, finding, GWI_OF_PROCESS, "other processes (the limit counts only this program)");
    else if (memory->limit_is_framework)
        gwi_rule_out(c, finding, GWI_OF_PROCESS, "other processes (PyTorch's own limit counts only this program)");
    else if (memory->foreign_known && !gwi_would_fit(memory, memory->foreign_bytes))
        gwi_rule_out(c, finding, GWI_OF_RUN, "other processes (%s)", gw_bytes_text(bytes, memory->foreign_bytes));
    else if (!memory->foreign_known && memory->rest_known && !gwi_would_fit(memory, memory->rest_bytes))
        gwi_rule_out(c, finding, GWI_OF_RUN, "other processes (at most %s, contexts included)",
                     gw_bytes_text(bytes, memory->rest_bytes));
}

static void rule_out_fragmentation(const gwi_case *c, gwi_finding *finding)
{
    const gwi_memory *memory = &c->memory;
    char idle[GW_BYTES_TEXT_MAX], cached[GW_BYTES_TEXT_MAX];
    uint64_t both = memory->idle_page_bytes + memory->cached_bytes;
    if (memory->wanted_bytes == 0 || gwi_would_fit(memory, both) || !memory->has_free)
        return;
    if (memory->cached_bytes > 0)
        gwi_rule_out(c, finding, GWI_OF_PROCESS, "fragmentation (%s cached but not in use)",
                     gw_bytes_text(cached, memory->cached_bytes));
    else if (memory->snapshot != NULL && memory->snapshot->live != NULL)
        gwi_rule_out(c, finding, GWI_OF_PROCESS, "fragmentation (%s in half-used pages)",
                     gw_bytes_text(idle, memory->idle_page_bytes));
}

void gwi_say_memory_ruled_out(const gwi_case *c, gwi_finding *finding, unsigned which)
{
    const gwi_memory *memory = &c->memory;
    if (memory->has_losses)
        return; /* the sizes and counts below may be wrong */
    if (which & GWI_NOT_FOREIGN)
        rule_out_foreign(c, finding);
    if (which & GWI_NOT_FRAGMENTED)
        rule_out_fragmentation(c, finding);
    if ((which & GWI_NOT_GROWTH) && gwi_loop_is_balanced(memory) && !memory->growth.steps && !memory->growth.repeats)
        gwi_rule_out(c, finding, GWI_OF_PROCESS, "a leak (the last %" PRIu64 " iterations left nothing behind)",
                     memory->growth.loop.balanced_count);
}
