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

#include <string.h>

enum { BUS = 7 };
static const uint64_t docker_default_bytes = 64u << 20;

/* Return a message of a framework or of the C library that blames shared memory. Returns NULL if there is none. */
static const char *words_of(const gw_stderr_facts *facts)
{
    static const char *const parts[] = {"out of shared memory",
                                        "insufficient shared memory",
                                        "shared memory (shm)",
                                        "unable to write to file </torch",
                                        "/dev/shm",
                                        "signal: Bus error",
                                        "psm_",
                                        "shm_open"};
    const char *texts[] = {facts->exception.text, facts->child_exception.text, facts->terminate.text,
                           facts->fatal.text};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        for (size_t k = 0; k < sizeof parts / sizeof parts[0]; k++)
            if (strstr(texts[i], parts[k]) != NULL)
                return texts[i];
    return NULL;
}

static bool is_full(uint64_t room, uint64_t size)
{
    return room < 4096 * 16 || room < size / 200;
}

/* True if the free room was less than 16 pages (64 KiB). */
static bool is_without_room(uint64_t room)
{
    return room < 4096 * 16;
}

/* True if only a lack of room explains the message. For example, a message about a missing file in /dev/shm has another
 * reason. */
static bool is_about_room(const char *words)
{
    static const char *const parts[] = {"out of shared memory", "insufficient shared memory", "unable to write to file",
                                        "signal: Bus error", "No space left"};
    for (size_t i = 0; words != NULL && i < sizeof parts / sizeof parts[0]; i++)
        if (strstr(words, parts[i]) != NULL)
            return true;
    return false;
}

static gw_certainty judge(const gwi_case *c, gwi_finding *finding)
{
    const gw_model *model = c->model;
    const char *words = words_of(&model->stderr_facts);
    const gw_series *room = gw_machine_known(model, GW_METRIC_SHM_FREE, GW_NO_DEVICE, 0);
    const gw_series *size = gw_machine_known(model, GW_METRIC_SHM_TOTAL, GW_NO_DEVICE, 0);
    /* Python reports a full file system with this message, which does not name the file system. */
    bool no_space = strstr(model->stderr_facts.exception.text, "No space left on device") != NULL;
    gwi_bus bus = gwi_bus_of(c);
    bool died_otherwise = bus == GWI_BUS_FILE || bus == GWI_BUS_MEMORY || bus == GWI_BUS_OTHER;
    bool died = (c->signal == BUS || c->exit_code == 128 + BUS) && !died_otherwise;
    char bytes[GW_BYTES_TEXT_MAX], all[GW_BYTES_TEXT_MAX];
    if (!c->ended || !c->bad_end || (!died && words == NULL && !no_space))
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
    if (no_space && !died && words == NULL && !was_full)
        return GW_CERTAINTY_NONE;
    if (!was_short && !(is_small && words != NULL) && words == NULL && bus != GWI_BUS_SHM)
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
    if (words != NULL)
        gwi_evidence(finding, GWI_NO_TIME, "stderr", "%s", words);
    gwi_rule_out_gpu(c, finding, "no driver call failed");
    if (c->sticky != NULL || c->oom != NULL || (!died && words == NULL))
        return GW_HYPOTHESIS;
    bool by_death = died && (bus == GWI_BUS_SHM || became_full);
    if (c->root == NULL && ((is_without && by_death) || (is_full_now && is_about_room(words))))
        return GW_ESTABLISHED;
    return was_full || (was_short && (words != NULL || bus == GWI_BUS_SHM)) || (bus == GWI_BUS_SHM && !known)
               ? GW_SUPPORTED
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
