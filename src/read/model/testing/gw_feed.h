/* Feeds a simulated run into a model, call by call. For tests. Errors abort the test.
 *
 * Each call takes 10 us; gw_feed_wait() adds more. A test may set `pid`, `tid` and `context` for the next calls. Hot
 * calls reach the model at gw_feed_drain() and gw_feed_exit(). */
#ifndef GW_FEED_H
#define GW_FEED_H

#include "gw_model_facts.h"

enum { GW_FEED_NAMES_MAX = 64, GW_FEED_THREADS_MAX = 8, GW_FEED_PID = 100 };

typedef struct gw_feed_thread {
    uint32_t pid, tid;
    uint64_t counter[GW_COUNT_COUNT], counter_at_request[GW_COUNT_COUNT], calls, synced_at_ns;
    uint16_t inside_fn_plus_1;
    gw_hot_call ring[2 * GW_RING_ENTRIES]; /* gw_feed_drain() feeds only the newest GW_RING_ENTRIES */
    uint32_t ring_count;
    uint64_t total, synced_total;
} gw_feed_thread;

typedef struct gw_feed {
    gw_model *model;
    bool is_finished;
    uint64_t t_ns, context;
    uint32_t pid, tid;
    uint32_t site, site_last; /* `site`: call site of the next calls, set by the test; `site_last`: the newest site */
    uint16_t took_us;         /* duration of each of the next calls, set by the test */
    const char *name[GW_FEED_NAMES_MAX];
    uint32_t name_count;
    gw_feed_thread thread[GW_FEED_THREADS_MAX];
    size_t thread_count;
    uint64_t address_next, small_next;
    /* A program that a request was refused to prints that before it exits, unless it printed something else. A test
     * sets is_silent for a program that prints nothing. */
    bool is_refused, has_output, is_silent;
} gw_feed;

/* Start a program that has initialised CUDA on a card with `total_bytes` of memory and has the primary context
 * 0xc0de. */
void gw_feed_open(gw_feed *feed, uint64_t total_bytes);
/* Start a program that has made no driver call. */
void gw_feed_open_bare(gw_feed *feed);
/* Feed cuInit and the creation of the primary context. gw_feed_open() is gw_feed_open_bare() followed by this
 * function. */
void gw_feed_begin_cuda(gw_feed *feed, uint64_t total_bytes);
gw_model *gw_feed_finish(gw_feed *feed); /* Finish the model and return it. The caller frees it with gw_model_free(). */
/* Free the model, after finishing it unless gw_feed_finish() did. */
void gw_feed_close(gw_feed *feed);

/* Feed a call of the driver function `fn` by feed->tid, 10 us after the previous call. a0 to a3 are the event's
 * arguments. */
void gw_feed_call(gw_feed *feed, const char *fn, gw_event_kind kind, uint16_t result, uint64_t a0, uint64_t a1,
                  uint64_t a2, uint64_t a3);
/* Feed a successful call whose event has a text. */
void gw_feed_text_call(gw_feed *feed, const char *fn, gw_event_kind kind, uint64_t a0, uint64_t a1, uint64_t a2,
                       uint64_t a3, const char *text);
/* Feed a call whose event has the value `extra` in its field `extra`. */
void gw_feed_extra_call(gw_feed *feed, const char *fn, gw_event_kind kind, uint16_t result, uint32_t extra, uint64_t a0,
                        uint64_t a1, uint64_t a2, uint64_t a3);
/* Feed an event unchanged. The time of the feed does not advance. */
void gw_feed_event(gw_feed *feed, const gw_event *event);
/* Feed a request for memory of a pool that is captured into a graph. */
void gw_feed_captured(gw_feed *feed, uint64_t address, uint64_t bytes, uint64_t stream);
/* Feed a call that --inject let fail, with the fact before it. `bytes` is argument 1 of the call. */
void gw_feed_injected(gw_feed *feed, const char *fn, gw_event_kind kind, uint16_t result, uint64_t bytes,
                      const char *rule);
/* Add a call site with Python frames, innermost first: "function file line, function file line". Returns the id of the
 * site, for feed->site. */
uint32_t gw_feed_site(gw_feed *feed, const char *frames);
/* Add a call site whose innermost frame is in the library at path `library`, followed by Python frames. If `library` is
 * NULL, all frames are Python. */
uint32_t gw_feed_site_in(gw_feed *feed, const char *library, const char *frames);
/* Allocate plain memory and return its address. */
uint64_t gw_feed_alloc(gw_feed *feed, uint64_t bytes);
void gw_feed_free(gw_feed *feed, uint64_t address);
/* Feed a refused request for `bytes`, then a query of the free and total memory, as the hook does after a refusal. */
void gw_feed_no_room(gw_feed *feed, uint64_t bytes, uint64_t free_bytes, uint64_t total_bytes);
/* Feed successful hot calls. gw_feed_copy(), gw_feed_read() and gw_feed_sync() make them on the default stream. */
void gw_feed_launch(gw_feed *feed, uint64_t function, uint64_t stream);
/* Feed any successful hot call, with `what` and `stream` as in gw_ring_entry. */
void gw_feed_hot(gw_feed *feed, const char *fn, gw_counter counter, uint64_t what, uint64_t stream);
void gw_feed_copy(gw_feed *feed, uint64_t bytes);
void gw_feed_read(gw_feed *feed, uint64_t bytes); /* a blocking copy to the host */
void gw_feed_sync(gw_feed *feed);
void gw_feed_inside(gw_feed *feed, const char *fn);
void gw_feed_drain(gw_feed *feed);
void gw_feed_wait(gw_feed *feed, uint64_t ns);
void gw_feed_meta(gw_feed *feed, const char *key, const char *value);
void gw_feed_fact(gw_feed *feed, const char *key, const char *value);
/* Feed one value of a card (`device` is its number in NVML), of a process (`pid`) or of the machine (GW_NO_DEVICE and
 * pid 0). */
void gw_feed_sample(gw_feed *feed, gw_metric metric, uint32_t device, uint32_t pid, uint64_t value);
void gw_feed_unknown(gw_feed *feed, gw_metric metric, uint32_t device, gw_sample_state state);
void gw_feed_machine(gw_feed *feed, gw_machine_event_kind kind, gw_source source, uint32_t device, uint32_t pid,
                     uint64_t code, uint64_t value, const char *text);
void gw_feed_map(gw_feed *feed, const char *path);
void gw_feed_stderr(gw_feed *feed, const char *text);
void gw_feed_stderr_bytes(gw_feed *feed, const char *bytes, size_t count); /* any bytes, even 0 */
void gw_feed_process(gw_feed *feed, uint32_t pid, uint32_t parent_pid, const char *exe);
/* drain all threads, then end the command, pid GW_FEED_PID */
void gw_feed_exit(gw_feed *feed, int code, int signal);
/* drain all threads, then end the recording without an end, as if the machine had died */
void gw_feed_truncated(gw_feed *feed);
/* drain all threads, then end another process */
void gw_feed_exit_of(gw_feed *feed, uint32_t pid, int code, int signal);

#endif
