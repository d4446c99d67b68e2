/* Tests writing and parsing facts as text, also with texts of other versions and with invalid ones. */
#include "gw_fact.h"
#include "gw_unit_test.h"

#include <stdio.h>
#include <string.h>

static gw_text text; /* of the last WRITE() */

static int free_text(void **state)
{
    gw_text_free(&text);
    return 0;
}

#define WRITE(fact, ...)                                                                                               \
    do {                                                                                                               \
        const gw_fact_##fact given = {__VA_ARGS__};                                                                    \
        gw_text_clear(&text);                                                                                          \
        gw_fact_##fact##_write(&given, &text);                                                                         \
    } while (0)

GW_TEST(words_are_written_and_read)
{
    WRITE(holder, GW_FACT_SET(pid, 4711), GW_FACT_SET(bytes, 9663676416), GW_FACT_SET(card, 1),
          GW_FACT_SET(user, gw_fact_text_of("ann")), GW_FACT_SET(command, gw_fact_text_of("python x.py device=7")));
    assert_string_equal(gw_text_str(&text), "pid=4711 bytes=9663676416 card=1 user=ann cmd=python x.py device=7");
    gw_fact_holder holder;
    gw_fact_holder_read(gw_fact_text_of(gw_text_str(&text)), &holder);
    assert_true(holder.has_pid && holder.has_bytes && holder.has_card && !holder.has_device);
    assert_int_equal(holder.pid, 4711);
    assert_int_equal(holder.bytes, 9663676416);
    assert_int_equal(holder.card, 1);
    assert_true(gw_fact_text_is(holder.user, "ann"));
    assert_true(gw_fact_text_is(holder.command, "python x.py device=7"));
    WRITE(hang, GW_FACT_SET(for_ms, 5000));
    assert_string_equal(gw_text_str(&text), "for_ms=5000");
}

GW_TEST(lines_are_written_and_read)
{
    WRITE(gpu_fault, GW_FACT_SET(exception, 14), GW_FACT_SET(name, gw_fact_text_of("WARP_ILLEGAL_ADDRESS")),
          GW_FACT_SET(block, ((gw_fact_THREE){{1, 2, 3}})), GW_FACT_SET(pc, 0x1f), GW_FACT_SET(line, 4),
          GW_FACT_SET(file, gw_fact_text_of("a\nb.cu")));
    assert_string_equal(gw_text_str(&text),
                        "exception=14\nname=WARP_ILLEGAL_ADDRESS\nblock=1,2,3\npc=0x1f\nfile=a?b.cu\nline=4\n");
    gw_fact_gpu_fault fault;
    gw_fact_gpu_fault_read(gw_fact_text_of(gw_text_str(&text)), &fault);
    assert_true(fault.has_block && !fault.has_thread && !fault.has_kernel);
    assert_int_equal(fault.block.at[2], 3);
    assert_int_equal(fault.pc, 0x1f);
    assert_true(gw_fact_text_is(fault.file, "a?b.cu"));
    WRITE(core, GW_FACT_SET(code, -6));
    assert_string_equal(gw_text_str(&text), "code=-6\n");
}

GW_TEST(columns_are_written_and_read)
{
    WRITE(blame_frame, GW_FACT_SET(kind, gw_fact_text_of("python")), GW_FACT_SET(line, 0), GW_FACT_SET(address, 0),
          GW_FACT_SET(text, gw_fact_text_of("x.py:1\tin f")));
    assert_string_equal(gw_text_str(&text), "python\t\t0\t0x0\t\t\t\tx.py:1?in f");
    gw_fact_blame_frame frame;
    gw_fact_blame_frame_read(gw_fact_text_of(gw_text_str(&text)), &frame);
    assert_true(frame.has_kind && !frame.has_whose && frame.has_line && !frame.has_module && frame.has_text);
    assert_true(gw_fact_text_is(frame.text, "x.py:1?in f"));
}

/* In facts of older versions and other builds, fields may be missing, unknown, empty or in another order. */
GW_TEST(what_is_missing_or_new_does_no_harm)
{
    gw_fact_hang_thread thread;
    gw_fact_hang_thread_read(gw_fact_text_of("in_ms=7 later=1 wait=lock in= name=a name=b"), &thread);
    assert_true(thread.has_in_ms && thread.has_wait && thread.has_fn && !thread.has_site && !thread.has_owner);
    assert_int_equal(thread.fn.bytes, 0);
    assert_true(gw_fact_text_is(thread.name, "a name=b"));
    gw_fact_hang_thread_read(gw_fact_text_of(NULL), &thread);
    assert_false(thread.has_wait);
}

GW_TEST(a_value_of_another_type_is_none)
{
    static const char *const numbers[] = {"",   "x",    "-1", "1x",   "4294967296", "99999999999999999999999",
                                          "0x", "1 2=", "+1", "0x1g", "="};
    static const char *const threes[] = {"", "1", "1,2", "1,2,", "1,2,3,4", "1,,3", ",,", "1,2,x", "1,2,4294967296"};
    char field[80];
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        gw_fact_core core;
        snprintf(field, sizeof field, "tid=%s\npath=p\n", numbers[i]);
        gw_fact_core_read(gw_fact_text_of(field), &core);
        assert_false(core.has_tid);
        assert_true(core.has_path);
    }
    for (size_t i = 0; i < sizeof threes / sizeof threes[0]; i++) {
        gw_fact_gpu_fault fault;
        snprintf(field, sizeof field, "block=%s\nthread=1,2,3\n", threes[i]);
        gw_fact_gpu_fault_read(gw_fact_text_of(field), &fault);
        assert_false(fault.has_block);
        assert_true(fault.has_thread);
    }
}

/* Parse each prefix of a valid text from a copy of exactly that length, so that a sanitizer detects reads past the
 * end. */
GW_TEST(cut_text_is_read_up_to_its_end)
{
    static const char whole[] = "pid=4711 bytes=1 card=1 user=ann cmd=python";
    for (size_t bytes = 0; bytes < sizeof whole; bytes++) {
        char *cut = malloc(bytes + 1);
        assert_non_null(cut);
        memcpy(cut, whole, bytes);
        gw_fact_holder holder;
        gw_fact_gpu_fault fault;
        gw_fact_blame_frame frame;
        gw_fact_holder_read((gw_fact_text){cut, bytes}, &holder);
        gw_fact_gpu_fault_read((gw_fact_text){cut, bytes}, &fault);
        gw_fact_blame_frame_read((gw_fact_text){cut, bytes}, &frame);
        assert_int_equal(holder.has_pid, bytes > strlen("pid="));
        free(cut);
    }
}

GW_TEST(long_texts_are_cut)
{
    char path[1200], small[4];
    memset(path, 'a', sizeof path);
    path[sizeof path - 1] = '\0';
    WRITE(gpu_dump, GW_FACT_SET(path, gw_fact_text_of(path)));
    assert_int_equal(text.bytes, strlen("path=\n") + 1000);
    assert_string_equal(gw_fact_text_copy(small, sizeof small, gw_fact_text_of(path)), "aaa");
    assert_string_equal(gw_fact_text_copy(small, sizeof small, gw_fact_text_of(NULL)), "");
}

GW_TEST(keys_have_texts)
{
    assert_string_equal(gw_fact_key_text(GW_FACT_OTHER), "");
    assert_int_equal(gw_fact_key_of(NULL), GW_FACT_OTHER);
    assert_int_equal(gw_fact_key_of(""), GW_FACT_OTHER);
    assert_int_equal(gw_fact_key_of("card.holde"), GW_FACT_OTHER);
    for (int key = GW_FACT_OTHER + 1; key < GW_FACT_KEY_COUNT; key++)
        assert_int_equal(gw_fact_key_of(gw_fact_key_text((gw_fact_key)key)), key);
}

GW_TEST_MAIN(NULL, free_text)
