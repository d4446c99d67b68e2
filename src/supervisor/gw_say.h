/* What gpuwhy says to the user while it works. */
#ifndef GW_SAY_H
#define GW_SAY_H

/* Say one line on stderr; never fails, never ends the program. */
__attribute__((format(printf, 1, 2))) void gw_say(const char *format, ...);

#endif
