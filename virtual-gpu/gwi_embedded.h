/* Text files that the build converts to C: a table that ends with a NULL name. */
#ifndef GWI_EMBEDDED_H
#define GWI_EMBEDDED_H

typedef struct gwi_embedded {
    const char *name; /* static: the file's name without its extension */
    const char *text; /* static: its content */
} gwi_embedded;

extern const gwi_embedded gwi_cards[];

#endif
