/* The functions that control the library between libgpuscope and the driver. A test finds them with dlsym() in
 * libcuda.so.1. */
#ifndef SHIM_H
#define SHIM_H

#define SHIM_API __attribute__((visibility("default")))

/* Restart the count of calls. Call number `at` (1-based; 0: none) returns `code` and has no effect. With `sticks`, all
 * later calls fail in the same way, except the release of the context. */
SHIM_API void shim_arm(long at, int code, int sticks);
SHIM_API long shim_count(void);
SHIM_API const char *shim_faulted(void); /* the call that failed; NULL: none yet */
SHIM_API long shim_alive(void);          /* objects that were created and not released */
/* Return the number of objects since shim_arm() that were not released, but freed by the end of their context. */
SHIM_API long shim_left_to_context(void);

#endif
