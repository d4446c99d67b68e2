/* Helpers for the scenarios that use the runtime API: error checks, and the variant given on the command line. */
#ifndef SCENARIO_H
#define SCENARIO_H

#include <cuda_runtime.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Check the result of a call of the runtime API, as programs commonly do: if it failed, print the call and exit with
 * status 1. */
#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        cudaError_t check_result = (call);                                                                             \
        if (check_result != cudaSuccess) {                                                                             \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(check_result));           \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

static inline bool is_variant(int argc, char **argv, const char *name)
{
    return argc > 1 && strcmp(argv[1], name) == 0;
}

#endif
