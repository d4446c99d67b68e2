/* Tests the search for cures on recordings of real runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "gwi_change.h"

static bool find(const char *fixture, const char *cause, gwi_cure *ret_cure)
{
    char path[512];
    gw_verdict verdict = {.status = GW_VERDICT_FAULT, .cause = cause};
    snprintf(path, sizeof path, "%s/%s.gpuwhy", GW_TEST_REAL, fixture);
    return gwi_cure_find(path, &verdict, ret_cure);
}

static void fragmented_memory_has_a_cure(void **state)
{
    (void)state;
    gwi_cure cure = {0};
    assert_true(find("fragmented", "gpu-oom-fragmentation", &cure));
    assert_string_equal(cure.name, "PYTORCH_CUDA_ALLOC_CONF");
    assert_string_equal(cure.value, "expandable_segments:True");
    /* a real run with this setting peaked at 3600 MiB */
    assert_true(cure.peak_bytes >= (uint64_t)3500 << 20 && cure.peak_bytes <= (uint64_t)3700 << 20);
    assert_true(cure.peak_bytes_before > cure.peak_bytes);
}

static void nothing_else_has_one(void **state)
{
    (void)state;
    gwi_cure cure = {0};
    assert_false(find("fragmented", "gpu-oom-leak", &cure)); /* a leak fills any card */
    assert_false(find("fragmented", NULL, &cure));
    assert_false(find("fragmented_expandable", "gpu-oom-fragmentation", &cure)); /* nothing was refused */
    assert_false(find("capacity_batch", "gpu-oom-capacity", &cure));
    assert_false(find("no_such_recording", "gpu-oom-capacity", &cure));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fragmented_memory_has_a_cure),
        cmocka_unit_test(nothing_else_has_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
