/* Print lines on stderr and text on stdout. Control characters become '?', because the text may come from other
 * programs. */
#ifndef GW_SAY_H
#define GW_SAY_H

/* Print one line on stderr, with "gpuwhy: " in front. If the line cannot be written, it is lost. */
__attribute__((format(printf, 1, 2))) void gw_say(const char *format, ...);

/* Print text on stdout. Newlines in it are kept. */
__attribute__((format(printf, 1, 2))) void gw_print(const char *format, ...);

#endif
