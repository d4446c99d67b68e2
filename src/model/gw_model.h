/* The model of one run: which objects were alive at which time, which process owned them, and which call site
 * allocated them. The model is built from a recording and used by verdict/.
 *
 * gw_model_build() does everything. A caller without a file (a test, a live view) creates an empty model, feeds it
 * items in order of time and finishes it. gw_model_facts.h describes the contents. */
#ifndef GW_MODEL_H
#define GW_MODEL_H

#include "gw_recording.h"
#include "gw_status.h"

typedef struct gw_model gw_model;

/* Read all of `reader` and build a model. Damaged blocks are skipped and counted in the model. */
GW_MUST_CHECK gw_status gw_model_build(gw_reader *reader, gw_model **ret_model, gw_error *err);
/* Like gw_model_build(), but without gw_model_finish(), so that the caller can feed more items. */
GW_MUST_CHECK gw_status gw_model_read(gw_reader *reader, gw_model **ret_model, gw_error *err);
void gw_model_free(gw_model *model); /* takes NULL */

/* Like gw_model_build(), but call `watch` after each item has been added to the model, in order of time. `event` is
 * NULL if the item is not an event. If `watch` returns anything but GW_OK, stop reading and return this status. */
typedef gw_status gw_model_watch(void *user, gw_model *model, const gw_event *event, gw_error *err);
GW_MUST_CHECK gw_status gw_model_build_watched(gw_reader *reader, gw_model_watch *watch, void *user,
                                               gw_model **ret_model, gw_error *err);

/* Like gw_model_build(), but for one phase of a program that is still running: see gw_model_end_phase(). */
GW_MUST_CHECK gw_status gw_model_build_phase(gw_reader *reader, const char *name, const char *traceback, size_t bytes,
                                             gw_model **ret_model, gw_error *err);

/* Build a model step by step: gw_model_new(), then gw_model_feed() for each item, then gw_model_finish(). Items are
 * copied. gw_model_name_fns() may be called at any time before gw_model_finish(); functions without a name are
 * called "?". Read a model only after gw_model_finish(), and do not feed it afterwards. These functions fail only
 * with GW_NOMEM. After a failure, the only valid call is gw_model_free(). */
GW_MUST_CHECK gw_status gw_model_new(gw_model **ret_model, gw_error *err);
GW_MUST_CHECK gw_status gw_model_feed(gw_model *model, const gw_item *item, gw_error *err);
GW_MUST_CHECK gw_status gw_model_name_fns(gw_model *model, const char *const *names, uint32_t count, gw_error *err);
/* Make the verdict judge only one phase, such as a cell of a notebook. Call this before gw_model_finish(). The last
 * phase with the given name is judged as if the program had ended with it. `traceback` is the text that the program
 * would have printed on stderr before exiting with status 1. If `traceback` is empty, the program counts as still
 * running. Returns GW_MISSING if no phase has this name. */
GW_MUST_CHECK gw_status gw_model_end_phase(gw_model *model, const char *name, const char *traceback, size_t bytes,
                                           gw_error *err);
GW_MUST_CHECK gw_status gw_model_finish(gw_model *model, gw_error *err);

/* Name the call sites that have no name in the recording. A child process reads the names from files on this
 * machine, for at most `hard_ms` (see gw_symbols.h). Then merge sites with the same lines, unless there are more
 * than 16,384 sites. Call this on a finished model, before a verdict is computed. Without this call, sites have only
 * the names from the recording. If this fails with GW_NOMEM or GW_IO, some names are missing, but the model is
 * otherwise unchanged. */
GW_MUST_CHECK gw_status gw_model_name_sites(gw_model *model, uint32_t soft_ms, uint32_t hard_ms, gw_error *err);

#endif
