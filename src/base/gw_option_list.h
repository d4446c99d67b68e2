/* The values of an option that may be given several times, in order. */
#ifndef GW_OPTION_LIST_H
#define GW_OPTION_LIST_H

#include <stddef.h>

enum { GW_OPTION_LIST_MAX = 16 };
typedef struct gw_option_list {
    const char *item[GW_OPTION_LIST_MAX]; /* borrowed from argv */
    size_t count;
} gw_option_list;

#endif
