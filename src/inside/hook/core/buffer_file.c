/* Provides the memory of the process's buffer: a mapped file in the run folder. This process creates the file, or the
 * supervisor creates it and sends a descriptor.
 *
 * A seccomp filter may kill the program for a forbidden system call. So while a filter is active, this file uses only
 * open, read, write, mmap, close and, after a failure, unlink. */
#include "gw_handout.h"
#include "gwi_hook.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

bool gwi_read_small_file(const char *path, char *out, size_t out_bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    size_t done = 0;
    ssize_t n;
    while (done + 1 < out_bytes && (n = read(fd, out + done, out_bytes - 1 - done)) > 0)
        done += (size_t)n;
    close(fd);
    out[done] = '\0';
    return done > 0;
}

/* Return a limit of this process, UINT64_MAX if there is none, or if it cannot be read. `line` is the line's name in
 * /proc/self/limits. */
static uint64_t limit_of(const char *line, int resource, bool is_filtered)
{
    char limits[4096];
    struct rlimit limit;
    if (gwi_read_small_file("/proc/self/limits", limits, sizeof limits)) {
        const char *soft = strstr(limits, line);
        if (soft != NULL)
            soft += strlen(line) + strspn(soft + strlen(line), " ");
        return soft == NULL || *soft == 'u' ? UINT64_MAX : strtoull(soft, NULL, 10); /* 'u' of "unlimited" */
    }
    bool is_read = !is_filtered && getrlimit((__rlimit_resource_t)resource, &limit) == 0;
    return is_read && limit.rlim_cur != RLIM_INFINITY ? limit.rlim_cur : UINT64_MAX;
}

/* True if RLIMIT_FSIZE allows a file of the buffer's size. A write beyond the limit would fail, and the kernel would
 * send SIGXFSZ. */
static bool file_size_allowed(bool is_filtered)
{
    return limit_of("\nMax file size", RLIMIT_FSIZE, is_filtered) >= GW_BUFFER_BYTES;
}

/* True if RLIMIT_AS leaves so much address space that the program will not miss what recording takes: the buffer, and
 * about as much for call sites. */
static bool address_space_allowed(bool is_filtered)
{
    static const uint64_t room_bytes_least = (uint64_t)64 * GW_BUFFER_BYTES;
    char pages[64];
    uint64_t limit = limit_of("\nMax address space", RLIMIT_AS, is_filtered);
    if (limit == UINT64_MAX || !gwi_read_small_file("/proc/self/statm", pages, sizeof pages))
        return limit == UINT64_MAX;
    uint64_t used = strtoull(pages, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
    return limit > used && limit - used >= room_bytes_least;
}

static bool write_zeros(int fd)
{
    static const char zeros[16 << 10];
    for (size_t done = 0; done < GW_BUFFER_BYTES;) {
        ssize_t written = write(fd, zeros, sizeof zeros);
        if (written <= 0 && errno != EINTR)
            return false;
        done += written > 0 ? (size_t)written : 0;
    }
    return true;
}

/* Reserve space for the whole file now. If the file system became full later, a write to the mapped memory would kill
 * the program with SIGBUS. */
static bool reserve(int fd, bool is_filtered)
{
    int refused = EPERM;
    while (!is_filtered && (refused = posix_fallocate(fd, 0, GW_BUFFER_BYTES)) == EINTR)
        ;
    return refused == 0 || ((refused == EPERM || refused == ENOSYS) && write_zeros(fd));
}

static void *map(int fd)
{
    void *map = mmap(NULL, GW_BUFFER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    return map == MAP_FAILED ? NULL : map;
}

int gwi_run_file_open(const char *name, int flags)
{
    struct stat info;
    int folder = open(gwi.run_dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0)
        return -1;
    bool is_ours = gwi_calls_are_filtered() || (syscall(SYS_newfstatat, folder, "", &info, AT_EMPTY_PATH) == 0 &&
                                                info.st_uid == geteuid() && (info.st_mode & (S_IWGRP | S_IWOTH)) == 0);
    int fd = is_ours ? openat(folder, name, flags | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600) : -1;
    close(folder);
    return fd;
}

static void *map_new_file(bool is_filtered)
{
    char path[sizeof gwi.run_dir + 64];
    snprintf(path, sizeof path, "%s/%ld-%llx.buf", gwi.run_dir, (long)getpid(), (unsigned long long)gwi_ticks());
    int fd = gwi_run_file_open(strrchr(path, '/') + 1, O_CREAT | O_EXCL);
    if (fd < 0)
        return NULL;
    void *memory = reserve(fd, is_filtered) ? map(fd) : NULL;
    if (memory == NULL)
        unlink(path);
    close(fd);
    return memory;
}

/* ---- from the supervisor ---- */

/* Connect to the supervisor. The socket has its own address, so that the supervisor can answer. The supervisor may be
 * stopped, so send and receive time out after 1 s. */
static int connect_to_supervisor(const char *name)
{
    struct sockaddr_un own = {.sun_family = AF_UNIX}, to = {.sun_family = AF_UNIX};
    struct timeval patience = {.tv_sec = 1};
    int length =
        snprintf(to.sun_path + 1, sizeof to.sun_path - 1, GW_HANDOUT_NAME "%.*s", (int)GW_HANDOUT_DIGITS, name);
    socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (bind(fd, (struct sockaddr *)&own, sizeof own.sun_family) == 0 &&
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0 &&
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) == 0 &&
        connect(fd, (struct sockaddr *)&to, bytes) == 0)
        return fd;
    close(fd);
    return -1;
}

static int receive_descriptor(int socket)
{
    char control[CMSG_SPACE(sizeof(int))] = {0}, nothing;
    struct iovec one = {&nothing, 1};
    struct msghdr message = {
        .msg_iov = &one, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    int fd = -1;
    if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) < 0)
        return -1;
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    if (head != NULL && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS &&
        head->cmsg_len == CMSG_LEN(sizeof fd))
        memcpy(&fd, CMSG_DATA(head), sizeof fd);
    return fd;
}

static void *map_handed_file(void)
{
    const char *variable = getenv(GW_HANDOUT_VARIABLE);
    gw_handout_request request = {.magic = GW_HANDOUT_MAGIC};
    if (variable == NULL || strlen(variable) != GW_HANDOUT_TEXT - 1 || variable[GW_HANDOUT_DIGITS] != ':')
        return NULL;
    memcpy(request.token, variable + GW_HANDOUT_DIGITS + 1, sizeof request.token);
    int socket = connect_to_supervisor(variable);
    if (socket < 0)
        return NULL;
    int fd = send(socket, &request, sizeof request, MSG_NOSIGNAL) == (ssize_t)sizeof request
                 ? receive_descriptor(socket)
                 : -1;
    close(socket);
    if (fd < 0)
        return NULL;
    void *memory = map(fd);
    close(fd);
    return memory;
}

void *gwi_buffer_memory(void)
{
    gwi_filters_begin();
    bool is_filtered = gwi_calls_are_filtered();
    if (!address_space_allowed(is_filtered))
        return NULL;
    void *memory = file_size_allowed(is_filtered) ? map_new_file(is_filtered) : NULL;
    return memory == NULL && !is_filtered ? map_handed_file() : memory;
}
