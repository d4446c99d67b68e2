/* Tests the ledger's data structures (table, sort, pattern and look-ahead) against a simple version of each. */
#include "gw_test_random.h"
#include "gw_unit_test.h"

#include "gwi_ahead.h"
#include "gwi_pattern.h"
#include "gwi_sort.h"

#include <string.h>

static int start(void **state)
{
    gw_test_random_state = 88172645463325252u;
    return 0;
}

/* ---- the table ---- */

static bool is_value(const void *context, uint32_t value)
{
    return *(const uint32_t *)context == value;
}

/* Add and erase values at random. With few different `hashes`, many values share a hash and fill several successive
 * buckets. */
static void churn_table(uint32_t hashes)
{
    enum { VALUES = 3000, TURNS = 60000 };
    static bool in[VALUES];
    memset(in, 0, sizeof in);
    gwi_table table = {0};
    uint32_t count = 0;
    for (int i = 0; i < TURNS; i++) {
        uint32_t value = (uint32_t)(gw_test_random() % VALUES), hash = gwi_hash(value % hashes);
        gwi_spot spot = gwi_table_find(&table, hash, is_value, &value);
        assert_int_equal(spot.bucket != NULL, in[value]);
        if (in[value])
            gwi_table_erase(&table, spot);
        else
            assert_true(gwi_table_add(&table, hash, value));
        count = in[value] ? count - 1 : count + 1;
        in[value] = !in[value];
        assert_int_equal(table.room + count, (table.mask + 1) * GWI_BUCKET_FILL);
    }
    for (uint32_t value = 0; value < VALUES; value++) {
        gwi_spot spot = gwi_table_find(&table, gwi_hash(value % hashes), is_value, &value);
        assert_int_equal(spot.bucket != NULL, in[value]);
        if (spot.bucket != NULL)
            gwi_table_erase(&table, spot);
    }
    /* all values were erased, so no bucket may count a value that passed it */
    for (uint32_t i = 0; i <= table.mask; i++)
        assert_int_equal(table.bucket[i].passed_count, 0);
    gwi_table_free(&table);
}

GW_TEST_WITH(test_table, start, NULL)
{
    churn_table(3000);
    churn_table(100);
    churn_table(1);
}

/* ---- sort and pattern ---- */

GW_TEST_WITH(test_sort, start, NULL)
{
    enum { COUNT = 5000 };
    static gwi_sort_key list[COUNT];
    const unsigned shifts[] = {0, 10, 30, 52, 63};
    assert_true(gwi_sort(list, 0));
    for (size_t turn = 0; turn < sizeof shifts / sizeof shifts[0]; turn++) {
        for (uint32_t i = 0; i < COUNT; i++)
            list[i] = (gwi_sort_key){gw_test_random() >> shifts[turn], i};
        assert_true(gwi_sort(list, COUNT));
        for (uint32_t i = 1; i < COUNT; i++)
            assert_true(list[i - 1].key < list[i].key ||
                        (list[i - 1].key == list[i].key && list[i - 1].index < list[i].index));
    }
}

static size_t plain_match(const uint64_t *number, size_t count, size_t from)
{
    size_t length = 0;
    while (from + length < count && number[length] == number[from + length])
        length++;
    return length;
}

static bool plain_is_periodic(const uint64_t *number, size_t count)
{
    for (size_t period = 1; 2 * period <= count; period++) {
        if (plain_match(number, count, period) == count - period)
            return true;
    }
    return false;
}

GW_TEST_WITH(test_pattern, start, NULL)
{
    uint64_t number[40];
    for (int turn = 0; turn < 3000; turn++) {
        size_t count = 1 + gw_test_random() % 40, period = 1 + gw_test_random() % 12;
        uint64_t sorts = 1 + gw_test_random() % 3;
        for (size_t i = 0; i < count; i++)
            number[i] = i >= period && gw_test_random() % 16 != 0 ? number[i - period] : gw_test_random() % sorts;
        gwi_pattern pattern;
        assert_true(gwi_pattern_make(number, count, &pattern));
        uint32_t changes = 0;
        for (size_t i = 0; i < count; i++) {
            changes += i == 0 || number[i] != number[i - 1];
            assert_int_equal(pattern.match[i], plain_match(number, count, i));
            assert_int_equal(pattern.sorts[i + 1], changes);
            assert_int_equal(gwi_pattern_is_periodic(&pattern, i + 1), plain_is_periodic(number, i + 1));
        }
        gwi_pattern_free(&pattern);
    }
}

/* ---- looking ahead ---- */

/* Make a random event. There are few addresses and processes. So the data prefetched for an event has often changed
 * when the event is fed. */
static gw_event make_event(uint64_t t_ns)
{
    static char texts[GWI_AHEAD_MAX][512];
    char *text = texts[t_ns % GWI_AHEAD_MAX];
    uint64_t random = gw_test_random();
    gw_event event = {.t_ns = t_ns,
                      .pid = 1 + (uint32_t)(random >> 20 & 1),
                      .tid = (uint32_t)(random >> 30 & 3),
                      .fn = (uint16_t)(random >> 40 & 7),
                      .kind =
                          (uint8_t)(random % 4 != 0 ? GW_EV_ALLOC + (random >> 8) % 2 : (random >> 8) % GW_EV_COUNT),
                      .flags = (uint8_t)(random >> 12 & 1),
                      .result = (random >> 50 & 15) == 0 ? (uint16_t)(random >> 53 & 1023) : 0,
                      .context = random >> 33 & 3,
                      .arg = {random >> 8 & 255, random >> 44 & 65535, random >> 24 & 7, random >> 32 & 15}};
    if ((random >> 56 & 7) == 0) {
        event.text_bytes = (uint32_t)(gw_test_random() % sizeof texts[0]);
        memset(text, 'a' + (int)(random % 26), event.text_bytes);
        text[event.text_bytes] = '\0';
        event.text = text; /* as with a reader, the text is valid only until the next events are made */
    }
    return event;
}

static gw_model *model_of(bool ahead_too)
{
    enum { EVENTS = 100000 };
    gw_event event[GWI_AHEAD_MAX];
    size_t count = 0;
    gw_model *model;
    start(NULL);
    assert_int_equal(gw_model_new(&model, NULL), GW_OK);
    for (uint64_t i = 1; i <= EVENTS; i++) {
        gw_item item = {.kind = GW_ITEM_EVENT, .t_ns = i};
        item.event = make_event(i);
        item.pid = item.event.pid;
        if (!ahead_too) {
            assert_int_equal(gw_model_feed(model, &item, NULL), GW_OK);
            continue;
        }
        event[count++] = item.event;
        /* feed batches of all sizes, from 1 to GWI_AHEAD_MAX */
        if (count >= 1 + i / 100 % GWI_AHEAD_MAX || i == EVENTS) {
            gwi_ahead_feed(model, event, count);
            count = 0;
        }
    }
    assert_int_equal(gw_model_finish(model, NULL), GW_OK);
    return model;
}

static void expect_same_failure(const gw_failure *one, const gw_failure *other)
{
    assert_int_equal(one->t_ns, other->t_ns);
    assert_int_equal(one->repeat_count, other->repeat_count);
    assert_int_equal(one->recovery, other->recovery);
    assert_int_equal(one->t_recovered_ns, other->t_recovered_ns);
    assert_int_equal(one->after.frees, other->after.frees);
    assert_int_equal(one->text == NULL, other->text == NULL);
    if (one->text != NULL)
        assert_string_equal(one->text, other->text);
}

GW_TEST_WITH(test_looking_ahead_changes_nothing, start, NULL)
{
    gw_model *one = model_of(false), *other = model_of(true);
    assert_int_equal(one->event_count, other->event_count);
    assert_int_equal(one->process_count, other->process_count);
    for (size_t i = 0; i < one->process_count; i++) {
        assert_int_equal(one->process[i].pid, other->process[i].pid);
        assert_int_equal(one->process[i].unknown_frees, other->process[i].unknown_frees);
        assert_int_equal(one->process[i].alloc_order, other->process[i].alloc_order);
        assert_memory_equal(one->process[i].usage, other->process[i].usage, GW_MODEL_DEVICE_PLACES * sizeof(gw_usage));
    }
    assert_int_equal(one->group_count, other->group_count);
    assert_memory_equal(one->group, other->group, one->group_count * sizeof *one->group);
    assert_int_equal(one->failure_count, other->failure_count);
    for (size_t i = 0; i < one->failure_count; i++)
        expect_same_failure(&one->failure[i], &other->failure[i]);
    assert_true(one->failure_count > 1000);
    gw_model_free(one);
    gw_model_free(other);
}

GW_TEST_MAIN(NULL, NULL)
