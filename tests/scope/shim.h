/* The functions that control the library between libgpuscope and the driver. A test finds them with dlsym() in
 * libcuda.so.1. */
#ifndef SHIM_H
#define SHIM_H

#define SHIM_API __attribute__((visibility("default")))

/* Restart counting. The `at`-th call (from 1; 0: none) returns `code` and has no effect. With `sticks`, all later
 * calls fail in the same way. */
SHIM_API void shim_arm(long at, int code, int sticks);
SHIM_API long shim_count(void);
SHIM_API const char *shim_faulted(void);  /* the call that failed; NULL: none yet */
SHIM_API long shim_alive(void);           /* objects that were created and not released */
SHIM_API long shim_left_to_context(void); /* objects that only the end of a context freed, since shim_arm() */

#endif
