/* What the test asks of the driver in between: found by dlsym() in libcuda.so.1. */
#ifndef SHIM_H
#define SHIM_H

#define SHIM_API __attribute__((visibility("default")))

/* Count anew; the `at`-th call (from 1; 0: none) answers `code` and does nothing. `sticks`: and so do all after it. */
SHIM_API void shim_arm(long at, int code, int sticks);
SHIM_API long shim_count(void);
SHIM_API const char *shim_faulted(void);  /* which one it was; NULL: none yet */
SHIM_API long shim_alive(void);           /* things that were made and not given back */
SHIM_API long shim_left_to_context(void); /* since shim_arm(): things that only the context's end gave back */

#endif
