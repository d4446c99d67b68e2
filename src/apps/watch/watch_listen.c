/* Serves the metrics of `gpuwhy watch` over HTTP (gwi_watch_cmd.h).
 *
 * This thread reads the cards at each interval and renders the answer. The thread of libmicrohttpd only copies the last
 * answer, so a scrape never waits for NVML. */
#include "gwi_watch_cmd.h"

#if GW_HAVE_MICROHTTPD

#include "gw_say.h"
#include "gw_watch.h"

#include <microhttpd.h>

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

enum { CONNECTIONS_MAX = 64, TIMEOUT_S = 10, BACKLOG = 64 };

/* The library and those that it needs would add 2 ms to the start of every command, so it is loaded when it is used. */
#define LIBRARY "libmicrohttpd.so.12"
#define FUNCTIONS(X)                                                                                                   \
    X(MHD_start_daemon)                                                                                                \
    X(MHD_stop_daemon)                                                                                                 \
    X(MHD_create_response_from_buffer)                                                                                 \
    X(MHD_add_response_header)                                                                                         \
    X(MHD_queue_response)                                                                                              \
    X(MHD_destroy_response)                                                                                            \
    X(MHD_lookup_connection_value)

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

typedef struct server {
    pthread_mutex_t lock;
    gw_text answer[2]; /* by gw_metrics_format; protected by `lock` */
} server;

/* ---- answers ---- */

static enum MHD_Result send_text(struct MHD_Connection *connection, unsigned status, const char *type, const char *text,
                                 size_t bytes)
{
    struct MHD_Response *response =
        http.MHD_create_response_from_buffer(bytes, (void *)(uintptr_t)text, MHD_RESPMEM_MUST_COPY);
    if (response == NULL)
        return MHD_NO;
    (void)http.MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
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
    if (strcmp(url, "/metrics") == 0)
        return send_metrics(user, connection);
    if (strcmp(url, "/") == 0)
        return send_words(connection, MHD_HTTP_OK, "gpuwhy watch: the metrics are at /metrics\n");
    return send_words(connection, MHD_HTTP_NOT_FOUND, "Not found: the metrics are at /metrics\n");
}

/* ---- the address ---- */

/* Split "ADDRESS:PORT" or "[ADDRESS]:PORT". */
static gw_status split(const char *text, char host[64], char port[16], gw_error *err)
{
    const char *colon = strrchr(text, ':');
    const char *from = text, *to = colon;
    if (colon != NULL && text[0] == '[' && colon > text && colon[-1] == ']') {
        from++;
        to--;
    }
    if (colon == NULL || to <= from || to - from >= 64 || colon[1] == '\0' || strlen(colon + 1) >= 6 ||
        strspn(colon + 1, "0123456789") != strlen(colon + 1) || strtoul(colon + 1, NULL, 10) > UINT16_MAX)
        return gw_fail(err, GW_USAGE, "--listen %s: expected an address and a port, such as 127.0.0.1:9465", text);
    snprintf(host, 64, "%.*s", (int)(to - from), from);
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

static gw_status resolve(const gwi_listen_options *options, struct addrinfo **ret_found, gw_error *err)
{
    char host[64], port[16];
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

static gw_status open_socket(const gwi_listen_options *options, int *ret_fd, gw_error *err)
{
    struct addrinfo *found = NULL;
    const int on = 1;
    gw_status st = resolve(options, &found, err);
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
    struct MHD_Daemon *daemon =
        http.MHD_start_daemon(MHD_USE_AUTO | MHD_USE_INTERNAL_POLLING_THREAD, 0, NULL, NULL, answer, it,
                              MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX,
                              MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)TIMEOUT_S, MHD_OPTION_END);
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
    server it = {.lock = PTHREAD_MUTEX_INITIALIZER};
    int fd = -1;
    gw_status st = load_library(err);
    if (st == GW_OK)
        st = open_socket(options, &fd, err);
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
