/* Small functions that compute a fact about a case. */
#include "gwi_cause.h"

uint64_t gwi_pool_idle_bytes(const gwi_memory *memory)
{
    return memory->pools == NULL ? 0 : memory->pools->bytes_reserved - memory->pools->bytes_used;
}

bool gwi_would_fit(const gwi_memory *memory, uint64_t freed_bytes)
{
    return memory->has_free && memory->free_bytes + freed_bytes >= memory->wanted_bytes;
}

const char *gwi_memory_source(const gwi_memory *memory)
{
    return memory->report != NULL && memory->live == memory->report->live ? "observer" : "ledger";
}

const gw_failure *gwi_failure_next(const gwi_case *c, const gw_failure *failure)
{
    const gw_failure *end = c->model->failure + c->model->failure_count;
    for (const gw_failure *next = failure + 1; next < end; next++) {
        if (next->pid == failure->pid)
            return next;
    }
    return NULL;
}
