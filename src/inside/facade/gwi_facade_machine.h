/* The machine code of a facade, which depends on the processor. Each architecture has its own implementation.
 *
 * Frameworks call the functions that only read a value (READ in api/driver.api) about nine times for each launch. Once
 * cuInit has succeeded in a process, these calls jump straight to the driver, and their failures are not recorded. They
 * do not report faults of work on the GPU: on an H200 they returned 0 for 2.5 s after an illegal address, while
 * cuStreamQuery returned 700. Failures at start-up are normal, and the next call that does work fails for the same
 * reason.
 *
 * Before cuInit, and in the child of a fork, they are recorded, because such a read may be the only driver call of the
 * program: cudaMalloc() gets no further than cuCtxGetCurrent there. So their targets are on a page that the kernel
 * clears in a child process. On kernels that cannot do this (before 4.14), the targets stay 0. */
#ifndef GWI_FACADE_MACHINE_H
#define GWI_FACADE_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

/* Return false if facades cannot be written for this processor architecture. */
bool gwi_facade_code_supported(void);

/* Addresses of the parts of a facade. The first `read_count` of `count` names only read a value (GW_API_READ), so the
 * hook need not see their calls after cuInit. `reads_at` has one target for each. Their code jumps to the target,
 * unless it is 0. All other code jumps through the table. */
typedef struct gwi_facade_places {
    uint64_t code_at, head_at, table_at, reads_at;
    uint32_t count, read_count;
} gwi_facade_places;

enum { GWI_FACADE_READS_MAX = 7 };

/* Return the size of the code for `count` names. */
uint64_t gwi_facade_code_bytes(uint32_t count);

/* Write the code for these addresses to `code`. */
void gwi_facade_code_write(uint8_t *code, const gwi_facade_places *places);

/* Return the address of the code of the i-th name: gwi_facade_read_at() for the first read_count names (reads),
 * gwi_facade_stub_at() for all others. */
uint64_t gwi_facade_read_at(uint64_t code_at, uint32_t i);
uint64_t gwi_facade_stub_at(uint64_t code_at, uint32_t i);
/* Return the initial value of the i-th table entry: the code that attaches the hook. */
uint64_t gwi_facade_lazy_at(uint64_t code_at, uint32_t count, uint32_t i);

#endif
