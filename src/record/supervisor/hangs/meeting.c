/* Finds ranks that wait until all ranks of the job have come, before they are connected with each other: as in
 * init_process_group() of PyTorch. They exchange their addresses in a store that one of them or the launcher serves. A
 * rank waits for an answer of the store, or asks it again and again, which moves bytes and takes processor time. So
 * such ranks do not stand still in the sense of still_job.c.
 *
 * The ranks are candidates if, for the whole time:
 * - no rank was started or ended, read or wrote a file, used the driver, or used more than a tenth of a processor. A
 *   rank that serves the store may use read() and write() for it (PyTorch's store does since 2.4, by libuv);
 * - no bytes came or went over connections that leave the run;
 * - ranks are connected with one server of the run at most, the launcher aside;
 * - a rank that is missing cannot be on another machine.
 * A job that works in small steps may look the same, so the judge decides by the stacks (job_hang.c). */
#include "gwi_still.h"

#include "gw_hash.h"
#include "gw_process.h"
#include "gw_rank.h"
#include "gw_stacks.h"

/* Return the owner of the listening socket that made this end of a connection, or NULL. */
static const gwi_owned *server_of(const gwi_owners *all, const gwi_socket *socket)
{
    return gwi_owner_of_port(all, socket->local.port, true);
}

/* Add up the bytes of the connections in which each process answers others of the run. */
static void add_served(const gwi_still_job *job, uint64_t served[GWI_FAMILY_MAX])
{
    for (size_t i = 0; i < job->owners.count; i++) {
        const gwi_owned *one = &job->owners.item[i];
        const gwi_owned *server = one->socket->is_listening ? NULL : server_of(&job->owners, one->socket);
        if (server != NULL && server->process == one->process && gwi_owner_of_peer(&job->owners, one->socket) != NULL)
            served[one->process - job->process] += one->socket->bytes;
    }
}

/* Add up the bytes of connections that leave the run, and find out whether the ranks are connected with at most one
 * server among them, and with any server of the run. */
static void see_connections(const gwi_owners *all, gwi_meeting *now)
{
    uint32_t port = 0;
    bool is_connected = false, is_one = true;
    for (size_t i = 0; i < all->count; i++) {
        const gwi_socket *socket = all->item[i].socket;
        if (socket->is_listening)
            continue;
        if (gwi_owner_of_peer(all, socket) == NULL) {
            now->outside_bytes += socket->bytes;
            continue;
        }
        const gwi_owned *server = server_of(all, socket);
        if (server == NULL)
            continue;
        is_connected = true;
        is_one = is_one && (!server->process->has_rank || port == 0 || port == socket->local.port);
        port = server->process->has_rank ? socket->local.port : port;
    }
    now->is_meeting = is_connected && is_one;
}

/* `elapsed_ms`: since the ranks last moved. */
static gwi_meeting measure(const gwi_still_job *job, uint64_t elapsed_ms)
{
    enum { STEPS_MS = 20, SHARE = 10 };
    uint64_t served[GWI_FAMILY_MAX] = {0};
    gwi_meeting now = {.is_known = job->owners.is_known, .members = GW_HASH_START};
    add_served(job, served);
    for (size_t i = 0; i < job->process_count && now.is_known; i++) {
        const gwi_still_process *process = &job->process[i];
        uint64_t cpu_ms = 0, in = 0, out = 0;
        if (!process->has_rank)
            continue;
        now.is_known = gw_stacks_cpu_ms((uint32_t)process->pid, &cpu_ms) && gw_process_io((int)process->pid, &in, &out);
        now.is_busy = now.is_busy || cpu_ms > process->meeting_cpu_ms + STEPS_MS + elapsed_ms / SHARE;
        now.members =
            gw_hash_mix(gw_hash_mix(now.members, process->start_ticks), process->exe_hash ^ (uint64_t)process->pid);
        now.processes++;
        now.served_bytes += served[i];
        *(served[i] > 0 ? &now.server_io_bytes : &now.io_bytes) += in + out;
    }
    see_connections(&job->owners, &now);
    return now;
}

static bool has_moved(const gwi_meeting *before, const gwi_meeting *now)
{
    /* The sockets are read before the processes: what is answered in between is a few bytes. */
    const uint64_t between_bytes = 4096;
    bool has_written =
        now->io_bytes != before->io_bytes || now->served_bytes < before->served_bytes ||
        now->server_io_bytes < before->server_io_bytes ||
        now->server_io_bytes - before->server_io_bytes > now->served_bytes - before->served_bytes + between_bytes;
    return !before->is_known || !now->is_known || !now->is_meeting || now->is_busy || before->members != now->members ||
           has_written || before->outside_bytes != now->outside_bytes;
}

bool gwi_meeting_look(gwi_still_job *job, uint64_t now_ns, uint64_t driver_ns)
{
    gwi_meeting *meeting = &job->meeting, now = measure(job, (now_ns - meeting->since_ns) / 1000000u);
    bool was_told = meeting->told;
    if (meeting->since_ns != 0 && driver_ns <= meeting->since_ns && !has_moved(meeting, &now))
        return false;
    now.since_ns = now.processes == 0 ? 0 : now_ns;
    now.told_count = meeting->told_count;
    *meeting = now;
    for (size_t i = 0; i < job->process_count; i++)
        (void)!gw_stacks_cpu_ms((uint32_t)job->process[i].pid, &job->process[i].meeting_cpu_ms);
    return was_told;
}

/* True if no rank can be on another machine: the store's address is this machine alone, or the launcher has started all
 * ranks here. */
static bool are_all_here(pid_t pid)
{
    enum { ENVIRONMENT_BYTES = 1 << 17 };
    static char text[ENVIRONMENT_BYTES];
    ssize_t bytes = gw_read_small(text, sizeof text, NULL, "/proc/%d/environ", (int)pid);
    const char *address = bytes <= 0 ? NULL : gw_environment_value(text, (size_t)bytes, "MASTER_ADDR");
    const char *groups = bytes <= 0 ? NULL : gw_environment_value(text, (size_t)bytes, "GROUP_WORLD_SIZE");
    static const char *const own[] = {"localhost", "127.0.0.1", "::1"};
    return (address != NULL && GW_IS_ONE_OF(address, own)) || (groups != NULL && strcmp(groups, "1") == 0);
}

size_t gwi_meeting_ranks(const gwi_still_job *job, uint64_t now_ns, uint64_t after_ns,
                         gwi_still_rank ret_rank[GWI_STILL_RANKS_MAX])
{
    const gwi_meeting *meeting = &job->meeting;
    bool is_due = meeting->is_meeting && meeting->since_ns != 0 && now_ns - meeting->since_ns >= after_ns;
    size_t count = is_due ? gwi_still_list(job, ret_rank) : 0;
    if (count == 0 || (count < ret_rank[0].of && !are_all_here(ret_rank[0].pid)))
        return 0;
    for (size_t i = 0; i < job->process_count; i++)
        for (size_t k = 0; k < count; k++)
            if (ret_rank[k].pid == job->process[i].pid)
                ret_rank[k].cpu_ms = job->process[i].meeting_cpu_ms;
    return count;
}
