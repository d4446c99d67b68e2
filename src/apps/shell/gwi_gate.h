/* The gate of a build server: `--fail-on WORD[,..]` fails a job because of the verdict (gate.c). A word is `leak`, the
 * id of a cause, or `any`: a fault or a leak.
 *
 * A verdict that does not know is no "no". With `any`, and with `leak` in a run with --leaks strict, it fails the job,
 * too. With the other words, it is only reported. */
#ifndef GWI_GATE_H
#define GWI_GATE_H

#include "gwi_output.h"

#include "gw_verdict.h"

/* Check the words. GW_USAGE: `err` names the first word that is not known, and a similar one. */
GW_MUST_CHECK gw_status gwi_gate_check(const char *words, gw_error *err);

/* Check the id of a cause, the value of the option `option`. `is_gate`: the gate's own words are valid, too. Returns
 * like gwi_gate_check(). */
GW_MUST_CHECK gw_status gwi_cause_check(const char *option, const char *word, bool is_gate, gw_error *err);

/* Return true if the job must fail, and print the reasons, one line each. `words` NULL: no gate. `verdict` NULL: there
 * is none. */
bool gwi_gate_fails(const char *words, const gw_verdict *verdict);

/* Write a run as JUnit XML: a test case for its end, and one for each of the words, if any. `ended_well`: with the exit
 * status 0. Returns like gwi_output_write(). */
GW_MUST_CHECK gw_status gwi_gate_write_junit(const char *words, const gw_verdict *verdict, bool ended_well,
                                             const gwi_output *output, gw_error *err);

#endif
