/* Tests verdicts on faults of kernels and on refused launches. */
#include "run_testlib.h"

static void feed_illegal_address(void)
{
    fault_with(700);
    gw_feed_call(&feed, "cuDevicePrimaryCtxReset_v2", GW_EV_CTX_RESET, 0, 0, 0, 0, 0);
    gw_feed_call(&feed, "cuDevicePrimaryCtxRetain", GW_EV_CTX_CREATE, 700, 0, 0, 0, GW_CONTEXT_PRIMARY);
    close_program(1);
}

static void feed_illegal_address_is_a_fault_even_with_exit_0(void)
{
    fault_with(700);
    gw_feed_exit(&feed, 0, 0);
}

static void feed_illegal_address_near_lost_events(void)
{
    fault_with(700);
    lose(7, 0);
    close_program(1);
}

static void feed_misaligned_access(void)
{
    fault_with(716);
    close_program(1);
}

static void feed_kernel_fault_other(void)
{
    fault_with(719);
    close_program(1);
}

static void test_device_faults_near_another_code(void **state)
{
    fault_with(304); /* the operating system refused a call; the catalogue has no cause for 304 */
    close_program(1);
    expect_status(GW_VERDICT_UNDETERMINED);
    assert_true(says("304"));
    fault_with(220);
    close_program(1);
    expect_fault("nvlink-fault", GW_SUPPORTED);
    fault_with(702);
    close_program(1);
    expect_fault("launch-timeout", GW_ESTABLISHED);
    fault_with(911); /* fault of an external device; the catalogue has no cause for 911 */
    close_program(1);
    expect_status(GW_VERDICT_UNDETERMINED);
    assert_true(says("911"));
}

static void feed_device_assert_without_its_text(void)
{
    fault_with(710);
    close_program(1);
}

static void launch_refused(uint64_t threads, uint32_t shared, int exit_code)
{
    open_program(16 * gib);
    const uint64_t limits[][2] = {{1, 1024}, {2, 1024}, {5, 2147483647}, {6, 65535}, {8, 49152}, {97, 232448}};
    for (size_t i = 0; i < 6; i++)
        gw_feed_call(&feed, "?", GW_EV_DEVICE_ATTRIBUTE, 0, 0, limits[i][0], limits[i][1], 0);
    gw_feed_extra_call(&feed, "cuLaunchKernel", GW_EV_LAUNCH, 1, shared, KERNEL, 1 | 1ull << 32 | 1ull << 48,
                       threads | 1ull << 21 | 1ull << 42, STREAM);
    if (exit_code != 0)
        gw_feed_stderr(&feed, "program: cuLaunchKernel: CUDA_ERROR_INVALID_VALUE\n");
    close_program(exit_code);
}

static void test_launch_config(void **state)
{
    launch_refused(4096, 0, 1);
    expect_fault("launch-config-invalid", GW_ESTABLISHED);
    assert_true(has_value(4096, "count"));
    assert_true(has_value(1024, "count"));
    assert_true(says("not sticky"));
    launch_refused(32, 400000, 1);
    expect_fault("launch-config-invalid", GW_ESTABLISHED);
    assert_true(has_value(400000, "bytes"));
}

static void test_launch_config_near_nothing_is_over(void **state)
{
    launch_refused(32, 0, 1); /* refused for another reason, such as an invalid handle */
    expect_status(GW_VERDICT_UNDETERMINED);
    launch_refused(4096, 0, 0); /* the program ended well, so the launch was a probe */
    expect_status(GW_VERDICT_CLEAN);
}

static const row rows[] = {
    FAULT(illegal_address, "illegal-address", GW_ESTABLISHED,
          .says = {"class_report", "a reset does not help", "50.01 ms"}, .then = {"cuDevicePrimaryCtxRetain"}),
    FAULT(illegal_address_is_a_fault_even_with_exit_0, "illegal-address", GW_ESTABLISHED),
    /* the 7 lost events could contradict the cause, which is therefore only supported */
    FAULT(illegal_address_near_lost_events, "illegal-address", GW_SUPPORTED, .advice = {"7 events were lost"}),
    FAULT(misaligned_access, "misaligned-access", GW_ESTABLISHED),
    FAULT(kernel_fault_other, "kernel-fault-other", GW_ESTABLISHED),
    FAULT(device_assert_without_its_text, "device-assert-index", GW_SUPPORTED),
    TEST(test_device_faults_near_another_code),
    TEST(test_launch_config),
    TEST(test_launch_config_near_nothing_is_over),
};

ROWS_MAIN(rows)
