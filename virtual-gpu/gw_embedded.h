/* Text files that the build converts to a table in C. The table ends with a NULL name. */
#ifndef GW_EMBEDDED_H
#define GW_EMBEDDED_H

typedef struct gw_embedded {
    const char *name; /* static: the file's name without its extension */
    const char *text; /* static: the file's content */
} gw_embedded;

extern const gw_embedded gwi_cards[]; /* for virtual-gpu alone */

#endif
