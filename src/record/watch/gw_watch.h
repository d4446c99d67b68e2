/* What happens on the cards of this machine now: cards, the processes on them, and the runs that gpuwhy records.
 *
 * gw_watch_look() collects everything into one snapshot, which gw_watch_draw(), gw_watch_json() and gw_watch_metrics()
 * turn into text. Use one thread for one gw_watch. Bytes are bytes, times are seconds. A value that could not be read
 * is marked as unknown and is never 0 instead. */
#ifndef GW_WATCH_H
#define GW_WATCH_H

#include "gw_live.h"
#include "gw_room.h"
#include "gw_status.h"
#include "gw_text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define GW_WATCH_UNKNOWN UINT64_MAX /* of bytes and seconds */

enum { GW_WATCH_NAME_MAX = 64, GW_WATCH_COMMAND_MAX = 256, GW_WATCH_NONE = -1 };

/* Since when a process has not used a card. */
typedef enum gw_watch_idle {
    GW_WATCH_IDLE_UNKNOWN,
    GW_WATCH_IDLE_SINCE,   /* for idle_s seconds */
    GW_WATCH_IDLE_AT_LEAST /* for idle_s seconds or longer */
} gw_watch_idle;

typedef struct gw_watch_card {
    gw_room_card is; /* as NVML reports it */
    uint32_t index;  /* NVML's */
    unsigned source; /* 0: the cards of this machine; otherwise virtual ones of a run */
    bool is_virtual;
    uint64_t used_bytes, free_bytes, total_bytes; /* GW_WATCH_UNKNOWN: not read */
    uint64_t need_bytes;                          /* sum over the recorded runs of what they cannot give back */
    uint64_t unjudged_bytes; /* in use by processes whose need is unknown; GW_WATCH_UNKNOWN: not read */
    bool is_alarm;
} gw_watch_card;

/* A process with memory on a card; one with memory on two cards is there twice. */
typedef struct gw_watch_process {
    uint32_t pid;
    bool pid_is_ours; /* false: the pid belongs to another pid namespace, so nothing else is known */
    int card, run;    /* indices in the snapshot; run GW_WATCH_NONE: not recorded */
    uint64_t bytes;
    gw_watch_idle idle;
    uint64_t idle_s;
    char user[GW_WATCH_NAME_MAX], command[GW_WATCH_COMMAND_MAX]; /* "": unknown */
    char started_by[GW_WATCH_NAME_MAX];                          /* "notebook", "tmux", "Slurm job 17"; "": unknown */
} gw_watch_process;

/* The memory of a run on one device. */
typedef struct gw_watch_use {
    unsigned device; /* CUDA's number in the run */
    int card;        /* GW_WATCH_NONE: not known which one it is */
    gw_live_device is;
    uint64_t outside_bytes; /* held by the driver for the run: contexts, libraries; GW_WATCH_UNKNOWN */
    uint64_t need_bytes;    /* what the run cannot give back; GW_WATCH_UNKNOWN: see `need_why` */
    const char *need_why;   /* static; NULL: known */
    uint64_t full_s;        /* until the card is full, if the growth goes on; GW_WATCH_UNKNOWN: it does not grow */
    bool is_alarm;
} gw_watch_use;

typedef struct gw_watch_run {
    char id[GW_WATCH_NAME_MAX]; /* the recording's name without folder and ending */
    char user[GW_WATCH_NAME_MAX];
    gw_live is;            /* without pids of other users' processes */
    uint32_t blind_pid;    /* a process whose framework caches memory that gpuwhy cannot see; 0: none */
    bool is_unseen;        /* the libraries of a process cannot be read, so blind_pid is not certain */
    uint64_t seconds;      /* since its start */
    uint64_t stale_s;      /* since its supervisor last published something */
    uint64_t idle_s;       /* since the processes last gave work to a card; GW_WATCH_UNKNOWN: they never did */
    uint64_t failed_s;     /* since the last failure; GW_WATCH_UNKNOWN: none */
    const char *failed_as; /* the result's name; static; NULL: not known */
    gw_watch_use use[GW_LIVE_DEVICES_MAX];
    size_t use_count;
} gw_watch_run;

typedef struct gw_watch_snapshot {
    uint64_t t_realtime_ns;
    char host[GW_WATCH_NAME_MAX];
    char no_cards_why[512]; /* why there is no (new) data about the cards of this machine; "": there is */
    gw_watch_card *card;    /* all arrays are owned by the gw_watch */
    size_t card_count;
    gw_watch_process *process;
    size_t process_count;
    gw_watch_run *run;
    size_t run_count;
    size_t hidden_runs;                   /* runs of other users that may not be read */
    char hidden_users[GW_WATCH_NAME_MAX]; /* some of them: "ann, bob" */
    size_t broken_runs;                   /* runs whose state could not be read */
    char broken_why[256];                 /* reason for the last of them */
    bool sees_all;                        /* false: runs of others are not visible */
    double alarm_ratio;                   /* of a card's memory; 0: alarm_bytes */
    uint64_t alarm_bytes;                 /* 0, too: no alarms */
} gw_watch_snapshot;

typedef struct gw_watch gw_watch;

/* When to raise alarms, as in the snapshot. */
typedef struct gw_watch_options {
    double alarm_ratio;
    uint64_t alarm_bytes;
} gw_watch_options;

/* Start the process that calls NVML. The caller frees *ret_watch with gw_watch_close(). GW_NOMEM, GW_IO. */
GW_MUST_CHECK gw_status gw_watch_open(const gw_watch_options *options, gw_watch **ret_watch, gw_error *err);
/* Read everything anew. *ret_snapshot belongs to `watch` and is valid until the next call. GW_NOMEM: out of memory.
 * Cards or runs that cannot be read are no error: the snapshot has the reason. May wait 2 s if NVML hangs, the first
 * time 20 s. */
GW_MUST_CHECK gw_status gw_watch_look(gw_watch *watch, const gw_watch_snapshot **ret_snapshot, gw_error *err);
void gw_watch_close(gw_watch *watch); /* takes NULL */

/* Return true and the value of a metric of a card if it is known; otherwise false and 0. */
static inline bool gw_watch_metric(const gw_watch_card *card, gw_metric metric, uint64_t *ret_value)
{
    bool is_known = card->is.value[metric].state == GW_SAMPLE_KNOWN;
    *ret_value = is_known ? card->is.value[metric].value : 0;
    return is_known;
}

/* A snapshot for programs: as JSON (docs/json-schema.md) and as metrics (docs/metrics.md). Any thread may call the
 * functions. */

/* Append one JSON object on one line, with a line break. GW_NOMEM: `text` may contain a part of it. */
GW_MUST_CHECK gw_status gw_watch_json(const gw_watch_snapshot *snapshot, gw_text *text, gw_error *err);
/* The same for `gpuwhy who`: only the processes. */
GW_MUST_CHECK gw_status gw_watch_json_who(const gw_watch_snapshot *snapshot, const char *filter, gw_text *text,
                                          gw_error *err);

/* OPENMETRICS: OpenMetrics 1.0. PROMETHEUS: the older text format 0.0.4, for clients that do not know OpenMetrics. */
typedef enum gw_metrics_format { GW_METRICS_OPENMETRICS, GW_METRICS_PROMETHEUS } gw_metrics_format;
/* Append all families of metrics. A value that is unknown has no sample. */
void gw_watch_metrics(const gw_watch_snapshot *snapshot, gw_metrics_format format, gw_text *text);

/* Draws a snapshot as lines of text. Computes nothing about the machine and touches no terminal.
 *
 * Strings of other processes are made printable, so the text contains no control characters except line breaks and
 * the marks below. A mark sets the style of what follows, up to the next mark or the end of the line. */

typedef enum gw_watch_mark {
    GW_MARK_PLAIN = 1,
    GW_MARK_TITLE,
    GW_MARK_HEAD,
    GW_MARK_DIM,
    GW_MARK_GOOD,
    GW_MARK_WARN,
    GW_MARK_ALARM,
    GW_MARK_END /* no mark; one more than the last one. Less than 9, the code of a tab */
} gw_watch_mark;

/* The order of processes and runs. X(NAME, key, text) */
#define GW_WATCH_ORDERS(X)                                                                                             \
    X(CARD, 'g', "GPU")                                                                                                \
    X(MEMORY, 'm', "memory")                                                                                           \
    X(IDLE, 'i', "idle time")                                                                                          \
    X(USER, 'u', "user")                                                                                               \
    X(PID, 'p', "pid")

typedef enum gw_watch_order {
#define GW_X(name, key, text) GW_WATCH_BY_##name,
    GW_WATCH_ORDERS(GW_X)
#undef GW_X
        GW_WATCH_ORDER_COUNT
} gw_watch_order;

typedef struct gw_watch_view {
    unsigned width, height; /* of the screen; height 0: as many lines as needed */
    unsigned top;           /* number of lines below the title that are scrolled away */
    gw_watch_order order;
    const char *filter; /* show only processes and runs whose user, command, pid or id contains this text; "": all */
    bool is_typing;     /* the filter is being typed */
    bool help;
    unsigned interval_s;
} gw_watch_view;

/* Append the screen to `text`, each line with a line break and at most `width` columns. *ret_top_max: the largest
 * useful value of `top`. */
void gw_watch_draw(const gw_watch_snapshot *snapshot, const gw_watch_view *view, gw_text *text, unsigned *ret_top_max);

/* True if the process is shown with this filter; see gw_watch_view. */
bool gw_watch_passes(const char *filter, const gw_watch_process *process);
/* Append one line for each process on a card, for `gpuwhy who`. Returns the number of processes. */
size_t gw_watch_draw_who(const gw_watch_snapshot *snapshot, const gw_watch_view *view, gw_text *text);

/* Append `text` without marks. */
void gw_watch_plain(gw_text *out, const char *text);

#endif
