/* Reads the TCP sockets of this network namespace from the kernel, by netlink (sock_diag). The answer needs no
 * permission, and has what /proc/net/tcp lacks: how many bytes a connection has carried. */
#include "gwi_still.h"

#include "gw_array.h"

#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ESTABLISHED = 1, LISTENING = 10, SOCKETS_MAX = 1 << 16 };

static void take_end(gwi_socket_end *end, uint8_t family, const uint32_t address[4], uint16_t port)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    *end = (gwi_socket_end){.port = port};
    if (family == AF_INET6) {
        memcpy(end->address, address, sizeof end->address);
    } else {
        memcpy(end->address, mapped, sizeof mapped);
        memcpy(end->address + sizeof mapped, address, 4);
    }
}

/* Read the byte counts of a connection. Returns false if the kernel is too old to have them (before 4.1). */
static bool take_bytes(const struct nlmsghdr *head, const struct inet_diag_msg *message, uint64_t *ret_bytes)
{
    unsigned left = head->nlmsg_len - NLMSG_LENGTH(sizeof *message);
    const struct rtattr *attribute = (const struct rtattr *)(const void *)(message + 1);
    for (; RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left)) {
        struct tcp_info info;
        if (attribute->rta_type != INET_DIAG_INFO ||
            RTA_PAYLOAD(attribute) < offsetof(struct tcp_info, tcpi_bytes_received) + sizeof info.tcpi_bytes_received)
            continue;
        memset(&info, 0, sizeof info);
        memcpy(&info, RTA_DATA(attribute), RTA_PAYLOAD(attribute) < sizeof info ? RTA_PAYLOAD(attribute) : sizeof info);
        *ret_bytes = info.tcpi_bytes_acked + info.tcpi_bytes_received;
        return true;
    }
    return false;
}

static bool take_socket(gwi_sockets *sockets, const struct nlmsghdr *head)
{
    const struct inet_diag_msg *message = NLMSG_DATA(head);
    if (head->nlmsg_len < NLMSG_LENGTH(sizeof *message) || sockets->count == SOCKETS_MAX)
        return false;
    gwi_socket found = {
        .inode = message->idiag_inode, .user = message->idiag_uid, .is_listening = message->idiag_state == LISTENING};
    take_end(&found.local, message->idiag_family, message->id.idiag_src, message->id.idiag_sport);
    take_end(&found.remote, message->idiag_family, message->id.idiag_dst, message->id.idiag_dport);
    if (!found.is_listening && !take_bytes(head, message, &found.bytes))
        return false;
    if (!gw_array_room(&sockets->item, sockets->count, &sockets->capacity, sizeof *sockets->item))
        return false;
    sockets->item[sockets->count++] = found;
    return true;
}

static bool ask(int fd, uint8_t family)
{
    const struct {
        struct nlmsghdr head;
        struct inet_diag_req_v2 body;
    } request = {.head = {.nlmsg_len = sizeof request,
                          .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                          .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
                 .body = {.sdiag_family = family,
                          .sdiag_protocol = IPPROTO_TCP,
                          .idiag_ext = 1 << (INET_DIAG_INFO - 1),
                          .idiag_states = 1 << ESTABLISHED | 1 << LISTENING}};
    return send(fd, &request, sizeof request, 0) == (ssize_t)sizeof request;
}

/* Read the answer to one request. Returns false if it is not complete. */
static bool receive(int fd, gwi_sockets *sockets)
{
    static uint64_t room[4096]; /* aligned for the heads of messages */
    for (;;) {
        ssize_t got = recv(fd, room, sizeof room, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        unsigned left = (unsigned)got;
        for (const struct nlmsghdr *head = (const void *)room; NLMSG_OK(head, left); head = NLMSG_NEXT(head, left)) {
            if (head->nlmsg_type == NLMSG_DONE)
                return true;
            if (head->nlmsg_type != SOCK_DIAG_BY_FAMILY || (head->nlmsg_flags & NLM_F_DUMP_INTR) != 0 ||
                !take_socket(sockets, head))
                return false;
        }
    }
}

static int by_inode(const void *left, const void *right)
{
    const gwi_socket *a = left, *b = right;
    return a->inode < b->inode ? -1 : a->inode > b->inode;
}

bool gwi_sockets_read(gwi_sockets *ret_sockets)
{
    static const uint8_t families[] = {AF_INET, AF_INET6};
    *ret_sockets = (gwi_sockets){0};
    int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    const struct timeval patience = {.tv_sec = 1};
    bool good = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0;
    for (size_t i = 0; good && i < sizeof families; i++)
        good = ask(fd, families[i]) && receive(fd, ret_sockets);
    if (fd >= 0)
        close(fd);
    if (!good)
        gwi_sockets_free(ret_sockets);
    else if (ret_sockets->count > 1)
        qsort(ret_sockets->item, ret_sockets->count, sizeof *ret_sockets->item, by_inode);
    return good;
}

void gwi_sockets_free(gwi_sockets *sockets)
{
    free(sockets->item);
    *sockets = (gwi_sockets){0};
}

const gwi_socket *gwi_socket_at(const gwi_sockets *sockets, const char *target)
{
    gwi_socket wanted = {0};
    if (sockets->count == 0 || sscanf(target, "socket:[%u]", &wanted.inode) != 1)
        return NULL;
    return bsearch(&wanted, sockets->item, sockets->count, sizeof wanted, by_inode);
}

const gwi_socket *gwi_socket_of(const gwi_sockets *sockets, pid_t pid, int fd)
{
    char path[64], target[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, fd);
    ssize_t bytes = readlink(path, target, sizeof target - 1);
    target[bytes > 0 ? bytes : 0] = '\0';
    return gwi_socket_at(sockets, target);
}

static int compare_ends(const gwi_socket_end *one, const gwi_socket_end *other)
{
    return one->port != other->port ? one->port - other->port
                                    : memcmp(one->address, other->address, sizeof one->address);
}

int gwi_sockets_compare(const gwi_socket *one, const gwi_socket *other)
{
    if (one->is_listening != other->is_listening)
        return one->is_listening ? -1 : 1;
    int order = compare_ends(&one->local, &other->local);
    return order != 0 ? order : compare_ends(&one->remote, &other->remote);
}
