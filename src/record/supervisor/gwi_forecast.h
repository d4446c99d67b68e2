/* Judges from samples of the held memory whether a program keeps more and more of it, and when the card will be full.
 *
 * The memory that is kept at a time is the lowest value from then on: what is held for an iteration and freed does not
 * count. Growth is measured over rounds of work (launches that the program waited for), not over time, so that building
 * a model, or one long first iteration, is no growth. It must go on: a warm-up or a phase that takes memory once is no
 * growth either. */
#ifndef GWI_FORECAST_H
#define GWI_FORECAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gwi_held_sample {
    uint64_t t_ns;
    uint64_t rounds; /* rounds of work so far; never falls */
    uint64_t bytes;  /* held memory that the framework's cache could not give back */
} gwi_held_sample;

typedef struct gwi_forecast {
    bool grows;
    uint64_t kept_bytes;     /* held now, without what the last rounds may still free */
    double bytes_per_minute; /* if `grows`, like all fields below */
    double full_s;           /* seconds until kept_bytes reaches the limit; 0 if it already has */
    uint64_t since_ns;       /* start of the time over which bytes_per_minute was measured */
} gwi_forecast;

/* Judge `count` samples in order of time. `limit_bytes`: the memory of the card, or the guard's limit; not 0. Returns
 * no growth if there are too few samples or rounds to tell. */
void gwi_forecast_make(const gwi_held_sample *sample, size_t count, uint64_t limit_bytes, gwi_forecast *ret_forecast);

/* Add a sample to an array with room for `room` samples, at least 4. If it is full, first merge each two neighbours
 * into one with the lower bytes. Returns the new count. */
size_t gwi_forecast_add(gwi_held_sample *sample, size_t count, size_t room, gwi_held_sample one);

#endif
