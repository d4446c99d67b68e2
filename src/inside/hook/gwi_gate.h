/* Gates between the wrappers and the driver, for --inject and --fence (gate.c).
 *
 * apigen writes one gate for each documented function (gw_hook_gates.c). A gate asks gwi_gate_before() whether to call
 * the driver, and reports a failure to gwi_gate_failed(). Gates are a layer (gwi_hook.h): a function has one only if
 * a rule of the plan names it, or all functions must fail after an error, or the process's first call matters. Without
 * --inject and --fence there are no gates, so a call costs nothing more. */
#ifndef GWI_GATE_H
#define GWI_GATE_H

#include "gwi_hook.h"

/* The functions behind the gates, indexed by fn. */
extern GWI_HIDDEN void *gwi_gate_next[GW_FN_COUNT];
extern GWI_HIDDEN void *const gwi_gates[GW_FN_COUNT];

/* Return true if the call must not reach the driver; *ret_result is then its result. May wait (slow=), and may end the
 * process (--fence=exit). Keeps errno. */
bool gwi_gate_before(unsigned fn, int *ret_result);
/* A call of the driver failed. Closes the fence if the error is sticky. */
void gwi_gate_failed(int result);

bool gwi_gates_are_on(void);

/* Read GPUWHY_INJECT and GPUWHY_FENCE, and add the layer if one of them is set. Call with the lock held, before the
 * driver's functions are stored. */
void gwi_gate_begin(void);

#endif
