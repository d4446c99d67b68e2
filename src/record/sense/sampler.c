/* The sampler process: queries NVML and file systems at intervals, and sends the results to the supervisor over a
 * socket. */
#define _GNU_SOURCE
#include "gwi_sampler.h"

#include "gw_clock.h"
#include "gw_fact.h"
#include "gwi_host.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const uint64_t second_ns = 1000000000u;
static const uint64_t fast_ns = 100000000u;
/* All rows of NVML's table (nvml.c) together may use at most 1/SHARE_INVERSE of a processor, so slow rows are read less
 * often. */
enum { SHARE_INVERSE = 250 };

/* Return the number of bytes of the message to send. Unused elements at its end are not sent. */
static size_t message_bytes(const gwi_message *message)
{
    size_t head = offsetof(gwi_message, sample);
    switch (message->kind) {
    case GWI_MESSAGE_SAMPLE:
        return head + message->count * sizeof message->sample[0];
    case GWI_MESSAGE_HOLDERS:
        return head + message->count * sizeof message->holder[0];
    case GWI_MESSAGE_DONE:
        return head;
    default:
        return head + strnlen(message->text, sizeof message->text - 1) + 1;
    }
}

/* ---- inside the process ---- */

typedef struct cell { /* when to read one row of one card, and how long this takes on average */
    uint64_t due_ns, cost_ns;
} cell;

typedef struct worker {
    int fd;
    gwi_nvml *nvml; /* NULL: NVML is not used */
    cell *cell;     /* all rows of card 0, then all rows of card 1, ... */
    gwi_values *card;
    gwi_values disk;
    uint64_t disk_due_ns;
    uint64_t fast_until_ns;
} worker;

static void send_message(int fd, const gwi_message *message)
{
    if (send(fd, message, message_bytes(message), MSG_NOSIGNAL) < 0 && errno != EAGAIN)
        _exit(0); /* the supervisor has closed its end of the socket */
}

static void tell_fact(int fd, const char *key, const char *value)
{
    gwi_message message = {.kind = GWI_MESSAGE_FACT, .t_monotonic_ns = gw_monotonic_ns()};
    snprintf(message.text, sizeof message.text, "%s=%.*s", key, GWI_SAMPLER_TEXT_MAX - 64, value);
    send_message(fd, &message);
}

static void tell_values(const worker *s, gwi_values *values, gw_source source, uint32_t card, bool whole)
{
    uint64_t now = gw_monotonic_ns();
    gwi_message message = {.kind = GWI_MESSAGE_SAMPLE, .source = (uint8_t)source, .card = card, .t_monotonic_ns = now};
    message.count = gwi_values_take(values, now, whole, message.sample, &message.whole);
    if (message.count > 0)
        send_message(s->fd, &message);
}

/* ---- file systems ---- */

static void read_disk(gwi_values *values, const char *path, gw_metric bytes_free, gw_metric files_free)
{
    struct statvfs info = {0};
    bool known = statvfs(path, &info) == 0;
    int why = errno;
    gwi_values_number(values, bytes_free, known, (uint64_t)info.f_bavail * info.f_frsize, why);
    bool counts = known && info.f_files > 0; /* some file systems have no fixed number of files and report 0 */
    gwi_values_number(values, files_free, counts, info.f_favail, known ? ENOENT : why);
}

static void read_disks(worker *s, bool whole)
{
    const char *tmp = getenv("TMPDIR");
    read_disk(&s->disk, ".", GW_METRIC_DISK_CWD_FREE, GW_METRIC_DISK_CWD_FILES_FREE);
    read_disk(&s->disk, tmp == NULL || tmp[0] == '\0' ? "/tmp" : tmp, GW_METRIC_DISK_TMP_FREE,
              GW_METRIC_DISK_TMP_FILES_FREE);
    tell_values(s, &s->disk, GW_SOURCE_SUPERVISOR, GW_NO_DEVICE, whole);
}

/* ---- cards ---- */

/* Schedule the next read of a row: after its interval, or later if the read is expensive. */
static void schedule(worker *s, cell *c, size_t row, uint64_t began_ns, uint64_t took_ns)
{
    size_t cells = gwi_nvml_row_count() * gwi_nvml_card_count(s->nvml);
    c->cost_ns = c->cost_ns == 0 ? took_ns : (3 * c->cost_ns + took_ns) / 4;
    uint64_t wanted = gwi_nvml_row_interval(row), bearable = c->cost_ns * SHARE_INVERSE * cells;
    if (wanted == 0)
        c->due_ns = UINT64_MAX;
    else
        c->due_ns = began_ns + (bearable > wanted ? bearable : wanted) - fast_ns / 2;
}

/* Read the rows of a card that are due, or all rows if `all`. */
static void read_card(worker *s, uint32_t card, bool all)
{
    gw_sample_value value[GWI_NVML_ROW_METRICS];
    bool fast = gw_monotonic_ns() < s->fast_until_ns;
    for (size_t row = 0; row < gwi_nvml_row_count(); row++) {
        cell *c = &s->cell[card * gwi_nvml_row_count() + row];
        uint64_t began = gw_monotonic_ns();
        bool hurries = fast && gwi_nvml_row_interval(row) != 0 && gwi_nvml_row_interval(row) <= second_ns;
        if (!all && !hurries && began < c->due_ns)
            continue;
        size_t count = gwi_nvml_read(s->nvml, card, row, value);
        schedule(s, c, row, began, gw_monotonic_ns() - began);
        for (size_t i = 0; i < count; i++)
            gwi_values_keep(&s->card[card], (gw_metric)value[i].metric, (gw_sample_state)value[i].state,
                            value[i].value);
    }
}

static void read_cards(worker *s, bool whole)
{
    uint32_t count = s->nvml == NULL ? 0 : gwi_nvml_card_count(s->nvml);
    for (uint32_t card = 0; card < count; card++) {
        read_card(s, card, whole);
        tell_values(s, &s->card[card], GW_SOURCE_NVML, card, whole);
    }
}

static void tell_holders(worker *s)
{
    uint32_t count = s->nvml == NULL ? 0 : gwi_nvml_card_count(s->nvml);
    for (uint32_t card = 0; card < count; card++) {
        gwi_message message = {.kind = GWI_MESSAGE_HOLDERS, .card = card, .t_monotonic_ns = gw_monotonic_ns()};
        size_t found;
        uint8_t state;
        message.whole = gwi_nvml_processes(s->nvml, card, message.holder, &found, &state, &message.value);
        message.count = (uint32_t)found;
        message.code = state;
        send_message(s->fd, &message);
    }
}

/* ---- events ---- */

static void tell_event(int fd, const gwi_nvml_event *event)
{
    gwi_message message = {.kind = GWI_MESSAGE_EVENT,
                           .source = GW_SOURCE_NVML,
                           .card = event->card,
                           .t_monotonic_ns = gw_monotonic_ns(),
                           .code = event->type,
                           .value = event->data};
    const uint64_t xid_type = 8; /* value of NVML's nvmlEventTypeXidCriticalError */
    message.event_kind = GW_MACHINE_CARD_EVENT;
    if (event->is_lost)
        message.event_kind = GW_MACHINE_CARD_LOST;
    else if (event->type == xid_type)
        message.event_kind = GW_MACHINE_XID;
    if (message.event_kind == GW_MACHINE_XID) {
        message.code = event->data;
        message.value = 0;
    }
    send_message(fd, &message);
}

static void *listen_to_events(void *user)
{
    enum { WAIT_MS = 5000, PAUSE_US = 1000000 };
    worker *s = user;
    bool lost = false;
    for (;;) {
        gwi_nvml_event event;
        gwi_nvml_waited waited = gwi_nvml_wait(s->nvml, WAIT_MS, &event);
        if (waited == GWI_NVML_NO_EVENTS)
            return NULL;
        if (waited == GWI_NVML_EVENT && !(event.is_lost && lost))
            tell_event(s->fd, &event);
        if (waited == GWI_NVML_EVENT && event.is_lost) {
            lost = true;
            /* once a card is lost, gwi_nvml_wait() returns at once: pause to avoid a busy loop */
            usleep(PAUSE_US);
        }
    }
}

static void start_listening(worker *s)
{
    gw_error why;
    pthread_t thread;
    if (gwi_nvml_card_count(s->nvml) == 0)
        return;
    if (!gwi_nvml_listen(s->nvml, &why))
        tell_fact(s->fd, "nvml.no_events", why.text);
    else if (pthread_create(&thread, NULL, listen_to_events, s) != 0)
        tell_fact(s->fd, "nvml.no_events", "cannot start a thread");
}

/* ---- the process ---- */

static void open_nvml(worker *s, const gw_sense_options *options, gwi_nvml_progress *progress)
{
    gw_text text = {0};
    gw_error why;
    if (options->nvml_path != NULL && options->nvml_path[0] == '\0') {
        tell_fact(s->fd, "nvml.none", "the virtual cards have no libnvidia-ml.so.1 here");
        return;
    }
    if (gwi_nvml_open(options->nvml_path, progress, &s->nvml, &why) != GW_OK) {
        s->nvml = NULL;
        tell_fact(s->fd, "nvml.none", why.text);
        return;
    }
    uint32_t count = gwi_nvml_card_count(s->nvml);
    s->cell = calloc(count * gwi_nvml_row_count() + 1, sizeof *s->cell);
    s->card = calloc(count + 1, sizeof *s->card);
    if (s->cell == NULL || s->card == NULL)
        _exit(1);
    gwi_nvml_version_text(s->nvml, &text);
    tell_fact(s->fd, gw_fact_key_text(GW_FACT_NVML_VERSION), gw_text_str(&text));
    for (uint32_t card = 0; card < count; card++) {
        gw_text_clear(&text);
        if (gwi_nvml_card_text(s->nvml, card, &text))
            tell_fact(s->fd, gw_fact_key_text(GW_FACT_NVML_CARD), gw_text_str(&text));
    }
    gw_text_free(&text);
    start_listening(s);
}

static void serve(worker *s, const gwi_request *request)
{
    if (request->fast_until_ns > s->fast_until_ns)
        s->fast_until_ns = request->fast_until_ns;
    /* serve this first, because a process with card memory may end at any time */
    if (request->holders)
        tell_holders(s);
    if (request->number == 0)
        return;
    if (!request->is_light) {
        read_cards(s, true);
        read_disks(s, true);
    }
    gwi_message done = {.kind = GWI_MESSAGE_DONE, .code = request->number};
    send_message(s->fd, &done);
}

static _Noreturn void work(worker *s)
{
    for (uint64_t next_ns = gw_monotonic_ns();;) {
        gwi_request request;
        uint64_t now = gw_monotonic_ns();
        if (now >= next_ns) {
            read_cards(s, false);
            if (now >= s->disk_due_ns) {
                read_disks(s, false);
                s->disk_due_ns = now + 10 * second_ns;
            }
            next_ns = now + (now < s->fast_until_ns ? fast_ns : second_ns);
        }
        now = gw_monotonic_ns();
        struct pollfd waited = {.fd = s->fd, .events = POLLIN};
        if (poll(&waited, 1, now >= next_ns ? 0 : (int)((next_ns - now) / 1000000) + 1) <= 0)
            continue;
        ssize_t got = recv(s->fd, &request, sizeof request, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
            _exit(0);
        if (got == sizeof request)
            serve(s, &request);
        if (s->fast_until_ns > now && next_ns > now + fast_ns)
            next_ns = now;
    }
}

/* Close all inherited files except `keep_fd`, which becomes descriptor 3. Otherwise readers of the program's pipes
 * would never see the end. */
static void leave_files(int keep_fd)
{
    enum { MINE = 3 };
    dup2(keep_fd, MINE);
#ifdef SYS_close_range /* older headers do not define it, and older kernels do not support it */
    bool done = syscall(SYS_close_range, MINE + 1, ~0u, 0) == 0;
#else
    bool done = false;
#endif
    for (int fd = MINE + 1; !done && fd < 1024; fd++)
        close(fd);
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < MINE; fd++)
        dup2(null, fd);
    if (null > MINE)
        close(null);
}

static _Noreturn void be_sampler(int fd, const gw_sense_options *options, gwi_nvml_progress *progress, pid_t parent)
{
    static worker s;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, "gpuwhy-sense");
    if (getppid() != parent)
        _exit(0);
    leave_files(fd);
    s.fd = 3;
    for (const char *const *entry = options->environment; entry != NULL && *entry != NULL; entry++)
        putenv((char *)(uintptr_t)*entry);
    s.fast_until_ns = gw_monotonic_ns() + second_ns;
    read_disks(&s, true);
    s.disk_due_ns = gw_monotonic_ns() + 10 * second_ns;
    open_nvml(&s, options, progress);
    work(&s);
}

/* ---- in the supervisor ---- */

gw_status gwi_sampler_start(gwi_sampler *sampler, const gw_sense_options *options, gw_error *err)
{
    int pair[2];
    void *shared = mmap(NULL, sizeof *sampler->progress, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return gw_fail(err, GW_NOMEM, "shared memory: %s", strerror(errno));
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        gw_status st = gw_fail(err, GW_IO, "a socket: %s", strerror(errno));
        munmap(shared, sizeof *sampler->progress);
        return st;
    }
    pid_t parent = getpid(), pid = fork();
    if (pid == 0)
        be_sampler(pair[1], options, shared, parent);
    close(pair[1]);
    if (pid < 0) {
        gw_status st = gw_fail(err, GW_IO, "a process: %s", strerror(errno));
        close(pair[0]);
        munmap(shared, sizeof *sampler->progress);
        return st;
    }
    *sampler = (gwi_sampler){.pid = pid, .fd = pair[0], .progress = shared};
    return GW_OK;
}

bool gwi_sampler_ask(const gwi_sampler *sampler, const gwi_request *request)
{
    return sampler->fd >= 0 &&
           (send(sampler->fd, request, sizeof *request, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0 || errno == EAGAIN);
}

int gwi_sampler_next(const gwi_sampler *sampler, gwi_message *message)
{
    memset(message, 0, offsetof(gwi_message, sample));
    ssize_t got = sampler->fd < 0 ? 0 : recv(sampler->fd, message, sizeof *message, MSG_DONTWAIT);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    if (got < (ssize_t)offsetof(gwi_message, sample))
        return -1;
    bool fits = (message->kind != GWI_MESSAGE_SAMPLE || message->count <= GWI_SAMPLER_VALUES_MAX) &&
                (message->kind != GWI_MESSAGE_HOLDERS || message->count <= GWI_NVML_PROCESSES_MAX);
    return fits && (size_t)got == message_bytes(message) ? 1 : -1;
}

bool gwi_sampler_stop(gwi_sampler *sampler)
{
    enum { PATIENCE_MS = 1000 }; /* on a busy machine, the process may take long to end */
    bool ended = sampler->pid <= 0;
    if (sampler->pid > 0)
        kill(sampler->pid, SIGKILL);
    for (int ms = 0; !ended && ms < PATIENCE_MS; ms++) {
        pid_t got = waitpid(sampler->pid, NULL, WNOHANG);
        ended = got == sampler->pid || (got < 0 && errno == ECHILD);
        if (!ended)
            poll(NULL, 0, 1);
    }
    if (sampler->fd >= 0)
        close(sampler->fd);
    if (sampler->progress != NULL)
        munmap(sampler->progress, sizeof *sampler->progress);
    *sampler = (gwi_sampler){.fd = -1};
    return ended;
}
