/* A disk is full, or the user's disk quota is used up.
 *
 * Established only by: either of these messages as the program's last output or exception:
 * - "No space left", if the disk of the working folder or of temporary files was seen to be full;
 * - "quota exceeded", which has no other meaning.
 * Supported by: the message alone. It may be about another disk, or about a kernel limit. */
#include "gwi_coverage.h"
#include "gwi_machine.h"

static const uint64_t no_room_bytes = 1u << 20;

typedef struct room {
    const gw_series *bytes, *files;
    const char *place;
} room;

static bool is_full(const room *r)
{
    return (r->bytes != NULL && r->bytes->min < no_room_bytes) || (r->files != NULL && r->files->min == 0);
}

static void say_room(gwi_finding *finding, const room *r)
{
    char bytes[GW_BYTES_TEXT_MAX];
    if (r->bytes != NULL)
        gwi_measure(finding, r->bytes->t_min_ns, "host", (double)r->bytes->min, "bytes",
                    "lowest free space on the disk of %s: %s", r->place, gw_bytes_text(bytes, r->bytes->min));
    if (r->files != NULL && r->files->min == 0)
        gwi_measure(finding, r->files->t_min_ns, "host", 0, "count", "the disk of %s has no room for more files",
                    r->place);
}

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    gw_certainty by_text = gwi_judge_by_text(c, finding);
    const gw_model *model = c->model;
    room rooms[] = {{gw_machine_known(model, GW_METRIC_DISK_CWD_FREE, GW_NO_DEVICE, 0),
                     gw_machine_known(model, GW_METRIC_DISK_CWD_FILES_FREE, GW_NO_DEVICE, 0), "the working folder"},
                    {gw_machine_known(model, GW_METRIC_DISK_TMP_FREE, GW_NO_DEVICE, 0),
                     gw_machine_known(model, GW_METRIC_DISK_TMP_FILES_FREE, GW_NO_DEVICE, 0), "temporary files"}};
    bool full = false;
    if (by_text == GW_CERTAINTY_NONE)
        return GW_CERTAINTY_NONE;
    bool quota = gwi_is_decided_by(c, GW_SAYS_DISK_FULL, "quota");
    gwi_headline(finding, "%s%s", quota ? "the user's disk quota is used up" : "a disk was full, and a write failed",
                 gwi_gpu_words(c));
    for (size_t i = 0; i < sizeof rooms / sizeof rooms[0]; i++) {
        say_room(finding, &rooms[i]);
        full = full || is_full(&rooms[i]);
    }
    if (rooms[0].bytes != NULL && !full && !quota)
        gwi_evidence(finding, GWI_NO_TIME, "host",
                     "the disks that gpuwhy watched had free space: another disk or a quota is full");
    gwi_rule_out_gpu(c, finding, "no driver call failed");
    return (full && gwi_is_decided_by(c, GW_SAYS_DISK_FULL, "room")) || quota ? GW_ESTABLISHED : by_text;
}

const gw_cause gwi_cause_disk_or_quota_full = {
    .id = "disk-or-quota-full",
    .summary = "A disk is full, or the user's disk quota is used up.",
    .proof = "the system's error message at the end of the program, and a disk without free space or a message that "
             "names the quota",
    .fixes = {[GW_FRAMEWORK_RAW] =
                  "Free space, or write checkpoints elsewhere\n"
                  "Write a checkpoint under another name first, then rename it, so that the last good one survives"},
    .judge = judge,
};
