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

struct family {
    const char *name; /* without the suffix "_total" or "_info" */
    type type;
    const char *help;
    void (*write)(output *out);
    unsigned metric; /* of write_metric: the metric of a card, and what to multiply it with */
    double factor;
};

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

static void write_need(output *out)
{
    FOR_CARDS(card)
    {
        if (card->need_bytes == GW_WATCH_UNKNOWN)
            continue;
        begin_card(out, card);
        end_count(out, card->need_bytes);
    }
}

static void write_unjudged(output *out)
{
    FOR_CARDS(card)
    {
        if (card->unjudged_bytes == GW_WATCH_UNKNOWN)
            continue;
        begin_card(out, card);
        end_count(out, card->unjudged_bytes);
    }
}

static void write_card_alarm(output *out)
{
    FOR_CARDS(card)
    {
        begin_card(out, card);
        end_count(out, card->is_alarm);
    }
}

static void write_lost(output *out)
{
    FOR_CARDS(card)
    {
        begin_card(out, card);
        end_count(out, card->is.is_lost);
    }
}

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

/* Several metrics of a card as one family, told apart by a label. */
typedef struct part {
    const char *name;
    gw_metric metric;
} part;

static void write_parts(output *out, const char *label_name, const part *parts, size_t count)
{
    FOR_CARDS(card)
    {
        for (size_t i = 0; i < count; i++) {
            uint64_t value;
            if (!gw_watch_metric(card, parts[i].metric, &value))
                continue;
            begin_card(out, card);
            label(out->text, label_name, parts[i].name);
            end_count(out, value);
        }
    }
}

static void write_ecc(output *out)
{
    static const part parts[] = {{"corrected", GW_METRIC_CARD_ECC_CORRECTED},
                                 {"uncorrected", GW_METRIC_CARD_ECC_UNCORRECTED}};
    write_parts(out, "type", parts, sizeof parts / sizeof parts[0]);
}

static void write_remaps(output *out)
{
    static const part parts[] = {{"corrected", GW_METRIC_CARD_REMAP_CORRECTABLE},
                                 {"uncorrected", GW_METRIC_CARD_REMAP_UNCORRECTABLE}};
    write_parts(out, "type", parts, sizeof parts / sizeof parts[0]);
}

static void write_nvlink(output *out)
{
    static const part parts[] = {{"replay", GW_METRIC_CARD_NVLINK_REPLAYS},
                                 {"recovery", GW_METRIC_CARD_NVLINK_RECOVERIES},
                                 {"crc", GW_METRIC_CARD_NVLINK_CRC}};
    write_parts(out, "type", parts, sizeof parts / sizeof parts[0]);
}

static void write_xids(output *out)
{
    FOR_CARDS(card)
    {
        begin_card(out, card);
        end_count(out, card->is.xid_count);
    }
}

static void write_last_xid(output *out)
{
    FOR_CARDS(card)
    {
        if (card->is.xid_count == 0)
            continue;
        begin_card(out, card);
        end_count(out, card->is.xid_last);
    }
}

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

static void write_run_seconds(output *out)
{
    FOR_RUNS(run)
    {
        begin_run(out, run);
        end_count(out, run->seconds);
    }
}

static void write_run_idle(output *out)
{
    FOR_RUNS(run)
    {
        if (run->idle_s == GW_WATCH_UNKNOWN)
            continue;
        begin_run(out, run);
        end_count(out, run->idle_s);
    }
}

static void write_run_failures(output *out)
{
    FOR_RUNS(run)
    {
        begin_run(out, run);
        end_count(out, run->is.failure_count);
    }
}

/* Write one value of each device of each run; GW_WATCH_UNKNOWN: no sample. */
static void write_uses(output *out, uint64_t (*value)(const gw_watch_use *use))
{
    FOR_RUNS(run)
    {
        for (size_t i = 0; i < run->use_count; i++) {
            uint64_t number = value(&run->use[i]);
            if (number == GW_WATCH_UNKNOWN)
                continue;
            begin_run(out, run);
            label_number(out->text, "device", run->use[i].device);
            end_count(out, number);
        }
    }
}

static uint64_t allocated_of(const gw_watch_use *use)
{
    return use->is.live_bytes;
}

static uint64_t need_of(const gw_watch_use *use)
{
    return use->need_bytes;
}

static uint64_t limit_of(const gw_watch_use *use)
{
    return use->is.limit_bytes == 0 ? GW_WATCH_UNKNOWN : use->is.limit_bytes;
}

static uint64_t cached_of(const gw_watch_use *use)
{
    if (use->is.reserved_bytes == 0)
        return GW_WATCH_UNKNOWN;
    return use->is.reserved_bytes > use->is.allocated_bytes ? use->is.reserved_bytes - use->is.allocated_bytes : 0;
}

static uint64_t full_of(const gw_watch_use *use)
{
    return use->full_s;
}

static uint64_t alarm_of(const gw_watch_use *use)
{
    return use->need_bytes == GW_WATCH_UNKNOWN ? GW_WATCH_UNKNOWN : use->is_alarm;
}

static void write_allocated(output *out)
{
    write_uses(out, allocated_of);
}

static void write_run_need(output *out)
{
    write_uses(out, need_of);
}

static void write_limit(output *out)
{
    write_uses(out, limit_of);
}

static void write_cached(output *out)
{
    write_uses(out, cached_of);
}

static void write_full(output *out)
{
    write_uses(out, full_of);
}

static void write_run_alarm(output *out)
{
    write_uses(out, alarm_of);
}

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

#define METRIC(name, type, help, metric, factor)                                                                       \
    {                                                                                                                  \
        name, type, help, write_metric, GW_METRIC_##metric, factor                                                     \
    }
#define FAMILY(name, type, help, write)                                                                                \
    {                                                                                                                  \
        name, type, help, write, 0, 0                                                                                  \
    }
static const family families[] = {
    FAMILY("gpuwhy_build", INFO, "The version of gpuwhy.", write_build),
    FAMILY("gpuwhy_snapshot_timestamp_seconds", GAUGE, "When the values below were read.", write_time),
    FAMILY("gpuwhy_gpus_readable", GAUGE, "1 if NVML could be read, otherwise 0.", write_readable),
    FAMILY("gpuwhy_gpu", INFO, "Name and place of a card.", write_card_info),
    METRIC("gpuwhy_gpu_memory_total_bytes", GAUGE, "Memory of the card.", CARD_MEMORY_TOTAL, 1),
    METRIC("gpuwhy_gpu_memory_used_bytes", GAUGE, "Memory in use on the card.", CARD_MEMORY_USED, 1),
    METRIC("gpuwhy_gpu_memory_free_bytes", GAUGE, "Free memory of the card.", CARD_MEMORY_FREE, 1),
    FAMILY("gpuwhy_gpu_memory_needed_bytes", GAUGE, "Memory that the recorded runs on the card cannot give back.",
           write_need),
    FAMILY("gpuwhy_gpu_memory_unjudged_bytes", GAUGE, "Memory in use by processes whose need is unknown.",
           write_unjudged),
    FAMILY("gpuwhy_gpu_memory_alarm", GAUGE, "1 if the needed memory reaches the threshold of --alarm-at.",
           write_card_alarm),
    METRIC("gpuwhy_gpu_temperature_celsius", GAUGE, "Temperature of the GPU.", CARD_TEMPERATURE, 1),
    METRIC("gpuwhy_gpu_memory_temperature_celsius", GAUGE, "Temperature of the card's memory.", CARD_TEMPERATURE_MEMORY,
           1),
    METRIC("gpuwhy_gpu_power_watts", GAUGE, "Power draw of the card.", CARD_POWER, 1e-3),
    METRIC("gpuwhy_gpu_power_limit_watts", GAUGE, "Enforced power limit.", CARD_POWER_LIMIT, 1e-3),
    METRIC("gpuwhy_gpu_sm_clock_hertz", GAUGE, "Clock of the multiprocessors.", CARD_CLOCK_SM, 1e6),
    METRIC("gpuwhy_gpu_memory_clock_hertz", GAUGE, "Clock of the memory.", CARD_CLOCK_MEMORY, 1e6),
    METRIC("gpuwhy_gpu_utilization_ratio", GAUGE, "Part of the last second in which a kernel ran.", CARD_UTILISATION,
           1e-2),
    FAMILY("gpuwhy_gpu_clock_limited", GAUGE, "1 while this reason lowers the clocks.", write_reasons),
    FAMILY("gpuwhy_gpu_ecc_errors", COUNTER, "Memory errors since the driver was loaded.", write_ecc),
    FAMILY("gpuwhy_gpu_remapped_rows", GAUGE, "Memory rows that were remapped after errors.", write_remaps),
    METRIC("gpuwhy_gpu_row_remap_pending", GAUGE, "1 if a remapped row needs a reset of the card.", CARD_REMAP_PENDING,
           1),
    METRIC("gpuwhy_gpu_row_remap_failed", GAUGE, "1 if a row could not be remapped.", CARD_REMAP_FAILED, 1),
    FAMILY("gpuwhy_gpu_xid_events", COUNTER, "Xid events since gpuwhy watch was started.", write_xids),
    FAMILY("gpuwhy_gpu_last_xid", GAUGE, "Number of the last Xid; no sample if there was none.", write_last_xid),
    METRIC("gpuwhy_gpu_pcie_replays", COUNTER, "Repeated transfers on the PCIe link.", CARD_PCIE_REPLAYS, 1),
    FAMILY("gpuwhy_gpu_nvlink_errors", COUNTER, "Errors on the NVLink links.", write_nvlink),
    FAMILY("gpuwhy_gpu_lost", GAUGE, "1 if NVML reported the card as lost.", write_lost),
    FAMILY("gpuwhy_gpu_processes", GAUGE, "Processes with memory on the card.", write_process_count),
    FAMILY("gpuwhy_gpu_user_memory_bytes", GAUGE, "Memory in use by all processes of a user.", write_users),
    FAMILY("gpuwhy_runs", GAUGE, "Recorded runs in progress.", write_runs),
    FAMILY("gpuwhy_runs_hidden", GAUGE, "Runs of other users that could not be read.", write_hidden),
    FAMILY("gpuwhy_run", INFO, "User of a recorded run and the kind of its cards.", write_run_info),
    FAMILY("gpuwhy_run_duration_seconds", GAUGE, "Time since the run was started.", write_run_seconds),
    FAMILY("gpuwhy_run_idle_seconds", GAUGE, "Time since the run last gave work to a card.", write_run_idle),
    FAMILY("gpuwhy_run_failed_calls", COUNTER, "Failed driver calls of the run.", write_run_failures),
    FAMILY("gpuwhy_run_memory_allocated_bytes", GAUGE, "Device memory that the run has allocated through the driver.",
           write_allocated),
    FAMILY("gpuwhy_run_memory_cached_bytes", GAUGE, "Memory that PyTorch only caches for the run.", write_cached),
    FAMILY("gpuwhy_run_memory_needed_bytes", GAUGE, "Memory that the run cannot give back.", write_run_need),
    FAMILY("gpuwhy_run_memory_limit_bytes", GAUGE, "Memory that the run can use.", write_limit),
    FAMILY("gpuwhy_run_memory_growth_bytes_per_second", GAUGE, "Steady growth of the needed memory; 0: none.",
           write_growth),
    FAMILY("gpuwhy_run_memory_full_seconds", GAUGE, "Time until the memory is full; no sample without growth.",
           write_full),
    FAMILY("gpuwhy_run_memory_alarm", GAUGE, "1 if the needed memory reaches the threshold of --alarm-at.",
           write_run_alarm),
    FAMILY("gpuwhy_run_process_memory_bytes", GAUGE, "Memory in use by a process of the run.", write_run_processes),
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

void gw_watch_metrics(const gw_watch_snapshot *snapshot, gw_metrics_format format, gw_text *text)
{
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        output out = {text, &families[i], snapshot};
        write_head(text, &families[i], format);
        families[i].write(&out);
    }
    if (format == GW_METRICS_OPENMETRICS)
        gw_text_add_str(text, "# EOF\n");
}
