/* Compare every size, offset and number of gw_cuda_abi.h with the cuda.h of the build machine. */
#include "abi_facts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void both_headers_agree(void **state)
{
    int differ_count = 0;
    assert_int_equal(abi_ours_count, abi_theirs_count);
    for (size_t i = 0; i < abi_ours_count; i++) {
        assert_string_equal(abi_ours[i].name, abi_theirs[i].name);
        if (abi_ours[i].value != abi_theirs[i].value) {
            print_error("%s: ours %lld, theirs %lld\n", abi_ours[i].name, abi_ours[i].value, abi_theirs[i].value);
            differ_count++;
        }
    }
    assert_int_equal(differ_count, 0);
    assert_true(abi_ours_count > 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(both_headers_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
