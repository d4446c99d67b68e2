/* A file seen through a small window, front to back. */
#ifndef GW_PICKLE_WINDOW_H
#define GW_PICKLE_WINDOW_H

#include "gw_status.h"

#include <stddef.h>
#include <stdint.h>

enum { GWI_WINDOW_BYTES = 1 << 16 };

typedef struct gwi_window {
    int fd; /* -1: closed */
    size_t at, filled;
    uint64_t passed; /* bytes of the file before the window */
    unsigned char data[GWI_WINDOW_BYTES];
} gwi_window;

GW_MUST_CHECK gw_status gwi_window_open(gwi_window *window, const char *path, gw_error *err);
void gwi_window_close(gwi_window *window);
static inline uint64_t gwi_window_offset(const gwi_window *window)
{
    return window->passed + window->at;
}

/* Exactly `count` bytes. GW_IO; GW_CORRUPT: the file ends before. */
GW_MUST_CHECK gw_status gwi_window_take(gwi_window *window, void *to, size_t count, gw_error *err);

#endif
