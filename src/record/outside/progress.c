/* Reads what a process has done until now: processor time, input and output, files, and TCP connections. */
#define _GNU_SOURCE
#include "gwi_outside.h"

#include "gw_array.h"
#include "gw_clock.h"
#include "gw_process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void gwi_sample_take(uint32_t pid, gw_outside_sample *ret)
{
    *ret = (gw_outside_sample){.t_ns = gw_monotonic_ns()};
    ret->cpu_known = gw_stacks_cpu_ms(pid, &ret->cpu_ms);
    ret->io_known = gw_process_io((int)pid, &ret->read_bytes, &ret->written_bytes);
}

/* ---- open files ---- */

static bool is_written(uint32_t pid, int fd)
{
    char text[256];
    unsigned flags = 0;
    gw_read_small(text, sizeof text, NULL, "/proc/%u/fdinfo/%d", pid, fd);
    const char *line = strstr(text, "flags:");
    return line != NULL && sscanf(line, "flags: %o", &flags) == 1 && (flags & O_ACCMODE) != O_RDONLY;
}

/* Add a file that the process writes. Memory that is shared as a file is no output. */
static bool take_output(void *user, int fd, const char *target)
{
    gw_outside *process = user;
    char path[64];
    struct stat info;
    snprintf(path, sizeof path, "/proc/%u/fd/%d", process->pid, fd);
    bool is_standard = fd == STDOUT_FILENO || fd == STDERR_FILENO;
    if (stat(path, &info) != 0 || (!S_ISREG(info.st_mode) && !is_standard) || !is_written(process->pid, fd) ||
        gw_begins(target, "/dev/shm/") || gw_begins(target, "/memfd:") || gw_begins(target, "/dev/null"))
        return true;
    for (size_t i = 0; i < process->output_count; i++) {
        gw_outside_output *other = &process->output[i];
        if (other->device == info.st_dev && other->inode == info.st_ino)
            return true;
    }
    gw_outside_output *output = &process->output[process->output_count++];
    *output = (gw_outside_output){.fd = fd,
                                  .is_file = S_ISREG(info.st_mode),
                                  .device = info.st_dev,
                                  .inode = info.st_ino,
                                  .bytes = (uint64_t)info.st_size,
                                  .written_realtime_s = (uint64_t)info.st_mtime};
    gwi_file_text(process->pid, fd, output->path, sizeof output->path);
    return process->output_count < GW_OUTSIDE_OUTPUTS_MAX;
}

void gwi_outputs_find(gw_outside *process)
{
    process->output_count = 0;
    gw_process_files((int)process->pid, take_output, process);
}

void gwi_outputs_compare(gw_outside *process)
{
    gw_outside_output before[GW_OUTSIDE_OUTPUTS_MAX];
    size_t count = process->output_count;
    memcpy(before, process->output, sizeof before);
    gwi_outputs_find(process);
    for (size_t i = 0; i < process->output_count; i++) {
        gw_outside_output *now = &process->output[i];
        for (size_t k = 0; k < count; k++) {
            const gw_outside_output *old = &before[k];
            if (old->device == now->device && old->inode == now->inode && now->bytes > old->bytes)
                now->grew_bytes = now->bytes - old->bytes;
        }
    }
}

/* ---- connections ---- */

typedef struct connection { /* a line of /proc/PID/net/tcp */
    unsigned state;
    uint64_t unsent_bytes, unread_bytes, inode;
    char peer[64];
} connection;

enum { ESTABLISHED = 1 }; /* TCP_ESTABLISHED of the kernel's net/tcp_states.h */

/* Format "0100007F:1F90" as "127.0.0.1:8080". The kernel prints the address in words of its own byte order. */
static bool peer_text(const char *hex, char out[64])
{
    char digits[40], host[INET6_ADDRSTRLEN];
    unsigned port;
    uint32_t word[4] = {0};
    if (sscanf(hex, "%39[0-9A-F]:%x", digits, &port) != 2)
        return false;
    size_t words = strlen(digits) / 8;
    for (size_t i = 0; i < words && i < 4; i++)
        sscanf(digits + 8 * i, "%8x", &word[i]);
    if (inet_ntop(words == 1 ? AF_INET : AF_INET6, word, host, sizeof host) == NULL)
        return false;
    snprintf(out, 64, words == 1 ? "%s:%u" : "[%s]:%u", host, port);
    return true;
}

static bool read_connection(const char *line, connection *ret)
{
    char remote[64];
    return sscanf(line, " %*d: %*s %63s %x %" SCNx64 ":%" SCNx64 " %*s %*s %*u %*u %" SCNu64, remote, &ret->state,
                  &ret->unsent_bytes, &ret->unread_bytes, &ret->inode) == 5 &&
           peer_text(remote, ret->peer);
}

/* Call `see` for each TCP connection in the process's network namespace. */
static bool each_connection(uint32_t pid, void (*see)(void *user, const connection *one), void *user)
{
    static const char *const files[] = {"tcp", "tcp6"};
    bool any = false;
    for (size_t i = 0; i < 2; i++) {
        char path[64], line[512];
        connection one;
        snprintf(path, sizeof path, "/proc/%u/net/%s", pid, files[i]);
        FILE *file = fopen(path, "re");
        any = any || file != NULL;
        while (file != NULL && fgets(line, sizeof line, file) != NULL)
            if (read_connection(line, &one))
                see(user, &one);
        if (file != NULL)
            fclose(file);
    }
    return any;
}

typedef struct sockets { /* the inodes of the process's sockets */
    uint64_t *inode;     /* owned */
    size_t count, capacity;
    gw_outside_network *network;
    uint64_t longest_bytes;
} sockets;

static bool take_socket(void *user, int fd, const char *target)
{
    sockets *it = user;
    uint64_t inode;
    (void)fd;
    if (sscanf(target, "socket:[%" SCNu64 "]", &inode) == 1 &&
        gw_array_room(&it->inode, it->count, &it->capacity, sizeof *it->inode))
        it->inode[it->count++] = inode;
    return true;
}

static void add_connection(void *user, const connection *one)
{
    sockets *it = user;
    bool is_ours = false;
    for (size_t i = 0; i < it->count && !is_ours; i++)
        is_ours = it->inode[i] == one->inode;
    if (!is_ours || one->state != ESTABLISHED)
        return;
    it->network->connections++;
    it->network->unread_bytes += one->unread_bytes;
    it->network->unsent_bytes += one->unsent_bytes;
    uint64_t queue_bytes = one->unread_bytes + one->unsent_bytes;
    if (queue_bytes <= it->longest_bytes)
        return;
    it->longest_bytes = queue_bytes;
    snprintf(it->network->peer, sizeof it->network->peer, "%s", one->peer);
}

void gwi_network_read(gw_outside *process)
{
    sockets it = {.network = &process->network};
    process->network = (gw_outside_network){.is_known = gw_process_files((int)process->pid, take_socket, &it)};
    if (it.count > 0)
        process->network.is_known = each_connection(process->pid, add_connection, &it);
    free(it.inode);
}

/* ---- what a file is ---- */

static void find_peer(void *user, const connection *one)
{
    connection *it = user;
    if (one->inode == it->inode)
        *it = *one;
}

void gwi_file_text(uint32_t pid, int fd, char *out, size_t room)
{
    char path[64], target[256];
    connection socket = {.state = 0};
    snprintf(path, sizeof path, "/proc/%u/fd/%d", pid, fd);
    ssize_t bytes = readlink(path, target, sizeof target - 1);
    out[0] = '\0';
    if (bytes <= 0)
        return;
    target[bytes] = '\0';
    if (sscanf(target, "socket:[%" SCNu64 "]", &socket.inode) == 1) {
        each_connection(pid, find_peer, &socket);
        if (socket.state == ESTABLISHED)
            snprintf(out, room, "the connection to %s", socket.peer);
        else
            snprintf(out, room, "a socket");
    } else if (gw_begins(target, "pipe:"))
        snprintf(out, room, "a pipe");
    else if (gw_begins(target, "/dev/pts/") || gw_begins(target, "/dev/tty"))
        snprintf(out, room, "the terminal %s", target);
    else if (strcmp(target, "anon_inode:[eventpoll]") != 0)
        snprintf(out, room, "%s", target);
}
