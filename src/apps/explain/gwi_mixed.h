/* Judges the evidence that a user has about one run: recordings, files that other programs saved, and text logs, in any
 * mixture (mixed.c). Each kind is judged by what it contains, and one verdict is chosen (gw_verdict_best()). The others
 * become lines of its evidence. */
#ifndef GWI_MIXED_H
#define GWI_MIXED_H

#include "gw_status.h"
#include "gw_verdict.h"

#include <stdbool.h>

/* The kinds of files. Each file is looked at once. */
typedef struct gwi_kinds {
    unsigned char *kind; /* owned; of each file. NULL: a file is missing, or there is no memory */
    int count;
    bool is_mixed; /* the files are such a mixture, or of a kind that only gwi_mixed_judge() reads */
    bool are_logs; /* all of them are text logs */
} gwi_kinds;

gwi_kinds gwi_kinds_of(char *const *files, int count);
void gwi_kinds_free(gwi_kinds *kinds);

/* Judge the files. A file that cannot be used is skipped, and a line on stderr says why. *ret_running: the program of a
 * recording still runs. Errors: the reason of the last file if none is left; GW_UNSUPPORTED: recordings of several
 * jobs; GW_USAGE: two dumps of one rank; GW_NOMEM. */
GW_MUST_CHECK gw_status gwi_mixed_judge(char *const *files, const gwi_kinds *kinds, bool no_history,
                                        gw_verdict **ret_verdict, bool *ret_running, gw_error *err);

#endif
