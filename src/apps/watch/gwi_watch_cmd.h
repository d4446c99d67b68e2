/* Parts of `gpuwhy watch`. */
#ifndef GWI_WATCH_CMD_H
#define GWI_WATCH_CMD_H

#include "gw_option_list.h"
#include "gw_status.h"
#include "gw_watch.h"

#include <stdbool.h>

/* Let SIGINT, SIGTERM and SIGHUP end `gpuwhy watch`, unless they are ignored. GW_IO: no pipe could be made. */
GW_MUST_CHECK gw_status gwi_watch_catch_signals(gw_error *err);
/* True after such a signal. */
bool gwi_watch_is_stopped(void);
/* Wait `seconds`, or until such a signal arrives; one that arrived before counts, too. Returns gwi_watch_is_stopped().
 */
bool gwi_watch_wait(unsigned seconds);
/* Return a descriptor that can be read after such a signal, for poll(). */
int gwi_watch_stop_fd(void);

/* Show the screen until the user quits or a signal arrives (watch_screen.c). GW_UNSUPPORTED: this build has no
 * ncurses, or there is no usable terminal; `err` has the reason. */
GW_MUST_CHECK gw_status gwi_watch_screen(gw_watch *watch, unsigned interval_s, gw_error *err);

typedef struct gwi_listen_options {
    const char *address; /* "127.0.0.1:9465", "[::1]:9465", "localhost:9465" */
    bool allow_remote;   /* addresses other than loopback are allowed */
    unsigned interval_s;
    const gw_option_list *hosts; /* further names that the Host header of a request may have */
} gwi_listen_options;

/* Serve metrics until a signal arrives (watch_listen.c). GW_USAGE: the address is wrong or not allowed. GW_IO: it is
 * not free. GW_UNSUPPORTED: this build has no libmicrohttpd. `err` has the reason. */
GW_MUST_CHECK gw_status gwi_watch_listen(gw_watch *watch, const gwi_listen_options *options, gw_error *err);

#endif
