/* Check the order of work on several emulated streams. The emulated GPU executes everything at once, so a missing event
 * does not change its results. Therefore each access to memory is compared with the last ones of other streams: two
 * accesses to the same bytes, at least one of them a write, must be ordered by events or by the host. The first pair
 * that is not ordered ends the program. There is one GPU at a time, and one thread. */
#ifndef EMULATED_ORDER_H
#define EMULATED_ORDER_H

#include <stddef.h>

struct order_stream;
struct order_event;

/* Forget all accesses, and free all streams and events. */
void order_reset(void);
struct order_stream *order_stream_new(void);
struct order_event *order_event_new(void);
void order_record(struct order_event *event, const struct order_stream *stream);
void order_follow(struct order_stream *stream, const struct order_event *event);
/* The host waits. All work that is submitted later begins after this. */
void order_wait(const struct order_stream *stream);
void order_wait_event(const struct order_event *event);
/* Work on a stream reads or writes some bytes. `what` is a string constant. */
void order_touch(struct order_stream *stream, const void *at, size_t bytes, int writes, const char *what);

#endif
