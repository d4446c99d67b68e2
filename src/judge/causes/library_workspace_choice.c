/* Advice about a library's workspace that was refused for lack of memory. A smaller one was then allocated at the same
 * place: the library chose another algorithm, which may be slower.
 *
 * Never established: this is advice and never the cause of a failure. */
#include "gwi_cudnn_log.h"

#include <inttypes.h>
#include <string.h>

static const uint64_t soon_ns = 1000000000u;
/* The workspaces of two algorithms differ by at least this factor. A request that is only slightly smaller is a retry
 * by the program itself. */
enum { SMALLER_TIMES = 2, OBJECT_BYTES_MAX = 1 << 20 };

/* Return the name of the process's library that chooses algorithms by workspace size. Returns NULL if none was seen. */
static const char *choosing_library(const gw_process *process)
{
    static const gw_library_kind kinds[] = {GW_LIBRARY_CUDNN, GW_LIBRARY_CUBLASLT, GW_LIBRARY_CUBLAS};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        for (size_t k = 0; k < process->libraries.count; k++)
            if (process->libraries.item[k].kind == kinds[i])
                return gw_library_kind_text(kinds[i]);
    return NULL;
}

static bool same_place(const gwi_case *c, uint32_t a, uint32_t b)
{
    char one[GWI_PLACE_TEXT_MAX], other[GWI_PLACE_TEXT_MAX];
    return gwi_place(c, a, one)[0] != '\0' && strcmp(one, gwi_place(c, b, other)) == 0;
}

/* True if the smaller block was used like a workspace: all blocks of that size from that place have been freed. */
static bool is_transient(const gwi_case *c, const gw_failure *failure)
{
    uint64_t made = 0, left = 0;
    for (size_t i = 1; i < c->model->group_count; i++) {
        const gw_group *group = &c->model->group[i];
        if (group->pid != failure->pid || group->bytes != failure->next.bytes || group->alloc_count == 0 ||
            (group->site != failure->next.site && !same_place(c, group->site, failure->next.site)))
            continue;
        made += group->alloc_count;
        left += group->alloc_count - (group->free_count - group->buried_count);
    }
    return made > 0 && left == 0;
}

static bool is_choice(const gwi_case *c, const gw_failure *failure)
{
    return failure->is_allocation && !failure->is_echo && !failure->is_probe && failure->next.known &&
           failure->bytes_wanted > OBJECT_BYTES_MAX && failure->next.bytes * SMALLER_TIMES <= failure->bytes_wanted &&
           failure->next.t_ns - failure->t_ns < soon_ns && same_place(c, failure->site, failure->next.site) &&
           is_transient(c, failure);
}

/* Return the thread's first kernel launch after the call that ended at `t_ns`, or NULL if the rings do not contain it.
 * A launch may carry the time of the call before it, so `t_ns` itself is included. */
static const gw_ring_call *launch_after(const gwi_case *c, const gw_failure *failure, uint64_t t_ns)
{
    for (size_t i = 0; i < c->model->thread_count; i++) {
        const gw_thread *thread = &c->model->thread[i];
        if (thread->pid != failure->pid || thread->tid != failure->tid || thread->ring_count == 0 ||
            (thread->ring_total > thread->ring_count && thread->ring[0].t_ns > t_ns))
            continue;
        for (size_t k = 0; k < thread->ring_count; k++)
            if (thread->ring[k].is_launch && thread->ring[k].t_ns >= t_ns)
                return &thread->ring[k];
    }
    return NULL;
}

/* Return when a request of the refused size last succeeded at the place of the failure. GWI_NO_TIME: never. */
static uint64_t last_given(const gwi_case *c, const gw_failure *failure)
{
    uint64_t t_ns = GWI_NO_TIME;
    for (size_t i = 1; i < c->model->group_count; i++) {
        const gw_group *group = &c->model->group[i];
        if (group->pid == failure->pid && group->bytes == failure->bytes_wanted && group->alloc_count > 0 &&
            same_place(c, group->site, failure->site) && (t_ns == GWI_NO_TIME || group->t_last_ns > t_ns))
            t_ns = group->t_last_ns;
    }
    return t_ns;
}

/* Append when the larger request last succeeded and, if known, which kernels followed the two requests: "; the larger
 * request last succeeded at 1.20 s, followed by kernel conv_large; this time kernel conv_small followed". */
static void add_kernels(const gwi_case *c, const gw_failure *failure, gw_text *text)
{
    char before[GWI_KERNEL_TEXT_MAX], after[GWI_KERNEL_TEXT_MAX];
    uint64_t given_ns = last_given(c, failure);
    if (given_ns == GWI_NO_TIME)
        return;
    gw_text_addf(text, "; the larger request last succeeded at %.2f s", (double)given_ns / 1e9);
    const gw_ring_call *large = launch_after(c, failure, given_ns),
                       *small = launch_after(c, failure, failure->next.t_ns);
    if (large == NULL || small == NULL || large->what == small->what)
        return;
    if (large->kernel != NULL && small->kernel != NULL)
        gw_text_addf(text, ", followed by kernel %s; this time kernel %s followed",
                     gwi_kernel_text(before, large->kernel), gwi_kernel_text(after, small->kernel));
    else
        gw_text_add_str(text, ", followed by another kernel");
}

/* Return the first failure after which a library chose another algorithm. *ret_count is the number of such failures at
 * the same place and of the same size. */
static const gw_failure *first_choice(const gwi_case *c, uint64_t *ret_count)
{
    const gw_failure *first = NULL;
    *ret_count = 0;
    for (size_t i = 0; i < c->model->failure_count; i++) {
        const gw_failure *failure = &c->model->failure[i];
        const gw_process *process = gw_model_process(c->model, failure->pid);
        if (process == NULL || choosing_library(process) == NULL || !is_choice(c, failure))
            continue;
        if (first == NULL)
            first = failure;
        if (failure->pid == first->pid && failure->bytes_wanted == first->bytes_wanted &&
            (failure->site == first->site || same_place(c, failure->site, first->site)))
            *ret_count += failure->repeat_count;
    }
    return first;
}

static bool advise(const gwi_case *c, gw_string_list *advice)
{
    uint64_t count;
    char at[GWI_PLACE_TEXT_MAX], wanted[GW_BYTES_TEXT_MAX], taken[GW_BYTES_TEXT_MAX];
    const gw_failure *first = first_choice(c, &count);
    if (first == NULL)
        return true;
    gw_text text = {0};
    gw_text_addf(&text,
                 "library-workspace-choice: %s was refused %" PRIu64
                 " time%s, first at %.2f s%s, for lack of memory, and %s was allocated there instead",
                 gw_bytes_text(wanted, first->bytes_wanted), count, GWI_PLURAL(count), (double)first->t_ns / 1e9,
                 gwi_at(c, first->site, at), gw_bytes_text(taken, first->next.bytes));
    add_kernels(c, first, &text);
    gwi_cudnn_add_workspace(c, first->t_ns, &text);
    gw_text_addf(
        &text, ". %s does this when it chooses another algorithm, which may be slower: leave room, or limit workspaces",
        choosing_library(gw_model_process(c->model, first->pid)));
    bool good = !text.failed && gwi_list_add(advice, gw_text_str(&text));
    gw_text_free(&text);
    return good;
}

const gw_cause gwi_cause_library_workspace_choice = {
    .id = "library-workspace-choice",
    .summary = "A library chose another algorithm because there was no room for a workspace. Advice, never a fault.",
    .proof =
        "in a process with cuDNN or cuBLAS: a refused request, a request of at most half its size that succeeds at the "
        "same place within a second, and the release of that block later. The kernels that follow may differ, too",
    .fixes = {[GW_FRAMEWORK_RAW] = "Leave room for the workspace: the library needs it only for a moment\n"
                                   "Limit the workspace, so that the choice is always the same\n"
                                   "Use fixed shapes: each new shape starts a new search",
              [GW_FRAMEWORK_TORCH] =
                  "Use a smaller batch or cache less memory: the fast algorithm needs its workspace\n"
                  "Set torch.backends.cudnn.benchmark = False where shapes change often\n"
                  "Set CUDNN_CONV_WSCAP_DBG=MiB, CUBLAS_WORKSPACE_CONFIG=:4096:2 to limit workspaces"},
    .advise = advise,
};
