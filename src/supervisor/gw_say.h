/* Messages to the user while gpuwhy works. */
#ifndef GW_SAY_H
#define GW_SAY_H

/* Print one line on stderr. Never fails, never ends the program. */
__attribute__((format(printf, 1, 2))) void gw_say(const char *format, ...);

#endif
