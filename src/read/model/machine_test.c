/* Tests that samples become series, that events are matched to cards and processes, and that unknown values stay
 * unknown. */
#include "gw_feed.h"
#include "gw_unit_test.h"

static const uint64_t second_ns = 1000000000u;

GW_TEST(values_become_series)
{
    gw_feed feed;
    gw_feed_open(&feed, 1u << 30);
    static const uint64_t power[] = {100, 300, 300, 200};
    for (size_t i = 0; i < 4; i++, gw_feed_wait(&feed, second_ns))
        gw_feed_sample(&feed, GW_METRIC_CARD_POWER, 0, 0, power[i]);
    gw_model *model = gw_feed_finish(&feed);
    const gw_series *s = gw_machine_known(model, GW_METRIC_CARD_POWER, 0, 0);
    assert_non_null(s);
    assert_true(s->first == 100 && s->last == 200 && s->min == 100 && s->max == 300 && s->rise == 200);
    assert_int_equal(s->t_last_ns - s->t_first_ns, 3 * second_ns);
    assert_int_equal(s->t_max_ns - s->t_first_ns, second_ns);
    assert_null(gw_machine_known(model, GW_METRIC_CARD_POWER, 1, 0));
    assert_null(gw_machine_known(model, GW_METRIC_CARD_TEMPERATURE, 0, 0));
    gw_model_free(model);
}

/* A value that is not reported again is unchanged. If a counter is reset, its later increases must still count. */
GW_TEST(counters_count_what_was_added)
{
    gw_feed feed;
    gw_feed_open(&feed, 1u << 30);
    static const uint64_t count[] = {1000, 1003, 2, 4};
    for (size_t i = 0; i < 4; i++) {
        gw_feed_sample(&feed, GW_METRIC_CARD_PCIE_REPLAYS, 0, 0, count[i]);
        gw_feed_wait(&feed, second_ns);
        gw_feed_sample(&feed, GW_METRIC_CARD_TEMPERATURE, 0, 0, 60); /* another sample, without the counter */
        gw_feed_wait(&feed, second_ns);
    }
    gw_model *model = gw_feed_finish(&feed);
    const gw_series *s = gw_machine_known(model, GW_METRIC_CARD_PCIE_REPLAYS, 0, 0);
    assert_non_null(s);
    assert_int_equal(s->rise, 5);
    assert_int_equal(s->t_rise_ns - s->t_first_ns, 6 * second_ns);
    assert_int_equal(s->t_rise_ns - s->t_rise_after_ns, second_ns);
    assert_int_equal(s->t_last_ns - s->t_first_ns, 7 * second_ns);
    gw_model_free(model);
}

GW_TEST(bits_have_durations)
{
    gw_feed feed;
    gw_feed_open(&feed, 1u << 30);
    static const uint64_t bits[] = {GW_CLOCK_REASON_IDLE, GW_CLOCK_REASON_HW_THERMAL | GW_CLOCK_REASON_HW_SLOWDOWN,
                                    GW_CLOCK_REASON_HW_SLOWDOWN, 0};
    for (size_t i = 0; i < 4; i++, gw_feed_wait(&feed, second_ns))
        gw_feed_sample(&feed, GW_METRIC_CARD_CLOCK_REASONS, 0, 0, bits[i]);
    gw_model *model = gw_feed_finish(&feed);
    const gw_series *s = gw_machine_known(model, GW_METRIC_CARD_CLOCK_REASONS, 0, 0);
    assert_non_null(s);
    assert_int_equal(s->bit_ns[0], second_ns);
    assert_int_equal(s->bit_ns[3], 2 * second_ns);
    assert_int_equal(s->bit_ns[6], second_ns);
    assert_int_equal(s->bit_ns[7], 0);
    gw_model_free(model);
}

/* An unknown value is not zero: the `state` of its series says why it is unknown. A series with one known value stays
 * GW_SAMPLE_KNOWN. */
GW_TEST(unknown_is_told_apart)
{
    gw_feed feed;
    gw_feed_open(&feed, 1u << 30);
    gw_feed_unknown(&feed, GW_METRIC_CARD_ECC_UNCORRECTED, 0, GW_SAMPLE_NOT_SUPPORTED);
    gw_feed_sample(&feed, GW_METRIC_CARD_TEMPERATURE, 0, 0, 50);
    gw_feed_wait(&feed, second_ns);
    gw_feed_unknown(&feed, GW_METRIC_CARD_TEMPERATURE, 0, GW_SAMPLE_FAILED);
    gw_feed_wait(&feed, 5 * second_ns);
    gw_feed_unknown(&feed, GW_METRIC_CARD_TEMPERATURE, 0, GW_SAMPLE_FAILED);
    gw_model *model = gw_feed_finish(&feed);
    assert_int_equal(model->machine.series[0].metric, GW_METRIC_CARD_ECC_UNCORRECTED);
    assert_int_equal(model->machine.series[0].state, GW_SAMPLE_NOT_SUPPORTED);
    assert_null(gw_machine_known(model, GW_METRIC_CARD_ECC_UNCORRECTED, 0, 0));
    const gw_series *heat = gw_machine_known(model, GW_METRIC_CARD_TEMPERATURE, 0, 0);
    assert_non_null(heat);
    assert_int_equal(heat->last_state, GW_SAMPLE_FAILED);
    assert_int_equal(heat->last, 50);
    assert_int_equal(heat->t_last_ns - heat->t_first_ns, second_ns); /* after this second, the value is unknown */
    gw_model_free(model);
}

/* Open a feed with two cards. CUDA's device 0 is the second card in NVML. */
static void two_cards(gw_feed *feed)
{
    gw_feed_open(feed, 1u << 30);
    gw_feed_call(feed, "cuInit", GW_EV_DEVICE_ATTRIBUTE, 0, 0, 33, 0xaf, 0);
    gw_feed_call(feed, "cuInit", GW_EV_DEVICE_ATTRIBUTE, 0, 0, 34, 0, 0);
    gw_feed_call(feed, "cuInit", GW_EV_DEVICE_ATTRIBUTE, 0, 0, 50, 0, 0);
    gw_feed_fact(feed, "nvml.card", "index=0 pci=00000000:18:00.0 uuid=GPU-1 name=NVIDIA H200");
    gw_feed_fact(feed, "nvml.card", "index=1 pci=00000000:AF:00.0 uuid=GPU-2 name=NVIDIA H200");
    gw_feed_fact(feed, "nvml.card", "nonsense");
    gw_feed_fact(feed, "nvml.card", "index=2 pci= name=");
}

GW_TEST(cards_are_matched_by_their_place)
{
    gw_feed feed;
    two_cards(&feed);
    gw_model *model = gw_feed_finish(&feed);
    assert_int_equal(gw_machine_card_of(model, 0), 1);
    assert_int_equal(gw_machine_device_of(model, 1), 0);
    assert_int_equal(gw_machine_device_of(model, 0), -1);
    assert_int_equal(gw_machine_card_of(model, 3), GW_NO_DEVICE);
    gw_model_free(model);
}

/* If NVML and the kernel log report the same Xid, the reports must become one event. Events of other cards or processes
 * must not become events of this run. */
GW_TEST(events_are_put_together)
{
    gw_feed feed;
    two_cards(&feed);
    gw_feed_machine(&feed, GW_MACHINE_XID, GW_SOURCE_NVML, 1, 0, 31, 0, "");
    gw_feed_wait(&feed, 1000000);
    gw_feed_machine(&feed, GW_MACHINE_XID, GW_SOURCE_KERNEL_LOG, GW_NO_DEVICE, GW_FEED_PID, 31, 0,
                    "NVRM: Xid (PCI:0000:af:00): 31, pid=100, name=program, Ch 00000008");
    gw_feed_machine(&feed, GW_MACHINE_XID, GW_SOURCE_NVML, 0, 0, 79, 0, "");
    gw_feed_machine(&feed, GW_MACHINE_XID, GW_SOURCE_KERNEL_LOG, GW_NO_DEVICE, 4711, 43, 0,
                    "NVRM: Xid (PCI:0000:af:00): 43, pid=4711, name=other");
    gw_feed_machine(&feed, GW_MACHINE_XID, GW_SOURCE_KERNEL_LOG, GW_NO_DEVICE, 0, 48, 0,
                    "NVRM: Xid (PCI:0000:5e:00): 48, pid='<unknown>'");
    gw_model *model = gw_feed_finish(&feed);
    assert_int_equal(model->machine.event_count, 4);
    const gw_machine_event *xid = gw_machine_event_next(model, NULL, GW_MACHINE_XID, true);
    assert_non_null(xid);
    assert_int_equal(xid->code, 31);
    assert_int_equal(xid->device, 1);
    assert_int_equal(xid->pid, GW_FEED_PID);
    assert_int_equal(xid->sources, 1u << GW_SOURCE_NVML | 1u << GW_SOURCE_KERNEL_LOG);
    assert_true(xid->is_ours && xid->text[0] != '\0');
    assert_null(gw_machine_event_next(model, xid, GW_MACHINE_XID, true));
    gw_model_free(model);
}

GW_TEST(bursts_are_counted)
{
    gw_feed feed;
    gw_feed_open(&feed, 1u << 30);
    for (int i = 0; i < 100; i++, gw_feed_wait(&feed, 10000000))
        gw_feed_machine(&feed, GW_MACHINE_XID, GW_SOURCE_KERNEL_LOG, 0, 0, 74, 0, "NVRM: Xid (PCI:0000:01:00): 74");
    gw_feed_wait(&feed, 10 * second_ns);
    gw_feed_machine(&feed, GW_MACHINE_XID, GW_SOURCE_KERNEL_LOG, 0, 0, 74, 0, "NVRM: Xid (PCI:0000:01:00): 74");
    gw_model *model = gw_feed_finish(&feed);
    assert_int_equal(model->machine.event_count, 2);
    assert_int_equal(model->machine.event[0].count, 100);
    assert_int_equal(model->machine.event[1].count, 1);
    gw_model_free(model);
}

GW_TEST_MAIN(NULL, NULL)
