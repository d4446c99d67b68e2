/* Parses lines of the kernel's log: Xid errors, other lines of the NVIDIA driver, OOM kills, crashes and bus errors. */
#include "gw_klog.h"
#include "gw_text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Parse the number at `text`. Returns false if there is none or if it is too large. */
static bool number_at(const char *text, int base, uint64_t *ret_number, const char **ret_end)
{
    char *end;
    if (base == 10 ? !isdigit((unsigned char)*text) : !isxdigit((unsigned char)*text))
        return false;
    unsigned long long number = strtoull(text, &end, base);
    if (end - text > (base == 10 ? 19 : 16) + (gw_begins(text, "0x") ? 2 : 0))
        return false;
    *ret_number = number;
    if (ret_end != NULL)
        *ret_end = end;
    return true;
}

static bool small_at(const char *text, uint64_t max, uint32_t *ret_number, const char **ret_end)
{
    uint64_t number;
    if (!number_at(text, 10, &number, ret_end) || number > max)
        return false;
    *ret_number = (uint32_t)number;
    return true;
}

static bool hex_at(const char **at, uint64_t max, uint32_t *ret_number)
{
    uint64_t number;
    if (gw_begins(*at, "0x") || !number_at(*at, 16, &number, at) || number > max)
        return false;
    *ret_number = (uint32_t)number;
    return true;
}

/* Parse a PCI address, "0000:01:00" or "0000:01:00.0". */
static bool pci_at(const char *text, gw_klog *klog)
{
    uint32_t domain, bus, slot;
    if (!hex_at(&text, UINT32_MAX, &domain) || *text++ != ':' || !hex_at(&text, 0xff, &bus) || *text++ != ':' ||
        !hex_at(&text, 0x1f, &slot))
        return false;
    klog->has_pci = true;
    klog->domain = domain;
    klog->bus = bus;
    klog->slot = slot;
    return true;
}

static void copy_name(gw_klog *klog, const char *from, size_t bytes)
{
    snprintf(klog->name, sizeof klog->name, "%.*s", (int)(bytes < GW_KLOG_NAME_MAX ? bytes : GW_KLOG_NAME_MAX - 1),
             from);
}

/* ---- the head of a line ---- */

/* Skip the prefix of /dev/kmsg or dmesg. Returns NULL if the kernel did not write the line itself. */
static const char *skip_head(const char *line, gw_klog *klog)
{
    enum { FACILITY_SHIFT = 3 };
    uint64_t priority, sequence, stamp, fraction;
    const char *at;
    if (number_at(line, 10, &priority, &at) && *at == ',' && number_at(at + 1, 10, &sequence, &at) && *at == ',' &&
        number_at(at + 1, 10, &stamp, &at) && *at == ',') {
        const char *message = strchr(at, ';');
        if (message == NULL || priority >> FACILITY_SHIFT != 0)
            return NULL; /* other programs can write to /dev/kmsg too, but not with the kernel's facility, 0 */
        klog->has_stamp = true;
        klog->stamp_us = stamp;
        return message + 1;
    }
    at = line;
    if (*at == '<' && (at = strchr(at, '>')) != NULL)
        line = ++at;
    if (*line != '[' || (at = strchr(line, ']')) == NULL)
        return line;
    const char *message = at + 1 + (at[1] == ' ');
    at = line + 1 + strspn(line + 1, " ");
    if (number_at(at, 10, &stamp, &at) && *at == '.' && number_at(at + 1, 10, &fraction, &at) && *at == ']' &&
        stamp < UINT64_MAX / 2000000 && fraction < 1000000) {
        klog->has_stamp = true;
        klog->stamp_us = stamp * 1000000 + fraction;
    }
    return message;
}

/* ---- Xid ---- */

/* Parse the process of an Xid: "pid=1234, name=python3," or "pid='<unknown>', name=<unknown>,". */
static void take_process(const char *text, gw_klog *klog)
{
    const char *pid = strstr(text, "pid="), *name = strstr(text, "name=");
    if (pid != NULL)
        (void)small_at(pid + 4 + (pid[4] == '\''), UINT32_MAX, &klog->pid, NULL);
    if (name != NULL && name[5] != '<' && name[5] != '\'')
        copy_name(klog, name + 5, strcspn(name + 5, ","));
}

/* Parse the PCI address and the Xid number in "Xid (PCI:0000:01:00): 79". `mark` is the text before the address.
 * Returns the number; 0: none. */
static uint32_t xid_at(const char *text, const char *mark, gw_klog *klog)
{
    const char *place = strstr(text, mark);
    uint32_t number = 0;
    if (place == NULL)
        return 0;
    place += strlen(mark);
    (void)pci_at(place + (gw_begins(place, "PCI:") ? 4 : 0), klog);
    const char *close = strstr(place, "): ");
    if (close == NULL || !small_at(close + 3, 99999, &number, NULL))
        return 0;
    return number;
}

static bool take_xid(const char *text, gw_klog *klog)
{
    klog->code = xid_at(text, "NVRM: Xid (", klog);
    if (klog->code == 0)
        return false;
    klog->kind = GW_MACHINE_XID;
    take_process(text, klog);
    const char *caused = strstr(text, "caused by previous Xid ");
    uint32_t previous = 0;
    if (caused != NULL && small_at(caused + strlen("caused by previous Xid "), 99999, &previous, NULL))
        klog->value = previous;
    return true;
}

/* ---- the other lines of the driver ---- */

static bool take_driver_line(const char *text, gw_klog *klog)
{
    static const struct {
        const char *part;
        unsigned code;
    } rows[] = {{"has fallen off the bus", GW_DRIVER_LINE_OFF_BUS},
                {"API mismatch", GW_DRIVER_LINE_VERSIONS},
                {"RmInitAdapter failed", GW_DRIVER_LINE_INIT},
                {"waiting for RPC response", GW_DRIVER_LINE_FIRMWARE},
                {"nvidia-nvlink", GW_DRIVER_LINE_NVLINK}};
    static const char *const writers[] = {"NVRM:", "nvidia-nvlink", "nvidia-nvswitch", "nvidia-uvm", "SXid ("};
    bool is_driver = false;
    for (size_t i = 0; i < sizeof writers / sizeof writers[0]; i++)
        is_driver = is_driver || strstr(text, writers[i]) != NULL;
    if (!is_driver)
        return false;
    klog->kind = GW_MACHINE_DRIVER_LOG;
    klog->value = xid_at(text, "SXid (", klog);
    if (klog->value != 0) {
        klog->code = GW_DRIVER_LINE_SWITCH;
        return true;
    }
    for (size_t i = sizeof rows / sizeof rows[0]; i-- > 0;)
        if (strstr(text, rows[i].part) != NULL)
            klog->code = rows[i].code;
    const char *card = strstr(text, "GPU at PCI:");
    if (card != NULL)
        (void)pci_at(card + strlen("GPU at PCI:"), klog);
    else if ((card = strstr(text, "NVRM: GPU ")) != NULL)
        (void)pci_at(card + strlen("NVRM: GPU "), klog);
    return true;
}

/* ---- the host ---- */

/* Parse an OOM kill: "Memory cgroup out of memory: Killed process 123 (python3) total-vm:...". */
static bool take_oom_kill(const char *text, gw_klog *klog)
{
    const char *killed = strstr(text, "Killed process "), *at;
    if (killed == NULL || !small_at(killed + strlen("Killed process "), UINT32_MAX, &klog->pid, &at))
        return false;
    bool by_group = strstr(text, "Memory cgroup out of memory") != NULL, is_bare = killed == text;
    klog->kind = GW_MACHINE_OOM_KILL;
    klog->code = 0;
    if (by_group)
        klog->code = 1;
    else if (is_bare)
        klog->code = 2;
    klog->value = 1;
    const char *close = strstr(at, ") ");
    if (gw_begins(at, " (") && close != NULL)
        copy_name(klog, at + 2, (size_t)(close - at) - 2);
    return true;
}

/* Parse the process name and the pid in "name[123]". The name starts at `text` and may contain any characters.
 * `bracket` is the "]". */
static bool take_victim(const char *text, const char *bracket, gw_klog *klog)
{
    const char *open = bracket;
    while (open > text && *open != '[')
        open--;
    if (*open != '[' || !small_at(open + 1, UINT32_MAX, &klog->pid, NULL))
        return false;
    copy_name(klog, text, (size_t)(open - text));
    return true;
}

/* Parse a crash. Examples:
 * - "python3[123]: segfault at 7f.. ip .. sp .. error 6 in libc.so[..]"
 * - "traps: x[123] general protection fault ip:.."
 * - "x[123]: unhandled level 2 translation fault (11) at 0x.., esr 0x.." */
static bool take_crash(const char *text, gw_klog *klog)
{
    static const struct {
        const char *part;
        unsigned signal;
    } rows[] = {{"]: segfault at ", 11},    {"] general protection", 11}, {"] trap invalid opcode", 4},
                {"] trap divide error", 8}, {"] trap stack segment", 7},  {"]: unhandled ", 0}};
    text += gw_begins(text, "traps: ") ? strlen("traps: ") : 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *at = strstr(text, rows[i].part), *signal;
        if (at == NULL || !take_victim(text, at, klog))
            continue;
        klog->kind = GW_MACHINE_CRASH;
        klog->code = rows[i].signal;
        if (rows[i].signal == 11 && *at == ']' && at[1] == ':')
            (void)number_at(at + strlen(rows[i].part), 16, &klog->value, NULL);
        if (rows[i].signal != 0)
            return true;
        signal = strchr(at, '(');
        const char *address = strstr(at, " at 0x");
        uint32_t number;
        if (signal == NULL || !small_at(signal + 1, 64, &number, NULL))
            return false;
        klog->code = number;
        if (address != NULL)
            (void)number_at(address + 6, 16, &klog->value, NULL);
        return true;
    }
    return false;
}

/* Parse a bus error: "nvidia 0000:01:00.0: PCIe Bus Error: severity=Corrected, ..." or "pcieport 0000:00:01.0: AER:
 * Corrected error received". */
static bool take_bus_error(const char *text, gw_klog *klog)
{
    const char *aer = strstr(text, ": AER: "), *bus = strstr(text, "PCIe Bus Error: severity=");
    const char *space = strchr(text, ' ');
    if (aer == NULL && bus == NULL)
        return false;
    const char *words = bus != NULL ? bus : aer;
    bool not_corrected = strstr(words, "Uncorrect") != NULL; /* matches "Uncorrected" and "Uncorrectable" */
    bool is_fatal = strstr(words, "(Fatal)") != NULL || strstr(words, "severity=Fatal") != NULL;
    if (!not_corrected && strstr(words, "orrected") == NULL && !is_fatal)
        return false;
    klog->kind = GW_MACHINE_BUS_ERROR;
    klog->code = 0;
    if (is_fatal)
        klog->code = 2;
    else if (not_corrected)
        klog->code = 1;
    if (space != NULL)
        (void)pci_at(space + 1, klog);
    return true;
}

bool gw_klog_parse(const char *line, size_t bytes, gw_klog *ret_klog)
{
    enum { LINE_MAX_BYTES = 2048 };
    char text[LINE_MAX_BYTES];
    gw_klog klog = {.kind = GW_MACHINE_EVENT_COUNT};
    size_t count = 0;
    for (; count < bytes && count + 1 < sizeof text && line[count] != '\n'; count++)
        text[count] = iscntrl((unsigned char)line[count]) ? ' ' : line[count];
    text[count] = '\0';
    const char *message = skip_head(text, &klog);
    if (message == NULL || !(take_xid(message, &klog) || take_oom_kill(message, &klog) || take_crash(message, &klog) ||
                             take_bus_error(message, &klog) || take_driver_line(message, &klog)))
        return false;
    snprintf(klog.text, sizeof klog.text, "%.*s", GW_KLOG_TEXT_MAX - 1, message);
    *ret_klog = klog;
    return true;
}
