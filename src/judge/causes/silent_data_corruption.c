/* The GPU computes wrong numbers without any error. A recording can only show library versions that are known to do
 * this on these cards (data/regressions.tsv).
 *
 * Never established: this is advice and never the cause of a failure. */
#include "gwi_cause.h"
#include "gwi_known.h"

static bool advise(const gwi_case *c, gw_string_list *advice)
{
    return gwi_advise_known(c, gwi_cause_silent_data_corruption.id, advice);
}

const gw_cause gwi_cause_silent_data_corruption = {
    .id = "silent-data-corruption",
    .summary = "The numbers are wrong and nothing reports an error. Advice, never more than a suspicion.",
    .proof = "a batch that gives different numbers on one card only, with no Xid and no memory error; a recording only "
             "shows libraries with a known bug of this kind",
    .fixes = {[GW_FRAMEWORK_RAW] = "Run the same step with the same data on another card, twice\n"
                                   "Update the library with the known bug\n"
                                   "If cards copy to each other, check IOMMU and ACS first (gpuwhy doctor)\n"
                                   "Take the card out of service, and run the vendor's diagnostics (dcgmi diag -r 4)"},
    .advise = advise,
};
