/* Reads fake memory images of every Python version, intact and damaged. The result must be the correct frames or
 * "unknown", without an endless loop. */
#include "gw_python_lines.h"
#include "gw_unit_test.h"
#include "gwi_python_image.h"

enum { FIRST = GW_PYTHON_FIRST, LAST = GW_PYTHON_LAST };

static python_image image; /* too large for the stack */
static gw_stack_process process;
static gw_stack_thread thread;

static void look(void)
{
    image_free_code(&process);
    image.python.incomplete = false;
    image.python.why[0] = '\0';
    thread = (gw_stack_thread){.tid = IMAGE_TID};
    gwi_python_list(&image.python);
    gwi_python_frames(&image.python, &process, &thread);
}

static const gw_stack_code *code_of(size_t frame)
{
    assert_in_range(GW_FRAME_CODE(thread.frame[frame]), 0, process.code_count - 1);
    return &process.code[GW_FRAME_CODE(thread.frame[frame])];
}

static bool is_unknown(void)
{
    return (thread.flags & GW_SITE_PYTHON_UNKNOWN) != 0;
}

GW_TEST(whole)
{
    static const char *const texts[] = {"inner\n/data/image.py", "middle\n/data/image.py", "outer\n/data/image.py"};
    for (unsigned version = FIRST; version <= LAST; version++) {
        image_make(&image, version);
        look();
        assert_int_equal(thread.flags, 0);
        assert_int_equal(thread.frame_count, IMAGE_FRAMES);
        bool all_enter = image.python.copy[0].layout.entry == GW_PYTHON_ENTRY_ALL;
        for (size_t i = 0; i < IMAGE_FRAMES; i++) {
            assert_string_equal(code_of(i)->text, texts[i]);
            assert_int_equal(code_of(i)->first_line, IMAGE_FIRST_LINE + i);
            assert_int_equal(code_of(i)->version, version);
            assert_int_equal(code_of(i)->table_bytes, 6);
            assert_int_equal(GW_FRAME_INSTRUCTION(thread.frame[i]), 2 * i);
            assert_int_equal((thread.frame[i] & GW_FRAME_ENTRY) != 0, all_enter || i + 1 == IMAGE_FRAMES);
        }
        thread.tid++; /* no thread state in the image has this id */
        thread.frame_count = 0;
        gwi_python_frames(&image.python, &process, &thread);
        assert_int_equal(thread.frame_count, 0);
        assert_int_equal(thread.flags, 0);
    }
}

/* If a pointer in the image points back to an earlier object, the reader must stop and mark the missing frames. */
GW_TEST(circles_end)
{
    for (unsigned version = FIRST; version <= LAST; version++) {
        image_make(&image, version);
        const gw_python_layout *layout = &image.python.copy[0].layout;
        const gw_python_lists *lists = &image.python.copy[0].lists;
        size_t last = IMAGE_FRAME + 2 * IMAGE_FRAME_STEP;
        image_link(&image, last + layout->frame_previous, IMAGE_FRAME);
        look();
        assert_true(is_unknown() || (thread.flags & GW_SITE_PYTHON_CUT) != 0);
        image_make(&image, version);
        image_link(&image, IMAGE_STATE + lists->thread_next, IMAGE_STATE);
        look();
        assert_true(is_unknown());
        assert_true(image.python.why[0] != '\0');
        image_make(&image, version);
        image_link(&image, IMAGE_INTERPRETER + lists->interpreter_next, IMAGE_INTERPRETER);
        look();
        assert_true(is_unknown());
    }
}

/* A thread may end after the lists were read, and another may reuse the memory of its state. The first thread's frames
 * are then unknown. */
GW_TEST(a_state_of_somebody_else_counts_not)
{
    for (unsigned version = FIRST; version <= LAST; version++) {
        image_make(&image, version);
        look();
        const gw_python_lists *lists = &image.python.copy[0].lists;
        if (lists->thread_native_id != 0)
            image_put(&image, IMAGE_STATE + lists->thread_native_id, IMAGE_TID + 1, 8);
        image_put(&image, IMAGE_PTHREAD + 720, IMAGE_TID + 1, 4);
        image_put(&image, IMAGE_PTHREAD + 208, IMAGE_TID + 1, 4);
        thread = (gw_stack_thread){.tid = IMAGE_TID};
        gwi_python_frames(&image.python, &process, &thread);
        assert_true(is_unknown());
        assert_int_equal(thread.frame_count, 0);
    }
}

/* If Python is not initialised, the thread has no Python frames, so none are missing. If an interpreter cannot be
 * found, the frames are unknown. */
GW_TEST(without_interpreters)
{
    for (unsigned version = FIRST; version <= LAST; version++) {
        image_make(&image, version);
        memset(image.bytes, 0, sizeof image.bytes);
        look();
        assert_int_equal(thread.flags, 0);
        assert_int_equal(thread.frame_count, 0);
        image_make(&image, version);
        image_put(&image, IMAGE_STATE + image.python.copy[0].layout.thread_interpreter, IMAGE_BASE, 8);
        look();
        assert_true(is_unknown());
        assert_int_equal(thread.frame_count, 0);
    }
}

GW_TEST(objects_of_another_type_are_none)
{
    for (unsigned version = FIRST; version <= LAST; version++) {
        image_make(&image, version);
        image_put(&image, IMAGE_CODE + IMAGE_CODE_STEP + GW_PYTHON_OB_TYPE, IMAGE_BASE, 8);
        look();
        assert_true(is_unknown());
        assert_int_equal(thread.frame_count, 0);
        image_make(&image, version);
        image_put(&image, IMAGE_NAME + GW_PYTHON_OB_TYPE, IMAGE_BASE, 8);
        image_put(&image, IMAGE_FILE + GW_PYTHON_OB_SIZE, UINT64_MAX, 8);
        image_put(&image, IMAGE_TABLE + GW_PYTHON_OB_SIZE, 1 << 20, 8);
        look();
        assert_int_equal(thread.flags, 0);
        assert_string_equal(code_of(0)->text, "\n");
        assert_string_equal(code_of(1)->text, "middle\n");
        assert_null(code_of(0)->table);
        assert_int_equal((int64_t)code_of(0)->table_bytes, (int64_t)GW_PYTHON_TABLE_NOT_KEPT);
    }
}

/* Overwrite the words of the image, one at a time, with several wrong values. The frames must then be unknown, or have
 * valid texts. */
GW_TEST(damaged)
{
    static const uint64_t bad[] = {0,
                                   1,
                                   8,
                                   IMAGE_BASE,
                                   IMAGE_BASE + IMAGE_FRAME,
                                   IMAGE_BASE + IMAGE_BYTES - 8,
                                   UINT64_MAX,
                                   UINT64_C(1) << 63,
                                   UINT64_C(0x7fffffff)};
    for (unsigned version = FIRST; version <= LAST; version++) {
        for (size_t at = 0; at < IMAGE_TYPES; at += 8) {
            for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
                if (at % 0x200 >= 0x180) /* this part of the image is unused */
                    continue;
                image_make(&image, version);
                image_put(&image, at, bad[i], 8);
                look();
                assert_true(thread.frame_count <= GW_SITE_PYTHON_MAX);
                assert_true(!is_unknown() || thread.frame_count == 0);
                for (size_t k = 0; k < thread.frame_count; k++)
                    assert_non_null(strchr(code_of(k)->text, '\n'));
            }
        }
    }
}

static int free_code(void **state)
{
    image_free_code(&process);
    return 0;
}

GW_TEST_MAIN(NULL, free_code)
