/* The Python half of the hook as a library (python_testlib.c) for tests: what a C program that is one of them calls.
 * Tests in Python know the structs by their layout. */
#ifndef GWI_PYTHON_TESTLIB_H
#define GWI_PYTHON_TESTLIB_H

#include "gw_event.h"

#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

typedef struct test_frame {
    uint32_t code;
    int32_t instruction;
    int32_t is_entry;
    uint64_t address, mark;
} test_frame;

typedef struct test_fact {
    uint32_t kind;
    uint64_t arg[4];
    char text[GW_TEXT_BYTES_MAX + 1];
} test_fact;

typedef struct test_thread_stop {
    uint32_t flags, count, borrowed;
} test_thread_stop;

/* Look for an interpreter. 1: there is one. */
EXPORT int test_look(void);
/* A stop: frames, and all that is to be said of their code. The flags, and bit 16: the main thread. */
EXPORT uint32_t test_stop(test_frame *out, uint32_t max, uint32_t *ret_count);
/* A stop on a thread that never was Python's. Unless 0, no thread could be made. */
EXPORT int test_stop_native(test_thread_stop *into);
/* What was said so far; it lives as long as the library. */
EXPORT uint32_t test_fact_count(void);
EXPORT const test_fact *test_fact_at(uint32_t at);

#endif
