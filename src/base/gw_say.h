/* Print lines on stderr and text on stdout. Control characters are replaced by '?', because the text may contain names
 * and messages of other programs. */
#ifndef GW_SAY_H
#define GW_SAY_H

/* Print one line on stderr, after "gpuwhy: ". Never fails and never ends the program. */
__attribute__((format(printf, 1, 2))) void gw_say(const char *format, ...);

/* Print on stdout. Newlines are kept. */
__attribute__((format(printf, 1, 2))) void gw_print(const char *format, ...);

#endif
