/* Makes briefs of verdicts. */
#include "gw_together.h"

#include "gw_text.h"
#include "gwi_cause.h"

#include <stdlib.h>
#include <string.h>

static bool copy_ranks(const gw_verdict_run *from, gw_verdict_run *to)
{
    if (from->rank_count == 0)
        return true;
    to->ranks = malloc(from->rank_count * sizeof *to->ranks);
    if (to->ranks == NULL)
        return false;
    memcpy(to->ranks, from->ranks, from->rank_count * sizeof *to->ranks);
    to->rank_count = from->rank_count;
    return true;
}

static bool copy_run(const gw_verdict_run *from, gw_verdict_run *to)
{
    *to = *from;
    to->host = to->boot_id = to->cwd = to->job = NULL;
    to->ranks = NULL;
    to->rank_count = 0;
    return gw_str_copy(from->host, &to->host) && gw_str_copy(from->boot_id, &to->boot_id) &&
           gw_str_copy(from->job, &to->job) && copy_ranks(from, to);
}

static bool copy_all_ranks(const gw_ranks *from, gw_ranks *to)
{
    gw_text packed = {0};
    gw_ranks_pack(from, &packed);
    bool good = !packed.failed && gw_ranks_unpack(packed.data, packed.bytes, to);
    gw_text_free(&packed);
    return good;
}

gw_status gw_brief_of(const gw_verdict *verdict, gw_brief *ret_brief, gw_error *err)
{
    *ret_brief = (gw_brief){
        .status = verdict->status,
        .cause = verdict->cause,
        .seconds = verdict->seconds,
        .is_unseen = verdict->is_coverage_known && (verdict->observed_count == 0 || verdict->unobserved.count > 0),
    };
    if (copy_run(&verdict->run, &ret_brief->run) && gw_str_copy(verdict->headline, &ret_brief->headline) &&
        gw_str_copy(verdict->recording, &ret_brief->recording) && copy_all_ranks(&verdict->ranks, &ret_brief->ranks))
        return GW_OK;
    return gw_fail(err, GW_NOMEM, "keep a brief of a verdict");
}

void gw_brief_free(gw_brief *brief)
{
    gwi_verdict_run_free(&brief->run);
    gw_ranks_free(&brief->ranks);
    free(brief->headline);
    free(brief->recording);
    *brief = (gw_brief){0};
}
