/* Ends a scope:
 * - wait for its work
 * - release everything in the right order
 * - compare the driver's free memory with that at the beginning
 * - release the context
 *
 * In a dead scope, the driver can neither wait nor release single resources, so only the context is released. The rest
 * is freed when the process ends. */
#include "gwi_scope.h"

#include "gwi_driver.h"

#include <gpuwhy.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct ending {
    gs_scope *scope;
    gs_report *report;  /* owned until the caller receives it */
    gwi_thing **things; /* owned; all things of the scope and its inner scopes, in the order of their release */
    size_t thing_count;
    const char *file;
    int line;
    CUcontext before; /* the context that was current before; made current again at the end */
    bool is_switched; /* true if gs_end() had to make the scope's context current */
} ending;

/* Iterate over `outer` and all scopes inside it. Returns the scope after `at`, NULL at the end. Each scope comes before
 * the scopes inside it. */
static gs_scope *next_within(gs_scope *at, const gs_scope *outer)
{
    if (at->children != NULL)
        return at->children;
    while (at != outer && at->sibling == NULL)
        at = at->parent;
    return at == outer ? NULL : at->sibling;
}

/* ---- checks and preparation ---- */

/* Return an entry of another thread into the scope or its inner scopes. Returns NULL if there is none. */
static const gwi_entry *other_entry_locked(gs_scope *scope)
{
    long self = syscall(SYS_gettid);
    for (gs_scope *at = scope; at != NULL; at = next_within(at, scope)) {
        for (const gwi_entry *entry = at->entries; entry != NULL; entry = entry->next) {
            if (entry->thread != self)
                return entry;
        }
    }
    return NULL;
}

static size_t count_things_locked(gs_scope *scope)
{
    size_t count = 0;
    for (gs_scope *at = scope; at != NULL; at = next_within(at, scope)) {
        for (const gwi_thing *thing = at->things; thing != NULL; thing = thing->next)
            count++;
    }
    return count;
}

static void set_ending_locked(gs_scope *scope, bool is_ending)
{
    for (gs_scope *at = scope; at != NULL; at = next_within(at, scope))
        at->is_ending = is_ending;
}

/* Prevent threads from entering the scope from now on. Returns GS_BUSY if another thread is inside, or if the scope is
 * already ending. */
static gs_status shut(ending *end)
{
    gs_status status = GS_OK;
    char why[200] = "the scope is already being ended";
    pthread_mutex_lock(&gwi_lock);
    /* After a fork, only one thread runs, and its id is new. So ignore the entries: they belong to the parent's
     * threads. */
    const gwi_entry *other = gwi_driver_is_forked() ? NULL : other_entry_locked(end->scope);
    if (other != NULL)
        snprintf(why, sizeof why, "thread %ld is still inside; it entered at %s:%d", other->thread, other->file,
                 other->line);
    if (other != NULL || end->scope->is_ending)
        status = GS_BUSY;
    else
        set_ending_locked(end->scope, true);
    end->thing_count = count_things_locked(end->scope);
    pthread_mutex_unlock(&gwi_lock);
    return status == GS_OK ? status : gwi_refuse(end->scope, status, "gs_end", end->file, end->line, "%s", why);
}

static int compare_things(const void *a, const void *b)
{
    const gwi_thing *left = *(gwi_thing *const *)a, *right = *(gwi_thing *const *)b;
    if (left->kind != right->kind)
        return gwi_kind_order(left->kind) < gwi_kind_order(right->kind) ? -1 : 1;
    int order = strcmp(left->file, right->file);
    if (order == 0)
        order = left->line < right->line ? -1 : left->line > right->line;
    if (order == 0)
        order = strcmp(left->scope->name, right->scope->name);
    return order;
}

static bool is_same_place(const gwi_thing *a, const gwi_thing *b)
{
    const gwi_thing *const left = a, *const right = b;
    return compare_things(&left, &right) == 0;
}

/* Allocate all host memory that gs_end() needs. After this, gs_end() cannot run out of host memory halfway. */
static gs_status make_room(ending *end)
{
    end->report = calloc(1, sizeof *end->report);
    end->things = calloc(end->thing_count + 1, sizeof(gwi_thing *));
    if (end->report != NULL)
        end->report->entries = calloc(end->thing_count + 1, sizeof(gs_held));
    if (end->report != NULL && end->report->entries != NULL && end->things != NULL)
        return GS_OK;
    gs_report_free(end->report);
    free(end->things);
    pthread_mutex_lock(&gwi_lock);
    set_ending_locked(end->scope, false);
    pthread_mutex_unlock(&gwi_lock);
    return gwi_refuse(end->scope, GS_NO_HOST_MEMORY, "gs_end", end->file, end->line, "no host memory for the report");
}

static void collect(ending *end)
{
    size_t count = 0;
    pthread_mutex_lock(&gwi_lock);
    for (gs_scope *at = end->scope; at != NULL; at = next_within(at, end->scope)) {
        while (at->things != NULL) {
            end->things[count] = at->things;
            gwi_thing_take_locked(end->things[count++]);
        }
    }
    pthread_mutex_unlock(&gwi_lock);
    qsort(end->things, count, sizeof *end->things, compare_things);
}

/* ---- the list of held resources ---- */

static void list_held(ending *end)
{
    gs_report *report = end->report;
    for (size_t i = 0; i < end->thing_count; i++) {
        const gwi_thing *thing = end->things[i];
        if (thing->kind == GS_KIND_POOL)
            continue;
        gs_held *held = report->entry_count == 0 ? NULL : &report->entries[report->entry_count - 1];
        if (held == NULL || !is_same_place(thing, end->things[i - 1])) {
            held = &report->entries[report->entry_count++];
            held->kind = thing->kind;
            held->file = thing->file;
            held->line = thing->line;
            memcpy(held->scope, thing->scope->name, sizeof held->scope);
        }
        held->count++;
        held->bytes += thing->bytes;
        report->held_count++;
    }
    for (size_t i = 0; i < report->entry_count; i++) {
        const gs_held *held = &report->entries[i];
        char bytes[GWI_BYTES_EXACT_MAX];
        gwi_log(end->scope, "still held: %zu x %s%s%s, %s:%d", held->count, gs_kind_text(held->kind),
                held->bytes == 0 ? "" : ", ", held->bytes == 0 ? "" : gwi_bytes_exact(bytes, held->bytes), held->file,
                held->line);
    }
}

static void note_kept(ending *end, const gwi_thing *thing)
{
    gs_report *report = end->report;
    report->kept_count++;
    for (size_t i = 0; i < report->entry_count; i++) {
        gs_held *held = &report->entries[i];
        if (held->kind == thing->kind && held->line == thing->line && strcmp(held->file, thing->file) == 0 &&
            strcmp(held->scope, thing->scope->name) == 0)
            held->kept_count++;
    }
}

/* ---- driver calls ---- */

static gs_status failed(ending *end, gs_source source, int code, const char *call)
{
    return gwi_failed(end->scope, source, code, call, NULL, end->file, end->line);
}

/* Make the scope's context current. Returns false on failure; resources can then not be released one by one. */
static bool enter_context(ending *end)
{
    const char *call = "cuCtxGetCurrent";
    CUcontext context = end->scope->device->context;
    for (int attempt = 0; attempt < 2 && !gwi_is_dead(end->scope); attempt++) {
        int code = gwi_cuda.cuCtxGetCurrent(&end->before);
        end->is_switched = code == 0 && end->before != context;
        if (end->is_switched) {
            call = "cuCtxSetCurrent";
            code = gwi_cuda.cuCtxSetCurrent(context);
        }
        if (code == 0)
            return true;
        end->is_switched = false;
        failed(end, GS_FROM_DRIVER, code, call);
    }
    return false;
}

static void wait_for_work(ending *end)
{
    for (int attempt = 0; attempt < 2 && !gwi_is_dead(end->scope); attempt++) {
        int code = gwi_cuda.cuCtxSynchronize();
        if (code == 0)
            return;
        failed(end, GS_FROM_DRIVER, code, "cuCtxSynchronize");
    }
}

/* True if a failed release may be repeated. For memory this is safe: an invalid address is only an error. Drivers crash
 * on other handles that are already destroyed. */
static bool may_try_again(const gwi_thing *thing, int code)
{
    bool is_memory = thing->kind == GS_KIND_ORDERED || thing->kind == GS_KIND_DEVICE || thing->kind == GS_KIND_MAPPED ||
                     thing->kind == GS_KIND_PINNED || thing->kind == GS_KIND_MANAGED;
    return is_memory && !gwi_is_unknown_to_driver(code);
}

/* Release one thing, with a second attempt if that is safe. Returns true if it was released. Otherwise, *ret_again says
 * whether the parent scope may try again. */
static bool release_one(ending *end, const gwi_thing *thing, bool *ret_again)
{
    gs_source source;
    const char *call;
    *ret_again = true;
    for (int attempt = 0; attempt < 2 && *ret_again && !gwi_is_dead(end->scope); attempt++) {
        int code = gwi_thing_release(thing, &source, &call);
        if (code == 0)
            return true;
        failed(end, source, code, call);
        *ret_again = may_try_again(thing, code);
    }
    return false;
}

static void release_all(ending *end, bool can_release)
{
    gs_scope *parent = end->scope->parent;
    /* stream-ordered memory was freed: before its pool is destroyed, wait until the memory has returned to the pool */
    bool has_ordered = false;
    for (size_t i = 0; i < end->thing_count; i++) {
        gwi_thing *thing = end->things[i];
        bool again = can_release;
        if (has_ordered && thing->kind > GS_KIND_ORDERED) {
            wait_for_work(end);
            has_ordered = false;
        }
        if (can_release && release_one(end, thing, &again)) {
            has_ordered |= thing->kind == GS_KIND_ORDERED;
            gwi_thing_drop(thing);
            continue;
        }
        note_kept(end, thing);
        if (parent != NULL && again && thing->kind != GS_KIND_POOL && !gwi_is_dead(end->scope))
            gwi_thing_put(thing, parent);
        else
            gwi_thing_drop(thing);
    }
    if (has_ordered) /* of another pool, which also returns free memory to the driver only at a wait */
        wait_for_work(end);
}

static uint64_t pages(uint64_t bytes)
{
    return (bytes + GWI_PAGE_BYTES - 1) / GWI_PAGE_BYTES * GWI_PAGE_BYTES;
}

/* Return how many bytes a context normally keeps after everything was released: 0.56 MiB per stream of the scope, in
 * pages of 2 MiB. Small blocks, which share pages, add one page. */
static uint64_t allowed_bytes_locked(const gs_scope *scope)
{
    enum { STREAM_BYTES = 576 << 10 };
    return pages(scope->streams_made * (uint64_t)STREAM_BYTES) + (scope->device->has_shared_pages ? GWI_PAGE_BYTES : 0);
}

static void compare_memory(ending *end)
{
    gs_scope *scope = end->scope;
    gs_report *report = end->report;
    size_t free_bytes, total_bytes;
    if (!scope->has_memory || gwi_is_dead(scope))
        return;
    int code = gwi_cuda.cuMemGetInfo_v2(&free_bytes, &total_bytes);
    if (code != 0) {
        failed(end, GS_FROM_DRIVER, code, "cuMemGetInfo_v2");
        return;
    }
    pthread_mutex_lock(&gwi_lock);
    int64_t taken_by_others = (int64_t)(scope->device->taken_bytes - scope->device_begin_bytes);
    report->allowed_bytes = allowed_bytes_locked(scope);
    pthread_mutex_unlock(&gwi_lock);
    report->has_memory = 1;
    report->free_begin_bytes = scope->free_begin_bytes;
    report->free_end_bytes = free_bytes;
    report->missing_bytes = (int64_t)(scope->free_begin_bytes - free_bytes) - taken_by_others;
    char missing[GWI_BYTES_EXACT_MAX], allowed[GWI_BYTES_EXACT_MAX];
    if (report->missing_bytes > 0 && (uint64_t)report->missing_bytes > report->allowed_bytes)
        gwi_log(scope, "%s of device memory are missing after the end; a context keeps at most %s",
                gwi_bytes_exact(missing, (uint64_t)report->missing_bytes),
                gwi_bytes_exact(allowed, report->allowed_bytes));
}

static void leave(ending *end)
{
    CUcontext before;
    bool was_inside = gwi_entries_leave(end->scope, &before);
    if (was_inside)
        end->before = before;
    bool must_switch = was_inside ? before != end->scope->device->context : end->is_switched;
    if (!must_switch || gwi_driver_is_forked())
        return;
    int code = gwi_cuda.cuCtxSetCurrent(end->before);
    if (code != 0 && !gwi_is_dead(end->scope))
        failed(end, GS_FROM_DRIVER, code, "cuCtxSetCurrent");
}

/* Release an outermost scope's context, without a second attempt. If the release fails, the context may be gone
 * nevertheless, and a second release could take it away from its other users. */
static void release_context(ending *end)
{
    gs_report *report = end->report;
    unsigned flags;
    int is_active = 1, device = end->scope->device->device;
    if (end->scope->parent != NULL || gwi_driver_is_forked())
        return;
    int code = gwi_cuda.cuDevicePrimaryCtxRelease_v2(device);
    if (code != 0 && !gwi_is_dead(end->scope))
        failed(end, GS_FROM_DRIVER, code, "cuDevicePrimaryCtxRelease_v2");
    bool is_known = gwi_cuda.cuDevicePrimaryCtxGetState(device, &flags, &is_active) == 0;
    if (is_known && !is_active)
        report->context = GS_CONTEXT_RELEASED;
    else
        report->context = code == 0 ? GS_CONTEXT_STAYS : GS_CONTEXT_UNSURE;
}

/* ---- host objects ---- */

static const char *phase_around(const gs_scope *scope)
{
    for (scope = scope->parent; scope != NULL; scope = scope->parent) {
        if (scope->name[0] != '\0')
            return scope->name;
    }
    return NULL;
}

static void unlink_scope(gs_scope *scope)
{
    pthread_mutex_lock(&gwi_lock);
    if (scope->parent != NULL) {
        gs_scope **at = &scope->parent->children;
        while (*at != scope)
            at = &(*at)->sibling;
        *at = scope->sibling;
    }
    pthread_mutex_unlock(&gwi_lock);
}

static void free_scopes(gs_scope *scope)
{
    while (scope->children != NULL) {
        gs_scope *child = scope->children;
        scope->children = child->sibling;
        free_scopes(child);
    }
    while (scope->helpers != NULL) {
        gwi_helper *helper = scope->helpers;
        scope->helpers = helper->next;
        free(helper);
    }
    free(scope);
}

static gs_status finish_report(ending *end)
{
    gs_scope *scope = end->scope;
    gs_report *report = end->report;
    memcpy(report->name, scope->name, sizeof report->name);
    report->peak_bytes = scope->peak_bytes;
    report->pinned_peak_bytes = scope->pinned_peak_bytes;
    report->is_dead = gwi_is_dead(scope);
    report->has_failure = gs_first_failure(scope, &report->failure);
    if (report->is_dead)
        return GS_DEAD;
    return report->kept_count == 0 && report->context != GS_CONTEXT_UNSURE ? GS_OK : GS_FAILED;
}

gs_status gs_end_at(gs_scope *scope, gs_report **ret_report, const char *file, int line)
{
    ending end = {.scope = scope, .file = file, .line = line};
    if (scope == NULL)
        return gwi_refuse(NULL, GS_MISUSE, "gs_end", file, line, "no scope was given");
    gs_status status = shut(&end);
    if (status == GS_OK)
        status = make_room(&end);
    if (status != GS_OK)
        return status;
    collect(&end);
    list_held(&end);
    bool can_release = enter_context(&end);
    if (can_release)
        wait_for_work(&end);
    release_all(&end, can_release && !gwi_is_dead(scope));
    if (can_release)
        compare_memory(&end);
    leave(&end);
    release_context(&end);
    status = finish_report(&end);
    if (scope->name[0] != '\0')
        gpuwhy_phase(phase_around(scope));
    unlink_scope(scope);
    free_scopes(scope);
    free(end.things);
    if (ret_report != NULL)
        *ret_report = end.report;
    else
        gs_report_free(end.report);
    return status;
}
