/* The model of one run: which objects were alive, when, of which process, allocated where. Built from a recording, used
 * by verdict/.
 *
 * gw_model_build() does everything. A caller without a file (a test, a live view) creates an empty model, feeds it
 * items in order of time and finishes it. gw_model_facts.h describes the contents. */
#ifndef GW_MODEL_H
#define GW_MODEL_H

#include "gw_recording.h"
#include "gw_status.h"

typedef struct gw_model gw_model;

/* Read `reader` to its end. Damaged blocks are skipped and counted in the model. */
GW_MUST_CHECK gw_status gw_model_build(gw_reader *reader, gw_model **ret_model, gw_error *err);
/* The same without gw_model_finish(), if the caller has more to feed. */
GW_MUST_CHECK gw_status gw_model_read(gw_reader *reader, gw_model **ret_model, gw_error *err);
void gw_model_free(gw_model *model); /* takes NULL */

/* The same with a function that watches. It is called with each event after the model took it, in order, and with NULL
 * after anything else. A result other than GW_OK ends the reading and is returned. */
typedef gw_status gw_model_watch(void *user, gw_model *model, const gw_event *event, gw_error *err);
GW_MUST_CHECK gw_status gw_model_build_watched(gw_reader *reader, gw_model_watch *watch, void *user,
                                               gw_model **ret_model, gw_error *err);

/* The same for one phase of a program that continues to run: see gw_model_end_phase(). */
GW_MUST_CHECK gw_status gw_model_build_phase(gw_reader *reader, const char *name, const char *traceback, size_t bytes,
                                             gw_model **ret_model, gw_error *err);

/* The same in three steps. Items are copied. gw_model_name_fns() may be called at any time before gw_model_finish();
 * functions without a name are called "?". Read a model only after it was finished, and do not feed it afterwards.
 * GW_NOMEM is the only failure; the model can then only be freed. */
GW_MUST_CHECK gw_status gw_model_new(gw_model **ret_model, gw_error *err);
GW_MUST_CHECK gw_status gw_model_feed(gw_model *model, const gw_item *item, gw_error *err);
GW_MUST_CHECK gw_status gw_model_name_fns(gw_model *model, const char *const *names, uint32_t count, gw_error *err);
/* Before gw_model_finish(): judge one phase alone, such as a cell of a notebook. The last phase of that name is judged
 * as if the program had ended with it. `traceback` is what the program would have written to stderr before exiting with
 * 1; if it is empty, the program still runs. GW_MISSING: there is no phase of that name. */
GW_MUST_CHECK gw_status gw_model_end_phase(gw_model *model, const char *name, const char *traceback, size_t bytes,
                                           gw_error *err);
GW_MUST_CHECK gw_status gw_model_finish(gw_model *model, gw_error *err);

/* Give call sites the names that are missing in the recording, from files of this machine (gw_symbols.h: a child
 * process, at most `hard_ms`), and merge sites of the same lines (unless there are more than 16,384). For a finished
 * model, before it is judged; otherwise sites have only the recording's names. GW_NOMEM, GW_IO: some names are missing,
 * and the model is otherwise unchanged. */
GW_MUST_CHECK gw_status gw_model_name_sites(gw_model *model, uint32_t soft_ms, uint32_t hard_ms, gw_error *err);

#endif
