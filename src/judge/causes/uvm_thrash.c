/* The program used more managed memory than the card has, so pages move between host and card.
 *
 * Never established: this is advice and never the cause of a failure. */
#include "gwi_machine.h"

static bool advise_device(const gwi_case *c, const gw_process *process, int device, gw_string_list *advice)
{
    uint64_t managed = process->usage[device].managed_bytes_peak;
    const gw_device *card = &c->model->device[device];
    char bytes[GW_BYTES_TEXT_MAX], total[GW_BYTES_TEXT_MAX];
    if (!card->has_total || managed <= card->bytes_total)
        return true;
    return gwi_list_addf(
        advice,
        "uvm-thrash: pid %u had %s of managed memory at once on GPU %d, which has %s: the memory that kernels touch "
        "moves back and forth over the bus, and kernels may take 10 to 100 times as long",
        process->pid, gw_bytes_text(bytes, managed), device, gw_bytes_text(total, card->bytes_total));
}

static bool advise(const gwi_case *c, gw_string_list *advice)
{
    bool good = true;
    for (size_t i = 0; i < c->model->process_count && good; i++)
        for (int device = 0; device < GW_MODEL_DEVICES_MAX && good; device++)
            good = advise_device(c, &c->model->process[i], device, advice);
    return good;
}

const gw_cause gwi_cause_uvm_thrash = {
    .id = "uvm-thrash",
    .summary = "More managed memory is in use than the GPU has. Advice, never a fault.",
    .proof = "managed allocations alive at one time that add up to more than the card's memory",
    .fixes = {[GW_FRAMEWORK_RAW] = "Use less data at once, or plain allocations for data that every kernel needs\n"
                                   "Call cuMemAdvise and cuMemPrefetchAsync before the kernels that use the data"},
    .advise = advise,
};
