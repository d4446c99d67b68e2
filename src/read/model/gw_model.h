/* The model of one run, for verdict/: which objects were alive at which time, which process owned them, and which call
 * site allocated them.
 *
 * gw_model_build() does everything. A caller without a file (a test, a live view) creates an empty model, feeds it
 * items in order of time and finishes it. gw_model_facts.h describes the contents. */
#ifndef GW_MODEL_H
#define GW_MODEL_H

#include "gw_recording.h"
#include "gw_status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gw_model gw_model;

/* Read all of `reader` and build a model. Damaged blocks are skipped and counted in the model. */
GW_MUST_CHECK gw_status gw_model_build(gw_reader *reader, gw_model **ret_model, gw_error *err);
/* Like gw_model_build(), but without gw_model_finish(), so that the caller can feed more items. */
GW_MUST_CHECK gw_status gw_model_read(gw_reader *reader, gw_model **ret_model, gw_error *err);
void gw_model_free(gw_model *model); /* takes NULL */

/* Like gw_model_build(), but call `watch` after each item, in order of time. `event` is NULL if the item is not an
 * event. If `watch` does not return GW_OK, stop reading and return its status. */
typedef gw_status gw_model_watch(void *user, gw_model *model, const gw_event *event, gw_error *err);
GW_MUST_CHECK gw_status gw_model_build_watched(gw_reader *reader, gw_model_watch *watch, void *user,
                                               gw_model **ret_model, gw_error *err);

/* A request for device memory that was granted (`made`), or the end of such memory. Managed memory is not included. */
typedef struct gw_memory_change {
    uint64_t t_ns, bytes;
    uint32_t pid;
    uint32_t group; /* index in gw_model.group; the same in every model of the same recording */
    uint8_t device; /* place of the device in the model's arrays */
    bool made;
} gw_memory_change;

/* Callbacks for gw_model_build_followed(), in the order of the recording: an item may be later than the events that
 * follow it. They may not change the model. NULL: none. */
typedef struct gw_model_follower {
    void (*memory)(void *user, const gw_model *model, const gw_memory_change *change); /* after each change */
    void (*item)(void *user, const gw_model *model, const gw_item *item); /* after each item that is not an event */
    void *user;
} gw_model_follower;

/* Like gw_model_build(), but call `follower` while the model is built. */
GW_MUST_CHECK gw_status gw_model_build_followed(gw_reader *reader, const gw_model_follower *follower,
                                                gw_model **ret_model, gw_error *err);

struct gw_live;
/* List the live blocks of device and managed memory of a process on a device, sorted by address. Memory of
 * cuMemCreate has the address of its first mapping; 0: not mapped. For the callback
 * `memory` after a request; callbacks may not call gw_model_snapshot(). The caller frees the list. NULL: there are
 * none, or no memory. */
struct gw_live *gw_model_live_now(const gw_model *model, uint32_t pid, int device, size_t *ret_count);

/* Like gw_model_build(), but for one phase of a program that is still running: see gw_model_end_phase(). */
GW_MUST_CHECK gw_status gw_model_build_phase(gw_reader *reader, const char *name, const char *traceback, size_t bytes,
                                             gw_model **ret_model, gw_error *err);

/* Build a model step by step: gw_model_new(), then gw_model_feed() for each item, then gw_model_finish().
 * - Items are copied.
 * - Call gw_model_name_fns() at any time before gw_model_finish(). Functions without a name are called "?".
 * - Read a model only after gw_model_finish(), and do not feed it afterwards. Only the list of processes and their
 *   usage can be read after each item.
 * - The only failure is GW_NOMEM. After it, only gw_model_free() is valid. */
GW_MUST_CHECK gw_status gw_model_new(gw_model **ret_model, gw_error *err);
GW_MUST_CHECK gw_status gw_model_feed(gw_model *model, const gw_item *item, gw_error *err);
GW_MUST_CHECK gw_status gw_model_name_fns(gw_model *model, const char *const *names, uint32_t count, gw_error *err);
/* Make the verdict judge only one phase, such as a cell of a notebook, as if the program had ended with it. Call this
 * before gw_model_finish(). Of several phases with this name, the last one is judged; GW_MISSING: there is none.
 *
 * `traceback` is what the program would have printed on stderr before exiting with status 1. If it is empty, the
 * program is judged as still running. */
GW_MUST_CHECK gw_status gw_model_end_phase(gw_model *model, const char *name, const char *traceback, size_t bytes,
                                           gw_error *err);
GW_MUST_CHECK gw_status gw_model_finish(gw_model *model, gw_error *err);

/* Name the call sites that have no name in the recording, unless another user owns it. Then merge sites with the same
 * lines, unless there are more than 16,384 sites. A child process reads the names from files on this machine, for at
 * most `hard_ms`. Call this on a finished model, before a verdict is computed. After GW_NOMEM or GW_IO, only some names
 * are missing. */
GW_MUST_CHECK gw_status gw_model_name_sites(gw_model *model, uint32_t soft_ms, uint32_t hard_ms, gw_error *err);

#endif
