/* /dev/shm was full. A process that touches a new page of a file there gets SIGBUS, and a request for space fails with
 * ENOSPC.
 *
 * Established only by: all of these:
 * - /dev/shm was full in the last five seconds or at the last sample.
 * - No driver call failed.
 * - The program printed a message that only a lack of room explains, or died by SIGBUS.
 *
 * "Full" is less than 64 KiB or 0.5 % free. For SIGBUS it is less than 64 KiB, because it is unknown how much the
 * process touched. Any mapped file can cause SIGBUS, so one of these is needed, too:
 * - The fault's address is in a file of /dev/shm.
 * - /dev/shm had room earlier in the run, and the record of the fault names no other reason.
 *
 * Supported by:
 * - a /dev/shm that was full at another time, or all the time
 * - a message about shared memory while /dev/shm was nearly full
 * - a fault in a file of /dev/shm that was nearly full, or whose free space is unknown */
#include "gwi_coverage.h"
#include "gwi_crash.h"
#include "gwi_machine.h"

enum { BUS = 7 };
static const uint64_t docker_default_bytes = 64u << 20;

static bool is_full(uint64_t room, uint64_t size)
{
    return room < 4096 * 16 || room < size / 200;
}

/* True if the free room was less than 16 pages (64 KiB). */
static bool is_without_room(uint64_t room)
{
    return room < 4096 * 16;
}

/* True if the line that ended the program does not say what was full, or how a worker died. */
static bool is_ambiguous(const gwi_case *c)
{
    static const gw_sign signs[] = {GW_SAYS_DISK_FULL, GW_SAYS_BUS_ERROR, GW_SAYS_WORKER_KILLED, GW_SAYS_WORKER_GONE};
    bool found = false;
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++)
        found = found || gwi_is_decided_by(c, signs[i], NULL);
    return found;
}

/* True if only a lack of room explains the line that ended the program. */
static bool is_told_of_room(const gwi_case *c)
{
    return gwi_is_decided_by(c, GW_SAYS_SHM, NULL) || gwi_is_decided_by(c, GW_SAYS_WORKER_KILLED, NULL);
}

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    const gw_model *model = c->model;
    bool told = gwi_is_told(c, finding->cause), ambiguous = !told && is_ambiguous(c);
    const gw_series *room = gw_machine_known(model, GW_METRIC_SHM_FREE, GW_NO_DEVICE, 0);
    const gw_series *size = gw_machine_known(model, GW_METRIC_SHM_TOTAL, GW_NO_DEVICE, 0);
    gwi_bus bus = gwi_bus_of(c);
    bool died_otherwise = bus == GWI_BUS_FILE || bus == GWI_BUS_MEMORY || bus == GWI_BUS_OTHER;
    bool died = (c->signal == BUS || c->exit_code == 128 + BUS) && !died_otherwise;
    char bytes[GW_BYTES_TEXT_MAX], all[GW_BYTES_TEXT_MAX];
    if (!c->ended || !c->bad_end || (!died && !told && !ambiguous))
        return GW_CERTAINTY_NONE;
    bool known = room != NULL && size != NULL && size->last > 0;
    bool was_full = known && is_full(room->min, size->last);
    /* /dev/shm must have been full near the end. A file that filled it earlier and was then removed did not cause the
     * failure. */
    const uint64_t near_end_ns = 5000000000u;
    bool is_full_now = was_full && (is_full(room->last, size->last) || room->t_min_ns + near_end_ns >= model->t_end_ns);
    bool is_without = is_full_now && is_without_room(room->min);
    bool became_full = was_full && !is_full(room->max, size->last) && room->t_max_ns < room->t_min_ns;
    bool was_short = known && room->min < size->last / 10;
    bool is_small = known && size->last <= docker_default_bytes;
    if (ambiguous && !died && !was_full)
        return GW_CERTAINTY_NONE;
    if (!was_short && !told && !ambiguous && bus != GWI_BUS_SHM)
        return GW_CERTAINTY_NONE;
    if (known && !was_short && !is_small && bus != GWI_BUS_SHM)
        return GW_CERTAINTY_NONE; /* every sample showed free room */
    gwi_headline(finding, "/dev/shm %s, and a process that used it %s",
                 was_full ? "was full" : "may have been too small", died ? "died of SIGBUS" : "failed");
    if (known)
        gwi_measure(finding, room->t_min_ns, "host", (double)room->min, "bytes",
                    "lowest free space in /dev/shm: %s of %s", gw_bytes_text(bytes, room->min),
                    gw_bytes_text(all, size->last));
    if (died)
        gwi_evidence(finding, model->t_end_ns, "exit",
                     "ended by signal 7 (SIGBUS): the kernel could not provide the memory");
    if (bus == GWI_BUS_SHM)
        gwi_say_bus(c, finding);
    if (told || ambiguous)
        gwi_say_told(c, finding);
    gwi_rule_out_gpu(c, finding, "no driver call failed");
    if (c->sticky != NULL || c->oom != NULL || (!died && !told && !is_full_now))
        return GW_HYPOTHESIS;
    bool by_death = died && (bus == GWI_BUS_SHM || became_full);
    if (c->root == NULL && ((is_without && by_death) || (is_full_now && is_told_of_room(c))))
        return GW_ESTABLISHED;
    return was_full || (was_short && (told || bus == GWI_BUS_SHM)) || (bus == GWI_BUS_SHM && !known) ? GW_SUPPORTED
                                                                                                     : GW_HYPOTHESIS;
}

const gw_cause gwi_cause_shm_exhausted = {
    .id = "shm-exhausted",
    .summary = "/dev/shm, which holds memory shared by processes, was full.",
    .proof = "a full /dev/shm when a process died of SIGBUS or a request for shared memory failed",
    .fixes =
        {[GW_FRAMEWORK_RAW] = "Make it larger: docker run --shm-size=8g (or --ipc=host), in Kubernetes a larger "
                              "emptyDir of medium Memory, or mount -o remount,size=8g /dev/shm\n"
                              "Remove files left by dead programs: ls -l /dev/shm",
         [GW_FRAMEWORK_TORCH] =
             "Make it larger: docker run --shm-size=8g (or --ipc=host); in Kubernetes an emptyDir of medium Memory\n"
             "Use fewer DataLoader workers, a smaller prefetch_factor, or num_workers=0\n"
             "torch.multiprocessing.set_sharing_strategy('file_system') helps when file descriptors run out, not when "
             "/dev/shm is full"},
    .judge = judge,
};
