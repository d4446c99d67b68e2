/* A framework took most of the card's memory when it started, and left too little for another user of the card.
 *
 * Never established: only the size of the block is known. One early block of half the card may be the framework's pool,
 * or data. */
#include "gwi_cause.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

/* Find a pool: a block that was allocated early, takes at least half of the card, and does not belong to the failing
 * framework. */
static const gw_live *find_pool(const gwi_memory *memory)
{
    enum { EARLY_MAX = 64 };
    const gw_snapshot *snapshot = memory->snapshot;
    for (size_t i = 0; snapshot != NULL && i < snapshot->live_count && i < EARLY_MAX; i++) {
        const gw_live *block = &snapshot->live[i];
        if (block->bytes * 2 >= memory->limit_bytes && block->bytes > memory->wanted_bytes &&
            block->bytes > memory->reserved_bytes)
            return block;
    }
    return NULL;
}

/* True if JAX's preallocation is off. A large block is then data, not the pool of three quarters of the card that JAX
 * allocates by default. */
static bool is_switched_off(const gw_model *model)
{
    const char *jax = gw_model_meta(model, "env.XLA_PYTHON_CLIENT_PREALLOCATE");
    const char *kind = gw_model_meta(model, "env.XLA_PYTHON_CLIENT_ALLOCATOR");
    return (jax != NULL && (strcasecmp(jax, "false") == 0 || strcmp(jax, "0") == 0)) ||
           (kind != NULL && strcasecmp(kind, "platform") == 0);
}

/* True if the refused request came from a part of the process that does not own the pool. */
static bool is_second_user(const gwi_case *c)
{
    const gw_model *model = c->model;
    bool xla = gw_stderr_said(&model->stderr_facts, GW_SAYS_XLA_OOM, NULL) != NULL;
    bool others = model->framework_mapped[GW_FRAMEWORK_TORCH] || model->observer_attached ||
                  (model->framework_mapped[GW_FRAMEWORK_JAX] && model->framework_mapped[GW_FRAMEWORK_TENSORFLOW]);
    return c->memory.report != NULL || c->framework == GW_FRAMEWORK_TORCH || (others && !xla) ||
           model->stderr_facts.library_status.seen;
}

/* Find the largest group of blocks that belongs to another recorded process and takes at least half of the card. */
static const gw_group *find_foreign_pool(const gwi_case *c)
{
    const gw_group *best = NULL;
    for (size_t i = 1; i < c->model->group_count; i++) {
        const gw_group *group = &c->model->group[i];
        if (group->pid != c->memory.pid && group->live_count_peak > 0 && group->bytes * 2 >= c->memory.limit_bytes &&
            group->t_first_ns < c->memory.t_ns && (best == NULL || group->bytes > best->bytes))
            best = group;
    }
    return best;
}

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    const gwi_memory *memory = &c->memory;
    bool jax = c->model->framework_mapped[GW_FRAMEWORK_JAX];
    bool tensorflow = c->model->framework_mapped[GW_FRAMEWORK_TENSORFLOW];
    char bytes[GW_BYTES_TEXT_MAX], limit[GW_BYTES_TEXT_MAX], at[GWI_PLACE_TEXT_MAX];
    if (!memory->known || memory->limit_bytes == 0 || (!jax && !tensorflow) ||
        (jax && !tensorflow && is_switched_off(c->model)))
        return GW_CERTAINTY_NONE;
    const gw_live *pool = find_pool(memory);
    const gw_group *other = pool == NULL ? find_foreign_pool(c) : NULL;
    if (pool == NULL && other == NULL)
        return GW_CERTAINTY_NONE;
    uint64_t pool_bytes = pool != NULL ? pool->bytes : other->bytes;
    uint64_t t_ns = pool != NULL ? pool->t_ns : other->t_first_ns;
    const char *name = jax ? "JAX" : "TensorFlow";
    bool second_user = other != NULL || is_second_user(c);
    finding->fixes_for = jax ? GW_FRAMEWORK_JAX : GW_FRAMEWORK_TENSORFLOW;
    gw_bytes_text(bytes, pool_bytes);
    gwi_headline(finding, "%s took %s of %s when it started, and left too little for others", name, bytes,
                 gw_bytes_text(limit, memory->limit_bytes));
    gwi_say_request(c, finding);
    gwi_measure(finding, t_ns, "ledger", (double)pool_bytes, "bytes", "one block of %s, taken early%s%s", bytes,
                other != NULL ? " by another process" : " and kept",
                gwi_at(c, pool != NULL ? pool->site : other->site, at));
    if (pool != NULL)
        gwi_rule_out(c, finding, GWI_OF_PROCESS,
                     "a leak (one block at the start, %.0f %% of the GPU, which never grew)",
                     (double)pool_bytes * 100 / (double)memory->limit_bytes);
    gwi_say_memory_ruled_out(c, finding, other == NULL ? GWI_NOT_FOREIGN : 0);
    if (c->oom_last != NULL)
        gwi_say_consequences(c, finding, c->oom_last);
    return second_user ? GW_SUPPORTED : GW_HYPOTHESIS;
}

const gw_cause gwi_cause_gpu_oom_preallocation = {
    .id = "gpu-oom-preallocation",
    .summary = "A framework took most of the GPU's memory when it started, and left too little for others.",
    .proof = "one block of half the card or more, taken early by JAX or TensorFlow, and a later failure of another "
             "framework, library or process",
    .fixes = {[GW_FRAMEWORK_RAW] =
                  "JAX: set XLA_PYTHON_CLIENT_PREALLOCATE=false, or XLA_PYTHON_CLIENT_MEM_FRACTION=.5\n"
                  "TensorFlow: set TF_FORCE_GPU_ALLOW_GROWTH=true, or a logical memory_limit\n"
                  "Hide the GPU from the framework that only feeds data",
              [GW_FRAMEWORK_JAX] =
                  "Set XLA_PYTHON_CLIENT_PREALLOCATE=false before JAX is imported, or give it a share: "
                  "XLA_PYTHON_CLIENT_MEM_FRACTION=.5\n"
                  "If JAX is not meant to use the GPU here, set JAX_PLATFORMS=cpu",
              [GW_FRAMEWORK_TENSORFLOW] =
                  "Set TF_FORCE_GPU_ALLOW_GROWTH=true, or a logical device with a memory_limit\n"
                  "If TensorFlow only feeds data, hide the GPU from it: tf.config.set_visible_devices([], \"GPU\")"},
    .judge = judge,
};
