/* Render replays of PyTorch's allocator as text for people and as JSON for programs. The rules of gw_render.h apply. */
#ifndef GW_RENDER_WHATIF_H
#define GW_RENDER_WHATIF_H

#include "gw_status.h"
#include "gw_text.h"
#include "gw_whatif.h"

/* What a replay is about. All strings are borrowed. */
typedef struct gw_whatif_story {
    const char *recording;   /* path */
    const char *command;     /* the program's command line; NULL: not known */
    const char *impossible;  /* why there is no replay; NULL: there is one, in `whatif` */
    const gw_whatif *whatif; /* NULL if impossible */
    int device;
    unsigned torch_version; /* 100 * major + minor; 0: not known */
} gw_whatif_story;

/* `colour`: with escape sequences for a terminal (gw_say.h). */
void gw_render_whatif_text(const gw_whatif_story *story, bool colour, gw_text *text);

/* Add the replays to `text` as one JSON object and a newline (docs/json-schema.md). Returns GW_OK or GW_NOMEM. On
 * failure, `text` is unchanged. */
GW_MUST_CHECK gw_status gw_render_whatif_json(const gw_whatif_story *story, gw_text *text, gw_error *err);

#endif
