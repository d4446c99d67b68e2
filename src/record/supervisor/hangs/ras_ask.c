/* Asks NCCL's RAS how far the ranks are, when a hang is seen.
 *
 * RAS is a thread of each process with NCCL 2.24 or later. It listens on a TCP port, which all processes of a user may
 * share, so a question may reach a stopped process, or one of another job. So several connections ask at once, the
 * first whole answer counts, and an answer without a pid of this run is discarded. Only an address of this machine is
 * asked. All of it takes at most two seconds, in which the buffers are drained.
 *
 * Commands are lines; RAS answers all but the last one with a line, and closes the connection after the report. */
#include "gw_fact.h"
#include "gw_process.h"
#include "gw_rank.h"
#include "gw_text.h"
#include "gwi_run.h"

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
    if (it->read.failed || it->read.bytes > ANSWER_BYTES_MAX || (bytes == 0 && it->step < COMMANDS)) {
        asker_close(it);
        return false;
    }
    if (it->step < COMMANDS && it->read.bytes > 0 && it->read.data[it->read.bytes - 1] == '\n')
        send_next(it);
    return bytes == 0 && it->read.bytes > 0;
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

/* True if the answer names a process of this run: as "process 4711 " in text, as "pid": 4711 in JSON. */
static bool names_us(const gwi_hangs *hangs, const char *answer)
{
    for (size_t i = 0; i < hangs->watch.process_count; i++) {
        char text[40], json[40];
        uint32_t pid = hangs->watch.process[i].pid;
        snprintf(text, sizeof text, "process %" PRIu32 " ", pid);
        snprintf(json, sizeof json, "\"pid\": %" PRIu32 ",", pid);
        if (strstr(answer, text) != NULL || strstr(answer, json) != NULL)
            return true;
    }
    return false;
}

static void put_answer(gwi_record *record, const char *answer)
{
    gw_item item = {.kind = GW_ITEM_SUPERVISOR, .t_ns = gwi_record_now_ns(record)};
    item.pair.key = gw_fact_key_text(GW_FACT_NCCL_RAS);
    item.pair.value = answer;
    gwi_record_put(record, &item);
}

/* Ask once, until `end_ns`. Returns true if an answer was recorded. */
static bool ask_once(gwi_hangs *hangs, gwi_record *record, const struct sockaddr_in *address, uint64_t end_ns)
{
    asker all[ASKERS];
    bool any = true, is_recorded = false;
    for (int i = 0; i < ASKERS; i++)
        asker_open(&all[i], address);
    while (any && !is_recorded && gwi_record_now_ns(record) < end_ns) {
        asker *done = step_all(all, &any);
        gwi_record_drain(record, false);
        if (done == NULL)
            continue;
        is_recorded = names_us(hangs, gw_text_str(&done->read));
        if (is_recorded)
            put_answer(record, gw_text_str(&done->read));
        asker_close(done);
    }
    for (int i = 0; i < ASKERS; i++) {
        asker_close(&all[i]);
        gw_text_free(&all[i].read);
    }
    return is_recorded;
}

void gwi_ras_ask(gwi_hangs *hangs, gwi_record *record)
{
    struct sockaddr_in address;
    uint64_t end_ns = gwi_record_now_ns(record) + ask_for_ns;
    bool found = false;
    for (size_t i = 0; i < hangs->watch.process_count && !found; i++)
        found = has_ras(hangs->watch.process[i].pid) && address_of(hangs->watch.process[i].pid, &address);
    if (!found || hangs->ras_asked++ > 0 || !ask_once(hangs, record, &address, end_ns))
        return;
    for (uint64_t again_ns = gwi_record_now_ns(record) + between_ns; gwi_record_now_ns(record) < again_ns;) {
        poll(NULL, 0, 50);
        gwi_record_drain(record, false);
    }
    (void)ask_once(hangs, record, &address, end_ns);
}
