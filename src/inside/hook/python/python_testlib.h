/* Declares the functions of python_testlib.c for tests in C. Tests in Python declare them themselves. The library
 * contains the Python part of the hook. */
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

/* Look for new interpreters. Returns 1 if one was found, otherwise 0. */
EXPORT int test_look(void);
/* Simulate a stop: read the frames of this thread and record their code. Returns the flags of the site, with bit 16 set
 * on the main thread. */
EXPORT uint32_t test_stop(test_frame *out, uint32_t max, uint32_t *ret_count);
/* Simulate a stop on a thread that never ran Python. Returns non-zero if the thread could not be created. */
EXPORT int test_stop_native(test_thread_stop *into);
/* Return the number of recorded facts, and the fact at index `at`. A fact is valid as long as the library is
 * loaded. */
EXPORT uint32_t test_fact_count(void);
EXPORT const test_fact *test_fact_at(uint32_t at);

#endif
