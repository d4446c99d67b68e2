/* Report the progress of a training to a log and to the user: see report.h. */
#include "report.h"

#include "csv.h"
#include "fit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const double watch_every_s = 1, show_every_s = 0.2;
/* After a temperature warning, the temperature must drop this many degrees below the limit before the next warning. */
enum { TEMPERATURE_BACK = 5 };

double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

struct report report_begin(const struct report_options *options)
{
    struct report report = {.options = *options, .watched_at = -1e9, .shown_at = -1e9};
    report.watch = (struct backend_watch){.free_bytes = -1, .total_bytes = -1, .own_bytes = -1, .temperature = -1};
    report.is_terminal = options->progress != NULL && isatty(fileno(options->progress));
    return report;
}

/* ---- lines ---- */

/* True if the file has something after its last line end. True, too, if it cannot be read: an empty line is harmless.
 */
static bool ends_within_line(const char *path)
{
    struct stat about;
    char last = '\0';
    if (stat(path, &about) != 0 || !S_ISREG(about.st_mode) || about.st_size == 0)
        return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        if (pread(fd, &last, 1, about.st_size - 1) != 1)
            last = '\0';
        close(fd);
    }
    return last != '\n';
}

bool report_open_log(const char *path, FILE **ret_log, struct reason *reason)
{
    bool is_cut = ends_within_line(path);
    FILE *log = fopen(path, "ae");
    if (log == NULL)
        return because(reason, "%s", strerror(errno));
    if (is_cut)
        fputc('\n', log);
    *ret_log = log;
    return true;
}

char *json_text(const char *text, char *out, size_t out_bytes)
{
    size_t at = 0;
    out[at++] = '"';
    for (; *text != '\0' && at + 8 < out_bytes; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            at += (size_t)snprintf(out + at, out_bytes - at, "\\%c", c);
        else if (c < 0x20)
            at += (size_t)snprintf(out + at, out_bytes - at, "\\u%04x", c);
        else
            out[at++] = (char)c;
    }
    out[at++] = '"';
    out[at] = '\0';
    return out;
}

void report_log(struct report *report, const char *format, ...)
{
    char line[2048];
    va_list arguments;
    if (report->options.log == NULL)
        return;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= sizeof line - 1)
        return; /* the line is too long, and an incomplete object must not be written */
    line[length] = '\n';
    fwrite(line, 1, (size_t)length + 1, report->options.log);
    fflush(report->options.log);
}

static void end_line(struct report *report)
{
    if (report->has_line)
        fputc('\n', report->options.progress);
    report->has_line = false;
}

void report_say(struct report *report, const char *format, ...)
{
    FILE *out = report->options.progress;
    va_list arguments;
    if (out == NULL)
        return;
    end_line(report);
    va_start(arguments, format);
    vfprintf(out, format, arguments);
    va_end(arguments);
    fputc('\n', out);
}

void report_end(struct report *report)
{
    end_line(report);
}

/* ---- the GPUs ---- */

static int64_t known(int64_t one, int64_t other, bool wants_more)
{
    if (one < 0 || other < 0)
        return one < 0 ? other : one;
    return (one > other) == wants_more ? one : other;
}

static void look(struct report *report)
{
    struct backend_watch all = {.free_bytes = -1, .total_bytes = -1, .own_bytes = -1, .temperature = -1}, one;
    for (int device = 0; device < report->options.devices; device++) {
        report->options.watch(device, &one);
        all.free_bytes = known(all.free_bytes, one.free_bytes, false);
        all.total_bytes = known(all.total_bytes, one.total_bytes, false);
        all.own_bytes = known(all.own_bytes, one.own_bytes, true);
        all.temperature = (int)known(all.temperature, one.temperature, true);
    }
    report->watch = all;
}

static void warn_memory(struct report *report)
{
    uint64_t limit_bytes = report->options.memory_warn_bytes;
    int64_t own_bytes = report->watch.own_bytes;
    char has[24], limit[24];
    bool is_much = limit_bytes != 0 && own_bytes > 0 && (uint64_t)own_bytes > limit_bytes;
    if (is_much && !report->memory_warned) {
        report_say(report, "warning: this process uses %s on a GPU, more than %s", size_text((uint64_t)own_bytes, has),
                   size_text(limit_bytes, limit));
        report_log(report, "{\"warning\":\"memory\",\"memory_bytes\":%" PRId64 ",\"limit_bytes\":%" PRIu64 "}",
                   own_bytes, limit_bytes);
    }
    report->memory_warned = is_much;
}

static void warn_temperature(struct report *report)
{
    int limit = report->options.temperature_warn, degrees = report->watch.temperature;
    bool is_hot = limit != 0 && degrees >= limit;
    if (is_hot && !report->temperature_warned) {
        report_say(report, "warning: a GPU has %d degrees Celsius; the limit is %d", degrees, limit);
        report_log(report, "{\"warning\":\"temperature\",\"temperature\":%d,\"limit\":%d}", degrees, limit);
    }
    if (is_hot || degrees <= limit - TEMPERATURE_BACK)
        report->temperature_warned = is_hot;
}

/* ---- a step ---- */

const char *json_number(double number, char out[32])
{
    if (!isfinite(number) || number < 0)
        return "null";
    snprintf(out, 32, "%.12g", number);
    return out;
}

static void log_step(struct report *report, const struct step_report *step)
{
    char texts[10][32];
    report_log(report,
               "{\"step\":%" PRIu64 ",\"epoch\":%" PRIu64 ",\"loss\":%s,\"accuracy\":%s,\"top5\":%s,\"rate\":%s,"
               "\"gradient_norm\":%s,\"images_per_s\":%s,\"loader_wait\":%s,"
               "\"scale\":%s,\"broken\":%s,\"memory_bytes\":%s,\"temperature\":%s}",
               step->step, step->epoch, json_number(step->loss, texts[0]), json_number(step->accuracy, texts[1]),
               json_number(step->top, texts[6]), json_number(step->rate, texts[7]), json_number(step->norm, texts[8]),
               json_number(step->images_per_s, texts[2]), json_number(step->loader_wait, texts[9]),
               json_number(step->scale, texts[3]), step->is_broken ? "true" : "false",
               json_number((double)report->watch.own_bytes, texts[4]),
               json_number(report->watch.temperature, texts[5]));
}

char *speed_text(double per_s, char out[32])
{
    snprintf(out, 32, per_s >= 100 ? "%.0f" : "%.3g", per_s);
    return out;
}

static void show_step(struct report *report, const struct step_report *step)
{
    char memory[24], speed[32], card[80] = "";
    FILE *out = report->options.progress;
    if (report->watch.own_bytes >= 0)
        snprintf(card, sizeof card, ", %s", size_text((uint64_t)report->watch.own_bytes, memory));
    if (report->watch.temperature >= 0)
        snprintf(card + strlen(card), sizeof card - strlen(card), ", %d C", report->watch.temperature);
    fprintf(out,
            "%sstep %" PRIu64 "/%" PRIu64 ", epoch %" PRIu64 ", loss %.4f, accuracy %.3f, rate %.4g, %s images/s%s%s",
            report->is_terminal ? "\r\033[K" : "", step->step, step->last_step, step->epoch, step->loss, step->accuracy,
            step->rate, speed_text(step->images_per_s, speed), card, report->is_terminal ? "" : "\n");
    report->has_line = report->is_terminal;
    fflush(out);
}

/* Add the values that are known. */
static void write_events(struct report *report, const struct step_report *step)
{
    const struct scalar all[] = {{"train/loss", step->loss},
                                 {"train/accuracy", step->accuracy},
                                 {"train/top5", step->top},
                                 {"train/rate", step->rate},
                                 {"train/gradient_norm", step->norm},
                                 {"train/loss_scale", step->scale},
                                 {"train/images_per_s", step->images_per_s},
                                 {"train/loader_wait", step->loader_wait},
                                 {"card/memory_bytes", (double)report->watch.own_bytes},
                                 {"card/temperature", report->watch.temperature}};
    struct scalar known_ones[sizeof all / sizeof *all];
    size_t count = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!(all[i].value < 0))
            known_ones[count++] = all[i];
    events_write(report->options.events, step->step, known_ones, count);
}

void report_step(struct report *report, const struct step_report *step)
{
    const struct report_options *options = &report->options;
    double now = seconds_now();
    if (now - report->watched_at >= watch_every_s) {
        look(report);
        warn_memory(report);
        warn_temperature(report);
        report->watched_at = now;
    }
    log_step(report, step);
    if (options->csv != NULL)
        csv_step(options->csv, step, &report->watch);
    if (options->events != NULL)
        write_events(report, step);
    if (options->progress == NULL)
        return;
    bool is_due = report->is_terminal ? now - report->shown_at >= show_every_s
                                      : options->progress_every != 0 && step->step % options->progress_every == 0;
    if (is_due || step->step == step->last_step) {
        show_step(report, step);
        report->shown_at = now;
    }
}

void report_evaluation(struct report *report, const struct evaluation_report *evaluation)
{
    char loss[32];
    report_log(report,
               "{\"step\":%" PRIu64 ",\"test_loss\":%s,\"test_accuracy\":%.12g,\"test_top5\":%.12g,\"best\":%s,"
               "\"test_images\":%zu}",
               evaluation->step, json_number(evaluation->loss, loss), evaluation->accuracy, evaluation->top,
               evaluation->is_best ? "true" : "false", evaluation->images);
    if (report->options.csv != NULL)
        csv_evaluation(report->options.csv, evaluation);
    const struct scalar scalars[] = {
        {"test/loss", evaluation->loss}, {"test/accuracy", evaluation->accuracy}, {"test/top5", evaluation->top}};
    if (report->options.events != NULL)
        events_write(report->options.events, evaluation->step, scalars, sizeof scalars / sizeof *scalars);
    report_say(report, "step %" PRIu64 ": test loss %.4f, test accuracy %.4f, top-5 accuracy %.4f", evaluation->step,
               evaluation->loss, evaluation->accuracy, evaluation->top);
}
