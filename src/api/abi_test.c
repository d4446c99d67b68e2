/* Compare every size, offset and number of gw_cuda_abi.h with the cuda.h of the build machine. */
#include "abi_facts.h"
#include "gw_unit_test.h"

GW_TEST(both_headers_agree)
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

GW_TEST_MAIN(NULL, NULL)
