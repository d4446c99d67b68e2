/* Draws a snapshot as lines of text. Computes nothing about the machine and touches no terminal.
 *
 * Strings of other processes are made printable, so the text contains no control characters except line breaks and
 * the marks below. A mark sets the style of what follows, up to the next mark or the end of the line. */
#ifndef GW_WATCH_SCREEN_H
#define GW_WATCH_SCREEN_H

#include "gw_text.h"
#include "gw_watch.h"

typedef enum gw_watch_mark {
    GW_MARK_PLAIN = 1,
    GW_MARK_TITLE,
    GW_MARK_HEAD,
    GW_MARK_DIM,
    GW_MARK_GOOD,
    GW_MARK_WARN,
    GW_MARK_ALARM,
    GW_MARK_END /* no mark; one more than the last one. Less than 9, the code of a tab */
} gw_watch_mark;

/* The order of processes and runs. X(NAME, key, text) */
#define GW_WATCH_ORDERS(X)                                                                                             \
    X(CARD, 'g', "GPU")                                                                                                \
    X(MEMORY, 'm', "memory")                                                                                           \
    X(IDLE, 'i', "idle time")                                                                                          \
    X(USER, 'u', "user")                                                                                               \
    X(PID, 'p', "pid")

typedef enum gw_watch_order {
#define GW_X(name, key, text) GW_WATCH_BY_##name,
    GW_WATCH_ORDERS(GW_X)
#undef GW_X
        GW_WATCH_ORDER_COUNT
} gw_watch_order;

typedef struct gw_watch_view {
    unsigned width, height; /* of the screen; height 0: as many lines as needed */
    unsigned top;           /* number of lines below the title that are scrolled away */
    gw_watch_order order;
    const char *filter; /* show only processes and runs whose user, command, pid or id contains this text; "": all */
    bool is_typing;     /* the filter is being typed */
    bool help;
    unsigned interval_s;
} gw_watch_view;

/* Append the screen to `text`, each line with a line break and at most `width` columns. *ret_top_max: the largest
 * useful value of `top`. */
void gw_watch_draw(const gw_watch_snapshot *snapshot, const gw_watch_view *view, gw_text *text, unsigned *ret_top_max);

/* True if the process is shown with this filter; see gw_watch_view. */
bool gw_watch_passes(const char *filter, const gw_watch_process *process);
/* Append one line for each process on a card, for `gpuwhy who`. Returns the number of processes. */
size_t gw_watch_draw_who(const gw_watch_snapshot *snapshot, const gw_watch_view *view, gw_text *text);

/* Append `text` without marks. */
void gw_watch_plain(gw_text *out, const char *text);

#endif
