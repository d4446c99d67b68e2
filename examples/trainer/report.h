/* Report a training while it runs: write one JSON line per step to a log, and print a progress line and warnings on
 * stderr.
 *
 * The log has one object per line, and every line is complete. Unknown values are null. Only one thread may use a
 * report. */
#ifndef TRAINER_REPORT_H
#define TRAINER_REPORT_H

#include "backend.h"

#include <stdio.h>

struct report_options {
    FILE *log;               /* borrowed; NULL: none */
    FILE *progress;          /* borrowed; NULL: none */
    uint64_t progress_every; /* progress lines are this many steps apart if `progress` is not a terminal */
    void (*watch)(int device, struct backend_watch *ret_watch);
    int devices;
    uint64_t memory_warn_bytes; /* warn if the process uses more memory on one GPU; 0: never warn */
    int temperature_warn;       /* warn above this temperature in degrees Celsius; 0: never warn */
};

struct step_report {
    uint64_t step, last_step, epoch;
    double loss; /* mean over the step's images; NaN if the step is broken */
    double accuracy;
    double images_per_s; /* mean rate since the previous report */
    double scale;
    bool is_broken; /* a gradient was not finite, so the parameters were not updated */
};

struct report {
    struct report_options options;
    struct backend_watch watch;  /* worst values of all devices: own memory, free memory, temperature */
    double watched_at, shown_at; /* s */
    bool is_terminal, has_line;  /* has_line: the progress line has no line end yet */
    bool memory_warned, temperature_warned;
};

double seconds_now(void); /* monotonic */

struct report report_begin(const struct report_options *options);
/* Write one line to the log. The format produces a JSON object without the line end. */
__attribute__((format(printf, 2, 3))) void report_log(struct report *report, const char *format, ...);
/* Print a line for the user. A progress line on the terminal stays intact. */
__attribute__((format(printf, 2, 3))) void report_say(struct report *report, const char *format, ...);
void report_step(struct report *report, const struct step_report *step);
void report_end(struct report *report);
/* Format text as a JSON string with quotes; returns `out`. */
char *json_text(const char *text, char *out, size_t out_bytes);
/* Format a number for JSON. NaN (not allowed in JSON) and negative numbers (which mean unknown) become null. */
const char *json_number(double number, char out[32]);

#endif
