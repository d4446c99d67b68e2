/* The model of one run: which objects were alive at which time, which process owned them, and which call site allocated
 * them. It is built from a recording and used by verdict/.
 *
 * gw_model_build() does everything. A caller without a file (a test, a live view) creates an empty model, feeds it
 * items in order of time and finishes it. gw_model_facts.h describes the contents. */
#ifndef GW_MODEL_H
#define GW_MODEL_H

#include "gw_recording.h"
#include "gw_status.h"

typedef struct gw_model gw_model;

/* Build a model from all of `reader`. Damaged blocks are skipped and counted in the model. */
GW_MUST_CHECK gw_status gw_model_build(gw_reader *reader, gw_model **ret_model, gw_error *err);
/* Like gw_model_build(), but without gw_model_finish(), so that the caller can feed more items. */
GW_MUST_CHECK gw_status gw_model_read(gw_reader *reader, gw_model **ret_model, gw_error *err);
void gw_model_free(gw_model *model); /* takes NULL */

/* Like gw_model_build(), but call `watch` after each item that the model took, in order: with the event, or with NULL
 * if the item was not an event. If `watch` returns anything but GW_OK, reading ends and the function returns that
 * status. */
typedef gw_status gw_model_watch(void *user, gw_model *model, const gw_event *event, gw_error *err);
GW_MUST_CHECK gw_status gw_model_build_watched(gw_reader *reader, gw_model_watch *watch, void *user,
                                               gw_model **ret_model, gw_error *err);

/* Like gw_model_build(), but for one phase of a program that continues to run: see gw_model_end_phase(). */
GW_MUST_CHECK gw_status gw_model_build_phase(gw_reader *reader, const char *name, const char *traceback, size_t bytes,
                                             gw_model **ret_model, gw_error *err);

/* Build a model step by step. Items are copied. gw_model_name_fns() may be called at any time before gw_model_finish();
 * a function without a name is called "?". Read a model only after gw_model_finish(), and do not feed it afterwards.
 * These functions fail only with GW_NOMEM. After that, the model can only be freed. */
GW_MUST_CHECK gw_status gw_model_new(gw_model **ret_model, gw_error *err);
GW_MUST_CHECK gw_status gw_model_feed(gw_model *model, const gw_item *item, gw_error *err);
GW_MUST_CHECK gw_status gw_model_name_fns(gw_model *model, const char *const *names, uint32_t count, gw_error *err);
/* Call before gw_model_finish() to judge one phase alone, such as a cell of a notebook. The last phase of that name is
 * judged as if the program had ended with it. `traceback` is what the program would have printed on stderr before an
 * exit with status 1. An empty `traceback` means that the program still runs. Returns GW_MISSING if there is no phase
 * of that name. */
GW_MUST_CHECK gw_status gw_model_end_phase(gw_model *model, const char *name, const char *traceback, size_t bytes,
                                           gw_error *err);
GW_MUST_CHECK gw_status gw_model_finish(gw_model *model, gw_error *err);

/* Name the call sites that have no name in the recording, from files of this machine (a child process does this, see
 * gw_symbols.h, for at most `hard_ms`). Then merge sites of the same lines, unless there are more than 16,384. Call
 * this on a finished model, before it is judged. Without this call, sites have only the names in the recording. After
 * GW_NOMEM or GW_IO, some names are missing and everything else in the model is unchanged. */
GW_MUST_CHECK gw_status gw_model_name_sites(gw_model *model, uint32_t soft_ms, uint32_t hard_ms, gw_error *err);

#endif
