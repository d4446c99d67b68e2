/* Metrics that the supervisor samples during a run: their names, units and sources. They are about cards, control
 * groups, hosts and processes.
 *
 * Recordings store metrics, sources and states as row numbers of these tables. So rows never move, and new rows are
 * added at the end. */
#ifndef GW_METRICS_H
#define GW_METRICS_H

#include <stdint.h>

/* Where the supervisor reads a value. */
#define GW_SOURCES(X)                                                                                                  \
    X(NVML, "nvml")                                                                                                    \
    X(CGROUP, "cgroup")                                                                                                \
    X(HOST, "host")       /* /proc of the machine, file systems */                                                     \
    X(PROCESS, "process") /* /proc of one process, whose pid is in the item */                                         \
    X(KERNEL_LOG, "kernel log")                                                                                        \
    X(SUPERVISOR, "supervisor") /* gpuwhy itself */

typedef enum gw_source {
#define GW_X(name, text) GW_SOURCE_##name,
    GW_SOURCES(GW_X)
#undef GW_X
        GW_SOURCE_COUNT
} gw_source;

/* Whether a value is known, and the reason if not. */
#define GW_SAMPLE_STATES(X)                                                                                            \
    X(KNOWN, "known")                                                                                                  \
    X(NOT_SUPPORTED, "not supported")                                                                                  \
    X(NO_PERMISSION, "no permission")                                                                                  \
    X(NOT_YET, "not yet")                                                                                              \
    X(FAILED, "failed")

typedef enum gw_sample_state {
#define GW_X(name, text) GW_SAMPLE_##name,
    GW_SAMPLE_STATES(GW_X)
#undef GW_X
        GW_SAMPLE_STATE_COUNT
} gw_sample_state;

/* GAUGE goes up and down; LEVEL is a setting that rarely changes; COUNTER only rises, except after a reset; BITS are
 * flags; NUMBER is a code. */
typedef enum gw_metric_kind {
    GW_METRIC_GAUGE,
    GW_METRIC_LEVEL,
    GW_METRIC_COUNTER,
    GW_METRIC_BITS,
    GW_METRIC_NUMBER
} gw_metric_kind;

/* X(NAME, name in exports, unit, kind) */
#define GW_METRICS(X)                                                                                                  \
    /* of a card, from NVML */                                                                                         \
    X(CARD_MEMORY_USED, "card.memory.used", "bytes", GAUGE)                                                            \
    X(CARD_MEMORY_FREE, "card.memory.free", "bytes", GAUGE)                                                            \
    X(CARD_MEMORY_TOTAL, "card.memory.total", "bytes", LEVEL)                                                          \
    X(CARD_TEMPERATURE, "card.temperature", "C", GAUGE)                                                                \
    X(CARD_TEMPERATURE_MEMORY, "card.temperature.memory", "C", GAUGE)                                                  \
    X(CARD_TEMPERATURE_SLOWDOWN, "card.temperature.slowdown", "C", LEVEL)                                              \
    X(CARD_TEMPERATURE_SHUTDOWN, "card.temperature.shutdown", "C", LEVEL)                                              \
    X(CARD_TEMPERATURE_MEMORY_MAX, "card.temperature.memory_max", "C", LEVEL)                                          \
    X(CARD_POWER, "card.power", "mW", GAUGE)                                                                           \
    X(CARD_POWER_LIMIT, "card.power.limit", "mW", LEVEL) /* the enforced limit */                                      \
    X(CARD_POWER_LIMIT_DEFAULT, "card.power.limit_default", "mW", LEVEL)                                               \
    X(CARD_CLOCK_SM, "card.clock.sm", "MHz", GAUGE)                                                                    \
    X(CARD_CLOCK_SM_MAX, "card.clock.sm_max", "MHz", LEVEL)                                                            \
    X(CARD_CLOCK_MEMORY, "card.clock.memory", "MHz", GAUGE)                                                            \
    X(CARD_CLOCK_REASONS, "card.clock.reasons", "bits", BITS) /* GW_CLOCK_REASON_* */                                  \
    X(CARD_VIOLATION_POWER, "card.violation.power", "ns", COUNTER)                                                     \
    X(CARD_VIOLATION_THERMAL, "card.violation.thermal", "ns", COUNTER)                                                 \
    X(CARD_VIOLATION_SYNC_BOOST, "card.violation.sync_boost", "ns", COUNTER)                                           \
    X(CARD_VIOLATION_BOARD_LIMIT, "card.violation.board_limit", "ns", COUNTER)                                         \
    X(CARD_VIOLATION_LOW_UTILISATION, "card.violation.low_utilisation", "ns", COUNTER)                                 \
    X(CARD_VIOLATION_RELIABILITY, "card.violation.reliability", "ns", COUNTER)                                         \
    X(CARD_ECC_MODE, "card.ecc.mode", "", LEVEL)                  /* 1: on */                                          \
    X(CARD_ECC_CORRECTED, "card.ecc.corrected", "count", COUNTER) /* since the driver was loaded */                    \
    X(CARD_ECC_UNCORRECTED, "card.ecc.uncorrected", "count", COUNTER)                                                  \
    X(CARD_ECC_CORRECTED_EVER, "card.ecc.corrected_ever", "count", COUNTER)                                            \
    X(CARD_ECC_UNCORRECTED_EVER, "card.ecc.uncorrected_ever", "count", COUNTER)                                        \
    X(CARD_REMAP_CORRECTABLE, "card.remap.correctable", "count", COUNTER)                                              \
    X(CARD_REMAP_UNCORRECTABLE, "card.remap.uncorrectable", "count", COUNTER)                                          \
    X(CARD_REMAP_PENDING, "card.remap.pending", "", GAUGE)                                                             \
    X(CARD_REMAP_FAILED, "card.remap.failed", "", GAUGE)                                                               \
    X(CARD_PCIE_GENERATION, "card.pcie.generation", "", GAUGE)                                                         \
    X(CARD_PCIE_GENERATION_MAX, "card.pcie.generation_max", "", LEVEL)                                                 \
    X(CARD_PCIE_WIDTH, "card.pcie.width", "lanes", GAUGE)                                                              \
    X(CARD_PCIE_WIDTH_MAX, "card.pcie.width_max", "lanes", LEVEL)                                                      \
    X(CARD_PCIE_REPLAYS, "card.pcie.replays", "count", COUNTER)                                                        \
    X(CARD_NVLINK_REPLAYS, "card.nvlink.replays", "count", COUNTER) /* sum over all links */                           \
    X(CARD_NVLINK_RECOVERIES, "card.nvlink.recoveries", "count", COUNTER)                                              \
    X(CARD_NVLINK_CRC, "card.nvlink.crc", "count", COUNTER)                                                            \
    X(CARD_RECOVERY_ACTION, "card.recovery_action", "", NUMBER) /* NVML's code; 0: none needed */                      \
    X(CARD_UTILISATION, "card.utilisation", "%", GAUGE)                                                                \
    X(CARD_UTILISATION_MEMORY, "card.utilisation.memory", "%", GAUGE)                                                  \
    X(CARD_PERFORMANCE_STATE, "card.performance_state", "", NUMBER)                                                    \
    X(CARD_COMPUTE_MODE, "card.compute_mode", "", NUMBER)                                                              \
    X(CARD_PERSISTENCE, "card.persistence", "", LEVEL)                                                                 \
    X(CARD_STATUS, "card.status", "",                                                                                  \
      NUMBER) /* NVML's last result for the card as a whole: 0 (success), 15 (card lost), ... */                       \
    /* the command's control group */                                                                                  \
    X(CGROUP_MEMORY_USED, "cgroup.memory.used", "bytes", GAUGE)                                                        \
    X(CGROUP_MEMORY_LIMIT, "cgroup.memory.limit", "bytes", LEVEL) /* UINT64_MAX: no limit */                           \
    X(CGROUP_MEMORY_PEAK, "cgroup.memory.peak", "bytes", COUNTER)                                                      \
    X(CGROUP_OOM_KILLS, "cgroup.memory.oom_kills", "count", COUNTER)                                                   \
    X(CGROUP_MEMORY_REFUSED, "cgroup.memory.limit_hits", "count", COUNTER)                                             \
    X(CGROUP_MEMORY_STALLED, "cgroup.memory.stalled", "us", COUNTER) /* time in which a task waited for memory */      \
    X(CGROUP_CPU_LIMIT, "cgroup.cpu.limit", "milli-CPU", LEVEL)      /* UINT64_MAX: no limit */                        \
    X(CGROUP_CPU_PERIODS, "cgroup.cpu.periods", "count", COUNTER)                                                      \
    X(CGROUP_CPU_THROTTLED, "cgroup.cpu.throttled", "count", COUNTER) /* number of periods with throttling */          \
    X(CGROUP_CPU_THROTTLED_TIME, "cgroup.cpu.throttled_time", "ns", COUNTER)                                           \
    X(CGROUP_PIDS, "cgroup.pids", "count", GAUGE)                                                                      \
    X(CGROUP_PIDS_LIMIT, "cgroup.pids.limit", "count", LEVEL) /* UINT64_MAX: no limit */                               \
    /* the machine */                                                                                                  \
    X(HOST_MEMORY_TOTAL, "host.memory.total", "bytes", LEVEL)                                                          \
    X(HOST_MEMORY_AVAILABLE, "host.memory.available", "bytes", GAUGE)                                                  \
    X(HOST_SWAP_FREE, "host.swap.free", "bytes", GAUGE)                                                                \
    X(HOST_OOM_KILLS, "host.oom_kills", "count", COUNTER)                                                              \
    X(HOST_LOAD, "host.load", "milli", GAUGE) /* load average of one minute, times 1,000 */                            \
    X(HOST_CPUS, "host.cpus", "count", LEVEL) /* usable by the supervisor */                                           \
    X(SHM_TOTAL, "shm.total", "bytes", LEVEL)                                                                          \
    X(SHM_FREE, "shm.free", "bytes", GAUGE)                                                                            \
    X(DISK_CWD_FREE, "disk.cwd.free", "bytes", GAUGE) /* available to this user */                                     \
    X(DISK_CWD_FILES_FREE, "disk.cwd.files_free", "count", GAUGE)                                                      \
    X(DISK_TMP_FREE, "disk.tmp.free", "bytes", GAUGE) /* of TMPDIR; if unset, of /tmp */                               \
    X(DISK_TMP_FILES_FREE, "disk.tmp.files_free", "count", GAUGE)                                                      \
    /* one process */                                                                                                  \
    X(PROCESS_MEMORY, "process.memory", "bytes", GAUGE) /* resident memory */                                          \
    X(PROCESS_DESCRIPTORS, "process.descriptors", "count", GAUGE)                                                      \
    X(PROCESS_DESCRIPTORS_LIMIT, "process.descriptors.limit", "count", LEVEL)                                          \
    X(PROCESS_CPU_WAIT, "process.main.cpu_wait", "ns",                                                                 \
      COUNTER) /* time in which the first thread was ready to run but had to wait for a CPU */

typedef enum gw_metric {
#define GW_X(name, text, unit, kind) GW_METRIC_##name,
    GW_METRICS(GW_X)
#undef GW_X
        GW_METRIC_COUNT
} gw_metric;

typedef struct gw_metric_info {
    const char *name, *unit;
    gw_metric_kind kind;
} gw_metric_info;

/* Return a static description of a metric, or NULL if this build does not know the metric. */
const gw_metric_info *gw_metric_find(unsigned metric);
const char *gw_source_text(unsigned source);      /* "?": unknown */
const char *gw_sample_state_text(unsigned state); /* "?": unknown */

#define GW_NO_DEVICE UINT32_MAX

typedef struct gw_sample_value {
    uint16_t metric; /* gw_metric */
    uint8_t state;   /* gw_sample_state */
    uint64_t value;  /* if KNOWN, the value; if FAILED, the error code (NVML's, or errno); else 0 */
} gw_sample_value;

/* Reasons for reduced clocks: NVML's bits (nvmlClocksEventReason*). */
enum {
    GW_CLOCK_REASON_IDLE = 0x1,
    GW_CLOCK_REASON_SETTING = 0x2,
    GW_CLOCK_REASON_POWER_CAP = 0x4,
    GW_CLOCK_REASON_HW_SLOWDOWN = 0x8,
    GW_CLOCK_REASON_SYNC_BOOST = 0x10,
    GW_CLOCK_REASON_SW_THERMAL = 0x20,
    GW_CLOCK_REASON_HW_THERMAL = 0x40,
    GW_CLOCK_REASON_POWER_BRAKE = 0x80
};

#endif
