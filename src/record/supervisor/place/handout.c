/* Creates buffers for processes that cannot create their own, and sends them as file descriptors (gw_handout.h). */
#include "gw_run_shared.h"
#include "gw_say.h"
#include "gw_virt_state.h"
#include "gwi_run.h"
#include "gwi_state.h"

#include "gw_buffer.h"
#include "gw_clock.h"
#include "gw_filter.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Creates the file that the processes of a run share, and lets virtual cards be lost. */

void gwi_shared_file_make(gwi_shared_file *shared, const gw_run_options *options, const char *run_folder)
{
    gw_path path;
    if ((!options->memory_shared && options->inject == NULL) || run_folder[0] == '\0' ||
        gw_path_format(path, NULL, "%s/" GW_RUN_SHARED_NAME, run_folder) != GW_OK)
        return;
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    int failed = fd < 0 ? errno : posix_fallocate(fd, 0, sizeof(gw_run_shared));
    if (failed == 0) {
        void *map = mmap(NULL, sizeof(gw_run_shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        shared->map = map == MAP_FAILED ? NULL : map;
    } else {
        gw_say("%s: %s; processes cannot share a limit or be numbered", path, strerror(failed));
        if (fd >= 0)
            unlink(path);
    }
    if (fd >= 0)
        close(fd);
}

void gwi_shared_file_look(gwi_shared_file *shared, const gwi_doors *doors)
{
    if (shared->map == NULL || doors->virtual_folder[0] == '\0')
        return;
    uint32_t lost = atomic_load(&shared->map->lost_devices) & ~shared->lost_devices;
    for (unsigned device = 0; device < 32 && lost >> device != 0; device++) {
        gw_error err;
        if ((lost >> device & 1) == 0)
            continue;
        if (gw_virt_state_lose(doors->virtual_folder, device, &err) != GW_OK)
            gw_say("--inject: %s", err.text);
        shared->lost_devices |= 1u << device;
    }
}

void gwi_shared_file_close(gwi_shared_file *shared)
{
    if (shared->map != NULL)
        munmap(shared->map, sizeof *shared->map);
    shared->map = NULL;
}

enum { HANDED_MAX = 512 }; /* limit on the buffers of a run; watch.c examines at most this many processes, too */

static bool fill_random(char *hex, size_t digits)
{
    unsigned char bytes[GW_HANDOUT_DIGITS / 2];
    if (getrandom(bytes, digits / 2, GRND_NONBLOCK) != (ssize_t)(digits / 2))
        return false;
    for (size_t i = 0; i < digits / 2; i++)
        snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
    return true;
}

void gwi_handout_begin(gwi_handout *handout, const char *run_folder)
{
    *handout = (gwi_handout){.fd = -1};
    char name[GW_HANDOUT_DIGITS + 1], token[GW_HANDOUT_DIGITS + 1];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int on = 1;
    if (run_folder[0] == '\0' || !gw_rare_calls_are_safe() || !fill_random(name, GW_HANDOUT_DIGITS) ||
        !fill_random(token, GW_HANDOUT_DIGITS))
        return;
    int length = snprintf(address.sun_path + 1, sizeof address.sun_path - 1, GW_HANDOUT_NAME "%s", name);
    socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return;
    if (bind(fd, (struct sockaddr *)&address, bytes) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0) {
        close(fd);
        return;
    }
    handout->fd = fd;
    handout->run_folder = run_folder;
    snprintf(handout->text, sizeof handout->text, "%s:%s", name, token);
}

static int create_buffer(const gwi_handout *handout, pid_t pid)
{
    gw_path path;
    int refused;
    if (gw_path_format(path, NULL, "%s/%d-%llx.buf", handout->run_folder, (int)pid,
                       (unsigned long long)gw_monotonic_ns()) != GW_OK)
        return -1;
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -1;
    while ((refused = posix_fallocate(fd, 0, GW_BUFFER_BYTES)) == EINTR)
        ;
    if (refused == 0)
        return fd;
    unlink(path);
    close(fd);
    return -1;
}

static void answer(const gwi_handout *handout, const struct sockaddr_un *to, socklen_t to_bytes, int fd)
{
    char control[CMSG_SPACE(sizeof fd)] = {0}, nothing = 0;
    struct iovec one = {&nothing, 1};
    struct msghdr message = {.msg_name = (void *)(uintptr_t)to,
                             .msg_namelen = to_bytes,
                             .msg_iov = &one,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
    ssize_t ignored = sendmsg(handout->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)ignored; /* if sending fails, the process no longer waits for the buffer */
}

/* Return the pid of a message's sender, as reported by the kernel; 0 if it is not in the message. */
static pid_t sender(struct msghdr *message)
{
    struct ucred who = {0};
    for (struct cmsghdr *head = CMSG_FIRSTHDR(message); head != NULL; head = CMSG_NXTHDR(message, head))
        if (head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_CREDENTIALS)
            memcpy(&who, CMSG_DATA(head), sizeof who);
    return who.pid;
}

void gwi_handout_look(gwi_handout *handout)
{
    gw_handout_request request;
    struct sockaddr_un from;
    char control[256];
    struct iovec one = {&request, sizeof request};
    while (handout->fd >= 0) {
        struct msghdr message = {.msg_name = &from,
                                 .msg_namelen = sizeof from,
                                 .msg_iov = &one,
                                 .msg_iovlen = 1,
                                 .msg_control = control,
                                 .msg_controllen = sizeof control};
        ssize_t got = recvmsg(handout->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (got < 0)
            return;
        pid_t pid = sender(&message);
        if (got != sizeof request || memcmp(request.magic, GW_HANDOUT_MAGIC, sizeof request.magic) != 0 ||
            memcmp(request.token, handout->text + GW_HANDOUT_DIGITS + 1, sizeof request.token) != 0 || pid <= 0 ||
            handout->handed >= HANDED_MAX)
            continue;
        int fd = create_buffer(handout, pid);
        if (fd < 0)
            continue;
        handout->handed++;
        answer(handout, &from, message.msg_namelen, fd);
        close(fd);
    }
}

void gwi_handout_end(gwi_handout *handout)
{
    if (handout->fd >= 0)
        close(handout->fd);
    handout->fd = -1;
}
