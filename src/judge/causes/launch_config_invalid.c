/* A launch requested a grid, a block or shared memory that the device cannot provide. The kernel never ran, and the
 * context is intact.
 *
 * Established only by: one of these:
 * - A launch failed with 1, 701 or 720, a requested size is zero or exceeds the device's recorded limit, and the run
 *   ended because of this failure (gwi_sure_of_end()).
 * - In a log alone: Triton's "out of resource", which has both numbers, if an error follows.
 *
 * Supported by:
 * - 701 or 720 with sizes within the recorded limits, as when a kernel needs too many registers
 * - a refused launch after which the program continued */
#include "gwi_start.h"

#include <inttypes.h>

/* Device attribute numbers of the driver API. */
enum {
    THREADS_PER_BLOCK = 1,
    BLOCK_X = 2,
    BLOCK_Y = 3,
    BLOCK_Z = 4,
    GRID_X = 5,
    GRID_Y = 6,
    GRID_Z = 7,
    SHARED_PER_BLOCK = 8,
    SHARED_PER_BLOCK_OPTIN = 97
};

typedef struct launch_shape {
    uint64_t grid[3], block[3], shared;
} launch_shape;

static launch_shape shape_of(const gw_failure *failure)
{
    launch_shape shape = {{failure->arg[1] & 0xffffffff, failure->arg[1] >> 32 & 0xffff, failure->arg[1] >> 48},
                          {failure->arg[2] & 0x1fffff, failure->arg[2] >> 21 & 0x1fffff, failure->arg[2] >> 42},
                          failure->extra};
    return shape;
}

static bool is_launch_result(uint16_t result)
{
    return result == 1 || result == 701 || result == 720;
}

static const gw_failure *find_launch(const gwi_case *c)
{
    const gw_failure *root = c->other;
    return root != NULL && root->kind == GW_EV_LAUNCH && is_launch_result(root->result) ? root : NULL;
}

/* Report the limit on shared memory for kernels that opt in to more than the default. If `asked` bytes are within it,
 * advise to opt in instead. */
static void say_opt_in(gwi_finding *finding, uint64_t asked, uint64_t limit)
{
    if (asked > limit)
        gwi_measure(finding, GWI_NO_TIME, "driver", (double)limit, "bytes",
                    "even with opt-in, a kernel can have at most %" PRIu64 " bytes", limit);
    else
        gwi_next(finding,
                 "Opt in to more shared memory for this kernel (cuFuncSetAttribute, at most %" PRIu64 " bytes)", limit);
}

/* Report a requested size that exceeds the device's limit. Returns false if it is within the limit, or if the limit is
 * unknown. */
static bool say_over(const gwi_case *c, gwi_finding *finding, const gw_failure *failure, unsigned attribute,
                     uint64_t asked, const char *what, const char *unit)
{
    const gw_device *device = &c->model->device[failure->device < 0 ? 0 : failure->device];
    if (!device->has_attribute[attribute] || asked <= device->attribute[attribute])
        return false;
    uint64_t limit = device->attribute[attribute];
    gwi_headline(finding, "a launch requested %" PRIu64 " %s; the device allows %" PRIu64, asked, what, limit);
    gwi_measure(finding, failure->t_ns, "driver", (double)asked, unit, "requested: %" PRIu64 " %s", asked, what);
    gwi_measure(finding, GWI_NO_TIME, "driver", (double)limit, unit, "the device's limit: %" PRIu64 " %s", limit, what);
    if (attribute == SHARED_PER_BLOCK && device->has_attribute[SHARED_PER_BLOCK_OPTIN])
        say_opt_in(finding, asked, device->attribute[SHARED_PER_BLOCK_OPTIN]);
    return true;
}

static bool say_limits(const gwi_case *c, gwi_finding *finding, const gw_failure *failure)
{
    launch_shape shape = shape_of(failure);
    uint64_t threads = shape.block[0] * shape.block[1] * shape.block[2];
    return say_over(c, finding, failure, THREADS_PER_BLOCK, threads, "threads in a block", "count") ||
           say_over(c, finding, failure, BLOCK_X, shape.block[0], "threads in x of a block", "count") ||
           say_over(c, finding, failure, BLOCK_Y, shape.block[1], "threads in y of a block", "count") ||
           say_over(c, finding, failure, BLOCK_Z, shape.block[2], "threads in z of a block", "count") ||
           say_over(c, finding, failure, GRID_X, shape.grid[0], "blocks in x of the grid", "count") ||
           say_over(c, finding, failure, GRID_Y, shape.grid[1], "blocks in y of the grid", "count") ||
           say_over(c, finding, failure, GRID_Z, shape.grid[2], "blocks in z of the grid", "count") ||
           say_over(c, finding, failure, SHARED_PER_BLOCK, shape.shared, "bytes of dynamic shared memory", "bytes");
}

static bool say_zero(gwi_finding *finding, const gw_failure *failure)
{
    launch_shape shape = shape_of(failure);
    for (int i = 0; i < 3; i++) {
        if (shape.grid[i] != 0 && shape.block[i] != 0)
            continue;
        const char *what = shape.grid[i] == 0 ? "grid" : "block";
        gwi_headline(finding, "a launch requested an empty %s: there was no work for it, as with a batch of 0", what);
        gwi_measure(finding, failure->t_ns, "driver", 0, "count", "requested: 0 in %c of the %s", "xyz"[i], what);
        return true;
    }
    return false;
}

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    const gw_failure *failure = find_launch(c);
    char call[GWI_CALL_TEXT_MAX], at[GWI_PLACE_TEXT_MAX];
    if (failure == NULL || c->root != failure)
        return GW_CERTAINTY_NONE;
    launch_shape shape = shape_of(failure);
    bool proven = say_limits(c, finding, failure) || say_zero(finding, failure);
    if (!proven)
        gwi_headline(finding,
                     "a launch was refused: the device cannot provide its grid, block, shared memory or registers");
    gwi_evidence(finding, failure->t_ns, "driver",
                 "%s%s returned %u (%s): grid %" PRIu64 "x%" PRIu64 "x%" PRIu64 ", block %" PRIu64 "x%" PRIu64
                 "x%" PRIu64 ", %" PRIu64 " bytes of dynamic shared memory",
                 gwi_call_text(call, failure->fn_name), gwi_at(c, failure->site, at), failure->result,
                 gw_result_name(failure->result), shape.grid[0], shape.grid[1], shape.grid[2], shape.block[0],
                 shape.block[1], shape.block[2], shape.shared);
    gwi_evidence(finding, failure->t_ns, "driver",
                 "the error is not sticky: the kernel did not run, and the context is still usable");
    gwi_where(finding, failure->site, "the launch that was refused");
    gwi_rule_out(c, finding, GWI_OF_PROCESS,
                 "a fault on the device (no call returned an error that destroys the context)");
    gwi_say_consequences(c, finding, failure);
    if (c->ended && !c->bad_end)
        return GW_HYPOTHESIS;
    if (!proven)
        return failure->result == 1 ? GW_HYPOTHESIS : GW_SUPPORTED;
    /* A run may continue after a refused launch for two reasons. Either an autotuner tried another launch, or the
     * program did not check the result. The second reason keeps the cause supported, unless later launches worked and
     * another exception ended the program. */
    gw_certainty sure = gwi_sure_of_end(c, failure, GW_ESTABLISHED);
    bool own_end = c->exception == GW_EXCEPTION_SCRIPT || c->exception == GW_EXCEPTION_OOM;
    bool went_on = failure->after.worked || (failure->after.launches > 0 && failure->after.synced);
    return sure == GW_HYPOTHESIS && !(own_end && went_on) ? GW_SUPPORTED : sure;
}

const gw_cause gwi_cause_launch_config_invalid = {
    .id = "launch-config-invalid",
    .summary = "A launch requested a grid, block or shared memory that the device cannot provide.",
    .proof = "a launch that failed at once with 1, 701 or 720, with a value that is zero or over the device's limit, "
             "and a context that stays usable",
    .fixes = {[GW_FRAMEWORK_RAW] = "Use at most 1,024 threads in a block; split dimensions over 65,535 in y and z\n"
                                   "Skip the launch when there is nothing to do (a batch of 0)\n"
                                   "Opt in for more than 48 KiB of shared memory; bound registers (__launch_bounds__)"},
    .judge = judge,
};
