/* The model of one run: what was alive, when, whose, from where. Built from a recording, read by verdict/. */
#ifndef GW_MODEL_H
#define GW_MODEL_H

#include "gw_recording.h"
#include "gw_status.h"

typedef struct gw_model gw_model;

/* Read `reader` to its end. Damaged blocks are skipped and noted in the model. */
GW_MUST_CHECK gw_status gw_model_build(gw_reader *reader, gw_model **ret_model, gw_error *err);
void gw_model_free(gw_model *model); /* takes NULL */

#endif
