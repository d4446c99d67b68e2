/* Fuzz the parser for lines of the kernel log. */
#include "gw_klog.h"
#include "seeds.h"

#include <string.h>

static void write_seeds(const char *folder)
{
    static const char *const lines[] = {
        "4,711,5678901,-;NVRM: Xid (PCI:0000:18:00): 31, pid=4242, name=python3, Ch 00000008 caused by previous Xid 13",
        "[ 1103.983772] NVRM: GPU 0000:01:00.0: GPU has fallen off the bus.",
        "nvidia-nvswitch3: SXid (PCI:0000:c4:00.0): 20034, Fatal, Link 30",
        "Memory cgroup out of memory: Killed process 55 (a b) total-vm:1kB",
        "traps: my [odd] prog[12] general protection fault ip:55 sp:7f error:0 in x[55+1]",
        "prog[44]: unhandled level 2 translation fault (11) at 0x00001000, esr 0x92000006",
        "nvidia 0000:41:00.0: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction Layer"};
    write_texts(folder, lines, sizeof lines / sizeof lines[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    gw_klog klog;
    if (!gw_klog_parse((const char *)data, bytes, &klog))
        return 0;
    if (klog.kind >= GW_MACHINE_EVENT_COUNT || strnlen(klog.text, sizeof klog.text) == sizeof klog.text ||
        strnlen(klog.name, sizeof klog.name) == sizeof klog.name || klog.slot > 31 || klog.bus > 255)
        abort();
    return 0;
}
