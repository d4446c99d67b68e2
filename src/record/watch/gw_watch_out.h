/* A snapshot for programs: as JSON (docs/json-schema.md) and as metrics (docs/metrics.md). Any thread may call the
 * functions. */
#ifndef GW_WATCH_OUT_H
#define GW_WATCH_OUT_H

#include "gw_text.h"
#include "gw_watch.h"

/* Append one JSON object on one line, with a line break. GW_NOMEM: `text` may contain a part of it. */
GW_MUST_CHECK gw_status gw_watch_json(const gw_watch_snapshot *snapshot, gw_text *text, gw_error *err);
/* The same for `gpuwhy who`: only the processes. */
GW_MUST_CHECK gw_status gw_watch_json_who(const gw_watch_snapshot *snapshot, const char *filter, gw_text *text,
                                          gw_error *err);

/* OPENMETRICS: OpenMetrics 1.0. PROMETHEUS: the older text format 0.0.4, for clients that do not know OpenMetrics. */
typedef enum gw_metrics_format { GW_METRICS_OPENMETRICS, GW_METRICS_PROMETHEUS } gw_metrics_format;
/* Append all families of metrics. A value that is unknown has no sample. */
void gw_watch_metrics(const gw_watch_snapshot *snapshot, gw_metrics_format format, gw_text *text);

#endif
