/* Text files that the build converts to a table in C. The table ends with a NULL name. */
#ifndef GWI_EMBEDDED_H
#define GWI_EMBEDDED_H

typedef struct gwi_embedded {
    const char *name; /* static: the file's name without its extension */
    const char *text; /* static: the file's content */
} gwi_embedded;

extern const gwi_embedded gwi_cards[];

#endif
