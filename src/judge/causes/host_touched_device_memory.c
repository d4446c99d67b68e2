/* Host code used an address that only the GPU can use, and the process died of SIGSEGV or SIGBUS.
 *
 * Established only by: a crash address inside a live block of device memory, if all of this is true:
 * - no driver call had failed, and the process died of this crash;
 * - the address is from the signal handler, a core dump or the kernel's log;
 * - the block is not managed memory, which the host can map.
 * Supported by: such an address after a failed driver call, or in a process that survived the signal. */
#include "gwi_crash.h"

#include <inttypes.h>

static gw_certainty say_block(const gwi_case *c, gwi_finding *finding, const gw_crash *crash)
{
    const gw_live *block = &crash->block;
    char bytes[GW_BYTES_TEXT_MAX], at[GWI_PLACE_TEXT_MAX], crashed_at[GWI_PLACE_TEXT_MAX];
    char gpu[GW_DEVICE_TEXT_MAX];
    gw_bytes_text(bytes, block->bytes);
    gwi_headline(finding, "host code used an address of GPU memory, inside a block of %s%s", bytes,
                 gwi_at(c, block->site, at));
    gwi_evidence(finding, crash->t_ns, gwi_crash_source(crash), "signal %d at address 0x%" PRIx64 "%s", crash->signal,
                 crash->address, gwi_at(c, crash->site, crashed_at));
    gwi_measure(finding, block->t_ns, "ledger", (double)block->bytes, "bytes",
                "the address is %" PRIu64 " bytes into the block 0x%" PRIx64 " of %s on %s, allocated at %.3f s%s",
                crash->address - block->address, block->address, bytes, gw_device_text(gpu, block->device),
                (double)block->t_ns / 1e9, gwi_at(c, block->site, at));
    if (crash->site != 0)
        gwi_where(finding, crash->site, "the access by the host");
    else
        gwi_where(finding, block->site, "the allocation of the block that the host accessed");
    gwi_rule_out(c, finding, GWI_OF_PROCESS, "a fault on the GPU (host code used the address)");
    return c->root == NULL && gwi_died_of(c, crash) ? GW_ESTABLISHED : GW_SUPPORTED;
}

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    const gw_crash *crash = gwi_crash_of(c);
    if (crash != NULL && crash->in_block)
        return say_block(c, finding, crash);
    return gwi_may_be_in_block(c) && c->root == NULL ? GW_HYPOTHESIS : GW_CERTAINTY_NONE;
}

const gw_cause gwi_cause_host_touched_device_memory = {
    .id = "host-touched-device-memory",
    .summary = "Host code used an address of GPU memory, or the NULL pointer of a refused allocation.",
    .proof = "a fault address, from --catch-crash, a core dump or the kernel log, that lies in a live block of device "
             "memory",
    .fixes = {[GW_FRAMEWORK_RAW] =
                  "Copy the data to the host first (cuMemcpyDtoH), or use managed memory where both sides need it\n"
                  "Check the result of every allocation before its pointer is used",
              [GW_FRAMEWORK_TORCH] =
                  "Call tensor.cpu() before passing its data_ptr() to host code (ctypes, extensions)"},
    .judge = judge,
};
