/* Leaves out fixes that do not apply to the program. A table row has the beginning of a fix and its condition. A fix
 * without a row always applies. */
#include "gwi_applies.h"
#include "gwi_request.h"

#include <stdlib.h>
#include <string.h>

static bool tore_down(const gwi_case *c, gw_teardown_kind kind)
{
    for (size_t i = 0; i < c->model->teardown_count; i++) {
        const gw_teardown *teardown = &c->model->teardown[i];
        if (teardown->kind == kind && (c->process == NULL || teardown->pid == c->process->pid))
            return true;
    }
    return false;
}

static bool did_reset(const gwi_case *c)
{
    return tore_down(c, GW_TEARDOWN_RESET);
}

static bool did_not_reset(const gwi_case *c)
{
    return !did_reset(c);
}

static bool did_destroy(const gwi_case *c)
{
    return tore_down(c, GW_TEARDOWN_DESTROY);
}

static bool did_release(const gwi_case *c)
{
    return tore_down(c, GW_TEARDOWN_RELEASE);
}

static bool made_graphs(const gwi_case *c)
{
    for (int i = 0; c->process != NULL && i < GW_MODEL_DEVICE_PLACES; i++)
        if (c->process->usage[i].class_made[GW_CLASS_GRAPH_EXEC] > 0)
            return true;
    return c->process == NULL;
}

/* True if the program may have used several GPUs together: it has several ranks, or it launched NCCL kernels. Returns
 * true if the recording does not show this. */
static bool has_peers(const gwi_case *c)
{
    if (c->process == NULL || (c->process->has_world && c->process->world > 1) || c->model->launch_site_count == 0)
        return true;
    for (size_t i = 0; i < c->model->launch_site_count; i++)
        if (c->model->launch_site[i].kernel != NULL && strstr(c->model->launch_site[i].kernel, "nccl") != NULL)
            return true;
    return false;
}

static bool is_possible(const gwi_case *c)
{
    return !gwi_request_is_impossible(c);
}

/* ---- limits that a refused launch exceeded ---- */

enum { IS_EMPTY = 1, IS_WIDE = 2, IS_SHARED = 4, IS_ANY = 7 };

static unsigned launch_excess(const gwi_case *c)
{
    enum { TOO_MANY_RESOURCES = 701, SHARED_PLAIN = 48 << 10, THREADS_MOST = 1024, YZ_MOST = 65535 };
    const gw_failure *launch = c->root;
    unsigned found = 0;
    if (launch == NULL || launch->kind != GW_EV_LAUNCH)
        return IS_ANY;
    uint64_t grid[3] = {launch->arg[1] & 0xffffffff, launch->arg[1] >> 32 & 0xffff, launch->arg[1] >> 48};
    uint64_t block[3] = {launch->arg[2] & 0x1fffff, launch->arg[2] >> 21 & 0x1fffff, launch->arg[2] >> 42};
    for (int i = 0; i < 3; i++)
        found |= grid[i] == 0 || block[i] == 0 ? IS_EMPTY : 0;
    found |= block[0] * block[1] * block[2] > THREADS_MOST || grid[1] >= YZ_MOST || grid[2] >= YZ_MOST ? IS_WIDE : 0;
    found |= launch->extra > SHARED_PLAIN || launch->result == TOO_MANY_RESOURCES ? IS_SHARED : 0;
    return found == 0 ? IS_ANY : found;
}

static bool launch_is_empty(const gwi_case *c)
{
    return (launch_excess(c) & IS_EMPTY) != 0;
}

static bool launch_is_wide(const gwi_case *c)
{
    return (launch_excess(c) & IS_WIDE) != 0;
}

static bool launch_is_shared(const gwi_case *c)
{
    return (launch_excess(c) & IS_SHARED) != 0;
}

/* ---- the table ---- */

static const struct {
    const char *cause, *begin; /* beginning of the fix; "": all fixes of the cause */
    bool (*needs)(const gwi_case *c);
} rows[] = {
    {"context-destroyed", "Remove the reset", did_reset},
    {"context-destroyed", "Remove cudaDeviceReset", did_reset},
    {"context-destroyed", "Do not destroy a context", did_destroy},
    {"context-destroyed", "Retain and release", did_release},
    {"context-destroyed", "Leave PyTorch's context", did_not_reset},
    {"gpu-oom-leak", "Do not reset the device", did_reset},
    {"gpu-hidden-driver-growth", "Destroy executable graphs", made_graphs},
    {"gpu-hidden-driver-growth", "Let CUDA graphs share", made_graphs},
    {"gpu-hidden-driver-growth", "Use fewer communicators", has_peers},
    {"gpu-hidden-driver-growth", "Use fewer process groups", has_peers},
    {"kernel-never-ends", "With several GPUs", has_peers},
    {"launch-config-invalid", "Use at most 1,024", launch_is_wide},
    {"launch-config-invalid", "Skip the launch", launch_is_empty},
    {"launch-config-invalid", "Opt in for more", launch_is_shared},
    {"gpu-oom-capacity", "", is_possible},
};

static bool applies(const gwi_case *c, const char *cause, const char *fix)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(rows[i].cause, cause) == 0 && strncmp(rows[i].begin, fix, strlen(rows[i].begin)) == 0)
            return rows[i].needs(c);
    return true;
}

bool gwi_add_fixes_for(const gwi_case *c, gw_string_list *next, const struct gw_cause *cause, gw_framework framework,
                       bool is_replayed)
{
    gw_string_list fixes = {0};
    bool good = gwi_add_fixes(&fixes, cause, framework);
    for (size_t i = 0; i < fixes.count; i++) {
        bool is_setting = strstr(fixes.item[i], "ALLOC_CONF=") != NULL;
        if (good && applies(c, cause->id, fixes.item[i]) && !(is_replayed && is_setting))
            good = gwi_list_add(next, fixes.item[i]);
    }
    gwi_list_free(&fixes);
    return good;
}
