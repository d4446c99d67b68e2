/* Code shared by the scenario programs: a module with one kernel, and two common options.
 *
 * Each program has one known fault, or, with --repaired, does the same work without it. It prints the same with and
 * without an observer. Facts about itself go to the file of --truth. It exits 1 if the fault occurred. */
#ifndef SCENARIO_H
#define SCENARIO_H

#include "gpu.h"
#include "options.h"
#include "truth.h"

/* kernel store(CUdeviceptr p): writes 32 bits to p. Faults if p does not point to live memory, on a real and a
 * virtual GPU. */
extern const char scenario_ptx[];

/* Launch `store` once: one block, 32 threads. */
CUresult scenario_store(CUfunction store, CUdeviceptr address, CUstream stream);

/* Print one line on stderr and exit 1. */
__attribute__((noreturn, format(printf, 1, 2))) void scenario_fail(const char *format, ...);

/* Return free and total memory of the current device, from cuMemGetInfo. */
void scenario_memory(size_t *ret_free, size_t *ret_total);

/* Start this program again with other arguments (the list ends with NULL). Returns its pid. */
int scenario_start(const char *program, const char *const *arguments);
/* Wait for a process; returns its exit status, or 128 + its signal. */
int scenario_wait(int pid);

#endif
