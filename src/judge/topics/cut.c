/* Finds out why a recording has no end: gpuwhy was killed, or the machine stopped. A machine has a new boot_id after
 * each start. Without a restart, gpuwhy was killed, or the disk took nothing more, not even the fact that says so. A
 * restart right after the last record is likely what cut it, but no proof: gpuwhy may have been killed just before. */
#include "gwi_cut.h"
#include "gwi_machine.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A machine needs some minutes to start again. */
static const uint64_t restart_max_ns = UINT64_C(20) * 60 * 1000000000u;

/* Return the real time of the last record; 0: not known. */
static uint64_t last_realtime_ns(const gwi_case *c)
{
    const char *start = gw_model_meta(c->model, "start_realtime_ns");
    uint64_t start_ns = start == NULL ? 0 : strtoull(start, NULL, 10);
    return start_ns == 0 ? 0 : start_ns + c->model->t_end_ns;
}

gwi_cut gwi_cut_of(const gwi_case *c)
{
    const char *host = gw_model_meta(c->model, "host"), *boot_id = gw_model_meta(c->model, "boot_id");
    uint64_t last_ns = last_realtime_ns(c);
    if (!c->model->truncated)
        return GWI_CUT_NONE;
    if (c->later == NULL || boot_id == NULL || boot_id[0] == '\0' || c->later->boot_id[0] == '\0')
        return GWI_CUT_UNKNOWN;
    if (strcmp(boot_id, c->later->boot_id) == 0)
        return GWI_CUT_KILLED;
    if (host == NULL || strcmp(host, c->later->host) != 0)
        return GWI_CUT_UNKNOWN; /* another machine, or one whose name has changed */
    bool is_soon =
        last_ns != 0 && c->later->boot_realtime_ns >= last_ns && c->later->boot_realtime_ns - last_ns <= restart_max_ns;
    return is_soon ? GWI_CUT_STOPPED : GWI_CUT_RESTARTED;
}

const char *gwi_cut_text(gwi_cut cut)
{
    static const char *const texts[GWI_CUT_COUNT] = {[GWI_CUT_UNKNOWN] = "no end recorded",
                                                     [GWI_CUT_KILLED] = "gpuwhy was killed",
                                                     [GWI_CUT_STOPPED] = "the machine stopped",
                                                     [GWI_CUT_RESTARTED] = "no end recorded"};
    return texts[cut];
}

static const char *clock_text(char out[32], uint64_t realtime_ns)
{
    time_t seconds = (time_t)(realtime_ns / 1000000000u);
    struct tm parts;
    if (localtime_r(&seconds, &parts) == NULL || strftime(out, 32, "%Y-%m-%d %H:%M:%S", &parts) == 0)
        snprintf(out, 32, "an unknown time");
    return out;
}

/* Report the last values of the host's and the control group's memory: their shortage may be why gpuwhy was killed. */
static void say_last_state(const gwi_case *c, gwi_finding *finding)
{
    char bytes[GW_BYTES_TEXT_MAX], more[GW_BYTES_TEXT_MAX];
    const gw_series *free = gw_machine_known(c->model, GW_METRIC_HOST_MEMORY_AVAILABLE, GW_NO_DEVICE, 0);
    const gw_series *used = gw_machine_known(c->model, GW_METRIC_CGROUP_MEMORY_USED, GW_NO_DEVICE, 0);
    const gw_series *limit = gw_machine_known(c->model, GW_METRIC_CGROUP_MEMORY_LIMIT, GW_NO_DEVICE, 0);
    if (free != NULL)
        gwi_measure(finding, free->t_last_ns, "host", (double)free->last, "bytes",
                    "last known free memory of the host: %s", gw_bytes_text(bytes, free->last));
    if (used != NULL && limit != NULL && limit->last != UINT64_MAX)
        gwi_measure(finding, used->t_last_ns, "host", (double)used->last, "bytes",
                    "last known memory of the control group: %s of its limit of %s", gw_bytes_text(bytes, used->last),
                    gw_bytes_text(more, limit->last));
}

void gwi_say_cut(const gwi_case *c, gwi_finding *finding)
{
    char last[32], boot[32];
    uint64_t last_ns = last_realtime_ns(c);
    gwi_cut cut = gwi_cut_of(c);
    clock_text(last, last_ns);
    clock_text(boot, c->later == NULL ? 0 : c->later->boot_realtime_ns);
    switch (cut) {
    case GWI_CUT_KILLED:
        gwi_headline(finding, "gpuwhy itself was killed during the run, or could not write this file any more, so %s",
                     c->ended ? "it is not known why the program ended" : "how the program ended is not known");
        gwi_evidence(finding, GWI_NO_TIME, "host",
                     "the recording has no end, and this machine has not been restarted since; the last record is of "
                     "%s",
                     last);
        gwi_next(finding,
                 "Find out who killed gpuwhy: journalctl -k -u systemd-oomd --since '%s', dmesg -T (look for "
                 "\"Killed process\"), the scheduler's record of the job; or whether the disk was full: df, quota",
                 last);
        break;
    case GWI_CUT_STOPPED:
        gwi_headline(finding,
                     "the machine probably stopped during this run: the last record is of %s, and it started "
                     "again at %s",
                     last, boot);
        gwi_evidence(finding, GWI_NO_TIME, "host",
                     "the recording has no end, and the boot_id of this machine has "
                     "changed since");
        gwi_next(finding, "Read why the machine stopped: last -x reboot shutdown, journalctl -b -1 -e");
        break;
    case GWI_CUT_RESTARTED:
        gwi_headline(
            finding,
            "the recording stops at %s: gpuwhy was killed, or the machine stopped then, or the file could not be "
            "written; the machine was started again at %s",
            last, boot);
        gwi_next(finding, "Read the machine's log of that time: journalctl --since '%s', last -x reboot shutdown",
                 last);
        break;
    default:
        gwi_headline(finding, "the recording stops before the program ended, and has no failure that explains the end");
    }
    say_last_state(c, finding);
}
