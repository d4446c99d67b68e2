/* What a training tells while it runs: a JSON line a step in a log, a progress line on stderr, warnings.
 *
 * The log has one object a line, whole lines only: what is unknown is null. One thread. */
#ifndef TRAINER_REPORT_H
#define TRAINER_REPORT_H

#include "backend.h"

#include <stdio.h>

struct report_options {
    FILE *log;               /* borrowed; NULL: none */
    FILE *progress;          /* borrowed; NULL: none */
    uint64_t progress_every; /* steps, where `progress` is no terminal */
    void (*watch)(int device, struct backend_watch *ret_watch);
    int devices;
    uint64_t memory_warn_bytes; /* of this process on one card; 0: no warning */
    int temperature_warn;       /* degrees Celsius; 0: no warning */
};

struct step_report {
    uint64_t step, last_step, epoch;
    double loss; /* mean of the step's images; not a number: broken */
    double accuracy;
    double images_per_s; /* since the last one */
    double scale;
    bool is_broken; /* gradients were no numbers: the step was not taken */
};

struct report {
    struct report_options options;
    struct backend_watch watch;  /* the worst of the devices: most own memory, least free, hottest */
    double watched_at, shown_at; /* s */
    bool is_terminal, has_line;  /* there is a progress line that is not ended */
    bool memory_warned, temperature_warned;
};

double seconds_now(void); /* monotonic */

struct report report_begin(const struct report_options *options);
/* A line of the log, as it is: a JSON object without its end of line. */
__attribute__((format(printf, 2, 3))) void report_log(struct report *report, const char *format, ...);
/* A line for people, past the progress line. */
__attribute__((format(printf, 2, 3))) void report_say(struct report *report, const char *format, ...);
void report_step(struct report *report, const struct step_report *step);
void report_end(struct report *report);
/* Text as JSON has it, with its quotes; returns `out`. */
char *json_text(const char *text, char *out, size_t out_bytes);
/* JSON knows no NaN: it is null, and so is a number less than 0, which is one that is unknown. */
const char *json_number(double number, char out[32]);

#endif
