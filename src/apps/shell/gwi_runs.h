/* The runs as `gpuwhy history` lists them, and their handles: @1 is the newest run of the list, @2 the one before. Runs
 * that are still going are the newest ones. */
#ifndef GWI_RUNS_H
#define GWI_RUNS_H

#include "gwi_past_runs.h"

/* Read the runs that match, oldest first, with their numbers. Runs that are going are left out if `query` has more than
 * `words`. First adds the runs whose supervisor was killed, unless add_to_history is false. Errors as of
 * gwi_past_read(). */
GW_MUST_CHECK gw_status gwi_runs_read(const gwi_past_query *query, gwi_past_list *ret_list, gw_error *err);

/* Replace each word that begins with @ by the path of that run's recording, which lives as long as the process.
 * GW_USAGE: not a handle. GW_MISSING: there is no such run, or it has no recording. Others as of gwi_past_read(). */
GW_MUST_CHECK gw_status gwi_handles_resolve(char **words, int count, gw_error *err);

#endif
