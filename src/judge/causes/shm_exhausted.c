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
#include "gwi_shm.h"

enum { BUS = 7, ROOM_BYTES_FEW = 4096 * 16 };
static const uint64_t docker_default_bytes = 64u << 20;

static bool is_full(uint64_t room, uint64_t size)
{
    return room < ROOM_BYTES_FEW || room < size / 200;
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

static gwi_shm look(const gwi_case *c, const gw_series *room, const gw_series *size)
{
    /* A file that filled /dev/shm earlier and was then removed did not cause the failure. */
    const uint64_t near_end_ns = 5000000000u;
    gwi_bus bus = gwi_bus_of(c);
    gwi_shm it = {.known = room != NULL && size != NULL && size->last > 0,
                  .told = gwi_is_told(c, &gwi_cause_shm_exhausted),
                  .told_of_room = is_told_of_room(c),
                  .died = (c->signal == BUS || c->exit_code == 128 + BUS) && bus != GWI_BUS_FILE &&
                          bus != GWI_BUS_MEMORY && bus != GWI_BUS_OTHER,
                  .in_file = bus == GWI_BUS_SHM,
                  .refused = c->sticky != NULL || c->oom != NULL,
                  .failed = c->root != NULL};
    it.ambiguous = !it.told && is_ambiguous(c);
    if (!it.known)
        return it;
    it.was_full = is_full(room->min, size->last);
    it.full_at_end =
        it.was_full && (is_full(room->last, size->last) || room->t_min_ns + near_end_ns >= c->model->t_end_ns);
    it.without_room = it.full_at_end && room->min < ROOM_BYTES_FEW;
    it.became_full = it.was_full && !is_full(room->max, size->last) && room->t_max_ns < room->t_min_ns;
    it.was_short = room->min < size->last / 10;
    it.is_small = size->last <= docker_default_bytes;
    return it;
}

gw_certainty gwi_shm_decide(const gwi_shm *it)
{
    bool by_text = it->told || it->ambiguous;
    if ((!it->died && !by_text) || (it->ambiguous && !it->died && !it->was_full) ||
        (!it->was_short && !by_text && !it->in_file))
        return GW_CERTAINTY_NONE;
    if (it->known && !it->was_short && !it->is_small && !it->in_file)
        return GW_CERTAINTY_NONE; /* every sample showed free room */
    if (it->refused || (!it->died && !it->told && !it->full_at_end))
        return GW_HYPOTHESIS;
    bool by_death = it->died && (it->in_file || it->became_full);
    if (!it->failed && ((it->without_room && by_death) || (it->full_at_end && it->told_of_room)))
        return GW_ESTABLISHED;
    return it->was_full || (it->was_short && (it->told || it->in_file)) || (it->in_file && !it->known) ? GW_SUPPORTED
                                                                                                       : GW_HYPOTHESIS;
}

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    const gw_series *room = gw_machine_known(c->model, GW_METRIC_SHM_FREE, GW_NO_DEVICE, 0);
    const gw_series *size = gw_machine_known(c->model, GW_METRIC_SHM_TOTAL, GW_NO_DEVICE, 0);
    const gwi_shm it = look(c, room, size);
    gw_certainty certainty = c->ended && c->bad_end ? gwi_shm_decide(&it) : GW_CERTAINTY_NONE;
    char bytes[GW_BYTES_TEXT_MAX], all[GW_BYTES_TEXT_MAX];
    if (certainty == GW_CERTAINTY_NONE)
        return certainty;
    gwi_headline(finding, "/dev/shm %s, and a process that used it %s",
                 it.was_full ? "was full" : "may have been too small", it.died ? "died of SIGBUS" : "failed");
    if (it.known)
        gwi_measure(finding, room->t_min_ns, "host", (double)room->min, "bytes",
                    "lowest free space in /dev/shm: %s of %s", gw_bytes_text(bytes, room->min),
                    gw_bytes_text(all, size->last));
    if (it.died)
        gwi_evidence(finding, c->model->t_end_ns, "exit",
                     "ended by signal 7 (SIGBUS): the kernel could not provide the memory");
    if (it.in_file)
        gwi_say_bus(c, finding);
    if (it.told || it.ambiguous)
        gwi_say_told(c, finding);
    gwi_rule_out_gpu(c, finding, "no driver call failed");
    return certainty;
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
