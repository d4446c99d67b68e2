/* Vector clocks: see emulated_order.h. */
#include "emulated_order.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STREAMS_MAX = 8, ACCESSES = 256 };

/* For each stream, how many of its accesses come before whatever has this clock. */
struct clock {
    size_t done[STREAMS_MAX];
};
struct order_stream {
    struct clock clock;
};
struct order_event {
    struct clock clock;
    struct order_event *next;
};

static struct order_stream streams[STREAMS_MAX];
static size_t stream_count;
static struct order_event *events; /* owned list */

/* The last accesses. The number of an access counts those of its stream, from 1; 0: none. */
static struct access {
    uintptr_t begin, end;
    size_t stream, number;
    int writes;
    const char *what;
} accesses[ACCESSES];
static size_t access_count;

void order_reset(void)
{
    while (events != NULL) {
        struct order_event *next = events->next;
        free(events);
        events = next;
    }
    memset(streams, 0, sizeof streams);
    memset(accesses, 0, sizeof accesses);
    stream_count = 0;
}

struct order_stream *order_stream_new(void)
{
    if (stream_count == STREAMS_MAX)
        abort();
    return &streams[stream_count++];
}

struct order_event *order_event_new(void)
{
    struct order_event *event = calloc(1, sizeof *event);
    if (event == NULL)
        abort();
    event->next = events;
    events = event;
    return event;
}

static void join(struct clock *clock, const struct clock *other)
{
    for (int i = 0; i < STREAMS_MAX; i++)
        if (clock->done[i] < other->done[i])
            clock->done[i] = other->done[i];
}

void order_record(struct order_event *event, const struct order_stream *stream)
{
    event->clock = stream->clock;
}

void order_follow(struct order_stream *stream, const struct order_event *event)
{
    join(&stream->clock, &event->clock);
}

void order_wait(const struct order_stream *stream)
{
    for (size_t i = 0; i < stream_count; i++)
        join(&streams[i].clock, &stream->clock);
}

void order_wait_event(const struct order_event *event)
{
    for (size_t i = 0; i < stream_count; i++)
        join(&streams[i].clock, &event->clock);
}

void order_touch(struct order_stream *stream, const void *at, size_t bytes, int writes, const char *what)
{
    struct access access = {.begin = (uintptr_t)at,
                            .end = (uintptr_t)at + bytes,
                            .stream = (size_t)(stream - streams),
                            .number = ++stream->clock.done[stream - streams],
                            .writes = writes,
                            .what = what};
    for (const struct access *other = accesses; other < accesses + ACCESSES; other++)
        if ((writes || other->writes) && other->begin < access.end && access.begin < other->end &&
            other->number > stream->clock.done[other->stream]) {
            fprintf(stderr, "%s on stream %zu does not wait for %s on stream %zu\n", what, access.stream, other->what,
                    other->stream);
            abort();
        }
    accesses[access_count++ % ACCESSES] = access;
}
