/* Checks for the tests in this folder. A failed check prints where and why it failed, and the test continues. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>

static int checks, failed_checks;

#define CHECK(condition, ...)                                                                                          \
    do {                                                                                                               \
        checks++;                                                                                                      \
        if (!(condition)) {                                                                                            \
            failed_checks++;                                                                                           \
            printf("FAILED %s:%d: %s: ", __FILE__, __LINE__, #condition);                                              \
            printf(__VA_ARGS__);                                                                                       \
            printf("\n");                                                                                              \
        }                                                                                                              \
    } while (0)

#endif
