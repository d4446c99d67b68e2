/* Writes a snapshot as metrics (gw_watch.h). The table `families` lists them; docs/metrics.md describes them, and a
 * test compares the two.
 *
 * No label has a value that grows without bounds: command lines are left out, and pids and recordings appear only while
 * their run is recorded. */
#include "gw_watch.h"

#include "gw_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct family family;
typedef struct output {
    gw_text *text;
    const family *family;
    const gw_watch_snapshot *s;
} output;

typedef enum type { GAUGE, COUNTER, INFO } type;

typedef struct part {
    const char *name; /* NULL: the end of a list */
    gw_metric metric;
} part;

struct family {
    const char *name; /* without the suffix "_total" or "_info" */
    type type;
    const char *help;
    /* One of these gives the values. GW_WATCH_UNKNOWN: no sample. */
    void (*write)(output *out);
    uint64_t (*of_card)(const gw_watch_card *card);
    uint64_t (*of_run)(const gw_watch_run *run);
    uint64_t (*of_use)(const gw_watch_use *use); /* of each device of each run */
    const part *parts;                           /* metrics of a card, told apart by the label "type" */
    unsigned metric;                             /* a metric of a card, and what to multiply it with */
    double factor;
};

/* Define a function that returns a value of a card, a run or a device of a run. */
#define VALUE(name, type, it, value)                                                                                   \
    static uint64_t name(const type *it)                                                                               \
    {                                                                                                                  \
        return value;                                                                                                  \
    }

/* ---- samples ---- */

static const char *suffix(const family *f)
{
    return f->type == COUNTER ? "_total" : f->type == INFO ? "_info" : "";
}

/* Append a label. Backslashes, quotes and line breaks in the value are escaped. */
static void label(gw_text *text, const char *name, const char *value)
{
    gw_text clean = {0};
    gw_add_printable(&clean, value);
    bool is_first = text->bytes > 0 && text->data[text->bytes - 1] == '{';
    gw_text_addf(text, "%s%s=\"", is_first ? "" : ",", name);
    for (const char *at = gw_text_str(&clean); *at != '\0'; at++) {
        if (*at == '\\' || *at == '"')
            gw_text_add_str(text, "\\");
        gw_text_add(text, at, 1);
    }
    gw_text_add_str(text, "\"");
    gw_text_free(&clean);
}

static void label_number(gw_text *text, const char *name, uint64_t value)
{
    char number[24];
    snprintf(number, sizeof number, "%" PRIu64, value);
    label(text, name, number);
}

static void begin(output *out)
{
    gw_text_addf(out->text, "%s%s{", out->family->name, suffix(out->family));
}

static void end_sample(output *out, double value)
{
    gw_text_addf(out->text, "} %.12g\n", value);
}

static void end_count(output *out, uint64_t value)
{
    gw_text_addf(out->text, "} %" PRIu64 "\n", value);
}

static void plain(output *out, double value)
{
    gw_text_addf(out->text, "%s%s %.12g\n", out->family->name, suffix(out->family), value);
}

/* Only the cards of this machine have stable numbers; the virtual cards of single runs are left out. */
static bool is_counted(const gw_watch_card *card)
{
    return card->source == 0;
}

static void begin_card(output *out, const gw_watch_card *card)
{
    begin(out);
    label_number(out->text, "gpu", card->index);
    label(out->text, "uuid", card->is.uuid);
}

#define FOR_CARDS(card)                                                                                                \
    for (const gw_watch_card *card = out->s->card; card < out->s->card + out->s->card_count; card++)                   \
        if (is_counted(card))

/* ---- cards ---- */

static void write_metric(output *out)
{
    FOR_CARDS(card)
    {
        uint64_t value;
        if (!gw_watch_metric(card, (gw_metric)out->family->metric, &value))
            continue;
        begin_card(out, card);
        if (out->family->factor == 1)
            end_count(out, value);
        else
            end_sample(out, (double)value * out->family->factor);
    }
}

static void write_card_info(output *out)
{
    FOR_CARDS(card)
    {
        begin_card(out, card);
        label(out->text, "name", card->is.name);
        label(out->text, "pci", card->is.pci);
        end_count(out, 1);
    }
}

static void write_cards(output *out)
{
    FOR_CARDS(card)
    {
        uint64_t value = out->family->of_card(card);
        if (value == GW_WATCH_UNKNOWN)
            continue;
        begin_card(out, card);
        end_count(out, value);
    }
}

VALUE(card_need, gw_watch_card, card, card->need_bytes)
VALUE(card_unjudged, gw_watch_card, card, card->unjudged_bytes)
VALUE(card_alarm, gw_watch_card, card, card->is_alarm)
VALUE(card_lost, gw_watch_card, card, card->is.is_lost)
VALUE(card_xids, gw_watch_card, card, card->is.xid_count)
VALUE(card_last_xid, gw_watch_card, card, card->is.xid_count == 0 ? GW_WATCH_UNKNOWN : card->is.xid_last)

static void write_reasons(output *out)
{
    static const struct {
        const char *name;
        uint64_t bit;
    } reasons[] = {{"setting", GW_CLOCK_REASON_SETTING},
                   {"power_cap", GW_CLOCK_REASON_POWER_CAP},
                   {"hardware_slowdown", GW_CLOCK_REASON_HW_SLOWDOWN},
                   {"sync_boost", GW_CLOCK_REASON_SYNC_BOOST},
                   {"software_thermal", GW_CLOCK_REASON_SW_THERMAL},
                   {"hardware_thermal", GW_CLOCK_REASON_HW_THERMAL},
                   {"power_brake", GW_CLOCK_REASON_POWER_BRAKE}};
    FOR_CARDS(card)
    {
        uint64_t bits;
        if (!gw_watch_metric(card, GW_METRIC_CARD_CLOCK_REASONS, &bits))
            continue;
        for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
            begin_card(out, card);
            label(out->text, "reason", reasons[i].name);
            end_count(out, (bits & reasons[i].bit) != 0);
        }
    }
}

static void write_parts(output *out)
{
    FOR_CARDS(card)
    {
        for (const part *one = out->family->parts; one->name != NULL; one++) {
            uint64_t value;
            if (!gw_watch_metric(card, one->metric, &value))
                continue;
            begin_card(out, card);
            label(out->text, "type", one->name);
            end_count(out, value);
        }
    }
}

static const part ecc[] = {
    {"corrected", GW_METRIC_CARD_ECC_CORRECTED}, {"uncorrected", GW_METRIC_CARD_ECC_UNCORRECTED}, {NULL, 0}};
static const part remaps[] = {
    {"corrected", GW_METRIC_CARD_REMAP_CORRECTABLE}, {"uncorrected", GW_METRIC_CARD_REMAP_UNCORRECTABLE}, {NULL, 0}};
static const part nvlink[] = {{"replay", GW_METRIC_CARD_NVLINK_REPLAYS},
                              {"recovery", GW_METRIC_CARD_NVLINK_RECOVERIES},
                              {"crc", GW_METRIC_CARD_NVLINK_CRC},
                              {NULL, 0}};

/* ---- processes ---- */

static void write_process_count(output *out)
{
    FOR_CARDS(card)
    {
        uint64_t count = 0;
        for (size_t i = 0; i < out->s->process_count; i++)
            count += &out->s->card[out->s->process[i].card] == card;
        if (!card->is.holders_known)
            continue;
        begin_card(out, card);
        end_count(out, count);
    }
}

static bool is_same_owner(const gw_watch_process *a, const gw_watch_process *b)
{
    return a->card == b->card && strcmp(a->user, b->user) == 0;
}

/* The memory of all processes of a user on a card. */
static void write_users(output *out)
{
    const gw_watch_snapshot *s = out->s;
    for (size_t i = 0; i < s->process_count; i++) {
        const gw_watch_process *one = &s->process[i];
        bool is_first = is_counted(&s->card[one->card]);
        bool is_known = false;
        uint64_t bytes = 0;
        for (size_t k = 0; k < s->process_count && is_first; k++) {
            if (!is_same_owner(one, &s->process[k]))
                continue;
            is_first = k >= i;
            is_known = is_known || s->process[k].bytes != GW_WATCH_UNKNOWN;
            if (s->process[k].bytes != GW_WATCH_UNKNOWN)
                bytes += s->process[k].bytes < UINT64_MAX / 256 ? s->process[k].bytes : 0;
        }
        if (!is_first || !is_known)
            continue;
        begin_card(out, &s->card[one->card]);
        label(out->text, "user", one->user);
        end_count(out, bytes);
    }
}

static void write_run_processes(output *out)
{
    const gw_watch_snapshot *s = out->s;
    for (size_t i = 0; i < s->process_count; i++) {
        const gw_watch_process *one = &s->process[i];
        if (one->run == GW_WATCH_NONE || one->bytes == GW_WATCH_UNKNOWN)
            continue;
        begin(out);
        label(out->text, "run", s->run[one->run].id);
        label_number(out->text, "gpu", s->card[one->card].index);
        label_number(out->text, "pid", one->pid);
        end_count(out, one->bytes);
    }
}

/* ---- runs ---- */

#define FOR_RUNS(run) for (const gw_watch_run *run = out->s->run; run < out->s->run + out->s->run_count; run++)

static void write_run_info(output *out)
{
    FOR_RUNS(run)
    {
        begin(out);
        label(out->text, "run", run->id);
        label(out->text, "user", run->user);
        label(out->text, "cards", run->is.is_rehearsal ? "rehearsal" : run->is.virtual_cards[0] ? "virtual" : "real");
        end_count(out, 1);
    }
}

static void begin_run(output *out, const gw_watch_run *run)
{
    begin(out);
    label(out->text, "run", run->id);
}

static void write_each_run(output *out)
{
    FOR_RUNS(run)
    {
        uint64_t value = out->family->of_run(run);
        if (value == GW_WATCH_UNKNOWN)
            continue;
        begin_run(out, run);
        end_count(out, value);
    }
}

VALUE(run_seconds, gw_watch_run, run, run->seconds)
VALUE(run_idle, gw_watch_run, run, run->idle_s)
VALUE(run_failures, gw_watch_run, run, run->is.failure_count)

static void write_uses(output *out)
{
    FOR_RUNS(run)
    {
        for (size_t i = 0; i < run->use_count; i++) {
            uint64_t number = out->family->of_use(&run->use[i]);
            if (number == GW_WATCH_UNKNOWN)
                continue;
            begin_run(out, run);
            label_number(out->text, "device", run->use[i].device);
            end_count(out, number);
        }
    }
}

VALUE(allocated_of, gw_watch_use, use, use->is.live_bytes)
VALUE(need_of, gw_watch_use, use, use->need_bytes)
VALUE(limit_of, gw_watch_use, use, use->is.limit_bytes == 0 ? GW_WATCH_UNKNOWN : use->is.limit_bytes)

static uint64_t cached_of(const gw_watch_use *use)
{
    if (use->is.reserved_bytes == 0)
        return GW_WATCH_UNKNOWN;
    return use->is.reserved_bytes > use->is.allocated_bytes ? use->is.reserved_bytes - use->is.allocated_bytes : 0;
}

VALUE(full_of, gw_watch_use, use, use->full_s)
VALUE(alarm_of, gw_watch_use, use, use->need_bytes == GW_WATCH_UNKNOWN ? GW_WATCH_UNKNOWN : use->is_alarm)

static void write_growth(output *out)
{
    FOR_RUNS(run)
    {
        for (size_t i = 0; i < run->use_count; i++) {
            const gw_live_device *is = &run->use[i].is;
            if (run->use[i].need_bytes == GW_WATCH_UNKNOWN)
                continue;
            begin_run(out, run);
            label_number(out->text, "device", run->use[i].device);
            end_sample(out, is->grows ? (double)is->bytes_per_minute / 60 : 0);
        }
    }
}

/* ---- gpuwhy itself ---- */

static void write_build(output *out)
{
    begin(out);
    label(out->text, "version", GW_PROGRAM_VERSION);
    end_count(out, 1);
}

static void write_readable(output *out)
{
    plain(out, out->s->no_cards_why[0] == '\0');
}

static void write_time(output *out)
{
    gw_text_addf(out->text, "%s %" PRIu64 ".%03" PRIu64 "\n", out->family->name, out->s->t_realtime_ns / 1000000000u,
                 out->s->t_realtime_ns / 1000000u % 1000);
}

static void write_hidden(output *out)
{
    plain(out, (double)out->s->hidden_runs);
}

static void write_runs(output *out)
{
    plain(out, (double)out->s->run_count);
}

/* ---- the table ---- */

// clang-format off
#define METRIC(name, type, help, metric, factor) {name, type, help, NULL, NULL, NULL, NULL, NULL, GW_METRIC_##metric, factor}
#define FAMILY(name, type, help, source) {name, type, help, source}
// clang-format on
static const family families[] = {
    FAMILY("gpuwhy_build", INFO, "The version of gpuwhy.", .write = write_build),
    FAMILY("gpuwhy_snapshot_timestamp_seconds", GAUGE, "When the values below were read.", .write = write_time),
    FAMILY("gpuwhy_gpus_readable", GAUGE, "1 if NVML could be read, otherwise 0.", .write = write_readable),
    FAMILY("gpuwhy_gpu", INFO, "Name and place of a card.", .write = write_card_info),
    METRIC("gpuwhy_gpu_memory_total_bytes", GAUGE, "Memory of the card.", CARD_MEMORY_TOTAL, 1),
    METRIC("gpuwhy_gpu_memory_used_bytes", GAUGE, "Memory in use on the card.", CARD_MEMORY_USED, 1),
    METRIC("gpuwhy_gpu_memory_free_bytes", GAUGE, "Free memory of the card.", CARD_MEMORY_FREE, 1),
    FAMILY("gpuwhy_gpu_memory_needed_bytes", GAUGE, "Memory that the recorded runs on the card cannot give back.",
           .of_card = card_need),
    FAMILY("gpuwhy_gpu_memory_unjudged_bytes", GAUGE, "Memory in use by processes whose need is unknown.",
           .of_card = card_unjudged),
    FAMILY("gpuwhy_gpu_memory_alarm", GAUGE, "1 if the needed memory reaches the threshold of --alarm-at.",
           .of_card = card_alarm),
    METRIC("gpuwhy_gpu_temperature_celsius", GAUGE, "Temperature of the GPU.", CARD_TEMPERATURE, 1),
    METRIC("gpuwhy_gpu_memory_temperature_celsius", GAUGE, "Temperature of the card's memory.", CARD_TEMPERATURE_MEMORY,
           1),
    METRIC("gpuwhy_gpu_power_watts", GAUGE, "Power draw of the card.", CARD_POWER, 1e-3),
    METRIC("gpuwhy_gpu_power_limit_watts", GAUGE, "Enforced power limit.", CARD_POWER_LIMIT, 1e-3),
    METRIC("gpuwhy_gpu_sm_clock_hertz", GAUGE, "Clock of the multiprocessors.", CARD_CLOCK_SM, 1e6),
    METRIC("gpuwhy_gpu_memory_clock_hertz", GAUGE, "Clock of the memory.", CARD_CLOCK_MEMORY, 1e6),
    METRIC("gpuwhy_gpu_utilization_ratio", GAUGE, "Part of the last second in which a kernel ran.", CARD_UTILISATION,
           1e-2),
    FAMILY("gpuwhy_gpu_clock_limited", GAUGE, "1 while this reason lowers the clocks.", .write = write_reasons),
    FAMILY("gpuwhy_gpu_ecc_errors", COUNTER, "Memory errors since the driver was loaded.", .parts = ecc),
    FAMILY("gpuwhy_gpu_remapped_rows", GAUGE, "Memory rows that were remapped after errors.", .parts = remaps),
    METRIC("gpuwhy_gpu_row_remap_pending", GAUGE, "1 if a remapped row needs a reset of the card.", CARD_REMAP_PENDING,
           1),
    METRIC("gpuwhy_gpu_row_remap_failed", GAUGE, "1 if a row could not be remapped.", CARD_REMAP_FAILED, 1),
    FAMILY("gpuwhy_gpu_xid_events", COUNTER, "Xid events since gpuwhy watch was started.", .of_card = card_xids),
    FAMILY("gpuwhy_gpu_last_xid", GAUGE, "Number of the last Xid; no sample if there was none.",
           .of_card = card_last_xid),
    METRIC("gpuwhy_gpu_pcie_replays", COUNTER, "Repeated transfers on the PCIe link.", CARD_PCIE_REPLAYS, 1),
    FAMILY("gpuwhy_gpu_nvlink_errors", COUNTER, "Errors on the NVLink links.", .parts = nvlink),
    FAMILY("gpuwhy_gpu_lost", GAUGE, "1 if NVML reported the card as lost.", .of_card = card_lost),
    FAMILY("gpuwhy_gpu_processes", GAUGE, "Processes with memory on the card.", .write = write_process_count),
    FAMILY("gpuwhy_gpu_user_memory_bytes", GAUGE, "Memory in use by all processes of a user.", .write = write_users),
    FAMILY("gpuwhy_runs", GAUGE, "Recorded runs in progress.", .write = write_runs),
    FAMILY("gpuwhy_runs_hidden", GAUGE, "Runs of other users that could not be read.", .write = write_hidden),
    FAMILY("gpuwhy_run", INFO, "User of a recorded run and the kind of its cards.", .write = write_run_info),
    FAMILY("gpuwhy_run_duration_seconds", GAUGE, "Time since the run was started.", .of_run = run_seconds),
    FAMILY("gpuwhy_run_idle_seconds", GAUGE, "Time since the run last gave work to a card.", .of_run = run_idle),
    FAMILY("gpuwhy_run_failed_calls", COUNTER, "Failed driver calls of the run.", .of_run = run_failures),
    FAMILY("gpuwhy_run_memory_allocated_bytes", GAUGE, "Device memory that the run has allocated through the driver.",
           .of_use = allocated_of),
    FAMILY("gpuwhy_run_memory_cached_bytes", GAUGE, "Memory that PyTorch only caches for the run.",
           .of_use = cached_of),
    FAMILY("gpuwhy_run_memory_needed_bytes", GAUGE, "Memory that the run cannot give back.", .of_use = need_of),
    FAMILY("gpuwhy_run_memory_limit_bytes", GAUGE, "Memory that the run can use.", .of_use = limit_of),
    FAMILY("gpuwhy_run_memory_growth_bytes_per_second", GAUGE, "Steady growth of the needed memory; 0: none.",
           .write = write_growth),
    FAMILY("gpuwhy_run_memory_full_seconds", GAUGE, "Time until the memory is full; no sample without growth.",
           .of_use = full_of),
    FAMILY("gpuwhy_run_memory_alarm", GAUGE, "1 if the needed memory reaches the threshold of --alarm-at.",
           .of_use = alarm_of),
    FAMILY("gpuwhy_run_process_memory_bytes", GAUGE, "Memory in use by a process of the run.",
           .write = write_run_processes),
};

/* In OpenMetrics, the suffix belongs to the sample; in the older format, to the family's name. */
static void write_head(gw_text *text, const family *f, gw_metrics_format format)
{
    static const char *const types[] = {"gauge", "counter", "info"};
    bool is_new = format == GW_METRICS_OPENMETRICS;
    const char *end = is_new ? "" : suffix(f);
    gw_text_addf(text, "# TYPE %s%s %s\n", f->name, end, f->type == INFO && !is_new ? "gauge" : types[f->type]);
    gw_text_addf(text, "# HELP %s%s %s\n", f->name, end, f->help);
}

static void write_family(output *out)
{
    const family *f = out->family;
    void (*write)(output *) = f->write;
    if (f->of_card != NULL)
        write = write_cards;
    else if (f->of_run != NULL)
        write = write_each_run;
    else if (f->of_use != NULL)
        write = write_uses;
    else if (f->parts != NULL)
        write = write_parts;
    else if (write == NULL)
        write = write_metric;
    write(out);
}

void gw_watch_metrics(const gw_watch_snapshot *snapshot, gw_metrics_format format, gw_text *text)
{
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        output out = {text, &families[i], snapshot};
        write_head(text, &families[i], format);
        write_family(&out);
    }
    if (format == GW_METRICS_OPENMETRICS)
        gw_text_add_str(text, "# EOF\n");
}
