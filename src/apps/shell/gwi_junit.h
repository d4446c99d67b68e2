/* JUnit XML, which systems for continuous integration read: one test suite in a file (junit.c). Texts may contain
 * anything: invalid bytes and characters that XML cannot have are replaced. */
#ifndef GWI_JUNIT_H
#define GWI_JUNIT_H

#include "gwi_output.h"

typedef enum gwi_junit_state {
    GWI_JUNIT_PASSED,
    GWI_JUNIT_FAILED,
    GWI_JUNIT_SKIPPED,
    GWI_JUNIT_STATES
} gwi_junit_state;

/* One test case. Names should stay the same from run to run. */
typedef struct gwi_junit_case {
    const char *classname, *name;
    gwi_junit_state state;
    const char *type;    /* of a failure */
    const char *message; /* of a failure, or why it was skipped */
    const char *text;    /* of a failure, or the output of a case that passed */
} gwi_junit_case;

/* A suite. Begin with {0}. */
typedef struct gwi_junit {
    gw_text cases;
    size_t counts[GWI_JUNIT_STATES];
} gwi_junit;

void gwi_junit_add(gwi_junit *suite, const gwi_junit_case *one);
/* Write the suite, and free it, also after an error. Returns like gwi_output_write(). */
GW_MUST_CHECK gw_status gwi_junit_write(gwi_junit *suite, const char *name, const gwi_output *output, gw_error *err);

#endif
