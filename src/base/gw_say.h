/* What the commands print: lines on stderr, and text on stdout. Control characters in it are replaced by '?', because
 * names and texts of others may be part of it. */
#ifndef GW_SAY_H
#define GW_SAY_H

/* Print one line on stderr, after "gpuwhy: ". Never fails, never ends the program. */
__attribute__((format(printf, 1, 2))) void gw_say(const char *format, ...);

/* Print on stdout. Newlines stay. */
__attribute__((format(printf, 1, 2))) void gw_print(const char *format, ...);

#endif
