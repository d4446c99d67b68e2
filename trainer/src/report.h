/* Report the progress of a training run: a log, curves for other programs, and a progress line and warnings for the
 * user. The log has one JSON object per step and line. Unknown values are null. Only one thread may use a report. */
#ifndef TRAINER_REPORT_H
#define TRAINER_REPORT_H

#include "backend.h"
#include "events.h"

#include <stdio.h>

struct report_options {
    FILE *log;               /* borrowed; NULL: write no log */
    FILE *csv;               /* borrowed; opened with csv_open(); NULL: none */
    struct events *events;   /* borrowed; NULL: write no event file */
    FILE *progress;          /* borrowed; NULL: print nothing for the user */
    uint64_t progress_every; /* steps between progress lines if `progress` is not a terminal; 0: only the last step */
    void (*watch)(int device, struct backend_watch *ret_watch);
    int devices;
    uint64_t memory_warn_bytes; /* warn if the process uses more than this on one GPU; 0: never warn */
    int temperature_warn;       /* warn at this temperature and above, in degrees Celsius; 0: never warn */
};

struct step_report {
    uint64_t step, last_step, epoch;
    double loss; /* mean over the step's images; may be infinite or NaN if the step is broken */
    double accuracy;
    double top;          /* part of the images whose class is among the CLASSES_TOP best; -1: unknown */
    double norm;         /* norm of the gradients before they are clipped; -1: unknown, because they are not clipped */
    double rate;         /* learning rate of the step */
    double images_per_s; /* mean since the previous report */
    double loader_wait;  /* part of the time since the previous report that the device waited for inputs, 0 to 1 */
    double scale;
    bool is_broken; /* a gradient was not finite, so the parameters were not updated */
};

struct evaluation_report {
    uint64_t step;
    double loss, accuracy, top; /* means over the images */
    size_t images;
    bool is_best; /* the best accuracy so far */
};

struct report {
    struct report_options options;
    struct backend_watch watch;  /* worst values over all devices: least free memory, highest temperature, ... */
    double watched_at, shown_at; /* times of the last watch() and of the last progress line, from seconds_now() */
    bool is_terminal, has_line;  /* has_line: an unfinished progress line is on the terminal */
    bool memory_warned, temperature_warned;
};

double seconds_now(void); /* monotonic clock, in s */

/* Open a log to which lines are added, for report_options.log. A killed run may have left an incomplete last line; the
 * log then goes on in a new line. The caller closes it. On failure, `reason` names the problem. */
bool report_open_log(const char *path, FILE **ret_log, struct reason *reason);

struct report report_begin(const struct report_options *options);
/* Write one line to the log. The format must produce a JSON object; the line end is added. */
__attribute__((format(printf, 2, 3))) void report_log(struct report *report, const char *format, ...);
/* Print a line for the user, below an unfinished progress line if there is one. */
__attribute__((format(printf, 2, 3))) void report_say(struct report *report, const char *format, ...);
void report_step(struct report *report, const struct step_report *step);
void report_evaluation(struct report *report, const struct evaluation_report *evaluation);
void report_end(struct report *report);
/* Write `text` to `out` as a JSON string with quotes. The string is cut if it does not fit. Returns `out`. */
char *json_text(const char *text, char *out, size_t out_bytes);
/* Return a number as JSON text, or "null" if it is negative (which means unknown), infinite or NaN. */
const char *json_number(double number, char out[32]);

/* Write images per second with at least three digits: "0.0213", "85.7", "12345". Returns `out`. */
char *speed_text(double per_s, char out[32]);

#endif
