/* The model of one run: what was alive, when, whose, from where. Built from a recording, read by verdict/.
 *
 * gw_model_build() does everything. A caller without a file (a test, a live view) makes an empty model, feeds it
 * items in order of time and finishes it. What the model then holds is described in gw_model_facts.h. */
#ifndef GW_MODEL_H
#define GW_MODEL_H

#include "gw_recording.h"
#include "gw_status.h"

typedef struct gw_model gw_model;

/* Read `reader` to its end. Damaged blocks are skipped and noted in the model. */
GW_MUST_CHECK gw_status gw_model_build(gw_reader *reader, gw_model **ret_model, gw_error *err);
/* The same without gw_model_finish(): the caller has more to feed. */
GW_MUST_CHECK gw_status gw_model_read(gw_reader *reader, gw_model **ret_model, gw_error *err);
void gw_model_free(gw_model *model); /* takes NULL */

/* The same with somebody who watches: called with each event after the model took it, in order, and with NULL after
 * anything else. Any answer but GW_OK ends the reading and is the call's. */
typedef gw_status gw_model_watch(void *user, gw_model *model, const gw_event *event, gw_error *err);
GW_MUST_CHECK gw_status gw_model_build_watched(gw_reader *reader, gw_model_watch *watch, void *user,
                                               gw_model **ret_model, gw_error *err);

/* The same for one phase of a program that lives on: gw_model_end_phase(). */
GW_MUST_CHECK gw_status gw_model_build_phase(gw_reader *reader, const char *name, const char *traceback, size_t bytes,
                                             gw_model **ret_model, gw_error *err);

/* The same in three steps. Items are copied: they may die after the call. gw_model_name_fns() may come at any time
 * before gw_model_finish(); a function without a name reads "?". A model is read only after it was finished, and
 * is never fed again. GW_NOMEM is the only failure; the model can then only be freed. */
GW_MUST_CHECK gw_status gw_model_new(gw_model **ret_model, gw_error *err);
GW_MUST_CHECK gw_status gw_model_feed(gw_model *model, const gw_item *item, gw_error *err);
GW_MUST_CHECK gw_status gw_model_name_fns(gw_model *model, const char *const *names, uint32_t count, gw_error *err);
/* Before gw_model_finish(): one phase alone is judged, such as a cell of a notebook: the last of that name, as if the
 * program had ended with it. `traceback` is what it would have written to stderr before it exited with 1; without bytes
 * it still runs. GW_MISSING: there is no phase of that name. */
GW_MUST_CHECK gw_status gw_model_end_phase(gw_model *model, const char *name, const char *traceback, size_t bytes,
                                           gw_error *err);
GW_MUST_CHECK gw_status gw_model_finish(gw_model *model, gw_error *err);

/* Give call sites the names that the recording does not hold, from files of this machine (gw_symbols.h: a child
 * process, `hard_ms` at most), and put sites of one line together (of more than 16,384 sites none). For a finished
 * model, before it is judged; without it sites have the names of the recording. GW_NOMEM, GW_IO: some names are
 * missing, the model is as good as before. */
GW_MUST_CHECK gw_status gw_model_name_sites(gw_model *model, uint32_t soft_ms, uint32_t hard_ms, gw_error *err);

#endif
