/* Print lines on stderr and text on stdout. Control characters become '?', because the text may come from other
 * programs. Call gw_print() and gw_put() from one thread. */
#ifndef GW_SAY_H
#define GW_SAY_H

/* Print one line on stderr, with "gpuwhy: " in front. If the line cannot be written, it is lost. */
__attribute__((format(printf, 1, 2))) void gw_say(const char *format, ...);

/* Print text on stdout. Newlines in it are kept. */
__attribute__((format(printf, 1, 2))) void gw_print(const char *format, ...);
/* Print text on stdout as it is, with control characters. */
void gw_put(const char *text);

/* Return the error number of the first failure of gw_print() or gw_put(); 0: none. stdout itself forgets it. */
int gw_print_errno(void);

#endif
