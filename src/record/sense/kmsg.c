/* Follows /dev/kmsg: reads new lines, drops those that do not concern the run and limits bursts of equal lines. */
#include "gwi_kmsg.h"

#include "gw_clock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A burst: equal lines within this time. The first BURST_TOLD_MAX lines are reported, and the others are only
 * counted. */
static const uint64_t burst_ns = 1000000000u;
enum { BURST_TOLD_MAX = 4, TOLD_MAX = 4096, READS_MAX = 512 };

void gwi_kmsg_open(gwi_kmsg *kmsg, const char *root)
{
    char path[PATH_MAX];
    *kmsg = (gwi_kmsg){.fd = -1};
    snprintf(path, sizeof path, "%s/dev/kmsg", root);
    kmsg->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    kmsg->why = kmsg->fd < 0 ? errno : 0;
    if (kmsg->fd >= 0 && lseek(kmsg->fd, 0, SEEK_END) < 0) {
        kmsg->why = errno;
        close(kmsg->fd);
        kmsg->fd = -1;
    }
    kmsg->read_at_ns = gw_monotonic_ns();
}

void gwi_kmsg_close(gwi_kmsg *kmsg)
{
    if (kmsg->fd >= 0)
        close(kmsg->fd);
    kmsg->fd = -1;
}

/* True if the line may concern this run. Ignore crashes of processes that are not recorded and, for virtual cards,
 * lines about a card. */
static bool is_wanted(const gwi_kmsg_to *to, const gw_klog *klog)
{
    if (klog->kind == GW_MACHINE_OOM_KILL)
        return true;
    if (klog->kind != GW_MACHINE_CRASH)
        return !to->options->is_virtual;
    if (!to->pids_are_ours)
        return false;
    bool ours = klog->pid == (uint32_t)to->options->command;
    for (size_t i = 0; i < to->now->pid_count && !ours; i++)
        ours = klog->pid == to->now->pid[i];
    return ours;
}

static void hand_out(gwi_kmsg *kmsg, const gwi_kmsg_to *to, const gw_klog *klog, uint64_t t_ns, uint64_t count)
{
    char text[GW_KLOG_TEXT_MAX + 32];
    if (kmsg->told >= TOLD_MAX)
        return;
    kmsg->told++;
    snprintf(text, sizeof text, "%s", klog->text);
    /* append the PCI address if the text lacks it, because the model finds the card by this address */
    if (klog->has_pci && strstr(text, "PCI:") == NULL)
        snprintf(text + strlen(text), 32, " (PCI:%04x:%02x:%02x)", klog->domain, klog->bus, klog->slot);
    gw_item item = {.kind = GW_ITEM_MACHINE, .t_ns = t_ns, .pid = to->pids_are_ours ? klog->pid : 0};
    item.machine.kind = (uint8_t)klog->kind;
    item.machine.source = GW_SOURCE_KERNEL_LOG;
    item.machine.device = GW_NO_DEVICE;
    item.machine.count = count > UINT32_MAX ? UINT32_MAX : (uint32_t)count;
    item.machine.code = klog->code;
    item.machine.value = klog->value;
    item.machine.text = text;
    to->sink->item(to->sink->user, &item);
}

static bool is_same(const gw_klog *a, const gw_klog *b)
{
    return a->kind == b->kind && a->code == b->code && a->pid == b->pid && a->has_pci == b->has_pci &&
           a->domain == b->domain && a->bus == b->bus && a->slot == b->slot;
}

/* Report how many lines of the burst were counted but not reported so far. */
static void settle(gwi_kmsg *kmsg, const gwi_kmsg_to *to, gwi_burst *burst)
{
    if (burst->untold > 0)
        hand_out(kmsg, to, &burst->klog, burst->since_ns - to->options->t0_monotonic_ns, burst->untold);
    burst->untold = 0;
}

static gwi_burst *burst_of(gwi_kmsg *kmsg, const gwi_kmsg_to *to, const gw_klog *klog, uint64_t t_ns)
{
    gwi_burst *oldest = &kmsg->burst[0];
    for (uint32_t i = 0; i < kmsg->burst_count; i++) {
        gwi_burst *burst = &kmsg->burst[i];
        if (is_same(&burst->klog, klog)) {
            if (t_ns - burst->since_ns <= burst_ns)
                return burst;
            oldest = burst; /* the last burst of such lines is over: reuse its entry for a new burst */
            break;
        }
        oldest = burst->since_ns < oldest->since_ns ? burst : oldest;
    }
    bool is_there = kmsg->burst_count > 0 && is_same(&oldest->klog, klog);
    if (!is_there && kmsg->burst_count < GWI_BURSTS_MAX)
        oldest = &kmsg->burst[kmsg->burst_count++];
    else
        settle(kmsg, to, oldest);
    *oldest = (gwi_burst){.klog = *klog, .since_ns = t_ns};
    return oldest;
}

/* Return the time at which the line was written: between the previous read and now. The kernel's clock may have drifted
 * from CLOCK_MONOTONIC over weeks. */
static uint64_t time_of(const gwi_kmsg *kmsg, const gw_klog *klog, uint64_t now_ns)
{
    uint64_t t_ns = klog->has_stamp ? klog->stamp_us * 1000 : now_ns;
    if (t_ns < kmsg->read_at_ns)
        return kmsg->read_at_ns;
    if (t_ns > now_ns)
        return now_ns;
    return t_ns;
}

static void take_line(gwi_kmsg *kmsg, const gwi_kmsg_to *to, const char *line, size_t bytes, uint64_t now_ns)
{
    gw_klog klog;
    if (bytes == 0 || line[0] == ' ' || !gw_klog_parse(line, bytes, &klog) || !is_wanted(to, &klog))
        return;
    uint64_t t_ns = time_of(kmsg, &klog, now_ns);
    t_ns = t_ns < to->options->t0_monotonic_ns ? to->options->t0_monotonic_ns : t_ns;
    gwi_burst *burst = burst_of(kmsg, to, &klog, t_ns);
    if (burst->told++ < BURST_TOLD_MAX) {
        hand_out(kmsg, to, &klog, t_ns - to->options->t0_monotonic_ns, 1);
    } else {
        burst->klog = klog;
        burst->untold++;
    }
}

void gwi_kmsg_read(gwi_kmsg *kmsg, const gwi_kmsg_to *to, bool last)
{
    char record[8192];
    uint64_t now_ns = gw_monotonic_ns();
    for (int reads = 0; kmsg->fd >= 0 && reads < READS_MAX; reads++) {
        ssize_t got = read(kmsg->fd, record, sizeof record); /* the device returns one record per read */
        if (got < 0 && (errno == EPIPE || errno == EINTR))
            continue; /* EPIPE: old records were overwritten; continue with the next record */
        if (got <= 0)
            break;
        for (size_t at = 0; at < (size_t)got;) {
            const char *end = memchr(record + at, '\n', (size_t)got - at);
            size_t bytes = end == NULL ? (size_t)got - at : (size_t)(end - record) - at;
            take_line(kmsg, to, record + at, bytes, now_ns);
            at += bytes + 1;
        }
    }
    for (uint32_t i = 0; i < kmsg->burst_count; i++)
        if (last || now_ns - kmsg->burst[i].since_ns > burst_ns)
            settle(kmsg, to, &kmsg->burst[i]);
    kmsg->read_at_ns = now_ns;
}
