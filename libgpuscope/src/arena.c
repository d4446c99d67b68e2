/* Arenas and workspaces, which the scope frees. An arena allocates blocks at planned offsets. A workspace is memory
 * that library algorithms use one after the other. */
#include "gwi_scope.h"

#include <stdlib.h>

struct gs_arena {
    gwi_helper helper;   /* must be the first member: the scope frees the arena through a pointer to it */
    const gs_plan *plan; /* borrowed from the caller of gs_arena_open() */
    CUdeviceptr base;
    size_t step;
};

struct gs_workspace {
    gwi_helper helper; /* must be the first member: the scope frees the workspace through a pointer to it */
    uint64_t budget_bytes;
    CUdeviceptr block; /* device memory of the workspace; 0: not allocated */
    size_t block_bytes;
};

static void *new_helper(gs_scope *scope, size_t bytes)
{
    gwi_helper *helper = calloc(1, bytes);
    if (helper == NULL)
        return NULL;
    helper->scope = scope;
    return helper;
}

static void add_helper(gwi_helper *helper)
{
    pthread_mutex_lock(&gwi_lock);
    helper->next = helper->scope->helpers;
    helper->scope->helpers = helper;
    pthread_mutex_unlock(&gwi_lock);
}

/* ---- arenas ---- */

gs_status gs_arena_open_at(gs_scope *scope, const gs_plan *plan, gs_arena **ret_arena, const char *file, int line)
{
    gs_status status = gwi_usable(scope, "gs_arena_open", file, line);
    if (status != GS_OK)
        return status;
    if (plan == NULL || gwi_plan_arena_bytes(plan) == 0)
        return gwi_refuse(scope, GS_MISUSE, "gs_arena_open", file, line, "the plan is not closed, or empty");
    gs_arena *arena = new_helper(scope, sizeof *arena);
    if (arena == NULL)
        return gwi_refuse(scope, GS_NO_HOST_MEMORY, "gs_arena_open", file, line, "no host memory for an arena");
    arena->plan = plan;
    status = gwi_alloc(scope, gwi_plan_arena_bytes(plan), true, &arena->base, "gs_arena_open", file, line);
    if (status != GS_OK) {
        free(arena);
        return status;
    }
    add_helper(&arena->helper);
    *ret_arena = arena;
    return GS_OK;
}

CUdeviceptr gs_arena_at(const gs_arena *arena, size_t block)
{
    uint64_t offset;
    return gs_plan_offset(arena->plan, block, &offset) == GS_OK ? arena->base + offset : 0;
}

/* Store the plan's next step in *ret_step. The step must be a free if `is_free`, otherwise an allocation. Returns
 * GS_DIFFERS if it is not or the plan has no more steps, and GS_DEAD in a dead scope. */
static gs_status next_step(gs_arena *arena, bool is_free, const char *call, const char *file, int line,
                           gwi_plan_step *ret_step)
{
    gs_scope *scope = arena->helper.scope;
    if (gwi_is_dead(scope))
        return GS_DEAD;
    if (arena->step == gwi_plan_step_count(arena->plan))
        return gwi_refuse(scope, GS_DIFFERS, call, file, line,
                          "the plan ended after %zu steps: call gs_arena_restart() to begin an iteration", arena->step);
    *ret_step = gwi_plan_step_at(arena->plan, arena->step);
    if (ret_step->is_free != is_free)
        return gwi_refuse(scope, GS_DIFFERS, call, file, line, "step %zu of the plan is %s of block %zu", arena->step,
                          is_free ? "the allocation" : "the free", ret_step->block);
    return GS_OK;
}

gs_status gs_arena_restart_at(gs_arena *arena, const char *file, int line)
{
    size_t step = arena->step, count = gwi_plan_step_count(arena->plan);
    arena->step = 0;
    if (gwi_is_dead(arena->helper.scope))
        return GS_DEAD;
    if (step == 0 || step == count)
        return GS_OK;
    return gwi_refuse(arena->helper.scope, GS_DIFFERS, "gs_arena_restart", file, line,
                      "the iteration ended after %zu of %zu steps", step, count);
}

gs_status gs_arena_alloc_at(gs_arena *arena, size_t bytes, CUdeviceptr *ret, const char *file, int line)
{
    gwi_plan_step step = {0};
    gs_status status = next_step(arena, false, "gs_arena_alloc", file, line, &step);
    if (status != GS_OK)
        return status;
    char planned[GWI_BYTES_EXACT_MAX], wanted[GWI_BYTES_EXACT_MAX];
    if (step.bytes != bytes)
        return gwi_refuse(arena->helper.scope, GS_DIFFERS, "gs_arena_alloc", file, line,
                          "step %zu of the plan allocates %s, not %s", arena->step,
                          gwi_bytes_exact(planned, step.bytes), gwi_bytes_exact(wanted, bytes));
    arena->step++;
    *ret = arena->base + step.offset;
    return GS_OK;
}

gs_status gs_arena_free_at(gs_arena *arena, CUdeviceptr address, const char *file, int line)
{
    gwi_plan_step step = {0};
    gs_status status = next_step(arena, true, "gs_arena_free", file, line, &step);
    if (status != GS_OK)
        return status;
    if (address != arena->base + step.offset)
        return gwi_refuse(arena->helper.scope, GS_DIFFERS, "gs_arena_free", file, line,
                          "step %zu of the plan frees block %zu, which has another address", arena->step, step.block);
    arena->step++;
    return GS_OK;
}

/* ---- workspace ---- */

gs_status gs_workspace_open_at(gs_scope *scope, uint64_t budget_bytes, gs_workspace **ret, const char *file, int line)
{
    gs_status status = gwi_usable(scope, "gs_workspace_open", file, line);
    if (status != GS_OK)
        return status;
    gs_workspace *workspace = new_helper(scope, sizeof *workspace);
    if (workspace == NULL)
        return gwi_refuse(scope, GS_NO_HOST_MEMORY, "gs_workspace_open", file, line, "no host memory for a workspace");
    workspace->budget_bytes = budget_bytes;
    add_helper(&workspace->helper);
    *ret = workspace;
    return GS_OK;
}

/* Replace the workspace's block by a larger one. The old block is released first, because the budget has room for only
 * one. The release waits for the device, so no kernel still uses the block. */
static gs_status grow(gs_workspace *workspace, size_t bytes, const char *file, int line)
{
    gs_scope *scope = workspace->helper.scope;
    if (workspace->block != 0) {
        CUdeviceptr old = workspace->block;
        workspace->block = 0;
        workspace->block_bytes = 0;
        gs_status status = gwi_thing_close(scope, GS_KIND_DEVICE, old, true, "gs_workspace_choose", file, line);
        if (status != GS_OK)
            return status;
    }
    gwi_is_trial = true;
    gs_status status = gwi_alloc(scope, bytes, true, &workspace->block, "gs_workspace_choose", file, line);
    gwi_is_trial = false;
    if (status == GS_OK)
        workspace->block_bytes = bytes;
    return status;
}

static void log_refused(gs_workspace *workspace, size_t bytes, const char *why, const char *file, int line)
{
    char size[GWI_BYTES_TEXT_MAX], budget[GWI_BYTES_TEXT_MAX];
    gwi_log(workspace->helper.scope, "workspace of %s refused, %s (budget %s), %s:%d", gwi_bytes_text(size, bytes), why,
            gwi_bytes_text(budget, workspace->budget_bytes), file, line);
}

gs_status gs_workspace_choose_at(gs_workspace *workspace, const size_t *sizes, size_t count, size_t *ret_choice,
                                 CUdeviceptr *ret, const char *file, int line)
{
    gs_scope *scope = workspace->helper.scope;
    gs_status status = gwi_usable(scope, "gs_workspace_choose", file, line);
    for (size_t i = 0; i < count && status == GS_OK; i++) {
        if (sizes[i] > workspace->budget_bytes) {
            log_refused(workspace, sizes[i], "over the budget", file, line);
            continue;
        }
        if (sizes[i] > workspace->block_bytes)
            status = grow(workspace, sizes[i], file, line);
        if (status == GS_NO_MEMORY) {
            log_refused(workspace, sizes[i], "the card is full", file, line);
            status = GS_OK;
        } else if (status == GS_OK) {
            *ret_choice = i;
            *ret = sizes[i] == 0 ? 0 : workspace->block;
            return GS_OK;
        }
    }
    if (status != GS_OK)
        return status;
    char budget[GWI_BYTES_EXACT_MAX];
    return gwi_refuse(scope, GS_NO_MEMORY, "gs_workspace_choose", file, line,
                      "none of %zu sizes fits in a budget of %s", count,
                      gwi_bytes_exact(budget, workspace->budget_bytes));
}
