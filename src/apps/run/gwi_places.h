/* The placeholders that the user of `gpuwhy run --rescue` wrote into the command: the numbers that may be changed.
 *
 *   {batch:256} {steps:1} {size:224} {workers:8} {gpus:2}   a number, at least 1 ({workers:0} is allowed)
 *   {precision:fp32,bf16} or any other {NAME:A,B,..}        values, in the order in which they are tried
 *   {batch}                                                 the same value again; {NAME:..} stands before or after it
 *   {{batch:256}}                                           the text {batch:256}
 *
 * All other braces, and what follows a dollar sign, are ordinary text. One thread. */
#ifndef GWI_PLACES_H
#define GWI_PLACES_H

#include "gwi_change.h"

enum { GWI_PLACES_MAX = 8, GWI_PLACE_VALUES_MAX = 16 };

typedef struct gwi_place {
    char *name;                        /* owned, like the values */
    char *value[GWI_PLACE_VALUES_MAX]; /* a number has one */
    size_t count, now;                 /* value[now] is in use */
    bool is_number;
    uint64_t number;
} gwi_place;

typedef struct gwi_places {
    char *const *command; /* borrowed; ends with NULL */
    gwi_place place[GWI_PLACES_MAX];
    size_t count;
} gwi_places;

/* Find the placeholders. GW_USAGE: `err` names the wrong one and the reason. GW_NOMEM. Free the places in every case.
 */
GW_MUST_CHECK gw_status gwi_places_read(char *const *command, gwi_places *ret_places, gw_error *err);
void gwi_places_free(gwi_places *places);
/* Return the place of this name, or NULL. */
gwi_place *gwi_places_find(gwi_places *places, const char *name);
/* Use another number. Returns false if there is no memory. */
bool gwi_place_set(gwi_place *place, uint64_t number);
/* Add "batch 128 instead of 256" to a list of changes. */
void gwi_place_say(const gwi_place *place, const char *before, gw_text *text);
/* Copy the command with the values in use. Returns false if there is no memory. */
bool gwi_places_command(const gwi_places *places, gwi_command *ret_command);

#endif
