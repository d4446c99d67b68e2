/* Reads a file from beginning to end, through a buffer of GWI_WINDOW_BYTES. */
#ifndef GW_PICKLE_WINDOW_H
#define GW_PICKLE_WINDOW_H

#include "gw_status.h"

#include <stddef.h>
#include <stdint.h>

enum { GWI_WINDOW_BYTES = 1 << 16 };

typedef struct gwi_window {
    int fd; /* -1: closed */
    size_t at, filled;
    uint64_t passed; /* offset in the file of the first byte in `data` */
    unsigned char data[GWI_WINDOW_BYTES];
} gwi_window;

/* Open a regular file. Returns GW_IO if it cannot be opened or is not a regular file. */
GW_MUST_CHECK gw_status gwi_window_open(gwi_window *window, const char *path, gw_error *err);
void gwi_window_close(gwi_window *window);
static inline uint64_t gwi_window_offset(const gwi_window *window)
{
    return window->passed + window->at;
}

/* Read exactly `count` bytes. Returns GW_CORRUPT if the file ends before the last of them, and GW_IO if reading
 * fails. */
GW_MUST_CHECK gw_status gwi_window_take(gwi_window *window, void *to, size_t count, gw_error *err);

#endif
