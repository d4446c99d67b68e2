/* Serves the metrics of `gpuwhy watch` over HTTP (gwi_watch_cmd.h).
 *
 * This thread reads the cards at each interval and renders the answer. The thread of libmicrohttpd only copies the last
 * answer, so a scrape never waits for NVML.
 *
 * Any program that can reach the port may connect, so no client may keep another one out: a connection serves one
 * request and has REQUEST_S for it, and if all are taken, the peer with the most loses its oldest. A web page must not
 * read the metrics through a name that it points at this address, so a name in the Host header must be known. */
#include "gwi_watch_cmd.h"

#if GW_HAVE_MICROHTTPD

#include "gw_clock.h"
#include "gw_say.h"
#include "gw_watch.h"

#include <microhttpd.h>

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CONNECTIONS_MAX = 64, REQUEST_S = 10, BACKLOG = 64, HOST_MAX = 64 };

/* The library and those that it needs would add 2 ms to the start of every command, so it is loaded when it is used. */
#define LIBRARY "libmicrohttpd.so.12"
#define FUNCTIONS(X)                                                                                                   \
    X(MHD_start_daemon)                                                                                                \
    X(MHD_stop_daemon)                                                                                                 \
    X(MHD_create_response_from_buffer)                                                                                 \
    X(MHD_add_response_header)                                                                                         \
    X(MHD_queue_response)                                                                                              \
    X(MHD_destroy_response)                                                                                            \
    X(MHD_lookup_connection_value)                                                                                     \
    X(MHD_get_connection_info)

static struct {
#define GW_X(name) __typeof__(name) *name;
    FUNCTIONS(GW_X)
#undef GW_X
} http;

static gw_status load_library(gw_error *err)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return gw_fail(err, GW_UNSUPPORTED, "--listen: %s; on Debian and Ubuntu: apt-get install libmicrohttpd12",
                       dlerror());
#define GW_X(name)                                                                                                     \
    {                                                                                                                  \
        void *address = dlsym(library, #name);                                                                         \
        if (address == NULL)                                                                                           \
            return gw_fail(err, GW_UNSUPPORTED, "--listen: " LIBRARY " has no " #name);                                \
        memcpy(&http.name, &address, sizeof address);                                                                  \
    }
    FUNCTIONS(GW_X)
#undef GW_X
    return GW_OK;
}

/* A connection that is open. */
typedef struct client {
    const struct MHD_Connection *connection;
    int fd;
    uint64_t begin_ns;
    uint64_t peer; /* the IPv4 address, or the first half of the IPv6 address: one machine may have all of the rest */
} client;

typedef struct server {
    pthread_mutex_t lock;
    gw_text answer[2];              /* by gw_metrics_format; protected by `lock` */
    client client[CONNECTIONS_MAX]; /* oldest first; only the library's thread uses them */
    size_t client_count;
    const gwi_listen_options *options;
    char host[HOST_MAX]; /* the name or address that the user wants to listen on */
} server;

/* ---- connections ---- */

static uint64_t peer_of(const struct sockaddr *address)
{
    uint64_t peer = 0;
    if (address != NULL && address->sa_family == AF_INET)
        peer = ((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr;
    else if (address != NULL && address->sa_family == AF_INET6)
        memcpy(&peer, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, sizeof peer);
    return peer;
}

static void forget_client(server *it, size_t index)
{
    it->client_count--;
    memmove(&it->client[index], &it->client[index + 1], (it->client_count - index) * sizeof it->client[0]);
}

/* End a connection: the library then reads its end, and closes it. */
static void end_client(server *it, size_t index)
{
    (void)shutdown(it->client[index].fd, SHUT_RDWR);
    forget_client(it, index);
}

static size_t count_of_peer(const server *it, uint64_t peer)
{
    size_t count = 0;
    for (size_t i = 0; i < it->client_count; i++)
        count += it->client[i].peer == peer;
    return count;
}

/* End the connections that took too long. If all are still taken, end the oldest one of the peer with the most. */
static void make_room(server *it, uint64_t now_ns)
{
    size_t most = 0;
    while (it->client_count > 0 && now_ns - it->client[0].begin_ns > REQUEST_S * 1000000000ull)
        end_client(it, 0);
    if (it->client_count < CONNECTIONS_MAX)
        return;
    for (size_t i = 1; i < it->client_count; i++)
        if (count_of_peer(it, it->client[i].peer) > count_of_peer(it, it->client[most].peer))
            most = i;
    end_client(it, most);
}

/* Called by the library when a connection begins, and before its descriptor is closed. */
static void note_connection(void *user, struct MHD_Connection *connection, void **context,
                            enum MHD_ConnectionNotificationCode what)
{
    server *it = user;
    (void)context;
    if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
        for (size_t i = 0; i < it->client_count; i++)
            if (it->client[i].connection == connection)
                forget_client(it, i);
        return;
    }
    const union MHD_ConnectionInfo *fd = http.MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    client new = {.connection = connection, .fd = fd == NULL ? -1 : fd->connect_fd, .begin_ns = gw_monotonic_ns()};
    const union MHD_ConnectionInfo *from = http.MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    new.peer = peer_of(from == NULL ? NULL : from->client_addr);
    make_room(it, new.begin_ns);
    it->client[it->client_count++] = new;
}

/* ---- the Host header ---- */

/* True if a client may use this name for us: an address, a name of this machine, or one that the user allowed. The
 * name that a web page brings along is none of them. `header` may have a port. */
static bool is_our_name(const server *it, const char *header)
{
    char name[256], host[256] = "";
    unsigned char address[sizeof(struct in6_addr)];
    bool is_6 = header[0] == '[';
    const char *end = is_6 ? strchr(header, ']') : strrchr(header, ':');
    int bytes = end == NULL ? (int)strnlen(header, sizeof name) : (int)(end - header) - is_6;
    if (bytes < 0 || bytes >= (int)sizeof name || (is_6 && end != NULL && end[1] != '\0' && end[1] != ':'))
        return false;
    snprintf(name, sizeof name, "%.*s", bytes, header + is_6);
    if (inet_pton(is_6 ? AF_INET6 : AF_INET, name, address) == 1 || strcasecmp(name, "localhost") == 0 ||
        strcasecmp(name, it->host) == 0)
        return true;
    if (gethostname(host, sizeof host - 1) == 0 && host[0] != '\0' && strcasecmp(name, host) == 0)
        return true;
    for (size_t i = 0; i < it->options->hosts->count; i++)
        if (strcasecmp(name, it->options->hosts->item[i]) == 0)
            return true;
    return false;
}

/* ---- answers ---- */

static enum MHD_Result send_text(struct MHD_Connection *connection, unsigned status, const char *type, const char *text,
                                 size_t bytes)
{
    struct MHD_Response *response =
        http.MHD_create_response_from_buffer(bytes, (void *)(uintptr_t)text, MHD_RESPMEM_MUST_COPY);
    if (response == NULL)
        return MHD_NO;
    (void)http.MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    (void)http.MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        (void)http.MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    enum MHD_Result result = http.MHD_queue_response(connection, status, response);
    http.MHD_destroy_response(response);
    return result;
}

static enum MHD_Result send_words(struct MHD_Connection *connection, unsigned status, const char *words)
{
    return send_text(connection, status, "text/plain; charset=utf-8", words, strlen(words));
}

static enum MHD_Result send_metrics(server *it, struct MHD_Connection *connection)
{
    const char *accepted = http.MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT);
    bool is_old = accepted != NULL && strstr(accepted, "text/plain") != NULL &&
                  strstr(accepted, "application/openmetrics-text") == NULL;
    const gw_text *answer = &it->answer[is_old ? GW_METRICS_PROMETHEUS : GW_METRICS_OPENMETRICS];
    pthread_mutex_lock(&it->lock);
    enum MHD_Result result = send_text(connection, MHD_HTTP_OK,
                                       is_old ? "text/plain; version=0.0.4; charset=utf-8"
                                              : "application/openmetrics-text; version=1.0.0; charset=utf-8",
                                       gw_text_str(answer), answer->bytes);
    pthread_mutex_unlock(&it->lock);
    return result;
}

static enum MHD_Result answer(void *user, struct MHD_Connection *connection, const char *url, const char *method,
                              const char *version, const char *upload, size_t *upload_bytes, void **state)
{
    (void)version;
    (void)upload;
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0) {
        if (*upload_bytes > 0) { /* ignore what the client sends */
            *upload_bytes = 0;
            return MHD_YES;
        }
        if (*state == NULL) {
            *state = user;
            return MHD_YES;
        }
        return send_words(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "Only GET and HEAD are possible here.\n");
    }
    const char *host = http.MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
    if (host != NULL && !is_our_name(user, host)) /* only HTTP/1.0 works without the header, and no browser uses that */
        return send_words(
            connection, MHD_HTTP_FORBIDDEN,
            "The name in the Host header is not known here. To allow it: gpuwhy watch --allow-host NAME\n");
    if (strcmp(url, "/metrics") == 0)
        return send_metrics(user, connection);
    if (strcmp(url, "/") == 0)
        return send_words(connection, MHD_HTTP_OK, "gpuwhy watch: the metrics are at /metrics\n");
    return send_words(connection, MHD_HTTP_NOT_FOUND, "Not found: the metrics are at /metrics\n");
}

/* ---- the address ---- */

/* Split "ADDRESS:PORT" or "[ADDRESS]:PORT". */
static gw_status split(const char *text, char host[HOST_MAX], char port[16], gw_error *err)
{
    const char *colon = strrchr(text, ':');
    const char *from = text, *to = colon;
    if (colon != NULL && text[0] == '[' && colon > text && colon[-1] == ']') {
        from++;
        to--;
    }
    if (colon == NULL || to <= from || to - from >= HOST_MAX || colon[1] == '\0' || strlen(colon + 1) >= 6 ||
        strspn(colon + 1, "0123456789") != strlen(colon + 1) || strtoul(colon + 1, NULL, 10) > UINT16_MAX)
        return gw_fail(err, GW_USAGE, "--listen %s: expected an address and a port, such as 127.0.0.1:9465", text);
    snprintf(host, HOST_MAX, "%.*s", (int)(to - from), from);
    snprintf(port, 16, "%s", colon + 1);
    return GW_OK;
}

static bool is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET)
        return (ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr) >> 24) == 127;
    return address->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
}

static gw_status resolve(const gwi_listen_options *options, char host[HOST_MAX], struct addrinfo **ret_found,
                         gw_error *err)
{
    char port[16];
    gw_status st = split(options->address, host, port, err);
    if (st != GW_OK)
        return st;
    const struct addrinfo wanted = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | AI_PASSIVE};
    int failed = getaddrinfo(host, port, &wanted, ret_found);
    if (failed != 0)
        return gw_fail(err, GW_USAGE, "--listen %s: %s", options->address, gai_strerror(failed));
    if (options->allow_remote || is_loopback((*ret_found)->ai_addr))
        return GW_OK;
    freeaddrinfo(*ret_found);
    return gw_fail(
        err, GW_USAGE,
        "--listen %s: other machines can reach this address, and everybody could read who uses the cards; to "
        "allow that, add --allow-remote",
        options->address);
}

static gw_status open_socket(const gwi_listen_options *options, char host[HOST_MAX], int *ret_fd, gw_error *err)
{
    struct addrinfo *found = NULL;
    const int on = 1;
    gw_status st = resolve(options, host, &found, err);
    if (st != GW_OK)
        return st;
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (fd < 0 || bind(fd, found->ai_addr, found->ai_addrlen) != 0 || listen(fd, BACKLOG) != 0) {
        st = errno == EADDRINUSE
                 ? gw_fail(err, GW_IO, "--listen %s: another program already uses this port", options->address)
                 : gw_fail(err, GW_IO, "--listen %s: %s", options->address, strerror(errno));
        if (fd >= 0)
            close(fd);
    }
    freeaddrinfo(found);
    if (st == GW_OK)
        *ret_fd = fd;
    return st;
}

/* Print where the metrics are. The port is the real one if the user gave port 0. */
static void tell(int fd)
{
    struct sockaddr_storage address;
    socklen_t bytes = sizeof address;
    char host[64], port[16];
    if (getsockname(fd, (struct sockaddr *)&address, &bytes) != 0 ||
        getnameinfo((struct sockaddr *)&address, bytes, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return;
    bool is_6 = strchr(host, ':') != NULL;
    gw_say("metrics are at http://%s%s%s:%s/metrics", is_6 ? "[" : "", host, is_6 ? "]" : "", port);
}

/* ---- the loop ---- */

static gw_status sample(gw_watch *watch, server *it, gw_error *err)
{
    const gw_watch_snapshot *snapshot;
    gw_status st = gw_watch_look(watch, &snapshot, err);
    for (unsigned i = 0; st == GW_OK && i < 2; i++) {
        gw_text fresh = {0};
        gw_watch_metrics(snapshot, (gw_metrics_format)i, &fresh);
        if (fresh.failed) {
            gw_text_free(&fresh);
            return gw_fail(err, GW_NOMEM, "the metrics");
        }
        pthread_mutex_lock(&it->lock);
        gw_text old = it->answer[i];
        it->answer[i] = fresh;
        pthread_mutex_unlock(&it->lock);
        gw_text_free(&old);
    }
    return st;
}

static gw_status serve(gw_watch *watch, const gwi_listen_options *options, int fd, server *it, gw_error *err)
{
    gw_status st = sample(watch, it, err); /* so that the first scrape has an answer */
    if (st != GW_OK)
        return st;
    /* The library must accept more connections than CONNECTIONS_MAX: those that were ended are open for a moment. */
    struct MHD_Daemon *daemon = http.MHD_start_daemon(
        MHD_USE_AUTO | MHD_USE_INTERNAL_POLLING_THREAD, 0, NULL, NULL, answer, it, MHD_OPTION_LISTEN_SOCKET, fd,
        MHD_OPTION_CONNECTION_LIMIT, 2u * CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)REQUEST_S,
        MHD_OPTION_NOTIFY_CONNECTION, note_connection, it, MHD_OPTION_END);
    if (daemon == NULL)
        return gw_fail(err, GW_IO, "--listen %s: the server could not be started", options->address);
    tell(fd);
    while (st == GW_OK && !gwi_watch_wait(options->interval_s))
        st = sample(watch, it, err);
    http.MHD_stop_daemon(daemon); /* closes the socket */
    return st;
}

gw_status gwi_watch_listen(gw_watch *watch, const gwi_listen_options *options, gw_error *err)
{
    server it = {.lock = PTHREAD_MUTEX_INITIALIZER, .options = options};
    int fd = -1;
    gw_status st = load_library(err);
    if (st == GW_OK)
        st = open_socket(options, it.host, &fd, err);
    if (st == GW_OK)
        st = serve(watch, options, fd, &it, err);
    gw_text_free(&it.answer[0]);
    gw_text_free(&it.answer[1]);
    return st;
}

#else

gw_status gwi_watch_listen(gw_watch *watch, const gwi_listen_options *options, gw_error *err)
{
    (void)watch;
    (void)options;
    return gw_fail(err, GW_UNSUPPORTED, "--listen: this build cannot serve metrics, because libmicrohttpd was missing");
}

#endif
