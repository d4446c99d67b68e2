/* Asks NCCL's RAS how far the ranks are (gw_ras_ask.h). Commands are lines; RAS answers all but the last one with a
 * line, and closes the connection after the report. */
#include "gw_ras_ask.h"

#include "gw_clock.h"
#include "gw_fact.h"
#include "gw_own.h"
#include "gw_process.h"
#include "gw_rank.h"
#include "gw_text.h"
#include "gwi_run.h"
#include "gwi_still.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ASKERS = 4, PORT_STANDARD = 28028, ANSWER_BYTES_MAX = 64000 };
static const uint64_t ask_for_ns = 2000000000u;
/* between two answers, which are compared: equal ones show that the ranks are stuck */
static const uint64_t between_ns = 300000000u;

static const char *const commands[] = {"TIMEOUT 1\n", "SET FORMAT json\n", "VERBOSE STATUS\n"};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

typedef struct asker {
    int fd;       /* -1: closed */
    int step;     /* number of commands that were sent */
    gw_text read; /* the present answer */
} asker;

/* ---- where to ask ---- */

/* True if a thread of the process is RAS's. */
static bool has_ras(uint32_t pid)
{
    char path[64], name[32];
    bool found = false;
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/task", pid);
    DIR *tasks = opendir(path);
    for (struct dirent *entry; tasks != NULL && !found && (entry = readdir(tasks)) != NULL;)
        found = entry->d_name[0] != '.' &&
                gw_read_small(name, sizeof name, NULL, "/proc/%" PRIu32 "/task/%s/comm", pid, entry->d_name) > 0 &&
                gw_begins(name, "NCCL RAS");
    if (tasks != NULL)
        closedir(tasks);
    return found;
}

/* Find the address at which the process's RAS listens. Returns false if it is on another machine. */
static bool address_of(uint32_t pid, struct sockaddr_in *ret_address)
{
    static char environment[1 << 16];
    ssize_t bytes = gw_read_small(environment, sizeof environment, NULL, "/proc/%" PRIu32 "/environ", pid);
    const char *text = bytes <= 0 ? NULL : gw_environment_value(environment, (size_t)bytes, "NCCL_RAS_ADDR");
    const char *colon = text == NULL ? NULL : strrchr(text, ':');
    char host[64] = "127.0.0.1";
    unsigned long port = PORT_STANDARD;
    if (colon != NULL) {
        snprintf(host, sizeof host, "%.*s", (int)(colon - text), text);
        port = strtoul(colon + 1, NULL, 10);
    }
    if (strcmp(host, "localhost") == 0)
        snprintf(host, sizeof host, "127.0.0.1");
    *ret_address = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    return (text == NULL || colon != NULL) && port > 0 && port <= UINT16_MAX && gw_begins(host, "127.") &&
           inet_pton(AF_INET, host, &ret_address->sin_addr) == 1;
}

/* True if another user listens at this port, who could answer anything. False, too, if the kernel does not list its
 * sockets. */
static bool is_of_another(uint32_t pid, const struct sockaddr_in *address)
{
    gwi_sockets all;
    bool found = false;
    (void)gwi_sockets_read(&all);
    for (size_t i = 0; i < all.count; i++)
        found = found || (all.item[i].is_listening && all.item[i].local.port == address->sin_port &&
                          !gw_process_is_of(all.item[i].user, (int)pid) && !gw_own_is_root(all.item[i].user));
    gwi_sockets_free(&all);
    return found;
}

/* ---- one answer ---- */

static void asker_close(asker *it)
{
    if (it->fd >= 0)
        close(it->fd);
    it->fd = -1;
}

static void asker_open(asker *it, const struct sockaddr_in *address)
{
    *it = (asker){.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    if (it->fd >= 0 && connect(it->fd, (const struct sockaddr *)address, sizeof *address) != 0 && errno != EINPROGRESS)
        asker_close(it);
}

static void send_next(asker *it)
{
    size_t bytes = strlen(commands[it->step]);
    if (send(it->fd, commands[it->step], bytes, MSG_NOSIGNAL) != (ssize_t)bytes)
        asker_close(it);
    it->step++;
    gw_text_clear(&it->read);
}

/* Read what there is. Returns true if the report is complete. */
static bool read_some(asker *it)
{
    char part[4096];
    ssize_t bytes = recv(it->fd, part, sizeof part, 0);
    if (bytes < 0)
        return errno == EAGAIN || errno == EINTR ? false : (asker_close(it), false);
    gw_text_add(&it->read, part, (size_t)bytes);
    if (it->read.failed || it->read.bytes > ANSWER_BYTES_MAX ||
        (bytes == 0 && (it->step < COMMANDS || it->read.bytes == 0))) {
        asker_close(it);
        return false;
    }
    if (it->step < COMMANDS && it->read.bytes > 0 && it->read.data[it->read.bytes - 1] == '\n')
        send_next(it);
    return bytes == 0;
}

/* Go on with all connections for up to 50 ms. Returns the first one with a whole report, or NULL. */
static asker *step_all(asker *all, bool *ret_any)
{
    struct pollfd wait[ASKERS];
    *ret_any = false;
    for (int i = 0; i < ASKERS; i++) {
        wait[i] = (struct pollfd){.fd = all[i].fd, .events = all[i].step == 0 ? POLLOUT : POLLIN};
        *ret_any = *ret_any || all[i].fd >= 0;
    }
    if (!*ret_any || poll(wait, ASKERS, 50) <= 0)
        return NULL;
    for (int i = 0; i < ASKERS; i++) {
        if (all[i].fd < 0 || wait[i].revents == 0)
            continue;
        if (all[i].step == 0)
            send_next(&all[i]);
        else if (read_some(&all[i]))
            return &all[i];
    }
    return NULL;
}

/* Those who ask, and of whom. */
typedef struct asking {
    const uint32_t *pid;
    size_t pid_count;
    void (*meanwhile)(void *user);
    void *user;
    uint64_t end_ns; /* of the monotonic clock */
} asking;

static void go_on_meanwhile(const asking *it)
{
    if (it->meanwhile != NULL)
        it->meanwhile(it->user);
}

/* True if the answer names one of the processes: as "process 4711 " in text, as "pid": 4711 in JSON. */
static bool names_us(const asking *it, const char *answer)
{
    for (size_t i = 0; i < it->pid_count; i++) {
        char text[40], json[40];
        snprintf(text, sizeof text, "process %" PRIu32 " ", it->pid[i]);
        snprintf(json, sizeof json, "\"pid\": %" PRIu32 ",", it->pid[i]);
        if (strstr(answer, text) != NULL || strstr(answer, json) != NULL)
            return true;
    }
    return false;
}

/* Ask once. Returns true if there is an answer. */
static bool ask_once(const asking *it, const struct sockaddr_in *address, gw_text *ret_answer)
{
    asker all[ASKERS];
    bool any = true, is_ours = false;
    for (int i = 0; i < ASKERS; i++)
        asker_open(&all[i], address);
    while (any && !is_ours && gw_monotonic_ns() < it->end_ns) {
        asker *done = step_all(all, &any);
        go_on_meanwhile(it);
        if (done == NULL)
            continue;
        is_ours = names_us(it, gw_text_str(&done->read));
        if (is_ours)
            gw_text_add_str(ret_answer, gw_text_str(&done->read));
        asker_close(done);
    }
    for (int i = 0; i < ASKERS; i++) {
        asker_close(&all[i]);
        gw_text_free(&all[i].read);
    }
    return is_ours;
}

int gw_ras_ask(const uint32_t *pid, size_t pid_count, void (*meanwhile)(void *user), void *user,
               gw_text ret_answer[GW_RAS_ANSWERS])
{
    struct sockaddr_in address;
    const asking it = {pid, pid_count, meanwhile, user, gw_monotonic_ns() + ask_for_ns};
    bool found = false;
    for (size_t i = 0; i < pid_count && !found; i++)
        found = has_ras(pid[i]) && address_of(pid[i], &address) && !is_of_another(pid[i], &address);
    if (!found)
        return -1;
    if (!ask_once(&it, &address, &ret_answer[0]))
        return 0;
    for (uint64_t again_ns = gw_monotonic_ns() + between_ns; gw_monotonic_ns() < again_ns; go_on_meanwhile(&it))
        poll(NULL, 0, 50);
    return ask_once(&it, &address, &ret_answer[1]) ? 2 : 1;
}

/* ---- the question of a run ---- */

static void drain_meanwhile(void *user)
{
    gwi_record_drain(user, false);
}

void gwi_ras_ask(gwi_hangs *hangs, gwi_record *record)
{
    uint32_t pid[GW_HANG_PROCESSES_MAX];
    gw_text answer[GW_RAS_ANSWERS] = {0};
    for (size_t i = 0; i < hangs->watch.process_count; i++)
        pid[i] = hangs->watch.process[i].pid;
    int count = hangs->ras_is_asked ? -1 : gw_ras_ask(pid, hangs->watch.process_count, drain_meanwhile, record, answer);
    hangs->ras_is_asked = hangs->ras_is_asked || count >= 0;
    for (int i = 0; i < GW_RAS_ANSWERS; i++) {
        gw_item item = {.kind = GW_ITEM_SUPERVISOR, .t_ns = gwi_record_now_ns(record)};
        item.pair.key = gw_fact_key_text(GW_FACT_NCCL_RAS);
        item.pair.value = gw_text_str(&answer[i]);
        if (i < count)
            gwi_record_put(record, &item);
        gw_text_free(&answer[i]);
    }
}
