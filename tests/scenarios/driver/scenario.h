/* What the scenario programs share: a module with one kernel, and their two common options.
 *
 * Each program commits one known fault, or, with --repaired, does the same work right. It prints the same with and
 * without an observer; what it knows about itself goes to the file of --truth. It exits 1 when the fault showed. */
#ifndef SCENARIO_H
#define SCENARIO_H

#include "gpu.h"
#include "options.h"
#include "truth.h"

/* kernel store(CUdeviceptr p): writes 32 bits to p. Faults where p points to no live memory, on both cards. */
extern const char scenario_ptx[];

/* Launch `store` once: one block, 32 threads. */
CUresult scenario_store(CUfunction store, CUdeviceptr address, CUstream stream);

/* Exit 1, after one line on stderr. */
__attribute__((noreturn, format(printf, 1, 2))) void scenario_fail(const char *format, ...);

/* Free and total memory of the current device as cuMemGetInfo says. */
void scenario_memory(size_t *ret_free, size_t *ret_total);

/* Start this program again with other arguments (the list ends with NULL). Returns its pid. */
int scenario_start(const char *program, const char *const *arguments);
/* Wait for it; its exit status, or 128 + its signal. */
int scenario_wait(int pid);

#endif
