/* Finds what failed first in each start of a launcher's ranks. */
#include "gwi_elastic.h"
#include "gwi_roots.h"

#include <inttypes.h>
#include <stdio.h>

/* The processes of one start: kin->counted[begin] to kin->counted[end - 1]. They have the same parent and the same
 * number of restarts. */
typedef struct start {
    size_t begin, end;
} start;

static bool next_start(const gwi_kin *kin, start *at)
{
    at->begin = at->end;
    if (at->begin == kin->counted_count)
        return false;
    const gw_process *first = kin->counted[at->begin];
    while (at->end < kin->counted_count && kin->counted[at->end]->parent_pid == first->parent_pid &&
           kin->counted[at->end]->restart == first->restart)
        at->end++;
    return true;
}

/* True if the launcher started all ranks again after this start. */
static bool is_followed(const gwi_kin *kin, const start *at)
{
    return at->end < kin->counted_count && kin->counted[at->end]->parent_pid == kin->counted[at->begin]->parent_pid;
}

typedef struct trouble {
    const gw_process *process; /* NULL: none is known */
    const gw_failure *root;    /* NULL: the process died without a failed call */
    uint64_t t_ns;
} trouble;

static trouble first_trouble(const gw_model *model, const gwi_kin *kin, const start *at)
{
    trouble first = {0};
    for (size_t i = at->begin; i < at->end; i++) {
        const gw_process *process = kin->counted[i];
        gwi_roots roots = gwi_roots_of(model, process->pid);
        bool died = gw_died_badly(process) && !gwi_was_told_to_end(process);
        const gw_failure *root = died || roots.sticky != NULL ? gwi_root_of(&roots) : NULL;
        if (!died && root == NULL)
            continue;
        uint64_t t_ns = root != NULL ? root->t_ns : process->t_exit_ns;
        if (first.process == NULL || t_ns < first.t_ns)
            first = (trouble){.process = process, .root = root, .t_ns = t_ns};
    }
    return first;
}

/* Add "rank 1 (pid 20): cuMemAlloc returned 2 (CUDA_ERROR_OUT_OF_MEMORY)". */
static void add_trouble(gw_text *text, const trouble *found)
{
    char who[GWI_WHO_TEXT_MAX], call[GWI_CALL_TEXT_MAX];
    const gw_process *process = found->process;
    if (process == NULL) {
        gw_text_add_str(text, "gpuwhy saw no failure of a rank");
        return;
    }
    gw_text_addf(text, "%s", gwi_who_text(who, process));
    if (found->root != NULL)
        gw_text_addf(text, ": %s returned %u (%s)", gwi_call_text(call, found->root->fn_name), found->root->result,
                     gw_result_name(found->root->result));
    else if (process->exit.signal != 0)
        gw_text_addf(text, " was ended by signal %d", process->exit.signal);
    else
        gw_text_addf(text, " exited with status %d", process->exit.exit_code);
}

/* A job that runs for weeks may be restarted often: only the last ones are listed. */
enum { SHOWN_MAX = 8 };

/* True if the start is listed in a report about the starts up to `last`. Otherwise it is counted. */
static bool is_shown(const gw_process *process, uint32_t last, size_t *hidden)
{
    bool shown = last - process->restart <= SHOWN_MAX;
    *hidden += !shown;
    return shown;
}

void gwi_say_restarts(const gwi_case *c, const gwi_kin *kin, gwi_finding *finding)
{
    const gw_process *judged = c->process;
    size_t hidden = 0;
    if (judged == NULL || !judged->has_restart || judged->restart == 0)
        return;
    for (start at = {0}; next_start(kin, &at);) {
        const gw_process *process = kin->counted[at.begin];
        if (process->parent_pid != judged->parent_pid || process->restart >= judged->restart ||
            !is_shown(process, judged->restart, &hidden))
            continue;
        trouble found = first_trouble(c->model, kin, &at);
        gw_text text = {0};
        add_trouble(&text, &found);
        gwi_evidence(finding, found.process == NULL ? GWI_NO_TIME : found.t_ns, "exit",
                     "before restart %" PRIu32 " of all ranks: %s", process->restart + 1, gw_text_str(&text));
        finding->failed = finding->failed || text.failed;
        gw_text_free(&text);
    }
    if (hidden > 0)
        gwi_evidence(finding, GWI_NO_TIME, "exit", "not listed: %zu failure%s before earlier restarts", hidden,
                     hidden == 1 ? "" : "s");
}

/* Return the number of restarts of the last start by this launcher. */
static uint32_t last_restart(const gwi_kin *kin, const start *at)
{
    size_t i = at->begin;
    while (i + 1 < kin->counted_count && kin->counted[i + 1]->parent_pid == kin->counted[at->begin]->parent_pid)
        i++;
    return kin->counted[i]->restart;
}

bool gwi_advise_restarts(const gw_model *model, const gwi_kin *kin, gw_string_list *advice)
{
    bool good = true;
    size_t hidden = 0;
    for (start at = {0}; good && next_start(kin, &at);) {
        if (!is_followed(kin, &at) || !is_shown(kin->counted[at.begin], last_restart(kin, &at), &hidden))
            continue;
        trouble found = first_trouble(model, kin, &at);
        gw_text text = {0};
        add_trouble(&text, &found);
        if (found.process != NULL)
            gw_text_addf(&text, " at %.2f s", (double)found.t_ns / 1e9);
        gw_text_addf(&text, "; then the launcher started all ranks again (restart %" PRIu32 ")",
                     kin->counted[at.begin]->restart + 1);
        good = !text.failed && gwi_list_add(advice, gw_text_str(&text));
        gw_text_free(&text);
    }
    if (good && hidden > 0)
        good =
            gwi_list_addf(advice, "not listed: %zu failure%s before earlier restarts", hidden, hidden == 1 ? "" : "s");
    return good;
}
