/* Writes what a saved file contains into a model (feed.c). */
#ifndef GW_TORCH_FEEDER_H
#define GW_TORCH_FEEDER_H

#include "gwi_records.h"

#include "gw_model.h"

typedef struct gwi_feeder {
    const gwi_torch *torch;
    gw_model *model;
    uint32_t pid;                    /* of the process that the file is about */
    uint32_t site_first, code_first; /* added to the numbers of stacks and frames; gwi_feed_as_outside() changes them */
    uint64_t first_us;               /* oldest time in all histories; 0: the snapshot has no times */
    uint64_t now_ns;                 /* time of the facts that are written now */
    uint32_t extra;                  /* `extra` of the events that are written now */
    uint8_t *told_stack, *told_frame; /* 1: the site of this stack, or the code of this frame, was written; owned */
    gw_error *err;
    gw_status status; /* status of the first failure, after which no facts are written; GW_OK: none */
} gwi_feeder;

/* Begin a file of the process `pid`. Returns false if there is no memory. Call gwi_feed_end() after either. */
GW_MUST_CHECK bool gwi_feed_begin(gwi_feeder *f, const gwi_torch *torch, uint32_t pid);
void gwi_feed_end(gwi_feeder *f);
/* Give the sites ids as if they had been read from outside of the process, since others write the process's own ones.
 * `from`: leave that many ids to a supervisor. The ids are indexes of tables, so it must be small. */
void gwi_feed_as_outside(gwi_feeder *f, uint32_t from);

void gwi_feed(gwi_feeder *f, const gw_item *item);
void gwi_feed_process(gwi_feeder *f);
void gwi_feed_event(gwi_feeder *f, gw_event_kind kind, uint32_t site, const uint64_t arg[4], const char *text);
void gwi_feed_fact(gwi_feeder *f, gw_event_kind kind, uint32_t site, uint64_t a0, uint64_t a1, uint64_t a2,
                   uint64_t a3);
void gwi_feed_pair(gwi_feeder *f, gw_item_kind kind, const char *key, const char *value);
/* Return the site of a stack. The first call for a stack writes the site and its frames. Returns 0 for the unknown
 * stack. */
uint32_t gwi_feed_site(gwi_feeder *f, uint32_t stack);

/* Read the rank at the end of a file's name, before an extension. */
bool gwi_rank_of_name(const char *path, uint32_t *ret_rank);
/* Add a Flight Recorder dump to the model, as the process `pid`, which is added if `is_new`. If the file cannot be
 * used, nothing was added; GW_NOMEM: a part may have been. */
GW_MUST_CHECK gw_status gwi_flight_add(const char *path, uint32_t pid, bool is_new, gw_model *model, gw_error *err);
/* Make the times of all calls relative to the oldest one. */
void gwi_flight_set_times(gw_model *model);

#endif
