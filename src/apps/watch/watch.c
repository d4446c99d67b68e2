/* `gpuwhy watch`: shows the cards, the recorded runs and the processes, again and again. */
#include "gwi_cmd.h"
#include "gwi_manual.h"
#include "gwi_options.h"
#include "gwi_output.h"
#include "gwi_watch_cmd.h"

#include "gw_config.h"
#include "gw_say.h"
#include "gw_watch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define GWI_WATCH_OPTIONS(X)                                                                                           \
    X(FLAG, bool, once, "--once", NULL, NULL, "print one screen as plain text, or write one file, and end")            \
    X(FLAG, bool, json, "--json", NULL, NULL, "print one JSON object a refresh (docs/json-schema.md)")                 \
    X(COUNT, uint32_t, interval, "--interval", "SECONDS", "2", "time between two refreshes")                           \
    X(STRING, const char *, alarm_at, "--alarm-at", "SIZE|PERCENT", GW_STANDARD_WATCH_ALARM_AT,                        \
      "mark runs whose needed memory reaches this share of the card, or this size")                                    \
    X(STRING, const char *, listen, "--listen", "ADDRESS:PORT", NULL,                                                  \
      "serve metrics for Prometheus there, for example 127.0.0.1:9465")                                                \
    X(FLAG, bool, allow_remote, "--allow-remote", NULL, NULL, "let --listen use an address that others can reach")     \
    X(LIST, gw_option_list, allow_host, "--allow-host", "NAME", NULL,                                                  \
      "let clients of --listen use this name of the machine in their requests; may be repeated")                       \
    X(STRING, const char *, metrics_file, "--metrics-file", "FILE", NULL,                                              \
      "write metrics there at each interval, for node_exporter's textfile collector")

GWI_OPTIONS(watch_options, GWI_WATCH_OPTIONS);
enum { INTERVAL_MAX_S = 3600 };

const gwi_manual gwi_manual_watch = {
    .usage = "gpuwhy watch [options]\n",
    .about = "Shows the GPUs of this machine, the runs that gpuwhy records, and all processes with memory on a "
             "card. Press ? for the keys, q to quit.",
    .group = {{.options = options_table, .count = OPTION_COUNT}},
    .exits = {{GW_EXIT_OK, "ended by q, or by a signal; with --once, the screen was printed"},
              {GW_EXIT_USAGE,
               "usage error, the port of --listen is in use, or this build lacks the library that is needed"}},
    .examples = {{"gpuwhy watch", "show the cards and the recorded runs, live"},
                 {"gpuwhy watch --listen 127.0.0.1:9465", "serve metrics for Prometheus"}},
    .see_also = "who run"};

/* Return the columns of the terminal, or of COLUMNS; 80 if neither is known. */
static unsigned columns(void)
{
    struct winsize size;
    const char *text = getenv("COLUMNS");
    unsigned long wanted = text == NULL ? 0 : strtoul(text, NULL, 10);
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    return wanted >= 20 && wanted <= 1000 ? (unsigned)wanted : 80;
}

static gw_status print_once(const gw_watch_snapshot *snapshot)
{
    const gw_watch_view view = {.width = columns(), .filter = ""};
    gw_text marked = {0}, plain = {0};
    unsigned top_max;
    gw_watch_draw(snapshot, &view, &marked, &top_max);
    gw_watch_plain(&plain, gw_text_str(&marked));
    gw_status st = plain.failed || marked.failed ? GW_NOMEM : GW_OK;
    gw_put(gw_text_str(&plain));
    gw_text_free(&marked);
    gw_text_free(&plain);
    return st;
}

static gw_status print_json(const gw_watch_snapshot *snapshot, gw_error *err)
{
    gw_text text = {0};
    gw_status st = gw_watch_json(snapshot, &text, err);
    if (st == GW_OK)
        gw_put(gw_text_str(&text));
    gw_text_free(&text);
    return st;
}

/* Print to a pipe or a file: once, or one JSON object a refresh until the reader is gone or a signal arrives. */
static gw_status print(gw_watch *watch, const watch_options *options, bool once, gw_error *err)
{
    gw_status st;
    const gw_watch_snapshot *snapshot;
    do {
        st = gw_watch_look(watch, &snapshot, err);
        if (st == GW_OK)
            st = options->json ? print_json(snapshot, err) : print_once(snapshot);
        if (st == GW_OK && (fflush(stdout) != 0 || ferror(stdout)))
            return gw_fail(err, GW_IO, "write to standard output: %s",
                           strerror(gw_print_errno() != 0 ? gw_print_errno() : errno));
        if (st != GW_OK || once)
            return st;
    } while (!gwi_watch_wait(options->interval));
    return GW_OK;
}

static gw_status write_once(gw_watch *watch, const gwi_output *output, gw_error *err)
{
    const gw_watch_snapshot *snapshot;
    gw_text text = {0};
    gw_status st = gw_watch_look(watch, &snapshot, err);
    if (st == GW_OK) {
        gw_watch_metrics(snapshot, GW_METRICS_PROMETHEUS, &text);
        st = gwi_output_write(output, &text, 0, err);
    }
    gw_text_free(&text);
    return st;
}

/* Write metrics at each interval until a signal arrives, then remove the file; or write them `once` and keep it. */
static gw_status write_metrics(gw_watch *watch, const gwi_output *output, unsigned interval_s, bool once, gw_error *err)
{
    bool is_failing = false;
    gw_status st = write_once(watch, output, err);
    if (st != GW_OK || once)
        return st;
    while (!gwi_watch_wait(interval_s)) {
        gw_error why;
        st = write_once(watch, output, &why);
        if (st != GW_OK && !is_failing) /* such as a full disk: it may pass */
            gw_say("watch: %s; trying again", why.text);
        is_failing = st != GW_OK;
    }
    (void)unlink(output->path); /* old values must not look like new ones */
    return GW_OK;
}

static gw_status check(const watch_options *options, int first, int argc, char **argv, gw_watch_options *ret,
                       gw_error *err)
{
    if (first < argc)
        return gw_fail(err, GW_USAGE, "unexpected word: %s", argv[first]);
    if (!gw_threshold_parse(options->alarm_at, &ret->alarm_ratio, &ret->alarm_bytes))
        return gw_fail(err, GW_USAGE,
                       "--alarm-at %s: expected a share of the card such as 90%%, or a size such as 12GiB",
                       options->alarm_at);
    if (options->interval == 0 || options->interval > INTERVAL_MAX_S)
        return gw_fail(err, GW_USAGE, "--interval %u: expected 1 to %d seconds", options->interval, INTERVAL_MAX_S);
    if (options->listen != NULL && (options->once || options->json))
        return gw_fail(err, GW_USAGE, "--listen serves until it is stopped; it does not go with --once or --json");
    if (options->metrics_file != NULL && (options->listen != NULL || options->json))
        return gw_fail(err, GW_USAGE, "--metrics-file does not go with --listen or --json");
    if (options->allow_remote && options->listen == NULL)
        return gw_fail(err, GW_USAGE, "--allow-remote only goes with --listen");
    if (options->allow_host.count > 0 && options->listen == NULL)
        return gw_fail(err, GW_USAGE, "--allow-host only goes with --listen");
    return GW_OK;
}

int gwi_cmd_watch(int argc, char **argv)
{
    watch_options options = {0};
    gw_watch_options how = {0};
    gw_watch *watch = NULL;
    gw_error err = {0};
    int first = 0;
    gw_status st = gwi_options_parse(options_table, OPTION_COUNT, &options, argc, argv, &first, &err);
    if (st == GW_OK && options.help)
        return gwi_manual_print(&gwi_manual_watch);
    if (st == GW_OK)
        st = check(&options, first, argc, argv, &how, &err);
    gwi_output output = {
        .option = "--metrics-file", .path = options.metrics_file, .kind = GWI_OUTPUT_REPLACED, .mode = 0644};
    if (st == GW_OK)
        st = gwi_outputs_open(&output, 1, NULL, 0, &err);
    if (st == GW_OK)
        st = gw_watch_open(&how, &watch, &err);
    const gwi_listen_options listening = {options.listen, options.allow_remote, options.interval, &options.allow_host};
    bool is_screen = !options.once && !options.json && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    if (st == GW_OK)
        st = gwi_watch_catch_signals(&err);
    if (st == GW_OK && options.listen != NULL)
        st = gwi_watch_listen(watch, &listening, &err);
    else if (st == GW_OK && options.metrics_file != NULL)
        st = write_metrics(watch, &output, options.interval, options.once, &err);
    else if (st == GW_OK && is_screen)
        st = gwi_watch_screen(watch, options.interval, &err);
    else if (st == GW_OK)
        st = print(watch, &options, options.once || !options.json, &err);
    gw_watch_close(watch);
    if (st == GW_OK)
        return GW_EXIT_OK;
    return gwi_refuse("watch", &err);
}
