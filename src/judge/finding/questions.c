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

uint64_t gwi_pool_in_pieces(const gwi_memory *memory)
{
    enum { PART = 8 }; /* a pool that is full has small pieces left, too */
    uint64_t taken = memory->own_bytes < memory->pool_limit_bytes ? memory->own_bytes : memory->pool_limit_bytes;
    uint64_t unused = taken > memory->pool_used_bytes ? taken - memory->pool_used_bytes : 0;
    bool is_much = unused >= memory->wanted_bytes && unused >= memory->pool_limit_bytes / PART;
    return memory->has_pool && memory->wanted_bytes != 0 && is_much ? unused : 0;
}

/* True if another library's request would have fitted with `bytes` of the framework's cache. */
static bool would_do(const gwi_memory *memory, uint64_t bytes)
{
    enum { LARGE_PART = 16 };
    if (!memory->is_other_request || bytes == 0)
        return false;
    if (memory->wanted_bytes == 0 || !memory->has_free) /* it is not known how much was missing */
        return bytes * LARGE_PART >= memory->limit_bytes;
    return !gwi_would_fit(memory, 0) && gwi_would_fit(memory, bytes);
}

bool gwi_cache_may_explain(const gwi_memory *memory)
{
    return would_do(memory, memory->empty_known ? memory->empty_bytes : memory->cached_bytes);
}

bool gwi_cache_is_much(const gwi_memory *memory)
{
    return would_do(memory, memory->cached_bytes) && memory->cached_bytes * 2 >= memory->own_bytes;
}

uint64_t gwi_kept_from_others(const gwi_memory *memory)
{
    bool has_cache = memory->is_other_request && memory->reserved_bytes > memory->own_bytes;
    return has_cache ? memory->reserved_bytes : memory->own_bytes;
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
