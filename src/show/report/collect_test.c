/* The second reading of a recording with many processes: the work at their ends, and the memory that is left. */
#include "gwi_collect.h"

#include "gw_model.h"
#include "gw_recording.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static const char *const fn_names[] = {"cuMemAlloc_v2"};

static void put(gw_writer *writer, const gw_item *item)
{
    gw_error err;
    assert_int_equal(gw_writer_put(writer, item, &err), GW_OK);
}

/* A process that keeps two blocks until its end. */
static void write_processes(const char *path, uint32_t count)
{
    gw_error err;
    gw_writer *writer = NULL;
    assert_int_equal(gw_writer_create(path, 0, fn_names, 1, &writer, &err), GW_OK);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t t_ns = 1000 * (i + 1);
        uint32_t pid = 100 + i;
        for (uint64_t k = 0; k < 2; k++) {
            gw_item item = {.kind = GW_ITEM_EVENT, .t_ns = t_ns + k, .pid = pid, .tid = pid};
            item.event = (gw_event){.t_ns = t_ns + k, .pid = pid, .tid = pid, .kind = GW_EV_ALLOC};
            item.event.arg[0] = (k + 1) << 24;
            item.event.arg[1] = (k + 1) << 20;
            put(writer, &item);
        }
        gw_item item = {.kind = GW_ITEM_EXIT, .t_ns = t_ns + 500, .pid = pid};
        item.exit = (gw_exit_fact){.pid = pid, .is_command = i + 1 == count, .status_known = true};
        put(writer, &item);
    }
    assert_int_equal(gw_writer_close(writer, &err), GW_OK);
}

/* Return the number of groups that were read because a process ended. */
static uint64_t steps_of(uint32_t count)
{
    char path[] = "/tmp/collect-test-XXXXXX";
    gw_error err = {""};
    gw_reader *reader = NULL;
    gw_model *model = NULL;
    gwi_holders holders;
    static gwi_course course;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    unlink(path); /* the writer creates it */
    write_processes(path, count);
    assert_int_equal(gw_reader_open(path, &reader, &err), GW_OK);
    assert_int_equal(gw_model_build(reader, &model, &err), GW_OK);
    gw_reader_close(reader);
    assert_true(gwi_holders_find(model, &holders));
    assert_int_equal(gwi_course_read(path, model, &holders, 1, &course, &err), GW_OK);
    assert_true(course.was_read);
    const gwi_thin *table = &course.device[0].table;
    assert_int_equal(table->row[table->count - 1].value[GWI_TOTAL], 0);
    uint64_t steps = course.exit_steps;
    gwi_course_free(&course);
    gwi_holders_free(&holders);
    gw_model_free(model);
    unlink(path);
    return steps;
}

static void the_work_at_exits_grows_with_the_processes(void **state)
{
    (void)state;
    enum { PROCESSES = 1000 };
    uint64_t some = steps_of(PROCESSES), twice = steps_of(2 * PROCESSES);
    assert_int_equal(some, 2 * PROCESSES);
    assert_int_equal(twice, 2 * some);
}

static void a_process_that_never_freed_has_its_groups_once(void **state)
{
    (void)state;
    gw_group group[] = {{.pid = 0}, {.pid = 7}, {.pid = 5}, {.pid = 7}};
    gw_model model = {.group = group, .group_count = 4};
    gwi_alive alive;
    uint64_t bytes, sum = 0;
    assert_true(gwi_alive_start(&model, &alive));
    gwi_alive_change(&alive, 1, 10, true);
    gwi_alive_change(&alive, 3, 20, true);
    gwi_alive_change(&alive, 1, 5, true);
    gwi_alive_change(&alive, 2, 40, true);
    gwi_alive_change(&alive, 3, 100, false); /* more than it has */
    gwi_alive_change(&alive, 99, 1, true);
    for (int i = 0; i < 2; i++) {
        assert_in_range(gwi_alive_take(&alive, 7, &bytes), 1, 3);
        sum += bytes;
    }
    assert_int_equal(sum, 15);
    assert_int_equal(gwi_alive_take(&alive, 7, &bytes), 0);
    assert_int_equal(gwi_alive_take(&alive, 6, &bytes), 0);
    assert_int_equal(gwi_alive_take(&alive, 5, &bytes), 2);
    gwi_alive_change(&alive, 1, UINT64_MAX, true);
    gwi_alive_change(&alive, 1, UINT64_MAX, true);
    assert_int_equal(gwi_alive_take(&alive, 7, &bytes), 1);
    assert_true(bytes == UINT64_MAX);
    gwi_alive_free(&alive);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_work_at_exits_grows_with_the_processes),
        cmocka_unit_test(a_process_that_never_freed_has_its_groups_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
