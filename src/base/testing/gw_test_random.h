/* Pseudo-random numbers for a test (xorshift64): the same in every run, unless the test sets the state. */
#ifndef GW_TEST_RANDOM_H
#define GW_TEST_RANDOM_H

#include <stdint.h>

static uint64_t gw_test_random_state = 88172645463325252u; /* not 0 */

static inline uint64_t gw_test_random(void)
{
    gw_test_random_state ^= gw_test_random_state << 13;
    gw_test_random_state ^= gw_test_random_state >> 7;
    return gw_test_random_state ^= gw_test_random_state << 17;
}

#endif
