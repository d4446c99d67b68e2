/* Report a training while it runs: one JSON line per step in a log, a progress line on stderr, and warnings.
 *
 * The log has one object per line, complete lines only. Unknown values are null. One thread. */
#ifndef TRAINER_REPORT_H
#define TRAINER_REPORT_H

#include "backend.h"

#include <stdio.h>

struct report_options {
    FILE *log;               /* borrowed; NULL: none */
    FILE *progress;          /* borrowed; NULL: none */
    uint64_t progress_every; /* steps, if `progress` is not a terminal */
    void (*watch)(int device, struct backend_watch *ret_watch);
    int devices;
    uint64_t memory_warn_bytes; /* memory of this process on one GPU; 0: no warning */
    int temperature_warn;       /* degrees Celsius; 0: no warning */
};

struct step_report {
    uint64_t step, last_step, epoch;
    double loss; /* mean over the step's images; NaN: broken */
    double accuracy;
    double images_per_s; /* since the previous report */
    double scale;
    bool is_broken; /* gradients were not finite: the parameters were not updated */
};

struct report {
    struct report_options options;
    struct backend_watch watch;  /* worst of the devices: most own memory, least free memory, hottest */
    double watched_at, shown_at; /* s */
    bool is_terminal, has_line;  /* has_line: the progress line is not ended yet */
    bool memory_warned, temperature_warned;
};

double seconds_now(void); /* monotonic */

struct report report_begin(const struct report_options *options);
/* Write one line to the log: a JSON object without the line end. */
__attribute__((format(printf, 2, 3))) void report_log(struct report *report, const char *format, ...);
/* Print a line for the user without damaging the progress line. */
__attribute__((format(printf, 2, 3))) void report_say(struct report *report, const char *format, ...);
void report_step(struct report *report, const struct step_report *step);
void report_end(struct report *report);
/* Format text as a JSON string with quotes; returns `out`. */
char *json_text(const char *text, char *out, size_t out_bytes);
/* Format a number. NaN does not exist in JSON and becomes null, and so does a negative number, which means unknown. */
const char *json_number(double number, char out[32]);

#endif
