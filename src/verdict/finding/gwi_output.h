/* What the program wrote to its standard output and to stderr. */
#ifndef GWI_OUTPUT_H
#define GWI_OUTPUT_H

#include "gwi_cause.h"

/* True if the program's stdout and stderr were both recorded, and the program wrote nothing to either. */
bool gwi_said_nothing(const gwi_case *c);
/* Report the program's last lines of output as evidence, or the reason why the output was not recorded. */
void gwi_say_last_words(const gwi_case *c, gwi_finding *finding);
/* Set the source to "python" for evidence whose text was read from the Python interpreter, not from stderr. */
void gwi_name_inside(const gwi_case *c, gwi_finding *finding);
/* True if the exception was read from the Python interpreter and may be an older one, which the program had caught. */
bool gwi_exception_is_uncertain(const gwi_case *c);

#endif
