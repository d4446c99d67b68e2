/* The sections of a page. Each function appends one section to `at->page`. Ids of elements contain the number of the
 * recording, so several recordings fit on one page. */
#ifndef GWI_SECTIONS_H
#define GWI_SECTIONS_H

#include "gw_report.h"
#include "gwi_collect.h"
#include "gwi_holders.h"
#include "gwi_map.h"

struct json_object;

/* The recording that is being written. */
typedef struct gwi_part {
    gw_text *page;
    const gw_report_run *run;
    const gw_model *model;
    const gwi_holders *holders;
    const gwi_course *course;
    struct json_object *charts; /* data of the charts, for the page's script */
    size_t number;              /* number of the recording on the page, from 0 */
    unsigned chart_count;       /* number of charts that share the page */
    bool failed;                /* out of memory */
} gwi_part;

/* marks.c. Begin a section with this id and heading, and end it. */
void gwi_section_begin(gwi_part *at, const char *id, const char *title);
void gwi_section_end(gwi_part *at);

/* verdict_part.c. `is_whole`: the verdict on all recordings of the page. */
void gwi_verdict_part(gwi_part *at, const gw_verdict *verdict, bool is_whole);
/* memory_part.c: memory over time, a chart for each device. */
void gwi_memory_part(gwi_part *at);
/* memory_part.c: a chart of the blocks in a framework's allocator, if the recording has the lines that requested them.
 */
void gwi_tensor_chart(gwi_part *at, int device);
/* map_part.c: the map at the failure and at the peak. */
void gwi_map_part(gwi_part *at);
/* holders_part.c: leaks, and the largest holders by place. */
void gwi_holders_part(gwi_part *at);
/* ledger_part.c: streams, contexts and other objects; failed calls; libraries. */
void gwi_ledger_part(gwi_part *at);
void gwi_failures_part(gwi_part *at);
void gwi_libraries_part(gwi_part *at);
/* ledger_part.c: one paragraph: when, where and by whom the program was started, and the versions of what it used. */
void gwi_about_part(gwi_part *at);
/* health_part.c: temperature, power, clocks, errors of the cards. */
void gwi_health_part(gwi_part *at);
/* ledger_part.c: what is not known, and why. */
void gwi_unknown_part(gwi_part *at);

/* marks.c. Add a chart to at->charts. The caller adds "series", and can add "limit". Returns NULL if out of memory. */
struct json_object *gwi_chart_add(gwi_part *at, const char *id, const char *unit, bool is_stacked);
/* Add a series: its name, and the number of its colour. */
void gwi_chart_series(gwi_part *at, struct json_object *chart, const char *name, unsigned colour);
/* Add the rows of a table. Only columns in `column` are written. Values are divided by `divisor`. */
void gwi_chart_rows(gwi_part *at, struct json_object *chart, const gwi_thin *table, const unsigned *column,
                    size_t column_count, uint64_t divisor);
/* Add a mark (a line at a time), or a band (a span of time). `kind`: "failure", "phase", "throttle". */
void gwi_chart_mark(gwi_part *at, struct json_object *chart, uint64_t t_ns, const char *text, const char *kind);
void gwi_chart_band(gwi_part *at, struct json_object *chart, uint64_t from_ns, uint64_t to_ns, const char *text,
                    const char *kind);
/* Append the elements of the page in which the chart is drawn. */
void gwi_chart_html(gwi_part *at, const char *id);

/* marks.c. Add the marks and bands of a chart. If there are too many, the most telling ones are added, and a sentence
 * about that is appended to `hidden`. `card`: its index. */
void gwi_add_failures(gwi_part *at, struct json_object *chart, int device, gw_text *hidden);
void gwi_add_phases(gwi_part *at, struct json_object *chart, uint32_t pid, gw_text *hidden);
void gwi_add_throttling(gwi_part *at, struct json_object *chart, uint32_t card, gw_text *hidden);
/* marks.c. Append these sentences to the page, if there are any, and free them. */
void gwi_hidden_html(gwi_part *at, gw_text *hidden);
/* marks.c. Append the reasons for reduced clocks in words: "power limit, thermal slowdown". */
void gwi_throttle_text(uint64_t reasons, gw_text *text);
/* refusal.c. Return the failure that the maps are about: the one of the verdict, otherwise the last refused request;
 * NULL: none.
 */
const gw_failure *gwi_refusal(const gwi_part *at);
/* refusal.c. The moment that the maps and the holders are about. */
typedef struct gwi_moment {
    const gw_failure *failure; /* the driver call that was refused; NULL: only the framework refused the request */
    const gw_allocator_report *report; /* the framework's report; NULL: none */
    uint64_t t_ns, wanted_bytes;       /* wanted_bytes 0: not known, or no request was refused */
    uint32_t pid;
    bool is_refusal; /* false: the moment at which a memory snapshot was saved */
} gwi_moment;
/* Find it. Returns false if no request for memory was refused. */
bool gwi_moment_find(const gwi_part *at, gwi_moment *ret_moment);
/* refusal.c. Return a copy of the report's live blocks, with call sites also from its list of requests. The caller
 * frees it. NULL: there are no blocks, or no memory. */
gw_live *gwi_report_live(gwi_part *at, const gw_allocator_report *report);
/* holders_part.c. Append the user's frame as HTML, or "unknown place". A place with more frames can be unfolded. */
void gwi_site_html(gwi_part *at, uint32_t site);

#endif
