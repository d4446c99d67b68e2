/* Code shared by the scenario programs: a module with one kernel, and two common options.
 *
 * Each program has one known fault and exits 1 if it occurred. With --repaired, it does the same work without the
 * fault. It writes facts about itself to the file of --truth. Its output is the same with and without gpuwhy. */
#ifndef SCENARIO_H
#define SCENARIO_H

#include <stdbool.h>

#include "gpu.h"
#include "options.h"
#include "truth.h"

/* Parse --repaired, --truth and the program's own options like options_parse(), and open the file of --truth. `rows`
 * may be NULL. Returns true with --repaired. */
bool scenario_begin(int argc, char **argv, const struct option_row *rows, const char *summary);

/* Kernel store(CUdeviceptr p): writes 32 bits to p. Faults if p does not point to live memory, on a real and on a
 * virtual GPU. */
extern const char scenario_ptx[];

/* Launch `store` once: one block, 32 threads. */
CUresult scenario_store(CUfunction store, CUdeviceptr address, CUstream stream);

/* Print one line on stderr and exit 1. */
__attribute__((noreturn, format(printf, 1, 2))) void scenario_fail(const char *format, ...);

/* Allocate memory. If it is refused, print the size on stderr and exit 1. */
CUdeviceptr scenario_take(size_t bytes);

/* Return the free and the total memory of the current device, from cuMemGetInfo. */
void scenario_memory(size_t *ret_free, size_t *ret_total);

/* Start this program again with other arguments (the list ends with NULL). Returns the new process's pid. */
int scenario_start(const char *program, const char *const *arguments);
/* Wait for a process. Returns its exit status, or 128 + the signal that ended it. */
int scenario_wait(int pid);

#endif
