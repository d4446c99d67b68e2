/* Test a saved snapshot, intact and damaged. The result must be the right verdict or a clear error message. */
#include "gw_torch.h"
#include "gw_unit_test.h"

#include "gw_model_facts.h"
#include "gw_site.h"
#include "gw_verdict.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char fixture[] = GW_FIXTURES "/leak.pickle";
static unsigned char sound[1 << 18];
static size_t sound_bytes;
static int copy_fd = -1;
static char copy_path[64];

static int read_fixture(void **state)
{
    FILE *file = fopen(fixture, "rb");
    if (file == NULL)
        return -1;
    sound_bytes = fread(sound, 1, sizeof sound, file);
    fclose(file);
    copy_fd = memfd_create("snapshot", MFD_CLOEXEC);
    snprintf(copy_path, sizeof copy_path, "/proc/self/fd/%d", copy_fd);
    return copy_fd < 0 || sound_bytes == 0 || sound_bytes == sizeof sound ? -1 : 0;
}

static void put_copy(const void *data, size_t bytes)
{
    assert_int_equal(ftruncate(copy_fd, 0), 0);
    assert_int_equal(pwrite(copy_fd, data, bytes, 0), (ssize_t)bytes);
}

static const gw_live *find_size(const gw_allocator_report *report, uint64_t bytes)
{
    for (size_t i = 0; i < report->live_count; i++)
        if (report->live[i].bytes == bytes)
            return &report->live[i];
    return NULL;
}

GW_TEST(facts_of_the_fixture)
{
    gw_model *model = NULL;
    gw_error err;
    assert_true(gw_torch_is_snapshot(fixture));
    assert_int_equal(gw_torch_snapshot_model(fixture, &model, &err), GW_OK);
    assert_string_equal(gw_model_meta(model, GW_META_SNAPSHOT), fixture);
    assert_int_equal(model->allocator_count, 1);
    const gw_allocator_report *report = &model->allocator[0];
    assert_true(report->is_oom);
    assert_true(report->has_free);
    assert_int_equal(report->bytes_total, 0); /* unknown: a snapshot does not contain the card's size */
    uint64_t live_bytes = 0;
    for (size_t i = 0; i < report->live_count; i++)
        live_bytes += report->live[i].bytes;
    assert_int_equal(live_bytes, report->field[GW_ALLOCATOR_ALLOCATED]);
    const gw_live *kept = find_size(report, 20 << 20), *weight = find_size(report, 16 << 20);
    assert_non_null(kept);
    assert_non_null(weight);
    assert_int_not_equal(kept->site, 0);
    assert_int_not_equal(weight->site, 0);
    assert_int_not_equal(kept->site, weight->site);
    assert_true(weight->t_ns < kept->t_ns);
    assert_int_not_equal(report->wanted_site, 0);
    /* the bytes of all holders at the peak must add up to the peak of live bytes */
    uint64_t held_bytes = report->held_rest.bytes, peak_bytes = 0;
    for (size_t i = 0; i < report->held_count; i++)
        held_bytes += report->held[i].bytes;
    for (size_t i = 0; i < report->peak_count; i++)
        peak_bytes = report->peak[i].bytes > peak_bytes ? report->peak[i].bytes : peak_bytes;
    assert_int_equal(held_bytes, peak_bytes);
    assert_int_equal(report->held[0].site, kept->site);
    gw_model_free(model);
}

/* Return the verdict on the snapshot in the file copy_path. Returns NULL if the file was rejected with a clear
 * message. */
static gw_verdict *verdict_of_copy(void)
{
    gw_model *model = NULL;
    gw_verdict *verdict = NULL;
    gw_error err = {""};
    gw_status st = gw_torch_snapshot_model(copy_path, &model, &err);
    if (st != GW_OK) {
        assert_null(model);
        assert_true(st == GW_CORRUPT || st == GW_UNSUPPORTED);
        assert_int_equal(strncmp(err.text, copy_path, strlen(copy_path)), 0);
        assert_true(strlen(err.text) > strlen(copy_path) + 8);
        assert_null(strchr(err.text, '\n'));
        return NULL;
    }
    assert_int_equal(gw_judge(model, &verdict, &err), GW_OK);
    gw_model_free(model);
    return verdict;
}

static uint32_t next_random(uint32_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 17;
    *seed ^= *seed << 5;
    return *seed;
}

/* Copy the intact snapshot to `data`, then change, remove or duplicate some bytes, or cut off the end. Returns the new
 * size in bytes. */
static size_t damage(unsigned char *data, uint32_t *seed)
{
    size_t bytes = sound_bytes;
    memcpy(data, sound, bytes);
    size_t at = next_random(seed) % bytes, length = 1 + next_random(seed) % 64;
    length = length < bytes - at ? length : bytes - at;
    switch (next_random(seed) % 4) {
    case 0:
        return at;
    case 1:
        memmove(data + at, data + at + length, bytes - at - length);
        return bytes - length;
    case 2:
        memmove(data + at + length, data + at, bytes - at);
        return bytes + length;
    default:
        for (uint32_t count = 1 + next_random(seed) % 4; count > 0; count--)
            data[next_random(seed) % bytes] = (unsigned char)next_random(seed);
        return bytes;
    }
}

GW_TEST(ten_thousand_damaged_copies)
{
    enum { COPIES = 10000 };
    static unsigned char data[sizeof sound + 64];
    uint32_t seed = 20240607;
    unsigned refused = 0, same = 0, undetermined = 0, other = 0;
    put_copy(sound, sound_bytes);
    gw_verdict *right = verdict_of_copy();
    assert_non_null(right);
    assert_string_equal(right->cause, "gpu-oom-leak");
    assert_int_equal(right->certainty, GW_SUPPORTED);
    gw_verdict_free(right);
    for (int i = 0; i < COPIES; i++) {
        put_copy(data, damage(data, &seed));
        gw_verdict *verdict = verdict_of_copy();
        if (verdict == NULL) {
            refused++;
            continue;
        }
        assert_true(verdict->certainty < GW_ESTABLISHED);
        same += verdict->cause != NULL && strcmp(verdict->cause, "gpu-oom-leak") == 0;
        undetermined += verdict->status == GW_VERDICT_UNDETERMINED;
        other += verdict->cause != NULL && strcmp(verdict->cause, "gpu-oom-leak") != 0;
        gw_verdict_free(verdict);
    }
    print_message("%u refused, %u the same cause, %u undetermined, %u another one\n", refused, same, undetermined,
                  other);
    assert_true(refused > COPIES / 4); /* if fewer copies are rejected, the damage is too small for this test */
    assert_true(same > 0);
    /* A changed number can result in a valid snapshot with another cause, but this is rare. */
    assert_true(other * 100 < COPIES);
}

GW_TEST(other_files)
{
    static const struct {
        const char *data;
        size_t bytes;
        const char *words;
    } files[] = {
#define FILE_OF(literal, words) {literal, sizeof(literal) - 1, words}
        FILE_OF("\x80\x04N.", "not a PyTorch memory snapshot"),
        FILE_OF("\x80\x04].", "not a PyTorch memory snapshot"),
        FILE_OF("\x80\x04}.", "no list of segments"),
        FILE_OF("\x80\x04}\x8c\x08segmentsNs.", "no list of segments"),
        FILE_OF("\x80\x04}\x8c\x08segments]Nas.", "no list of segments"),
        FILE_OF("\x80\x02"
                "ctorch._utils\n_rebuild_tensor\n.",
                "opcode GLOBAL"),
#undef FILE_OF
    };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        gw_model *model = NULL;
        gw_error err;
        put_copy(files[i].data, files[i].bytes);
        assert_true(gw_torch_is_snapshot(copy_path));
        assert_int_equal(gw_torch_snapshot_model(copy_path, &model, &err), GW_UNSUPPORTED);
        if (strstr(err.text, files[i].words) == NULL)
            fail_msg("%s lacks %s", err.text, files[i].words);
        assert_null(model);
    }
    put_copy("PK\x03\x04", 4);
    assert_false(gw_torch_is_snapshot(copy_path));
}

/* The verdict on an empty snapshot names no cause, but it is not "clean" either. */
GW_TEST(empty_snapshot)
{
    static const char data[] = "\x80\x04}(\x8c\x08segments]\x8c\x0d"
                               "device_traces]u.";
    put_copy(data, sizeof data - 1);
    gw_verdict *verdict = verdict_of_copy();
    assert_non_null(verdict);
    assert_int_equal(verdict->status, GW_VERDICT_UNDETERMINED);
    gw_verdict_free(verdict);
}

/* An allocation may have a later time than the out-of-memory error after it, because its thread read the clock later.
 * The age of its block is then zero, not unknown. */
GW_TEST(a_block_from_after_the_failure_is_new)
{
#define TEXT(length, text) "\x8c" length text
#define TWO_BLOCKS         "](" BLOCK BLOCK "e"
#define BLOCK              "}(" TEXT("\x05", "state") TEXT("\x10", "active_allocated") TEXT("\x04", "size") "M\x00\x02u"
#define SEGMENT            "}(" TEXT("\x07", "address") "M\x00\x10" TEXT("\x0a", "total_size") "M\x00\x04" BLOCKS "u"
#define BLOCKS             TEXT("\x06", "blocks") TWO_BLOCKS
#define ACTION(name, size) "}(" TEXT("\x06", "action") name TEXT("\x04", "size") "M" size
#define TIME(time)         TEXT("\x07", "time_us") "M" time "u"
#define ALLOC(at, time)    ACTION(TEXT("\x05", "alloc"), "\x00\x02") TEXT("\x04", "addr") "M" at TIME(time)
#define REFUSED(time)      ACTION(TEXT("\x03", "oom"), "\x00\x7f") TEXT("\x0b", "device_free") "K\x00" TIME(time)
#define SEGMENTS           TEXT("\x08", "segments") "](" SEGMENT "e"
#define TRACES(entries)    TEXT("\x0d", "device_traces") "](](" entries "ee"
    static const char data[] = "\x80\x04}(" SEGMENTS TRACES(ALLOC("\x00\x10", "\x00\x10") ALLOC("\x00\x12", "\x00\x30")
                                                                REFUSED("\x00\x20")) "u.";
    gw_model *model = NULL;
    gw_error err;
    put_copy(data, sizeof data - 1);
    if (gw_torch_snapshot_model(copy_path, &model, &err) != GW_OK)
        fail_msg("%s", err.text);
    const gw_allocator_report *report = &model->allocator[0];
    assert_true(report->is_oom);
    assert_int_equal(report->live_count, 2);
    assert_int_equal(report->live[0].address, 0x1000);
    assert_int_equal(report->live[1].address, 0x1200);
    assert_true(report->live[1].has_time);
    assert_int_equal(report->live[1].t_ns, report->t_ns);
    gw_model_free(model);
}

GW_TEST_MAIN(read_fixture, NULL)
