/* The parts of `gpuwhy fit`: trials are child processes (fit_child.c), the search decides which are started
 * (fit_find.c), real runs confirm and measure (also there), and the result is printed (fit_text.c, fit_json.c). One
 * thread; only one gwi_fit at a time, because it takes signals. */
#ifndef GWI_FIT_STATE_H
#define GWI_FIT_STATE_H

#include "gw_fit_search.h"
#include "gw_place.h"
#include "gw_text.h"
#include "gwi_temporary.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef enum gwi_fit_kind {
    GWI_FIT_REHEARSAL, /* of the search */
    GWI_FIT_LARGER,    /* a rehearsal on a card that is large enough, to see how much is needed */
    GWI_FIT_REAL       /* a real run */
} gwi_fit_kind;

/* The number of kernels and graphs that a real run had launched at a time. */
typedef struct gwi_fit_sample {
    uint64_t t_ns, launches; /* monotonic */
} gwi_fit_sample;

typedef struct gwi_fit_trial {
    size_t combination;
    uint64_t number;
    gwi_fit_kind kind;
    bool is_alone; /* no other trial ran at the same time */
    gw_fit fit;    /* GW_FIT_RUNNING until it has ended */
    double seconds;
    uint64_t peak_bytes, limit_bytes, real_bytes; /* 0: unknown */
    uint64_t equal_iterations, launches_each;     /* of a rehearsal; launches_each is 0 if they did not become equal */
    uint64_t launches;                            /* of a real run; 0: none were seen */
    double items_per_second;                      /* of a real run; 0: unknown */
    int cannot;     /* exit status of gpuwhy if it could not start the program; 0: it could */
    bool was_ended; /* gpuwhy fit has ended the real run */
    char *why;      /* owned; why it does not fit, or is not known; NULL: it fits */
    char *card;     /* owned; the card's name; NULL: unknown */
    /* while it runs */
    pid_t pid;
    uint64_t started_ns, asked_ns; /* monotonic; asked_ns: when it was asked to end, 0: it was not */
    uint64_t enough_launches;      /* a real run is ended after so many launches; 0: no such limit */
    gw_path stem;                  /* its files: STEM.json, STEM.log, STEM.gpuwhy */
    gw_path run_folder;            /* of a real run; "" until found */
    gwi_fit_sample *sample;        /* owned */
    size_t sample_count, sample_capacity;
} gwi_fit_trial;

/* What is known of one combination of values. */
typedef struct gwi_fit_case {
    gw_fit_search search;
    gw_fit_answer answer;
    bool by_real_runs;    /* rehearsals did not serve: the search was made with real runs */
    uint64_t rehearsed;   /* the largest number by rehearsals; 0: none */
    char *not_rehearsed;  /* owned; why a rehearsal did not serve; NULL: it did */
    uint64_t need_bytes;  /* if nothing fits: what the smallest number needs on a larger card; 0: unknown */
    uint64_t fixed_bytes; /* of these, about so many do not depend on the number; 0: unknown */
} gwi_fit_case;

typedef struct gwi_fit {
    /* options */
    const char *gpu, *until;
    uint64_t memory_bytes; /* 0: the real card */
    const char *card;      /* name of the card of --card, NULL: none; its capability is major.minor */
    int card_major, card_minor;
    uint64_t from, max, step, jobs;
    bool real, speed;
    uint64_t real_iterations; /* 0: by time alone */
    double real_seconds;      /* longest time of a real run */
    bool no_attach;
    gw_fit_plan plan;
    /* state */
    gwi_fit_case *one;     /* owned; plan.combination_count of them */
    gwi_fit_trial **trial; /* owned, each of them, too; in the order in which they were started */
    size_t trial_count, trial_capacity, running_count;
    gwi_temporary folder;
    size_t ended_count;  /* processes that the trials had left behind, and that were ended */
    gw_text ended_names; /* owned */
    sigset_t old_mask;
    int signal_fd;
    uint64_t too_small_bytes; /* no real runs: the real card has so many bytes, less than memory_bytes; 0: not so */
    int cannot;               /* exit status if no trial can be started; 0: they can */
    int stop_signal;          /* a signal that ends gpuwhy fit; 0: none */
    uint64_t started_ns, started_realtime_ns;
    double seconds;
    bool shows_progress;
    bool colour; /* of gwi_fit_text() */
} gwi_fit;

/* ---- trials (fit_child.c) ---- */

/* Take the signals and make the folder. GW_IO. */
GW_MUST_CHECK gw_status gwi_fit_begin(gwi_fit *fit, gw_error *err);
/* End all trials, and give the signals back. Can be called after a failed gwi_fit_begin(). */
void gwi_fit_end(gwi_fit *fit);
/* Start a trial. *ret_trial belongs to `fit`. */
GW_MUST_CHECK gw_status gwi_fit_start(gwi_fit *fit, const gwi_fit_trial *wanted, gwi_fit_trial **ret_trial,
                                      gw_error *err);
/* Wait until a trial has ended. Returns NULL if none is running, or if a signal stops the search (stop_signal). */
gwi_fit_trial *gwi_fit_wait(gwi_fit *fit);

/* ---- what a trial does (fit_child.c) ---- */

/* The newest trial of this kind, or NULL. */
const gwi_fit_trial *gwi_fit_trial_of(const gwi_fit *fit, size_t combination, uint64_t number, gwi_fit_kind kind);
/* Return the launches in an iteration, by the rehearsal of the nearest number that became equal; 0: none did. */
uint64_t gwi_fit_launches_each(const gwi_fit *fit, size_t combination, uint64_t number);
/* Called every 100 ms: look how far a real run is, and ask it to end if that is enough. */
void gwi_fit_watch(const gwi_fit *fit, gwi_fit_trial *trial);
/* Called at its end: items_per_second. */
void gwi_fit_measure(const gwi_fit *fit, gwi_fit_trial *trial);

/* ---- the search (fit_find.c) ---- */

/* Search all combinations, and see how much those need for which nothing fits. Returns GW_OK, too, if a signal has
 * stopped it. */
GW_MUST_CHECK gw_status gwi_fit_find(gwi_fit *fit, gw_error *err);

/* ---- real runs (fit_find.c) ---- */

/* Search with real runs where rehearsals did not serve, confirm the answers and measure the speed, as the options say.
 */
GW_MUST_CHECK gw_status gwi_fit_real(gwi_fit *fit, gw_error *err);
/* The combination with most items per second, or plan.combination_count if no speed is known. */
size_t gwi_fit_fastest(const gwi_fit *fit);

/* ---- results (fit_read.c, fit_text.c, fit_json.c) ---- */

/* Read what a trial has left: fills its `fit` and the other results. `status` is from waitpid(). */
void gwi_fit_read(gwi_fit *fit, gwi_fit_trial *trial, int status);
/* Add the answer, the tables and the chart. */
void gwi_fit_text(const gwi_fit *fit, gw_text *text);
/* Add the answer in one line, as for the list of runs. */
void gwi_fit_line(const gwi_fit *fit, gw_text *text);
GW_MUST_CHECK gw_status gwi_fit_json(const gwi_fit *fit, gw_text *text, gw_error *err);

/* Add the values of a combination, such as "precision=bf16 optimizer=adam"; nothing if there are none. */
void gwi_fit_values_text(const gwi_fit *fit, size_t combination, gw_text *text);

#endif
