/* Functions about what the program wrote to stdout and stderr. */
#ifndef GWI_OUTPUT_H
#define GWI_OUTPUT_H

#include "gwi_cause.h"

/* True if the program's stdout and stderr were both recorded, and the program wrote nothing to either. */
bool gwi_said_nothing(const gwi_case *c);
/* Report the program's last lines of output as evidence, or the reason why the output was not recorded. */
void gwi_say_last_words(const gwi_case *c, gwi_finding *finding);
/* True if the exception was read from the Python interpreter and may be an older one that the program had caught. */
bool gwi_exception_is_uncertain(const gwi_case *c);

/* Frames of the user's code in a text (frames.c). */
struct gw_log;
/* Return the frames of the exception's traceback, innermost first, or of a native stack near it. *ret_where is NULL if
 * there is none, or if `exception` is NULL. `cause` decides what happened at the place. `is_short`: name a file by the
 * last part of its path, as in the call sites of a recording. Returns false, and sets NULL, if memory runs out. */
bool gwi_where_in_text(const struct gw_log *log, const struct gw_log_find *exception, const char *cause, bool is_short,
                       gw_where **ret_where);

#endif
