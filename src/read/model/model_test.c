/* Tests the rules of the ledger, recoveries from failures, the growth of memory, and the reading of stderr. */
#include "gw_unit_test.h"

#include "gw_feed.h"
#include "gw_growth.h"
#include "gw_logs.h"
#include "gw_test_random.h"

#include <string.h>

static const uint64_t mib = 1u << 20, gib = 1u << 30;

static gw_feed feed; /* static, because it is large */
static const gw_usage *usage_of(uint32_t pid)
{
    return &gw_model_process(feed.model, pid)->usage[0];
}

static int open_feed(void **state)
{
    gw_feed_open(&feed, 16 * gib);
    return 0;
}

static int open_bare(void **state)
{
    gw_feed_open_bare(&feed);
    return 0;
}

static int close_feed(void **state)
{
    gw_feed_close(&feed);
    return 0;
}

GW_TEST_WITH(test_plain_memory, open_feed, close_feed)
{
    uint64_t a = gw_feed_alloc(&feed, 3 * mib), b = gw_feed_alloc(&feed, 100);
    assert_int_equal(usage_of(GW_FEED_PID)->live_bytes, 3 * mib + 100);
    gw_feed_free(&feed, a);
    gw_feed_free(&feed, 0); /* a free of NULL must change nothing */
    assert_int_equal(usage_of(GW_FEED_PID)->live_bytes, 100);
    assert_int_equal(usage_of(GW_FEED_PID)->peak_bytes, 3 * mib + 100);
    gw_feed_free(&feed, a); /* a second free of the block must only increase unknown_frees */
    assert_int_equal(gw_model_process(feed.model, GW_FEED_PID)->unknown_frees, 1);
    gw_feed_free(&feed, b);
    assert_int_equal(usage_of(GW_FEED_PID)->live_count, 0);
}

/* Devices with a number beyond the model's table must not be mixed up with other devices. A bug once treated device 16
 * as device 0. */
GW_TEST_WITH(test_devices_beyond_the_table_are_nobody_elses, open_feed, close_feed)
{
    (void)gw_feed_alloc(&feed, mib);
    gw_feed_text_call(&feed, "cuInit", GW_EV_DEVICE, 16, gib, gib, 0, "Another card");
    gw_feed_call(&feed, "cuDeviceGetAttribute", GW_EV_DEVICE_ATTRIBUTE, 0, 16, 33, 7, 0);
    gw_feed_call(&feed, "cuDevicePrimaryCtxRetain", GW_EV_CTX_CREATE, 0, 0xbeef, 0, 16, GW_CONTEXT_PRIMARY);
    gw_feed_call(&feed, "cuDevicePrimaryCtxRetain", GW_EV_CTX_CREATE, 0, 0xfeed, 0, 40, GW_CONTEXT_PRIMARY);
    feed.context = 0xbeef;
    (void)gw_feed_alloc(&feed, 2 * mib);
    gw_feed_call(&feed, "cuMemAlloc_v2", GW_EV_ALLOC, 2, 0, gib, GW_SPACE_DEVICE, 0);
    gw_feed_call(&feed, "cuMemGetInfo_v2", GW_EV_MEMORY_INFO, 0, mib, gib, UINT64_MAX, 2);
    /* must not end the context on device 16 */
    gw_feed_call(&feed, "cuDevicePrimaryCtxReset_v2", GW_EV_CTX_RESET, 0, 0, 0, 40, 0);
    const gw_process *process = gw_model_process(feed.model, GW_FEED_PID);
    uint64_t limit = 0;
    char text[GW_DEVICE_TEXT_MAX];
    assert_int_equal(process->usage[0].live_bytes, mib);
    assert_int_equal(process->usage[0].class_made[GW_CLASS_CONTEXT], 1);
    assert_int_equal(process->usage[GW_MODEL_DEVICE_BEYOND].live_bytes, 2 * mib);
    assert_int_equal(process->usage[GW_MODEL_DEVICE_BEYOND].class_count[GW_CLASS_CONTEXT], 2);
    assert_int_equal(feed.model->device[0].bytes_total, 16 * gib);
    assert_string_equal(feed.model->device[0].name, "Test card");
    assert_false(feed.model->device[0].has_attribute[33]);
    assert_false(feed.model->device[GW_MODEL_DEVICE_BEYOND].known ||
                 feed.model->device[GW_MODEL_DEVICE_BEYOND].has_total);
    assert_false(gw_model_device_limit(feed.model, 16, &limit) || gw_model_device_limit(feed.model, 1000, &limit));
    assert_int_equal(feed.model->failure_count, 1);
    assert_int_equal(feed.model->failure[0].device, GW_MODEL_DEVICE_BEYOND);
    assert_int_equal(feed.model->info[0].device, GW_MODEL_DEVICE_BEYOND);
    assert_string_equal(gw_device_text(text, 15), "GPU 15");
    assert_string_equal(gw_device_text(text, GW_MODEL_DEVICE_BEYOND), "a GPU beyond the first 16");
}

/* ---- call sites ---- */

static uint64_t alloc_at(uint32_t site, uint64_t bytes)
{
    feed.site = site;
    uint64_t address = gw_feed_alloc(&feed, bytes);
    feed.site = 0;
    return address;
}

/* Return the user's frame of a site as text, "" if there is none. */
static const char *place_of(gw_sites *sites, uint32_t site, char text[GW_PLACE_TEXT_MAX])
{
    const gw_stack *stack = gw_sites_stack(sites, site);
    return stack == NULL || stack->user == stack->count ? "" : gw_frame_text(sites, &stack->frame[stack->user], text);
}

static const gw_group *group_of_site(const char *place, uint64_t bytes)
{
    char text[GW_PLACE_TEXT_MAX];
    for (size_t i = 1; i < feed.model->group_count; i++) {
        const gw_group *group = &feed.model->group[i];
        if (group->kin == i && group->bytes == bytes &&
            strcmp(place_of(feed.model->sites, group->site, text), place) == 0)
            return group;
    }
    return NULL;
}

GW_TEST_WITH(test_one_kind_is_one_place, open_feed, close_feed)
{
    uint32_t load = gw_feed_site(&feed, "load data.py 10, train train.py 20, main train.py 30");
    uint32_t again = gw_feed_site(&feed, "load data.py 10, train train.py 20, main train.py 30, again train.py 99");
    uint32_t other = gw_feed_site(&feed, "load data.py 11, test train.py 25, main train.py 31");
    uint64_t freed = alloc_at(load, mib);
    alloc_at(load, mib);
    feed.tid = 7; /* the site is known, so the block of another thread belongs to the same group */
    alloc_at(load, mib);
    feed.tid = GW_FEED_PID;
    alloc_at(again, mib);
    alloc_at(other, mib);
    alloc_at(load, 2 * mib);
    gw_feed_alloc(&feed, mib); /* from an unknown site */
    gw_feed_free(&feed, freed);
    feed.site = other;
    gw_feed_no_room(&feed, 1 << 30, 0, 1 << 30);
    feed.site = 0;
    gw_model *model = gw_feed_finish(&feed);
    gw_error err;
    assert_int_equal(gw_model_name_sites(model, 100, 1000, &err), GW_OK);
    const gw_group *kind = group_of_site("data.py:10 in load", mib);
    assert_non_null(kind);
    /* `load` and `again` have the same three innermost lines, and further frames do not count */
    assert_int_equal(kind->alloc_count, 4);
    assert_int_equal(kind->live_count, 3);
    assert_int_equal(group_of_site("data.py:10 in load", 2 * mib)->alloc_count, 1);
    const gw_snapshot *snapshot = gw_model_snapshot(model, model->failure[0].snapshot);
    assert_non_null(snapshot);
    size_t of_kind = 0, unknown = 0;
    for (size_t i = 0; i < snapshot->live_count; i++) {
        of_kind += snapshot->live[i].group == (uint32_t)(kind - model->group);
        unknown += snapshot->live[i].site == 0;
    }
    assert_int_equal(of_kind, 3);
    assert_int_equal(unknown, 1);
    char text[GW_PLACE_TEXT_MAX];
    const gw_stack *stack = gw_sites_stack(model->sites, model->failure[0].site);
    assert_string_equal(gw_frame_text(model->sites, &stack->frame[1], text), "train.py:25 in test");
}

GW_TEST_WITH(test_what_is_buried_knows_where_it_was_made, open_feed, close_feed)
{
    uint32_t made = gw_feed_site(&feed, "build model.py 5"), reset = gw_feed_site(&feed, "restart main.py 9");
    alloc_at(made, mib);
    feed.site = reset;
    gw_feed_call(&feed, "cuDevicePrimaryCtxReset_v2", GW_EV_CTX_RESET, 0, 0, 0, 0, 0);
    gw_model *model = gw_feed_finish(&feed);
    char text[GW_PLACE_TEXT_MAX];
    assert_int_equal(model->teardown_count, 1);
    assert_string_equal(place_of(model->sites, model->teardown[0].site, text), "main.py:9 in restart");
    assert_int_equal(model->teardown[0].buried_count, 1);
    assert_string_equal(place_of(model->sites, model->teardown[0].buried[0].site, text), "model.py:5 in build");
    assert_int_equal(model->group[model->group_count - 1].buried_count, 1);
}

/* Site ids may start at any number in each process. The model numbers the sites of all processes from 1. */
GW_TEST_WITH(test_a_crash_names_its_site, open_feed, close_feed)
{
    feed.site_last = 40;
    feed.site = gw_feed_site(&feed, "peek model.py 7");
    gw_feed_call(&feed, "?", GW_EV_CRASH, 0, 11, 0x1000, 1, 0x401000);
    gw_model *model = gw_feed_finish(&feed);
    char text[GW_PLACE_TEXT_MAX];
    assert_string_equal(place_of(model->sites, model->process[0].crash.site, text), "model.py:7 in peek");
}

/* A recording from elsewhere may have times below 0, which would be hundreds of years without a sign. */
GW_TEST_WITH(test_times_before_the_start, open_feed, close_feed)
{
    gw_hot_call call = {.t_ns = UINT64_MAX - 9};
    gw_item ring = {.kind = GW_ITEM_RING, .t_ns = UINT64_MAX, .pid = GW_FEED_PID, .tid = GW_FEED_PID};
    gw_error err;
    uint64_t t_ns = feed.t_ns;
    feed.t_ns = UINT64_MAX - 99999;
    gw_feed_call(&feed, "cuMemAlloc_v2", GW_EV_ALLOC, 2, 0, mib, 0, 0);
    feed.t_ns = t_ns;
    gw_feed_exit(&feed, 1, 0);
    ring.ring.call = &call;
    ring.ring.count = ring.ring.total = 1;
    assert_int_equal(gw_model_feed(feed.model, &ring, &err), GW_OK);
    gw_model *model = gw_feed_finish(&feed);
    assert_int_equal(model->failure[0].t_ns, 0);
    assert_int_equal(model->thread[0].ring[0].t_ns, 0);
    assert_true(model->t_end_ns < 10000000000u);
}

GW_TEST_WITH(test_failed_calls_change_nothing, open_feed, close_feed)
{
    uint64_t a = gw_feed_alloc(&feed, mib);
    gw_feed_call(&feed, "cuMemFree_v2", GW_EV_FREE, 1, a, 0, 0, 0);
    gw_feed_call(&feed, "cuMemAlloc_v2", GW_EV_ALLOC, 2, 0, gib, 0, 0);
    gw_feed_call(&feed, "cuDevicePrimaryCtxReset_v2", GW_EV_CTX_RESET, 700, 0, 0, 0, 0);
    assert_int_equal(usage_of(GW_FEED_PID)->live_bytes, mib);
}

GW_TEST_WITH(test_vmm_lives_until_released_and_unmapped, open_feed, close_feed)
{
    gw_feed_call(&feed, "cuMemCreate", GW_EV_VMM_CREATE, 0, 0x11, 4 * mib, 0, 1);
    gw_feed_call(&feed, "cuMemMap", GW_EV_VMM_MAP, 0, 0x200000, 4 * mib, 0, 0x11);
    gw_feed_call(&feed, "cuMemMap", GW_EV_VMM_MAP, 0, 0x800000, 4 * mib, 0, 0x11);
    gw_feed_call(&feed, "cuMemRelease", GW_EV_VMM_RELEASE, 0, 0x11, 0, 0, 0);
    assert_int_equal(usage_of(GW_FEED_PID)->live_bytes, 4 * mib);
    /* The handle's number is reused while the first block is still mapped. */
    gw_feed_call(&feed, "cuMemCreate", GW_EV_VMM_CREATE, 0, 0x11, 2 * mib, 0, 1);
    assert_int_equal(usage_of(GW_FEED_PID)->live_bytes, 6 * mib);
    gw_feed_call(&feed, "cuMemUnmap", GW_EV_VMM_UNMAP, 0, 0x200000, 4 * mib, 0, 0);
    assert_int_equal(usage_of(GW_FEED_PID)->live_bytes, 6 * mib);
    gw_feed_call(&feed, "cuMemUnmap", GW_EV_VMM_UNMAP, 0, 0x800000, 4 * mib, 0, 0);
    assert_int_equal(usage_of(GW_FEED_PID)->live_bytes, 2 * mib);
    gw_feed_call(&feed, "cuMemRelease", GW_EV_VMM_RELEASE, 0, 0x11, 0, 0, 0);
    assert_int_equal(usage_of(GW_FEED_PID)->live_bytes, 0);
}

/* Two blocks get the same handle. The event that released the first block was lost, but a mapping keeps this block
 * alive. The ledger must not confuse the blocks. */
GW_TEST_WITH(test_vmm_number_given_out_twice, open_feed, close_feed)
{
    const uint64_t first_at = 0x7000000000, second_at = 0x7100000000, handle = 0x900;
    gw_feed_call(&feed, "cuMemCreate", GW_EV_VMM_CREATE, 0, handle, 2 * mib, 0, 1);
    gw_feed_call(&feed, "cuMemMap", GW_EV_VMM_MAP, 0, first_at, 2 * mib, 0, handle);
    gw_feed_call(&feed, "cuMemCreate", GW_EV_VMM_CREATE, 0, handle, 4 * mib, 0, 1);
    assert_int_equal(usage_of(GW_FEED_PID)->live_bytes, 6 * mib);
    gw_feed_call(&feed, "cuMemMap", GW_EV_VMM_MAP, 0, second_at, 4 * mib, 0, handle);
    /* the event of the first unmap was lost, too */
    gw_feed_call(&feed, "cuMemMap", GW_EV_VMM_MAP, 0, first_at, 2 * mib, 0, handle);
    assert_int_equal(usage_of(GW_FEED_PID)->live_bytes, 4 * mib);
    gw_feed_call(&feed, "cuMemUnmap", GW_EV_VMM_UNMAP, 0, first_at, 2 * mib, 0, 0);
    gw_feed_call(&feed, "cuMemUnmap", GW_EV_VMM_UNMAP, 0, second_at, 4 * mib, 0, 0);
    gw_feed_call(&feed, "cuMemRelease", GW_EV_VMM_RELEASE, 0, handle, 0, 0, 0);
    assert_int_equal(usage_of(GW_FEED_PID)->live_count, 0);
}

GW_TEST_WITH(test_vmm_retain_and_host_memory, open_feed, close_feed)
{
    gw_feed_call(&feed, "cuMemCreate", GW_EV_VMM_CREATE, 0, 0x11, 4 * mib, 0, 1);
    gw_feed_call(&feed, "cuMemMap", GW_EV_VMM_MAP, 0, 0x200000, 4 * mib, 0, 0x11);
    gw_feed_call(&feed, "cuMemRelease", GW_EV_VMM_RELEASE, 0, 0x11, 0, 0, 0);
    gw_feed_call(&feed, "cuMemRetainAllocationHandle", GW_EV_VMM_RETAIN, 0, 0x22, 0x200000, 0, 0);
    gw_feed_call(&feed, "cuMemUnmap", GW_EV_VMM_UNMAP, 0, 0x200000, 4 * mib, 0, 0);
    assert_int_equal(usage_of(GW_FEED_PID)->live_bytes, 4 * mib);
    gw_feed_call(&feed, "cuMemRelease", GW_EV_VMM_RELEASE, 0, 0x22, 0, 0, 0);
    assert_int_equal(usage_of(GW_FEED_PID)->live_bytes, 0);
    gw_feed_call(&feed, "cuMemCreate", GW_EV_VMM_CREATE, 0, 0x33, gib, 0, 2); /* location type 2: memory on the host */
    assert_int_equal(usage_of(GW_FEED_PID)->live_bytes, 0);
    assert_int_equal(gw_model_process(feed.model, GW_FEED_PID)->pinned_bytes, gib);
    assert_int_equal(gw_model_process(feed.model, GW_FEED_PID)->pinned_bytes_peak, gib);
    gw_feed_call(&feed, "cuMemRelease", GW_EV_VMM_RELEASE, 0, 0x33, 0, 0, 0);
    assert_int_equal(gw_model_process(feed.model, GW_FEED_PID)->pinned_bytes, 0);
    assert_int_equal(gw_model_process(feed.model, GW_FEED_PID)->pinned_bytes_peak, gib);
}

GW_TEST_WITH(test_unmap_takes_several_mappings, open_feed, close_feed)
{
    for (uint64_t i = 0; i < 4; i++) {
        gw_feed_call(&feed, "cuMemCreate", GW_EV_VMM_CREATE, 0, 0x10 + i, 2 * mib, 0, 1);
        gw_feed_call(&feed, "cuMemMap", GW_EV_VMM_MAP, 0, 0x40000000 + i * 2 * mib, 2 * mib, 0, 0x10 + i);
        gw_feed_call(&feed, "cuMemRelease", GW_EV_VMM_RELEASE, 0, 0x10 + i, 0, 0, 0);
    }
    assert_int_equal(usage_of(GW_FEED_PID)->live_bytes, 8 * mib);
    gw_feed_call(&feed, "cuMemUnmap", GW_EV_VMM_UNMAP, 0, 0x40000000, 8 * mib, 0, 0);
    assert_int_equal(usage_of(GW_FEED_PID)->live_bytes, 0);
}

GW_TEST_WITH(test_contexts_own_what_was_made_in_them, open_feed, close_feed)
{
    uint64_t kept = gw_feed_alloc(&feed, mib);
    gw_feed_call(&feed, "cuCtxCreate_v2", GW_EV_CTX_CREATE, 0, 0xbeef, 0, 0, GW_CONTEXT_PLAIN);
    feed.context = 0xbeef;
    gw_feed_alloc(&feed, 8 * mib);
    gw_feed_call(&feed, "cuStreamCreate", GW_EV_STREAM_CREATE, 0, 0x5, 0, 0, 0);
    /* a VMM block belongs to no context */
    gw_feed_call(&feed, "cuMemCreate", GW_EV_VMM_CREATE, 0, 0x11, 2 * mib, 0, 1);
    feed.context = 0xc0de;
    gw_feed_call(&feed, "cuCtxDestroy_v2", GW_EV_CTX_DESTROY, 0, 0xbeef, 0, 0, GW_CONTEXT_PLAIN);
    assert_int_equal(usage_of(GW_FEED_PID)->live_bytes, 3 * mib);
    assert_int_equal(usage_of(GW_FEED_PID)->class_count[GW_CLASS_STREAM], 0);
    assert_int_equal(feed.model->teardown_count, 1);
    assert_int_equal(feed.model->teardown[0].bytes, 8 * mib);
    gw_feed_free(&feed, kept);
}

GW_TEST_WITH(test_primary_context_counts_its_holders, open_feed, close_feed)
{
    gw_feed_alloc(&feed, mib);
    gw_feed_call(&feed, "cuDevicePrimaryCtxRetain", GW_EV_CTX_CREATE, 0, 0xc0de, 0, 0, GW_CONTEXT_PRIMARY);
    gw_feed_call(&feed, "cuDevicePrimaryCtxRelease_v2", GW_EV_CTX_RELEASE, 0, 0, 0, 0, 0);
    assert_int_equal(usage_of(GW_FEED_PID)->live_bytes, mib);
    gw_feed_call(&feed, "cuDevicePrimaryCtxRelease_v2", GW_EV_CTX_RELEASE, 0, 0, 0, 0, 0);
    assert_int_equal(usage_of(GW_FEED_PID)->live_bytes, 0);
    assert_int_equal(feed.model->teardown[0].kind, GW_TEARDOWN_RELEASE);
}

GW_TEST_WITH(test_reset_takes_everything_whoever_holds_it, open_feed, close_feed)
{
    uint64_t a = gw_feed_alloc(&feed, mib);
    gw_feed_call(&feed, "cuMemAllocAsync", GW_EV_ALLOC_ASYNC, 0, 0x9000, mib, 0, 0);
    gw_feed_call(&feed, "cuDevicePrimaryCtxRetain", GW_EV_CTX_CREATE, 0, 0xc0de, 0, 0, GW_CONTEXT_PRIMARY);
    gw_feed_call(&feed, "cuDevicePrimaryCtxReset_v2", GW_EV_CTX_RESET, 0, 0, 0, 0, 0);
    assert_int_equal(usage_of(GW_FEED_PID)->live_bytes, 0);
    assert_int_equal(feed.model->teardown[0].buried[0].key, a);
}

/* Feed a description of the program's process, from the time `t_ns` of the recording. */
static void describe(uint64_t t_ns, uint64_t start_realtime_ns, uint64_t pid_namespace)
{
    gw_item item = {.kind = GW_ITEM_PROCESS, .t_ns = t_ns, .pid = GW_FEED_PID};
    item.process.exe = "/usr/bin/python3";
    item.process.start_realtime_ns = start_realtime_ns;
    item.process.pid_namespace = pid_namespace;
    gw_error err;
    assert_int_equal(gw_model_feed(feed.model, &item, &err), GW_OK);
}

/* exec() ends all objects of the old program. Its last events may be recorded after the description of the new one. */
GW_TEST_WITH(test_exec_ends_everything, open_feed, close_feed)
{
    gw_feed_process(&feed, GW_FEED_PID, 1, "/usr/bin/python3");
    const gw_process *facts = gw_model_process(feed.model, GW_FEED_PID);
    gw_feed_alloc(&feed, gib);
    gw_feed_call(&feed, "cuMemCreate", GW_EV_VMM_CREATE, 0, 0x77, gib, 0, 0);
    gw_feed_call(&feed, "cuMemMap", GW_EV_VMM_MAP, 0, 0x10000000, gib, 0, 0x77);
    gw_feed_call(&feed, "cuMemRelease", GW_EV_VMM_RELEASE, 0, 0x77, 0, 0, 0);
    gw_feed_call(&feed, "cuMemHostAlloc", GW_EV_HOST_ALLOC, 0, 0x20000000, gib, 0, 0);
    assert_int_equal(facts->usage[0].live_bytes, 2 * gib);
    uint64_t exec_ns = feed.t_ns + 1000000000;
    describe(exec_ns, 0, 0);
    gw_feed_alloc(&feed, gib); /* still of the old program */
    assert_true(feed.t_ns < exec_ns);
    facts = gw_model_process(feed.model, GW_FEED_PID);
    assert_int_equal(facts->usage[0].live_bytes, 3 * gib);
    assert_int_equal(facts->usage[0].peak_bytes, 3 * gib);
    feed.t_ns = exec_ns;
    gw_feed_alloc(&feed, 4096);
    assert_int_equal(facts->usage[0].live_bytes, 4096);
    assert_int_equal(facts->usage[0].live_count, 1);
    assert_int_equal(facts->usage[0].peak_bytes, 3 * gib);
    assert_int_equal(facts->pinned_bytes, 0);
    assert_int_equal(facts->unknown_frees, 0);
    gw_feed_call(&feed, "cuMemMap", GW_EV_VMM_MAP, 0, 0x10000000, gib, 0, 0x77); /* of nothing that still exists */
    assert_int_equal(facts->usage[0].live_bytes, 4096);
}

/* A new program that does nothing with the driver is only known from its description. */
GW_TEST_WITH(test_exec_without_a_later_event, open_feed, close_feed)
{
    gw_feed_process(&feed, GW_FEED_PID, 1, "/usr/bin/python3");
    gw_feed_alloc(&feed, gib);
    gw_feed_process(&feed, GW_FEED_PID, 1, "/usr/bin/true");
    gw_feed_exit(&feed, 0, 0);
    assert_int_equal(gw_model_process(feed.model, GW_FEED_PID)->usage[0].live_bytes, 0);
}

/* The drain may find the buffers of both programs at once, and then describes them in any order. */
GW_TEST_WITH(test_exec_described_in_reverse, open_feed, close_feed)
{
    uint64_t exec_ns = feed.t_ns + 1000000000;
    describe(exec_ns, 0, 0);
    gw_feed_process(&feed, GW_FEED_PID, 1, "/usr/bin/sh"); /* the old program */
    gw_feed_alloc(&feed, gib);
    feed.t_ns = exec_ns;
    gw_feed_alloc(&feed, 4096);
    const gw_process *facts = gw_model_process(feed.model, GW_FEED_PID);
    assert_true(facts->called_exec);
    assert_int_equal(facts->usage[0].live_bytes, 4096);
    assert_int_equal(facts->usage[0].peak_bytes, gib);
}

GW_TEST_WITH(test_a_repeated_description_is_no_exec, open_feed, close_feed)
{
    describe(feed.t_ns, 1763600000000000000, 0);
    gw_feed_alloc(&feed, gib);
    describe(feed.t_ns, 1763600000000000000, 0);
    gw_feed_alloc(&feed, 4096);
    assert_int_equal(gw_model_process(feed.model, GW_FEED_PID)->usage[0].live_bytes, gib + 4096);
    describe(feed.t_ns, 1763600000000000001, 0);
    gw_feed_alloc(&feed, 4096);
    assert_int_equal(gw_model_process(feed.model, GW_FEED_PID)->usage[0].live_bytes, 4096);
}

/* Processes of several containers may have the same pid. None of them has called exec(). */
GW_TEST_WITH(test_equal_pids_in_two_namespaces, open_feed, close_feed)
{
    describe(feed.t_ns, 0, 4026531836);
    gw_feed_alloc(&feed, gib);
    describe(feed.t_ns, 0, 4026532800);
    gw_feed_alloc(&feed, 4096);
    const gw_process *facts = gw_model_process(feed.model, GW_FEED_PID);
    assert_true(facts->is_several);
    assert_int_equal(facts->usage[0].live_bytes, gib + 4096);
    describe(feed.t_ns, 0, 4026532800); /* which of them called exec() is unknown */
    gw_feed_alloc(&feed, 4096);
    assert_int_equal(facts->usage[0].live_bytes, gib + 8192);
}

GW_TEST_WITH(test_green_contexts_borrow, open_feed, close_feed)
{
    gw_feed_call(&feed, "cuGreenCtxCreate", GW_EV_CTX_CREATE, 0, 0x9e, 0, 0, GW_CONTEXT_GREEN);
    gw_feed_alloc(&feed, mib);
    gw_feed_call(&feed, "cuGreenCtxDestroy", GW_EV_CTX_DESTROY, 0, 0x9e, 0, 0, GW_CONTEXT_GREEN);
    assert_int_equal(usage_of(GW_FEED_PID)->live_bytes, mib);
}

GW_TEST_WITH(test_imports_are_the_exporters, open_feed, close_feed)
{
    gw_feed_call(&feed, "cuIpcOpenMemHandle_v2", GW_EV_IPC_OPEN, 0, 0x123000, 0, 0, 0);
    gw_feed_call(&feed, "cuMemImportFromShareableHandle", GW_EV_VMM_IMPORT, 0, 0x77, 0, 0, 0);
    assert_int_equal(usage_of(GW_FEED_PID)->live_bytes, 0);
    assert_int_equal(usage_of(GW_FEED_PID)->class_count[GW_CLASS_IMPORT], 2);
    gw_feed_call(&feed, "cuIpcCloseMemHandle", GW_EV_IPC_CLOSE, 0, 0x123000, 0, 0, 0);
    gw_feed_call(&feed, "cuMemRelease", GW_EV_VMM_RELEASE, 0, 0x77, 0, 0, 0);
    assert_int_equal(usage_of(GW_FEED_PID)->class_count[GW_CLASS_IMPORT], 0);
}

GW_TEST_WITH(test_captured_allocations_have_not_happened, open_feed, close_feed)
{
    gw_feed_call(&feed, "cuStreamBeginCapture_v2", GW_EV_CAPTURE_BEGIN, 0, 0, 0, 0, 0x51);
    gw_feed_captured(&feed, 0xa000, mib, 0x51);
    assert_int_equal(usage_of(GW_FEED_PID)->live_bytes, 0);
    gw_feed_launch(&feed, 0xf1, 0x51); /* captured, so it has not run */
    gw_feed_call(&feed, "cuStreamEndCapture", GW_EV_CAPTURE_END, 0, 0x61, 0, 0, 0x51);
    gw_feed_call(&feed, "cuMemAllocAsync", GW_EV_ALLOC_ASYNC, 0, 0xb000, mib, 0, 0x51);
    assert_int_equal(usage_of(GW_FEED_PID)->live_bytes, mib);
    gw_feed_launch(&feed, 0xf2, 0x51);
    gw_feed_drain(&feed);
    gw_model *model = gw_feed_finish(&feed);
    assert_true(model->thread[0].ring[0].captured);
    assert_false(model->thread[0].ring[1].captured);
}

GW_TEST_WITH(test_kernels_have_names, open_feed, close_feed)
{
    gw_feed_call(&feed, "cuLibraryLoadData", GW_EV_LIBRARY_LOAD, 0, 0x71, 0, 0, 0);
    gw_feed_text_call(&feed, "cuLibraryGetKernel", GW_EV_FUNCTION, 0xf0, 0x71, GW_OWNER_LIBRARY, 0, "conv_forward");
    gw_feed_call(&feed, "cuKernelGetFunction", GW_EV_FUNCTION, 0, 0xf1, 0xf0, GW_OWNER_KERNEL, 0);
    gw_feed_call(&feed, "cuGraphCreate", GW_EV_GRAPH_CREATE, 0, 0x61, 0, 0, 0);
    gw_feed_call(&feed, "cuGraphAddKernelNode_v2", GW_EV_GRAPH_NODE, 0, 0x62, 0x61, 0, 0xf1);
    gw_feed_call(&feed, "cuGraphInstantiateWithFlags", GW_EV_GRAPH_EXEC_CREATE, 0, 0x63, 0x61, 0, 0);
    gw_feed_call(&feed, "cuGraphDestroy", GW_EV_GRAPH_DESTROY, 0, 0x61, 0, 0, 0);
    gw_feed_launch(&feed, 0xf1, 3);
    gw_feed_thread *thread = &feed.thread[0];
    thread->ring[thread->ring_count++] = (gw_hot_call){feed.t_ns, 0x63, 3, (uint16_t)feed.name_count};
    feed.name[feed.name_count++] = "cuGraphLaunch";
    gw_feed_launch(&feed, 0xdead, 3);
    gw_feed_drain(&feed);
    gw_model *model = gw_feed_finish(&feed);
    assert_string_equal(model->thread[0].ring[0].kernel, "conv_forward");
    assert_string_equal(model->thread[0].ring[1].kernel, "conv_forward");
    assert_null(model->thread[0].ring[2].kernel);
}

/* ---- failures ---- */

GW_TEST_WITH(test_recovered_by_a_retry, open_feed, close_feed)
{
    uint64_t a = gw_feed_alloc(&feed, gib);
    gw_feed_no_room(&feed, 2 * gib, gib, 16 * gib);
    gw_feed_free(&feed, a);
    gw_feed_alloc(&feed, 2 * gib);
    gw_model *model = gw_feed_finish(&feed);
    assert_int_equal(model->failure_count, 1);
    assert_int_equal(model->failure[0].recovery, GW_RECOVERED_BY_SIZE);
    assert_true(model->failure[0].next.is_retry);
    assert_true(model->failure[0].has_info);
    assert_int_equal(model->failure[0].info.bytes_free, gib);
}

/* CuPy's pool repeats a refused request twice, each time after freeing idle blocks. Then CuPy raises an exception.
 * These three refusals are one failure. */
GW_TEST_WITH(test_a_pool_that_asks_again_fails_once, open_feed, close_feed)
{
    uint64_t a = gw_feed_alloc(&feed, gib), b = gw_feed_alloc(&feed, gib);
    gw_feed_no_room(&feed, 2 * gib, mib, 16 * gib);
    gw_feed_free(&feed, a);
    gw_feed_no_room(&feed, 2 * gib, gib + mib, 16 * gib);
    gw_feed_call(&feed, "cuCtxGetDevice", GW_EV_CALL, 201, 0, 0, 0, 0); /* a call by a library in between */
    gw_feed_free(&feed, b);
    gw_feed_no_room(&feed, 2 * gib, 2 * gib - mib, 16 * gib);
    gw_model *model = gw_feed_finish(&feed);
    size_t refused = 0;
    for (size_t i = 0; i < model->failure_count; i++)
        refused += model->failure[i].is_allocation;
    assert_int_equal(refused, 1);
    const gw_failure *failure = &model->failure[0];
    assert_int_equal(failure->repeat_count, 3);
    /* the free memory that was reported after the last refusal */
    assert_int_equal(failure->info.bytes_free, 2 * gib - mib);
    assert_int_equal(failure->recovery, GW_RECOVERED_NOT);
}

/* A refused request is a new failure if it has another size, or if another request succeeded since the last refusal. */
GW_TEST_WITH(test_two_requests_fail_twice, open_feed, close_feed)
{
    gw_feed_no_room(&feed, 2 * gib, mib, 16 * gib);
    gw_feed_no_room(&feed, 3 * gib, mib, 16 * gib);
    gw_feed_alloc(&feed, mib);
    gw_feed_no_room(&feed, 2 * gib, mib, 16 * gib);
    gw_model *model = gw_feed_finish(&feed);
    assert_int_equal(model->failure_count, 3);
}

GW_TEST_WITH(test_recovered_by_a_smaller_batch, open_feed, close_feed)
{
    uint64_t a = gw_feed_alloc(&feed, gib);
    gw_feed_no_room(&feed, 20 * gib, gib, 16 * gib);
    gw_feed_free(&feed, a);
    gw_feed_alloc(&feed, 2 * gib);
    gw_feed_launch(&feed, 1, 0);
    gw_feed_sync(&feed);
    gw_feed_drain(&feed);
    gw_model *model = gw_feed_finish(&feed);
    assert_int_equal(model->failure[0].recovery, GW_RECOVERED_BY_SMALLER);
}

GW_TEST(test_recovered_by_launches_that_were_waited_for)
{
    for (int waits = 0; waits < 2; waits++) {
        gw_feed_open(&feed, 16 * gib);
        gw_feed_no_room(&feed, 20 * gib, gib, 16 * gib);
        for (int i = 0; i < 100; i++)
            gw_feed_launch(&feed, 1, 0);
        if (waits)
            gw_feed_sync(&feed);
        gw_feed_drain(&feed);
        gw_model *model = gw_feed_finish(&feed);
        assert_int_equal(model->failure[0].recovery, waits ? GW_RECOVERED_BY_WORK : GW_RECOVERED_NOT);
        gw_model_free(model);
    }
}

/* NCCL looks for kernels that its binary does not have for this GPU, and goes on. A program that lacks a kernel does
 * not, although its other threads may. */
GW_TEST(test_a_refused_lookup)
{
    static const struct {
        int own, others, status;
        bool waits, is_probe;
    } cases[] = {{0, 0, 1, false, false}, {0, 0, 0, true, false}, {1, 0, 1, false, false}, {1, 0, 1, true, true},
                 {0, 1, 1, true, false},  {0, 64, 1, true, true}, {1, 0, 0, false, true}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        gw_feed_open(&feed, 16 * gib);
        gw_feed_call(&feed, "cuLibraryGetKernel", GW_EV_FUNCTION, 209, 0, 0, 0, 0);
        for (int k = 0; k < cases[i].own; k++)
            gw_feed_launch(&feed, 0xf1f1, 0x5151);
        feed.tid++;
        for (int k = 0; k < cases[i].others; k++)
            gw_feed_launch(&feed, 0xf1f1, 0x5151);
        if (cases[i].waits)
            gw_feed_sync(&feed);
        feed.tid--;
        gw_feed_drain(&feed);
        gw_feed_exit(&feed, cases[i].status, 0);
        gw_model *model = gw_feed_finish(&feed);
        assert_int_equal(model->failure[0].is_probe, cases[i].is_probe);
        gw_model_free(model);
    }
}

GW_TEST_WITH(test_echoes_and_probes, open_feed, close_feed)
{
    gw_feed_call(&feed, "cuModuleGetFunction", GW_EV_CALL, 500, 0, 0, 0, 0);
    gw_feed_call(&feed, "cuCtxGetDevice", GW_EV_CALL, 201, 0, 0, 0, 0);
    gw_feed_call(&feed, "cuStreamSynchronize", GW_EV_SYNC, 700, 0, 0, 0, 0);
    gw_feed_call(&feed, "cuMemAlloc_v2", GW_EV_ALLOC, 2, 0, gib, 0, 0);
    gw_feed_call(&feed, "cuMemFree_v2", GW_EV_FREE, 700, 0x1000, 0, 0, 0);
    gw_feed_call(&feed, "cuMemFree_v2", GW_EV_FREE, 700, 0x1000, 0, 0, 0);
    gw_model *model = gw_feed_finish(&feed);
    assert_int_equal(model->failure_count, 5);
    assert_true(model->failure[0].is_probe);
    assert_true(model->failure[1].is_probe);
    assert_true(model->failure[2].is_sticky);
    assert_false(model->failure[2].is_echo);
    assert_true(model->failure[3].is_echo);
    assert_int_equal(model->failure[4].repeat_count, 2);
}

/* Test which errors are sticky, so that the process can no longer use the GPU. The list includes errors of the MPS
 * server and of an external device. */
GW_TEST(test_sticky_results)
{
    static const uint16_t sticky[] = {214, 220, 226, 700, 721, 810, 911}, harmless[] = {201, 304, 703, 709, 806, 999};
    for (size_t i = 0; i < sizeof sticky / sizeof sticky[0] + sizeof harmless / sizeof harmless[0]; i++) {
        bool is_sticky = i < sizeof sticky / sizeof sticky[0];
        uint16_t result = is_sticky ? sticky[i] : harmless[i - sizeof sticky / sizeof sticky[0]];
        gw_feed_open(&feed, 16 * gib);
        gw_feed_call(&feed, "cuStreamSynchronize", GW_EV_SYNC, result, 0, 0, 0, 0);
        gw_feed_call(&feed, "cuMemAlloc_v2", GW_EV_ALLOC, 2, 0, gib, 0, 0);
        gw_model *model = gw_feed_finish(&feed);
        assert_int_equal(model->failure[0].is_sticky, is_sticky);
        assert_int_equal(model->failure[1].is_echo, is_sticky);
        gw_model_free(model);
    }
}

GW_TEST_WITH(test_driver_log_keeps_sticky_results, open_feed, close_feed)
{
    static const char text[] = "Returning 2 (CUDA_ERROR_OUT_OF_MEMORY) from cuMemAlloc_v2\n"
                               "Returning 703 (CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING) from cuLaunchKernel\n"
                               "Returning 709 (CUDA_ERROR_CONTEXT_IS_DESTROYED) from cuMemFree_v2\n"
                               "Returning 700 (CUDA_ERROR_ILLEGAL_ADDRESS) from cuCtxSynchronize_v2\n"
                               "Sticky error detected\n"
                               "Returning 810 (CUDA_ERROR_MPS_CLIENT_TERMINATED) from cuCtxSynchronize_v2\n"
                               "Returning ";
    gw_item item = {.kind = GW_ITEM_EVENT, .t_ns = feed.t_ns, .pid = GW_FEED_PID};
    item.event = (gw_event){
        .t_ns = feed.t_ns, .pid = GW_FEED_PID, .kind = GW_EV_DRIVER_LOG, .text = text, .text_bytes = sizeof text - 1};
    gw_error err;
    assert_int_equal(gw_model_feed(feed.model, &item, &err), GW_OK);
    gw_model *model = gw_feed_finish(&feed);
    assert_int_equal(model->faults.log_count, 3);
    assert_string_equal(model->faults.log[0].text,
                        "Returning 700 (CUDA_ERROR_ILLEGAL_ADDRESS) from cuCtxSynchronize_v2");
    assert_string_equal(model->faults.log[1].text, "Sticky error detected");
}

GW_TEST_WITH(test_half_used_pages, open_feed, close_feed)
{
    uint64_t block[64];
    for (int i = 0; i < 64; i++)
        block[i] = gw_feed_alloc(&feed, mib);
    for (int i = 0; i < 64; i += 2)
        gw_feed_free(&feed, block[i]);
    gw_feed_no_room(&feed, 3 * gib, gib, 16 * gib);
    gw_model *model = gw_feed_finish(&feed);
    const gw_snapshot *snapshot = gw_model_snapshot(model, model->failure[0].snapshot);
    assert_int_equal(snapshot->small_page_count, 32);
    assert_int_equal(snapshot->small_bytes, 32 * mib);
    assert_int_equal(snapshot->small_idle_bytes, 32 * mib);
}

/* ---- growth ---- */

enum { WEIGHTS = 6 };
static const uint64_t weight_bytes[WEIGHTS] = {6912, 256, 294912, 512, 250880, 40};

static void allocate_weights(void)
{
    for (int i = 0; i < WEIGHTS; i++)
        gw_feed_alloc(&feed, weight_bytes[i]);
}

static void iterate(int count)
{
    for (int k = 0; k < count; k++) {
        uint64_t batch = gw_feed_alloc(&feed, 7 * mib), activation = gw_feed_alloc(&feed, 50 * mib);
        gw_feed_copy(&feed, 7 * mib);
        for (int i = 0; i < 10; i++)
            gw_feed_launch(&feed, 1, 0);
        gw_feed_sync(&feed);
        gw_feed_free(&feed, activation);
        gw_feed_free(&feed, batch);
    }
}

static gw_growth growth_at_failure(uint64_t wanted)
{
    gw_feed_no_room(&feed, wanted, mib, 16 * gib);
    gw_feed_drain(&feed);
    gw_model *model = gw_feed_finish(&feed);
    const gw_snapshot *snapshot = gw_model_snapshot(model, model->failure[0].snapshot);
    gw_growth growth;
    gw_growth_question question = {.pid = feed.pid,
                                   .live = snapshot->live,
                                   .live_count = snapshot->live_count,
                                   .wanted_bytes = wanted,
                                   .order_now = snapshot->order,
                                   .snapshot = snapshot};
    gw_growth_find(model, &question, &growth);
    return growth;
}

GW_TEST_WITH(test_a_second_run_is_seen, open_feed, close_feed)
{
    for (int run = 0; run < 2; run++) {
        allocate_weights();
        gw_feed_alloc(&feed, 900 * mib);
        if (run == 0)
            iterate(5);
    }
    gw_growth growth = growth_at_failure(gib);
    assert_true(growth.repeats);
    assert_int_equal(growth.repeat_count, 2);
    assert_int_equal(growth.first_count, WEIGHTS + 1);
    assert_false(growth.steps);
}

GW_TEST_WITH(test_gradients_are_no_second_run, open_feed, close_feed)
{
    allocate_weights();
    gw_feed_copy(&feed, mib);
    for (int i = 0; i < 40; i++) { /* first forward pass: workspaces are allocated and freed */
        uint64_t workspace = gw_feed_alloc(&feed, mib);
        gw_feed_launch(&feed, 1, 0);
        gw_feed_free(&feed, workspace);
    }
    allocate_weights(); /* gradients */
    allocate_weights(); /* first moments of the optimizer */
    gw_growth growth = growth_at_failure(gib);
    assert_false(growth.repeats);
}

GW_TEST_WITH(test_a_leak_each_step_is_seen, open_feed, close_feed)
{
    allocate_weights();
    for (int i = 0; i < 40; i++) {
        gw_feed_alloc(&feed, 5 * mib);
        iterate(1);
    }
    gw_growth growth = growth_at_failure(5 * mib);
    assert_int_equal(growth.loop.leak_count, 40);
    assert_int_equal(growth.loop.leak_bytes_median, 5 * mib);
    assert_int_equal(growth.loop.doubt, GW_LOOP_SURE);
    assert_false(growth.repeats);
}

GW_TEST_WITH(test_layers_of_one_pass_are_no_leak, open_feed, close_feed)
{
    allocate_weights();
    gw_feed_copy(&feed, mib);
    for (int i = 0; i < 40; i++) { /* saved activations of forty equal layers */
        gw_feed_alloc(&feed, 100 * mib);
        uint64_t workspace = gw_feed_alloc(&feed, mib);
        gw_feed_launch(&feed, 1, 0);
        gw_feed_free(&feed, workspace);
    }
    gw_growth growth = growth_at_failure(100 * mib);
    assert_false(growth.steps);
    assert_false(growth.repeats);
}

/* ---- stderr ---- */

GW_TEST(test_traceback)
{
    gw_feed_open_bare(&feed);
    gw_feed_stderr(&feed, "noise\nTraceback (most recent call last):\n  File \"train.py\", line 12, in run\n    lo");
    gw_feed_stderr(&feed, "ss.backward()\nValueError: bad la");
    gw_feed_stderr(&feed, "bels"); /* no newline at the end */
    gw_model *model = gw_feed_finish(&feed);
    const gw_stderr_facts *facts = &model->stderr_facts;
    assert_true(facts->traceback);
    assert_string_equal(facts->exception.find->text, "ValueError: bad labels");
    assert_string_equal(facts->exception_type, "ValueError");
    assert_string_equal(facts->frame.find->text, "File \"train.py\", line 12, in run");
    assert_int_equal(gw_exception_kind_of(facts), GW_EXCEPTION_SCRIPT);
    gw_model_free(model);

    /* a parent's report of the failed child does not replace the child's exception or its frames */
    gw_feed_open_bare(&feed);
    gw_feed_stderr(&feed, "Traceback (most recent call last):\n  File \"train.py\", line 12, in run\n"
                          "ValueError: bad labels\n"
                          "Traceback (most recent call last):\n  File \"start.py\", line 3, in <module>\n"
                          "subprocess.CalledProcessError: Command 'x' returned non-zero exit status 1.\n");
    model = gw_feed_finish(&feed);
    facts = &model->stderr_facts;
    assert_string_equal(facts->exception.find->text, "ValueError: bad labels");
    assert_string_equal(facts->frame.find->text, "File \"train.py\", line 12, in run");
    assert_int_equal(facts->last.find->line, 6);
    gw_model_free(model);
}

/* Lines after the exception, and facts about the lines. */
GW_TEST(test_stderr_after_the_exception)
{
    static const struct {
        const char *more;
        bool goes_on;
        uint64_t last_line; /* 0: the line has no sign */
    } cases[] = {{"", false, 3},
                 {" \n\ngpuwhy: recorded 3 events\n", false, 3},
                 {"falling back to the CPU\n", true, 4},
                 {"some words\n", false, 0},
                 {"continuing\nRuntimeError: worker (pid 77) has no memory\n", false, 5}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        gw_feed_open_bare(&feed);
        gw_feed_stderr(&feed, "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n"
                              "RuntimeError: worker (pid 77) has no memory\n");
        gw_feed_stderr(&feed, cases[i].more);
        gw_model *model = gw_feed_finish(&feed);
        const gw_stderr_facts *facts = &model->stderr_facts;
        assert_int_equal(facts->exception_goes_on, cases[i].goes_on);
        assert_true(facts->exception_mentions_memory);
        assert_string_equal(gw_stderr_field(facts, &facts->exception, GW_SAYS_NAMED_PID, "pid"), "77");
        assert_null(gw_stderr_field(facts, &facts->exception, GW_SAYS_DEVICE_ASSERT, NULL));
        assert_true(facts->last.seen);
        assert_int_equal(facts->last.find == NULL ? 0 : facts->last.find->line, cases[i].last_line);
        gw_model_free(model);
    }
}

/* A thread does not come back, but the main one may survive an exception. */
GW_TEST(test_a_survived_exception_ended_at_most_a_thread)
{
    for (int of_thread = 0; of_thread < 2; of_thread++) {
        gw_feed_open_bare(&feed);
        if (of_thread)
            gw_feed_stderr(&feed, "Exception in thread Thread-1 (load):\n");
        gw_feed_stderr(&feed, "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n"
                              "RuntimeError: lost one batch\nstep 11/40 loss 0.5\nstep 12/40 loss 0.4\n");
        gw_model *model = gw_feed_finish(&feed);
        assert_true(model->stderr_facts.traceback);
        assert_int_equal(model->stderr_facts.exception.seen, of_thread);
        assert_int_equal(model->stderr_facts.exception_ended_thread, of_thread);
        gw_model_free(model);
    }
}

#define THREAD  "Exception in thread Thread-1 (f):\n"
#define TRACE   "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n"
#define CHAINED "\nDuring handling of the above exception, another exception occurred:\n\n"

/* A usual end of a thread, or a line of the log of a run that ended well, does not hide an unusual one. */
GW_TEST(test_the_exception_that_ended_a_thread)
{
    static const struct {
        const char *text;
        int status;
        const char *type;
        bool ended_thread;
    } cases[] = {{THREAD TRACE "EOFError\n", 0, "EOFError", false},
                 {THREAD TRACE "KeyError: 'x'\n" THREAD TRACE "EOFError\n", 0, "KeyError", true},
                 {THREAD TRACE "EOFError\n" THREAD TRACE "KeyError: 'x'\n", 0, "KeyError", true},
                 {THREAD TRACE "IndexError: 9\n" THREAD TRACE "KeyError: 'x'\n", 0, "KeyError", true},
                 {THREAD TRACE "KeyError: 'x'\n" CHAINED TRACE "EOFError\n", 0, "EOFError", false},
                 {THREAD TRACE "KeyError: 'x'\nstep 2\nValueError: ignored row\n", 0, "KeyError", true},
                 {THREAD TRACE "KeyError: 'x'\nstep 2\nValueError: bad row\n", 1, "ValueError", false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        gw_feed_open_bare(&feed);
        gw_feed_stderr(&feed, cases[i].text);
        gw_feed_exit(&feed, cases[i].status, 0);
        gw_model *model = gw_feed_finish(&feed);
        assert_string_equal(model->stderr_facts.exception_type, cases[i].type);
        assert_int_equal(model->stderr_facts.exception_ended_thread, cases[i].ended_thread);
        gw_model_free(model);
    }
}

/* If a rank on gloo ends, all others raise an exception about it. */
GW_TEST(test_an_exception_about_a_peer_is_not_the_first)
{
#define PEER "RuntimeError: [./gloo/transport/tcp/pair.cc:598] Connection closed by peer [127.0.0.1]:53946\n"
    static const struct {
        const char *text, *type;
    } cases[] = {{TRACE "KeyError: 'lr'\n" TRACE PEER TRACE PEER, "KeyError"},
                 {TRACE PEER TRACE "KeyError: 'lr'\n" TRACE PEER, "KeyError"},
                 {TRACE PEER TRACE PEER, "RuntimeError"},
                 {TRACE "KeyError: 'lr'\n" TRACE "RuntimeError: Connection closed by peer\n", "RuntimeError"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        gw_feed_open_bare(&feed);
        gw_feed_stderr(&feed, cases[i].text);
        gw_feed_exit(&feed, 1, 0);
        gw_model *model = gw_feed_finish(&feed);
        assert_string_equal(model->stderr_facts.exception_type, cases[i].type);
        gw_model_free(model);
    }
}

/* An exception that is logged without a traceback has nothing of the traceback before it. */
GW_TEST(test_an_exception_after_the_traceback_of_another)
{
    static const char *const before[] = {
        TRACE "KeyError: 'cache'\n", THREAD TRACE "EOFError\n",
        TRACE "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n" CHAINED TRACE
              "TypeError: cannot fall back\n"};
    for (size_t i = 0; i < sizeof before / sizeof before[0]; i++) {
        gw_feed_open_bare(&feed);
        gw_feed_stderr(&feed, before[i]);
        gw_feed_stderr(&feed, "using the defaults instead\nreading the data\nValueError: bad configuration\n");
        gw_model *model = gw_feed_finish(&feed);
        const gw_stderr_facts *facts = &model->stderr_facts;
        assert_string_equal(facts->exception_type, "ValueError");
        assert_false(facts->frame.seen);
        assert_false(facts->exception_ended_thread || facts->exception_is_chained || facts->exception_after_oom);
        assert_int_equal(gw_exception_kind_of(facts), GW_EXCEPTION_SCRIPT);
        gw_model_free(model);
    }
}

GW_TEST_WITH(test_chained_traceback_keeps_the_out_of_memory, open_bare, close_feed)
{
    gw_feed_stderr(&feed, "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n"
                          "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB\n\n"
                          "During handling of the above exception, another exception occurred:\n\n"
                          "Traceback (most recent call last):\n  File \"a.py\", line 3, in g\n"
                          "RuntimeError: step failed\n");
    gw_model *model = gw_feed_finish(&feed);
    assert_true(model->stderr_facts.exception_chain_oom);
    assert_true(model->stderr_facts.oom.seen);
    assert_int_equal(gw_exception_kind_of(&model->stderr_facts), GW_EXCEPTION_OOM);
}

GW_TEST_WITH(test_hostile_stderr, open_bare, close_feed)
{
    char line[9000];
    memset(line, 'x', sizeof line - 1);
    line[sizeof line - 1] = '\0';
    for (int i = 0; i < 20; i++)
        gw_feed_stderr(&feed, line);
    gw_feed_stderr(&feed, "\nTraceback (most recent call last):\n:::\n\t\n");
    gw_model *model = gw_feed_finish(&feed);
    assert_false(model->stderr_facts.exception.seen);
}

static void feed_raised(const char *line)
{
    gw_feed_text_call(&feed, "?", GW_EV_PYTHON_RAISED, 0, 0, 0, 0, line);
}

/* An empty line in the recorded exception must not be searched for in stderr. The stderr text fills its buffer exactly,
 * so AddressSanitizer reports any read beyond the end. */
GW_TEST(test_an_empty_line_is_no_exception)
{
    char full[(4 << 10) + 1];
    memset(full, 'x', sizeof full - 1);
    full[sizeof full - 1] = '\0';
    for (int with_message = 0; with_message < 2; with_message++) {
        gw_feed_open_bare(&feed);
        gw_feed_stderr(&feed, full);
        feed_raised("Traceback (most recent call last):");
        feed_raised("  File \"a.py\", line 1, in <module>");
        feed_raised("");
        if (with_message)
            feed_raised("ValueError: no rows");
        gw_feed_exit(&feed, 1, 0);
        gw_model *model = gw_feed_finish(&feed);
        assert_int_equal(model->stderr_facts.exception.seen, with_message);
        gw_model_free(model);
    }
}

static void feed_requests(uint64_t first, uint64_t count, const char *text)
{
    gw_feed_text_call(&feed, "?", GW_EV_ALLOCATOR_REQUESTS, first, count, 0, 1000, text);
}

/* Test PyTorch's recorded requests:
 * - order numbers are those of the hook
 * - 32-bit counters continue after an overflow
 * - a lost text drops the requests before the gap
 * - a damaged entry is skipped, with the rest of its text */
GW_TEST_WITH(test_a_course_of_requests, open_feed, close_feed)
{
    gw_feed_wait(&feed, 1000000000);
    gw_feed_call(&feed, "?", GW_EV_ALLOCATOR_OOM, 0, gib, 0, 0, 0);
    gw_feed_call(&feed, "?", GW_EV_ALLOCATOR_STATE, 0, GW_ALLOCATOR_COURSE_REQUESTS, 1000, 0, 0);
    uint64_t told_ns = feed.t_ns;
    feed_requests(1, 2, "gBAAAAAgBAAAAA");
    feed_requests(700, 3,
                  "ggIAA/////DAA"
                  "ggIFmCDBA"
                  "DB!CD"); /* the texts with requests 3 to 699 were lost; the third entry is damaged */
    feed_requests(702, 1, "gBAABAA");
    feed_requests(703, 0, "gBAABAA");
    feed_requests(703, 5000, "gBAABAA");
    for (uint64_t i = 0; i < 3; i++)
        gw_feed_call(&feed, "?", GW_EV_ALLOCATOR_BLOCK, 0, 0x1000 + i, mib, 100 + i,
                     (900 - i) << GW_BLOCK_ORDER_SHIFT | GW_BLOCK_LIVE);
    gw_feed_call(&feed, "?", GW_EV_ALLOCATOR_BLOCK, 0, 0x9000, mib, GW_AGE_UNKNOWN, GW_BLOCK_PENDING);
    gw_model *model = gw_feed_finish(&feed);
    const gw_allocator_report *report = &model->allocator[0];
    assert_true(report->has_course);
    assert_int_equal(report->order, 1000);
    assert_int_equal(report->live_count, 4);
    assert_int_equal(report->live[0].order, 0);
    assert_int_equal(report->live[1].order, 898);
    assert_int_equal(report->live[3].order, 900);
    assert_int_equal(report->request_count, 3);
    const gw_allocator_request *request = report->request;
    assert_int_equal(request[0].order, 700);
    assert_int_equal(request[0].bytes, 2 * mib);
    assert_int_equal(request[0].t_ns, told_ns - 1000);
    assert_int_equal(request[0].launches, (1 << 27) - 1);
    assert_false(request[0].freed);
    assert_true(request[1].freed);
    assert_int_equal(request[1].freed_order, 705);
    assert_int_equal(request[1].launches, (1 << 27) + 2);
    assert_int_equal(request[1].waits, 1);
    assert_int_equal(request[1].t_ns, told_ns - 1000 + 70000);
    assert_int_equal(request[2].launches, (UINT64_C(1) << 32) + 1);
}

static void feed_totals(uint64_t requests, uint64_t frees, uint64_t live_bytes)
{
    const uint64_t total[][2] = {{GW_ALLOCATOR_COURSE_REQUESTS, requests},
                                 {GW_ALLOCATOR_COURSE_FREES, frees},
                                 {GW_ALLOCATOR_COURSE_LIVE, live_bytes},
                                 {GW_ALLOCATOR_COURSE_LIVE_COUNT, requests - frees},
                                 {GW_ALLOCATOR_COURSE_MISSED, 0}};
    gw_feed_call(&feed, "?", GW_EV_ALLOCATOR_OOM, 0, gib, 0, 0, 0);
    for (size_t i = 0; i < sizeof total / sizeof *total; i++)
        gw_feed_call(&feed, "?", GW_EV_ALLOCATOR_STATE, 0, total[i][0], total[i][1], 0, 0);
}

/* A report without lists has those of the last full report if nothing was requested or freed since, and only then. */
GW_TEST_WITH(test_a_report_shares_lists, open_feed, close_feed)
{
    gw_feed_wait(&feed, 1000000000);
    feed_totals(2, 1, mib);
    feed_requests(1, 2, "gBAAAAAgBAAAAA");
    gw_feed_call(&feed, "?", GW_EV_ALLOCATOR_BLOCK, 0, 0x1000, mib, 100, 2 << GW_BLOCK_ORDER_SHIFT | GW_BLOCK_LIVE);
    feed_totals(2, 1, mib);
    gw_feed_call(&feed, "?", GW_EV_ALLOCATOR_BLOCK, 0, 0x1000, mib, GW_AGE_UNKNOWN, GW_BLOCK_LIVE);
    feed_totals(3, 2, mib);
    gw_feed_call(&feed, "?", GW_EV_ALLOCATOR_BLOCK, 0, 0x1000, mib, 50, 3 << GW_BLOCK_ORDER_SHIFT | GW_BLOCK_LIVE);
    gw_model *model = gw_feed_finish(&feed);
    assert_int_equal(model->allocator_count, 3);
    const gw_allocator_report *full = &model->allocator[0], *same = &model->allocator[1], *later = &model->allocator[2];
    assert_int_equal(same->request_count, 2);
    assert_int_equal(same->live_count, 1);
    assert_true(same->live[0].has_time);
    assert_int_equal(same->live[0].t_ns, full->live[0].t_ns);
    assert_int_equal(same->live[0].order, 2);
    assert_int_equal(same->order, 2);
    assert_true(later->has_course);
    assert_int_equal(later->request_count, 0);
    assert_int_equal(later->order, 3);
    assert_int_equal(later->live[0].order, 3);
}

/* A report about PyTorch's memory belongs to the refused request just before it, although PyTorch did not make it. */
GW_TEST_WITH(test_a_report_beside_a_refusal, open_feed, close_feed)
{
    gw_feed_no_room(&feed, 64 * mib, mib, gib);
    gw_feed_call(&feed, "?", GW_EV_ALLOCATOR_STATE, 0, GW_ALLOCATOR_WHEN, GW_WHEN_OTHER_REFUSED, 3, 0);
    gw_feed_call(&feed, "?", GW_EV_ALLOCATOR_STATE, 0, GW_ALLOCATOR_ALLOCATED, mib, 3, 0);
    gw_feed_call(&feed, "?", GW_EV_ALLOCATOR_STATE, 0, GW_ALLOCATOR_WHEN, GW_WHEN_END, 3, 0);
    gw_model *model = gw_feed_finish(&feed);
    assert_int_equal(model->allocator_count, 2);
    assert_int_equal(model->failure[0].allocator, 0);
    const gw_allocator_report *beside = &model->allocator[0];
    assert_true(beside->is_other_refused && !beside->is_oom);
    assert_int_equal(beside->device, 3);
    assert_int_equal(beside->field[GW_ALLOCATOR_ALLOCATED], mib);
    assert_false(model->allocator[1].is_other_refused);
    assert_int_equal(model->allocator[1].device, 3);
}

/* A pile is many equal arrays that a loop probably keeps. 1,100 arrays are a pile if they hold most of the memory. 99
 * are one only if the program also read results often enough. 15 are never one. */
GW_TEST_WITH(test_a_pile_of_arrays, open_feed, close_feed)
{
    assert_null(gw_arrays_pile(&(gw_arrays){.seen = true}, 2000));
    gw_feed_text_call(&feed, "?", GW_EV_ARRAYS_OOM, 8 * mib, 12 * gib, 12 * gib, 12 * gib, "JAX");
    gw_feed_text_call(&feed, "?", GW_EV_ARRAYS, 8 * mib, 1100, 0, 0, "float32[2048,1024]");
    gw_feed_text_call(&feed, "?", GW_EV_ARRAYS, gib, 2, 0, 0, "float32[256,1024,1024]");
    gw_feed_text_call(&feed, "?", GW_EV_ARRAYS, gib, 40, 1, 0, "");
    gw_model *model = gw_feed_finish(&feed);
    assert_true(model->arrays.seen);
    assert_int_equal(model->arrays.kind_count, 2);
    assert_int_equal(model->arrays.rest_count, 40);
    const gw_array_kind *pile = gw_arrays_pile(&model->arrays, 0);
    assert_non_null(pile);
    assert_string_equal(pile->name, "float32[2048,1024]");
    model->arrays.bytes_in_use = 40 * gib;
    assert_null(gw_arrays_pile(&model->arrays, 2000));
    model->arrays.kind[0] = (gw_array_kind){.bytes = 64 * mib, .count = 99};
    model->arrays.kind_count = 1;
    model->arrays.rest_bytes = 3 * gib;
    model->arrays.bytes_in_use = 0;
    assert_null(gw_arrays_pile(&model->arrays, 48));
    assert_non_null(gw_arrays_pile(&model->arrays, 49));
    model->arrays.rest_bytes = 4 * gib;
    assert_null(gw_arrays_pile(&model->arrays, 99));
    model->arrays.kind[0].count = 15;
    model->arrays.rest_bytes = 0;
    assert_null(gw_arrays_pile(&model->arrays, 99));
}

/* All ages in a report are relative to the time at which the history was read, even if writing the report took long. */
GW_TEST_WITH(test_ages_of_a_report_are_of_one_moment, open_feed, close_feed)
{
    enum { BLOCKS = 4 };
    const uint64_t pause_ns = 50000000, age_ns = 300000000;
    gw_feed_wait(&feed, 1000000000);
    gw_feed_call(&feed, "?", GW_EV_ALLOCATOR_OOM, 0, gib, 16 * gib, mib, 0);
    gw_feed_call(&feed, "?", GW_EV_ALLOCATOR_STATE, 0, GW_ALLOCATOR_HISTORY_TOTAL, BLOCKS, 0, 0);
    uint64_t read_ns = feed.t_ns;
    for (uint64_t i = 0; i < BLOCKS; i++) {
        gw_feed_wait(&feed, pause_ns); /* simulates a busy machine, on which writing the report takes long */
        gw_feed_call(&feed, "?", GW_EV_ALLOCATOR_HISTORY, 0, GW_ACTION_LIVE_PEAK, 0, gib, age_ns - i);
        gw_feed_wait(&feed, pause_ns);
        gw_feed_call(&feed, "?", GW_EV_ALLOCATOR_BLOCK, 0, 0x1000 + i, mib, age_ns - i, GW_BLOCK_LIVE);
    }
    gw_feed_call(&feed, "?", GW_EV_ALLOCATOR_HELD, 0, GW_MOMENT_PEAK, gib, 1, age_ns);
    gw_model *model = gw_feed_finish(&feed);
    const gw_allocator_report *report = &model->allocator[0];
    assert_int_equal(report->live_count, BLOCKS);
    assert_int_equal(report->peak_count, BLOCKS);
    for (uint64_t i = 0; i < BLOCKS; i++) {
        assert_int_equal(report->live[i].t_ns, read_ns - age_ns + i);
        assert_int_equal(report->peak[i].t_ns, read_ns - age_ns + i);
    }
    assert_int_equal(report->t_held_ns, read_ns - age_ns);
}

/* Check the rules that hold for every ledger, whatever the program did. Bytes are not compared with totals, because a
 * damaged size can overflow a sum. */
static void expect_sound_usage(const gw_usage *usage)
{
    uint64_t live = 0;
    for (int cls = 0; cls < GW_CLASS_COUNT; cls++) {
        assert_true(usage->class_count[cls] <= usage->class_count_peak[cls]);
        assert_true(usage->class_count_peak[cls] <= usage->class_made[cls]);
        live += cls <= GW_CLASS_DEVICE_LAST ? usage->class_count[cls] : 0;
    }
    assert_int_equal(usage->live_count, live);
    assert_true(usage->live_count <= usage->alloc_count_total);
    assert_true(usage->used || usage->alloc_count_total == 0);
    assert_true(usage->live_count > 0 || usage->live_bytes == 0);
}

static void expect_sound_groups(const gw_model *model)
{
    uint64_t made = 0, in_groups = 0;
    for (size_t i = 0; i < model->group_count; i++) {
        const gw_group *group = &model->group[i];
        assert_int_equal(group->live_count + group->free_count, group->alloc_count);
        assert_true(group->live_count <= group->live_count_peak && group->live_count_peak <= group->alloc_count);
        assert_true(group->buried_count <= group->free_count);
        assert_true(group->t_first_ns <= group->t_last_ns && group->order_first <= group->order_last);
        in_groups += group->alloc_count;
    }
    for (size_t i = 0; i < model->process_count; i++)
        made += model->process[i].made_total;
    assert_int_equal(in_groups, made);
}

static void expect_sound_failures(const gw_model *model)
{
    size_t linked = 0;
    for (size_t i = 0; i < model->failure_count; i++) {
        const gw_failure *failure = &model->failure[i];
        assert_true(failure->result != 0 && failure->repeat_count >= 1);
        assert_true(failure->t_ns <= failure->t_last_ns);
        assert_true(i == 0 || model->failure[i - 1].t_ns <= failure->t_ns);
        assert_true(failure->snapshot < (int)model->snapshot_count);
        assert_true(failure->allocator < (int)model->allocator_count);
        assert_non_null(gw_model_process(model, failure->pid));
    }
    for (size_t i = 0; i < model->process_count; i++) {
        const gw_failure *failure = gw_model_first_failure(model, model->process[i].pid);
        for (; failure != NULL; failure = gw_model_next_failure(model, failure)) {
            assert_int_equal(failure->pid, model->process[i].pid);
            linked++;
        }
    }
    /* each pid belongs to only one process here, so no failure was visited twice */
    assert_int_equal(linked, model->failure_count);
}

/* Check that each snapshot lists as many blocks and bytes as the ledger counted then. Returns the number of lists. */
static size_t expect_sound_snapshots(const gw_model *model)
{
    size_t listed = 0;
    for (int i = 0; i < (int)model->snapshot_count; i++) {
        const gw_snapshot *snapshot = gw_model_snapshot(model, i);
        uint64_t bytes = 0, count = 0;
        if (snapshot == NULL || snapshot->live == NULL)
            continue;
        for (size_t k = 0; k < snapshot->live_count; k++) {
            bytes += snapshot->live[k].cls == GW_CLASS_MANAGED ? 0 : snapshot->live[k].bytes;
            count += snapshot->live[k].cls != GW_CLASS_MANAGED;
            assert_true(k == 0 || snapshot->live[k - 1].order <= snapshot->live[k].order);
        }
        assert_int_equal(count, snapshot->usage.live_count);
        assert_int_equal(bytes, snapshot->usage.live_bytes);
        listed++;
    }
    return listed;
}

GW_TEST_WITH(test_hostile_events, open_bare, close_feed)
{
    for (int i = 0; i < 200000; i++) {
        uint64_t random = gw_test_random();
        uint64_t kind = random % GW_EV_COUNT;
        gw_event event = {.t_ns = (uint64_t)i,
                          .pid = 1 + (uint32_t)(random >> 20 & 3),
                          .tid = (uint32_t)(random >> 30 & 3),
                          .fn = (uint16_t)(random >> 40),
                          .kind = (uint8_t)kind,
                          .flags = (uint8_t)(random >> 12),
                          .result = (random >> 50 & 7) == 0 ? (uint16_t)(random >> 53 & 1023) : 0,
                          .context = random >> 33 & 3,
                          .arg = {random >> 8 & 255, (random >> 16 & 1) ? random : random >> 44, random >> 24 & 31,
                                  random >> 32 & 15}};
        gw_feed_event(&feed, &event);
    }
    gw_model *model = gw_feed_finish(&feed);
    assert_int_equal(model->event_count, 200000);
    assert_int_equal(model->process_count, 4);
    for (size_t i = 0; i < model->process_count; i++)
        for (int device = 0; device < GW_MODEL_DEVICE_PLACES; device++)
            expect_sound_usage(&model->process[i].usage[device]);
    expect_sound_groups(model);
    expect_sound_failures(model);
    assert_true(model->failure_count > 100);
    assert_true(expect_sound_snapshots(model) > 0);
}

GW_TEST(live_blocks_are_listed_at_once)
{
    size_t count;
    const uint64_t handle = 77, address = 0x7f00000000;
    gw_feed_open(&feed, 1 << 30);
    assert_null(gw_model_live_now(feed.model, 4711, 0, &count));
    uint64_t first = gw_feed_alloc(&feed, 100);
    gw_feed_free(&feed, gw_feed_alloc(&feed, 200));
    gw_feed_call(&feed, "cuMemCreate", GW_EV_VMM_CREATE, 0, handle, 2 * mib, 0, 1);
    gw_feed_call(&feed, "cuMemCreate", GW_EV_VMM_CREATE, 0, handle + 1, 4 * mib, 0, 1); /* not mapped */
    gw_feed_call(&feed, "cuMemMap", GW_EV_VMM_MAP, 0, address, 2 * mib, 0, handle);
    gw_feed_call(&feed, "cuMemMap", GW_EV_VMM_MAP, 0, address + 8 * mib, 2 * mib, 0, handle); /* a second time */
    gw_live *live = gw_model_live_now(feed.model, GW_FEED_PID, 0, &count);
    assert_int_equal(count, 3);
    for (size_t i = 1; i < count; i++)
        assert_true(live[i - 1].address < live[i].address);
    assert_true(live[0].address == 0 && live[0].bytes == 4 * mib);
    bool has_plain = false, has_mapped = false;
    for (size_t i = 1; i < count; i++) {
        has_plain = has_plain || (live[i].address == first && live[i].bytes == 100);
        has_mapped = has_mapped || (live[i].cls == GW_CLASS_VMM && live[i].bytes == 2 * mib &&
                                    (live[i].address == address || live[i].address == address + 8 * mib));
    }
    assert_true(has_plain && has_mapped);
    free(live);
    gw_model_free(gw_feed_finish(&feed));
}

GW_TEST_MAIN(NULL, NULL)
